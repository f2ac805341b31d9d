/* Text → its words, in order, and their sdbm: the part of a fingerprint that reads bytes.
 *
 * sdbm is a polynomial in BASE modulo 2^64, so eight bytes are hashed at once: four pairs,
 * then two multiplications by powers of BASE. Zero bytes in front do not count, hence a word
 * of up to eight bytes is the eight bytes that end with it, what precedes it set to zero.
 */
#ifndef NEARDUP_FINGERPRINT_WORDS_H
#define NEARDUP_FINGERPRINT_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "siphash.h"

#define SPACE 32
#define BLOCK 64
#define MAX_WORDS 1024 /* hashes that one call gives at most */
#define WORDS_ROOM (MAX_WORDS + BLOCK)

#define BASE ((uint64_t)65599)
#define BASE2 (BASE * BASE)
#define BASE4 (BASE2 * BASE2)
#define BASE6 (BASE4 * BASE2)
#define BASE8 (BASE4 * BASE4)
#define BASE16 (BASE8 * BASE8)

typedef struct {
    const uint8_t *text;
    size_t length;
    size_t at;    /* the first byte not read yet; a multiple of BLOCK, or past the end */
    size_t start; /* of the word that is open at `at`; `at` itself if none is */
} Scanner;

/* The words that one call of scan() finds, as their hashes need them. */
typedef struct {
    size_t n, n_long;
    uint64_t sdbm[WORDS_ROOM];
    uint64_t first[WORDS_ROOM], last[WORDS_ROOM]; /* see siphash.h */
    struct {
        size_t word, start, end;
    } long_[WORDS_ROOM]; /* those of more than SIP_MAX bytes */
} Words;

enum { SDBM = 1, BLOCKS = 2 }; /* what of Words is wanted */

/* sdbm of eight bytes, the first one lowest. */
INLINE uint64_t sdbm8(uint64_t x) {
    const uint64_t two = 0x000000FF000000FF;               /* the same byte of both halves */
    uint64_t a = (x & two) * BASE + (x >> 8 & two);        /* bytes 0 1, and 4 5 */
    uint64_t b = (x >> 16 & two) * BASE + (x >> 24 & two); /* bytes 2 3, and 6 7 */
    return (uint32_t)a * BASE6 + (uint32_t)b * BASE4 + (a >> 32) * BASE2 + (b >> 32);
}

INLINE uint64_t sdbm(const uint8_t *text, size_t start, size_t end) {
    size_t length = end - start, head = (length - 1) % 8 + 1;
    uint64_t h = 0;
    if (length >= 8) {
        h = sdbm8(load8(text + start) << 8 * (8 - head));
        for (start += head; start < end; start += 8) h = h * BASE8 + sdbm8(load8(text + start));
    } else if (end >= 8) {
        int before = 8 * (int)(8 - length);
        h = sdbm8(load8(text + end - 8) >> before << before);
    } else {
        for (; start < end; start++) h = h * BASE + text[start];
    }
    return h;
}

/* Bit i is set where byte i of a block is a space. */
INLINE uint64_t spaces_portable(const uint8_t *block) {
    const uint64_t low7 = 0x7F7F7F7F7F7F7F7F;
    uint64_t mask = 0;
    for (int i = 0; i < BLOCK; i += 8) {
        uint64_t x = load8(block + i) ^ 0x2020202020202020;
        uint64_t zeros = ~(((x & low7) + low7) | x | low7) >> 7;
        mask |= (zeros * 0x0102040810204080 >> 56) << i;
    }
    return mask;
}

/* The block at `at`; past its end, a text goes on with spaces, put into `tail`. */
INLINE const uint8_t *block_at(const Scanner *scanner, size_t at, uint8_t *tail) {
    size_t left = scanner->length - at;
    if (left >= BLOCK) return scanner->text + at;
    memset(tail, SPACE, BLOCK);
    if (left) memcpy(tail, scanner->text + at, left);
    return tail;
}

/* The blocks of the word text[start:end] as the i-th of `words`. Without branches on its length,
 * which nothing predicts. */
INLINE void note_blocks(Words *words, size_t i, const uint8_t *text, size_t start, size_t end) {
    size_t length = end - start;
    uint64_t first = 0, last;
    if (end >= 8) {
        first = load8(text + (length < 8 ? end - 8 : start));
        last = load8(text + end - 8) >> 1 >> (63 - 8 * (length % 8));
    } else {
        last = sip_bytes(text + start, length);
    }
    words->first[i] = first;
    words->last[i] = last | (uint64_t)length << 56;
    if (length > SIP_MAX) {
        words->long_[words->n_long].word = i;
        words->long_[words->n_long].start = start;
        words->long_[words->n_long++].end = end;
    }
}

/* The words that end in the next blocks, at most MAX_WORDS; 0 at the end of the text. */
INLINE size_t scan(Scanner *scanner, Words *words, int wanted,
                   uint64_t (*spaces)(const uint8_t *)) {
    size_t n = 0, at = scanner->at, start = scanner->start; /* in registers: see keep_new() */
    const uint8_t *text = scanner->text;
    words->n_long = 0;
    for (; at <= scanner->length && n <= MAX_WORDS - BLOCK / 2; at += BLOCK) {
        uint8_t tail[BLOCK];
        uint64_t mask = spaces(block_at(scanner, at, tail));
        for (; mask; mask &= mask - 1) {
            size_t end = at + (size_t)trailing_zeros(mask);
            if (end > start) {
                if (wanted & SDBM) words->sdbm[n] = sdbm(text, start, end);
                if (wanted & BLOCKS) note_blocks(words, n, text, start, end);
                n++;
            }
            start = end + 1;
        }
    }
    scanner->at = at, scanner->start = start;
    return words->n = n;
}

static size_t scan_portable(Scanner *scanner, Words *words, int wanted) {
    return scan(scanner, words, wanted, spaces_portable);
}

/* SipHash of each of the words of a text. */
INLINE void sip_all(const Words *words, const uint8_t *text, const uint64_t key[2], int simd,
                    uint64_t *out) {
    if (simd == SIMD_AVX512)
        sip_short_8(words->first, words->last, words->n, key, out);
    else if (simd == SIMD_AVX2)
        sip_short_4(words->first, words->last, words->n, key, out);
    else
        sip_short_1(words->first, words->last, words->n, key, out);
    for (size_t i = 0; i < words->n_long; i++) {
        size_t start = words->long_[i].start;
        out[words->long_[i].word] = sip_long(text + start, words->long_[i].end - start, key);
    }
}

#if SIMD_X86

TARGET_AVX2 static uint64_t spaces_avx2(const uint8_t *block) {
    const __m256i space = _mm256_set1_epi8(SPACE);
    __m256i low = _mm256_loadu_si256((const __m256i *)block);
    __m256i high = _mm256_loadu_si256((const __m256i *)(block + 32));
    uint32_t l = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, space));
    uint32_t h = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, space));
    return l | (uint64_t)h << 32;
}

/* x * factor modulo 2^64 in each lane. */
TARGET_AVX2 INLINE __m256i times_avx2(__m256i x, uint64_t factor) {
    const __m256i low = _mm256_set1_epi64x((int64_t)factor);
    const __m256i high = _mm256_set1_epi64x((int64_t)(factor >> 32));
    __m256i crossed = _mm256_add_epi64(_mm256_mul_epu32(x, high),
                                       _mm256_mul_epu32(_mm256_srli_epi64(x, 32), low));
    return _mm256_add_epi64(_mm256_mul_epu32(x, low), _mm256_slli_epi64(crossed, 32));
}

/* sdbm8 in each lane. BASE is 2^16 + 63, so a pair of bytes is 63 times the first, plus the
 * second, plus the first at bit 16; and BASE2 is 2^32 and less than 2^32 more. */
TARGET_AVX2 INLINE __m256i sdbm8_avx2(__m256i x) {
    const __m256i high = _mm256_set1_epi64x((int64_t)0xFFFFFFFF00000000);
    const __m256i third = _mm256_set1_epi32(0x00FF0000);
    const __m256i base2 = _mm256_set1_epi64x((int64_t)(BASE2 & 0xFFFFFFFF)); /* + 2^32 */
    __m256i pairs = _mm256_maddubs_epi16(x, _mm256_set1_epi16(1 << 8 | 63));
    __m256i a = _mm256_blend_epi16(_mm256_and_si256(_mm256_slli_epi32(x, 16), third), pairs, 0x55);
    __m256i b = _mm256_or_si256(_mm256_and_si256(x, third), _mm256_srli_epi32(pairs, 16));
    __m256i a1 = _mm256_srli_epi64(a, 32), b1 = _mm256_srli_epi64(b, 32);
    __m256i low_sum = _mm256_blend_epi32(b, _mm256_slli_epi64(a, 32), 0xAA);
    __m256i high_sum = _mm256_blend_epi32(b1, a, 0xAA);
    __m256i low4 = _mm256_add_epi64(_mm256_mul_epu32(a, base2), low_sum);
    __m256i high4 = _mm256_add_epi64(_mm256_mul_epu32(a1, base2), high_sum);
    return _mm256_add_epi64(times_avx2(low4, BASE4), high4);
}

/* The sdbm of each word, four at a time: of its last eight bytes, and of those before them. A
 * count of 64, where the last block is empty, shifts everything out. */
TARGET_AVX2 INLINE void sdbm_of_blocks(Words *words, const uint8_t *text) {
    for (size_t i = 0; i < words->n; i += 4) {
        __m256i first = _mm256_loadu_si256((const __m256i *)(words->first + i));
        __m256i last = _mm256_loadu_si256((const __m256i *)(words->last + i));
        __m256i in_last = _mm256_and_si256(_mm256_srli_epi64(last, 53), _mm256_set1_epi64x(56));
        __m256i out = _mm256_sub_epi64(_mm256_set1_epi64x(64), in_last);
        __m256i is_long = _mm256_cmpgt_epi64(_mm256_setzero_si256(), _mm256_slli_epi64(last, 4));
        first = _mm256_and_si256(first, is_long); /* 8 to 15 bytes */
        last = _mm256_or_si256(_mm256_sllv_epi64(last, out), _mm256_srlv_epi64(first, in_last));
        first = times_avx2(sdbm8_avx2(_mm256_sllv_epi64(first, out)), BASE8);
        _mm256_storeu_si256((__m256i *)(words->sdbm + i),
                            _mm256_add_epi64(first, sdbm8_avx2(last)));
    }
    for (size_t i = 0; i < words->n_long; i++)
        words->sdbm[words->long_[i].word] = sdbm(text, words->long_[i].start, words->long_[i].end);
}

TARGET_AVX2 static size_t scan_avx2(Scanner *scanner, Words *words, int wanted) {
    size_t n = scan(scanner, words, BLOCKS, spaces_avx2);
    if (wanted & SDBM) sdbm_of_blocks(words, scanner->text);
    return n;
}

/* AVX-512: the words of a block by byte permutation, eight at a time.
 *
 * Positions in a block are bytes: 64..127 in this block, 0..63 in the one before, so that they
 * index the two registers. A word's last sixteen bytes are two windows of eight; what a longer
 * word has before them is hashed by itself and added. */

typedef struct {
    uint64_t last[WORDS_ROOM], before[WORDS_ROOM]; /* windows of each word */
    uint8_t length[WORDS_ROOM];                    /* of those in `long_`, anything */
} Windows;

/* sdbm8 in each lane. BASE is 2^16 + 63, so a pair of bytes is 63 times the first, plus the
 * second, plus the first at bit 16; and BASE2 is 2^32 and less than 2^32 more. */
TARGET_AVX512 INLINE __m512i sdbm8_avx512(__m512i x) {
    const __m512i high = _mm512_set1_epi64((int64_t)0xFFFFFFFF00000000);
    const __m512i third = _mm512_set1_epi32(0x00FF0000);
    const __m512i base2 = _mm512_set1_epi64((int64_t)(BASE2 & 0xFFFFFFFF)); /* + 2^32 */
    const __m512i base4 = _mm512_set1_epi64((int64_t)BASE4);
    __m512i pairs = _mm512_maddubs_epi16(x, _mm512_set1_epi16(1 << 8 | 63));
    __m512i a = _mm512_ternarylogic_epi32(_mm512_slli_epi32(x, 16), third,
                                          _mm512_maskz_mov_epi16(0x55555555, pairs), 0xEA);
    __m512i b = _mm512_ternarylogic_epi32(x, third, _mm512_srli_epi32(pairs, 16), 0xEA);
    __m512i a1 = _mm512_srli_epi64(a, 32), b1 = _mm512_srli_epi64(b, 32);
    __m512i low_sum = _mm512_ternarylogic_epi64(high, _mm512_slli_epi64(a, 32), b, 0xCA);
    __m512i high_sum = _mm512_ternarylogic_epi64(high, a, b1, 0xCA);
    __m512i low4 = _mm512_add_epi64(_mm512_mul_epu32(a, base2), low_sum);
    __m512i high4 = _mm512_add_epi64(_mm512_mul_epu32(a1, base2), high_sum);
    return _mm512_add_epi64(_mm512_mullo_epi64(low4, base4), high4);
}

/* Positions of the eight bytes that end with those given, one for each of eight words. */
TARGET_AVX512 INLINE __m512i bytes_until(__m512i ends) {
    return _mm512_add_epi8(ends, _mm512_set1_epi64((int64_t)0xFFFEFDFCFBFAF9F8));
}

/* Both windows of `count` words, given where they start and end, eight at a time. */
TARGET_AVX512 INLINE void store_windows(__m512i previous, __m512i block, __m512i starts,
                                        __m512i ends, int count, uint64_t *last, uint64_t *before) {
    const __m512i lanes = _mm512_set_epi64(
        0x0707070707070707, 0x0606060606060606, 0x0505050505050505, 0x0404040404040404,
        0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    /* Most blocks end 5 to 16 words; whether there are 8 could not be predicted. */
    for (int from = 0; from < 16 || from < count; from += 8) {
        __m512i lane = _mm512_add_epi8(lanes, _mm512_set1_epi8((char)from));
        __m512i start = _mm512_permutexvar_epi8(lane, starts);
        __m512i at = bytes_until(_mm512_permutexvar_epi8(lane, ends));
        __m512i at_before = _mm512_sub_epi8(at, _mm512_set1_epi8(8));
        _mm512_storeu_si512(
            last + from,
            _mm512_maskz_permutex2var_epi8(_mm512_cmpge_epu8_mask(at, start), previous, at, block));
        _mm512_storeu_si512(before + from,
                            _mm512_maskz_permutex2var_epi8(_mm512_cmpge_epu8_mask(at_before, start),
                                                           previous, at_before, block));
    }
}

/* Notes where those words of a block start and end that are in `longer`. */
TARGET_AVX512 static void note_long(Words *words, size_t at, size_t open, __m512i starts,
                                    __m512i ends, uint64_t longer) {
    uint8_t first[BLOCK], last[BLOCK];
    _mm512_storeu_si512(first, starts);
    _mm512_storeu_si512(last, ends);
    for (; longer; longer &= longer - 1) {
        size_t word = (size_t)trailing_zeros(longer), i = words->n_long++;
        words->long_[i].word = words->n + word;
        words->long_[i].start = first[word] < BLOCK ? open : at + first[word] - BLOCK;
        words->long_[i].end = at + last[word] - BLOCK;
    }
}

TARGET_AVX512 INLINE void sdbm_of_windows(const Windows *windows, const uint8_t *text,
                                          Words *words) {
    const __m512i base8 = _mm512_set1_epi64((int64_t)BASE8);
    for (size_t i = 0; i < words->n; i += 8) {
        __m512i last = sdbm8_avx512(_mm512_loadu_si512(windows->last + i));
        __m512i before = sdbm8_avx512(_mm512_loadu_si512(windows->before + i));
        before = _mm512_mullo_epi64(before, base8);
        _mm512_storeu_si512(words->sdbm + i, _mm512_add_epi64(last, before));
    }
    for (size_t i = 0; i < words->n_long; i++) {
        size_t start = words->long_[i].start, end = words->long_[i].end;
        if (end - start > 16)
            words->sdbm[words->long_[i].word] += sdbm(text, start, end - 16) * BASE16;
    }
}

/* A word ends its windows, so that 16 bytes less its length are before it: shifted out. A count
 * of 64 or more, as a negative one is, shifts everything out. */
TARGET_AVX512 INLINE void blocks_of_windows(const Windows *windows, Words *words) {
    const __m512i bits = _mm512_set1_epi64(64), eight = _mm512_set1_epi64(8);
    for (size_t i = 0; i < words->n; i += 8) {
        __m512i last = _mm512_loadu_si512(windows->last + i);
        __m512i before = _mm512_loadu_si512(windows->before + i);
        __m512i length = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)(windows->length + i)));
        __m512i out = _mm512_slli_epi64(_mm512_sub_epi64(_mm512_set1_epi64(16), length), 3);
        __m512i low =
            _mm512_or_si512(_mm512_or_si512(_mm512_srlv_epi64(before, out),
                                            _mm512_srlv_epi64(last, _mm512_sub_epi64(out, bits))),
                            _mm512_sllv_epi64(last, _mm512_sub_epi64(bits, out)));
        __mmask8 two = _mm512_cmpge_epu64_mask(length, eight);
        __m512i rest = _mm512_mask_blend_epi64(two, low, _mm512_srlv_epi64(last, out));
        _mm512_storeu_si512(words->first + i, low);
        _mm512_storeu_si512(words->last + i, _mm512_or_si512(rest, _mm512_slli_epi64(length, 56)));
    }
}

TARGET_AVX512 static size_t scan_avx512(Scanner *scanner, Words *words, int wanted) {
    const __m512i space = _mm512_set1_epi8(SPACE);
    __m512i here, previous = space;
    Windows windows;
    uint8_t tail[BLOCK];
    size_t n = 0, at = scanner->at, start = scanner->start;
    uint64_t open = start < at;
    for (int i = 0; i < BLOCK; i++) tail[i] = (uint8_t)(BLOCK + i);
    here = _mm512_loadu_si512(tail);
    words->n_long = 0;
    if (at) previous = _mm512_loadu_si512(scanner->text + at - BLOCK);
    for (; at <= scanner->length && n <= MAX_WORDS - BLOCK / 2; at += BLOCK) {
        __m512i block = _mm512_loadu_si512(block_at(scanner, at, tail));
        uint64_t spaces = _mm512_cmpeq_epi8_mask(block, space);
        uint64_t after_space = spaces << 1 | (open ^ 1);
        uint64_t ending = spaces & ~after_space, starting = ~spaces & after_space;
        uint8_t open_start = (uint8_t)(at - start < BLOCK ? start + BLOCK - at : 0);
        __m512i starts = _mm512_maskz_compress_epi8(
            starting | open, _mm512_mask_set1_epi8(here, open, (char)open_start));
        __m512i ends = _mm512_maskz_compress_epi8(ending, here);
        int count = popcount(ending);
        __m512i lengths = _mm512_sub_epi8(ends, starts);
        uint64_t longer = _mm512_mask_cmpgt_epu8_mask(_bzhi_u64(~(uint64_t)0, (unsigned)count),
                                                      lengths, _mm512_set1_epi8(SIP_MAX));
        store_windows(previous, block, starts, ends, count, windows.last + n, windows.before + n);
        _mm512_storeu_si512(windows.length + n, lengths);
        words->n = n;
        if (longer) note_long(words, at, start, starts, ends, longer);
        n += (size_t)count;
        open = spaces >> 63 ^ 1;
        if (starting) start = at + 63 - (size_t)_lzcnt_u64(starting);
        if (!open) start = at + BLOCK;
        previous = block;
    }
    scanner->at = at, scanner->start = start;
    words->n = n;
    if (wanted & SDBM) sdbm_of_windows(&windows, scanner->text, words);
    if (wanted & BLOCKS) blocks_of_windows(&windows, words);
    return n;
}

#endif
#endif

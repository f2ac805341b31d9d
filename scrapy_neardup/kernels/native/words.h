/* Visible text in UTF-8 → normalised words; numpy_twin/words.py defines them.
 *
 * A code point that stands for itself, or for the same words in any company, is looked up in a
 * table made from the running Python's unicodedata. What composes with its neighbours or
 * changes places with them, or many marks in a row, send their run, between two ASCII spaces, to
 * Python, which returns it in normal form; the table then tells the words of that.
 */
#ifndef NEARDUP_WORDS_H
#define NEARDUP_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "code_points.h"
#include "mix.h"
#include "simd.h"

#define SPACE 32
#define MAX_EXPANSION 32           /* code points that one may become */
#define SLACK (16 * MAX_EXPANSION) /* bytes that one may add, and more */
#define SAFE_MARKS 27 /* that may follow a letter of up to 3 more: 30 in stream-safe format */

/* What becomes of a code point: an entry's lowest 3 bits. */
enum {
    SEPARATOR,
    SPACED,   /* a letter, mark or digit: the code point in the entry's upper 21 bits */
    UNSPACED, /* the same, of a script without spaces */
    STRING,   /* several entries, their number first, at the upper bits' place in the page */
    CONTEXT   /* depends on its neighbours; once normalised it is, like STRING, several entries */
};
#define KIND(entry) ((entry) & 7)
#define ORDER(entry) ((entry) >> 3 & 0xFF) /* canonical combining class */
#define VALUE(entry) ((entry) >> 11)

typedef enum { DONE, NEEDS_ROOM, NEEDS_PAGE, NEEDS_PYTHON } Status;

typedef struct {
    const uint8_t *text; /* UTF-8; a lone surrogate as three bytes */
    size_t length, at;
    uint8_t *out; /* a space, then words, each with a space after it */
    size_t n, room;
    size_t run, run_n; /* where the run began in text, and its words in out */
    uint32_t order;    /* combining class of the last code point */
    uint32_t marks;    /* that follow each other here */
    int is_normal;     /* whether the text is in normal form, so that nothing needs Python */
    uint32_t unspaced; /* characters of the unspaced run so far: 0, 1, or 2 for more */
    uint32_t previous; /* its last one */
    size_t ascii;      /* where the last stretch of ASCII that was looked at ends */
    uint32_t page;     /* that is needed */
    int simd;
} Words;

/* The letter in lower case, the digit, or a space for any other ASCII character. */
INLINE uint8_t folded(uint8_t c) {
    uint8_t lower = c | 0x20;
    int letter = (uint8_t)(lower - 'a') < 26, digit = (uint8_t)(c - '0') < 10;
    return letter ? lower : digit ? c : SPACE;
}

INLINE int is_ascii_space(uint8_t c) { return c == SPACE || (uint8_t)(c - '\t') < 5; }

/* Words of n bytes of ASCII, after what out holds; out[n - 1] is there. Returns its new length.
 * A separator is kept where it ends a word: the first after it, as a space. */
INLINE size_t ascii_words_portable(const uint8_t *text, size_t length, uint8_t *out, size_t n) {
    int in_word = out[n - 1] != SPACE;
    for (size_t i = 0; i < length; i++) {
        uint8_t c = folded(text[i]);
        int is_word = c != SPACE;
        out[n] = c;
        n += (size_t)(is_word | in_word);
        in_word = is_word;
    }
    return n;
}

#if SIMD_X86
/* The same; may write, as SLACK allows, up to 32 bytes more than it keeps. */
TARGET_AVX2 static size_t ascii_words_avx2(const uint8_t *text, size_t length, uint8_t *out,
                                           size_t n) {
    const __m256i case_bit = _mm256_set1_epi8(0x20);
    uint32_t in_word = out[n - 1] != SPACE;
    size_t i = 0;
    for (; length - i >= 32; i += 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(text + i));
        __m256i lower = _mm256_or_si256(bytes, case_bit);
        __m256i letter = _mm256_and_si256(_mm256_cmpgt_epi8(lower, _mm256_set1_epi8('a' - 1)),
                                          _mm256_cmpgt_epi8(_mm256_set1_epi8('z' + 1), lower));
        __m256i digit = _mm256_and_si256(_mm256_cmpgt_epi8(bytes, _mm256_set1_epi8('0' - 1)),
                                         _mm256_cmpgt_epi8(_mm256_set1_epi8('9' + 1), bytes));
        __m256i word = _mm256_or_si256(letter, digit);
        uint32_t is_word = (uint32_t)_mm256_movemask_epi8(word);
        uint32_t kept = is_word | is_word << 1 | in_word;
        uint64_t eight[4];
        /* a digit has the bit of lower case already */
        _mm256_storeu_si256((__m256i *)eight, _mm256_blendv_epi8(case_bit, lower, word));
        for (int k = 0; k < 4; k++) {
            uint64_t some = kept >> (8 * k) & 0xFF;
            uint64_t bytes_kept = _pdep_u64(some, 0x0101010101010101) * 0xFF;
            uint64_t packed = _pext_u64(eight[k], bytes_kept);
            memcpy(out + n, &packed, 8);
            n += (size_t)popcount(some);
        }
        in_word = is_word >> 31;
    }
    return ascii_words_portable(text + i, length - i, out, n);
}

/* The same; up to 64 bytes more. */
TARGET_AVX512 static size_t ascii_words_avx512(const uint8_t *text, size_t length, uint8_t *out,
                                               size_t n) {
    const __m512i case_bit = _mm512_set1_epi8(0x20);
    uint64_t in_word = out[n - 1] != SPACE;
    for (size_t i = 0; i < length; i += 64) {
        size_t left = length - i;
        uint64_t there = left < 64 ? (1ULL << left) - 1 : ~0ULL;
        __m512i bytes = _mm512_maskz_loadu_epi8(there, text + i);
        __m512i lower = _mm512_or_si512(bytes, case_bit);
        uint64_t letter = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(lower, _mm512_set1_epi8('a')),
                                                 _mm512_set1_epi8(26));
        uint64_t digit = _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, _mm512_set1_epi8('0')),
                                                _mm512_set1_epi8(10));
        uint64_t is_word = letter | digit;
        uint64_t kept = (is_word | is_word << 1 | in_word) & there;
        __m512i words = _mm512_mask_blend_epi8(is_word, case_bit, lower);
        _mm512_storeu_si512(out + n, _mm512_maskz_compress_epi8(kept, words));
        n += (size_t)popcount(kept);
        in_word = is_word >> 63;
    }
    return n;
}
#endif

INLINE size_t ascii_words(const uint8_t *text, size_t length, uint8_t *out, size_t n, int simd) {
#if SIMD_X86
    if (simd == SIMD_AVX512) return ascii_words_avx512(text, length, out, n);
    if (simd == SIMD_AVX2) return ascii_words_avx2(text, length, out, n);
#endif
    return ascii_words_portable(text, length, out, n);
}

INLINE size_t put(uint8_t *out, uint32_t c) {
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xC0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xE0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (c & 0x3F));
    return 4;
}

INLINE uint64_t rotated(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

/* The first half of MurmurHash3_x64_128, seed 0. Reads up to 15 bytes more than it takes. */
INLINE uint64_t murmur3(const uint8_t *bytes, size_t n) {
    const uint64_t c1 = 0x87C37B91114253D5, c2 = 0x4CF5AD432745937F;
    uint64_t h1 = 0, h2 = 0, tail1, tail2;
    size_t i = 0, left = n % 16;
    for (; n - i >= 16; i += 16) {
        h1 ^= rotated(load8(bytes + i) * c1, 31) * c2;
        h1 = (rotated(h1, 27) + h2) * 5 + 0x52DCE729;
        h2 ^= rotated(load8(bytes + i + 8) * c2, 33) * c1;
        h2 = (rotated(h2, 31) + h1) * 5 + 0x38495AB5;
    }
    tail1 = load8(bytes + i) & (left < 8 ? (1ULL << 8 * left) - 1 : ~0ULL);
    tail2 = left < 8 ? 0 : load8(bytes + i + 8) & ((1ULL << 8 * (left - 8)) - 1);
    h1 ^= rotated(tail1 * c1, 31) * c2 ^ n;
    h2 ^= rotated(tail2 * c2, 33) * c1 ^ n;
    h1 += h2;
    h2 += h1;
    return fmix64(h1) + fmix64(h2);
}

INLINE void end_word(Words *w) {
    if (w->out[w->n - 1] != SPACE) w->out[w->n++] = SPACE;
    w->unspaced = 0;
}

INLINE void emit(Words *w, uint32_t entry) {
    uint32_t c = VALUE(entry);
    if (KIND(entry) == SEPARATOR) {
        end_word(w);
    } else if (KIND(entry) == SPACED) {
        if (w->unspaced) end_word(w);
        w->n += put(w->out + w->n, c);
    } else {
        if (!w->unspaced) end_word(w);
        if (w->unspaced == 2) { /* the next bigram */
            w->out[w->n++] = SPACE;
            w->n += put(w->out + w->n, w->previous);
        }
        w->n += put(w->out + w->n, c);
        w->unspaced += w->unspaced < 2;
        w->previous = c;
    }
}

/* The bytes of ASCII from `at` to the end, or to the last space before other bytes. */
INLINE size_t ascii_stretch(Words *w) {
    size_t end = w->at;
    if (end < w->ascii) return 0;
    for (; w->length - end >= 32; end += 32) {
        uint64_t any = 0;
        for (int i = 0; i < 32; i += 8) any |= load8(w->text + end + i);
        if (any & 0x8080808080808080) break;
    }
    for (; w->length - end >= 8; end += 8)
        if (load8(w->text + end) & 0x8080808080808080) break;
    while (end < w->length && w->text[end] < 0x80) end++;
    w->ascii = end;
    if (end == w->length) return end - w->at;
    while (end > w->at && !is_ascii_space(w->text[end - 1])) end--;
    return end - w->at;
}

/* Where the run ends that reaches at least to `from`: at an ASCII space, or with the text. */
static size_t run_end(const Words *w, size_t from) {
    while (from < w->length && !is_ascii_space(w->text[from])) from++;
    return from < w->length ? from : w->length;
}

/* Whether what becomes of a code point depends on what is around it; notes it as the last one. */
INLINE int needs_python(Words *w, uint32_t entry) {
    if (w->is_normal) return 0;
    if (KIND(entry) == CONTEXT || (ORDER(entry) && ORDER(entry) < w->order)) return 1;
    w->order = ORDER(entry);
    w->marks = ORDER(entry) ? w->marks + 1 : 0;
    return w->marks > SAFE_MARKS;
}

/* Goes on until the text is done or something is needed; call again when it is there. */
static Status words_until(Words *w) {
    while (w->at < w->length) {
        const uint32_t *page;
        uint32_t c, entry;
        size_t bytes;
        size_t ascii = ascii_stretch(w);
        if (w->room - w->n < ascii + SLACK) {
            w->ascii = w->at; /* to be looked at again */
            return NEEDS_ROOM;
        }
        if (ascii) {
            if (w->unspaced) end_word(w);
            w->n = ascii_words(w->text + w->at, ascii, w->out, w->n, w->simd);
            w->run = w->at += ascii;
            w->run_n = w->n;
            w->order = w->marks = 0;
            continue;
        }
        bytes = get(w->text + w->at, &c);
        page = page_at(c / PAGE);
        if (!page) {
            w->page = c / PAGE;
            return NEEDS_PAGE;
        }
        entry = page[c % PAGE];
        if (needs_python(w, entry)) return NEEDS_PYTHON;
        if (KIND(entry) == STRING || KIND(entry) == CONTEXT) {
            const uint32_t *string = page + VALUE(entry);
            for (uint32_t i = 1; i <= string[0]; i++) emit(w, string[i]);
        } else {
            emit(w, entry);
        }
        w->at += bytes;
        if (c < 0x80 && is_ascii_space((uint8_t)c)) {
            w->run = w->at;
            w->run_n = w->n;
        }
    }
    return DONE;
}

/* The lines of a text that have words. */
typedef struct {
    size_t end;       /* of the text */
    size_t max_lines; /* that are still told apart; what follows them is one line */
    size_t start;     /* of the block in Words.out */
    int64_t line;     /* that is read, from 0 */
    size_t n;
    uint64_t *hashes; /* room for each line, or NULL */
    int64_t *n_words, *lines, *ends;
} Blocks;

/* How many of n bytes are c. Vectors count in bytes, and so no more than 255 at once. */
INLINE size_t count_of(const uint8_t *bytes, size_t n, uint8_t c) {
    size_t found = 0;
    while (n) {
        size_t few = n < 224 ? n : 224; /* whole vectors */
        uint8_t here = 0;
        for (size_t i = 0; i < few; i++) here += bytes[i] == c;
        found += here;
        bytes += few;
        n -= few;
    }
    return found;
}

/* Lines that a text can be told to have, with the last one. */
static size_t lines_at_most(const uint8_t *text, size_t length, size_t max_lines) {
    size_t n = 1 + count_of(text, length, '\n');
    return n <= max_lines ? n : max_lines + 1;
}

/* Go to where the next line with anything on it begins; where it ends. */
static size_t next_line(Words *w, Blocks *b) {
    const uint8_t *feed;
    for (; b->max_lines && w->at < b->end && is_ascii_space(w->text[w->at]); w->at++) {
        b->max_lines -= w->text[w->at] == '\n';
        b->line += w->text[w->at] == '\n';
    }
    w->run = w->at;
    w->run_n = w->n;
    w->order = w->marks = 0;
    feed = b->max_lines ? memchr(w->text + w->at, '\n', b->end - w->at) : NULL;
    if (!feed) return b->end;
    b->max_lines--;
    return (size_t)(feed - w->text) + 1;
}

INLINE void end_block(Words *w, Blocks *b) {
    const uint8_t *words = w->out + b->start;
    size_t length;
    end_word(w);
    length = w->n - b->start;
    if (length && b->hashes) {
        b->hashes[b->n] = murmur3(words, length - 1);
        b->lines[b->n] = b->line;
        b->ends[b->n] = (int64_t)w->n - 2;
        b->n_words[b->n++] = (int64_t)count_of(words, length, SPACE);
    }
    b->start = w->n;
}

/* words_until for one line after the other. */
static Status blocks_until(Words *w, Blocks *b) {
    for (;;) {
        Status status = words_until(w);
        if (status != DONE) return status;
        end_block(w, b);
        if (w->at == b->end) return DONE;
        b->line += w->at > 0;
        w->length = next_line(w, b);
    }
}

#endif

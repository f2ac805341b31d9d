/* Look-ups of signatures in tables of buckets; numpy_twin/hamming.py says what each thing is.
 *
 * A frozen tier's buckets are runs of entries between offsets. A live tier's are chains of
 * chunks in one arena of cache lines (16 words of 32 bits), newest first; links are line
 * numbers, 0 ends a chain. A chunk of L lines: next, used | L << 16, then room for 8 L - 1
 * windows and as many slots; each chunk of a chain is half as long again as the one before.
 */
#ifndef NEARDUP_HAMMING_H
#define NEARDUP_HAMMING_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "simd.h"

enum { LINE = 16, MOST_LINES = 64, PIECE = 256, GROUP = 16 };
enum { NOBODY = -1, OVER_LIMIT = -2 };

typedef struct {
    int n_tables, n_words;
    const uint64_t *masks, *multipliers; /* n_tables x n_words */
    const int64_t *places;               /* n_tables x 2: word and rotation of the window */
} tables_t;

typedef struct {
    tables_t tables;
    int shift; /* 64 - directory bits */
    uint64_t n;
    uint64_t *rows;
    uint32_t *ids;
    uint8_t *removed;                          /* may be NULL */
    const uint32_t *offsets, *windows, *slots; /* frozen */
    uint32_t *heads, *arena;                   /* live; NULL in a frozen tier */
    uint64_t lines, room;                      /* of the arena: used, allocated */
} tier_t;

typedef struct {
    uint64_t start, length; /* frozen: entries of a bucket; live: first chunk */
} span_t;

typedef struct {
    uint64_t *keys; /* id << 32 | distance */
    size_t n, room;
} matches_t;

INLINE uint64_t bucket_of(const tier_t *tier, int table, const uint64_t *row) {
    const int n_words = tier->tables.n_words;
    const uint64_t *mask = tier->tables.masks + table * n_words;
    const uint64_t *multiplier = tier->tables.multipliers + table * n_words;
    uint64_t sum = 0;
    for (int w = 0; w < n_words; w++) sum += (row[w] & mask[w]) * multiplier[w];
    return sum >> tier->shift;
}

INLINE uint32_t window_of(const tables_t *tables, int table, const uint64_t *row) {
    const int64_t *place = tables->places + 2 * table;
    const uint64_t word = row[place[0]];
    const int turn = (int)place[1];
    return (uint32_t)(turn ? word >> turn | word << (64 - turn) : word);
}

INLINE uint64_t n_buckets(const tier_t *tier) { return (uint64_t)1 << (64 - tier->shift); }

/* --- which of up to PIECE windows, or rows of one word, differ from one in at most `distance`
 * bits ---------------------------------------------------------------------------------------- */

typedef struct {
    int (*windows)(const uint32_t *, int, uint32_t, int, uint16_t *);
    int (*words)(const uint64_t *, int, uint64_t, int, uint16_t *);
} scans_t;

INLINE int scan_words_plain(const uint64_t *words, int n, uint64_t own, int distance,
                            uint16_t *hits) {
    int n_hits = 0;
    for (int i = 0; i < n; i++) {
        hits[n_hits] = (uint16_t)i;
        n_hits += popcount(words[i] ^ own) <= distance;
    }
    return n_hits;
}

static int scan_words_portable(const uint64_t *words, int n, uint64_t own, int distance,
                               uint16_t *hits) {
    return scan_words_plain(words, n, own, distance, hits);
}

static int scan_windows_portable(const uint32_t *windows, int n, uint32_t own, int distance,
                         uint16_t *hits) {
    int n_hits = 0;
    for (int i = 0; i < n; i++) {
        hits[n_hits] = (uint16_t)i;
        n_hits += popcount(windows[i] ^ own) <= distance;
    }
    return n_hits;
}

#if SIMD_X86
TARGET_AVX2 static int scan_windows_avx2(const uint32_t *windows, int n, uint32_t own, int distance,
                                 uint16_t *hits) {
    const __m256i counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
                                            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15), query = _mm256_set1_epi32((int)own);
    const __m256i limit = _mm256_set1_epi32(distance + 1);
    int n_hits = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i x = _mm256_xor_si256(_mm256_loadu_si256((const void *)(windows + i)), query);
        __m256i bytes = _mm256_add_epi8(
            _mm256_shuffle_epi8(counts, _mm256_and_si256(x, low)),
            _mm256_shuffle_epi8(counts, _mm256_and_si256(_mm256_srli_epi32(x, 4), low)));
        __m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(bytes, _mm256_set1_epi8(1)),
                                         _mm256_set1_epi16(1));
        __m256i near = _mm256_cmpgt_epi32(limit, sums);
        unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(near));
        for (; mask; mask &= mask - 1) hits[n_hits++] = (uint16_t)(i + trailing_zeros(mask));
    }
    for (; i < n; i++)
        if (popcount(windows[i] ^ own) <= distance) hits[n_hits++] = (uint16_t)i;
    return n_hits;
}

TARGET_AVX2 static int scan_words_avx2(const uint64_t *words, int n, uint64_t own, int distance,
                                       uint16_t *hits) {
    return scan_words_plain(words, n, own, distance, hits);
}

TARGET_AVX512 static int scan_words_avx512(const uint64_t *words, int n, uint64_t own,
                                           int distance, uint16_t *hits) {
    const __m512i query = _mm512_set1_epi64((long long)own), limit = _mm512_set1_epi64(distance);
    int n_hits = 0;
    for (int i = 0; i < n; i += 8) {
        __mmask8 here = n - i >= 8 ? 0xFF : (__mmask8)((1u << (n - i)) - 1);
        __m512i x = _mm512_xor_si512(_mm512_maskz_loadu_epi64(here, words + i), query);
        unsigned near = _mm512_mask_cmple_epu64_mask(here, _mm512_popcnt_epi64(x), limit);
        for (; near; near &= near - 1) hits[n_hits++] = (uint16_t)(i + trailing_zeros(near));
    }
    return n_hits;
}

TARGET_AVX512 static int scan_windows_avx512(const uint32_t *windows, int n, uint32_t own, int distance,
                                     uint16_t *hits) {
    const __m512i query = _mm512_set1_epi32((int)own), limit = _mm512_set1_epi32(distance);
    int n_hits = 0;
    for (int i = 0; i < n; i += 16) {
        __mmask16 here = n - i >= 16 ? 0xFFFF : (__mmask16)((1u << (n - i)) - 1);
        __m512i x = _mm512_xor_si512(_mm512_maskz_loadu_epi32(here, windows + i), query);
        unsigned near = _mm512_mask_cmple_epu32_mask(here, _mm512_popcnt_epi32(x), limit);
        for (; near; near &= near - 1) hits[n_hits++] = (uint16_t)(i + trailing_zeros(near));
    }
    return n_hits;
}
#endif

/* --- one query ----------------------------------------------------------------------------- */

typedef struct {
    const uint64_t *row;
    int distance, every; /* every: collect all matches, not the smallest id only */
    int64_t limit;       /* entries that may still be compared */
    uint64_t first;
    matches_t *matches;
} query_t;

static int push(matches_t *matches, uint64_t key) {
    if (matches->n == matches->room) {
        const size_t room = matches->room ? 2 * matches->room : 64;
        uint64_t *keys = realloc(matches->keys, room * sizeof *keys);
        if (!keys) return 0;
        matches->keys = keys, matches->room = room;
    }
    matches->keys[matches->n++] = key;
    return 1;
}

INLINE int leads_equal(const tables_t *tables, int table, const uint64_t *a, const uint64_t *b) {
    const uint64_t *mask = tables->masks + table * tables->n_words;
    for (int w = 0; w < tables->n_words; w++)
        if ((a[w] ^ b[w]) & mask[w]) return 0;
    return 1;
}

/* Whether no earlier table has found the row already, and this one did by more than chance. */
INLINE int first_found_by(const tables_t *tables, int table, const uint64_t *a,
                          const uint64_t *b) {
    for (int t = 0; t < table; t++)
        if (leads_equal(tables, t, a, b)) return 0;
    return leads_equal(tables, table, a, b);
}

/* Take a row if it is near and there. 0 if memory ran out. */
INLINE int confirm(const tier_t *tier, int table, uint64_t slot, query_t *query) {
    const int n_words = tier->tables.n_words;
    const uint64_t *row = tier->rows + slot * n_words;
    const int bits = distance_of(row, query->row, n_words);
    if (bits > query->distance || (tier->removed && tier->removed[slot])) return 1;
    if (!query->every) {
        if (tier->ids[slot] < query->first) query->first = tier->ids[slot];
        return 1;
    }
    if (!first_found_by(&tier->tables, table, row, query->row)) return 1;
    return push(query->matches, (uint64_t)tier->ids[slot] << 32 | (unsigned)bits);
}

INLINE int scan_entries(const tier_t *tier, int table, const uint32_t *windows,
                        const uint32_t *slots, uint64_t n, query_t *query, scans_t scans) {
    const uint32_t own = window_of(&tier->tables, table, query->row);
    uint16_t hits[PIECE];
    for (uint64_t at = 0; at < n; at += PIECE) {
        const int piece = n - at < PIECE ? (int)(n - at) : PIECE;
        const int n_hits = scans.windows(windows + at, piece, own, query->distance, hits);
        for (int i = 0; i < n_hits; i++)
            if (!confirm(tier, table, slots[at + hits[i]], query)) return 0;
    }
    return 1;
}

INLINE int scan_rows(const tier_t *tier, uint64_t start, uint64_t n, query_t *query,
                     scans_t scans) {
    const int n_words = tier->tables.n_words;
    const uint64_t *rows = tier->rows + start * n_words;
    uint16_t hits[PIECE];
    if (n_words > 1) {
        for (uint64_t i = 0; i < n; i++)
            if (popcount(rows[i * n_words] ^ query->row[0]) <= query->distance &&
                !confirm(tier, 0, start + i, query))
                return 0;
        return 1;
    }
    for (uint64_t at = 0; at < n; at += PIECE) {
        const int piece = n - at < PIECE ? (int)(n - at) : PIECE;
        const int n_hits = scans.words(rows + at, piece, query->row[0], query->distance, hits);
        for (int i = 0; i < n_hits; i++)
            if (!confirm(tier, 0, start + at + hits[i], query)) return 0;
    }
    return 1;
}

/* 1 done, 0 out of memory, -1 limit reached. */
INLINE int scan_chain(const tier_t *tier, int table, uint64_t line, query_t *query,
                      scans_t scans) {
    while (line) {
        const uint32_t *chunk = tier->arena + line * LINE;
        const uint32_t used = chunk[1] & 0xFFFF, room = 8 * (chunk[1] >> 16) - 1;
        if ((query->limit -= used) < 0) return -1;
        if (!scan_entries(tier, table, chunk + 2, chunk + 2 + room, used, query, scans)) return 0;
        line = chunk[0];
    }
    return 1;
}

INLINE int scan_bucket(const tier_t *tier, int table, span_t span, query_t *query,
                       scans_t scans) {
    if (tier->heads) return scan_chain(tier, table, span.start, query, scans);
    if ((query->limit -= (int64_t)span.length) < 0) return -1;
    if (!table) return scan_rows(tier, span.start, span.length, query, scans);
    const uint64_t from = (table - 1) * tier->n + span.start;
    return scan_entries(tier, table, tier->windows + from, tier->slots + from, span.length, query,
                        scans);
}

/* --- sorting a query's matches: runs that are ascending already are merged ---------------- */

static size_t run_end(const uint64_t *keys, size_t at, size_t n) {
    for (at++; at < n && keys[at - 1] <= keys[at]; at++) {}
    return at < n ? at : n;
}

static void merge(const uint64_t *a, size_t n_a, const uint64_t *b, size_t n_b, uint64_t *out) {
    while (n_a && n_b) {
        const int from_a = *a <= *b;
        *out++ = from_a ? *a++ : *b++;
        n_a -= from_a, n_b -= !from_a;
    }
    memcpy(out, n_a ? a : b, (n_a + n_b) * sizeof *out);
}

/* 0 if memory ran out. */
static int sort_keys(uint64_t *keys, size_t n) {
    uint64_t *spare = NULL;
    while (run_end(keys, 0, n) < n) {
        if (!spare && !(spare = malloc(n * sizeof *spare))) return 0;
        for (size_t at = 0; at < n;) {
            const size_t middle = run_end(keys, at, n);
            const size_t end = middle < n ? run_end(keys, middle, n) : n;
            merge(keys + at, middle - at, keys + middle, end - middle, spare + at);
            at = end;
        }
        memcpy(keys, spare, n * sizeof *keys);
    }
    free(spare);
    return 1;
}

/* Sort the keys from `start` on and keep the smallest distance of each id. 0: no memory. */
static int settle(matches_t *matches, size_t start) {
    uint64_t *keys = matches->keys + start;
    const size_t n = matches->n - start;
    size_t kept = 0;
    if (n < 2) return 1;
    if (!sort_keys(keys, n)) return 0;
    for (size_t i = 0; i < n; i++)
        if (!i || keys[i] >> 32 != keys[i - 1] >> 32) keys[kept++] = keys[i];
    matches->n = start + kept;
    return 1;
}

/* --- many queries over several tiers ------------------------------------------------------ */

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(address) __builtin_prefetch(address)
#elif SIMD_X86
#define PREFETCH(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)
#else
#define PREFETCH(address) ((void)(address))
#endif

INLINE void find_bucket(const tier_t *tier, int table, const uint64_t *row, span_t *span) {
    span->start = bucket_of(tier, table, row);
    if (tier->heads) PREFETCH(tier->heads + table * n_buckets(tier) + span->start);
    else PREFETCH(tier->offsets + table * (n_buckets(tier) + 1) + span->start);
}

INLINE void find_entries(const tier_t *tier, int table, span_t *span) {
    if (tier->heads) {
        span->start = tier->heads[table * n_buckets(tier) + span->start];
        PREFETCH(tier->arena + span->start * LINE);
        return;
    }
    const uint32_t *offset = tier->offsets + table * (n_buckets(tier) + 1) + span->start;
    span->start = offset[0], span->length = offset[1] - offset[0];
    if (!table) {
        const uint64_t *row = tier->rows + span->start * tier->tables.n_words;
        PREFETCH(row), PREFETCH(row + 8), PREFETCH(row + 16);
        return;
    }
    const uint32_t *window = tier->windows + (table - 1) * tier->n + span->start;
    PREFETCH(window), PREFETCH(window + 16);
}

/* 1 done, 0 out of memory. */
INLINE int answer(tier_t *const *tiers, int n_tiers, const span_t *spans, query_t *query,
                  int64_t *out, scans_t scans) {
    const size_t before = query->matches->n;
    query->first = UINT64_MAX;
    for (int i = 0; i < n_tiers; i++)
        for (int t = 0; t < tiers[i]->tables.n_tables; t++) {
            const int state = scan_bucket(tiers[i], t, *spans++, query, scans);
            if (!state) return 0;
            if (state < 0) {
                query->matches->n = before;
                *out = OVER_LIMIT;
                return 1;
            }
        }
    if (!query->every) {
        *out = query->first == UINT64_MAX ? NOBODY : (int64_t)query->first;
        return 1;
    }
    if (!settle(query->matches, before)) return 0;
    *out = (int64_t)(query->matches->n - before);
    return 1;
}

/* Answers in groups, so that the misses of many queries overlap. spans: room for GROUP queries. */
INLINE int look_up_with(tier_t *const *tiers, int n_tiers, const uint64_t *rows, int64_t n,
                        query_t query, span_t *spans, int64_t *out, scans_t scans) {
    const int n_tables = tiers[0]->tables.n_tables, n_words = tiers[0]->tables.n_words;
    const int each = n_tiers * n_tables;
    const int64_t limit = query.limit;
    for (int64_t at = 0; at < n; at += GROUP) {
        const int size = n - at < GROUP ? (int)(n - at) : GROUP;
        for (int q = 0; q < size; q++)
            for (int i = 0; i < each; i++)
                find_bucket(tiers[i / n_tables], i % n_tables, rows + (at + q) * n_words,
                            spans + q * each + i);
        for (int q = 0; q < size; q++)
            for (int i = 0; i < each; i++)
                find_entries(tiers[i / n_tables], i % n_tables, spans + q * each + i);
        for (int q = 0; q < size; q++) {
            query.row = rows + (at + q) * n_words, query.limit = limit;
            if (!answer(tiers, n_tiers, spans + q * each, &query, out + at + q, scans)) return 0;
        }
    }
    return 1;
}

typedef int (*look_up_t)(tier_t *const *, int, const uint64_t *, int64_t, query_t, span_t *,
                         int64_t *);

static int look_up_portable(tier_t *const *tiers, int n_tiers, const uint64_t *rows, int64_t n,
                            query_t query, span_t *spans, int64_t *out) {
    const scans_t scans = {scan_windows_portable, scan_words_portable};
    return look_up_with(tiers, n_tiers, rows, n, query, spans, out, scans);
}

#if SIMD_X86
TARGET_AVX2 static int look_up_avx2(tier_t *const *tiers, int n_tiers, const uint64_t *rows,
                                    int64_t n, query_t query, span_t *spans, int64_t *out) {
    const scans_t scans = {scan_windows_avx2, scan_words_avx2};
    return look_up_with(tiers, n_tiers, rows, n, query, spans, out, scans);
}

TARGET_AVX512 static int look_up_avx512(tier_t *const *tiers, int n_tiers, const uint64_t *rows,
                                        int64_t n, query_t query, span_t *spans, int64_t *out) {
    const scans_t scans = {scan_windows_avx512, scan_words_avx512};
    return look_up_with(tiers, n_tiers, rows, n, query, spans, out, scans);
}
#endif

/* The answer to each query in `out`: the smallest id, or (query.every) how many match, with
 * the matches themselves appended to query.matches. 0 if memory ran out. */
static int look_up(int simd_level, tier_t *const *tiers, int n_tiers, const uint64_t *rows,
                   int64_t n, query_t query, int64_t *out) {
    span_t few[64];
    const size_t each = (size_t)n_tiers * tiers[0]->tables.n_tables;
    const size_t needed = each * (n < GROUP ? (size_t)n : GROUP);
    span_t *spans = needed <= 64 ? few : malloc(needed * sizeof *spans);
    look_up_t run = look_up_portable;
    if (!spans) return 0;
#if SIMD_X86
    if (simd_level == SIMD_AVX2) run = look_up_avx2;
    if (simd_level == SIMD_AVX512) run = look_up_avx512;
#else
    (void)simd_level;
#endif
    const int done = run(tiers, n_tiers, rows, n, query, spans, out);
    if (spans != few) free(spans);
    return done;
}

/* --- changes ------------------------------------------------------------------------------- */

/* A chunk to follow another (0: the first) in a chain: its line, 0 if memory ran out. */
static uint64_t new_chunk(tier_t *tier, uint64_t after) {
    uint64_t lines = 1;
    if (after) {
        const uint64_t old = tier->arena[after * LINE + 1] >> 16;
        lines = old + (old + 1) / 2 < MOST_LINES ? old + (old + 1) / 2 : MOST_LINES;
    }
    if (tier->lines + lines > tier->room) {
        const uint64_t room = tier->room + tier->room / 2 + 1024;
        uint32_t *arena = realloc(tier->arena, room * LINE * sizeof *arena);
        if (!arena) return 0;
        tier->arena = arena, tier->room = room;
    }
    const uint64_t line = tier->lines;
    tier->arena[line * LINE] = (uint32_t)after;
    tier->arena[line * LINE + 1] = (uint32_t)lines << 16;
    tier->lines += lines;
    return line;
}

static int append_entry(tier_t *tier, int table, const uint64_t *row, uint32_t slot) {
    uint32_t *head = tier->heads + table * n_buckets(tier) + bucket_of(tier, table, row);
    uint32_t *chunk = tier->arena + (uint64_t)*head * LINE;
    if (!*head || (chunk[1] & 0xFFFF) == 8 * (chunk[1] >> 16) - 1) {
        const uint64_t line = new_chunk(tier, *head);
        if (!line) return 0;
        *head = (uint32_t)line;
        chunk = tier->arena + line * LINE;
    }
    const uint32_t used = chunk[1] & 0xFFFF, room = 8 * (chunk[1] >> 16) - 1;
    chunk[2 + used] = window_of(&tier->tables, table, row);
    chunk[2 + room + used] = slot;
    chunk[1]++;
    return 1;
}

/* Append pairs to a live tier that has room for them. 0 if memory ran out. */
static int append(tier_t *tier, const uint64_t *rows, const uint32_t *ids, int64_t n) {
    const int n_words = tier->tables.n_words;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t *row = rows + i * n_words;
        memcpy(tier->rows + tier->n * n_words, row, n_words * sizeof *row);
        tier->ids[tier->n] = ids[i];
        for (int t = 0; t < tier->tables.n_tables; t++)
            if (!append_entry(tier, t, row, (uint32_t)tier->n)) return 0;
        tier->n++;
    }
    return 1;
}

/* Whether a row is the pair, and there; it is then removed if it is to be forgotten. */
INLINE int64_t take_slot(tier_t *tier, uint64_t slot, const uint64_t *row, uint32_t id,
                         int forget) {
    const int n_words = tier->tables.n_words;
    if (tier->ids[slot] != id || (tier->removed && tier->removed[slot])) return 0;
    if (memcmp(tier->rows + slot * n_words, row, n_words * sizeof *row)) return 0;
    if (forget) tier->removed[slot] = 1;
    return 1;
}

/* How many copies of the pair there are; they are removed if they are to be forgotten. */
static int64_t take_pair(tier_t *tier, const uint64_t *row, uint32_t id, int forget) {
    const uint64_t bucket = bucket_of(tier, 0, row);
    int64_t n = 0;
    if (!tier->heads) {
        for (uint64_t slot = tier->offsets[bucket]; slot < tier->offsets[bucket + 1]; slot++)
            n += take_slot(tier, slot, row, id, forget);
        return n;
    }
    const uint32_t own = window_of(&tier->tables, 0, row);
    for (uint64_t line = tier->heads[bucket]; line; line = tier->arena[line * LINE]) {
        const uint32_t *chunk = tier->arena + line * LINE;
        const uint32_t used = chunk[1] & 0xFFFF, room = 8 * (chunk[1] >> 16) - 1;
        for (uint32_t i = 0; i < used; i++)
            if (chunk[2 + i] == own) n += take_slot(tier, chunk[2 + room + i], row, id, forget);
    }
    return n;
}

/* take_pair for each of n pairs: adds to counts. */
static void take_pairs(tier_t *tier, const uint64_t *rows, const uint32_t *ids, int64_t n,
                       int forget, int64_t *counts) {
    for (int64_t i = 0; i < n; i++)
        counts[i] += take_pair(tier, rows + i * tier->tables.n_words, ids[i], forget);
}

static int64_t remove_below(tier_t *tier, uint64_t before) {
    int64_t n = 0;
    for (uint64_t slot = 0; slot < tier->n; slot++)
        if (tier->ids[slot] < before && !tier->removed[slot]) tier->removed[slot] = 1, n++;
    return n;
}

/* --- building a frozen tier ---------------------------------------------------------------- */

/* The bucket of each row, and where each bucket of the table starts. */
static void count_buckets(const tier_t *tier, int table, const uint64_t *rows, uint32_t *own,
                          uint32_t *offsets) {
    const uint64_t buckets = n_buckets(tier);
    memset(offsets, 0, (buckets + 1) * sizeof *offsets);
    for (uint64_t i = 0; i < tier->n; i++) {
        own[i] = (uint32_t)bucket_of(tier, table, rows + i * tier->tables.n_words);
        offsets[own[i]]++;
    }
    uint32_t start = 0;
    for (uint64_t b = 0; b <= buckets; b++) {
        const uint32_t size = b < buckets ? offsets[b] : 0;
        offsets[b] = start;
        start += size;
    }
}

/* A scatter moved each start to the next bucket's; move them back. */
static void restore_offsets(uint32_t *offsets, uint64_t buckets) {
    memmove(offsets + 1, offsets, buckets * sizeof *offsets);
    offsets[0] = 0;
}

/* Sort pairs into tier->rows and tier->ids by the first table's buckets. */
static void build_first(const tier_t *tier, const uint64_t *rows, const uint32_t *ids,
                        uint32_t *own, uint32_t *offsets) {
    const int n_words = tier->tables.n_words;
    count_buckets(tier, 0, rows, own, offsets);
    for (uint64_t i = 0; i < tier->n; i++) {
        const uint64_t slot = offsets[own[i]]++;
        memcpy(tier->rows + slot * n_words, rows + i * n_words, n_words * sizeof *rows);
        tier->ids[slot] = ids[i];
    }
    restore_offsets(offsets, n_buckets(tier));
}

/* Sort entries for tier->rows by another table's buckets. */
static void build_other(const tier_t *tier, int table, uint32_t *own, uint32_t *offsets,
                        uint32_t *windows, uint32_t *slots) {
    const int n_words = tier->tables.n_words;
    count_buckets(tier, table, tier->rows, own, offsets);
    for (uint64_t slot = 0; slot < tier->n; slot++) {
        const uint32_t at = offsets[own[slot]]++;
        windows[at] = window_of(&tier->tables, table, tier->rows + slot * n_words);
        slots[at] = (uint32_t)slot;
    }
    restore_offsets(offsets, n_buckets(tier));
}

/* --- all pairs of a sorted collection ------------------------------------------------------ */

typedef struct {
    int64_t *triples; /* i, j, bits */
    size_t n, room;
} pairs_t;

static int push_pair(pairs_t *pairs, int64_t i, int64_t j, int64_t bits) {
    if (pairs->n == pairs->room) {
        const size_t room = pairs->room ? 2 * pairs->room : 1024;
        int64_t *triples = realloc(pairs->triples, 3 * room * sizeof *triples);
        if (!triples) return 0;
        pairs->triples = triples, pairs->room = room;
    }
    int64_t *triple = pairs->triples + 3 * pairs->n++;
    triple[0] = i, triple[1] = j, triple[2] = bits;
    return 1;
}

INLINE int join_with(const tables_t *tables, int table, const uint64_t *rows, const int64_t *ends,
                     int64_t start, int64_t stop, int distance, pairs_t *pairs, int n_words) {
    for (int64_t i = start; i < stop; i++)
        for (int64_t j = i + 1; j < ends[i]; j++) {
            const uint64_t *a = rows + i * n_words, *b = rows + j * n_words;
            const int bits = distance_of(a, b, n_words);
            if (bits <= distance && first_found_by(tables, table, a, b) &&
                !push_pair(pairs, i, j, bits))
                return 0;
        }
    return 1;
}

#define JOIN(name, target)                                                                     \
    target static int join_##name(const tables_t *tables, int table, const uint64_t *rows,     \
                                  const int64_t *ends, int64_t start, int64_t stop,            \
                                  int distance, pairs_t *pairs) {                              \
        if (tables->n_words == 1)                                                              \
            return join_with(tables, table, rows, ends, start, stop, distance, pairs, 1);      \
        return join_with(tables, table, rows, ends, start, stop, distance, pairs,              \
                         tables->n_words);                                                     \
    }

JOIN(portable, )
#if SIMD_X86
JOIN(avx2, TARGET_AVX2)
JOIN(avx512, TARGET_AVX512)
#endif

/* Pairs i < j < ends[i] within the distance that no earlier table brings together. 0: no memory. */
static int join_rows(int simd_level, const tables_t *tables, int table, const uint64_t *rows,
                     const int64_t *ends, int64_t start, int64_t stop, int distance,
                     pairs_t *pairs) {
#if SIMD_X86
    if (simd_level == SIMD_AVX512)
        return join_avx512(tables, table, rows, ends, start, stop, distance, pairs);
    if (simd_level == SIMD_AVX2)
        return join_avx2(tables, table, rows, ends, start, stop, distance, pairs);
#else
    (void)simd_level;
#endif
    return join_portable(tables, table, rows, ends, start, stop, distance, pairs);
}

#endif

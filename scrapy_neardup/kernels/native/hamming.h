/* Look-ups of signatures in tables of buckets; ../numpy_twin/hamming.py says what each thing is.
 *
 * Frozen, a bucket is a run of entries between offsets. In a memtable it is a chain of chunks
 * of cache lines (16 words of 32 bits), newest first; links are line numbers, 0 ends a chain.
 * Lines are in blocks that never move, so that growing copies nothing, and each chunk is in one.
 * A chunk of L lines: next, used | L << 16, then room for 8 L - 1
 * windows and as many slots; each chunk of a chain is half as long again as the one before.
 */
#ifndef NEARDUP_HAMMING_H
#define NEARDUP_HAMMING_H

#include "segment.h"

enum { LINE = 16, MOST_LINES = 64, BLOCK = 1 << 14, PIECE = 256, GROUP = 16 };

typedef struct {
    int n_tables, n_words, n_widths;
    const uint64_t *masks, *multipliers; /* n_tables x n_words */
    const int64_t *places;               /* n_tables x 2: word and rotation of the window */
    const int64_t *widths;               /* n_tables x n_widths */
} Tables;

typedef struct {
    Segment base;
    Tables tables;
    int shift;                                 /* 64 - directory bits */
    const uint32_t *probes;                    /* of one table after the other */
    const int64_t *probes_end;                 /* n_tables: where those of a table end */
    const uint32_t *offsets, *windows, *slots; /* frozen */
    uint32_t *heads, **blocks;                 /* of a memtable; NULL where frozen */
    uint64_t lines;                            /* in use, of BLOCK in each block */
} Buckets;

typedef struct {
    uint64_t start, length; /* frozen: entries of a bucket; in a memtable: first chunk */
} Span;

INLINE uint64_t turned(const Tables *tables, int table, const uint64_t *row) {
    const int64_t *place = tables->places + 2 * table;
    const uint64_t word = row[place[0]];
    const int turn = (int)place[1];
    return turn ? word >> turn | word << (64 - turn) : word;
}

INLINE uint64_t bucket_of(const Buckets *segment, int table, const uint64_t *row) {
    if (segment->tables.n_widths) return turned(&segment->tables, table, row) >> segment->shift;
    const int n_words = segment->base.n_words;
    const uint64_t *mask = segment->tables.masks + table * n_words;
    const uint64_t *multiplier = segment->tables.multipliers + table * n_words;
    uint64_t sum = 0;
    for (int w = 0; w < n_words; w++) sum += (row[w] & mask[w]) * multiplier[w];
    return sum >> segment->shift;
}

INLINE uint32_t window_of(const Tables *tables, int table, const uint64_t *row) {
    return (uint32_t)turned(tables, table, row);
}

INLINE uint32_t *line_at(const Buckets *segment, uint64_t line) {
    return PUBLISHED(&segment->blocks[line / BLOCK]) + line % BLOCK * LINE;
}

INLINE uint64_t n_buckets(const Buckets *segment) { return (uint64_t)1 << (64 - segment->shift); }

/* --- which of up to PIECE windows, or rows of one word, differ from one in at most `distance`
 * bits ---------------------------------------------------------------------------------------- */

typedef struct {
    int (*windows)(const uint32_t *, int, uint32_t, int, uint16_t *);
    int (*words)(const uint64_t *, int, uint64_t, int, uint16_t *);
} Scans;

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
    const __m256i counts = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1,
                                            2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
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

TARGET_AVX512 static int scan_words_avx512(const uint64_t *words, int n, uint64_t own, int distance,
                                           uint16_t *hits) {
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

TARGET_AVX512 static int scan_windows_avx512(const uint32_t *windows, int n, uint32_t own,
                                             int distance, uint16_t *hits) {
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
    Matches *matches;
} Query;

INLINE int leads_equal(const Tables *tables, int table, const uint64_t *a, const uint64_t *b) {
    const uint64_t *mask = tables->masks + table * tables->n_words;
    for (int w = 0; w < tables->n_words; w++)
        if ((a[w] ^ b[w]) & mask[w]) return 0;
    return 1;
}

/* Whether no earlier table has found the row already, and this one did by more than chance. */
INLINE int first_found_by(const Tables *tables, int table, const uint64_t *a, const uint64_t *b) {
    for (int t = 0; t < table; t++)
        if (leads_equal(tables, t, a, b)) return 0;
    return leads_equal(tables, table, a, b);
}

/* Whether a look-up for one row asks the bucket of the other in a table. */
INLINE int in_reach(const Buckets *segment, int table, const uint64_t *a, const uint64_t *b) {
    const Tables *tables = &segment->tables;
    const int64_t *widths = tables->widths + table * tables->n_widths;
    const uint64_t differing = turned(tables, table, a) ^ turned(tables, table, b);
    const int bits = 64 - segment->shift;
    for (int k = 0, end = 0; end < bits; k++) {
        end = end + (int)widths[k] < bits ? end + (int)widths[k] : bits;
        if (popcount(differing >> (64 - end)) > k) return 0;
    }
    return 1;
}

/* The same for the first of the tables that find the row. */
INLINE int first_reached_by(const Buckets *segment, int table, const uint64_t *a,
                            const uint64_t *b) {
    if (!segment->tables.n_widths) return first_found_by(&segment->tables, table, a, b);
    for (int t = 0; t < table; t++)
        if (in_reach(segment, t, a, b)) return 0;
    return 1;
}

/* Take a row if it is near and there. 0 if memory ran out. */
INLINE int confirm(const Buckets *segment, int table, uint64_t slot, Query *query) {
    const uint64_t *row = row_at(&segment->base, slot);
    const int bits = distance_of(row, query->row, segment->base.n_words);
    if (bits > query->distance || is_removed(&segment->base, slot)) return 1;
    if (!query->every) {
        if (segment->base.ids[slot] < query->first) query->first = segment->base.ids[slot];
        return 1;
    }
    if (!first_reached_by(segment, table, row, query->row)) return 1;
    return push(query->matches, (uint64_t)segment->base.ids[slot] << 32 | (unsigned)bits);
}

INLINE int scan_entries(const Buckets *segment, int table, const uint32_t *windows,
                        const uint32_t *slots, uint64_t n, Query *query, Scans scans) {
    const uint32_t own = window_of(&segment->tables, table, query->row);
    uint16_t hits[PIECE];
    for (uint64_t at = 0; at < n; at += PIECE) {
        const int piece = n - at < PIECE ? (int)(n - at) : PIECE;
        const int n_hits = scans.windows(windows + at, piece, own, query->distance, hits);
        for (int i = 0; i < n_hits; i++)
            if (!confirm(segment, table, slots[at + hits[i]], query)) return 0;
    }
    return 1;
}

INLINE int scan_rows(const Buckets *segment, uint64_t start, uint64_t n, Query *query,
                     Scans scans) {
    const int n_words = segment->base.n_words;
    const uint64_t *rows = segment->base.rows + start * n_words;
    uint16_t hits[PIECE];
    if (n_words > 1) {
        for (uint64_t i = 0; i < n; i++)
            if (popcount(rows[i * n_words] ^ query->row[0]) <= query->distance &&
                !confirm(segment, 0, start + i, query))
                return 0;
        return 1;
    }
    for (uint64_t at = 0; at < n; at += PIECE) {
        const int piece = n - at < PIECE ? (int)(n - at) : PIECE;
        const int n_hits = scans.words(rows + at, piece, query->row[0], query->distance, hits);
        for (int i = 0; i < n_hits; i++)
            if (!confirm(segment, 0, start + at + hits[i], query)) return 0;
    }
    return 1;
}

/* 1 done, 0 out of memory, -1 limit reached. */
INLINE int scan_chain(const Buckets *segment, int table, uint64_t line, Query *query, Scans scans) {
    while (line) {
        const uint32_t *chunk = line_at(segment, line);
        const uint32_t size = PUBLISHED(&chunk[1]);
        const uint32_t used = size & 0xFFFF, room = 8 * (size >> 16) - 1;
        if ((query->limit -= used) < 0) return -1;
        if (!scan_entries(segment, table, chunk + 2, chunk + 2 + room, used, query, scans))
            return 0;
        line = chunk[0];
    }
    return 1;
}

INLINE int scan_bucket(const Buckets *segment, int table, Span span, Query *query, Scans scans) {
    if (segment->heads) return scan_chain(segment, table, span.start, query, scans);
    if ((query->limit -= (int64_t)span.length) < 0) return -1;
    if (!table) return scan_rows(segment, span.start, span.length, query, scans);
    const uint64_t from = (table - 1) * segment->base.n + span.start;
    return scan_entries(segment, table, segment->windows + from, segment->slots + from, span.length,
                        query, scans);
}

/* --- many queries over several segments ------------------------------------------------------ */

/* How many buckets a look-up asks in the first tables. */
INLINE int64_t n_asked(const Buckets *segment, int tables) {
    return tables ? segment->probes_end[tables - 1] : 0;
}

INLINE int64_t n_asked_of_all(Buckets *const *segments, int n_segments) {
    int64_t n = 0;
    for (int i = 0; i < n_segments; i++) n += n_asked(segments[i], segments[i]->tables.n_tables);
    return n;
}

INLINE void find_buckets(const Buckets *segment, const uint64_t *row, Span *spans) {
    for (int t = 0; t < segment->tables.n_tables; t++) {
        const uint64_t own = bucket_of(segment, t, row);
        for (int64_t p = n_asked(segment, t); p < segment->probes_end[t]; p++) {
            const uint64_t bucket = spans[p].start = own ^ segment->probes[p];
            if (segment->heads)
                PREFETCH(segment->heads + t * n_buckets(segment) + bucket);
            else
                PREFETCH(segment->offsets + t * (n_buckets(segment) + 1) + bucket);
        }
    }
}

INLINE void find_entries(const Buckets *segment, int table, Span *span) {
    if (segment->heads) {
        span->start = PUBLISHED(&segment->heads[table * n_buckets(segment) + span->start]);
        if (span->start) PREFETCH(line_at(segment, span->start));
        return;
    }
    const uint32_t *offset = segment->offsets + table * (n_buckets(segment) + 1) + span->start;
    span->start = offset[0], span->length = offset[1] - offset[0];
    if (!table) {
        const uint64_t *row = segment->base.rows + span->start * segment->base.n_words;
        PREFETCH(row), PREFETCH(row + 8), PREFETCH(row + 16);
        return;
    }
    const uint32_t *window = segment->windows + (table - 1) * segment->base.n + span->start;
    PREFETCH(window), PREFETCH(window + 16);
}

INLINE void find_all_entries(const Buckets *segment, Span *spans) {
    for (int t = 0; t < segment->tables.n_tables; t++)
        for (int64_t p = n_asked(segment, t); p < segment->probes_end[t]; p++)
            find_entries(segment, t, spans + p);
}

/* 1 done, 0 out of memory, -1 limit reached. */
INLINE int scan_segment(const Buckets *segment, const Span *spans, Query *query, Scans scans) {
    for (int t = 0; t < segment->tables.n_tables; t++)
        for (int64_t p = n_asked(segment, t); p < segment->probes_end[t]; p++) {
            const int state = scan_bucket(segment, t, spans[p], query, scans);
            if (state <= 0) return state;
        }
    return 1;
}

/* 1 done, 0 out of memory. */
INLINE int answer(Buckets *const *segments, int n_segments, const Span *spans, Query *query,
                  int64_t *out, Scans scans) {
    const size_t before = query->matches->n;
    query->first = UINT64_MAX;
    for (int i = 0; i < n_segments; i++) {
        const int state = scan_segment(segments[i], spans, query, scans);
        if (!state) return 0;
        if (state < 0) {
            query->matches->n = before;
            *out = OVER_LIMIT;
            return 1;
        }
        spans += n_asked(segments[i], segments[i]->tables.n_tables);
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
INLINE int look_up_with(Buckets *const *segments, int n_segments, const uint64_t *rows, int64_t n,
                        Query query, Span *spans, int64_t *out, Scans scans) {
    const int n_words = segments[0]->base.n_words;
    const int64_t each = n_asked_of_all(segments, n_segments), limit = query.limit;
    for (int64_t at = 0; at < n; at += GROUP) {
        const int size = n - at < GROUP ? (int)(n - at) : GROUP;
        Span *own = spans;
        for (int q = 0; q < size; q++)
            for (int i = 0; i < n_segments; own += n_asked_of_all(segments + i++, 1))
                find_buckets(segments[i], rows + (at + q) * n_words, own);
        own = spans;
        for (int q = 0; q < size; q++)
            for (int i = 0; i < n_segments; own += n_asked_of_all(segments + i++, 1))
                find_all_entries(segments[i], own);
        for (int q = 0; q < size; q++) {
            query.row = rows + (at + q) * n_words, query.limit = limit;
            if (!answer(segments, n_segments, spans + q * each, &query, out + at + q, scans))
                return 0;
        }
    }
    return 1;
}

typedef int (*LookUpAt)(Buckets *const *, int, const uint64_t *, int64_t, Query, Span *, int64_t *);

static int look_up_portable(Buckets *const *segments, int n_segments, const uint64_t *rows,
                            int64_t n, Query query, Span *spans, int64_t *out) {
    const Scans scans = {scan_windows_portable, scan_words_portable};
    return look_up_with(segments, n_segments, rows, n, query, spans, out, scans);
}

#if SIMD_X86
TARGET_AVX2 static int look_up_avx2(Buckets *const *segments, int n_segments, const uint64_t *rows,
                                    int64_t n, Query query, Span *spans, int64_t *out) {
    const Scans scans = {scan_windows_avx2, scan_words_avx2};
    return look_up_with(segments, n_segments, rows, n, query, spans, out, scans);
}

TARGET_AVX512 static int look_up_avx512(Buckets *const *segments, int n_segments,
                                        const uint64_t *rows, int64_t n, Query query, Span *spans,
                                        int64_t *out) {
    const Scans scans = {scan_windows_avx512, scan_words_avx512};
    return look_up_with(segments, n_segments, rows, n, query, spans, out, scans);
}
#endif

/* The answer to each query in `out`: the smallest id, or (query.every) how many match, with
 * the matches themselves appended to query.matches. 0 if memory ran out. */
static int look_up(int simd_level, Buckets *const *segments, int n_segments, const uint64_t *rows,
                   int64_t n, Query query, int64_t *out) {
    Span few[64];
    const size_t each = (size_t)n_asked_of_all(segments, n_segments);
    const size_t needed = each * (n < GROUP ? (size_t)n : GROUP);
    Span *spans = needed <= 64 ? few : malloc(needed * sizeof *spans);
    LookUpAt run = look_up_portable;
    if (!spans) return 0;
#if SIMD_X86
    if (simd_level == SIMD_AVX2) run = look_up_avx2;
    if (simd_level == SIMD_AVX512) run = look_up_avx512;
#else
    (void)simd_level;
#endif
    const int done = run(segments, n_segments, rows, n, query, spans, out);
    if (spans != few) free(spans);
    return done;
}

/* --- changes ------------------------------------------------------------------------------- */

/* Room for the addresses of all blocks: no chain has more lines than entries. NULL: no memory. */
static uint32_t **new_blocks(uint64_t n_entries) {
    return calloc(n_entries / (BLOCK - MOST_LINES) + 2, sizeof(uint32_t *));
}

static void free_blocks(uint32_t **blocks, uint64_t lines) {
    for (uint64_t b = 0; blocks && b <= lines / BLOCK; b++) free(blocks[b]);
    free(blocks);
}

/* A chunk to follow another (0: the first) in a chain: its line, 0 if memory ran out. */
static uint64_t new_chunk(Buckets *segment, uint64_t after) {
    uint64_t lines = 1, line = segment->lines;
    if (after) {
        const uint64_t old = line_at(segment, after)[1] >> 16;
        lines = old + (old + 1) / 2 < MOST_LINES ? old + (old + 1) / 2 : MOST_LINES;
    }
    if (line % BLOCK + lines > BLOCK) line += BLOCK - line % BLOCK;
    if (!segment->blocks[line / BLOCK]) {
        uint32_t *block = malloc(BLOCK * LINE * sizeof *block);
        if (!block) return 0;
        PUBLISH(&segment->blocks[line / BLOCK], block);
    }
    uint32_t *chunk = line_at(segment, line);
    chunk[0] = (uint32_t)after;
    chunk[1] = (uint32_t)lines << 16;
    segment->lines = line + lines;
    return line;
}

static int append_entry(Buckets *segment, int table, const uint64_t *row, uint32_t slot) {
    uint32_t *head = segment->heads + table * n_buckets(segment) + bucket_of(segment, table, row);
    uint32_t *chunk = *head ? line_at(segment, *head) : NULL;
    if (!chunk || (chunk[1] & 0xFFFF) == 8 * (chunk[1] >> 16) - 1) {
        const uint64_t line = new_chunk(segment, *head);
        if (!line) return 0;
        PUBLISH(head, (uint32_t)line);
        chunk = line_at(segment, line);
    }
    const uint32_t used = chunk[1] & 0xFFFF, room = 8 * (chunk[1] >> 16) - 1;
    chunk[2 + used] = window_of(&segment->tables, table, row);
    chunk[2 + room + used] = slot;
    PUBLISH(&chunk[1], chunk[1] + 1);
    return 1;
}

/* Append pairs to a memtable that has room for them. 0 if memory ran out. */
static int append(Buckets *segment, const uint64_t *rows, const uint32_t *ids, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const uint64_t *row = rows + i * segment->base.n_words;
        put_pair(&segment->base, segment->base.n, row, ids[i]);
        for (int t = 0; t < segment->tables.n_tables; t++)
            if (!append_entry(segment, t, row, (uint32_t)segment->base.n)) return 0;
        segment->base.n++;
    }
    return 1;
}

/* How many copies of the pair there are; they are removed if they are to be forgotten. */
static int64_t take_pair(Buckets *segment, const uint64_t *row, uint32_t id, int forget) {
    const uint64_t bucket = bucket_of(segment, 0, row);
    int64_t n = 0;
    if (!segment->heads) {
        for (uint64_t slot = segment->offsets[bucket]; slot < segment->offsets[bucket + 1]; slot++)
            n += take_slot(&segment->base, slot, row, id, forget);
        return n;
    }
    const uint32_t own = window_of(&segment->tables, 0, row);
    const uint32_t *chunk;
    for (uint64_t line = PUBLISHED(&segment->heads[bucket]); line; line = chunk[0]) {
        chunk = line_at(segment, line);
        const uint32_t size = PUBLISHED(&chunk[1]);
        const uint32_t used = size & 0xFFFF, room = 8 * (size >> 16) - 1;
        for (uint32_t i = 0; i < used; i++)
            if (chunk[2 + i] == own)
                n += take_slot(&segment->base, chunk[2 + room + i], row, id, forget);
    }
    return n;
}

/* --- freezing ------------------------------------------------------------------------------- */

/* The bucket of each row, and where each bucket of the table starts. */
static void count_buckets(const Buckets *segment, int table, const uint64_t *rows, uint32_t *own,
                          uint32_t *offsets) {
    const uint64_t buckets = n_buckets(segment);
    memset(offsets, 0, (buckets + 1) * sizeof *offsets);
    for (uint64_t i = 0; i < segment->base.n; i++) {
        own[i] = (uint32_t)bucket_of(segment, table, rows + i * segment->base.n_words);
        offsets[own[i]]++;
    }
    starts_of_sizes(offsets, buckets);
}

/* Sort pairs into segment->base.rows and segment->base.ids by the first table's buckets. */
static void build_first(const Buckets *segment, const uint64_t *rows, const uint32_t *ids,
                        uint32_t *own, uint32_t *offsets) {
    const int n_words = segment->base.n_words;
    count_buckets(segment, 0, rows, own, offsets);
    for (uint64_t i = 0; i < segment->base.n; i++) {
        put_pair(&segment->base, offsets[own[i]]++, rows + i * n_words, ids[i]);
    }
    restore_starts(offsets, n_buckets(segment));
}

/* Sort entries for segment->base.rows by another table's buckets. */
static void build_other(const Buckets *segment, int table, uint32_t *own, uint32_t *offsets,
                        uint32_t *windows, uint32_t *slots) {
    const int n_words = segment->base.n_words;
    count_buckets(segment, table, segment->base.rows, own, offsets);
    for (uint64_t slot = 0; slot < segment->base.n; slot++) {
        const uint32_t at = offsets[own[slot]]++;
        windows[at] = window_of(&segment->tables, table, segment->base.rows + slot * n_words);
        slots[at] = (uint32_t)slot;
    }
    restore_starts(offsets, n_buckets(segment));
}

/* --- all pairs of a sorted collection ------------------------------------------------------ */

typedef struct {
    int64_t *triples; /* i, j, bits */
    size_t n, room;
} PairList;

static int push_pair(PairList *pairs, int64_t i, int64_t j, int64_t bits) {
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

INLINE int join_with(const Tables *tables, int table, const uint64_t *rows, const int64_t *ends,
                     int64_t start, int64_t stop, int distance, PairList *pairs, int n_words) {
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

#define JOIN(name, target)                                                                        \
    target static int join_##name(const Tables *tables, int table, const uint64_t *rows,          \
                                  const int64_t *ends, int64_t start, int64_t stop, int distance, \
                                  PairList *pairs) {                                              \
        if (tables->n_words == 1)                                                                 \
            return join_with(tables, table, rows, ends, start, stop, distance, pairs, 1);         \
        return join_with(tables, table, rows, ends, start, stop, distance, pairs,                 \
                         tables->n_words);                                                        \
    }

JOIN(portable, )
#if SIMD_X86
JOIN(avx2, TARGET_AVX2)
JOIN(avx512, TARGET_AVX512)
#endif

/* Pairs i < j < ends[i] within the distance that no earlier table brings together. 0: no memory. */
static int join_rows(int simd_level, const Tables *tables, int table, const uint64_t *rows,
                     const int64_t *ends, int64_t start, int64_t stop, int distance,
                     PairList *pairs) {
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

/* Look-ups in lists of equal slices; numpy_twin/slices.py says what each thing is.
 *
 * A frozen tier's lists are runs of postings between offsets. A live tier's are chains through
 * `nexts`, newest first; links are slots plus one, 0 ends a chain.
 */
#ifndef NEARDUP_SLICES_H
#define NEARDUP_SLICES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "simd.h"

enum { VERIFY_ALL, VERIFY_BOUNDS, VERIFY_SCORE };
enum { MOST_WORDS = 16, LINE_WORDS = 8, AHEAD = 32, BATCH = 64, MOST_BITS = 1024 };

typedef struct {
    int n_slices, n_words;
    const int64_t *starts, *widths, *bases;
} shape_t;

typedef struct {
    shape_t shape;
    uint64_t n, stride; /* rows; room for rows in each slice's part of postings or nexts */
    uint64_t *rows;
    uint32_t *ids;
    uint8_t *removed;                   /* may be NULL */
    const uint32_t *offsets, *postings; /* frozen */
    uint32_t *heads, *nexts;            /* live; NULL in a frozen tier */
} tier_t;

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(address) __builtin_prefetch(address)
#elif SIMD_X86
#define PREFETCH(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)
#else
#define PREFETCH(address) ((void)(address))
#endif

INLINE uint32_t slice_of(const shape_t *shape, int s, const uint64_t *row) {
    const int word = (int)(shape->starts[s] / 64), low = (int)(shape->starts[s] % 64);
    const int width = (int)shape->widths[s];
    uint64_t value = row[word] >> low;
    if (low + width > 64) value |= row[word + 1] << (64 - low);
    return (uint32_t)(value & (((uint64_t)1 << width) - 1));
}

/* The next larger number with as many bits set; x is not 0. */
INLINE uint32_t next_mask(uint32_t x) {
    const uint32_t low = x & (0u - x), sum = x + low;
    return sum | ((x ^ sum) >> 2) / low;
}

/* --- candidates ---------------------------------------------------------------------------- */

typedef struct {
    uint32_t *slots; /* candidates, in the order they were met */
    uint64_t n, room;
    uint32_t *accounts; /* by slot: slices seen << 24 | bits differing << 12 | bits seen; or NULL */
    uint64_t *met;      /* without accounts: by slot, one bit, whether it is a candidate */
    int64_t limit;      /* postings that may still be read */
} search_t;

static int reserve(search_t *search, uint64_t more) {
    if (search->n + more > search->room) {
        const uint64_t room = 2 * (search->n + more) + 1024;
        uint32_t *slots = realloc(search->slots, room * sizeof *slots);
        if (!slots) return 0;
        search->slots = slots, search->room = room;
    }
    return 1;
}

/* The next three do not branch: which rows were met before cannot be predicted. */

INLINE void admit(search_t *search, uint32_t slot) {
    const uint64_t word = search->met[slot / 64];
    search->slots[search->n] = slot;
    search->n += ~(word >> (slot % 64)) & 1;
    search->met[slot / 64] = word | (uint64_t)1 << (slot % 64);
}

INLINE void admit_and_credit(search_t *search, uint32_t slot, uint32_t credit) {
    const uint32_t account = search->accounts[slot];
    search->slots[search->n] = slot;
    search->n += !account;
    search->accounts[slot] = account + credit;
}

INLINE void credit_candidate(search_t *search, uint32_t slot, uint32_t credit) {
    const uint32_t account = search->accounts[slot];
    search->accounts[slot] = account + (credit & (0u - (uint32_t)(account != 0)));
}

INLINE void meet(search_t *search, uint32_t slot, int admitted, uint32_t credit) {
    if (!search->accounts) admit(search, slot);
    else if (admitted) admit_and_credit(search, slot, credit);
    else credit_candidate(search, slot, credit);
}

/* A chain of a live tier. 1 done, 0 out of memory, -1 limit reached. */
static int read_chain(const uint32_t *nexts, uint32_t link, int admitted, uint32_t credit,
                      search_t *search) {
    for (; link; link = nexts[link - 1]) {
        if (--search->limit < 0) return -1;
        if (!reserve(search, 1)) return 0;
        meet(search, link - 1, admitted, credit);
    }
    return 1;
}

typedef struct {
    uint64_t at; /* of its offset, or its head */
    int s;
    uint32_t credit;
} list_t;

/* Lists to read, gathered so that their misses overlap. */
typedef struct {
    list_t lists[BATCH];
    int n;
} batch_t;

static int read_chains(const tier_t *tier, const batch_t *batch, int admitted,
                       search_t *search) {
    int state = 1;
    for (int i = 0; i < batch->n && state > 0; i++) {
        const list_t *list = batch->lists + i;
        state = read_chain(tier->nexts + list->s * tier->stride, tier->heads[list->at], admitted,
                           list->credit, search);
    }
    return state;
}

/* 1 done, 0 out of memory, -1 limit reached. */
INLINE int read_runs(const tier_t *tier, const batch_t *batch, int admitted, search_t *search) {
    const uint32_t *starts[BATCH], *ends[BATCH];
    uint64_t total = 0;
    for (int i = 0; i < batch->n; i++) {
        const list_t *list = batch->lists + i;
        const uint32_t *postings = tier->postings + list->s * tier->stride;
        starts[i] = postings + tier->offsets[list->at];
        ends[i] = postings + tier->offsets[list->at + 1];
        PREFETCH(starts[i]), PREFETCH(ends[i] - 1);
        total += (uint64_t)(ends[i] - starts[i]);
    }
    if ((search->limit -= (int64_t)total) < 0) return -1;
    if (!reserve(search, total)) return 0;
    if (!search->accounts)
        for (int i = 0; i < batch->n; i++)
            for (const uint32_t *at = starts[i]; at < ends[i]; at++) admit(search, *at);
    else if (admitted)
        for (int i = 0; i < batch->n; i++)
            for (const uint32_t *at = starts[i]; at < ends[i]; at++)
                admit_and_credit(search, *at, batch->lists[i].credit);
    else
        for (int i = 0; i < batch->n; i++)
            for (const uint32_t *at = starts[i]; at < ends[i]; at++)
                credit_candidate(search, *at, batch->lists[i].credit);
    return 1;
}

INLINE int read_batch(const tier_t *tier, batch_t *batch, int admitted, search_t *search) {
    const int state = tier->heads ? read_chains(tier, batch, admitted, search)
                                  : read_runs(tier, batch, admitted, search);
    batch->n = 0;
    return state;
}

/* All lists of a slice whose value differs from the row's in exactly `distance` bits; full
 * batches are read. */
INLINE int gather_ring(const tier_t *tier, int s, const uint64_t *row, int distance, int admitted,
                       batch_t *batch, search_t *search) {
    const uint32_t own = slice_of(&tier->shape, s, row);
    const uint64_t end = (uint64_t)1 << tier->shape.widths[s];
    const uint32_t credit =
        1u << 24 | (uint32_t)distance << 12 | (uint32_t)tier->shape.widths[s];
    for (uint64_t mask = ((uint64_t)1 << distance) - 1; mask < end;
         mask = mask ? next_mask((uint32_t)mask) : end) {
        const list_t list = {tier->shape.bases[s] + (own ^ (uint32_t)mask), s, credit};
        PREFETCH(tier->heads ? tier->heads + list.at : tier->offsets + list.at);
        batch->lists[batch->n++] = list;
        if (batch->n < BATCH) continue;
        const int state = read_batch(tier, batch, admitted, search);
        if (state < 1) return state;
    }
    return 1;
}

/* Read lists up to `expand` bits away, nearest first; those up to `admitted` bring candidates. */
INLINE int read_all_lists(const tier_t *tier, const uint64_t *row, int expand, int admitted,
                          search_t *search) {
    batch_t batch;
    int state = 1;
    batch.n = 0;
    for (int distance = 0; distance <= expand && state > 0; distance++) {
        for (int s = 0; s < tier->shape.n_slices && state > 0; s++)
            state = gather_ring(tier, s, row, distance, distance <= admitted, &batch, search);
        if (state > 0) state = read_batch(tier, &batch, distance <= admitted, search);
    }
    return state;
}

/* Candidates by slot, so that their rows are met in the order of memory; only where there are
 * enough of them to pay for a pass over the bits. */
static void order_candidates(const tier_t *tier, search_t *search) {
    const uint64_t n_words = tier->n / 64 + 1;
    if (search->accounts || search->n < n_words / 8) return;
    search->n = 0;
    for (uint64_t w = 0; w < n_words; w++)
        for (uint64_t word = search->met[w]; word; word &= word - 1)
            search->slots[search->n++] = (uint32_t)(64 * w + trailing_zeros(word));
}

/* Make a search ready for the next query. */
static void forget_candidates(search_t *search) {
    for (uint64_t i = 0; i < search->n; i++)
        if (search->accounts) search->accounts[search->slots[i]] = 0;
        else search->met[search->slots[i] / 64] = 0;
    search->n = 0;
}

static void drop_removed(const tier_t *tier, search_t *search) {
    uint64_t kept = 0;
    if (!tier->removed) return;
    for (uint64_t i = 0; i < search->n; i++) {
        const uint32_t slot = search->slots[i];
        search->slots[kept] = slot;
        if (!tier->removed[slot]) kept++;
        else if (search->accounts) search->accounts[slot] = 0;
        else search->met[slot / 64] &= ~((uint64_t)1 << (slot % 64));
    }
    search->n = kept;
}

/* --- the n smallest keys -------------------------------------------------------------------- */

typedef struct {
    uint64_t *keys; /* distance << 32 | id, ascending; an id once */
    int n, room;
} nearest_t;

static void offer(nearest_t *nearest, uint64_t key) {
    int at = nearest->n, same = -1;
    if (at == nearest->room && key >= nearest->keys[at - 1]) return;
    for (int i = 0; i < nearest->n; i++)
        if ((uint32_t)nearest->keys[i] == (uint32_t)key) same = i;
    if (same >= 0 && nearest->keys[same] <= key) return;
    const int last = same >= 0 ? same : nearest->n < nearest->room ? nearest->n++ : nearest->n - 1;
    for (at = last; at > 0 && nearest->keys[at - 1] > key; at--)
        nearest->keys[at] = nearest->keys[at - 1];
    nearest->keys[at] = key;
}

INLINE int pessimistic_of(uint32_t account, int n_bits) {
    return (int)(account >> 12 & 0xFFF) + n_bits - (int)(account & 0xFFF);
}

typedef struct {
    uint64_t key; /* pessimistic distance << 32 | id */
    uint32_t slot;
} scored_t;

INLINE int better(scored_t a, scored_t b) {
    return a.key != b.key ? a.key < b.key : a.slot < b.slot;
}

/* Keep the n candidates of the best pessimistic distance, then by id and slot. 0: no memory. */
static int keep_best(const tier_t *tier, search_t *search, int n) {
    const int n_bits = 64 * tier->shape.n_words;
    scored_t *best = malloc(n * sizeof *best);
    int n_best = 0;
    if (!best) return 0;
    for (uint64_t i = 0; i < search->n; i++) {
        const uint32_t slot = search->slots[i];
        const uint64_t score = (uint64_t)pessimistic_of(search->accounts[slot], n_bits);
        const scored_t own = {score << 32 | tier->ids[slot], slot};
        if (n_best == n && !better(own, best[n - 1])) continue;
        int at = n_best < n ? n_best++ : n - 1;
        for (; at > 0 && better(own, best[at - 1]); at--) best[at] = best[at - 1];
        best[at] = own;
    }
    forget_candidates(search);
    for (int i = 0; i < n_best; i++) search->slots[i] = best[i].slot;
    search->n = (uint64_t)n_best;
    free(best);
    return 1;
}

/* Keep candidates whose optimistic distance is at most the n-th best pessimistic one. */
static void keep_possible(const tier_t *tier, search_t *search, int n, int expand) {
    const int n_bits = 64 * tier->shape.n_words;
    uint64_t counts[MOST_BITS + 1] = {0}, kept = 0;
    int bound = 0;
    for (uint64_t i = 0; i < search->n; i++)
        counts[pessimistic_of(search->accounts[search->slots[i]], n_bits)]++;
    for (uint64_t total = counts[0]; total < (uint64_t)n; total += counts[bound]) bound++;
    for (uint64_t i = 0; i < search->n; i++) {
        const uint32_t slot = search->slots[i], account = search->accounts[slot];
        const int unseen = tier->shape.n_slices - (int)(account >> 24);
        const int optimistic = (int)(account >> 12 & 0xFFF) + unseen * (expand + 1);
        search->accounts[slot] = 0;
        search->slots[kept] = slot;
        kept += optimistic <= bound;
    }
    search->n = kept;
}

/* --- queries ---------------------------------------------------------------------------------- */

typedef struct {
    int n, expand, admit, verify;
} rules_t;

INLINE uint64_t worst_of(const nearest_t *nearest) {
    return nearest->n < nearest->room ? UINT64_MAX : nearest->keys[nearest->n - 1] >> 32;
}

/* Ask for the first words of a candidate's row. */
INLINE void prefetch_row(const tier_t *tier, const search_t *search, uint64_t i, int words) {
    if (i >= search->n) return;
    const uint64_t *row = tier->rows + (uint64_t)search->slots[i] * tier->shape.n_words;
    for (int w = 0; w < words; w += LINE_WORDS) PREFETCH(row + w);
}

INLINE void verify_nearest(const tier_t *tier, const uint64_t *row, const search_t *search,
                           nearest_t *nearest) {
    const int n_words = tier->shape.n_words;
    for (uint64_t i = 0; i < AHEAD; i++) prefetch_row(tier, search, i, n_words);
    for (uint64_t i = 0; i < search->n; i++) {
        const uint64_t slot = search->slots[i];
        prefetch_row(tier, search, i + AHEAD, n_words);
        const uint64_t bits = (uint64_t)distance_of(tier->rows + slot * n_words, row, n_words);
        if (bits <= worst_of(nearest)) offer(nearest, bits << 32 | tier->ids[slot]);
    }
}

/* 0 if memory ran out. */
INLINE int nearest_in(const tier_t *tier, const uint64_t *row, rules_t rules, search_t *search,
                      nearest_t *nearest) {
    /* Lists that bring no candidates only serve the accounts. */
    const int expand = search->accounts ? rules.expand : rules.admit;
    if (!read_all_lists(tier, row, expand, rules.admit, search)) return 0;
    drop_removed(tier, search);
    order_candidates(tier, search);
    if (rules.verify != VERIFY_ALL && search->n > (uint64_t)rules.n) {
        if (rules.verify == VERIFY_BOUNDS) keep_possible(tier, search, rules.n, rules.expand);
        else if (!keep_best(tier, search, rules.n)) return 0;
    }
    verify_nearest(tier, row, search, nearest);
    forget_candidates(search);
    return 1;
}

/* 1 done, 0 out of memory, -1 limit reached. Matches: id << 32 | distance, unsorted. */
INLINE int within_in(const tier_t *tier, const uint64_t *row, int distance, int expand,
                     search_t *search, uint64_t **keys, size_t *n_keys, size_t *room) {
    const int n_words = tier->shape.n_words;
    const int first = n_words < LINE_WORDS ? n_words : LINE_WORDS; /* most are too far by these */
    const int state = read_all_lists(tier, row, expand, expand, search);
    if (state < 1) {
        forget_candidates(search);
        return state;
    }
    for (uint64_t i = 0; i < AHEAD; i++) prefetch_row(tier, search, i, first);
    for (uint64_t i = 0; i < search->n; i++) {
        const uint64_t slot = search->slots[i];
        const uint64_t *own = tier->rows + slot * n_words;
        prefetch_row(tier, search, i + AHEAD, first);
        int bits = distance_of(own, row, first);
        if (bits > distance || (tier->removed && tier->removed[slot])) continue;
        bits += distance_of(own + first, row + first, n_words - first);
        if (bits > distance) continue;
        if (*n_keys == *room) {
            const size_t more = *room ? 2 * *room : 256;
            uint64_t *grown = realloc(*keys, more * sizeof *grown);
            if (!grown) return 0;
            *keys = grown, *room = more;
        }
        (*keys)[(*n_keys)++] = (uint64_t)tier->ids[slot] << 32 | (unsigned)bits;
    }
    forget_candidates(search);
    return 1;
}

/* Compare a block of rows, small enough for a cache, with each of some queries. */
INLINE void scan_block(const tier_t *tier, uint64_t from, uint64_t to, const uint64_t *queries,
                       int64_t n, nearest_t *nearest) {
    const int n_words = tier->shape.n_words;
    for (int64_t q = 0; q < n; q++) {
        const uint64_t *row = queries + q * n_words;
        nearest_t *own = nearest + q;
        uint64_t worst = worst_of(own);
        for (uint64_t slot = from; slot < to; slot++) {
            const uint64_t bits =
                (uint64_t)distance_of(tier->rows + slot * n_words, row, n_words);
            if (bits > worst || (tier->removed && tier->removed[slot])) continue;
            offer(own, bits << 32 | tier->ids[slot]);
            worst = worst_of(own);
        }
    }
}

/* The three above at each level. A number of words that the compiler knew would be unrolled into
 * scalar population counts. */
#define AT_LEVEL(name, target)                                                                 \
    target static int nearest_##name(const tier_t *tier, const uint64_t *row, rules_t rules,   \
                                     search_t *search, nearest_t *nearest) {                   \
        return nearest_in(tier, row, rules, search, nearest);                                  \
    }                                                                                          \
    target static int within_##name(const tier_t *tier, const uint64_t *row, int distance,     \
                                    int expand, search_t *search, uint64_t **keys,             \
                                    size_t *n_keys, size_t *room) {                            \
        return within_in(tier, row, distance, expand, search, keys, n_keys, room);             \
    }                                                                                          \
    target static void scan_##name(const tier_t *tier, uint64_t from, uint64_t to,             \
                                   const uint64_t *queries, int64_t n, nearest_t *nearest) {   \
        scan_block(tier, from, to, queries, n, nearest);                                       \
    }

AT_LEVEL(portable, )
#if SIMD_X86
AT_LEVEL(avx2, TARGET_AVX2)
AT_LEVEL(avx512, TARGET_AVX512)
#define CALL(level, name, ...)                                                                 \
    ((level) == SIMD_AVX512 ? name##_avx512(__VA_ARGS__)                                       \
     : (level) == SIMD_AVX2 ? name##_avx2(__VA_ARGS__)                                         \
                            : name##_portable(__VA_ARGS__))
#else
#define CALL(level, name, ...) ((void)(level), name##_portable(__VA_ARGS__))
#endif

/* Room for the candidates of a tier of n rows. 0 if memory ran out. */
static int begin_search(search_t *search, uint64_t n, int accounts) {
    memset(search, 0, sizeof *search);
    search->limit = INT64_MAX;
    if (accounts) search->accounts = calloc(n + 1, sizeof *search->accounts);
    else search->met = calloc(n / 64 + 1, sizeof *search->met);
    return search->met || search->accounts;
}

static void end_search(search_t *search) {
    free(search->slots), free(search->met), free(search->accounts);
}

static uint64_t largest_of(tier_t *const *tiers, int n_tiers) {
    uint64_t n = 0;
    for (int i = 0; i < n_tiers; i++) n = tiers[i]->n > n ? tiers[i]->n : n;
    return n;
}

/* keys: n_queries x rules.n; how many of them are filled in counts. 0 if memory ran out. */
static int nearest_of(int level, tier_t *const *tiers, int n_tiers, const uint64_t *queries,
                      int64_t n_queries, rules_t rules, uint64_t *keys, int64_t *counts) {
    search_t search;
    int done = begin_search(&search, largest_of(tiers, n_tiers), rules.verify != VERIFY_ALL);
    for (int64_t q = 0; done && q < n_queries; q++) {
        nearest_t nearest = {keys + q * rules.n, 0, rules.n};
        const uint64_t *row = queries + q * tiers[0]->shape.n_words;
        for (int i = 0; done && i < n_tiers; i++)
            done = CALL(level, nearest, tiers[i], row, rules, &search, &nearest);
        counts[q] = nearest.n;
    }
    end_search(&search);
    return done;
}

static int ascending(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Matches of each query by id, each id once at its smallest distance, in one growing array;
 * counts: how many, -2 where the limit was reached. 0 if memory ran out. */
static int within_of(int level, tier_t *const *tiers, int n_tiers, const uint64_t *queries,
                     int64_t n_queries, int distance, int expand, int64_t limit,
                     uint64_t **keys, int64_t *counts) {
    search_t search;
    size_t n = 0, room = 0;
    int state = begin_search(&search, largest_of(tiers, n_tiers), 0);
    for (int64_t q = 0; state && q < n_queries; q++) {
        const size_t before = n;
        search.limit = limit, state = 1;
        for (int i = 0; state > 0 && i < n_tiers; i++)
            state = CALL(level, within, tiers[i], queries + q * tiers[0]->shape.n_words, distance,
                         expand, &search, keys, &n, &room);
        if (state < 0) {
            n = before, counts[q] = -2;
            continue;
        }
        size_t kept = before;
        if (n > before + 1) qsort(*keys + before, n - before, sizeof **keys, ascending);
        for (size_t i = before; i < n; i++)
            if (i == before || (*keys)[i] >> 32 != (*keys)[i - 1] >> 32)
                (*keys)[kept++] = (*keys)[i];
        counts[q] = (int64_t)(kept - before), n = kept;
    }
    end_search(&search);
    return state != 0;
}

/* nearest_of by comparing everything: each block of rows stays in the cache for all queries. */
static int scan_of(int level, tier_t *const *tiers, int n_tiers, const uint64_t *queries,
                   int64_t n_queries, int n, uint64_t *keys, int64_t *counts) {
    const uint64_t block = 1 << 17; /* bytes: fits any second-level cache */
    nearest_t *nearest = calloc((size_t)n_queries, sizeof *nearest);
    if (!nearest) return 0;
    for (int64_t q = 0; q < n_queries; q++) nearest[q].keys = keys + q * n, nearest[q].room = n;
    for (int i = 0; i < n_tiers; i++) {
        const uint64_t step = block / (8 * (uint64_t)tiers[i]->shape.n_words);
        for (uint64_t from = 0; from < tiers[i]->n; from += step) {
            const uint64_t to = from + step < tiers[i]->n ? from + step : tiers[i]->n;
            CALL(level, scan, tiers[i], from, to, queries, n_queries, nearest);
        }
    }
    for (int64_t q = 0; q < n_queries; q++) counts[q] = nearest[q].n;
    free(nearest);
    return 1;
}

/* --- changes ------------------------------------------------------------------------------- */

/* Append rows to a live tier that has room for them. */
static void append(tier_t *tier, const uint64_t *rows, const uint32_t *ids, int64_t n) {
    const int n_words = tier->shape.n_words;
    for (int64_t i = 0; i < n; i++, tier->n++) {
        const uint64_t *row = rows + i * n_words;
        memcpy(tier->rows + tier->n * n_words, row, n_words * sizeof *row);
        tier->ids[tier->n] = ids[i];
        for (int s = 0; s < tier->shape.n_slices; s++) {
            uint32_t *head = tier->heads + tier->shape.bases[s] + slice_of(&tier->shape, s, row);
            tier->nexts[s * tier->stride + tier->n] = *head;
            *head = (uint32_t)tier->n + 1;
        }
    }
}

/* Whether a row is the pair, and there; it is then removed if it is to be forgotten. */
INLINE int64_t take_slot(tier_t *tier, uint64_t slot, const uint64_t *row, uint32_t id,
                         int forget) {
    const int n_words = tier->shape.n_words;
    if (tier->ids[slot] != id || (tier->removed && tier->removed[slot])) return 0;
    if (memcmp(tier->rows + slot * n_words, row, n_words * sizeof *row)) return 0;
    if (forget) tier->removed[slot] = 1;
    return 1;
}

/* How many copies of the pair there are; they are removed if they are to be forgotten. */
static int64_t take_pair(tier_t *tier, const uint64_t *row, uint32_t id, int forget) {
    const uint64_t list = tier->shape.bases[0] + slice_of(&tier->shape, 0, row);
    int64_t n = 0;
    if (tier->heads)
        for (uint32_t link = tier->heads[list]; link; link = tier->nexts[link - 1])
            n += take_slot(tier, link - 1, row, id, forget);
    else
        for (uint32_t at = tier->offsets[list]; at < tier->offsets[list + 1]; at++)
            n += take_slot(tier, tier->postings[at], row, id, forget);
    return n;
}

/* take_pair for each of n pairs: adds to counts. */
static void take_pairs(tier_t *tier, const uint64_t *rows, const uint32_t *ids, int64_t n,
                       int forget, int64_t *counts) {
    for (int64_t i = 0; i < n; i++)
        counts[i] += take_pair(tier, rows + i * tier->shape.n_words, ids[i], forget);
}

static int64_t remove_below(tier_t *tier, uint64_t before) {
    int64_t n = 0;
    for (uint64_t slot = 0; slot < tier->n; slot++)
        if (tier->ids[slot] < before && !tier->removed[slot]) tier->removed[slot] = 1, n++;
    return n;
}

/* Sort tier->n rows into the lists of a slice. */
static void build_slice(const tier_t *tier, int s, uint32_t *own, uint32_t *offsets,
                        uint32_t *postings) {
    const uint64_t n_values = (uint64_t)1 << tier->shape.widths[s];
    memset(offsets, 0, (n_values + 1) * sizeof *offsets);
    for (uint64_t slot = 0; slot < tier->n; slot++) {
        own[slot] = slice_of(&tier->shape, s, tier->rows + slot * tier->shape.n_words);
        offsets[own[slot]]++;
    }
    uint32_t start = 0;
    for (uint64_t v = 0; v <= n_values; v++) {
        const uint32_t size = v < n_values ? offsets[v] : 0;
        offsets[v] = start;
        start += size;
    }
    for (uint64_t slot = 0; slot < tier->n; slot++) postings[offsets[own[slot]]++] = (uint32_t)slot;
    memmove(offsets + 1, offsets, n_values * sizeof *offsets); /* back from the next list's */
    offsets[0] = 0;
}

#endif

/* Look-ups in lists of equal slices; ../numpy_twin/slices.py says what each thing is.
 *
 * Frozen, a list is a run of postings between offsets. In a memtable it is a chain through
 * `nexts`, newest first; links are slots plus one, 0 ends a chain.
 */
#ifndef NEARDUP_SLICES_H
#define NEARDUP_SLICES_H

#include "segment.h"

enum { VERIFY_ALL, VERIFY_BOUNDS, VERIFY_SCORE };
enum { MOST_WORDS = 16, LINE_WORDS = 8, AHEAD = 32, BATCH = 64, MOST_BITS = 1024 };

typedef struct {
    int n_slices;
    const int64_t *starts, *widths, *bases;
} Slices;

typedef struct {
    Segment base;
    Slices cut;
    uint64_t stride;                    /* room for rows in a slice's part of postings or nexts */
    const uint32_t *offsets, *postings; /* frozen */
    uint32_t *heads, *nexts;            /* of a memtable; NULL where frozen */
} Lists;

INLINE uint32_t slice_of(const Slices *cut, int s, const uint64_t *row) {
    const int word = (int)(cut->starts[s] / 64), low = (int)(cut->starts[s] % 64);
    const int width = (int)cut->widths[s];
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
} Search;

static int reserve(Search *search, uint64_t more) {
    if (search->n + more > search->room) {
        const uint64_t room = 2 * (search->n + more) + 1024;
        uint32_t *slots = realloc(search->slots, room * sizeof *slots);
        if (!slots) return 0;
        search->slots = slots, search->room = room;
    }
    return 1;
}

/* The next three do not branch: which rows were met before cannot be predicted. */

INLINE void admit(Search *search, uint32_t slot) {
    const uint64_t word = search->met[slot / 64];
    search->slots[search->n] = slot;
    search->n += ~(word >> (slot % 64)) & 1;
    search->met[slot / 64] = word | (uint64_t)1 << (slot % 64);
}

INLINE void admit_and_credit(Search *search, uint32_t slot, uint32_t credit) {
    const uint32_t account = search->accounts[slot];
    search->slots[search->n] = slot;
    search->n += !account;
    search->accounts[slot] = account + credit;
}

INLINE void credit_candidate(Search *search, uint32_t slot, uint32_t credit) {
    const uint32_t account = search->accounts[slot];
    search->accounts[slot] = account + (credit & (0u - (uint32_t)(account != 0)));
}

INLINE void meet(Search *search, uint32_t slot, int admitted, uint32_t credit) {
    if (!search->accounts)
        admit(search, slot);
    else if (admitted)
        admit_and_credit(search, slot, credit);
    else
        credit_candidate(search, slot, credit);
}

/* A chain of a memtable. 1 done, 0 out of memory, -1 limit reached. */
static int read_chain(const uint32_t *nexts, uint32_t link, int admitted, uint32_t credit,
                      Search *search) {
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
} List;

/* Lists to read, gathered so that their misses overlap. */
typedef struct {
    List lists[BATCH];
    int n;
} Batch;

static int read_chains(const Lists *segment, const Batch *batch, int admitted, Search *search) {
    int state = 1;
    for (int i = 0; i < batch->n && state > 0; i++) {
        const List *list = batch->lists + i;
        state = read_chain(segment->nexts + list->s * segment->stride,
                           PUBLISHED(&segment->heads[list->at]), admitted, list->credit, search);
    }
    return state;
}

/* 1 done, 0 out of memory, -1 limit reached. */
INLINE int read_runs(const Lists *segment, const Batch *batch, int admitted, Search *search) {
    const uint32_t *starts[BATCH], *ends[BATCH];
    uint64_t total = 0;
    for (int i = 0; i < batch->n; i++) {
        const List *list = batch->lists + i;
        const uint32_t *postings = segment->postings + list->s * segment->stride;
        starts[i] = postings + segment->offsets[list->at];
        ends[i] = postings + segment->offsets[list->at + 1];
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

INLINE int read_batch(const Lists *segment, Batch *batch, int admitted, Search *search) {
    const int state = segment->heads ? read_chains(segment, batch, admitted, search)
                                     : read_runs(segment, batch, admitted, search);
    batch->n = 0;
    return state;
}

/* All lists of a slice whose value differs from the row's in exactly `distance` bits; full
 * batches are read. */
INLINE int gather_ring(const Lists *segment, int s, const uint64_t *row, int distance, int admitted,
                       Batch *batch, Search *search) {
    const uint32_t own = slice_of(&segment->cut, s, row);
    const uint64_t end = (uint64_t)1 << segment->cut.widths[s];
    const uint32_t credit = 1u << 24 | (uint32_t)distance << 12 | (uint32_t)segment->cut.widths[s];
    for (uint64_t mask = ((uint64_t)1 << distance) - 1; mask < end;
         mask = mask ? next_mask((uint32_t)mask) : end) {
        const List list = {segment->cut.bases[s] + (own ^ (uint32_t)mask), s, credit};
        PREFETCH(segment->heads ? segment->heads + list.at : segment->offsets + list.at);
        batch->lists[batch->n++] = list;
        if (batch->n < BATCH) continue;
        const int state = read_batch(segment, batch, admitted, search);
        if (state < 1) return state;
    }
    return 1;
}

/* Read lists up to `expand` bits away, nearest first; those up to `admitted` bring candidates. */
INLINE int read_all_lists(const Lists *segment, const uint64_t *row, int expand, int admitted,
                          Search *search) {
    Batch batch;
    int state = 1;
    batch.n = 0;
    for (int distance = 0; distance <= expand && state > 0; distance++) {
        for (int s = 0; s < segment->cut.n_slices && state > 0; s++)
            state = gather_ring(segment, s, row, distance, distance <= admitted, &batch, search);
        if (state > 0) state = read_batch(segment, &batch, distance <= admitted, search);
    }
    return state;
}

/* Candidates by slot, so that their rows are met in the order of memory; only where there are
 * enough of them to pay for a pass over the bits. */
static void order_candidates(const Lists *segment, Search *search) {
    const uint64_t n_words = segment->base.n / 64 + 1;
    if (search->accounts || search->n < n_words / 8) return;
    search->n = 0;
    for (uint64_t w = 0; w < n_words; w++)
        for (uint64_t word = search->met[w]; word; word &= word - 1)
            search->slots[search->n++] = (uint32_t)(64 * w + trailing_zeros(word));
}

/* Make a search ready for the next query. */
static void forget_candidates(Search *search) {
    for (uint64_t i = 0; i < search->n; i++)
        if (search->accounts)
            search->accounts[search->slots[i]] = 0;
        else
            search->met[search->slots[i] / 64] = 0;
    search->n = 0;
}

static void drop_removed(const Lists *segment, Search *search) {
    uint64_t kept = 0;
    if (!segment->base.tombstones) return;
    for (uint64_t i = 0; i < search->n; i++) {
        const uint32_t slot = search->slots[i];
        search->slots[kept] = slot;
        if (!segment->base.tombstones[slot])
            kept++;
        else if (search->accounts)
            search->accounts[slot] = 0;
        else
            search->met[slot / 64] &= ~((uint64_t)1 << (slot % 64));
    }
    search->n = kept;
}

/* --- the n smallest keys -------------------------------------------------------------------- */

typedef struct {
    uint64_t *keys; /* distance << 32 | id, ascending; an id once */
    int n, room;
} Nearest;

static void offer(Nearest *nearest, uint64_t key) {
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
} Scored;

INLINE int better(Scored a, Scored b) { return a.key != b.key ? a.key < b.key : a.slot < b.slot; }

/* Keep the n candidates of the best pessimistic distance, then by id and slot. 0: no memory. */
static int keep_best(const Lists *segment, Search *search, int n) {
    const int n_bits = 64 * segment->base.n_words;
    Scored *best = malloc(n * sizeof *best);
    int n_best = 0;
    if (!best) return 0;
    for (uint64_t i = 0; i < search->n; i++) {
        const uint32_t slot = search->slots[i];
        const uint64_t score = (uint64_t)pessimistic_of(search->accounts[slot], n_bits);
        const Scored own = {score << 32 | segment->base.ids[slot], slot};
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
static void keep_possible(const Lists *segment, Search *search, int n, int expand) {
    const int n_bits = 64 * segment->base.n_words;
    uint64_t counts[MOST_BITS + 1] = {0}, kept = 0;
    int bound = 0;
    for (uint64_t i = 0; i < search->n; i++)
        counts[pessimistic_of(search->accounts[search->slots[i]], n_bits)]++;
    for (uint64_t total = counts[0]; total < (uint64_t)n; total += counts[bound]) bound++;
    for (uint64_t i = 0; i < search->n; i++) {
        const uint32_t slot = search->slots[i], account = search->accounts[slot];
        const int unseen = segment->cut.n_slices - (int)(account >> 24);
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
} Choice;

INLINE uint64_t worst_of(const Nearest *nearest) {
    return nearest->n < nearest->room ? UINT64_MAX : nearest->keys[nearest->n - 1] >> 32;
}

/* Ask for the first words of a candidate's row. */
INLINE void prefetch_row(const Lists *segment, const Search *search, uint64_t i, int words) {
    if (i >= search->n) return;
    const uint64_t *row = segment->base.rows + (uint64_t)search->slots[i] * segment->base.n_words;
    for (int w = 0; w < words; w += LINE_WORDS) PREFETCH(row + w);
}

INLINE void verify_nearest(const Lists *segment, const uint64_t *row, const Search *search,
                           Nearest *nearest) {
    const int n_words = segment->base.n_words;
    for (uint64_t i = 0; i < AHEAD; i++) prefetch_row(segment, search, i, n_words);
    for (uint64_t i = 0; i < search->n; i++) {
        const uint64_t slot = search->slots[i];
        prefetch_row(segment, search, i + AHEAD, n_words);
        const uint64_t bits =
            (uint64_t)distance_of(segment->base.rows + slot * n_words, row, n_words);
        if (bits <= worst_of(nearest)) offer(nearest, bits << 32 | segment->base.ids[slot]);
    }
}

/* 0 if memory ran out. */
INLINE int nearest_in(const Lists *segment, const uint64_t *row, Choice choice, Search *search,
                      Nearest *nearest) {
    /* Lists that bring no candidates only serve the accounts. */
    const int expand = search->accounts ? choice.expand : choice.admit;
    if (!read_all_lists(segment, row, expand, choice.admit, search)) return 0;
    drop_removed(segment, search);
    order_candidates(segment, search);
    if (choice.verify != VERIFY_ALL && search->n > (uint64_t)choice.n) {
        if (choice.verify == VERIFY_BOUNDS)
            keep_possible(segment, search, choice.n, choice.expand);
        else if (!keep_best(segment, search, choice.n))
            return 0;
    }
    verify_nearest(segment, row, search, nearest);
    forget_candidates(search);
    return 1;
}

/* 1 done, 0 out of memory, -1 limit reached. */
INLINE int within_in(const Lists *segment, const uint64_t *row, int distance, int expand,
                     Search *search, Matches *matches) {
    const int n_words = segment->base.n_words;
    const int first = n_words < LINE_WORDS ? n_words : LINE_WORDS; /* most are too far by these */
    int state = read_all_lists(segment, row, expand, expand, search);
    if (state > 0)
        for (uint64_t i = 0; i < AHEAD; i++) prefetch_row(segment, search, i, first);
    for (uint64_t i = 0; state > 0 && i < search->n; i++) {
        const uint64_t slot = search->slots[i];
        const uint64_t *own = row_at(&segment->base, slot);
        prefetch_row(segment, search, i + AHEAD, first);
        int bits = distance_of(own, row, first);
        if (bits > distance || is_removed(&segment->base, slot)) continue;
        bits += distance_of(own + first, row + first, n_words - first);
        if (bits > distance) continue;
        state = push(matches, (uint64_t)segment->base.ids[slot] << 32 | (unsigned)bits);
    }
    forget_candidates(search);
    return state;
}

/* Compare a block of rows, small enough for a cache, with each of some queries. */
INLINE void scan_block(const Lists *segment, uint64_t from, uint64_t to, const uint64_t *queries,
                       int64_t n, Nearest *nearest) {
    const int n_words = segment->base.n_words;
    for (int64_t q = 0; q < n; q++) {
        const uint64_t *row = queries + q * n_words;
        Nearest *own = nearest + q;
        uint64_t worst = worst_of(own);
        for (uint64_t slot = from; slot < to; slot++) {
            const uint64_t bits =
                (uint64_t)distance_of(segment->base.rows + slot * n_words, row, n_words);
            if (bits > worst || is_removed(&segment->base, slot)) continue;
            offer(own, bits << 32 | segment->base.ids[slot]);
            worst = worst_of(own);
        }
    }
}

/* The three above at each level. A number of words that the compiler knew would be unrolled into
 * scalar population counts. */
#define AT_LEVEL(name, target)                                                                 \
    target static int nearest_##name(const Lists *segment, const uint64_t *row, Choice choice, \
                                     Search *search, Nearest *nearest) {                       \
        return nearest_in(segment, row, choice, search, nearest);                              \
    }                                                                                          \
    target static int within_##name(const Lists *segment, const uint64_t *row, int distance,   \
                                    int expand, Search *search, Matches *matches) {            \
        return within_in(segment, row, distance, expand, search, matches);                     \
    }                                                                                          \
    target static void scan_##name(const Lists *segment, uint64_t from, uint64_t to,           \
                                   const uint64_t *queries, int64_t n, Nearest *nearest) {     \
        scan_block(segment, from, to, queries, n, nearest);                                    \
    }

AT_LEVEL(portable, )
#if SIMD_X86
AT_LEVEL(avx2, TARGET_AVX2)
AT_LEVEL(avx512, TARGET_AVX512)
#define CALL(level, name, ...)                           \
    ((level) == SIMD_AVX512 ? name##_avx512(__VA_ARGS__) \
     : (level) == SIMD_AVX2 ? name##_avx2(__VA_ARGS__)   \
                            : name##_portable(__VA_ARGS__))
#else
#define CALL(level, name, ...) ((void)(level), name##_portable(__VA_ARGS__))
#endif

/* Room for the candidates of a segment of n rows. 0 if memory ran out. */
static int begin_search(Search *search, uint64_t n, int accounts) {
    memset(search, 0, sizeof *search);
    search->limit = INT64_MAX;
    if (accounts)
        search->accounts = calloc(n + 1, sizeof *search->accounts);
    else
        search->met = calloc(n / 64 + 1, sizeof *search->met);
    return search->met || search->accounts;
}

static void end_search(Search *search) {
    free(search->slots), free(search->met), free(search->accounts);
}

/* Room for every row that a segment may come to hold while it is searched. */
static uint64_t largest_of(Lists *const *segments, int n_segments) {
    uint64_t n = 0;
    for (int i = 0; i < n_segments; i++) n = segments[i]->stride > n ? segments[i]->stride : n;
    return n;
}

/* keys: n_queries x choice.n; how many of them are filled in counts. 0 if memory ran out. */
static int nearest_of(int level, Lists *const *segments, int n_segments, const uint64_t *queries,
                      int64_t n_queries, Choice choice, uint64_t *keys, int64_t *counts) {
    Search search;
    int done = begin_search(&search, largest_of(segments, n_segments), choice.verify != VERIFY_ALL);
    for (int64_t q = 0; done && q < n_queries; q++) {
        Nearest nearest = {keys + q * choice.n, 0, choice.n};
        const uint64_t *row = queries + q * segments[0]->base.n_words;
        for (int i = 0; done && i < n_segments; i++)
            done = CALL(level, nearest, segments[i], row, choice, &search, &nearest);
        counts[q] = nearest.n;
    }
    end_search(&search);
    return done;
}

/* Matches of each query by id, each id once at its smallest distance, appended to matches;
 * counts: how many, OVER_LIMIT where the limit was reached. 0 if memory ran out. */
static int within_of(int level, Lists *const *segments, int n_segments, const uint64_t *queries,
                     int64_t n_queries, int distance, int expand, int64_t limit, Matches *matches,
                     int64_t *counts) {
    Search search;
    int state = begin_search(&search, largest_of(segments, n_segments), 0);
    for (int64_t q = 0; state && q < n_queries; q++) {
        const uint64_t *row = queries + q * segments[0]->base.n_words;
        const size_t before = matches->n;
        search.limit = limit, state = 1;
        for (int i = 0; state > 0 && i < n_segments; i++)
            state = CALL(level, within, segments[i], row, distance, expand, &search, matches);
        if (state < 0)
            matches->n = before;
        else if (state)
            state = settle(matches, before);
        counts[q] = state < 0 ? OVER_LIMIT : (int64_t)(matches->n - before);
    }
    end_search(&search);
    return state != 0;
}

/* nearest_of by comparing everything: each block of rows stays in the cache for all queries. */
static int scan_of(int level, Lists *const *segments, int n_segments, const uint64_t *queries,
                   int64_t n_queries, int n, uint64_t *keys, int64_t *counts) {
    const uint64_t block = 1 << 17; /* bytes: fits any second-level cache */
    Nearest *nearest = calloc((size_t)n_queries, sizeof *nearest);
    if (!nearest) return 0;
    for (int64_t q = 0; q < n_queries; q++) nearest[q].keys = keys + q * n, nearest[q].room = n;
    for (int i = 0; i < n_segments; i++) {
        const uint64_t step = block / (8 * (uint64_t)segments[i]->base.n_words);
        for (uint64_t from = 0; from < segments[i]->base.n; from += step) {
            const uint64_t to =
                from + step < segments[i]->base.n ? from + step : segments[i]->base.n;
            CALL(level, scan, segments[i], from, to, queries, n_queries, nearest);
        }
    }
    for (int64_t q = 0; q < n_queries; q++) counts[q] = nearest[q].n;
    free(nearest);
    return 1;
}

/* --- changes ------------------------------------------------------------------------------- */

/* Append pairs to a memtable that has room for them. 1: it needs no memory. */
static int append(Lists *segment, const uint64_t *rows, const uint32_t *ids, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const uint64_t *row = rows + i * segment->base.n_words;
        const uint64_t slot = segment->base.n;
        put_pair(&segment->base, slot, row, ids[i]);
        segment->base.n = slot + 1; /* before any list leads to it */
        for (int s = 0; s < segment->cut.n_slices; s++) {
            uint32_t *head =
                segment->heads + segment->cut.bases[s] + slice_of(&segment->cut, s, row);
            segment->nexts[s * segment->stride + slot] = *head;
            PUBLISH(head, (uint32_t)slot + 1);
        }
    }
    return 1;
}

/* How many copies of the pair there are; they are removed if they are to be forgotten. */
static int64_t take_pair(Lists *segment, const uint64_t *row, uint32_t id, int forget) {
    const uint64_t list = segment->cut.bases[0] + slice_of(&segment->cut, 0, row);
    int64_t n = 0;
    if (segment->heads)
        for (uint32_t link = PUBLISHED(&segment->heads[list]); link;
             link = segment->nexts[link - 1])
            n += take_slot(&segment->base, link - 1, row, id, forget);
    else
        for (uint32_t at = segment->offsets[list]; at < segment->offsets[list + 1]; at++)
            n += take_slot(&segment->base, segment->postings[at], row, id, forget);
    return n;
}

/* Sort segment->base.n rows into the lists of a slice. */
static void build_slice(const Lists *segment, int s, uint32_t *own, uint32_t *offsets,
                        uint32_t *postings) {
    const uint64_t n_values = (uint64_t)1 << segment->cut.widths[s];
    memset(offsets, 0, (n_values + 1) * sizeof *offsets);
    for (uint64_t slot = 0; slot < segment->base.n; slot++) {
        own[slot] = slice_of(&segment->cut, s, segment->base.rows + slot * segment->base.n_words);
        offsets[own[slot]]++;
    }
    starts_of_sizes(offsets, n_values);
    for (uint64_t slot = 0; slot < segment->base.n; slot++)
        postings[offsets[own[slot]]++] = (uint32_t)slot;
    restore_starts(offsets, n_values);
}

#endif

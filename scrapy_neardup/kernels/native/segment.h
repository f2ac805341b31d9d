/* What the two indexes have in common; ../numpy_twin/segments.py has the words.
 *
 * A Segment is a frozen segment or a memtable: pairs of a signature, which is a row of 64-bit
 * words, and an id. hamming.h and slices.h put it at the beginning of their own structure and
 * add posting lists: runs of entries between offsets where frozen, chains in a memtable.
 */
#ifndef NEARDUP_SEGMENT_H
#define NEARDUP_SEGMENT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "simd.h"

enum { NOBODY = -1, OVER_LIMIT = -2 }; /* in place of an id, or a number of matches */

/* One thread may append while others look up. What is published, a head, a count, a block, is
 * stored after what it leads to, and loaded before it; no block that may be read is freed. */
#if defined(__GNUC__)
#define PUBLISH(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)
#define PUBLISHED(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
#else /* MSVC: volatile is enough on x86 */
#define PUBLISH(place, value) (*(place) = (value))
#define PUBLISHED(place) (*(place))
#endif

typedef struct {
    int n_words;
    uint64_t n; /* pairs, removed ones included */
    uint64_t *rows;
    uint32_t *ids;
    uint8_t *tombstones; /* 1 where a pair is removed; may be NULL */
} Segment;

INLINE const uint64_t *row_at(const Segment *segment, uint64_t slot) {
    return segment->rows + slot * segment->n_words;
}

INLINE int is_removed(const Segment *segment, uint64_t slot) {
    return segment->tombstones && segment->tombstones[slot];
}

INLINE void put_pair(const Segment *segment, uint64_t slot, const uint64_t *row, uint32_t id) {
    memcpy(segment->rows + slot * segment->n_words, row, segment->n_words * sizeof *row);
    segment->ids[slot] = id;
}

/* --- removal ------------------------------------------------------------------------------- */

/* Whether a slot holds the pair; it is then removed if it is to be forgotten. */
INLINE int64_t take_slot(Segment *segment, uint64_t slot, const uint64_t *row, uint32_t id,
                         int forget) {
    if (segment->ids[slot] != id || is_removed(segment, slot)) return 0;
    if (memcmp(row_at(segment, slot), row, segment->n_words * sizeof *row)) return 0;
    if (forget) segment->tombstones[slot] = 1;
    return 1;
}

/* Remove every id below `before`; how many pairs. There must be tombstones. */
static int64_t remove_below(Segment *segment, uint64_t before) {
    int64_t n = 0;
    for (uint64_t slot = 0; slot < segment->n; slot++)
        if (segment->ids[slot] < before && !segment->tombstones[slot])
            segment->tombstones[slot] = 1, n++;
    return n;
}

/* --- building posting lists: a counting sort ------------------------------------------------ */

/* Sizes of lists become where each one starts; the last number, where the last one ends. */
static void starts_of_sizes(uint32_t *offsets, uint64_t n_lists) {
    uint32_t start = 0;
    for (uint64_t list = 0; list <= n_lists; list++) {
        const uint32_t size = list < n_lists ? offsets[list] : 0;
        offsets[list] = start;
        start += size;
    }
}

/* Filling the lists moved each start to the next list's; move them back. */
static void restore_starts(uint32_t *offsets, uint64_t n_lists) {
    memmove(offsets + 1, offsets, n_lists * sizeof *offsets);
    offsets[0] = 0;
}

/* --- matches of a query ---------------------------------------------------------------------- */

typedef struct {
    uint64_t *keys; /* id << 32 | distance */
    size_t n, room;
} Matches;

/* 0 if memory ran out. */
INLINE int push(Matches *matches, uint64_t key) {
    if (matches->n == matches->room) {
        const size_t room = matches->room ? 2 * matches->room : 64;
        uint64_t *keys = realloc(matches->keys, room * sizeof *keys);
        if (!keys) return 0;
        matches->keys = keys, matches->room = room;
    }
    matches->keys[matches->n++] = key;
    return 1;
}

/* A natural merge sort: ids of a list ascend already where they were given in order. */

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
static int settle(Matches *matches, size_t start) {
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

#endif

# cython: language_level=3, boundscheck=False, initializedcheck=False
"""Inverted signature slice lists, compiled; numpy_twin/slices.py is the contract.

Every look-up releases the GIL. A change must not run beside a query of the same tier.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

import numpy as np

from scrapy_neardup.kernels.numpy_twin import slices as twin
from scrapy_neardup.kernels.numpy_twin.hamming import in_turn
from scrapy_neardup.kernels.numpy_twin.slices import ALL, BOUNDS, SCORE, Parts, Shape

include "arrays.pxi"
include "simd.pxi"

cdef extern from "slices.h":
    enum:
        MOST_WORDS
    ctypedef struct shape_t:
        int n_slices, n_words
        const int64_t *starts
        const int64_t *widths
        const int64_t *bases
    ctypedef struct tier_t:
        shape_t shape
        uint64_t n, stride
        uint64_t *rows
        uint32_t *ids
        uint8_t *removed
        const uint32_t *offsets
        const uint32_t *postings
        uint32_t *heads
        uint32_t *nexts
    ctypedef struct rules_t:
        int n, expand, admit, verify
    int nearest_of(int, tier_t *const *, int, const uint64_t *, int64_t, rules_t, uint64_t *, int64_t *) noexcept nogil
    int within_of(int, tier_t *const *, int, const uint64_t *, int64_t, int, int, int64_t, uint64_t **, int64_t *) noexcept nogil
    int scan_of(int, tier_t *const *, int, const uint64_t *, int64_t, int, uint64_t *, int64_t *) noexcept nogil
    void append(tier_t *, const uint64_t *, const uint32_t *, int64_t) noexcept nogil
    void take_pairs(tier_t *, const uint64_t *, const uint32_t *, int64_t, int, int64_t *) noexcept nogil
    int64_t remove_below(tier_t *, uint64_t) noexcept nogil
    void build_slice(const tier_t *, int, uint32_t *, uint32_t *, uint32_t *) noexcept nogil

cdef enum:
    MOST_TIERS = 8


cdef const int64_t *places_at(const int64_t[::1] places) noexcept:
    return &places[0]


cdef shape_t shape_of(shape, int n_words):
    """Pointers into arrays that the caller keeps alive."""
    cdef shape_t found
    found.n_slices, found.n_words = len(shape.starts), n_words
    found.starts = places_at(shape.starts)
    found.widths = places_at(shape.widths)
    found.bases = places_at(shape.bases)
    return found


def aligned(rows):
    """A copy whose rows do not straddle more cache lines than they must."""
    spare = np.empty(rows.size + 8, dtype=np.uint64)
    start = -(spare.ctypes.data // 8) % 8
    out = spare[start : start + rows.size].reshape(rows.shape)
    out[...] = rows
    return out


def build(shape, rows, ids, run=in_turn):
    """Sort rows into lists; O(slices x n). run: see kernels.hamming.build."""
    n = len(ids)
    parts = Parts(
        aligned(rows),
        np.array(ids),
        np.empty(int(shape.bases[-1]), dtype=np.uint32),
        np.empty((len(shape.starts), n), dtype=np.uint32),
    )
    run(lambda s: sort_slice(shape, parts, s), range(len(shape.starts)))
    return parts


def sort_slice(shape, parts, int s):
    """Sort rows into the lists of one slice."""
    cdef tier_t tier
    own = np.empty(len(parts.ids), dtype=np.uint32)
    cdef uint32_t *own_at = <uint32_t *>numbers_at(own)
    cdef uint32_t *offsets = <uint32_t *>numbers_at(parts.offsets)
    cdef uint32_t *postings = <uint32_t *>table_at(parts.postings)
    tier.shape = shape_of(shape, parts.rows.shape[1])
    tier.n, tier.rows = len(parts.ids), <uint64_t *>words_at(parts.rows)
    with nogil:
        build_slice(&tier, s, own_at, offsets + tier.shape.bases[s], postings + s * tier.n)


cdef class Tier:
    """What frozen and live tiers share: rows, ids and the marks of removed ones."""

    cdef tier_t c
    cdef readonly object shape
    cdef object _removed

    def __len__(self):
        """Rows, removed ones included."""
        return self.c.n

    @property
    def removed(self):
        return self._removed

    @removed.setter
    def removed(self, marks):
        cdef const uint8_t[::1] view = marks
        self._removed = marks
        self.c.removed = <uint8_t *>&view[0] if view.shape[0] else NULL

    cdef make_removable(self):
        if self._removed is None:
            self.removed = np.zeros(self.c.n, dtype=np.uint8)
        elif not self._removed.flags.writeable:
            self.removed = self._removed.copy()


cdef class Frozen(Tier):
    """A tier whose lists lie in one block; its arrays may be read-only maps."""

    cdef readonly object parts, rows, ids, offsets, postings

    def __init__(self, shape, parts):
        self.shape, self.parts = shape, parts
        self.rows, self.ids, self.offsets, self.postings = parts
        self.c.shape = shape_of(shape, self.rows.shape[1])
        self.c.n = self.c.stride = len(self.ids)
        self.c.rows = <uint64_t *>words_at(self.rows)
        self.c.ids = <uint32_t *>numbers_at(self.ids)
        self.c.offsets = numbers_at(self.offsets)
        self.c.postings = table_at(self.postings)

    @property
    def nbytes(self):
        removed = 0 if self._removed is None else self._removed.nbytes
        return removed + sum(array.nbytes for array in self.parts)

    @property
    def largest_bucket(self):
        """Rows in the longest list."""
        return twin.Frozen(self.shape, self.parts).largest_bucket


def live_capacity(n_frozen):
    """How many pairs to gather before they are frozen together with n_frozen others."""
    return min(max(n_frozen // 4, 1 << 14), 1 << 22)


cdef class Live(Tier):
    """A tier of a fixed capacity that grows by appending."""

    cdef object _rows, _ids, _heads, _nexts
    cdef readonly object capacity

    def __init__(self, shape, capacity, int n_words):
        self.shape, self.capacity = shape, capacity
        # Pages that were never touched take no memory.
        self._rows = np.empty((capacity, n_words), dtype=np.uint64)
        self._ids = np.empty(capacity, dtype=np.uint32)
        self._heads = np.zeros(int(shape.bases[-1]), dtype=np.uint32)
        self._nexts = np.empty((len(shape.starts), capacity), dtype=np.uint32)
        self.c.shape = shape_of(shape, n_words)
        self.c.stride = capacity
        self.c.rows = <uint64_t *>words_at(self._rows)
        self.c.ids = <uint32_t *>numbers_at(self._ids)
        self.c.heads = <uint32_t *>numbers_at(self._heads)
        self.c.nexts = <uint32_t *>table_at(self._nexts)
        self.removed = np.zeros(capacity, dtype=np.uint8)

    cdef demand_room(self, uint64_t n):
        if self.c.n + n > self.c.stride:
            raise MemoryError(f"no room for {n} more of {self.capacity} live pairs")

    def add(self, bytes signature, uint32_t id):
        """Append one pair; there must be room."""
        cdef uint64_t row[MOST_WORDS]
        self.demand_room(1)
        memcpy(row, <const char *>signature, 8 * self.c.shape.n_words)
        append(&self.c, row, &id, 1)

    def add_many(self, rows, ids):
        """Append pairs; there must be room for all."""
        cdef const uint64_t *rows_at = words_at(rows)
        cdef const uint32_t *ids_at = numbers_at(ids)
        cdef int64_t n = len(ids)
        self.demand_room(n)
        with nogil:
            append(&self.c, rows_at, ids_at, n)

    @property
    def rows(self):
        return self._rows[: self.c.n]

    @property
    def ids(self):
        return self._ids[: self.c.n]

    @property
    def nbytes(self):
        """Bytes in use."""
        pair = 8 * self.c.shape.n_words + 4 + 1 + 4 * self.c.shape.n_slices
        return self.c.n * pair + self._heads.nbytes

    def lists(self, int s):
        """(value, slot) of every posting of a slice, by walking its chains."""
        found, nexts = [], self._nexts[s].tolist()
        heads = self._heads[self.shape.bases[s] : self.shape.bases[s + 1]]
        for value in np.flatnonzero(heads).tolist():
            link = int(heads[value])
            while link:
                found.append((value, link - 1))
                link = nexts[link - 1]
        return np.array(found, dtype=np.int64).reshape(-1, 2).T

    @property
    def largest_bucket(self):
        """Rows in the longest list."""
        if not self.c.n:
            return 0
        every = range(self.c.shape.n_slices)
        return max(int(np.bincount(twin.values(self.shape, s, self.rows)).max()) for s in every)


cdef class Asked:
    """The tiers that a look-up asks; empty ones are left out."""

    cdef tier_t *tiers[MOST_TIERS]
    cdef int n

    def __cinit__(self, list tiers):
        cdef Tier tier
        if len(tiers) > MOST_TIERS:
            raise ValueError(f"{len(tiers)} tiers: take at most {MOST_TIERS}")
        for tier in tiers:
            self.tiers[self.n] = &tier.c
            self.n += tier.c.n > 0


def unpacked(keys, counts):
    """Ids and distances out of nearest keys, -1 from each query's count on."""
    filled = np.arange(keys.shape[1]) < counts[:, None]
    ids = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    distances = (keys >> np.uint64(32)).astype(np.int64)
    return np.where(filled, ids, -1), np.where(filled, distances, -1)


def nearest_many(list tiers, queries, int n, int expand, int admit, int verify):
    """The n nearest candidates of each query, nearest first, then by id."""
    cdef Asked asked = Asked(tiers)
    cdef rules_t rules
    rules.n, rules.expand, rules.admit, rules.verify = n, expand, admit, verify
    keys = np.zeros((len(queries), n), dtype=np.uint64)
    counts = np.zeros(len(queries), dtype=np.int64)
    cdef const uint64_t *queries_at = words_at(queries)
    cdef uint64_t *keys_at = <uint64_t *>words_at(keys)
    cdef int64_t[::1] counts_at = counts
    cdef int64_t n_queries = len(queries)
    cdef int done
    if asked.n and n_queries:
        with nogil:
            done = nearest_of(simd_level, asked.tiers, asked.n, queries_at, n_queries, rules,
                              keys_at, &counts_at[0])
        if not done:
            raise MemoryError("no memory for the candidates")
    return unpacked(keys, counts)


def scan_nearest_many(list tiers, queries, int n):
    """nearest_many by comparing everything: exact."""
    cdef Asked asked = Asked(tiers)
    keys = np.zeros((len(queries), n), dtype=np.uint64)
    counts = np.zeros(len(queries), dtype=np.int64)
    cdef const uint64_t *queries_at = words_at(queries)
    cdef uint64_t *keys_at = <uint64_t *>words_at(keys)
    cdef int64_t[::1] counts_at = counts
    cdef int64_t n_queries = len(queries)
    cdef int done
    if asked.n and n_queries:
        with nogil:
            done = scan_of(simd_level, asked.tiers, asked.n, queries_at, n_queries, n, keys_at,
                           &counts_at[0])
        if not done:
            raise MemoryError("no memory for the neighbours")
    return unpacked(keys, counts)


def within_many(list tiers, queries, int distance, int expand, int64_t limit):
    """(counts, ids, distances) of candidates within the distance; counts are LIMIT where more
    than `limit` postings would be read."""
    cdef Asked asked = Asked(tiers)
    counts = np.zeros(len(queries), dtype=np.int64)
    cdef const uint64_t *queries_at = words_at(queries)
    cdef int64_t[::1] counts_at = counts
    cdef int64_t n_queries = len(queries)
    cdef uint64_t *keys = NULL
    cdef int done
    if asked.n and n_queries:
        with nogil:
            done = within_of(simd_level, asked.tiers, asked.n, queries_at, n_queries, distance,
                             expand, limit, &keys, &counts_at[0])
        if not done:
            free(keys)
            raise MemoryError("no memory for the matches")
    found = np.empty(int(np.maximum(counts, 0).sum()), dtype=np.uint64)
    if len(found):
        memcpy(<uint64_t *>words_at(found.reshape(1, -1)), keys, found.nbytes)
    free(keys)
    ids, distances = found >> np.uint64(32), found & np.uint64(0xFFFFFFFF)
    return counts, ids.astype(np.int64), distances.astype(np.int64)


include "removal.pxi"


def check(tier):
    """Every invariant of a tier. Raises BrokenInvariant. O(slices x n)."""
    if isinstance(tier, Frozen):
        return twin.check(tier)
    for s in range(len(tier.shape.starts)):
        own, slots = tier.lists(s)
        twin.demand(np.array_equal(np.sort(slots), np.arange(len(tier))), "postings", s)
        expected = twin.values(tier.shape, s, tier.rows[slots])
        twin.demand(np.array_equal(own, expected), "lists", s)

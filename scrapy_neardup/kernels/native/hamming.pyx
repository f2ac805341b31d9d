# cython: language_level=3, boundscheck=False, initializedcheck=False
"""Signatures → those within a Hamming distance, compiled; numpy_twin/hamming.py is the contract.

Tiers hold pointers, so that a look-up of one signature does not unpack ten arrays. Every
function releases the GIL. A change must not run beside a query of the same tier.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import numpy as np

from scrapy_neardup.kernels.numpy_twin import hamming as twin
from scrapy_neardup.kernels.numpy_twin.hamming import (
    LIMIT,
    NONE,
    Parts,
    Tables,
    in_turn,
    sort_keys,
)

include "arrays.pxi"
include "memory.pxi"
include "simd.pxi"

cdef extern from "hamming.h":
    enum:
        LINE
    ctypedef struct tables_t:
        int n_tables, n_words
        const uint64_t *masks
        const uint64_t *multipliers
        const int64_t *places
    ctypedef struct tier_t:
        tables_t tables
        int shift
        uint64_t n
        uint64_t *rows
        uint32_t *ids
        uint8_t *removed
        const uint32_t *offsets
        const uint32_t *windows
        const uint32_t *slots
        uint32_t *heads
        uint32_t *arena
        uint64_t lines, room
    ctypedef struct matches_t:
        uint64_t *keys
        size_t n, room
    ctypedef struct query_t:
        const uint64_t *row
        int distance, every
        int64_t limit
        uint64_t first
        matches_t *matches
    int look_up(int, tier_t *const *, int, const uint64_t *, int64_t, query_t, int64_t *) noexcept nogil
    ctypedef struct pairs_t:
        int64_t *triples
        size_t n, room
    int join_rows(int, const tables_t *, int, const uint64_t *, const int64_t *, int64_t, int64_t, int, pairs_t *) noexcept nogil
    int append(tier_t *, const uint64_t *, const uint32_t *, int64_t) noexcept nogil
    void take_pairs(tier_t *, const uint64_t *, const uint32_t *, int64_t, int, int64_t *) noexcept nogil
    int64_t remove_below(tier_t *, uint64_t) noexcept nogil
    void build_first(const tier_t *, const uint64_t *, const uint32_t *, uint32_t *, uint32_t *) noexcept nogil
    void build_other(const tier_t *, int, uint32_t *, uint32_t *, uint32_t *, uint32_t *) noexcept nogil

cdef object empty = np.empty, i64 = np.dtype(np.int64)

cdef enum:
    MOST_TIERS = 8
    MOST_WORDS = 16


cdef tables_t tables_of(tables):
    """Pointers into arrays that the caller keeps alive."""
    cdef tables_t found
    cdef const int64_t[:, ::1] places = tables.windows
    found.n_tables, found.n_words = tables.masks.shape
    found.masks = words_at(tables.masks)
    found.multipliers = words_at(tables.multipliers)
    found.places = &places[0, 0]
    return found


def build(tables, rows, ids, int bits, run=in_turn):
    """Sort pairs into buckets; O(tables x n). Order within a bucket is that of the input.

    run: how to do work on each of many items; in_turn, or something that uses threads.
    """
    cdef tier_t tier
    cdef const uint64_t *source = words_at(rows)
    cdef const uint32_t *source_ids = numbers_at(ids)
    n = len(ids)
    parts = Parts(
        np.empty_like(rows),
        np.empty_like(ids),
        np.empty((len(tables.masks), (1 << bits) + 1), dtype=np.uint32),
        np.empty((len(tables.masks) - 1, n), dtype=np.uint32),
        np.empty((len(tables.masks) - 1, n), dtype=np.uint32),
    )
    own = np.empty(n, dtype=np.uint32)
    cdef uint32_t *own_at = <uint32_t *>numbers_at(own)
    cdef uint32_t *offsets = <uint32_t *>table_at(parts.offsets)
    tier = tier_of(tables, parts)
    with nogil:
        build_first(&tier, source, source_ids, own_at, offsets)
    run(lambda table: build_table(tables, parts, table), range(1, tier.tables.n_tables))
    return parts


cdef tier_t tier_of(tables, parts):
    """Pointers into the arrays of a frozen tier, which the caller keeps alive."""
    cdef tier_t tier
    memset(&tier, 0, sizeof(tier))
    tier.tables = tables_of(tables)
    tier.shift, tier.n = 65 - (parts.offsets.shape[1] - 1).bit_length(), len(parts.ids)
    tier.rows = <uint64_t *>words_at(parts.rows)
    tier.ids = <uint32_t *>numbers_at(parts.ids)
    tier.offsets = table_at(parts.offsets)
    tier.windows = table_at(parts.windows)
    tier.slots = table_at(parts.slots)
    return tier


def build_table(tables, parts, int table):
    """Sort entries for the rows that the first table has sorted by another one's buckets."""
    cdef tier_t tier = tier_of(tables, parts)
    cdef uint64_t from_entry = (table - 1) * tier.n
    cdef uint32_t *offsets = <uint32_t *>tier.offsets
    own = np.empty(tier.n, dtype=np.uint32)
    cdef uint32_t *own_at = <uint32_t *>numbers_at(own)
    offsets += table * <uint64_t>parts.offsets.shape[1]
    with nogil:
        build_other(&tier, table, own_at, offsets, <uint32_t *>tier.windows + from_entry,
                    <uint32_t *>tier.slots + from_entry)


cdef class Tier:
    """What frozen and live tiers share: rows, ids and the marks of removed ones."""

    cdef tier_t c
    cdef readonly object tables
    cdef object _removed
    cdef readonly int bits

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
    """A tier in contiguous buckets behind a direct directory; its arrays may be read-only maps."""

    cdef readonly object parts, rows, ids, offsets, windows, slots

    def __init__(self, tables, parts):
        self.tables, self.parts = tables, parts
        self.rows, self.ids, self.offsets, self.windows, self.slots = parts
        self.bits = (self.offsets.shape[1] - 1).bit_length() - 1
        self.c = tier_of(tables, parts)

    @property
    def nbytes(self):
        removed = 0 if self._removed is None else self._removed.nbytes
        return removed + sum(array.nbytes for array in self.parts)

    @property
    def largest_bucket(self):
        """Entries of the fullest bucket of any table."""
        return int(np.diff(self.offsets.astype(np.int64), axis=1).max())


def live_capacity(n_frozen):
    """How many pairs to gather before they are frozen together with n_frozen others."""
    return min(max(n_frozen // 4, 1 << 16), 1 << 22)


cdef class Live(Tier):
    """A tier of a fixed capacity that grows by appending."""

    cdef object _rows, _ids, _heads
    cdef readonly object capacity

    def __init__(self, tables, capacity, int bits):
        n_tables, n_words = tables.masks.shape
        self.tables, self.capacity, self.bits = tables, capacity, bits
        # Pages that were never touched take no memory.
        self._rows = np.empty((capacity, n_words), dtype=np.uint64)
        self._ids = np.empty(capacity, dtype=np.uint32)
        self._heads = np.zeros((n_tables, 1 << bits), dtype=np.uint32)
        self.c.tables = tables_of(tables)
        self.c.shift = 64 - bits
        self.c.rows = <uint64_t *>words_at(self._rows)
        self.c.ids = <uint32_t *>numbers_at(self._ids)
        self.c.heads = <uint32_t *>table_at(self._heads)
        self.c.lines = 1  # line 0 ends chains
        self.removed = np.zeros(capacity, dtype=np.uint8)

    def __dealloc__(self):
        free(self.c.arena)

    def add(self, bytes signature, uint32_t id):
        """Append one pair; there must be room."""
        cdef uint64_t row[MOST_WORDS]
        memcpy(row, <const char *>signature, 8 * self.c.tables.n_words)
        if self.c.n == <uint64_t>self.capacity or not append(&self.c, row, &id, 1):
            raise MemoryError(f"no room for one more of {self.capacity} live pairs")

    def add_many(self, rows, ids):
        """Append pairs; there must be room for all."""
        cdef const uint64_t *rows_at = words_at(rows)
        cdef const uint32_t *ids_at = numbers_at(ids)
        cdef int64_t n = len(ids)
        cdef int done
        if self.c.n + n > <uint64_t>self.capacity:
            raise MemoryError(f"no room for {n} more of {self.capacity} live pairs")
        with nogil:
            done = append(&self.c, rows_at, ids_at, n)
        if not done:
            raise MemoryError(f"no memory for {n} live pairs")

    @property
    def rows(self):
        return self._rows[: self.c.n]

    @property
    def ids(self):
        return self._ids[: self.c.n]

    @property
    def nbytes(self):
        """Bytes in use."""
        pair = 8 * self.c.tables.n_words + 4 + 1
        return self.c.n * pair + self._heads.nbytes + 4 * LINE * self.c.lines

    def entries(self, int table):
        """(bucket, window, slot) of every entry of a table, by walking its chains."""
        found, heads = [], self._heads[table]
        cdef uint32_t *chunk
        cdef uint64_t line
        cdef uint32_t i, used, room
        for bucket in np.flatnonzero(heads).tolist():
            line = heads[bucket]
            while line:
                chunk = self.c.arena + line * LINE
                used, room = chunk[1] & 0xFFFF, 8 * (chunk[1] >> 16) - 1
                for i in range(used):
                    found.append((bucket, chunk[2 + i], chunk[2 + room + i]))
                line = chunk[0]
        return np.array(found, dtype=np.int64).reshape(-1, 3).T

    @property
    def largest_bucket(self):
        """Entries of the fullest bucket of any table."""
        if not self.c.n:
            return 0
        rows, every = self.rows, range(self.c.tables.n_tables)
        return max(
            int(np.bincount(twin.buckets(self.tables, table, rows, self.bits)).max())
            for table in every
        )


cdef class Query:
    """One look-up of many signatures over some tiers."""

    cdef tier_t *tiers[MOST_TIERS]
    cdef int n_tiers
    cdef query_t query
    cdef matches_t matches

    def __cinit__(self, list tiers, int distance, int64_t limit, int every):
        cdef Tier tier
        if not 0 < len(tiers) <= MOST_TIERS:
            raise ValueError(f"{len(tiers)} tiers: take 1 to {MOST_TIERS}")
        for tier in tiers:
            self.tiers[self.n_tiers] = &tier.c
            self.n_tiers += tier.c.n > 0
        self.query.distance, self.query.limit, self.query.every = distance, limit, every
        self.query.matches = &self.matches

    def __dealloc__(self):
        free(self.matches.keys)

    cdef run(self, const uint64_t *rows, int64_t n, int64_t *out):
        cdef int done = 1
        cdef int64_t i
        if not self.n_tiers:
            for i in range(n):
                out[i] = 0 if self.query.every else NONE
            return
        with nogil:
            done = look_up(simd_level, self.tiers, self.n_tiers, rows, n, self.query, out)
        if not done:
            raise MemoryError("no memory for the matches")

    cdef found(self):
        """(ids, distances) of all matches."""
        cdef size_t i, n = self.matches.n
        ids, distances = empty(n, i64), empty(n, i64)
        cdef int64_t *ids_at = <int64_t *>writable(ids)
        cdef int64_t *distances_at = <int64_t *>writable(distances)
        for i in range(n):
            ids_at[i] = self.matches.keys[i] >> 32
            distances_at[i] = self.matches.keys[i] & 0xFFFFFFFF
        return ids, distances


def first_many(list tiers, queries, int distance, int64_t limit):
    """The smallest id near each query; NONE, or LIMIT where more than `limit` entries compare."""
    first = np.empty(len(queries), dtype=np.int64)
    cdef int64_t[::1] out = first
    if len(first):
        Query(tiers, distance, limit, 0).run(words_at(queries), len(first), &out[0])
    return first


def first_one(list tiers, bytes signature, int distance, int64_t limit):
    """first_many for one signature of little-endian bytes."""
    cdef uint64_t row[MOST_WORDS]
    cdef int64_t first
    memcpy(row, <const char *>signature, len(signature))
    Query(tiers, distance, limit, 0).run(row, 1, &first)
    return first


def all_many(list tiers, queries, int distance, int64_t limit):
    """(counts, ids, distances): how many are near each query, or LIMIT, and then all of them."""
    counts = np.empty(len(queries), dtype=np.int64)
    cdef int64_t[::1] out = counts
    cdef Query query = Query(tiers, distance, limit, 1)
    if len(counts):
        query.run(words_at(queries), len(counts), &out[0])
    return (counts, *query.found())


def all_one(list tiers, bytes signature, int distance, int64_t limit):
    """all_many for one signature of little-endian bytes; None at the limit."""
    cdef uint64_t row[MOST_WORDS]
    cdef int64_t count
    cdef Query query = Query(tiers, distance, limit, 1)
    memcpy(row, <const char *>signature, len(signature))
    query.run(row, 1, &count)
    return None if count == LIMIT else query.found()


include "removal.pxi"


def join(tables, int table, rows, ends, int64_t start, int64_t stop, int distance):
    """Pairs (i, j, bits) with start <= i < stop and i < j < ends[i], within the distance."""
    cdef tables_t own = tables_of(tables)
    cdef const uint64_t *rows_at = words_at(rows)
    cdef const int64_t[::1] ends_at = ends
    cdef pairs_t pairs
    cdef int done = 1
    pairs.triples, pairs.n, pairs.room = NULL, 0, 0
    if start < stop:
        with nogil:
            done = join_rows(simd_level, &own, table, rows_at, &ends_at[0], start, stop, distance,
                             &pairs)
    found = np.empty((pairs.n, 3), dtype=np.int64)
    cdef int64_t[:, ::1] found_at = found
    if pairs.n:
        memcpy(&found_at[0, 0], pairs.triples, found.nbytes)
    free(pairs.triples)
    if not done:
        raise MemoryError("no memory for the pairs")
    return found[:, 0], found[:, 1], found[:, 2]


def check(tier):
    """Every invariant of a tier. Raises BrokenInvariant. O(tables x n)."""
    if isinstance(tier, Frozen):
        return twin.check(tier)
    for table in range(len(tier.tables.masks)):
        own, repeated, slots = tier.entries(table)
        twin.demand(np.array_equal(np.sort(slots), np.arange(len(tier))), "slots", table)
        rows = tier.rows[slots]
        expected = twin.buckets(tier.tables, table, rows, tier.bits)
        twin.demand(np.array_equal(own, expected), "buckets", table)
        expected = twin.windows(tier.tables, table, rows)
        twin.demand(np.array_equal(repeated, expected), "windows", table)

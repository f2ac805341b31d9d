# cython: language_level=3, boundscheck=False, initializedcheck=False
"""Signatures → those within a Hamming distance, compiled; numpy_twin/hamming.py is the contract."""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import numpy as np

from scrapy_neardup.kernels.numpy_twin import hamming as twin
from scrapy_neardup.kernels.numpy_twin.hamming import SegmentArrays
from scrapy_neardup.kernels.numpy_twin.segments import LIMIT, NONE, demand, in_turn

include "arrays.pxi"
include "memory.pxi"
include "simd.pxi"

cdef extern from "hamming.h":
    enum:
        LINE
    ctypedef struct base_t "Segment":
        int n_words
        uint64_t n
        uint64_t *rows
        uint32_t *ids
        uint8_t *tombstones
    ctypedef struct tables_t "Tables":
        int n_tables, n_words, n_widths
        const uint64_t *masks
        const uint64_t *multipliers
        const int64_t *places
        const int64_t *widths
    ctypedef struct segment_t "Buckets":
        base_t base
        tables_t tables
        int shift
        const uint32_t *probes
        const int64_t *probes_end
        const uint32_t *offsets
        const uint32_t *windows
        const uint32_t *slots
        uint32_t *heads
        uint32_t **blocks
        uint64_t lines
    ctypedef struct Matches:
        uint64_t *keys
        size_t n, room
    ctypedef struct query_t "Query":
        const uint64_t *row
        int distance, every
        int64_t limit
        uint64_t first
        Matches *matches
    int look_up(int, segment_t *const *, int, const uint64_t *, int64_t, query_t, int64_t *) noexcept nogil
    ctypedef struct pairs_t "PairList":
        int64_t *triples
        size_t n, room
    int join_rows(int, const tables_t *, int, const uint64_t *, const int64_t *, int64_t, int64_t, int, pairs_t *) noexcept nogil
    uint32_t **new_blocks(uint64_t) noexcept nogil
    void free_blocks(uint32_t **, uint64_t) noexcept nogil
    uint32_t *line_at(const segment_t *, uint64_t) noexcept nogil
    int append(segment_t *, const uint64_t *, const uint32_t *, int64_t) noexcept nogil
    int64_t take_pair(segment_t *, const uint64_t *, uint32_t, int) noexcept nogil
    int64_t remove_below(base_t *, uint64_t) noexcept nogil
    void build_first(const segment_t *, const uint64_t *, const uint32_t *, uint32_t *, uint32_t *) noexcept nogil
    void build_other(const segment_t *, int, uint32_t *, uint32_t *, uint32_t *, uint32_t *) noexcept nogil

include "segment.pxi"

cdef object empty = np.empty, i64 = np.dtype(np.int64)


cdef tables_t tables_of(tables):
    """Pointers into arrays that the caller keeps alive."""
    cdef tables_t found
    cdef const int64_t[:, ::1] places = tables.windows, widths = tables.widths
    found.n_tables, found.n_words = tables.masks.shape
    found.n_widths = tables.widths.shape[1]
    found.widths = &widths[0, 0] if found.n_widths else NULL
    found.masks = words_at(tables.masks)
    found.multipliers = words_at(tables.multipliers)
    found.places = &places[0, 0]
    return found


def build(tables, rows, ids, int bits, deal=in_turn):
    """Sort pairs into buckets; O(tables x n). Order within a bucket is that of the input.

    deal: does work on each of many items; in_turn, or something that uses threads.
    """
    cdef segment_t segment
    cdef const uint64_t *source = words_at(rows)
    cdef const uint32_t *source_ids = numbers_at(ids)
    n = len(ids)
    arrays = SegmentArrays(
        np.empty_like(rows),
        np.empty_like(ids),
        np.empty((len(tables.masks), (1 << bits) + 1), dtype=np.uint32),
        np.empty((len(tables.masks) - 1, n), dtype=np.uint32),
        np.empty((len(tables.masks) - 1, n), dtype=np.uint32),
    )
    own = np.empty(n, dtype=np.uint32)
    cdef uint32_t *own_at = <uint32_t *>numbers_at(own)
    cdef uint32_t *offsets = <uint32_t *>table_at(arrays.offsets)
    segment = segment_of(tables, arrays)
    with nogil:
        build_first(&segment, source, source_ids, own_at, offsets)
    deal(lambda table: build_table(tables, arrays, table), range(1, segment.tables.n_tables))
    return arrays


cdef segment_t segment_of(tables, arrays):
    """Pointers into the arrays of a frozen segment, which the caller keeps alive."""
    cdef segment_t segment
    memset(&segment, 0, sizeof(segment))
    segment.tables = tables_of(tables)
    segment.shift = 65 - (arrays.offsets.shape[1] - 1).bit_length()
    segment.base.n_words, segment.base.n = arrays.rows.shape[1], len(arrays.ids)
    segment.base.rows = <uint64_t *>words_at(arrays.rows)
    segment.base.ids = <uint32_t *>numbers_at(arrays.ids)
    segment.offsets = table_at(arrays.offsets)
    segment.windows = table_at(arrays.windows)
    segment.slots = table_at(arrays.slots)
    return segment


def build_table(tables, arrays, int table):
    """Sort entries for the rows that the first table has sorted by another one's buckets."""
    cdef segment_t segment = segment_of(tables, arrays)
    cdef uint64_t from_entry = (table - 1) * segment.base.n
    cdef uint32_t *offsets = <uint32_t *>segment.offsets
    own = np.empty(segment.base.n, dtype=np.uint32)
    cdef uint32_t *own_at = <uint32_t *>numbers_at(own)
    offsets += table * <uint64_t>arrays.offsets.shape[1]
    with nogil:
        build_other(&segment, table, own_at, offsets, <uint32_t *>segment.windows + from_entry,
                    <uint32_t *>segment.slots + from_entry)


cdef class Probes:
    """Which buckets a look-up asks in a directory of 2**bits."""

    cdef object masks, ends

    def __init__(self, tables, int bits):
        each = [twin.probes(tables, table, bits) for table in range(len(tables.masks))]
        self.masks = np.concatenate(each)
        self.ends = np.cumsum([len(own) for own in each], dtype=np.int64)

    cdef give(self, segment_t *segment):
        cdef const int64_t[::1] ends = self.ends
        segment.probes = numbers_at(self.masks)
        segment.probes_end = &ends[0]


cdef class Segment(Frozen):
    """Contiguous buckets behind a direct directory; the arrays may be read-only maps."""

    cdef readonly object tables, windows, slots
    cdef readonly int bits
    cdef Probes probes
    cdef object _largest

    def __init__(self, tables, arrays):
        self.take(arrays)
        self.tables, self.windows, self.slots = tables, arrays.windows, arrays.slots
        self.bits = (self.offsets.shape[1] - 1).bit_length() - 1
        self.c = segment_of(tables, arrays)
        self.probes = Probes(tables, self.bits)
        self.probes.give(&self.c)

    @property
    def largest_bucket(self):
        """Entries of the fullest bucket of any table."""
        if self._largest is None:
            self._largest = max(int(np.diff(starts).max()) for starts in self.offsets)
        return self._largest


def memtable_capacity(n_frozen):
    """How many pairs to gather before they are frozen together with n_frozen others."""
    return min(max(n_frozen // 4, 1 << 16), 1 << 22)


cdef class Memtable(Growing):
    """Grows by appending up to a fixed capacity."""

    cdef object _heads
    cdef readonly object tables
    cdef readonly int bits
    cdef Probes probes

    def __init__(self, tables, capacity, int bits):
        self.make_room(capacity, tables.masks.shape[1])
        self.tables, self.bits = tables, bits
        self._heads = np.zeros((len(tables.masks), 1 << bits), dtype=np.uint32)
        self.c.tables = tables_of(tables)
        self.c.shift = 64 - bits
        self.c.heads = <uint32_t *>table_at(self._heads)
        self.probes = Probes(tables, bits)
        self.probes.give(&self.c)
        self.c.lines = 1  # line 0 ends chains
        self.c.blocks = new_blocks(capacity * len(tables.masks))
        if self.c.blocks == NULL:
            raise MemoryError(f"no memory for a memtable of {capacity} pairs")

    def __dealloc__(self):
        with nogil:
            free_blocks(self.c.blocks, self.c.lines)

    @property
    def nbytes(self):
        """Bytes in use."""
        pair = 8 * self.c.base.n_words + 4 + 1
        return self.c.base.n * pair + self._heads.nbytes + 4 * LINE * self.c.lines

    def entries(self, int table):
        """(bucket, window, slot) of every entry of a table, by walking its chains."""
        found, heads = [], self._heads[table]
        cdef uint32_t *chunk
        cdef uint64_t line
        cdef uint32_t i, used, room
        for bucket in np.flatnonzero(heads).tolist():
            line = heads[bucket]
            while line:
                chunk = line_at(&self.c, line)
                used, room = chunk[1] & 0xFFFF, 8 * (chunk[1] >> 16) - 1
                for i in range(used):
                    found.append((bucket, chunk[2 + i], chunk[2 + room + i]))
                line = chunk[0]
        return np.array(found, dtype=np.int64).reshape(-1, 3).T

    @property
    def largest_bucket(self):
        """Entries of the fullest bucket of any table."""
        if not self.c.base.n:
            return 0
        rows, every = self.rows, range(self.c.tables.n_tables)
        return max(
            int(np.bincount(twin.buckets(self.tables, table, rows, self.bits)).max())
            for table in every
        )


cdef class LookUp(Asked):
    """One look-up of many signatures over some segments."""

    cdef query_t query
    cdef Matches matches

    def __cinit__(self, list segments, int distance, int64_t limit, int every):
        self.query.distance, self.query.limit, self.query.every = distance, limit, every
        self.query.matches = &self.matches

    def __dealloc__(self):
        free(self.matches.keys)

    cdef run(self, const uint64_t *rows, int64_t n, int64_t *out):
        cdef int done = 1
        cdef int64_t i
        if not self.n_segments:
            for i in range(n):
                out[i] = 0 if self.query.every else NONE
            return
        with nogil:
            done = look_up(simd_level, self.segments, self.n_segments, rows, n, self.query, out)
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


def first_many(list segments, queries, int distance, int64_t limit):
    """The smallest id near each query; NONE, or LIMIT where more than `limit` entries compare."""
    first = np.empty(len(queries), dtype=np.int64)
    cdef int64_t[::1] out = first
    if len(first):
        LookUp(segments, distance, limit, 0).run(words_at(queries), len(first), &out[0])
    return first


def first_one(list segments, bytes signature, int distance, int64_t limit):
    """first_many for one signature of little-endian bytes."""
    cdef uint64_t row[MOST_WORDS]
    cdef int64_t first
    memcpy(row, <const char *>signature, len(signature))
    LookUp(segments, distance, limit, 0).run(row, 1, &first)
    return first


def all_many(list segments, queries, int distance, int64_t limit):
    """(counts, ids, distances): how many are near each query, or LIMIT, and then all of them."""
    counts = np.empty(len(queries), dtype=np.int64)
    cdef int64_t[::1] out = counts
    cdef LookUp query = LookUp(segments, distance, limit, 1)
    if len(counts):
        query.run(words_at(queries), len(counts), &out[0])
    return (counts, *query.found())


def all_one(list segments, bytes signature, int distance, int64_t limit):
    """all_many for one signature of little-endian bytes; None at the limit."""
    cdef uint64_t row[MOST_WORDS]
    cdef int64_t count
    cdef LookUp query = LookUp(segments, distance, limit, 1)
    memcpy(row, <const char *>signature, len(signature))
    query.run(row, 1, &count)
    return None if count == LIMIT else query.found()


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


def check(segment):
    """Every invariant of a segment. Raises BrokenInvariant. O(tables x n)."""
    if isinstance(segment, Frozen):
        return twin.check(segment)
    for table in range(len(segment.tables.masks)):
        what = f"permuted index, table {table}"
        own, repeated, slots = segment.entries(table)
        demand(np.array_equal(np.sort(slots), np.arange(len(segment))), f"{what}: slots")
        rows = segment.rows[slots]
        expected = twin.buckets(segment.tables, table, rows, segment.bits)
        demand(np.array_equal(own, expected), f"{what}: buckets")
        expected = twin.windows(segment.tables, table, rows)
        demand(np.array_equal(repeated, expected), f"{what}: windows")

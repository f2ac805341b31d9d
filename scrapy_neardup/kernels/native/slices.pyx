# cython: language_level=3, boundscheck=False, initializedcheck=False
"""Inverted signature slice lists, compiled; numpy_twin/slices.py is the contract."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import numpy as np

from scrapy_neardup.kernels.numpy_twin import slices as twin
from scrapy_neardup.kernels.numpy_twin.segments import demand, in_turn
from scrapy_neardup.kernels.numpy_twin.slices import SegmentArrays

include "arrays.pxi"
include "simd.pxi"

cdef extern from "slices.h":
    ctypedef struct base_t "Segment":
        int n_words
        uint64_t n
        uint64_t *rows
        uint32_t *ids
        uint8_t *tombstones
    ctypedef struct slices_t "Slices":
        int n_slices
        const int64_t *starts
        const int64_t *widths
        const int64_t *bases
    ctypedef struct segment_t "Lists":
        base_t base
        slices_t cut
        uint64_t stride
        const uint32_t *offsets
        const uint32_t *postings
        uint32_t *heads
        uint32_t *nexts
    ctypedef struct Choice:
        int n, expand, admit, verify
    ctypedef struct Matches:
        uint64_t *keys
        size_t n, room
    int nearest_of(int, segment_t *const *, int, const uint64_t *, int64_t, Choice, uint64_t *, int64_t *) noexcept nogil
    int within_of(int, segment_t *const *, int, const uint64_t *, int64_t, int, int, int64_t, Matches *, int64_t *) noexcept nogil
    int scan_of(int, segment_t *const *, int, const uint64_t *, int64_t, int, uint64_t *, int64_t *) noexcept nogil
    int append(segment_t *, const uint64_t *, const uint32_t *, int64_t) noexcept nogil
    int64_t take_pair(segment_t *, const uint64_t *, uint32_t, int) noexcept nogil
    int64_t remove_below(base_t *, uint64_t) noexcept nogil
    void build_slice(const segment_t *, int, uint32_t *, uint32_t *, uint32_t *) noexcept nogil

include "segment.pxi"


cdef const int64_t *places_at(const int64_t[::1] places) noexcept:
    return &places[0]


cdef slices_t slices_of(cut):
    """Pointers into arrays that the caller keeps alive."""
    cdef slices_t found
    found.n_slices = len(cut.starts)
    found.starts = places_at(cut.starts)
    found.widths = places_at(cut.widths)
    found.bases = places_at(cut.bases)
    return found


def aligned(rows):
    """A copy whose rows do not straddle more cache lines than they must."""
    spare = np.empty(rows.size + 8, dtype=np.uint64)
    start = -(spare.ctypes.data // 8) % 8
    out = spare[start : start + rows.size].reshape(rows.shape)
    out[...] = rows
    return out


def build(cut, rows, ids, deal=in_turn):
    """Sort rows into lists; O(slices x n). deal: see kernels.hamming.build."""
    n = len(ids)
    arrays = SegmentArrays(
        aligned(rows),
        np.array(ids),
        np.empty(int(cut.bases[-1]), dtype=np.uint32),
        np.empty((len(cut.starts), n), dtype=np.uint32),
    )
    deal(lambda s: sort_slice(cut, arrays, s), range(len(cut.starts)))
    return arrays


def sort_slice(cut, arrays, int s):
    """Sort rows into the lists of one slice."""
    cdef segment_t segment = segment_of(cut, arrays)
    own = np.empty(len(arrays.ids), dtype=np.uint32)
    cdef uint32_t *own_at = <uint32_t *>numbers_at(own)
    cdef uint32_t *offsets = <uint32_t *>segment.offsets
    cdef uint32_t *postings = <uint32_t *>segment.postings
    with nogil:
        build_slice(&segment, s, own_at, offsets + segment.cut.bases[s],
                    postings + s * segment.stride)


cdef segment_t segment_of(cut, arrays):
    """Pointers into the arrays of a frozen segment, which the caller keeps alive."""
    cdef segment_t segment
    memset(&segment, 0, sizeof(segment))
    segment.cut = slices_of(cut)
    segment.base.n_words = arrays.rows.shape[1]
    segment.base.n = segment.stride = len(arrays.ids)
    segment.base.rows = <uint64_t *>words_at(arrays.rows)
    segment.base.ids = <uint32_t *>numbers_at(arrays.ids)
    segment.offsets = numbers_at(arrays.offsets)
    segment.postings = table_at(arrays.postings)
    return segment


cdef class Segment(Frozen):
    """Lists that lie in one block; the arrays may be read-only maps."""

    cdef readonly object cut, postings

    def __init__(self, cut, arrays):
        self.take(arrays)
        self.cut, self.postings = cut, arrays.postings
        self.c = segment_of(cut, arrays)

    @property
    def largest_bucket(self):
        """Rows in the longest list."""
        return twin.Segment(self.cut, self.arrays).largest_bucket


def memtable_capacity(n_frozen):
    """How many pairs to gather before they are frozen together with n_frozen others."""
    return min(max(n_frozen // 4, 1 << 14), 1 << 22)


cdef class Memtable(Growing):
    """Grows by appending up to a fixed capacity."""

    cdef object _heads, _nexts
    cdef readonly object cut

    def __init__(self, cut, capacity, int n_words):
        self.make_room(capacity, n_words)
        self.cut = cut
        self._heads = np.zeros(int(cut.bases[-1]), dtype=np.uint32)
        self._nexts = np.empty((len(cut.starts), capacity), dtype=np.uint32)
        self.c.cut = slices_of(cut)
        self.c.stride = capacity
        self.c.heads = <uint32_t *>numbers_at(self._heads)
        self.c.nexts = <uint32_t *>table_at(self._nexts)

    @property
    def nbytes(self):
        """Bytes in use."""
        pair = 8 * self.c.base.n_words + 4 + 1 + 4 * self.c.cut.n_slices
        return self.c.base.n * pair + self._heads.nbytes

    def lists(self, int s):
        """(value, slot) of every posting of a slice, by walking its chains."""
        found, nexts = [], self._nexts[s].tolist()
        heads = self._heads[self.cut.bases[s] : self.cut.bases[s + 1]]
        for value in np.flatnonzero(heads).tolist():
            link = int(heads[value])
            while link:
                found.append((value, link - 1))
                link = nexts[link - 1]
        return np.array(found, dtype=np.int64).reshape(-1, 2).T

    @property
    def largest_bucket(self):
        """Rows in the longest list."""
        if not self.c.base.n:
            return 0
        every = range(self.c.cut.n_slices)
        return max(int(np.bincount(twin.values(self.cut, s, self.rows)).max()) for s in every)


def unpacked(keys, counts):
    """Ids and distances out of nearest keys, -1 from each query's count on."""
    filled = np.arange(keys.shape[1]) < counts[:, None]
    ids = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    distances = (keys >> np.uint64(32)).astype(np.int64)
    return np.where(filled, ids, -1), np.where(filled, distances, -1)


def nearest_many(list segments, queries, int n, int expand, int admit, int verify):
    """The n nearest candidates of each query, nearest first, then by id."""
    cdef Asked asked = Asked(segments)
    cdef Choice choice
    choice.n, choice.expand, choice.admit, choice.verify = n, expand, admit, verify
    keys = np.zeros((len(queries), n), dtype=np.uint64)
    counts = np.zeros(len(queries), dtype=np.int64)
    cdef const uint64_t *queries_at = words_at(queries)
    cdef uint64_t *keys_at = <uint64_t *>words_at(keys)
    cdef int64_t[::1] counts_at = counts
    cdef int64_t n_queries = len(queries)
    cdef int done
    if asked.n_segments and n_queries:
        with nogil:
            done = nearest_of(simd_level, asked.segments, asked.n_segments, queries_at, n_queries, choice,
                              keys_at, &counts_at[0])
        if not done:
            raise MemoryError("no memory for the candidates")
    return unpacked(keys, counts)


def scan_nearest_many(list segments, queries, int n):
    """nearest_many by comparing everything: exact."""
    cdef Asked asked = Asked(segments)
    keys = np.zeros((len(queries), n), dtype=np.uint64)
    counts = np.zeros(len(queries), dtype=np.int64)
    cdef const uint64_t *queries_at = words_at(queries)
    cdef uint64_t *keys_at = <uint64_t *>words_at(keys)
    cdef int64_t[::1] counts_at = counts
    cdef int64_t n_queries = len(queries)
    cdef int done
    if asked.n_segments and n_queries:
        with nogil:
            done = scan_of(simd_level, asked.segments, asked.n_segments, queries_at, n_queries, n, keys_at,
                           &counts_at[0])
        if not done:
            raise MemoryError("no memory for the neighbours")
    return unpacked(keys, counts)


def within_many(list segments, queries, int distance, int expand, int64_t limit):
    """(counts, ids, distances) of candidates within the distance; counts are LIMIT where more
    than `limit` postings would be read."""
    cdef Asked asked = Asked(segments)
    counts = np.zeros(len(queries), dtype=np.int64)
    cdef const uint64_t *queries_at = words_at(queries)
    cdef int64_t[::1] counts_at = counts
    cdef int64_t n_queries = len(queries)
    cdef Matches matches
    matches.keys, matches.n, matches.room = NULL, 0, 0
    cdef int done
    if asked.n_segments and n_queries:
        with nogil:
            done = within_of(simd_level, asked.segments, asked.n_segments, queries_at, n_queries, distance,
                             expand, limit, &matches, &counts_at[0])
        if not done:
            free(matches.keys)
            raise MemoryError("no memory for the matches")
    found = np.empty(matches.n, dtype=np.uint64)
    if len(found):
        memcpy(<uint64_t *>words_at(found.reshape(1, -1)), matches.keys, found.nbytes)
    free(matches.keys)
    ids, distances = found >> np.uint64(32), found & np.uint64(0xFFFFFFFF)
    return counts, ids.astype(np.int64), distances.astype(np.int64)


def check(segment):
    """Every invariant of a segment. Raises BrokenInvariant. O(slices x n)."""
    if isinstance(segment, Frozen):
        return twin.check(segment)
    for s in range(len(segment.cut.starts)):
        what = f"slice index, slice {s}"
        own, slots = segment.lists(s)
        demand(np.array_equal(np.sort(slots), np.arange(len(segment))), f"{what}: slots")
        expected = twin.values(segment.cut, s, segment.rows[slots])
        demand(np.array_equal(own, expected), f"{what}: lists")

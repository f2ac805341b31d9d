"""Signatures → those within a Hamming distance: look-ups in tables of buckets, whole-array.

Pairs (signature, id) are found by `tables`: each masks a signature, multiplies its words, and
takes the high bits of the sum as the bucket (index/layout.py chooses masks and multipliers). Where
tables have widths, the bucket is the leading block and as many bits of those behind it as the
directory has room for; a look-up then asks every bucket within reach of its own.
Buckets are the posting lists of segments.py, whose words are used here. Matches of a query are
sorted by id; an id is given once, at its smallest distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U32Array, U64Array
from scrapy_neardup.kernels.numpy_twin.segments import (
    LIMIT,
    NONE,
    Deal,
    Frozen,
    Growing,
    Rows,
    check_lists,
    count_many,
    demand,
    expire,
    in_turn,
    ranges,
    remove_many,
    row_of,
    sorted_into,
)

__all__ = ["count_many", "expire", "remove_many"]

CANDIDATES = 1 << 20  # compared at once, so that a bulk query's memory stays bounded


class Tables(NamedTuple):
    """Which bits lead in each table and which 32 its entries repeat."""

    masks: U64Array  # shape (tables, words)
    multipliers: U64Array  # shape (tables, words)
    windows: I64Array  # shape (tables, 2): word, rotation to the right
    widths: I64Array  # shape (tables, blocks or 0): bits of the blocks from the leading one on


class SegmentArrays(NamedTuple):
    """The arrays of a Segment. Rows stand in the order of the first table's buckets."""

    rows: U64Array  # shape (n, words)
    ids: U32Array  # shape (n,)
    offsets: U32Array  # shape (tables, buckets + 1): where a bucket starts in its table
    windows: U32Array  # shape (tables - 1, n): entries of the other tables
    slots: U32Array  # shape (tables - 1, n): the rows they stand for


def buckets(tables: Tables, table: int, rows: U64Array, bits: int) -> I64Array:
    """The bucket of each row in a directory of 2**bits; bits from 1 to 32."""
    keys = turned if tables.widths.size else sort_keys
    own: I64Array = (keys(tables, table, rows) >> np.uint64(64 - bits)).astype(np.int64)
    return own


def turned(tables: Tables, table: int, rows: U64Array) -> U64Array:
    """A word of each row with the window at its low end; a single leading block is on top."""
    word, turn = (int(x) for x in tables.windows[table])
    column = rows[:, word]
    high = column << np.uint64(64 - turn) if turn else np.uint64(0)
    found: U64Array = column >> np.uint64(turn) | high
    return found


def windows(tables: Tables, table: int, rows: U64Array) -> U32Array:
    """The 32 bits of each row that entries of the table repeat."""
    return turned(tables, table, rows).astype(np.uint32)


def probes(tables: Tables, table: int, bits: int) -> U32Array:
    """What tells the buckets that a look-up asks from its own: all bits that may differ.

    At most k are set in the first k + 1 blocks, for every k; 0, the own bucket, is the first.
    """
    found, left = np.zeros(1, dtype=np.uint32), bits
    for k, width in enumerate(tables.widths[table].tolist()):
        for place in range(left - 1, max(left - width, 0) - 1, -1):
            fewer = found[np.bitwise_count(found) < k]
            found = np.concatenate([found, fewer | np.uint32(1 << place)])
        left -= width
        if left <= 0:
            break
    return found


def in_reach(tables: Tables, table: int, differing: I64Array, bits: int) -> BoolArray:
    """Whether each of some numbers is one of the probes."""
    reached: BoolArray = np.ones(differing.shape, dtype=bool)
    ends = np.minimum(np.cumsum(tables.widths[table]), bits).tolist() or [bits]
    for k, end in enumerate(ends):
        reached &= np.bitwise_count(differing >> (bits - end)) <= k
        if end == bits:
            break
    return reached


def first_table(tables: Tables, differing: U64Array, bits: int = 0) -> I64Array:
    """The first table that brings rows together which differ so; as many as tables if none does.

    bits: of a directory whose buckets in reach bring them together; 0: equal leading bits do.
    """
    found = np.full(len(differing), len(tables.masks), dtype=np.int64)
    for table in reversed(range(len(tables.masks))):
        if bits and tables.widths.size:
            together = in_reach(tables, table, buckets(tables, table, differing, bits), bits)
        else:
            together = ~(differing & tables.masks[table]).any(axis=1)
        found[together] = table
    return found


def build(
    tables: Tables, rows: U64Array, ids: U32Array, bits: int, deal: Deal = in_turn
) -> SegmentArrays:
    """Sort pairs into buckets; O(tables x n). Order within a bucket is that of the input.

    deal: does work on each of many items; in_turn, or something that uses threads.
    """
    n_tables, n = len(tables.masks), len(rows)
    offsets = np.zeros((n_tables, (1 << bits) + 1), dtype=np.uint32)
    order = sorted_into(offsets[0], buckets(tables, 0, rows, bits), bits)
    entries = (np.empty((n_tables - 1, n), dtype=np.uint32) for _ in ("windows", "slots"))
    arrays = SegmentArrays(rows[order], ids[order], offsets, *entries)

    def build_table(table: int) -> None:
        own = buckets(tables, table, arrays.rows, bits)
        arrays.slots[table - 1] = order = sorted_into(offsets[table], own, bits)
        arrays.windows[table - 1] = windows(tables, table, arrays.rows)[order]

    deal(build_table, range(1, n_tables))
    return arrays


def batches(weights: I64Array, most: int = CANDIDATES) -> Iterator[slice]:
    """Cut queries into batches whose weights add up to about `most`; at least one query each."""
    cumulated, start = np.cumsum(weights), 0
    while start < len(weights):
        spent = cumulated[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(cumulated, spent + most, side="right")))
        yield slice(start, end)
        start = end


class Bucketed(Rows):
    """What both kinds of segments do with what their buckets hold."""

    def matches(self, queries: U64Array, distance: int) -> Iterator[tuple[I64Array, ...]]:
        """(query, slot, distance) of pairs within the distance, in pieces, each pair once."""
        raise NotImplementedError

    def equal(self, rows: U64Array) -> Iterator[tuple[I64Array, I64Array]]:
        """(query, slot) of pairs that have the signatures, each once, in pieces."""
        for query, slot, _ in self.matches(rows, 0):
            yield query, slot


class Segment(Bucketed, Frozen):
    """Contiguous buckets behind a direct directory; the arrays may be read-only maps."""

    def __init__(self, tables: Tables, arrays: SegmentArrays) -> None:
        super().__init__(arrays)
        self.tables = tables
        self.offsets, self.windows, self.slots = arrays[2:]
        self.bits = (self.offsets.shape[1] - 1).bit_length() - 1
        self._probes = [probes(tables, table, self.bits) for table in range(len(tables.masks))]

    @cached_property
    def largest_bucket(self) -> int:
        """Entries of the fullest bucket of any table."""
        return max(int(np.diff(starts).max()) for starts in self.offsets)  # they ascend

    def spans(self, table: int, queries: U64Array) -> tuple[I64Array, I64Array]:
        """Start and length of the buckets that each query asks; shape (queries, probes)."""
        own = buckets(self.tables, table, queries, self.bits)[:, None] ^ self._probes[table]
        starts = self.offsets[table][own].astype(np.int64)
        return starts, self.offsets[table][own + 1] - starts

    def compared(self, queries: U64Array) -> I64Array:
        """How many entries each query is compared with."""
        total = np.zeros(len(queries), dtype=np.int64)
        for table in range(len(self.tables.masks)):
            total += self.spans(table, queries)[1].sum(axis=1)
        return total

    def matches(self, queries: U64Array, distance: int) -> Iterator[tuple[I64Array, ...]]:
        """(query, slot, distance) of pairs within the distance, in pieces, each pair once."""
        if not len(self):
            return
        for part in batches(self.compared(queries)):
            for table in range(len(self.tables.masks)):
                query, slot = self._candidates(table, queries[part], distance)
                near, bits = confirmed(self, table, queries[part][query], slot, distance)
                yield query[near] + part.start, slot[near], bits

    def _candidates(
        self, table: int, queries: U64Array, distance: int
    ) -> tuple[I64Array, I64Array]:
        starts, lengths = self.spans(table, queries)
        place, asked = ranges(starts.ravel(), lengths.ravel())
        query = asked // starts.shape[1]
        if not table:
            differing = np.bitwise_count(self.rows[place, 0] ^ queries[query, 0])
        else:
            own = windows(self.tables, table, queries)
            differing = np.bitwise_count(self.windows[table - 1][place] ^ own[query])
        near = differing <= distance
        place, query = place[near], query[near]
        return query, self.slots[table - 1][place].astype(np.int64) if table else place


def memtable_capacity(n_frozen: int) -> int:
    """How many pairs to gather before they are frozen together with n_frozen others.

    Here every look-up passes over all of them, so few.
    """
    return min(max(n_frozen // 64, 1 << 12), 1 << 16)


class Memtable(Bucketed, Growing):
    """Grows by appending up to a fixed capacity."""

    def __init__(self, tables: Tables, capacity: int, bits: int) -> None:
        n_tables, n_words = tables.masks.shape
        super().__init__(capacity, n_words, n_tables)
        self.tables, self.bits = tables, bits

    def list_of(self, i: int, rows: U64Array) -> I64Array:
        return buckets(self.tables, i, rows, self.bits)

    def compared(self, queries: U64Array) -> I64Array:
        """How many entries each query is compared with: those of its buckets."""
        total = np.zeros(len(queries), dtype=np.int64)
        for part in batches(np.full(len(queries), self._n)):
            for table in range(len(self.tables.masks)):
                total[part] += self._in_bucket(table, queries[part]).sum(axis=1)
        return total

    def _in_bucket(self, table: int, queries: U64Array) -> BoolArray:
        own = buckets(self.tables, table, queries, self.bits)
        return in_reach(self.tables, table, self.lists[table] ^ own[:, None], self.bits)

    def matches(self, queries: U64Array, distance: int) -> Iterator[tuple[I64Array, ...]]:
        """(query, slot, distance) of pairs within the distance, in pieces, each pair once."""
        if not self._n:
            return
        for part in batches(np.full(len(queries), self._n)):
            for table in range(len(self.tables.masks)):
                query, slot = np.nonzero(self._in_bucket(table, queries[part]))
                near, bits = confirmed(self, table, queries[part][query], slot, distance)
                yield query[near] + part.start, slot[near], bits


AnySegment = Segment | Memtable


def confirmed(
    segment: AnySegment, table: int, queries: U64Array, slots: I64Array, distance: int
) -> tuple[I64Array, I64Array]:
    """Which candidates of a table are near, there, and not found by an earlier table."""
    differing = segment.rows[slots] ^ queries
    bits = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
    near = (bits <= distance) & (first_table(segment.tables, differing, segment.bits) == table)
    if segment.tombstones is not None:
        near &= segment.tombstones[slots] == 0
    return np.flatnonzero(near), bits[near]


def first_many(
    segments: Sequence[AnySegment], queries: U64Array, distance: int, limit: int
) -> I64Array:
    """The smallest id near each query; NONE, or LIMIT where more than `limit` entries compare."""
    none = np.int64(2**32)
    first = np.full(len(queries), none)
    for segment in segments:
        for query, slot, _ in segment.matches(queries, distance):
            np.minimum.at(first, query, segment.ids[slot].astype(np.int64))
    first[first == none] = NONE
    first[_compared(segments, queries) > limit] = LIMIT
    return first


def first_one(segments: Sequence[AnySegment], signature: bytes, distance: int, limit: int) -> int:
    """first_many for one signature of little-endian bytes."""
    return int(first_many(segments, row_of(signature), distance, limit)[0])


def all_many(
    segments: Sequence[AnySegment], queries: U64Array, distance: int, limit: int
) -> tuple[I64Array, I64Array, I64Array]:
    """(counts, ids, distances): how many are near each query, or LIMIT, and then all of them."""
    over = _compared(segments, queries) > limit
    found = [np.zeros((3, 0), dtype=np.int64)]
    for segment in segments:
        for query, slot, bits in segment.matches(queries, distance):
            kept = ~over[query]
            found.append(np.stack([query, segment.ids[slot], bits])[:, kept])
    query, ids, bits = np.concatenate(found, axis=1)
    order = np.lexsort((bits, ids, query))
    query, ids, bits = query[order], ids[order], bits[order]
    fresh = np.ones(len(ids), dtype=bool)
    fresh[1:] = (ids[1:] != ids[:-1]) | (query[1:] != query[:-1])
    counts = np.bincount(query[fresh], minlength=len(queries)).astype(np.int64)
    counts[over] = LIMIT
    return counts, ids[fresh], bits[fresh]


def all_one(
    segments: Sequence[AnySegment], signature: bytes, distance: int, limit: int
) -> tuple[I64Array, I64Array] | None:
    """all_many for one signature of little-endian bytes; None at the limit."""
    counts, ids, bits = all_many(segments, row_of(signature), distance, limit)
    return None if counts[0] == LIMIT else (ids, bits)


def sort_keys(tables: Tables, table: int, rows: U64Array) -> U64Array:
    """A number for each row that depends on its leading bits only, and differs where they do.

    For signatures of several words two leading values may, very rarely, share a number.
    """
    keys: U64Array = ((rows & tables.masks[table]) * tables.multipliers[table]).sum(
        axis=1, dtype=np.uint64
    )
    return keys


def join(
    tables: Tables,
    table: int,
    rows: U64Array,
    ends: I64Array,
    start: int,
    stop: int,
    distance: int,
) -> tuple[I64Array, I64Array, I64Array]:
    """Pairs (i, j, bits) with start <= i < stop and i < j < ends[i], within the distance.

    A pair is left out if an earlier table brings it together too. Order unspecified.
    """
    found = [np.zeros((3, 0), dtype=np.int64)]
    left = np.arange(start, stop)
    for step in range(1, int((ends[start:stop] - left).max(initial=1))):
        left = left[left + step < ends[left]]
        differing = rows[left] ^ rows[left + step]
        bits = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
        near = np.flatnonzero(bits <= distance)
        near = near[first_table(tables, differing[near]) == table]
        found.append(np.stack([left[near], left[near] + step, bits[near]]))
    one, other, bits = np.concatenate(found, axis=1)
    return one, other, bits


def _compared(segments: Sequence[AnySegment], queries: U64Array) -> I64Array:
    total = np.zeros(len(queries), dtype=np.int64)
    for segment in segments:
        total += segment.compared(queries)
    return total


def check(segment: AnySegment) -> None:
    """Every invariant of a segment. Raises BrokenInvariant. O(tables x n)."""
    for table in range(len(segment.tables.masks)):
        what = f"permuted index, table {table}"
        if isinstance(segment, Memtable):
            own = buckets(segment.tables, table, segment.rows, segment.bits)
            demand(np.array_equal(own, segment.lists[table]), f"{what}: buckets of the memtable")
            continue
        slots = segment.slots[table - 1].astype(np.int64) if table else np.arange(len(segment))
        rows = segment.rows[slots]
        own = buckets(segment.tables, table, rows, segment.bits)
        check_lists(segment.offsets[table], slots, own, len(segment), what)
        if table:
            repeated = windows(segment.tables, table, rows)
            demand(np.array_equal(repeated, segment.windows[table - 1]), f"{what}: windows")

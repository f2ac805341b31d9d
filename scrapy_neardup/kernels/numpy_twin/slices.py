"""Inverted signature slice lists: wide signatures → near ones, through lists of equal slices.

A signature is cut into slices; the value of a slice, at its place, names a list of the rows
that have it (Chappell, Geva, Zuccon 2015, section 5): the posting lists of segments.py, whose
words are used here. Ids are given once, at their smallest distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.kernels.numpy_twin import I64Array, U32Array, U64Array
from scrapy_neardup.kernels.numpy_twin.segments import (
    LIMIT,
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
    smallest_each,
    sorted_into,
)

__all__ = ["count_many", "expire", "remove_many"]

ALL, BOUNDS, SCORE = 0, 1, 2  # which candidates get their true distance

Near = tuple[I64Array, I64Array, I64Array]  # row, slice, bits that differ in it


class Slices(NamedTuple):
    """Where the slices are."""

    starts: I64Array  # shape (slices,): lowest bit
    widths: I64Array  # shape (slices,): bits, at most 26
    bases: I64Array  # shape (slices + 1,): where each slice's part of the directory starts


class SegmentArrays(NamedTuple):
    """The arrays of a Segment; rows in the order they came."""

    rows: U64Array  # shape (n, words)
    ids: U32Array  # shape (n,)
    offsets: U32Array  # shape (bases[-1],): for slice s, value v the list's start and, next, end
    postings: U32Array  # shape (slices, n): rows by value of the slice


def bits_of(rows: U64Array, start: int, width: int) -> U32Array:
    """Bits start to start + width (at most 32) of each row, from the least significant."""
    word, low = divmod(start, 64)
    own = rows[:, word] >> np.uint64(low)
    if low + width > 64:
        own = own | rows[:, word + 1] << np.uint64(64 - low)
    return (own & np.uint64((1 << width) - 1)).astype(np.uint32)


def values(cut: Slices, s: int, rows: U64Array) -> U32Array:
    """Slice s of each row."""
    return bits_of(rows, int(cut.starts[s]), int(cut.widths[s]))


@cache
def masks(width: int, distance: int) -> U32Array:
    """Every number of `width` bits with `distance` of them set."""
    chosen = combinations(range(width), distance)
    return np.array([sum(1 << bit for bit in bits) for bits in chosen], dtype=np.uint32)


def build(cut: Slices, rows: U64Array, ids: U32Array, deal: Deal = in_turn) -> SegmentArrays:
    """Sort rows into lists; O(slices x n). deal: see kernels.hamming.build."""
    offsets = np.zeros(int(cut.bases[-1]), dtype=np.uint32)
    postings = np.empty((len(cut.starts), len(rows)), dtype=np.uint32)

    def sort_slice(s: int) -> None:
        own = offsets[cut.bases[s] : cut.bases[s + 1]]
        postings[s] = sorted_into(own, values(cut, s, rows), int(cut.widths[s]))

    deal(sort_slice, range(len(cut.starts)))
    return SegmentArrays(np.array(rows, order="C"), np.array(ids), offsets, postings)


class Listed(Rows):
    """What both kinds of segments do with what their lists hold."""

    def near(self, row: U64Array, expand: int) -> Near:
        """The postings of every list at most `expand` bits from the row's."""
        raise NotImplementedError

    def equal(self, rows: U64Array) -> Iterator[tuple[I64Array, I64Array]]:
        """(query, slot) of pairs that are there and have the signatures, each once."""
        for query, row in enumerate(rows):
            slots = candidates(self, self.near(row, 0)[0])
            slots = slots[(self.rows[slots] == row).all(axis=1)]
            yield np.full(len(slots), query), slots


class Segment(Listed, Frozen):
    """Lists that lie in one block; the arrays may be read-only maps."""

    def __init__(self, cut: Slices, arrays: SegmentArrays) -> None:
        super().__init__(arrays)
        self.cut = cut
        self.offsets, self.postings = arrays[2:]

    @property
    def largest_bucket(self) -> int:
        """Rows in the longest list."""
        bases = self.cut.bases
        lists = [np.diff(self.offsets[a:b].astype(np.int64)) for a, b in pairwise(bases)]
        return max(int(lengths.max()) for lengths in lists)

    def near(self, row: U64Array, expand: int) -> Near:
        """The postings of every list at most `expand` bits from the row's."""
        found = [np.zeros((3, 0), dtype=np.int64)]
        for s, width in enumerate(self.cut.widths.tolist()):
            own = values(self.cut, s, row[None])[0]
            for distance in range(min(expand, width) + 1):
                lists = self.cut.bases[s] + (masks(width, distance) ^ own)
                starts = self.offsets[lists].astype(np.int64)
                places, _ = ranges(starts, self.offsets[lists + 1] - starts)
                slots = self.postings[s][places].astype(np.int64)
                found.append(
                    np.stack([slots, np.full_like(slots, s), np.full_like(slots, distance)])
                )
        slots, slices, distances = np.concatenate(found, axis=1)
        return slots, slices, distances


def memtable_capacity(n_frozen: int) -> int:
    """How many pairs to gather before they are frozen together with n_frozen others."""
    return min(max(n_frozen // 16, 1 << 10), 1 << 16)


class Memtable(Listed, Growing):
    """Grows by appending up to a fixed capacity."""

    def __init__(self, cut: Slices, capacity: int, n_words: int) -> None:
        super().__init__(capacity, n_words, len(cut.starts))
        self.cut = cut

    def list_of(self, i: int, rows: U64Array) -> U32Array:
        return values(self.cut, i, rows)

    def near(self, row: U64Array, expand: int) -> Near:
        """What lists of values at most `expand` bits away would hold."""
        own = np.array([values(self.cut, s, row[None])[0] for s in range(len(self.lists))])
        differing = np.bitwise_count(self.lists ^ own[:, None])
        slices, slots = np.nonzero(differing <= expand)
        return slots, slices, differing[slices, slots].astype(np.int64)


AnySegment = Segment | Memtable


def distances_to(segment: AnySegment, slots: I64Array, row: U64Array) -> I64Array:
    """True distances of rows."""
    bits: I64Array = np.bitwise_count(segment.rows[slots] ^ row).sum(axis=1, dtype=np.int64)
    return bits


def candidates(segment: Rows, slots: I64Array) -> I64Array:
    """The slots without repeats and without removed ones."""
    return segment.there(np.unique(slots))


def best(keys: I64Array, n: int) -> Any:
    """Which are the n smallest keys, in ascending order."""
    return np.argsort(keys, kind="stable")[:n]


def chosen(
    segment: AnySegment, near: Near, n: int, expand: int, admit: int, verify: int
) -> I64Array:
    """Candidates that deserve their true distance.

    A row is a candidate if one of its slices differs in at most `admit` bits (the paper's j).
    Slices seen within `expand` bits (its i) bound the distance: optimistically every other
    slice differs in expand + 1 bits, pessimistically in all. BOUNDS drops rows that cannot be
    among the n nearest candidates; SCORE keeps the n with the best pessimistic distance,
    which orders them like the paper's score.
    """
    slots, slices, differing = near
    candidates = segment.there(np.unique(slots[differing <= admit]))
    if verify == ALL or len(candidates) <= n:
        return candidates
    kept = np.isin(slots, candidates)
    own = np.searchsorted(candidates, slots[kept])
    n_bits, n_slices = 64 * segment.rows.shape[1], len(segment.cut.starts)
    seen = np.bincount(own, minlength=len(candidates))
    seen_bits = np.bincount(own, segment.cut.widths[slices[kept]], len(candidates))
    differing_bits = np.bincount(own, differing[kept], len(candidates))
    pessimistic = (differing_bits + n_bits - seen_bits).astype(np.int64)
    if verify == SCORE:
        kept = best(pessimistic << 32 | segment.ids[candidates], n)
    else:
        optimistic = differing_bits + (n_slices - seen) * (expand + 1)
        kept = optimistic <= np.partition(pessimistic, n - 1)[n - 1]
    survivors: I64Array = candidates[kept]
    return survivors


def nearest_many(
    segments: Sequence[AnySegment],
    queries: U64Array,
    n: int,
    expand: int,
    admit: int,
    verify: int,
) -> tuple[I64Array, I64Array]:
    """The n nearest candidates of each query, nearest first, then by id.

    Ids, -1 where there are fewer, and distances; each of shape (queries, n).
    """
    ids = np.full((len(queries), n), -1, dtype=np.int64)
    distances = np.full((len(queries), n), -1, dtype=np.int64)
    for i, row in enumerate(queries):
        found = [np.zeros((2, 0), dtype=np.int64)]
        for segment in segments:
            slots = chosen(segment, segment.near(row, expand), n, expand, admit, verify)
            found.append(np.stack([segment.ids[slots], distances_to(segment, slots, row)]))
        own_ids, own_distances = smallest_each(*np.concatenate(found, axis=1))
        order = best(own_distances << 32 | own_ids, n)
        ids[i, : len(order)], distances[i, : len(order)] = own_ids[order], own_distances[order]
    return ids, distances


def within_many(
    segments: Sequence[AnySegment], queries: U64Array, distance: int, expand: int, limit: int
) -> tuple[I64Array, I64Array, I64Array]:
    """(counts, ids, distances) of candidates within the distance; counts are LIMIT where more
    than `limit` postings would be read."""
    counts = np.zeros(len(queries), dtype=np.int64)
    ids, distances = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for i, row in enumerate(queries):
        near = [segment.near(row, expand) for segment in segments]
        if sum(len(slots) for slots, _, _ in near) > limit:
            counts[i] = LIMIT
            continue
        own_ids, own_distances = smallest_each(*_verified(segments, near, row, distance))
        counts[i] = len(own_ids)
        ids.append(own_ids)
        distances.append(own_distances)
    return counts, np.concatenate(ids), np.concatenate(distances)


def _verified(
    segments: Sequence[AnySegment], near: Sequence[Near], row: U64Array, distance: int
) -> Iterator[I64Array]:
    found = [np.zeros((2, 0), dtype=np.int64)]
    for segment, (slots, _, _) in zip(segments, near, strict=True):
        slots = candidates(segment, slots)
        bits = distances_to(segment, slots, row)
        slots, bits = slots[bits <= distance], bits[bits <= distance]
        found.append(np.stack([segment.ids[slots].astype(np.int64), bits]))
    yield from np.concatenate(found, axis=1)


def scan_nearest_many(
    segments: Sequence[AnySegment], queries: U64Array, n: int
) -> tuple[I64Array, I64Array]:
    """nearest_many by comparing everything: exact."""
    ids = np.full((len(queries), n), -1, dtype=np.int64)
    distances = np.full((len(queries), n), -1, dtype=np.int64)
    for i, row in enumerate(queries):
        slots = [segment.there(np.arange(len(segment))) for segment in segments]
        own_ids = [
            segment.ids[s].astype(np.int64) for segment, s in zip(segments, slots, strict=True)
        ]
        bits = [distances_to(segment, s, row) for segment, s in zip(segments, slots, strict=True)]
        every = smallest_each(np.concatenate(own_ids), np.concatenate(bits))
        order = best(every[1] << 32 | every[0], n)
        ids[i, : len(order)], distances[i, : len(order)] = every[0][order], every[1][order]
    return ids, distances


def check(segment: AnySegment) -> None:
    """Every invariant of a segment. Raises BrokenInvariant. O(slices x n)."""
    for s in range(len(segment.cut.starts)):
        what = f"slice index, slice {s}"
        if isinstance(segment, Memtable):
            own = values(segment.cut, s, segment.rows)
            demand(np.array_equal(own, segment.lists[s]), f"{what}: values of the memtable")
            continue
        slots = segment.postings[s].astype(np.int64)
        offsets = segment.offsets[segment.cut.bases[s] : segment.cut.bases[s + 1]]
        check_lists(offsets, slots, values(segment.cut, s, segment.rows[slots]), len(slots), what)

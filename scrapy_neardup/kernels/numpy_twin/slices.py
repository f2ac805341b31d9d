"""Inverted signature slice lists: wide signatures → near ones, through lists of equal slices.

A signature is cut into slices; the value of a slice, at its place, names a list of the rows
that have it (Chappell, Geva, Zuccon 2015, section 5). Tiers as in hamming.py: `Frozen` has its
lists in one block, `Live` grows. Ids are given once, at their smallest distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.kernels.numpy_twin import I64Array, U8Array, U32Array, U64Array
from scrapy_neardup.kernels.numpy_twin.hamming import LIMIT, Run, in_turn, mark, ranges

ALL, BOUNDS, SCORE = 0, 1, 2  # which candidates get their true distance

Near = tuple[I64Array, I64Array, I64Array]  # row, slice, bits that differ in it


class Shape(NamedTuple):
    """Where the slices are."""

    starts: I64Array  # shape (slices,): lowest bit
    widths: I64Array  # shape (slices,): bits, at most 26
    bases: I64Array  # shape (slices + 1,): where each slice's part of the directory starts


class Parts(NamedTuple):
    """The arrays of a Frozen tier; rows in the order they came."""

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


def values(shape: Shape, s: int, rows: U64Array) -> U32Array:
    """Slice s of each row."""
    return bits_of(rows, int(shape.starts[s]), int(shape.widths[s]))


@cache
def masks(width: int, distance: int) -> U32Array:
    """Every number of `width` bits with `distance` of them set."""
    chosen = combinations(range(width), distance)
    return np.array([sum(1 << bit for bit in bits) for bits in chosen], dtype=np.uint32)


def build(shape: Shape, rows: U64Array, ids: U32Array, run: Run = in_turn) -> Parts:
    """Sort rows into lists; O(slices x n). run: see kernels.hamming.build."""
    offsets = np.zeros(int(shape.bases[-1]), dtype=np.uint32)
    postings = np.empty((len(shape.starts), len(rows)), dtype=np.uint32)

    def sort_slice(s: int) -> None:
        own, width = values(shape, s, rows), int(shape.widths[s])
        postings[s] = np.argsort(own.astype(np.uint16) if width <= 16 else own, kind="stable")
        ends = offsets[shape.bases[s] + 1 : shape.bases[s + 1]]
        np.cumsum(np.bincount(own, minlength=1 << width), out=ends)

    run(sort_slice, range(len(shape.starts)))
    return Parts(np.array(rows, order="C"), np.array(ids), offsets, postings)


class Frozen:
    """A tier whose lists lie in one block; its arrays may be read-only maps."""

    def __init__(self, shape: Shape, parts: Parts) -> None:
        self.shape, self.parts = shape, parts
        self.rows, self.ids, self.offsets, self.postings = parts
        self.removed: U8Array | None = None  # one byte a row, 1 where it is forgotten

    def __len__(self) -> int:
        """Rows, removed ones included."""
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        removed = 0 if self.removed is None else self.removed.nbytes
        return removed + sum(array.nbytes for array in self.parts)

    @property
    def largest_bucket(self) -> int:
        """Rows in the longest list."""
        bases = self.shape.bases
        lists = [np.diff(self.offsets[a:b].astype(np.int64)) for a, b in pairwise(bases)]
        return max(int(lengths.max()) for lengths in lists)

    def forget(self, slots: I64Array) -> int:
        """Mark rows as removed; how many were not yet."""
        if self.removed is None or not self.removed.flags.writeable:
            marks = np.zeros(len(self), dtype=np.uint8)
            self.removed = marks if self.removed is None else marks + self.removed
        return mark(self.removed, slots)

    def near(self, row: U64Array, expand: int) -> Near:
        """The postings of every list at most `expand` bits from the row's."""
        found = [np.zeros((3, 0), dtype=np.int64)]
        for s, width in enumerate(self.shape.widths.tolist()):
            own = values(self.shape, s, row[None])[0]
            for distance in range(min(expand, width) + 1):
                lists = self.shape.bases[s] + (masks(width, distance) ^ own)
                starts = self.offsets[lists].astype(np.int64)
                places, _ = ranges(starts, self.offsets[lists + 1] - starts)
                slots = self.postings[s][places].astype(np.int64)
                found.append(
                    np.stack([slots, np.full_like(slots, s), np.full_like(slots, distance)])
                )
        slots, slices, distances = np.concatenate(found, axis=1)
        return slots, slices, distances


def live_capacity(n_frozen: int) -> int:
    """How many pairs to gather before they are frozen together with n_frozen others."""
    return min(max(n_frozen // 16, 1 << 10), 1 << 16)


class Live:
    """A tier of a fixed capacity that grows by appending."""

    def __init__(self, shape: Shape, capacity: int, n_words: int) -> None:
        self.shape, self.capacity = shape, capacity
        self._rows: U64Array = np.zeros((capacity, n_words), dtype=np.uint64)
        self._ids: U32Array = np.zeros(capacity, dtype=np.uint32)
        self._values: U32Array = np.zeros((len(shape.starts), capacity), dtype=np.uint32)
        self.removed: U8Array = np.zeros(capacity, dtype=np.uint8)
        self._n = 0

    def add(self, signature: bytes, id: int) -> None:
        """Append one pair; there must be room."""
        row = np.frombuffer(signature, dtype="<u8").reshape(1, -1)
        self.add_many(row, np.array([id], dtype=np.uint32))

    def add_many(self, rows: U64Array, ids: U32Array) -> None:
        """Append pairs; there must be room for all."""
        end = self._n + len(rows)
        self._rows[self._n : end] = rows
        self._ids[self._n : end] = ids
        for s in range(len(self.shape.starts)):
            self._values[s, self._n : end] = values(self.shape, s, rows)
        self._n = end

    def __len__(self) -> int:
        """Rows, removed ones included."""
        return self._n

    @property
    def rows(self) -> U64Array:
        return self._rows[: self._n]

    @property
    def ids(self) -> U32Array:
        return self._ids[: self._n]

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        pair = 8 * self._rows.shape[1] + 4 + 1 + 4 * len(self._values)
        return int(self._n * pair)

    @property
    def largest_bucket(self) -> int:
        """Rows in the longest list."""
        if not self._n:
            return 0
        return max(int(np.bincount(own[: self._n]).max()) for own in self._values)

    def forget(self, slots: I64Array) -> int:
        """Mark rows as removed; how many were not yet."""
        return mark(self.removed, slots)

    def near(self, row: U64Array, expand: int) -> Near:
        """What lists of values at most `expand` bits away would hold."""
        own = np.array([values(self.shape, s, row[None])[0] for s in range(len(self._values))])
        differing = np.bitwise_count(self._values[:, : self._n] ^ own[:, None])
        slices, slots = np.nonzero(differing <= expand)
        return slots, slices, differing[slices, slots].astype(np.int64)


Tier = Frozen | Live


def distances_to(tier: Tier, slots: I64Array, row: U64Array) -> I64Array:
    """True distances of rows."""
    bits: I64Array = np.bitwise_count(tier.rows[slots] ^ row).sum(axis=1, dtype=np.int64)
    return bits


def there(tier: Tier, slots: I64Array) -> I64Array:
    """The slots without repeats and without removed ones."""
    slots = np.unique(slots)
    return slots if tier.removed is None else slots[tier.removed[slots] == 0]


def best(keys: I64Array, n: int) -> Any:
    """Which are the n smallest keys, in ascending order."""
    return np.argsort(keys, kind="stable")[:n]


def chosen(tier: Tier, near: Near, n: int, expand: int, admit: int, verify: int) -> I64Array:
    """Candidates that deserve their true distance.

    A row is a candidate if one of its slices differs in at most `admit` bits (the paper's j).
    Slices seen within `expand` bits (its i) bound the distance: optimistically every other
    slice differs in expand + 1 bits, pessimistically in all. BOUNDS drops rows that cannot be
    among the n nearest candidates; SCORE keeps the n with the best pessimistic distance,
    which orders them like the paper's score.
    """
    slots, slices, differing = near
    candidates = there(tier, slots[differing <= admit])
    if verify == ALL or len(candidates) <= n:
        return candidates
    kept = np.isin(slots, candidates)
    own = np.searchsorted(candidates, slots[kept])
    n_bits, n_slices = 64 * tier.rows.shape[1], len(tier.shape.starts)
    seen = np.bincount(own, minlength=len(candidates))
    seen_bits = np.bincount(own, tier.shape.widths[slices[kept]], len(candidates))
    differing_bits = np.bincount(own, differing[kept], len(candidates))
    pessimistic = (differing_bits + n_bits - seen_bits).astype(np.int64)
    if verify == SCORE:
        kept = best(pessimistic << 32 | tier.ids[candidates], n)
    else:
        optimistic = differing_bits + (n_slices - seen) * (expand + 1)
        kept = optimistic <= np.partition(pessimistic, n - 1)[n - 1]
    survivors: I64Array = candidates[kept]
    return survivors


def nearest_many(
    tiers: Sequence[Tier],
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
        for tier in tiers:
            slots = chosen(tier, tier.near(row, expand), n, expand, admit, verify)
            found.append(np.stack([tier.ids[slots], distances_to(tier, slots, row)]))
        own_ids, own_distances = smallest_each(*np.concatenate(found, axis=1))
        order = best(own_distances << 32 | own_ids, n)
        ids[i, : len(order)], distances[i, : len(order)] = own_ids[order], own_distances[order]
    return ids, distances


def smallest_each(ids: I64Array, distances: I64Array) -> tuple[I64Array, I64Array]:
    """Each id once, ascending, with its smallest distance."""
    order = np.lexsort((distances, ids))
    ids, distances = ids[order], distances[order]
    first = np.ones(len(ids), dtype=bool)
    first[1:] = ids[1:] != ids[:-1]
    return ids[first], distances[first]


def within_many(
    tiers: Sequence[Tier], queries: U64Array, distance: int, expand: int, limit: int
) -> tuple[I64Array, I64Array, I64Array]:
    """(counts, ids, distances) of candidates within the distance; counts are LIMIT where more
    than `limit` postings would be read."""
    counts = np.zeros(len(queries), dtype=np.int64)
    ids, distances = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for i, row in enumerate(queries):
        near = [tier.near(row, expand) for tier in tiers]
        if sum(len(slots) for slots, _, _ in near) > limit:
            counts[i] = LIMIT
            continue
        own_ids, own_distances = smallest_each(*_verified(tiers, near, row, distance))
        counts[i] = len(own_ids)
        ids.append(own_ids)
        distances.append(own_distances)
    return counts, np.concatenate(ids), np.concatenate(distances)


def _verified(
    tiers: Sequence[Tier], near: Sequence[Near], row: U64Array, distance: int
) -> Iterator[I64Array]:
    found = [np.zeros((2, 0), dtype=np.int64)]
    for tier, (slots, _, _) in zip(tiers, near, strict=True):
        slots = there(tier, slots)
        bits = distances_to(tier, slots, row)
        slots, bits = slots[bits <= distance], bits[bits <= distance]
        found.append(np.stack([tier.ids[slots].astype(np.int64), bits]))
    yield from np.concatenate(found, axis=1)


def scan_nearest_many(
    tiers: Sequence[Tier], queries: U64Array, n: int
) -> tuple[I64Array, I64Array]:
    """nearest_many by comparing everything: exact."""
    ids = np.full((len(queries), n), -1, dtype=np.int64)
    distances = np.full((len(queries), n), -1, dtype=np.int64)
    for i, row in enumerate(queries):
        slots = [there(tier, np.arange(len(tier))) for tier in tiers]
        own_ids = [tier.ids[s].astype(np.int64) for tier, s in zip(tiers, slots, strict=True)]
        bits = [distances_to(tier, s, row) for tier, s in zip(tiers, slots, strict=True)]
        every = smallest_each(np.concatenate(own_ids), np.concatenate(bits))
        order = best(every[1] << 32 | every[0], n)
        ids[i, : len(order)], distances[i, : len(order)] = every[0][order], every[1][order]
    return ids, distances


def copies(tier: Tier, row: U64Array, id: int) -> I64Array:
    """The slots of a pair that were not removed."""
    slots = there(tier, np.unique(tier.near(row, 0)[0]))
    same: I64Array = slots[(tier.ids[slots] == id) & (tier.rows[slots] == row).all(axis=1)]
    return same


def count_many(tiers: Sequence[Tier], rows: U64Array, ids: U32Array) -> I64Array:
    """How many copies there are of each pair. O(list) each."""
    pairs = zip(rows, ids.tolist(), strict=True)
    counts = [sum(len(copies(tier, row, id)) for tier in tiers) for row, id in pairs]
    return np.array(counts, dtype=np.int64)


def remove_many(tiers: Sequence[Tier], rows: U64Array, ids: U32Array) -> int:
    """Forget every copy of the pairs; how many there were. O(list) each."""
    pairs = list(zip(rows, ids.tolist(), strict=True))
    return sum(tier.forget(copies(tier, row, id)) for tier in tiers for row, id in pairs)


def expire(tier: Tier, before: int) -> int:
    """Forget every id below `before`; how many pairs there were. O(n)."""
    return tier.forget(np.flatnonzero(tier.ids < before))


def check(tier: Tier) -> None:
    """Every invariant of a tier. Raises BrokenInvariant. O(slices x n)."""
    for s in range(len(tier.shape.starts)):
        if isinstance(tier, Live):
            own = values(tier.shape, s, tier.rows)
            demand(np.array_equal(own, tier._values[s, : len(tier)]), "values", s)
            continue
        slots = tier.postings[s]
        demand(np.array_equal(np.sort(slots), np.arange(len(tier))), "postings", s)
        offsets = tier.offsets[tier.shape.bases[s] : tier.shape.bases[s + 1]].astype(np.int64)
        lengths = np.diff(offsets)
        demand(offsets[0] == 0 and offsets[-1] == len(tier) and (lengths >= 0).all(), "offsets", s)
        own = values(tier.shape, s, tier.rows[slots])
        demand(np.array_equal(own, np.repeat(np.arange(len(lengths)), lengths)), "lists", s)


def demand(holds: Any, what: str, s: int) -> None:
    """Raise BrokenInvariant unless it holds."""
    if not holds:
        raise BrokenInvariant(f"slice index: {what} of slice {s} do not fit the rows")

"""Signatures → those within a Hamming distance: look-ups in tables of buckets, whole-array.

A tier holds pairs (signature, id) and finds them by `tables`: each masks a signature, multiplies
its words, and takes the high bits of the sum as the bucket (index/layout.py chooses masks and
multipliers). The tiers are `Frozen`, arrays that never move, and `Live`, which grows. Queries
run over a list of tiers. Matches of a query are sorted by id; an id is given once, at its
smallest distance. A tier is used by one thread at a time for changes, by any number for queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U8Array, U32Array, U64Array

NONE, LIMIT = -1, -2  # what stands for an id where none is near, where the scan limit is reached
CANDIDATES = 1 << 20  # compared at once, so that a bulk query's memory stays bounded

Run = Callable[[Callable[[int], None], Iterable[int]], None]  # work done on each of many items


class Tables(NamedTuple):
    """Which bits lead in each table and which 32 its entries repeat."""

    masks: U64Array  # shape (tables, words)
    multipliers: U64Array  # shape (tables, words)
    windows: I64Array  # shape (tables, 2): word, rotation to the right


class Parts(NamedTuple):
    """The arrays of a Frozen tier. Rows stand in the order of the first table's buckets."""

    rows: U64Array  # shape (n, words)
    ids: U32Array  # shape (n,)
    offsets: U32Array  # shape (tables, buckets + 1): where a bucket starts in its table
    windows: U32Array  # shape (tables - 1, n): entries of the other tables
    slots: U32Array  # shape (tables - 1, n): the rows they stand for


def buckets(tables: Tables, table: int, rows: U64Array, bits: int) -> I64Array:
    """The bucket of each row in a directory of 2**bits; bits from 1 to 32."""
    own: I64Array = (sort_keys(tables, table, rows) >> np.uint64(64 - bits)).astype(np.int64)
    return own


def windows(tables: Tables, table: int, rows: U64Array) -> U32Array:
    """The 32 bits of each row that entries of the table repeat."""
    word, turn = (int(x) for x in tables.windows[table])
    column = rows[:, word]
    high = column << np.uint64(64 - turn) if turn else np.uint64(0)
    return (column >> np.uint64(turn) | high).astype(np.uint32)


def first_table(tables: Tables, differing: U64Array) -> I64Array:
    """The first table whose leading bits are all equal; as many as there are tables if none."""
    found = np.full(len(differing), len(tables.masks), dtype=np.int64)
    for table in reversed(range(len(tables.masks))):
        found[~(differing & tables.masks[table]).any(axis=1)] = table
    return found


def in_turn(work: Callable[[int], None], items: Iterable[int]) -> None:
    """Do work on each item, one after the other."""
    for item in items:
        work(item)


def build(tables: Tables, rows: U64Array, ids: U32Array, bits: int, run: Run = in_turn) -> Parts:
    """Sort pairs into buckets; O(tables x n). Order within a bucket is that of the input.

    run: how to do work on each of many items; in_turn, or something that uses threads.
    """
    n_tables, n = len(tables.masks), len(rows)
    offsets = np.zeros((n_tables, (1 << bits) + 1), dtype=np.uint32)
    order = _sorted_into(offsets[0], buckets(tables, 0, rows, bits), bits)
    entries = (np.empty((n_tables - 1, n), dtype=np.uint32) for _ in ("windows", "slots"))
    parts = Parts(rows[order], ids[order], offsets, *entries)

    def build_table(table: int) -> None:
        own = buckets(tables, table, parts.rows, bits)
        parts.slots[table - 1] = order = _sorted_into(offsets[table], own, bits)
        parts.windows[table - 1] = windows(tables, table, parts.rows)[order]

    run(build_table, range(1, n_tables))
    return parts


def _sorted_into(offsets: U32Array, own: I64Array, bits: int) -> I64Array:
    """The order of rows by bucket; fills in where each bucket starts."""
    np.cumsum(np.bincount(own, minlength=1 << bits), out=offsets[1:])
    # NumPy sorts 16-bit keys by radix, wider ones by merging: five times slower.
    return np.argsort(own.astype(np.uint16) if bits <= 16 else own, kind="stable")


def ranges(starts: I64Array, lengths: I64Array) -> tuple[I64Array, I64Array]:
    """Every number of many ranges, and which range it belongs to."""
    owner = np.repeat(np.arange(len(starts)), lengths)
    ends = np.cumsum(lengths)
    return np.arange(len(owner)) + (starts - ends + lengths)[owner], owner


def blocks(weights: I64Array, most: int = CANDIDATES) -> Iterator[slice]:
    """Cut queries into runs whose weights add up to about `most`; at least one query a run."""
    cumulated, start = np.cumsum(weights), 0
    while start < len(weights):
        spent = cumulated[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(cumulated, spent + most, side="right")))
        yield slice(start, end)
        start = end


def mark(removed: U8Array, slots: I64Array) -> int:
    """Set the marks of slots, given without repeats; how many were not set."""
    n = int(np.count_nonzero(removed[slots] == 0))
    removed[slots] = 1
    return n


class Frozen:
    """A tier in contiguous buckets behind a direct directory; its arrays may be read-only maps."""

    def __init__(self, tables: Tables, parts: Parts) -> None:
        self.tables, self.parts = tables, parts
        self.rows, self.ids, self.offsets, self.windows, self.slots = parts
        self.bits = (self.offsets.shape[1] - 1).bit_length() - 1
        self.removed: U8Array | None = None  # one byte a row, 1 where it is forgotten

    def forget(self, slots: I64Array) -> int:
        """Mark rows as removed; how many were not yet."""
        if self.removed is None or not self.removed.flags.writeable:
            marks = np.zeros(len(self), dtype=np.uint8)
            self.removed = marks if self.removed is None else marks + self.removed
        return mark(self.removed, slots)

    def __len__(self) -> int:
        """Rows, removed ones included."""
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        removed = 0 if self.removed is None else self.removed.nbytes
        return removed + sum(array.nbytes for array in self.parts)

    @property
    def largest_bucket(self) -> int:
        """Entries of the fullest bucket of any table."""
        return int(np.diff(self.offsets.astype(np.int64), axis=1).max())

    def spans(self, table: int, queries: U64Array) -> tuple[I64Array, I64Array]:
        """Start and length of each query's bucket."""
        own = buckets(self.tables, table, queries, self.bits)
        starts = self.offsets[table][own].astype(np.int64)
        return starts, self.offsets[table][own + 1] - starts

    def compared(self, queries: U64Array) -> I64Array:
        """How many entries each query is compared with."""
        total = np.zeros(len(queries), dtype=np.int64)
        for table in range(len(self.tables.masks)):
            total += self.spans(table, queries)[1]
        return total

    def matches(self, queries: U64Array, distance: int) -> Iterator[tuple[I64Array, ...]]:
        """(query, slot, distance) of pairs within the distance, in pieces, each pair once."""
        if not len(self):
            return
        for part in blocks(self.compared(queries)):
            for table in range(len(self.tables.masks)):
                query, slot = self._candidates(table, queries[part], distance)
                near, bits = confirmed(self, table, queries[part][query], slot, distance)
                yield query[near] + part.start, slot[near], bits

    def _candidates(
        self, table: int, queries: U64Array, distance: int
    ) -> tuple[I64Array, I64Array]:
        place, query = ranges(*self.spans(table, queries))
        if not table:
            differing = np.bitwise_count(self.rows[place, 0] ^ queries[query, 0])
        else:
            own = windows(self.tables, table, queries)
            differing = np.bitwise_count(self.windows[table - 1][place] ^ own[query])
        near = differing <= distance
        place, query = place[near], query[near]
        return query, self.slots[table - 1][place].astype(np.int64) if table else place


def live_capacity(n_frozen: int) -> int:
    """How many pairs to gather before they are frozen together with n_frozen others.

    Here every look-up passes over all of them, so few.
    """
    return min(max(n_frozen // 64, 1 << 12), 1 << 16)


class Live:
    """A tier of a fixed capacity that grows by appending."""

    def __init__(self, tables: Tables, capacity: int, bits: int) -> None:
        self.tables, self.capacity, self.bits = tables, capacity, bits
        n_tables, n_words = tables.masks.shape
        self._rows: U64Array = np.zeros((capacity, n_words), dtype=np.uint64)
        self._ids: U32Array = np.zeros(capacity, dtype=np.uint32)
        self._buckets: U32Array = np.zeros((n_tables, capacity), dtype=np.uint32)
        self.removed: U8Array = np.zeros(capacity, dtype=np.uint8)
        self._n = 0

    def forget(self, slots: I64Array) -> int:
        """Mark rows as removed; how many were not yet."""
        return mark(self.removed, slots)

    def add(self, signature: bytes, id: int) -> None:
        """Append one pair; there must be room."""
        self.add_many(_row(signature), np.array([id], dtype=np.uint32))

    def add_many(self, rows: U64Array, ids: U32Array) -> None:
        """Append pairs; there must be room for all."""
        end = self._n + len(rows)
        self._rows[self._n : end] = rows
        self._ids[self._n : end] = ids
        for table in range(len(self.tables.masks)):
            self._buckets[table, self._n : end] = buckets(self.tables, table, rows, self.bits)
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
        pair = 8 * self._rows.shape[1] + 4 + 1 + 4 * len(self._buckets)
        return int(self._n * pair)

    @property
    def largest_bucket(self) -> int:
        """Entries of the fullest bucket of any table."""
        if not self._n:
            return 0
        return max(int(np.bincount(own[: self._n]).max()) for own in self._buckets)

    def compared(self, queries: U64Array) -> I64Array:
        """How many entries each query is compared with: those of its buckets."""
        total = np.zeros(len(queries), dtype=np.int64)
        for part in blocks(np.full(len(queries), self._n)):
            for table in range(len(self.tables.masks)):
                total[part] += self._in_bucket(table, queries[part]).sum(axis=1)
        return total

    def _in_bucket(self, table: int, queries: U64Array) -> BoolArray:
        own = buckets(self.tables, table, queries, self.bits).astype(np.uint32)
        same: BoolArray = self._buckets[table, : self._n] == own[:, None]
        return same

    def matches(self, queries: U64Array, distance: int) -> Iterator[tuple[I64Array, ...]]:
        """(query, slot, distance) of pairs within the distance, in pieces, each pair once."""
        if not self._n:
            return
        for part in blocks(np.full(len(queries), self._n)):
            for table in range(len(self.tables.masks)):
                query, slot = np.nonzero(self._in_bucket(table, queries[part]))
                near, bits = confirmed(self, table, queries[part][query], slot, distance)
                yield query[near] + part.start, slot[near], bits


Tier = Frozen | Live


def confirmed(
    tier: Tier, table: int, queries: U64Array, slots: I64Array, distance: int
) -> tuple[I64Array, I64Array]:
    """Which candidates of a table are near, there, and not found by an earlier table."""
    differing = tier.rows[slots] ^ queries
    bits = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
    near = (bits <= distance) & (first_table(tier.tables, differing) == table)
    if tier.removed is not None:
        near &= tier.removed[slots] == 0
    return np.flatnonzero(near), bits[near]


def count_many(tiers: Sequence[Tier], rows: U64Array, ids: U32Array) -> I64Array:
    """How many copies there are of each pair. O(bucket) each."""
    counts = np.zeros(len(rows), dtype=np.int64)
    for tier in tiers:
        for query, slot, _ in tier.matches(rows, 0):
            np.add.at(counts, query[tier.ids[slot] == ids[query]], 1)
    return counts


def remove_many(tiers: Sequence[Tier], rows: U64Array, ids: U32Array) -> int:
    """Forget every copy of the pairs; how many there were. O(bucket) each."""
    n = 0
    for tier in tiers:
        found = [slot[tier.ids[slot] == ids[query]] for query, slot, _ in tier.matches(rows, 0)]
        if found:
            n += tier.forget(np.unique(np.concatenate(found)))
    return n


def expire(tier: Tier, before: int) -> int:
    """Forget every id below `before`; how many pairs there were. O(n)."""
    return tier.forget(np.flatnonzero(tier.ids < before))


def first_many(tiers: Sequence[Tier], queries: U64Array, distance: int, limit: int) -> I64Array:
    """The smallest id near each query; NONE, or LIMIT where more than `limit` entries compare."""
    none = np.int64(2**32)
    first = np.full(len(queries), none)
    for tier in tiers:
        for query, slot, _ in tier.matches(queries, distance):
            np.minimum.at(first, query, tier.ids[slot].astype(np.int64))
    first[first == none] = NONE
    first[_compared(tiers, queries) > limit] = LIMIT
    return first


def first_one(tiers: Sequence[Tier], signature: bytes, distance: int, limit: int) -> int:
    """first_many for one signature of little-endian bytes."""
    return int(first_many(tiers, _row(signature), distance, limit)[0])


def all_many(
    tiers: Sequence[Tier], queries: U64Array, distance: int, limit: int
) -> tuple[I64Array, I64Array, I64Array]:
    """(counts, ids, distances): how many are near each query, or LIMIT, and then all of them."""
    over = _compared(tiers, queries) > limit
    found = [np.zeros((3, 0), dtype=np.int64)]
    for tier in tiers:
        for query, slot, bits in tier.matches(queries, distance):
            kept = ~over[query]
            found.append(np.stack([query, tier.ids[slot], bits])[:, kept])
    query, ids, bits = np.concatenate(found, axis=1)
    order = np.lexsort((bits, ids, query))
    query, ids, bits = query[order], ids[order], bits[order]
    fresh = np.ones(len(ids), dtype=bool)
    fresh[1:] = (ids[1:] != ids[:-1]) | (query[1:] != query[:-1])
    counts = np.bincount(query[fresh], minlength=len(queries)).astype(np.int64)
    counts[over] = LIMIT
    return counts, ids[fresh], bits[fresh]


def all_one(
    tiers: Sequence[Tier], signature: bytes, distance: int, limit: int
) -> tuple[I64Array, I64Array] | None:
    """all_many for one signature of little-endian bytes; None at the limit."""
    counts, ids, bits = all_many(tiers, _row(signature), distance, limit)
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


def _compared(tiers: Sequence[Tier], queries: U64Array) -> I64Array:
    total = np.zeros(len(queries), dtype=np.int64)
    for tier in tiers:
        total += tier.compared(queries)
    return total


def _row(signature: bytes) -> U64Array:
    return np.frombuffer(signature, dtype="<u8").reshape(1, -1)


def check(tier: Tier) -> None:
    """Every invariant of a tier. Raises BrokenInvariant. O(tables x n)."""
    if isinstance(tier, Live):
        for table in range(len(tier.tables.masks)):
            own = buckets(tier.tables, table, tier.rows, tier.bits)
            demand(np.array_equal(own, tier._buckets[table, : len(tier)]), "live buckets", table)
        return
    n, everything = len(tier), np.arange(len(tier))
    for table in range(len(tier.tables.masks)):
        slots = tier.slots[table - 1] if table else everything
        demand(np.array_equal(np.sort(slots), everything), "slots", table)
        offsets = tier.offsets[table].astype(np.int64)
        demand(
            offsets[0] == 0 and offsets[-1] == n and (np.diff(offsets) >= 0).all(), "offsets", table
        )
        own = buckets(tier.tables, table, tier.rows[slots], tier.bits)
        demand(
            np.array_equal(own, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))),
            "buckets",
            table,
        )
        if table:
            repeated = windows(tier.tables, table, tier.rows[slots])
            demand(np.array_equal(repeated, tier.windows[table - 1]), "windows", table)


def demand(holds: Any, what: str, table: int) -> None:
    if not holds:
        raise BrokenInvariant(f"permuted index: {what} of table {table} do not fit the rows")

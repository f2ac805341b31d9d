"""Permuted tables cut into shards by ranges of leading bits, and one index over the shards.

All tables end to end, each in the order of its leading bits, form one line of positions. A shard
is a range of it: some whole tables and parts of others (simhash-py's README).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np

from scrapy_neardup.errors import BrokenInvariant, SpecError
from scrapy_neardup.index import BulkMatches, Matches
from scrapy_neardup.index.inputs import check_distance, ids_of, rows_of
from scrapy_neardup.index.layout import Layout
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.index.removal import Removal
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.segments import smallest_each
from scrapy_neardup.kernels.numpy_twin.slices import bits_of

TABLE = 1 << 32  # positions in a table: the first 32 leading bits
SAMPLE = 1 << 16  # pairs that decide where to cut


def positions(layout: Layout, table: int, rows: U64Array) -> I64Array:
    """The positions of rows in a table, on the line of all tables."""
    place, left = np.full(len(rows), table, dtype=np.int64), 32
    for block in layout.tables[table]:
        high, low = layout.edges[block], layout.edges[block + 1]
        width = min(high - low, left)
        if not width:
            break
        place = place << width | bits_of(rows, high - width, width).astype(np.int64)
        left -= width
    return place << left


class Shard(PermutedIndex):
    """The pairs at positions low <= p < high of any table, with the tables that reach there.

    whole: the layout that was cut. For queries whose position lies in the shard it gives the
    answers of the whole index.
    """

    whole: Layout
    low: int
    high: int

    @classmethod
    def of_range(cls, whole: Layout, low: int, high: int) -> Self:
        """An empty shard."""
        tables = whole.tables[low // TABLE : -(-high // TABLE)]
        shard = cls.of_layout(replace(whole, tables=tables))
        shard.whole, shard.low, shard.high = whole, low, high
        return shard

    @property
    def n_home(self) -> int:
        """Pairs whose position in the first table is here; each pair is in one such shard."""
        return int(np.count_nonzero(stands(self, 0, self.pairs()[0])))

    def arrays(self) -> dict[str, Any]:
        return super().arrays() | {"range": np.array([self.low, self.high])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        shard = super().from_arrays(arrays)
        shard.whole = Layout(shard.layout.blocks, shard.layout.distance, shard.bits)
        shard.low, shard.high = (int(x) for x in arrays["range"])
        return shard


class ShardLike(Protocol):
    """What ShardedIndex asks of a shard: a Shard, or a proxy of one in another process."""

    whole: Layout
    low: int
    high: int

    @property
    def n_home(self) -> int: ...
    def add_many(self, fps: U64Array, ids: I64Array) -> None: ...
    def holds_many(self, fps: U64Array, ids: I64Array) -> BoolArray: ...
    def discard_many(self, fps: U64Array, ids: I64Array) -> int: ...
    def first_within_many(self, fps: U64Array, distance: int) -> I64Array: ...
    def all_within_many(self, fps: U64Array, distance: int) -> BulkMatches: ...


def stands(shard: ShardLike, table: int, rows: U64Array) -> BoolArray:
    """Which rows have their position in one table in the shard."""
    if not shard.low < (table + 1) * TABLE or not table * TABLE < shard.high:
        return np.zeros(len(rows), dtype=bool)
    place = positions(shard.whole, table, rows)
    inside: BoolArray = (shard.low <= place) & (place < shard.high)
    return inside


def concerns(shard: ShardLike, rows: U64Array) -> BoolArray:
    """Which rows have a position in the shard, in any table: it stores and answers these."""
    found = np.zeros(len(rows), dtype=bool)
    for table in range(len(shard.whole.tables)):
        found |= stands(shard, table, rows)
    return found


def cut(index: PermutedIndex, n: int) -> list[Shard]:
    """An index as n shards of about as many table entries each.

    A shard takes 12 bytes a pair for its first table and 8 for each further one that reaches
    into it (64 bits). Raises SpecError.
    """
    if n < 1:
        raise SpecError(f"n={n}: take 1 shard or more")
    rows, ids = index.pairs()
    shards = []
    for low, high in _ranges(index.layout, rows[:: len(rows) // SAMPLE + 1], n):
        shard = Shard.of_range(index.layout, low, high)
        own = concerns(shard, rows)
        shard.add_many(rows[own], ids[own].astype(np.int64))
        shard.compact()
        shards.append(shard)
    return shards


def _ranges(layout: Layout, sample: U64Array, n: int) -> Iterator[tuple[int, int]]:
    n_tables = len(layout.tables)
    everything = [positions(layout, table, sample) for table in range(n_tables)]
    spread = np.sort(np.concatenate([*everything, np.arange(n_tables, dtype=np.int64) * TABLE]))
    edges = [0, *(int(spread[len(spread) * i // n]) for i in range(1, n)), n_tables * TABLE]
    for low, high in pairwise(edges):
        if low < high:  # Many pairs at one position cannot be split: there are fewer shards.
            yield low, high


class ShardedIndex(Removal):
    """One index over shards. A query goes to the shards of its positions: at most one a table.

    Shards must cover all positions of one layout without overlap; SpecError otherwise. They may
    live in other processes, behind objects with a Shard's methods; docs/indexes.md has an example.
    """

    def __init__(self, shards: Sequence[ShardLike]) -> None:
        self.shards = sorted(shards, key=lambda shard: shard.low)
        layouts = {shard.whole for shard in shards}
        if len(layouts) != 1:
            raise SpecError(f"shards of {len(layouts)} layouts: take those of one cut")
        (self.layout,) = layouts
        self.bits, self.max_distance = self.layout.bits, self.layout.distance
        self._check_cover()
        self._n = sum(shard.n_home for shard in shards)

    def _check_cover(self) -> None:
        edge = 0
        for shard in self.shards:
            if shard.low != edge:
                raise SpecError(f"shards: one ends at {edge}, the next starts at {shard.low}")
            edge = shard.high
        if edge != len(self.layout.tables) * TABLE:
            raise SpecError(f"shards end at {edge}, not at {len(self.layout.tables) * TABLE}")

    def add(self, fp: int, id: int) -> None:
        self.add_many(self._row(fp), np.array([id]))

    def add_many(self, fps: U64Array, ids: I64Array) -> None:
        rows = rows_of(fps, self.bits)
        checked = ids_of(ids, len(rows))
        for shard in self.shards:
            own = concerns(shard, rows)
            shard.add_many(rows[own], checked[own].astype(np.int64))
        self._n += len(rows)

    def holds_many(self, fps: U64Array, ids: I64Array) -> BoolArray:
        rows = rows_of(fps, self.bits)
        checked, held = ids_of(ids, len(rows)).astype(np.int64), np.zeros(len(rows), dtype=bool)
        for shard in self.shards:
            home = stands(shard, 0, rows)
            held[home] = shard.holds_many(rows[home], checked[home])
        return held

    def discard_many(self, fps: U64Array, ids: I64Array) -> int:
        rows = rows_of(fps, self.bits)
        checked, n = ids_of(ids, len(rows)), 0
        for shard in self.shards:
            home = stands(shard, 0, rows)
            away = concerns(shard, rows) & ~home
            n += shard.discard_many(rows[home], checked[home].astype(np.int64))
            shard.discard_many(rows[away], checked[away].astype(np.int64))
        self._n -= n
        return n

    def first_within(self, fp: int, distance: int) -> int | None:
        id = int(self.first_within_many(self._row(fp), distance)[0])
        return None if id < 0 else id

    def first_within_many(self, fps: U64Array, distance: int) -> I64Array:
        none = np.int64(2**32)
        rows = self._queries(fps, distance)
        first = np.full(len(rows), none)
        for shard, own in self._asked(rows):
            found = shard.first_within_many(rows[own], distance)
            first[own] = np.minimum(first[own], np.where(found < 0, none, found))
        first[first == none] = -1
        return first

    def all_within(self, fp: int, distance: int) -> Matches:
        found = self.all_within_many(self._row(fp), distance)
        return Matches(found.ids, found.distances)

    def all_within_many(self, fps: U64Array, distance: int) -> BulkMatches:
        rows = self._queries(fps, distance)
        found = [np.zeros((3, 0), dtype=np.int64)]
        for shard, own in self._asked(rows):
            offsets, ids, distances = shard.all_within_many(rows[own], distance)
            found.append(np.stack([np.repeat(own, np.diff(offsets)), ids, distances]))
        queries, ids, distances = np.concatenate(found, axis=1)
        # Ids are below 2**32, so that query and id make one number.
        keys, distances = smallest_each(queries << 32 | ids, distances)
        offsets = np.searchsorted(keys, np.arange(len(rows) + 1) << 32)
        return BulkMatches(offsets, keys & (2**32 - 1), distances)

    def _queries(self, fps: U64Array, distance: int) -> U64Array:
        check_distance(distance, self.max_distance, "lower it, or cut an index of more blocks")
        return rows_of(fps, self.bits)

    def _asked(self, rows: U64Array) -> Iterator[tuple[ShardLike, I64Array]]:
        for shard in self.shards:
            own = np.flatnonzero(concerns(shard, rows))
            if len(own):
                yield shard, own

    def __len__(self) -> int:
        return self._n

    def check(self) -> None:
        """Raises BrokenInvariant unless the shards hold what was counted."""
        n = sum(shard.n_home for shard in self.shards)
        if n != self._n:
            raise BrokenInvariant(f"shards hold {n} pairs, counted as {self._n}")

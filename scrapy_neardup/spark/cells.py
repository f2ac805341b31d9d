"""Fingerprints → cells, the groups of rows that are compared, and their pairs. No Spark here.

A site of few rows is one cell. In a larger site, each table of a layout makes one cell of all rows
with equal leading blocks, as in index/pairs.py; the more rows, the more blocks. A cell of more rows
than are compared at once is split into parts, and every two parts meet in a cell of their own. An
entry is a row in a cell. It carries the beginning of the row's sketch, which rejects most pairs
that are near by fingerprint only. Many entries are packed into one row of Spark's.

k rows that are all near each other would make k**2 / 2 pairs. In a crowded cell only stars and
small buckets are compared: each row with the first rows of the crowd, and with its neighbours in
an order by sketch. Of these rows it is said that not all was compared (candidates.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import comb
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from scrapy_neardup.index.layout import Layout
from scrapy_neardup.index.pairs import PairBatch, ends_of, joined, keyed_row
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.hamming import Tables
from scrapy_neardup.kernels.numpy_twin.mix import fmix64
from scrapy_neardup.spark.columns import Batches, fingerprints_of, numbers_of, words_of

PACKED = "task long, entries binary"
COUNTED = "cell long, n long"
# earlier = later: this row was in a crowded cell, so that not all of its pairs are there.
CANDIDATES = "later long, earlier long, distance long"

CHECK_WORDS = 2  # of the sketch: different texts differ in 64 bits of 128, with a deviation of 6
PLACED = keyed_row(64)
ENTRY = np.dtype([*PLACED.descr, ("check", "u8", (CHECK_WORDS,))])  # row: n << PART_BITS | part
Entries = Any
ENTRIES_A_TASK = 1 << 21  # 80 MB, and three times that while they are sorted
ENTRIES_AT_ONCE = 1 << 21  # collected before they are sent: short rows of Spark's cost more
ROWS_AT_ONCE = 2_000
SMALL_SITE = 1_000  # rows; smaller ones are never cut
# Costs by which a layout is chosen, on one core: making, packing, sorting and copying an entry,
# without Spark's own part; comparing a pair in the compiled kernel.
ENTRY_NS, PAIR_NS = 600, 0.4

# A cell is crowded if a row of it has more near pairs than this on average, by a sample of rows.
NEAR_A_ROW = 32
CROWD_SAMPLE = 64  # rows
SMALL_CELL = 128  # rows; smaller ones are never crowded
FIRST_ROWS, NEIGHBOURS = 2, 4  # of a crowd, that each row of a crowded cell is compared with
TURN_BITS = 16  # of the sketch, by which the orders of two turns differ

# A cell's key: the number of its table among those of all layouts, then bits of a hash.
TABLE_BITS = 10
_TABLE_SHIFT = np.uint64(64 - TABLE_BITS)
# The part of its cell that an entry is in: the only one, or the first or second of two.
PART_BITS, PART_MASK = 2, 3
WHOLE, FIRST, SECOND = 0, 1, 2


class Choice(NamedTuple):
    """One way to cut a site into cells: its tables, numbered from `start` on."""

    tables: Tables
    start: int
    leading_bits: tuple[int, ...]

    def nanoseconds(self, n_rows: int, crowding: F64Array, cell_rows: int) -> float:
        """Cost of a row of a site of n_rows rows. crowding: of all tables, see crowding_of."""
        cells = n_rows * crowding[self.start : self.start + len(self.leading_bits)]
        return float((ENTRY_NS * np.maximum(1, cells / cell_rows) + PAIR_NS * cells / 2).sum())


@cache
def choices(distance: int) -> tuple[Choice, ...]:
    """Ways to cut a site: not at all, then by ever more blocks, up to 2**TABLE_BITS tables."""
    everything = Tables(
        np.zeros((1, 1), np.uint64),
        np.ones((1, 1), np.uint64),
        np.zeros((1, 2), np.int64),
        np.zeros((1, 0), np.int64),
    )
    found, start, blocks = [Choice(everything, 0, (0,))], 1, distance + 1
    while start + comb(blocks, distance) <= 1 << TABLE_BITS and blocks <= 64:
        layout = Layout(blocks, distance)
        leading = tuple(layout.leading_bits(table) for table in range(len(layout.tables)))
        found.append(Choice(layout.kernel_tables, start, leading))
        start, blocks = start + len(leading), blocks + 1
    return tuple(found)


def crowding_of(distance: int, fingerprints: U64Array) -> F64Array:
    """For each table the probability that two rows share a cell, estimated from a sample.

    At least that of random fingerprints. Those of natural language share many more bits,
    because common words are on most pages.
    """
    found = []
    for way in choices(distance):
        for mask, bits in zip(way.tables.masks[:, 0], way.leading_bits, strict=True):
            _, n = np.unique(fingerprints & mask, return_counts=True)
            shared = (n * (n - 1)).sum() / max(1, len(fingerprints) * (len(fingerprints) - 1))
            found.append(max(2.0**-bits, shared))
    return np.array(found)


@dataclass(frozen=True)
class CellPlan:
    """How rows are assigned to cells, and cells to tasks.

    sites, cuts  numbers of the sites that are cut, ascending, and by which of choices()
    hot, parts   cells of more than cell_rows rows, ascending, and how many parts each is split into
    """

    distance: int
    n_tasks: int
    sites: U64Array
    cuts: I64Array
    hot: U64Array
    parts: I64Array

    @classmethod
    def of_sites(
        cls, distance: int, cell_rows: int, sites: U64Array, sizes: I64Array, sample: U64Array
    ) -> CellPlan:
        """The plan for large sites (ascending) of so many rows, with fingerprints like a sample's.

        No cell is known to be hot.
        """
        ways, crowding = choices(distance), crowding_of(distance, sample)
        costs = [
            [w.nanoseconds(size, crowding, cell_rows) for w in ways] for size in sizes.tolist()
        ]
        cuts = np.array([np.argmin(row) for row in costs], np.int64)
        cut, none = cuts > 0, np.zeros(0, np.int64)
        return cls(distance, 1, sites[cut], cuts[cut], none.view(np.uint64), none)

    def with_hot(self, cells: U64Array, parts: I64Array, n_entries: int) -> CellPlan:
        """The plan with these cells (ascending) cut into parts, tasks enough for all entries."""
        return replace(self, hot=cells, parts=parts, n_tasks=n_entries // ENTRIES_A_TASK + 1)


def places_in(sorted_keys: U64Array, keys: U64Array) -> I64Array:
    """Where each key is among sorted ones, -1 where it is not."""
    if not len(sorted_keys):
        return np.full(len(keys), -1)
    at = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return np.where(sorted_keys[at] == keys, at, -1)


class CellRows(NamedTuple):
    """What cells need of rows: place, site's number, fingerprint, CHECK_WORDS of the sketch."""

    ns: I64Array
    sites: U64Array
    fingerprints: U64Array
    checks: U64Array


def entries_of(plan: CellPlan, all_rows: CellRows) -> Entries:
    """The entries of some rows, those of hot cells once for each part that theirs meets."""
    at = places_in(plan.sites, all_rows.sites)
    cuts = np.where(at < 0, 0, np.append(plan.cuts, 0)[at])
    made = [np.zeros(0, ENTRY)]
    for cut in np.unique(cuts).tolist():
        way = choices(plan.distance)[cut]
        ns, sites, fingerprints, checks = (column[cuts == cut] for column in all_rows)
        own = fmix64(sites)
        for table, mask in enumerate(way.tables.masks[:, 0], way.start):
            entries = np.empty(len(ns), ENTRY)
            entries["key"] = keys_of(table, own + (fingerprints & mask))
            entries["row"] = ns << PART_BITS
            entries["words"] = fingerprints[:, None]
            entries["check"] = checks
            made.append(entries)
    return spread(plan, np.concatenate(made))


def keys_of(tables: int | U64Array, names: U64Array) -> U64Array:
    """Keys of the cells of a table that have these names."""
    high = np.asarray(tables, np.uint64) << _TABLE_SHIFT
    keys: U64Array = high | fmix64(names) >> np.uint64(TABLE_BITS)
    return keys


def spread(plan: CellPlan, entries: Entries) -> Entries:
    """Entries with each of a hot cell replaced by one for each part that its own meets."""
    at = places_in(plan.hot, entries["key"])
    if not (at >= 0).any():
        return entries
    hot, parts = entries[at >= 0], plan.parts[at[at >= 0]]
    own = (fmix64(hot["row"].view(np.uint64)) % parts.astype(np.uint64)).astype(np.int64)
    other = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    hot, own, parts = (np.repeat(x, parts) for x in (hot, own, parts))
    low, high = np.minimum(own, other), np.maximum(own, other)
    meeting = fmix64((low * parts + high).astype(np.uint64))
    hot["row"] |= np.where(own == other, WHOLE, np.where(own == low, FIRST, SECOND))
    hot["key"] = keys_of(hot["key"] >> _TABLE_SHIFT, hot["key"] + meeting)
    return np.concatenate([entries[at < 0], hot])


def packed(batches: Batches, plan: CellPlan) -> Batches:
    """Batches of rows (n, site, fingerprint) → batches of PACKED."""
    waiting: list[Entries] = []
    for rows in rows_of(batches):
        waiting.append(entries_of(plan, rows))
        if sum(map(len, waiting)) >= ENTRIES_AT_ONCE:
            yield as_packed(np.concatenate(waiting), plan.n_tasks)
            waiting = []
    if waiting:
        yield as_packed(np.concatenate(waiting), plan.n_tasks)


def rows_of(batches: Batches) -> Iterator[CellRows]:
    """A few rows at a time: each may become thousands of entries."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            few = batch.slice(start, ROWS_AT_ONCE)
            checks = np.zeros((few.num_rows, CHECK_WORDS), np.uint64)
            own = words_of(few, "check", -1)
            checks[:, : own.shape[1]] = own
            sites = numbers_of(few, "site").view(np.uint64)
            yield CellRows(numbers_of(few, "n"), sites, fingerprints_of(few), checks)


def as_packed(entries: Entries, n_tasks: int) -> pa.RecordBatch:
    """Entries as one string of bytes for each task that gets any."""
    tasks = (fmix64(entries["key"]) % np.uint64(n_tasks)).astype(np.int64)
    order = np.argsort(tasks, kind="stable")
    tasks, entries = tasks[order], entries[order]
    starts = np.flatnonzero(np.diff(tasks, prepend=-1))
    offsets = (np.append(starts, len(tasks)) * ENTRY.itemsize).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(entries)]
    strings = pa.Array.from_buffers(pa.binary(), len(starts), buffers)
    return pa.RecordBatch.from_arrays([pa.array(tasks[starts]), strings], ["task", "entries"])


def counted(batches: Batches, plan: CellPlan) -> Batches:
    """Batches of rows → batches of COUNTED: how many of them each cell has."""
    for rows in rows_of(batches):
        keys, counts = np.unique(entries_of(plan, rows)["key"], return_counts=True)
        columns = [pa.array(keys.view(np.int64)), pa.array(counts)]
        yield pa.RecordBatch.from_arrays(columns, ["cell", "n"])


def candidates(
    batches: Batches, distance: int, confirm_distance: int, turn: int = 0, first_new: int = 0
) -> Batches:
    """Batches of PACKED, tasks one after the other → batches of CANDIDATES, each pair once.

    Only pairs within the distance whose checks do not already differ by too much. Rows of crowded
    cells are reported as pairs with themselves. turn: each has other neighbours. first_new: of two
    rows before this place no pair is wanted.
    """
    for entries in unpacked(batches):
        entries, ends, crowded = arranged(entries, distance, confirm_distance, turn)
        rows, checks = entries["row"].copy(), entries["check"].copy()
        incomplete = np.unique(rows[crowded] >> PART_BITS)
        incomplete = incomplete[incomplete >= first_new]
        yield candidate_batch(incomplete, incomplete, np.zeros(len(incomplete), np.int64))
        for found in pairs_of(entries, ends, distance):
            one, other = rows[found.left], rows[found.right]
            differ = np.bitwise_count(checks[found.left] ^ checks[found.right]).sum(axis=1)
            # Rows of different parts meet in one cell only. Rows of the same part meet in every
            # cell of that part, so their pair is taken from the WHOLE cell only.
            part = one & PART_MASK
            wanted = (part == WHOLE) | (part != other & PART_MASK)
            wanted &= differ <= confirm_distance
            wanted &= np.maximum(one, other) >> PART_BITS >= first_new
            a, b = one[wanted] >> PART_BITS, other[wanted] >> PART_BITS
            yield candidate_batch(np.maximum(a, b), np.minimum(a, b), found.distances[wanted])


def candidate_batch(later: I64Array, earlier: I64Array, distances: I64Array) -> pa.RecordBatch:
    """Pairs as a batch of CANDIDATES."""
    arrays = [pa.array(column) for column in (later, earlier, distances)]
    return pa.RecordBatch.from_arrays(arrays, ["later", "earlier", "distance"])


def arranged(
    entries: Entries, distance: int, confirm_distance: int, turn: int
) -> tuple[Entries, I64Array, BoolArray]:
    """Entries sorted by key, where the rows end that each is compared with, and which are crowded.

    Each is compared up to the end of its cell, or, in a crowded cell, with NEIGHBOURS. There the
    first rows of the crowd come first, which are compared with all.
    """
    entries = entries[np.lexsort((entries["row"], entries["key"]))]
    ends, crowded = ends_of(entries["key"]), np.zeros(len(entries), bool)
    last = np.unique(ends)
    sizes = np.diff(last, prepend=0)
    for end, size in zip(last[sizes > SMALL_CELL], sizes[sizes > SMALL_CELL], strict=True):
        cell = entries[end - size : end]
        first = first_of_crowd(cell, distance, confirm_distance)
        if len(first):
            rest = by_sketch(np.delete(cell, first), turn)
            cell[:] = np.concatenate([cell[first], rest])
            near = np.arange(end - len(rest), end) + NEIGHBOURS + 1
            ends[end - len(rest) : end] = np.minimum(near, end)
            crowded[end - size : end] = True
    return entries, ends, crowded


def first_of_crowd(cell: Entries, distance: int, confirm_distance: int) -> I64Array:
    """Places of the first rows near the row that most of a sample are near to.

    None if the cell is not crowded by this sample.
    """
    sample = cell[:: len(cell) // CROWD_SAMPLE][:CROWD_SAMPLE]
    near = near_by_entries(sample[:, None], sample, distance, confirm_distance)
    share = (near.sum() - len(sample)) / (len(sample) * (len(sample) - 1))
    if share * len(cell) / 2 <= NEAR_A_ROW:
        return np.zeros(0, np.int64)
    middle = sample[near.sum(axis=1).argmax()]
    return np.flatnonzero(near_by_entries(cell, middle, distance, confirm_distance))[:FIRST_ROWS]


def near_by_entries(
    one: Entries, other: Entries, distance: int, confirm_distance: int
) -> BoolArray:
    """Which entries may be near by all that they carry."""
    bits = np.bitwise_count(one["words"] ^ other["words"]).sum(axis=-1)
    differ = np.bitwise_count(one["check"] ^ other["check"]).sum(axis=-1)
    near: BoolArray = (bits <= distance) & (differ <= confirm_distance)
    return near


def by_sketch(cell: Entries, turn: int) -> Entries:
    """Rows in an order in which near ones tend to be neighbours; another one each turn."""
    bits = np.unpackbits(cell["check"].copy().view(np.uint8), axis=1)
    turned = np.packbits(np.roll(bits, -TURN_BITS * turn, axis=1), axis=1).view(">u8")
    return cell[np.lexsort((cell["row"], turned[:, 1], turned[:, 0]))]


def unpacked(batches: Batches) -> Iterator[Entries]:
    """The entries of each task; a task may straddle batches."""
    task, held = -1, list[Entries]()
    for batch in batches:
        for own, entries in zip(*map(batch.column, ("task", "entries")), strict=True):
            if own.as_py() != task and held:
                yield np.concatenate(held)
                held = []
            task = own.as_py()
            # Copied, because a view would keep the whole batch in memory.
            held.append(np.frombuffer(entries.as_buffer(), ENTRY).copy())
    if held:
        yield np.concatenate(held)


def pairs_of(entries: Entries, ends: I64Array, distance: int) -> Iterator[PairBatch]:
    """Pairs i < j < ends[i] within the distance of entries sorted by table, by their places."""
    placed = np.empty(len(entries), PLACED)
    placed["key"], placed["words"] = entries["key"], entries["words"]
    placed["row"] = np.arange(len(entries))
    tables = (placed["key"] >> _TABLE_SHIFT).astype(np.int64)
    for way in choices(distance):
        for table in range(len(way.leading_bits)):
            start, end = np.searchsorted(tables, [way.start + table, way.start + table + 1])
            if end - start > 1:
                own = ends[start:end] - start
                yield from joined(placed[start:end], own, way.tables, table, distance)

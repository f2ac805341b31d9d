"""Batch mode: every near pair of a collection that fits on disk but not in memory; clusters.

Works one table at a time: an external sort orders the rows by the table's leading bits, then rows
with equal leading bits are compared. Only the first table in which a pair has equal leading bits
reports it, so pairs already reported need not be remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import scrapy_neardup.kernels as kernels
from scrapy_neardup.index.inputs import rows_of
from scrapy_neardup.index.layout import Layout, propose_blocks
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.hamming import Tables, sort_keys

COMPARED_AT_ONCE = 1 << 22  # of 24 bytes each, where all of them are near
MEMORY_BYTES = 1 << 28


class PairBatch(NamedTuple):
    """Near pairs by row number, left < right; each pair once."""

    left: I64Array
    right: I64Array
    distances: I64Array


SortedRun = Any  # of an external sort, on disk or in memory: an array of keyed_row


def keyed_row(bits: int) -> np.dtype[np.void]:
    """The type of a row to sort: key (its leading bits in a table), row number, signature."""
    return np.dtype([("key", "u8"), ("row", "i8"), ("words", "u8", (bits // 64,))])


def all_pairs(
    fingerprints: U64Array,
    distance: int,
    blocks: int | None = None,
    memory_bytes: int = MEMORY_BYTES,
    folder: Path | None = None,
    progress: bool = False,
) -> Iterator[PairBatch]:
    """Every two rows that differ in at most `distance` bits, in pieces, in no order.

    fingerprints: uint64 of shape (n,) or (n, words), for example np.load(..., mmap_mode="r").
    blocks: as for PermutedIndex, None for the fastest. memory_bytes: approximate limit of memory,
    exceeded if rows with the same leading bits take more, because these are compared at once.
    (16 + 8 words) n bytes go to a temporary folder inside `folder`. progress: a bar of tqdm (the
    extra "dedup").
    O(tables x n log n) plus the comparisons. Raises SpecError, SignatureError.
    """
    n = len(fingerprints)
    bits = 64 * (fingerprints.shape[1] if fingerprints.ndim == 2 else 1)
    layout = Layout(blocks or _blocks_for(n, distance, bits), distance, bits)
    tables = layout.kernel_tables
    with _bar(progress, n * len(layout.tables)) as advance:
        for table in range(len(layout.tables)):
            with TemporaryDirectory(prefix="neardup-pairs-", dir=folder) as scratch:
                runs = list(_runs(fingerprints, bits, tables, table, memory_bytes, Path(scratch)))
                for stretch in _stretches(runs, memory_bytes):
                    yield from joined(stretch, ends_of(stretch["key"]), tables, table, distance)
                    advance(len(stretch))
                runs.clear()  # Windows deletes only files that nobody maps.


def _blocks_for(n: int, distance: int, bits: int) -> int:
    return propose_blocks(max(n, 1), distance, 2**62, bits).blocks


def _runs(
    fingerprints: U64Array, bits: int, tables: Tables, table: int, memory_bytes: int, scratch: Path
) -> Iterator[SortedRun]:
    """Sorted stretches of the collection, each sorted in memory and put on disk."""
    record = keyed_row(bits)
    size = max(1, memory_bytes // (4 * record.itemsize))
    for start in range(0, len(fingerprints), size):
        rows = rows_of(fingerprints[start : start + size], bits)
        keys = sort_keys(tables, table, rows)
        order = np.argsort(keys)
        run = np.memmap(scratch / str(start), dtype=record, mode="w+", shape=(len(rows),))
        run["key"], run["words"], run["row"] = keys[order], rows[order], order + start
        yield run


def _stretches(runs: Sequence[SortedRun], memory_bytes: int) -> Iterator[SortedRun]:
    """The runs merged: stretches sorted by key; rows of one key are in one stretch.

    Splits the range of keys in half until a part fits in memory or holds a single key.
    """
    runs = [run for run in runs if len(run)]
    if not runs:
        return
    low, high = min(run["key"][0] for run in runs), max(run["key"][-1] for run in runs)
    if low == high or 2 * sum(run.nbytes for run in runs) <= memory_bytes:
        merged = np.concatenate(runs)
        yield merged if len(runs) == 1 else merged[np.argsort(merged["key"])]
        return
    longest = max(runs, key=len)
    pivot = max(longest["key"][len(longest) // 2], low + np.uint64(1))
    cuts = [int(np.searchsorted(run["key"], pivot)) for run in runs]
    yield from _stretches([run[:cut] for run, cut in zip(runs, cuts, strict=True)], memory_bytes)
    yield from _stretches([run[cut:] for run, cut in zip(runs, cuts, strict=True)], memory_bytes)


def ends_of(keys: U64Array) -> I64Array:
    """Where the stretch of equal keys ends that each of some sorted keys is in."""
    edges = np.flatnonzero(np.diff(keys, append=~keys[-1:]))
    return np.repeat(edges + 1, np.diff(edges, prepend=-1))


def joined(
    stretch: SortedRun, ends: I64Array, tables: Tables, table: int, distance: int
) -> Iterator[PairBatch]:
    """Near pairs of rows i < j < ends[i], less those that an earlier table reports, in pieces."""
    words = np.ascontiguousarray(stretch["words"])
    for start, stop in _pieces(ends - np.arange(len(words))):
        one, other, bits = kernels.hamming.join(tables, table, words, ends, start, stop, distance)
        if len(bits):
            a, b = stretch["row"][one], stretch["row"][other]
            yield PairBatch(np.minimum(a, b), np.maximum(a, b), bits)


def _pieces(work: I64Array) -> Iterator[tuple[int, int]]:
    """Cut rows so that each piece compares about COMPARED_AT_ONCE pairs."""
    done, start = np.cumsum(work), 0
    while start < len(work):
        goal = (done[start - 1] if start else 0) + COMPARED_AT_ONCE
        stop = max(start + 1, int(np.searchsorted(done, goal)))
        yield start, stop
        start = stop


def clusters(fingerprints: U64Array, distance: int, **how: Any) -> I64Array:
    """Connected components of all_pairs: for each row the smallest row of its cluster.

    how: as for all_pairs. Near is not transitive: a chain of near pairs is one cluster.
    """
    parents = np.arange(len(fingerprints))
    for pairs in all_pairs(fingerprints, distance, **how):
        _unite(parents, pairs.left, pairs.right)
    return _roots(parents, parents)


def _roots(parents: I64Array, rows: I64Array) -> I64Array:
    """Follow parents to the end."""
    while not np.array_equal(above := parents[rows], rows):
        rows = above
    return rows


def _unite(parents: I64Array, left: I64Array, right: I64Array) -> None:
    """Join the trees of each pair, the larger root under the smaller one."""
    while len(left):
        one, other = _roots(parents, left), _roots(parents, right)
        parents[left], parents[right] = one, other  # Shorter paths for the next time.
        apart = one != other
        left, right = one[apart], other[apart]
        np.minimum.at(parents, np.maximum(left, right), np.minimum(left, right))


@contextmanager
def _bar(shown: bool, total: int) -> Iterator[Callable[[int], Any]]:
    """What to call with the number of rows done: a bar of tqdm, or nothing."""
    if not shown:
        yield lambda n: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit="row", unit_scale=True, desc="near pairs") as bar:
        yield bar.update

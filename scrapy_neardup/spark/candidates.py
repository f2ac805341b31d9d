"""Rows of signatures → pairs within reach: by an index sent to everyone, or by a shuffle."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scrapy_neardup.index.layout import Layout
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Iterator[pa.RecordBatch]

PAIRS = "n long, earlier long, distance long, sketch_distance long"
INDEX_BYTES_A_ROW = 128  # index, sketch and site; checked by tests
CELL_KEY = ("table", "slice", "site", "low", "high")


@dataclass(frozen=True, slots=True)
class Reach:
    """How far apart two pages may be, in bits, and how much one machine is given at once.

    broadcast_bytes  an index up to this size is sent to every executor
    cell_rows        rows of a slice that are compared all with all; larger ones are cut
    """

    distance: int
    confirm_distance: int
    broadcast_bytes: int
    cell_rows: int = 2_000


def confirmed_pairs(rows: "DataFrame", min_words: int, reach: Reach) -> "DataFrame":
    """Every two rows of a site within reach, by their places: n, earlier, both distances.

    Only first rows of a text that has `min_words` words or more take part.
    """
    from pyspark.sql import functions as fn

    taking_part = rows.where((fn.col("n") == fn.col("first_n")) & (fn.col("words") >= min_words))
    taking_part = taking_part.select("n", "site", "fingerprint", "sketch")
    if taking_part.count() * INDEX_BYTES_A_ROW <= reach.broadcast_bytes:
        return by_broadcast(taking_part, reach)
    return by_shuffle(taking_part, reach)


def by_broadcast(rows: "DataFrame", reach: Reach) -> "DataFrame":
    """Send one index to every executor and scan it with the rows where they are: no shuffle."""
    index = index_bytes(rows.toArrow(), reach.distance)
    sent = rows.sparkSession.sparkContext.broadcast(index)
    return rows.mapInArrow(lambda batches: scan(batches, sent.value, reach), PAIRS)


def index_bytes(table: pa.Table, distance: int) -> bytes:
    """An index of a table's fingerprints with all that confirms a match, as one string of bytes."""
    columns = columns_of(table)
    index = PermutedIndex(blocks=distance + 1, distance=distance)
    index.add_many(columns["fingerprints"], np.arange(len(columns["ns"]), dtype=np.int64))
    index.compact()
    target = io.BytesIO()
    np.savez(target, **columns, **{f"index.{k}": v for k, v in index.arrays().items()})
    return target.getvalue()


def columns_of(table: pa.Table | pa.RecordBatch) -> dict[str, Any]:
    """The columns of n, site, fingerprint and sketch as arrays; sketches of shape (rows, words)."""
    sketches = b"".join(table.column("sketch").to_pylist())
    fingerprints = table.column("fingerprint").to_numpy(zero_copy_only=False)
    return {
        "ns": table.column("n").to_numpy(zero_copy_only=False),
        "sites": table.column("site").to_numpy(zero_copy_only=False),
        "fingerprints": fingerprints.astype(np.int64).view(np.uint64),
        "sketches": np.frombuffer(sketches, np.uint64).reshape(len(fingerprints), -1),
    }


def scan(batches: Batches, index: bytes, reach: Reach) -> Batches:
    """Batches of rows → batches of their pairs with earlier rows of the index.

    Knows no Spark: any engine that hands out Arrow batches can call it.
    """
    stored = np.load(io.BytesIO(index), allow_pickle=False)
    arrays = {name[6:]: stored[name] for name in stored.files if name.startswith("index.")}
    finder = PermutedIndex.from_arrays(arrays)
    known = {name: stored[name] for name in ("ns", "sites", "sketches")}
    for batch in batches:
        rows = columns_of(batch)
        offsets, ids, distances = finder.all_within_many(rows["fingerprints"], reach.distance)
        queries = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        yield pairs_batch(
            rows["ns"][queries],
            known["ns"][ids],
            distances,
            differing(rows["sketches"][queries], known["sketches"][ids]),
            (rows["sites"][queries] == known["sites"][ids]),
            reach,
        )


def differing(a: U64Array, b: U64Array) -> I64Array:
    """Bits in which two rows of words differ, row by row."""
    bits: I64Array = np.bitwise_count(a ^ b).sum(axis=-1, dtype=np.int64)
    return bits


def pairs_batch(
    ns: I64Array, earlier: I64Array, distances: I64Array, sketch: I64Array, same: Any, reach: Reach
) -> pa.RecordBatch:
    """Those of some candidate pairs that are of one site, confirmed and in order."""
    kept = same & (earlier < ns) & (sketch <= reach.confirm_distance)
    columns = {"n": ns, "earlier": earlier, "distance": distances, "sketch_distance": sketch}
    return pa.RecordBatch.from_pydict({name: pa.array(c[kept]) for name, c in columns.items()})


def by_shuffle(rows: "DataFrame", reach: Reach) -> "DataFrame":
    """Bring rows together that agree in a table's leading blocks, and compare them there.

    One block more than an index would take: ten tables for three bits, so that slices are
    short. A slice of more than cell_rows rows is cut into parts, and each two parts meet in a cell
    of their own, so that no task gets all of a hot slice.
    """
    from pyspark.sql import functions as fn

    layout = Layout(reach.distance + 2, reach.distance)
    slices = "table int, slice long, n long, site long, fingerprint long, sketch binary"
    sliced = rows.mapInArrow(slicer(layout), slices)
    parts = (fn.count("*") / reach.cell_rows).cast("long") + 1
    hot = sliced.groupBy("table", "slice", "site").agg(parts.alias("parts")).where("parts > 1")
    salted = sliced.join(fn.broadcast(hot), ["table", "slice", "site"], "left").fillna(1, ["parts"])
    own, other = fn.col("n") % fn.col("parts"), fn.explode(fn.expr("sequence(0, parts - 1)"))
    cells = salted.select("*", own.alias("own"), other.alias("other")).select(
        *("table", "slice", "site"),
        *(fn.least("own", "other").alias("low"), fn.greatest("own", "other").alias("high")),
        *("n", "own", "fingerprint", "sketch"),
    )
    together = cells.repartition(*CELL_KEY).sortWithinPartitions(*CELL_KEY, "n")
    return together.mapInArrow(comparer(layout, reach), PAIRS)


def slicer(layout: Layout) -> Callable[[Batches], Batches]:
    """A function from rows to one row for each table, with its leading bits."""

    def cut(batches: Batches) -> Batches:
        for batch in batches:
            fingerprints = columns_of(batch)["fingerprints"]
            for table, mask in enumerate(layout.masks[:, 0]):
                columns = {name: batch.column(name) for name in batch.schema.names}
                slices = pa.array((fingerprints & mask).view(np.int64))
                tables = pa.array(np.full(len(fingerprints), table, np.int32))
                first = {"table": tables, "slice": slices}
                yield pa.RecordBatch.from_pydict(first | columns)

    return cut


def comparer(layout: Layout, reach: Reach) -> Callable[[Batches], Batches]:
    """A function from rows sorted by cell to the pairs in each cell."""

    def compare(batches: Batches) -> Batches:
        for cell in cells_of(batches):
            pairs = [pairs_of(cell, i, layout) for i in range(1, len(cell["ns"]))]
            ns, earlier, distances, sketch = map(np.concatenate, zip(*pairs, strict=True))
            near = distances <= reach.distance
            yield pairs_batch(ns, earlier, distances, sketch, near, reach)

    return compare


def cells_of(batches: Batches) -> Iterator[dict[str, Any]]:
    """The cells of two rows or more, each as columns; a cell may straddle batches."""
    begun = pa.table({})
    for batch in batches:
        table = pa.concat_tables([begun, pa.Table.from_batches([batch])], promote_options="default")
        keys = np.stack([table.column(name).to_numpy() for name in CELL_KEY])
        changes = np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1
        *starts, last = [0, *changes.tolist()]
        begun = table.slice(last)
        yield from (
            cell_of(table, *edges) for edges in pairwise([*starts, last]) if is_cell(*edges)
        )
    if is_cell(0, len(begun)):
        yield cell_of(begun, 0, len(begun))


def is_cell(start: int, end: int) -> bool:
    return end - start > 1


def cell_of(table: pa.Table, start: int, end: int) -> dict[str, Any]:
    rows = table.slice(start, end - start)
    first = {name: rows.column(name)[0].as_py() for name in ("table", "low", "high")}
    return columns_of(rows) | {"own": rows.column("own").to_numpy()} | first


def pairs_of(
    cell: dict[str, Any], i: int, layout: Layout
) -> tuple[I64Array, I64Array, I64Array, I64Array]:
    """A row's pairs with the rows before it in its cell that no table before this one finds."""
    differ = cell["fingerprints"][:i] ^ cell["fingerprints"][i]
    agrees = (differ[:, None] & layout.masks[: cell["table"], 0]) == 0
    wanted = ~agrees.any(axis=1)
    if cell["low"] != cell["high"]:
        wanted &= cell["own"][:i] != cell["own"][i]
    j = np.flatnonzero(wanted)
    ns = np.full(len(j), cell["ns"][i])
    sketch = differing(cell["sketches"][j], cell["sketches"][i])
    return ns, cell["ns"][j], np.bitwise_count(differ[j]).astype(np.int64), sketch

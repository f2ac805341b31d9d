"""Rows of signatures → pairs within reach: by an index sent to everyone, or by a shuffle."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scrapy_neardup import similarity
from scrapy_neardup.index.layout import Layout
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.kernels.numpy_twin import F64Array, I64Array, U64Array
from scrapy_neardup.similarity import ROW_WORDS
from scrapy_neardup.spark.signatures import STEPS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Iterator[pa.RecordBatch]
Columns = dict[str, Any]

PAIRS = "n long, earlier long, distance long, sketch_distance long, similarity double"
ROW_FIELDS = "n long, site long, fingerprint long, sketch binary, level int, odd_rows binary"
COLUMNS = ("n", "site", "fingerprint", "sketch", "level", "odd_rows")
INDEX_BYTES_A_ROW = 400  # at distance 6: seven table entries, sketch, odd sketch, site and place
CELL_KEY = ("table", "slice", "site", "low", "high")


@dataclass(frozen=True, slots=True)
class Reach:
    """How unlike two pages may be, and how much one machine is given at once.

    broadcast_bytes  an index up to this size is sent to every executor
    cell_rows        rows of a slice that are compared all with all; larger ones are cut
    """

    distance: int
    confirm_distance: int
    similarity: float
    broadcast_bytes: int
    cell_rows: int = 2_000


def confirmed_pairs(rows: "DataFrame", min_words: int, reach: Reach) -> "DataFrame":
    """Every two rows of a site within reach, by their places: n, earlier, both distances.

    Only first rows of a text that has `min_words` words or more take part.
    """
    from pyspark.sql import functions as fn

    taking_part = rows.where((fn.col("n") == fn.col("first_n")) & (fn.col("words") >= min_words))
    taking_part = taking_part.select(*COLUMNS)
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


def columns_of(table: pa.Table | pa.RecordBatch) -> Columns:
    """COLUMNS as arrays; sketches of shape (rows, words), odd_rows (rows, STEPS, ROW_WORDS)."""
    longs = {name: table.column(name).to_numpy(zero_copy_only=False) for name in COLUMNS[:3]}
    words = {
        name: np.frombuffer(b"".join(table.column(name).to_pylist()), np.uint64)
        for name in ("sketch", "odd_rows")
    }
    n_rows = len(longs["n"])
    return {
        "ns": longs["n"],
        "sites": longs["site"],
        "fingerprints": longs["fingerprint"].astype(np.int64).view(np.uint64),
        "sketches": words["sketch"].reshape(n_rows, -1),
        "levels": table.column("level").to_numpy(zero_copy_only=False).astype(np.int64),
        "odd_rows": words["odd_rows"].reshape(n_rows, len(STEPS), ROW_WORDS),
    }


def scan(batches: Batches, index: bytes, reach: Reach) -> Batches:
    """Batches of rows → batches of their pairs with earlier rows of the index.

    Knows no Spark: any engine that hands out Arrow batches can call it.
    """
    stored = np.load(io.BytesIO(index), allow_pickle=False)
    arrays = {name[6:]: stored[name] for name in stored.files if name.startswith("index.")}
    finder = PermutedIndex.from_arrays(arrays)
    known = {name: stored[name] for name in stored.files if not name.startswith("index.")}
    for batch in batches:
        rows = columns_of(batch)
        offsets, ids, distances = finder.all_within_many(rows["fingerprints"], reach.distance)
        queries = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        yield pairs_batch(rows, queries, known, ids, distances, reach)


def differing(a: U64Array, b: U64Array) -> I64Array:
    """Bits in which two rows of words differ, row by row."""
    bits: I64Array = np.bitwise_count(a ^ b).sum(axis=-1, dtype=np.int64)
    return bits


def pairs_batch(
    rows: Columns, i: I64Array, others: Columns, j: I64Array, distances: I64Array, reach: Reach
) -> pa.RecordBatch:
    """Those of the candidate pairs rows[i], others[j] that are in order, of one site, confirmed."""
    sketch = differing(rows["sketches"][i], others["sketches"][j])
    wanted = (others["ns"][j] < rows["ns"][i]) & (rows["sites"][i] == others["sites"][j])
    wanted &= (distances <= reach.distance) & (sketch <= reach.confirm_distance)
    i, j, distances, sketch = i[wanted], j[wanted], distances[wanted], sketch[wanted]
    similar = similarities(rows, i, others, j)
    columns = (rows["ns"][i], others["ns"][j], distances, sketch, similar)
    names = [part.split()[0] for part in PAIRS.split(", ")]
    confirmed = similar >= reach.similarity
    return pa.RecordBatch.from_arrays([pa.array(c[confirmed]) for c in columns], names=names)


def similarities(rows: Columns, i: I64Array, others: Columns, j: I64Array) -> F64Array:
    """Similarity of pairs, each measured at the level of the second; 0 where levels are far."""
    steps = others["levels"][j] - rows["levels"][i]
    at = np.clip(steps + 1, 0, len(STEPS) - 1)
    measured = similarity.jaccard(rows["odd_rows"][i, at], others["odd_rows"][j, 1])
    return np.where(np.abs(steps) <= 1, measured, 0.0)


def by_shuffle(rows: "DataFrame", reach: Reach) -> "DataFrame":
    """Bring rows together that agree in a table's leading blocks, and compare them there.

    One block more than an index would take: ten tables for three bits, so that slices are
    short. A slice of more than cell_rows rows is cut into parts, and each two parts meet in a cell
    of their own, so that no task gets all of a hot slice.
    """
    from pyspark.sql import functions as fn

    layout = Layout(reach.distance + 2, reach.distance)
    slices = f"table int, slice long, {ROW_FIELDS}"
    sliced = rows.mapInArrow(slicer(layout), slices)
    parts = (fn.count("*") / reach.cell_rows).cast("long") + 1
    hot = sliced.groupBy("table", "slice", "site").agg(parts.alias("parts")).where("parts > 1")
    salted = sliced.join(fn.broadcast(hot), ["table", "slice", "site"], "left").fillna(1, ["parts"])
    own, other = fn.col("n") % fn.col("parts"), fn.explode(fn.expr("sequence(0, parts - 1)"))
    cells = salted.select("*", own.alias("own"), other.alias("other")).select(
        *("table", "slice", "site"),
        *(fn.least("own", "other").alias("low"), fn.greatest("own", "other").alias("high")),
        *("own", *(name for name in COLUMNS if name != "site")),
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
            i, j, distances = map(np.concatenate, zip(*pairs, strict=True))
            yield pairs_batch(cell, i, cell, j, distances, reach)

    return compare


def cells_of(batches: Batches) -> Iterator[Columns]:
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


def cell_of(table: pa.Table, start: int, end: int) -> Columns:
    rows = table.slice(start, end - start)
    first = {name: rows.column(name)[0].as_py() for name in ("table", "low", "high")}
    return columns_of(rows) | {"own": rows.column("own").to_numpy()} | first


def pairs_of(cell: Columns, i: int, layout: Layout) -> tuple[I64Array, I64Array, I64Array]:
    """Row i with those before it in its cell that no table before finds: i, j, distances."""
    differ = cell["fingerprints"][:i] ^ cell["fingerprints"][i]
    agrees = (differ[:, None] & layout.masks[: cell["table"], 0]) == 0
    wanted = ~agrees.any(axis=1)
    if cell["low"] != cell["high"]:
        wanted &= cell["own"][:i] != cell["own"][i]
    j = np.flatnonzero(wanted)
    return np.full(len(j), i), j, np.bitwise_count(differ[j]).astype(np.int64)

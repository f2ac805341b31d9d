"""Rows of signatures → near pairs: fingerprints meet in cells (cells.py), sketches confirm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scrapy_neardup.detect import odd_sketch
from scrapy_neardup.detect.comparison import or_negations
from scrapy_neardup.detect.detector import FactRule
from scrapy_neardup.detect.facts import differences, differences_of_wholes
from scrapy_neardup.detect.near import Measured, NearLimits, near
from scrapy_neardup.detect.odd_sketch import ROW_WORDS
from scrapy_neardup.detect.page_row import DATA_WORDS, say_the_same
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.facts import FACT_WORDS
from scrapy_neardup.spark import cells
from scrapy_neardup.spark.cells import CellPlan
from scrapy_neardup.spark.columns import Batches, fingerprints_of, numbers_of, words_of
from scrapy_neardup.spark.components import cut_off
from scrapy_neardup.spark.decisions import near_a_kept_page
from scrapy_neardup.spark.signatures import BESIDE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Columns = dict[str, Any]
Rows = tuple[Columns, I64Array]

PAIRS = (
    "site long, n long, earlier long, distance long, sketch_distance long, similarity double, "
    "differs long"
)
MEASURED = ("site", "data", "sketch", "level", "odd_row", "facts", "beside")
SLIM = ("n", "site", "fingerprint", "check")
SAMPLED = 100  # rows that the sample has of a cell of cell_rows rows
SAMPLE = 1 << 14  # rows from which the sizes of cells are estimated
TURNS = 8  # in which crowds are compared, at most
SETTLED = 0.01  # share of a crowd that a turn has to settle for another one to follow


@dataclass(frozen=True, slots=True)
class Reach:
    """How different two near pages may be, and how much one machine handles at once.

    cell_rows        rows that are compared all with all; larger cells are split
    facts            "compare" says in which fact near pages differ, "ignore" does not
    """

    distance: int
    confirm_distance: int
    similarity: float
    cell_rows: int = 20_000
    facts: FactRule = "compare"

    @property
    def limits(self) -> NearLimits:
        """The limits of two near pages."""
        return NearLimits(self.distance, self.confirm_distance, self.similarity)


def confirmed_pairs(
    rows: DataFrame, signatures: DataFrame, min_words: int, reach: Reach, first_new: int = 0
) -> tuple[DataFrame, DataFrame]:
    """Near rows of a site: PAIRS, by their places n; and the n of those not compared with all.

    Only first rows of a text that has `min_words` words or more take part. Every two near rows
    are a pair, unless they are in a crowd (cells.py). Of a crowd, what the pairs found so far
    leave standing is compared in further turns, until no crowd is left or turns settle nothing
    more. Whatever pairs are missing, a page is dropped only for one that is kept.

    first_new: rows before this place are of earlier runs and kept; of two of them no pair is made.
    """
    from pyspark.sql import functions as fn

    taking_part = rows.where(
        (fn.col("n") == fn.col("first_n"))
        & (fn.col("words") >= min_words)
        & ~fn.col("mostly_script")
    )
    slim = taking_part.select(*SLIM)
    crowd, pairs = one_turn(slim, signatures, reach, 0, first_new)
    if crowd.isEmpty():
        return pairs, crowd
    # Computed in each turn, and cut off: a plan that held those of all turns would not end.
    crowded, active = crowd, slim.select("n")
    kept_before = active.where(fn.col("n") < first_new)
    pairs, n_before = cut_off(pairs), crowd.count()
    for turn in range(1, TURNS + 1):
        dropped = near_a_kept_page(pairs).where("differs = 0").selectExpr("first_n AS n")
        standing = cut_off(crowded.join(dropped, "n", "left_anti"))
        # A row whose original was dropped later stands again, and was not compared this time.
        compared = active.join(crowd, "n", "left_anti")
        left_out = cut_off(standing.join(compared, "n", "left_anti"))
        n_left = left_out.count()
        if n_left == 0 or turn == TURNS or n_left > (1 - SETTLED) * n_before:
            break
        active, n_before = standing.union(kept_before), n_left
        some = slim.join(active, "n", "left_semi")
        crowd, more = one_turn(some, signatures, reach, turn, first_new)
        crowd = cut_off(crowd)
        crowded = cut_off(crowded.union(crowd).distinct())
        pairs = cut_off(pairs.union(more).dropDuplicates(["n", "earlier"]))
    return pairs, left_out


def one_turn(
    slim: DataFrame, signatures: DataFrame, reach: Reach, turn: int, first_new: int
) -> tuple[DataFrame, DataFrame]:
    """The n of rows (SLIM) that are in crowds, and PAIRS of all rows."""
    found = candidate_pairs(slim, reach, turn, first_new).persist()
    crowd = found.where("later = earlier").selectExpr("later AS n").distinct().persist()
    return crowd, confirmed_of(found.where("later > earlier"), signatures, reach).persist()


def confirmed(batches: Batches, reach: Reach) -> Batches:
    """Batches of pairs, each with what confirms it of both rows → batches of PAIRS."""
    for batch in batches:
        later, earlier = numbers_of(batch, "later"), numbers_of(batch, "earlier")
        sides = [measures_of(batch, name) for name in ("later_", "earlier_")]
        each = np.arange(batch.num_rows)
        distances, one, other = numbers_of(batch, "distance"), (sides[0], each), (sides[1], each)
        yield pairs_batch(later, earlier, distances, one, other, reach)


def pairs_batch(
    later: I64Array, earlier: I64Array, distances: I64Array, one: Rows, other: Rows, reach: Reach
) -> pa.RecordBatch:
    """Those of the pairs that are of one site and confirmed, also if a fact differs.

    later, earlier: places. one, other: measures of both, and which of their rows each pair has.
    """
    (rows, i), (others, j) = one, other
    sketch = np.bitwise_count(rows["sketches"][i] ^ others["sketches"][j]).sum(axis=1, dtype="i8")
    # Measured only if the sketches confirm: most candidates of a large cell are far apart.
    wanted = (rows["sites"][i] == others["sites"][j]) & (sketch <= reach.confirm_distance)
    similar = np.zeros(len(i))
    similar[wanted] = similarities(rows, i[wanted], others, j[wanted])
    wanted &= near(Measured.of_wholes(distances, sketch, similar), reach.limits)
    differs = np.zeros(len(i), dtype=np.int64)
    same, facts = what_differs(rows, i[wanted], others, j[wanted], similar[wanted])
    if reach.facts == "compare":
        differs[wanted] = facts
    wanted[wanted] = same
    columns = (rows["sites"][i], later, earlier, distances, sketch, similar, differs)
    names = [part.split()[0] for part in PAIRS.split(", ")]
    return pa.RecordBatch.from_arrays([pa.array(c[wanted]) for c in columns], names=names)


def similarities(rows: Columns, i: I64Array, others: Columns, j: I64Array) -> F64Array:
    """Similarity of pairs, each measured at the level of the second; 0 where levels are far."""
    steps = others["levels"][j] - rows["levels"][i]
    own = np.where(
        (steps == 0)[:, None], rows["odd_rows"][i], rows["beside"][i, (steps > 0).astype(np.int64)]
    )
    similar = odd_sketch.compare(own, np.ascontiguousarray(others["odd_rows"][j]))[1]
    return np.where(np.abs(steps) <= 1, similar, 0.0)


def what_differs(
    rows: Columns, i: I64Array, others: Columns, j: I64Array, similar: F64Array
) -> tuple[BoolArray, I64Array]:
    """Of near pairs, whether their data may be those of copies, and in what facts they differ.

    As page_row.say_the_same() and detect.facts.differences_of_wholes() have it.
    """
    same, found = np.zeros(len(i), dtype=bool), np.zeros(len(i), dtype=np.int64)
    for later in set(i.tolist()):
        at = np.flatnonzero(i == later)
        them = j[at]
        row, odd_rows = rows["odd_rows"][later], others["odd_rows"][them]
        n_differing = odd_sketch.n_differing(odd_rows, row, similar[at])
        same[at] = say_the_same(rows["data"][later], others["data"][them], n_differing)
        facts = rows["facts"][later], others["facts"][them]
        differ = differences(*facts, n_differing, n_differing)
        least = odd_sketch.least_differing(n_differing, odd_rows)
        if least is not n_differing:
            differ = or_negations(differ, differences(*facts, least, least))
        found[at] = differences_of_wholes(*facts, n_differing, differ)
    return same, found


def measures_of(table: pa.Table | pa.RecordBatch, prefix: str = "") -> Columns:
    """What confirms a pair, of each row.

    sites, levels: shape (rows,); data: (rows, DATA_WORDS); facts: (rows, FACT_WORDS); sketches:
    (rows, words); odd_rows: (rows, ROW_WORDS); beside, which only the later row of a pair needs:
    (rows, levels beside its own, ROW_WORDS).
    """
    measures = {
        "sites": numbers_of(table, f"{prefix}site"),
        "levels": numbers_of(table, f"{prefix}level"),
        "data": words_of(table, f"{prefix}data", DATA_WORDS),
        "facts": words_of(table, f"{prefix}facts", FACT_WORDS),
        "sketches": words_of(table, f"{prefix}sketch", -1),
        "odd_rows": words_of(table, f"{prefix}odd_row", ROW_WORDS),
    }
    if f"{prefix}beside" in table.schema.names:
        measures["beside"] = words_of(table, f"{prefix}beside", len(BESIDE), ROW_WORDS)
    return measures


def confirmed_of(found: DataFrame, signatures: DataFrame, reach: Reach) -> DataFrame:
    """The confirmed ones of CANDIDATES, as PAIRS. Sketches are joined to pairs only."""
    from pyspark.sql import functions as fn

    later = signatures.select(fn.col("n").alias("later"), *named(MEASURED, "later_"))
    earlier = signatures.select(fn.col("n").alias("earlier"), *named(MEASURED[:-1], "earlier_"))
    both = found.join(later, "later").join(earlier, "earlier")
    return both.mapInArrow(lambda batches: confirmed(batches, reach), PAIRS)


def named(columns: Sequence[str], prefix: str) -> list[Column]:
    """Columns under longer names."""
    from pyspark.sql import functions as fn

    return [fn.col(name).alias(f"{prefix}{name}") for name in columns]


def candidate_pairs(slim: DataFrame, reach: Reach, turn: int = 0, first_new: int = 0) -> DataFrame:
    """CANDIDATES among rows (SLIM): only fingerprints and places go to every cell of a row."""
    plan = plan_of(slim, reach)
    how = reach.distance, reach.confirm_distance, turn, first_new
    sent = slim.mapInArrow(lambda batches: cells.packed(batches, plan), cells.PACKED)
    together = sent.repartition(plan.n_tasks, "task").sortWithinPartitions("task")
    return together.mapInArrow(lambda batches: cells.candidates(batches, *how), cells.CANDIDATES)


def plan_of(slim: DataFrame, reach: Reach) -> CellPlan:
    """How rows go to cells. Sizes of cells are estimated from a sample. An error costs time only:
    a cell gives the same pairs whether or not it is split.
    """
    from pyspark.sql import functions as fn

    sizes = slim.groupBy("site").count().where(fn.col("count") > cells.SMALL_SITE)
    sites, n = collected(sizes)
    sample = slim.where(fn.col("n") % (slim.count() // SAMPLE + 1) == 0).select("fingerprint")
    fingerprints = fingerprints_of(sample.toArrow())
    plan = CellPlan.of_sites(reach.distance, reach.cell_rows, sites, n, fingerprints)
    every = max(1, reach.cell_rows // SAMPLED)
    sample = slim.where(fn.col("n") % every == 0)
    counts = sample.mapInArrow(lambda batches: cells.counted(batches, plan), cells.COUNTED)
    in_cells = counts.groupBy("cell").agg((fn.sum("n") * every).alias("n")).persist()
    hot, n = collected(in_cells.where(fn.col("n") > reach.cell_rows))
    parts = n // reach.cell_rows + 1
    (total,) = in_cells.agg(fn.coalesce(fn.sum("n"), fn.lit(0))).collect()[0]
    in_cells.unpersist()
    return plan.with_hot(hot, parts, total + int(((parts - 1) * n).sum()))


def collected(counts: DataFrame) -> tuple[U64Array, I64Array]:
    """Keys, ascending, and the count of each."""
    table = counts.toArrow()
    keys, n = (column.to_numpy().astype(np.int64) for column in table.columns)
    order = np.argsort(keys.view(np.uint64))
    return keys.view(np.uint64)[order], n[order]

"""Pairs → connected components, in a logarithmic number of rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_ROUNDS = 64


def connected_components(edges: DataFrame) -> DataFrame:
    """Every vertex of `edges` (u, v) with the smallest vertex of its component: vertex, component.

    Alternates large-star and small-star (Kiveris et al., Connected Components in MapReduce and
    Beyond, 2014, section 3): O(log**2 n) rounds, usually about six. Raises RuntimeError after
    MAX_ROUNDS.
    """
    from pyspark.sql import functions as fn

    edges = cut_off(edges.where("u <> v").select("u", "v").distinct())
    before = None
    for _ in range(MAX_ROUNDS):
        edges = cut_off(small_star(cut_off(large_star(edges))))
        # Every round lowers the sum of the centres or the number of links until nothing changes.
        after = edges.agg(fn.count("*"), fn.sum(fn.col("v").cast("decimal(38,0)"))).first()
        if after == before:
            return edges.union(edges.select("v", "v")).toDF("vertex", "component").distinct()
        before = after
    raise RuntimeError(f"components: not found in {MAX_ROUNDS} rounds")


def cut_off(rows: DataFrame) -> DataFrame:
    """The same rows, computed now: what is done in rounds reads them several times.

    They are written to Spark's checkpoint folder if it has one, as in the command; else they lie on
    the executors, and the loss of one ends the job.
    """
    has_folder = rows.sparkSession.sparkContext.getCheckpointDir() is not None
    return rows.checkpoint() if has_folder else rows.localCheckpoint()


def large_star(edges: DataFrame) -> DataFrame:
    """Link each vertex's larger neighbours to its smallest one, itself included."""
    from pyspark.sql import functions as fn

    both = edges.union(edges.select("v", "u")).toDF("u", "v")
    smallest = both.groupBy("u").agg(fn.least("u", fn.min("v")).alias("m"))
    linked = both.where("v > u").join(smallest, "u")
    return linked.select(fn.col("v").alias("u"), fn.col("m").alias("v")).distinct()


def small_star(edges: DataFrame) -> DataFrame:
    """Link each vertex and its smaller neighbours to the smallest of them."""
    from pyspark.sql import functions as fn

    down = edges.select(fn.greatest("u", "v").alias("u"), fn.least("u", "v").alias("v"))
    smallest = down.groupBy("u").agg(fn.min("v").alias("m"))
    linked = down.join(smallest, "u").select(fn.col("v").alias("u"), fn.col("m").alias("v"))
    return linked.union(smallest.select("u", "m")).where("u <> v").distinct()

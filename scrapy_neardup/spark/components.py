"""Pairs → connected components, in a logarithmic number of rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_ROUNDS = 64


def connected_components(edges: DataFrame) -> DataFrame:
    """Every vertex of `edges` (u, v) with the smallest vertex of its component: vertex, component.

    Large-star and small-star by turns (Kiveris et al., Connected Components in MapReduce and
    Beyond, 2014, section 3): O(log**2 n) rounds, as a rule about six. Raises RuntimeError after
    MAX_ROUNDS, which no graph of fewer than 2**8 … 2**64 vertices is known to need.
    """
    from pyspark.sql import functions as fn

    # Each star reads its edges several times: without a checkpoint they would be made as often.
    edges = edges.where("u <> v").select("u", "v").distinct().localCheckpoint()
    before = None
    for _ in range(MAX_ROUNDS):
        edges = small_star(large_star(edges).localCheckpoint()).localCheckpoint()
        # A round only lowers the centres that vertices are linked to, or the number of links.
        after = edges.agg(fn.count("*"), fn.sum(fn.col("v").cast("decimal(38,0)"))).first()
        if after == before:
            return edges.union(edges.select("v", "v")).toDF("vertex", "component").distinct()
        before = after
    raise RuntimeError(f"components: not found in {MAX_ROUNDS} rounds")


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

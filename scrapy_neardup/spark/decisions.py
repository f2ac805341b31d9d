"""Pairs → the decisions that the local detector would make page by page; and clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from scrapy_neardup.detect.facts import REASONS
from scrapy_neardup.detect.near import ORDER
from scrapy_neardup.spark.cells import CHECK_WORDS
from scrapy_neardup.spark.columns import Batches
from scrapy_neardup.spark.components import connected_components

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


NEAR = (
    "first_n long, original_n long, distance long, sketch_distance long, similarity double, "
    "differs long"
)
PAIR_COLUMNS = ("n", "earlier", "distance", "sketch_distance", "similarity", "differs")


def first_of_each_text(signatures: DataFrame) -> DataFrame:
    """n, id, site, words, fingerprint, mostly_script of each row, check (the beginning of its
    sketch), first_n; and record, where there is one.

    first_n is the place of the first row of the site with the same text and data. A text without
    words repeats nothing, nor does a page that is mostly script.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    same_text = Window.partitionBy("site", "digest")
    compared = (fn.col("words") > 0) & ~fn.col("mostly_script")
    first = fn.when(compared, fn.min(fn.when(compared, fn.col("n"))).over(same_text))
    first = first.otherwise(fn.col("n"))
    check = fn.substring("sketch", 1, 8 * CHECK_WORDS).alias("check")
    columns = ("n", "id", "site", "digest", "words", "fingerprint", "mostly_script")
    slim = signatures.select(*columns, check, *record_of(signatures))
    return slim.withColumn("first_n", first).drop("digest")


def record_of(rows: DataFrame) -> list[str]:
    """The column that tells rows of one id apart, if there is one."""
    return [name for name in rows.columns if name == "record"]


def decided(
    rows: DataFrame, all_rows: DataFrame, pairs: DataFrame, left_out: DataFrame, min_words: int
) -> DataFrame:
    """The decisions of rows, see Deduplicated. all_rows: those of earlier runs, too."""
    from pyspark.sql import functions as fn

    repeats = fn.col("n") != fn.col("first_n")
    kind = (
        fn.when(fn.col("differs") == 0, "near")
        .when(repeats, "exact")
        .when(fn.col("left_out"), "undecided")
        .when(fn.col("differs") > 0, "near-but-differs")
        .when(fn.col("mostly_script"), "undecided")
        .when(fn.col("words") < min_words, "too-short")
        .otherwise("new")
    )
    unsure = left_out.select(fn.col("n").alias("first_n"), fn.lit(True).alias("left_out"))
    joined = rows.join(near_a_kept_page(pairs), "first_n", "left").join(unsure, "first_n", "left")
    joined = joined.withColumn("kind", kind)
    exact = fn.col("kind") == "exact"
    reasons = fn.array(*(fn.lit(reason) for reason in REASONS))
    found = joined.select(
        *("id", "kind", "words", *record_of(rows)),
        fn.when(exact, fn.col("first_n"))
        .when(fn.col("kind") != "undecided", fn.col("original_n"))
        .alias("original_n"),
        fn.when(exact, 0).otherwise(fn.col("distance")).alias("distance"),
        fn.when(exact, 0).otherwise(fn.col("sketch_distance")).alias("sketch_distance"),
        fn.when(exact, 1.0).otherwise(fn.col("similarity")).alias("similarity"),
        fn.when(
            fn.col("kind") == "near-but-differs", reasons[fn.col("differs").cast("int") - 1]
        ).alias("differs"),
    )
    originals = all_rows.selectExpr(
        *("n AS original_n", "id AS original"),
        *(f"{name} AS original_{name}" for name in record_of(rows)),
    )
    columns = ["id", "kind", "original", "distance", "sketch_distance", "similarity"]
    columns += ["words", "differs"]
    columns += [column for name in record_of(rows) for column in (name, f"original_{name}")]
    return found.join(originals, "original_n", "left").select(*columns)


def near_a_kept_page(pairs: DataFrame) -> DataFrame:
    """For each page that is near a kept earlier one, the nearest such page and how near.

    One without a fact that differs comes first; a page that has none such is kept itself.

    Whether a page is kept depends on the earlier pages of its site. So one task goes through all
    pairs of a site in order: about a million a second, with one bit of memory for each page.
    """
    preference = ["earlier" if column == "id" else column for column in ORDER]
    by_site = pairs.repartition("site").sortWithinPartitions("n", *preference)
    in_order = by_site.select(*PAIR_COLUMNS)
    return in_order.mapInArrow(keep_in_order, NEAR)


def kept(rows: DataFrame, pairs: DataFrame, first_new: int) -> DataFrame:
    """The rows from a place on that say something, and neither repeat a page nor are near one."""
    dropped = near_a_kept_page(pairs).where("differs = 0").selectExpr("first_n AS n")
    said = rows.where(f"n = first_n AND n >= {first_new} AND words > 0")
    return said.join(dropped, "n", "left_anti")


def keep_in_order(batches: Batches) -> Batches:
    """Pairs in order → NEAR: the pages that are near a kept one, each with its original.

    Of several kept pages the first in the order is the original (detect.near.ORDER). A page of
    which every original differs in a fact is kept.
    """
    dropped, differing = Bits(), None
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in PAIR_COLUMNS]
        rows = []
        for row in zip(*columns, strict=True):
            n, earlier, *_, differs = row
            if differing is not None and differing[0] != n:
                rows.append(differing)
                differing = None
            if n in dropped or earlier in dropped:
                continue
            if differs:
                differing = differing or row
            else:
                dropped.add(n)
                rows.append(row)
                differing = None
        yield near_batch(rows)
    yield near_batch([] if differing is None else [differing])


def near_batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """Rows of NEAR as a batch."""
    found = zip(*rows, strict=True) if rows else ((),) * len(PAIR_COLUMNS)
    names = [part.split()[0] for part in NEAR.split(", ")]
    types = [*[pa.int64()] * 4, pa.float64(), pa.int64()]
    arrays = [pa.array(values, kind) for values, kind in zip(found, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


class Bits:
    """A set of places, a bit each."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, n: int) -> None:
        if n >> 3 >= len(self._bytes):
            self._bytes.extend(bytes((n >> 3) + 1 + len(self._bytes)))
        self._bytes[n >> 3] |= 1 << (n & 7)

    def __contains__(self, n: int) -> bool:
        return n >> 3 < len(self._bytes) and bool(self._bytes[n >> 3] >> (n & 7) & 1)


def clustered(rows: DataFrame, pairs: DataFrame) -> DataFrame:
    """The clusters of all rows, see Deduplicated."""
    from pyspark.sql import functions as fn

    exact = rows.where("n <> first_n").select(fn.col("n").alias("u"), fn.col("first_n").alias("v"))
    near = pairs.where("differs = 0").select(fn.col("n").alias("u"), fn.col("earlier").alias("v"))
    members = connected_components(exact.union(near))
    names = rows.select("n", "id", *record_of(rows))
    first = rows.selectExpr("n AS component", "id AS cluster")
    return (
        members.join(first, "component")
        .join(names, fn.col("vertex") == fn.col("n"))
        .select("cluster", "id", *record_of(rows))
    )

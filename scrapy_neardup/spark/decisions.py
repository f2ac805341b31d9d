"""Pairs → the decisions that the local detector would make page by page; and clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from scrapy_neardup.detect.near import ORDER
from scrapy_neardup.spark.cells import CHECK_WORDS
from scrapy_neardup.spark.components import connected_components

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Iterator[pa.RecordBatch]

NEAR = "first_n long, original_n long, distance long, sketch_distance long, similarity double"
PAIR_COLUMNS = ("n", "earlier", "distance", "sketch_distance", "similarity")


def first_of_each_text(signatures: DataFrame) -> DataFrame:
    """n, id, site, words, fingerprint of each row, check (the beginning of its sketch), first_n.

    first_n is the place of the first row of the site with the same words.

    A text without words repeats nothing.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as fn

    same_words = Window.partitionBy("site", "digest")
    first = fn.when(fn.col("words") > 0, fn.min("n").over(same_words)).otherwise(fn.col("n"))
    check = fn.substring("sketch", 1, 8 * CHECK_WORDS).alias("check")
    slim = signatures.select("n", "id", "site", "digest", "words", "fingerprint", check)
    return slim.withColumn("first_n", first).drop("digest")


def decided(rows: DataFrame, pairs: DataFrame, min_words: int) -> DataFrame:
    """The decisions of all rows, see Deduplicated."""
    from pyspark.sql import functions as fn

    repeats = fn.col("n") != fn.col("first_n")
    kind = (
        fn.when(fn.col("original_n").isNotNull(), "near")
        .when(repeats, "exact")
        .when(fn.col("words") < min_words, "too-short")
        .otherwise("new")
    )
    joined = rows.join(near_a_kept_page(pairs), "first_n", "left").withColumn("kind", kind)
    exact = fn.col("kind") == "exact"
    found = joined.select(
        *("id", "kind", "words"),
        fn.coalesce("original_n", fn.when(repeats, fn.col("first_n"))).alias("original_n"),
        fn.coalesce("distance", fn.when(exact, 0)).alias("distance"),
        fn.coalesce("sketch_distance", fn.when(exact, 0)).alias("sketch_distance"),
        fn.coalesce("similarity", fn.when(exact, 1.0)).alias("similarity"),
    )
    originals = rows.select(fn.col("n").alias("original_n"), fn.col("id").alias("original"))
    columns = "id kind original distance sketch_distance similarity words"
    return found.join(originals, "original_n", "left").select(*columns.split())


def near_a_kept_page(pairs: DataFrame) -> DataFrame:
    """For each page that is near a kept earlier one, the nearest such page and how near.

    Whether a page is kept depends on the earlier pages of its site. So one task goes through all
    pairs of a site in order: about a million a second, with one bit of memory for each page.
    """
    preference = ["earlier" if column == "id" else column for column in ORDER]
    by_site = pairs.repartition("site").sortWithinPartitions("n", *preference)
    in_order = by_site.select(*PAIR_COLUMNS)
    return in_order.mapInArrow(keep_in_order, NEAR)


def keep_in_order(batches: Batches) -> Batches:
    """Pairs in order → the pages that are not kept, each with the original that it repeats.

    Of several kept pages the first in the order is the original (detect.near.ORDER).
    """
    dropped = Bits()
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in PAIR_COLUMNS]
        rows = []
        for row in zip(*columns, strict=True):
            if row[0] not in dropped and row[1] not in dropped:
                dropped.add(row[0])
                rows.append(row)
        found = zip(*rows, strict=True) if rows else ((),) * len(PAIR_COLUMNS)
        names = [part.split()[0] for part in NEAR.split(", ")]
        types = [*[pa.int64()] * 4, pa.float64()]
        arrays = [pa.array(values, kind) for values, kind in zip(found, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


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
    near = pairs.select(fn.col("n").alias("u"), fn.col("earlier").alias("v"))
    members = connected_components(exact.union(near))
    names = rows.select("n", "id")
    first = names.toDF("component", "cluster")
    return (
        members.join(first, "component")
        .join(names, fn.col("vertex") == fn.col("n"))
        .select("cluster", "id")
    )

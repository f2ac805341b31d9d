"""Texts → rows of signatures, in Arrow batches; only the last two functions use Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from scrapy_neardup.detect import odd_sketch
from scrapy_neardup.detect.detector import Scope, site_of
from scrapy_neardup.detect.page_table import digest_of, site_number
from scrapy_neardup.detect.text import exact_text, normalise
from scrapy_neardup.engines import FingerprintSpec, load_engine
from scrapy_neardup.errors import OverBudget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Levels, relative to a page's own, at which it also has an odd sketch. The later of two pages is
# measured at the earlier one's level, which for near pages is at most one step away.
BESIDE = (-1, 1)

Batches = Iterator[pa.RecordBatch]

SCHEMA = (
    "id string, rank {rank}, site long, digest binary, fingerprint long, sketch binary, "
    "words long, level int, odd_row binary, beside binary"
)


def signer(
    scope: Scope, spec: FingerprintSpec, sketch_spec: FingerprintSpec
) -> Callable[[Batches], Batches]:
    """A function from batches of (id, rank, text) to batches of SCHEMA."""

    def sign(batches: Batches) -> Batches:
        engine = load_engine("auto", spec, sketch_spec)
        for batch in batches:
            ids = batch.column("id").to_pylist()
            texts = [text or "" for text in batch.column("text").to_pylist()]
            words_of = [_words(text) for text in texts]
            signatures = [engine.signatures(words) for words in words_of]
            levels = [odd_sketch.level_of(s.n_words) for s in signatures]
            own, below, above = (
                [
                    odd_sketch.odd_row(words, max(0, level + step), sketch_spec.key).tobytes()
                    for words, level in zip(words_of, levels, strict=True)
                ]
                for step in (0, *BESIDE)
            )
            sites = [site_number(site_of(id)) if scope == "site" else 0 for id in ids]
            columns = {
                "id": batch.column("id"),
                "rank": batch.column("rank"),
                "site": signed_longs(sites),
                "digest": pa.array([digest_of(exact_text(text)) for text in texts], pa.binary()),
                "fingerprint": signed_longs([s.fingerprint for s in signatures]),
                "sketch": pa.array([s.sketch.tobytes() for s in signatures], pa.binary()),
                "words": pa.array([s.n_words for s in signatures], pa.int64()),
                "level": pa.array(levels, pa.int32()),
                "odd_row": pa.array(own, pa.binary()),
                "beside": pa.array(map(bytes.__add__, below, above), pa.binary()),
            }
            yield pa.RecordBatch.from_pydict(columns)

    return sign


def _words(text: str) -> bytes:
    """The words of a text; none, so that it is kept, of one that is over budget."""
    try:
        return normalise(text)
    except OverBudget:
        return b""


def signed_longs(values: list[int]) -> pa.Array:
    """64-bit patterns as the signed numbers that Spark has."""
    return pa.array(np.array(values, dtype=np.uint64).view(np.int64))


def signed(
    df: DataFrame,
    text: str,
    id: str,
    order: str | None,
    scope: Scope,
    spec: FingerprintSpec,
    sketch_spec: FingerprintSpec,
) -> DataFrame:
    """Every row's signatures; `rank` is the value that orders the rows."""
    from pyspark.sql import functions as fn

    rank = fn.lit(0) if order is None else fn.col(order)
    texts = df.select(fn.col(id).alias("id"), rank.alias("rank"), fn.col(text).alias("text"))
    schema = SCHEMA.format(rank=texts.schema["rank"].dataType.simpleString())
    return texts.mapInArrow(signer(scope, spec, sketch_spec), schema)


def numbered(rows: DataFrame) -> DataFrame:
    """The rows with their place `n` in the order, from 0; sorts signatures, not texts.

    Rows of the same id are ordered by digest, so that partitioning does not affect the order.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as fn

    # Read twice: sorting first samples the rows to choose the ranges of its partitions.
    rows = rows.persist(StorageLevel.DISK_ONLY)
    ordered = rows.sort("rank", "id", "digest").withColumn(
        "place", fn.monotonically_increasing_id()
    )
    ordered = ordered.drop("rank").persist()
    # The upper bits of a place count partitions, the lower 33 the rows in one.
    sizes = ordered.groupBy(fn.shiftright("place", 33).alias("part")).count().collect()
    rows.unpersist()
    first, offsets = 0, {}
    for part, size in sorted((row["part"], row["count"]) for row in sizes):
        offsets[part] = first
        first += size
    pairs = [fn.lit(x) for item in offsets.items() for x in item] or [fn.lit(0), fn.lit(0)]
    offset = fn.create_map(*pairs)[fn.shiftright("place", 33)]
    return ordered.select(
        "*", (offset + fn.col("place").bitwiseAND((1 << 33) - 1)).alias("n")
    ).drop("place")

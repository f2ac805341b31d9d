"""Texts → rows of signatures, in Arrow batches; only the last two functions use Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from scrapy_neardup.detect import odd_sketch
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.detector import Detector, Scope
from scrapy_neardup.detect.near import MIN_WORDS
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.engines import FingerprintSpec, load_engine
from scrapy_neardup.errors import InputError, OverBudget
from scrapy_neardup.index.scan import ScanIndex
from scrapy_neardup.spark.columns import Batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Levels, relative to a page's own, at which it also has an odd sketch. The later of two pages is
# measured at the earlier one's level, which for near pages is at most one step away.
BESIDE = (-1, 1)


# What a page says outside its text, as crawl/pages/page_data.py finds it.
MARKUP = (
    "struct<heads: array<string>, data: array<string>, details: array<string>, "
    "attributes: array<string>, unread_chars: long>"
)
SCHEMA = (
    "id string, rank {rank}{record}, site long, digest binary, fingerprint long, sketch binary, "
    "words long, level int, odd_row binary, beside binary, data binary, facts binary, "
    "mostly_script boolean"
)
NAMED = ("id", "rank", "record")  # columns of SCHEMA that no text decides


def signer(
    scope: Scope, spec: FingerprintSpec, sketch_spec: FingerprintSpec, min_words: int = MIN_WORDS
) -> Callable[[Batches], Batches]:
    """A function from batches of (id, rank, text, maybe record and markup) to SCHEMA."""

    def sign(batches: Batches) -> Batches:
        engine = load_engine("auto", spec, sketch_spec)
        reader = Detector(engine, ScanIndex(), min_words=min_words, boilerplate="keep")
        for batch in batches:
            ids, texts = (batch.column(name).to_pylist() for name in ("id", "text"))
            has_markup = "markup" in batch.schema.names
            beside = batch.column("markup").to_pylist() if has_markup else [None] * len(ids)
            has_site = [id is not None or scope == "all" for id in ids]
            readings = [
                read(reader, id or "", content(text if known else None, markup if known else None))
                for id, text, markup, known in zip(ids, texts, beside, has_site, strict=True)
            ]
            named = {n: batch.column(n) for n in batch.schema.names if n in NAMED}
            yield pa.RecordBatch.from_pydict(named | columns_of(readings, reader, scope))

    return sign


def read(reader: Detector, url: str, page: PageContent) -> PageReading:
    """What a page says; nothing, so that it is kept, of one that is over budget."""
    try:
        return reader.read(url, page)
    except OverBudget:
        return reader.read(url, "")


def content(text: str | None, markup: dict[str, Any] | None) -> PageContent:
    """What a page says. markup: a row of MARKUP, None where nothing but the text is known."""
    if markup is None:
        return PageContent(text or "")
    attributes = markup["attributes"] or []
    return PageContent(
        text or "",
        markup["heads"] or [],
        markup["data"] or [],
        markup["details"] or [],
        lambda: attributes,
        markup["unread_chars"] or 0,
    )


def columns_of(readings: list[PageReading], reader: Detector, scope: Scope) -> dict[str, pa.Array]:
    """Columns of SCHEMA, for pages that the reader has read."""
    key = reader.engine.sketch_spec.key
    for reading in readings:
        reader.count_attributes(reading)
    signatures = [reading.signatures for reading in readings]
    levels = [odd_sketch.level_of(reading.n_words) for reading in readings]
    below, above = (
        [
            odd_sketch.odd_row(reading.words, max(0, level + step), key).tobytes()
            for reading, level in zip(readings, levels, strict=True)
        ]
        for step in BESIDE
    )
    facts = [reading.all_facts.tobytes() for reading in readings]
    return {
        "site": signed_longs([r.site if scope == "site" else 0 for r in readings]),
        "digest": pa.array([r.digest for r in readings], pa.binary()),
        "fingerprint": signed_longs([s.fingerprint for s in signatures]),
        "sketch": pa.array([s.sketch.tobytes() for s in signatures], pa.binary()),
        "words": pa.array([r.n_words for r in readings], pa.int64()),
        "level": pa.array(levels, pa.int32()),
        "odd_row": pa.array([r.odd_row.tobytes() for r in readings], pa.binary()),
        "beside": pa.array(map(bytes.__add__, below, above), pa.binary()),
        "data": pa.array([r.data.tobytes() for r in readings], pa.binary()),
        "facts": pa.array(facts, pa.binary()),
        "mostly_script": pa.array([r.is_mostly_script for r in readings], pa.bool_()),
    }


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
    min_words: int = MIN_WORDS,
    markup: str | None = None,
    record: str | None = None,
) -> DataFrame:
    """Every row's signatures; `rank` is the value that orders the rows, `record` names each.

    Raises InputError for a text or an id that is no string.
    """
    from pyspark.sql import functions as fn

    rank = fn.lit(0) if order is None else fn.col(order)
    wanted = [fn.col(id).alias("id"), rank.alias("rank"), fn.col(text).alias("text")]
    wanted[2:2] = [fn.col(record).alias("record")] if record else []
    wanted += [fn.col(markup).alias("markup")] if markup else []
    texts = df.select(*wanted)
    for role, name in (("id", id), ("text", text)):
        if (type := texts.schema[role].dataType.simpleString()) != "string":
            raise InputError(
                f"{role}={name!r}: the column is of type {type}, a string is needed; cast it, as "
                f'by col("{name}").cast("string")'
            )
    rank_type = texts.schema["rank"].dataType.simpleString()
    schema = SCHEMA.format(rank=rank_type, record=", record string" if record else "")
    return texts.mapInArrow(signer(scope, spec, sketch_spec, min_words), schema)


def numbered(rows: DataFrame, start: int = 0) -> DataFrame:
    """The rows with their place `n` in the order, from `start`; sorts signatures, not texts.

    Rows of the same id are ordered by digest, and by record where there is one, so that
    partitioning does not affect the order.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as fn

    # Read twice: sorting first samples the rows to choose the ranges of its partitions.
    rows = rows.persist(StorageLevel.DISK_ONLY)
    keys = [name for name in ("rank", "id", "digest", "record") if name in rows.columns]
    ordered = rows.sort(*keys).withColumn("place", fn.monotonically_increasing_id())
    ordered = ordered.drop("rank").persist()
    # The upper bits of a place count partitions, the lower 33 the rows in one.
    sizes = ordered.groupBy(fn.shiftright("place", 33).alias("part")).count().collect()
    rows.unpersist()
    first, offsets = start, {}
    for part, size in sorted((row["part"], row["count"]) for row in sizes):
        offsets[part] = first
        first += size
    pairs = [fn.lit(x) for item in offsets.items() for x in item] or [fn.lit(0), fn.lit(0)]
    offset = fn.create_map(*pairs)[fn.shiftright("place", 33)]
    return ordered.select(
        "*", (offset + fn.col("place").bitwiseAND((1 << 33) - 1)).alias("n")
    ).drop("place")

"""Files of pages → a DataFrame of texts: JSONL, CSV, Parquet, WARC; one record a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.offline.dedup.formats import records
from scrapy_neardup.offline.dedup.inputs import Input, find_inputs
from scrapy_neardup.offline.dedup.reading import text_of
from scrapy_neardup.offline.dedup.record import Damage, Page

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]

FILES = "path string, kind string, packing string, name string, start long, size long"
ROWS = "url string, text string, damage string"
BATCH = 256


def read_pages(spark: SparkSession, paths: list[Path], fields: Fields) -> DataFrame:
    """The pages of files and folders: url, text, damage; a file is one task's work.

    text is null where a page has none, such as a picture; damage says what could not be
    read, with the file's name as url, and is null for a page. Paths are those of a file
    system that every executor sees. Raises InputError.
    """
    files = [source._asdict() | {"path": str(source.path)} for source in find_inputs(paths)]
    spread = spark.createDataFrame(files, FILES).repartition(len(files))
    return spread.mapInArrow(lambda batches: pages_of(batches, fields), ROWS)


def pages_of(batches: Batches, fields: Fields) -> Batches:
    """Batches of files → batches of their records."""
    rows: list[tuple[str, str | None, str | None]] = []
    for batch in batches:
        for file in batch.to_pylist():
            source = Input(**file | {"path": Path(file["path"])})
            for position, record in enumerate(records(source, fields)):
                rows.append(row_of(record, f"{source.label}#{position}"))
                if len(rows) == BATCH:
                    yield as_batch(rows)
                    rows = []
    yield as_batch(rows)


def row_of(record: Page | Damage, place: str) -> tuple[str, str | None, str | None]:
    """url, text and damage of a record. If extraction fails, the page is kept without text."""
    if isinstance(record, Damage):
        return place, None, record.error
    try:
        text = record.text if record.body is None else text_of(record)
    except Exception:
        text = None
    return record.url or place, text, None


def as_batch(rows: list[tuple[str, str | None, str | None]]) -> pa.RecordBatch:
    """Rows as a batch of strings."""
    names = [part.split()[0] for part in ROWS.split(", ")]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.RecordBatch.from_arrays([pa.array(c, pa.string()) for c in columns], names=names)

"""Files of pages → a DataFrame of texts: JSONL, CSV, Parquet, WARC; one record a row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.offline.dedup.inputs import Input, find_inputs, records
from scrapy_neardup.offline.dedup.reading import Sheet, text_of
from scrapy_neardup.offline.dedup.record import Damage, PageRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]

FILES = "path string, kind string"
ROWS = "url string, text string, damage string"
BATCH = 256


def read_pages(spark: SparkSession, paths: list[Path], fields: Fields) -> DataFrame:
    """The pages of files and folders: url, text, damage; a file is one task's work.

    text is null where a page has none, such as a picture; damage says what could not be
    read, with the file's name as url, and is null for a page. Paths are those of a file
    system that every executor sees. Raises InputError.
    """
    files = [(str(source.path), source.kind) for source in find_inputs(paths)]
    spread = spark.createDataFrame(files, FILES).repartition(len(files))
    return spread.mapInArrow(lambda batches: pages_of(batches, fields), ROWS)


def pages_of(batches: Batches, fields: Fields) -> Batches:
    """Batches of files → batches of their records."""
    rows: list[tuple[str, str | None, str | None]] = []
    for batch in batches:
        for path, kind in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            source = Input(Path(path), kind)
            for record in records(source, fields, lambda n_bytes: None):
                rows.append(row_of(record, source))
                if len(rows) == BATCH:
                    yield as_batch(rows)
                    rows = []
    yield as_batch(rows)


def row_of(record: PageRecord | Damage, source: Input) -> tuple[str, str | None, str | None]:
    """url, text and damage of a record. If extraction fails, the page is kept without text."""
    place = f"{source.path}#{record.position}"
    if isinstance(record, Damage):
        return place, None, record.error
    sheet = Sheet(place, record.url, record.text, record.body, record.content_type)
    try:
        text = record.text if record.body is None else text_of(sheet)
    except Exception:
        text = None
    return record.url or place, text, None


def as_batch(rows: list[tuple[str, str | None, str | None]]) -> pa.RecordBatch:
    """Rows as a batch of strings."""
    names = [part.split()[0] for part in ROWS.split(", ")]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.RecordBatch.from_arrays([pa.array(c, pa.string()) for c in columns], names=names)

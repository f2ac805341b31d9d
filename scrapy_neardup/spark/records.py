"""Files of pages → a DataFrame of texts: JSONL, CSV, Parquet, WARC; one record a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.fs import LocalFileSystem

from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.detector import Scope
from scrapy_neardup.detect.near import FEW_WORDS
from scrapy_neardup.detect.text import normalise
from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.offline.dedup.formats import records
from scrapy_neardup.offline.dedup.formats.rows import distinct
from scrapy_neardup.offline.dedup.inputs import Input, find_inputs
from scrapy_neardup.offline.dedup.record import DamagedRecord, Page
from scrapy_neardup.offline.dedup.said import said_by
from scrapy_neardup.offline.file_systems import file_system
from scrapy_neardup.spark.columns import Batches
from scrapy_neardup.spark.file_parts import PART_BYTES, parts
from scrapy_neardup.spark.signatures import MARKUP
from scrapy_neardup.spark.storage import inputs_at, local_copy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FILES = "store string, path binary, kind string, packing string, name binary, start long, size long"
# Names on a disk may have bytes that are not UTF-8, which Spark's strings are.
NAMED = "utf-8", "surrogatepass"
ROWS = f"url string, text string, markup {MARKUP}, damage string, record string"
Row = tuple[str, str | None, dict[str, Any] | None, str | None, str]
BATCH = 256  # rows, or as many as have so many characters: an array of strings takes 2 GiB
BATCH_CHARS = 2**26
LINES = pa.list_(pa.string())
SCHEMA = pa.schema(
    {
        "url": pa.string(),
        "text": pa.string(),
        "markup": pa.struct(
            {
                "heads": LINES,
                "data": LINES,
                "details": LINES,
                "attributes": LINES,
                "unread_chars": pa.int64(),
            }
        ),
        "damage": pa.string(),
        "record": pa.string(),
    }
)


def read_pages(
    spark: SparkSession, paths: Sequence[Path | str], fields: Fields, scope: Scope = "site"
) -> DataFrame:
    """The pages of files and folders: url, text, markup, damage, record (file and number of the
    record in it, from 0); a part of a file is a task's work.

    text is null where a page has none, such as a picture, and where pages of a site are compared
    and a record says none; damage says what could not be
    read, with the file's name as url, and is null for a page. Paths are those of a file
    system that every executor sees, or, as strings, URLs of object storage or HDFS. Raises
    InputError.
    """
    files = [file for path in paths for file in _files(path)]
    spread = spark.createDataFrame(files, FILES).repartition(len(files))
    return spread.mapInArrow(lambda batches: pages_of(batches, fields, scope), ROWS)


def _files(path: Path | str) -> Iterator[dict[str, Any]]:
    """Rows of FILES; store is the URL by which a task finds the path, empty for a disk."""
    store = "" if isinstance(path, Path) else path
    found = find_inputs([path]) if isinstance(path, Path) else inputs_at(path)
    files = LocalFileSystem() if isinstance(path, Path) else file_system(path)[0]
    for source in found:
        for part in parts(source, files, PART_BYTES):
            named = {"path": str(part.path).encode(*NAMED), "name": part.name.encode(*NAMED)}
            yield part._asdict() | {"store": store} | named


def pages_of(batches: Batches, fields: Fields, scope: Scope) -> Batches:
    """Batches of files → batches of their records."""
    rows: list[Row] = []
    size = 0
    for row in _rows(batches, fields, scope):
        rows.append(row)
        size += n_chars(row)
        if len(rows) == BATCH or size >= BATCH_CHARS:
            yield as_batch(rows)
            rows, size = [], 0
    yield as_batch(rows)


def _rows(batches: Batches, fields: Fields, scope: Scope) -> Iterator[Row]:
    for batch in batches:
        for file in batch.to_pylist():
            store, path = file.pop("store"), Path(file.pop("path").decode(*NAMED))
            file["name"] = file["name"].decode(*NAMED)
            for position, (label, record) in enumerate(_labelled(store, path, file, fields)):
                yield row_of(record, f"{label}#{position}", scope)


def n_chars(row: Row) -> int:
    """Characters of what a row's page says."""
    _, text, markup, _, _ = row
    lists = [] if markup is None else [said for said in markup.values() if isinstance(said, list)]
    return len(text or "") + sum(len(one) for said in lists for one in said)


def _labelled(
    store: str, path: Path, rest: dict[str, Any], fields: Fields
) -> Iterator[tuple[str, Page | DamagedRecord]]:
    """The records of a row of FILES, each with what the file is called."""
    source = Input(path, **rest)
    label = distinct(f"{store.partition('://')[0]}://{source.label}" if store else source.label)
    with local_copy(store, source) if store else nullcontext(path) as copy:
        for record in records(source._replace(path=copy), fields):
            yield label, record


def row_of(record: Page | DamagedRecord, place: str, scope: Scope) -> Row:
    """A row of ROWS. If extraction fails, the page is kept without text; so is one of which nobody
    can say with whose pages to compare it."""
    if isinstance(record, DamagedRecord):
        return place, None, None, distinct(record.error), place
    if not record.has_site and scope == "site":
        return distinct(record.url) or place, None, None, None, place
    try:
        said = said_by(record)
        page = PageContent(said) if isinstance(said, str) else said
        markup = None if page is None else markup_of(page)
    except Exception:
        page = markup = None
    return distinct(record.url) or place, page.text if page else None, markup, None, place


def markup_of(page: PageContent) -> dict[str, Any]:
    """What a page says outside its text, as MARKUP; attributes only if its words are few."""
    is_short = len(normalise(page.text).split()) < FEW_WORDS
    return {
        "heads": [*map(distinct, page.heads)],
        "data": [*map(distinct, page.data)],
        "details": [*map(distinct, page.details)],
        "attributes": [*map(distinct, page.attributes())] if is_short else [],
        "unread_chars": page.unread_chars,
    }


def as_batch(rows: list[Row]) -> pa.RecordBatch:
    """Rows as a batch."""
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

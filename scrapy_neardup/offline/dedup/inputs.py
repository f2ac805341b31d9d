"""Files of pages → records, one after the other; damaged ones are reported and skipped."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from scrapy_neardup.detect.detector import host_of
from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup.columns import (
    Columns,
    Fields,
    columns_among,
    names_in,
    value_at,
)
from scrapy_neardup.offline.dedup.record import Damage, PageRecord
from scrapy_neardup.offline.dedup.warc import warc_records

HTML_SUFFIXES = (".html", ".htm", ".xhtml")
PACKINGS = (".gz", ".zst")

# Longer ones are damage: a file without line ends would be read into memory whole.
MAX_LINE_BYTES = 256 * 2**20
PARQUET_ROWS = 500
PROBED_LINES = 1_000  # of a JSONL file, for its columns


class Input(NamedTuple):
    """A file of records, or a folder of HTML files; `kind` names its format."""

    path: Path
    kind: str

    @property
    def packing(self) -> str:
        """Suffix of the compression, "" for none."""
        return self.path.suffix if self.path.suffix in PACKINGS else ""

    @property
    def n_bytes(self) -> int:
        """Size on disk; for a folder, the size of its HTML files."""
        if self.kind == "html":
            return sum(path.stat().st_size for path in html_files(self.path))
        return self.path.stat().st_size


KINDS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".warc": "warc",
    ".parquet": "parquet",
}


def find_inputs(paths: list[Path]) -> list[Input]:
    """The inputs that the paths name, in order; folders are searched. Raises InputError."""
    found = [one for path in paths for one in _inputs_of(path)]
    if not found:
        raise InputError(f"{', '.join(map(str, paths))}: no file of a known format: {known()}")
    return found


def known() -> str:
    """The formats, in words."""
    return (
        f"{', '.join(KINDS)} (JSONL, CSV and WARC also as .gz or .zst), {', '.join(HTML_SUFFIXES)}"
    )


def _inputs_of(path: Path) -> Iterator[Input]:
    if path.is_dir():
        for inside in sorted(path.rglob("*")):
            if inside.is_file() and (kind := _kind(inside)):
                yield Input(inside, kind)
        if next(html_files(path), None):
            yield Input(path, "html")
        return
    kind = _kind(path)
    if kind is None or not path.is_file():
        raise InputError(f"{path}: not a file of a known format: {known()}")
    yield Input(path, kind)


def _kind(path: Path) -> str | None:
    suffix = Path(path.stem).suffix if path.suffix in PACKINGS else path.suffix
    return KINDS.get(suffix.lower())


def html_files(folder: Path) -> Iterator[Path]:
    """HTML files of a folder and those inside it."""
    return (
        p for p in sorted(folder.rglob("*")) if p.suffix.lower() in HTML_SUFFIXES and p.is_file()
    )


def records(
    source: Input, fields: Fields, progress: Callable[[int], None]
) -> Iterator[PageRecord | Damage]:
    """Everything in an input, in order, in constant memory.

    progress is called with the bytes of the file that have been read so far. Raises InputError
    where a column is missing.
    """
    columns = columns_of(source, fields)
    readers = {
        "jsonl": _jsonl, "csv": _csv, "warc": _warc, "parquet": _parquet, "html": _html,
    }  # fmt: skip
    position = -1
    try:
        for position, record in enumerate(readers[source.kind](source, columns, progress)):
            yield record._replace(position=position)
    except InputError:
        raise
    except Exception as error:
        # Each format's parser has its own errors. Records read before the error stay valid.
        yield Damage(position + 1, f"the rest of the file: {type(error).__name__}: {error}")


def opened(source: Input) -> tuple[IO[bytes], IO[bytes]]:
    """The file decompressed, and the file as stored (to report progress)."""
    packed = source.path.open("rb")
    if source.packing == ".gz":
        return gzip.GzipFile(fileobj=packed), packed  # type: ignore[return-value]
    if source.packing == ".zst":
        try:
            from zstandard import ZstdDecompressor
        except ImportError as error:
            raise InputError(f"{source.path}: {_needs('zstandard', error)}") from error
        return ZstdDecompressor().stream_reader(packed, read_across_frames=True), packed
    return packed, packed


def columns_of(source: Input, fields: Fields) -> Columns:
    """The columns of an input that are to be read. Raises InputError where one is missing.

    A file that cannot be read has them all: it will be listed as damaged.
    """
    probes = {"jsonl": _json_names, "csv": _csv_names, "parquet": _parquet_names}
    if source.kind not in probes:
        return Columns(None, (), ())
    try:
        names = probes[source.kind](source)
    except InputError:
        raise
    except Exception:
        names = []
    return columns_among(names, fields, source.path) if names else Columns(None, (), ())


def _json_names(source: Input) -> list[str]:
    """The names in the first lines."""
    lines, packed = opened(source)
    names: dict[str, None] = {}
    with lines, packed:
        stream = io.BufferedReader(lines) if source.packing == ".zst" else lines  # type: ignore[type-var]
        for _ in range(PROBED_LINES):
            try:
                row = json.loads(stream.readline(MAX_LINE_BYTES).removeprefix(codecs.BOM_UTF8))
            except (ValueError, RecursionError):
                continue
            names.update(dict.fromkeys(names_in(row) if isinstance(row, dict) else ()))
    return list(names)


def _csv_names(source: Input) -> list[str]:
    unpacked, packed = opened(source)
    with packed, io.TextIOWrapper(unpacked, "utf-8-sig", "replace", newline="") as text:
        return next(csv.reader(text), [])


def _parquet_names(source: Input) -> list[str]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(source.path) as file:
        return [*file.schema_arrow.names, *(column.path for column in file.schema)]


def _needs(what: str, error: ImportError) -> str:
    return f"needs {what}: pip install 'scrapy-neardup[dedup]' ({error})"


def _page_of(row: dict[str, Any], columns: Columns, raw: Any) -> PageRecord:
    """The record of a row of named columns."""
    url = "" if columns.url is None else value_at(row, columns.url)
    text = _first(row, columns.text)
    html = _first(row, columns.html) if text is None else None
    body = html.encode("utf-8", "replace") if isinstance(html, str) else html
    kind = "text/html; charset=utf-8" if isinstance(html, str) else "text/html"
    return PageRecord(
        0,
        url if isinstance(url, str) else "",
        text if isinstance(text, str) else None,
        body if isinstance(body, bytes) else None,
        kind,
        columns.url is None or (isinstance(url, str) and bool(host_of(url))),
        raw,
    )


def _first(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    values = (value_at(row, name) for name in names)
    return next((value for value in values if value is not None), None)


def _jsonl(
    source: Input, columns: Columns, progress: Callable[[int], None]
) -> Iterator[PageRecord | Damage]:
    lines, packed = opened(source)
    with lines, packed:
        stream = io.BufferedReader(lines) if source.packing == ".zst" else lines  # type: ignore[type-var]
        while line := stream.readline(MAX_LINE_BYTES):
            progress(packed.tell())
            if len(line) == MAX_LINE_BYTES:
                yield Damage(0, f"a line of {MAX_LINE_BYTES:,} bytes or more")
                _skip_line(stream)
            elif line.strip():
                yield _json_record(line, columns)


def _skip_line(stream: Any) -> None:
    while (line := stream.readline(MAX_LINE_BYTES)) and not line.endswith(b"\n"):
        continue


def _json_record(line: bytes, columns: Columns) -> PageRecord | Damage:
    try:
        row = json.loads(line.removeprefix(codecs.BOM_UTF8))
    except (ValueError, RecursionError) as error:
        return Damage(0, f"not JSON: {error}")
    if not isinstance(row, dict):
        return Damage(0, f"a JSON {type(row).__name__} instead of an object")
    return _page_of(row, columns, line if line.endswith(b"\n") else line + b"\n")


def _csv(
    source: Input, columns: Columns, progress: Callable[[int], None]
) -> Iterator[PageRecord | Damage]:
    unpacked, packed = opened(source)
    with packed, io.TextIOWrapper(unpacked, "utf-8-sig", "replace", newline="") as text:
        csv.field_size_limit(MAX_LINE_BYTES)
        rows = csv.reader(text)
        header = next(rows, None)
        for row in rows:
            progress(packed.tell())
            if header is None or len(row) != len(header):
                yield Damage(0, f"{len(row)} cells under {len(header or ())} names")
            else:
                yield _page_of(dict(zip(header, row, strict=True)), columns, (header, row))


def _parquet(
    source: Input, columns: Columns, progress: Callable[[int], None]
) -> Iterator[PageRecord | Damage]:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(f"{source.path}: {_needs('pyarrow', error)}") from error
    with pq.ParquetFile(source.path) as file:
        done, total, n_bytes = 0, max(1, file.metadata.num_rows), source.n_bytes
        for batch in file.iter_batches(PARQUET_ROWS):
            for row in batch.to_pylist():
                yield _page_of(row, columns, (file.schema_arrow, row))
            done += batch.num_rows
            progress(n_bytes * done // total)


def _html(
    source: Input, columns: Columns, progress: Callable[[int], None]
) -> Iterator[PageRecord | Damage]:
    done = 0
    for path in html_files(source.path):
        name = path.relative_to(source.path).as_posix()
        try:
            body = path.read_bytes()
        except OSError as error:
            yield Damage(0, f"{name}: {error}")
            continue
        done += len(body)
        progress(done)
        yield PageRecord(0, name, None, body, "text/html", raw=(name, body))


def _warc(
    source: Input, columns: Columns, progress: Callable[[int], None]
) -> Iterator[PageRecord | Damage]:
    if source.packing == ".zst":
        raise InputError(
            f"{source.path}: WARC as .zst is not supported; decompress it, or compress it as .gz"
        )
    try:
        yield from warc_records(source.path, source.packing == ".gz", progress)
    except ImportError as error:
        raise InputError(f"{source.path}: {_needs('warcio', error)}") from error

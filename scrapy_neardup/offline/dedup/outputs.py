"""Kept records → files of their own format, in parts.

A checkpoint closes and syncs the part, and a restart deletes parts begun after the checkpoint: no
part is ever appended to, so a crash leaves no torn file.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from scrapy_neardup.offline.dedup.inputs import PARQUET_ROWS, Input

COPY_BYTES = 2**20


class Part:
    """One file of kept records of one input; complete and on disk once closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    @classmethod
    def of(cls, source: Input, path: Path) -> Part:
        """The part for an input's format."""
        return PARTS[source.kind](path)

    def write(self, raw: Any) -> None:
        """Add a record as its reader gave it."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish the file and wait until the disk has it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class JsonlPart(Part):
    """The lines unchanged, gzipped."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file: BinaryIO = path.open("wb")
        self.packed = gzip.GzipFile(fileobj=self.file, mode="wb", compresslevel=6, mtime=0)

    def write(self, raw: Any) -> None:
        self.packed.write(raw)

    def close(self) -> None:
        self.packed.close()
        synced(self.file)


class CsvPart(JsonlPart):
    """The header and rows, gzipped."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.text = io.TextIOWrapper(self.packed, "utf-8", newline="")
        self.writer = csv.writer(self.text)
        self.begun = False

    def write(self, raw: Any) -> None:
        header, row = raw
        if not self.begun:
            self.writer.writerow(header)
            self.begun = True
        self.writer.writerow(row)

    def close(self) -> None:
        self.text.flush()
        super().close()


class WarcPart(Part):
    """The records byte by byte, compressed or not."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.file: BinaryIO = path.open("wb")

    def write(self, raw: Any) -> None:
        path, begin, end = raw
        with path.open("rb") as source:
            source.seek(begin)
            while begin < end and (block := source.read(min(COPY_BYTES, end - begin))):
                self.file.write(block)
                begin += len(block)

    def close(self) -> None:
        synced(self.file)


class ParquetPart(Part):
    """Rows under their schema."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.rows: list[dict[str, Any]] = []
        self.writer: Any = None

    def write(self, raw: Any) -> None:
        schema, row = raw
        if self.writer is None:
            import pyarrow.parquet as pq

            self.writer = pq.ParquetWriter(self.path, schema)
        self.rows.append(row)
        if len(self.rows) >= PARQUET_ROWS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        self.writer.write_table(pa.Table.from_pylist(self.rows, schema=self.writer.schema))
        self.rows.clear()

    def close(self) -> None:
        if self.writer is not None:
            self._flush()
            self.writer.close()
            synced(self.path.open("rb+"))


class HtmlPart(Part):
    """A folder with the files under their names."""

    def write(self, raw: Any) -> None:
        name, body = raw
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(body)


PARTS: dict[str, type[Part]] = {
    "jsonl": JsonlPart,
    "csv": CsvPart,
    "warc": WarcPart,
    "parquet": ParquetPart,
    "html": HtmlPart,
}
SUFFIXES = {"jsonl": ".jsonl.gz", "csv": ".csv.gz", "parquet": ".parquet", "html": ""}


def part_path(out: Path, number: int, source: Input, part: int) -> Path:
    """Where a part of an input goes; sorted by name, parts are in the order of their records."""
    stem = source.path.name.split(".")[0] or "pages"
    suffix = SUFFIXES.get(source.kind, f".warc{source.packing}")
    return out / "kept" / f"{number:05}-{stem}-{part:05}{suffix}"


def synced(file: BinaryIO) -> None:
    """Close a file once the disk has it."""
    with file:
        file.flush()
        os.fsync(file.fileno())

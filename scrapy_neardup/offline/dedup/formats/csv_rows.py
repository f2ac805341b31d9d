"""CSV: `.csv`, `.tsv`; rows under a header, with commas, semicolons or tabs."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator
from typing import IO

from scrapy_neardup.offline.dedup.formats.rows import page_of
from scrapy_neardup.offline.dedup.formats.stream import Cutter, TextStream, rest_lost
from scrapy_neardup.offline.dedup.record import Chunk, Damage, Frame, Page

BOM = "\xef\xbb\xbf"  # as Latin-1 has it
DELIMITERS = ",;\t"


class CsvRows(TextStream):
    """A row a record. Bytes are read as Latin-1, which has one for each, so that none is lost."""

    def names(self) -> list[str]:
        """The cells of the header."""
        with self.opened() as stream:
            rows = Rows(io.TextIOWrapper(io.BufferedReader(stream), "latin-1", newline=""), self)
            raw = rows.header()
        return names_of(raw)

    def chunks(self) -> Iterator[Chunk]:
        """Whole rows; the header comes first, and with each chunk."""
        with self.opened() as stream:
            cutter = Cutter(stream)
            try:
                text = io.TextIOWrapper(io.BufferedReader(stream), "latin-1", newline="")
                rows = Rows(text, self)
                header = rows.header()
                cutter.head = header.encode("latin-1")
                yield from cutter.add(cutter.head)
                for raw in rows:
                    yield from cutter.add(raw.encode("latin-1"))
            except Exception as error:
                yield from cutter.damaged(0, rest_lost(error))
                return
            yield from cutter.cut()

    def frame(self, chunk: Chunk, at: int, raw: bytes) -> Frame:
        """A row; the header and blank lines are fillers."""
        is_header = chunk.begin == 0 and at == 0
        return Frame(chunk.begin + at, raw, is_header or not raw.strip())

    def page(self, frame: Frame, chunk: Chunk) -> Page | Damage:
        """The record of a row."""
        header = chunk.head.decode("latin-1")
        names, raw = names_of(header), frame.raw.decode("latin-1")
        try:
            cells = cells_of(raw, delimiter_of(header))
        except csv.Error as error:
            return Damage(f"not CSV: {error}", frame.begin)
        if len(cells) != len(names):
            return Damage(f"{len(cells)} cells under {len(names)} names", frame.begin)
        values = [cell.encode("latin-1").decode("utf-8", "surrogateescape") for cell in cells]
        return page_of(dict(zip(names, values, strict=True)), self.columns)


class Rows:
    """The rows of a file as they stand there; one that no quote ends costs only its first line."""

    def __init__(self, text: IO[str], of: CsvRows) -> None:
        self._text = text
        self._limit = of.limits.record_bytes
        self._again: deque[str] = deque()  # lines of a row that was none
        self._names: list[str] = []
        self._delimiter = ","
        csv.field_size_limit(self._limit)

    def header(self) -> str:
        """The header, as it stands there; "" in an empty file."""
        taken: list[str] = []
        first = self._text.readline(self._limit)
        self._again.append(first)
        self._delimiter = delimiter_of(first)
        for _ in csv.reader(self._lines(taken), delimiter=self._delimiter):
            break
        raw = "".join(taken)
        self._names = names_of(raw)
        return raw

    def __iter__(self) -> Iterator[str]:
        while True:
            taken: list[str] = []
            try:
                row = next(csv.reader(self._lines(taken), delimiter=self._delimiter), None)
            except csv.Error:
                row = None
            if not taken:
                return
            if len(taken) > 1 and (row is None or len(row) != len(self._names)):
                self._again.extendleft(reversed(taken[1:]))
                del taken[1:]
            yield "".join(taken)

    def _lines(self, taken: list[str]) -> Iterator[str]:
        """Lines, noted as they are taken; no more than a record may have."""
        n_chars = 0
        while n_chars <= self._limit:
            line = self._again.popleft() if self._again else self._text.readline(self._limit)
            if not line:
                return
            n_chars += len(line)
            taken.append(line)
            yield line


def delimiter_of(header: str) -> str:
    """The delimiter that a header has most of."""
    return max(DELIMITERS, key=header.count)


def names_of(header: str) -> list[str]:
    """The names in a header; a byte-order mark is no part of the first."""
    cells = cells_of(header.removeprefix(BOM), delimiter_of(header))
    return [cell.encode("latin-1").decode("utf-8", "replace") for cell in cells]


def cells_of(raw: str, delimiter: str) -> list[str]:
    """The cells of one row. Raises csv.Error."""
    return next(csv.reader(io.StringIO(raw, newline=""), delimiter=delimiter), [])

"""CSV: `.csv`, `.tsv`; rows under a header, with commas, semicolons, tabs or bars."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Iterator
from typing import IO

from scrapy_neardup.offline.dedup.formats.rows import page_of, text_column
from scrapy_neardup.offline.dedup.formats.stream import Cutter, TextStream, rest_lost
from scrapy_neardup.offline.dedup.lines import with_ends, without
from scrapy_neardup.offline.dedup.record import Chunk, DamagedRecord, Frame, Page

BOM = "\xef\xbb\xbf"  # as Latin-1 has it
DELIMITERS = ",;\t|"
# The csv module has a limit of field sizes that all of a process share, and the process is not
# ours. These read as it does, without a limit: `RawRows` has one of its own. Possessive, so that a
# quote that nothing ends is given up in one go.
QUOTED = r'(?:[^"]++|"")*+'
CELL = {d: re.compile(rf'(?:"({QUOTED})(?:"|\Z))?([^{d}]*+)') for d in DELIMITERS}
# What ends a row: a line whose quotes are all closed, from its beginning or from within quotes.
CELLS = {d: rf'(?:[{d}](?:"{QUOTED}"|(?!"))[^{d}]*+)*+' for d in DELIMITERS}
WHOLE = {d: re.compile(rf'(?:"{QUOTED}"|(?!"))[^{d}]*+{CELLS[d]}') for d in DELIMITERS}
CONTINUED = {d: re.compile(rf'{QUOTED}"[^{d}]*+{CELLS[d]}') for d in DELIMITERS}


class CsvRows(TextStream):
    """A row a record. Bytes are read as Latin-1, which has one for each, so that none is lost."""

    def names(self) -> list[str]:
        """The cells of the header."""
        with self.opened() as stream:
            rows = RawRows(io.TextIOWrapper(io.BufferedReader(stream), "latin-1", newline=""), self)
            raw = rows.header()
        return names_of(raw)

    def chunks(self) -> Iterator[Chunk]:
        """Whole rows; the header comes first, and with each chunk."""
        with self.opened() as stream:
            cutter = Cutter(stream)
            try:
                text = io.TextIOWrapper(io.BufferedReader(stream), "latin-1", newline="")
                rows = RawRows(text, self)
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

    def page(self, frame: Frame, chunk: Chunk) -> Page | DamagedRecord:
        """The record of a row."""
        header = chunk.head.decode("latin-1")
        names, raw = names_of(header), frame.raw.decode("latin-1")
        cells = cells_of(raw, delimiter_of(header))
        if len(cells) != len(names):
            return DamagedRecord(f"{len(cells)} cells under {len(names)} names", frame.begin)
        values = [cell.encode("latin-1").decode("utf-8", "surrogateescape") for cell in cells]
        return page_of(dict(zip(names, values, strict=True)), self.columns)

    def cut(self, frame: Frame, chunk: Chunk, lines: list[int]) -> bytes:
        """The row without some lines of its text. What stands in quotes has its lines as they are,
        without quotes a cell is one line."""
        header, raw = chunk.head.decode("latin-1"), frame.raw.decode("latin-1")
        names, delimiter = names_of(header), delimiter_of(header)
        name = text_column(dict.fromkeys(names, ""), self.columns)
        cells = list(cell_matches(raw, delimiter))
        cell = cells[len(names) - 1 - names[::-1].index(name)]  # of a name that comes twice
        begin, end = cell.span(2 if cell[1] is None else 1)
        cut = without(with_ends(raw[begin:end]), lines)
        return f"{raw[:begin]}{cut}{raw[end:]}".encode("latin-1")


class RawRows:
    """The rows of a file as they stand there; one that no quote ends costs only its first line."""

    def __init__(self, text: IO[str], of: CsvRows) -> None:
        self._text = text
        self._limit = of.limits.record_bytes
        self._again: deque[str] = deque()  # lines of a row that was none
        self._names: list[str] = []
        self._delimiter = ","

    def header(self) -> str:
        """The header, as it stands there; "" in an empty file."""
        first = self._text.readline(self._limit)
        self._again.append(first.removeprefix(BOM))
        self._delimiter = delimiter_of(first)
        taken, _ = self._row()
        raw = (BOM if first.startswith(BOM) else "") + "".join(taken)
        self._names = names_of(raw)
        return raw

    def __iter__(self) -> Iterator[str]:
        while True:
            taken, has_end = self._row()
            if not taken:
                return
            raw = "".join(taken)
            if len(taken) > 1 and not (has_end and self._fits(raw)):
                self._again.extendleft(reversed(taken[1:]))
                raw = taken[0]
            yield raw

    def _fits(self, raw: str) -> bool:
        return len(cells_of(raw, self._delimiter)) == len(self._names)

    def _row(self) -> tuple[list[str], bool]:
        """The lines to the end of a row, no more than a record may have; whether it has an end."""
        taken: list[str] = []
        rest, n_chars = WHOLE[self._delimiter], 0
        while n_chars <= self._limit:
            line = self._again.popleft() if self._again else self._text.readline(self._limit)
            if not line:
                break
            n_chars += len(line)
            taken.append(line)
            if rest.fullmatch(line):
                return taken, True
            rest = CONTINUED[self._delimiter]
        return taken, False


def delimiter_of(header: str) -> str:
    """The delimiter that a header has most of."""
    return max(DELIMITERS, key=header.count)


def names_of(header: str) -> list[str]:
    """The names in a header; a byte-order mark is no part of the first."""
    cells = cells_of(header.removeprefix(BOM), delimiter_of(header))
    return [cell.encode("latin-1").decode("utf-8", "replace") for cell in cells]


def cells_of(raw: str, delimiter: str) -> list[str]:
    """The cells of one row. A quote that nothing ends goes on to the end."""
    found = (cell.groups(default="") for cell in cell_matches(raw, delimiter))
    return [quoted.replace('""', '"') + plain for quoted, plain in found]


def cell_matches(raw: str, delimiter: str) -> Iterator[re.Match[str]]:
    """The cells of one row as they stand there: group 1 in quotes, 2 without."""
    end, at = len(raw.rstrip("\r\n")), 0
    while end and at <= end:
        found = CELL[delimiter].match(raw, at, end)
        assert found is not None  # it also matches nothing
        yield found
        at = found.end() + 1

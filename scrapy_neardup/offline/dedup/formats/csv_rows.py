"""CSV: `.csv`, `.tsv`; rows under a header, with commas, semicolons, tabs or bars."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Iterator
from typing import IO, NamedTuple

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
        delimiter = delimiter_of(header)
        cells = cells_of(raw, delimiter)
        if len(cells) != len(names):
            why = f"{len(cells)} cells under {len(names)} names"
            is_whole = WHOLE[delimiter].fullmatch(raw) is not None  # no open quote
            return DamagedRecord(why, frame.begin, is_whole)
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


class LineAhead(NamedTuple):
    """A line that was read while the end of a quoted cell was looked for.

    n_cells: cells that begin in it, if it begins within quotes. is_end: whether a row ends with it.
    """

    text: str
    n_cells: int
    is_end: bool


class RawRows:
    """The rows of a file as they stand there; one that no quote ends costs only its first line.

    Where the quotes end in which a line begins does not depend on where they were opened. So the
    lines that were read ahead for one row serve all rows that begin among them, and each is looked
    at once: no row ends within them but with the last one.
    """

    def __init__(self, text: IO[str], of: CsvRows) -> None:
        self._text = text
        self._limit = of.limits.record_bytes
        self._ahead: deque[LineAhead] = deque()
        self._n_chars = self._n_cells = 0  # of the lines ahead
        self._n_names = 0
        self._delimiter = ","

    def header(self) -> str:
        """The header, as it stands there; "" in an empty file."""
        first = self._text.readline(self._limit)
        raw = first.removeprefix(BOM)
        self._delimiter = delimiter_of(first)
        if not WHOLE[self._delimiter].fullmatch(raw):
            self._look_ahead(len(raw))
            raw += self._all_ahead()
        self._n_names = len(names_of(raw))
        return (BOM if first.startswith(BOM) else "") + raw

    def __iter__(self) -> Iterator[str]:
        while line := self._taken() if self._ahead else self._text.readline(self._limit):
            yield line + ("" if WHOLE[self._delimiter].fullmatch(line) else self._rest_of(line))

    def _rest_of(self, line: str) -> str:
        """The other lines of a row that ends within quotes on its first; "" if it then is no row,
        since they have no end or it has other cells than the header."""
        self._look_ahead(len(line))
        n_cells = len(cells_of(line, self._delimiter)) + self._n_cells
        has_end = bool(self._ahead) and self._ahead[-1].is_end
        return self._all_ahead() if has_end and n_cells == self._n_names else ""

    def _look_ahead(self, n_chars: int) -> None:
        """Read on to the end of the quotes in which a line of so many characters ended, no more
        than a record may have."""
        while n_chars + self._n_chars <= self._limit:
            if self._ahead and self._ahead[-1].is_end:
                return
            if not (line := self._text.readline(self._limit)):
                return
            n_cells = len(cells_of(f'"{line}', self._delimiter)) - 1
            is_end = CONTINUED[self._delimiter].fullmatch(line) is not None
            self._ahead.append(LineAhead(line, n_cells, is_end))
            self._n_chars += len(line)
            self._n_cells += n_cells

    def _taken(self) -> str:
        """The next of the lines ahead, which is one no more."""
        line = self._ahead.popleft()
        self._n_chars -= len(line.text)
        self._n_cells -= line.n_cells
        return line.text

    def _all_ahead(self) -> str:
        """All lines ahead, which are none then."""
        raw = "".join(line.text for line in self._ahead)
        self._ahead.clear()
        self._n_chars = self._n_cells = 0
        return raw


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

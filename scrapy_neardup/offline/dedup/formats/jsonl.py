"""JSON lines: `.jsonl`, `.ndjson`, `.jl`."""

from __future__ import annotations

import codecs
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from scrapy_neardup.offline.dedup.columns import Columns, names_in
from scrapy_neardup.offline.dedup.formats.rows import page_of, text_column
from scrapy_neardup.offline.dedup.formats.stream import (
    Cutter,
    TextStream,
    blocks,
    first_lines,
    rest_lost,
)
from scrapy_neardup.offline.dedup.lines import without
from scrapy_neardup.offline.dedup.packing import Unpacked
from scrapy_neardup.offline.dedup.record import CHUNK_BYTES, Chunk, DamagedRecord, Frame, Page

SPACE = re.compile(r"[ \t\r\n]*")
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
PROBED_LINES, PROBED_BYTES = 1_000, 4 * CHUNK_BYTES


def with_all_values(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Of a name that comes several times, all values in a list: which one a reader
    takes, nobody can say, and records that differ in the others would be copies."""
    row = dict(members)
    if len(row) == len(members):
        return row
    values = defaultdict(list)
    for name, value in members:
        values[name].append(value)
    return {name: its if len(its) > 1 else its[0] for name, its in values.items()}


DECODER = json.JSONDecoder(object_pairs_hook=with_all_values)
# Python takes no integer of more than 4,300 digits: such a number is text like any other.
LONG_NUMBERS = json.JSONDecoder(object_pairs_hook=with_all_values, parse_int=str)


class JsonLines(TextStream):
    """An object a line."""

    def names(self) -> list[str]:
        """The names in the first lines."""
        with self.opened() as stream:
            rows = [object_of(line) for line in first_lines(stream, PROBED_LINES, PROBED_BYTES)]
        return list(
            dict.fromkeys(name for row in rows if isinstance(row, dict) for name in names_in(row))
        )

    def names_so_far(self) -> Iterator[list[str]]:
        """The names in ever more records, to the end: a name may come late."""
        found: dict[str, None] = {}
        for chunk in self.chunks():
            for frame in self.frames(chunk):
                row = self.row(frame)
                found.update(dict.fromkeys(names_in(row) if isinstance(row, dict) else ()))
            yield list(found)

    def row(self, frame: Frame) -> dict[str, Any] | DamagedRecord:
        """The object of a frame."""
        return DamagedRecord(frame.damage) if frame.damage else object_of(frame.raw)

    def chunks(self) -> Iterator[Chunk]:
        """Whole lines. A line that is too long is passed over, never held."""
        with self.opened() as stream:
            cutter = Cutter(stream, begin=self._part_begins(stream))
            skipped = 0  # bytes of a line that is too long
            try:
                for block in blocks(stream):
                    end = block.rfind(b"\n") + 1
                    if skipped:
                        end = block.find(b"\n") + 1
                        skipped += end or len(block)
                        if not end:
                            continue
                        yield from cutter.damaged(skipped, self._too_long())
                        skipped, block = 0, block[end:]
                        end = block.rfind(b"\n") + 1
                    if end:
                        yield from self._cut(cutter, block[:end])
                    cutter.data += block[end:]
                    if len(cutter.data) > self.limits.record_bytes + CHUNK_BYTES:
                        begin = cutter.data.rfind(b"\n") + 1  # whole lines are before it
                        skipped = len(cutter.data) - begin
                        del cutter.data[begin:]
            except Exception as error:
                yield from cutter.damaged(0, rest_lost(error))
                return
            if skipped:
                yield from cutter.damaged(skipped, self._too_long())
            yield from cutter.cut()

    def _part_begins(self, stream: Unpacked) -> int:
        """Go to the lines that begin in the input's part of the file; where the first does."""
        if self.source.size is None:
            return 0
        first, end = self.source.start, self.source.start + self.source.size
        begin = line_from(stream, first, end)
        end = line_from(stream, end, self.source.path.stat().st_size) if begin < end else begin
        stream.go_to(begin, end)
        return begin

    def _cut(self, cutter: Cutter, lines: bytes) -> Iterator[Chunk]:
        cutter.data += lines
        if len(cutter.data) >= CHUNK_BYTES:
            yield from cutter.cut()

    def frames(self, chunk: Chunk) -> Iterator[Frame]:
        """Lines; those of spaces alone are fillers."""
        if chunk.data is None:
            yield from chunk.frames or ()
            return
        at = chunk.begin
        for line in io.BytesIO(chunk.data):
            damage = self._too_long() if len(line) > self.limits.record_bytes else ""
            text = line if at else line.removeprefix(codecs.BOM_UTF8)
            yield Frame(at, line, not text.strip(), damage)
            at += len(line)

    def cut(self, frame: Frame, chunk: Chunk, lines: list[int]) -> Any:
        """The line without some lines of its text."""
        return without_lines(frame.raw, self.columns, lines)

    def _too_long(self) -> str:
        return f"a line of more than {self.limits.record_bytes:,} bytes; see --max-record-mb"

    def page(self, frame: Frame, chunk: Chunk) -> Page | DamagedRecord:
        """The record of a line."""
        row = object_of(frame.raw)
        if isinstance(row, DamagedRecord):
            return row._replace(begin=frame.begin)
        return page_of(row, self.columns.of(row))


def line_from(stream: Unpacked, begin: int, end: int) -> int:
    """Where the first line begins that does not begin before a place; end if it is not there."""
    if begin == 0:
        return 0
    stream.go_to(begin - 1, end)
    at = begin - 1
    for block in blocks(stream):
        if (newline := block.find(b"\n")) >= 0:
            return at + newline + 1
        at += len(block)
    return end


def without_lines(raw: bytes, columns: Columns, lines: list[int]) -> bytes:
    """An object as it stands there, without some lines of its text."""
    row, text = object_of(raw), raw.decode("utf-8", "surrogateescape")
    assert isinstance(row, dict)
    begin, end = literal_at(text, text_column(row, columns.of(row)))
    cut = without(escaped_lines(text[begin + 1 : end - 1]), lines)
    return f"{text[: begin + 1]}{cut}{text[end - 1 :]}".encode("utf-8", "surrogateescape")


def escaped_lines(literal: str) -> Iterator[str]:
    """The lines of a string as JSON has it, each with the escape that ends it."""
    begin = 0
    for escape in ESCAPE.finditer(literal):
        if escape[2] == "n" or (escape[1] or "").casefold() == "000a":
            yield literal[begin : escape.end()]
            begin = escape.end()
    yield literal[begin:]


def literal_at(text: str, path: str) -> tuple[int, int]:
    """Where the string at a name, or at the end of a path, stands in an object's text."""
    begin = text.index("{")
    found = member_at(text, begin, path)
    steps = [] if found else path.split(".")
    for step in steps:
        is_list = text[begin] == "["
        found = element_at(text, begin, int(step)) if is_list else member_at(text, begin, step)
        assert found is not None
        begin = found[0]
    assert found is not None
    return found


def member_at(text: str, begin: int, name: str) -> tuple[int, int] | None:
    """Where a member's value stands in the object that begins at a place."""
    at = skip_space(text, begin + 1)
    while text[at] != "}":
        key, at = scan(text, at)
        at = skip_space(text, skip_space(text, at) + 1)  # behind the colon
        _, end = scan(text, at)
        if key == name:
            return at, end
        at = skip_space(text, end)
        at = skip_space(text, at + 1) if text[at] == "," else at
    return None


def element_at(text: str, begin: int, number: int) -> tuple[int, int]:
    """Where an element stands in the array that begins at a place."""
    at = skip_space(text, begin + 1)
    for _ in range(number):
        _, at = scan(text, at)
        at = skip_space(text, skip_space(text, at) + 1)  # behind the comma
    return at, scan(text, at)[1]


def skip_space(text: str, at: int) -> int:
    """The next place that is not between tokens."""
    found = SPACE.match(text, at)
    assert found is not None
    return found.end()


def object_of(raw: bytes) -> dict[str, Any] | DamagedRecord:
    """A JSON object. Bytes that are not UTF-8 become lone surrogates: they stay distinct."""
    text = raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    try:
        row, end = scan(text, skip_space(text, 0))
        if skip_space(text, end) < len(text):
            raise json.JSONDecodeError("Extra data", text, end)
    except RecursionError as error:  # whatever it is, another reader may take it
        return DamagedRecord(f"nested too deep: {error}", is_whole=True)
    except ValueError as error:
        return DamagedRecord(f"not JSON: {error}{hint(error, text)}")
    if isinstance(row, dict):
        return row
    return DamagedRecord(f"a JSON {type(row).__name__}, not an object", is_whole=True)


def hint(error: Exception, text: str) -> str:
    """What is to be added to an error where a line ends too early; else nothing."""
    if isinstance(error, json.JSONDecodeError) and error.pos >= len(text.rstrip()):
        return "; the line ends there: an object over several lines is read in an array only"
    return ""


def scan(text: str, at: int) -> tuple[Any, int]:
    """The JSON value at a place of a text, and where it ends. Raises ValueError, RecursionError."""
    try:
        return DECODER.raw_decode(text, at)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return LONG_NUMBERS.raw_decode(text, at)

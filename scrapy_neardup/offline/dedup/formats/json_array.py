"""JSON arrays, as Scrapy's `.json` feeds are; a `.json` of lines is read as JSON lines."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scrapy_neardup.offline.dedup.formats.jsonl import JsonLines, scan, without_lines
from scrapy_neardup.offline.dedup.formats.stream import Cutter, blocks, rest_lost
from scrapy_neardup.offline.dedup.packing import Unpacked, packed
from scrapy_neardup.offline.dedup.record import CHUNK_BYTES, Chunk, DamagedRecord, Frame, Page

NO_SPACE = re.compile(r"[^ \t\r\n]")
BEFORE = re.compile(r"[ \t\r\n]*,?[ \t\r\n]*")
BEGUN_AGAIN = re.compile(r"\[[ \t\r\n]*")
SECOND_ARRAY = re.compile(r"\][ \t\r\n\ufeff]*\[")
OBJECTS = re.compile(r"\[[ \t\r\n]*\{")
FIRST_NAME = re.compile(r'\{[ \t\r\n]*("[^"\\]{1,100}")[ \t\r\n]*:')
# An object behind a comma, or behind what begins a second array: on a line of its own, with its
# indentation; anywhere, with the space before it and its first name.
ON_A_LINE = re.compile(r"[,\[][ \t\r]*\n([ \t]*)(?=\{)|\n([ \t]*),[ \t]*(?=\{)")
WITHIN_LINES = re.compile(r'[,\[]([ \t\r\n]*)(?=\{[ \t\r\n]*("[^"\\]{1,100}")?)|\n,[ \t]*(?=\{)')
TAIL = 2**10  # characters that are looked at again with the next block: a match may begin in them
ROOM = 2**16  # characters that are there before an element is tried, so that few are tried twice


class NotAnArray(ValueError):
    """What stands where an element should."""


class JsonArray(JsonLines):
    """An object an element. What stands before an element goes with it, comma included."""

    def names(self) -> list[str]:
        """The names in the first elements."""
        if not self._is_array():
            return super().names()
        return next(self.names_so_far(), [])

    def _is_array(self) -> bool:
        try:
            with self.opened() as stream:
                head = stream.block(2**16)
        except Exception:
            return True
        return head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] not in (b"{", b"")

    def chunks(self) -> Iterator[Chunk]:
        """Whole elements; how the array opens comes with each chunk."""
        if not self._is_array():
            yield from super().chunks()
            return
        with self.opened() as stream:
            cutter = Cutter(stream)
            elements = Elements(stream, self.limits.record_bytes)
            try:
                cutter.head = encoded(elements.opening())
                for before, element in elements:
                    if element is None:
                        yield from cutter.damaged(len(encoded(before)), elements.why)
                        continue
                    cutter.data += encoded(before)
                    cutter.sizes.append(len(cutter.data) - sum(cutter.sizes))
                    yield from cutter.add(encoded(element))
                cutter.data += encoded(elements.closing)
                cutter.sizes.append(len(encoded(elements.closing)))
            except Exception as error:
                yield from cutter.damaged(0, rest_lost(error))
                if cutter.head:
                    cutter.data += b"\n]"
                    cutter.sizes.append(2)
            yield from cutter.cut()

    def frames(self, chunk: Chunk) -> Iterator[Frame]:
        """Elements with what stands before them; the array's end is a filler."""
        if chunk.data is None or chunk.sizes is None or not chunk.head:
            yield from super().frames(chunk)
            return
        at, sizes = 0, iter(chunk.sizes)
        for before in sizes:
            size = before + next(sizes, 0)
            raw = chunk.data[at : at + size]
            yield Frame(chunk.begin + at + before, (raw[:before], raw[before:]), size == before)
            at += size

    def page(self, frame: Frame, chunk: Chunk) -> Page | DamagedRecord:
        """The record of an element."""
        raw = frame.raw[1] if isinstance(frame.raw, tuple) else frame.raw
        return super().page(frame._replace(raw=raw), chunk)

    def pieces(self, raw: Any) -> list[bytes]:
        """What stands before an element, and the element."""
        return list(raw) if isinstance(raw, tuple) else [raw]

    def cut(self, frame: Frame, chunk: Chunk, lines: list[int]) -> Any:
        """The element without some lines of its text."""
        if not isinstance(frame.raw, tuple):
            return super().cut(frame, chunk, lines)
        before, element = frame.raw
        return before, without_lines(element, self.columns, lines)

    def row(self, frame: Frame) -> dict[str, Any] | DamagedRecord:
        """The object of an element."""
        raw = frame.raw[1] if isinstance(frame.raw, tuple) else frame.raw
        return super().row(frame._replace(raw=raw))

    def write(self, chunk: Chunk, kept: Iterable[bool], is_first: bool, out: Path) -> bytes:
        """The kept elements; the first of all stands behind the array's opening."""
        if not chunk.head:
            return super().write(chunk, kept, is_first, out)
        data, verdicts = bytearray(), iter(kept)
        for frame in self.frames(chunk):
            if frame.filler:
                data += (chunk.head if is_first else b"") + frame.raw[0]
            elif next(verdicts) and not frame.damage:
                before, element = frame.raw
                data += (chunk.head if is_first else before) + element
                is_first = False
        return packed(bytes(data), self.source.packing) if data else b""


def encoded(text: str) -> bytes:
    """The bytes of a text that was decoded by Elements."""
    return text.encode("utf-8", "surrogateescape")


class Elements:
    """The elements of an array one by one, each with what stands before it; None for damage."""

    def __init__(self, stream: Unpacked, limit: int) -> None:
        self._blocks = blocks(stream)
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._limit = limit
        self._text = ""
        self._at = 0
        self._ended = False
        self._indent: str | None = None  # of the first element; None within a line
        self._name = ""  # the first one in the first element, as it is written; "" if there is none
        self._is_killed = False  # whether an array was found to end without an end
        self._is_again = False  # whether the next element is the first one of a second array
        self.closing = ""
        self.why = ""

    def _more(self) -> bool:
        """Read another block behind what is not used up; whether there was one."""
        block = next(self._blocks, b"")
        self._ended = not block
        self._text = self._text[self._at :] + self._decode(block, final=not block)
        self._at = 0
        return not self._ended

    def opening(self) -> str:
        """What stands before the first element. Raises NotAnArray."""
        while not (found := re.match(r"\ufeff?[ \t\r\n]*\[[ \t\r\n]*", self._text)) or (
            found.end() == len(self._text) and not self._ended
        ):
            if not self._more() and not found:
                raise NotAnArray("not a JSON array")
        self._at = found.end()
        self._take_style(found[0], self._before()[1])
        return found[0]

    def _take_style(self, opening: str, begin: int) -> None:
        """Note how an array opens, and its first element, which begins at a place."""
        _, line_end, indent = opening.rpartition("\n")
        self._indent = indent if line_end else None
        name = FIRST_NAME.match(self._text, begin)
        self._name = name[1] if name else ""

    def __iter__(self) -> Iterator[tuple[str, str | None]]:
        is_first = True
        while True:
            before, end = self._before()
            if self._text[end : end + 1] == "]" and self._next(end + 1) == "":
                end = self._at + len(before)
                self.closing = before.replace(",", "") + self._text[end:]
                return
            if end == len(self._text):
                raise NotAnArray("the array has no end")
            may_stand = is_first or "," in before
            if (again := self._second_array(before, may_stand)) is not None:
                yield self._joined(again), None
                continue
            size = self._element_size(self._at + len(before), self._limit)
            end = self._at + len(before)
            if size and may_stand:
                self._at = end + size
                yield before, self._text[end : self._at]
            else:
                self.why = "no comma before it" if size else self.why
                yield self._skipped(end), None
            is_first = False

    def _before(self) -> tuple[str, int]:
        """What stands before the next element, and where that begins, which is read in far enough.

        What begins a second array is the comma of one array.
        """
        while len(self._text) - self._at < ROOM and not self._ended:
            self._more()
        found = (BEGUN_AGAIN if self._is_again else BEFORE).match(self._text, self._at)
        assert found is not None
        if not self._is_again:
            return found[0], found.end()
        self._is_again = False
        self._take_style(found[0], found.end())
        return found[0].replace("[", ","), found.end()

    def _second_array(self, before: str, may_stand: bool) -> int | None:
        """Where the `[` is of a second array that begins behind what stands before it, if one does.

        One that began where a crawl was killed is behind a comma, or where one should be. A list
        stands there, too, if an element may, and if more of the array follows.
        """
        at = self._at + len(before)
        if again := SECOND_ARRAY.match(self._text, at):
            return again.end() - 1
        if not OBJECTS.match(self._text, at):
            return None
        # Tried until one is found: lists in lists in lists would be tried to their end each.
        if may_stand and not self._is_killed and self._is_list(at):
            return None
        self._is_killed = True
        return self._at + len(before)

    def _is_list(self, at: int) -> bool:
        """Whether a whole list is at a place, and more of the array follows."""
        ahead = at - self._at
        size = self._element_size(at, CHUNK_BYTES)
        return size > 0 and self._next(self._at + ahead + size) in (",", "]")

    def _element_size(self, at: int, limit: int) -> int:
        """Characters of the element; more is read until it ends or is too long. 0: damage."""
        ahead = at - self._at
        while True:
            size = 0
            try:
                _, end = scan(self._text, self._at + ahead)
            except (ValueError, RecursionError) as error:
                self.why = f"not JSON: {error}"
            else:
                size = end - self._at - ahead
                # A number at the end of what was read may go on.
                if end < len(self._text) or self._ended:
                    return size
            tried = len(self._text) - self._at
            while not self._ended and len(self._text) - self._at < min(2 * tried, limit):
                self._more()
            if size and self._ended and len(self._text) - self._at == tried:
                return size
            if len(self._text) - self._at <= tried:
                self.why = f"{size:,} characters without an end" if size else self.why
                return 0

    def _skipped(self, at: int) -> str:
        """Pass over damage at a place, up to where an element may begin. Raises NotAnArray."""
        passed = ""
        while (begin := self._resumes(at)) is None:
            if self._ended:
                raise NotAnArray(self.why)
            done = max(at, len(self._text) - TAIL)
            if len(passed) < self._limit:
                passed += self._text[self._at : done]
            self._at = done
            self._more()
            at = self._at
        passed += self._text[self._at : begin]
        self._at = begin
        return passed

    def _resumes(self, at: int) -> int | None:
        """Where another element begins behind damage at a place, as far as the text was read.

        No string holds a line end or a bare quote. An object on a line of its own is an element
        if it is indented as the first one is, and one within a line if its first name is the
        first one's: others may be in a list within the damaged element. Where the first one was
        torn before its name ended, any object that begins a list begins a second array.
        """
        if self._indent is not None:
            for found in ON_A_LINE.finditer(self._text, at):
                if self._indent in found.groups():
                    return found.start()
            return None
        for found in WITHIN_LINES.finditer(self._text, at):
            space, name = found.groups()
            if space is None or space.endswith("\n") or (name and name == self._name):
                return found.start()
            if name and not self._name and found[0][0] == "[":
                return found.start()
        return None

    def _joined(self, at: int) -> str:
        """What stands before the `[` at a place, which begins a second array."""
        passed = self._text[self._at : at]
        self._at, self._is_again = at, True
        self.why = "a second array begins here, as where a crawl was appended to a file"
        return passed

    def _next(self, at: int) -> str:
        """The character at a place, or behind the white space there; "" at the end of the file."""
        ahead = at - self._at
        while not (found := NO_SPACE.search(self._text, self._at + ahead)) and self._more():
            pass
        return found[0] if found else ""

"""What worker processes do: cut inputs, read records, write what is kept of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.detect.sites import site_of
from scrapy_neardup.errors import OverBudget
from scrapy_neardup.factory import make_detector
from scrapy_neardup.ledger.schema import MAX_TEXT_CHARS
from scrapy_neardup.offline.dedup.columns import Columns, Fields
from scrapy_neardup.offline.dedup.formats import Format, columns_of, format_of
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.lines import Document, Surplus, lines_of
from scrapy_neardup.offline.dedup.passages import PassageHits, Passages
from scrapy_neardup.offline.dedup.record import Chunk, DamagedRecord, InputLimits, Page, Ranges
from scrapy_neardup.offline.dedup.said import said_by, text_of, words_of
from scrapy_neardup.offline.dedup.traits import Traits, traits_of
from scrapy_neardup.offline.dedup.transfer import Packed, Read, UncomparedRecord, pack
from scrapy_neardup.report.text_diff import difference_line
from scrapy_neardup.settings import NearDupSettings


class Work(NamedTuple):
    """What every worker knows of a run."""

    settings: NearDupSettings
    key: int
    inputs: list[Input]
    limits: InputLimits
    token: str  # with which this run names pages
    with_traits: bool = False  # whether a copy is to be chosen by more than its place
    passages: Passages | None = None  # to be found in records


class Contained(NamedTuple):
    """The passages that a record contains."""

    url: str
    found: list[PassageHits]


class Readings(NamedTuple):
    """What the records of a chunk say, in their order.

    traits     None where no copy is to be chosen by them
    contained  URL and passages of each that contains some; empty if none are wanted
    """

    packed: Packed
    traits: list[Traits | None]
    contained: list[Contained | None] = []  # noqa: RUF012 - never written to


class ReadingWorker:
    """A worker's side of a run: its methods are what the main process calls.

    at: told the place of each record in its chunk before it is read; if the process ends there,
    the main process knows which record ended it.
    """

    def __init__(self, work: Work, at: Callable[[int], None]) -> None:
        self.work = work
        self.at = at
        self._format: tuple[int, Format] | None = None

    @cached_property
    def detector(self) -> Detector:
        """Reads, and decides nothing."""
        return make_detector(self.work.settings, self.work.key)

    def columns(self, number: int, fields: Fields) -> Columns:
        """The columns of an input. Raises InputError where one is missing."""
        return columns_of(self.work.inputs[number], fields, self.work.limits)

    def chunks(self, number: int, columns: Columns, first: int) -> Iterator[Chunk]:
        """The chunks of an input from one on."""
        source = self.work.inputs[number]
        for chunk in format_of(source, columns, self.work.limits).chunks():
            if chunk.number >= first:
                yield chunk

    def read(self, number: int, columns: Columns, chunk: Chunk, fatal: Container[int]) -> Readings:
        """What each record of a chunk says. fatal: records not to be looked at."""
        form = self._of(number, columns)
        frames = (frame for frame in form.frames(chunk) if not frame.filler)
        found: list[Read] = []
        traits: list[Traits | None] = []
        contained: list[Contained | None] = []
        for index, frame in enumerate(frames):
            self.at(index)
            page: Page | DamagedRecord | None = None
            if frame.damage:
                page = DamagedRecord(frame.damage, frame.begin)
                found.append(page)
            elif index in fatal:
                found.append(UncomparedRecord("failed"))
            else:
                place = f"#{self.work.token}.{number}.{chunk.number}.{index}"
                page = form.page(frame, chunk)
                found.append(self._read(page, place))
            traits.append(self._traits(page, found[-1]))
            if self.work.passages is not None:
                contained.append(self._contained(self.work.passages, page, found[-1]))
        self.at(-1)
        return Readings(pack(found), traits, contained)

    def _of(self, number: int, columns: Columns) -> Format:
        """The format of an input, which stays open until the next input."""
        if self._format is None or self._format[0] != number:
            source = self.work.inputs[number]
            self._format = number, format_of(source, columns, self.work.limits)
        return self._format[1]

    def _traits(self, page: Page | DamagedRecord | None, reading: Read) -> Traits | None:
        if not (isinstance(page, Page) and isinstance(reading, PageReading)):
            return None
        return traits_of(page, reading.n_words) if self.work.with_traits else None

    def _contained(
        self, passages: Passages, page: Page | DamagedRecord | None, reading: Read
    ) -> Contained | None:
        """The passages in a record, also in one that is not compared; None where it is unknown."""
        if isinstance(page, DamagedRecord) and not page.is_whole:
            return Contained("", [])
        if not isinstance(page, Page) or (page.body and reading == UncomparedRecord("too_long")):
            return None
        try:
            words = reading.words if isinstance(reading, PageReading) else words_of(page)
            return Contained(page.url, passages.found_in(words))
        except Exception:
            return None

    def _read(self, page: Page | DamagedRecord, place: str) -> Read:
        """The reading of one record. Any error of a parser leaves it unread, and so kept."""
        if isinstance(page, DamagedRecord):
            return page
        if max(map(size_of, (page, page.beside))) > self.work.settings.max_page_bytes:
            return UncomparedRecord("too_long")
        if not page.has_site and self.work.settings.scope == "site":
            return UncomparedRecord("without_url")
        try:
            said = said_by(page)
            if said is None:
                return UncomparedRecord("without_text")
            reading = self.detector.read(page.url + place, said)
            _ = reading.row, reading.learnt  # here, where an error leaves one record unread
            reading.let_go_of_markup()
            return reading
        except OverBudget:
            return UncomparedRecord("over_budget")
        except Exception:
            return UncomparedRecord("failed")

    def texts(
        self, number: int, columns: Columns, chunk: Chunk, fatal: Container[int], wanted: set[int]
    ) -> list[tuple[int, str]]:
        """The visible texts of some records of a chunk, by their places in it."""
        form = self._of(number, columns)
        frames = (frame for frame in form.frames(chunk) if not frame.filler)
        found: list[tuple[int, str]] = []
        for index, frame in enumerate(frames):
            if index in wanted and not frame.damage and index not in fatal:
                self.at(index)
                page = form.page(frame, chunk)
                text = None if isinstance(page, DamagedRecord) else text_of(page)
                found += [] if text is None else [(index, text[:MAX_TEXT_CHARS])]
        self.at(-1)
        return found

    def difference(self, original: str, copy: str) -> str:
        """In which words a copy differs from what is kept."""
        return difference_line(original, copy)

    def documents(
        self, number: int, columns: Columns, chunk: Chunk, fatal: Container[int], kept: bytes
    ) -> list[Document]:
        """The paragraphs of the kept records of a chunk; a record that cannot be read has none.

        Raises ValueError where it has more or fewer records than `kept`.
        """
        form = self._of(number, columns)
        frames = (frame for frame in form.frames(chunk) if not frame.filler)
        found: list[Document] = []
        for index, (frame, is_kept) in enumerate(zip(frames, kept, strict=True)):
            if is_kept and not frame.damage and index not in fatal:
                self.at(index)
                found += document_of(index, form.page(frame, chunk))
        self.at(-1)
        return found

    def write(
        self,
        number: int,
        columns: Columns,
        chunk: Chunk,
        kept: bytes,
        is_first: bool,
        out: Path,
        surplus: Surplus,
    ) -> bytes | Ranges:
        """What a chunk adds to the file of kept records. kept: a byte a record, 1 to keep it.
        surplus: the lines of text that records lose."""
        form: Any = self._of(number, columns)
        if surplus:
            chunk = form.without(chunk, surplus)
        written: bytes | Ranges = form.write(chunk, map(bool, kept), is_first, out)
        return written

    def write_whole(
        self, number: int, columns: Columns, kept: bytes, out: Path, surplus: Surplus
    ) -> None:
        """Write the kept records of an input whose format has to be written as a whole."""
        form: Any = self._of(number, columns)
        form.write_whole(map(bool, kept), len(kept), out, surplus)


def document_of(record: int, page: Page | DamagedRecord) -> list[Document]:
    """The paragraphs of a record: none, or one document. Text in HTML cannot be removed, nor
    that of a record of which nobody knows the site."""
    try:
        text = None if isinstance(page, DamagedRecord) else text_of(page)
    except Exception:  # it is kept as it is
        return []
    if text is None or isinstance(page, DamagedRecord):
        return []
    may_go = page.body is None and page.has_site and text == page.text
    return [Document(record, page.url, site_of(page.url), len(text), lines_of(text), may_go)]


def size_of(page: Page | None) -> int:
    """How long a record's text or HTML is."""
    return len(page.body or page.text or "") if page else 0

"""Records → readings, in worker processes: extraction, words and fingerprints on all cores."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import Generic, NamedTuple, Self, TypeVar

from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from scrapy_neardup.crawl.extract import page_content, visible_text
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.detector import Detector, PageReading
from scrapy_neardup.factory import make_detector
from scrapy_neardup.settings import NearDupSettings

BATCH = 32
BATCH_BYTES = 4 * 2**20
AHEAD = 4  # batches that wait for each worker; bounds what the reader reads ahead

T = TypeVar("T")


class Sheet(NamedTuple):
    """What a worker gets of a record."""

    name: str  # unique, on the record's site
    url: str
    text: str | None
    body: bytes | None
    content_type: str
    has_site: bool = True  # whether its URL tells whose pages it is compared with

    @property
    def n_bytes(self) -> int:
        """About what it takes in memory."""
        return len(self.body or b"") + len(self.text or "")


class Unread(NamedTuple):
    """A record that is not compared, and why: "without_text", "without_url", "too_long" or
    "failed"."""

    reason: str


class Worker:
    """What each worker process has: a detector that only reads."""

    detector: Detector
    settings: NearDupSettings


def start_worker(settings: NearDupSettings, key: int) -> None:
    """Give this process its detector, and end it when its parent ends."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    # Ctrl-C reaches all processes of a terminal; only the parent reports it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Worker.settings = settings
    Worker.detector = make_detector(settings, key)


def _exit_with_parent() -> None:
    # A killed parent closes no pipe, so its workers would wait for work for ever.
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def read_batch(sheets: list[Sheet]) -> list[PageReading | Unread]:
    """The readings of some records, in order."""
    return [read_one(sheet) for sheet in sheets]


def read_one(sheet: Sheet) -> PageReading | Unread:
    """The reading of one record. Any error of a parser leaves it unread, and so kept."""
    if sheet.body is not None and len(sheet.body) > Worker.settings.max_page_bytes:
        return Unread("too_long")
    if not sheet.has_site and Worker.settings.scope == "site":
        return Unread("without_url")
    try:
        said = sheet.text if sheet.body is None else content_of(sheet)
        return Unread("without_text") if said is None else Worker.detector.read(sheet.name, said)
    except Exception:
        return Unread("failed")


def content_of(sheet: Sheet) -> PageContent | str | None:
    """What an HTTP body says, as a crawl would take it."""
    return page_content(_response(sheet))


def text_of(sheet: Sheet) -> str | None:
    """The visible text of an HTTP body."""
    return visible_text(_response(sheet))


def _response(sheet: Sheet) -> Response:
    """An HTTP body as a response of its declared type, or of the one it looks like."""
    assert sheet.body is not None
    headers = Headers({"Content-Type": sheet.content_type} if sheet.content_type else {})
    kind = responsetypes.from_args(headers=headers, url=sheet.url, body=sheet.body)
    return kind(url=sheet.url or "http://-/", headers=headers, body=sheet.body)


class Batch(NamedTuple, Generic[T]):
    """Things with their sheets, and the readings that a worker owes for them."""

    things: list[T]
    sheets: list[Sheet]
    future: Future[list[PageReading | Unread]]


class Readers:
    """Worker processes that read sheets in batches; a context.

    If a page ends its worker (a crash in a parser's C code, no memory left), the workers are
    started again and only that page is left unread.
    """

    def __init__(self, settings: NearDupSettings, key: int, jobs: int) -> None:
        self._start = settings, key
        self._jobs = jobs
        self._pool = self._started()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        # Spawned: a forked process would inherit locks held by threads of libraries.
        return ProcessPoolExecutor(self._jobs, get_context("spawn"), start_worker, self._start)

    def in_order(
        self, pairs: Iterable[tuple[T, Sheet]]
    ) -> Iterator[tuple[T, PageReading | Unread]]:
        """Each thing with the reading of its sheet, in order.

        At most AHEAD batches and AHEAD * BATCH_BYTES bytes a worker wait, plus one batch.
        """
        waiting: deque[Batch[T]] = deque()
        for things, sheets in batches(pairs):
            waiting.append(Batch(things, sheets, self._submitted(sheets)))
            while len(waiting) >= AHEAD * self._jobs or self._too_heavy(waiting):
                yield from self._done(waiting)
        while waiting:
            yield from self._done(waiting)

    def _too_heavy(self, waiting: deque[Batch[T]]) -> bool:
        n_bytes = sum(sheet.n_bytes for batch in waiting for sheet in batch.sheets)
        return n_bytes > AHEAD * self._jobs * BATCH_BYTES

    def _submitted(self, sheets: list[Sheet]) -> Future[list[PageReading | Unread]]:
        try:
            return self._pool.submit(read_batch, sheets)
        except BrokenProcessPool as error:
            broken: Future[list[PageReading | Unread]] = Future()
            broken.set_exception(error)
            return broken

    def _done(self, waiting: deque[Batch[T]]) -> Iterator[tuple[T, PageReading | Unread]]:
        batch = waiting.popleft()
        try:
            readings = batch.future.result()
        except BrokenProcessPool:
            self._pool = self._started()
            readings = [self._alone(sheet) for sheet in batch.sheets]
            again = [other._replace(future=self._submitted(other.sheets)) for other in waiting]
            waiting.clear()
            waiting.extend(again)
        yield from zip(batch.things, readings, strict=True)

    def _alone(self, sheet: Sheet) -> PageReading | Unread:
        try:
            return self._submitted([sheet]).result()[0]
        except BrokenProcessPool:
            self._pool = self._started()
            return Unread("failed")


def batches(pairs: Iterable[tuple[T, Sheet]]) -> Iterator[tuple[list[T], list[Sheet]]]:
    """Things and sheets, up to BATCH of them or to BATCH_BYTES."""
    things: list[T] = []
    sheets: list[Sheet] = []
    for thing, sheet in pairs:
        things.append(thing)
        sheets.append(sheet)
        if len(sheets) == BATCH or sum(s.n_bytes for s in sheets) >= BATCH_BYTES:
            yield things, sheets
            things, sheets = [], []
    if sheets:
        yield things, sheets

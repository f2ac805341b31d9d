"""Records → readings, in worker processes: extraction, words and fingerprints on all cores."""

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import NamedTuple, TypeVar

from scrapy.http import Headers
from scrapy.responsetypes import responsetypes

from scrapy_neardup.detector import Detector, PageReading
from scrapy_neardup.extract import visible_text
from scrapy_neardup.parts import make_detector
from scrapy_neardup.settings import NearDupSettings

BATCH = 32
AHEAD = 4  # batches that wait for each worker: the reader must not run away from the workers

T = TypeVar("T")


class Sheet(NamedTuple):
    """What a worker gets of a record."""

    name: str  # unique, on the record's site
    url: str
    text: str | None
    body: bytes | None
    content_type: str


class Unread(NamedTuple):
    """Why a record was not compared: "without_text", "too_long" or "failed"."""

    reason: str


class Worker:
    """What each worker process has: a detector that only reads."""

    detector: Detector
    settings: NearDupSettings


def start_worker(settings: NearDupSettings, key: int) -> None:
    """Give this process its detector, and an end when its parent has come to one."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    Worker.settings = settings
    Worker.detector = make_detector(settings, key)


def _exit_with_parent() -> None:
    # A killed parent closes nothing: its workers would wait for work for ever.
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def read_batch(sheets: list[Sheet]) -> list[PageReading | Unread]:
    """The readings of some records, in order."""
    return [read_one(sheet) for sheet in sheets]


def read_one(sheet: Sheet) -> PageReading | Unread:
    """The reading of one record; whatever a page does to a parser, the record is kept."""
    if sheet.body is not None and len(sheet.body) > Worker.settings.max_page_bytes:
        return Unread("too_long")
    try:
        text = sheet.text if sheet.body is None else text_of(sheet)
        return Unread("without_text") if text is None else Worker.detector.read(sheet.name, text)
    except Exception:
        return Unread("failed")


def text_of(sheet: Sheet) -> str | None:
    """The visible text of an HTTP body, by its declared type or what it looks like."""
    assert sheet.body is not None
    headers = Headers({"Content-Type": sheet.content_type} if sheet.content_type else {})
    kind = responsetypes.from_args(headers=headers, url=sheet.url, body=sheet.body)
    return visible_text(kind(url=sheet.url or "http://-/", headers=headers, body=sheet.body))


@contextmanager
def workers(settings: NearDupSettings, key: int, jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of reading processes."""
    # Spawned: a fork would take along the locks of whatever threads libraries run.
    with ProcessPoolExecutor(jobs, get_context("spawn"), start_worker, (settings, key)) as pool:
        yield pool


def in_order(
    pool: ProcessPoolExecutor, jobs: int, pairs: Iterable[tuple[T, Sheet]]
) -> Iterator[tuple[T, PageReading | Unread]]:
    """Each thing with the reading of its sheet, in order; at most AHEAD batches a worker wait."""
    waiting: deque[tuple[list[T], Future[list[PageReading | Unread]]]] = deque()
    stream = iter(pairs)
    while batch := list(islice(stream, BATCH)):
        things, sheets = [thing for thing, _ in batch], [sheet for _, sheet in batch]
        waiting.append((things, pool.submit(read_batch, sheets)))
        if len(waiting) >= AHEAD * jobs:
            yield from _done(waiting.popleft())
    while waiting:
        yield from _done(waiting.popleft())


def _done(
    batch: tuple[list[T], "Future[list[PageReading | Unread]]"],
) -> Iterator[tuple[T, PageReading | Unread]]:
    things, future = batch
    yield from zip(things, future.result(), strict=True)


def all_cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

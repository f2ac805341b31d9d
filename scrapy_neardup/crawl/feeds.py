"""Scrapy's feed exports: which of their items are stored, so that their pages may be known."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from weakref import WeakSet

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exporters import BaseItemExporter
from scrapy.extensions.feedexport import (
    FeedExporter,
    FeedSlot,
    FileFeedStorage,
    ItemFilter,
    StdoutFeedStorage,
)
from scrapy.utils.asyncio import create_looping_call

from scrapy_neardup.crawl.delivery import Delivery
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.own_files import sync_file

logger = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 0.5
FAILED = "feedexport/failed_count/{}"  # Scrapy's stat, by the class of a storage
LINES = ("jsonlines", "jsonl", "jl")


class Feeds:
    """Flushes the feeds that are local files, and tells the delivery what is stored.

    A local feed has an item once its buffer is flushed, every FLUSH_INTERVAL_S seconds. Any other
    has it when Scrapy has closed and stored the slot (one file of the feed): storages that
    upload, plugins that compress, exporters that write when they finish.

    Connects to item_scraped before the session's pages do: a slot has to be held before the page
    of its first item asks to be known.
    """

    def __init__(
        self,
        exporter: FeedExporter,
        crawler: Crawler,
        delivery: Delivery,
        attempt: FailOpen,
        *,
        sync: bool,
        only_local: bool,
    ) -> None:
        """sync: flushed means on the disk. only_local: wait for no other feeds."""
        self._exporter = exporter
        self._crawler = crawler
        self._delivery = delivery
        self._attempt = attempt
        self._sync = sync
        self._only_local = only_local
        self._local: set[FeedSlot] = set()  # not closed yet, here and below
        self._stored_at_end: set[FeedSlot] = set()
        self._watched: WeakSet[BaseItemExporter] = WeakSet()
        self._failed = Counter[str]()  # slots not stored, by the class of their storage
        self._flushing = create_looping_call(lambda: self._attempt("feed", self.deliver))
        self.are_closed = False
        delivery.is_buffered = True
        crawler.signals.connect(self.look, signal=signals.item_scraped)
        crawler.signals.connect(self.slot_closed, signal=signals.feed_slot_closed)

    def begin(self) -> None:
        """The spider is opened, and so are the feeds."""
        self.look()
        for slot in self._stored_at_end:
            logger.info(
                "neardup: the pages of items in %s count as known only when Scrapy has stored that "
                "file. A crash before fetches them again; FEED_EXPORT_BATCH_ITEM_COUNT stores "
                "more often",
                slot.uri,
            )
        self._flushing.start(FLUSH_INTERVAL_S, now=False)

    def look(self, item: Any = None) -> None:
        """Take note of slots that were opened since; called for each item, after Scrapy's own."""
        # Each item ends at most one batch of a feed, so no slot comes and goes unseen.
        for slot in self._exporter.slots:
            if slot in self._local or slot in self._stored_at_end:
                self._watch(slot, item)
                continue
            self._watch(slot, None)
            if is_local(slot):
                self._local.add(slot)
                self._attempt("feed", end_torn_line, slot)
            elif not self._only_local:
                self._stored_at_end.add(slot)
                self._delivery.hold(slot)

    def _watch(self, slot: FeedSlot, item: Any) -> None:
        """See to it that we hear of errors of a slot's file.

        Scrapy only logs them, and a later flush may work. item: one that was for the slot.
        """
        exporter = slot.exporter
        if exporter is None:  # not opened, or it cannot be
            if item is not None and is_unfiltered(slot) and slot.filter.accepts(item):
                self._delivery.hold_for_good()
            return
        if exporter in self._watched:
            return
        self._watched.add(exporter)
        if item is not None and not slot.itemcount:  # it was opened for this item, and failed
            self._delivery.hold_for_good()
        export = self._told_of_errors(exporter.export_item)
        exporter.export_item = export  # type: ignore[method-assign,assignment]

    def _told_of_errors(self, export: Callable[[Any], None]) -> Callable[[Any], None]:
        def export_item(item: Any) -> None:
            try:
                export(item)
            except OSError:
                self._delivery.hold_for_good()
                raise

        return export_item

    def slot_closed(self, slot: FeedSlot) -> None:
        """Scrapy has stored a slot, or failed to: its signal does not say which, its stats do."""
        if self._has_failed(slot):
            logger.warning("neardup: %s was not stored: the next crawl fetches again", slot.uri)
            self._delivery.hold_for_good()
        elif self._sync and isinstance(slot.storage, FileFeedStorage):
            self._attempt("feed", self._sync_closed, Path(slot.storage.path))
        self._local.discard(slot)
        self._stored_at_end.discard(slot)
        self._delivery.stored(slot)

    def _sync_closed(self, path: Path) -> None:
        """See that a file is on the disk that Scrapy closed without a sync. Raises OSError."""
        if not path.exists():  # a storage of a project's own has moved it
            return
        try:
            sync_file(path)
        except OSError:
            self._delivery.hold_for_good()
            raise

    def _has_failed(self, slot: FeedSlot) -> bool:
        """Whether there are more failures than slots that were told to have failed."""
        storage = type(slot.storage).__name__
        assert self._crawler.stats
        n_failed = self._crawler.stats.get_value(FAILED.format(storage), 0)
        has_failed = bool(n_failed > self._failed[storage])
        self._failed[storage] += has_failed
        return has_failed

    def deliver(self) -> None:
        """Flush the local feeds; then let go what was waiting for them. Raises OSError."""
        for slot in self._local:
            if slot.file is not None:
                if slot.file.closed:
                    return  # whether that worked, slot_closed() will hear
                self._flush(slot)
        for slot in self._stored_at_end:
            if not slot.itemcount:  # it holds nothing yet
                self._delivery.stored(slot)
                self._delivery.hold(slot)
        self._delivery.release()

    def _flush(self, slot: FeedSlot) -> None:
        assert slot.file is not None
        try:
            slot.file.flush()
            if self._sync and isinstance(slot.storage, FileFeedStorage):
                os.fsync(slot.file.fileno())
        except OSError:
            # What was written while the buffer was full is lost: Scrapy only logs it.
            self._delivery.hold_for_good()
            raise

    def close(self) -> None:
        """Scrapy has closed all feeds."""
        self.are_closed = True
        if self._flushing.running:
            self._flushing.stop()
        self._attempt("feed", self.deliver)
        self._delivery.is_buffered = False


def is_local(slot: FeedSlot) -> bool:
    """Whether all items of a slot are in a local file as soon as its buffer is flushed."""
    exporter = slot.exporters[slot.format]
    return (
        type(slot.storage) in (FileFeedStorage, StdoutFeedStorage)
        and "postprocessing" not in slot.feed_options
        and exporter.export_item.__module__ == "scrapy.exporters"  # another may wait for the end
    )


def is_unfiltered(slot: FeedSlot) -> bool:
    """Whether asking the slot's filter again changes nothing: it is Scrapy's."""
    return type(slot.filter) is ItemFilter


def end_torn_line(slot: FeedSlot) -> None:
    """End the last line of a file that is to be appended to, if a crash has cut it off.

    Otherwise the first item of this crawl would be written behind half an item, and be lost. In CSV
    the quotes of a cell that was cut off are ended, too: in a whole file their number is even.
    """
    if slot.format not in (*LINES, "csv") or slot.file is not None:
        return
    if not isinstance(slot.storage, FileFeedStorage) or slot.storage.write_mode != "ab":
        return
    path = Path(slot.storage.path)
    if not path.is_file() or not path.stat().st_size:
        return
    with path.open("r+b") as file:
        if slot.format == "csv" and number_of_quotes(file) % 2:
            file.seek(0, os.SEEK_END)
            file.write(b'"\n')
            return
        file.seek(-1, os.SEEK_END)
        if file.read() != b"\n":
            file.write(b"\n")


def number_of_quotes(file: BinaryIO) -> int:
    """How many `"` a file has."""
    return sum(block.count(b'"') for block in iter(partial(file.read, 1 << 20), b""))

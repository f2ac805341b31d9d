"""NearDuplicatePipeline: item → verdict of its page → drop, tag or keep."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem

from scrapy_neardup import stats
from scrapy_neardup.crawl.items.item_data import is_long
from scrapy_neardup.crawl.items.item_fields import fields_of
from scrapy_neardup.crawl.items.item_judge import ItemReading
from scrapy_neardup.crawl.items.no_item_limits import NoItemLimits
from scrapy_neardup.crawl.items.source_page import CrawledPage, Repeat
from scrapy_neardup.crawl.items.stored_files import StoredFiles
from scrapy_neardup.crawl.pages import extract
from scrapy_neardup.crawl.pages.crawled_pages import repeat_of
from scrapy_neardup.crawl.pages.judge import TextReading
from scrapy_neardup.crawl.pages.page_lifecycle import Fate
from scrapy_neardup.crawl.recrawl.visit_comparison import Revisit
from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.detect.decision import Decision


class NearDuplicate(DropItem):
    """An item whose content was kept before; names the original and the distances."""

    def __init__(self, decision: Decision) -> None:
        # Scrapy logs the item beside the message; at its default WARNING that buries a crawl's log.
        super().__init__(describe(decision), log_level="DEBUG")
        self.decision = decision
        self.fate = Fate.REPEATED


class Unchanged(DropItem):
    """An item of a page that is what it was when it was read last; names the page."""

    def __init__(self, url: str, fate: Fate) -> None:
        super().__init__(f"unchanged since it was read last: {url}", log_level="DEBUG")
        self.fate = fate


class PutOutBefore(DropItem):
    """An item that left the pipelines in an earlier run, which was cut off; names its page."""

    def __init__(self, url: str) -> None:
        super().__init__(f"put out by an earlier run, which was cut off: {url}", log_level="DEBUG")
        self.fate = Fate.KEPT


def describe(decision: Decision) -> str:
    """The decision in words, for a log line."""
    if decision.kind == "claimed":
        return f"names {decision.original} as its canonical URL"
    if decision.kind == "soft-404":
        return f"soft 404, as {decision.original}"
    if decision.kind == "exact":
        return f"exact duplicate of {decision.original}"
    near = f"near-duplicate of {decision.original}: {decision.distance} bits apart"
    if decision.sketch_distance is None:
        return near
    return f"{near}, sketches {decision.sketch_distance}, similarity {decision.similarity:.2f}"


class NearDuplicatePipeline:
    """Applies NEARDUP_ACTION to the items of pages whose content was kept before.

    For order 0, before pipelines that replace items: the verdict is found by the item's
    identity. An item that came from no page, or was replaced on its way, is kept and counted.
    """

    def __init__(
        self, session: CrawlSession, limits: NoItemLimits | None, files: StoredFiles
    ) -> None:
        self.session = session
        self.limits = limits
        self.files = files
        self.settings = session.settings
        self.names_fields = bool(self.settings.ignore_fields or self.settings.item_fields)
        self.reads_data = not session.settings.item_fields and session.settings.compare != "page"

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(CrawlSession.of(crawler), NoItemLimits.of(crawler), StoredFiles(crawler))

    def process_item(self, item: Any) -> Any:
        """The item, tagged where asked for; to be awaited where it is long, or has files.

        Raises NearDuplicate under action "drop".
        """
        if not self.session.is_open:  # pipelines without a crawl
            return item
        if self.names_fields:
            self.session.attempt("advice", self.session.advice.item_came, item)
        try:
            page = self.session.pages.take_over(item)
            if page is None:  # nothing could tell whether it leaves the other pipelines
                return self.keep(item, None)
            reading = self.reading_of(item, page)
            # Without recrawls no page has a revisit: nothing is called for its items.
            has_files = page.revisit is not None and self.may_have_expired(page)
            if reading is not None or has_files:
                return self.process_later(item, page, reading)
            return self.process(item, page)
        except DropItem:
            raise
        except Exception:
            return self.failed(item)

    async def process_later(
        self, item: Any, page: CrawledPage, reading: Awaitable[ItemReading | TextReading] | None
    ) -> Any:
        """The same, of an item that takes long to read, or that passes if a file has expired."""
        try:
            read = None if reading is None else await reading
            if self.may_have_expired(page) and await self.files.have_expired(item):
                self.session.count(stats.RECRAWL_EXPIRED)
                return self.keep(item, page.revisit)
            return self.process(item, page, read)
        except DropItem:
            raise
        except Exception:
            return self.failed(item)

    def failed(self, item: Any) -> Any:
        """The item, which passes; the exception that is being handled is ours, and counted."""
        self.session.attempt.failed("pipeline")
        return item

    def may_have_expired(self, page: CrawledPage) -> bool:
        """Whether media pipelines are to be asked before an item of a page is dropped."""
        is_dropped = page.says_nothing_new and self.settings.action == "drop"
        return is_dropped and bool(self.files.pipelines)

    def reading_of(
        self, item: Any, page: CrawledPage
    ) -> Awaitable[ItemReading | TextReading] | None:
        """A long item as it is read off the loop's thread; None for one to read at once."""
        pages = self.session.pages
        if self.reads_data or page.says_nothing_new:
            return pages.read_item(item, page) if pages.is_slow(item, page) else None
        if not self.settings.item_fields or not self.session.attempt("item_fields", is_long, item):
            return None
        text = self.text_of(item)
        return None if text is None else pages.read_text(text, page)

    def process(
        self,
        item: Any,
        page: CrawledPage,
        reading: ItemReading | TextReading | None = None,
    ) -> Any:
        """What process_item() gives of an item whose page is known. reading: if it was read."""
        revisit, pages = page.revisit, self.session.pages
        of_data = reading if isinstance(reading, ItemReading) else None
        if revisit is not None and revisit.says_nothing_new:
            if self.session.attempt("recrawl", pages.is_completed, item, page, of_data):
                # What it says is not only the page's.
                self.session.count(stats.RECRAWL_COMPLETED)
                return self.keep(item, revisit)
            return self.act_on_unchanged(item, page, revisit, of_data)
        if self.reads_data and pages.was_put_out(item, page, of_data):
            self.count_dropped(stats.ITEMS_PUT_OUT_BEFORE)
            raise PutOutBefore(page.response.url)
        repeat = self.verdict(item, page, reading)
        if repeat is not None and pages.is_spared(page, repeat):
            repeat = None
        if repeat is None or (revisit is not None and revisit.stands):
            self.keep(item, revisit)
            if self.settings.action == "tag":
                tag_container(item, page.applied)
            return item
        return self.act(item, page, repeat)

    def verdict(
        self, item: Any, page: CrawledPage, reading: ItemReading | TextReading | None
    ) -> Repeat | None:
        """What an item repeats: None keeps it.

        By the page's decision, where the item's data repeat, too; by the item's own where item
        fields are compared.
        """
        names = self.settings.item_fields
        if not names and self.settings.compare == "page":
            return repeat_of(page.applied)
        if not names:
            assert not isinstance(reading, TextReading)
            return self.session.pages.repeats_with_data(item, page, reading)
        text = reading.text if isinstance(reading, TextReading) else self.text_of(item)
        if text is None:
            self.session.count(stats.ITEMS_WITHOUT_FIELDS)
            return None
        read = reading if isinstance(reading, TextReading) else None
        return self.session.pages.decide_item(text, page, read)

    def text_of(self, item: Any) -> str | None:
        """The text of the fields that are compared; None where the item has none of them."""
        names = self.settings.item_fields
        return self.session.attempt("item_fields", extract.fields_text, item, names)

    def act(self, item: Any, page: CrawledPage, repeat: Repeat) -> Any:
        """Drop, tag or only count an item that repeats another, or whose page does."""
        count = self.session.count
        page.n_repeating += 1
        if self.settings.action == "dry-run":
            count(stats.ITEMS_WOULD_DROP)
            return item
        if self.settings.action == "tag":
            count(stats.ITEMS_TAGGED if tag(item, repeat.decision) else stats.ITEMS_UNTAGGABLE)
            return item
        self.count_dropped(stats.ITEMS_DROPPED)
        self.session.pages.item_repeats(page, repeat)
        duplicate = NearDuplicate(repeat.decision)
        self.session.advice.item_dropped(page.response.url, str(duplicate))
        raise duplicate

    def keep(self, item: Any, revisit: Revisit | None) -> Any:
        """The item, told how its page compares with its earlier self."""
        self.session.count(stats.ITEMS_KEPT)
        if revisit is not None and not put(item, revisit.tag):
            self.session.count(stats.ITEMS_UNTAGGABLE)
        return item

    def act_on_unchanged(
        self, item: Any, page: CrawledPage, revisit: Revisit, reading: ItemReading | None
    ) -> Any:
        """Drop, tag or only count an item of a page that is what it was when it was read last."""
        count = self.session.count
        count(stats.RECRAWL_ITEMS)
        page.n_repeating += 1
        fate = self.session.pages.item_unchanged(item, page, reading)
        if self.settings.action == "dry-run":
            count(stats.ITEMS_WOULD_DROP)
            return item
        if self.settings.action == "tag":
            count(stats.ITEMS_TAGGED if put(item, revisit.tag) else stats.ITEMS_UNTAGGABLE)
            return item
        self.count_dropped(stats.ITEMS_DROPPED)
        raise Unchanged(page.response.url, fate)

    def count_dropped(self, name: str) -> None:
        """Count an item that is about to be dropped, and tell who waits for items."""
        self.session.count(name)
        if self.limits is not None:
            self.session.attempt("advice", self.limits.item_dropped)


def tag_container(item: Any, decision: Decision | None) -> None:
    """Tag the item of a page that contains an earlier page; no other item that is kept."""
    if decision is not None and decision.kind == "contains":
        tag(item, decision)


def tag(item: Any, decision: Decision) -> bool:
    """Put the decision into the item's `neardup` field; False if its type does not take it."""
    told: dict[str, object] = {
        "kind": decision.kind,
        "original": decision.original,
        "distance": decision.distance,
        "sketch_distance": decision.sketch_distance,
        "similarity": decision.similarity,
    }
    return put(item, told)


def put(item: Any, told: dict[str, object]) -> bool:
    """Add to the item's `neardup` field; False if its type does not take it."""
    try:
        fields = fields_of(item)
        before = fields.get("neardup")
        fields["neardup"] = told | before if isinstance(before, dict) else told
    except Exception:  # a setter or a validator of the project's may raise anything
        return False
    return True

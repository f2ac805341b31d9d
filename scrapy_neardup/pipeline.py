"""NearDuplicatePipeline: item → verdict of its page → drop, tag or keep."""

from __future__ import annotations

from typing import Any, Self
from zlib import crc32

from itemadapter.adapter import ItemAdapter
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem

from scrapy_neardup import stats
from scrapy_neardup.crawl import extract
from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.crawl.visits import PageVisit
from scrapy_neardup.detect.detector import Decision

# Between a page's URL and what tells its items apart, where items are compared by themselves.
ITEM_MARK = "#item-"


class NearDuplicate(DropItem):
    """An item whose content was kept before; names the original and the distances."""

    def __init__(self, decision: Decision) -> None:
        # Scrapy logs the item beside the message; at its default WARNING that buries a crawl's log.
        super().__init__(describe(decision), log_level="DEBUG")
        self.decision = decision


def describe(decision: Decision) -> str:
    """The decision in words, for a log line."""
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

    def __init__(self, session: CrawlSession) -> None:
        self.session = session
        self.settings = session.settings

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(CrawlSession.of(crawler))

    def process_item(self, item: Any) -> Any:
        """The item, tagged where asked for. Raises NearDuplicate under action "drop"."""
        visit = self.session.visits.take_over(item)
        if visit is None:
            self.session.count(stats.ITEMS_WITHOUT_PAGE)
        decision = self.verdict(item, visit)
        if decision is None or not decision.is_duplicate:
            self.session.count(stats.ITEMS_KEPT)
            return item
        return self.act(item, visit, decision)

    def verdict(self, item: Any, visit: PageVisit | None) -> Decision | None:
        """The page's decision, or the item's own where item fields are compared."""
        if not self.settings.item_fields:
            return visit.decision if visit else None
        names = self.settings.item_fields
        text = self.session.attempt("item_fields", extract.fields_text, item, names)
        if text is None:
            self.session.count(stats.ITEMS_WITHOUT_FIELDS)
            return None
        page = visit.response.url if visit else str(ItemAdapter(item).get("url", ""))
        which = crc32(text.encode("utf-8", "surrogatepass"))
        reading = self.session.read_text(f"{page}{ITEM_MARK}{which:08x}", text)
        decision = self.session.decide(reading, visit) if reading else None
        if decision and decision.original and decision.original.startswith(page + ITEM_MARK):
            return None  # of the same page: a URL never matches itself
        applied = self.session.spare(page, decision)
        if decision:
            self.testify(f"{page}{ITEM_MARK}{which:08x}", decision, applied, visit, text)
        return applied

    def testify(
        self,
        url: str,
        decision: Decision,
        applied: Decision | None,
        visit: PageVisit | None,
        text: str,
    ) -> None:
        """Enter the decision about a single item into the ledger."""
        action = self.session.recorder.action_on(decision, dropped=True, spared=applied is None)
        response = visit.response if visit else None
        self.session.recorder.page_judged(url, decision, action, response, text)

    def act(self, item: Any, visit: PageVisit | None, decision: Decision) -> Any:
        """Drop, tag or only count an item of a near-duplicate page."""
        count = self.session.count
        if self.settings.action == "dry-run":
            count(stats.ITEMS_WOULD_DROP)
            return item
        if self.settings.action == "tag":
            count(stats.ITEMS_TAGGED if tag(item, decision) else stats.ITEMS_UNTAGGABLE)
            return item
        count(stats.ITEMS_DROPPED)
        if visit is not None and not visit.items_dropped:
            count(stats.BYTES_SAVED, len(visit.response.body))
        if visit is not None:
            visit.items_dropped += 1
        raise NearDuplicate(decision)


def tag(item: Any, decision: Decision) -> bool:
    """Put the decision into the item's `neardup` field; False if its type has no room for it."""
    try:
        ItemAdapter(item)["neardup"] = {
            "kind": decision.kind,
            "original": decision.original,
            "distance": decision.distance,
            "sketch_distance": decision.sketch_distance,
            "similarity": decision.similarity,
        }
    except (AttributeError, KeyError, TypeError):
        return False
    return True

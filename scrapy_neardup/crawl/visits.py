"""Visits: each response on its way through the spider and the pipelines, and its items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.http import Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.body_cache import Body
from scrapy_neardup.detect.detector import Decision


@dataclass(eq=False, slots=True)
class PageVisit:
    """One response on its way through the spider and the pipelines, and what became of it."""

    response: Response
    page: int | None = None  # in the lineage
    body: Body | None = None  # where it may tell a copy
    judged: Decision | None = None  # what the detector said
    decision: Decision | None = None  # what is done about it
    text: str = ""  # where texts are kept
    read: bool = False
    new_pages: list[int] = field(default_factory=list)  # page ids that this visit brought
    handed: list[int] = field(default_factory=list)  # id() of items the pipeline has not seen
    items_out: int = 0
    items_done: int = 0
    items_kept: int = 0
    items_dropped: int = 0  # by NearDuplicatePipeline
    repeats_itself: bool = False  # its original is the same page under another URL
    exhausted: bool = False  # the callback yields nothing more
    failed: bool = False  # the callback or an item's pipeline raised

    @property
    def settled(self) -> bool:
        """Whether nothing more can happen to the page's items."""
        return self.exhausted and self.items_done == self.items_out


class Visits:
    """Follows a response from its callback's first output until its last item has left.

    Pipelines get an item without its response, so the item's identity leads back to the visit.
    """

    def __init__(self, crawler: Crawler, on_settled: Callable[[PageVisit], None]) -> None:
        """on_settled: called once for each visit, when nothing more can happen to its items."""
        assert crawler.stats
        self._stats = crawler.stats
        self._on_settled = on_settled
        self._under_way: dict[int, PageVisit] = {}  # by id() of the response
        self._handed: dict[int, tuple[Any, PageVisit]] = {}  # by id() of the item
        crawler.signals.connect(self.item_scraped, signal=signals.item_scraped)
        crawler.signals.connect(self.item_dropped, signal=signals.item_dropped)
        crawler.signals.connect(self.item_error, signal=signals.item_error)

    def begin(self, response: Response, page: int | None) -> PageVisit:
        """Begin to follow a response whose callback is about to yield."""
        visit = self._under_way[id(response)] = PageVisit(response, page)
        return visit

    def hand_over(self, item: Any, visit: PageVisit) -> None:
        """Let the pipeline find the visit that an item came from."""
        visit.items_out += 1
        visit.handed.append(id(item))
        self._handed[id(item)] = (item, visit)

    def take_over(self, item: Any) -> PageVisit | None:
        """The visit an item came from; None if it came from none or was replaced on its way."""
        handed_item, visit = self._handed.get(id(item), (None, None))
        if visit is None or handed_item is not item:
            return None
        visit.handed.remove(id(item))
        if id(item) not in visit.handed:  # a spider may yield one object several times
            del self._handed[id(item)]
        return visit

    def exhausted(self, visit: PageVisit) -> None:
        """The callback yields nothing more."""
        visit.exhausted = True
        self._settle(visit)

    def item_scraped(self, response: Response | None) -> None:
        """An item left the pipelines."""
        if visit := self._item_done(response):
            visit.items_kept += 1
            self._settle(visit)

    def item_dropped(self, response: Response | None) -> None:
        """A pipeline dropped an item, ours or another."""
        if visit := self._item_done(response):
            self._settle(visit)

    def item_error(self, response: Response | None) -> None:
        """A pipeline raised."""
        if visit := self._item_done(response):
            visit.failed = True
            self._settle(visit)

    def _item_done(self, response: Response | None) -> PageVisit | None:
        visit = self._under_way.get(id(response))
        if visit is None or visit.response is not response:
            return None
        visit.items_done += 1
        return visit

    def _settle(self, visit: PageVisit) -> None:
        if not visit.settled:
            return
        self._under_way.pop(id(visit.response), None)
        for identity in visit.handed:
            if self._handed.get(identity, (None, None))[1] is visit:
                del self._handed[identity]
            self._stats.inc_value(stats.ITEMS_REPLACED)
        self._on_settled(visit)

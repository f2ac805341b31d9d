"""CLOSESPIDER_TIMEOUT_NO_ITEM and …_PAGECOUNT_NO_ITEM: an item that is dropped as a repeat came."""

from __future__ import annotations

from functools import cached_property
from typing import Self

from scrapy.crawler import Crawler
from scrapy.extensions.closespider import CloseSpider

SETTINGS = "CLOSESPIDER_TIMEOUT_NO_ITEM", "CLOSESPIDER_PAGECOUNT_NO_ITEM"


class NoItemLimits:
    """Tells Scrapy's extension of items that it would have heard of without us.

    It hears of items that left the pipelines only, and would end a crawl within a stretch of
    copies, before what is new behind them. CLOSESPIDER_ITEMCOUNT goes on counting what is kept.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def of(cls, crawler: Crawler) -> Self | None:
        """The limits of a crawl; None where it has none, as most."""
        return cls(crawler) if any(map(crawler.settings.getint, SETTINGS)) else None

    def item_dropped(self) -> None:
        """An item was dropped as a repeat of another, or as unchanged."""
        if self._extension is None:
            return
        self._extension.counter["pagecount_since_last_item"] = 0
        if self._extension.close_on["timeout_no_item"]:
            self._extension.items_in_period += 1

    @cached_property
    def _extension(self) -> CloseSpider | None:
        return self._crawler.get_extension(CloseSpider)

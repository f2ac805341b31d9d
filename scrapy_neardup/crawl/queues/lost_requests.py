"""Requests that a scheduler could not queue or give back: the crawl does not end as finished."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from scrapy import signals
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Request
from scrapy.utils.defer import deferred_from_coro

from scrapy_neardup import stats
from scrapy_neardup.crawl.fail_open import Count

logger = logging.getLogger(__name__)

REASON = "requests_lost"  # why the spider is closed
MAX_UNREAD = 3  # in a row; then the queue is taken for torn


class LostRequests:
    """Watches the scheduler of a crawl.

    Scrapy logs what a queue raises, say at a full disk, and ends the crawl as finished when it
    runs out of other requests; or waits for ever, if its first request cannot be read. No signal
    tells of it, so the scheduler's methods are wrapped.
    """

    def __init__(self, crawler: Crawler, count: Count) -> None:
        self._crawler = crawler
        self._count = count
        self.n = 0
        self._n_unread = 0  # attempts to read since the last one that succeeded
        scheduler = scheduler_of(crawler)
        if scheduler is not None:
            scheduler.enqueue_request = self._enqueuing(scheduler.enqueue_request)
            scheduler.next_request = self._reading(scheduler.next_request)
        crawler.signals.connect(self.spider_idle, signal=signals.spider_idle)

    def _enqueuing(self, enqueue: Callable[[Request], bool]) -> Callable[[Request], bool]:
        def enqueue_request(request: Request) -> bool:
            try:
                return enqueue(request)
            except Exception:
                self._lost()
                raise  # Scrapy logs it, and the page that the request was found on stays undone

        return enqueue_request

    def _reading(self, read: Callable[[], Request | None]) -> Callable[[], Request | None]:
        def next_request() -> Request | None:
            try:
                request = read()
            except Exception:
                self._lost()
                self._n_unread += 1
                if self._n_unread == MAX_UNREAD:
                    assert self._crawler.engine
                    deferred_from_coro(self._crawler.engine.close_spider_async(reason=REASON))
                return None  # asked again soon; raising would stop the spider's start for good
            self._n_unread = 0
            return request

        return next_request

    def _lost(self) -> None:
        """Called while the exception is handled."""
        self.n += 1
        self._count(stats.REQUESTS_LOST)
        if self.n == 1:
            logger.exception(
                "neardup: the scheduler's queue failed. The crawl goes on without the request and "
                "ends as %r; a later crawl with the same state finds it again. Further failures "
                "are only counted, under %s",
                REASON,
                stats.REQUESTS_LOST,
            )

    def spider_idle(self) -> None:
        """There is nothing left to do. Raises CloseSpider where that is not the whole truth."""
        if self.n:
            raise CloseSpider(REASON)


def scheduler_of(crawler: Crawler) -> Any:
    """The scheduler of a crawl whose spider is being opened; None where there is no engine."""
    slot = getattr(engine_of(crawler), "_slot", None)  # Scrapy 2.19 has engine.scheduler
    return getattr(slot, "scheduler", None)


def engine_of(crawler: Crawler) -> ExecutionEngine | None:
    """The engine of a crawler, if there is one."""
    try:
        return crawler.engine
    except RuntimeError:  # from Scrapy 2.19 on, where earlier ones have None
        return None

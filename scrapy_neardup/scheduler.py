"""FleetScheduler: Scrapy's scheduler with a queue that the workers of a fleet share."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from scrapy import Spider
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.misc import build_from_crawler
from twisted.internet.defer import Deferred

from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.errors import SettingsError


class FleetScheduler(Scheduler):
    """A SCHEDULER whose requests wait on the server of NEARDUP_BACKEND.

    A request is leased to one worker. It leaves the server when its page is completed; if the
    worker dies before that, another one gets it. What cannot be written as JSON stays in this
    worker's memory, in Scrapy's queue. The crawl ends when nothing waits and no worker has
    anything under way.

    Where the plugin is switched off, or a command looks at single pages, it is Scrapy's scheduler.
    """

    shares_requests = True  # and loses none of them
    _session: CrawlSession | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FleetScheduler:
        """The scheduler."""
        scheduler = super().from_crawler(crawler)
        with suppress(NotConfigured):
            scheduler._session = CrawlSession.of(crawler)
        return scheduler

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Raises SettingsError without NEARDUP_BACKEND, and what CrawlSession.open does."""
        opened = super().open(spider)
        if self._session is not None:
            self._session.open()
            self._share()
        return opened

    def _share(self) -> None:
        assert self._session
        queue = self._session.fleet_queue
        if queue is not None:
            if self.dqs:
                raise SettingsError(
                    f"{len(self.dqs):,} requests wait in {self.dqdir}, where FleetScheduler does "
                    f"not look for them. Finish that crawl without it, or set another JOBDIR"
                )
            self.mqs: Any = queue.local_requests(self.mqs)
            self.dqs: Any = queue
            queue.run_began = self._run_began
            queue.open()

    def _run_began(self) -> None:
        """This worker outlives a run: the next one asks for the same requests again."""
        assert self._session
        assert self.crawler
        self._session.urls.run_began()
        self.df.close("run_began")
        self.df = build_from_crawler(type(self.df), self.crawler)
        self.df.open()

    def has_pending_requests(self) -> bool:
        """Whether requests wait, here or on the server, or another worker is busy."""
        if self._queue is None:
            return super().has_pending_requests()
        return bool(len(self.mqs)) or not self._queue.is_over

    @property
    def _queue(self) -> Any:
        return self._session.fleet_queue if self._session is not None else None

    def close(self, reason: str) -> Deferred[None] | None:
        """Push what was found last, give back what was not begun."""
        if not hasattr(self, "mqs"):  # the crawl failed before it was opened
            return None
        if self._queue is None:
            return super().close(reason)
        return deferred_from_coro(self._close(reason))

    async def _close(self, reason: str) -> None:
        await self._queue.close()
        self.df.close(reason)

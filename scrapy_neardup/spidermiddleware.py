"""NearDuplicateSpiderMiddleware: hands each page's verdict to its items, prunes links of copies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.http import Request, Response
from scrapy.utils.asyncio import run_in_thread

from scrapy_neardup import stats
from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.crawl.visits import PageVisit
from scrapy_neardup.detect.detector import PageReading

THREAD_BYTES = 200_000  # a body from which reading takes more than about 1 ms


class NearDuplicateSpiderMiddleware:
    """Reads a page once, when its first item comes, and lets all its items share the verdict.

    For a low order, about 10: nearer the engine than the others, it sees the output that
    really leaves. A page without items is read only to prune its links, under
    NEARDUP_FOLLOW_DUPLICATES=False.
    """

    def __init__(self, session: CrawlSession) -> None:
        self.session = session
        self.prune = not session.settings.follow_duplicates

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(CrawlSession.of(crawler))

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pass on what the spider starts with, after what a person wants fetched once more."""
        for request in self.session.recorder.requests(self.session.spider):
            self.session.tracker.found(request, None)
            yield request
        async for output in start:
            if isinstance(output, Request):
                self.session.tracker.found(output, None)
            yield output

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass on what the callback yields, judging the page before its first item."""
        visit = self.session.visits.begin(response, self.session.tracker.page_of(response))
        page, found = visit.page, self.session.tracker.found
        try:
            async for output in result:
                if isinstance(output, Request):
                    if not (self.prune and await self.is_pruned(visit)):
                        found(output, page)
                        yield output
                else:
                    await self.hand_over(output, visit)
                    yield output
        except BaseException:
            visit.failed = True
            raise
        finally:
            self.session.visits.exhausted(visit)

    async def hand_over(self, item: Any, visit: PageVisit) -> None:
        """Judge the page if that has not happened, and let the pipeline find the verdict."""
        if not self.session.settings.item_fields:
            await self.judge(visit)
        if not visit.items_out:
            self.session.stand_in(visit)
        self.session.visits.hand_over(item, visit)

    async def is_pruned(self, visit: PageVisit) -> bool:
        """Whether links out of this page are not to be followed; counted."""
        await self.judge(visit)
        if visit.decision is None or not visit.decision.is_duplicate or visit.repeats_itself:
            return False
        self.session.count(stats.LINKS_PRUNED)
        return True

    async def judge(self, visit: PageVisit) -> None:
        """Read and decide, once."""
        if visit.read or visit.response.meta.get("neardup_skip"):
            return
        visit.read = True
        judged = self.session.decide_copy(visit)
        if judged is None and (reading := await self.read(visit)) is not None:
            judged = await self.session.decide_with_peers(reading, visit)
        if judged is not None:
            visit.judged = judged
            visit.decision = self.session.spare(visit.response.url, judged)
            visit.repeats_itself = self.prune and self.session.repeats_itself(visit)

    async def read(self, visit: PageVisit) -> PageReading | None:
        """The page's reading, made off the event loop's thread if it is long."""
        if len(visit.response.body) < THREAD_BYTES:
            return self.session.read(visit)
        return await run_in_thread(lambda: self.session.sign(self.session.read(visit)))

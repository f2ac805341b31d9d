"""NearDuplicateSpiderMiddleware: hands each page's verdict to its items, prunes links of copies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cached_property
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.extensions.spiderstate import SpiderState
from scrapy.http import Request, Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.first_step import FirstStep
from scrapy_neardup.crawl.items.elsewhere import Wait, is_given_objects, waits_first
from scrapy_neardup.crawl.items.source_page import CrawledPage
from scrapy_neardup.crawl.requests.carrying import carries_nothing
from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.detect.decision import Decision
from scrapy_neardup.detect.near import FEW_WORDS
from scrapy_neardup.errors import NearDupError

PLACE = "spider_output"  # of errors
LOOK_AHEAD = 1_000  # outputs of a near page that are held, looking for its second item


class NearDuplicateSpiderMiddleware:
    """Reads a page once, when its first item comes, and lets all its items share the verdict.

    For a low order, about 10: nearer the engine than the others, it sees the output that
    really leaves. A page without items is read only to prune its links, under
    NEARDUP_FOLLOW_DUPLICATES=False.
    """

    def __init__(self, session: CrawlSession, crawler: Crawler) -> None:
        self.session = session
        self.crawler = crawler
        self.prune = not session.settings.follow_duplicates
        self.judges_pages = not session.settings.item_fields

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(CrawlSession.of(crawler), crawler)

    def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pass on what the spider starts with, after what a person wants fetched once more.

        Not a generator, so that the session opens here: before the scheduler opens its queue,
        and when Scrapy is sure to close the spider again. Raises what CrawlSession.open does.
        """
        try:
            self.session.open()
        except Exception as refusal:
            self.leave_spider_state()
            if not isinstance(refusal, NearDupError):
                raise
            # Scrapy prints it three times: without the calls that led to it, it can be found.
            raise refusal.with_traceback(None) from refusal.__cause__
        return self.started(start)

    def leave_spider_state(self) -> None:
        """Keep Scrapy from emptying the job's spider.state, which it has not read yet."""
        extension = self.crawler.get_extension(SpiderState)
        if extension is not None:
            extension.jobdir = None

    async def started(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """What process_start passes on."""
        session = self.session
        for request in session.recorder.requests(self.crawler.spider, session.skipping.as_skipped):
            session.requests.started(request)
            yield request
        queue = session.fleet_queue
        if queue is not None:
            await queue.begin()
        try:
            async for output in start:
                if isinstance(output, Request):
                    session.requests.started(output)
                    if queue is not None and not session.requests.is_waited_for(output):
                        queue.starts(output)
                    if session.recrawl is not None:
                        session.attempt("recrawl", session.recrawl.started, output)
                yield output
        except Exception:  # what it would have made is lost here and would be elsewhere
            if queue is not None:
                queue.started()
            raise
        if queue is not None:
            queue.started()

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass on what the callback yields, judging the page before its first item."""
        session = self.session
        # Without a crawl there is nothing to begin.
        page = session.attempt(PLACE, session.pages.begin, response) if session.is_open else None
        if page is None:
            async for output in result:
                yield output
            return
        failed, stopped, has_erred = True, False, False
        if session.recrawl is not None:
            result = session.recrawl.compared(page, result)
        wait = Wait()
        try:
            async for first in result:
                outputs = [first]
                for output in outputs:  # with those that are looked at ahead
                    if type(output) is FirstStep:
                        with suppress(StopAsyncIteration):
                            outputs.append(await output)
                        continue
                    try:
                        if not isinstance(output, Request):
                            page.has_waited = self.has_waited(page, wait)
                            await self.hand_over(output, page, result, outputs)
                        elif self.prune and await self.is_pruned(output, page):
                            continue
                        else:
                            self.found(output, page)
                    except Exception:  # none of the callback's: those are not raised here
                        has_erred = True
                        session.attempt.failed(PLACE)
                    yield output
                    if wait.is_over:  # the page was judged in a thread, say
                        wait = Wait()
            if session.skipping.acts and self.judges_pages:  # what lists say is evidence, too
                await session.pages.judge(page)
            failed = has_erred  # what nobody waits for may be lost: the next crawl reads it again
        except CloseSpider:
            failed, stopped = has_erred, True
            raise
        finally:
            session.pages.exhausted(page, failed, stopped)

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """Let a page end whose callback stops the crawl, also one that is no generator."""
        if isinstance(exception, CloseSpider) and self.session.is_open:
            self.session.attempt(PLACE, self.session.pages.stopped, response)

    async def hand_over(
        self, item: Any, page: CrawledPage, result: AsyncIterator[Any], outputs: list[Any]
    ) -> None:
        """Judge the page of an item, and let the pipeline find it.

        result, outputs: what its callback will yield and has yielded, see look_ahead().
        """
        if await self.is_near(page) and page.gives_several is None:
            page.gives_several = look_ahead(result, outputs)
        request = page.response.request
        if request is not None and not page.brought_item:
            self.session.urls.brought_item(request)
        page.brought_item = True
        self.session.pages.hand_over(item, page)

    def found(self, request: Request, page: CrawledPage) -> None:
        """Note where a request was found."""
        session = self.session
        session.requests.found(request, page.id if page.is_tracked else None, page.is_of_form)
        if session.skipping.acts:
            session.skipping.found(page, request, session.urls.key(request))

    def has_waited(self, page: CrawledPage, wait: Wait) -> bool:
        """Whether a callback has, or may have, waited before this output, or an item before it."""
        if page.has_waited is None:
            return wait.is_over or self.has_waited_first(page.response)
        return page.has_waited or wait.is_over

    def has_waited_first(self, response: Response) -> bool:
        """Whether a callback, or who made what it is given, may have waited before any output."""
        request = response.request
        callback = request.callback if request is not None else None
        waits = waits_first(callback or getattr(self.crawler.spider, "parse", None))
        return waits or (self.injects and is_given_objects(request))

    @cached_property
    def injects(self) -> bool:
        """Whether scrapy-poet makes what callbacks are given, and may wait for it before."""
        assert self.crawler.engine
        modules = (
            type(one).__module__ for one in self.crawler.engine.downloader.middleware.middlewares
        )
        return any(module.partition(".")[0] == "scrapy_poet" for module in modules)

    async def is_near(self, page: CrawledPage) -> bool:
        """Judge the page of an item: whether it is the copy of one that has other text."""
        if self.judges_pages:
            await self.session.pages.judge(page)
        return page.applied is not None and page.applied.is_near

    async def is_pruned(self, request: Request, page: CrawledPage) -> bool:
        """Whether a link out of this page is not to be followed; counted."""
        if not carries_nothing(request):
            return False
        await self.session.pages.judge(page)
        decision = page.applied
        if decision is None or not decision.is_duplicate or self.repeats_itself(page, decision):
            return False
        if self.asks_again(request, page):
            return False
        if await self.session.pages.own_words(page) < FEW_WORDS:
            self.session.count(stats.LINKS_SPARED)
            return False
        self.session.count(stats.LINKS_PRUNED)
        return True

    def asks_again(self, request: Request, page: CrawledPage) -> bool:
        """Whether a request is for its page itself, which may say something else by then."""
        made, key = page.response.request, self.session.urls.key
        return made is not None and key(request) == key(made)

    def repeats_itself(self, page: CrawledPage, decision: Decision) -> bool:
        """Whether a page's original has the same key: one URL as far as the rules for URLs go.

        A crash may have come between: then the links of the earlier one were never followed.
        """
        request, key = page.response.request, self.session.urls.key
        if request is None or decision.original is None:
            return False
        return key(request) == key(request.replace(url=decision.original))


def look_ahead(result: AsyncIterator[Any], outputs: list[Any]) -> bool:
    """Whether a near page gives a second item, before its first is compared.

    Appends what the callback yields meanwhile to its outputs. True as well where there are too many
    of them, and where it waits for something, which may be what becomes of these outputs.
    """
    for _ in range(LOOK_AHEAD):
        following = FirstStep(anext(result))
        if type(following.error) is StopAsyncIteration:
            return False
        if not following.is_done:
            outputs.append(following)
            return following.waits
        outputs.append(following.value)
        if not isinstance(following.value, Request):
            return True
    return True

"""What errbacks yield after a failed download: waited for like what callbacks yield."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, IgnoreRequest
from scrapy.http import Request, Response
from scrapy.utils.asyncgen import as_async_generator
from twisted.python.failure import Failure

from scrapy_neardup.crawl.effects import Effects
from scrapy_neardup.crawl.pages.crawled_pages import fate_of
from scrapy_neardup.crawl.pages.page_lifecycle import Fate, PageLifecycle, Settled
from scrapy_neardup.crawl.queues.lost_requests import engine_of
from scrapy_neardup.crawl.recrawl.unread_pages import UnreadPages
from scrapy_neardup.crawl.requests.carrying import may_carry_an_item
from scrapy_neardup.crawl.requests.request_tracker import (
    Failed,
    RequestTracker,
    is_of_spider,
    is_only_leased,
)
from scrapy_neardup.crawl.requests.seen_urls import UrlAlreadyFetched

Call = Callable[[Response | Failure, Request], Awaitable[Any]]


class Errbacks:
    """Follows each failed download from its errback's first output until its last item has left.

    In the lifecycle it is a page whose URL never counts as seen. It is done when all that its
    errback yields is, if the request was dropped on purpose (robots.txt, a URL fetched before), or
    if the errback made it again. Any other is left to the next crawl, whatever its errback does.

    Scrapy passes that output by the spider middlewares, and no signal tells of it, so the method
    of its scraper that calls errbacks is wrapped. The errback of a response that a spider
    middleware refused (404) is not meant: its output takes the way of a callback's.
    """

    def __init__(
        self,
        crawler: Crawler,
        lifecycle: PageLifecycle,
        effects: Effects,
        requests: RequestTracker,
        kept: Callable[[Request], object] | None = None,
        unread: UnreadPages | None = None,
    ) -> None:
        """kept: is told of each request whose errback gave an item that left the pipelines."""
        self._crawler = crawler
        self._lifecycle = lifecycle
        self._effects = effects
        self._requests = requests
        self._kept = kept
        self._unread = unread
        self._pages: dict[int, int] = {}  # by id() of the failure
        self._failures: dict[int, tuple[Failure, Request]] = {}  # by page
        self._with_items: set[int] = set()  # pages
        self._listens = False
        scraper: Any = getattr(engine_of(crawler), "scraper", None)
        if scraper is not None:
            scraper.call_spider_async = self._calling(scraper.call_spider_async)

    def _calling(self, call: Call) -> Call:
        def call_spider_async(result: Response | Failure, request: Request) -> Awaitable[Any]:
            if isinstance(result, Failure) and (is_of_spider(request) or is_only_leased(request)):
                return self._called(call, result, request)
            return call(result, request)

        return call_spider_async

    async def _called(self, call: Call, failure: Failure, request: Request) -> AsyncIterator[Any]:
        """Call the errback; what it yields. Raises what it raises, or the failure itself.

        It is not called where the request failed by what we asked in it, which is made once more,
        nor for a link whose URL was fetched before: that is no failure, and of links
        that Scrapy filters no errback hears. Where the request carries something, the errback may
        have to put out an item that would be lost with it.
        """
        if self._unread is not None and self._unread.unanswered(request, failure.value):
            failed = self._begun(failure, request)
            again = as_async_generator([self._unread.in_full(request)])
            return self._followed(again, request, failed, False)
        is_dropped = isinstance(failure.value, IgnoreRequest)
        is_repeated = isinstance(failure.value, UrlAlreadyFetched) and not may_carry_an_item(
            request
        )
        if request.errback is None or is_repeated:
            if is_dropped:
                self._requests.ended(request)
            else:
                self._requests.came_to_nothing(request)
            failure.raiseException()
        failed = self._begun(failure, request)
        try:
            output = await call(failure, request)
        except Exception as error:  # the failure itself, where the errback wants none of it
            has_ended = error is failure.value or isinstance(error, CloseSpider)
            self._exhausted(failed.page, is_dropped and has_ended)
            raise
        return self._followed(as_async_generator(output), request, failed, is_dropped)

    def _begun(self, failure: Failure, request: Request) -> Failed:
        if not self._listens:
            self._listen()
        failed = self._requests.failed(request)
        self._pages[id(failure)] = failed.page
        self._failures[failed.page] = failure, request
        return failed

    def _listen(self) -> None:
        """Hear of items once there are errbacks: a receiver costs 2 us for each item."""
        self._listens = True
        self._effects.subscribe(Settled, self._settled)
        connect = self._crawler.signals.connect
        connect(self.item_scraped, signal=signals.item_scraped)
        connect(self.item_dropped, signal=signals.item_dropped)
        connect(self.item_error, signal=signals.item_error)

    async def _followed(
        self, output: AsyncIterator[Any], request: Request, failed: Failed, is_dropped: bool
    ) -> AsyncIterator[Any]:
        is_made_again = has_ended = False
        try:
            async for one in output:
                if isinstance(one, Request):
                    is_made_again |= self._requests.found_by_errback(one, failed)
                elif one is not None:
                    self._lifecycle.item_out(failed.page)
                yield one
            has_ended = True
        except CloseSpider:
            has_ended = True
            raise
        finally:
            is_done = has_ended and (
                is_dropped or is_made_again or self._requests.need_not_stay(request, failed)
            )
            self._exhausted(failed.page, is_done)

    def _exhausted(self, page: int, is_done: bool) -> None:
        self._effects.of(self._lifecycle.exhausted, page, not is_done)

    def item_scraped(self, response: object) -> None:
        """An item left the pipelines."""
        self._item_done(response, Fate.KEPT)

    def item_dropped(self, exception: Exception, response: object) -> None:
        """A pipeline dropped an item, ours or another."""
        self._item_done(response, fate_of(exception))

    def item_error(self, response: object) -> None:
        """A pipeline raised."""
        self._item_done(response, Fate.FAILED)

    def _item_done(self, response: object, fate: Fate) -> None:
        """For an item of an errback, Scrapy gives the failure as the response."""
        page = self._pages.get(id(response))
        if page is not None:
            if fate is Fate.KEPT:
                self._with_items.add(page)
            self._effects.of(self._lifecycle.item_done, page, fate)

    def _settled(self, page: int, failed: bool) -> None:
        failure, request = self._failures.pop(page, (None, None))
        if failure is None or request is None:
            return
        del self._pages[id(failure)]
        if page in self._with_items:
            self._with_items.remove(page)
            if self._kept is not None:
                self._kept(request)

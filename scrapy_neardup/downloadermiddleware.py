"""SeenUrlMiddleware: request → key → filter; a URL fetched before is not fetched again."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Self

from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.request_tracker import is_of_spider, is_only_leased
from scrapy_neardup.crawl.session import CrawlSession


class UrlAlreadyFetched(IgnoreRequest):
    """The URL of a request was fetched before: in this run or, with a state folder, earlier."""

    def __init__(self, request: Request) -> None:
        super().__init__(f"already fetched: {request.url}")


class StaleRequest(IgnoreRequest):
    """A request of a crawl that crashed: the page it was found on is read again."""


class SeenUrlMiddleware:
    """Drops requests whose URL was fetched before; remembers a URL on its final 2xx response.

    A downloader middleware for an order of about 150: after the offsite and robots.txt
    middlewares, so that nothing is remembered that they drop, and before retries and
    redirects, so that only final responses are seen. Requests that come back on purpose
    are exempt, each kind counted under neardup/urls/exempt/….
    """

    def __init__(self, session: CrawlSession) -> None:
        self.session = session

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(CrawlSession.of(crawler))

    def process_request(self, request: Request) -> Awaitable[None] | None:
        """Let a request pass; under NEARDUP_BACKEND what the fleet says is awaited.

        Raises UrlAlreadyFetched for a URL fetched before, StaleRequest for a request that a
        queue on disk kept through a crash.
        """
        session = self.session
        if session.requests.is_stale(request):
            session.count(stats.URLS_STALE)
            raise StaleRequest(f"found by a crawl that crashed, to be found again: {request.url}")
        was_fetched = session.urls.was_fetched(request)
        if not isinstance(was_fetched, bool):
            return self.fleet_answers(request, was_fetched)
        if was_fetched:
            if session.recrawl is not None:
                session.attempt("recrawl", session.recrawl.redirected, request)
            raise UrlAlreadyFetched(request)
        return None

    async def fleet_answers(self, request: Request, was_fetched: Awaitable[bool]) -> None:
        """Let a request pass that no worker has made. Raises UrlAlreadyFetched."""
        if await was_fetched:
            raise UrlAlreadyFetched(request)

    def process_response(self, request: Request, response: Response) -> Response:
        """Let the page begin; the URL of a 2xx response to an ordinary request counts as seen."""
        if is_of_spider(request):
            if self.session.recrawl is not None:
                self.session.attempt("recrawl", self.session.recrawl.answered, request, response)
            key = self.session.urls.answered(request, response)
            self.session.requests.answered(request, response, key)
        elif is_only_leased(request):
            self.session.requests.answered(request, response, None)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Wait no longer for a request that was dropped on purpose."""
        session = self.session
        if isinstance(exception, IgnoreRequest):
            session.requests.ended(request)
        elif session.recrawl is not None and is_of_spider(request):
            session.attempt("recrawl", session.recrawl.failed, request)

"""SeenUrlMiddleware: request → key → filter; a URL fetched before is not fetched again."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Self

from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response
from scrapy.http.request import NO_CALLBACK

from scrapy_neardup import stats
from scrapy_neardup.crawl.learning.url_skipping import RequestSkipped
from scrapy_neardup.crawl.recrawl.conditional import ASKED
from scrapy_neardup.crawl.recrawl.recrawl import Recrawl
from scrapy_neardup.crawl.recrawl.unread_pages import NOT_DUE, NOT_MODIFIED
from scrapy_neardup.crawl.requests.request_tracker import is_cut_off, is_of_spider, is_only_leased
from scrapy_neardup.crawl.requests.seen_urls import UrlAlreadyFetched
from scrapy_neardup.crawl.session import CrawlSession


class StaleRequest(IgnoreRequest):
    """A request of a crawl that crashed: the page it was found on is read again."""


# Of these, what the page says is read all the same, or the next crawl reads it.
OURS = (UrlAlreadyFetched, RequestSkipped, StaleRequest)


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

    def process_request(self, request: Request) -> Awaitable[Response | None] | Response | None:
        """Let a request pass; under NEARDUP_BACKEND what the fleet says is awaited.

        A page that is not due is answered without a download.

        Raises UrlAlreadyFetched for a URL fetched before, RequestSkipped for one that learnt rules
        skip, StaleRequest for a request that a queue on disk kept through a crash.
        """
        session = self.session
        if session.requests.is_stale(request):
            session.count(stats.URLS_STALE)
            raise StaleRequest(f"found by a crawl that crashed, to be found again: {request.url}")
        was_fetched = session.urls.was_fetched(request)
        if not isinstance(was_fetched, bool):
            return self.fleet_answers(request, was_fetched)
        return self.answered(request, was_fetched)

    def about_to_fetch(self, request: Request, recrawl: Recrawl) -> Response | None:
        """Ask the server of a known page only whether it changed, where that is enough.

        The answer for a page that is not due.
        """
        if is_of_spider(request):
            self.session.attempt("recrawl", recrawl.links.asked_for, request)
            return self.session.attempt("recrawl", recrawl.unread.about_to_fetch, request)
        self.session.attempt("recrawl", recrawl.conditions.bypassed, request)
        return None

    async def fleet_answers(
        self, request: Request, was_fetched: Awaitable[bool]
    ) -> Response | None:
        """answered(), once the fleet has said whether any worker has made a request."""
        return self.answered(request, await was_fetched)

    def answered(self, request: Request, was_fetched: bool) -> Response | None:
        """Let a request pass that was not made before. Raises UrlAlreadyFetched."""
        recrawl = self.session.recrawl
        if was_fetched:
            if recrawl is not None:
                self.session.attempt("recrawl", recrawl.links.redirected, request)
            raise UrlAlreadyFetched(request)
        return None if recrawl is None else self.about_to_fetch(request, recrawl)

    def process_response(self, request: Request, response: Response) -> Response | Request:
        """Let the page begin; the URL of a 2xx response to an ordinary request counts as seen.

        So does that of a page which its server says is unchanged, where we asked. Returns a
        request for the page in full where that answer is of no use.
        """
        if is_of_spider(request):
            if self.session.recrawl is not None:
                told = self.recrawl_answered(request, response, self.session.recrawl)
                if isinstance(told, Request):
                    return told
                response = told
            is_page = self.is_page(response)
            if (response.flags or response.status != 200) and is_cut_off(response):
                self.cut_off()
            key = self.session.urls.answered(request, response) if is_page else None
            if self.is_unread(response):
                assert response.request is not None
                request = response.request  # whose callback is ours
            self.session.requests.answered(request, response, key)
        elif is_only_leased(request):
            self.session.requests.answered(request, response, None)
        elif request.callback is NO_CALLBACK:
            self.session.files.answered(request, response)
        return response

    def cut_off(self) -> None:
        """Only a part of a page came."""
        self.session.count(stats.PAGES_CUT_OFF)
        if self.session.recrawl is not None:
            self.session.recrawl.links.missed()

    def is_unread(self, response: Response) -> bool:
        """Whether a 304 stands for a page, whose links are followed."""
        recrawl = self.session.recrawl
        return recrawl is not None and recrawl.unread.of(response) is not None

    def is_page(self, response: Response) -> bool:
        """Whether a response brings a page, or stands for one."""
        return 200 <= response.status < 300 or self.is_unread(response)

    def recrawl_answered(
        self, request: Request, response: Response, recrawl: Recrawl
    ) -> Response | Request:
        """The response as its callback is to get it, or a request to be made instead."""
        attempt = self.session.attempt
        if response.status == NOT_MODIFIED and (ASKED in request.meta or NOT_DUE in response.flags):
            unread = attempt("recrawl", recrawl.unread.not_modified, request, response)
            if unread is None:
                return recrawl.unread.in_full(request)
            response = unread
        elif attempt("recrawl", recrawl.conditions.fails, request, response):
            return recrawl.unread.in_full(request)
        recrawl.conditions.withdraw(request)  # a spider may copy it
        is_page = self.is_page(response)
        attempt("recrawl", recrawl.links.answered, request, response.status, is_page)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Remember that a file, or under NEARDUP_RECRAWL a page, could not be had."""
        if request.callback is NO_CALLBACK:
            self.session.files.failed(request, exception)
        recrawl = self.session.recrawl
        if recrawl is None or isinstance(exception, OURS) or not is_of_spider(request):
            return
        recrawl.conditions.withdraw(request)  # no answer came
        is_dropped, links = isinstance(exception, IgnoreRequest), recrawl.links
        self.session.attempt("recrawl", links.not_made if is_dropped else links.failed, request)

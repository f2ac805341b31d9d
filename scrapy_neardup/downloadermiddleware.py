"""SeenUrlMiddleware: request → key → filter; a URL fetched before is not fetched again."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Self

from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response
from scrapy.http.request import NO_CALLBACK

from scrapy_neardup import stats
from scrapy_neardup.crawl.request_tracker import ONCE, ORIGINAL_DONT_FILTER
from scrapy_neardup.crawl.session import CrawlSession


class UrlAlreadyFetched(IgnoreRequest):
    """The URL of a request was fetched before: in this run or, with a state folder, earlier."""


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
        if session.tracker.waits and session.tracker.is_stale(request):
            session.count(stats.URLS_STALE)
            raise StaleRequest(f"found by a crawl that crashed, to be found again: {request.url}")
        session.count(stats.URLS_ASKED)
        if session.fleet is not None:
            request.meta.pop(ONCE, None)  # a copy of another request's
        reason = exemption(request, session)
        if reason is not None:
            session.count(stats.URLS_EXEMPT.format(reason))
            return None
        key = session.key(request)
        seen = key is not None and session.seen(key)
        if key is not None and session.fleet is not None and not seen:
            return self.ask_peers(request, key)
        self.answer(request, seen)
        return None

    async def ask_peers(self, request: Request, key: bytes) -> None:
        """Let a request pass that no worker has made. Raises UrlAlreadyFetched."""
        request.meta[ONCE] = True
        self.answer(request, await self.session.seen_by_peers(key))

    def answer(self, request: Request, seen: bool) -> None:
        """Let a new request pass, and one a person wants. Raises UrlAlreadyFetched."""
        session = self.session
        if not seen:
            session.count(stats.URLS_NEW)
            return
        if session.recorder.wants(request.url):
            session.count(stats.URLS_EXEMPT.format("undone"))
            return
        session.count(stats.URLS_DROPPED)
        session.recorder.url_dropped(request)
        raise UrlAlreadyFetched(f"already fetched: {request.url}")

    def process_response(self, request: Request, response: Response) -> Response:
        """Let the page begin; the URL of a 2xx response to an ordinary request counts as seen."""
        meta = request.meta
        dont_filter = meta.pop(ORIGINAL_DONT_FILTER, None)
        if dont_filter is not None:  # else the spider did not yield the request
            ordinary = not dont_filter and not meta.get("neardup_skip")
            marked = ordinary and 200 <= response.status < 300
            self.session.tracker.answered(
                request, response, self.session.key(request) if marked else None
            )
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Wait no longer for a request that was dropped on purpose."""
        if isinstance(exception, IgnoreRequest):
            self.session.tracker.ended(request)


def exemption(request: Request, session: CrawlSession) -> str | None:
    """Why a request may pass whether or not its URL was fetched; None for an ordinary one."""
    meta = request.meta
    if session.is_inspection:
        return "inspection"
    if request.callback is NO_CALLBACK:
        return "media_or_robots"
    if not request.url.startswith(("http://", "https://")):
        return "scheme"
    if meta.get("neardup_skip") or meta.get("neardup_refresh"):
        return "meta"
    if meta.get("is_start_request"):
        return "start"
    if meta.get("retry_times"):
        return "retry"
    if request.dont_filter or meta.get(ORIGINAL_DONT_FILTER):
        return "dont_filter"
    if ORIGINAL_DONT_FILTER not in meta:
        return "inline"
    if meta.get("redirect_urls") and returns_to_its_chain(request, session):
        return "redirect"
    return None


def returns_to_its_chain(request: Request, session: CrawlSession) -> bool:
    """Whether a redirect leads back to a URL it came through, as cookie walls do."""
    key, chain = session.key(request), request.meta.get("redirect_urls", ())
    return any(session.key(request.replace(url=url)) == key for url in chain)

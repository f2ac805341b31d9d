"""Requests and responses as the lineage sees them: which page was each request found on?"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.http import Request, Response

from scrapy_neardup.state import State

Attempt = Callable[..., object]

# Plain numbers in request.meta, because meta follows a request through retries, redirects and
# queues of any kind. Each is taken out when it has served, so that copies of meta repeat nothing.
ORIGINAL_DONT_FILTER = "neardup_dont_filter"  # as the spider yielded it: retries set dont_filter
FOUND_ON = "neardup_found_on"  # [state, page]
PAGE = "neardup_page"
ONCE = "neardup_once"  # the fleet was asked for the URL, which is to be fetched once


class RequestTracker:
    """Tells the lineage what happens to requests.

    What it does not hear of (a request that an unknown component swallows, a download that
    failed, a callback or an item that raised) leaves its page, and those it was found
    through, unfinished: the next crawl reads them again. Where a page has not to wait for
    what was found on it, links cost nothing.
    """

    def __init__(self, state: State, crawler: Crawler, attempt: Attempt, waits: bool) -> None:
        """attempt: carries out an action, and counts it where it fails.

        waits: whether a page is done only when what was found on it is; without, no request
        is stale.
        """
        self._state_id = state.id
        self._lineage = state.lineage
        self._crawler = crawler
        self._attempt = attempt
        self.waits = waits
        if waits:
            crawler.signals.connect(self.ended, signal=signals.request_dropped)
            crawler.signals.connect(self.scheduled, signal=signals.request_scheduled)

    def found(self, request: Request, page: int | None) -> None:
        """The spider yielded a request: on a page, or where that is None at its start."""
        # Not at the signal request_scheduled: a receiver costs 2 us for every link of a crawl.
        request.meta.setdefault(ORIGINAL_DONT_FILTER, request.dont_filter)
        if page is not None and self.waits:
            request.meta[FOUND_ON] = [self._state_id, page]
            self._lineage.expect(page)

    def is_stale(self, request: Request) -> bool:
        """Whether a queue kept the request through a crash of the crawl that found it.

        Its page is not done, so it is read again and the request found again. To make this
        one, too, would hide it from the page that is to wait for it.
        """
        state_id, page = request.meta.get(FOUND_ON, (None, None))
        return state_id == self._state_id and not self._lineage.waits(page)

    def scheduled(self, request: Request, spider: Spider) -> None:
        """A request is about to be scheduled; OffsiteMiddleware drops at that signal, unsaid."""
        if FOUND_ON not in request.meta or request.dont_filter or self._offsite is None:
            return
        if not (request.meta.get("allow_offsite") or self._offsite.should_follow(request, spider)):
            self.ended(request)

    @cached_property
    def _offsite(self) -> OffsiteMiddleware | None:
        return self._crawler.get_downloader_middleware(OffsiteMiddleware)

    def ended(self, request: Request) -> None:
        """A request was dropped on purpose: its page need not wait for it."""
        self.handled(self._take_parent(request))

    def answered(self, request: Request, response: Response, key: bytes | None) -> None:
        """The final response came; key: of its URL, if that is to count as seen."""
        meta = request.meta
        meta.pop(PAGE, None)
        if not is_transient(response.status):
            parent = self._take_parent(request) if self.waits else None
            meta[PAGE] = self._lineage.begin(key, parent)

    def _take_parent(self, request: Request) -> int | None:
        """The page the request was found on, if a crawl of this state found it."""
        state_id, page = request.meta.pop(FOUND_ON, (None, None))
        return page if state_id == self._state_id else None

    def page_of(self, response: Response) -> int | None:
        """The page that answered() began; told once."""
        page: int | None = response.meta.pop(PAGE, None)
        return page

    def handled(self, page: int | None) -> None:
        """The callback is exhausted, and what became of its items is settled."""
        self._attempt("state", self._lineage.settle, page)


def is_transient(status: int) -> bool:
    """Whether a later crawl may well get another answer."""
    return status >= 500 or status in (408, 429)

"""Requests and responses as the page lifecycle sees them: which page was each request found on?"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware
from scrapy.http import Request, Response

from scrapy_neardup.crawl.effects import Effects
from scrapy_neardup.crawl.pages.page_lifecycle import NOBODY, PageLifecycle
from scrapy_neardup.urls.key import OWN_KEY, USED_KEY

if TYPE_CHECKING:
    from scrapy_neardup.crawl.queues.failed_requests import FailedRequests

# The one key of ours in request.meta, of plain numbers, because meta follows a request through
# retries, redirects and queues of any kind. The spider's requests have it, no others:
#
#     (flags, asked_fleet, state, page)
#
# flags        as the spider yielded the request: DONT_FILTER, which retries set, too, and all of
#              errbacks have; FORM, of which a redirect leaves a GET; BEHIND_FORM, of what was found
#              on the page that a form led to
# asked_fleet  whether the fleet was asked for the URL, which is to be fetched once
# state, page  which page of which state's crawls the request was found on, else NO_STATE, NOBODY
#
# Requests of others have it only while a queue of ours keeps them on disk, without the first
# number. The final response's page takes its place: (asked_fleet | FORM, page). That is taken out
# when the callback begins, so that copies of meta repeat nothing. While an errback runs after a
# failed download, its request has only (page,), by which copies of it are known.
TRACE = "neardup_trace"
NO_STATE = -1
DONT_FILTER, FORM, BEHIND_FORM = 1, 2, 4
LINK_METHODS = "GET", "HEAD"
# Flags of a response that is the beginning of a page only: the connection ended before the page did
# (DOWNLOAD_FAIL_ON_DATALOSS), or the spider wanted no more of it (StopDownload). "partial" does not
# say so: Scrapy sets it wherever a server tells no length.
BROKEN_OFF, STOPPED = "dataloss", "download_stopped"
PARTIAL_CONTENT = 206  # the status of what a Range asks for

OF_A_FETCH = ("retry_times", "redirect_times", "redirect_ttl", "redirect_urls", "redirect_reasons")


class Failed(NamedTuple):
    """A download that came to nothing."""

    page: int  # that stands for it
    flags: int  # as in TRACE
    is_leased: bool  # whether a queue on disk keeps its request


class RequestTracker:
    """Tells the lifecycle what happens to requests.

    What it does not hear of (a request that an unknown component swallows, a download that
    failed) leaves its page, and those it was found through, uncompleted: the next crawl reads
    them again. Where a page need not wait for what was found on it, links cost nothing.
    """

    def __init__(
        self,
        lifecycle: PageLifecycle,
        crawler: Crawler,
        state_id: int,
        waits: bool,
        effects: Effects,
        failures: FailedRequests,
    ) -> None:
        """waits: whether a page is completed only when what was found on it is; without, no
        request is stale.
        """
        self._lifecycle = lifecycle
        self._crawler = crawler
        self._state_id = state_id
        self._waits = waits
        self._effects = effects
        self._failures = failures
        if waits:
            crawler.signals.connect(self.ended, signal=signals.request_dropped)
            crawler.signals.connect(self.scheduled, signal=signals.request_scheduled)

    def started(self, request: Request) -> None:
        """The spider starts with a request; one of a queue of its own may be an earlier crawl's."""
        _, _, state, page = trace_of(request)
        request.meta[TRACE] = (flags_of(request), 0, state, page)

    def found(self, request: Request, page: int | None, behind_form: bool = False) -> None:
        """The callback of a page yielded a request; None: of one that is not waited for.

        behind_form: whether a form led to the page.
        """
        # Not at the signal request_scheduled, nor by flags_of(): for every link of a crawl.
        flags = DONT_FILTER if request.dont_filter else 0
        if request.method not in LINK_METHODS:
            flags |= FORM
        if behind_form:
            flags |= BEHIND_FORM
        if page is not None and self._waits:
            self._lifecycle.requested(page)
            request.meta[TRACE] = (flags, 0, self._state_id, page)
        else:
            request.meta[TRACE] = (flags, 0, NO_STATE, NOBODY)

    def found_by_errback(self, request: Request, failed: Failed) -> bool:
        """An errback yielded a request; whether that is a copy of the one that failed.

        Any other is made, whatever is known of its URL: an errback that hears of a URL fetched
        before may ask for it again, and again.
        """
        is_copy = request.meta.get(TRACE) == (failed.page,)
        self.found(request, failed.page)
        flags = failed.flags if is_copy else flags_of(request) | DONT_FILTER
        request.meta[TRACE] = (flags, *request.meta[TRACE][1:])
        return is_copy

    def is_waited_for(self, request: Request) -> bool:
        """Whether a page, or what stands for one, waits for a request."""
        return self._found_on(request) is not None

    def again(self, request: Request, page: int) -> None:
        """Request a page once more, which goes on waiting until that is done."""
        assert self._crawler.engine
        again = made_again(request)
        waiting = (self._state_id, page) if self._waits else (NO_STATE, NOBODY)
        again.meta[TRACE] = (flags_of(request), 0, *waiting)
        self._crawler.engine.crawl(again)

    def is_stale(self, request: Request) -> bool:
        """Whether a queue kept the request through a crash of the crawl that found it.

        Its page is not completed, so it is read again and the request found again. To make this
        one, too, would hide it from the page that is to wait for it.
        """
        if not self._waits:
            return False
        page = self._found_on(request)
        return page is not None and not self._lifecycle.is_under_way(page)

    def leased(self, request: Request, lease: int) -> None:
        """A queue on disk gave a request, which it keeps until the lifecycle ends the lease."""
        trace = request.meta.get(TRACE, ())
        flags = trace[:-2] if len(trace) > 2 else (0,)
        page = self._lifecycle.leased(lease, self._found_on(request))
        request.meta[TRACE] = (*flags, self._state_id, page)

    def scheduled(self, request: Request, spider: Spider) -> None:
        """A request is about to be scheduled: OffsiteMiddleware drops it there without a signal."""
        if self._found_on(request) is None or request.dont_filter or self._offsite is None:
            return
        if not (request.meta.get("allow_offsite") or self._offsite.should_follow(request, spider)):
            self.ended(request)

    @cached_property
    def _offsite(self) -> OffsiteMiddleware | None:
        return self._crawler.get_downloader_middleware(OffsiteMiddleware)

    def ended(self, request: Request) -> None:
        """A request was dropped on purpose: its page need not wait for it."""
        page = self._found_on(request)
        if page is not None:
            request.meta[TRACE] = nobodys(request.meta[TRACE])
            self._effects.of(self._lifecycle.request_ended, page)

    def lost(self) -> None:
        """Requests that counted as ended may be lost: pages under way are to be read again."""
        self._lifecycle.requests_lost()

    def answered(self, request: Request, response: Response, key: bytes | None) -> None:
        """The final response came; key: of its URL, if that is to count as seen."""
        meta = request.meta
        if is_transient(response.status):  # what waits for the request goes on waiting
            self.came_to_nothing(request)
            del meta[TRACE]
            return
        page = self._lifecycle.answered(key, self._found_on(request))
        if BROKEN_OFF in response.flags:  # what the spider did not want need not be read later
            self._lifecycle.cut_off(page)
        trace = meta[TRACE]
        of_form = trace[0] & FORM if trace[:-3] else 0  # as was_form(), without its calls
        meta[TRACE] = (trace[-3] | of_form, page)

    def came_to_nothing(self, request: Request) -> None:
        """A request failed for good, and no errback hears of it."""
        page = self._found_on(request)
        if self._lifecycle.is_leased(page) and self._failures.add(request):
            self._effects.of(self._lifecycle.request_ended, page)

    def need_not_stay(self, request: Request, failed: Failed) -> bool:
        """Whether a queue on disk keeps a request that is equal to one which has failed for good.

        To be asked once all that its errback yields is known: a copy would stand for the request.
        """
        return failed.is_leased and self._failures.add(request)

    def failed(self, request: Request) -> Failed:
        """A download came to nothing: what stands for it while its errback runs.

        The errback may copy the request, its meta and all, to other requests.
        """
        found_on = self._found_on(request)
        is_leased = self._lifecycle.is_leased(found_on)
        page = self._lifecycle.answered(None, found_on)
        flags = request.meta[TRACE][0] if is_of_spider(request) else DONT_FILTER
        request.meta[TRACE] = (page,)
        return Failed(page, flags, is_leased)

    def _found_on(self, request: Request) -> int | None:
        """The page the request was found on, if a crawl of this state found it."""
        trace = request.meta.get(TRACE, ())  # not by trace_of(): asked two times for each link
        return trace[-1] if len(trace) > 2 and trace[-2] == self._state_id else None

    def page_of(self, response: Response) -> tuple[int | None, bool, bool]:
        """Told once: the page that answered() began, whether the fleet was asked, whether it was a
        form that led to it.

        From now on the spider may copy the response's meta to other requests.
        """
        meta = response.meta
        trace = meta.pop(TRACE, ())
        if OWN_KEY in meta:
            meta[USED_KEY] = meta[OWN_KEY]
        if len(trace) != 2:
            return None, False, False
        return trace[1], trace[0] & ~FORM != 0, trace[0] & FORM != 0


def trace_of(request: Request) -> tuple[int, int, int, int]:
    """What TRACE says of a request that is not answered; of a stranger, that it is one."""
    trace = request.meta.get(TRACE, ())
    flags, asked_fleet, state, page = trace if len(trace) == 4 else (0, 0, NO_STATE, NOBODY)
    return flags, asked_fleet, state, page


def flags_of(request: Request) -> int:
    """What a request that the spider yields is, for as long as it is redirected and retried."""
    is_form = request.method not in LINK_METHODS
    return (DONT_FILTER if request.dont_filter else 0) | (FORM if is_form else 0)


def nobodys(trace: tuple[int, ...]) -> tuple[int, ...]:
    """The trace of a request for which no page waits."""
    return (*trace[:-2], NO_STATE, NOBODY)


def stored_fields(request: Request, spider: Spider | None) -> dict[str, Any]:
    """A request for a queue that outlives the crawl, and with it the pages that wait.

    Raises ValueError for a callback that is no method of the spider.
    """
    fields = request.to_dict(spider=spider)
    trace = fields["meta"].get(TRACE, ())
    if len(trace) > 2:
        fields["meta"] = fields["meta"] | {TRACE: nobodys(trace)}
    return fields


def is_of_spider(request: Request) -> bool:
    """Whether the spider yielded a request, through our middleware, that is not answered yet."""
    return len(request.meta.get(TRACE, ())) == 4


def is_only_leased(request: Request) -> bool:
    """Whether all that we know of a request is that a queue of ours keeps it."""
    return len(request.meta.get(TRACE, ())) == 3


def had_dont_filter(request: Request) -> bool:
    """Whether a request that the spider yielded had dont_filter then."""
    return bool(request.meta[TRACE][0] & DONT_FILTER)


def was_form(request: Request) -> bool:
    """Whether the spider sent a form, or data, where a request now leads on from."""
    return is_of_spider(request) and bool(request.meta[TRACE][0] & FORM)


def is_behind_form(request: Request) -> bool:
    """The same, and whether a link that the spider follows was on the page that a form led to."""
    return is_of_spider(request) and bool(request.meta[TRACE][0] & (FORM | BEHIND_FORM))


def fleet_was_asked(request: Request) -> None:
    """Note that the fleet was asked for a request's URL."""
    flags, _, state, page = request.meta[TRACE]
    request.meta[TRACE] = (flags, 1, state, page)


def fleet_was_not_asked(request: Request) -> None:
    """The same the other way round: meta may be a copy of another request's."""
    if is_of_spider(request):
        flags, _, state, page = request.meta[TRACE]
        request.meta[TRACE] = (flags, 0, state, page)


def made_again(request: Request) -> Request:
    """The request as it was before it was made, to be made whatever is known of its URL."""
    meta = {name: value for name, value in request.meta.items() if name not in OF_A_FETCH}
    return request.replace(dont_filter=True, meta=meta)


def is_transient(status: int) -> bool:
    """Whether a later crawl may well get another answer."""
    return status >= 500 or status in (408, 429)


def is_cut_off(response: Response) -> bool:
    """Whether a response holds only a part of its page, whoever wanted that.

    Where it is asked of every page, it is called only for those that have flags, or another status
    than 200: a call for each of the others would cost more than it tells.
    """
    flags = response.flags
    return response.status == PARTIAL_CONTENT or BROKEN_OFF in flags or STOPPED in flags


def urls_of(response: Response) -> tuple[str, ...]:
    """The URL of a response, and those that were redirected to it."""
    return response.url, *response.meta.get("redirect_urls", ())

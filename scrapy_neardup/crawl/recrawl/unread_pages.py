"""Known pages that are not downloaded: not due, or unchanged by the word of their server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.recrawl.conditional import (
    ASKED,
    IN_FULL,
    TESTED,
    ConditionalRequests,
    Validators,
    authority_of,
)
from scrapy_neardup.crawl.recrawl.copies import Copies
from scrapy_neardup.crawl.recrawl.known_pages import KnownPages, callback_name
from scrapy_neardup.crawl.recrawl.program import Program
from scrapy_neardup.crawl.recrawl.revisits import Revisits
from scrapy_neardup.crawl.recrawl.spider_memory import SpiderMemory
from scrapy_neardup.crawl.recrawl.stored_requests import YieldedRequests, given_back, is_of_login
from scrapy_neardup.crawl.requests.request_tracker import is_cut_off
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.visit import Visit

if TYPE_CHECKING:
    from scrapy_neardup.crawl.requests.seen_urls import SeenUrls

NOT_MODIFIED = 304
NOT_DUE = "not due"  # flag of a response that we made
SITEMAPS = "_parse_sitemap"  # the callback of scrapy's SitemapSpider


class Unread(NamedTuple):
    """A page that was not downloaded.

    visit     as it was known
    requests  what its callback yielded then
    asked     the request for it
    is_due    False where nobody was asked whether it changed
    """

    visit: Visit
    requests: list[Request]
    asked: Request
    is_due: bool = True


class UnreadPages:
    """Decides which pages need not be downloaded, and gives them their answers.

    Such a page has to be known by its program: the callback, its arguments and all else that its
    requests depend on.
    """

    def __init__(
        self,
        settings: NearDupSettings,
        run: int,
        known: KnownPages,
        conditions: ConditionalRequests,
        memory: SpiderMemory,
        revisits: Revisits | None,
        copies: Copies,
        crawler: Crawler,
        urls: SeenUrls,
        recorder: Recorder,
    ) -> None:
        """run: this one, whose own visits are no reason to leave a page unread."""
        self._run = run
        self._known = known
        self._conditions = conditions
        self._memory = memory
        self._revisits = revisits
        self._copies = copies
        self._crawler = crawler
        self._urls = urls
        self._recorder = recorder
        self._prunes = not settings.follow_duplicates
        self._program = Program(crawler)
        self.n_of_other_programs = 0  # pages read for nothing but that
        self._programs: WeakKeyDictionary[Request, bytes] = WeakKeyDictionary()
        self._unread: WeakKeyDictionary[Request, Unread] = WeakKeyDictionary()
        self._not_due: WeakSet[Request] = WeakSet()  # answered so, which is still to come to us

    def about_to_fetch(self, request: Request) -> Response | None:
        """A request of the spider is to be downloaded: ask only for what changed, if that does.

        A response for the request, with no body, if its page is not due.
        """
        self._conditions.withdraw(request)
        self._memory.begin()
        program = self._program.of(request)
        if program is None:
            return None
        self._programs[request] = program
        if not self._memory.lets_pages_go_unread:
            return None
        visit = self._earlier(request)
        if visit is None or not self._may_go_unread(request, visit):
            return None
        if visit.program != program:
            self.n_of_other_programs += 1
            return None
        if self._is_to_wait(request, visit):
            self._not_due.add(request)
            return Response(request.url, status=NOT_MODIFIED, flags=[NOT_DUE])
        self._conditions.ask(request, visit)
        return None

    def _earlier(self, request: Request) -> Visit | None:
        """The last visit of a page, in an earlier run, that it may be compared with."""
        visit = self._known.comparable(self._known.visit(request, counts=False))
        if visit is None or visit.run >= self._run or self._copies.is_orphan(visit):
            return None
        return visit

    def _may_go_unread(self, request: Request, visit: Visit) -> bool:
        """Whether all that the page would lead to is known without reading it."""
        meta = request.meta
        if visit.requests is None or (self._prunes and visit.copy_of is not None):
            return False
        if self._conditions.is_always_read(authority_of(visit.url)):
            return False
        is_wanted = meta.get("neardup_refresh") or self._recorder.wants(request.url)
        if is_wanted or meta.get("neardup_skip"):
            return False
        return self._conditions.hands_on_the_same(visit)

    def _is_to_wait(self, request: Request, visit: Visit) -> bool:
        """Whether a page is not due. One that is asked for on purpose is; so are sitemaps.

        So is what a form leads to: it may be a login. Scrapy's HTTP cache would store our answer
        as the page.
        """
        if self._revisits is None or self._crawler.settings.getbool("HTTPCACHE_ENABLED"):
            return False
        if request.method != "GET" or request.body:
            return False
        if callback_name(request) == SITEMAPS or IN_FULL in request.meta:
            return False
        if self._urls.key_to_be_queued_once(request) is None:
            return False
        return not self._revisits.is_due(visit)

    def not_modified(self, request: Request, response: Response) -> Response | None:
        """A 304 came: the response for our own callback, if it answers what we asked.

        None if the page has to be read. What it led to then follows from it again.
        """
        self._not_due.discard(request)
        visit, is_due = self._earlier(request), NOT_DUE not in response.flags
        if visit is None or visit.requests is None or self._crawler.spider is None:
            return None
        if TESTED in request.meta:
            self._conditions.failed_test(visit.url)
        if is_due and not self._conditions.is_answer(request, response, visit):
            return None
        given = given_back(visit.requests, self._crawler.spider)
        if any(map(is_of_login, given)):  # an older version stored them
            return None
        unread = Unread(visit, given, request, is_due)
        meta = request.meta | {"handle_httpstatus_list": [NOT_MODIFIED]}
        told = request.replace(callback=_nothing, errback=None, cb_kwargs={}, meta=meta)
        self._conditions.withdraw(told)
        self._unread[told] = unread
        answer = response.replace()
        answer.request = told
        return answer

    def in_full(self, request: Request) -> Request:
        """A request for a page whose 304 said nothing that we can use."""
        again = request.replace(dont_filter=True)
        again.meta[IN_FULL] = True
        return again

    def unanswered(self, request: Request, failure: object) -> bool:
        """Whether a request failed by what we asked in it, as its answer never came to us.

        A downloader middleware may take every status but 200 for a failure. No page of the host
        is asked for so again.
        """
        if ASKED not in request.meta and request not in self._not_due:
            return False
        self._not_due.discard(request)
        self._conditions.never_leave_unread(
            request.url,
            f"a downloader middleware makes a failure of the 304 that says that a page is "
            f"unchanged, or not due: {failure!r} for {request.url}",
        )
        return True

    def of(self, response: Response) -> Unread | None:
        """The page that a response stands for without a body; None if it is one that was read."""
        return None if response.request is None else self._unread.get(response.request)

    def program(self, request: Request) -> bytes | None:
        """The digest of what a request's page depends on; None where that is not known."""
        return self._programs.get(request)

    def to_be_stored(self, response: Response) -> YieldedRequests | None:
        """Where what a callback yields is taken down; None where it would not be used."""
        validators = Validators.of(response)
        is_used = self._revisits is not None or (self._conditions.ask_any and any(validators))
        is_used &= not self._memory.is_written
        if not is_used or is_cut_off(response) or response.request not in self._programs:
            return None
        return YieldedRequests(self._crawler.spider)


async def _nothing(response: Response) -> AsyncIterator[Any]:
    """The callback of a page that was not downloaded."""
    return
    yield

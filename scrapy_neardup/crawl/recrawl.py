"""A site crawled again: each page compared with what its URL had when it was read last."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Request, Response
from scrapy.http.request import NO_CALLBACK

from scrapy_neardup import stats
from scrapy_neardup.crawl.conditional import IN_FULL, ConditionalRequests, Validators
from scrapy_neardup.crawl.copies import Copies
from scrapy_neardup.crawl.counts import Counts
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.item_data import is_long
from scrapy_neardup.crawl.items import CrawledPage
from scrapy_neardup.crawl.long_bodies import SHORT_BYTES
from scrapy_neardup.crawl.program import Program
from scrapy_neardup.crawl.recorder import Recorder, callback_of
from scrapy_neardup.crawl.recrawl_end import RecrawlEnd, in_words
from scrapy_neardup.crawl.revisits import HUB_PRIORITY, Revisits, hints_of, is_sitemap
from scrapy_neardup.crawl.stored_requests import YieldedRequests, given_back, urls_stored
from scrapy_neardup.crawl.visit_comparison import Revisit, VisitComparison, stored_noise
from scrapy_neardup.crawl.visit_items import (
    EXACTLY,
    SAME_TEXT,
    Fields,
    Shown,
    packed_fields,
    unpacked_fields,
)
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.decision import Decision
from scrapy_neardup.detect.revision import MAX_CHARS, Held, Revision
from scrapy_neardup.factory import ttl_s
from scrapy_neardup.ledger.schema import Action, Entry
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.visit import (
    DEPARTED,
    UNKNOWN,
    Hint,
    Original,
    PageKey,
    Visit,
    key_of,
    new_version,
)
from scrapy_neardup.state.visit_file import Status
from scrapy_neardup.state.visits import Visits

if TYPE_CHECKING:
    from scrapy_neardup.crawl.item_judge import ItemJudge
    from scrapy_neardup.crawl.judge import PageJudge
    from scrapy_neardup.crawl.seen_urls import SeenUrls

logger = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 1.0
HINTS_AT_ONCE = 500  # of a sitemap: about 15 ms
MAX_NEW_LINKS = 100  # of a page, about which a fleet is asked
NOT_MODIFIED = 304
NOT_DUE = "not due"  # flag of a response that we made
SITEMAPS = "_parse_sitemap"  # the callback of scrapy's SitemapSpider
# What a request says of how it is downloaded, by Scrapy's names.
OF_A_DOWNLOAD = ("bindaddress", "cookiejar", "download_timeout", "dont_merge_cookies", "proxy")
OF_SCHEDULE = ("n_visits", "n_changes", "since", "n_new", "due")


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


def held_of(fields: Fields | None, page: CrawledPage) -> Held:
    """How much of a page its items hold."""
    if page.visit is not None and page.visit.is_held:
        return Held.PAGE
    holds_text = any(SAME_TEXT in one.values() for one in fields or ())
    return Held.TEXT if holds_text else Held.FIELDS


class Recrawl:
    """Compares pages with their earlier selves, and says at the end what has become of each.

    What is in doubt passes: a page whose earlier self cannot be read is new.
    """

    def __init__(
        self,
        settings: NearDupSettings,
        visits: Visits,
        crawler: Crawler,
        urls: SeenUrls,
        judge: PageJudge,
        items: ItemJudge,
        recorder: Recorder,
        attempt: FailOpen,
        count: Counts,
    ) -> None:
        self._visits = visits
        self._crawler = crawler
        self._urls = urls
        self._judge = judge
        self._items = items
        self._recorder = recorder
        self._attempt = attempt
        self._count = count
        servers = visits.servers()
        self._conditions = ConditionalRequests(settings, visits, servers, crawler, count)
        is_adaptive = settings.revisit == "adaptive"
        self._revisits = Revisits(settings, visits, servers) if is_adaptive else None
        self._copies = Copies(visits, judge, self._key)
        self._program = Program(crawler)
        self._programs: WeakKeyDictionary[Request, bytes] = WeakKeyDictionary()
        self._unread: WeakKeyDictionary[Request, Unread] = WeakKeyDictionary()
        self._prunes = not settings.follow_duplicates
        self._passes_all = settings.recrawl == "all"
        self._ttl_s = ttl_s(settings)
        self._comparison = VisitComparison(
            stored_noise(visits, attempt),
            judge.echoes,
            self._copies.is_orphan,
            bool(settings.item_fields),
            attempt,
        )
        self._end = RecrawlEnd(
            visits,
            crawler,
            judge,
            recorder,
            self._comparison,
            self._conditions,
            count,
            self._passes_all,
        )
        self._misses_links = False  # whether a page that may hold links could not be read
        crawler.signals.connect(self._dropped, signal=signals.request_dropped)

    # --- requests and responses

    def started(self, request: Request) -> None:
        """The spider starts with a request."""
        key = self._key(request)
        if key is not None:
            self._visits.started(key, request.url)

    def about_to_fetch(self, request: Request) -> Response | None:
        """A request of the spider is to be downloaded: ask only for what changed, if that does.

        A response for the request, with no body, if its page is not due.
        """
        self._conditions.withdraw(request)
        program = self._program.of(request)
        if program is None:
            return None
        self._programs[request] = program
        visit = self._known(request)
        if visit is None or visit.program != program or not self._may_go_unread(request, visit):
            return None
        if self._is_to_wait(request, visit):
            return Response(request.url, status=NOT_MODIFIED, flags=[NOT_DUE])
        self._conditions.ask(request, visit)
        return None

    def _is_to_wait(self, request: Request, visit: Visit) -> bool:
        """Whether a page is not due. One that is asked for on purpose is; so are sitemaps.

        So is what a form leads to: it may be a login. Scrapy's HTTP cache would store our answer
        as the page.
        """
        if self._revisits is None or self._crawler.settings.getbool("HTTPCACHE_ENABLED"):
            return False
        if request.method != "GET" or request.body:
            return False
        if _callback(request) == SITEMAPS or IN_FULL in request.meta:
            return False
        if self._urls.key_to_be_queued_once(request) is None:
            return False
        return not self._revisits.is_due(visit)

    def downloaded_inline(self) -> None:
        """A callback fetches something for itself."""
        self._conditions.downloaded_inline()

    def _known(self, request: Request) -> Visit | None:
        """The last visit of a page, in an earlier run, that it may be compared with."""
        key = self._key(request)
        visit = None if key is None else self._visits.visit(key, _callback(request), counts=False)
        if visit is None or visit.run >= self._visits.run or not self._counts(visit):
            return None
        return None if self._copies.is_orphan(visit) else visit

    def _may_go_unread(self, request: Request, visit: Visit) -> bool:
        """Whether all that the page would lead to is known without reading it."""
        meta = request.meta
        if visit.requests is None or (self._prunes and visit.copy_of is not None):
            return False
        is_wanted = meta.get("neardup_refresh") or self._recorder.wants(request.url)
        return not (is_wanted or meta.get("neardup_skip"))

    def not_modified(self, request: Request, response: Response) -> Response | None:
        """A 304 came: the response for our own callback, if it answers what we asked.

        None if the page has to be read. What it led to then follows from it again.
        """
        visit, is_due = self._known(request), NOT_DUE not in response.flags
        if visit is None or visit.requests is None or self._crawler.spider is None:
            return None
        if is_due and not self._conditions.is_answer(request, response, visit):
            return None
        given = given_back(visit.requests, self._crawler.spider)
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

    def withdraw(self, request: Request) -> None:
        """Take our conditions out of a request."""
        self._conditions.withdraw(request)

    def answered(self, request: Request, response: Response) -> None:
        """The final response to a request of the spider came."""
        status, key = response.status, self._key(request)
        if 200 <= status < 300 or self.is_unread(response):
            self.redirected(request)
        elif key is not None and status in (404, 410):
            self._visits.leaving(key)
            self.redirected(request)
        else:
            self.failed(request)

    def _dropped(self, request: Request, spider: Spider) -> None:
        """A request was not queued: its page is read by another one of this run."""
        if "redirect_urls" in request.meta:
            self._attempt("recrawl", self.redirected, request)

    def redirected(self, request: Request) -> None:
        """The URLs through which a request came lead to its own, which was read, or is gone."""
        at = self._key(request)
        for url in request.meta.get("redirect_urls", ()):
            source = self._key(request.replace(url=url))
            if source is not None and source != at:
                self._visits.leaving(source, request.url, at)

    def failed(self, request: Request) -> None:
        """A request brought no page, as may be otherwise another time."""
        key = self._key(request)
        known = None if key is None else self._visits.visit(key, _callback(request))
        if known is None or known.links:
            self._misses_links = True

    def not_made(self, request: Request) -> None:
        """A request was dropped, as for robots.txt: what its page linked is linked by nobody."""
        key = self._key(request)
        if key is None:
            return
        known = self._visits.visit(key, _callback(request))
        if known is None:
            self._visits.not_made(PageKey(key, _callback(request), request.url))
        elif known.links and known.status < Status.GONE:
            self._misses_links = True

    def is_unread(self, response: Response) -> bool:
        """Whether a response stands for a page that was not downloaded."""
        return response.request is not None and response.request in self._unread

    def _key(self, request: Request) -> bytes | None:
        key = self._urls.key(request)
        return None if key is None else key_of(key)

    # --- pages

    async def know_original(self, page: CrawledPage) -> None:
        """Under a fleet, learn what the page is that this one repeats: for judged().

        If that cannot be told, this one repeats none.
        """
        request, decision = page.response.request, page.judged
        if not self._visits.is_shared or request is None or decision is None:
            return
        if not decision.is_duplicate or decision.original is None:
            return
        original = request.replace(url=decision.original)
        if (key := self._key(original)) is None:
            return
        try:
            is_known = await self._judge.bring_original(decision, PageKey(key, "", original.url))
        except Exception:
            self._attempt.failed("recrawl")
            is_known = False
        if not is_known:
            page.applied = None
        elif key == self._key(request) and page.revisit is not None:
            self._read_at_once(page, page.revisit, key)

    def _read_at_once(self, page: CrawledPage, revisit: Revisit, key: bytes) -> None:
        """Another worker has read a page in this run: what it found is the page's version."""
        version = self._visits.version(key)
        if version not in (UNKNOWN, DEPARTED):
            page.revisit = revisit._replace(visit=revisit.visit._replace(version=version))

    def judged(self, page: CrawledPage) -> None:
        """A page was compared with other pages; nothing else was done since."""
        self._copies.judged(page)

    def dropped(self, page: CrawledPage, decision: Decision) -> None:
        """An item of a page is dropped because it repeats another, or the page does."""
        by_page = decision is page.applied
        self._copies.dropped(page, None if by_page else decision.original)

    async def compared(self, page: CrawledPage, result: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """What a callback yields: the requests at once, the items when the page is compared."""
        if self.is_unread(page.response):
            async for _ in result:  # nothing, but it is to be exhausted
                pass
            for request in self._followed(page):
                yield request
            return
        items: list[Any] = []
        error = None
        if self._is_comparable(page):
            await self._read_sitemap(page.response)  # before requests follow from it
        yielded = self._taken_down(page)
        try:
            async for output in result:
                if isinstance(output, Request):
                    if yielded is not None:
                        self._attempt("recrawl", yielded.add, output)
                    self._attempt("recrawl", self._linked, page, output)
                    yield output
                else:
                    items.append(output)
        except Exception as raised:
            error, self._misses_links = raised, True
        if error is None and self._is_comparable(page):
            content = await self._judge.content(page)
            fields = await self._read_fields(items, page, content)
            now = await self._revision(page.response.body, content, held_of(fields, page))
            if page.new_links:
                await self._ask_for_new_links(page)
            if now is not None:
                await self._read_twice(page, fields, now)
                self._attempt("recrawl", self._compare, page, fields, now, yielded)
        for item in items:
            yield item
        if error is not None:
            raise error
        for request in self._attempt("recrawl", self._copies_to_read, page) or ():
            yield request

    def _copies_to_read(self, page: CrawledPage) -> list[Request]:
        """Requests for copies of a page that now says something else, read before it was."""
        if page.revisit is None or not page.revisit.is_another:
            return []
        return self._copies.changed(page, page.revisit.visit.key)

    def _taken_down(self, page: CrawledPage) -> YieldedRequests | None:
        """Where what a callback yields is taken down; None where it would not be used."""
        validators = Validators.of(page.response)
        is_used = self._revisits is not None or (self._conditions.ask_any and any(validators))
        if not is_used or page.response.request not in self._programs:
            return None
        return YieldedRequests(self._crawler.spider)

    def _followed(self, page: CrawledPage) -> Iterator[Request]:
        """What a page led to when it was read last; it is unchanged."""
        request = page.response.request
        assert request is not None
        visit, requests, asked, is_due = self._unread[request]
        self._copies.unchanged(asked, visit)
        page.is_read = True  # there is nothing to read
        for found in requests:
            self._attempt("recrawl", self._linked, page, found)
            yield found
        if is_due:
            self._confirmed(page, visit, request)
        else:
            self._visits.passed(visit)

    def _confirmed(self, page: CrawledPage, visit: Visit, request: Request) -> None:
        """A server says that a page is as it was."""
        run = self._visits.run
        self._conditions.trusted(visit)
        self._comparison.confirmed(visit)
        row = visit._replace(
            run=run,
            linked=run,
            status=Status.UNCHANGED,
            time=time.time(),
            trusted=visit.trusted + 1,
            found_on=self._found_on(request),
            depth=int(page.response.meta.get("depth", 0)),
            n_new=visit.n_new // 2,
            passed=0,
        )
        if self._revisits is not None:
            row = self._revisits.compared(row, visit, False)
        page.revisit = Revisit(row, Status.UNCHANGED, False, False, False, [], [], 0)

    def _linked(self, page: CrawledPage, request: Request) -> None:
        """A page led to a request."""
        page.n_links += 1
        url_key = self._urls.key(request)
        if url_key is None:
            return
        key = key_of(url_key)
        self._visits.linked(key, request.url)
        if self._revisits is not None:
            if self._revisits.is_new(url_key):
                self._new_link(page, url_key, request.url)
            if self._revisits.is_hub(key):
                request.priority += HUB_PRIORITY

    def _new_link(self, page: CrawledPage, url_key: bytes, url: str) -> None:
        """A page led to a URL that this worker does not know."""
        page.n_new_links += 1
        if self._visits.is_shared:
            page.new_links[url_key] = url

    async def _ask_for_new_links(self, page: CrawledPage) -> None:
        """Under a fleet, ask which links of a known page are new to all workers.

        Those that the page had at its last visit are not asked about. Where there are too many, or
        nobody can tell, all count as new: the page is fetched the sooner.
        """
        request = page.response.request
        assert request is not None
        key = self._key(request)
        known = None if key is None else self._visits.visit(key, _callback(request), counts=False)
        if known is None:  # its links do not count
            return
        try:
            before = set() if known.requests is None else urls_stored(known.requests)
            others = [key for key, url in page.new_links.items() if url not in before]
            page.n_new_links = len(others)
            if len(others) <= MAX_NEW_LINKS:
                page.n_new_links = await self._urls.n_new_to_all(others)
        except Exception:
            self._attempt.failed("recrawl")

    def _is_comparable(self, page: CrawledPage) -> bool:
        response = page.response
        if response.request is None or not page.is_tracked:
            return False
        return 200 <= response.status < 300 and not response.meta.get("neardup_skip")

    def _compare(
        self,
        page: CrawledPage,
        fields: Fields | None,
        now: Revision,
        yielded: YieldedRequests | None,
    ) -> None:
        response, visits = page.response, self._visits
        request = response.request
        assert request is not None
        if (key := self._key(request)) is None:
            return
        before = visits.visit(key, _callback(request))
        earlier = before if before is not None and self._counts(before) else None
        visit = self._visit(page, request, key, earlier, fields, now)
        if before is not None:
            visit = visit._replace(done=before.done)
        validators, program = Validators.of(response), self._programs.get(request)
        if yielded is not None and (requests := yielded.packed()) is not None:
            visit = visit._replace(
                etag=validators.etag,
                modified=validators.modified,
                program=program,
                requests=requests,
            )
        if earlier is None and (before is not None or visits.is_shared):
            visit = visit._replace(version=new_version())  # others may know what it was
        passes = self._is_wanted(response)
        page.revisit = self._comparison.compare(visit, earlier, now, fields, passes)
        if page.revisit.says_nothing_new:
            self._copies.unchanged(request, page.revisit.visit)
        if self._revisits is not None:
            self._scheduled(self._revisits, page, earlier, page.revisit)
        if earlier is not None and earlier.program == program and earlier.run < visits.run:
            status = page.revisit.status
            self._conditions.compared(earlier, validators, status, visit.requests)

    def _visit(
        self,
        page: CrawledPage,
        request: Request,
        key: bytes,
        earlier: Visit | None,
        fields: Fields | None,
        now: Revision,
    ) -> Visit:
        """The row of a page that was read now, not compared yet."""
        run = self._visits.run
        return Visit(
            key,
            self._visits.spider,
            _callback(request),
            run,
            first=run if earlier is None else earlier.first,
            done=b"",
            linked=run,
            status=Status.NEW,
            time=time.time(),
            url=page.response.url,
            text=now.text,
            data=now.data,
            items=packed_fields(fields),
            lines=None if now.lines is None else now.lines.pack(),
            links=page.n_links,
            copy_of=None,
            found_on=self._found_on(request),
            depth=int(page.response.meta.get("depth", 0)),
        )

    def _scheduled(
        self, revisits: Revisits, page: CrawledPage, earlier: Visit | None, revisit: Revisit
    ) -> None:
        """Note how often a page that was read changes, and when it is due."""
        visit, run = revisit.visit, self._visits.run
        if earlier is None:
            row = revisits.scheduled(visit._replace(since=visit.time))
        elif earlier.run == run:  # read again after a crash: compared already
            kept = {name: getattr(earlier, name) for name in OF_SCHEDULE}
            row = visit._replace(**kept)
        else:
            changed = revisit.status == Status.CHANGED
            revisits.judge_dates(earlier, changed)
            n_new = max(page.n_new_links, earlier.n_new // 2)
            row = revisits.compared(
                visit._replace(n_new=n_new), earlier, changed or page.n_new_links > 0
            )
        page.revisit = revisit._replace(visit=row)

    async def _revision(
        self, body: bytes, content: PageContent | str | None, held: Held
    ) -> Revision | None:
        """What this visit finds, off the loop's thread where that takes long; None if it fails."""

        def read() -> Revision | None:
            return self._attempt("recrawl", Revision.of, content, body, held)

        return read() if len(body) < SHORT_BYTES else await self._count.in_thread(read)

    async def _read_twice(self, page: CrawledPage, fields: Fields | None, now: Revision) -> None:
        """Read a page again where that may show that it differs from its earlier self in noise."""
        request, response = page.response.request, page.response
        assert request is not None
        if not now.held or self._is_wanted(response) or not self._may_be_repeated(request):
            return
        key = self._key(request)
        before = None if key is None else self._visits.visit(key, _callback(request))
        earlier = before if before is not None and self._counts(before) else None
        is_to_be_read = self._comparison.is_to_be_read_twice
        if not self._attempt("recrawl", is_to_be_read, response.url, earlier, now, fields):
            return
        self._count(stats.RECRAWL_READ_TWICE)
        again = await self._downloaded_again(request)
        if again is None or (again.url, again.status) != (response.url, response.status):
            return
        content = await self._judge.content(CrawledPage(page.id, again, is_tracked=False))
        other = await self._revision(again.body, content, now.held)
        if other is not None:
            self._attempt("recrawl", self._comparison.read_twice, response.url, now, other)

    def _may_be_repeated(self, request: Request) -> bool:
        """Whether a request made again reads a page anew, and does no more than that."""
        is_cached = self._crawler.settings.getbool("HTTPCACHE_ENABLED")
        return request.method == "GET" and not request.body and not is_cached

    async def _downloaded_again(self, request: Request) -> Response | None:
        meta = {name: request.meta[name] for name in OF_A_DOWNLOAD if name in request.meta}
        again = request.replace(
            callback=NO_CALLBACK, errback=None, cb_kwargs={}, meta=meta, dont_filter=True
        )
        assert self._crawler.engine is not None
        try:
            return await self._crawler.engine.download_async(again)
        except Exception:  # whatever the project's downloader raises, it proves nothing
            return None

    async def _read_sitemap(self, response: Response) -> None:
        """Take down what a sitemap says of its URLs, a part at a time."""
        if self._revisits is None or not is_sitemap(response):
            return
        hints = hints_of(response)

        def read() -> list[tuple[str, Hint]] | None:
            return self._attempt("recrawl", lambda: list(islice(hints, HINTS_AT_ONCE)))

        is_short = len(response.body) < SHORT_BYTES
        while part := read() if is_short else await self._count.in_thread(read):
            self._attempt("recrawl", self._put_hints, part)

    def _put_hints(self, part: list[tuple[str, Hint]]) -> None:
        for url, hint in part:
            if (key := self._key(Request(url))) is not None:
                self._visits.put_hint(PageKey(key, "", url), hint)

    def _counts(self, earlier: Visit) -> bool:
        """Whether a visit is to be compared with: not of a page that was gone, nor too old."""
        if earlier.status in (Status.GONE, Status.MOVED):
            return False
        return self._ttl_s is None or time.time() - earlier.time <= self._ttl_s

    def _is_wanted(self, response: Response) -> bool:
        """Whether the page is asked for, whatever it says."""
        refresh = bool(response.meta.get("neardup_refresh"))
        return self._passes_all or refresh or bool(self._recorder.wanted(response))

    def _found_on(self, request: Request) -> bytes | None:
        """The key of the page that a request names as the one it was found on."""
        referer = request.headers.get("Referer")
        if referer is None:
            return None
        url = referer.decode("utf-8", "replace")
        return self._key(Request(url)) if url.startswith(("http://", "https://")) else None

    # --- items

    async def _read_fields(
        self, items: list[Any], page: CrawledPage, content: PageContent | str | None
    ) -> Fields | None:
        """_fields(), off the loop's thread where that takes long."""

        def read() -> Fields | None:
            return self._attempt("recrawl", self._fields, items, page, content)

        is_slow = len(page.response.body) >= SHORT_BYTES or self._attempt("recrawl", is_long, items)
        return await self._count.in_thread(read) if is_slow else read()

    def _fields(
        self, items: list[Any], page: CrawledPage, content: PageContent | str | None
    ) -> Fields | None:
        """Of each item, a digest of each field; None where one cannot be read."""
        text = content if isinstance(content, str) else content.text if content else ""
        shown = Shown.of(text if len(text) <= MAX_CHARS else "")
        fields = []
        for item in items:
            read = self._items.fields_of(item, page)
            if read is None:
                return None
            texts = shown.fields_in(item, read)
            exactly = {EXACTLY + name: read[name] for name in texts}
            fields.append(read | dict.fromkeys(texts, SAME_TEXT) | exactly)
        return fields

    # --- what becomes of them

    def settled(self, page: CrawledPage) -> None:
        """All items of a page are done, and stored: remember the page."""
        if page.revisit is None:
            return
        visit = page.revisit.visit
        if not page.revisit.says_nothing_new:
            visit = self._as_copy(visit, page)
        self._visits.put(visit)
        self._copies.stored(visit)
        if visit.trusted:
            self._record_unread(visit)
        if page.revisit.status == Status.CHANGED:
            self._visits.changed(visit.url, json.dumps(page.revisit.tag))

    def _as_copy(self, visit: Visit, page: CrawledPage) -> Visit:
        """A page's row with what it repeats, and for which pages its items were dropped."""
        original = page.judged.original if page.judged and page.judged.is_duplicate else None
        request = page.response.request
        if original is not None and request is not None:
            visit = visit._replace(copy_of=self._key(request.replace(url=original)))
        repeats = [Original(*one).pack() for one in page.originals.items()]
        return visit._replace(repeats=b"".join(repeats))

    def _record_unread(self, visit: Visit) -> None:
        if self._recorder.ledger is not None:
            action: Action = "dropped" if unpacked_fields(visit.items) else "kept"
            self._recorder.ledger.record(Entry(visit.url, "unchanged", action))

    def flush(self) -> None:
        """Called about once a second."""
        self._attempt("recrawl", self._visits.flush)

    def close(self, reason: str | None, goes_on: bool) -> dict[str, int]:
        """The crawl is over; its stats. goes_on: the next crawl has its queue, and is this run."""
        if goes_on:
            self._visits.flush()
        else:
            self._end.conclude(reason or "", self._misses_links)
        counts, n_trusted = self._visits.counts(), self._visits.n_trusted()
        n_not_due = self._visits.n_passed()
        if not goes_on:
            logger.info("neardup: %s", in_words(counts, n_trusted, n_not_due))
        told = {stats.RECRAWL_PAGES.format(s.word): counts.get(s, 0) for s in Status}
        if n_foreign := self._visits.n_foreign:
            told[stats.RECRAWL_FOREIGN] = n_foreign
        if self._revisits is not None:
            told[stats.RECRAWL_NOT_DUE] = n_not_due
        return told | {stats.RECRAWL_NOT_DOWNLOADED: n_trusted}


async def _nothing(response: Response) -> AsyncIterator[Any]:
    """The callback of a page that was not downloaded."""
    return
    yield


def _callback(request: Request) -> str:
    return callback_of(request) or "parse"

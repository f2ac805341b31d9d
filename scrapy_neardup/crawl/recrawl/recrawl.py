"""A site crawled again: each page compared with what its URL had when it was read last."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.counts import Counts
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.items.item_data import is_long
from scrapy_neardup.crawl.items.source_page import CrawledPage
from scrapy_neardup.crawl.pages.long_bodies import SHORT_BYTES
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.recrawl.conditional import ConditionalRequests, Validators
from scrapy_neardup.crawl.recrawl.copies import Copies
from scrapy_neardup.crawl.recrawl.known_pages import KnownPages, callback_name
from scrapy_neardup.crawl.recrawl.page_links import PageLinks
from scrapy_neardup.crawl.recrawl.recrawl_end import RecrawlEnd, in_words
from scrapy_neardup.crawl.recrawl.revisits import Revisits
from scrapy_neardup.crawl.recrawl.second_reading import SecondReading
from scrapy_neardup.crawl.recrawl.spider_memory import SpiderMemory
from scrapy_neardup.crawl.recrawl.stored_requests import YieldedRequests
from scrapy_neardup.crawl.recrawl.unread_pages import Unread, UnreadPages
from scrapy_neardup.crawl.recrawl.visit_comparison import Revisit, VisitComparison, stored_noise
from scrapy_neardup.crawl.recrawl.visit_items import (
    EXACTLY,
    SAME_TEXT,
    Fields,
    ReaderView,
    packed_fields,
    unpacked_fields,
)
from scrapy_neardup.crawl.requests.request_tracker import made_again
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.decision import Decision
from scrapy_neardup.detect.revision import MAX_CHARS, Held, Revision
from scrapy_neardup.factory import ttl_s
from scrapy_neardup.ledger.schema import Action, Entry
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.visit import (
    DEPARTED,
    UNKNOWN,
    Original,
    PageKey,
    Visit,
    new_version,
    without_content,
)
from scrapy_neardup.state.visit_file import Status
from scrapy_neardup.state.visits import Visits

if TYPE_CHECKING:
    from scrapy_neardup.crawl.items.item_judge import ItemJudge
    from scrapy_neardup.crawl.pages.judge import PageJudge
    from scrapy_neardup.crawl.requests.seen_urls import SeenUrls

logger = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 1.0
OF_SCHEDULE = ("n_visits", "n_changes", "since", "n_new", "due")


def held_of(fields: Fields | None, page: CrawledPage) -> Held:
    """How much of a page its items hold."""
    if page.own_provenance is not None and page.own_provenance.is_held:
        return Held.PAGE
    holds_text = any(SAME_TEXT in one.values() for one in fields or ())
    return Held.TEXT if holds_text else Held.FIELDS


class Settlement(NamedTuple):
    """What is to be remembered of a page.

    revisit  how it compares with its earlier self, None where it was not compared
    beside   its request, where items of it were put out with no visit
    """

    revisit: Revisit | None
    beside: Request | None


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
        self._judge = judge
        self._items = items
        self._recorder = recorder
        self._attempt = attempt
        self._count = count
        self._passes_all = settings.recrawl == "all"
        self.unfinished: set[tuple[bytes | str, str]] = set()  # keys and callbacks of pages
        self._known = known = KnownPages(visits, urls, ttl_s(settings))
        self._copies = Copies(visits, judge, known.key)
        servers = visits.servers()
        is_adaptive = settings.revisit == "adaptive"
        self._revisits = Revisits(settings, visits, servers) if is_adaptive else None
        self.conditions = ConditionalRequests(settings, visits, servers, crawler, count)
        self._memory = SpiderMemory(visits, servers, crawler)
        self.unread = UnreadPages(
            settings,
            visits.run,
            known,
            self.conditions,
            self._memory,
            self._revisits,
            self._copies,
            crawler,
            urls,
            recorder,
        )
        self.links = PageLinks(visits, known, self._revisits, crawler, urls, attempt, count)
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
            self.conditions,
            count,
            self._passes_all,
        )
        self._reading = SecondReading(known, self._comparison, crawler, judge, attempt, count)

    def started(self, request: Request) -> None:
        """The spider starts with a request."""
        key = self._known.key(request)
        if key is not None:
            self._visits.started(key, request.url)

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
        if (key := self._known.key(original)) is None:
            return
        try:
            is_known = await self._judge.bring_original(decision, PageKey(key, "", original.url))
        except Exception:
            self._attempt.failed("recrawl")
            is_known = False
        if not is_known:
            page.applied = None
        elif key == self._known.key(request) and page.revisit is not None:
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
        if (unread := self.unread.of(page.response)) is not None:
            async for _ in result:  # nothing, but it is to be exhausted
                pass
            for request in self._followed(page, unread):
                yield request
            return
        items: list[Any] = []
        error = None
        if self._is_comparable(page):
            await self.links.read_sitemap(page.response)  # before requests follow from it
        yielded = self.unread.to_be_stored(page.response)
        try:
            async for output in result:
                if isinstance(output, Request):
                    if yielded is not None:
                        self._attempt("recrawl", yielded.add, output)
                    self._attempt("recrawl", self.links.linked, page, output)
                    yield output
                else:
                    items.append(output)
        except Exception as raised:
            error = raised
            self.links.missed()
        self._attempt("recrawl", self._memory.callback_done)
        if error is None and self._is_comparable(page):
            try:
                await self._read(page, items, yielded)
            except Exception:
                self._attempt.failed("recrawl")
        skips = page.response.meta.get("neardup_skip")
        page.is_beside = bool(items) and page.revisit is None and not skips
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

    def _followed(self, page: CrawledPage, unread: Unread) -> Iterator[Request]:
        """What an unchanged page led to at its last visit, or a request to read it after all."""
        visit, requests, asked, is_due = unread
        page.is_read = True  # there is nothing to read
        if self._copies.is_orphan(visit):  # its original has changed since the server answered
            yield made_again(asked)
            return
        self._copies.unchanged(asked, visit)
        for found in requests:
            self._attempt("recrawl", self.links.linked, page, found)
            yield found
        if is_due:
            self._confirmed(page, visit, asked)
        else:
            self._visits.passed(visit)

    def _confirmed(self, page: CrawledPage, visit: Visit, asked: Request) -> None:
        """A server says that a page is as it was."""
        run = self._visits.run
        self.conditions.trusted(visit)
        self._comparison.confirmed(visit)
        row = visit._replace(
            run=run,
            linked=run,
            status=Status.UNCHANGED,
            time=time.time(),
            trusted=visit.trusted + 1,
            found_on=self.links.found_on(asked),
            depth=int(page.response.meta.get("depth", 0)),
            n_new=visit.n_new // 2,
            passed=0,
        )
        if self._revisits is not None:
            row = self._revisits.compared(row, visit, False)
        page.revisit = Revisit(row, Status.UNCHANGED, False, False, False, [], [], 0)

    def _is_comparable(self, page: CrawledPage) -> bool:
        response = page.response
        if response.request is None or not page.is_tracked:
            return False
        return 200 <= response.status < 300 and not response.meta.get("neardup_skip")

    async def _read(
        self, page: CrawledPage, items: list[Any], yielded: YieldedRequests | None
    ) -> None:
        """Read a page and what came of it, and compare both with its earlier self."""
        content = await self._judge.content(page)
        fields = await self._read_fields(items, page, content)
        held = held_of(fields, page)
        now = await self._reading.revision(page.response.body, content, held)
        if page.new_links:
            await self.links.ask_which_are_new(page)
        if now is None:
            return
        if not self._is_wanted(page.response):
            await self._reading.read_twice(page, fields, now)
        self._attempt("recrawl", self._compare, page, fields, now, yielded)

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
        if (key := self._known.key(request)) is None:
            return
        before = visits.visit(key, callback_name(request))
        earlier = self._known.comparable(before)
        visit = self._visit(page, request, key, earlier, fields, now)
        if before is not None:
            visit = visit._replace(done=before.done)
        validators, program = Validators.of(response), self.unread.program(request)
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
            self.conditions.compared(earlier, validators, status, visit.requests)

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
            callback_name(request),
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
            found_on=self.links.found_on(request),
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

    def _is_wanted(self, response: Response) -> bool:
        """Whether the page is asked for, whatever it says."""
        refresh = bool(response.meta.get("neardup_refresh"))
        return self._passes_all or refresh or bool(self._recorder.wanted(response))

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
        shown = ReaderView.of(text if len(text) <= MAX_CHARS else "")
        fields = []
        for item in items:
            read = self._items.fields_of(item, page)
            if read is None:
                return None
            page.as_yielded[id(item)] = read
            texts = shown.fields_in(item, read)
            exactly = {EXACTLY + name: read[name] for name in texts}
            fields.append(read | dict.fromkeys(texts, SAME_TEXT) | exactly)
        return fields

    # --- what becomes of them

    def settled(self, page: CrawledPage) -> Settlement:
        """All items of a page are done: what is to be remembered of it.

        Without the page: where a feed is stored at its end, that waits for the end of the crawl.
        """
        revisit, request = page.revisit, page.response.request
        if page.is_beside:
            return Settlement(None, request if page.is_put_out else None)
        if revisit is not None and not revisit.says_nothing_new:
            revisit = revisit._replace(visit=self._as_copy(revisit.visit, page))
        return Settlement(revisit, None)

    def ended(self, page: CrawledPage, failed: bool) -> None:
        """Nothing more can happen to a page. failed: it is to be read again, unless it was since.

        Need not be told of one that did not fail while none is unfinished.
        """
        request = page.response.request
        if request is None:
            return
        read = self._known.key(request) or request.url, callback_name(request)
        if failed:
            self.unfinished.add(read)
        else:
            self.unfinished.discard(read)

    def stored(self, settlement: Settlement) -> None:
        """The items of a page are stored: remember it."""
        revisit, beside = settlement
        if beside is not None:
            self.told_otherwise(beside)
        if revisit is None:
            return
        visit = revisit.visit
        self._visits.put(visit)
        self._copies.stored(visit)
        if visit.trusted:
            self._record_unread(visit)
        if revisit.status == Status.CHANGED:
            self._visits.changed(visit.url, json.dumps(revisit.tag))

    def told_otherwise(self, request: Request) -> None:
        """Items of a page are stored that it gave for an error, or none can be compared with.

        So what it said before stands no longer, and is news once it says that again.
        """
        visit = self._known.comparable(self._known.visit(request))
        if visit is not None:
            self._visits.put(without_content(visit, self._visits.run))

    def _as_copy(self, visit: Visit, page: CrawledPage) -> Visit:
        """A page's row with what it repeats, and for which pages its items were dropped."""
        original = page.judged.original if page.judged and page.judged.is_duplicate else None
        request = page.response.request
        if original is not None and request is not None:
            visit = visit._replace(copy_of=self._known.key(request.replace(url=original)))
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
        is_whole = reason == "finished" and not (self._visits.goes_on or self._visits.is_shared)
        self._attempt("recrawl", self._memory.ended, reason or "", is_whole)
        if goes_on:
            self._visits.flush()
        else:
            self._end.conclude(reason or "", self.links.misses_any)
        counts, n_trusted = self._visits.counts(), self._visits.n_trusted()
        n_not_due = self._visits.n_passed()
        if not goes_on:
            logger.info("neardup: %s", in_words(counts, n_trusted, n_not_due, len(self.unfinished)))
        told = {stats.RECRAWL_PAGES.format(s.word): counts.get(s, 0) for s in Status}
        if n_read := self.unread.n_of_other_programs:
            told[stats.RECRAWL_OTHER_PROGRAM] = n_read
            _log_other_programs(n_read)
        if n_foreign := self._visits.n_foreign:
            told[stats.RECRAWL_FOREIGN] = n_foreign
        if n_forgotten := self._visits.n_forgotten:
            told[stats.RECRAWL_FORGOTTEN] = n_forgotten
        if self._revisits is not None:
            told[stats.RECRAWL_NOT_DUE] = n_not_due
        return told | {stats.RECRAWL_NOT_DOWNLOADED: n_trusted}


def _log_other_programs(n_pages: int) -> None:
    logger.info(
        "neardup: %d known pages were read in full, since what their callbacks depend on is not as "
        "it was at the last visit: the spider's code, arguments, attributes or settings, or what "
        "requests hand on. If every crawl says so, one of these may hold the time of the crawl",
        n_pages,
    )

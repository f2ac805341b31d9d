"""Pages on their way through the spider and the pipelines: what happens, as lifecycle events."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from zlib import crc32

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.advice import Advice
from scrapy_neardup.crawl.delivery import Delivery
from scrapy_neardup.crawl.effects import Effects
from scrapy_neardup.crawl.fail_open import Count, FailOpen
from scrapy_neardup.crawl.items.failed_files import FailedFiles
from scrapy_neardup.crawl.items.item_judge import ItemJudge, ItemReading
from scrapy_neardup.crawl.items.source_page import CrawledPage, HandedItems, Repeat
from scrapy_neardup.crawl.learning.url_learning import UrlLearning
from scrapy_neardup.crawl.learning.url_skipping import UrlSkipping
from scrapy_neardup.crawl.pages.claims import Claims
from scrapy_neardup.crawl.pages.judge import PageJudge, TextReading
from scrapy_neardup.crawl.pages.page_lifecycle import (
    Fate,
    PageLifecycle,
    ReadAgain,
    RowForgotten,
    RowKept,
    RowKeptInPart,
    Settled,
)
from scrapy_neardup.crawl.pages.soft_404 import SoftNotFound
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.recrawl.recrawl import Recrawl
from scrapy_neardup.crawl.requests.request_tracker import RequestTracker
from scrapy_neardup.detect.decision import Decision

# Between a page's URL and what tells its items apart, where items are compared by themselves.
ITEM_MARK = "#item-"


class CrawledPages:
    """Follows each response from its callback's first output until its last item has left."""

    def __init__(
        self,
        crawler: Crawler,
        lifecycle: PageLifecycle,
        effects: Effects,
        requests: RequestTracker,
        judge: PageJudge,
        soft_404: SoftNotFound,
        claims: Claims,
        item_judge: ItemJudge,
        files: FailedFiles,
        recorder: Recorder,
        advice: Advice,
        delivery: Delivery,
        learning: UrlLearning,
        skipping: UrlSkipping,
        attempt: FailOpen,
        count: Count,
        recrawl: Recrawl | None = None,
    ) -> None:
        self._lifecycle = lifecycle
        self._effects = effects
        self._requests = requests
        self._judge = judge
        self._soft_404 = soft_404
        self._claims = claims
        self._item_judge = item_judge
        self._files = files
        self._recorder = recorder
        self._advice = advice
        self._delivery = delivery
        self._learning = learning
        self._skipping = skipping
        self._attempt = attempt
        self._count = count
        self._recrawl = recrawl
        self._items = HandedItems()
        self._pages: dict[int, CrawledPage] = {}  # by id in the lifecycle
        self._by_response: dict[int, CrawledPage] = {}  # by id() of the response
        # Row under way → pages of which an item was dropped for it, with their requests.
        self._copies: defaultdict[int, dict[int, Request]] = defaultdict(dict)
        self._read_twice: set[str] = set()  # URLs
        effects.subscribe(ReadAgain, self._read_again)
        effects.subscribe(RowKept, self._row_settled)
        effects.subscribe(RowKeptInPart, self._row_settled)
        effects.subscribe(RowForgotten, self._row_settled)
        effects.subscribe(Settled, self._settled)
        crawler.signals.connect(self.item_scraped, signal=signals.item_scraped)
        crawler.signals.connect(self.item_dropped, signal=signals.item_dropped)
        crawler.signals.connect(self.item_error, signal=signals.item_error)

    # --- the callback

    def begin(self, response: Response) -> CrawledPage:
        """The callback of a response begins."""
        found, asked_fleet, is_of_form = self._requests.page_of(response)
        # One that bypassed the tracker: nobody waits for it, nor it for what is found on it.
        id_ = self._lifecycle.answered(None, None) if found is None else found
        page = CrawledPage(id_, response, found is not None, asked_fleet, is_of_form)
        self._pages[id_] = self._by_response[id(response)] = page
        return page

    async def judge(self, page: CrawledPage) -> None:
        """Read a page and decide about it, once."""
        if page.is_read or page.response.meta.get("neardup_skip"):
            return
        page.is_read = True
        self._lifecycle.reading(page.id)
        try:
            await self._compare(page)
        except Exception:
            page.applied = None
            self._attempt.failed("judge")
        row = page.judged.page_id if page.judged is not None and page.is_new else None
        self._lifecycle.judged(page.id, row, page.repeated_row)

    async def _compare(self, page: CrawledPage) -> None:
        if self._soft_404.probes:
            await self._soft_404.probe(page.response)
        self._attempt("claims", self._claims.read, page)
        await self._judge.judge(page)
        self._attempt("soft_404", self._soft_404.name, page)
        self._attempt("claims", self._claims.weigh, page)
        if self._recrawl is not None:
            await self._recrawl.know_original(page)
            self._attempt("recrawl", self._recrawl.judged, page)

    async def own_words(self, page: CrawledPage) -> int:
        """How many words of a page are its own, not its host's; 0 where that is not known."""
        if page.own_words is None:
            page.own_words = await self._judge.own_words(page)
        return page.own_words

    def hand_over(self, item: Any, page: CrawledPage) -> None:
        """The callback yielded an item: let the pipeline find its page."""
        if self._lifecycle.item_out(page.id):
            page.applied = None
            self._count(stats.PAGES_FIRST_WITH_ITEM)
        self._items.hand_over(item, page)

    def exhausted(self, page: CrawledPage, failed: bool, stopped: bool = False) -> None:
        """The callback yields nothing more. failed: it raised; stopped: it stopped the crawl."""
        self._effects.of(self._lifecycle.exhausted, page.id, failed, stopped)

    def stopped(self, response: Response) -> None:
        """The callback of a response stopped the crawl, maybe before it gave any output."""
        if id(response) not in self._by_response:  # else exhausted() tells
            self.exhausted(self.begin(response), failed=False, stopped=True)

    # --- the pipelines

    def take_over(self, item: Any) -> CrawledPage | None:
        """The page an item came from, None where none can be told; counted."""
        page = self._items.take_over(item)
        if page is None:
            self._count(stats.ITEMS_WITHOUT_PAGE)
        return page

    async def read_text(self, text: str, page: CrawledPage) -> TextReading:
        """A long text of an item, read off the loop's thread."""
        return await self._judge.read_text(page.response.url, text)

    def decide_item(self, text: str, page: CrawledPage, read: TextReading | None) -> Repeat | None:
        """What an item repeats by itself, of which this is the text; None for one to keep.

        read: what read_text() gave; None if it was not called.
        """
        page_url = page.response.url
        mark = page_url + ITEM_MARK
        url = f"{mark}{crc32(text.encode('utf-8', 'surrogatepass')):08x}"
        decided = self._judge.decide_text(url, text, read)
        if decided is None:
            return None
        decision, is_new = decided
        if is_new and decision.page_id is not None:
            self._lifecycle.remembered(page.id, decision.page_id)
        if decision.original and decision.original.startswith(mark):
            return None  # of the same page: a URL never matches itself
        applied = self._judge.applied(page_url, decision)
        action = self._recorder.action_on(decision, repeated=applied is not None)
        self._recorder.page_judged(url, decision, action, page.response, text)
        return repeat_of(applied)

    def is_slow(self, item: Any, page: CrawledPage) -> bool:
        """Whether read_item() is to be awaited before the item is compared."""
        return self._item_judge.is_slow(item, page)

    async def read_item(self, item: Any, page: CrawledPage) -> ItemReading:
        """The data of an item, read off the loop's thread."""
        return await self._item_judge.read_ahead(item, page)

    def repeats_with_data(
        self, item: Any, page: CrawledPage, reading: ItemReading | None
    ) -> Repeat | None:
        """What an item repeats with its page, and by its own data, too; None for one to keep."""
        row = self._item_judge.repeated(item, page, reading)
        if row is not None and page.applied is not None:
            return Repeat(page.applied, row)
        if page.offered and not page.is_new:
            self._wait_for_items_of(page)
        return None

    def _wait_for_items_of(self, page: CrawledPage) -> None:
        """Let others wait for the items of a page that has no row of its own."""
        if not self._lifecycle.is_unkept(page.own_row):
            self._lifecycle.remembered(page.id, page.own_row)

    def was_put_out(self, item: Any, page: CrawledPage, reading: ItemReading | None) -> bool:
        """Whether an earlier run, which was cut off, put out an item, and its page is unchanged."""
        return page.is_reread and self._item_judge.was_kept(item, page, reading)

    def is_spared(self, page: CrawledPage, repeat: Repeat) -> bool:
        """Whether a page was read twice because an original was lost, and may lose another one."""
        is_again = page.response.url in self._read_twice
        return is_again and self._lifecycle.is_unkept(repeat.row)

    def item_repeats(self, page: CrawledPage, repeat: Repeat) -> None:
        """An item is about to be dropped because it, or its page, repeats another."""
        if self._recrawl is not None:
            self._attempt("recrawl", self._recrawl.dropped, page, repeat.decision)
        row = repeat.row
        if row is not None and self._lifecycle.is_unkept(row):
            request = page.response.request
            assert request is not None
            self._copies[row][page.id] = request
        if self._lifecycle.item_repeats(page.id, row):
            self._count(stats.BYTES_SAVED, len(page.response.body))

    def is_completed(self, item: Any, page: CrawledPage, reading: ItemReading | None) -> bool:
        """ItemJudge.is_completed(); reading: what read_item() gave, where it was called."""
        if reading is not None:
            return reading.is_completed
        return self._item_judge.is_completed(item, page)

    def item_unchanged(self, item: Any, page: CrawledPage, reading: ItemReading | None) -> Fate:
        """An item is about to be dropped because its page is what it was; what becomes of it.

        The page's new row takes the place of its earlier self's, and its items stand for those that
        were kept then. Where none was, nothing may count as a copy of it.
        """
        if not page.was_kept:
            return Fate.DROPPED
        if page.is_new:
            self._item_judge.repeated(item, page, reading)
        return Fate.KEPT

    def item_scraped(self, item: Any, response: Response | None) -> None:
        """An item left the pipelines."""
        if not self._files.are_of(item):
            self._item_done(response, Fate.KEPT)
            return
        self._count(stats.ITEMS_WITHOUT_FILE)
        self._item_done(response, Fate.WITHOUT_FILE, item)

    def item_dropped(self, item: Any, exception: Exception, response: Response | None) -> None:
        """A pipeline dropped an item, ours or another."""
        fate = fate_of(exception)
        if fate is Fate.DROPPED and self._files.are_of(item):  # it may well be for that
            self._count(stats.ITEMS_WITHOUT_FILE)
            fate = Fate.FAILED
        self._item_done(response, fate, None if fate is Fate.KEPT else item)

    def item_error(self, item: Any, response: Response | None) -> None:
        """A pipeline raised."""
        self._item_done(response, Fate.FAILED, item)

    def _item_done(self, response: Response | None, fate: Fate, lost: Any = None) -> None:
        page = self._by_response.get(id(response))
        if page is None or page.response is not response:
            return
        if fate in (Fate.KEPT, Fate.WITHOUT_FILE):
            page.is_put_out = True
        if fate is Fate.WITHOUT_FILE:
            page.is_beside = True
            self._item_judge.without_file(lost, page)
        elif lost is not None:
            self._item_judge.withdrawn(lost, page)
        self._effects.of(self._lifecycle.item_done, page.id, fate)

    # --- effects

    def _read_again(self, id_: int, row: int) -> None:
        """Items of a page were dropped for one that is lost since: fetch the page once more."""
        page = self._pages.get(id_)
        request = page.response.request if page is not None else self._copies[row].get(id_)
        if request is None:
            return  # so it goes on waiting, and the next crawl fetches it
        self._count(stats.PAGES_READ_AGAIN)
        self._read_twice.add(request.url)
        self._requests.again(request, id_)

    def _row_settled(self, row: int) -> None:
        self._copies.pop(row, None)

    def _settled(self, id_: int, failed: bool) -> None:
        """Nothing more can happen to a page's items: remember them, and record the page."""
        page = self._pages.pop(id_, None)
        if page is None:  # of an errback
            return
        del self._by_response[id(page.response)]
        if kept := [data for offered in page.offered.values() for data in offered.data]:
            self._delivery.put(self._item_judge.keep, kept)
        if self._recrawl is not None and (page.is_beside or not failed):
            settlement = self._attempt("recrawl", self._recrawl.settled, page)
            if settlement is not None:
                self._delivery.put(self._recrawl.stored, settlement)
        if self._recrawl is not None and (failed or self._recrawl.unfinished):
            self._attempt("recrawl", self._recrawl.ended, page, failed)
        if n_replaced := self._items.forget(page):
            self._count(stats.ITEMS_REPLACED, n_replaced)
        self._skipping.page_settled(page, failed)
        if page.judged is not None:
            repeated = page.n_repeating > 0
            action = self._recorder.action_on(page.judged, repeated, page.revisit)
            url, text = page.response.url, page.text
            self._recorder.page_judged(
                url, page.judged, action, page.response, text, page.differing, page.revisit
            )
            self._advice.page_done(url, page.judged.kind == "near" and action != "kept")
            self._attempt("learn", self._learning.page_settled, page, failed)
        if not failed and (made := self._skipping.of_page(page.response)):
            self._delivery.put(self._skipping.page_done, made)
        if not failed and (wanted := self._recorder.wanted(page.response)):
            self._delivery.put(self._recorder.fetched, wanted)


def repeat_of(decision: Decision | None) -> Repeat | None:
    """What an item repeats by such a decision, about its page or itself; None for nothing."""
    if decision is None or not decision.is_duplicate:
        return None
    return Repeat(decision, decision.original_id)


def fate_of(exception: Exception) -> Fate:
    """What became of an item that a pipeline dropped, ours or another."""
    fate = getattr(exception, "fate", None)
    return fate if isinstance(fate, Fate) else Fate.DROPPED

"""What one crawl remembers: URL filter, detector and pages under way; shared by its components."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar, get_args
from weakref import WeakKeyDictionary

from scrapy import Spider, signals
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Request
from scrapy.statscollectors import StatsCollector
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.job import job_dir
from scrapy.utils.misc import load_object

import scrapy_neardup.kernels as kernels
from scrapy_neardup import stats
from scrapy_neardup.crawl import extract, gauges
from scrapy_neardup.crawl.body_cache import HASH_TELLS, MAX_BODY_BYTES, BodyCache
from scrapy_neardup.crawl.jobdir import set_queue_aside, state_folder
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.request_tracker import ONCE, RequestTracker
from scrapy_neardup.crawl.visits import PageVisit, Visits
from scrapy_neardup.detect.detector import Decision, Kind, PageReading
from scrapy_neardup.errors import EngineFailed
from scrapy_neardup.factory import make_parts, make_rules
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.urls.filters import load_filter
from scrapy_neardup.urls.key import request_key
from scrapy_neardup.urls.request_fingerprinter import own_fingerprinter

if TYPE_CHECKING:
    from scrapy_neardup.fleet.worker import FleetWorker

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

# First layer of the URL filter that had never seen a new URL's prefix → what that says of it.
NOVELTY = {1: stats.URLS_NEW_HOST, 2: stats.URLS_NEW_DIRECTORY}

PAGES_OF_KIND = {
    kind: stats.PAGES_BY_KIND.format(kind.replace("-", "_")) for kind in get_args(Kind)
}

DAY_S = 86_400.0

NOT_MADE = b""  # no key is empty

_memories: WeakKeyDictionary[Crawler, CrawlSession] = WeakKeyDictionary()


class CrawlSession:
    """The structures of one crawl; every component of a crawler gets the same from `of`.

    Nothing here raises into the crawl: what fails is counted under neardup/errors/…, logged
    once, and answered in favour of the page.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.settings = NearDupSettings.from_settings(crawler.settings)
        if not self.settings.enabled:
            raise NotConfigured("NEARDUP_ENABLED is False")
        assert crawler.stats
        self.stats: StatsCollector = crawler.stats
        self.count = crawler.stats.inc_value  # kept: a collector makes it anew whenever it is asked
        self.is_inspection = is_inspection(crawler)
        self.rules = make_rules(self.settings)
        self.fingerprinter = own_fingerprinter(crawler.request_fingerprinter)
        self.extractor = load_extractor(self.settings.extractor)
        self.keeps_queue = job_dir(crawler.settings) is not None
        folder = None if self.is_inspection else state_folder(self.settings, crawler)
        shares = self.settings.backend is not None and not self.is_inspection
        self.fleet = make_peers(self.settings, self.stats) if shares else None
        self.state = State.open(
            folder,
            make_parts(self.settings),
            key=self.fleet.key if self.fleet else self.settings.key,
            fsync=self.settings.fsync,  # type: ignore[arg-type]
            ttl_s=None if self.settings.ttl is None else self.settings.ttl * DAY_S,
            on_seen=self._count_seen,
        )
        if self.state.crashed:
            set_queue_aside(folder, crawler)
        self.spider: Spider | None = None
        self.detector = self.state.detector
        self.recorder = Recorder(self.settings, folder)
        self.tracker = RequestTracker(
            self.state, crawler, self.attempt, self._waits_for_links(crawler)
        )
        self.saving = create_looping_call(self.save)
        self.itemless: set[int] = set()  # ids of pages that were read for their links only
        self.unkept_copies: dict[int, list[int | None]] = {}  # id of original → pages in lineage
        self.visits = Visits(crawler, self._settled)
        self.bodies = BodyCache()
        # Another extractor may look at the URL, and a fleet must hear of each page.
        reads_bodies = self.extractor is extract.visible_text
        self.copies_tell = HASH_TELLS and reads_bodies and self.fleet is None
        self._keys: WeakKeyDictionary[Request, bytes | None] = WeakKeyDictionary()
        self._failed: set[str] = set()
        self._connect(crawler)

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The memory of a crawler, made when first asked for.

        Raises NotConfigured, SettingsError.
        """
        if crawler not in _memories:
            _memories[crawler] = cls(crawler)
        memory = _memories[crawler]
        assert isinstance(memory, cls)
        return memory

    def _waits_for_links(self, crawler: Crawler) -> bool:
        """Whether a crash could cut off what was found on a page that counts as seen.

        Not where nothing outlives the crawl, nor where the queue does, too: a fleet's scheduler
        that is not Scrapy's gives requests to any worker, and one that dies loses none.
        """
        if self.fleet is None:
            return self.state.store is not None
        # Not issubclass(): to Scrapy, whatever has a scheduler's methods is a subclass.
        return Scheduler in load_object(crawler.settings["SCHEDULER"]).__mro__

    def _connect(self, crawler: Crawler) -> None:
        crawler.signals.connect(self.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)
        if self.fleet is not None:
            crawler.signals.connect(self.part_from_peers, signal=signals.spider_closed)

    # --- URLs

    def key(self, request: Request) -> bytes | None:
        """The key of a request, made once; None, counted, for one that has none."""
        key = self._keys.get(request, NOT_MADE)
        if key is NOT_MADE:
            key = self._keys[request] = self.attempt(
                "url_key", request_key, request, self.rules, self.fingerprinter
            )
        return key

    def seen(self, key: bytes) -> bool:
        """Whether the page of a key was fetched before; not if that cannot be told."""
        return bool(self.attempt("filter", self.state.seen, key))

    async def seen_by_peers(self, key: bytes) -> bool:
        """Whether another worker fetched the page of a key before; then this one knows it, too."""
        assert self.fleet is not None
        if not await self.fleet.seen(key):
            return False
        self.count(stats.BACKEND_SEEN)
        self.attempt("filter", self.state.urls.add, key)
        return True

    def _count_seen(self, key: bytes, layer: int) -> None:
        if self.fleet is not None:
            self.fleet.mark(key)
        if layer:
            self.count(stats.URLS_MARKED)
        if layer in NOVELTY:
            self.count(NOVELTY[layer])

    # --- pages

    def read(self, visit: PageVisit) -> PageReading | None:
        """Text, words, fingerprint and sketch of a page; None where it cannot be compared.

        Safe in a thread: touches no structure of the crawl but counters.
        """
        response = visit.response
        if len(response.body) > self.settings.max_page_bytes:
            self.count(stats.PAGES_TOO_LONG)
            return None
        text = self.attempt("extract", self.extractor, response)
        if text is None:
            self.count(stats.PAGES_WITHOUT_TEXT)
            return None
        if self.recorder.keeps_text:
            visit.text = text
        return self.read_text(response.url, text)

    def read_text(self, url: str, text: str) -> PageReading | None:
        """The reading of a text that stands at a URL; None, counted, where that fails."""
        return self.attempt("words", self.detector.read, url, text)

    def sign(self, reading: PageReading | None) -> PageReading | None:
        """The reading with its signatures; None, counted, where the engine fails."""
        if reading is None or self.attempt("engine", getattr, reading, "signatures") is None:
            return None
        return reading

    def decide_copy(self, visit: PageVisit) -> Decision | None:
        """The decision about a page that is, byte by byte, one that was read; counted.

        None for any other, and where the text is wanted or may depend on more than the body.
        """
        if not self.copies_tell or self.recorder.keeps_text:
            return None
        if len(visit.response.body) > MAX_BODY_BYTES:
            return None
        visit.body = self.attempt("copies", self.bodies.body, visit.response)
        words = visit.body and self.bodies.words(visit.body)
        if words is None:
            return None
        url = visit.response.url
        decision = self.attempt("index", self.detector.decide_copy, url, *words)
        return decision and self._noted(decision, False, visit)

    def decide(self, reading: PageReading, visit: PageVisit | None) -> Decision | None:
        """Look the page up and remember it, in one step on the loop's thread; counted."""
        decided = self.attempt("index", self.state.decide, reading)
        if decided is None:
            return None
        if visit is not None and visit.body is not None:
            self.bodies.remember(visit.body, reading)
        return self._noted(*decided, visit)

    async def decide_with_peers(self, reading: PageReading, visit: PageVisit) -> Decision | None:
        """The same where other workers may know the page; without any, at once."""
        if self.fleet is None:
            return self.decide(reading, visit)
        try:
            once = bool(visit.response.meta.pop(ONCE, False))
            decision, is_new = await self.fleet.decide(self.state, reading, once)
        except Exception as error:
            return self.attempt("backend", _raise, error)
        return self._noted(decision, is_new, visit)

    def _noted(self, decision: Decision, is_new: bool, visit: PageVisit | None) -> Decision:
        self._count(decision)
        if visit is not None and is_new and decision.page_id is not None:
            visit.new_pages.append(decision.page_id)
        return decision

    def spare(self, url: str, decision: Decision | None) -> Decision | None:
        """The decision as it is to be applied: none where a person has undone it."""
        if decision is None or not decision.is_duplicate or not self.recorder.keeps(url):
            return decision
        self.count(stats.PAGES_UNDONE)
        return None

    def repeats_itself(self, visit: PageVisit) -> bool:
        """Whether a page's original has the same key: one URL as far as the rules for URLs go.

        A crash may have come between: then the links of the earlier one were never followed.
        """
        request, decision = visit.response.request, visit.decision
        if request is None or decision is None or decision.original is None:
            return False
        return self.key(request) == self.key(request.replace(url=decision.original))

    def stand_in(self, visit: PageVisit) -> None:
        """Keep the items of a page whose original was read for its links and brought none.

        From now on this page's items stand for both.
        """
        if visit.decision is None or visit.decision.original_id not in self.itemless:
            return
        self.itemless.discard(visit.decision.original_id)
        visit.new_pages.append(visit.decision.original_id)
        visit.decision = None
        self.count(stats.PAGES_FIRST_WITH_ITEM)

    def _count(self, decision: Decision) -> None:
        self.count(stats.PAGES_READ)
        self.count(PAGES_OF_KIND[decision.kind])
        if decision.kind == "near":
            self.count(stats.PAGES_NEAR_BY_DISTANCE.format(decision.distance))
        if decision.elsewhere is not None:
            self.count(stats.PAGES_ELSEWHERE)
        if not decision.words:
            self.count(stats.PAGES_WITHOUT_WORDS)

    # --- a page is known only after one of its items has left the pipelines

    def _settled(self, visit: PageVisit) -> None:
        """Nothing more can happen to a page's items: it is known from now on, or forgotten."""
        self._settle_pages(visit)
        self._testify(visit)
        if not visit.failed:
            self._settle_trail(visit)
            if self.recorder.overrides is not None:
                self.attempt("state", self.recorder.fetched, visit.response)

    def _testify(self, visit: PageVisit) -> None:
        if visit.judged is not None:
            action = self.recorder.action_on(
                visit.judged, dropped=bool(visit.items_dropped), spared=visit.decision is None
            )
            response = visit.response
            self.recorder.page_judged(response.url, visit.judged, action, response, visit.text)

    def _settle_pages(self, visit: PageVisit) -> None:
        if not visit.items_out:
            self.itemless.update(visit.new_pages)
            for page in visit.new_pages:
                self._tell_peers(page, kept=False)
            return
        for page in visit.new_pages:
            self._tell_peers(page, kept=bool(visit.items_kept))
            if visit.items_kept:
                self.state.keep(page)
                for copy in self.unkept_copies.pop(page, ()):
                    self.tracker.handled(copy)
            else:
                self.state.drop(page)
                self.count(stats.PAGES_FORGOTTEN)

    def _tell_peers(self, page: int, kept: bool) -> None:
        if self.fleet is not None:
            (self.fleet.keep if kept else self.fleet.drop)(page)

    def _settle_trail(self, visit: PageVisit) -> None:
        """The page is handled; a dropped copy only when the original's item is out, too."""
        original = visit.decision.original_id if visit.decision else None
        if original is not None and visit.items_dropped and not self.state.is_kept(original):
            self.unkept_copies.setdefault(original, []).append(visit.page)
        else:
            self.tracker.handled(visit.page)

    # --- failures and reports

    def attempt(
        self, what: str, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """The action's result; None if it fails, counted under its name and logged once."""
        try:
            return action(*args, **kwargs)
        except Exception as error:
            what = "engine" if isinstance(error, EngineFailed) else what
            self.count(stats.ERRORS.format(what))
            if what not in self._failed:
                self._failed.add(what)
                logger.exception(
                    "neardup: %s failed; the page is kept. Further failures of this kind are only "
                    "counted, under %s",
                    what,
                    stats.ERRORS.format(what),
                )
            return None

    def spider_opened(self, spider: Spider) -> None:
        self.spider = spider
        self.attempt("ledger", self.recorder.open_ledger, self.detector)
        self.attempt("live", self.recorder.open_live_view)
        if self.state.store is not None:
            self.saving.start(self.settings.snapshot_interval, now=False)
        names = {
            stats.ENGINE: type(self.detector.engine).__name__,
            stats.KERNELS: kernels.implementation,
            stats.INDEX_NAME: type(self.detector.index).__name__,
            stats.FILTER_NAME: load_filter(self.settings.url_filter).__name__,
        }
        for key, value in names.items():
            self.stats.set_value(key, value)
        logger.info("neardup: %s", ", ".join(f"{k.split('/', 1)[1]} {v}" for k, v in names.items()))

    def save(self) -> None:
        """Called every NEARDUP_SNAPSHOT_INTERVAL seconds."""
        self._warn_of_full_filter()
        self.attempt("state", self.state.expire)
        self.attempt("state", self.state.snapshot)

    def _warn_of_full_filter(self) -> None:
        if self.state.urls.at_risk:
            logger.warning(
                "neardup: the URL filter is nine tenths full at %d URLs and may not grow beyond "
                "NEARDUP_URL_MAX_MB=%s: soon new URLs are fetched but not remembered. Raise it",
                len(self.state.urls),
                self.settings.url_max_mb,
            )

    async def part_from_peers(self) -> None:
        """Called when the spider closes; waits for a server that is slow, but not long."""
        if self.fleet is not None:
            await self.fleet.close()

    def spider_closed(self, reason: str) -> None:
        self._warn_of_full_filter()
        if self.saving.running:
            self.saving.stop()
        self.recorder.close()
        gauges.warn_of_hot_bucket(self.detector.index, self.settings.scan_limit)
        told = gauges.sizes(self.state)
        keeps_queue = self.keeps_queue and reason != "finished"
        self.attempt("state", self.state.close, keeps_queue)
        told |= gauges.losses(self.state, self.recorder.ledger)
        for key, value in (told | gauges.engine_report(self.detector.engine)).items():
            self.stats.set_value(key, value)
        logger.info("neardup stats:\n%s", stats.table(self.stats.get_stats()))


def _raise(error: Exception) -> None:
    raise error


def make_peers(settings: NearDupSettings, stats: StatsCollector) -> FleetWorker:
    """The other workers of a fleet; what speaks to them is imported by a fleet's workers only."""
    from scrapy_neardup.fleet.worker import FleetWorker

    return FleetWorker(settings, stats)


def is_inspection(crawler: Crawler) -> bool:
    """Whether somebody looks at single pages by `scrapy shell`, `fetch`, `parse` or `check`.

    Those commands put their own start method into the spider class; the shell, which has
    none, is the only one that sets KEEP_ALIVE.
    """
    by_command: bool = crawler.spidercls.start.__module__.startswith("scrapy.commands.")
    return by_command or crawler.settings.getbool("KEEP_ALIVE")


def load_extractor(given: str | type | None) -> extract.Extractor:
    """The extractor of a dotted path, or the visible text."""
    if given is None:
        return extract.visible_text
    extractor: extract.Extractor = load_object(given)
    return extractor

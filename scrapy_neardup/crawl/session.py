"""One crawl's session: opens what its components share, gives it back however the crawl ends."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from scrapy import Spider, signals
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.extensions.feedexport import FeedExporter
from scrapy.squeues import FifoMemoryQueue
from scrapy.utils.asyncio import AsyncioLoopingCall, create_looping_call
from scrapy.utils.job import job_dir
from scrapy.utils.misc import load_object

from scrapy_neardup import stats
from scrapy_neardup.crawl import gauges
from scrapy_neardup.crawl.advice import Advice
from scrapy_neardup.crawl.claims import Claims
from scrapy_neardup.crawl.counts import Counts
from scrapy_neardup.crawl.delivery import Delivery
from scrapy_neardup.crawl.disk_queues import COMMIT_INTERVAL_S, DiskQueues
from scrapy_neardup.crawl.effects import Effects
from scrapy_neardup.crawl.errbacks import Errbacks
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.feeds import Feeds
from scrapy_neardup.crawl.item_judge import ItemJudge
from scrapy_neardup.crawl.jobdir import (
    ForeignJob,
    is_of_job,
    open_frontier,
    shares_requests,
    state_folder,
)
from scrapy_neardup.crawl.judge import PageJudge
from scrapy_neardup.crawl.lost_requests import LostRequests
from scrapy_neardup.crawl.page_lifecycle import (
    Completed,
    LeaseEnded,
    PageLifecycle,
    RowForgotten,
    RowKept,
    RowPending,
)
from scrapy_neardup.crawl.pages import CrawledPages
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.recrawl import FLUSH_INTERVAL_S, Recrawl
from scrapy_neardup.crawl.request_tracker import RequestTracker
from scrapy_neardup.crawl.seen_urls import SeenUrls, is_inspection
from scrapy_neardup.crawl.shared_state import hold_state
from scrapy_neardup.crawl.soft_404 import SoftNotFound
from scrapy_neardup.crawl.url_deferral import UrlDeferral
from scrapy_neardup.crawl.url_learning import EXCHANGE_INTERVAL_S, UrlLearning
from scrapy_neardup.crawl.url_skipping import SYNC_INTERVAL_S, UrlSkipping
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.factory import N_URL_FILTERS, make_state_factory, ttl_s
from scrapy_neardup.learn.learner import Learner
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.signals import items_delivered, items_held
from scrapy_neardup.state import State
from scrapy_neardup.state.skipped import SkippedRequests
from scrapy_neardup.state.visits import Visits

if TYPE_CHECKING:
    from twisted.internet.task import LoopingCall

    from scrapy_neardup.crawl.fleet_queue import FleetQueue
    from scrapy_neardup.fleet.worker import FleetWorker

logger = logging.getLogger(__name__)

_ATTRIBUTE = "_neardup_session"  # of the crawler, so that the session goes when it does


class CrawlSession:
    """What the components of one crawler share; each gets the same one from `of`.

    Nothing is opened until Scrapy is sure to close it, see open(). From then on there are:

    urls      the URL question
    requests  which page each request was found on
    pages     pages on their way through the spider and the pipelines
    recorder  the ledger, the live view and the overrides
    advice    what the log tells the person who runs the crawl
    disk_queues  the frontier, where the crawl's queue is ours
    fleet_queue  the queue that the workers share, under FleetScheduler
    recrawl   compares pages with their earlier selves, under NEARDUP_RECRAWL

    A crawl that is cut off without a signal gives back lock, threads, files and sockets when
    its crawler is garbage, or the process ends.
    """

    urls: SeenUrls
    requests: RequestTracker
    pages: CrawledPages
    disk_queues: DiskQueues | None
    fleet_queue: FleetQueue | None = None
    recrawl: Recrawl | None = None

    def __init__(self, crawler: Crawler) -> None:
        """Checks the settings. Raises NotConfigured, SettingsError."""
        self.settings = NearDupSettings.from_settings(crawler.settings)
        if not self.settings.enabled:
            raise NotConfigured("NEARDUP_ENABLED is False")
        assert crawler.stats
        self._crawler = crawler
        self.count = Counts(crawler.stats.inc_value)
        self.attempt = FailOpen(self.count)
        self._folder = None if is_inspection(crawler) else state_folder(self.settings, crawler)
        self.recorder = Recorder(self.settings, self._folder)
        self.advice = Advice(self.settings, self._folder)
        self._timers: list[AsyncioLoopingCall | LoopingCall] = []
        self._is_open = False
        self._reason: str | None = None  # why the spider was closed
        crawler.signals.connect(self.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)
        crawler.signals.connect(self.feeds_closed, signal=signals.feed_exporter_closed)

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """The session of a crawler, made when first asked for.

        Raises NotConfigured, SettingsError.
        """
        session = getattr(crawler, _ATTRIBUTE, None)
        if session is None:
            session = cls(crawler)
            setattr(crawler, _ATTRIBUTE, session)
        assert isinstance(session, cls)
        return session

    # --- opening

    @property
    def is_open(self) -> bool:
        """Whether a crawl is under way: open() was called."""
        return self._is_open

    def open(self) -> None:
        """Take the state's folder, connect to the fleet, and make what the components use; once.

        Not in from_crawler: if another component's raises there, or its scheduler's, Scrapy
        sends no signal to say that the crawl is over, and the folder stays locked. Components
        call this from what Scrapy calls later, while it opens the spider. An error there stops
        the crawl like one in from_crawler, but Scrapy sends spider_closed.

        Raises StateLocked, SnapshotError, JournalError, StateError, FleetError, SettingsError.
        """
        if self._is_open:
            return
        self._is_open = True
        self._resources = ExitStack()
        # The callbacks must lead neither to this session nor to the crawler, and run in any thread.
        self._release = weakref.finalize(self, self._resources.close)
        try:
            self._open_resources()
            self._make_collaborators()
            self._lost_requests = LostRequests(self._crawler, self.count)
            self._errbacks = Errbacks(self._crawler, self.lifecycle, self._effects, self.requests)
            self.state.begin()
        except BaseException:
            self._is_open = False
            self._release()
            raise

    def _open_resources(self) -> None:
        settings, crawler = self.settings, self._crawler
        self._fleet = self._join_fleet()
        share = 1 / N_URL_FILTERS if queues_by_us(crawler) else 1.0
        key = settings.key if self._fleet is None else self._fleet.key
        own = is_of_job(self._folder, crawler)
        open_state = partial(
            State.open,
            self._folder,
            make_state_factory(settings, share),
            key=key,
            fsync=settings.fsync,  # type: ignore[arg-type]
            ttl_s=ttl_s(settings),
            as_guest=not own,
        )
        # Two crawls cannot work off one queue: a job's own folder is shared with nobody.
        like = object() if own else (settings, share, key)
        self._hold = hold_state(self._folder, like, open_state)
        self.state = self._hold.state
        self._resources.callback(self._hold.release)
        self._resources.callback(self.recorder.close)
        self._frontier = None
        if self._folder is not None and own:
            self._frontier = open_frontier(self._folder, crawler, self.state)
        if self._frontier is not None:
            self._resources.callback(self._frontier.release)
        self._job = None
        if self._folder is not None and not own and (job := job_dir(crawler.settings)):
            self._job = ForeignJob(Path(job))
            self._resources.callback(self._job.release)
            self.attempt("state", self._job.begin, crawler, self.state)
        self._visits = self._open_visits()

    def _open_visits(self) -> Visits | None:
        """What each URL was when it was read last; None under NEARDUP_RECRAWL="new"."""
        recrawl, crawler = self.settings.recrawl, self._crawler
        if recrawl == "new" or is_inspection(crawler):
            return None
        if self._folder is None:
            raise SettingsError(
                f"NEARDUP_RECRAWL={recrawl!r}: pages are compared with what an earlier crawl "
                "found; set NEARDUP_STATE_DIR or JOBDIR, where that is kept"
            )
        name, is_guest = crawler.spidercls.name, self.state.is_guest
        if self._fleet is not None and is_guest:
            raise SettingsError(
                f"NEARDUP_RECRAWL={recrawl!r}: another crawl has {self._folder}. Give each worker "
                "of a fleet a NEARDUP_STATE_DIR of its own"
            )
        # The crawl whose guest this one is may be of the same spider, and have its run.
        visits = (
            Visits(self._folder, name, self.state.key, goes_on=not is_guest)
            if self._fleet is None
            else self._fleet.take_part(self._folder, name)
        )
        self._resources.callback(visits.close)
        return visits

    def _join_fleet(self) -> FleetWorker | None:
        if self.settings.backend is None or is_inspection(self._crawler):
            return None
        from scrapy_neardup.fleet.worker import FleetWorker  # speaks to a server: for fleets only

        assert self._crawler.stats
        if shares_queue(self._crawler):
            self.advice.queue_is_shared(self._crawler.settings["SCHEDULER"])
        fleet = FleetWorker(self.settings, self._crawler.stats)
        self._resources.callback(fleet.release)
        return fleet

    def _make_collaborators(self) -> None:
        """What the components work with, and who carries out what the lifecycle asks for."""
        crawler, settings, state, fleet = self._crawler, self.settings, self.state, self._fleet
        recorder, attempt, count = self.recorder, self.attempt, self.count
        self.lifecycle = PageLifecycle()
        if state.under_way is not None:
            self.lifecycle.restore(state.under_way)
            state.under_way = None  # another crawl that shares the state has no part in it
        effects = self._effects = Effects(attempt)
        self.learning = self._learn()
        self.delivery = delivery = Delivery(attempt)
        self._feeds = self._wait_for_sinks() if state.store or fleet else None
        self.requests = RequestTracker(
            self.lifecycle, crawler, state.id, self._waits_for_links(), effects
        )
        self.skipping = self._skip()
        self.urls = SeenUrls(
            crawler,
            settings,
            state,
            self.lifecycle,
            recorder,
            fleet,
            self.skipping,
            delivery,
            attempt,
            count,
            self._visits,
        )
        self.disk_queues = None
        if self._frontier is not None:
            asked = self.urls if queues_by_us(crawler) else None
            self.disk_queues = DiskQueues(
                self._frontier, crawler, self.requests, asked, delivery, attempt
            )
            effects.subscribe(LeaseEnded, delivery.after(self._frontier.done))
        if fleet is not None and shares_requests(crawler):
            self.fleet_queue = self._make_fleet_queue(fleet)
            effects.subscribe(LeaseEnded, delivery.after(self.fleet_queue.done))
        self.items = ItemJudge(settings, state, fleet, attempt, count)
        self._resources.callback(self.items.thread.shutdown)
        judge = PageJudge(
            settings,
            state,
            self.lifecycle,
            self._hold.is_shared,
            recorder,
            fleet,
            attempt,
            count,
        )
        if self._visits is not None:
            self.recrawl = Recrawl(
                settings,
                self._visits,
                crawler,
                self.urls,
                judge,
                self.items,
                recorder,
                attempt,
                count,
            )
        self.pages = CrawledPages(
            crawler,
            self.lifecycle,
            effects,
            self.requests,
            judge,
            SoftNotFound(crawler, settings, judge, attempt, count),
            Claims(settings, state, count),
            self.items,
            recorder,
            self.advice,
            delivery,
            self.learning,
            self.skipping,
            attempt,
            count,
            self.recrawl,
        )
        effects.subscribe(RowKept, delivery.after(state.keep))
        effects.subscribe(RowForgotten, state.drop)
        effects.subscribe(RowForgotten, lambda row: count(stats.PAGES_FORGOTTEN))
        effects.subscribe(Completed, self.urls.completed)
        if fleet is not None:
            effects.subscribe(RowKept, delivery.after(fleet.keep))
            effects.subscribe(RowForgotten, fleet.drop)
            effects.subscribe(RowPending, fleet.drop)

    def _make_fleet_queue(self, fleet: FleetWorker) -> FleetQueue:
        from scrapy_neardup.crawl.fleet_queue import FleetQueue  # speaks to a server

        crawler = self._crawler
        memory_queue = load_object(crawler.settings["SCHEDULER_MEMORY_QUEUE"])
        newest_first = not issubclass(memory_queue, FifoMemoryQueue)
        return FleetQueue(
            fleet, crawler, self.requests, self.urls, self.attempt, self.count, newest_first
        )

    def check_shared_queue(self) -> None:
        """Raises SettingsError where no server can hold the queue that workers are to share."""
        if self.settings.backend is None and not is_inspection(self._crawler):
            raise SettingsError(
                f"SCHEDULER={self._crawler.settings['SCHEDULER']} shares its queue on the server "
                f"of NEARDUP_BACKEND, which is not set. Set it, or leave SCHEDULER alone"
            )

    def _wait_for_sinks(self) -> Feeds | None:
        """Let later crawls and other workers know of no page whose items could still be lost."""
        crawler, delivery = self._crawler, self.delivery
        crawler.signals.connect(delivery.hold, signal=items_held)
        crawler.signals.connect(delivery.stored, signal=items_delivered)
        exporter = crawler.get_extension(FeedExporter)
        if exporter is None:
            return None
        return Feeds(
            exporter,
            crawler,
            delivery,
            self.attempt,
            sync=self.settings.fsync == "always",
            # Others wait for the items of a page under way, but no longer than a minute.
            only_local=self._fleet is not None,
        )

    def _learn(self) -> UrlLearning:
        """Crawls that share a state learn together; a guest's rules are not kept."""
        shared, folder = self._hold.shared, self._own_folder()
        is_first = shared.learner is None
        if shared.learner is None:
            shared.learner = Learner(self.settings.learn_error, self._acts())
        key = self.state.key
        learning = UrlLearning(self._crawler, self.settings, folder, key, shared.learner)
        if is_first:
            self.attempt("learn", learning.restore)
        return learning

    def _skip(self) -> UrlSkipping:
        key = self.state.key
        skipped = self.attempt("learn", SkippedRequests, self._own_folder(), key)
        if skipped is None:  # the folder cannot be written
            skipped = SkippedRequests(None, key)
        self._resources.callback(skipped.close)
        return UrlSkipping(
            self._crawler,
            self.learning,
            UrlDeferral(self._crawler, self.settings, self.learning.learner.dry),
            skipped,
            self._acts(),
            self.requests,
            self.recorder,
            self.delivery,
            self.attempt,
            self.count,
        )

    def _acts(self) -> bool:
        """Whether learnt rules skip requests.

        Not in the crawl of a guest, which has no place to keep them, nor while somebody looks at
        single pages.
        """
        is_able = not (self.state.is_guest or is_inspection(self._crawler))
        return self.settings.learn == "act" and is_able

    def _own_folder(self) -> Path | None:
        return None if self.state.store is None or self.state.is_guest else self._folder

    def _waits_for_links(self) -> bool:
        """Whether a crash could cut off what was found on a page that counts as seen.

        Not where nothing outlives the crawl, nor where the queue is shared with other workers:
        what one found there, another may fetch, and this one never learns when it is done.
        """
        if self._fleet is None:
            return self.state.store is not None
        return not shares_queue(self._crawler)

    # --- from the spider's start to its end

    def spider_opened(self, spider: Spider) -> None:
        """Begin to record, to save and to count."""
        try:
            self.open()  # for the one who has the downloader middleware only
        except Exception as error:
            logger.exception("neardup: the crawl cannot start")
            raise CloseSpider("neardup_failed") from error
        detector = self.state.detector
        self.attempt("ledger", self._open_ledger)
        self.attempt("live", self.recorder.open_live_view)
        names = gauges.names(self.settings, detector)
        self._set_stats(names | self._gauges())
        logger.info("neardup: %s", ", ".join(f"{k.split('/', 1)[1]} {v}" for k, v in names.items()))
        self._repeat(self._save, self.settings.snapshot_interval)
        if self.disk_queues is not None:
            self._repeat(self.disk_queues.commit, COMMIT_INTERVAL_S)
        if self.recrawl is not None:
            self._repeat(self.recrawl.flush, FLUSH_INTERVAL_S)
        if self.skipping.acts:
            self._repeat(partial(self.attempt, "learn", self.skipping.sync), SYNC_INTERVAL_S)
        if self._fleet is not None and self.learning.is_on:
            self._exchange_rules()
            self._repeat(self._exchange_rules, EXCHANGE_INTERVAL_S)
        if self._feeds is not None:
            self._feeds.begin()

    def _exchange_rules(self) -> None:
        if self._fleet is not None and self.learning.is_on:
            self.attempt("learn", self.learning.exchange, self._fleet)

    def _open_ledger(self) -> None:
        if self.state.store is not None and not self.state.is_guest:
            shared = self._hold.shared
            self.recorder.open_ledger(self.state.detector, shared.ledger)
            shared.ledger = self.recorder.ledger

    def _repeat(self, action: Callable[[], None], interval_s: float) -> None:
        timer = create_looping_call(action)
        timer.start(interval_s, now=False)
        self._timers.append(timer)

    def _save(self) -> None:
        """Called every NEARDUP_SNAPSHOT_INTERVAL seconds."""
        gauges.warn_of_full_filter(self.urls, self.settings.url_max_mb)
        self.attempt("state", self.state.expire)
        self.attempt("state", self.state.snapshot)
        self.attempt("learn", self.learning.save)
        self._set_stats(self._gauges())

    def refresh_gauges(self) -> None:
        """Let the stats tell the sizes as they are now."""
        self.attempt("state", lambda: self._set_stats(self._gauges()))

    def _gauges(self) -> dict[str, object]:
        sizes = gauges.sizes(self.state, self.urls, self.lifecycle, self.delivery)
        sizes |= self.learning.gauges()
        if self.skipping.acts:
            sizes[stats.URLS_DEFERRED] = self.skipping.n_deferred
        if n_foreign := self.skipping.n_foreign:
            sizes[stats.LEARN_FOREIGN] = n_foreign
        fleet = self._fleet.counts() if self._fleet is not None else {}
        return sizes | fleet | gauges.losses(self.state, self._frontier, self.recorder.ledger)

    def _set_stats(self, values: dict[str, object]) -> None:
        assert self._crawler.stats
        for key, value in values.items():
            self._crawler.stats.set_value(key, value)

    async def spider_closed(self, reason: str) -> None:
        """The last pipeline is closed. Scrapy closes the feeds at the same signal, and waits."""
        self._reason = reason
        if self._is_open and (self._feeds is None or self._feeds.are_closed):
            await self._close()

    async def feeds_closed(self) -> None:
        """Scrapy has closed the feeds, before or after our spider_closed()."""
        if not self._is_open or self._feeds is None:
            return
        self._feeds.close()
        if self._reason is not None:
            await self._close()

    async def _close(self) -> None:
        try:
            self._save_and_report()
        finally:
            if self.fleet_queue is not None:
                self.fleet_queue.leave(self._reason == "finished")
            if self._fleet is not None:  # it may be slow, but not long
                await self._fleet.close()

    def _save_and_report(self) -> None:
        """Save everything, give everything back, say how it went."""
        for timer in self._timers:
            if timer.running:
                timer.stop()
        gauges.warn_of_full_filter(self.urls, self.settings.url_max_mb)
        gauges.warn_of_hot_bucket(self.state.detector.index, self.settings.scan_limit)
        self.recorder.close()
        self.attempt("learn", self.learning.catch_up)
        self._exchange_rules()
        self.attempt("learn", self.learning.save)
        self.attempt("learn", self.skipping.sync)
        under_way = self.lifecycle.arrays() if self._keeps_queue() else None
        if self.disk_queues is not None:
            self.attempt("frontier", self.disk_queues.close)
        # Pages whose items were not stored have to be found again, as after a crash, and so has
        # what a queue of Scrapy's lost.
        cleanly = not self.delivery and not self._lost_requests.n
        if self._job is not None:
            self.attempt("state", self._job.end, cleanly)
            self._job.release()
        if self.recrawl is not None:
            goes_on = self._goes_on() or self._leaves_requests()
            found = self.attempt("recrawl", self.recrawl.close, self._reason, goes_on)
            self._set_stats(dict(found or {}))
        if self._visits is not None:
            self._visits.close()
        if self._hold.is_shared():
            self.attempt("state", self._forget_unkept)
        self.attempt("state", self._hold.close, under_way, cleanly)
        self._set_stats(self._gauges() | gauges.engine_report(self.state.detector.engine))
        assert self._crawler.stats
        counts = self._crawler.stats.get_stats()
        logger.info("neardup stats:\n%s", stats.table(counts))
        self.attempt("advice", self.advice.closed, counts, self.items.only_difference)

    def _forget_unkept(self) -> None:
        """Let no page of another crawl count as the copy of one of which no item was kept."""
        for row in self.lifecycle.unkept():
            self.state.drop(row)

    def _keeps_queue(self) -> bool:
        """Whether Scrapy's queue goes on waiting for pages that the next crawl has to know."""
        return self._goes_on() and self.disk_queues is None

    def _leaves_requests(self) -> bool:
        """Whether other workers, or the next ones, have what waits on the fleet's server."""
        return self.fleet_queue is not None and self._reason != "finished"

    def _goes_on(self) -> bool:
        """Whether the next crawl has this one's queue of requests."""
        return job_dir(self._crawler.settings) is not None and self._reason != "finished"


def shares_queue(crawler: Crawler) -> bool:
    """Whether the scheduler is not Scrapy's, as those are that share a queue between workers."""
    # Not issubclass(): to Scrapy, whatever has a scheduler's methods is a subclass.
    return Scheduler not in load_object(crawler.settings["SCHEDULER"]).__mro__


def queues_by_us(crawler: Crawler) -> bool:
    """Whether the crawl's dupefilter asks us which URLs were queued."""
    dupefilter = load_object(crawler.settings["DUPEFILTER_CLASS"])
    return getattr(dupefilter, "asks_session", False)

"""One crawl's session: what its components share, from the crawl's start to its end."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.utils.asyncio import AsyncioLoopingCall, create_looping_call
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.job import job_dir

from scrapy_neardup import stats
from scrapy_neardup.crawl import garbage, gauges
from scrapy_neardup.crawl.advice import Advice, warn_of_known_lists
from scrapy_neardup.crawl.assembly import Assembly
from scrapy_neardup.crawl.configured import (
    has_fleet_scheduler,
    has_foreign_scheduler,
    is_inspection,
    joins_fleet,
)
from scrapy_neardup.crawl.counts import Counts
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.items.failed_files import FailedFiles
from scrapy_neardup.crawl.items.store_refusals import watch_store
from scrapy_neardup.crawl.items.stored_files import media_pipelines
from scrapy_neardup.crawl.jobdir import state_folder
from scrapy_neardup.crawl.learning.url_learning import EXCHANGE_INTERVAL_S
from scrapy_neardup.crawl.learning.url_skipping import SYNC_INTERVAL_S, UrlSkipping
from scrapy_neardup.crawl.pages.crawled_pages import CrawledPages
from scrapy_neardup.crawl.queues.disk_queues import COMMIT_INTERVAL_S, DiskQueues
from scrapy_neardup.crawl.queues.queue_mark import NOTE_INTERVAL_S, QueueMark
from scrapy_neardup.crawl.queues.scrapy_redis import refuse_to_forget_requests
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.recrawl.recrawl import FLUSH_INTERVAL_S, Recrawl
from scrapy_neardup.crawl.requests.request_tracker import RequestTracker
from scrapy_neardup.crawl.requests.seen_urls import SeenUrls
from scrapy_neardup.crawl.resources import Resources
from scrapy_neardup.errors import FleetError, NearDupError, SettingsError
from scrapy_neardup.settings import NearDupSettings

if TYPE_CHECKING:
    from twisted.internet.task import LoopingCall

    from scrapy_neardup.crawl.queues.fleet_queue import FleetQueue
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
    skipping  what learnt rules skip
    recrawl   compares pages with their earlier selves, under NEARDUP_RECRAWL

    A crawl that is cut off without a signal gives back lock, threads, files and sockets when
    its crawler is garbage, or the process ends.
    """

    urls: SeenUrls
    requests: RequestTracker
    pages: CrawledPages
    files: FailedFiles
    skipping: UrlSkipping
    disk_queues: DiskQueues | None
    fleet_queue: FleetQueue | None = None
    recrawl: Recrawl | None = None

    def __init__(self, crawler: Crawler) -> None:
        """Checks the settings. Raises NotConfigured, SettingsError."""
        self.settings = NearDupSettings.from_settings(crawler.settings)
        if not self.settings.enabled:
            raise NotConfigured("NEARDUP_ENABLED is False")
        garbage.collect_frozen()
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
        the crawl like one in from_crawler, but Scrapy sends spider_closed. One of ours is logged.

        Raises StateLocked, SnapshotError, JournalError, StateError, FleetError, SettingsError.
        """
        if self._is_open:
            return
        self._is_open = True
        self._resources = Resources()
        self._release = weakref.finalize(self, self._resources.close)
        try:
            self._open_resources()
            self._assemble()
            self.state.begin(self._crawler.spidercls.name or "")
        except BaseException as error:
            self._is_open = False
            self._release()
            if isinstance(error, NearDupError):
                # Scrapy logs it last, behind what fails because no component was opened.
                logger.error("neardup: the crawl cannot start: %s", error)
            raise

    def _open_resources(self) -> None:
        settings, crawler, resources = self.settings, self._crawler, self._resources
        if has_fleet_scheduler(crawler):
            self._check_shared_queue()
        if joins_fleet(settings, crawler) and has_foreign_scheduler(crawler):
            self.advice.queue_is_shared(crawler.settings["SCHEDULER"])
        resources.open(settings, crawler, self._folder, self.recorder, self.attempt)
        self.state, self._fleet = resources.hold.state, resources.fleet
        self._queue_mark = self._checked_mark()

    def _check_shared_queue(self) -> None:
        """Raise SettingsError where no server can hold the queue that workers are to share."""
        if self.settings.backend is None and not is_inspection(self._crawler):
            raise SettingsError(
                f"SCHEDULER={self._crawler.settings['SCHEDULER']} shares its queue on the server "
                f"of NEARDUP_BACKEND, which is not set. Set it, or leave SCHEDULER alone"
            )
        refuse_to_forget_requests(self._crawler)

    def _assemble(self) -> None:
        self._parts = parts = Assembly(
            self._crawler,
            self.settings,
            self._folder,
            self._resources,
            self.recorder,
            self.advice,
            self.count,
            self.attempt,
        )
        self.urls, self.requests, self.pages = parts.urls, parts.requests, parts.pages
        self.files = parts.files
        self.skipping, self.recrawl = parts.skipping, parts.recrawl
        self.disk_queues, self.fleet_queue = parts.disk_queues, parts.fleet_queue

    def _checked_mark(self) -> QueueMark | None:
        """What the folder says of a fleet's queue. Raises SettingsError where that is not there.

        Under NEARDUP_RECRAWL a folder hides no page.
        """
        if self._folder is None or self._resources.visits is not None:
            return None
        mark, fleet = QueueMark(self._folder), self._fleet
        shares = fleet is not None and has_fleet_scheduler(self._crawler)
        if fleet is None or not shares:
            mark.check(None, is_alone=True)
            return None
        if self.state.is_guest:
            raise SettingsError(
                f"another process has {self._folder.parent}, and a worker with FleetScheduler "
                f"needs a folder of its own, which notes whether its requests are still on the "
                f"server. Set another NEARDUP_STATE_DIR for each worker, or none"
            )
        mark.check(fleet.epoch)
        if fleet.epoch is not None:
            frontier = fleet.frontier(self._crawler.spidercls.name or "")
            try:
                mark.check_number(lambda name, number: frontier.note(name, number).result())
            except FleetError:  # it answered a moment ago
                mark.check(None)
        return mark

    # --- from the spider's start to its end

    def spider_opened(self, spider: Spider) -> None:
        """Begin to record, to save and to count."""
        try:
            self.open()  # for the one who has the downloader middleware only
        except NearDupError as error:
            raise CloseSpider("neardup_failed") from error
        except Exception as error:
            logger.exception("neardup: the crawl cannot start")
            raise CloseSpider("neardup_failed") from error
        detector = self.state.detector
        for pipeline in media_pipelines(self._crawler):
            self.attempt("files", watch_store, pipeline, self.files)
        self.attempt("ledger", self._open_ledger)
        self.attempt("live", self.recorder.open_live_view)
        names = gauges.names(self.settings, detector)
        self._set_stats(names | self._gauges())
        logger.info("neardup: %s", ", ".join(f"{k.split('/', 1)[1]} {v}" for k, v in names.items()))
        self.attempt("advice", gauges.warn_of_kept_error_rate, self.urls, self.settings)
        self._repeat(self._save, self.settings.snapshot_interval)
        if self.disk_queues is not None:
            self._repeat(self.disk_queues.commit, COMMIT_INTERVAL_S)
        if self._queue_mark is not None:
            self._begin_to_note_queue()
            self._repeat(self._begin_to_note_queue, NOTE_INTERVAL_S)
        if self.recrawl is not None:
            self._repeat(self.recrawl.flush, FLUSH_INTERVAL_S)
        if self.skipping.acts:
            self._repeat(partial(self.attempt, "learn", self.skipping.sync), SYNC_INTERVAL_S)
        self._exchange_rules()
        if self._fleet is not None and self._parts.learning.is_on:
            self._repeat(self._exchange_rules, EXCHANGE_INTERVAL_S)
        if self._parts.feeds is not None:
            self._parts.feeds.begin()
        garbage.freeze()  # last: what was made until now stays

    def _exchange_rules(self) -> None:
        if self._fleet is not None and self._parts.learning.is_on:
            self.attempt("learn", self._parts.learning.exchange, self._fleet)

    def _open_ledger(self) -> None:
        if self.state.store is not None and not self.state.is_guest:
            shared = self._resources.hold.shared
            self.recorder.open_ledger(self.state.detector, shared.ledger)
            shared.ledger = self.recorder.ledger

    def _repeat(self, action: Callable[[], None], interval_s: float) -> None:
        timer = create_looping_call(action)
        timer.start(interval_s, now=False)
        self._timers.append(timer)

    def _save(self) -> None:
        """Called every NEARDUP_SNAPSHOT_INTERVAL seconds."""
        self._warn_of_full_filter()
        self.attempt("state", self.state.expire)
        self.attempt("state", self.state.snapshot)
        self.attempt("learn", self._parts.learning.save)
        self.refresh_gauges()

    def _begin_to_note_queue(self) -> None:
        deferred_from_coro(self._note_queue())

    async def _note_queue(self) -> None:
        """Let the fleet's server and the folder note how far the crawl is."""
        mark, fleet = self._queue_mark, self._fleet
        if mark is None or self.fleet_queue is None or fleet is None or fleet.epoch is None:
            return
        try:
            mark.begin(self._crawler.spidercls.name or "", fleet.epoch)
            await self.fleet_queue.note(mark)
        except OSError:
            self.attempt.failed("state")

    def _warn_of_full_filter(self) -> None:
        self.attempt("advice", gauges.warn_of_full_filter, self.urls, self.settings.url_max_mb)

    def refresh_gauges(self) -> None:
        """Let the stats tell the sizes as they are now."""
        self.attempt("state", lambda: self._set_stats(self._gauges()))

    def _gauges(self) -> dict[str, object]:
        sizes = gauges.sizes(self.state, self.urls, self._parts.lifecycle, self._parts.delivery)
        sizes |= self._parts.learning.gauges()
        if self.skipping.acts:
            sizes[stats.URLS_DEFERRED] = self.skipping.n_deferred
        if n_foreign := self.skipping.n_foreign:
            sizes[stats.LEARN_FOREIGN] = n_foreign
        fleet = self._fleet.counts() if self._fleet is not None else {}
        losses = gauges.losses(self.state, self._resources.frontier, self.recorder.ledger)
        return sizes | fleet | losses

    def _set_stats(self, values: dict[str, object]) -> None:
        assert self._crawler.stats
        for key, value in values.items():
            self._crawler.stats.set_value(key, value)

    async def spider_closed(self, reason: str) -> None:
        """The last pipeline is closed. Scrapy closes the feeds at the same signal, and waits."""
        self._reason = reason
        garbage.unfreeze()
        if self._is_open and (self._parts.feeds is None or self._parts.feeds.are_closed):
            await self._close()

    async def feeds_closed(self) -> None:
        """Scrapy has closed the feeds, before or after our spider_closed()."""
        if not self._is_open or self._parts.feeds is None:
            return
        self._parts.feeds.close()
        if self._reason is not None:
            await self._close()

    async def _close(self) -> None:
        try:
            await self._note_queue()  # while the folder is ours
            self._save_and_report()
        finally:
            if self._parts.start_messages is not None:
                self._parts.start_messages.close()
            if self.fleet_queue is not None:
                self.fleet_queue.leave(self._reason == "finished")
            if self._fleet is not None:  # it may be slow, but not long
                await self._mark_unlinked(self._fleet)
                await self._fleet.close()
            self.attempt("state", self._release)

    async def _mark_unlinked(self, fleet: FleetWorker) -> None:
        try:
            await fleet.mark_unlinked()
        except Exception:
            self.attempt.failed("recrawl")

    def _save_and_report(self) -> None:
        """Save everything, give everything back, say how it went."""
        for timer in self._timers:
            if timer.running:
                timer.stop()
        self._warn_of_full_filter()
        index, scan_limit = self.state.detector.index, self.settings.scan_limit
        self.attempt("advice", gauges.warn_of_hot_bucket, index, scan_limit)
        self.attempt("live", self.recorder.close)
        self._save_learnt()
        under_way = self._parts.lifecycle.arrays() if self._keeps_queue() else None
        if self.disk_queues is not None:
            self.attempt("frontier", self.disk_queues.close)
        # Pages whose items were not stored have to be found again, as after a crash, and so has
        # what a queue of Scrapy's lost.
        cleanly = not self._parts.delivery and not self._parts.lost_requests.n
        self.attempt("state", self._mark_queue)
        self._end_job(cleanly)
        self._close_visits()
        if self._resources.hold.is_shared():
            self.attempt("state", self._forget_unkept)
        self.attempt("state", self._resources.hold.close, under_way, cleanly)
        self._report()

    def _save_learnt(self) -> None:
        self.attempt("learn", self._parts.learning.catch_up)
        self._exchange_rules()
        self.attempt("learn", self._parts.learning.save)
        self.attempt("learn", self.skipping.sync)

    def _mark_queue(self) -> None:
        """Note in the folder whether requests are left in the fleet's queue, or were lost there."""
        mark, queue = self._queue_mark, self.fleet_queue
        if mark is None or queue is None:
            return
        spider = self._crawler.spidercls.name or ""
        if queue.has_forgotten:
            mark.lost(spider)
        elif self._reason == "finished" and not queue.n_left:
            mark.remove(spider)

    def _end_job(self, cleanly: bool) -> None:
        job = self._resources.job
        if job is not None:
            self.attempt("state", job.end, cleanly)
            job.release()

    def _close_visits(self) -> None:
        if self.recrawl is not None:
            goes_on = self._goes_on() or self._leaves_requests()
            found = self.attempt("recrawl", self.recrawl.close, self._reason, goes_on)
            self._set_stats(dict(found or {}))
        if self._resources.visits is not None:
            self.attempt("recrawl", self._resources.visits.close)

    def _report(self) -> None:
        """Set the last stats and log them, with advice."""
        self.refresh_gauges()
        told = self.attempt("engine", gauges.engine_report, self.state.detector.engine)
        self._set_stats(told or {})
        assert self._crawler.stats
        counts = self._crawler.stats.get_stats()
        logger.info("neardup stats:\n%s", stats.table(counts))
        if self._fleet is not None and self.fleet_queue is None and self.settings.recrawl == "new":
            self.attempt("advice", warn_of_known_lists, counts)
        self.attempt(
            "advice",
            self.advice.closed,
            counts,
            self._parts.items.only_difference,
            self.skipping.n_saved,
        )

    def _forget_unkept(self) -> None:
        """Let no page of another crawl count as the copy of one of which no item was kept."""
        for row in self._parts.lifecycle.unkept():
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

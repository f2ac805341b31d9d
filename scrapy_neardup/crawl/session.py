"""One crawl's session: what its components share, from the crawl's start to its end."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.extensions.feedexport import FeedExporter
from scrapy.utils.asyncio import AsyncioLoopingCall, create_looping_call
from scrapy.utils.job import job_dir

from scrapy_neardup import stats
from scrapy_neardup.crawl import garbage, gauges, output_tasks
from scrapy_neardup.crawl.advice import Advice
from scrapy_neardup.crawl.configured import (
    has_fleet_scheduler,
    has_foreign_scheduler,
    has_our_dupefilter,
    is_inspection,
    joins_fleet,
)
from scrapy_neardup.crawl.counts import Counts
from scrapy_neardup.crawl.delivery import Delivery
from scrapy_neardup.crawl.effects import Effects
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.feeds import Feeds
from scrapy_neardup.crawl.items.item_fields import media_fields
from scrapy_neardup.crawl.items.item_judge import ItemJudge
from scrapy_neardup.crawl.jobdir import state_folder
from scrapy_neardup.crawl.learning.url_deferral import UrlDeferral
from scrapy_neardup.crawl.learning.url_learning import EXCHANGE_INTERVAL_S, UrlLearning
from scrapy_neardup.crawl.learning.url_skipping import SYNC_INTERVAL_S, UrlSkipping
from scrapy_neardup.crawl.pages.claims import Claims
from scrapy_neardup.crawl.pages.crawled_pages import CrawledPages
from scrapy_neardup.crawl.pages.judge import PageJudge
from scrapy_neardup.crawl.pages.page_lifecycle import (
    Completed,
    LeaseEnded,
    PageLifecycle,
    RowForgotten,
    RowKept,
    RowKeptInPart,
    RowPending,
)
from scrapy_neardup.crawl.pages.soft_404 import SoftNotFound
from scrapy_neardup.crawl.queues.disk_queues import COMMIT_INTERVAL_S, DiskQueues
from scrapy_neardup.crawl.queues.failed_requests import FailedRequests
from scrapy_neardup.crawl.queues.lost_requests import LostRequests
from scrapy_neardup.crawl.queues.queue_mark import QueueMark
from scrapy_neardup.crawl.queues.scrapy_redis import (
    is_oldest_first,
    refuse_to_forget_requests,
    refuse_to_leave_queue,
    takes_messages,
    takes_them_its_own_way,
)
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.recrawl.recrawl import FLUSH_INTERVAL_S, Recrawl
from scrapy_neardup.crawl.requests.errbacks import Errbacks
from scrapy_neardup.crawl.requests.request_tracker import RequestTracker
from scrapy_neardup.crawl.requests.seen_urls import SeenUrls
from scrapy_neardup.crawl.resources import Resources
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.learn.learner import Learner
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.signals import items_delivered, items_held
from scrapy_neardup.state.skipped import SkippedRequests

if TYPE_CHECKING:
    from twisted.internet.task import LoopingCall

    from scrapy_neardup.crawl.queues.fleet_queue import FleetQueue
    from scrapy_neardup.crawl.queues.start_messages import StartMessages
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
    start_messages  start URLs of scrapy-redis's spiders, in a fleet that loses no requests
    recrawl   compares pages with their earlier selves, under NEARDUP_RECRAWL

    A crawl that is cut off without a signal gives back lock, threads, files and sockets when
    its crawler is garbage, or the process ends.
    """

    urls: SeenUrls
    requests: RequestTracker
    pages: CrawledPages
    disk_queues: DiskQueues | None
    fleet_queue: FleetQueue | None = None
    start_messages: StartMessages | None = None
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
        the crawl like one in from_crawler, but Scrapy sends spider_closed.

        Raises StateLocked, SnapshotError, JournalError, StateError, FleetError, SettingsError.
        """
        if self._is_open:
            return
        self._is_open = True
        self._resources = Resources()
        self._release = weakref.finalize(self, self._resources.close)
        try:
            self._open_resources()
            self._make_collaborators()
            self._carry_out_effects()
            self.state.begin()
        except BaseException:
            self._is_open = False
            self._release()
            raise

    def _open_resources(self) -> None:
        settings, crawler, resources = self.settings, self._crawler, self._resources
        if joins_fleet(settings, crawler) and has_foreign_scheduler(crawler):
            self.advice.queue_is_shared(crawler.settings["SCHEDULER"])
        resources.open(settings, crawler, self._folder, self.recorder, self.attempt)
        self.state, self._fleet = resources.hold.state, resources.fleet
        self._queue_mark = self._checked_mark()

    def _checked_mark(self) -> QueueMark | None:
        """What the folder says of a fleet's queue. Raises SettingsError where that is not there.

        Under NEARDUP_RECRAWL a folder hides no page.
        """
        if self._folder is None or self._resources.visits is not None:
            return None
        mark, fleet = QueueMark(self._folder), self._fleet
        shares = fleet is not None and has_fleet_scheduler(self._crawler)
        if fleet is None or not shares:
            mark.check(None)
        elif fleet.epoch is not None:  # the server answered
            mark.check(fleet.epoch)
            if not self.state.is_guest:
                mark.set(self._crawler.spidercls.name or "", fleet.epoch)
        return mark if shares and not self.state.is_guest else None

    def _make_collaborators(self) -> None:
        """What the components work with, each after those that it needs."""
        self.lifecycle = self._resumed_lifecycle()
        self._effects = Effects(self.attempt)
        self.learning = self._make_learning()
        self.delivery = Delivery(self.attempt)
        self._feeds = self._wait_for_sinks() if self.state.store or self._fleet else None
        self.requests = self._make_request_tracker()
        self.skipping = self._make_skipping()
        self.urls = self._make_seen_urls()
        self.disk_queues = self._make_disk_queues()
        self.fleet_queue = self._make_fleet_queue()
        self.start_messages = self._make_start_messages()
        self.items = self._make_item_judge()
        judge = self._make_page_judge()
        self.recrawl = self._make_recrawl(judge)
        self.pages = self._make_pages(judge)
        self._lost_requests = LostRequests(self._crawler, self.count)
        self._errbacks = self._make_errbacks()
        output_tasks.make_on_demand(self._crawler)

    def _carry_out_effects(self) -> None:
        """Let the state, the fleet and the URL question do what the lifecycle asks for.

        Subscribers of one effect are called in this order, those that made themselves
        subscribers, such as the pages, before them.
        """
        subscribe, after = self._effects.subscribe, self.delivery.after
        state, fleet = self.state, self._fleet
        subscribe(RowKept, after(state.keep))
        subscribe(RowKeptInPart, after(state.keep))
        subscribe(RowForgotten, self._row_forgotten)
        subscribe(Completed, self.urls.completed)
        if fleet is not None:
            subscribe(RowKept, after(fleet.pages.keep))
            by_data = self.settings.compare == "item"
            subscribe(RowKeptInPart, after(fleet.pages.keep) if by_data else fleet.pages.drop)
            subscribe(RowForgotten, fleet.pages.drop)
            subscribe(RowPending, fleet.pages.drop)
        subscribe(LeaseEnded, after(self._lease_ended))

    def _row_forgotten(self, row: int) -> None:
        """Nothing counts as the copy of a page any more, if it is its row."""
        if self.state.drop(row):
            self.count(stats.PAGES_FORGOTTEN)

    def _lease_ended(self, lease: int) -> None:
        """All that a request led to is done: who keeps it need not any more."""
        if self.start_messages is not None and self.start_messages.has(lease):
            self.start_messages.done(lease)
            return
        for queue in (self._resources.frontier, self.fleet_queue):
            if queue is not None:
                queue.done(lease)

    def _resumed_lifecycle(self) -> PageLifecycle:
        lifecycle, state = PageLifecycle(), self.state
        if state.under_way is not None:
            lifecycle.restore(state.under_way)
            state.under_way = None  # another crawl that shares the state has no part in it
        return lifecycle

    def _make_learning(self) -> UrlLearning:
        """Crawls that share a state learn together; a guest's rules are not kept."""
        shared, folder = self._resources.hold.shared, self._own_folder()
        is_first = shared.learner is None
        if shared.learner is None:
            shared.learner = Learner(self.settings.learn_error, self._acts())
        key = self.state.key
        learning = UrlLearning(self._crawler, self.settings, folder, key, shared.learner)
        if is_first:
            self.attempt("learn", learning.restore)
        return learning

    def _acts(self) -> bool:
        """Whether learnt rules skip requests.

        Not in the crawl of a guest, which has no place to keep them, nor while somebody looks at
        single pages, nor in a worker that would take them from a shared queue into its memory.
        """
        if self.settings.learn != "act" or is_inspection(self._crawler):
            return False
        has_place = self._own_folder() is not None or not has_fleet_scheduler(self._crawler)
        return has_place and not self.state.is_guest

    def _own_folder(self) -> Path | None:
        return None if self.state.store is None or self.state.is_guest else self._folder

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

    def _make_request_tracker(self) -> RequestTracker:
        return RequestTracker(
            self.lifecycle,
            self._crawler,
            self.state.id,
            self._waits_for_links(),
            self._effects,
            FailedRequests(self._crawler),
        )

    def _waits_for_links(self) -> bool:
        """Whether a crash could cut off what was found on a page that counts as seen.

        Not where nothing outlives the crawl, nor where the queue is shared with other workers:
        what one found there, another may fetch, and this one never learns when it is done.
        """
        if self._fleet is None:
            return self.state.store is not None
        return not has_foreign_scheduler(self._crawler)

    def _make_skipping(self) -> UrlSkipping:
        key = self.state.key
        is_worker = self._fleet is not None and not self.state.is_guest
        if self.settings.learn == "act" and is_worker and not self._acts():
            self.advice.only_watches()
        skipped = self.attempt("learn", SkippedRequests, self._own_folder(), key)
        if skipped is None:  # the folder cannot be written
            skipped = SkippedRequests(None, key)
        self._resources.on_close(skipped.close)
        return UrlSkipping(
            self._crawler,
            self.learning,
            UrlDeferral(self._crawler, self.settings, self.learning.learner),
            skipped,
            self._acts(),
            self.requests,
            self.recorder,
            self.delivery,
            self.attempt,
            self.count,
        )

    def _make_seen_urls(self) -> SeenUrls:
        return SeenUrls(
            self._crawler,
            self.settings,
            self.state,
            self.lifecycle,
            self.recorder,
            self._fleet,
            self.skipping,
            self.delivery,
            self.attempt,
            self.count,
            self._resources.visits,
        )

    def _make_disk_queues(self) -> DiskQueues | None:
        crawler, frontier = self._crawler, self._resources.frontier
        if frontier is None:
            return None
        asked = self.urls if has_our_dupefilter(crawler) else None
        return DiskQueues(
            frontier, self.state, crawler, self.requests, asked, self.delivery, self.attempt
        )

    def _make_fleet_queue(self) -> FleetQueue | None:
        crawler, fleet = self._crawler, self._fleet
        if fleet is None:
            return None
        from scrapy_neardup.crawl.queues.fleet_queue import FleetQueue, refuse_to_leave

        if not has_fleet_scheduler(crawler):
            name = crawler.spidercls.name or ""
            refuse_to_leave(fleet.frontier(name), name)
            if self._resources.frontier is not None and self._folder is not None:
                self.advice.queue_is_elsewhere(self._folder.parent)
            return None
        return FleetQueue(
            fleet,
            crawler,
            self.requests,
            self.urls,
            self.attempt,
            self.count,
            newest_first=not is_oldest_first(crawler),
        )

    def _make_start_messages(self) -> StartMessages | None:
        fleet = self._fleet
        spider: Any = self._crawler.spider  # of scrapy-redis, which has no types
        if fleet is None or has_foreign_scheduler(self._crawler):
            return None
        if not takes_messages(spider):
            return None
        if takes_them_its_own_way(spider):
            self.advice.start_urls_are_taken(type(spider).__name__)
            return None
        from scrapy_neardup.crawl.queues.start_messages import StartMessages

        messages = StartMessages(
            spider, fleet, self.requests, self.lifecycle, self._effects, self.attempt, self.count
        )
        if self.fleet_queue is not None:
            refuse_to_leave_queue(spider, self.attempt)
            self.fleet_queue.feed = spider.schedule_next_requests
        return messages

    def _make_item_judge(self) -> ItemJudge:
        media = media_fields(self._crawler.settings)
        items = ItemJudge(self.settings, media, self.state, self._fleet, self.attempt, self.count)
        self._resources.on_close(items.thread.shutdown)
        return items

    def _make_page_judge(self) -> PageJudge:
        return PageJudge(
            self.settings,
            self.state,
            self.lifecycle,
            self._resources.hold.is_shared,
            self.recorder,
            self._fleet,
            self.attempt,
            self.count,
        )

    def _make_recrawl(self, judge: PageJudge) -> Recrawl | None:
        visits = self._resources.visits
        if visits is None:
            return None
        return Recrawl(
            self.settings,
            visits,
            self._crawler,
            self.urls,
            judge,
            self.items,
            self.recorder,
            self.attempt,
            self.count,
        )

    def _make_pages(self, judge: PageJudge) -> CrawledPages:
        return CrawledPages(
            self._crawler,
            self.lifecycle,
            self._effects,
            self.requests,
            judge,
            SoftNotFound(self._crawler, self.settings, judge, self.attempt, self.count),
            Claims(self.settings, self.state, self.count),
            self.items,
            self.recorder,
            self.advice,
            self.delivery,
            self.learning,
            self.skipping,
            self.attempt,
            self.count,
            self.recrawl,
        )

    def _make_errbacks(self) -> Errbacks:
        parts = self._crawler, self.lifecycle, self._effects, self.requests
        if (recrawl := self.recrawl) is None:
            return Errbacks(*parts)
        kept = self.delivery.after(recrawl.told_otherwise)
        return Errbacks(*parts, kept, recrawl.unread)

    def check_shared_queue(self) -> None:
        """Raises SettingsError where no server can hold the queue that workers are to share."""
        if self.settings.backend is None and not is_inspection(self._crawler):
            raise SettingsError(
                f"SCHEDULER={self._crawler.settings['SCHEDULER']} shares its queue on the server "
                f"of NEARDUP_BACKEND, which is not set. Set it, or leave SCHEDULER alone"
            )
        refuse_to_forget_requests(self._crawler)

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
        self._exchange_rules()
        if self._fleet is not None and self.learning.is_on:
            self._repeat(self._exchange_rules, EXCHANGE_INTERVAL_S)
        if self._feeds is not None:
            self._feeds.begin()
        garbage.freeze()  # last: what was made until now stays

    def _exchange_rules(self) -> None:
        if self._fleet is not None and self.learning.is_on:
            self.attempt("learn", self.learning.exchange, self._fleet)

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
        self.attempt("learn", self.learning.save)
        self.refresh_gauges()

    def _warn_of_full_filter(self) -> None:
        self.attempt("advice", gauges.warn_of_full_filter, self.urls, self.settings.url_max_mb)

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
            if self.start_messages is not None:
                self.start_messages.close()
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
        under_way = self.lifecycle.arrays() if self._keeps_queue() else None
        if self.disk_queues is not None:
            self.attempt("frontier", self.disk_queues.close)
        # Pages whose items were not stored have to be found again, as after a crash, and so has
        # what a queue of Scrapy's lost.
        cleanly = not self.delivery and not self._lost_requests.n
        self.attempt("state", self._mark_queue)
        self._end_job(cleanly)
        self._close_visits()
        if self._resources.hold.is_shared():
            self.attempt("state", self._forget_unkept)
        self.attempt("state", self._resources.hold.close, under_way, cleanly)
        self._report()

    def _save_learnt(self) -> None:
        self.attempt("learn", self.learning.catch_up)
        self._exchange_rules()
        self.attempt("learn", self.learning.save)
        self.attempt("learn", self.skipping.sync)

    def _mark_queue(self) -> None:
        """Note in the folder whether requests are left in the fleet's queue, or were lost there."""
        mark, queue = self._queue_mark, self.fleet_queue
        if mark is None or queue is None:
            return
        spider = self._crawler.spidercls.name or ""
        if queue.has_forgotten:
            mark.set(spider, None)
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
        self.attempt(
            "advice", self.advice.closed, counts, self.items.only_difference, self.skipping.n_saved
        )

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

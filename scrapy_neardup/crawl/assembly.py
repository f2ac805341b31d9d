"""What the components of a crawl work with: made when its session opens, in the order of need."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FeedExporter

from scrapy_neardup import stats
from scrapy_neardup.crawl import output_tasks
from scrapy_neardup.crawl.advice import Advice
from scrapy_neardup.crawl.configured import (
    has_fleet_scheduler,
    has_foreign_scheduler,
    has_our_dupefilter,
    is_inspection,
)
from scrapy_neardup.crawl.counts import Counts
from scrapy_neardup.crawl.delivery import Delivery
from scrapy_neardup.crawl.effects import Effects
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.feeds import Feeds
from scrapy_neardup.crawl.items.failed_files import FailedFiles
from scrapy_neardup.crawl.items.item_fields import media_fields
from scrapy_neardup.crawl.items.item_judge import ItemJudge
from scrapy_neardup.crawl.learning.url_deferral import UrlDeferral
from scrapy_neardup.crawl.learning.url_learning import UrlLearning
from scrapy_neardup.crawl.learning.url_skipping import UrlSkipping
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
from scrapy_neardup.crawl.queues.disk_queues import DiskQueues
from scrapy_neardup.crawl.queues.failed_requests import FailedRequests
from scrapy_neardup.crawl.queues.lost_requests import LostRequests
from scrapy_neardup.crawl.queues.scrapy_redis import (
    is_oldest_first,
    refuse_to_leave_queue,
    takes_messages,
    takes_them_its_own_way,
)
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.recrawl.recrawl import Recrawl
from scrapy_neardup.crawl.requests.errbacks import Errbacks
from scrapy_neardup.crawl.requests.request_tracker import RequestTracker
from scrapy_neardup.crawl.requests.seen_urls import SeenUrls
from scrapy_neardup.crawl.resources import Resources
from scrapy_neardup.learn.learner import Learner
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.signals import items_delivered, items_held
from scrapy_neardup.state.skipped import SkippedRequests

if TYPE_CHECKING:
    from scrapy_neardup.crawl.queues.fleet_queue import FleetQueue
    from scrapy_neardup.crawl.queues.start_messages import StartMessages


class Assembly:
    """Makes the parts of a crawl, and lets them carry out what the lifecycle asks for.

    lifecycle  the states of pages
    learning   what the crawl learns about URLs
    skipping   what learnt rules skip
    delivery   what waits until items are stored
    feeds      the feed exports, where later crawls or other workers wait for them
    urls       the URL question
    requests   which page each request was found on
    items      compares items with those of other pages
    files      files of items that could not be downloaded
    pages      pages on their way through the spider and the pipelines
    recrawl    compares pages with their earlier selves, under NEARDUP_RECRAWL
    disk_queues     the frontier, where the crawl's queue is ours
    fleet_queue     the queue that the workers share, under FleetScheduler
    start_messages  start URLs of scrapy-redis's spiders, in a fleet that loses no requests
    lost_requests   requests that Scrapy's queue failed to take or give
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: NearDupSettings,
        folder: Path | None,
        resources: Resources,
        recorder: Recorder,
        advice: Advice,
        count: Counts,
        attempt: FailOpen,
    ) -> None:
        """resources: open. Raises SettingsError."""
        self._crawler = crawler
        self._settings = settings
        self._folder = folder
        self._resources = resources
        self._state, self._fleet = resources.hold.state, resources.fleet
        self._recorder = recorder
        self._advice = advice
        self._count = count
        self._attempt = attempt
        self.lifecycle = self._resumed_lifecycle()
        self._effects = Effects(attempt)
        self.learning = self._make_learning()
        self.delivery = Delivery(attempt)
        self.feeds = self._wait_for_sinks() if self._state.store or self._fleet else None
        self.requests = self._make_request_tracker()
        self.skipping = self._make_skipping()
        self.urls = self._make_seen_urls()
        self.disk_queues = self._make_disk_queues()
        self.fleet_queue = self._make_fleet_queue()
        self.start_messages = self._make_start_messages()
        self.items = self._make_item_judge()
        self.files = FailedFiles(attempt)
        judge = self._make_page_judge()
        self.recrawl = self._make_recrawl(judge)
        self.pages = self._make_pages(judge)
        self.lost_requests = LostRequests(crawler, count)
        self._errbacks = self._make_errbacks()  # kept: signals hold their receivers weakly
        output_tasks.make_on_demand(crawler)
        self._carry_out_effects()

    def _carry_out_effects(self) -> None:
        """Let the state, the fleet and the URL question do what the lifecycle asks for.

        Subscribers of one effect are called in this order, those that made themselves
        subscribers, such as the pages, before them.
        """
        subscribe, after = self._effects.subscribe, self.delivery.after
        state, fleet = self._state, self._fleet
        subscribe(RowKept, after(state.keep))
        subscribe(RowKeptInPart, after(state.keep))
        subscribe(RowForgotten, self._row_forgotten)
        subscribe(Completed, self.urls.completed)
        if fleet is not None:
            subscribe(RowKept, after(fleet.pages.keep))
            by_data = self._settings.compare == "item"
            subscribe(RowKeptInPart, after(fleet.pages.keep) if by_data else fleet.pages.drop)
            subscribe(RowForgotten, fleet.pages.drop)
            subscribe(RowPending, fleet.pages.drop)
        subscribe(LeaseEnded, after(self._lease_ended))

    def _row_forgotten(self, row: int) -> None:
        """Nothing counts as the copy of a page any more, if it is its row."""
        if self._state.drop(row):
            self._count(stats.PAGES_FORGOTTEN)

    def _lease_ended(self, lease: int) -> None:
        """All that a request led to is done: who keeps it need not any more."""
        if self.start_messages is not None and self.start_messages.has(lease):
            self.start_messages.done(lease)
            return
        for queue in (self._resources.frontier, self.fleet_queue):
            if queue is not None:
                queue.done(lease)

    def _resumed_lifecycle(self) -> PageLifecycle:
        lifecycle, state = PageLifecycle(), self._state
        if state.under_way is not None:
            lifecycle.restore(state.under_way)
            state.under_way = None  # another crawl that shares the state has no part in it
        return lifecycle

    def _make_learning(self) -> UrlLearning:
        """Crawls that share a state learn together; a guest's rules are not kept."""
        shared, folder = self._resources.hold.shared, self._own_folder()
        is_first = shared.learner is None
        if shared.learner is None:
            shared.learner = Learner(self._settings.learn_error, self._acts())
        key = self._state.key
        learning = UrlLearning(self._crawler, self._settings, folder, key, shared.learner)
        if is_first:
            self._attempt("learn", learning.restore)
        return learning

    def _acts(self) -> bool:
        """Whether learnt rules skip requests.

        Not in the crawl of a guest, which has no place to keep them, nor while somebody looks at
        single pages, nor in a worker that would take them from a shared queue into its memory.
        """
        if self._settings.learn != "act" or is_inspection(self._crawler):
            return False
        has_place = self._own_folder() is not None or not has_fleet_scheduler(self._crawler)
        return has_place and not self._state.is_guest

    def _own_folder(self) -> Path | None:
        return None if self._state.store is None or self._state.is_guest else self._folder

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
            self._attempt,
            sync=self._settings.fsync == "always",
            # Others wait for the items of a page under way, but no longer than a minute.
            only_local=self._fleet is not None,
        )

    def _make_request_tracker(self) -> RequestTracker:
        return RequestTracker(
            self.lifecycle,
            self._crawler,
            self._state.id,
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
            return self._state.store is not None
        return not has_foreign_scheduler(self._crawler)

    def _make_skipping(self) -> UrlSkipping:
        key = self._state.key
        is_worker = self._fleet is not None and not self._state.is_guest
        if self._settings.learn == "act" and is_worker and not self._acts():
            self._advice.only_watches()
        skipped = self._attempt("learn", SkippedRequests, self._own_folder(), key)
        if skipped is None:  # the folder cannot be written
            skipped = SkippedRequests(None, key)
        self._resources.on_close(skipped.close)
        return UrlSkipping(
            self._crawler,
            self.learning,
            UrlDeferral(self._crawler, self._settings, self.learning.learner),
            skipped,
            self._acts(),
            self.requests,
            self._recorder,
            self.delivery,
            self._attempt,
            self._count,
        )

    def _make_seen_urls(self) -> SeenUrls:
        return SeenUrls(
            self._crawler,
            self._settings,
            self._state,
            self.lifecycle,
            self._recorder,
            self._fleet,
            self.skipping,
            self.delivery,
            self._attempt,
            self._count,
            self._resources.visits,
        )

    def _make_disk_queues(self) -> DiskQueues | None:
        crawler, frontier = self._crawler, self._resources.frontier
        if frontier is None:
            return None
        asked = self.urls if has_our_dupefilter(crawler) else None
        return DiskQueues(
            frontier, self._state, crawler, self.requests, asked, self.delivery, self._attempt
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
                self._advice.queue_is_elsewhere(self._folder.parent)
            return None
        return FleetQueue(
            fleet,
            crawler,
            self.requests,
            self.urls,
            self._attempt,
            self._count,
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
            self._advice.start_urls_are_taken(type(spider).__name__)
            return None
        from scrapy_neardup.crawl.queues.start_messages import StartMessages

        messages = StartMessages(
            spider, fleet, self.requests, self.lifecycle, self._effects, self._attempt, self._count
        )
        if self.fleet_queue is not None:
            refuse_to_leave_queue(spider, self._attempt)
            self.fleet_queue.feed = spider.schedule_next_requests
        return messages

    def _make_item_judge(self) -> ItemJudge:
        media = media_fields(self._crawler.settings)
        items = ItemJudge(
            self._settings, media, self._state, self._fleet, self._attempt, self._count
        )
        self._resources.on_close(items.thread.shutdown)
        return items

    def _make_page_judge(self) -> PageJudge:
        return PageJudge(
            self._settings,
            self._state,
            self.lifecycle,
            self._resources.hold.is_shared,
            self._recorder,
            self._fleet,
            self._attempt,
            self._count,
        )

    def _make_recrawl(self, judge: PageJudge) -> Recrawl | None:
        visits = self._resources.visits
        if visits is None:
            return None
        return Recrawl(
            self._settings,
            visits,
            self._crawler,
            self.urls,
            judge,
            self.items,
            self._recorder,
            self._attempt,
            self._count,
        )

    def _make_pages(self, judge: PageJudge) -> CrawledPages:
        return CrawledPages(
            self._crawler,
            self.lifecycle,
            self._effects,
            self.requests,
            judge,
            SoftNotFound(self._crawler, self._settings, judge, self._attempt, self._count),
            Claims(self._settings, self._state, self._count),
            self.items,
            self.files,
            self._recorder,
            self._advice,
            self.delivery,
            self.learning,
            self.skipping,
            self._attempt,
            self._count,
            self.recrawl,
        )

    def _make_errbacks(self) -> Errbacks:
        parts = self._crawler, self.lifecycle, self._effects, self.requests
        if (recrawl := self.recrawl) is None:
            return Errbacks(*parts)
        kept = self.delivery.after(recrawl.told_otherwise)
        return Errbacks(*parts, kept, recrawl.unread)

"""What a crawl opens on disk and on the network; given back however it ends."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.crawler import Crawler
from scrapy.utils.job import job_dir

from scrapy_neardup.crawl.configured import has_fleet_scheduler, is_inspection, joins_fleet
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.jobdir import ForeignJob, is_of_job, open_frontier
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.shared_state import StateHold, hold_state
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.factory import make_state_factory, ttl_s
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.frontier import Frontier
from scrapy_neardup.state.visits import Visits

if TYPE_CHECKING:
    from scrapy_neardup.fleet.worker import FleetWorker


class Resources:
    """What one crawl has opened, in this order.

    fleet     the other workers, under NEARDUP_BACKEND
    hold      the crawl's part in its state
    frontier  the requests of its JOBDIR, where their queue is ours
    job       its JOBDIR, where the state is elsewhere
    visits    what each URL was when it was read last, under NEARDUP_RECRAWL

    Keeps no reference to the session or the crawler: close() may be called when both are
    garbage, in any thread.
    """

    hold: StateHold
    fleet: FleetWorker | None = None
    frontier: Frontier | None = None
    job: ForeignJob | None = None
    visits: Visits | None = None

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.on_close = self._stack.callback  # the last one added is called first
        self.close = self._stack.close

    def open(
        self,
        settings: NearDupSettings,
        crawler: Crawler,
        folder: Path | None,
        recorder: Recorder,
        attempt: FailOpen,
    ) -> None:
        """Open everything; folder: of the state. After an error, close() gives back the rest.

        Raises StateLocked, SnapshotError, JournalError, StateError, FleetError, SettingsError.
        """
        if joins_fleet(settings, crawler):
            self.fleet = self._join_fleet(settings, crawler)
        self.hold = self._hold_state(settings, crawler, folder)
        self.on_close(recorder.close)
        if folder is not None and is_of_job(folder, crawler):
            self.frontier = self._open_frontier(folder, crawler)
        elif folder is not None and (job := job_dir(crawler.settings)):
            self.job = ForeignJob(Path(job))
            self.on_close(self.job.release)
            attempt("state", self.job.begin, crawler, self.hold.state)
        if settings.recrawl != "new" and not is_inspection(crawler):
            self.visits = self._open_visits(settings.recrawl, crawler.spidercls.name, folder)

    def _join_fleet(self, settings: NearDupSettings, crawler: Crawler) -> FleetWorker:
        from scrapy_neardup.fleet.worker import FleetWorker  # speaks to a server: for fleets only

        assert crawler.stats
        fleet = FleetWorker(settings, crawler.stats, has_fleet_scheduler(crawler))
        self.on_close(fleet.release)
        return fleet

    def _hold_state(
        self, settings: NearDupSettings, crawler: Crawler, folder: Path | None
    ) -> StateHold:
        key = settings.key if self.fleet is None else self.fleet.key
        own = is_of_job(folder, crawler)
        open_state = partial(
            State.open,
            folder,
            make_state_factory(settings),
            key=key,
            fsync=settings.fsync,  # type: ignore[arg-type]
            ttl_s=ttl_s(settings),
            as_guest=not own,
        )
        # Two crawls cannot work off one queue: a job's own folder is shared with nobody.
        like = object() if own else (settings, key)
        hold = hold_state(folder, like, open_state)
        self.on_close(hold.release)
        return hold

    def _open_frontier(self, folder: Path, crawler: Crawler) -> Frontier | None:
        frontier = open_frontier(folder, crawler, self.hold.state)
        if frontier is not None:
            self.on_close(frontier.release)
        return frontier

    def _open_visits(self, recrawl: str, spider: str, folder: Path | None) -> Visits:
        state = self.hold.state
        if folder is None:
            raise SettingsError(
                f"NEARDUP_RECRAWL={recrawl!r}: pages are compared with what an earlier crawl "
                "found; set NEARDUP_STATE_DIR or JOBDIR, where that is kept"
            )
        if self.fleet is not None and state.is_guest:
            raise SettingsError(
                f"NEARDUP_RECRAWL={recrawl!r}: another crawl has {folder}. Give each worker "
                "of a fleet a NEARDUP_STATE_DIR of its own"
            )
        # The crawl whose guest this one is may be of the same spider, and have its run.
        visits = (
            Visits(folder, spider, state.key, goes_on=not state.is_guest)
            if self.fleet is None
            else self.fleet.take_part(folder, spider)
        )
        self.on_close(visits.close)
        return visits

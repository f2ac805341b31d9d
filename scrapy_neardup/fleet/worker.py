"""What the other workers know: asked of the server, and remembered here as well."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import ceil
from pathlib import Path
from secrets import token_bytes
from typing import Any

from scrapy.statscollectors import StatsCollector
from scrapy.utils.asyncio import run_in_thread

from scrapy_neardup import stats
from scrapy_neardup.detect.decision import Decision
from scrapy_neardup.errors import FleetError, SettingsError
from scrapy_neardup.factory import (
    DAY_S,
    blocks_of,
    make_fleet_identity,
    of_a_generation,
    ttl_s,
)
from scrapy_neardup.fleet import frontier_scripts, scripts, unlinked_scripts, visit_scripts
from scrapy_neardup.fleet.client import Server, correction, failures
from scrapy_neardup.fleet.frontier import SharedFrontier
from scrapy_neardup.fleet.futures import answer_of
from scrapy_neardup.fleet.learnt_rules import SharedRules
from scrapy_neardup.fleet.link import Link, Unanswered
from scrapy_neardup.fleet.membership import Membership, OtherFleet
from scrapy_neardup.fleet.permissions import ask_for, commands_of
from scrapy_neardup.fleet.protocol import (
    LAYOUT,
    WORKER_BYTES,
    IndexOptions,
    Questions,
    fleet,
)
from scrapy_neardup.fleet.shared_pages import SharedPages
from scrapy_neardup.fleet.visits import SharedVisits
from scrapy_neardup.learn.rule import Rule
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.secret import new_key
from scrapy_neardup.state.visit import DEPARTED, UNKNOWN, PageKey
from scrapy_neardup.state.visit_file import Status

logger = logging.getLogger(__name__)

MAX_ENTRIES = 20_000  # compared by one look-up on the server
CLOSING_S = 5.0  # to tell the server what it was not told yet

# What reading may raise where a server says what no worker stored.
NONSENSE = (AttributeError, LookupError, TypeError, ValueError)


class FleetWorker:
    """The fleet as one worker sees it. Its methods are called on the loop's thread.

    If the server does not answer, the worker decides by what it knows itself, and counts it.

    pages  that the workers share
    queue  of the requests that wait on the server, which may lose some that were found on a page
           that is done
    """

    queue: SharedFrontier | None = None

    def __init__(
        self, settings: NearDupSettings, stats_: StatsCollector, shares_requests: bool = False
    ) -> None:
        """Agrees with the fleet on secret and specification.

        shares_requests: whether the queue is shared, which needs more permissions.

        Raises SettingsError, or FleetError if the fleet has another specification, or the server's
        user may not run all commands that are needed.
        """
        assert settings.backend
        blocks, (capacity, error_rate) = blocks_of(settings), of_a_generation(settings)
        self._server = Server(settings.backend)
        self._own_key = settings.key or 0
        self._stats = stats_
        self._worker = token_bytes(WORKER_BYTES)
        self._visits: SharedVisits | None = None  # under NEARDUP_RECRAWL
        self._takes_all = settings.recrawl == "all"
        self._ttl_ms = ceil(1000 * (ttl_s(settings) or 0))
        self._hint_ms = ceil(1000 * DAY_S * settings.revisit_max) + 1
        try:
            self.key = self._join(settings, shares_requests)
        except BaseException:
            self._server.close()
            raise
        self._rules = SharedRules(settings.backend_prefix)
        with suppress(*failures(), *NONSENSE):  # before the link has a thread of its own
            self._server.call(self._rules.tell(()))
        self._questions = Questions(
            settings.backend_prefix,
            self.key,
            capacity=capacity,
            error_rate=error_rate,
            index=IndexOptions(
                settings.distance,
                blocks,
                min(settings.scan_limit, MAX_ENTRIES),
                self._ttl_ms,
            ),
        )
        beat = self._membership.beat(self._worker)
        self._link = Link(
            self._server.send,
            beat,
            beats_along=not self._server.is_cluster,
            try_again=self._server.try_again,
            has_queue=shares_requests,
        )
        self._membership.ask = self._link.ask
        self.pages = SharedPages(
            self._worker, self._questions, self._link, self._answer, self._membership, stats_
        )
        # Ends thread and connections at once, without sending what waits. It holds no reference to
        # the worker, and so none to the crawl: a finalizer can call it.
        self.release = partial(_give_back, self._link, self._server)

    def _join(self, settings: NearDupSettings, shares_requests: bool) -> int:
        """Agree with the fleet on secret and specification; the secret."""
        prefix, key, stored = settings.backend_prefix, settings.key, ""
        commands = _commands(recrawls=settings.recrawl != "new", shares_requests=shares_requests)
        try:
            self._server.call(ask_for(prefix, commands))
            found = self._server.call(fleet(prefix))
            if found is None:
                self._found(settings)
                found = self._server.call(fleet(prefix))
            stored, identity, epoch = found[0].decode(), found[1], found[2]
            key = _shared_key(settings, stored)
            self._membership = Membership(prefix, stored, _identity(settings, key))
            self._membership.found(epoch, identity)
        except failures() + NONSENSE as error:
            if key is None:
                raise SettingsError(_no_secret(error)) from error
            self._membership = Membership(prefix, stored, _identity(settings, key))
        return key

    def _found(self, settings: NearDupSettings) -> None:
        """Begin a fleet, unless another worker does so at the same moment."""
        key = new_key() if settings.key is None else settings.key
        secret = f"{key:016x}" if settings.key is None else ""
        identity = _identity(settings, key)
        with suppress(OtherFleet):
            self._server.call(Membership(settings.backend_prefix, secret, identity).join())

    def take_part(self, folder: Path, spider: str) -> SharedVisits:
        """The run of a spider that its workers share, and what pages were before it.

        Raises SettingsError if the server does not answer, StateError, OSError.
        """
        self._visits = SharedVisits(
            folder,
            spider,
            self._link,
            self._membership.prefix,
            self._worker,
            self.key,
            self._ttl_ms,
            self._hint_ms,
        )
        self.pages.run_began = self._visits.shared_run / 1000
        return self._visits

    def ask_visit(self, page: PageKey) -> Future[Any]:
        """Ask ahead what a page was: for bring_visit()."""
        assert self._visits
        return self._visits.ask(page)

    async def bring_visit(self, page: PageKey, asked: Future[Any] | None = None) -> bool:
        """Know what a page was when a worker read it last; whether the run is done with it.

        False, and nothing known, if the server does not answer. asked: as for seen().
        """
        assert self._visits
        answer = await self._answer(asked or self.ask_visit(page))
        return answer is not None and self._visits.adopt(page, answer)

    async def bring_original(self, state: State, decision: Decision, page: PageKey) -> bool:
        """Know the version of a page that another one repeats, and what is kept of its items.

        False if the server does not answer.
        """
        assert self._visits
        assert decision.original_id is not None
        visits, name = self._visits, state.detector.pages.name(decision.original_id)
        is_itself = decision.original_id == decision.page_id  # as another worker read it since
        if is_itself or visits.version(page.key) == UNKNOWN:
            told = await self._answer(visits.ask_version(page.key, page.url))
            if told is None:
                return False
            visits.note_version(page.key, told)
        if (version := visits.version(page.key)) not in (UNKNOWN, DEPARTED):
            await self.pages.bring_items(state, name ^ version)
        return True

    @property
    def run(self) -> int:
        """The run of visits that this worker takes part in; 0 without NEARDUP_RECRAWL."""
        return 0 if self._visits is None else self._visits.shared_run

    @property
    def epoch(self) -> bytes | None:
        """What tells this fleet from any other, or one whose server lost all; None: not known."""
        return self._membership.epoch

    @property
    def name(self) -> str:
        """By which other workers may ask whether this one is alive."""
        return self._worker.hex()

    def ask_alive(self, name: str) -> Future[Any]:
        """Ask whether a worker of this fleet is alive."""
        return self._link.ask(self._questions.is_alive(bytes.fromhex(name)))

    def frontier(self, spider: str) -> SharedFrontier:
        """The requests that the workers of a spider share."""
        prefix = self._membership.prefix
        return SharedFrontier(self._link, prefix, self._worker, self.key, spider, self._own_key)

    def exchange_rules(self, rules: Iterable[Rule]) -> list[Rule]:
        """Tell the other workers of learnt rules; what was heard of theirs since."""
        self._link.tell(self._rules.tell(rules))
        return self._rules.heard()

    @property
    def n_restored(self) -> int:
        """How often the server was found to have lost its data."""
        return self._membership.n_restored

    def tell_again(self) -> None:
        """The server has forgotten something: tell it what is known here with the next pages.

        But not which URLs were handled, if that is withheld since it failed.
        """
        self._membership.lost_data = True
        self._link.drop_withheld()

    def ask_seen(self, key: bytes) -> Future[Any]:
        """Ask ahead whether any worker has handled a URL: for seen()."""
        return self._link.ask(self._questions.seen(key))

    async def seen(self, key: bytes, asked: Future[Any] | None = None) -> bool:
        """Whether any worker has handled a URL; False if the server does not answer.

        asked: the question, if it was asked ahead.
        """
        return bool(await self._answer(asked or self.ask_seen(key)))

    def mark(self, key: bytes) -> None:
        """This worker has handled a URL; requests of its page that wait are in the queue."""
        if self.queue is None:
            self._link.tell(self._questions.mark(key))
        elif self.queue.has_gone_back:
            return  # they may not be there any more
        elif self._server.is_cluster:  # the queue may be on another node than the URL
            self._link.tell(self._questions.mark(key)._replace(needs_queue=True))
        else:
            self._link.tell(self._questions.mark(key, self.queue.last_answered))

    async def mark_unlinked(self) -> None:
        """If this worker is the last of a run: mark pages as gone that nothing links any more.

        Counted and said. To be called when the run is ended. If the server does not answer any
        more, those that are not marked yet are not gone.
        """
        if self._visits is None:
            return
        counts = Counter[Status]()
        try:
            is_in_order = await self._visits.mark_unlinked(counts, checks=not self._takes_all)
        except Unanswered:
            self._stats.inc_value(stats.BACKEND_UNANSWERED)
            return
        finally:
            self._report_unlinked(counts)
        if not is_in_order:
            self._stats.inc_value(stats.RECRAWL_REVERTED)
            logger.warning(
                "neardup: of the pages that the fleet knew most are linked by none any more: the "
                "site seems out of order. None of them counts as gone. If the site is as it "
                "should be, crawl once with NEARDUP_RECRAWL='all'"
            )

    def _report_unlinked(self, counts: Counter[Status]) -> None:
        """Say which pages are gone that nothing links."""
        for status, n in counts.items():
            self._stats.inc_value(stats.RECRAWL_PAGES.format(status.word), n)
        if counts:
            told = ", ".join(f"{n:,} {status.word}" for status, n in sorted(counts.items()))
            logger.info("neardup: no page that the fleet read links any more: %s", told)

    async def close(self) -> None:
        """Send what waits, for at most CLOSING_S, and report the counts."""
        end = time.monotonic() + CLOSING_S
        n_untold = await self.pages.tell_rest(end)
        await run_in_thread(self._link.close, max(0.0, end - time.monotonic()))
        self._server.close()
        for key, n in self.counts().items():
            self._stats.set_value(key, n)
        self._stats.inc_value(stats.BACKEND_LOST, n_untold)
        if self._visits is not None and self._link.n_lost:
            logger.warning(
                "neardup: %d messages did not reach the server of NEARDUP_BACKEND. What pages are "
                "now may be unknown there, so that the next crawl compares with what they were "
                "before. Crawl once with NEARDUP_RECRAWL='all' if a page that changed back would "
                "matter",
                self._link.n_lost,
            )

    def counts(self) -> dict[str, int]:
        """How it went so far, by the names of stats."""
        return {
            stats.BACKEND_LEFT: int(self._link.has_left),
            stats.BACKEND_RESTORED: self._membership.n_restored,
            stats.BACKEND_LOST: self._link.n_lost,
            stats.BACKEND_REFUSED: self._link.n_refused,
            stats.BACKEND_ROUND_TRIPS: self._server.n_round_trips,
        }

    async def _answer(self, asked: Future[Any]) -> Any:
        self._stats.inc_value(stats.BACKEND_ASKED)
        try:
            return await answer_of(asked)
        except Unanswered:
            self._stats.inc_value(stats.BACKEND_UNANSWERED)
            return None


def _give_back(link: Link, server: Server) -> None:
    link.close(0.0)
    server.close()


def _commands(*, recrawls: bool, shares_requests: bool) -> list[str]:
    """Those of the server that a worker's scripts use."""
    of_visits = (visit_scripts, unlinked_scripts) if recrawls else ()
    of_requests = (frontier_scripts,) if shares_requests else ()
    return commands_of(scripts, *of_visits, *of_requests)


def _no_secret(error: Exception) -> str:
    """Why a worker cannot ask for the fleet's secret, and what to do about that."""
    if what := correction(error):
        return f"the server of NEARDUP_BACKEND cannot be used so ({error}). {what}"
    return (
        f"NEARDUP_BACKEND does not answer ({error}). Without NEARDUP_KEY the fleet's secret is "
        f"stored there. Start the server, correct its URL, or set NEARDUP_KEY to the same 64-bit "
        f"number for all workers"
    )


def _identity(settings: NearDupSettings, key: int) -> dict[str, Any]:
    return {**make_fleet_identity(settings, key), "layout": LAYOUT}


def _shared_key(settings: NearDupSettings, stored: str) -> int:
    """The fleet's secret: the worker's own, or the one on the server. Raises FleetError."""
    if settings.key is not None:
        return settings.key
    if not stored:
        raise FleetError(
            f"the workers of the fleet under NEARDUP_BACKEND_PREFIX={settings.backend_prefix!r} "
            f"have NEARDUP_KEY set. Set it to the same number, or use another prefix"
        )
    return int(stored, 16)

"""What the other workers know: asked of the server, and remembered here as well."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count, islice
from math import ceil
from pathlib import Path
from secrets import token_bytes
from typing import Any

from scrapy.statscollectors import StatsCollector
from scrapy.utils.asyncio import run_in_thread

from scrapy_neardup import stats
from scrapy_neardup.detect.decision import INDEXED, Decision
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.item_table import KeptItem
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.errors import FleetError, SettingsError
from scrapy_neardup.factory import (
    DAY_S,
    blocks_of,
    make_fleet_identity,
    of_a_generation,
    ttl_s,
)
from scrapy_neardup.fleet.client import Server, failures
from scrapy_neardup.fleet.frontier import SharedFrontier
from scrapy_neardup.fleet.futures import answer_of, pause
from scrapy_neardup.fleet.learnt_rules import SharedRules
from scrapy_neardup.fleet.link import Link, Unanswered
from scrapy_neardup.fleet.membership import Membership, OtherFleet
from scrapy_neardup.fleet.page_shards import PageShards
from scrapy_neardup.fleet.protocol import (
    LAYOUT,
    WORKER_BYTES,
    Call,
    IndexOptions,
    Questions,
    SharedPage,
    fleet,
)
from scrapy_neardup.fleet.visits import SharedVisits
from scrapy_neardup.learn.rule import Rule
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.records import KeptPage
from scrapy_neardup.state.secret import new_key
from scrapy_neardup.state.visit import DEPARTED, UNKNOWN, PageKey
from scrapy_neardup.state.visit_file import Status

logger = logging.getLogger(__name__)

MAX_ENTRIES = 20_000  # compared by one look-up on the server
MAX_ROUNDS = 8  # of comparing with pages that others bring meanwhile; then undecided
PATIENCE_S = 60.0  # to wait for a living worker's items to leave the pipelines
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.25  # between looks at the page
TAUGHT_AT = frozenset(2**n for n in range(32))  # pages of a host
TOLD_AGAIN_AT_ONCE = 50  # messages, so that the loop does not wait
CLOSING_S = 5.0  # to tell the server what it was not told yet

# What reading may raise where a server says what no worker stored.
NONSENSE = (AttributeError, LookupError, TypeError, ValueError)


class FleetWorker:
    """The fleet as one worker sees it. Its methods are called on the loop's thread.

    If the server does not answer, the worker decides by what it knows itself, and counts it.

    queue  of the requests that wait on the server, which may lose some that were found on a page
           that is done
    """

    queue: SharedFrontier | None = None

    def __init__(self, settings: NearDupSettings, stats_: StatsCollector) -> None:
        """Agrees with the fleet on secret and specification.

        Raises SettingsError, or FleetError if the fleet has another specification.
        """
        assert settings.backend
        blocks, (capacity, error_rate) = blocks_of(settings), of_a_generation(settings)
        self._server = Server(settings.backend)
        self._own_key = settings.key or 0
        self._stats = stats_
        self._worker, self._numbers = token_bytes(WORKER_BYTES), count()
        self._ours: dict[int, SharedPage] = {}  # local id → page whose items are under way
        self._untold: Iterator[Call] = iter(())  # what the server is to be told again
        self._n_untold = 0  # about: of pages that are not kept nothing is told
        self._others: set[int] = set()  # local ids of pages that others kept
        self._asking: set[int] = set()  # local ids of pages that the server is asked about
        self._visits: SharedVisits | None = None  # under NEARDUP_RECRAWL
        self._takes_all = settings.recrawl == "all"
        self._run_began = 0.0  # what was read before counts as read at another time
        self._ttl_ms = ceil(1000 * (ttl_s(settings) or 0))
        self._hint_ms = ceil(1000 * DAY_S * settings.revisit_max) + 1
        try:
            self.key = self._join(settings)
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
        )
        self._membership.ask = self._link.ask
        self._shards = PageShards(self._questions, self._link.ask, self._answer)
        # Ends thread and connections at once, without sending what waits. It holds no reference to
        # the worker, and so none to the crawl: a finalizer can call it.
        self.release = partial(_give_back, self._link, self._server)

    def _join(self, settings: NearDupSettings) -> int:
        """Agree with the fleet on secret and specification; the secret."""
        prefix, key, stored = settings.backend_prefix, settings.key, ""
        try:
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
                raise SettingsError(
                    f"NEARDUP_BACKEND does not answer, or refuses ({error}). Without "
                    f"NEARDUP_KEY the fleet's secret is stored there. Start the server, or set "
                    f"NEARDUP_KEY to the same 64-bit number for all workers"
                ) from error
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
        self._run_began = self._visits.shared_run / 1000
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
            await self._bring_items(state, name ^ version)
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

    async def decide(self, state: State, reading: PageReading, once: bool) -> tuple[Decision, bool]:
        """The decision about a page, and whether it is remembered from now on.

        Fetches near pages of other workers from the server, remembers them, and then decides by
        the worker's own detector.

        once: whether the URL was meant to be fetched once. If another worker fetched and kept it
        at the same time, the page repeats that one. Without `once` it is judged as a page that is
        fetched again on purpose.
        """
        detector = state.detector
        self._tell_again(state)
        await self._be_taught(detector, reading.host)
        is_first = detector.pages.with_url(reading.url) is None
        decision, is_new = await self._judged(state, reading, once)
        with self._forgotten_on_error(state, decision):
            # Only now: others may have brought the same words, and these are not learnt from.
            if is_first and decision.kind != "exact" and detector.learn(reading):
                self._teach(detector, reading.host)
        if self._visits is None and decision.is_duplicate and decision.original_id is not None:
            await self._bring_items(state, detector.pages.name(decision.original_id))
        return decision, is_new

    def _tell_again(self, state: State) -> None:
        """If the server lost its data: tell it what is known here, some of it with each page."""
        if self._membership.lost_data:
            self._membership.lost_data = False
            self._shards.forget()
            self._ours = {id: replace(page, shard=0) for id, page in self._ours.items()}
            self._untold, self._n_untold = self._known(state), self._n_known(state)
        self._tell_some()

    def _tell_some(self) -> None:
        """Tell some of what the server is to be told again."""
        some = list(islice(self._untold, TOLD_AGAIN_AT_ONCE))
        for call in some:
            self._link.tell(call)
        # While it is not over there may be more, for pages come meanwhile.
        self._n_untold = max(1, self._n_untold - len(some)) if some else 0

    def _n_known(self, state: State) -> int:
        """How many messages tell all that is known, if every page is kept."""
        n_learnt = len(state.detector.templates.hosts()) + len(state.items)
        return len(self._ours) + 2 * len(state.detector.pages) + n_learnt

    def _known(self, state: State) -> Iterator[Call]:
        """All that the server can be told again: pages, templates and items, not URLs.

        A filter cannot list its URLs.
        """
        asks = self._questions
        for page_id in list(self._ours):
            if page := self._ours.get(page_id):
                yield asks.admit(page)
        for kept in state.kept_pages():
            page = SharedPage(self._stamp(), kept)
            yield asks.admit(page)
            yield asks.keep(page)
        for host, learnt in state.detector.templates.hosts():
            yield asks.teach(host, learnt.pack())
        for item in state.items.items():
            yield asks.keep_item(item)

    async def _bring_items(self, state: State, page: int) -> None:
        """Fetch what all workers kept of the items of a page and of its copies."""
        for item in await self._ask(self._questions.items(page)) or ():
            state.items.add(item)

    @contextmanager
    def _forgotten_on_error(self, state: State, decision: Decision) -> Iterator[None]:
        """Forget a page whose comparison fails or is cancelled, here and on the server."""
        try:
            yield
        except BaseException:
            if decision.page_id is not None:
                state.drop(decision.page_id)
                self.drop(decision.page_id)
            raise

    async def _be_taught(self, detector: Detector, host: int) -> None:
        """Know a new host's templates from the others: without, near pages cannot be told."""
        if detector.boilerplate == "keep" or host in detector.templates:
            return
        if not detector.templates.has_room:
            return
        learnt = await self._ask(self._questions.templates(host))
        if learnt is not None and host not in detector.templates:
            detector.templates.adopt(host, learnt)

    def _teach(self, detector: Detector, host: int) -> None:
        """Let the others know each time twice as many pages were learnt from."""
        learnt = detector.templates.known(host)
        if learnt is not None and learnt.n_pages in TAUGHT_AT:
            self._link.tell(self._questions.teach(host, learnt.pack()))

    async def _judged(
        self, state: State, reading: PageReading, once: bool
    ) -> tuple[Decision, bool]:
        decision, is_new = state.decide(reading, learn=False)
        if once and decision.page_id in self._others and self._was_read_now(state, decision):
            return _repeats_itself(decision, reading.url), False  # kept by the other worker
        while decision.original_id in self._asking:
            await pause(FIRST_PAUSE_S)
            if decision.original_id not in self._asking:
                decision, is_new = state.decide(reading, learn=False)
        if decision.is_duplicate or not is_new:
            return decision, is_new
        return await self._compare(state, reading, decision, once)

    async def _compare(
        self, state: State, reading: PageReading, decision: Decision, once: bool
    ) -> tuple[Decision, bool]:
        compared: list[SharedPage] = []
        end = time.monotonic() + PATIENCE_S
        for _ in range(MAX_ROUNDS):
            assert decision.page_id is not None
            with self._asked_about(decision.page_id), self._forgotten_on_error(state, decision):
                near = await self._admitted(state, decision, compared)
                if not near:
                    return (decision if near is not None else _undecided(decision)), True
                settled = [
                    other for other in near if await self._is_settled(other, reading, once, end)
                ]
            compared += near
            await self._be_taught(state.detector, reading.host)  # by whoever brought these
            state.drop(decision.page_id)
            ids = [state.detector.restore(*other.kept) for other in settled]
            owners = zip(ids, (other.worker for other in settled), strict=True)
            self._others.update(id for id, worker in owners if worker != self._worker)
            decision, is_new = state.decide(reading, learn=False)
            if once and decision.page_id in ids and self._was_read_now(state, decision):
                self._others.add(decision.page_id)
                return _repeats_itself(decision, reading.url), False
            if decision.is_duplicate or not is_new:
                return decision, is_new
        self._stats.inc_value(stats.BACKEND_UNDECIDED)
        await self._admitted(state, _undecided(decision), compared)
        return _undecided(decision), True

    def _was_read_now(self, state: State, decision: Decision) -> bool:
        """Whether a page is that of its own URL, as another worker read it in this run."""
        if decision.is_duplicate or decision.page_id is None:
            return False
        return state.detector.pages.page(decision.page_id).time >= self._run_began

    @contextmanager
    def _asked_about(self, page_id: int) -> Iterator[None]:
        """Make pages that repeat this one wait until the server has said whether it is new."""
        self._asking.add(page_id)
        try:
            yield
        finally:
            self._asking.discard(page_id)

    async def _admitted(
        self, state: State, decision: Decision, compared: list[SharedPage]
    ) -> list[SharedPage] | None:
        """Pages to compare with first; [] if it was admitted; None: scan limit exceeded."""
        assert decision.page_id is not None
        stamps = [other.stamp for other in compared]
        page, near, is_complete = await self._shards.admit(self._shared(state, decision), stamps)
        if near:
            return near
        if near is None:  # no answer: tell the others about it later
            self._link.tell(self._questions.admit(page, stamps))
        self._ours[decision.page_id] = page
        for other in compared:  # in its own shard the page takes the place of an earlier one
            if other.kept.page.url == page.kept.page.url and other.shard != page.shard:
                self._link.tell(self._questions.forget(other))
        if not is_complete:
            self._stats.inc_value(stats.BACKEND_UNDECIDED)
        return [] if is_complete else None

    def _shared(self, state: State, decision: Decision) -> SharedPage:
        """A page as the server gets it."""
        assert decision.page_id is not None
        indexed = decision.kind in INDEXED
        kept = KeptPage(state.detector.pages.page(decision.page_id), indexed)
        return SharedPage(self._stamp(), kept)

    def _stamp(self) -> bytes:
        return self._worker + next(self._numbers).to_bytes(WORKER_BYTES, "big")

    async def _is_settled(
        self, other: SharedPage, reading: PageReading, once: bool, end: float
    ) -> bool:
        """Whether a page may be the reason to drop another; waits for its items if necessary.

        end: until when, by the monotonic clock.
        """
        row = other.kept.page
        at_once = once and row.digest == reading.digest and row.time >= self._run_began
        if row.url == reading.url and not at_once:
            return other.is_kept and row.digest == reading.digest
        if other.is_kept or other.worker == self._worker:
            return other.is_kept  # our own pages were compared already
        return await self._comes_to_be_kept(other, end)

    async def _comes_to_be_kept(self, other: SharedPage, end: float) -> bool:
        """Wait for a page's items; forget it if its worker's lease expires or time is up.

        It is looked at once in any case: its items may have come while others were waited for.
        """
        rest, is_waiting = FIRST_PAUSE_S, True
        while is_waiting:
            await pause(rest)
            rest = min(2 * rest, LONGEST_PAUSE_S)
            questions = self._questions.status(other), self._questions.is_alive(other.worker)
            status, is_alive = await self._ask(*questions)
            if status != "undecided":
                return bool(status == "kept")
            is_waiting = is_alive is not False and time.monotonic() < end
        self._stats.inc_value(stats.BACKEND_OVERTAKEN)
        self._link.tell(self._questions.forget(other))
        return False

    def keep(self, page_id: int) -> None:
        """An item of a page left the pipelines."""
        if page := self._ours.pop(page_id, None):
            self._link.tell(self._questions.keep(page))

    def keep_item(self, item: KeptItem) -> None:
        """An item left the pipelines: of a page that repeats none, or with new data."""
        self._link.tell(self._questions.keep_item(item))

    def drop(self, page_id: int) -> None:
        """No item of a page left the pipelines, or it had none."""
        self._others.discard(page_id)
        if page := self._ours.pop(page_id, None):
            self._link.tell(self._questions.forget(page))

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
        while self._n_untold and time.monotonic() < end:
            self._tell_some()
            await pause(0.0)
        await run_in_thread(self._link.close, max(0.0, end - time.monotonic()))
        self._server.close()
        for key, n in self.counts().items():
            self._stats.set_value(key, n)
        self._stats.inc_value(stats.BACKEND_LOST, self._n_untold)
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

    async def _ask(self, *questions: Call) -> Any:
        """The answer, or a list of answers; None, counted, for one that does not come."""
        answers = [await self._answer(one) for one in [self._link.ask(q) for q in questions]]
        return answers if len(answers) > 1 else answers[0]

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


def _undecided(decision: Decision) -> Decision:
    return decision._replace(kind="undecided")


def _repeats_itself(decision: Decision, url: str) -> Decision:
    """The decision about a page whose own URL another worker has kept."""
    return decision._replace(
        kind="exact",
        original=url,
        original_id=decision.page_id,
        distance=0,
        sketch_distance=0,
        similarity=1.0,
    )

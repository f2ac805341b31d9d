"""What the other workers know: asked of the server, remembered by this worker, too."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import count
from secrets import token_bytes
from typing import Any

from scrapy.statscollectors import StatsCollector
from scrapy.utils.asyncio import run_in_thread

from scrapy_neardup import stats
from scrapy_neardup.detect.detector import Decision, Detector, PageReading
from scrapy_neardup.detect.item_table import KeptItem
from scrapy_neardup.detect.templates import Host
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.factory import make_identity
from scrapy_neardup.fleet.client import Server, failures
from scrapy_neardup.fleet.futures import answer_of, pause
from scrapy_neardup.fleet.link import Link, Unanswered
from scrapy_neardup.fleet.protocol import (
    WORKER_BYTES,
    Call,
    IndexOptions,
    Questions,
    SharedPage,
    TooManyEntries,
)
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.records import KeptPage

MAX_ENTRIES = 20_000  # that one look-up compares on the server
MAX_ROUNDS = 8  # in which others may bring something new to compare a page with
PATIENCE_S = 60.0  # until an item of a page has left the pipelines of a worker that lives
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.25  # between looks at the page
TAUGHT_AT = frozenset(2**n for n in range(32))  # pages of a host
CLOSING_S = 5.0  # to tell the server what it was not told yet


class FleetWorker:
    """The fleet as one worker sees it. Its methods are called on the loop's thread.

    Where the server gives no answer, the worker's own memory decides; that is counted.
    """

    def __init__(self, settings: NearDupSettings, stats_: StatsCollector) -> None:
        """Agrees with the fleet on secret and specification.

        Raises SettingsError, FleetError where the others have another specification.
        """
        assert settings.backend
        if settings.ttl is not None:
            raise SettingsError(
                f"NEARDUP_TTL={settings.ttl}: a fleet forgets nothing by age. Unset it, or "
                f"change NEARDUP_BACKEND_PREFIX when all is to be fetched again"
            )
        blocks = settings.blocks or settings.distance + 1
        self._server = Server(settings.backend)
        self._stats = stats_
        self._worker, self._numbers = token_bytes(WORKER_BYTES), count()
        self._ours: dict[int, SharedPage] = {}  # local id → page whose items are under way
        self._asking: set[int] = set()  # local ids of pages that the server is asked about
        try:
            self.key = self._agree(settings)
        except BaseException:
            self._server.close()
            raise
        self._questions = Questions(
            settings.backend_prefix,
            self.key,
            capacity=settings.url_capacity,
            error_rate=settings.url_error_rate,
            index=IndexOptions(settings.distance, blocks, min(settings.scan_limit, MAX_ENTRIES)),
        )
        self._link = Link(self._server.send, self._questions.beat(self._worker))
        # Gives back thread and connections at once, whatever the server was not told yet. Does
        # not lead to the worker, and so not to its crawl: garbage can be given back by it.
        self.release = partial(_give_back, self._link, self._server)

    def _agree(self, settings: NearDupSettings) -> int:
        key, prefix = settings.key, settings.backend_prefix
        try:
            key = self._server.shared_key(prefix) if key is None else key
            self._server.agree(prefix, make_identity(settings, key))
        except failures() as error:
            if key is None:
                raise SettingsError(
                    f"NEARDUP_BACKEND gives no answer ({error}), and without NEARDUP_KEY the "
                    f"fleet's secret is there. Start the server, or set NEARDUP_KEY to the same "
                    f"64-bit number for all workers"
                ) from error
        return key

    async def seen(self, key: bytes) -> bool:
        """Whether any worker has handled a URL; not if the server gives no answer."""
        return bool(await self._ask(self._questions.seen(key)))

    def mark(self, key: bytes) -> None:
        """This worker has handled a URL."""
        self._link.tell(self._questions.mark(key))

    async def decide(self, state: State, reading: PageReading, once: bool) -> tuple[Decision, bool]:
        """The decision about a page, and whether it is remembered from now on.

        As the worker's own detector decides after it has read the other workers' pages that
        are near: these are fetched from the server and kept in the worker's memory.

        once: whether the page's URL was to be fetched once. Then what another worker kept of
        it, which fetched it at the same time, is what the page repeats; without it the page is
        judged as one that is read again on purpose.
        """
        detector = state.detector
        await self._be_taught(detector, reading.host)
        is_first = detector.pages.with_url(reading.url) is None
        decision, is_new = await self._judged(state, reading, once)
        with self._forgotten_on_error(state, decision):
            # Only now: others may have brought the same words, and these are not learnt from.
            if is_first and decision.kind != "exact" and detector.learn(reading):
                self._teach(detector, reading.host)
        if decision.is_duplicate and decision.original_id is not None:
            await self._bring_items(state, detector.pages.name(decision.original_id))
        return decision, is_new

    async def _bring_items(self, state: State, page: int) -> None:
        """Know what all workers kept of the items of a page, and of its copies."""
        for item in await self._ask(self._questions.items(page)) or ():
            state.items.add(item)

    @contextmanager
    def _forgotten_on_error(self, state: State, decision: Decision) -> Iterator[None]:
        """A page whose comparison fails, or is cancelled, is as if it had never been seen."""
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
        packed = await self._ask(self._questions.templates(host))
        if packed is not None and host not in detector.templates:
            detector.templates.adopt(host, Host.unpack(packed))

    def _teach(self, detector: Detector, host: int) -> None:
        """Let the others know each time twice as many pages were learnt from."""
        learnt = detector.templates.known(host)
        if learnt is not None and learnt.n_pages in TAUGHT_AT:
            self._link.tell(self._questions.teach(host, learnt.pack()))

    async def _judged(
        self, state: State, reading: PageReading, once: bool
    ) -> tuple[Decision, bool]:
        decision, is_new = state.decide(reading, learn=False)
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
        compared: list[bytes] = []
        for _ in range(MAX_ROUNDS):
            assert decision.page_id is not None
            with self._asked_about(decision.page_id), self._forgotten_on_error(state, decision):
                near = await self._admitted(state, decision, compared)
                if not near:
                    return (decision if near is not None else _undecided(decision)), True
                settled = [other for other in near if await self._is_settled(other, reading, once)]
            compared += [other.stamp for other in near]
            await self._be_taught(state.detector, reading.host)  # by whoever brought these
            state.drop(decision.page_id)
            ids = [state.detector.restore(*other.kept) for other in settled]
            decision, is_new = state.decide(reading, learn=False)
            if once and decision.page_id in ids and not decision.is_duplicate:
                return _repeats_itself(decision, reading.url), False
            if decision.is_duplicate or not is_new:
                return decision, is_new
        self._stats.inc_value(stats.BACKEND_UNDECIDED)
        await self._admitted(state, _undecided(decision), compared)
        return _undecided(decision), True

    @contextmanager
    def _asked_about(self, page_id: int) -> Iterator[None]:
        """Pages that repeat this one wait until it is known whether it is new."""
        self._asking.add(page_id)
        try:
            yield
        finally:
            self._asking.discard(page_id)

    async def _admitted(
        self, state: State, decision: Decision, compared: list[bytes]
    ) -> list[SharedPage] | None:
        """Pages to compare with first, none if it was admitted; None: too many to look through."""
        assert decision.page_id is not None
        page = self._shared(state, decision)
        try:
            near: list[SharedPage] | None = await self._ask(self._questions.admit(page, compared))
        except TooManyEntries:
            self._stats.inc_value(stats.BACKEND_UNDECIDED)
            near = None
        else:
            if near is None:  # no answer: others shall know it nevertheless
                self._link.tell(self._questions.admit(page, compared))
                near = []
        if not near:
            self._ours[decision.page_id] = page
        return near

    def _shared(self, state: State, decision: Decision) -> SharedPage:
        """A page as the server gets it."""
        assert decision.page_id is not None
        stamp = self._worker + next(self._numbers).to_bytes(WORKER_BYTES, "big")
        indexed = decision.kind in ("new", "near")
        return SharedPage(stamp, KeptPage(state.detector.pages.page(decision.page_id), indexed))

    async def _is_settled(self, other: SharedPage, reading: PageReading, once: bool) -> bool:
        """Whether a page may be the reason to drop another, waiting for its items if need be."""
        row = other.kept.page
        if row.url == reading.url and not (once and row.digest == reading.digest):
            return other.is_kept and row.digest == reading.digest
        if other.is_kept or other.worker == self._worker:
            return other.is_kept  # an own one was compared already
        return await self._comes_to_be_kept(other)

    async def _comes_to_be_kept(self, other: SharedPage) -> bool:
        """Wait for a page's items; the page is forgotten if its worker dies, or takes too long."""
        end, rest = time.monotonic() + PATIENCE_S, FIRST_PAUSE_S
        is_alive: bool | None = True
        while is_alive is not False and time.monotonic() < end:
            await pause(rest)
            rest = min(2 * rest, LONGEST_PAUSE_S)
            questions = self._questions.status(other), self._questions.is_alive(other.worker)
            status, is_alive = await self._ask(*questions)
            if status != "undecided":
                return bool(status == "kept")
        self._stats.inc_value(stats.BACKEND_OVERTAKEN)
        self._link.tell(self._questions.forget(other))
        return False

    def keep(self, page_id: int) -> None:
        """An item of a page left the pipelines."""
        if page := self._ours.pop(page_id, None):
            self._link.tell(self._questions.keep(page))

    def keep_item(self, item: KeptItem) -> None:
        """An item of a page that repeats none, or that says something new, left the pipelines."""
        self._link.tell(self._questions.keep_item(item))

    def drop(self, page_id: int) -> None:
        """No item of a page left the pipelines, or it had none."""
        if page := self._ours.pop(page_id, None):
            self._link.tell(self._questions.forget(page))

    async def close(self) -> None:
        """Tell the server what it was not told yet, if it takes it in CLOSING_S."""
        await run_in_thread(self._link.close, CLOSING_S)
        self._server.close()
        counts = {
            stats.BACKEND_LOST: self._link.n_lost,
            stats.BACKEND_REFUSED: self._link.n_refused,
            stats.BACKEND_ROUND_TRIPS: self._server.n_round_trips,
        }
        for key, n in counts.items():
            self._stats.set_value(key, n)

    async def _ask(self, *questions: Call) -> Any:
        """The answer, or a list of them; None, counted, in place of one that does not come."""
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

"""What the other workers know: asked of the server, remembered by this worker, too."""

import time
from dataclasses import replace
from secrets import token_bytes
from typing import Any

from scrapy.statscollectors import StatsCollector
from scrapy.utils.asyncio import run_in_thread

from scrapy_neardup import stats
from scrapy_neardup.detector import Decision, PageReading
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.fleet.link import Link, Unanswered
from scrapy_neardup.fleet.questions import Call, Questions, Rules, SharedPage, TooManyEntries
from scrapy_neardup.fleet.server import Server, failures
from scrapy_neardup.parts import make_identity
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.records import KeptPage
from scrapy_neardup.waiting import answer_of, pause

MAX_ENTRIES = 20_000  # that one look-up compares on the server: about 10 ms
MAX_ROUNDS = 5  # in which others may bring something new to compare a page with
PATIENCE_S = 3.0  # until an item of another worker's page has left its pipelines
PAUSE_S = 0.02
CLOSING_S = 5.0  # to tell the server what it was not told yet


class Peers:
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
        self._ours: dict[int, SharedPage] = {}  # local id → page whose items are under way
        self._asking: set[int] = set()  # local ids of pages that the server is asked about
        self.key = self._agree(settings)
        self._questions = Questions(
            settings.backend_prefix,
            self.key,
            capacity=settings.url_capacity,
            error_rate=settings.url_error_rate,
            rules=Rules(settings.distance, blocks, min(settings.scan_limit, MAX_ENTRIES)),
        )
        self._link = Link(self._server.send)

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

    async def decide(self, state: State, reading: PageReading) -> tuple[Decision, bool]:
        """The decision about a page, and whether it is remembered from now on.

        As the worker's own detector decides after it has read the other workers' pages that
        are near: these are fetched from the server and kept in the worker's memory.
        """
        decision, is_new = _decided(state, reading)
        while decision.original_id in self._asking:
            await pause(PAUSE_S)
            if decision.original_id not in self._asking:
                decision, is_new = _decided(state, reading)
        if decision.is_duplicate or not is_new:
            return decision, is_new
        return await self._compare(state, reading, decision)

    async def _compare(
        self, state: State, reading: PageReading, decision: Decision
    ) -> tuple[Decision, bool]:
        compared: list[bytes] = []
        for _ in range(MAX_ROUNDS):
            page = _shared(state, decision)
            near = await self._admitted(page, compared)
            if not near:
                return (decision if near is not None else _undecided(decision)), True
            compared += [other.stamp for other in near]
            assert decision.page_id is not None
            settled = [other for other in near if await self._is_settled(other, reading)]
            state.drop(decision.page_id)
            self._asking.discard(decision.page_id)
            for other in settled:
                state.detector.restore(*other.kept)
            decision, is_new = _decided(state, reading)
            if decision.is_duplicate or not is_new:
                return decision, is_new
        return _undecided(decision), True

    async def _admitted(
        self, page: "tuple[int, SharedPage]", compared: list[bytes]
    ) -> list[SharedPage] | None:
        """Pages to compare with first, none if it was admitted; None: too many to look through."""
        id, shared = page
        self._asking.add(id)
        try:
            near = await self._ask(self._questions.admit(shared, compared))
        except TooManyEntries:
            self._ours[id] = shared
            self._asking.discard(id)
            self._stats.inc_value(stats.BACKEND_UNDECIDED)
            return None
        if near is None:
            self._link.tell(self._questions.admit(shared))  # others shall know it nevertheless
        if not near:
            self._ours[id] = shared
            self._asking.discard(id)
        return near or []

    async def _is_settled(self, other: SharedPage, reading: PageReading) -> bool:
        """Whether a page may be the reason to drop another, waiting for its items if need be.

        One whose worker does not come to an end with it is forgotten.
        """
        row = other.kept.page
        if row.url == reading.url and row.digest != reading.digest:
            self._link.tell(self._questions.forget(other))  # the page as it was earlier
            return False
        if other.is_kept or row.url == reading.url:
            return other.is_kept
        if any(other.stamp == own.stamp for own in self._ours.values()):
            return False  # compared already
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            await pause(PAUSE_S)
            status = await self._ask(self._questions.status(other))
            if status != "undecided":
                return bool(status == "kept")
        self._stats.inc_value(stats.BACKEND_OVERTAKEN)
        self._link.tell(self._questions.forget(other))
        return False

    def keep(self, page_id: int) -> None:
        """An item of a page left the pipelines."""
        if page := self._ours.pop(page_id, None):
            self._link.tell(self._questions.keep(page))

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
        for key, count in counts.items():
            self._stats.set_value(key, count)

    async def _ask(self, question: Call) -> Any:
        """The answer; None, counted, where the server gives none."""
        self._stats.inc_value(stats.BACKEND_ASKED)
        try:
            return await answer_of(self._link.ask(question))
        except Unanswered:
            self._stats.inc_value(stats.BACKEND_UNANSWERED)
            return None


def _decided(state: State, reading: PageReading) -> tuple[Decision, bool]:
    """The worker's own decision, and whether the page is new to it and remembered."""
    n_rows = state.detector.pages.n_rows
    decision = state.decide(reading)
    return decision, decision.page_id is not None and decision.page_id >= n_rows


def _shared(state: State, decision: Decision) -> tuple[int, SharedPage]:
    """A page as the server gets it, beside its local id."""
    assert decision.page_id is not None
    page = state.detector.pages.page(decision.page_id)
    indexed = decision.kind in ("new", "near")
    return decision.page_id, SharedPage(token_bytes(8), KeptPage(page, indexed))


def _undecided(decision: Decision) -> Decision:
    return replace(decision, kind="undecided")

"""The pages that the workers of a fleet share: which are new, and whose items are under way.

A page is asked about once this worker's own detector has found it new. The server gives the pages
that are near it, which that detector then decides by.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from typing import Any

from scrapy.statscollectors import StatsCollector

from scrapy_neardup import stats
from scrapy_neardup.detect.decision import INDEXED, Decision
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.item_table import KeptItem
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.fleet.futures import pause
from scrapy_neardup.fleet.link import Link
from scrapy_neardup.fleet.membership import Membership
from scrapy_neardup.fleet.page_shards import PageShards
from scrapy_neardup.fleet.protocol import WORKER_BYTES, Call, Questions, SharedPage
from scrapy_neardup.state import State
from scrapy_neardup.state.records import KeptPage

MAX_ROUNDS = 8  # of comparing with pages that others bring meanwhile; then undecided
PATIENCE_S = 60.0  # to wait for a living worker's items to leave the pipelines
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.25  # between looks at the page
TAUGHT_AT = frozenset(2**n for n in range(32))  # pages of a host
TOLD_AGAIN_AT_ONCE = 50  # messages, so that the loop does not wait


class SharedPages:
    """The pages of a fleet as one worker sees them. Its methods are called on the loop's thread.

    run_began  when the run of visits began, in which the worker takes part: what was read before
               counts as read at another time. 0 without NEARDUP_RECRAWL
    """

    def __init__(
        self,
        worker: bytes,
        questions: Questions,
        link: Link,
        answer: Callable[[Future[Any]], Awaitable[Any]],
        membership: Membership,
        stats_: StatsCollector,
    ) -> None:
        """answer: waits for what a question brings; None, counted, if there is no answer."""
        self.run_began = 0.0
        self._worker, self._numbers = worker, count()
        self._questions, self._link, self._answer = questions, link, answer
        self._membership, self._stats = membership, stats_
        self._shards = PageShards(questions, link.ask, answer)
        self._pending: dict[int, SharedPage] = {}  # local id → page whose items are under way
        self._of_others: set[int] = set()  # local ids of pages that others kept
        self._being_asked: set[int] = set()  # local ids of pages that the server is asked about
        self._untold: Iterator[Call] = iter(())  # what the server is to be told again
        self._n_untold = 0  # about: of pages that are not kept nothing is told

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
        if not self.run_began and decision.is_duplicate and decision.original_id is not None:
            await self.bring_items(state, detector.pages.name(decision.original_id))
        return decision, is_new

    def keep(self, page_id: int) -> None:
        """An item of a page left the pipelines."""
        if page := self._pending.pop(page_id, None):
            self._link.tell(self._questions.keep(page))

    def keep_item(self, item: KeptItem) -> None:
        """An item left the pipelines: of a page that repeats none, or with new data."""
        self._link.tell(self._questions.keep_item(item))

    def drop(self, page_id: int) -> None:
        """No item of a page left the pipelines, or it had none."""
        self._of_others.discard(page_id)
        if page := self._pending.pop(page_id, None):
            self._link.tell(self._questions.forget(page))

    async def bring_items(self, state: State, page: int) -> None:
        """Fetch what all workers kept of the items of a page and of its copies."""
        for item in await self._ask(self._questions.items(page)) or ():
            state.items.add(item)

    async def tell_rest(self, end: float) -> int:
        """Tell what the server is to be told again; about how much is left when time is up.

        end: by the monotonic clock.
        """
        while self._n_untold and time.monotonic() < end:
            self._tell_some()
            await pause(0.0)
        return self._n_untold

    def _tell_again(self, state: State) -> None:
        """If the server lost its data: tell it what is known here, some of it with each page."""
        if self._membership.lost_data:
            self._membership.lost_data = False
            self._shards.forget()
            self._pending = {id: replace(page, shard=0) for id, page in self._pending.items()}
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
        return len(self._pending) + 2 * len(state.detector.pages) + n_learnt

    def _known(self, state: State) -> Iterator[Call]:
        """All that the server can be told again: pages, templates and items, not URLs.

        A filter cannot list its URLs.
        """
        asks = self._questions
        for page_id in list(self._pending):
            if page := self._pending.get(page_id):
                yield asks.admit(page)
        for kept in state.kept_pages():
            page = SharedPage(self._stamp(), kept)
            yield asks.admit(page)
            yield asks.keep(page)
        for host, learnt in state.detector.templates.hosts():
            yield asks.teach(host, learnt.pack())
        for item in state.items.items():
            yield asks.keep_item(item)

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
        if once and decision.page_id in self._of_others and self._was_read_now(state, decision):
            return _repeats_itself(decision, reading.url), False  # kept by the other worker
        while decision.original_id in self._being_asked:
            await pause(FIRST_PAUSE_S)
            if decision.original_id not in self._being_asked:
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
            self._of_others.update(id for id, worker in owners if worker != self._worker)
            decision, is_new = state.decide(reading, learn=False)
            if once and decision.page_id in ids and self._was_read_now(state, decision):
                self._of_others.add(decision.page_id)
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
        return state.detector.pages.page(decision.page_id).time >= self.run_began

    @contextmanager
    def _asked_about(self, page_id: int) -> Iterator[None]:
        """Make pages that repeat this one wait until the server has said whether it is new."""
        self._being_asked.add(page_id)
        try:
            yield
        finally:
            self._being_asked.discard(page_id)

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
        self._pending[decision.page_id] = page
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
        at_once = once and row.digest == reading.digest and row.time >= self.run_began
        if row.url == reading.url and not at_once:
            return other.is_kept and row.digest == reading.digest
        if other.is_kept or other.worker == self._worker:
            return other.is_kept  # our own page of this URL was compared already
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

    async def _ask(self, *questions: Call) -> Any:
        """The answer, or a list of answers; None, counted, for one that does not come."""
        answers = [await self._answer(one) for one in [self._link.ask(q) for q in questions]]
        return answers if len(answers) > 1 else answers[0]


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

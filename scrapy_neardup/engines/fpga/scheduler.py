"""Scheduler: the cycles of a fingerprint engine from the lengths of its documents alone."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

from scrapy_neardup.engines.fpga.design import Design, channel_words
from scrapy_neardup.engines.fpga.fingerprint_engine import Dispatch


class Emission(NamedTuple):
    """When and from which lane a document's fingerprint leaves."""

    document: int
    lane: int
    cycle: int


class Scheduler:
    """What FingerprintEngine does to the clock, without its values; documents may keep coming.

    Agrees with it cycle by cycle. State is the next turn of each lane and the few results
    that later documents may still overtake, so a crawl of any size needs a few hundred bytes.

    n_documents, n_bytes, n_words (64-bit, as fetched) count what was added.
    """

    def __init__(self, design: Design, dispatch: Dispatch = "queue") -> None:
        self.design = design
        self.dispatch = dispatch
        self.n_documents = self.n_bytes = self.n_words = 0
        self._turns = list(range(design.n_cores))  # next fetch, ≡ lane modulo the rotation
        self._ready: list[tuple[int, int, int]] = []  # heap of (cycle, lane, document)
        self._latched: list[tuple[int, int]] = []  # heap of (lane, document)
        self._clock = 0  # cycles before this one have left the output
        # No document can leave sooner than so many cycles after its first fetch.
        self._shortest = min(self._leaves(0, lane, 0, 1) for lane in (0, 1))

    def add(self, length: int) -> list[Emission]:
        """Take one more document of so many bytes; the results that are now certain.

        They come in the order of their cycles. O(log lanes).
        """
        words = channel_words(length)
        fetch = self._dispatch(words * self.design.rotation)
        lane = fetch % self.design.rotation
        heappush(self._ready, (self._leaves(fetch, lane, length, words), lane, self.n_documents))
        self.n_documents += 1
        self.n_bytes += length
        self.n_words += words
        return self._drive(until=min(self._turns) + self._shortest)

    def finish(self) -> list[Emission]:
        """The results still on their way, assuming that no document follows."""
        return self._drive(until=None)

    @property
    def cycles(self) -> int:
        """Cycles until the last result has left, assuming that no document follows."""
        rest = Scheduler(self.design)
        rest._ready, rest._latched = self._ready.copy(), self._latched.copy()
        rest._clock = self._clock
        rest.finish()
        return rest._clock

    def _dispatch(self, duration: int) -> int:
        """The cycle of a document's first fetch; its lane's next turn is `duration` later."""
        if self.dispatch == "queue":
            return heapreplace(self._turns, self._turns[0] + duration)
        lane = self.n_documents % self.design.n_cores
        self._turns[lane] += duration
        return self._turns[lane] - duration

    def _leaves(self, fetch: int, lane: int, length: int, words: int) -> int:
        if self.design.has_slots:
            return fetch + (words - 1) * self.design.rotation + self.design.slot_delay
        return self.design.ready(fetch + self.design.nul_after(length), lane)

    def _drive(self, until: int | None) -> list[Emission]:
        """Let the output run up to a cycle, exclusive."""
        emitted = []
        while self._wait(until):
            while self._ready and self._ready[0][0] <= self._clock:
                _, lane, document = heappop(self._ready)
                heappush(self._latched, (lane, document))
            lane, document = heappop(self._latched)
            emitted.append(Emission(document, lane, self._clock))
            self._clock += 1
        return emitted

    def _wait(self, until: int | None) -> bool:
        """Move the clock to the next cycle with output, if it comes before `until`."""
        if not self._latched:
            if not self._ready:
                return False
            cycle = max(self._clock, self._ready[0][0])
        else:
            cycle = self._clock
        if until is not None and cycle >= until:
            return False
        self._clock = cycle
        return True


def schedule(
    lengths: Sequence[int], design: Design, dispatch: Dispatch = "queue"
) -> list[Emission]:
    """Every document's emission, by document, when all of them are resident from cycle 0."""
    scheduler = Scheduler(design, dispatch)
    emitted = [emission for length in lengths for emission in scheduler.add(length)]
    return sorted(emitted + scheduler.finish())

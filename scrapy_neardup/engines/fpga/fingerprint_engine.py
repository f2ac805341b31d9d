"""FingerprintEngine: the paper's FE (Figure 6), one clock cycle at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from scrapy_neardup.engines.fpga.core import SimHashCore
from scrapy_neardup.engines.fpga.design import WORD_BYTES, Design, pack

Dispatch = Literal["queue", "static"]


class Result(NamedTuple):
    """A fingerprint on the output channel: in which cycle, from which lane."""

    cycle: int
    lane: int
    fingerprint: int


@dataclass
class Finished:
    """A fingerprint on its way through a lane's registers."""

    cycle: int  # in which it may leave the engine
    fingerprint: int


class FingerprintEngine:
    """Cores behind one 64-bit input and one 64-bit output channel.

    In cycle t the input may deliver one word, to lane t mod rotation only. A core takes a
    word's characters in the cycles that follow and ignores those after a NUL. Results wait
    in a latch per lane for the output, where the lowest lane goes first.
    `overflow` stays True once a latch was overwritten: a fingerprint was lost.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.cycle = 0
        self.overflow = False
        self._cores = [SimHashCore(design) for _ in range(design.n_cores)]
        self._buffers = [b""] * design.n_cores
        self._fetched = [0] * design.n_cores
        self._finished: list[list[Finished]] = [[] for _ in range(design.n_cores)]
        self._latches: list[int | None] = [None] * design.n_cores

    @property
    def lane(self) -> int | None:
        """The lane that may be given a word in this cycle, if any."""
        slot = self.cycle % self.design.rotation
        return slot if slot < self.design.n_cores else None

    @property
    def idle(self) -> bool:
        """Whether nothing is in buffers, registers or latches."""
        return not (
            any(self._buffers) or any(self._finished) or any(u is not None for u in self._latches)
        )

    def step(self, word: int | None) -> Result | None:
        """One clock cycle, in which `lane` is given a word or not; what the output drives."""
        for lane, core in enumerate(self._cores):
            self._consume(lane, core)
        if word is not None:
            self._fetch(word)
        for lane in range(self.design.n_cores):
            self._latch(lane)
        result = self._drive()
        self.cycle += 1
        return result

    def _consume(self, lane: int, core: SimHashCore) -> None:
        taken = self._buffers[lane][: self.design.bytes_per_cycle]
        self._buffers[lane] = self._buffers[lane][len(taken) :]
        for char in taken:
            fingerprint = core.consume(char)
            if fingerprint is not None:
                self._finished[lane].append(Finished(self._leaves(lane), fingerprint))
                self._buffers[lane] = b""
                break

    def _leaves(self, lane: int) -> int:
        if self.design.has_slots:
            return self._fetched[lane] + self.design.slot_delay
        return self.design.ready(self.cycle, lane)

    def _fetch(self, word: int) -> None:
        lane = self.cycle % self.design.rotation
        self._buffers[lane] = word.to_bytes(WORD_BYTES, "little")
        self._fetched[lane] = self.cycle

    def _latch(self, lane: int) -> None:
        while self._finished[lane] and self._finished[lane][0].cycle <= self.cycle:
            self.overflow |= self._latches[lane] is not None
            self._latches[lane] = self._finished[lane].pop(0).fingerprint

    def _drive(self) -> Result | None:
        for lane, fingerprint in enumerate(self._latches):
            if fingerprint is not None:
                self._latches[lane] = None
                return Result(self.cycle, lane, fingerprint)
        return None


def simulate(
    texts: Sequence[bytes], design: Design, dispatch: Dispatch = "queue"
) -> list[list[Result]]:
    """Every result of the texts, per lane in order, by stepping an engine until it is idle.

    dispatch: "queue" gives the next text to the first lane whose turn comes after its own
    has ended, "static" text i to lane i mod n_cores. O(cycles × lanes), about 0.1 MB/s.
    """
    engine = FingerprintEngine(design)
    feeder = Feeder([pack(text) for text in texts], design.n_cores, dispatch)
    results: list[list[Result]] = [[] for _ in range(design.n_cores)]
    while not (feeder.empty and engine.idle):
        result = engine.step(None if engine.lane is None else feeder.next_word(engine.lane))
        if result is not None:
            results[result.lane].append(result)
    return results


class Feeder:
    """Which word each lane gets next: ideal memory, all documents resident."""

    def __init__(self, documents: list[list[int]], n_lanes: int, dispatch: Dispatch) -> None:
        shared = iter(documents)
        self._documents = [
            shared if dispatch == "queue" else iter(documents[lane::n_lanes])
            for lane in range(n_lanes)
        ]
        self._words: list[Iterator[int]] = [iter(()) for _ in range(n_lanes)]
        self._left = sum(map(len, documents))

    @property
    def empty(self) -> bool:
        return self._left == 0

    def next_word(self, lane: int) -> int | None:
        """The next word of the lane's document, or of the one it takes now; None at the end."""
        word = next(self._words[lane], None)
        if word is None:
            self._words[lane] = iter(next(self._documents[lane], ()))
            word = next(self._words[lane], None)
        self._left -= word is not None
        return word

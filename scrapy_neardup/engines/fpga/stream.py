"""StreamCore: the core between two AXI4-Streams (rtl/simhash_stream.v), one cycle at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from scrapy_neardup.engines.fpga.design import FLOOR, NUL, SPACE, WORD_BYTES, Design
from scrapy_neardup.engines.fpga.fingerprint_engine import FingerprintEngine

HAS_NUL, BAD_KEEP, TOO_LONG = 1, 2, 4  # flags of a result, tuser
ALL_BYTES = 0xFF


class Beat(NamedTuple):
    """One transfer of a document: eight bytes, of which `keep` says by bits which are there."""

    data: bytes
    keep: int
    last: bool
    id: int


class Answer(NamedTuple):
    """The result of a document. With BAD_KEEP or TOO_LONG its fingerprint means nothing."""

    fingerprint: int
    id: int
    flags: int


class Word(NamedTuple):
    """What waits for a lane."""

    value: int
    last: bool


@dataclass
class Lane:
    """A lane's document and the words that wait for its core."""

    open: bool = False
    id: int = 0
    flags: int = 0
    n_beats: int = 0
    queue: deque[Word] = field(default_factory=deque)
    in_engine: deque[tuple[int, int]] = field(default_factory=deque)  # id, flags


def beats(text: bytes, id: int) -> Iterator[Beat]:
    """A document as a host sends it; an empty one is one beat without bytes."""
    for start in range(0, max(len(text), 1), WORD_BYTES):
        part = text[start : start + WORD_BYTES]
        last = start + WORD_BYTES >= len(text)
        yield Beat(part.ljust(WORD_BYTES, b"\0"), (1 << len(part)) - 1, last, id)


class StreamCore:
    """The registers of simhash_stream.v and what they become with every clock.

    `ready`, `answer`, `busy` and `blocked` are what the ports show in this cycle; clock() ends it.
    n_documents and n_lane_stalls count like the registers DOCUMENTS and LANE_STALLS.
    """

    def __init__(self, design: Design, queue: int = 16, results: int = 32) -> None:
        """queue: words that may wait for a lane. results: that may be in the engine or wait."""
        self.design = design
        self.lanes = [Lane() for _ in range(design.n_cores)]
        self.n_documents = self.n_lane_stalls = 0
        self._engine = FingerprintEngine(design)
        self._most_words, self._most_results = queue, results
        self._held: Beat | None = None
        self._ending: Lane | None = None  # it still gets a word with nothing but the NUL
        self._given: tuple[Lane, Word] | None = None  # to the engine in this cycle
        self._places = results
        self._results: deque[Answer] = deque()

    @property
    def ready(self) -> bool:
        """s_tready."""
        return self._held is None or self._taking() is not None

    @property
    def answer(self) -> Answer | None:
        """What m_tdata, m_tid and m_tuser show, None without m_tvalid."""
        return self._results[0] if self._results else None

    @property
    def busy(self) -> bool:
        """Whether a document, or a part of one, is anywhere in the core."""
        return (
            any(part is not None for part in (self._held, self._ending, self._given))
            or any(lane.open or lane.queue for lane in self.lanes)
            or self._places < self._most_results
        )

    @property
    def blocked(self) -> bool:
        """Whether a beat waits that belongs to none of the N documents that are open."""
        return (
            self._held is not None
            and self._match(self._held) is None
            and all(lane.open for lane in self.lanes)
        )

    def clock(self, beat: Beat | None, is_taken: bool) -> None:
        """End the cycle. beat: on the input, if any. is_taken: m_tready."""
        ready, answer = self.ready, self.answer
        last_goes = self._given is not None and self._given[1].last
        came = self._feed_engine()
        leaving = self._leaving(self._places - last_goes > 0)
        self._queue_word()
        if leaving is not None:
            self._given = (leaving, leaving.queue.popleft())
        if answer is not None and is_taken:
            self._results.popleft()
        if came is not None:
            self._results.append(came)
        self._places += (answer is not None and is_taken) - last_goes
        if ready:
            self._held = beat

    def _match(self, beat: Beat) -> Lane | None:
        return next((lane for lane in self.lanes if lane.open and lane.id == beat.id), None)

    def _taking(self) -> Lane | None:
        """The lane that takes the held beat in this cycle, if any does."""
        if self._held is None or self._ending is not None:
            return None
        free = (lane for lane in self.lanes if not lane.open and not lane.queue)
        lane = self._match(self._held) or next(free, None)
        return lane if lane is not None and len(lane.queue) < self._most_words else None

    def _feed_engine(self) -> Answer | None:
        """One cycle of the engine; the answer that it completes."""
        word = None
        if self._given is not None:
            lane, given = self._given
            word = given.value
            if given.last:
                lane.in_engine.append((lane.id, lane.flags))
        self._given = None
        result = self._engine.step(word)
        if result is None:
            return None
        return Answer(result.fingerprint, *self.lanes[result.lane].in_engine.popleft())

    def _leaving(self, has_place: bool) -> Lane | None:
        """The lane that has its turn in the next cycle, if it then gets a word."""
        turn = self._engine.cycle % self.design.rotation  # step() has counted this cycle
        if turn >= len(self.lanes) or not self.lanes[turn].queue:
            return None
        self.n_lane_stalls += not has_place
        return self.lanes[turn] if has_place else None

    def _queue_word(self) -> None:
        lane = self._taking()
        if self._ending is not None:
            if len(self._ending.queue) < self._most_words:
                self._ending.queue.append(Word(0, True))
                self._ending = None
        elif lane is not None and self._held is not None:
            self._take(lane, self._held)
            self._held = None

    def _take(self, lane: Lane, beat: Beat) -> None:
        """A beat becomes a word of its lane's queue."""
        if not lane.open:
            self.n_documents += 1
            lane.flags, lane.n_beats, lane.id = 0, 0, beat.id
        n_bytes = trailing_ones(beat.keep)
        text = beat.data[:n_bytes]
        if NUL in text:
            lane.flags |= HAS_NUL
        if beat.keep != (1 << n_bytes) - 1 or not (beat.last or n_bytes == WORD_BYTES):
            lane.flags |= BAD_KEEP
        length = lane.n_beats * WORD_BYTES + n_bytes
        if beat.last and not length <= (1 << self.design.counter_bits) - 2:
            lane.flags |= TOO_LONG
        word = text.replace(bytes([NUL]), bytes([SPACE]))
        if beat.last and lane.n_beats == 0:
            word = word.ljust(FLOOR, b" ")
        filler = b"\0" if beat.last else b" "
        value = int.from_bytes(word.ljust(WORD_BYTES, filler), "little")
        ends = beat.last and n_bytes < WORD_BYTES
        lane.queue.append(Word(value, ends))
        lane.open = not beat.last
        lane.n_beats += 1
        if beat.last and not ends:
            self._ending = lane


def trailing_ones(keep: int) -> int:
    """Bytes before the first that is not there."""
    return next(n for n in range(WORD_BYTES + 1) if not keep >> n & 1)

"""The first pass: every record read by workers, and decided about in its order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from errno import ENOMEM
from typing import Any, NamedTuple

from scrapy_neardup.detect.decision import INDEXED, Decision
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.offline.dedup.columns import Columns
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.journal import (
    CHOICE,
    CONTAINS,
    DAMAGED,
    DROPPED,
    DUPLICATE,
    JUDGED,
    KEPT,
    RunJournal,
)
from scrapy_neardup.offline.dedup.reading import Contained, Readings
from scrapy_neardup.offline.dedup.record import Chunk, DamagedRecord, Frame
from scrapy_neardup.offline.dedup.transfer import UncomparedRecord, unpack
from scrapy_neardup.offline.dedup.workers import Worker, WorkerEnded, Workers
from scrapy_neardup.state.records import KeptPage

UNREAD = "not_compared/unread"  # what is counted of damage that is kept as it came
ALL = range(2**63)  # records of a chunk, however many
NAMED = re.compile(r"(.*)#([0-9a-f]{8})\.(\d+)\.(\d+)\.(\d+)", re.DOTALL)


class RecordPlace(NamedTuple):
    """A record: number of its input, of the chunk in it, of the record in that."""

    number: int
    chunk: int
    record: int


def name_of(token: str, url: str, place: RecordPlace) -> str:
    """What the detector calls a record of a run: two records of one URL are two pages, and may
    repeat each other."""
    return f"{url}#{token}.{place.number}.{place.chunk}.{place.record}"


def place_of(name: str, token: str) -> tuple[str, RecordPlace | None]:
    """URL and place of a record by its name; no place for a page that is not of this run."""
    found = NAMED.fullmatch(name)
    if not found:
        return name, None
    url, run, *numbers = found.groups()
    return url, RecordPlace(*map(int, numbers)) if run == token else None


class Cuts:
    """The inputs in chunks, as a process of its own cuts them."""

    def __init__(self, workers: Workers, inputs: list[Input], columns: list[Columns]) -> None:
        self.workers, self.inputs, self.columns = workers, inputs, columns

    def after(self, number: int, chunk: int) -> Iterator[tuple[int, Chunk]]:
        """Chunks from one of one input on, each with the number of its input."""
        for other in range(number, len(self.columns)):
            for part in self.of(other, chunk if other == number else 0):
                yield other, part

    def of(self, number: int, first: int = 0) -> Iterator[Chunk]:
        """The chunks of an input; if its reader crashes twice at one place, its rest is damage."""
        following, n_crashes = first, 0
        while n_crashes < 2:  # the first time it may have been killed from outside
            try:
                for chunk in self.workers.feeder.stream(
                    "chunks", number, self.columns[number], following
                ):
                    following, n_crashes = chunk.number + 1, 0
                    yield chunk
                return
            except WorkerEnded:
                n_crashes += 1
        frame = Frame(0, damage="the rest of the file: its reader crashed")
        yield Chunk(following, 0, 0, frames=[frame])

    def read(self, worker: Worker, part: tuple[int, Chunk]) -> Readings:
        """What the records of a chunk say; one that ends its worker is left unread."""
        read: Readings = self.looked_at(worker, "read", part)
        return read

    def looked_at(self, worker: Worker, name: str, part: tuple[int, Chunk], *args: Any) -> Any:
        """What a method of Reader says of a chunk. It is told which records not to look at: those
        that ended a worker, or all where one ended behind them, as without memory to send them.

        Raises OSError where a worker ends all the same.
        """
        number, chunk = part
        fatal: set[int] | range = set()
        while True:
            try:
                return worker.call(name, number, self.columns[number], chunk, fatal, *args)
            except WorkerEnded as ended:
                if fatal == ALL:
                    what = f"workers end that cut chunk {chunk.number}: free memory or lower --jobs"
                    raise OSError(ENOMEM, what, self.inputs[number].label) from ended
                fatal = ALL if ended.index < 0 or ended.index in fatal else {*fatal, ended.index}


class Decider:
    """Decides about chunks in their order and notes in the journal what it decides."""

    def __init__(
        self, detector: Detector, journal: RunJournal, token: str, notes_all: bool = False
    ) -> None:
        """notes_all: every record that is compared, for a ledger."""
        self.detector = detector
        self.journal = journal
        self.token = token
        self.notes_all = notes_all

    def decide(self, number: int, chunk: int, read: Readings) -> Counter[str]:
        """Decide about the records of a chunk; how many of each kind."""
        counts, verdicts = Counter(records=len(read.traits)), bytearray()
        records = zip(unpack(read.packed), read.traits, strict=True)
        for index, (reading, traits) in enumerate(records):
            if traits is not None and isinstance(reading, PageReading):
                entry = {"index": index, "name": reading.url, "traits": traits}
                self.journal.note(CHOICE, entry)
            kind, verdict = self._verdict(index, reading)
            counts[kind] += 1
            counts["kept"] += verdict
            verdicts.append(verdict)
        for index, contained in enumerate(read.contained):
            self._contained(index, contained, counts)
        self.journal.decided((number, chunk), bytes(verdicts), counts)
        return counts

    def _contained(self, index: int, contained: Contained | None, counts: Counter[str]) -> None:
        if contained is None:
            counts["passages/not_searched"] += 1
            return
        counts["passages/records"] += bool(contained.found)
        for found in contained.found:
            entry = {"index": index, "url": contained.url, **found._asdict()}
            self.journal.note(CONTAINS, entry)

    def _verdict(
        self, index: int, reading: PageReading | UncomparedRecord | DamagedRecord
    ) -> tuple[str, int]:
        if isinstance(reading, DamagedRecord):
            self.journal.note(
                DAMAGED, {"index": index, "offset": reading.begin, "error": reading.error}
            )
            return (UNREAD, KEPT) if reading.is_whole else ("damaged", DROPPED)
        if isinstance(reading, UncomparedRecord):
            return f"not_compared/{reading.reason}", KEPT
        decision = self._decision(reading)
        if self.notes_all:
            entry = told(reading, decision) | {"words": decision.words}
            self.journal.note(JUDGED, {"index": index, **entry, "differs": decision.differs})
        if not decision.is_duplicate:
            return decision.kind, KEPT
        self.journal.note(DUPLICATE, {"index": index, **told(reading, decision)})
        return decision.kind, DROPPED

    def _decision(self, reading: PageReading) -> Decision:
        detector = self.detector
        decision = detector.decide(reading, learn=False, is_first=True)  # name_of() names one page
        if decision.page_id is not None:
            page = detector.pages.page(decision.page_id)
            self.journal.page(KeptPage(page, decision.kind in INDEXED))
        if decision.kind != "exact" and detector.learn(reading):
            self.journal.template(reading.host, reading.learnt)
        return decision


def told(reading: PageReading, decision: Decision) -> dict[str, Any]:
    """What is noted of a duplicate."""
    similarity = decision.similarity
    return {
        "name": reading.url,
        "original": decision.original,
        "kind": decision.kind,
        "distance": decision.distance,
        "sketch_distance": decision.sketch_distance,
        "similarity": None if similarity is None else round(similarity, 4),
    }

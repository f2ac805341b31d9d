"""The journal of a run: each chunk's decisions, and what the detector remembered of it.

A chunk's records come before its CHUNK record, which makes them count: what a kill left behind
the last one is cut off, and those chunks are read again. What is longer than a record may be
stands in PART records, and its end in a record of its kind.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.kernels.numpy_twin import U64Array
from scrapy_neardup.state.header import Identity
from scrapy_neardup.state.journal import (
    MAX_PAYLOAD_BYTES,
    Journal,
    JournalRecord,
    journal_records,
)
from scrapy_neardup.state.records import KeptPage, pack_page, unpack_page

PAGE, TEMPLATE, PART, DUPLICATE, DAMAGED, CHOICE, CHUNK, CONTAINS, JUDGED = range(1, 10)
NOTES = (DUPLICATE, DAMAGED, CHOICE, CONTAINS, JUDGED)  # in the order of Decided
_HOST = struct.Struct("<Q")

# Verdicts, a byte a record.
DROPPED, KEPT = 0, 1


Notes = Sequence[dict[str, Any]]


class DecidedChunk(NamedTuple):
    """A chunk that was decided.

    place     number of the input, of the chunk in it
    verdicts  DROPPED or KEPT, a byte a record; DROPPED for damage, unless it is kept as it came
    """

    place: tuple[int, int]
    verdicts: bytes
    counts: Counter[str]
    duplicates: Notes = ()
    damaged: Notes = ()
    choices: Notes = ()
    contained: Notes = ()  # passages that records contain
    judged: Notes = ()  # every record that was compared, where a ledger is wanted


class RunJournal:
    """Appends what a run decides; see the module."""

    def __init__(self, path: Path, identity: Identity, key: int, end: int = 0) -> None:
        """key: the run's secret. end: of the last chunk in a journal that is there."""
        make = Journal(path, end, key=key) if end else Journal.create(path, identity, key=key)
        self._journal = make
        self._noted: list[JournalRecord] = []  # of the chunk under way

    def _note(self, kind: int, payload: bytes) -> None:
        while len(payload) > MAX_PAYLOAD_BYTES:
            self._noted.append(JournalRecord(PART, payload[:MAX_PAYLOAD_BYTES]))
            payload = payload[MAX_PAYLOAD_BYTES:]
        self._noted.append(JournalRecord(kind, payload))

    def page(self, kept: KeptPage) -> None:
        """A page that the detector remembers."""
        self._note(PAGE, pack_page(kept))

    def template(self, host: int, hashes: U64Array) -> None:
        """Blocks of a page that templates were learnt from."""
        self._note(TEMPLATE, _HOST.pack(host) + hashes.astype("<u8").tobytes())

    def note(self, kind: int, entry: dict[str, Any]) -> None:
        """A DUPLICATE, something DAMAGED, what a CHOICE of a copy is made by, a passage that a
        record CONTAINS, or how a record was JUDGED."""
        self._note(kind, json.dumps(entry).encode())

    def decided(self, place: tuple[int, int], verdicts: bytes, counts: Counter[str]) -> None:
        """All of a chunk is decided: write it. Raises OSError."""
        head = json.dumps([*place, counts]).encode()
        self._note(CHUNK, head + b"\n" + zlib.compress(verdicts))
        noted, self._noted = self._noted, []
        self._journal.extend(noted)

    def close(self) -> None:
        """Everything is on the disk when this returns. Raises OSError."""
        self._journal.close()


def decided(
    path: Path, identity: Identity, key: int, detector: Detector | None = None
) -> Iterator[tuple[int, DecidedChunk]]:
    """The chunks of a journal, each with the offset behind it. In constant memory.

    detector: is taught what the one that wrote the journal remembered.
    """
    records: list[tuple[int, bytes]] = []
    for end, kind, payload in _joined(journal_records(path, identity, key)):
        if kind != CHUNK:
            records.append((kind, payload))
            continue
        if detector is not None:
            teach(detector, records)
        yield end, _decided(payload, records)
        records = []


def _joined(records: Iterator[tuple[int, JournalRecord]]) -> Iterator[tuple[int, int, bytes]]:
    """Kind and payload of records, whole again, each with the offset behind it."""
    parts: list[bytes] = []
    for end, record in records:
        parts.append(record.payload)
        if record.kind != PART:
            yield end, record.kind, b"".join(parts)
            parts = []


def _decided(payload: bytes, records: list[tuple[int, bytes]]) -> DecidedChunk:
    head, _, packed = payload.partition(b"\n")
    number, chunk, counts = json.loads(head)
    noted: dict[int, list[dict[str, Any]]] = {kind: [] for kind in NOTES}
    for kind, entry in records:
        if kind in noted:
            noted[kind].append(json.loads(entry))
    place, verdicts = (number, chunk), zlib.decompress(packed)
    return DecidedChunk(place, verdicts, Counter(counts), *noted.values())


def teach(detector: Detector, records: list[tuple[int, bytes]]) -> None:
    """Bring a detector to where the one was that wrote these records."""
    for kind, payload in records:
        if kind == PAGE:
            kept = unpack_page(payload)
            detector.restore(kept.page, kept.indexed)
        elif kind == TEMPLATE:
            hashes = np.frombuffer(payload, "<u8", offset=_HOST.size).astype(np.uint64)
            detector.templates.learn(_HOST.unpack_from(payload)[0], hashes)

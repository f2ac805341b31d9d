"""Offline deduplication: files of pages through the same Detector as a crawl.

One process reads records and decides, in the order of the input; worker processes extract text
and compute fingerprints. Memory holds the detector's kept pages and a bounded number of records
that wait for the workers.

The order of writes makes a run resumable after kill -9: a checkpoint first syncs all output, then
writes the detector's snapshot, then replaces progress.json, which names both. On restart, output
written after the checkpoint is removed and its records are read again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from scrapy_neardup.detect.detector import Decision, Detector, PageReading
from scrapy_neardup.factory import make_detector, make_identity, restored_detector
from scrapy_neardup.offline.dedup import checkpoint
from scrapy_neardup.offline.dedup.checkpoint import Progress, snapshot_path
from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.offline.dedup.inputs import Input, columns_of, records
from scrapy_neardup.offline.dedup.outputs import Part, part_path
from scrapy_neardup.offline.dedup.reading import Readers, Sheet, Unread
from scrapy_neardup.offline.dedup.record import Damage, PageRecord
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.lock import FolderLock
from scrapy_neardup.state.secret import kept_key
from scrapy_neardup.state.snapshot import open_snapshot, write_snapshot

CHECKPOINT_S = 60.0

# Called during a run with the bytes of the input read so far and the counts so far.
Watcher = Callable[[int, "dict[str, int]"], None]


class DedupJob(NamedTuple):
    """What to deduplicate, with which settings, and the output folder."""

    inputs: list[Input]
    out: Path
    settings: NearDupSettings
    fields: Fields
    jobs: int


@dataclass(slots=True)
class Task:
    """A record on its way through the workers."""

    number: int  # of its input
    record: PageRecord | Damage


def dedup(job: DedupJob, watch: Watcher = lambda n_bytes, counts: None) -> dict[str, Any]:
    """Deduplicate and return the summary; resumes where a run over the same files stopped.

    Writes `kept/` (records in their own formats), `duplicates.jsonl` (each with its original
    and the distances), `damaged.jsonl` and `summary.json`. Raises InputError, SnapshotError,
    OSError.
    """
    for source in job.inputs:
        columns_of(source, job.fields)  # an error in the last input is told before the first
    checkpoint.begun(job.out, job.inputs)  # refuses folders of something else
    job.out.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(job.out, "Wait for that run, or name another folder with --out")
    try:
        return deduplicated(job, watch)
    finally:
        lock.close()


def deduplicated(job: DedupJob, watch: Watcher) -> dict[str, Any]:
    """Deduplicate into a folder that is this process's own."""
    progress = checkpoint.begun(job.out, job.inputs)
    if not progress.done:
        checkpoint.save(job.out, progress)
        checkpoint.drop_later_output(job.out, progress)
        with DedupRun(job, progress, watch) as run:
            run.go()
    return write_summary(job, progress)


class DedupRun:
    """One run: its detector, its output, its progress."""

    def __init__(self, job: DedupJob, progress: Progress, watch: Watcher) -> None:
        self.job = job
        self.progress = progress
        self.watch = watch
        key = job.settings.key
        self.key = kept_key(job.out) if key is None else key
        self.identity = make_identity(job.settings, self.key)
        self.detector = self._detector()
        self.duplicates = self._opened("duplicates.jsonl")
        self.damaged = self._opened("damaged.jsonl")
        self.part: Part | None = None
        self.saved_at = self.begun_at = time.monotonic()
        self.seconds_before = progress.seconds
        self.bytes_before = 0

    def __enter__(self) -> DedupRun:
        return self

    def __exit__(self, *error: object) -> None:
        self.duplicates.close()
        self.damaged.close()

    def _detector(self) -> Detector:
        if not self.progress.snapshot:
            return make_detector(self.job.settings, self.key)
        path = snapshot_path(self.job.out, self.progress.snapshot)
        arrays = open_snapshot(path, self.identity).arrays
        return restored_detector(self.job.settings, self.key, arrays)

    def _opened(self, name: str) -> BinaryIO:
        return (self.job.out / name).open("ab")

    def go(self) -> None:
        """Process every remaining record."""
        with Readers(self.job.settings, self.key, self.job.jobs) as readers:
            for task, reading in readers.in_order(self._tasks()):
                self._enter_input(task.number)
                self._handle(task.record, reading)
                self.progress.position = task.record.position + 1
                if time.monotonic() - self.saved_at >= CHECKPOINT_S:
                    self._save()
        self._end_input(len(self.job.inputs))
        self.progress.done = True
        self._save()

    def _tasks(self) -> Iterator[tuple[Task, Sheet]]:
        """Remaining records, each with what a worker needs of it."""
        first, position = self.progress.number, self.progress.position
        sizes = [n_bytes for _, n_bytes in self.progress.inputs]
        for number in range(first, len(self.job.inputs)):
            before = sum(sizes[:number])

            def read(n_bytes: int, before: int = before) -> None:
                self.watch(before + n_bytes, self.progress.counts)

            for record in records(self.job.inputs[number], self.job.fields, read):
                if number > first or record.position >= position:
                    yield Task(number, record), sheet_of(number, record)

    def _enter_input(self, number: int) -> None:
        if number != self.progress.number:
            self._end_input(number)

    def _end_input(self, number: int) -> None:
        """Close the output of a finished input, and begin the next input."""
        self._close_part()
        self.progress.number, self.progress.position, self.progress.part = number, 0, 0

    def _handle(self, record: PageRecord | Damage, reading: PageReading | Unread) -> None:
        """Keep a record, map it to its original, or list its damage."""
        source = self.job.inputs[self.progress.number]
        where = {"file": str(source.path), "record": record.position}
        counts = self.progress.counts
        counts["records"] += 1
        if isinstance(record, Damage):
            counts["damaged"] += 1
            self._note(self.damaged, {**where, "error": record.error})
            return
        if isinstance(reading, Unread):
            counts[f"not_compared/{reading.reason}"] += 1
            self._keep(record, source)
            return
        decision = self.detector.decide(reading)
        counts[decision.kind] += 1
        if decision.is_duplicate:
            self._note(self.duplicates, {**where, "url": record.url, **self._told(decision)})
        else:
            self._keep(record, source)

    def _keep(self, record: PageRecord, source: Input) -> None:
        if self.part is None:
            progress = self.progress
            path = part_path(self.job.out, progress.number, source, progress.part)
            self.part = Part.of(source, path)
        self.progress.counts["kept"] += 1
        self.part.write(record.raw)

    def _told(self, decision: Decision) -> dict[str, object]:
        """A duplicate's original and distances, for the mapping."""
        url, _, place = (decision.original or "").rpartition("#")
        number, _, position = place.partition(":")
        return {
            "original": {
                "file": str(self.job.inputs[int(number)].path),
                "record": int(position),
                "url": url,
            },
            "kind": decision.kind,
            "distance": decision.distance,
            "sketch_distance": decision.sketch_distance,
            "similarity": None if decision.similarity is None else round(decision.similarity, 4),
        }

    @staticmethod
    def _note(file: BinaryIO, entry: dict[str, object]) -> None:
        file.write(json.dumps(entry).encode() + b"\n")

    def _close_part(self) -> None:
        if self.part is not None:
            self.part.close()
            self.part = None
            self.progress.part += 1

    def _save(self) -> None:
        """Write a checkpoint. progress.json comes last: it counts only on what the disk has."""
        self._close_part()
        progress, old = self.progress, self.progress.snapshot
        for file in (self.duplicates, self.damaged):
            file.flush()
            os.fsync(file.fileno())
        progress.duplicates_bytes, progress.damaged_bytes = (
            self.duplicates.tell(),
            self.damaged.tell(),
        )
        progress.seconds = self.seconds_before + time.monotonic() - self.begun_at
        progress.snapshot += 1
        arrays = self.detector.arrays()
        write_snapshot(snapshot_path(self.job.out, progress.snapshot), self.identity, arrays)
        checkpoint.save(self.job.out, progress)
        snapshot_path(self.job.out, old).unlink(missing_ok=True)
        self.saved_at = time.monotonic()


def sheet_of(number: int, record: PageRecord | Damage) -> Sheet:
    """What a worker gets of a record. The fragment makes its name unique: two records of one
    URL are two pages here, and may repeat each other."""
    if isinstance(record, Damage):
        return Sheet("", "", None, None, "")
    name = f"{record.url}#{number}:{record.position}"
    return Sheet(name, record.url, record.text, record.body, record.content_type, record.has_site)


def write_summary(job: DedupJob, progress: Progress) -> dict[str, Any]:
    """Write summary.json and return its totals."""
    counts = dict(sorted(progress.counts.items()))
    summary = {
        "inputs": len(job.inputs),
        "bytes": sum(n_bytes for _, n_bytes in progress.inputs),
        "seconds": round(progress.seconds, 1),
        **{name: counts.pop(name, 0) for name in ("records", "kept", "exact", "near", "damaged")},
        "others": counts,
        "out": str(job.out),
    }
    (job.out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", "utf-8")
    return summary

"""A run of a job: what the parts of this package do, one after the other."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.errors import InputError
from scrapy_neardup.factory import make_detector, make_identity, rules_on_record
from scrapy_neardup.offline.dedup import journal
from scrapy_neardup.offline.dedup.columns import Columns
from scrapy_neardup.offline.dedup.copies import Swap, rechosen, swaps
from scrapy_neardup.offline.dedup.deciding import Cuts, Decider, RecordPlace, place_of
from scrapy_neardup.offline.dedup.input_columns import columns_of
from scrapy_neardup.offline.dedup.inputs import LOCKED
from scrapy_neardup.offline.dedup.job import DedupJob
from scrapy_neardup.offline.dedup.journal import DecidedChunk, RunJournal
from scrapy_neardup.offline.dedup.lines import Document, Surplus
from scrapy_neardup.offline.dedup.paragraphs import FILE as PARAGRAPHS
from scrapy_neardup.offline.dedup.paragraphs import Paragraphs, opened, write_paragraphs
from scrapy_neardup.offline.dedup.passages import Passages, read_passages
from scrapy_neardup.offline.dedup.progress import Progress, Stage, begun
from scrapy_neardup.offline.dedup.reading import Work
from scrapy_neardup.offline.dedup.record import Chunk
from scrapy_neardup.offline.dedup.reference import (
    SNAPSHOT,
    naming_remedy,
    reference_detector,
    reference_folder,
    reference_key,
)
from scrapy_neardup.offline.dedup.run_ledger import write_ledger
from scrapy_neardup.offline.dedup.signature_index import begin_version, check_index, write_version
from scrapy_neardup.offline.dedup.tables import (
    TOTALS,
    Records,
    write_clusters,
    write_contained,
    write_damaged,
    write_duplicates,
)
from scrapy_neardup.offline.dedup.texts import ClusterTexts, cluster_texts, members
from scrapy_neardup.offline.dedup.workers import Worker, WorkerEnded, Workers
from scrapy_neardup.offline.dedup.writing import CHECKPOINT_S, Writer, Written, changed
from scrapy_neardup.own_files import (
    make_folder,
    refuse_links_below,
    require_own,
    sync_new_files,
)
from scrapy_neardup.state.files import write_atomically
from scrapy_neardup.state.lock import FolderLock
from scrapy_neardup.state.secret import keep_key, kept_key
from scrapy_neardup.state.snapshot import write_snapshot

JOURNAL, SUMMARY = "decisions.journal", "summary.json"

# Called during a run with the bytes of the inputs read so far and the counts so far.
Watcher = Callable[[int, "dict[str, int]"], None]
# Called with the folder of what is kept, to take it elsewhere.
Taker = Callable[[Path], None]


def dedup(
    job: DedupJob,
    watch: Watcher = lambda n_bytes, counts: None,
    take: Taker = lambda kept: None,
) -> dict[str, Any]:
    """Deduplicate and return the summary; resumes where a run over the same files stopped.

    Writes `kept/` (records in their own formats), `duplicates.jsonl` (each with its original
    and the distances), `damaged.jsonl`, `detector.snapshot` (what is remembered of the pages),
    `summary.json`, and what the job asks for besides. take: is called before an index is told what
    is kept, which it is not if that raises. Raises InputError, StateLocked, StateError,
    OSError.
    """
    # A record is all that there is of its page, as of a crawl whose items are pages.
    job = job._replace(settings=replace(job.settings, compare="page"))
    if job.adds_to is not None:
        check_index(job.adds_to, job.settings, job.keep)
    named = [source.version for source in job.inputs]
    stage = begun(job.out, named, job.options).stage  # refuses folders of something else
    if stage == "done" and job.clusters is not None and not job.clusters.exists():
        raise InputError(
            f"{job.out}: holds a run that has ended, and its {job.clusters} is gone; name a new "
            f"folder with --out"
        )
    if stage != "done" and job.against is not None:
        reference_folder(job.against)
    columns = [] if stage == "done" else columns_of(job)
    path = None if stage == "done" else job.contains_any
    passages = None if path is None else Passages(read_passages(path), job.ngram)
    make_folder(job.out)
    require_own(job.out)
    refuse_links_below(job.out)
    with closing(FolderLock(job.out, LOCKED)):
        progress = begun(job.out, named, job.options)
        if progress.stage != "done":
            progress.save(job.out)  # before anything else, so that a kill leaves a run to resume
            DedupRun(job, columns, passages, progress, watch, take).go()
    return summary_in(job.out)


def summary_in(out: Path) -> dict[str, Any]:
    """What a run that has ended says of itself. Raises InputError."""
    path = out / SUMMARY
    try:
        summary: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be read ({error}), though the run has ended and what it kept is "
            f"beside it; name a new folder with --out to run it again"
        ) from error
    return summary


class DedupRun:
    """One run, from wherever an earlier one was stopped."""

    def __init__(
        self,
        job: DedupJob,
        columns: list[Columns],
        passages: Passages | None,
        progress: Progress,
        watch: Watcher,
        take: Taker,
    ) -> None:
        self.passages, self.take = passages, take
        self.job, self.columns, self.progress, self.watch = job, columns, progress, watch
        self.began_at = time.monotonic() - progress.seconds
        self.version = f"run-{progress.token}"  # of an index
        if job.adds_to is not None:
            begin_version(job.adds_to, job.settings, self.version)
        against = job.against or job.adds_to
        self.reference = None if against is None else reference_folder(against)
        self.key = self._key()
        self.identity = make_identity(job.settings, self.key)
        self.counts: Counter[str] = Counter()
        # Bytes before each input, and of all of them.
        self.begins = [0, *accumulate(n_bytes for _, n_bytes, _ in progress.inputs)]
        self.records = Records(job.inputs, progress.token, against)
        self.swapped: dict[RecordPlace, Swap] = {}

    def _key(self) -> int:
        """The secret: that of the settings, of the reference set, or the folder's own."""
        settings, out = self.job.settings, self.job.out
        if settings.key is not None:
            return settings.key
        if self.reference is not None and not (out / "key").exists():
            keep_key(out, reference_key(self.reference, settings))
        return kept_key(out)

    def _detector(self) -> Detector:
        settings = self.job.settings
        if self.reference is None:
            detector = make_detector(settings, self.key)
        else:
            detector = reference_detector(self.reference, settings, self.key)
        return detector

    def go(self) -> None:
        """Whatever is left to do."""
        job, token = self.job, self.progress.token
        with_traits = job.keep != "first"
        work = Work(
            job.settings, self.key, job.inputs, job.limits, token, with_traits, self.passages
        )
        self._save(self.progress.stage)
        with Workers(work, job.jobs) as workers:
            cuts = Cuts(workers, job.inputs, self.columns)
            detector = self._read(workers, cuts)
            self._write(workers, cuts)
        self._require_unchanged()
        self.take(job.out / "kept")
        if job.adds_to is not None:  # last: later runs drop what an index says is kept
            write_version(job.adds_to, self.version, self._as_decided(), detector, token)
        self._summarize()
        self._save("done")
        (job.out / PARAGRAPHS).unlink(missing_ok=True)
        (job.out / JOURNAL).unlink()

    def _read(self, workers: Workers, cuts: Cuts) -> Detector:
        """Decide about every record that is not decided yet; the detector, which remembers the
        pages as long as that matters."""
        is_reading = self.progress.stage == "reading"
        detector = self._detector()
        following, end = (0, 0), 0
        is_asked = is_reading or self.job.adds_to is not None
        for end, group in self._decided(detector if is_asked else None):  # noqa: B007
            following = group.place[0], group.place[1] + 1
            self._count(group.place[0], group.counts)
        if not is_reading:
            self.swapped = self._swapped()
            return detector
        with closing(RunJournal(self.job.out / JOURNAL, self.identity, self.key, end)) as written:
            notes_all = self.job.with_ledger or self.job.adds_to is not None
            decider = Decider(detector, written, self.progress.token, notes_all)
            for (number, part), read in workers.in_order(cuts.after(*following), cuts.read):
                self._count(number, decider.decide(number, part.number, read))
                self.watch(self.begins[number] + part.done, self.counts)
                if time.monotonic() - self.saved_at >= CHECKPOINT_S:
                    self._save("reading")
        self._require_unchanged()  # before it is read again
        path = self.job.out / SNAPSHOT
        write_snapshot(path, self.identity, detector.arrays(), key=self.key)
        self.swapped = self._swapped()
        write_duplicates(self.job.out, self._groups(), self.records)
        write_damaged(self.job.out, self._as_decided(), self.records)
        if self.passages is not None:
            write_contained(self.job.out, self._groups(), self.records)
        if self.job.paragraphs is not None:
            self._find_paragraphs(workers, cuts, self.job.paragraphs)
        if self.job.clusters is not None or self.job.with_ledger:
            rules = rules_on_record(self.job.settings, detector) | {"NEARDUP_COMPARE": "page"}
            self._tell_clusters(workers, cuts, rules)
        self._save("writing")
        return detector

    def _require_unchanged(self) -> None:
        """Raises InputError if an input was changed since the run began."""
        for source, version in zip(self.job.inputs, self.progress.inputs, strict=True):
            if source.version != version:
                raise changed(source)

    def _tell_clusters(self, workers: Workers, cuts: Cuts, rules: dict[str, object]) -> None:
        """Read the texts of clusters once more, and write what is to be said of them."""
        wanted = members(self._groups(), self.progress.token)

        def read(worker: Worker, part: tuple[int, Chunk]) -> list[tuple[int, str]]:
            places = wanted.get((part[0], part[1].number))
            found: list[tuple[int, str]] = (
                cuts.looked_at(worker, "texts", part, places) if places else []
            )
            return found

        with cluster_texts(self.job.out) as texts:
            parts = workers.in_order(cuts.after(0, 0), read)
            texts.fill(((number, part.number), found) for (number, part), found in parts)
            if self.job.clusters is not None:

                def differences(pairs: Iterable[tuple[str, str]]) -> Iterator[str | None]:
                    return self._differences(workers, texts, pairs)

                write_clusters(self.job.clusters, self._groups(), self.records, differences)
            if self.job.with_ledger:
                write_ledger(self.job.out, self._groups(), self.records, texts, rules)

    def _differences(
        self, workers: Workers, texts: ClusterTexts, pairs: Iterable[tuple[str, str]]
    ) -> Iterator[str | None]:
        """In which words each copy differs from what is kept; None where a text is not there."""

        def differ(worker: Worker, pair: list[str | None]) -> str | None:
            try:
                return None if None in pair else str(worker.call("difference", *pair))
            except WorkerEnded:
                return None

        token = self.progress.token
        said = ([texts.of(place_of(name, token)[1]) for name in pair] for pair in pairs)
        return (found for _, found in workers.in_order(said, differ))

    def _find_paragraphs(self, workers: Workers, cuts: Cuts, mode: Paragraphs) -> None:
        """Read what is kept once more, and say what of it repeats."""
        path = self.job.out / PARAGRAPHS
        path.unlink(missing_ok=True)  # of a run that was stopped here

        def documents(
            worker: Worker, part: tuple[tuple[int, Chunk], DecidedChunk]
        ) -> list[Document]:
            (number, _), group = part
            try:
                found: list[Document] = cuts.looked_at(worker, "documents", part[0], group.verdicts)
            except ValueError as error:  # frames and verdicts do not match
                raise changed(self.job.inputs[number]) from error
            return found

        read = workers.in_order(self._chunks_decided(cuts), documents)
        with opened(self.job.out) as table:
            table.fill(
                ((*group.place, found) for (_, group), found in read), self.job.settings.scope
            )
            write_paragraphs(self.job.out, table, mode, self.records)
        sync_new_files([path], self.job.out)  # what is written next goes by it

    def _chunks_decided(self, cuts: Cuts) -> Iterator[tuple[tuple[int, Chunk], DecidedChunk]]:
        """Every chunk with what was decided of it. Raises InputError where there are others now."""
        for part, group in zip_longest(cuts.after(0, 0), self._groups()):
            numbers = [part[0]] if part is not None else []
            numbers += [group.place[0]] if group is not None else []
            if part is None or group is None or (part[0], part[1].number) != group.place:
                raise changed(self.job.inputs[min(numbers)])
            yield part, group

    def _surplus(self, number: int, chunk: int) -> Surplus:
        if self.job.paragraphs != "remove":
            return {}
        with opened(self.job.out) as table:
            return table.surplus(number, chunk)

    def _decided(self, detector: Any = None) -> Iterator[tuple[int, DecidedChunk]]:
        path = self.job.out / JOURNAL
        if path.exists():
            with naming_remedy("name a new folder with --out"):
                yield from journal.decided(path, self.identity, self.key, detector)

    def _swapped(self) -> dict[RecordPlace, Swap]:
        if self.job.keep == "first":
            return {}
        swapped, n_undated = swaps(self._as_decided, self.job.keep, self.progress.token)
        if n_undated:
            self.counts["copies_without_date"] = n_undated
        return swapped

    def _as_decided(self) -> Iterator[DecidedChunk]:
        return (group for _, group in self._decided())

    def _groups(self) -> Iterator[DecidedChunk]:
        """What was decided, with the copies that were chosen."""
        return rechosen(self._as_decided(), self.swapped, self.progress.token)

    def _count(self, number: int, counts: Counter[str]) -> None:
        self.records.add(number, counts["records"])
        self.counts += counts

    def _write(self, workers: Workers, cuts: Cuts) -> None:
        """Write what is kept and not written yet."""

        def note(written: Written) -> None:
            self.progress.written = list(written)
            self.progress.kept_whole = sorted(writer.kept_whole)
            self._save("writing")

        folder, kept_whole = self.job.out / "kept", self.progress.kept_whole
        writer = Writer(self.job.inputs, cuts, folder, note, self._surplus, kept_whole)
        done = Written(*self.progress.written)
        for _ in writer.write(workers, self._groups(), done):
            self.watch(self.begins[-1], self.counts)
        if writer.kept_whole:
            self.counts["files_kept_whole"] += len(writer.kept_whole)

    def _save(self, stage: Stage) -> None:
        self.progress.stage = stage
        self.saved_at = time.monotonic()
        self.progress.seconds = self.saved_at - self.began_at
        self.progress.counts = dict(self.counts)
        self.progress.save(self.job.out)

    def _summarize(self) -> None:
        if self.passages is not None and self.passages.n_too_short:
            self.counts["passages/too_short"] = self.passages.n_too_short
        if self.job.paragraphs is not None:
            with opened(self.job.out) as table:
                self.counts |= table.totals(self.job.paragraphs)
        counts = dict(sorted(self.counts.items()))
        summary = {
            "inputs": len(self.job.inputs),
            "bytes": self.begins[-1],
            "seconds": round(time.monotonic() - self.began_at, 1),
            **{name: counts.pop(name, 0) for name in TOTALS},
            "others": counts,
            "out": str(self.job.out),
        }
        text = json.dumps(summary, indent=2) + "\n"
        write_atomically(self.job.out / SUMMARY, [text.encode()], mode=0o644)

"""The second pass: kept records written by workers, in the order of the inputs."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, NamedTuple

from scrapy_neardup.errors import InputError, StateError
from scrapy_neardup.offline.dedup.deciding import UNREAD, Cuts
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.journal import DecidedChunk
from scrapy_neardup.offline.dedup.lines import Surplus
from scrapy_neardup.offline.dedup.record import MIB, Chunk, Ranges
from scrapy_neardup.offline.dedup.workers import Worker, WorkerEnded, Workers
from scrapy_neardup.own_files import sync_new_files

CHECKPOINT_S = 5.0
PARTITION = re.compile(r"\w[\w.-]*=[^/]*")
WHOLE = ("parquet",)  # kinds whose files are written by one worker each
MAX_NAME_BYTES = 255  # of a file, on all usual file systems


class Part(NamedTuple):
    """A chunk to be written, or a whole input."""

    number: int
    verdicts: bytes
    chunk: Chunk | None = None
    is_first: bool = False  # whether nothing of the input was kept before
    surplus: Surplus = {}  # noqa: RUF012 - never written to
    is_unread: bool = False  # an input of which nothing could be read: it is kept as it came


class Written(NamedTuple):
    """How far writing has come: parts of an input, and bytes of its output."""

    number: int
    n_parts: int
    n_bytes: int


class Writer:
    """Writes the kept records of all inputs; `note` is told how far the disk has them."""

    def __init__(
        self,
        inputs: list[Input],
        cuts: Cuts,
        folder: Path,
        note: Callable[[Written], None],
        surplus: Callable[[int, int], Surplus],
        kept_whole: Iterable[int] = (),
    ) -> None:
        """surplus: the lines that the records of a chunk lose, by input and chunk. kept_whole: of
        a run that was stopped."""
        self.surplus = surplus
        self.inputs, self.cuts, self.folder, self.note = inputs, cuts, folder, note
        self._file: BinaryIO | None = None
        self._unsynced: set[Path] = set()  # written since the last note
        self._noted_at = time.monotonic()
        self.kept_whole = set(kept_whole)  # inputs that could not be written again

    def write(
        self, workers: Workers, decided: Iterator[DecidedChunk], done: Written
    ) -> Iterator[int]:
        """Write what is behind `done`, and remove what is behind it there; the numbers of inputs
        as their parts are written. Raises InputError, StateError, OSError."""
        self._remove_later(done)
        written = done
        for part, piece in workers.in_order(self._parts(decided, done), self._work_on):
            if part.number != written.number:
                self._close()
                written = Written(part.number, 0, 0)
            size = self._add(part.number, piece, written)
            written = Written(part.number, written.n_parts + 1, size)
            if time.monotonic() - self._noted_at >= CHECKPOINT_S:
                self._note(written)
            yield part.number
        self._note(Written(len(self.inputs), 0, 0))

    def _remove_later(self, done: Written) -> None:
        self.folder.mkdir(exist_ok=True)
        for number in range(done.number, len(self.inputs)):
            path = self._path(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            if number == done.number and done.n_bytes:
                cut_back(path, done.n_bytes)
            elif number > done.number or not done.n_parts:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def _parts(self, decided: Iterator[DecidedChunk], done: Written) -> Iterator[Part]:
        """What is to be written, with the verdicts of the journal, which has the chunks in the
        same order."""
        group = next(decided, None)
        for number, source in enumerate(self.inputs):
            groups: list[DecidedChunk] = []
            while group is not None and group.place[0] == number:
                groups.append(DecidedChunk(group.place, group.verdicts, group.counts))
                group = next(decided, None)
            if number < done.number or not groups:
                continue
            if source.kind != "html" and is_unread(groups):
                yield Part(number, b"", is_unread=True)
            elif source.kind in WHOLE:
                verdicts = b"".join(each.verdicts for each in groups)
                yield Part(number, verdicts, surplus=self._surplus_of_all(groups))
            else:
                yield from self._chunked(
                    number, groups, done.n_parts if number == done.number else 0
                )

    def _chunked(self, number: int, groups: list[DecidedChunk], n_done: int) -> Iterator[Part]:
        is_first = not any(any(group.verdicts) for group in groups[:n_done])
        chunks = self.cuts.of(number, n_done)
        for group in groups[n_done:]:
            chunk = next(chunks, None)
            if chunk is None:
                raise changed(self.inputs[number])
            surplus = self.surplus(*group.place)
            yield Part(number, group.verdicts, chunk, is_first, surplus)
            is_first = is_first and not any(group.verdicts)
        if next(chunks, None) is not None:
            raise changed(self.inputs[number])

    def _surplus_of_all(self, groups: list[DecidedChunk]) -> Surplus:
        """That of an input, by the records' places in it."""
        found: Surplus = {}
        begin = 0
        for group in groups:
            here = self.surplus(*group.place)
            found |= {begin + record: lines for record, lines in here.items()}
            begin += len(group.verdicts)
        return found

    def _work_on(self, worker: Worker, part: Part) -> bytes | Ranges | None:
        number, columns, path = part.number, self.cuts.columns[part.number], self._path(part.number)
        if part.is_unread:
            return None
        try:
            if part.chunk is not None:
                piece: bytes | Ranges = worker.call(
                    "write",
                    *(number, columns, part.chunk, part.verdicts, part.is_first, path),
                    part.surplus,
                )
                return piece
            if any(part.verdicts):
                worker.call("write_whole", number, columns, part.verdicts, path, part.surplus)
            return b""
        except ValueError as error:  # frames and verdicts do not match
            if part.chunk is not None:
                raise changed(self.inputs[number]) from error
        except (WorkerEnded, RuntimeError, NotImplementedError, TypeError):
            if part.chunk is not None:
                raise
        return None

    def _path(self, number: int) -> Path:
        source = self.inputs[number]
        folder = self.folder.joinpath(*partitions_of(source.path))
        return folder / name_of(number, source.name or "pages")

    def _add(self, number: int, piece: bytes | Ranges | None, written: Written) -> int:
        """Put a piece behind what is there; the bytes that are there then."""
        path = self._path(number)
        if piece is None:  # A file that cannot be written again is kept as it came.
            source = self.inputs[number]
            with path.open("wb") as file:
                copy(source.path, [(source.start, source.start + source.n_bytes)], file)
            self.kept_whole.add(number)
        if piece and self._file is None:
            self._file = path.open("ab")
        if path.is_file():  # a folder of HTML is on the disk when its worker returns
            self._unsynced.add(path)
        if not piece or self._file is None:
            return written.n_bytes
        if isinstance(piece, bytes):
            self._file.write(piece)
        else:
            copy(self.inputs[number].path, piece, self._file)
        return self._file.tell()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _note(self, written: Written) -> None:
        """Note how far writing has come, once the disk has it. Not for each file: there may be
        very many small ones."""
        self._close()
        sync_new_files(self._unsynced, self.folder)
        self._unsynced.clear()
        self.note(written)
        self._noted_at = time.monotonic()


def cut_back(path: Path, n_bytes: int) -> None:
    """Leave so many bytes of a file. Raises StateError where there are fewer, OSError."""
    there = path.stat().st_size if path.is_file() else 0
    if there < n_bytes:
        raise StateError(
            f"{path}: has {there:,} of the {n_bytes:,} bytes that were written; start again with "
            f"another --out"
        )
    os.truncate(path, n_bytes)


def changed(source: Input) -> InputError:
    """An input is not what it was when the run began."""
    return InputError(f"{source.label}: changed while it was read; start again with another --out")


def name_of(number: int, name: str) -> str:
    """The name of an input's file of kept records; of a long name the end, with its suffixes."""
    prefix = f"{number:05}-"
    encoded = os.fsencode(name)
    if len(prefix) + len(encoded) <= MAX_NAME_BYTES:
        return prefix + name
    return prefix + encoded[len(prefix) - MAX_NAME_BYTES :].decode("utf-8", "ignore")


def partitions_of(path: Path) -> list[str]:
    """The folders of a partitioned table, such as `site=a.example`, that a file lies in: what they
    say is in no column of the file."""
    names = [parent.name for parent in path.parents]
    return list(takewhile(PARTITION.fullmatch, names))[::-1]


def is_unread(groups: list[DecidedChunk]) -> bool:
    """Whether an input has records and none could be read."""
    counts = sum((group.counts for group in groups), Counter())
    return 0 < counts["records"] == counts["damaged"] + counts[UNREAD]


def copy(path: Path, ranges: Ranges, to: BinaryIO) -> None:
    """Copy places of a file."""
    with path.open("rb") as file:
        for begin, end in ranges:
            file.seek(begin)
            while begin < end and (block := file.read(min(MIB, end - begin))):
                to.write(block)
                begin += len(block)

"""A state folder: the newest snapshot, the journals since, and who may write them.

lock            FolderLock
key             the secret
snapshot-N      everything that journals before N recorded
journal-N       what came after; several where a snapshot failed or was interrupted
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from scrapy_neardup.errors import StateLocked
from scrapy_neardup.state.files import TEMPORARY, sync_folder
from scrapy_neardup.state.header import Identity
from scrapy_neardup.state.journal import (
    MAX_PAYLOAD_BYTES,
    Fsync,
    Journal,
    JournalContent,
    Record,
    cut_torn_end,
    read_journal,
)
from scrapy_neardup.state.lock import FolderLock
from scrapy_neardup.state.secret import kept_key, new_key
from scrapy_neardup.state.snapshot import Array, open_snapshot, write_snapshot

logger = logging.getLogger(__name__)


class Store:
    """Arrays and records of one crawl in one folder.

    Reading refuses what is damaged. Writing never raises: the first failure is logged, all
    are counted in `errors`, and until a snapshot succeeds what is recorded is recorded in
    memory only.
    """

    def __init__(self, folder: Path, fsync: Fsync = "everysec") -> None:
        """Take the folder, making it where it is missing. Raises StateLocked."""
        self.folder = folder
        self.errors = 0
        self.torn_bytes = 0
        self._said = False
        self._fsync = fsync
        self._lock: FolderLock | None = None
        self._journal: Journal | None = None
        self._number = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = FolderLock(folder)
        except StateLocked:
            raise
        except OSError as error:
            self._failed(error)

    def key(self) -> int:
        """The folder's secret key; a passing one where the folder can keep none.

        Raises StateError where the kept one is damaged.
        """
        try:
            return kept_key(self.folder)
        except OSError as error:
            self._failed(error)
            return new_key()

    def load(self, identity: Identity) -> tuple[dict[str, Array], Iterator[Record]]:
        """The arrays of the newest snapshot and the records since; then append() is possible.

        Raises SnapshotError and JournalError: see open_snapshot and read_journal.
        """
        self._identity = identity
        self._number = max(self._numbers("snapshot"), default=0)
        arrays = {}
        if self._snapshot_path(self._number).exists():
            arrays = open_snapshot(self._snapshot_path(self._number), identity)
        numbers = [number for number in self._numbers("journal") if number >= self._number]
        contents = [read_journal(self._journal_path(number), identity) for number in numbers]
        self.torn_bytes = sum(content.torn for content in contents)
        if self._lock is not None:
            self._open_journal(numbers, contents)
        return arrays, (record for content in contents for record in content.records())

    def _open_journal(self, numbers: list[int], contents: list[JournalContent]) -> None:
        try:
            for path in self.folder.glob(f"*{TEMPORARY}"):
                path.unlink()
            for number, content in zip(numbers, contents, strict=True):
                cut_torn_end(self._journal_path(number), content)
            if not numbers:
                self._start_journal(self._number)
                return
            self._number = numbers[-1]
            self._journal = Journal(self._journal_path(self._number), self._fsync)
        except OSError as error:
            self._failed(error)

    def _start_journal(self, number: int) -> None:
        path = self._journal_path(number)
        self._journal = Journal.create(path, self._identity, self._fsync)
        self._number = number

    def append(self, kind: int, payload: bytes) -> None:
        """Record something, as durably as the fsync policy says; up to 1 MiB, else an error."""
        if len(payload) > MAX_PAYLOAD_BYTES:
            self.errors += 1
            return
        if self._journal is None:
            return
        try:
            self._journal.append(kind, payload)
        except OSError as error:
            self._drop_journal()
            self._failed(error)

    @property
    def journal_bytes(self) -> int:
        """Bytes of the journal that is written to."""
        return self._journal.nbytes if self._journal is not None else 0

    def rotate(self) -> int | None:
        """Begin a new journal; the number of the snapshot that will cover all before it.

        None where no file can be made. To be called when the arrays are taken, before
        anything else is recorded.
        """
        if self._lock is None:
            return None
        try:
            self._close_journal()
            self._start_journal(self._number + 1)
        except OSError as error:
            self._failed(error)
            return None
        return self._number

    def write(self, number: int, arrays: Mapping[str, Array]) -> bool:
        """Write the snapshot that rotate() numbered and remove what it covers; in any thread.

        Whether it succeeded; where not, the files before it stay.
        """
        try:
            write_snapshot(self._snapshot_path(number), self._identity, arrays)
            self._remove_before(number)
        except OSError as error:
            self._failed(error)
            return False
        return True

    def _remove_before(self, number: int) -> None:
        for kind in ("snapshot", "journal"):
            for old in self._numbers(kind):
                if old < number:
                    self._remove(self.folder / f"{kind}-{old}")
        sync_folder(self.folder)

    def _remove(self, path: Path) -> None:
        try:
            path.unlink()
        except PermissionError:
            # Windows keeps a file that is mapped; the next crawl's first snapshot removes it.
            logger.debug("%s is in use and stays for now", path)

    def _numbers(self, kind: str) -> list[int]:
        """The numbers of the files snapshot-N or journal-N, ascending."""
        names = (path.name.removeprefix(f"{kind}-") for path in self.folder.glob(f"{kind}-*"))
        return sorted(int(name) for name in names if name.isdecimal())

    def _snapshot_path(self, number: int) -> Path:
        return self.folder / f"snapshot-{number}"

    def _journal_path(self, number: int) -> Path:
        return self.folder / f"journal-{number}"

    def close(self) -> None:
        """Sync the journal and give the folder back."""
        try:
            self._close_journal()
        except OSError as error:
            self._failed(error)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _close_journal(self) -> None:
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close()

    def _drop_journal(self) -> None:
        try:
            self._close_journal()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        self.errors += 1
        if not self._said:
            self._said = True
            logger.error(
                "State folder %s cannot be written (%s): the crawl goes on and loses no page, but "
                "what it learns from here on may be forgotten at its end. Free the disk or make "
                "the folder writable; the next snapshot then saves everything",
                self.folder,
                error,
            )

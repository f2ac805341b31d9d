"""A state folder: the newest snapshot, the journals since, and who may write them.

lock            FolderLock
key             the secret
snapshot-N      everything that journals before N recorded; the newest two are kept
rows-N-M        what snapshots begin with and share (row_files.py); kept as long as one needs it
journal-N       what came after; kept as long as a snapshot before it
*.damaged       what could not be read of a file (recovery.py)
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from secrets import randbits
from typing import Any, NamedTuple

from scrapy_neardup.errors import DamagedFile, StateError, StateLocked
from scrapy_neardup.own_files import make_folder, require_own, sync_folder
from scrapy_neardup.state.files import TEMPORARY
from scrapy_neardup.state.header import Identity
from scrapy_neardup.state.journal import (
    CLOSED,
    MAX_PAYLOAD_BYTES,
    Fsync,
    Journal,
    JournalRecord,
    journal_records,
)
from scrapy_neardup.state.lock import FolderLock
from scrapy_neardup.state.recovery import (
    Damage,
    FolderContent,
    ended_guests,
    numbers,
    read_folder,
    recover,
)
from scrapy_neardup.state.row_files import save_rows
from scrapy_neardup.state.secret import keep_key, kept_key, new_key
from scrapy_neardup.state.snapshot import (
    RowFiles,
    map_rows,
    named_rows,
    row_files,
    write_snapshot,
)

logger = logging.getLogger(__name__)

MERGED_AT_ONCE = 64  # records of a guest, of 1 MiB at most


class MappedRows(NamedTuple):
    """Rows of an array that a snapshot has put into a file of rows."""

    name: str  # of the array
    grows: object  # see Joined
    start: int  # the first row
    rows: Any


class Store:
    """Arrays and records of one crawl in one folder.

    Reading recovers what it can. Writing never raises: the first failure is logged, all are
    counted in `errors`, and until the next journal is begun nothing more is recorded.

    id       a number that stays with the folder and that no other has
    crashed  whether the crawl before this one ended without close(cleanly=True)
    frontier_commit  the newest commit of the frontier that pages count on, when it was loaded
    """

    is_guest = False
    _lock: FolderLock | None

    def __init__(self, folder: Path, fsync: Fsync = "everysec") -> None:
        """Take the folder, making it where it is missing.

        Raises StateLocked, and StateError for a folder that others own or may write to.
        """
        self._prepare(folder, fsync)
        try:
            make_folder(folder)
            require_own(folder)
            self._lock = FolderLock(folder)
        except StateLocked:
            raise
        except OSError as error:
            self._failed(error)

    def _prepare(self, folder: Path, fsync: Fsync) -> None:
        self.folder = folder
        self.errors = 0
        self.torn_bytes = 0
        self.id = randbits(63)
        self.crashed = False
        self.frontier_commit = 0
        self._said = False
        self._unkept_key: int | None = None
        self._fsync = fsync
        self._number = 0
        self._rows: RowFiles = {}  # what the newest snapshot needs
        self.newly_mapped: list[MappedRows] = []  # by the last write()
        self._lock = None
        self._journal: Journal | None = None
        self._spare: Journal | None = None  # of the next number, made ahead
        self._retired: Journal | None = None  # to be synced and closed

    def key(self) -> int:
        """The folder's secret key; a passing one where the folder can keep none.

        Raises StateError where the kept one is damaged.
        """
        try:
            return kept_key(self.folder)
        except OSError as error:
            self._failed(error)
            self._unkept_key = new_key()
            return self._unkept_key

    def _keep_key(self) -> None:
        """Write the key that found no room; first, for nobody could use what follows without it."""
        if self._unkept_key is not None and not os.path.lexists(self.folder / "key"):
            keep_key(self.folder, self._unkept_key)
        self._unkept_key = None

    def load(
        self, identity: Identity, key: int = 0
    ) -> tuple[dict[str, Any], Iterator[JournalRecord]]:
        """The arrays of the newest snapshot and the records since; then append() is possible.

        What is damaged is set aside and counted in `torn_bytes`. Raises SnapshotError and
        JournalError for files of another version or identity, or under another key; StateError
        for a folder that cannot be read.
        """
        self._identity, self._key = identity, key
        try:
            found = read_folder(self.folder, identity, key)
        except OSError as error:
            raise StateError(
                f"State folder {self.folder} cannot be read ({error}): what it remembers is not "
                "used, and nothing in it was changed. Make it readable, or name another folder"
            ) from error
        self.crashed = not found.closed
        self.frontier_commit = found.frontier_commit
        self.torn_bytes = sum(damage.n_bytes for damage in found.damage)
        self.id = randbits(63) if found.state is None else found.state
        self._number = max(found.journals, default=found.snapshot_number)
        self._rows = {} if found.snapshot is None else found.snapshot.rows
        records = [found.records()]
        if self._lock is not None:
            self._begin(found)
            records += self._merge_guests()
        return found.arrays, chain(*records)

    def _merge_guests(self) -> list[Iterator[JournalRecord]]:
        """What crawls recorded that were guests here and have ended; now in the journal, too."""
        damage: list[Damage] = []
        records: list[Iterator[JournalRecord]] = []
        try:
            with ended_guests(self.folder, self._identity, self._key, damage) as guests:
                for one in damage:
                    self._set_aside(one)
                paths = [guest.path for guest in guests if guest.is_ours]
                records = [self._records_of(path) for path in paths]
                if paths and self._journal is not None:
                    records = [self._merged(paths, self._journal)]
                    for path in paths:
                        self._remove(path)
        except OSError as error:
            self._drop_journal()
            self._failed(error)
        return records

    def _merged(self, guests: list[Path], journal: Journal) -> Iterator[JournalRecord]:
        """Records of guests, read again from the journal, which has them now. Raises OSError."""
        begin, records = journal.nbytes, chain(*map(self._records_of, guests))
        while some := list(islice(records, MERGED_AT_ONCE)):
            journal.extend(some)
        journal.sync()
        return self._records_of(journal.path, begin)

    def _records_of(self, path: Path, begin: int = 0) -> Iterator[JournalRecord]:
        records = journal_records(path, self._identity, self._key, begin)
        return (record for _, record in records if record.kind != CLOSED)

    def _begin(self, found: FolderContent) -> None:
        try:
            for path in self.folder.glob(f"*{TEMPORARY}"):
                path.unlink()
            for damage in found.damage:
                self._set_aside(damage)
            if found.journals:
                path, end = self._journal_path(self._number), found.journals[self._number].end
                self._journal = Journal(path, end, self._fsync, self._key)
            else:
                self._start_journal(self._number)
        except OSError as error:
            self._failed(error)

    def _set_aside(self, damage: Damage) -> None:
        aside = recover(damage)
        logger.warning(
            "%s. Moved to %s; what only these %d bytes held is fetched and kept again",
            damage.reason,
            aside.name,
            damage.n_bytes,
        )

    def _start_journal(self, number: int) -> None:
        self._keep_key()
        path = self._journal_path(number)
        self._journal = Journal.create(path, self._identity, self._fsync, self.id, self._key)
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

    def sync(self) -> bool:
        """Wait until all that was recorded is on the disk; whether it is."""
        if self._journal is None:
            return False
        try:
            self._journal.sync()
        except OSError as error:
            self._drop_journal()
            self._failed(error)
            return False
        return True

    @property
    def journal_bytes(self) -> int:
        """Bytes of the journal that is written to."""
        return self._journal.nbytes if self._journal is not None else 0

    def rotate(self) -> int | None:
        """Begin a new journal; the number of the snapshot that will cover all before it.

        None where no file can be made. To be called when the arrays are taken, before
        anything else is recorded. Does not wait for the disk after prepare().
        """
        if self._lock is None:
            return None
        if self._spare is not None:
            self._retired, self._journal, self._spare = self._journal, self._spare, None
            self._number += 1
            return self._number
        try:
            self._close_journal()
            self._start_journal(self._number + 1)
        except OSError as error:
            self._failed(error)
            return None
        return self._number

    def prepare(self) -> None:
        """Make the next journal, so that rotate() need not; in any thread, while none rotates."""
        if self._lock is None or self._spare is not None:
            return
        path = self._journal_path(self._number + 1)
        try:
            self._keep_key()
            self._spare = Journal.create(path, self._identity, self._fsync, self.id, self._key)
        except OSError as error:
            self._failed(error)

    def _close_retired(self) -> None:
        retired, self._retired = self._retired, None
        if retired is not None:
            retired.close()

    def write(self, number: int, arrays: Mapping[str, Any]) -> bool:
        """Write the snapshot that rotate() numbered and remove what it covers; in any thread.

        Rows that an earlier snapshot wrote are not written again; see row_files.py.
        Whether it succeeded; where not, the files before it stay.
        """
        try:
            self._close_retired()
        except OSError as error:  # what it could not sync is in the snapshot
            self._failed(error)
        try:
            left, rows = save_rows(number, arrays, self._rows, self._write_rows)
            path = self._snapshot_path(number)
            write_snapshot(path, self._identity, left, self.id, self._key, rows.values())
            self.newly_mapped = self._mapped(rows)
            self._rows = rows
            self._remove_before(number)
        except (OSError, DamagedFile) as error:
            self._failed(error)
            return False
        return True

    def _mapped(self, rows: RowFiles) -> list[MappedRows]:
        """What the files hold that the snapshot before did not have, read back."""
        before = {file.name for files in self._rows.values() for file in files}
        found = []
        for grows, files in rows.items():
            starts = Counter[str]()
            for file in files:
                if file.name not in before:
                    arrays = map_rows(self.folder / file.name, self._identity, self._key)
                    found += [MappedRows(n, grows, starts[n], a) for n, a in arrays.items()]
                starts.update(file.n_rows)
        return found

    def _write_rows(self, name: str, arrays: Mapping[str, Any]) -> str:
        return write_snapshot(self.folder / name, self._identity, arrays, self.id, self._key)

    def _remove_before(self, number: int) -> None:
        """Remove what neither this snapshot nor the one before it, its fallback, needs."""
        older = [n for n in numbers(self.folder, "snapshot") if n < number]
        needed = older[-1] if older else 0
        for kind in ("snapshot", "journal"):
            for n in numbers(self.folder, kind):
                if n < needed:
                    self._remove(self.folder / f"{kind}-{n}")
        self._remove_rows(needed)
        sync_folder(self.folder)

    def _remove_rows(self, fallback: int) -> None:
        """Remove the files of rows that neither the newest snapshot nor its fallback needs."""
        needed = named_rows(self._snapshot_path(fallback))
        needed |= {file.name for files in self._rows.values() for file in files}
        for path in row_files(self.folder):
            if path.name not in needed:
                self._remove(path)

    def _remove(self, path: Path) -> None:
        try:
            path.unlink()
        except PermissionError:
            # Windows keeps a file that is mapped; the next crawl's first snapshot removes it.
            logger.debug("%s is in use and stays for now", path)

    def _snapshot_path(self, number: int) -> Path:
        return self.folder / f"snapshot-{number}"

    def _journal_path(self, number: int) -> Path:
        return self.folder / f"journal-{number}"

    def close(self, cleanly: bool = False) -> None:
        """Sync the journal and give the folder back.

        cleanly: the folder holds all there is to remember; else the next crawl takes it for
        the leavings of a crash.
        """
        try:
            self._close_retired()
            self._close_journal(cleanly)
            if self._spare is not None:
                self._spare.close()
                self._spare = None
        except OSError as error:
            self._failed(error)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _close_journal(self, cleanly: bool = False) -> None:
        journal, self._journal = self._journal, None
        if journal is not None:
            journal.close(cleanly)

    def _drop_journal(self) -> None:
        try:
            self._close_journal()
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError | DamagedFile) -> None:
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

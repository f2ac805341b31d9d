"""A crawl in a state folder that another one has: it reads, and records into a journal of its own.

guest-X    what one guest recorded, X drawn at random; locked while the guest lives

The next crawl that takes the folder copies the journals of guests that have ended into its own, and
removes them. A crash between the two leaves records twice, which changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from secrets import randbits
from typing import Any

from scrapy_neardup.errors import StateLocked
from scrapy_neardup.own_files import require_own
from scrapy_neardup.state.header import Identity
from scrapy_neardup.state.journal import Fsync, Journal, JournalRecord
from scrapy_neardup.state.recovery import FolderContent, read_folder
from scrapy_neardup.state.store import Store

ATTEMPTS, PAUSE_S = 50, 0.1  # to read what its owner is changing


class GuestStore(Store):
    """What a crawl has of a folder that is another one's: its newest snapshot, its journals so far.

    Never takes a snapshot, sets nothing aside, removes nothing.
    """

    is_guest = True

    def __init__(self, folder: Path, locked: StateLocked, fsync: Fsync = "everysec") -> None:
        """locked: why the folder cannot be had.

        Raises StateError for a folder that others own or may write to; OSError.
        """
        self._prepare(folder, fsync)
        require_own(folder)
        self._locked = locked

    def key(self) -> int:
        """The folder's secret key, which its owner may be about to write. Raises StateLocked."""
        for _ in range(ATTEMPTS):
            if (self.folder / "key").exists():
                return super().key()
            time.sleep(PAUSE_S)
        raise self._locked

    def load(
        self, identity: Identity, key: int = 0
    ) -> tuple[dict[str, Any], Iterator[JournalRecord]]:
        """What the folder holds now; then append() is possible.

        Raises SnapshotError and JournalError for files of another version or identity, or under
        another key.
        """
        self._identity, self._key = identity, key
        found = self._read(identity)
        if found.state is not None:
            self.id = found.state
        try:
            self._journal = self._own_journal()
        except OSError as error:
            self._failed(error)
        return found.arrays, found.records()

    def _read(self, identity: Identity) -> FolderContent:
        for _ in range(ATTEMPTS):
            try:
                return read_folder(self.folder, identity, self._key)
            except FileNotFoundError:  # its owner has replaced it by a newer one
                time.sleep(PAUSE_S)
        raise self._locked

    def _own_journal(self) -> Journal:
        """A new journal, locked. Raises OSError."""
        while True:
            path = self.folder / f"guest-{randbits(64):016x}"
            journal = Journal.create(path, self._identity, self._fsync, self.id, self._key)
            # Before it was locked, the folder's next owner may have taken it for a dead guest's.
            if journal.lock() and path.exists():
                return journal
            journal.close()

    def rotate(self) -> int | None:
        """No snapshot: None."""
        return None

"""What can be read of a state folder, and what is to be set aside so that a crawl can go on.

Damage costs memory, never a page: what is forgotten is fetched again. So a crawl starts from the
newest sound snapshot and what can be read of the journals since; the rest is kept under a name
ending in .damaged. Files of another version or specification are refused, not recovered; but not
those of guests, whose settings nobody compared with the folder's while it was empty.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.errors import DamagedFile, DamagedRows, JournalError, StateError
from scrapy_neardup.own_files import O_NOFOLLOW, aside_name, refuse_links, set_aside
from scrapy_neardup.state import records
from scrapy_neardup.state.files import write_atomically
from scrapy_neardup.state.header import Identity
from scrapy_neardup.state.journal import (
    Journal,
    JournalContent,
    JournalRecord,
    journal_end,
    read_journal,
)
from scrapy_neardup.state.lock import try_lock
from scrapy_neardup.state.snapshot import Snapshot, open_snapshot
from scrapy_neardup.stored_arrays import check_arrays

FRONTIER_COMMIT = "frontier_commit"  # in a snapshot


class Damage(NamedTuple):
    """What cannot be used: a file from an offset on; the whole file if the offset is None."""

    path: Path
    offset: int | None
    n_bytes: int
    reason: str


class FolderContent(NamedTuple):
    """What a state folder holds."""

    snapshot_number: int  # 0 without a snapshot
    snapshot: Snapshot | None
    journals: dict[int, JournalContent]  # number → those since the snapshot, ascending
    damage: list[Damage]

    @property
    def closed(self) -> bool:
        """Whether the last crawl ended cleanly and left everything; also if there was none."""
        if self.damage:
            return False
        if not self.journals:
            return self.snapshot is None
        newest = max(self.journals)
        return newest == self.snapshot_number and self.journals[newest].closed

    @property
    def state(self) -> int | None:
        """The id of the state; None in an empty folder."""
        if self.journals:
            return self.journals[max(self.journals)].state
        return self.snapshot.state if self.snapshot is not None else None

    @property
    def identity(self) -> Identity | None:
        """For whom the folder was made; None if it is empty."""
        if self.journals:
            return self.journals[max(self.journals)].identity
        return self.snapshot.identity if self.snapshot is not None else None

    @property
    def arrays(self) -> dict[str, Any]:
        """The snapshot's arrays; none without one."""
        return self.snapshot.arrays if self.snapshot is not None else {}

    @property
    def frontier_commit(self) -> int:
        """The newest commit of the frontier that pages count on; 0 for none.

        Raises SnapshotError where a snapshot makes no sense.
        """
        commit = 0
        if FRONTIER_COMMIT in self.arrays:  # not of an earlier release
            check_arrays("state", self.arrays, {FRONTIER_COMMIT: (np.int64, (1,))})
            commit = int(self.arrays[FRONTIER_COMMIT][0])
        for record in self.records():
            if record.kind == records.FRONTIER:
                commit = records.unpack_commit(record.payload)
            elif record.kind == records.URLS_FORGOTTEN:
                commit = 0
        return commit

    def records(self) -> Iterator[JournalRecord]:
        """What was recorded since the snapshot, oldest first."""
        for journal in self.journals.values():
            yield from journal.records()


def numbers(folder: Path, kind: str) -> list[int]:
    """The numbers of the files snapshot-N or journal-N, ascending."""
    names = (path.name.removeprefix(f"{kind}-") for path in _files(folder, f"{kind}-*"))
    return sorted(int(name) for name in names if name.isdecimal())


def _files(folder: Path, pattern: str) -> Iterator[Path]:
    """What may be ours: we make no folder of such a name."""
    return (path for path in folder.glob(pattern) if not path.is_dir())


def read_folder(
    folder: Path, identity: Identity | None = None, key: int | None = None
) -> FolderContent:
    """Read a folder and change nothing. identity: None accepts any, but the same in all files.

    key: the folder's secret, where it is known: nothing that was written under another counts.

    Raises SnapshotError and JournalError for another version, identity or key; OSError.
    """
    damage: list[Damage] = []
    number, snapshot = _newest_snapshot(folder, identity, key, damage)
    if identity is None and snapshot is not None:
        identity = snapshot.identity
    journals = {}
    for n in numbers(folder, "journal"):
        if n >= number and (content := _journal(folder / f"journal-{n}", identity, key, damage)):
            journals[n] = content
            identity = content.identity
    return FolderContent(number, snapshot, journals, damage)


class Guest(NamedTuple):
    """The journal of a crawl that was a guest in the folder and has ended (guest.py)."""

    path: Path
    is_ours: bool  # whether it can be merged, up to what is damaged of it


def guest_journals(folder: Path) -> list[Path]:
    """The journals of guests, living ones too."""
    return sorted(path for path in _files(folder, "guest-*") if not path.suffix)


@contextmanager
def ended_guests(
    folder: Path, identity: Identity | None, key: int | None, damage: list[Damage]
) -> Iterator[list[Guest]]:
    """The journals of guests that have ended. Adds to the damage what cannot be used of them.

    They are locked until the context ends: else a guest that has just made one could begin to
    write to it before it is removed. Raises OSError.
    """
    with ExitStack() as locks:
        ended = [p for p in guest_journals(folder) if locks.enter_context(_has_ended(p))]
        yield [Guest(path, _is_ours(path, identity, key, damage)) for path in ended]


@contextmanager
def _has_ended(path: Path) -> Iterator[bool]:
    """Whether no living guest writes to a journal, which then is locked."""
    fd = os.open(path, os.O_RDWR | O_NOFOLLOW)
    try:
        yield try_lock(fd)
    finally:
        os.close(fd)


def _is_ours(path: Path, identity: Identity | None, key: int | None, damage: list[Damage]) -> bool:
    """Whether a guest's journal can be merged. It may be long, for no snapshot shortens it."""
    size = path.stat().st_size
    try:
        end = journal_end(path, identity, key)
    except (DamagedFile, JournalError) as error:
        damage.append(Damage(path, None, size, str(error)))
        return False
    if size > end:
        damage.append(_behind(path, end, size - end))
    return True


def _behind(path: Path, offset: int, n_bytes: int) -> Damage:
    """What is behind the last sound record of a journal."""
    reason = f"{path} has {n_bytes:,} bytes behind its last sound record"
    return Damage(path, offset, n_bytes, reason)


def read_fallback(folder: Path, content: FolderContent, key: int | None = None) -> list[Damage]:
    """Damage to what would only count if the newest snapshot were lost.

    Raises SnapshotError and JournalError for another version, identity or key; OSError.
    """
    damage: list[Damage] = []
    identity, newest = content.identity, content.snapshot_number
    for number in numbers(folder, "snapshot"):
        if number < newest:
            _snapshot(folder / f"snapshot-{number}", identity, key, damage)
    for number in numbers(folder, "journal"):
        if number < newest:
            _journal(folder / f"journal-{number}", identity, key, damage)
    return damage


def _newest_snapshot(
    folder: Path, identity: Identity | None, key: int | None, damage: list[Damage]
) -> tuple[int, Snapshot | None]:
    for number in reversed(numbers(folder, "snapshot")):
        if snapshot := _snapshot(folder / f"snapshot-{number}", identity, key, damage):
            return number, snapshot
    return 0, None


def _snapshot(
    path: Path, identity: Identity | None, key: int | None, damage: list[Damage]
) -> Snapshot | None:
    try:
        return open_snapshot(path, identity, key)
    except DamagedFile as error:
        files = [path]
        if isinstance(error, DamagedRows) and error.path.exists():
            files.append(error.path)
        for file in files:
            if all(file != one.path for one in damage):  # snapshots share files
                damage.append(Damage(file, None, file.stat().st_size, str(error)))
        return None


def _journal(
    path: Path, identity: Identity | None, key: int | None, damage: list[Damage]
) -> JournalContent | None:
    try:
        content = read_journal(path, identity, key)
    except DamagedFile as error:
        damage.append(Damage(path, None, path.stat().st_size, str(error)))
        return None
    if content.rest:
        damage.append(_behind(path, content.bad, len(content.rest)))
    return content


def recover(damage: Damage) -> Path:
    """Set aside what cannot be used; where it is now. Raises OSError."""
    if damage.offset is None:
        return set_aside(damage.path)
    with damage.path.open("rb") as file:
        file.seek(damage.offset)
        rest = file.read()
    aside = aside_name(damage.path)
    # First the copy, then the cut: a crash between them leaves a copy too many.
    write_atomically(aside, [rest])
    refuse_links(damage.path)
    fd = os.open(damage.path, os.O_WRONLY)
    try:
        os.ftruncate(fd, damage.offset)
        os.fsync(fd)
    finally:
        os.close(fd)
    return aside


def forget_urls(folder: Path, key: int | None) -> None:
    """Record that no URL counts as seen, so that the next crawl reads all pages again.

    The folder is to be sound, and no crawl's. Raises StateError without its key; OSError.
    """
    content = read_folder(folder, key=key)
    if content.identity is None:
        return
    if key is None:
        raise StateError(
            f"{folder}: a frontier is set aside under the folder's key only, which is NEARDUP_KEY: "
            f"repair it in the project that has this setting"
        )
    number = max(content.journals, default=content.snapshot_number)
    path = folder / f"journal-{number}"
    if content.journals:
        journal = Journal(path, content.journals[number].end, "always", key)
    else:
        assert content.state is not None
        journal = Journal.create(path, content.identity, "always", content.state, key)
    try:
        journal.append(records.URLS_FORGOTTEN, b"")
    finally:
        journal.close()

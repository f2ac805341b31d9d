"""The file of a frontier: its tables, how it is opened, what a commit leaves, and how damage shows.

SQLite has checksums for its log only, not for its pages, and unpickling runs what the bytes say. So
behind each request stands its MAC (mac.py): nothing that changed on the disk, or that somebody
without the folder's key wrote, leaves the file.

Of a log that is damaged SQLite drops the rest without a word. So each commit leaves its number, how
many requests there are, and a MAC of that and of the queues; whoever lets pages count on a commit
keeps the number elsewhere, and gives it when the file is opened again.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from scrapy_neardup.errors import StateError
from scrapy_neardup.sqlite_files import connect_to_read, is_count, reads_log, require_schema
from scrapy_neardup.state.mac import COMMIT, MAC_BYTES, QUEUE, REQUEST, is_mac, mac_of

# 4: the last commit has a row of its own.
VERSION = 4
WITHOUT_LAST_COMMIT = 3
NAME = "frontier.sqlite"  # in a job's state folder
MAX_REQUEST_BYTES = 2**30  # as much as SQLite takes
NOT_OWN = "has changed, or was not written under this folder's key"
SCHEMA = """
CREATE TABLE queues (id INTEGER PRIMARY KEY, name TEXT NOT NULL, slot TEXT NOT NULL);
CREATE TABLE requests (id INTEGER PRIMARY KEY, queue INTEGER NOT NULL, request BLOB NOT NULL);
CREATE INDEX requests_by_queue ON requests (queue);
"""
LAST_COMMIT = """
CREATE TABLE last_commit (number INTEGER NOT NULL, n_requests INTEGER NOT NULL, mac BLOB NOT NULL);
"""
# The second: SQLite's shared memory, a file beside it, cannot grow.
_NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")
# As bytes, whatever damage made of the text.
_QUEUES = "SELECT id, CAST(name AS BLOB), CAST(slot AS BLOB) FROM queues"


class Commit(NamedTuple):
    """What the last commit leaves of itself."""

    number: int
    n_requests: int  # in the file
    queues: int  # codes of those in the file, joined by XOR; not in the row

    @property
    def signed(self) -> bytes:
        """What the MAC of its row is of."""
        return b"".join(number.to_bytes(8, "little") for number in self)


class Examined(NamedTuple):
    """What a frontier's file holds."""

    n_requests: int
    damage: str | None  # what is wrong with it


def connected(path: Path) -> sqlite3.Connection:
    """A connection that takes the file as it is. Raises sqlite3.Error."""
    # Each connection is used by one thread at a time: the loop's, or that of the commits.
    return sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)


def opened(path: Path, key: int) -> sqlite3.Connection:
    """A connection to write with. Raises sqlite3.Error, StateError for another version."""
    db = connected(path)
    db.execute("PRAGMA journal_mode = WAL")
    # A sync for each commit: what waits for a commit may be on the disk itself right after it.
    db.execute("PRAGMA synchronous = FULL")
    if (version := _version(db, path)) < VERSION:
        _make(db, version, key)
    return db


def _make(db: sqlite3.Connection, version: int, key: int) -> None:
    """Make what a file of an earlier version lacks; version: 0 of a new one."""
    missing = LAST_COMMIT if version else SCHEMA + LAST_COMMIT
    db.executescript(f"BEGIN; {missing} PRAGMA user_version = {VERSION};")
    (n_requests,) = db.execute("SELECT count(*) FROM requests").fetchone()
    first = Commit(0, n_requests, codes_of_queues(db, key))
    db.execute("INSERT INTO last_commit VALUES (?, ?, ?)", row_of(first, key))
    db.execute("COMMIT")


def _version(db: sqlite3.Connection, path: Path) -> int:
    """Of a file's format; 0 if it was not made whole.

    Raises StateError for another version; sqlite3.Error.
    """
    try:
        (version,) = db.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_READONLY_ROLLBACK":
            raise
        # Only what makes the file a WAL has a rollback journal; whoever may write rolls it back.
        return 0
    if version not in (0, WITHOUT_LAST_COMMIT, VERSION):
        raise StateError(
            f"{path}: format version {version} found, {VERSION} expected: use the release that "
            f"wrote it"
        )
    if version:
        schema = SCHEMA if version == WITHOUT_LAST_COMMIT else SCHEMA + LAST_COMMIT
        require_schema(db, schema, max_cell_bytes=MAX_REQUEST_BYTES)
    return int(version)


def require_whole(path: Path, key: int, commit: int) -> None:
    """Raise StateError where a frontier lacks requests: its file is gone, damaged or older.

    commit: the newest one that pages count on, 0 for none. Reads every page of the file.
    """
    try:
        if not path.exists():
            damage = _behind("it is missing", commit)
        else:
            with closing(connect_to_read(path, timeout=60)) as db:
                damage = _damage(db, path, key, commit)
    except sqlite3.Error as error:
        raise unreadable(path, error) from error
    if damage is not None:
        raise StateError(
            f"{path}, the crawl's queue of requests, is damaged: {damage}: {remedy_of(path)}"
        )


def examine(path: Path, key: int | None = None, commit: int = 0) -> Examined:
    """Read every byte of a frontier that nobody has open, and change nothing.

    key: the folder's secret; None where it is not known, and no MAC can be checked. commit: as in
    require_whole(). Raises StateError for another version.
    """
    if not path.exists():
        return Examined(0, _behind(f"{path} is missing", commit))
    n_requests = 0
    try:
        with closing(connect_to_read(path, timeout=60)) as db:
            if damage := _damage(db, path, key, commit):
                return Examined(0, f"{path} is damaged: {damage}")
            if not _version(db, path):
                return Examined(0, None)
            for id, request in db.execute("SELECT id, request FROM requests"):
                if key is not None and not is_own(key, id, request):
                    return Examined(n_requests, f"{path} is damaged: request {id} {NOT_OWN}")
                n_requests += 1
    except sqlite3.Error as error:
        return Examined(n_requests, f"{path} is damaged: {error}")
    return Examined(n_requests, None)


def _damage(db: sqlite3.Connection, path: Path, key: int | None, commit: int) -> str | None:
    """What is wrong with a file, other than with single requests; None for a whole one.

    Raises StateError for another version; sqlite3.Error.
    """
    version = _version(db, path)
    if not reads_log(path):
        commit = 0  # what the log holds is not missing
    if not version:
        return _behind("it is empty", commit)
    (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        return " ".join(found.split())
    if (damage := _damaged_queue(db)) is not None:
        return damage
    if version == WITHOUT_LAST_COMMIT:
        return _behind("it ends before its first commit", commit)
    last = _last_commit(db, key)
    if last is None:
        return f"what tells its last commit, and its queues, {NOT_OWN}"
    if last.number < commit:
        return _behind(f"it ends with commit {last.number}", commit)
    (n_found,) = db.execute("SELECT count(*) FROM requests").fetchone()
    return None if n_found == last.n_requests else f"{n_found} of {last.n_requests} requests"


def _damaged_queue(db: sqlite3.Connection) -> str | None:
    """Which queue could not be opened by its name, so that nobody would ask for its requests."""
    for id, name, slot in db.execute(_QUEUES):
        try:
            slot.decode()
        except UnicodeDecodeError:
            return f"the slot of queue {id} has changed"
        if id != id_of_queue(name):
            return f"the name of queue {id} has changed"
    missing = db.execute("SELECT queue FROM requests EXCEPT SELECT id FROM queues").fetchone()
    return None if missing is None else f"requests wait in queue {missing[0]}, which it lacks"


def _behind(what: str, commit: int) -> str | None:
    """What is lost with all commits of a file up to one, if pages count on it."""
    if not commit:
        return None
    return f"{what}, and pages count as done because of its commit {commit}"


def count_requests(path: Path) -> int:
    """How many requests are in a frontier, which another crawl may have open.

    Raises StateError for a damaged file, or another version.
    """
    try:
        with closing(connect_to_read(path, timeout=60)) as db:
            if not _version(db, path):
                return 0
            (n_requests,) = db.execute("SELECT count(*) FROM requests").fetchone()
    except sqlite3.Error as error:
        raise unreadable(path, error) from error
    return int(n_requests)


def unreadable(path: Path, error: Exception) -> StateError:
    """What is said of a file that cannot be opened."""
    remedy = f"Make it readable and writable; if it is damaged, {remedy_of(path)}"
    if getattr(error, "sqlite_errorname", None) in _NO_ROOM:
        remedy = "Free the disk: a job's requests cannot wait where there is no room for their file"
    return StateError(
        f"{path}, the crawl's queue of requests, cannot be opened ({error}). {remedy}"
    )


def remedy_of(path: Path) -> str:
    """What to do about a damaged file."""
    return (
        f"run `scrapy neardup repair {path.parent}`. The next crawl then reads all pages again, "
        f"for nobody knows which of them led to what waited"
    )


def id_of_queue(name: bytes) -> int:
    """The number of a queue in the file."""
    return int.from_bytes(blake2b(name, digest_size=8).digest()) >> 1


def place_of(id: int) -> bytes:
    """What is signed with the request of a row, so that no other row can have it."""
    return id.to_bytes(8, "little", signed=True)


def is_own(key: int, id: int, request: object) -> bool:
    """Whether a row's request, with its MAC, was written there under a key."""
    # Damage may turn a column's bytes into another of SQLite's types.
    if not isinstance(request, bytes):
        return False
    return is_mac(request[-MAC_BYTES:], key, REQUEST, place_of(id), request[:-MAC_BYTES])


def _last_commit(db: sqlite3.Connection, key: int | None) -> Commit | None:
    """What the last commit left of itself; None unless this frontier wrote it."""
    found = db.execute("SELECT number, n_requests, mac FROM last_commit").fetchall()
    if len(found) != 1:
        return None
    ((number, n_requests, mac),) = found
    # Damage may turn a column's bytes into another of SQLite's types.
    if not (is_count(number) and is_count(n_requests) and isinstance(mac, bytes)):
        return None
    if key is None:
        return Commit(number, n_requests, 0)
    last = Commit(number, n_requests, codes_of_queues(db, key))
    return last if is_mac(mac, key, COMMIT, last.signed) else None


def row_of(commit: Commit, key: int) -> tuple[int, int, bytes]:
    """The row of a commit, with its MAC."""
    return commit.number, commit.n_requests, mac_of(key, COMMIT, commit.signed)


def codes_of_queues(db: sqlite3.Connection, key: int) -> int:
    """The codes of all queues in the file, joined by XOR."""
    codes = 0
    for queue in db.execute(_QUEUES):
        codes ^= code_of_queue(key, *queue)
    return codes


def code_of_queue(key: int, id: int, name: bytes, slot: bytes) -> int:
    """What a commit's MAC has of a queue."""
    return int.from_bytes(mac_of(key, QUEUE, place_of(id), name, b"\0", slot), "little")

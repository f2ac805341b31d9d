"""SQLite files, checked before anything of them is read: a stranger's may hold more than rows.

A view can compute for ever, a trigger act on what is written, a cell be as large as memory.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

# Statements that made something: kind of object, its name → the statement.
Objects = dict[tuple[str, str], str]

MAX_TIME_S = 2**36  # some 2,000 years
MAX_COUNT = 2**63  # one more would be refused with all that is written beside it
WRITTEN_BESIDE = ("-wal", "-shm", "-journal")  # suffixes of what SQLite writes beside a file

_OBJECTS = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"


class ForeignSchema(sqlite3.DatabaseError):
    """A file whose tables and views are not those of any schema that is ours."""


def connect_to_read(path: Path, timeout: float = 5.0) -> sqlite3.Connection:
    """A connection that changes nothing. timeout: seconds to wait for who is writing.

    Raises sqlite3.Error.
    """
    mode = "mode=ro" if reads_log(path) else "immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", timeout=timeout, uri=True)


def reads_log(path: Path) -> bool:
    """Whether connect_to_read() reads what is in a file's -wal, too.

    A folder that cannot be written to has no place for SQLite's shared memory; what a crawl has
    there, or left behind when it was killed, will do.
    """
    beside = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    return os.access(path.parent, os.W_OK) or all(os.access(one, os.R_OK) for one in beside)


def unread_log(path: Path) -> str | None:
    """What is said of a file where connect_to_read() would leave out what is in its -wal."""
    log = path.with_name(path.name + "-wal")
    if reads_log(path) or not log.exists() or not log.stat().st_size:
        return None
    return (
        f"{path}: the newest of what it holds is in {log.name}, which cannot be read where you may "
        f"not write to {path.parent}. Run this as the user of the crawl, or copy the whole folder"
    )


def require_schema(db: sqlite3.Connection, *schemas: str, max_cell_bytes: int) -> None:
    """Raise ForeignSchema unless what a schema of ours makes is in a file as it makes it.

    What somebody added beside it, say an index, does not count, other than triggers. Functions
    that reach out of SQLite are switched off, and cells longer than the limit are errors.
    """
    db.execute("PRAGMA trusted_schema = OFF")
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max_cell_bytes)
    found = _objects(db)
    triggers = [name for kind, name in found if kind == "trigger"]
    if triggers:
        raise ForeignSchema(f"it has a trigger, {triggers[0]}, which we do not make")
    made = [_made(schema) for schema in schemas]
    if not any(objects.items() <= found.items() for objects in made):
        strange = [name for (kind, name), sql in made[0].items() if found.get((kind, name)) != sql]
        raise ForeignSchema(f"its {strange[0]} is not as we make it")


def is_time(value: object) -> bool:
    """Whether a cell holds a time that a clock may have had, in seconds since 1970."""
    return isinstance(value, float) and 0 <= value < MAX_TIME_S


def is_count(value: object) -> bool:
    """Whether a value is a whole number of 0 or more that a cell can hold."""
    return type(value) is int and 0 <= value < MAX_COUNT


@contextmanager
def disk_errors(file: str) -> Iterator[None]:
    """SQLite's errors of the disk as OSError, which names the file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        full = "full" in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, f"{file}: {error}") from error


@cache
def _made(schema: str) -> Objects:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema)
        return _objects(db)


def _objects(db: sqlite3.Connection) -> Objects:
    # Without whitespace: SQLite lays a statement out anew when a column is dropped.
    return {(kind, name): "".join(sql.split()) for kind, name, sql in db.execute(_OBJECTS)}

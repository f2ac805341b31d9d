"""The frontier: requests that wait or are under way, in one SQLite file that survives any crash.

A row stays in the file until done(): taking it from its queue changes nothing on the disk. So
what was under way when a process was killed waits again when the file is opened.

Writes are gathered and committed by a thread, each time with a sync. push() says which commit
will hold the row: until then nobody may count on it. An uncommitted row is not lost as long as
what led to it is still in the file.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from scrapy_neardup.errors import StateError
from scrapy_neardup.own_files import NotOurFile, refuse_links
from scrapy_neardup.sqlite_files import WRITTEN_BESIDE
from scrapy_neardup.state.frontier_file import (
    NOT_OWN,
    Commit,
    code_of_queue,
    codes_of_queues,
    connected,
    id_of_queue,
    is_own,
    opened,
    place_of,
    remedy_of,
    require_whole,
    row_of,
    unreadable,
)
from scrapy_neardup.state.mac import MAC_BYTES, REQUEST, mac_of

logger = logging.getLogger(__name__)

CHUNK = 32  # rows of a queue that are read at once; twice as many stay in memory
RETRY_S = 5.0  # between two attempts to write to a full disk
NEWEST = 2**63 - 1


class Row(NamedTuple):
    """A request in the file."""

    id: int  # ascending in the order of the pushes
    request: bytes  # in the file, and in memory as in the file: with its MAC


class QueueName(NamedTuple):
    """A queue, and for which of the downloader's slots it is."""

    name: str
    slot: str


@dataclass(slots=True)
class _Batch:
    """What one transaction writes."""

    numbers: list[int]
    queues: dict[int, QueueName] = field(default_factory=dict)
    pushed: list[tuple[int, int, bytes]] = field(default_factory=list)  # id, queue, request
    done: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.pushed or self.done)


class Frontier:
    """Queues of requests in one file. For one thread; a second one, its own, does the writing.

    Pushing never raises because of the disk: a commit that fails is logged once, counted in
    `errors`, and tried again with what came since. Popping raises sqlite3.Error where the file
    cannot be read.

    n_rows  that the file held when it was opened
    """

    def __init__(self, path: Path, key: int = 0, commit: int = 0) -> None:
        """Open the file, making it where there is none. Raises StateError if that fails.

        key: the folder's secret. commit: as in require_whole().
        """
        self._key = key
        self.path = path
        self.errors = 0
        try:
            refuse_links(path, *WRITTEN_BESIDE)
            require_whole(path, key, commit)
            self._db = opened(path, key)
            self._reader = connected(path)
            self._reader.execute("PRAGMA query_only = 1")
            self._counts = dict(self._reader.execute(_COUNTS).fetchall())
            (last,) = self._reader.execute("SELECT max(id) FROM requests").fetchone()
            (number,) = self._reader.execute("SELECT number FROM last_commit").fetchone()
            queues = codes_of_queues(self._reader, key)
        except (sqlite3.Error, NotOurFile) as error:
            raise unreadable(path, error) from error
        self.n_rows = sum(self._counts.values())
        self._last_reopened = self._last = self._committed = last or 0
        self._out: set[int] = set()  # rows taken, or done and not yet gone from the file
        self._kept = Commit(number, self.n_rows, queues)  # as it is in the file
        self._batch = _Batch([number + 1])
        self._writing: tuple[_Batch, Future[None]] | None = None
        self._retry_at = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="neardup-frontier")

    def queue(self, name: str, newest_first: bool) -> RowQueue:
        """The queue of a name, with what it held; only one at a time may be open."""
        id = id_of_queue(name.encode())
        return RowQueue(self, name, id, self._counts.pop(id, 0), newest_first)

    def names(self) -> list[QueueName]:
        """The queues that held rows when the file was opened."""
        found = self._reader.execute("SELECT id, name, slot FROM queues ORDER BY name").fetchall()
        return [QueueName(name, slot) for id, name, slot in found if id in self._counts]

    def is_reopened(self, row: int) -> bool:
        """Whether a row was in the file when it was opened."""
        return row <= self._last_reopened

    def done(self, row: int) -> None:
        """All that a row led to is safe: remove it with the next commit."""
        self._batch.done.append(row)

    # --- called by the queues

    def insert(self, queue: int, name: QueueName, request: bytes) -> Row:
        """Add a row."""
        self._last += 1
        mac = mac_of(self._key, REQUEST, place_of(self._last), request)
        row = Row(self._last, request + mac)
        self._batch.queues[queue] = name
        self._batch.pushed.append((row.id, queue, row.request))
        return row

    def checked(self, row: Row) -> Row:
        """A row with its request alone. Raises StateError unless this frontier wrote it."""
        if not is_own(self._key, *row):
            raise StateError(f"request {row.id} in {self.path} {NOT_OWN}: {remedy_of(self.path)}")
        return Row(row.id, row.request[:-MAC_BYTES])

    def take(self, row: int) -> None:
        """A row has left its queue."""
        self._out.add(row)

    def is_committed(self, row: int) -> bool:
        """Whether a row is in the file, for certain."""
        return row <= self._committed

    def older(self, queue: int, than: int) -> list[Row]:
        """The newest rows of a queue that are older than a row, newest first."""
        return self._read(_OLDER, queue, than)

    def newer(self, queue: int, than: int) -> list[Row]:
        """The oldest rows of a queue that are newer than a row, oldest first."""
        rows = self._read(_NEWER, queue, than)
        if len(rows) < CHUNK:  # a commit may come between: what is in the file now is read above
            last = rows[-1].id if rows else than
            rows += [Row(id, data) for id, of, data in self._pending() if of == queue and id > last]
        return rows[:CHUNK]

    def _read(self, query: str, queue: int, edge: int) -> list[Row]:
        return [Row(*row) for row in self._reader.execute(query, (queue, edge, CHUNK))]

    def _pending(self) -> Iterator[tuple[int, int, bytes]]:
        if self._writing is not None:
            yield from self._writing[0].pushed
        yield from self._batch.pushed

    def is_out(self, row: int) -> bool:
        """Whether a row in the file was taken by somebody already."""
        return row in self._out

    def put_back(self, queue: int, n: int) -> None:
        """A queue is closed with so many rows."""
        self._counts[queue] = n

    # --- writing

    @property
    def batch(self) -> int:
        """The number of the commit that will hold what is pushed now."""
        return self._batch.numbers[-1]

    def commit(self) -> list[int]:
        """To be called again and again: begin a commit, and say which ones have succeeded.

        Never waits for the disk.
        """
        committed = self.ended()
        if self._writing is None and self._batch and time.monotonic() >= self._retry_at:
            batch, self._batch = self._batch, _Batch([self.batch + 1])
            self._writing = batch, self._thread.submit(self._write, batch)
        return committed

    def ended(self) -> list[int]:
        """Which commits have succeeded since this, or commit(), was last called."""
        if self._writing is None or not self._writing[1].done():
            return []
        return self._ended(*self._writing)

    def flush(self) -> list[int]:
        """Commit everything and wait for it; which commits have succeeded."""
        self._retry_at = 0.0
        committed = self.commit()
        while self._writing is not None:
            self._writing[1].exception()  # waits
            committed += self.commit()
        return committed

    def _ended(self, batch: _Batch, future: Future[None]) -> list[int]:
        self._writing = None
        if (error := future.exception()) is not None:
            self._failed(error)
            self._batch = _joined(batch, self._batch)
            return []
        self._out.difference_update(batch.done)
        if batch.pushed:
            self._committed = batch.pushed[-1][0]
        return batch.numbers

    def _failed(self, error: BaseException) -> None:
        self._retry_at = time.monotonic() + RETRY_S
        self.errors += 1
        if self.errors == 1:
            logger.error(
                "%s, the crawl's queue of requests, cannot be written (%s): the crawl goes on with "
                "the requests in memory. Free the disk or make it writable; until then no further "
                "page counts as seen, so that a crash loses none",
                self.path,
                error,
            )

    def _write(self, batch: _Batch) -> None:
        """In the thread."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            queues = self._kept.queues
            for id, name in batch.queues.items():
                added = db.execute("INSERT OR IGNORE INTO queues VALUES (?, ?, ?)", (id, *name))
                if added.rowcount:
                    queues ^= code_of_queue(self._key, id, *map(str.encode, name))
            db.executemany("INSERT INTO requests VALUES (?, ?, ?)", batch.pushed)
            done = ((row,) for row in batch.done)
            n_gone = db.executemany("DELETE FROM requests WHERE id = ?", done).rowcount
            n_kept = self._kept.n_requests + len(batch.pushed) - n_gone
            kept = Commit(batch.numbers[-1], n_kept, queues)
            row = row_of(kept, self._key)
            db.execute("UPDATE last_commit SET number = ?, n_requests = ?, mac = ?", row)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        self._kept = kept

    def close(self) -> bool:
        """Commit everything; whether the file holds nothing and may be removed."""
        self.flush()
        self.release()
        return not self._batch and not self._kept.n_requests

    def remove(self) -> None:
        """Remove the closed file. First its commits must not be counted on any more."""
        self.path.unlink(missing_ok=True)

    def release(self) -> None:
        """Give back thread and file as they are, as the end of the process would."""
        self._thread.shutdown()
        self._reader.close()
        self._db.close()


class RowQueue:
    """The rows of one queue that wait, in the order of their pushes or the other way round."""

    def __init__(
        self, frontier: Frontier, name: str, id: int, n_rows: int, newest_first: bool
    ) -> None:
        self._frontier = frontier
        self._name = name
        self._id = id
        self._n_rows = n_rows
        self._newest_first = newest_first
        # Those that come next, in the order of their pushes; the others are in the file.
        self._next: deque[Row] = deque()
        # Of those in the file, all are older than this row (newest first), or newer.
        self._edge = NEWEST if newest_first else 0

    def push(self, request: bytes, slot: str) -> None:
        """Add a request; it will be in the file with the frontier's commit number `batch`."""
        row = self._frontier.insert(self._id, QueueName(self._name, slot), request)
        self._n_rows += 1
        if self._newest_first:
            self._next.append(row)
            self._leave_older_to_file()
        elif len(self._next) == self._n_rows - 1 and len(self._next) < 2 * CHUNK:
            self._next.append(row)

    def _leave_older_to_file(self) -> None:
        if len(self._next) < 2 * CHUNK or not self._frontier.is_committed(self._next[0].id):
            return
        while len(self._next) > CHUNK and self._frontier.is_committed(self._next[0].id):
            self._edge = self._next.popleft().id + 1

    def pop(self) -> Row | None:
        """Take the next row, None where none waits. Raises StateError for a damaged one."""
        if self._first() is None:
            return None
        row = self._next.pop() if self._newest_first else self._next.popleft()
        if not self._newest_first:
            self._edge = max(self._edge, row.id)
        self._n_rows -= 1
        self._frontier.take(row.id)
        return self._frontier.checked(row)

    def peek(self) -> Row | None:
        """The next row, which stays. Raises StateError for a damaged one."""
        row = self._first()
        return None if row is None else self._frontier.checked(row)

    def _first(self) -> Row | None:
        if not self._next and self._n_rows:
            self._load()
        if not self._next:
            return None
        return self._next[-1] if self._newest_first else self._next[0]

    def _load(self) -> None:
        read = self._frontier.older if self._newest_first else self._frontier.newer
        while not self._next and (rows := read(self._id, self._edge)):
            self._edge = rows[-1].id
            self._next.extend(row for row in rows if not self._frontier.is_out(row.id))
        if self._newest_first:
            self._next.reverse()
        if not self._next:
            n_missing, self._n_rows = self._n_rows, 0
            raise StateError(f"{self._frontier.path} lacks {n_missing} requests that it had")

    def close(self) -> None:
        """The queue is not used any more; what waits stays in the file."""
        if self._n_rows:
            self._frontier.put_back(self._id, self._n_rows)

    def __len__(self) -> int:
        return self._n_rows


_COUNTS = "SELECT queue, count(*) FROM requests GROUP BY queue"
# As bytes, whatever damage made of the column's type.
_OF = "SELECT id, CAST(request AS BLOB) FROM requests WHERE queue = ? AND"
_OLDER = f"{_OF} id < ? ORDER BY id DESC LIMIT ?"
_NEWER = f"{_OF} id > ? ORDER BY id LIMIT ?"


def _joined(first: _Batch, second: _Batch) -> _Batch:
    return _Batch(
        first.numbers + second.numbers,
        first.queues | second.queues,
        first.pushed + second.pushed,
        first.done + second.done,
    )

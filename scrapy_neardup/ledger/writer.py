"""Adds decisions to a ledger, in batches, from a thread of its own."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from time import time
from typing import Self

from scrapy_neardup.errors import LedgerError
from scrapy_neardup.ledger.schema import (
    ACTIONS,
    APPLICATION_ID,
    DUPLICATE_KINDS,
    FORMAT,
    KINDS,
    MAX_FIELDS_CHARS,
    SCHEMA,
    Entry,
    Policy,
    check_format,
    compressed,
    earlier_id,
    ledger_files,
    storable,
    url_hash,
    url_id,
)
from scrapy_neardup.own_files import make_folder, refuse_links, set_aside
from scrapy_neardup.sqlite_files import WRITTEN_BESIDE

logger = logging.getLogger(__name__)

FLUSH_S = 1.0
BATCH = 1_000
# Entries that may wait for a slow disk; any beyond that are counted as lost.
MAX_WAITING = 100_000
TEMPORARY = ".tmp"

# An original is named by -row where the file has a row of its URL, else by url_id and in a table
# of its own: stored once, a decision about a duplicate takes no more room than another.
ADD_DECISION = """
INSERT INTO decision VALUES (NULL, ?, ?, ?, ?, ?, ?,
    coalesce((SELECT -id FROM decision WHERE url_hash = ? AND url = ? LIMIT 1), ?),
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_ORIGINAL = """
INSERT OR IGNORE INTO original
    SELECT ?, ? WHERE EXISTS (SELECT 1 FROM decision WHERE original = ?)
"""
NO_ORIGINAL = (None, None, None)


class LedgerWriter:
    """Writes decisions to `folder/000001.sqlite` and on.

    A new file is started when the newest holds `rotate_bytes` or is `rotate_s` seconds old;
    the newest `keep_files` are kept. A crash loses at most the last second. A full or slow
    disk loses entries, which are counted in `lost`; the crawl goes on. The state folder's
    lock admits one writer at a time.
    """

    def __init__(
        self,
        folder: Path,
        policy: Policy,
        *,
        rules: Mapping[str, object],
        keep_text: bool = False,
        rotate_bytes: int = 512 * 2**20,
        rotate_s: float = 30 * 86_400,
        keep_files: int = 10,
    ) -> None:
        self.folder = folder
        self.recorded = 0
        self._refused = self._unwritten = 0  # lost: one counter for each thread
        self._all = policy == "all"
        self._rules = json.dumps(dict(rules), sort_keys=True, default=str)
        self._keep_text = keep_text
        self._limits = rotate_bytes, rotate_s, keep_files
        self._waiting: deque[tuple[float, Entry]] = deque()
        self._wake = threading.Event()
        self._written = threading.Condition()
        self._closing = False
        self._said = False
        self._open_file()
        # A daemon: a crawl that dies without close() must not be kept alive by its ledger.
        self._writer = threading.Thread(
            target=self._write_until_closed, name="neardup-ledger", daemon=True
        )
        self._writer.start()

    @classmethod
    def open(cls, state: Path, policy: Policy, **options: object) -> Self | None:
        """A writer for a state folder's ledger; None if the policy is "off".

        Options are those of the class. Raises LedgerError if no file can be opened.
        """
        if policy == "off":
            return None
        return cls(state / "ledger", policy, **options)  # type: ignore[arg-type]

    @property
    def lost(self) -> int:
        """Entries that were not written and never will be."""
        return self._refused + self._unwritten

    def record(self, entry: Entry) -> None:
        """Queue a decision and return at once. The policy "duplicates" skips those of other kinds.

        The text of a page that is no duplicate is kept even then: later pages may repeat it.
        """
        if not (self._all or entry.kind in DUPLICATE_KINDS or (self._keep_text and entry.text)):
            return
        if len(self._waiting) >= MAX_WAITING or self._closing:
            self._refused += 1
            return
        self._waiting.append((time(), entry))
        if len(self._waiting) >= BATCH:
            self._wake.set()

    def wait_until_written(self) -> None:
        """Wait for the disk: for callers that would else fill the queue."""
        with self._written:
            self._wake.set()
            self._written.wait_for(lambda: not self._waiting)

    def close(self) -> None:
        """Write everything queued and close the file; a second call does nothing."""
        self._closing = True
        self._wake.set()
        self._writer.join()

    def _write_until_closed(self) -> None:
        while not self._closing:
            self._wake.wait(FLUSH_S)
            self._wake.clear()
            self._write_waiting()
            with self._written:
                self._written.notify_all()
        self._write_waiting()
        self._connection.close()

    def _write_waiting(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                self._write(batch)
            except Exception as error:  # Whatever it is: a dead thread would lose all that follows.
                self._say(f"{len(batch)} decisions are lost", error)
                self._unwritten += len(batch)
            try:
                self._rotate_when_due()
            except Exception as error:
                self._say("no new file can be started, so the full one grows", error)

    def _say(self, what: str, error: Exception) -> None:
        """Warn, once: the crawl goes on, and `lost` counts."""
        if not self._said:
            self._said = True
            logger.warning("%s: %s; the crawl goes on: %s", self.folder, what, error)

    def _write(self, batch: list[tuple[float, Entry]]) -> None:
        decided = [(at, e) for at, e in batch if self._all or e.kind in DUPLICATE_KINDS]
        originals = {(url_id(url), storable(url)) for _, e in decided if (url := e.original)}
        elsewhere = {(url_id(url), storable(url)) for _, e in decided if (url := e.elsewhere)}
        with self._connection as transaction:
            transaction.executemany(
                "INSERT OR IGNORE INTO callback (name) VALUES (?)",
                [(name,) for name in {e.callback for _, e in decided} if name],
            )
            callbacks = dict(transaction.execute("SELECT name, id FROM callback"))
            transaction.executemany(
                ADD_DECISION,
                [
                    (*self._row(at, e), callbacks.get(e.callback), e.title, fields_of(e), e.differs)
                    for at, e in decided
                ],
            )
            transaction.executemany(ADD_ORIGINAL, [(i, url, i) for i, url in originals])
            transaction.executemany("INSERT OR IGNORE INTO original VALUES (?, ?)", elsewhere)
            if self._keep_text:
                changed = [e.url for _, e in batch if e.text and e.kind == "changed"]
                transaction.executemany(
                    "INSERT OR REPLACE INTO page_text SELECT ?, body FROM page_text WHERE id = ?",
                    [(earlier_id(url), url_id(url)) for url in changed],
                )
                transaction.executemany(
                    "INSERT OR REPLACE INTO page_text VALUES (?, ?)",
                    [(url_id(e.url), compressed(e.text)) for _, e in batch if e.text],
                )
        self.recorded += len(decided)

    def _row(self, at: float, entry: Entry) -> tuple[object, ...]:
        """The parameters of ADD_DECISION up to the callback."""
        fingerprint, original = entry.fingerprint, entry.original
        if fingerprint is not None and fingerprint >= 1 << 63:
            fingerprint -= 1 << 64  # SQLite's integers are signed
        return (
            self._run,
            int(at * 1000),
            KINDS.index(entry.kind),
            ACTIONS.index(entry.action),
            url_hash(entry.url),
            storable(entry.url),
            *(
                (url_hash(original), storable(original), url_id(original))
                if original
                else NO_ORIGINAL
            ),
            url_id(entry.elsewhere) if entry.elsewhere else None,
            fingerprint,
            entry.distance,
            entry.sketch_distance,
            None if entry.similarity is None else round(entry.similarity * 1000),
            entry.words,
            entry.size_bytes,
            entry.latency_ms,
        )

    def _open_file(self) -> None:
        """Open the newest file, or begin the first, and enter this run in it."""
        try:
            make_folder(self.folder)
            files = ledger_files(self.folder)
            path = files[-1] if files else self.folder / "000001.sqlite"
            # Before SQLite opens it even to read: it would roll a journal beside it back into it.
            refuse_links(path, *WRITTEN_BESIDE)
            if files and is_ledger(path) and format_of(path) < FORMAT:
                path = after(path)
            self._connect(path)
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(
                f"{self.folder}: the decision ledger cannot be written: {error}"
            ) from error

    def _connect(self, path: Path) -> None:
        """Go on in a file, which is made if it is missing or is not a ledger."""
        refuse_links(path, *WRITTEN_BESIDE)
        if path.exists() and not is_ledger(path):
            aside = set_aside(path, *WRITTEN_BESIDE)
            logger.warning("%s is damaged or half made: now %s", path, aside.name)
        if not path.exists():
            make_file(path)
        connection = sqlite3.connect(path, check_same_thread=False)
        try:
            check_format(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            with connection:
                entered = connection.execute(
                    "INSERT INTO run VALUES (NULL, ?, ?)", (time(), self._rules)
                )
            self._begun = connection.execute("SELECT min(started) FROM run").fetchone()[0]
        except BaseException:
            connection.close()
            raise
        self._run = entered.lastrowid
        self._connection, self._path = connection, path

    def _rotate_when_due(self) -> None:
        rotate_bytes, rotate_s, keep_files = self._limits
        if self._file_bytes() < rotate_bytes and time() - self._begun < rotate_s:
            return
        full = self._connection
        self._connect(after(self._path))
        full.close()
        for old in ledger_files(self.folder)[:-keep_files]:
            for suffix in (*WRITTEN_BESIDE, ""):  # left there while a reader has the file
                old.with_name(old.name + suffix).unlink(missing_ok=True)

    def _file_bytes(self) -> int:
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (page_bytes,) = self._connection.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(page_bytes)


def fields_of(entry: Entry) -> str | None:
    """The fields in which data differ, as SQLite takes them."""
    names = entry.data_differ
    return None if names is None else storable(names[:MAX_FIELDS_CHARS])


def make_file(path: Path) -> None:
    """Make a ledger without decisions; it appears whole or not at all.

    Made under another name: a reader, or the next crawl after a crash, finds no half-made file.
    Raises OSError and sqlite3.Error.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    for left in (temporary, temporary.with_name(temporary.name + "-journal")):
        left.unlink(missing_ok=True)
    with closing(sqlite3.connect(temporary)) as connection:
        connection.executescript(f"BEGIN; {SCHEMA}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.executemany("INSERT INTO kind VALUES (?, ?)", enumerate(KINDS))
        connection.executemany("INSERT INTO action VALUES (?, ?)", enumerate(ACTIONS))
        connection.commit()
    temporary.replace(path)


def is_ledger(path: Path) -> bool:
    """Whether a file is a ledger of any version, and SQLite can read it at all."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.OperationalError:  # locked, or not to be opened: says nothing about its content
        raise
    except sqlite3.DatabaseError:
        return False
    return bool(application == APPLICATION_ID)


def format_of(path: Path) -> int:
    """The format of a ledger's file. Raises LedgerError if this version cannot read it."""
    with closing(sqlite3.connect(path)) as connection:
        return check_format(connection, path)


def after(path: Path) -> Path:
    """The file that follows another one of a ledger."""
    return path.with_name(f"{int(path.stem) + 1:06}.sqlite")

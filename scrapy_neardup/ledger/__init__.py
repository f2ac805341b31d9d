"""The decision ledger: what was decided about each URL and page, and why, in SQLite files."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from time import time
from typing import Literal, NamedTuple, Self

from scrapy_neardup.errors import LedgerError

logger = logging.getLogger(__name__)

Policy = Literal["all", "duplicates", "off"]
Kind = Literal["seen", "new", "exact", "near", "too-short", "undecided"]
Action = Literal["kept", "dropped", "tagged", "counted"]

POLICIES: tuple[Policy, ...] = ("all", "duplicates", "off")
KINDS: tuple[Kind, ...] = ("seen", "new", "exact", "near", "too-short", "undecided")
ACTIONS: tuple[Action, ...] = ("kept", "dropped", "tagged", "counted")
DUPLICATE_KINDS: frozenset[Kind] = frozenset({"seen", "exact", "near"})

APPLICATION_ID = 0x6E656172  # "near"
FORMAT = 2
FLUSH_S = 1.0
BATCH = 1_000
# Entries waiting for a disk that does not keep up; beyond it they are counted as lost.
MAX_WAITING = 100_000
MAX_TEXT_CHARS = 200_000
MAX_URL_CHARS = 4_096

SCHEMA = """
CREATE TABLE run (id INTEGER PRIMARY KEY, started REAL NOT NULL, rules TEXT NOT NULL);
CREATE TABLE kind (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE action (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE callback (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE original (id INTEGER PRIMARY KEY, url TEXT NOT NULL);
CREATE TABLE page_text (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    action INTEGER NOT NULL,
    url_hash INTEGER NOT NULL,
    url TEXT NOT NULL,
    original INTEGER,
    elsewhere INTEGER,
    fingerprint INTEGER,
    distance INTEGER,
    sketch_distance INTEGER,
    per_mille INTEGER,
    words INTEGER,
    size_bytes INTEGER,
    latency_ms INTEGER,
    callback INTEGER
);
CREATE INDEX decision_url ON decision (url_hash);
CREATE INDEX decision_original ON decision (original) WHERE original IS NOT NULL;
CREATE VIEW decisions AS
    SELECT decision.id AS id, decision.run AS run, decision.time_ms / 1000.0 AS time,
           kind.name AS kind, action.name AS action, CAST(decision.url AS TEXT) AS url,
           CAST(coalesce(own.url, original.url) AS TEXT) AS original,
           CAST(other.url AS TEXT) AS elsewhere,
           CAST(decision.fingerprint AS INTEGER) AS fingerprint,
           CAST(decision.distance AS INTEGER) AS distance,
           CAST(decision.sketch_distance AS INTEGER) AS sketch_distance,
           decision.per_mille / 1000.0 AS similarity,
           CAST(decision.words AS INTEGER) AS words,
           CAST(decision.size_bytes AS INTEGER) AS size_bytes,
           CAST(decision.latency_ms AS INTEGER) AS latency_ms,
           callback.name AS callback, decision.url_hash AS url_hash,
           decision.original AS original_id
    FROM decision JOIN kind ON kind.id = decision.kind JOIN action ON action.id = decision.action
    LEFT JOIN decision AS own ON own.id = -decision.original
    LEFT JOIN original ON original.id = decision.original
    LEFT JOIN original AS other ON other.id = decision.elsewhere
    LEFT JOIN callback ON callback.id = decision.callback;
"""
# An original is named by -row where the file has a row of its URL, else by url_id and in a table
# of its own: stored once, a decision about a duplicate takes no more room than another.
ADD_DECISION = """
INSERT INTO decision VALUES (NULL, ?, ?, ?, ?, ?, ?,
    coalesce((SELECT -id FROM decision WHERE url_hash = ? AND url = ? LIMIT 1), ?),
    ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_ORIGINAL = """
INSERT OR IGNORE INTO original
    SELECT ?, ? WHERE EXISTS (SELECT 1 FROM decision WHERE original = ?)
"""
NO_ORIGINAL = (None, None, None)
DUPLICATES_OF = """
WHERE original_id IN
    (SELECT ? UNION ALL SELECT -id FROM decision WHERE url_hash = ? AND url = ?)
ORDER BY id
"""
COLUMNS = (
    "id, run, time, kind, action, url, original, elsewhere, fingerprint, distance, "
    "sketch_distance, similarity, words, size_bytes, latency_ms, callback"
)


class Entry(NamedTuple):
    """One decision as it goes in. None means that there is nothing to say."""

    url: str
    kind: Kind
    action: Action
    original: str | None = None  # URL of the page that it repeats
    elsewhere: str | None = None  # URL of a page of another site that it repeats
    fingerprint: int | None = None  # 64 bits, unsigned
    distance: int | None = None  # bits
    sketch_distance: int | None = None  # bits
    similarity: float | None = None  # estimated share of common shingles, 0 to 1
    words: int | None = None
    size_bytes: int | None = None  # of the response's body
    latency_ms: int | None = None  # of the download
    callback: str | None = None  # method of the spider that got the page, or would have
    text: str = ""  # visible text; stored where texts are kept


class Decided(NamedTuple):
    """One decision as it comes out; `position` orders decisions over all files of a ledger."""

    position: tuple[int, int]  # file number, row
    run: int
    time: float  # seconds since 1970, UTC
    kind: Kind
    action: Action
    url: str
    original: str | None
    elsewhere: str | None
    fingerprint: int | None
    distance: int | None
    sketch_distance: int | None
    similarity: float | None
    words: int | None
    size_bytes: int | None
    latency_ms: int | None
    callback: str | None


class Run(NamedTuple):
    """One crawl that wrote into a ledger, and the rules that it decided by."""

    position: tuple[int, int]
    started: float
    rules: dict[str, object]


def url_id(url: str) -> int:
    """The 63-bit number under which a ledger finds a URL: BLAKE2b, without sign."""
    digest = blake2b(url.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def url_hash(url: str) -> int:
    """31 bits of the number, for an index of half the size; the URL itself decides."""
    return url_id(url) & 0x7FFF_FFFF


def storable(url: str) -> str:
    """A URL as SQLite takes it: lone surrogates replaced, cut at MAX_URL_CHARS."""
    return url[:MAX_URL_CHARS].encode("utf-8", "replace").decode("utf-8")


def squeezed(text: str) -> bytes:
    """A text compressed for keeping, cut at MAX_TEXT_CHARS."""
    return zlib.compress(text[:MAX_TEXT_CHARS].encode("utf-8", "replace"))


def unsqueezed(body: bytes) -> str | None:
    """The text that was kept; None where it is damaged."""
    try:
        return zlib.decompress(body).decode("utf-8")
    except (zlib.error, ValueError, TypeError):
        return None


class Ledger:
    """Writes decisions, in batches, from a thread of its own.

    Files are `folder/000001.sqlite` and on: a new one is begun when the newest holds
    `rotate_bytes` or was begun `rotate_s` seconds ago, and the oldest are deleted so that
    `keep_files` remain. A crash loses at most the last second. A disk that is full or too
    slow costs entries, counted in `lost`, never the crawl. One writer at a time: the lock of
    the state folder sees to it.
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
        self.lost = 0
        self._all = policy == "all"
        self._rules = json.dumps(dict(rules), sort_keys=True, default=str)
        self._keep_text = keep_text
        self._limits = rotate_bytes, rotate_s, keep_files
        self._waiting: deque[tuple[float, Entry]] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._open_file()
        # A daemon: a crawl that dies without close() must not be kept alive by its ledger.
        self._writer = threading.Thread(
            target=self._write_until_closed, name="neardup-ledger", daemon=True
        )
        self._writer.start()

    @classmethod
    def open(cls, state: Path, policy: Policy, **options: object) -> Self | None:
        """The ledger in a state folder, None where the policy is "off".

        Options are those of the class. Raises LedgerError where no file can be opened.
        """
        if policy == "off":
            return None
        return cls(state / "ledger", policy, **options)  # type: ignore[arg-type]

    def record(self, entry: Entry) -> None:
        """Take a decision; returns at once. "duplicates" skips what is neither seen nor a copy.

        The text of a page that is not a duplicate is kept all the same: it may become an
        original.
        """
        if not (self._all or entry.kind in DUPLICATE_KINDS or (self._keep_text and entry.text)):
            return
        if len(self._waiting) >= MAX_WAITING:
            self.lost += 1
            return
        self._waiting.append((time(), entry))
        if len(self._waiting) >= BATCH:
            self._wake.set()

    def close(self) -> None:
        """Write what is waiting and close the file; calling it again does nothing."""
        self._closing = True
        self._wake.set()
        self._writer.join()

    def _write_until_closed(self) -> None:
        while not self._closing:
            self._wake.wait(FLUSH_S)
            self._wake.clear()
            self._write_waiting()
        self._write_waiting()
        self._connection.close()

    def _write_waiting(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                self._write(batch)
                self._rotate_when_due()
            except (sqlite3.Error, OSError, OverflowError) as error:
                self._lose(len(batch), error)

    def _lose(self, entries: int, error: Exception) -> None:
        if not self.lost:
            logger.warning("%s: decisions are lost, the crawl goes on: %s", self.folder, error)
        self.lost += entries

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
                [(*self._row(at, e), callbacks.get(e.callback)) for at, e in decided],
            )
            transaction.executemany(ADD_ORIGINAL, [(i, url, i) for i, url in originals])
            transaction.executemany("INSERT OR IGNORE INTO original VALUES (?, ?)", elsewhere)
            if self._keep_text:
                transaction.executemany(
                    "INSERT OR REPLACE INTO page_text VALUES (?, ?)",
                    [(url_id(e.url), squeezed(e.text)) for _, e in batch if e.text],
                )
        self.recorded += len(decided)

    def _row(self, at: float, entry: Entry) -> tuple[object, ...]:
        """The entry as ADD_DECISION takes it, but for the callback."""
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
            self.folder.mkdir(parents=True, exist_ok=True)
            files = ledger_files(self.folder)
            path = files[-1] if files else self.folder / "000001.sqlite"
            self._connect(path)
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(
                f"{self.folder}: the decision ledger cannot be written: {error}"
            ) from error

    def _connect(self, path: Path) -> None:
        connection = sqlite3.connect(path, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            connection.executescript(SCHEMA)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            connection.executemany("INSERT INTO kind VALUES (?, ?)", enumerate(KINDS))
            connection.executemany("INSERT INTO action VALUES (?, ?)", enumerate(ACTIONS))
        check_format(connection, path)
        with connection:
            entered = connection.execute(
                "INSERT INTO run VALUES (NULL, ?, ?)", (time(), self._rules)
            )
        self._run = entered.lastrowid
        self._begun = connection.execute("SELECT min(started) FROM run").fetchone()[0]
        self._connection, self._path = connection, path

    def _rotate_when_due(self) -> None:
        rotate_bytes, rotate_s, keep_files = self._limits
        if self._file_bytes() < rotate_bytes and time() - self._begun < rotate_s:
            return
        full = self._connection
        self._connect(self.folder / f"{int(self._path.stem) + 1:06}.sqlite")
        full.close()
        for old in ledger_files(self.folder)[:-keep_files]:
            old.unlink()

    def _file_bytes(self) -> int:
        (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
        (page_bytes,) = self._connection.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(page_bytes)


class LedgerReader:
    """Reads a ledger, also while a crawl writes it; never changes it.

    Raises LedgerError where the state folder holds no ledger, or one of another version.
    """

    def __init__(self, state: Path) -> None:
        self.folder = state / "ledger"
        if not ledger_files(self.folder):
            raise LedgerError(
                f"{self.folder}: no decision ledger is there; crawl with NEARDUP_LEDGER='all', or "
                "name the state folder (JOBDIR/neardup or NEARDUP_STATE_DIR)"
            )

    def decisions(self, after: tuple[int, int] = (0, 0)) -> Iterator[Decided]:
        """Every decision behind a position, oldest first, in constant memory."""
        file_number, row = after
        for path in ledger_files(self.folder):
            if int(path.stem) >= file_number:
                first = row if int(path.stem) == file_number else 0
                yield from self._select(path, "WHERE id > ? ORDER BY id", first)

    def of_url(self, url: str) -> list[Decided]:
        """What was decided about a URL, oldest first."""
        clause = "WHERE url_hash = ? AND url = ? ORDER BY id"
        return self._everywhere(clause, url_hash(url), storable(url))

    def duplicates_of(self, url: str) -> list[Decided]:
        """What was judged a duplicate of a URL, oldest first."""
        return self._everywhere(DUPLICATES_OF, url_id(url), url_hash(url), storable(url))

    def pages_read(self) -> Iterator[str]:
        """URLs of pages that were fetched and judged, oldest first."""
        for path in ledger_files(self.folder):
            with reading(path) as connection:
                query = "SELECT url FROM decision WHERE kind != ? ORDER BY id"
                for (url,) in connection.execute(query, (KINDS.index("seen"),)):
                    yield url

    def runs(self) -> list[Run]:
        """The crawls that wrote into the ledger; one appears once for each file it wrote."""
        found = []
        for path in ledger_files(self.folder):
            with reading(path) as connection:
                rows = connection.execute("SELECT id, started, rules FROM run ORDER BY id")
                found += [Run((int(path.stem), i), at, _object(rules)) for i, at, rules in rows]
        return found

    def rules_of(self, decided: Decided) -> dict[str, object]:
        """The rules of the crawl that decided."""
        wanted = decided.position[0], decided.run
        return next((run.rules for run in self.runs() if run.position == wanted), {})

    def text(self, url: str) -> str | None:
        """The newest kept text of a page; None where none was kept."""
        return self.texts([url]).get(url)

    def texts(self, urls: Iterable[str]) -> dict[str, str]:
        """The newest kept text of each page that has one."""
        missing, found = list(urls), {}
        for path in reversed(ledger_files(self.folder)):
            with reading(path) as connection:
                for url in missing:
                    query = "SELECT body FROM page_text WHERE id = ?"
                    row = connection.execute(query, (url_id(url),)).fetchone()
                    if row and (text := unsqueezed(row[0])) is not None:
                        found[url] = text
            missing = [url for url in missing if url not in found]
        return found

    def _everywhere(self, clause: str, *arguments: int | str) -> list[Decided]:
        files = ledger_files(self.folder)
        return [row for path in files for row in self._select(path, clause, *arguments)]

    @staticmethod
    def _select(path: Path, clause: str, *arguments: int | str) -> Iterator[Decided]:
        number = int(path.stem)
        with reading(path) as connection:
            query = f"SELECT {COLUMNS} FROM decisions {clause}"  # noqa: S608 - clauses are ours
            for (
                row_id,
                run,
                at,
                kind,
                action,
                url,
                original,
                other,
                fp,
                *rest,
            ) in connection.execute(query, arguments):
                unsigned = None if fp is None else fp % (1 << 64)
                position = number, row_id
                yield Decided(
                    position, run, at, kind, action, url, original, other, unsigned, *rest
                )


def _object(rules: str) -> dict[str, object]:
    """What was recorded as JSON; nothing where it is damaged."""
    try:
        found = json.loads(rules)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def ledger_files(folder: Path) -> list[Path]:
    """The files of a ledger, oldest first."""
    return sorted(folder.glob("[0-9]*.sqlite"))


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot write. Raises LedgerError for a file that is not a ledger."""
    # A folder that cannot be written to has no place for SQLite's shared memory.
    mode = "mode=ro" if os.access(path.parent, os.W_OK) else "immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True)) as connection:
            check_format(connection, path)
            yield connection
    except sqlite3.Error as error:
        raise LedgerError(
            f"{path}: cannot be read as a decision ledger: {str(error)[:100]}. What else there is "
            "can be read once this file is moved away"
        ) from error


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raises LedgerError unless the file is a ledger of this version."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if (application, found) != (APPLICATION_ID, FORMAT):
        raise LedgerError(
            f"{path}: a file of format {found}, application {application:#x}; this version reads "
            f"decision ledgers of format {FORMAT}. Move the folder away to begin a new one"
        )

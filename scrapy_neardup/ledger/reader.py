"""Reads a ledger back, also while a crawl writes it; never changes it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from scrapy_neardup.errors import LedgerError
from scrapy_neardup.ledger.schema import (
    ACTIONS,
    DIFFERS_SINCE,
    DUPLICATE_KINDS,
    KINDS,
    NOT_READ,
    CrawlRun,
    Decided,
    check_format,
    decompressed,
    earlier_id,
    ledger_files,
    storable,
    url_hash,
    url_id,
)
from scrapy_neardup.sqlite_files import connect_to_read, is_time, unread_log

REPEATS = ", ".join(f"'{kind}'" for kind in sorted(DUPLICATE_KINDS))
DUPLICATES_OF = f"""
WHERE original_id IN
    (SELECT ? UNION ALL SELECT -id FROM decision WHERE url_hash = ? AND url = ?)
AND kind IN ({REPEATS})
"""  # noqa: S608 - the kinds are ours
COLUMNS = (
    "id, run, time, kind, action, url, original, elsewhere, fingerprint, distance, "
    "sketch_distance, similarity, words, size_bytes, latency_ms, callback, "
    "title_differs, data_differ, differs"
)
OLD_COLUMNS = COLUMNS.replace(", differs", ", NULL")
# Places behind the id.
FINGERPRINT, TITLE_DIFFERS = (
    COLUMNS.split(", ").index(c) - 1 for c in ("fingerprint", "title_differs")
)


T = TypeVar("T")
Tell = Callable[[int, int], None]  # of rows read so far, of all that are to be read
TOLD_EVERY = 1_000  # rows
NO_LIMIT = -1  # SQLite's


class LedgerReader:
    """The ledger of a state folder, read-only.

    tell: called again and again while everything is read, and once when that ends.
    Raises LedgerError if the folder holds no ledger, or one of another version.
    """

    def __init__(self, state: Path, tell: Tell | None = None) -> None:
        self._tell = tell
        self.folder = state / "ledger"
        if not ledger_files(self.folder):
            raise LedgerError(
                f"{self.folder}: no decision ledger is there; crawl with NEARDUP_LEDGER='all', or "
                "name the state folder (JOBDIR/neardup or NEARDUP_STATE_DIR)"
            )

    def decisions(self, after: tuple[int, int] = (0, 0)) -> Iterator[Decided]:
        """Every decision after a position, oldest first, in constant memory."""
        return self._told(self._decisions(after))

    def _decisions(self, after: tuple[int, int]) -> Iterator[Decided]:
        file_number, row = after
        for path in ledger_files(self.folder):
            if int(path.stem) >= file_number:
                first = row if int(path.stem) == file_number else 0
                yield from self._select(path, "WHERE id > ? ORDER BY id", first)

    def of_url(self, url: str) -> list[Decided]:
        """What was decided about a URL, oldest first."""
        clause = "WHERE url_hash = ? AND url = ? ORDER BY id"
        return self._everywhere(clause, url_hash(url), storable(url))

    def duplicates_of(self, *urls: str, most: int = NO_LIMIT) -> list[Decided]:
        """What was judged a duplicate of a URL, oldest first; of several, each file in turn.

        most: of each URL, in each file.
        """
        found: list[Decided] = []
        clause = f"{DUPLICATES_OF} ORDER BY id LIMIT ?"
        for path in ledger_files(self.folder):
            with reading(path) as connection:
                for url in urls:
                    found += _selected(connection, path, clause, *_original(url), most)
        return found

    def n_duplicates_of(self, url: str) -> int:
        """How many were judged a duplicate of a URL."""
        n, query = 0, f"SELECT count(*) FROM decisions {DUPLICATES_OF}"  # noqa: S608 - ours
        for path in ledger_files(self.folder):
            with reading(path) as connection:
                n += connection.execute(query, _original(url)).fetchone()[0]
        return n

    def pages_read(self) -> Iterator[str]:
        """URLs of the pages that were fetched and decided on, oldest first."""
        return self._told(self._pages_read())

    def has_read(self, url: str) -> bool:
        """Whether the page of a URL was fetched and decided on."""
        return any(decided.kind not in NOT_READ for decided in self.of_url(url))

    def _told(self, rows: Iterator[T]) -> Iterator[T]:
        if self._tell is None:
            return rows
        return _telling(rows, self.n_decisions, self._tell)

    @property
    def n_decisions(self) -> int:
        """How many decisions there are, as their last numbers say."""
        n = 0
        for path in ledger_files(self.folder):
            with reading(path) as connection:
                (last,) = connection.execute("SELECT max(id) FROM decision").fetchone()
                n += last or 0
        return n

    def _pages_read(self) -> Iterator[str]:
        for path in ledger_files(self.folder):
            with reading(path) as connection:
                query = "SELECT url FROM decision WHERE kind NOT IN (?, ?) ORDER BY id"
                for (url,) in connection.execute(query, [KINDS.index(k) for k in NOT_READ]):
                    yield str(url)

    def runs(self) -> list[CrawlRun]:
        """The crawls that wrote to the ledger; one appears once for each file it wrote to."""
        found = []
        for path in ledger_files(self.folder):
            with reading(path) as connection:
                rows = connection.execute("SELECT id, started, rules FROM run ORDER BY id")
                for id, started, rules in rows:
                    if not is_time(started):
                        raise _made_up(path, f"crawl {id}")
                    found.append(CrawlRun((int(path.stem), id), started, _object(rules)))
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
                    if row and (text := decompressed(row[0])) is not None:
                        found[url] = text
            missing = [url for url in missing if url not in found]
        return found

    def earlier_texts(self, now: dict[str, str]) -> dict[str, str]:
        """Of pages with these texts now, the texts that they had before they changed."""
        found: dict[str, str] = {}
        for path in reversed(ledger_files(self.folder)):
            with reading(path) as connection:
                for url in now.keys() - found.keys():
                    query = "SELECT body FROM page_text WHERE id IN (?, ?) ORDER BY id = ? DESC"
                    ids = url_id(url), earlier_id(url), url_id(url)
                    texts = [decompressed(body) for (body,) in connection.execute(query, ids)]
                    other = [text for text in texts if text is not None and text != now[url]]
                    found.update(zip([url], other, strict=False))
        return found

    def _everywhere(self, clause: str, *arguments: int | str) -> list[Decided]:
        files = ledger_files(self.folder)
        return [row for path in files for row in self._select(path, clause, *arguments)]

    @staticmethod
    def _select(path: Path, clause: str, *arguments: int | str) -> Iterator[Decided]:
        with reading(path) as connection:
            yield from _selected(connection, path, clause, *arguments)


def _original(url: str) -> tuple[int, int, str]:
    """What DUPLICATES_OF asks for."""
    return url_id(url), url_hash(url), storable(url)


def _telling(rows: Iterator[T], n: int, tell: Tell) -> Iterator[T]:
    try:
        for number, row in enumerate(rows):
            if number % TOLD_EVERY == 0:
                tell(min(number, n), n)
            yield row
    finally:
        tell(n, n)


def _selected(
    connection: sqlite3.Connection, path: Path, clause: str, *arguments: int | str
) -> Iterator[Decided]:
    """Decisions of a file that reading() opened. Raises LedgerError for one that no crawl makes."""
    number = int(path.stem)
    (format_,) = connection.execute("PRAGMA user_version").fetchone()
    columns = OLD_COLUMNS if format_ < DIFFERS_SINCE else COLUMNS
    query = f"SELECT {columns} FROM decisions {clause}"  # noqa: S608 - clauses are ours
    for row_id, *row in connection.execute(query, arguments):
        if row[FINGERPRINT] is not None:
            row[FINGERPRINT] %= 1 << 64
        if row[TITLE_DIFFERS] is not None:
            row[TITLE_DIFFERS] = bool(row[TITLE_DIFFERS])
        decided = Decided._make([(number, row_id), *row])
        if not _is_sound(decided):
            raise _made_up(path, f"decision {row_id}")
        yield decided


def verify(path: Path) -> None:
    """Read a whole file of a ledger. Raises LedgerError if it is damaged or none."""
    with reading(path) as connection:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise LedgerError(f"{path}: cannot be read as a decision ledger: {str(found)[:100]}")


def _is_sound(decided: Decided) -> bool:
    """Whether a row has the types that its columns promise: SQLite's columns hold any."""
    texts = isinstance(decided.url, str) and isinstance(decided.callback, (str, type(None)))
    known = decided.kind in KINDS and decided.action in ACTIONS
    share = decided.similarity is None or 0 <= decided.similarity <= 1
    return texts and known and share and isinstance(decided.run, int) and is_time(decided.time)


def _made_up(path: Path, what: str) -> LedgerError:
    return LedgerError(f"{path}: {what} is none that a crawl makes. Move the file away")


def _object(rules: object) -> dict[str, object]:
    """The recorded JSON object; empty if it is damaged."""
    try:
        found = json.loads(rules)  # type: ignore[arg-type]
    except (ValueError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection. Raises LedgerError for a file that is not a ledger, and for one of
    which only a part could be read."""
    if (unread := unread_log(path)) is not None:
        raise LedgerError(unread)
    try:
        with closing(connect_to_read(path)) as connection:
            check_format(connection, path)
            yield connection
    except sqlite3.Error as error:
        raise LedgerError(
            f"{path}: cannot be read as a decision ledger: {str(error)[:100]}. What else there is "
            "can be read once this file is moved away"
        ) from error

"""The file of visits: its tables, how it is opened, and what a person reads in it."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from scrapy_neardup.errors import StateError
from scrapy_neardup.own_files import O_NOFOLLOW, refuse_links, set_aside
from scrapy_neardup.sqlite_files import WRITTEN_BESIDE, is_time, require_schema

logger = logging.getLogger(__name__)

FILE = "visits.sqlite"
VERSION = 4  # 2: what decides about a page has a MAC; 3: validators, requests, rates; 4: versions
APPLICATION_ID = 0x6E656176  # "neav"
MAX_CELL_BYTES = 1 << 28  # of all lines of a page, or all that was learnt
MADE_UP = f"{FILE}: {{}} is not as any crawl writes it. Move the file away"
BUSY_S = 10.0  # another process that shares the folder writes for milliseconds

# mac:     of all that decides about a page, see visit.py.
# done:    a code of the run that completed the page last; none where no run did.
# earlier: what a page was before it changed in a run that has not ended.
# leaving: URLs that answered in such a run that they are gone, or led to another one.
# learnt:  one row, what all runs learnt of the sites (detect/revision.py).
# server:  how far the validators of a host were right, as one spider found.
# shape:   how often pages of a shape of URLs changed (learn/change_rates.py).
# hint:    what a sitemap says of a URL.
_PAGE = """(
    key BLOB NOT NULL,
    spider INTEGER NOT NULL,
    callback TEXT NOT NULL,
    run INTEGER NOT NULL,
    first INTEGER NOT NULL,
    done BLOB NOT NULL,
    linked INTEGER NOT NULL,
    status INTEGER NOT NULL,
    time REAL NOT NULL,
    url TEXT NOT NULL,
    text BLOB NOT NULL,
    data BLOB NOT NULL,
    items BLOB NOT NULL,
    lines BLOB,
    links INTEGER NOT NULL,
    copy_of BLOB,
    found_on BLOB,
    depth INTEGER NOT NULL,
    mac BLOB NOT NULL,
    etag BLOB,
    modified BLOB,
    program BLOB,
    requests BLOB,
    trusted INTEGER NOT NULL,
    n_visits INTEGER NOT NULL,
    n_changes INTEGER NOT NULL,
    since REAL NOT NULL,
    n_new INTEGER NOT NULL,
    due REAL NOT NULL,
    passed INTEGER NOT NULL,
    version INTEGER NOT NULL,
    repeats BLOB NOT NULL,
    UNIQUE (key, spider, callback)
);
"""
SCHEMA = f"""
CREATE TABLE spider (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE run (id INTEGER PRIMARY KEY, spider INTEGER NOT NULL, started REAL NOT NULL,
                  ended REAL, reason TEXT, starts BLOB NOT NULL, reverted INTEGER NOT NULL);
CREATE TABLE page {_PAGE}
CREATE INDEX page_text ON page (text);
CREATE INDEX page_copy_of ON page (copy_of) WHERE copy_of IS NOT NULL;
CREATE TABLE earlier {_PAGE}
CREATE TABLE leaving (key BLOB PRIMARY KEY, run INTEGER NOT NULL, target TEXT, target_key BLOB);
CREATE TABLE change (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, time REAL NOT NULL,
                     status INTEGER NOT NULL, url TEXT NOT NULL, target TEXT, what TEXT);
CREATE TABLE learnt (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE server (spider INTEGER NOT NULL, host TEXT NOT NULL, n_refuted INTEGER NOT NULL,
                     n_mismatched INTEGER NOT NULL, n_dates_right INTEGER NOT NULL,
                     n_dates_wrong INTEGER NOT NULL, PRIMARY KEY (spider, host));
CREATE TABLE shape (spider INTEGER NOT NULL, shape TEXT NOT NULL, n_visits INTEGER NOT NULL,
                    n_changes INTEGER NOT NULL, seconds REAL NOT NULL,
                    PRIMARY KEY (spider, shape));
CREATE TABLE hint (key BLOB PRIMARY KEY, modified REAL, period REAL);
"""


class Status(IntEnum):
    """What a page is, compared with what its URL had when it was read last."""

    NEW = 0
    UNCHANGED = 1
    MINOR = 2  # differs only in what varies there anyway
    CHANGED = 3
    GONE = 4  # from here on it stands no longer at its URL
    MOVED = 5

    @property
    def word(self) -> str:
        """As it is written in items, reports and tables."""
        return self.name.lower()


class Change(NamedTuple):
    """One thing that happened to a URL. target: where a page moved to. what: JSON, or None."""

    run: int
    time: float
    status: Status
    url: str
    target: str | None
    what: str | None

    @property
    def told(self) -> dict[str, object]:
        """In what a page is CHANGED: fields, lines added, number of lines removed."""
        try:
            found = json.loads(self.what or "{}")
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class Run(NamedTuple):
    """One crawl of one spider; ended and reason are None while it is under way, or crashed."""

    id: int
    spider: str
    started: float
    ended: float | None
    reason: str | None
    reverted: bool


def opened(path: Path) -> sqlite3.Connection:
    """The file, made where it is missing; a damaged one is set aside.

    Raises StateError for a file of another version, or that cannot be opened.
    """
    try:
        return _connected(path)
    except (sqlite3.OperationalError, OSError) as error:
        raise unusable(path, error) from error
    except sqlite3.DatabaseError as error:
        aside = set_aside(path, *WRITTEN_BESIDE)
        logger.warning(
            "%s is damaged (%s). Moved to %s; every page counts as new", path, error, aside.name
        )
        return _connected(path)


def unusable(path: Path, error: Exception) -> StateError:
    """What is said of a file that cannot be opened, or written to."""
    return StateError(
        f"{path}: what is known of earlier visits cannot be opened ({error}). Make it readable and "
        f"writable and free the disk, or delete it: every page is new then"
    )


def _connected(path: Path) -> sqlite3.Connection:
    refuse_links(path, *WRITTEN_BESIDE)
    if path.exists() and not path.stat().st_size:
        logger.warning("%s is empty: every page counts as new", path)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | O_NOFOLLOW, 0o600))
    # A crawl that is collected is closed by whatever thread the collector runs in.
    db = sqlite3.connect(path, timeout=BUSY_S, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            _make(db)
        check_file(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _make(db: sqlite3.Connection) -> None:
    db.executescript(
        f"BEGIN; {SCHEMA} PRAGMA application_id = {APPLICATION_ID}; "
        f"PRAGMA user_version = {VERSION}; COMMIT;"
    )


def check_file(db: sqlite3.Connection, path: Path) -> None:
    """Raises StateError for a file of another version, sqlite3.Error for one of other tables."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        raise StateError(
            f"{path} is of format {version}; this version reads {VERSION}. Move it away: every "
            f"page is new in the next crawl, and passes once"
        )
    require_schema(db, SCHEMA, max_cell_bytes=MAX_CELL_BYTES)


class Due(NamedTuple):
    """When a page is to be fetched again, under NEARDUP_REVISIT.

    due        as it was reckoned at the last visit; 0 where it was not
    n_visits   comparisons with an earlier visit, of which n_changes found a change
    passed     the run that passed it over last; 0 for none
    """

    url: str
    visited: float
    due: float
    n_visits: int
    n_changes: int
    passed: int


def due(db: sqlite3.Connection) -> Iterator[Due]:
    """All pages that are not gone, the next to be fetched first."""
    query = (
        "SELECT url, time, due, n_visits, n_changes, passed FROM page WHERE status < ? "
        "ORDER BY due, url"
    )
    return (Due(*row) for row in db.execute(query, (Status.GONE,)))


def runs(db: sqlite3.Connection) -> list[Run]:
    """All runs, oldest first. Raises StateError for one that no crawl made."""
    query = (
        "SELECT run.id, spider.name, started, ended, reason, reverted FROM run "
        "JOIN spider ON spider.id = run.spider ORDER BY run.id"
    )
    found = [
        Run(id, spider, started, ended, reason, bool(reverted))
        for id, spider, started, ended, reason, reverted in db.execute(query)
    ]
    for run in found:
        if not (is_time(run.started) and _are_texts(run.spider, run.reason or "")):
            raise StateError(MADE_UP.format(f"run {run.id}"))
    return found


def changes(db: sqlite3.Connection, since: int) -> Iterator[Change]:
    """What happened to pages in a run and those after it, in the order of the runs.

    Raises StateError for what no crawl wrote.
    """
    query = (
        "SELECT first AS run, time, 0 AS status, url, NULL, NULL FROM page WHERE first >= :since "
        "UNION ALL SELECT run, time, status, url, target, what FROM change WHERE run >= :since "
        "ORDER BY run, status, url"
    )
    return map(_sound, db.execute(query, {"since": since}))


def newest_changes(db: sqlite3.Connection, limit: int) -> tuple[int, list[Change]]:
    """How often pages were CHANGED, and the last of these, newest first. Raises StateError."""
    where = "FROM change WHERE status = ?"
    (n,) = db.execute(f"SELECT count(*) {where}", (Status.CHANGED,)).fetchone()
    query = f"SELECT run, time, status, url, target, what {where} ORDER BY id DESC LIMIT ?"
    return n, [*map(_sound, db.execute(query, (Status.CHANGED, limit)))]


def _sound(row: tuple[Any, ...]) -> Change:
    run, at, status, url, target, what = row
    is_sound = isinstance(run, int) and status in tuple(Status) and is_time(at)
    if not (is_sound and _are_texts(url, target or "", what or "")):
        raise StateError(MADE_UP.format(f"what happened in run {run}"))
    return Change(run, at, Status(status), url, target, what)


def _are_texts(*values: object) -> bool:
    return all(isinstance(value, str) for value in values)

"""What each URL was when it was read last, and what has become of it since: one SQLite file.

It stands beside the state's snapshots: nothing of it is in memory but the writes of about a
second, and the command `changes` reads it with names and dates.

A *run* is one crawl of one spider. A crawl that goes on where another was cut off by a crash, or
stopped with its queue on disk, is the same run. What a run finds of a page that was known before
takes the place of the page's earlier self, which is set aside until the run ends: so a run can
be taken back (`revert`). What it finds gone is `leaving` until then.

Whatever could keep a page's items back has a MAC under the folder's key (mac.py): what a page said,
that it is done, and what varies on a site. A page whose row has a wrong one is new. The rest only
tells what became of pages.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import reduce
from operator import xor
from pathlib import Path
from typing import ClassVar

from scrapy_neardup.learn.change_rates import History
from scrapy_neardup.sqlite_files import connect_to_read
from scrapy_neardup.state.departures import Departures
from scrapy_neardup.state.mac import VISIT, mac_of
from scrapy_neardup.state.visit import (
    DEPARTED,
    UNKNOWN,
    Departure,
    Hint,
    HostRecord,
    Original,
    PageKey,
    Visit,
    code_of,
    own_learnt,
    signed_learnt,
    status_of,
    unambiguous,
    without_content,
)
from scrapy_neardup.state.visit_file import FILE, Change, Status, check_file, opened, unusable

logger = logging.getLogger(__name__)

MAX_WAITING = 2_000  # visits in memory before they are written
MAX_STARTS = 10_000  # start URLs of which it is remembered that a run began with them
MANY_GONE = 4  # known pages from which on most of them are not gone at once
START_BYTES = 8  # of a key, to know a start URL again
MORE_STARTS = bytes(START_BYTES)  # stands for those beyond MAX_STARTS, which no run has again


def seem_out_of_order(n_gone: int, n_known: int) -> bool:
    """Whether so many of the known pages are gone that rather the site is out of order."""
    return n_known >= MANY_GONE and 2 * n_gone > n_known


class Visits:
    """The table of a state folder, for one spider's run. For one thread.

    Reads see what waits to be written. Writes wait until flush(), which the crawl calls about
    once a second: a crash loses that second, so its pages are read again.

    n_foreign    rows that were damaged, or not written under the folder's key
    n_forgotten  pages that found no room in the file, as on a full disk, nor in memory
    is_shared    whether other workers read pages of the run, too
    """

    is_shared = False
    _under_way: ClassVar[set[tuple[Path, int]]] = set()  # runs of this process

    def __init__(self, folder: Path, spider: str, key: int, goes_on: bool = True) -> None:
        """Open the file and begin a run, or go on with one of the spider's that did not end.

        key: the folder's secret.
        goes_on: False begins a run in any case: another process may have the other one.
        A damaged file is set aside: every page is new then. Raises StateError, OSError.
        """
        self.path = folder / FILE
        self._db = opened(self.path)
        self._name, self._key = spider, key
        self.n_foreign = self.n_forgotten = 0
        self._waiting: dict[tuple[bytes, str], Visit] = {}
        self._linked: set[bytes] = set()
        self._done: set[bytes] = set()
        self._leaving: dict[bytes, tuple[str | None, bytes | None]] = {}
        self._changes: list[Change] = []
        self._servers: dict[str, HostRecord] = {}
        self._shapes: dict[str, History] = {}
        self._hints: dict[bytes, Hint] = {}
        self._n_new: dict[bytes, int] = {}  # of pages that wait to be written
        self._versions: dict[bytes, int] = {}  # of those
        self._passed: set[bytes] = set()
        self._starts: set[bytes] = set()
        self._new_starts: set[bytes] = set()  # of these, those that wait to be written
        try:
            self.spider = self._number_of(spider)
            found = self._unfinished() if goes_on else None
            self.goes_on = found is not None
            self.run = self._begun() if found is None else found
        except sqlite3.Error as error:
            self._db.close()
            raise unusable(self.path, error) from error
        self._under_way.add((self.path, self.run))

    def _number_of(self, spider: str) -> int:
        with self._db:
            self._db.execute("INSERT OR IGNORE INTO spider (name) VALUES (?)", (spider,))
        found = self._db.execute("SELECT id FROM spider WHERE name = ?", (spider,)).fetchone()
        return int(found[0])

    def _unfinished(self) -> int | None:
        query = "SELECT id FROM run WHERE spider = ? AND ended IS NULL ORDER BY id DESC"
        runs = [id for (id,) in self._db.execute(query, (self.spider,))]
        return next((id for id in runs if (self.path, id) not in self._under_way), None)

    def _begun(self) -> int:
        added = "INSERT INTO run (spider, started, starts, reverted) VALUES (?, ?, x'', 0)"
        with self._db:
            row = self._db.execute(added, (self.spider, time.time())).lastrowid
        assert row is not None
        return row

    # --- while the run is under way

    def visit(self, key: bytes, callback: str, counts: bool = True) -> Visit | None:
        """A page as the spider's callback read it last, in this run or an earlier one.

        counts: whether a foreign row is counted, which whoever asks again is to do.
        """
        waiting = self._waiting.get((key, callback))
        if waiting is not None:
            return waiting
        row = self._db.execute(VISIT_OF, (key, self.spider, callback)).fetchone()
        if row is None:
            return None
        visit = Visit(*row)
        if visit.mac == code_of(self._key, self._name, visit):
            return visit
        if counts:
            self._found_foreign(f"what is known of {visit.url}")
        return None

    def version(self, key: bytes) -> int:
        """The version of a page, whatever spider reads it, by whatever callbacks.

        UNKNOWN where no row of it counts, DEPARTED where it stands at its URL no longer.
        """
        if key in self._versions:
            return self._versions[key]
        rows = self._db.execute(_VERSIONS, (key,)).fetchall()
        visits = [(name, Visit(*row)) for name, *row in rows]
        own = [one for name, one in visits if one.mac == code_of(self._key, name, one)]
        there = [one.version for one in own if one.status < Status.GONE]
        if not there:
            return DEPARTED if own else UNKNOWN
        return reduce(xor, there)

    def _found_foreign(self, what: str) -> None:
        self.n_foreign += 1
        if self.n_foreign == 1:
            logger.warning(
                "%s: %s is damaged, or was not written under this folder's key, and does not "
                "count; of further ones only the number is told",
                self.path,
                what,
            )

    def put(self, visit: Visit) -> None:
        """A page was read; its earlier self is set aside until the run ends."""
        self._waiting[visit.key, visit.callback] = self._signed(visit)
        self._n_new[visit.key] = visit.n_new
        self._versions[visit.key] = visit.version
        if len(self._waiting) >= MAX_WAITING:
            self._make_room()

    def _signed(self, visit: Visit) -> Visit:
        return visit._replace(mac=code_of(self._key, self._name, visit))

    def _make_room(self) -> None:
        """Write what waits or, where that fails, forget the page that waits longest: it is read
        again, as after a crash."""
        try:
            self.flush()
        except sqlite3.Error:  # flush() is called every second besides, and complains
            key, callback = next(iter(self._waiting))
            del self._waiting[key, callback]
            self._n_new.pop(key, None)
            self._versions.pop(key, None)
            self.n_forgotten += 1

    def started(self, key: bytes, url: str) -> None:
        """The run begins with a URL."""
        self.linked(key, url)
        start = key[:START_BYTES]
        if start not in self._starts:
            known = start if len(self._starts) < MAX_STARTS else MORE_STARTS
            self._starts.add(known)
            self._new_starts.add(known)

    def linked(self, key: bytes, url: str) -> None:
        """A link to a URL was found, or it was asked for."""
        self._linked.add(key)

    def done(self, key: bytes) -> None:
        """A page is done, with all that was found on it."""
        self._done.add(key)

    def is_done(self, key: bytes) -> bool:
        """Whether done() was called in this run."""
        return (
            key in self._done
            or self._db.execute(_DONE, (key, self.spider, self._done_code(key))).fetchone()
            is not None
        )

    def _done_code(self, key: bytes) -> bytes:
        """What says that a page was completed in this run."""
        return mac_of(self._key, VISIT, *unambiguous(b"done", self._name, self.run, key))

    def leaving(self, key: bytes, target: str | None = None, at: bytes | None = None) -> None:
        """A URL answered that it is gone, or led to another one: the target, of key `at`."""
        self._leaving[key] = target, at

    def not_made(self, page: PageKey) -> None:
        """A page of which nothing is known was not to be read."""

    def changed(self, url: str, what: str) -> None:
        """A page is CHANGED. what: JSON that says in what."""
        self._changes.append(Change(self.run, time.time(), Status.CHANGED, url, None, what))

    def servers(self) -> dict[str, HostRecord]:
        """By host, as put_server() was told by this spider's runs."""
        query = "SELECT * FROM server WHERE spider = ?"
        return {host: HostRecord(*one) for _, host, *one in self._db.execute(query, (self.spider,))}

    def put_server(self, host: str, server: HostRecord) -> None:
        """Something was learnt of a host."""
        self._servers[host] = server

    def shapes(self) -> dict[str, History]:
        """By shape of URLs, as put_shape() was told by this spider's runs."""
        query = "SELECT * FROM shape WHERE spider = ?"
        return {shape: History(*one) for _, shape, *one in self._db.execute(query, (self.spider,))}

    def put_shape(self, shape: str, history: History) -> None:
        """One more page of a shape was compared with its earlier self."""
        self._shapes[shape] = history

    def hint(self, key: bytes) -> Hint | None:
        """What a sitemap said of a page last."""
        if key in self._hints:
            return self._hints[key]
        query = "SELECT modified, period FROM hint WHERE key = ?"
        row = self._db.execute(query, (key,)).fetchone()
        return None if row is None else Hint(*row)

    def put_hint(self, page: PageKey, hint: Hint) -> None:
        """A sitemap says something of a page."""
        self._hints[page.key] = hint
        if len(self._hints) >= MAX_WAITING:
            self.flush()

    def n_new(self, key: bytes) -> int | None:
        """How many new links a page brought at its last visit; None if it was never read."""
        if key in self._n_new:
            return self._n_new[key]
        query = "SELECT max(n_new) FROM page WHERE key = ?"
        n: int | None = self._db.execute(query, (key,)).fetchone()[0]
        return n

    def passed(self, visit: Visit) -> None:
        """A page was passed over: it is not due."""
        self._passed.add(visit.key)

    def n_passed(self) -> int:
        """How many pages of the run were passed over."""
        query = "SELECT count(*) FROM page WHERE spider = ? AND passed = ?"
        (n,) = self._db.execute(query, (self.spider, self.run)).fetchone()
        return int(n)

    def flush(self) -> None:
        """Write what waits, in one transaction. Raises sqlite3.Error; then it waits on."""
        waiting = (
            self._waiting,
            self._linked,
            self._done,
            self._leaving,
            self._changes,
            self._servers,
            self._shapes,
            self._hints,
            self._passed,
            self._n_new,
            self._versions,
            self._new_starts,
        )
        if not any(waiting):
            return
        changed = [v for v in self._waiting.values() if v.status == Status.CHANGED]
        keys = [(visit.key, visit.spider, visit.callback, self.run) for visit in changed]
        with self._db:
            self._db.executemany(_SET_ASIDE, keys)
            self._db.executemany(PUT_VISIT, self._waiting.values())
            self._db.executemany(
                _LINKED, [(self.run, key, self.spider, self.run) for key in self._linked]
            )
            self._db.executemany(
                _MARK_DONE, [(self._done_code(key), key, self.spider) for key in self._done]
            )
            left = [(key, self.run, *target) for key, target in self._leaving.items()]
            self._db.executemany("INSERT OR REPLACE INTO leaving VALUES (?, ?, ?, ?)", left)
            self._db.executemany(_CHANGE, self._changes)
            servers = [(self.spider, host, *one) for host, one in self._servers.items()]
            self._db.executemany(_PUT_SERVER, servers)
            shapes = [(self.spider, shape, *one) for shape, one in self._shapes.items()]
            self._db.executemany("INSERT OR REPLACE INTO shape VALUES (?, ?, ?, ?, ?)", shapes)
            hints = [(key, *one) for key, one in self._hints.items()]
            self._db.executemany("INSERT OR REPLACE INTO hint VALUES (?, ?, ?)", hints)
            passed = [(self.run, key, self.spider, self.run) for key in self._passed]
            self._db.executemany(_PASSED, passed)
            self._put_starts()
        for written in waiting:
            written.clear()

    def _put_starts(self) -> None:
        """Write which URLs this run began with, before and after a crash."""
        if self._new_starts:
            starts = self._starts_of(self.run) | self._starts
            query = "UPDATE run SET starts = ? WHERE id = ?"
            self._db.execute(query, (b"".join(sorted(starts)), self.run))

    def _starts_of(self, run: int) -> set[bytes]:
        row = self._db.execute("SELECT starts FROM run WHERE id = ?", (run,)).fetchone()
        packed = b"" if row is None else bytes(row[0])
        ends = range(START_BYTES, len(packed) + 1, START_BYTES)
        return {packed[end - START_BYTES : end] for end in ends}

    # --- when it ends

    def departures(self, links_tell: bool, depth_limit: int) -> list[Departure]:
        """The pages of the spider that were known and stand no longer at their URL.

        links_tell   whether a page that is not linked is gone, if the run that found a link to
                     it last began with no other URLs: the crawl ended by itself and read every
                     page of links that it came to
        depth_limit  from which depth on links were not followed; 0 for none: then only the
                     page that led to another one can say that it is gone
        """
        self.flush()
        departures = Departures(self._db, self.spider, self.run)
        found = departures.left()
        if links_tell:
            gone = {one.key for one in found}
            found += departures.unlinked(self._began_alike, gone, depth_limit)
        return found

    def _began_alike(self, run: int) -> bool:
        """Whether this run began with all URLs with which another one did."""
        return self._starts_of(run) <= self._starts - {MORE_STARTS}

    def n_known(self) -> int:
        """How many pages of the spider earlier runs knew."""
        (n,) = self._db.execute(_KNOWN, (self.spider, self.run, Status.GONE)).fetchone()
        return int(n)

    def minor(self, pages: list[tuple[bytes, str, str]]) -> None:
        """Pages that count as CHANGED in this run are MINOR. pages: key, callback, URL."""
        statuses = Status.MINOR, Status.CHANGED
        rows = [(key, self.spider, callback, self.run, *statuses) for key, callback, _ in pages]
        with self._db:
            self._db.executemany(_MINOR, rows)
            query = "DELETE FROM change WHERE run = ? AND url = ?"
            self._db.executemany(query, [(self.run, url) for _, _, url in pages])

    def conclude(self, departures: list[Departure]) -> None:
        """Take what the run found for true: its pages, and which of the known ones left."""
        now = time.time()
        rows = [
            (status_of(one.target), now, one.key, self.spider, one.callback) for one in departures
        ]
        targets = {one.url: one.target for one in departures}  # two callbacks may have read it
        changes = [
            Change(self.run, now, status_of(target), url, target, None)
            for url, target in targets.items()
        ]
        inherited = [visit for one in departures for visit in self._inherited(one)]
        with self._db:
            self._db.executemany(PUT_VISIT, inherited)
            self._db.executemany(_DEPARTED, rows)
            self._db.executemany(_CHANGE, changes)
            self._forget_earlier()

    def _inherited(self, left: Departure) -> Iterator[Visit]:
        """The copies of a page that left: its heir is none now, the others are the heir's."""
        if left.heir is None:
            return
        was = Original(left.key, self.version(left.key))
        now = Original(left.heir, self.version(left.heir))
        for row in self._db.execute(_COPIES, (left.key, self.spider)).fetchall():
            visit = Visit(*row)
            if visit.mac != code_of(self._key, self._name, visit):
                continue
            is_heir = visit.key == left.heir
            repeats = [now if one == was else one for one in visit.originals()]
            packed = b"".join(one.pack() for one in repeats if not (is_heir and one == now))
            copy = visit._replace(copy_of=None if is_heir else left.heir, repeats=packed)
            yield self._signed(copy)

    def revert(self, gave_items: Callable[[bytes], bool]) -> None:
        """Give pages that changed in this run their earlier selves back; nothing has left.

        gave_items: whether a page did, by the `items` of its visit. Those have passed, so the
        next ones pass, too, even if they say what the earlier self said.
        """
        self.flush()
        with self._db:
            self._db.executemany(PUT_VISIT, self._restored(gave_items))
            self._db.execute("DELETE FROM change WHERE run = ?", (self.run,))
            self._db.execute("UPDATE run SET reverted = 1 WHERE id = ?", (self.run,))
            self._forget_earlier()

    def _restored(self, gave_items: Callable[[bytes], bool]) -> Iterator[Visit]:
        """The earlier selves, without what they said where the page is to pass again."""
        for *row, items in self._db.execute(_EARLIER, (self.spider,)):
            visit = Visit(*row)
            is_own = visit.mac == code_of(self._key, self._name, visit)
            # Before a crash the run may have read the page with other items.
            if is_own and (self.goes_on or gave_items(items)):
                visit = self._signed(without_content(visit, self.run))
            yield visit

    def _forget_earlier(self) -> None:
        self._db.execute(_FORGET_EARLIER, (self.spider,))
        self._db.execute("DELETE FROM leaving WHERE run = ?", (self.run,))

    def end(self, reason: str) -> None:
        """The run is over; the spider's next crawl begins another one."""
        with self._db:
            query = "UPDATE run SET ended = ?, reason = ? WHERE id = ?"
            self._db.execute(query, (time.time(), reason, self.run))

    def n_trusted(self) -> int:
        """How many pages of the run are unchanged by the word of their servers."""
        query = (
            "SELECT count(*) FROM page WHERE spider = ? AND run = ? AND trusted > 0 AND passed >= 0"
        )
        (n,) = self._db.execute(query, (self.spider, self.run)).fetchone()
        return int(n)

    def counts(self) -> dict[Status, int]:
        """How many pages the run found in each status."""
        pages = self._db.execute(_COUNTS, (self.spider, self.run, Status.GONE)).fetchall()
        query = "SELECT status, count(*) FROM change WHERE run = ? AND status >= ? GROUP BY status"
        left = self._db.execute(query, (self.run, Status.GONE)).fetchall()
        return {Status(status): n for status, n in pages + left}

    # --- what is kept besides

    def learnt(self) -> list[bytes]:
        """What set_learnt() was told, in any run; nothing if it was not yet."""
        rows = self._db.execute("SELECT data FROM learnt")
        return self._own_learnt([data for (data,) in rows])

    def _own_learnt(self, stored: list[bytes]) -> list[bytes]:
        found = [own_learnt(self._key, data) for data in stored]
        if None in found:
            self._found_foreign("what was learnt of the sites")
        return [data for data in found if data is not None]

    def set_learnt(self, data: bytes) -> None:
        """What the next run is to know of all pages."""
        with self._db:
            signed = signed_learnt(self._key, data)
            self._db.execute("INSERT OR REPLACE INTO learnt VALUES (1, ?)", (signed,))

    def close(self) -> None:
        """Give the file back; what waits is not written."""
        self._under_way.discard((self.path, self.run))
        self._db.close()


def examine(folder: Path, key: int | None) -> str | None:
    """What is wrong with the file of a folder that has one, and that nobody has open.

    key: the folder's secret; None where it is not known, and no MAC can be checked. Raises
    StateError for another version.
    """
    path = folder / FILE
    try:
        with closing(connect_to_read(path)) as db:
            check_file(db, path)
            (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                return f"{path} is damaged: {' '.join(found.split())}"
            n_foreign = 0 if key is None else _n_foreign(db, key)
    except sqlite3.Error as error:
        return f"{path} is damaged: {error}"
    if not n_foreign:
        return None
    return f"{path}: {n_foreign} rows have changed, or were not written under this folder's key"


def _n_foreign(db: sqlite3.Connection, key: int) -> int:
    names = dict(db.execute("SELECT id, name FROM spider"))
    n_foreign = 0
    for table in ("page", "earlier"):
        for row in db.execute(f"SELECT * FROM {table}"):  # noqa: S608 - the tables are ours
            visit = Visit(*row)
            n_foreign += visit.mac != code_of(key, str(names.get(visit.spider)), visit)
    learnt = [own_learnt(key, data) for (data,) in db.execute("SELECT data FROM learnt")]
    return n_foreign + learnt.count(None)


# A page of a status below GONE stands at its URL.
VISIT_OF = "SELECT * FROM page WHERE key = ? AND spider = ? AND callback = ?"
_VERSIONS = "SELECT name, page.* FROM page JOIN spider ON spider.id = page.spider WHERE key = ?"
_DONE = "SELECT 1 FROM page WHERE key = ? AND spider = ? AND done = ? LIMIT 1"
_SET_ASIDE = (
    "INSERT OR IGNORE INTO earlier "
    "SELECT * FROM page WHERE key = ? AND spider = ? AND callback = ? AND run < ?"
)
PUT_VISIT = f"INSERT OR REPLACE INTO page VALUES ({','.join('?' * len(Visit._fields))})"  # noqa: S608
_PUT_SERVER = "INSERT OR REPLACE INTO server VALUES (?, ?, ?, ?, ?, ?)"
_LINKED = "UPDATE page SET linked = ? WHERE key = ? AND spider = ? AND linked < ?"
_MARK_DONE = "UPDATE page SET done = ? WHERE key = ? AND spider = ?"
_CHANGE = "INSERT INTO change (run, time, status, url, target, what) VALUES (?, ?, ?, ?, ?, ?)"
_KNOWN = "SELECT count(*) FROM page WHERE spider = ? AND first < ? AND status < ?"
_PASSED = "UPDATE page SET passed = ? WHERE key = ? AND spider = ? AND run < ?"
_MINOR = (
    "UPDATE page SET status = ?5 WHERE key = ?1 AND spider = ?2 AND callback = ?3 AND run = ?4 "
    "AND status = ?6"
)
_DEPARTED = "UPDATE page SET status = ?, time = ? WHERE key = ? AND spider = ? AND callback = ?"
_COPIES = "SELECT * FROM page WHERE copy_of = ? AND spider = ?"
_EARLIER = (
    "SELECT *, (SELECT items FROM page WHERE page.key = earlier.key "
    "AND page.spider = earlier.spider AND page.callback = earlier.callback) "
    "FROM earlier WHERE spider = ?"
)
_FORGET_EARLIER = "DELETE FROM earlier WHERE spider = ?"
_COUNTS = (
    "SELECT status, count(*) FROM page WHERE spider = ? AND run = ? AND status < ? "
    "AND passed >= 0 GROUP BY status"
)

"""What each URL was when any worker of the fleet read it last; a run that the workers share.

The file in the worker's own folder is what `Visits` makes of it: pages that this worker read, and
those that the server told it of in this session. Rows of earlier sessions are not kept, because
another worker may have read their pages since. What the server does not tell is not known.
"""

from __future__ import annotations

import logging
import math
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import reduce
from itertools import chain, count
from operator import xor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from scrapy_neardup.detect.sites import site_of
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.fleet import visit_scripts as scripts
from scrapy_neardup.fleet.change_log import REVERTED, ChangeLog, run_key
from scrapy_neardup.fleet.futures import answer_of, pause
from scrapy_neardup.fleet.link import Link, Unanswered
from scrapy_neardup.fleet.protocol import Call, pairs_of, visits_key
from scrapy_neardup.fleet.unlinked import LinkTeller, SharedRun, Unlinked
from scrapy_neardup.fleet.visit_records import (
    HEAD_BYTES,
    PageReader,
    Told,
    pack,
    pack_hint,
    unpack,
    unpack_hint,
    unpack_told,
)
from scrapy_neardup.learn.change_rates import History
from scrapy_neardup.sqlite_files import MAX_TIME_S, is_count
from scrapy_neardup.state.visit import (
    DEPARTED,
    UNKNOWN,
    Departure,
    Hint,
    HostRecord,
    PageKey,
    Visit,
    code_of,
    signed_learnt,
    status_of,
)
from scrapy_neardup.state.visit_file import Change, Status
from scrapy_neardup.state.visits import PUT_VISIT, VISIT_OF, Visits

logger = logging.getLogger(__name__)

K = TypeVar("K")
T = TypeVar("T")

MAX_TOLD = 10_000  # pages of which versions are in memory; of others the file tells, or the server
MAX_LEARNT = 1 << 26  # bytes of what one worker learnt
TELLING_S, PAUSE_S = 3.0, 0.02  # to wait until the server has all that it was told
TOLD = -1  # `passed` of a row that the server told, and that this worker did not read
NUMBER_MS = 86_400_000  # for which a message that comes twice is known by its number
SHAPE, DATES = "s", "d"  # what sums are of, see visit_scripts.py

Sums = tuple[float, float, float]


class VisitAnswer(NamedTuple):
    """What the server says of a page that is about to be fetched.

    is_done    whether the run is done with it
    record     see visit_records.py; empty where it is not known
    hint       what a sitemap says of it
    told       what it is for all readers
    originals  the same of the pages for which items of it were dropped
    """

    is_done: bool
    record: bytes
    hint: Hint | None
    told: dict[bytes, Told]
    originals: list[dict[bytes, Told]]


class SharedVisits(Visits):
    """Visits of one spider's run, in which the workers of a fleet take part. For the loop's thread.

    What the server is told goes with the other messages of the link, in their order.

    shared_run  by which the workers know the run; when it began, in milliseconds
    """

    is_shared = True

    def __init__(
        self,
        folder: Path,
        spider: str,
        link: Link,
        prefix: str,
        worker: bytes,
        key: int,
        ttl_ms: int,
        hint_ms: int,
    ) -> None:
        """Take part in a run. key: the fleet's secret.

        ttl_ms, hint_ms: after which visits are forgotten (0: never), and what sitemaps say.

        Raises SettingsError if the server does not answer, StateError, OSError.
        """
        super().__init__(folder, spider, key, goes_on=False)
        self._link, self._prefix, self._worker = link, prefix, worker
        self._ttl_ms, self._hint_ms, self._spider_id = ttl_ms, hint_ms, PageReader(spider, "").id
        name = self._spider_name = quote(spider, safe="")
        self._run_key = run_key(prefix, spider)
        self._how_ended = ""
        self._noise_key = f"{{{prefix}}}:noise:{name}"
        self._hosts_key = f"{{{prefix}}}:hosts:{name}"
        self._rates_key = f"{{{prefix}}}:rates:{name}"
        self._numbers = count(1)  # of messages that add to sums
        self._sums: dict[str, Sums] = {}  # as the server has them, as far as this worker knows
        self._told_hints: dict[bytes, Hint] = {}
        self._adopted: dict[tuple[bytes, str], Visit] = {}
        self._heads: dict[tuple[bytes, str], bytes] = {}  # how their records begin on the server
        self._told: dict[bytes, dict[bytes, Told]] = {}
        self._urls: dict[bytes, str] = {}  # of pages that wait to be written
        self._own: dict[bytes, dict[bytes, Told]] = {}  # of those
        self._not_made: dict[PageKey, None] = {}
        self._links_tell = self._has_ended = False
        try:
            self._forget_earlier_sessions()
            self.shared_run = self._take_part()
            self._log = ChangeLog(link.tell, prefix, spider, self.shared_run)
            self._spider_run = SharedRun(prefix, spider, self.shared_run, worker.hex(), key, ttl_ms)
            self._links = LinkTeller(link, self._spider_run)
        except BaseException:
            self.close()
            raise

    def _forget_earlier_sessions(self) -> None:
        """Forget rows of this worker's earlier sessions; which pages were new stays listed."""
        with self._db:
            self._db.execute(_LIST_NEW, (self.spider,))
            for table in ("page", "earlier"):
                self._db.execute(f"DELETE FROM {table} WHERE spider = ?", (self.spider,))  # noqa: S608
            self._db.execute(_FORGET_LEAVING, (self.spider,))

    def _take_part(self) -> int:
        try:
            run = self._begin()
            if (reason := self._how_it_ended(run)) is not None:
                self._link.ask(self._end_of(run, reason)).result()
                run = self._begin()
        except Unanswered as error:
            raise SettingsError(
                f"NEARDUP_BACKEND does not answer, or refuses ({error}). Under NEARDUP_RECRAWL the "
                f"workers agree there on which run they take part in, and what pages were. Start "
                f"the server; its user needs +hgetall"
            ) from error
        logger.info(
            "neardup: this worker takes part in the fleet's run of %s",
            time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(run / 1000)),
        )
        with self._db:
            self._db.execute(_BEGAN, (run / 1000, self.run))
        return run

    def _begin(self) -> int:
        call = Call(scripts.BEGIN, self._run_key, (self._worker.hex(),), _begun)
        run: int = self._link.ask(call).result()
        return run

    def _how_it_ended(self, run: int) -> str | None:
        """How a session of this folder ended a run, of which the server was not told."""
        row = self._db.execute(_ENDED, (self.spider, run / 1000)).fetchone()
        return None if row is None else str(row[0])

    def _end_of(self, run: int, how: str) -> Call:
        return Call(scripts.END, self._run_key, (run, self._worker.hex(), how), bool)

    # --- questions

    def ask(self, page: PageKey) -> Future[Any]:
        """Ask what a page was: for adopt()."""
        reader = PageReader(self._name, page.callback)
        arguments = (page.key, reader.id, self._spider_id, self.shared_run, self._spider_name)
        return self._link.ask(Call(scripts.VISITED, self._site(page.url), arguments, _answer))

    def adopt(self, page: PageKey, answer: VisitAnswer) -> bool:
        """Know from now on what the server says of a page; whether the run is done with it."""
        key, callback, _ = page
        self._note(key, answer.told)
        if answer.hint is not None:
            _put_bounded(self._told_hints, key, answer.hint)
        visit = self._visit_in(answer.record, key, callback) if answer.record else None
        if visit is None:
            return answer.is_done
        for original, told in zip(visit.originals(), answer.originals, strict=False):
            self._note(original.key, told)
        own = self.visit(key, callback)
        if own is None or own.run != self.run:  # what this worker read itself is newer
            if own is not None and visit.run < self.run:
                visit = visit._replace(passed=own.passed)
            self._adopted[key, callback] = visit
            _put_bounded(self._heads, (key, callback), answer.record[:HEAD_BYTES])
        return answer.is_done

    def _visit_in(self, record: bytes, key: bytes, callback: str) -> Visit | None:
        try:
            visit, run, first = unpack(record, key, PageReader(self._name, callback), self._key)
        except ValueError as error:
            self._found_foreign(f"what the server says of a page ({error})")
            return None
        visit = visit._replace(
            spider=self.spider, passed=TOLD, run=self._local(run), first=self._local(first)
        )
        return visit._replace(mac=code_of(self._key, self._name, visit))

    def _local(self, run: int) -> int:
        """A run of the fleet as the file has it: those before this one are negative."""
        return self.run if run >= self.shared_run else -run

    def _of_fleet(self, run: int) -> int:
        return self.shared_run if run >= 0 else -run

    def ask_version(self, key: bytes, url: str) -> Future[Any]:
        """Ask what a page is for all readers: for note_version()."""
        return self._link.ask(Call(scripts.VERSIONS, self._site(url), (key,), unpack_told))

    def note_version(self, key: bytes, told: dict[bytes, Told]) -> None:
        """Know from now on what the server says of a page's version."""
        self._note(key, told)

    def _note(self, key: bytes, told: dict[bytes, Told]) -> None:
        _put_bounded(self._told, key, told)

    def _site(self, url: str) -> str:
        return visits_key(self._prefix, site_of(url))

    # --- what Visits asks of its file

    def visit(self, key: bytes, callback: str, counts: bool = True) -> Visit | None:
        """A page as a worker read it last, as far as the server has told this one."""
        adopted = self._adopted.get((key, callback))
        if adopted is not None and (key, callback) not in self._waiting:
            return adopted
        return super().visit(key, callback, counts)

    def version(self, key: bytes) -> int:
        """The version of a page, as this worker read it or was told of it."""
        told, own = self._told.get(key, {}), dict(self._own.get(key, {}))
        rows = self._db.execute(_OWN, (key, self.spider)).fetchall()
        for callback, run, passed, status, version in rows:
            found = {PageReader(self._name, callback).id: Told(status, version)}
            if passed == TOLD or run != self.run:
                told = found | told
            else:
                own = found | own
        known = told | own  # what this worker read itself is newer
        there = [one.version for one in known.values() if one.status < Status.GONE]
        if not there:
            return DEPARTED if known else UNKNOWN
        return reduce(xor, there)

    def put(self, visit: Visit) -> None:
        """A page was read: remembered here, and on the server."""
        self._urls[visit.key] = visit.url
        told = Told(int(visit.status), visit.version)
        self._own.setdefault(visit.key, {})[PageReader(self._name, visit.callback).id] = told
        super().put(visit)
        head = self._heads.pop((visit.key, visit.callback), b"")
        self._tell(visit, head, lambda stands: self._told_beside(visit, stands))
        self.linked(visit.key, visit.url)
        self._links.read(visit, visit.url, visit.first == self.run)
        if visit.first == self.run:
            self._told_of(Change(visit.run, visit.time, Status.NEW, visit.url, None, None))

    def started(self, key: bytes, url: str) -> None:
        """The run begins with a URL."""
        self._links.started(key)
        self.linked(key, url)

    def linked(self, key: bytes, url: str) -> None:
        """A link to a URL was found, or it was asked for."""
        self._links.linked(key, url)

    def not_made(self, page: PageKey) -> None:
        """A page was not to be read. Before the run is ended the server is asked what it was."""
        if len(self._not_made) <= MAX_TOLD:
            self._not_made[page] = None

    def changed(self, url: str, what: str) -> None:
        """A page is CHANGED, for all to list."""
        super().changed(url, what)
        self._told_of(Change(self.run, time.time(), Status.CHANGED, url, None, what))

    def _told_of(self, change: Change) -> None:
        self._log.add(site_of(change.url), change)

    def _take_back(self, status: Status, url: str) -> None:
        self._log.take_back(site_of(url), status, url)

    def _tell(self, visit: Visit, head: bytes = b"", read: Callable[[bytes], Any] = bytes) -> None:
        """head: of the record that the page was compared with. read: gets what stands instead."""
        reader = PageReader(self._name, visit.callback)
        arguments = (visit.key, reader.id, self.shared_run, *self._stored(visit), head)
        self._links.reads(reader)
        self._link.tell(Call(scripts.PUT, self._site(visit.url), arguments, read))

    def _told_beside(self, visit: Visit, stands: bytes) -> None:  # on the link's thread
        """Two workers have read a page at once, and the other one's record stands.

        If they kept different items, it is not known which was last: the next run finds the page
        changed.
        """
        if not stands or visit.repeats:  # another page's items were kept, whose record tells
            return
        reader = PageReader(self._name, visit.callback)
        other, run, _ = unpack(stands, visit.key, reader, self._key)
        if run == self.shared_run and other.items != visit.items:
            self._tell(visit._replace(items=b""), stands[:HEAD_BYTES])

    def _stored(self, visit: Visit) -> tuple[bytes, int, str]:
        """What a script that stores a visit is given: the record, for how long, whose."""
        reader = PageReader(self._name, visit.callback)
        run, first = self._of_fleet(visit.run), self._of_fleet(visit.first)
        record = pack(visit, reader, self._worker, run, first, self._key)
        return record, self._ttl_ms, self._spider_name

    def passed(self, visit: Visit) -> None:
        """A page was passed over: it is not due."""
        self._urls[visit.key] = visit.url
        self._links.read(visit, visit.url, is_new=False)
        super().passed(visit)

    def hint(self, key: bytes) -> Hint | None:
        """What a sitemap said of a page last, to any worker.

        The server may have answered before it heard what this worker has just read.
        """
        known = (self._told_hints.get(key), super().hint(key))
        found = [hint for hint in known if hint is not None]
        return max(found, key=lambda hint: hint.modified or 0.0, default=None)

    def put_hint(self, page: PageKey, hint: Hint) -> None:
        """A sitemap says something of a page: remembered here, and on the server."""
        super().put_hint(page, hint)
        arguments = (page.key, pack_hint(hint), self._hint_ms)
        self._link.tell(Call(scripts.HINT, self._site(page.url), arguments, bool, merges=True))

    def done(self, key: bytes) -> None:
        """A page is done, for all workers of the run."""
        super().done(key)
        url = self._urls.get(key) or self._url_of(key)
        if url is not None:  # else it was not remembered: it is fetched again
            arguments = (key, self._spider_id, self.shared_run, self._ttl_ms)
            self._link.tell(Call(scripts.DONE, self._site(url), arguments, bool))

    def _url_of(self, key: bytes) -> str | None:
        row = self._db.execute(_URL, (key, self.spider)).fetchone()
        return None if row is None else str(row[0])

    def flush(self) -> None:
        """Write what waits. Raises sqlite3.Error; then it waits on."""
        if self._adopted:
            with self._db:
                self._db.executemany(PUT_VISIT, self._adopted.values())
            self._adopted.clear()
        self._links.flush()
        super().flush()
        self._urls.clear()
        self._own.clear()

    # --- when it ends

    def departures(self, links_tell: bool, depth_limit: int) -> list[Departure]:
        """The pages that this worker found to have left. What links tell, all workers find out."""
        self._links_tell = links_tell and not depth_limit
        found = super().departures(False, depth_limit)
        asked = [self._link.ask(self._about(scripts.IS_READ, one, (), bool)) for one in found]
        return [one for one, answer in zip(found, asked, strict=True) if not _is_true(answer)]

    def _about(
        self, script: str, left: Departure, arguments: tuple[Any, ...], read: Callable[[Any], Any]
    ) -> Call:
        reader = PageReader(self._name, left.callback)
        which = (left.key, reader.id, self._spider_id, self.shared_run)
        return Call(script, self._site(left.url), which + arguments, read)

    def minor(self, pages: list[tuple[bytes, str, str]]) -> None:
        """Pages that count as CHANGED in this run are MINOR."""
        super().minor(pages)
        for _, _, url in pages:
            self._take_back(Status.CHANGED, url)

    def conclude(self, departures: list[Departure]) -> None:
        """Take what this worker found for true, and tell which pages left."""
        super().conclude(departures)
        now = time.time()
        for one in departures:
            row = self._db.execute(VISIT_OF, (one.key, self.spider, one.callback)).fetchone()
            change = Change(self.run, now, status_of(one.target), one.url, one.target, None)
            arguments = (*self._stored(Visit(*row)), *self._log.arguments(change))
            self._link.tell(self._about(scripts.LEAVE, one, arguments, bool))

    def _inherited(self, left: Departure) -> Iterator[Visit]:
        for visit in super()._inherited(left):
            self._tell(visit)
            yield visit

    def revert(self, gave_items: Callable[[bytes], bool]) -> None:
        """Give pages that this worker found changed their earlier selves back."""
        self.flush()
        for status, url in self._db.execute(_CHANGES, (self.run,)).fetchall():
            self._take_back(Status(status), url)
        self._how_ended, self._links_tell = REVERTED, False
        super().revert(gave_items)

    def _restored(self, gave_items: Callable[[bytes], bool]) -> Iterator[Visit]:
        for visit in super()._restored(gave_items):
            self._tell(visit)
            yield visit

    def end(self, reason: str) -> None:
        """The run is over: workers that start from now on begin another one."""
        super().end(reason)
        self._links.ends()
        call = self._end_of(self.shared_run, self._how_ended + reason)
        self._link.tell(call._replace(read=self._ended))

    def _ended(self, answer: Any) -> bool:  # on the link's thread
        self._has_ended = True
        return bool(answer)

    async def mark_unlinked(self, counts: Counter[Status], checks: bool) -> bool:
        """Mark pages as gone that nothing links any more, once the last worker has ended the run.

        Counts how many are gone, and how many moved, also up to an error. False, and nothing is
        marked, if the site seems out of order. checks: whether to look if it does. To be called
        after end(). Raises Unanswered.
        """
        if not self._links_tell or not await self._has_told_all():
            return True
        unlinked = Unlinked(self._link, self._spider_run)
        if await self._misses_links() or not await unlinked.is_last(self._links.told):
            return True
        return await unlinked.mark(counts, checks)

    async def _has_told_all(self) -> bool:
        """Whether the server has all that it was told, and forgot nothing of it."""
        end = time.monotonic() + TELLING_S
        while not self._is_heard and not self._link.is_down and time.monotonic() < end:
            await pause(PAUSE_S)
        return self._is_heard and not self._links.went_back

    @property
    def _is_heard(self) -> bool:
        return self._links.is_heard and self._has_ended

    async def _misses_links(self) -> bool:
        """Whether a page that was not to be read has links, as a worker found earlier."""
        asked = [(page, self.ask(page)) for page in self._not_made]
        for page, answer in asked:
            record = (await answer_of(answer)).record
            visit = self._visit_in(record, page.key, page.callback) if record else None
            if visit is not None and visit.links and visit.status < Status.GONE:
                return True
        return len(self._not_made) > MAX_TOLD

    # --- what is learnt

    def servers(self) -> dict[str, HostRecord]:
        """By host, what the workers found in earlier runs, and in this one so far."""
        known = {
            host: one._replace(n_dates_right=0, n_dates_wrong=0)
            for host, one in super().servers().items()
        }
        for name, found in self._whole(self._hosts_key, _servers).items():
            host = name.decode("utf-8", "replace")
            n_refuted = max(found.n_refuted, known.get(host, HostRecord()).n_refuted)
            known[host] = HostRecord(n_refuted, found.n_mismatched)
        for host, (right, wrong, _) in self._summed(DATES):
            dates = {"n_dates_right": int(right), "n_dates_wrong": int(wrong)}
            known[host] = known.get(host, HostRecord())._replace(**dates)
        return known

    def put_server(self, host: str, server: HostRecord) -> None:
        """Something was learnt of a host."""
        super().put_server(host, server)
        name = host.encode("utf-8", "replace")
        arguments = (name, server.n_refuted, server.n_mismatched)
        self._link.tell(Call(scripts.JUDGED, self._hosts_key, arguments, bool))
        self._add(DATES + host, (server.n_dates_right, server.n_dates_wrong, 0))

    def shapes(self) -> dict[str, History]:
        """By shape of URLs, what the workers found so far."""
        found = self._summed(SHAPE)
        return {shape: History(int(n), int(changes), s) for shape, (n, changes, s) in found}

    def put_shape(self, shape: str, history: History) -> None:
        """One more page of a shape was compared with its earlier self."""
        self._add(SHAPE + shape, history)

    def _summed(self, kind: str) -> Iterator[tuple[str, Sums]]:
        """What the workers counted, by shape or host."""
        for name, sums in self._whole(self._rates_key, _sums).items():
            known = name.decode("utf-8", "replace")
            if known.startswith(kind):
                self._sums[known] = sums
                yield known[1:], sums

    def _add(self, name: str, sums: Sums) -> None:
        """Let the server add what this worker has counted since it told it last."""
        before = self._sums.get(name, (0, 0, 0))
        more = [now - then for now, then in zip(sums, before, strict=True)]
        self._sums[name] = sums
        if any(more):
            number = self._worker.hex(), next(self._numbers), NUMBER_MS
            arguments = (*number, name.encode("utf-8", "replace"), *more)
            self._link.tell(Call(scripts.ADD, self._rates_key, arguments, bool))

    def learnt(self) -> list[bytes]:
        """What the workers learnt in earlier runs, and this one."""
        stored = self._whole(self._noise_key, pairs_of)
        return super().learnt() + self._own_learnt([_inflated(one) for one in stored.values()])

    def _whole(self, key: str, read: Callable[[list[bytes]], dict[bytes, T]]) -> dict[bytes, T]:
        """A hash on the server; empty if that does not answer."""
        try:
            found: dict[bytes, T] = self._link.ask(Call(scripts.WHOLE, key, (), read)).result()
        except Unanswered:
            return {}
        return found

    def set_learnt(self, data: bytes) -> None:
        """What this worker learnt."""
        super().set_learnt(data)
        packed = zlib.compress(signed_learnt(self._key, data), 1)
        run = struct.pack(">d", self.shared_run)
        arguments = (self._worker.hex(), run, packed)
        if len(packed) <= MAX_LEARNT:
            self._link.tell(Call(scripts.LEARNT, self._noise_key, arguments, bool))


def _begun(answer: Any) -> int:
    run = int(answer)
    if not 0 < run < 1000 * MAX_TIME_S:
        raise ValueError("a run that no clock began")
    return run


def _is_true(answer: Future[Any]) -> bool:
    """What the server answers to a question of yes or no; no if it does not."""
    try:
        return bool(answer.result())
    except Unanswered:
        return False


def _put_bounded(told: dict[K, T], key: K, value: T) -> None:
    """Forget what was told first where there is too much."""
    told.pop(key, None)
    told[key] = value
    if len(told) > MAX_TOLD:
        del told[next(iter(told))]


def _answer(answer: list[Any]) -> VisitAnswer:
    is_done, record, hint, told, *originals = answer
    if not isinstance(record, bytes):
        raise TypeError(f"a record of type {type(record).__name__}")
    found = [unpack_told(one) for one in (told, *originals)]
    return VisitAnswer(bool(is_done), record, unpack_hint(hint), found[0], found[1:])


def _servers(answer: list[bytes]) -> dict[bytes, HostRecord]:
    pairs = ((host, value.split()) for host, value in pairs_of(answer).items())
    found = {host: HostRecord(int(refuted), int(wrong)) for host, (refuted, wrong) in pairs}
    if not all(map(is_count, chain.from_iterable(found.values()))):
        raise ValueError("a host of more pages than can be counted")
    return found


def _sums(answer: list[bytes]) -> dict[bytes, Sums]:
    found = {}
    for name, packed in pairs_of(answer).items():
        n, n_of_them, rest = struct.unpack(">ddd", packed)
        is_sum = all(map(math.isfinite, (n, n_of_them, rest))) and rest >= 0
        if is_sum and is_count(int(n)) and is_count(int(n_of_them)):  # as files hold
            found[name] = n, n_of_them, rest
    return found


def _inflated(stored: bytes) -> bytes:
    """What was learnt, behind its MAC; nothing for what no worker stored."""
    try:
        return zlib.decompressobj().decompress(stored[8:], MAX_LEARNT)
    except (zlib.error, TypeError):
        return b""


_BEGAN = "UPDATE run SET started = ? WHERE id = ?"
_ENDED = "SELECT reason FROM run WHERE spider = ? AND started = ? AND ended IS NOT NULL"
_OWN = "SELECT callback, run, passed, status, version FROM page WHERE key = ? AND spider = ?"
_URL = "SELECT url FROM page WHERE key = ? AND spider = ? LIMIT 1"
_CHANGES = "SELECT status, url FROM change WHERE run = ?"
_LIST_NEW = (
    "INSERT INTO change (run, time, status, url, target, what) "
    "SELECT first, time, 0, url, NULL, NULL FROM page WHERE spider = ? AND first > 0"
)
_FORGET_LEAVING = "DELETE FROM leaving WHERE run IN (SELECT id FROM run WHERE spider = ?)"

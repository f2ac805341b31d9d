"""Which pages no worker of a fleet finds linked any more: told while a run is under way, and asked
for by the last worker that ends it.

A page is gone for want of links if every worker of the run finished and told all links that it
found, no other run has begun, and the run began with all URLs with which those began that found a
link to the page since. The server marks it as gone in one step with the look whether it was linked
or read meanwhile. Whatever is in doubt is not gone: a later run may tell.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

from scrapy_neardup.detect.sites import site_of
from scrapy_neardup.fleet import unlinked_scripts as scripts
from scrapy_neardup.fleet.change_log import ChangeLog, run_key
from scrapy_neardup.fleet.futures import answer_of
from scrapy_neardup.fleet.link import Link
from scrapy_neardup.fleet.protocol import Call, pairs_of, shard_of_site, shards_of, visits_key
from scrapy_neardup.fleet.visit_records import HEAD_BYTES, PageReader, pack, unpack
from scrapy_neardup.fleet.visit_scripts import LOG_MS, WHOLE
from scrapy_neardup.sqlite_files import is_count
from scrapy_neardup.state.visit import Visit, status_of
from scrapy_neardup.state.visit_file import Change, Status
from scrapy_neardup.state.visits import START_BYTES, seem_out_of_order

logger = logging.getLogger(__name__)

MAX_LINKED = 50_000  # pages of which it is known here that the server was told of a link
MAX_KEYS = 500  # that one message tells
AT_ONCE = 100  # pages that one question looks at
MAX_ROUNDS = 10_000  # of questions about the pages of a shard; the next run looks at the others
SITE_DIGITS = 16


class SharedRun(NamedTuple):
    """The run of a spider, as one worker takes part in it.

    worker  in hexadecimal digits
    key     the fleet's secret
    ttl_ms  after which visits are forgotten; 0: never
    """

    prefix: str
    spider: str
    number: int
    worker: str
    key: int
    ttl_ms: int

    def pages(self, shard: str) -> str:
        """Where the pages of the spider are by when they were linked."""
        return f"{shard}:l:{quote(self.spider, safe='')}"

    def notes(self, shard: str) -> str:
        """Where pages are by what they say, or repeat."""
        return f"{shard}:m:{quote(self.spider, safe='')}:{self.number}"

    @property
    def starts(self) -> str:
        """Where start URLs are."""
        return f"{{{self.prefix}}}:starts:{quote(self.spider, safe='')}"

    @property
    def readers(self) -> str:
        """Where spiders and callbacks are by what stands for them."""
        return f"{{{self.prefix}}}:readers"


class LinkTeller:
    """Tells the server which pages a worker finds linked. For the loop's thread.

    went_back  whether the server has forgotten what it was told: it was restored from an older
               state, or failed over to a replica that lagged behind
    """

    def __init__(self, link: Link, run: SharedRun) -> None:
        self._link, self._run = link, run
        self._linked: dict[bytes, None] = {}  # what the server knows or will be told, oldest first
        self._waiting: defaultdict[str, list[bytes]] = defaultdict(list)  # by site
        self._starts: dict[bytes, None] = {}
        self._untold_starts: list[bytes] = []
        self._readers: set[PageReader] = set()
        self._numbers: defaultdict[str, int] = defaultdict(int)  # of the last message, by shard
        self._heard: defaultdict[str, int] = defaultdict(int)  # and of the last that was answered
        self._unheard: set[tuple[str, int]] = set()
        self.went_back = False

    def linked(self, key: bytes, url: str) -> None:
        """A link to a page was found."""
        if key not in self._linked:
            self._linked[key] = None
            self._waiting[site_of(url)].append(key)
            if len(self._linked) > MAX_LINKED:
                del self._linked[next(iter(self._linked))]

    def started(self, key: bytes) -> None:
        """The run begins with a URL."""
        self._untold_starts.append(key[:START_BYTES])
        if len(self._starts) <= scripts.MAX_STARTS:  # of more none counts
            self._starts[key[:START_BYTES]] = None

    def ends(self) -> None:
        """Tell once more with which URLs the run began: the server may have gone back since."""
        self._untold_starts = list(self._starts)
        self.flush()

    def read(self, visit: Visit, url: str, is_new: bool) -> None:
        """A page stands at a URL in this run; others may find that it is what they looked for."""
        found = [b"c" + visit.copy_of] if visit.copy_of is not None and visit.repeats else []
        if is_new and has_text(visit):
            found.append(b"t" + visit.text)
        key = self._run.notes(shard_of_site(self._run.prefix, site_of(url)))
        for name in found:
            arguments = (name, url.encode("utf-8", "replace"))
            self._link.tell(Call(scripts.NOTE, key, arguments, bool, merges=True))

    def reads(self, reader: PageReader) -> None:
        """A spider's callback reads pages."""
        if reader not in self._readers:
            self._readers.add(reader)
            self._tell(scripts.READER, self._run.readers, (reader.id, json.dumps(reader)))

    def flush(self) -> None:
        """Tell the server what was found since the last time."""
        starts, self._untold_starts = self._untold_starts, []
        for some in _chunks(starts):
            self._tell(scripts.STARTED, self._run.starts, (self._run.number, *some))
        waiting, self._waiting = self._waiting, defaultdict(list)
        for site, keys in waiting.items():
            shard = shard_of_site(self._run.prefix, site)
            for some in _chunks(keys):
                self._tell_links(shard, visits_key(self._run.prefix, site), some)

    def _tell_links(self, shard: str, key: str, pages: list[bytes]) -> None:
        run, name = self._run, quote(self._run.spider, safe="")
        number = self._numbers[shard] + 1
        arguments = (name, run.number, run.worker, number, scripts.KEPT_MS, *pages)
        self._tell(scripts.LINKED, key, arguments, shard)

    def _tell(self, script: str, key: str, arguments: tuple[Any, ...], counter: str = "") -> None:
        """A message of which it is to be known that the server has it."""
        self._numbers[counter] += 1
        number = self._numbers[counter]
        self._unheard.add((counter, number))

        def read(answer: Any) -> bool:  # on the link's thread
            if counter and int(answer) < self._heard[counter]:
                self.went_back = True
            self._heard[counter] = max(self._heard[counter], number)
            self._unheard.discard((counter, number))
            return True

        self._link.tell(Call(script, key, arguments, read))

    @property
    def told(self) -> str:
        """JSON: by shard the number of the last message about links."""
        return json.dumps({shard: n for shard, n in self._numbers.items() if shard})

    @property
    def is_heard(self) -> bool:
        """Whether the server has all that it was told."""
        return not self._unheard


class Candidate(NamedTuple):
    """A page that no worker of the run found linked.

    page    as the server names it
    visits  what readers of the spider found there last: record and visit of each
    """

    page: bytes
    visits: list[tuple[PageReader, bytes, Visit, int, int]]

    @property
    def visit(self) -> Visit:
        """One of them."""
        return self.visits[0][2]


class Unlinked:
    """Marks pages as gone that nothing links any more: for the last worker of a run.

    Raises Unanswered where the server does not answer; what was not marked by then is not gone.
    """

    def __init__(self, link: Link, run: SharedRun) -> None:
        self._link, self._run = link, run
        self._log = ChangeLog(link.tell, run.prefix, run.spider, run.number)
        self._readers: dict[bytes, PageReader] = {}
        self._told: dict[bytes, dict[str, int]] = {}  # worker → by shard its last message

    async def is_last(self, told: str) -> bool:
        """Whether all workers have finished the run, this one after the others.

        told: what this worker has told of links, see LinkTeller.
        """
        run = self._run
        arguments = (run.number, run.worker, told, LOG_MS)
        self._told = await self._ask(
            scripts.TOLD, run_key(run.prefix, run.spider), arguments, _told
        )
        return bool(self._told)

    async def mark(self, counts: Counter[Status], checks: bool) -> bool:
        """Count how many pages are gone, and how many moved.

        False, and none is, if the site seems out of order. checks: whether to look if it does.
        """
        run = self._run
        floor = _floor(await self._ask(WHOLE, run.starts, (), pairs_of), run.number)
        if floor is None:
            return True
        bounds = f"{floor + 0.5:.1f}", run.number
        if checks and await self._is_outage(bounds):
            return False
        self._readers = _readers(await self._ask(WHOLE, run.readers, (), pairs_of))
        for shard in shards_of(run.prefix):
            await self._mark_in(shard, bounds, counts)
        await self._forget_notes()
        return True

    async def _is_outage(self, bounds: tuple[str, int]) -> bool:
        n_linked = n_gone = 0
        for shard in shards_of(self._run.prefix):
            key, run = self._run.pages(shard), self._run.number
            n_linked += await self._ask(scripts.N_LINKED, key, (run,), _count)
            n_gone += await self._n_unlinked(key, bounds)
        return seem_out_of_order(n_gone, n_gone + n_linked)

    async def _n_unlinked(self, key: str, bounds: tuple[str, int]) -> int:
        n = 0
        for _ in range(MAX_ROUNDS):
            arguments = (*bounds, n, AT_ONCE)
            n_seen, n_there = await self._ask(scripts.N_UNLINKED, key, arguments, _two_counts)
            n += int(n_there)
            if n_seen < AT_ONCE:
                break
        return n

    async def _mark_in(self, shard: str, bounds: tuple[str, int], counts: Counter[Status]) -> None:
        """Mark the pages of a shard, some at a time. Those that are not gone are passed over."""
        n_passed = 0
        key = self._run.pages(shard)
        for _ in range(MAX_ROUNDS):
            arguments = (*bounds, n_passed, AT_ONCE)
            rows = await self._ask(scripts.UNLINKED, key, arguments, _rows)
            found = [one for one in map(self._candidate, rows) if one is not None]
            homes = await self._homes(found)
            asked = [self._leave(shard, one, homes.get(one.page)) for one in found]
            n_gone = 0
            for one, answer in zip(found, asked, strict=True):
                if await answer_of(answer):
                    counts[status_of(homes.get(one.page))] += 1
                    n_gone += 1
            n_passed += len(rows) - n_gone
            if len(rows) < AT_ONCE:
                return

    def _candidate(self, row: tuple[bytes, dict[bytes, bytes]]) -> Candidate | None:
        """A page that stands at its URL as far as is known; None for one in doubt."""
        page, fields = row
        found = []
        for name, record in fields.items():
            if name[:1] != b"r":
                continue
            reader = self._readers.get(name[1:])
            if reader is None:  # it may be one of this spider
                return None
            if reader.spider != self._run.spider:
                continue
            try:
                visit, run, first = unpack(record, page[SITE_DIGITS:], reader, self._run.key)
            except ValueError:
                return None
            if run >= self._run.number:
                return None
            if visit.status < Status.GONE:
                found.append((reader, record, visit, run, first))
        return Candidate(page, found) if found else None

    async def _homes(self, found: list[Candidate]) -> dict[bytes, str]:
        """By page, the URL where what it said stands now: a copy of it, or a new page."""
        if not found:
            return {}
        names = [b"c" + one.visit.key for one in found]
        names += [b"t" + one.visit.text for one in found if has_text(one.visit)]
        urls: dict[bytes, str] = {}
        for shard in shards_of(self._run.prefix):
            key = self._run.notes(shard)
            told = await self._ask(scripts.WHERE, key, tuple(names), _urls)
            urls |= {name: url for name, url in zip(names, told, strict=True) if url}
        homes = {}
        for one in found:
            copy, same = urls.get(b"c" + one.visit.key), urls.get(b"t" + one.visit.text)
            home = copy or (same if has_text(one.visit) else None)
            if home is not None and home != one.visit.url:
                homes[one.page] = home
        return homes

    def _leave(self, shard: str, one: Candidate, home: str | None) -> Future[Any]:
        """Ask the server to mark a page as gone or moved, if it still is as it was."""
        run, now = self._run, time.time()
        status, url = status_of(home), one.visit.url
        change = Change(run.number, now, status, url, home, None)
        arguments: list[Any] = [
            run.number,
            b"d" + PageReader(run.spider, "").id,
            run.ttl_ms,
            one.page,
        ]
        arguments += self._log.arguments(change)
        numbers = {b"w" + worker: n[shard] for worker, n in self._told.items() if shard in n}
        arguments += [run.notes(shard), len(numbers), *chain.from_iterable(numbers.items())]
        for reader, record, visit, its_run, first in one.visits:
            left = visit._replace(status=status, time=now)
            worker = bytes.fromhex(run.worker)
            packed = pack(left, reader, worker, its_run, first, run.key)
            arguments += [b"r" + reader.id, record[:HEAD_BYTES], packed]
        return self._link.ask(Call(scripts.LEFT, run.pages(shard), tuple(arguments), _is_one))

    async def _forget_notes(self) -> None:
        for shard in shards_of(self._run.prefix):
            self._link.tell(Call(scripts.FORGET, self._run.notes(shard), (), int))

    async def _ask(
        self, script: str, key: str, arguments: tuple[Any, ...], read: Callable[[Any], Any]
    ) -> Any:
        return await answer_of(self._link.ask(Call(script, key, arguments, read)))


def has_text(visit: Visit) -> bool:
    """Whether there is anything by which a page that says the same can be told."""
    return visit.lines is None or visit.lines != b""


def _floor(starts: dict[bytes, bytes], run: int) -> int | None:
    """The last run that began with a URL with which this one did not begin, or may have.

    None where that cannot be told, or another run has begun.
    """
    if b"since" not in starts:
        return None
    known = {name: int(last) for name, last in starts.items() if name[:1] == b"s"}
    since = known.pop(b"since")
    if not known or max(known.values()) > run:
        return None
    return max([since - 1, *(last for last in known.values() if last < run)])


def _readers(stored: dict[bytes, bytes]) -> dict[bytes, PageReader]:
    """By what stands for them, spiders and callbacks."""
    found = {}
    for id, named in stored.items():
        reader = PageReader(*map(str, json.loads(named)))
        if reader.id == id:
            found[id] = reader
    return found


def _chunks(keys: list[bytes]) -> Iterator[list[bytes]]:
    return (keys[at : at + MAX_KEYS] for at in range(0, len(keys), MAX_KEYS))


def _told(answer: list[bytes]) -> dict[bytes, dict[str, int]]:
    found = {worker: json.loads(told) for worker, told in pairs_of(answer).items()}
    for numbers in found.values():
        for n in numbers.values():
            _count(n)
    return found


def _rows(answer: Iterable[list[bytes]]) -> list[tuple[bytes, dict[bytes, bytes]]]:
    return [(bytes(page), pairs_of(fields)) for page, *fields in answer]


def _urls(answer: list[bytes]) -> list[str]:
    return [url.decode("utf-8", "replace") for url in answer]


def _count(answer: Any) -> int:
    if not is_count(answer):
        raise ValueError(f"{answer!r:.100} pages")
    return int(answer)


def _two_counts(answer: list[Any]) -> tuple[int, int]:
    n_seen, n_there = map(_count, answer)
    return n_seen, n_there


def _is_one(answer: Any) -> bool:
    return bool(answer == 1)

"""What an operator does with a fleet's data: look at it, save it, load it, forget a site or all."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from w3lib.url import safe_url_string

from scrapy_neardup.detect.page_table import page_name, site_number
from scrapy_neardup.detect.sites import site_of
from scrapy_neardup.errors import FleetError
from scrapy_neardup.fleet import change_log, dump_file
from scrapy_neardup.fleet.client import connect, failures
from scrapy_neardup.fleet.dump_file import Key
from scrapy_neardup.fleet.protocol import MAX_SLICES, frontier_key, items_key, unpack_shared
from scrapy_neardup.state.visit_file import Change, Run

AT_ONCE = 500  # keys in a round trip
FOR_EVER = -1  # what PTTL says of a key that does not expire
# What follows the prefix in the names of a fleet's keys. Another prefix may begin with this one.
NAMES = re.compile(rb":p:[0-9a-f]{16}(:\d+)?\}|:[ti]:[0-9a-f]{16}\}|:u:\d+\}|\}:")
FILTERS = re.compile(rb":u:\d+\}(:t\d+)?$")  # not their slices

NO_FLEET = "there is no fleet under this prefix"

# How many requests wait and how many are there, at one moment.
COUNTED = "return {redis.call('GET', KEYS[1]) or '0', redis.call('HLEN', KEYS[2])}"

# KEYS: of hosts of a spider, their requests that wait. ARGV: how the keys of the frontier begin,
# and those of the spider there. Answer: how many of the hosts no worker comes by. See
# frontier_scripts.py.
STRANDED = """
local Q, S, n = ARGV[1], ARGV[2], 0
local spider = string.sub(S, #Q + 4)
local function is_in(name, one) return redis.call('ZSCORE', name, one) end
for _, key in ipairs(KEYS) do
  local host = string.sub(key, #S + 4)
  local owner = redis.call('HGET', Q .. ':owners', host)
  local is_found = not owner and (is_in(S .. ':free', host) or is_in(S .. ':resting', host))
  if owner and is_in(Q .. ':workers', string.sub(owner, 1, 4)) then
    local is_ours = string.sub(owner, 5) == spider
    is_found = not is_ours or is_in(S .. ':mine:' .. string.sub(owner, 1, 4), host)
  end
  if not is_found and redis.call('EXISTS', key) == 1 then n = n + 1 end
end
return n
"""


class Queue(NamedTuple):
    """The shared frontier of one spider."""

    spider: str
    waiting: int
    leased: int
    failed: int  # for the next run
    busy: int  # workers
    idle: int
    dead: int  # whose leases have expired; their requests are given out again bit by bit
    lost: int  # waiting, at least, of which the server has only the id
    stranded: int  # hosts of requests that wait which no worker comes by


class FleetStatus(NamedTuple):
    """A fleet on its server."""

    is_there: bool  # or requests of one whose secret was forgotten
    workers: int  # that live
    fullest_shard: int  # slices, of MAX_SLICES
    queues: list[Queue]
    servers: list[dict[str, Any]]  # what INFO says of each; in a cluster, also which `node` it is


class Operator:
    """One fleet's data. Every method raises FleetError if the server fails or refuses."""

    def __init__(self, url: str, prefix: str) -> None:
        self._prefix = prefix
        try:
            self._client = connect(url)
        except failures() as error:
            raise FleetError(f"the server does not answer: {error}") from error

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def status(self) -> FleetStatus:
        """How the fleet stands."""
        try:
            return self._status()
        except failures() as error:
            raise FleetError(f"the server fails or refuses: {error}") from error

    def _status(self) -> FleetStatus:
        client = self._client
        filters = filter(FILTERS.search, self._names(":u:*"))
        slices = [_count(name, client.hget(name, "slices") or 0) for name in filters]
        spiders = sorted(client.smembers(self._frontier + ":spiders"))
        return FleetStatus(
            bool(spiders or client.exists(self._secret_name)),
            self._n_workers(),
            max(slices, default=0),
            [self._queue(name) for name in spiders],
            self._servers(),
        )

    def _n_workers(self) -> int:
        """Workers that live."""
        return sum(1 for _ in self._names("}:w:*"))

    @property
    def _frontier(self) -> str:
        return frontier_key(self._prefix)

    def _queue(self, spider: bytes) -> Queue:
        client = self._client
        try:
            base = f"{self._frontier}:s:{spider.decode('ascii')}"
        except UnicodeDecodeError as error:
            raise _foreign(f"{self._frontier}:spiders", spider) from error
        seconds, micros = client.time() if not hasattr(client, "get_nodes") else _time(client)
        now = 1000 * seconds + micros // 1000
        workers = client.hgetall(base + ":workers")
        ends = {one: client.zscore(self._frontier + ":workers", one) or 0 for one in workers}
        alive = [state for one, state in workers.items() if ends[one] > now]
        leases = [base.encode() + b":leases:" + one for one in workers]
        n_waiting, n_there = client.eval(COUNTED, 2, base + ":n", base + ":requests")
        n_waiting = _count(base + ":n", n_waiting)
        return Queue(
            unquote(spider.decode()),
            n_waiting,
            sum(client.scard(key) for key in leases),
            client.scard(base + ":failed"),
            alive.count(b"b"),
            alive.count(b"i"),
            len(workers) - len(alive),
            max(0, n_waiting - n_there),
            self._n_stranded(base),
        )

    def _n_stranded(self, base: str) -> int:
        """Hosts of a spider whose requests no worker comes by. Of a damaged queue, or by the
        scripts of an earlier version."""
        hosts, n = self._names(f"{base.removeprefix('{' + self._prefix)}:h:*"), 0
        while some := list(islice(hosts, AT_ONCE)):
            n += self._client.eval(STRANDED, len(some), *some, self._frontier, base)
        return n

    def _servers(self) -> list[dict[str, Any]]:
        if hasattr(self._client, "get_nodes"):
            nodes = [node for node in self._client.get_nodes() if node.server_type == "primary"]
            infos = (self._client.get_redis_connection(node).info("everything") for node in nodes)
            return [
                info | {"node": f"{node.host}:{node.port}"}
                for node, info in zip(nodes, infos, strict=True)
            ]
        return [self._client.info("everything")]

    def _names(self, pattern: str) -> Iterator[bytes]:
        """Names of the fleet's keys. pattern: of what follows the prefix."""
        prefix = "".join(f"\\{char}" if char in "*?[]\\" else char for char in self._prefix)
        start = len(f"{{{self._prefix}".encode())
        for name in self._client.scan_iter(match=f"{{{prefix}{pattern}", count=AT_ONCE):
            if NAMES.match(name, start):
                yield name

    def _all_names(self) -> Iterator[bytes]:
        return self._names("[:}]*")

    def has_data(self) -> bool:
        """Whether the server has anything of the fleet."""
        try:
            return next(self._all_names(), None) is not None
        except failures() as error:
            raise FleetError(f"the server fails or refuses: {error}") from error

    def save(self, path: Path) -> int:
        """Write every key of the fleet to a new file; how many. Best while no worker runs."""
        try:
            return dump_file.write(path, self._keys())
        except OSError as error:
            raise FleetError(f"{path}: {error.strerror or error}") from error

    def _keys(self) -> Iterator[Key]:
        try:
            for name in self._all_names():
                dump, rest_ms = self._client.dump(name), self._client.pttl(name)
                if dump is not None and (rest_ms > 0 or rest_ms == FOR_EVER):  # or it has expired
                    yield Key(name, dump, max(rest_ms, 0))
        except failures() as error:
            raise FleetError(f"the server fails or refuses: {error}") from error

    def load(self, path: Path) -> int:
        """Write the keys of a file to a server that has none of the fleet, or none; how many."""
        n, n_restored = self._checked(path), 0
        if self.has_data():
            raise FleetError(
                f"the server has data of the fleet {self._prefix!r} already. Import them where "
                f"there is none, or under another --prefix as they were exported"
            )
        try:
            for key in self._secret_last(path):
                self._client.restore(key.name, key.rest_ms, key.dump)
                n_restored += 1
        except failures() as error:
            raise FleetError(
                f"the server refuses key {n_restored + 1:,} of {n:,} ({error}); "
                f"{self._removed(path, n_restored)}"
            ) from error
        except BaseException:  # Ctrl-C
            self._removed(path, n_restored)
            raise
        return n

    def _removed(self, path: Path, n_restored: int) -> str:
        """Remove what an import has brought: half a fleet passes for one that knows less."""
        try:
            # One more than were heard to have come: of that one no answer may have been read.
            for key in islice(self._secret_last(path), n_restored + 1):
                self._client.unlink(key.name)
        except failures() as error:
            return f"empty its database before the next import, for what came cannot go ({error})"
        return "what had come is removed"

    def _checked(self, path: Path) -> int:
        """How many keys a file has. Raises FleetError where one is not of this fleet."""
        beginnings = (f"{{{self._prefix}:".encode(), f"{{{self._prefix}}}".encode())
        n = 0
        for key in dump_file.read(path):
            n += 1
            if not key.name.startswith(beginnings):
                raise FleetError(f"{path} holds another fleet: {key.name!r}. Give its --prefix")
        return n

    def _secret_last(self, path: Path) -> Iterator[Key]:
        """The keys of a file. Without the secret no worker takes what is there for a fleet."""
        secret: list[Key] = []
        for key in dump_file.read(path):
            if key.name == self._secret_name:
                secret.append(key)
            else:
                yield key
        yield from secret

    def forget(self, site: str) -> int:
        """Forget the pages of a site, and what they were at their last visit; how many pages.

        site: a URL or a host, also in letters beyond ASCII. Its URLs stay seen.
        """
        try:
            url = safe_url_string(site if "://" in site else f"http://{site}/")
        except ValueError as error:
            raise FleetError(f"{site!r} is no host and no URL of a site: {error}") from error
        number = f"{site_number(site_of(url)):016x}"
        try:
            pages = list(self._names(f":p:{number}[:}}]*"))
            shards = [name for name in pages if name.endswith(b"}")]
            n = sum(int(self._client.hlen(shard)) for shard in shards)
            items = [name for shard in shards for name in self._names_of_items(shard)]
            visits = list(self._names(f":u:*:v:{number}:*"))
            n = max(n, sum(not name.endswith(b":h") for name in visits))  # one a URL
            for name in [*items, *pages, *visits]:
                self._client.unlink(name)
        except failures() as error:
            raise FleetError(f"the server fails or refuses: {error}") from error
        return n

    def _names_of_items(self, shard: bytes) -> Iterator[str]:
        """Of each page of a shard, where it is what was kept of its items."""
        for _, record in self._client.hscan_iter(shard, count=AT_ONCE):
            with suppress(struct.error, ValueError):  # of a damaged one nothing is known
                yield items_key(self._prefix, page_name(unpack_shared(record).kept.page))

    def runs(self) -> list[Run]:
        """The runs of all spiders under NEARDUP_RECRAWL in the last 30 days, oldest first."""
        try:
            return change_log.runs(self._client, self._prefix, self._names("}:run:*:*"))
        except failures() as error:
            raise FleetError(f"the server fails or refuses: {error}") from error

    def changes(self, runs: Iterable[Run]) -> Iterator[Change]:
        """What happened to pages in runs, run by run."""
        try:
            yield from change_log.changes(self._client, self._prefix, runs)
        except failures() as error:
            raise FleetError(f"the server fails or refuses: {error}") from error

    def rotate_key(self) -> int:
        """Forget the secret and all that is hashed with it; how many keys of the server.

        The next worker to join draws another. Requests that wait stay. Raises FleetError while a
        worker lives: it would write its secret again.
        """
        try:
            n_workers = self._n_workers()
            if n_workers:
                raise FleetError(f"{n_workers} workers live: stop them, and wait four seconds")
            # The secret comes last: stopped in between, the fleet is as it was, with less in it.
            keyed = [name for name in self._all_names() if not self._is_queue(name)]
            for name in sorted(keyed, key=lambda name: name == self._secret_name):
                self._client.unlink(name)
        except failures() as error:
            raise FleetError(f"the server fails or refuses: {error}") from error
        return len(keyed)

    @property
    def _secret_name(self) -> bytes:
        return f"{{{self._prefix}}}:fleet".encode()

    def _is_queue(self, name: bytes) -> bool:
        return name.startswith(self._frontier.encode())


def _count(key: bytes | str, stored: bytes | int) -> int:
    """A number that workers count at a key. Raises FleetError where it is none."""
    try:
        return int(stored)
    except ValueError as error:
        raise _foreign(key, stored) from error


def _foreign(key: bytes | str, stored: object) -> FleetError:
    return FleetError(
        f"{key!r} on the server holds {stored!r:.100}, which no worker wrote: it is damaged, or "
        f"another program writes there. Crawl again under another NEARDUP_BACKEND_PREFIX"
    )


def _time(cluster: Any) -> tuple[int, int]:
    seconds, micros = cluster.time(target_nodes=cluster.get_default_node())
    return int(seconds), int(micros)


def troubles(status: FleetStatus) -> list[str]:
    """What could lose the fleet's data, or stop it, in sentences."""
    found = [] if status.is_there else [NO_FLEET]
    if status.fullest_shard == MAX_SLICES:
        found.append("a shard of the URL filter is full: its URLs are fetched again")
    found += [
        f"{queue.waiting:,} requests of {queue.spider!r} wait and no worker lives"
        for queue in status.queues
        if queue.waiting and not queue.busy + queue.idle
    ]
    found += [
        f"{queue.lost:,} requests of {queue.spider!r} that wait are lost: crawl again under "
        f"another NEARDUP_BACKEND_PREFIX"
        for queue in status.queues
        if queue.lost
    ]
    found += [
        f"{queue.stranded:,} hosts of {queue.spider!r} have requests that wait, and no worker "
        f"comes by: the server has lost keys of the queue. Workers find them once all are idle"
        for queue in status.queues
        if queue.stranded
    ]
    for info in status.servers:
        of_node = f"{info['node']}: " if "node" in info else ""
        found += [of_node + what for what in _of_server(info)]
    return found


def _of_server(info: dict[str, Any]) -> Iterator[str]:
    """The same of one server."""
    if info.get("maxmemory") and info.get("maxmemory_policy") != "noeviction":
        yield f"maxmemory-policy is {info['maxmemory_policy']}: set noeviction"
    if info.get("maxmemory") and info["used_memory"] > 0.9 * info["maxmemory"]:
        yield "more than 90 % of maxmemory is used"
    for what in ("aof_last_write_status", "rdb_last_bgsave_status"):
        if info.get(what, "ok") != "ok":
            yield f"{what} is {info[what]}: what is told now is lost in a restart"
    if not info.get("aof_enabled"):
        yield "appendonly is no: a restart loses what came since the last snapshot"
    if info.get("role") == "slave":
        yield "it is a replica: name the master"

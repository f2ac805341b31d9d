"""What an operator does with a fleet's data: look at it, save it, load it, forget a site or all."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote

from scrapy_neardup.detect.page_table import page_name, site_number
from scrapy_neardup.detect.sites import site_of
from scrapy_neardup.errors import FleetError
from scrapy_neardup.fleet import change_log
from scrapy_neardup.fleet.client import connect, failures
from scrapy_neardup.fleet.protocol import MAX_SLICES, frontier_key, items_key, unpack_shared
from scrapy_neardup.state.visit_file import Change, Run

MAGIC = b"neardup fleet 1\n"
AT_ONCE = 500  # keys in a round trip
FOR_EVER = -1  # what PTTL says of a key that does not expire
# What follows the prefix in the names of a fleet's keys. Another prefix may begin with this one.
NAMES = re.compile(rb":[pti]:[0-9a-f]{16}\}|:u:\d+\}|\}:")
FILTERS = re.compile(rb":u:\d+\}(:t\d+)?$")  # not their slices
LENGTHS = struct.Struct("<IIQ")  # of a key's name and its dump; milliseconds that it has to live


class Queue(NamedTuple):
    """The shared frontier of one spider."""

    spider: str
    waiting: int
    leased: int
    failed: int  # for the next run
    busy: int  # workers
    idle: int
    dead: int  # whose leases have expired; their requests are given out again bit by bit


class Status(NamedTuple):
    """A fleet on its server."""

    is_there: bool
    workers: int  # that live
    fullest_shard: int  # slices, of MAX_SLICES
    queues: list[Queue]
    servers: list[dict[str, Any]]  # what INFO says of each node


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

    def status(self) -> Status:
        """How the fleet stands."""
        try:
            return self._status()
        except failures() as error:
            raise FleetError(f"the server fails or refuses: {error}") from error

    def _status(self) -> Status:
        client, prefix = self._client, self._prefix
        filters = filter(FILTERS.search, self._names(":u:*"))
        slices = [int(client.hget(name, "slices") or 0) for name in filters]
        return Status(
            bool(client.exists(f"{{{prefix}}}:fleet")),
            self._n_workers(),
            max(slices, default=0),
            [self._queue(name) for name in sorted(client.smembers(self._frontier + ":spiders"))],
            self._servers(),
        )

    def _n_workers(self) -> int:
        """Workers that live."""
        return sum(1 for _ in self._names("}:w:*"))

    @property
    def _frontier(self) -> str:
        return frontier_key(self._prefix)

    def _queue(self, spider: bytes) -> Queue:
        client, base = self._client, f"{self._frontier}:s:{spider.decode()}"
        seconds, micros = client.time() if not hasattr(client, "get_nodes") else _time(client)
        now = 1000 * seconds + micros // 1000
        workers = client.hgetall(base + ":workers")
        ends = {one: client.zscore(self._frontier + ":workers", one) or 0 for one in workers}
        alive = [state for one, state in workers.items() if ends[one] > now]
        leases = [base.encode() + b":leases:" + one for one in workers]
        return Queue(
            unquote(spider.decode()),
            int(client.get(base + ":n") or 0),
            sum(client.scard(key) for key in leases),
            client.scard(base + ":failed"),
            alive.count(b"b"),
            alive.count(b"i"),
            len(workers) - len(alive),
        )

    def _servers(self) -> list[dict[str, Any]]:
        if hasattr(self._client, "get_nodes"):
            nodes = [node for node in self._client.get_nodes() if node.server_type == "primary"]
            return [self._client.get_redis_connection(node).info("everything") for node in nodes]
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

    def save(self, file: BinaryIO) -> int:
        """Write every key of the fleet to a file; how many. Best while no worker runs."""
        file.write(MAGIC)
        n = 0
        try:
            for name in self._all_names():
                dump, rest_ms = self._client.dump(name), self._client.pttl(name)
                if dump is not None and (rest_ms > 0 or rest_ms == FOR_EVER):  # or it has expired
                    file.write(LENGTHS.pack(len(name), len(dump), max(rest_ms, 0)) + name + dump)
                    n += 1
        except failures() as error:
            raise FleetError(f"the server fails or refuses: {error}") from error
        return n

    def load(self, path: Path) -> int:
        """Write the keys of a file to a server that has none of the fleet; how many."""
        if next(self._all_names(), None) is not None:
            raise FleetError(
                f"the server has data of the fleet {self._prefix!r} already. Import them where "
                f"there is none, or under another --prefix as they were exported"
            )
        n = 0
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise FleetError(f"{path} was not written by `fleet export`")
            for name, dump, rest_ms in _records(file, path):
                if not name.startswith(
                    (f"{{{self._prefix}:".encode(), f"{{{self._prefix}}}".encode())
                ):
                    raise FleetError(f"{path} holds another fleet: {name!r}. Give its --prefix")
                try:
                    self._client.restore(name, rest_ms, dump)
                except failures() as error:
                    raise FleetError(f"the server refuses {name!r}: {error}") from error
                n += 1
        return n

    def forget(self, site: str) -> int:
        """Forget the pages of a site, and what they were at their last visit; how many pages.

        Its URLs stay seen.
        """
        number = f"{site_number(site_of(site if '://' in site else f'http://{site}/')):016x}"
        pages = f":p:{number}}}"
        try:
            n = int(self._client.hlen(f"{{{self._prefix}{pages}"))
            items = list(self._names_of_items(f"{{{self._prefix}{pages}"))
            visits = self._names(f":u:*:v:{number}:*")
            for name in [*items, *self._names(pages + "*"), *visits]:
                self._client.unlink(name)
        except failures() as error:
            raise FleetError(f"the server fails or refuses: {error}") from error
        return n

    def _names_of_items(self, pages: str) -> Iterator[str]:
        """Of each page of a site, where it is what was kept of its items."""
        for _, record in self._client.hscan_iter(pages, count=AT_ONCE):
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
            secret = f"{{{self._prefix}}}:fleet".encode()
            keyed = [name for name in self._all_names() if not self._is_queue(name)]
            for name in sorted(keyed, key=lambda name: name == secret):
                self._client.unlink(name)
        except failures() as error:
            raise FleetError(f"the server fails or refuses: {error}") from error
        return len(keyed)

    def _is_queue(self, name: bytes) -> bool:
        return name.startswith(self._frontier.encode())


def _time(cluster: Any) -> tuple[int, int]:
    seconds, micros = cluster.time(target_nodes=cluster.get_default_node())
    return int(seconds), int(micros)


def _records(file: BinaryIO, path: Path) -> Iterator[tuple[bytes, bytes, int]]:
    while head := file.read(LENGTHS.size):
        if len(head) == LENGTHS.size:
            n_name, n_dump, rest_ms = LENGTHS.unpack(head)
            name, dump = file.read(n_name), file.read(n_dump)
            if len(name) == n_name and len(dump) == n_dump:
                yield name, dump, rest_ms
                continue
        raise FleetError(f"{path} ends in the middle of a key: it was not exported whole")


def troubles(status: Status) -> list[str]:
    """What could lose the fleet's data, or stop it, in sentences."""
    found = [] if status.is_there else ["there is no fleet under this prefix"]
    if status.fullest_shard == MAX_SLICES:
        found.append("a shard of the URL filter is full: its URLs are fetched again")
    found += [
        f"{queue.waiting:,} requests of {queue.spider!r} wait and no worker lives"
        for queue in status.queues
        if queue.waiting and not queue.busy + queue.idle
    ]
    for info in status.servers:
        if info.get("maxmemory") and info.get("maxmemory_policy") != "noeviction":
            found.append(f"maxmemory-policy is {info['maxmemory_policy']}: set noeviction")
        if info.get("maxmemory") and info["used_memory"] > 0.9 * info["maxmemory"]:
            found.append("more than 90 % of maxmemory is used")
        for what in ("aof_last_write_status", "rdb_last_bgsave_status"):
            if info.get(what, "ok") != "ok":
                found.append(f"{what} is {info[what]}: what is told now is lost in a restart")
        if not info.get("aof_enabled"):
            found.append("appendonly is no: a restart loses what came since the last snapshot")
        if info.get("role") == "slave":
            found.append("it is a replica: name the master")
    return found

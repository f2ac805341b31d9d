"""The frontier that a fleet shares: its calls, and what a request is on the server."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from hashlib import blake2b
from itertools import compress
from typing import Any, NamedTuple
from urllib.parse import quote

from scrapy_neardup.fleet import frontier_scripts as scripts
from scrapy_neardup.fleet.link import Link
from scrapy_neardup.fleet.permissions import whole
from scrapy_neardup.fleet.protocol import LEASE_S, Call, LastAnswered, frontier_key
from scrapy_neardup.sqlite_files import is_count
from scrapy_neardup.state.mac import MAC_BYTES, REQUEST, is_mac, mac_of

KEY_BYTES = 12
LEAVE_AT_ONCE = 500  # leases that one call ends
MAX_HOST = 2**16 - 1
END = b"0"  # where relist() begins, and where it is done


class QueuedRequest(NamedTuple):
    """A request as the server keeps it.

    id      ascending in the order in which requests of one score are to be taken
    record  host, key, score, payload, MAC
    """

    id: bytes
    record: bytes

    @property
    def host(self) -> str:
        """The downloader slot that it is for."""
        (n,) = struct.unpack_from(">H", self.record)
        return self.record[2 : 2 + n].decode("utf-8", "surrogatepass")

    @property
    def payload(self) -> bytes:
        """What only workers read."""
        (n_host,) = struct.unpack_from(">H", self.record)
        n_key = self.record[2 + n_host]
        return self.record[2 + n_host + 1 + n_key + 8 : -MAC_BYTES]


class Given(NamedTuple):
    """What the server gave a worker, and how the run stands."""

    requests: list[QueuedRequest]
    n_waiting: int  # by the server's count: below nothing if it has lost that
    n_busy: int  # workers of the spider that are not idle
    is_started: bool  # all start requests are queued
    n_lost: int  # of which the server has lost all but the id
    n_returned: int  # given to workers whose lease has expired since; they wait again
    foreign: list[bytes]  # ids of what is damaged, or what no worker queued
    hosts: list[str]  # of those that were wanted: they are the worker's

    @property
    def is_over(self) -> bool:
        """Nothing waits, nobody is busy."""
        return self.is_started and not self.n_waiting and not self.n_busy


class Relisted(NamedTuple):
    """What of a queue that stands still is in its place."""

    cursor: bytes  # where to go on, or END
    n_there: int  # requests in the queues of their hosts, of those that were looked through
    n_due: int  # requests that are to be there, in all; 0 while a worker is busy


class Left(NamedTuple):
    """What a spider's queue holds, and how many of its workers live."""

    n_waiting: int
    n_leased: int
    n_failed: int  # for the next run
    n_alive: int


class Begun(NamedTuple):
    """How a worker begins a run, or takes part in one."""

    how: int  # see START
    goes_on: bool  # the run was there before
    arguments: bytes  # of whoever began it, or of the last run; empty: of none


class SharedFrontier:
    """One worker's view of the frontier that the workers of its spider share.

    ask    a question: a future that raises Unanswered
    tell   a message, which is sent until the server has it

    Requests have a MAC, for a request may name any file and any method of the spider.

    run            id of the run of which this worker was given requests; b"" until it was
    has_gone_back  whether the server has forgotten a call that it had answered: it was restored
                   from an older file, or failed over to a replica that lagged behind. It takes
                   nothing for done any more that this worker tells it
    """

    def __init__(
        self, link: Link, prefix: str, worker: bytes, secret: int, spider: str, own_key: int = 0
    ) -> None:
        """own_key: NEARDUP_KEY; 0 where the server has the secret, and could make any MAC."""
        self.ask, self.tell, self.release = link.ask, link.tell, link.release
        self._link = link
        self._key = frontier_key(prefix)
        self._who = quote(spider, safe=""), worker
        self._worker = worker
        self._secret = secret.to_bytes(8, "little")
        self._own_key = own_key
        self._last = 0  # time of the last id
        self._n_takes = 0
        self._n_calls = self._n_answered = 0  # that the server counts
        self.has_gone_back = False
        self.run = b""

    @property
    def last_answered(self) -> LastAnswered:
        """What the server has to know where it is told that a page is done."""
        return LastAnswered(self._key + ":heard", self._worker, self._n_answered)

    @property
    def n_failures(self) -> int:
        """How often the server failed."""
        return self._link.n_failures

    @property
    def is_left(self) -> bool:
        """Whether the server holds another fleet, so that nothing more is asked or told."""
        return self._link.has_left

    def queued(
        self, payload: bytes, host: str, key: bytes | None, priority: int, order: str
    ) -> QueuedRequest:
        """A request for the server. Raises ValueError.

        key    one request of a key is queued at a time; None: any number
        order  among those of one priority: "newest" or "oldest" first, or "start": oldest first,
               behind all others; of a key, such a one is queued once a run
        """
        self._last = max(self._last + 1, time.time_ns())
        number = 2**63 - self._last if order == "newest" else self._last
        id = struct.pack(">cQ", b"s" if order == "start" else b"r", number) + self._worker
        digest = (
            b"" if key is None else blake2b(key, digest_size=KEY_BYTES, key=self._secret).digest()
        )
        name = host.encode("utf-8", "surrogatepass")
        if len(name) > MAX_HOST:
            raise ValueError(f"a downloader slot of {len(name):,} bytes; at most {MAX_HOST:,}")
        try:
            score = struct.pack(">d", float(-priority))
        except OverflowError as error:
            raise ValueError(f"priority {priority}: {error}") from error
        head = struct.pack(">H", len(name)) + name + struct.pack(">B", len(digest)) + digest
        signed = head + score + payload
        return QueuedRequest(id, signed + mac_of(self._own_key, REQUEST, id, signed))

    def eviction(self) -> Future[str]:
        """By which policy the server may evict keys; "" if it evicts none, "?": unknown.

        One that does not begin with "volatile" evicts requests.
        """
        call = Call(scripts.EVICTION, self._key, (), lambda answer: answer.decode("ascii"))
        return self.ask(call)

    def relist(self, cursor: bytes) -> Future[Relisted]:
        """Have hosts found again that no worker comes by, for while none is busy.

        cursor: END at first, then what the last answer says.
        """
        call = self._call(scripts.RELIST, int(1000 * LEASE_S), cursor)
        return self.ask(call._replace(read=_relisted))

    def left(self) -> Future[Left]:
        """What the queue holds."""
        call = self._call(scripts.LEFT)._replace(script=scripts.LEFT)  # as it is: it writes nothing
        return self.ask(call._replace(read=lambda answer: Left(*answer)))

    def note(self, folder: str, number: int) -> Future[int]:
        """Let the server note the next number of a state folder; which one it has now."""
        return self.ask(self._call(scripts.NOTE, folder, number))

    def push(self, requests: Sequence[QueuedRequest]) -> Future[list[int]]:
        """Queue requests; of each, 1 if it was queued, 0 if one of its id or key is known."""
        parts = (part for one in requests for part in one)
        call = self._counted(scripts.PUSH, *parts)
        return self.ask(call._replace(read=lambda answer: _each(len(requests), call.read(answer))))

    def take(
        self,
        most: int,
        per_host: int,
        rooms: Mapping[str, int],
        released: Iterable[str],
        *,
        is_idle: bool,
        rest_s: float,
        wanted: Sequence[str] = (),
    ) -> Future[Given]:
        """Be given the next requests; taken() is to be called when they have come.

        most      requests, at most per_host of one host
        rooms     host of which requests are in hand → how many more of it
        released  hosts that others may have: nothing of them is in hand any more
        rest_s    seconds after which they may
        wanted    hosts of requests that are not on the server
        """
        arguments = [self._n_takes, "i" if is_idle else "b", int(1000 * LEASE_S), most, per_host]
        in_hand = [part for one in rooms.items() for part in one]
        arguments += [int(1000 * rest_s), len(rooms), len(wanted)]
        call = self._counted(scripts.TAKE, *arguments, *in_hand, *wanted, *released)
        return self.ask(call._replace(read=lambda answer: self._given(call.read(answer), wanted)))

    def _given(self, answer: list[Any], wanted: Sequence[str]) -> Given:
        n_waiting, n_busy, is_started, n_lost, n_returned, run, are_given, *parts = answer
        if not all(map(is_count, (abs(n_waiting), n_busy, n_lost, n_returned))):
            raise ValueError("numbers of requests that are none")
        rows = [QueuedRequest(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
        own = [row for row in rows if self._is_own(row)]
        foreign = [row.id for row in rows if not self._is_own(row)]
        self.run = bytes(run) or self.run  # on the link's thread
        hosts = list(compress(wanted, _each(len(wanted), are_given)))
        return Given(own, n_waiting, n_busy, bool(is_started), n_lost, n_returned, foreign, hosts)

    def _is_own(self, row: QueuedRequest) -> bool:
        """Whether a worker queued it so."""
        if not (isinstance(row.id, bytes) and isinstance(row.record, bytes)):
            raise TypeError("a request that is no bytes")
        signed, code = row.record[:-MAC_BYTES], row.record[-MAC_BYTES:]
        return is_mac(code, self._own_key, REQUEST, row.id, signed)

    def taken(self) -> None:
        """The answer to take() has come: the next one is to bring others."""
        self._n_takes += 1

    def done(self, id: bytes) -> None:
        """All that a request led to is safe."""
        self.tell(self._call(scripts.DONE, id, self._n_answered)._replace(merges=True))

    def start(self, visits_run: int = 0, arguments: bytes = b"") -> Future[Begun]:
        """Begin a run, or take part in one.

        visits_run  under NEARDUP_RECRAWL
        arguments   of the spider, for the workers that come later
        """
        call = self._call(scripts.START, int(1000 * LEASE_S), visits_run, arguments)
        return self.ask(call._replace(read=lambda answer: Begun(*answer)))

    def started(self) -> Future[list[int]]:
        """All start requests of this worker are queued."""
        return self.ask(self._counted(scripts.STARTED))

    def give_back(self, ids: Sequence[bytes]) -> None:
        """Requests were given to this worker, which did not begin with them."""
        if ids:
            self.tell(self._call(scripts.RETURN, *ids))

    def set_aside(self, ids: Sequence[bytes]) -> None:
        """Requests were given to this worker, which cannot make them: they are for the next run."""
        if ids:
            self.tell(self._call(scripts.SET_ASIDE, *ids))

    def leave(self, n_leases: int, is_over: bool, is_lost: bool = False) -> None:
        """The worker stops.

        What it has not completed waits again; if the run is over, for the next run.

        is_lost  whether the server lost requests: start requests are to be made again
        """
        how = -1 if is_lost else int(is_over)
        self._link.try_held()  # the server takes no URL of a worker that has left
        for _ in range(n_leases // LEAVE_AT_ONCE + 1):
            self.tell(self._call(scripts.LEAVE, how, LEAVE_AT_ONCE))

    def _counted(self, script: str, *arguments: Any) -> Call:
        """A call that the server remembers by its number; read without the first of its answer."""
        self._n_calls += 1
        number, n_answered = self._n_calls, self._n_answered

        def read(answer: list[Any]) -> list[Any]:  # on the link's thread
            last, *rest = answer
            self.has_gone_back = self.has_gone_back or last < n_answered
            # A push that queues nothing does not count. What it sent may be known by an earlier
            # call whose answer was lost, up to the last one that the server remembers.
            counts = script != scripts.PUSH or any(rest)
            self._n_answered = max(self._n_answered, number if counts else last)
            return rest

        return self._call(script, number, n_answered, *arguments)._replace(read=read)

    def _call(self, script: str, *arguments: Any) -> Call:
        return Call(whole(script), self._key, (*self._who, *arguments), lambda answer: answer)


def _relisted(answer: Any) -> Relisted:
    cursor, n_there, n_due = answer
    if not (isinstance(cursor, bytes) and is_count(n_there) and is_count(n_due)):
        raise ValueError("numbers of requests that are none")
    return Relisted(cursor, n_there, n_due)


def _each(n: int, answers: list[Any]) -> list[int]:
    """The answers to so many questions. Raises ValueError where there are more or fewer."""
    if len(answers) != n:
        raise ValueError(f"{len(answers)} answers to {n} questions")
    return answers

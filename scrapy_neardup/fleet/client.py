"""The server, through redis-py: one round trip for many calls. Blocks; used in a thread."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha1
from itertools import chain
from operator import itemgetter
from typing import Any
from urllib.parse import unquote, urlsplit

from scrapy_neardup.errors import FleetError
from scrapy_neardup.fleet.protocol import Call

CONNECT_S, ANSWER_S = 1.0, 2.0
SENTINEL_PORT = 26379
# Passing errors that redis-py has no class for: disk full, replicas missing, a script running.
PASSING_REFUSALS = ("MISCONF", "NOREPLICAS", "BUSY", "UNBLOCKED")


def connect(url: str) -> Any:
    """A client of redis-py for a URL: TLS, cluster and Sentinel included. A cluster is contacted at
    once.

    Raises FleetError if redis-py is missing, or does not take what follows ? in the URL.
    """
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise FleetError(
            "NEARDUP_BACKEND needs redis-py: pip install 'scrapy-neardup[redis]'"
        ) from error
    options: dict[str, Any] = {
        "socket_connect_timeout": CONNECT_S,
        "socket_timeout": ANSWER_S,
        "retry": Retry(NoBackoff(), 0),  # Link backs off
    }
    try:
        client = _client(redis, url, options)
        pool = getattr(client, "connection_pool", None)  # a cluster has connected already
        if pool is not None:
            pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError) as error:
        raise FleetError(
            f"NEARDUP_BACKEND: redis-py does not take what follows ? in the URL ({error}). "
            f"Name arguments of its connections there, such as socket_timeout=5"
        ) from error
    return client


def _client(redis: Any, url: str, options: dict[str, Any]) -> Any:
    scheme, _, rest = url.partition("://")
    scheme = scheme.replace("valkey", "redis")  # the name that redis-py knows
    if scheme.endswith("+cluster"):
        plain = f"{scheme.removesuffix('+cluster')}://{rest}"
        options["require_full_coverage"] = False  # nodes that are there can be asked
        # Connecting asks some node, which may be down.
        options["retry"] = redis.retry.Retry(redis.backoff.NoBackoff(), 3)
        return redis.cluster.RedisCluster.from_url(plain, **options)
    if scheme.endswith("+sentinel"):
        return _master(scheme.removesuffix("+sentinel"), rest, options)
    return redis.Redis.from_url(f"{scheme}://{rest}", **options)


def _master(scheme: str, rest: str, options: dict[str, Any]) -> Any:
    """A client of the master that sentinels name: they are asked whenever it connects.

    User and password are the master's; those of the sentinels are in the query.
    """
    from redis.connection import parse_url
    from redis.sentinel import Sentinel

    address, _, path = rest.partition("/")
    user, at, hosts = address.rpartition("@")
    name, _, database = path.partition("?")[0].partition("/")
    query = path.partition("?")[2]
    of_master: dict[str, Any] = parse_url(  # type: ignore[no-untyped-call]
        f"{scheme}://{user}{at}master/{database}?{query}"
    )
    del of_master["host"]
    tls = {"ssl": True} if of_master.pop("connection_class", None) else {}
    tls |= {key: of_master.pop(key) for key in list(of_master) if key.startswith("ssl_")}
    own = [key for key in of_master if key.startswith("sentinel_")]
    of_sentinels = {key.removeprefix("sentinel_"): of_master.pop(key) for key in own}
    sentinels = [urlsplit(f"//{host}") for host in hosts.split(",")]
    found: Any = Sentinel(  # type: ignore[no-untyped-call]
        [(sentinel.hostname, sentinel.port or SENTINEL_PORT) for sentinel in sentinels],
        sentinel_kwargs=options | tls | of_sentinels,
        **options,
        **tls,
        **of_master,
    )
    return found.master_for(unquote(name))


def failures() -> tuple[type[Exception], ...]:
    """What a client raises if the server fails or refuses.

    redis-py raises RedisClusterException, which is no RedisError, if no node of a cluster answers
    or a slot has no node.
    """
    from redis.exceptions import RedisClusterException, RedisError

    return (RedisError, RedisClusterException, OSError, NodeDown, WrongAnswer)


def is_passing(error: Exception) -> bool:
    """Whether the same call may succeed later: the server is gone, slow, full, loading, moving.

    False for a wrong type, a missing permission or an error in a script.
    """
    from redis import exceptions as raised

    passing = (
        raised.AskError,
        raised.ClusterDownError,
        raised.NoScriptError,
        raised.OutOfMemoryError,
        raised.ReadOnlyError,
        raised.TryAgainError,
    )
    if isinstance(error, raised.ResponseError) and not isinstance(error, passing):
        return str(error).startswith(PASSING_REFUSALS)
    return isinstance(error, failures())


def correction(error: Exception) -> str:
    """What is to be corrected where a server is there and cannot be used; "" if none answers."""
    from redis import exceptions as raised

    if isinstance(error, (raised.AuthenticationError, raised.AuthorizationError)):
        return "Correct user and password in its URL, or give them: redis://USER:PASSWORD@HOST"
    if isinstance(error.__context__, ssl.SSLError):
        return "Correct the host in its URL, or name what signs the certificate: ?ssl_ca_certs=FILE"
    if is_passing(error) and not isinstance(error, WrongAnswer):
        return ""
    return "Correct host and database in its URL, or what its user may do there"


class NodeDown(FleetError):
    """One node of a cluster failed: what other nodes hold is not affected."""


class ServerFull(NodeDown):
    """A node, or the only one, takes no more, and gives and removes what it has all the same."""


class WrongAnswer(FleetError):
    """The server answered what no script of ours does: it may be anything."""


class Server:
    """A Valkey or Redis server, or a cluster of them; for one thread at a time.

    A node of a cluster that failed is left alone until try_again(): what it is asked is answered
    with NodeDown at once.

    is_cluster     whether calls may go to different nodes
    n_round_trips  how many were made so far
    """

    def __init__(self, url: str) -> None:
        """Connects when first used. Raises FleetError where redis-py is missing."""
        self.n_round_trips = 0
        self.is_cluster = url.partition("://")[0].endswith("+cluster")
        self._is_stale = False  # whether to ask for the cluster's slots again
        self._down: set[str] = set()  # nodes that failed
        self._url = url
        self._client = None if self.is_cluster else connect(url)

    def try_again(self) -> None:
        """Talk to nodes that failed once more, or to those that took their place."""
        self._is_stale = self._is_stale or bool(self._down)
        self._down.clear()

    def call(self, call: Call) -> Any:
        """The server's answer to one call, read. Raises what the client raises, see failures()."""
        (answer,) = self.send([call])
        if isinstance(answer, Exception):
            raise answer
        return read(call, answer)

    def send(self, calls: Sequence[Call]) -> list[Any]:
        """The server's answer to each call; an exception if it failed or refused.

        One round trip; in a cluster, one for each node. Calls to one node are executed in order;
        those that merge, where the last of them stands.
        """
        try:
            client = self._connected()
            carried_out = self._spread if self.is_cluster else self._carried_out
            answers = carried_out(client, calls)
        except failures() as error:
            answers = [_explained(error)] * len(calls)
        except Exception as error:  # what redis-py raises of answers that it does not expect
            answers = [WrongAnswer(f"{type(error).__name__}: {error}")] * len(calls)
        failed = [answer for answer in answers if isinstance(answer, Exception)]
        self._is_stale = any(not isinstance(error, NodeDown) for error in failed)
        return answers

    def _spread(self, cluster: Any, calls: Sequence[Call]) -> list[Any]:
        """The answers of a cluster's nodes, NodeDown of one that fails."""
        answers: list[Any] = [NodeDown("no node of the cluster has this slot")] * len(calls)
        for node, places in _by_node(cluster, calls).items():
            some = self._answers_of(cluster, node, [calls[place] for place in places])
            for place, answer in zip(places, some, strict=True):
                answers[place] = answer
        return answers

    def _answers_of(self, cluster: Any, name: str, calls: Sequence[Call]) -> list[Any]:
        if name in self._down:
            return [NodeDown(f"{name} failed a moment ago")] * len(calls)
        try:
            node = cluster.get_node(node_name=name)
            return self._carried_out(cluster.get_redis_connection(node), calls)
        except failures() as error:
            self._down.add(name)
            return [NodeDown(f"{name}: {_explained(error)}")] * len(calls)

    def close(self) -> None:
        """Close every connection."""
        if self._client is None:
            return
        if self.is_cluster:  # its close() leaves connections open if it was made from a URL
            self._client.disconnect_connection_pools()
        self._client.close()

    def _connected(self) -> Any:
        if self._client is None:
            self._client = connect(self._url)
        elif self.is_cluster and self._is_stale:
            self._client.nodes_manager.initialize()
        return self._client

    def _carried_out(self, client: Any, calls: Sequence[Call]) -> list[Any]:
        from redis.exceptions import AskError, NoScriptError, OutOfMemoryError, TryAgainError

        answers: list[Any] = [None] * len(calls)
        groups = list(_merged(calls))
        got = self._piped(client, groups, by_name=True)
        if any(isinstance(answer, NoScriptError) for answer in got):
            # First use of a script, or the server restarted. Send all again, to keep their order.
            # What was carried out before is answered as it was then: whether the server knew of
            # an earlier call, or queued a request, is told by the first answer only.
            again = self._piped(client, groups, by_name=False)
            got = [
                new if isinstance(first, Exception) else first
                for first, new in zip(got, again, strict=True)
            ]
        for (call, places), answer in zip(groups, got, strict=True):
            if isinstance(answer, OutOfMemoryError):
                answer = ServerFull(str(answer))
            elif isinstance(answer, AskError):
                answer = TryAgainError(_where_it_moves(answer))
            shared = _shared(answer, len(places)) if call.merges else [answer] * len(places)
            for place, each in zip(places, shared, strict=True):
                answers[place] = each
        return answers

    def _piped(self, client: Any, groups: list[tuple[Call, list[int]]], by_name: bool) -> Any:
        self.n_round_trips += 1
        with client.pipeline(transaction=False) as pipe:
            for call, _ in groups:
                if by_name:
                    pipe.evalsha(_name(call.script), 1, call.key, *call.arguments)
                else:
                    pipe.eval(call.script, 1, call.key, *call.arguments)
            return pipe.execute(raise_on_error=False)


def _explained(error: Exception) -> Exception:
    """An error of redis-py; of an answer that came too late, with how to wait longer for it.

    Without the representation of its clients, which stands there if no sentinel has a master.
    """
    from redis.exceptions import TimeoutError

    if isinstance(error, TimeoutError) and "connecting" not in str(error):
        return TimeoutError(f"{error}; ?socket_timeout=SECONDS in its URL makes us wait longer")
    what, mark, _ = str(error).partition(" : <redis")
    return type(error)(what) if mark else error


def _where_it_moves(error: Any) -> str:
    """What a node says of a slot that it has lost or is losing; redis-py keeps only the numbers."""
    from redis.exceptions import MovedError

    to = f"{error.host}:{error.port}"
    if isinstance(error, MovedError):
        return f"MOVED: slot {error.slot_id} of the cluster is at {to} now"
    return f"ASK: slot {error.slot_id} of the cluster is moving to {to}"


def read(call: Call, answer: Any) -> Any:
    """What an answer says. Raises the FleetErrors of the call's own reader, and WrongAnswer."""
    try:
        return call.read(answer)
    except FleetError:
        raise
    except Exception as error:
        raise WrongAnswer(f"an answer that cannot be read: {error!r}") from error


def _shared(answer: Any, n_calls: int) -> list[Any]:
    """The answers to calls that were merged into one."""
    if isinstance(answer, list) and len(answer) == n_calls:
        return answer
    if not isinstance(answer, Exception):
        answer = WrongAnswer(f"{n_calls} calls were answered by {str(answer)[:100]!r}")
    return [answer] * n_calls


@lru_cache(maxsize=64)
def _name(script: str) -> str:
    """What the server calls a script that it knows."""
    return sha1(script.encode(), usedforsecurity=False).hexdigest()


def _by_node(cluster: Any, calls: Sequence[Call]) -> dict[str, list[int]]:
    """Names of nodes, and the places of the calls that are theirs.

    redis-py's own pipelines for clusters take no scripts by name.
    """
    from redis.exceptions import SlotNotCoveredError

    nodes: dict[str, list[int]] = {}
    for place, call in enumerate(calls):
        with suppress(SlotNotCoveredError):
            node = cluster.get_node_from_key(call.key)
            nodes.setdefault(node.name, []).append(place)
    return nodes


def _merged(calls: Sequence[Call]) -> Iterator[tuple[Call, list[int]]]:
    """The calls merged into as few as possible, each with the places of its originals.

    Each stands where the last of these does: a page is told to be done after what it led to.
    """
    groups: dict[Any, list[int]] = {}
    for place, call in enumerate(calls):
        group = (call.script, call.key) if call.merges else place
        groups.setdefault(group, []).append(place)
    for places in sorted(groups.values(), key=itemgetter(-1)):
        arguments = chain.from_iterable(calls[place].arguments for place in places)
        yield calls[places[0]]._replace(arguments=tuple(arguments)), places

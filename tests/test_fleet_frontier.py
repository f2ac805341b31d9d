"""The frontier on the server: who is given which request, and that none is lost."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fleets import (
    PATIENCE_S,
    HostileServer,
    RunningServer,
    hostile_server,
    running_server,
    wait_until,
)

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from test_fleet_client import FRONTIER_USER, USER
from test_fleet_hostile_server import ANSWERS

from scrapy_neardup.fleet import frontier as module
from scrapy_neardup.fleet import link as link_module
from scrapy_neardup.fleet.client import Server
from scrapy_neardup.fleet.frontier import Given, QueuedRequest, Relisted, SharedFrontier
from scrapy_neardup.fleet.link import Link, Unanswered
from scrapy_neardup.fleet.protocol import Call, IndexOptions, Questions, beat

PREFIX = "neardup"


class Workers:
    """Workers of one server, each with a link of its own."""

    def __init__(self, server: RunningServer | HostileServer) -> None:
        self.url = server.url
        self.links: list[Link] = []

    def __call__(self, spider: str = "a", name: bytes | None = None, key: int = 5) -> "Hands":
        worker = name or len(self.links).to_bytes(4, "big")
        link = self.link(worker)
        return Hands(SharedFrontier(link, PREFIX, worker, 1, spider, key), link, worker)

    def link(self, worker: bytes) -> Link:
        heartbeat = beat(PREFIX, worker, b"", lambda epoch, identity: True)
        self.links.append(Link(Server(self.url).send, heartbeat))
        return self.links[-1]


class Hands:
    """A worker that takes requests and says what it has."""

    def __init__(self, frontier: SharedFrontier, link: Link, worker: bytes) -> None:
        self.frontier, self.link, self.worker = frontier, link, worker
        self.released: list[str] = []

    def push(self, *paths: str, host: str = "h", priority: int = 0, key: bool = True) -> list[int]:
        rows = [self.row(path, host, priority, key) for path in paths]
        return self.frontier.push(rows).result(PATIENCE_S)

    def row(self, path: str, host: str, priority: int, key: bool, order: str = "oldest") -> Any:
        name = f"{host}/{path}".encode() if key else None
        return self.frontier.queued(path.encode(), host, name, priority, order)

    def ask(self, most: int = 10, per_host: int = 10, **more: Any) -> Given:
        options = {"rooms": {}, "released": self.released, "is_idle": False, "rest_s": 0.0}
        given = self.frontier.take(most, per_host, **options | more).result(PATIENCE_S)
        return given

    def take(self, most: int = 10, per_host: int = 10, **more: Any) -> list[str]:
        given = self.ask(most, per_host, **more)
        self.frontier.taken()
        self.given = given
        return payloads(given.requests)

    def start(self, visits_run: int = 0) -> int:
        return self.frontier.start(visits_run).result(PATIENCE_S).how

    def done(self, *rows: QueuedRequest) -> None:
        for row in rows:
            self.frontier.done(row.id)
        self.frontier.started().result(
            PATIENCE_S
        )  # messages go in order: those before have arrived


def payloads(rows: list[QueuedRequest]) -> list[str]:
    return [row.payload.decode() for row in rows]


def has_got(one: Hands, paths: list[str]) -> bool:
    """Whether a worker is given these; not while its link leaves the server alone."""
    with suppress(Unanswered):
        return one.take() == paths
    return False


@pytest.fixture
def workers(server: RunningServer) -> Iterator[Workers]:
    made = Workers(server)
    yield made
    for link in made.links:
        link.close(0)


def test_requests_come_by_priority_and_then_in_their_order(workers: Workers) -> None:
    one = workers()
    one.push("1", "2")
    one.push("urgent", priority=5)
    one.push("last", priority=-1)
    start = one.row("start", "h", 0, True, "start")
    newest = [one.row(path, "h", 3, True, "newest") for path in ("older", "newer")]
    one.frontier.push([start, *newest]).result(PATIENCE_S)
    assert one.take() == ["urgent", "newer", "older", "1", "2", "start", "last"]


def test_one_request_of_a_key_is_queued_at_a_time(workers: Workers) -> None:
    one, other = workers(), workers()
    assert one.push("1", "1") == [1, 0]
    assert other.push("1") == [0]
    assert other.push("1", key=False) == [1]
    assert other.take() == ["1", "1"]
    other.done(*other.given.requests)
    assert one.push("1") == [1]


def test_a_start_request_of_a_key_is_queued_once_a_run(workers: Workers) -> None:
    one, other = workers(), workers()
    assert one.start() == 1
    assert one.frontier.push([one.row("1", "h", 0, True, "start")]).result(PATIENCE_S) == [1]
    assert one.take() == ["1"]
    one.done(*one.given.requests)
    assert other.start() == 2
    rows = (("1", "h"), ("2", "another host"))
    starts = [other.row(path, host, 0, True, "start") for path, host in rows]
    assert other.frontier.push(starts).result(PATIENCE_S) == [0, 1]
    assert other.take() == ["2"]
    other.done(*other.given.requests)
    assert [one.take(is_idle=True), other.take(is_idle=True)] == [[], []]
    assert other.start() == 1
    assert other.frontier.push([other.row("1", "h", 0, True, "start")]).result(PATIENCE_S) == [1]


def test_a_request_that_is_pushed_twice_is_queued_once(workers: Workers) -> None:
    one = workers()
    row = one.row("1", "h", 0, key=False)
    assert [one.frontier.push([row]).result(PATIENCE_S) for _ in range(2)] == [[1], [0]]
    assert one.take() == ["1"]


def test_a_host_belongs_to_one_worker_at_a_time(workers: Workers) -> None:
    one, other = workers(), workers()
    one.push("1", "2", "3")
    assert one.take(1) == ["1"]
    one.push("4", host="i")
    assert other.take() == ["4"]
    assert other.take() == []
    other.push("5")
    assert other.take() == []
    one.released = ["h"]
    assert one.take(0) == []
    assert other.take() == ["2", "3", "5"]
    assert one.take() == []


def test_of_one_host_no_more_is_given_than_it_may_have(workers: Workers) -> None:
    one = workers()
    one.push("1", "2", "3", "4")
    one.push("5", host="i", priority=-1)
    assert one.take(per_host=2) == ["1", "2", "5"]
    assert one.take(per_host=2, rooms={"h": 0}) == []
    assert one.take(per_host=2, rooms={"h": 1}) == ["3"]


@pytest.mark.parametrize("endless", ["ab", "yz"])
def test_hosts_without_end_keep_no_others_waiting(workers: Workers, endless: str) -> None:
    """Whatever they are called, and though the worker has them already."""
    one, n_taken = workers(), 0
    for host in endless:
        one.push("first", host=host)
    one.take()
    one.push("last", host="m")
    while one.given.requests[0].host != "m":
        for host in endless:
            one.push(str(n_taken), host=host)
        one.take(1)
        n_taken += 1
        assert n_taken < 200


def test_a_released_host_rests_for_others(workers: Workers) -> None:
    one, other = workers(), workers()
    one.push("1", "2")
    assert one.take(1) == ["1"]
    one.released = ["h"]
    assert one.take(0, rest_s=1.0) == []
    begin = time.monotonic()
    found: list[str] = []
    wait_until(lambda: bool(found.extend(other.take()) or found))
    assert found == ["2"]
    assert time.monotonic() - begin > 0.5


def test_two_spiders_have_a_host_in_turns(workers: Workers) -> None:
    hands = [workers("a"), workers("b")]
    for one in hands:
        one.push(*map(str, range(4)))
    turns = []
    for n in range(8):
        one = hands[n % 2]
        assert one.take(1) == [str(n // 2)]
        assert hands[1 - n % 2].take() == []
        one.released = ["h"]
        assert one.take(1) == []  # the other one waits
        turns.append(n)
        one.released = []
    assert len(turns) == 8


def test_a_wanted_host_is_given_when_its_owner_has_released_it(workers: Workers) -> None:
    one, other = workers(), workers()
    one.push("1", "2")
    assert one.take(1) == ["1"]
    assert other.take(wanted=["h", "i"]) == []
    assert other.given.hosts == ["i"]
    assert one.take(rooms={"h": 9}) == []  # the other one waits
    one.released = ["h"]
    assert one.take() == []
    assert other.take(0, wanted=["h"]) == []
    assert other.given.hosts == ["h"]
    assert one.take() == []
    other.released = ["h"]
    assert other.take(0) == []
    assert one.take() == ["2"]


def test_a_wanted_host_rests_first(workers: Workers) -> None:
    one, other = workers(), workers()
    one.push("1")
    assert one.take() == ["1"]
    one.released = ["h"]
    assert one.take(rest_s=1.0) == []
    begin = time.monotonic()
    wait_until(lambda: not other.take(wanted=["h"]) and other.given.hosts == ["h"])
    assert time.monotonic() - begin > 0.5


def test_a_host_that_nobody_wants_any_more_goes_to_others(workers: Workers) -> None:
    one, other = workers(), workers()
    one.push("1", "2")
    assert one.take(1) == ["1"]
    assert other.take(0, wanted=["h"]) == []
    one.released = ["h"]
    assert one.take() == []
    one.released = []
    found: list[str] = []
    wait_until(lambda: bool(found.extend(one.take()) or found))
    assert found == ["2"]


def test_a_spider_and_a_worker_that_wait_have_a_host_in_turns(workers: Workers) -> None:
    one, other, third = workers("a"), workers("b"), workers("a")
    one.push("1")
    other.push("2", "3")
    assert one.take() == ["1"]
    assert other.take() == []
    assert third.take(0, wanted=["h"]) == []
    one.released = other.released = third.released = ["h"]
    assert one.take(0) == []
    assert third.take(0, wanted=["h"]) == []
    assert third.given.hosts == []  # the other spider has waited longer
    other.released = []
    assert other.take(1) == ["2"]
    other.released = ["h"]
    assert other.take() == []
    third.released = []
    assert third.take(0, wanted=["h"]) == []
    assert third.given.hosts == ["h"]
    assert other.take() == []
    third.released = ["h"]
    assert third.take(0) == []
    other.released = []
    assert other.take() == ["3"]


def test_what_a_dead_worker_had_is_given_to_another(workers: Workers) -> None:
    one, other = workers(), workers()
    one.push("1", "2", "3")
    assert one.take(2) == ["1", "2"]
    one.done(one.given.requests[0])
    one.link.close(0)
    assert other.take() == []
    found: list[str] = []
    wait_until(lambda: len(found.extend(other.take()) or found) == 2)
    assert found == ["2", "3"]


def test_a_worker_that_beats_keeps_what_it_has(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEASE_S", 0.5)
    one, other = workers(), workers()
    one.push("1")
    monkeypatch.undo()
    assert one.take() == ["1"]
    end = time.monotonic() + 5  # longer than a lease
    while time.monotonic() < end:
        assert other.take() == []
        assert other.given.n_busy == 2


def test_an_answer_that_got_lost_is_given_again(workers: Workers) -> None:
    one = workers()
    one.push("1", "2")
    assert payloads(one.ask(1).requests) == ["1"]
    assert payloads(one.ask(1).requests) == ["1"]
    one.frontier.taken()
    assert one.take() == ["2"]


def test_a_question_that_comes_late_takes_nothing(workers: Workers) -> None:
    one = workers()
    one.push("1", "2", "3")
    assert one.take(1) == ["1"]
    assert one.take(1) == ["2"]
    one.frontier._n_takes = 0
    assert one.take(1) == []
    one.frontier._n_takes = 2
    assert one.take(1) == ["3"]


def test_a_request_that_kills_workers_is_not_given_for_ever(workers: Workers) -> None:
    asks = workers()
    asks.push("deadly")
    for n in range(6):
        one = workers(name=bytes([9, 9, 9, n]))
        assert one.take() == ["deadly"]
        one.frontier.leave(1, is_over=False)
        one.done()
        one.link.close(5)
    assert asks.take() == []


def test_a_request_that_no_worker_queued_is_not_given_out(workers: Workers) -> None:
    """Whoever writes to the server could have a worker read a file."""
    stranger, one = workers(key=6), workers()
    stranger.push("file:///etc/hosts")
    sound = one.row("sound", "h", 0, False)
    for at in range(len(sound.record)):
        record = sound.record[:at] + bytes([sound.record[at] ^ 1]) + sound.record[at + 1 :]
        assert not one.frontier._is_own(sound._replace(record=record))
        assert not one.frontier._is_own(sound._replace(record=sound.record[:at]))
    assert not one.frontier._is_own(sound._replace(id=b"r" + bytes(12)))
    assert one.frontier._is_own(sound)
    assert one.take() == []
    (planted,) = one.given.foreign
    one.frontier.done(planted)
    one.done()
    assert workers(name=b"next").ask().foreign == []


@pytest.mark.parametrize("what", ANSWERS)
def test_any_answer_about_requests_is_read_or_refused(what: str) -> None:
    with hostile_server(ANSWERS[what]) as server:
        link = Workers(server).link(b"wwww")
        frontier = SharedFrontier(link, PREFIX, b"wwww", 1, "a", 5)
        rows = [frontier.queued(b"a", "h", None, 0, "oldest") for _ in range(2)]
        given = frontier.take(5, 5, {}, [], is_idle=True, rest_s=0.0)
        relist = frontier.relist(b"0")
        for asked in (frontier.push(rows), given, frontier.started(), frontier.eviction(), relist):
            with suppress(Unanswered):
                answer = asked.result(PATIENCE_S)
                assert asked is given or isinstance(answer, list | str | Relisted)
        link.close(0)


def test_the_run_is_over_when_nothing_waits_and_nobody_is_busy(workers: Workers) -> None:
    one, other = workers(), workers()
    assert one.start() == 1
    assert other.start() == 0
    assert not other.ask(is_idle=True).is_over
    one.push("1")
    one.frontier.started().result(PATIENCE_S)
    assert other.start() == 2
    assert one.take() == ["1"]
    assert other.take(is_idle=True) == []
    assert not other.given.is_over
    one.done(*one.given.requests)
    assert one.take(is_idle=True) == []
    assert one.given.is_over
    assert other.ask(is_idle=True).is_over


def test_what_failed_waits_for_the_next_run(workers: Workers) -> None:
    one = workers()
    assert one.start() == 1
    one.push("1")
    one.frontier.started().result(PATIENCE_S)
    assert one.take() == ["1"]
    assert one.take(is_idle=True) == []
    assert one.given.is_over
    one.frontier.leave(1, is_over=True)
    one.link.close(5)
    other = workers()
    assert other.take() == []
    assert other.start() == 1
    assert other.take() == ["1"]


def test_what_is_found_anew_takes_the_place_of_what_an_earlier_run_left(workers: Workers) -> None:
    one = workers()
    one.start()
    one.push("1", "2")
    one.frontier.started().result(PATIENCE_S)
    assert one.take() == ["1", "2"]
    one.frontier.leave(2, is_over=True)
    one.link.close(5)
    other = workers()
    assert other.start() == 1
    assert other.push("1") == [1]  # it waited
    assert other.take() == ["2", "1"]
    (left_over, _) = other.given.requests
    assert other.push("1", "2") == [0, 0]  # they are under way
    other.frontier.set_aside([left_over.id])
    other.done()
    assert other.push("2") == [1]
    assert other.take() == ["2"]
    other.done(*other.given.requests)
    assert other.push("2") == [1]


def start_a_run_that_is_over(one: Hands) -> None:
    one.start()
    one.push("1")
    one.frontier.started().result(PATIENCE_S)
    assert one.take() == ["1"]
    row, *_ = one.given.requests
    assert one.take(is_idle=True) == []
    assert one.given.is_over
    one.done(row)


@pytest.mark.parametrize("lives", [True, False])
def test_a_run_that_is_over_is_so_for_who_begins_then(workers: Workers, lives: bool) -> None:
    """Its last worker is closing, or its word that it left was lost."""
    one, other = workers(), workers()
    start_a_run_that_is_over(one)
    if not lives:
        die(workers, one)
    assert other.start() == 1
    assert not other.ask().is_started
    if lives:
        one.frontier.leave(0, is_over=True)
        one.push()  # answered once the server has what it was told before
    begun = workers().start()
    assert begun == 0  # the other one makes the start requests


def test_who_takes_part_in_the_same_run_of_visits_joins_one_that_is_over(workers: Workers) -> None:
    one, other = workers(), workers()
    assert one.start(7) == 1
    one.frontier.started().result(PATIENCE_S)
    assert one.take(is_idle=True) == []
    assert one.given.is_over
    assert other.start(7) == 2
    assert other.take(is_idle=True) == []
    assert other.start(8) == 1


def test_who_begins_a_run_or_joins_it_is_told_the_arguments_of_who_began_the_last(
    workers: Workers,
) -> None:
    one, other, late = workers(), workers(), workers()

    def told(worker: Hands, arguments: bytes) -> tuple[int, bytes]:
        begun = worker.frontier.start(0, arguments).result(PATIENCE_S)
        return begun.goes_on, begun.arguments

    assert told(one, b"x") == (0, b"")
    assert told(other, b"y") == (1, b"x")  # before the start requests are all in
    one.frontier.started().result(PATIENCE_S)
    assert one.take() == []
    assert told(other, b"y") == (1, b"x")
    for worker in (one, other):
        worker.take(is_idle=True)
    assert told(late, b"z") == (0, b"x")
    assert told(late, b"z") == (1, b"z")  # its first answer was lost


def test_a_run_is_not_over_while_a_dead_worker_has_requests(workers: Workers) -> None:
    one, other = workers(), workers()
    one.start()
    one.push("1")
    one.frontier.started().result(PATIENCE_S)
    assert one.take() == ["1"]
    assert other.start() == 2  # it is under way
    die(workers, one)
    assert other.start() == 2
    assert other.take() == ["1"]


def test_a_run_is_over_though_what_failed_is_still_leased(workers: Workers) -> None:
    """Its worker may be about to leave, or wait for ever for something else to do."""
    one, other = workers(), workers()
    one.start()
    one.push("1")
    one.frontier.started().result(PATIENCE_S)
    assert one.take() == ["1"]
    assert one.take(is_idle=True) == []
    assert other.start() == 1
    one.frontier.leave(1, is_over=True)
    one.push()  # answered once the server has what it was told before
    assert not other.ask().is_started  # the run of the other one goes on


def die(workers: Workers, one: Hands) -> None:
    """Let a worker's lease expire."""
    import redis

    one.link.close(0)
    assert redis.Redis.from_url(workers.url).zadd("{neardup}:q:workers", {one.worker: 1}) == 0


def test_hosts_that_are_released_in_a_repeated_question_are_released(workers: Workers) -> None:
    one, two = workers("a"), workers("b")
    two.take(is_idle=True)  # its spider is at work
    one.push("1", host="x")
    assert one.take() == ["1"]
    (row,) = one.given.requests
    one.ask(rooms={"x": 1})  # the answer is lost
    one.done(row)
    two.push("2", host="x")
    one.push("3", host="x")
    one.ask(rooms={}, released=["x"])
    one.frontier.taken()
    assert two.take() == ["2"]


def test_a_host_is_not_released_by_who_is_given_its_requests_again(workers: Workers) -> None:
    one, two = workers(), workers()
    one.push("1", "2", host="x")
    one.ask(1, released=["x"])  # the answer is lost
    assert payloads(one.ask(1, released=["x"]).requests) == ["1"]
    assert two.take() == []


def test_what_a_paused_worker_completes_is_not_lost_to_the_next(workers: Workers) -> None:
    one, two = workers(), workers()
    one.push("1")
    assert one.take() == ["1"]
    (row,) = one.given.requests
    die(workers, one)
    assert payloads(two.ask().requests) == ["1"]  # the answer is lost
    paused = workers("a", one.worker)
    paused.done(row)
    again = two.ask()
    assert (again.requests, again.n_lost) == ([], 0)


def test_more_is_asked_for_than_the_server_can_give_at_once(workers: Workers) -> None:
    one = workers()
    for n in range(0, 5000, 200):
        rows = [one.row(str(i), f"h{i}", 0, True) for i in range(n, n + 200)]
        one.frontier.push(rows).result(PATIENCE_S)
    taken = one.take(5000) + one.take(4000)
    assert len(set(taken)) == len(taken) > 1000


def test_a_damaged_request_of_a_dead_worker_costs_no_other(
    workers: Workers, server: RunningServer
) -> None:
    import redis

    one, two = workers(), workers()
    one.push(*(str(n) for n in range(8)))
    assert len(one.take()) == 8
    damaged = one.given.requests[3]
    redis.Redis.from_url(server.url).hset("{neardup}:q:s:a:requests", damaged.id, b"?")
    die(workers, one)
    assert sorted(two.take()) == ["0", "1", "2", "4", "5", "6", "7"]
    assert two.given.foreign == [damaged.id]
    two.done(damaged)
    assert two.push("3") == [1]


def test_a_worker_takes_over_the_start_requests_of_one_that_died(workers: Workers) -> None:
    one, other = workers(), workers()
    assert one.start() == 1
    one.link.close(0)
    assert other.start() == 0
    wait_until(lambda: other.start() == 1)


def test_what_a_worker_did_not_begin_it_gives_back(workers: Workers) -> None:
    one, other = workers(), workers()
    one.push("1", "2")
    assert one.take() == ["1", "2"]
    one.frontier.give_back([one.given.requests[1].id])
    one.released = ["h"]
    one.done()
    assert one.take(0) == []
    assert other.take() == ["2"]


def test_nothing_is_left_on_the_server_of_requests_that_are_done(
    workers: Workers, server: RunningServer
) -> None:
    one = workers()
    one.push(*map(str, range(50)))
    one.push("other", host="i", key=False)
    assert len(one.take(100, per_host=100)) == 51
    one.done(*one.given.requests)
    one.released = ["h", "i"]
    assert one.take(is_idle=True) == []
    assert one.given.n_waiting == 0
    keys = [line for line in server.command("KEYS", "*").split("\r\n") if line.startswith("{")]
    kinds = {key.partition(":q:")[2] for key in keys if ":q:" in key}
    assert kinds == {"workers", "names", "given", "heard", "s:a:workers", "s:a:run", "s:a:n"}


def test_who_is_dismissed_and_comes_back_has_lost_nothing(workers: Workers) -> None:
    paused, other = workers(name=b"1234"), workers()
    paused.push("1")
    assert paused.take() == ["1"]
    paused.link.close(0)
    wait_until(lambda: has_got(other, ["1"]))
    link = workers.link(b"1234")
    paused.frontier.ask, paused.frontier.tell = link.ask, link.tell
    assert paused.take() == []
    assert not paused.frontier.has_gone_back
    assert paused.push("1", "2") == [0, 1]
    paused.done(*paused.given.requests)
    assert not other.frontier.has_gone_back


def test_who_comes_back_when_all_others_have_left_has_lost_nothing(workers: Workers) -> None:
    paused, other = workers(name=b"1234"), workers()
    paused.push("1")
    assert paused.take() == ["1"]
    paused.link.close(0)
    wait_until(lambda: has_got(other, ["1"]))
    other.done(*other.given.requests)
    other.frontier.leave(0, is_over=True)
    other.link.close(5)
    link = workers.link(b"1234")
    paused.frontier.ask, paused.frontier.tell = link.ask, link.tell
    assert paused.take() == []
    assert not paused.frontier.has_gone_back


def test_a_server_that_goes_back_is_found_out_by_those_whom_it_answered(tmp_path: Path) -> None:
    with running_server(dir=tmp_path) as server:
        made = Workers(server)
        one, other = made(), made()
        one.push("1")
        assert other.take(0) == []
        server.command("SAVE")
        one.push("2")
        server.kill()
        server.start()
        wait_until(lambda: has_got(one, ["1"]))
        assert one.frontier.has_gone_back
        wait_until(lambda: has_got(other, []))
        assert not other.frontier.has_gone_back
        for link in made.links:
            link.close(0)


def test_a_server_that_goes_back_behind_a_push_without_an_answer_is_found_out(
    tmp_path: Path,
) -> None:
    """The push is repeated and answered by "known", and its requests are gone all the same."""
    with running_server(dir=tmp_path) as server:
        one = Workers(server)()
        one.push("1")
        server.command("SAVE")
        rows, before = [one.row("2", "h", 0, True)], one.frontier.last_answered
        one.frontier.push(rows).result(PATIENCE_S)
        one.frontier._n_answered = before.number  # as if no answer had come
        assert one.frontier.push(rows).result(PATIENCE_S) == [0]
        server.kill()
        server.start()
        wait_until(lambda: has_got(one, ["1"]))
        assert one.frontier.has_gone_back
        one.link.close(0)


def relisted(one: Hands) -> Relisted:
    return one.frontier.relist(b"0").result(PATIENCE_S)


@pytest.mark.parametrize("evicted", ["s:a:free", "owners", "owned:dead", "workers"])
def test_hosts_that_the_server_has_forgotten_are_found_again(
    evicted: str, server: RunningServer, workers: Workers
) -> None:
    one, dead = workers(), workers(name=b"dead")
    if evicted == "s:a:free":
        one.push("1", "2")
    else:
        dead.push("0", "1", "2")
        assert dead.take(1) == ["0"]
        dead.done(*dead.given.requests)
        assert dead.take(0, is_idle=True) == []  # the host stays its own
        dead.link.close(5)
    server.command("DEL", *(f"{{neardup}}:q:{key}" for key in ("s:a:free", evicted)))
    assert one.take(is_idle=True) == []
    assert relisted(one) == Relisted(b"0", 2, 2)
    wait_until(lambda: has_got(one, ["1", "2"]))
    assert one.take(is_idle=True) == []
    assert relisted(one).n_due == 0


def test_a_wanted_host_is_given_though_the_server_has_forgotten_its_owner(
    server: RunningServer, workers: Workers
) -> None:
    one, dead = workers(), workers(name=b"dead")
    dead.push("1")
    assert dead.take() == ["1"]
    dead.link.close(5)
    server.command("DEL", *(f"{{neardup}}:q:{key}" for key in ("workers", "names", "owned:dead")))

    def is_given() -> bool:
        one.take(wanted=["h"])
        return one.given.hosts == ["h"]

    wait_until(is_given)


def test_a_worker_that_the_server_has_forgotten_keeps_what_it_has(
    server: RunningServer, workers: Workers
) -> None:
    one, other = workers(), workers()
    one.push("1", "2")
    assert one.take(1) == ["1"]
    server.command("DEL", "{neardup}:q:workers", "{neardup}:q:names")
    assert other.take(is_idle=True) == []
    assert relisted(other) == Relisted(b"0", 0, 0)  # one is busy: nothing is known of what it has
    members = server.command("ZCARD", "{neardup}:q:workers")
    assert members == ":2\r\n"
    assert other.take(is_idle=True) == []
    assert one.take(1) == ["2"]


@pytest.mark.parametrize(
    "evicted", [["s:a:h:h"], ["s:a:requests", "s:a:free"], ["s:a:n", "s:a:h:h"]]
)
def test_requests_whose_queue_the_server_has_lost_are_counted(
    evicted: list[str], server: RunningServer, workers: Workers
) -> None:
    one = workers()
    one.push("1", "2", "3")
    assert one.take(1) == ["1"]
    assert one.take(0, is_idle=True) == []  # the first has failed: it is leased, and not lost
    server.command("DEL", *(f"{{neardup}}:q:{key}" for key in evicted))
    assert relisted(one) == Relisted(b"0", 0, 2)


def test_of_a_long_queue_a_part_is_looked_through_at_a_time(
    server: RunningServer, workers: Workers
) -> None:
    one = workers()
    one.push(*map(str, range(1500)))
    server.command("DEL", "{neardup}:q:s:a:h:h")
    cursors = [b"0"]
    while len(cursors) == 1 or cursors[-1] != b"0":
        found = one.frontier.relist(cursors[-1]).result(PATIENCE_S)
        assert found[1:] == (0, 1500)
        cursors.append(found.cursor)
    assert 3 < len(cursors) < 10


def test_a_count_below_nothing_is_told_with_what_is_given(
    server: RunningServer, workers: Workers
) -> None:
    one = workers()
    one.push("1", "2")
    server.command("DEL", "{neardup}:q:s:a:n")
    assert one.take(1) == ["1"]
    assert one.given.n_waiting == -1
    assert not one.given.is_over


def test_a_full_server_gives_out_what_it_has_and_takes_nothing() -> None:
    with running_server(maxmemory="4mb", maxmemory_policy="noeviction") as server:
        made = Workers(server)
        one = made()
        one.push("1", "2")
        server.command("CONFIG", "SET", "maxmemory", "1mb")
        with pytest.raises(Unanswered):
            one.push("3")
        wait_until(lambda: has_got(one, ["1", "2"]))
        for link in made.links:
            link.close(0)


def test_what_makes_room_on_a_full_server_does_not_wait_behind_what_needs_room() -> None:
    with running_server(maxmemory="8mb", maxmemory_policy="noeviction") as server:
        one = Workers(server)()
        one.push(*(f"{n}" * 10_000 for n in range(10, 60)))
        assert len(one.take(10)) == 10
        server.command("CONFIG", "SET", "maxmemory", "1mb")
        one.link.tell(Call("return redis.call('INCR', KEYS[1])", "told", (), int))
        for row in one.given.requests:
            one.frontier.done(row.id)
        wait_until(lambda: one.frontier.left().result(PATIENCE_S).n_leased == 0)
        assert "0" in server.command("EXISTS", "told")
        server.command("CONFIG", "SET", "maxmemory", "0")
        one.link.close(PATIENCE_S)
        assert "1" in server.command("EXISTS", "told")
        assert one.link.n_lost == one.link.n_failures == 0


def test_urls_that_waited_for_room_are_known_once_their_worker_has_left(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "FIRST_PAUSE_S", 600.0)
    index = IndexOptions(distance=3, blocks=4, scan_limit=1000)
    urls = Questions(PREFIX, 1, capacity=1000, error_rate=0.01, index=index)
    one = Workers(server)()
    one.push("1")
    server.command("CONFIG", "SET", "maxmemory", "1")
    one.link.tell(urls.mark(b"h/1", one.frontier.last_answered))
    assert not one.link.ask(urls.seen(b"h/1")).result(PATIENCE_S)
    server.command("CONFIG", "SET", "maxmemory", "0")
    one.frontier.leave(0, is_over=True)
    one.frontier.left().result(PATIENCE_S)  # in a round trip that is behind what was told
    one.link.close(PATIENCE_S)
    assert Server(server.url).call(urls.seen(b"h/1"))
    assert one.link.n_lost == one.link.n_refused == 0


def test_the_user_of_the_docs_may_do_all_of_it(server: RunningServer) -> None:
    server.command("ACL", "SETUSER", *USER.split(), *FRONTIER_USER.split())
    server.command("ACL", "SETUSER", "default", "off")
    made = Workers(server)
    made.url = server.url.replace("://", "://worker:Pass%2Fword1@")
    one, other = made("a"), made("b")
    assert one.start() == 1
    one.push("1", "2")
    other.push("3")
    assert one.take(1) == ["1"]
    assert other.take() == []
    one.done(*one.given.requests)
    assert one.take() == []  # the other spider waits
    one.released = ["h"]
    assert one.take(rest_s=0.1) == []
    wait_until(lambda: has_got(other, ["3"]))
    other.frontier.give_back([other.given.requests[0].id])
    for link in made.links:
        link.close(5)
        assert not link.n_refused
    last = made("b")
    wait_until(lambda: has_got(last, ["3"]))
    assert relisted(last).n_due == 0
    last.frontier.leave(1, is_over=True)
    last.link.close(5)
    assert not last.link.n_refused

"""A fleet's server that is slow, full, restarted, failed over, cut off or gone costs no page."""

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crawls import ADDONS, PagesSpider, crawl, crawl_requests
from fleets import (
    PATIENCE_S,
    RunningServer,
    Worker,
    cluster_url,
    running_cluster,
    running_sentinel,
    running_server,
    running_tls_server,
    wait_until,
    wire_to,
)
from mock_site import MockSite, prose
from scrapy import Request
from scrapy.http import Response

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.fleet.client import Server, connect, is_passing
from scrapy_neardup.fleet.frontier import SharedFrontier
from scrapy_neardup.fleet.link import Unanswered
from scrapy_neardup.fleet.protocol import Call, IndexOptions, Questions


def test_what_the_server_refuses_for_good_holds_nothing_up(server: RunningServer) -> None:
    worker = Worker(server.url)
    worker.fleet.mark(b"a.example/1")  # every slice is there before
    worker.close()
    shard = worker.shard_of(b"a.example/1")
    server.command("DEL", f"{shard}:1")
    server.command("LPUSH", f"{shard}:1", "no-bitmap")
    worker, other_site = Worker(server.url), b"c.example/1"
    assert worker.shard_of(other_site) != shard
    worker.fleet.mark(b"a.example/2")
    assert worker.decide("https://a.example/1", prose(1)).kind == "new"
    assert not worker.seen(b"a.example/2")
    worker.fleet.mark(other_site)
    worker.close()
    assert worker.stat("backend/refused") == 2
    assert worker.stat("backend/unanswered") == 1
    assert worker.stat("backend/lost") == 0
    other = Worker(server.url)
    assert other.seen(other_site)
    assert other.decide("https://a.example/2", prose(1)).kind == "exact"
    other.close()


def test_without_a_server_the_worker_decides_alone_and_tells_later(server: RunningServer) -> None:
    worker = Worker(server.url)
    server.kill()
    assert worker.decide("https://site.example/1", prose(1)).kind == "new"
    assert worker.decide("https://site.example/2", prose(1)).kind == "exact"
    assert not worker.seen(b"site.example/9")
    worker.fleet.mark(b"site.example/1")
    assert worker.stat("backend/unanswered") == 3  # a page, a copy's items, a URL
    server.start()
    worker.close()  # sends what waits
    assert worker.stat("backend/lost") == 0
    other = Worker(server.url)
    assert other.decide("https://site.example/3", prose(1)).original == "https://site.example/1"
    assert other.seen(b"site.example/1")
    other.close()


def test_a_full_server_costs_no_page(server: RunningServer) -> None:
    worker = Worker(server.url)
    server.command("CONFIG", "SET", "maxmemory", "1")
    for number in range(5):
        assert worker.decide(f"https://site.example/{number}", prose(number)).kind == "new"
    assert worker.stat("backend/unanswered") == 5
    server.command("CONFIG", "SET", "maxmemory", "0")
    worker.close()
    assert worker.stat("backend/lost") == 0


def test_pages_that_waited_for_room_are_kept_for_the_others(server: RunningServer) -> None:
    worker = Worker(server.url)
    server.command("CONFIG", "SET", "maxmemory", "1")
    for number in range(5):
        assert worker.decide(f"https://site.example/{number}", prose(number)).kind == "new"
        worker.seen(b"site.example/9")  # in a round trip that is behind what was told
    server.command("CONFIG", "SET", "maxmemory", "0")
    worker.close()
    other = Worker(server.url)
    for number in range(5):
        assert other.decide(f"https://site.example/copy/{number}", prose(number)).kind == "exact"
    other.close()
    assert other.stat("backend/overtaken") == worker.stat("backend/lost") == 0


def test_a_server_that_hangs_does_not_hold_the_loop(server: RunningServer) -> None:
    worker = Worker(server.url)
    server.command("CLIENT", "PAUSE", "60000", "ALL")

    async def turns_while_asking() -> int:
        asking = asyncio.ensure_future(worker.fleet.seen(b"site.example/1"))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        assert not asking.result()
        return turns

    assert asyncio.run(turns_while_asking()) > 100
    with socket.create_connection(("127.0.0.1", server.port)) as other:
        other.settimeout(0.1)
        other.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):  # nobody waited until it went on
            other.recv(1)
    server.kill()
    worker.close()


def test_a_crawl_goes_on_without_its_server(server: RunningServer, mock_site: MockSite) -> None:
    settings = {"NEARDUP_BACKEND": server.url}
    server.kill()
    outcome = crawl_requests(mock_site, "/page/1", "/copy/1", "/page/2", settings=settings)
    assert outcome.urls == [mock_site.url("/page/1"), mock_site.url("/page/2")]
    assert outcome.stat("backend/unanswered") > 0
    assert outcome.stat("backend/lost") > 0


class FailsMidway(PagesSpider):
    """Does something to the server at page 2, and to its good at page 4."""

    fail: Callable[[], None]
    mend: Callable[[], None]

    def parse(self, response: Response) -> Iterator[Any]:
        if response.url.endswith("/page/2"):
            self.fail()
        if response.url.endswith("/page/4"):
            self.mend()
        yield from super().parse(response)


def crawl_through_a_failure(
    site: MockSite, url: str, fail: Callable[[], None], mend: Callable[[], None]
) -> list[str]:
    """A crawl of six pages, in whose middle the server fails; the paths, all of which it kept."""
    paths = [f"/page/{n}" for n in range(1, 7)]
    requests = [Request(site.url(path), priority=-n) for n, path in enumerate(paths)]
    outcome = crawl(
        FailsMidway,
        {"NEARDUP_BACKEND": url},
        seed=site.url("/page/seed"),
        requests=lambda: iter(requests),
        fail=fail,
        mend=mend,
    )
    assert sorted(outcome.urls) == [site.url(path) for path in paths]
    assert outcome.stat("backend/unanswered") > 0
    assert outcome.stat("backend/lost") == outcome.stat("backend/refused") == 0
    return paths


def test_a_server_killed_in_mid_crawl_is_told_what_it_missed(
    server: RunningServer, mock_site: MockSite
) -> None:
    paths = crawl_through_a_failure(mock_site, server.url, server.kill, server.start)
    crawl_requests(mock_site, *paths, settings={"NEARDUP_BACKEND": server.url})
    assert [mock_site.gets(path) for path in paths[2:]] == [1, 1, 1, 1]


def test_a_network_cut_in_mid_crawl_loses_nothing(
    server: RunningServer, mock_site: MockSite
) -> None:
    with wire_to(server) as wire:
        paths = crawl_through_a_failure(mock_site, wire.url, wire.cut, wire.mend)
    crawl_requests(mock_site, *paths, settings={"NEARDUP_BACKEND": server.url})
    assert [mock_site.gets(path) for path in paths] == [1] * 6


def test_a_server_that_does_not_answer_in_time_is_said_how_to_wait_for(
    server: RunningServer,
) -> None:
    with wire_to(server) as wire:
        wire.cut()
        client = Server(f"{wire.url}?socket_timeout=0.1")
        (error,) = client.send([Call("return 1", "key", (), int)])
        client.close()
    assert is_passing(error)
    assert "?socket_timeout=SECONDS" in str(error)


def test_of_a_cluster_that_lacks_a_node_the_others_answer_and_are_told() -> None:
    sites = [f"https://site{number}.example" for number in range(30)]
    with running_cluster(cluster_require_full_coverage="no") as nodes:
        one, other = Worker(cluster_url(nodes)), Worker(cluster_url(nodes))
        for number, site in enumerate(sites):
            assert one.decide(f"{site}/1", prose(number)).kind == "new"
        wait_until(lambda: is_told(one))
        gone = [n for n, site in enumerate(sites) if slot_is_of(nodes[0], one, site)]
        assert 0 < len(gone) < 20
        nodes[0].kill()
        for number, site in enumerate(sites):
            kind = "new" if number in gone else "exact"
            assert other.decide(f"{site}/2", prose(number)).kind == kind, site
            assert one.decide(f"{site}/3", f"{number} " + prose(f"3 {number}")).kind == "new"
        # A page's items are asked for of a key of their own, wherever that is.
        assert len(gone) <= other.stat("backend/unanswered") <= len(gone) + 30
        there = [n for n in range(30) if n not in gone]
        late = Worker(cluster_url(nodes))
        for number in there:
            text = f"{number} " + prose(f"3 {number}")
            assert late.decide(f"{sites[number]}/4", text).kind == "exact"
        nodes[0].start()
        for worker in (one, other, late):
            wait_until(lambda worker=worker: is_told(worker))
            worker.close()
            assert worker.stat("backend/lost") == worker.stat("backend/refused") == 0
        again = Worker(cluster_url(nodes))
        for number in gone:  # told in order, when the node was back
            text = f"{number} " + prose(f"3 {number}")
            assert again.decide(f"{sites[number]}/5", text).kind == "exact"
        again.close()


def test_a_slot_that_moves_to_another_node_is_named() -> None:
    key = "{neardup}:q"
    with running_cluster() as nodes:
        (home,) = (node for node in nodes if has_slot_of(node, key))
        slot = home.command("CLUSTER", "KEYSLOT", key).strip(":\r\n")
        other = next(node for node in nodes if node is not home)
        name = other.command("CLUSTER", "MYID").split()[1]
        server = Server(cluster_url(nodes))
        asked = Call("return redis.call('GET', KEYS[1])", key, (), bool)
        assert server.call(asked) is False
        home.command("CLUSTER", "SETSLOT", slot, "MIGRATING", name)
        (asks,) = server.send([asked])
        assert str(asks) == f"ASK: slot {slot} of the cluster is moving to 127.0.0.1:{other.port}"
        for node in (other, *nodes):  # all, or who asks the third one is sent home again
            node.command("CLUSTER", "SETSLOT", slot, "NODE", name)
        server._is_stale = False  # it asked for the slots when it was told to ask elsewhere
        (moved,) = server.send([asked])
        assert str(moved) == f"MOVED: slot {slot} of the cluster is at 127.0.0.1:{other.port} now"
        assert is_passing(asks)
        assert is_passing(moved)
        assert server.call(asked) is False
        server.close()


def test_what_was_seen_waits_until_the_queues_node_of_a_cluster_has_told_what_it_has() -> None:
    options = {"cluster_require_full_coverage": "no", "appendonly": "yes", "appendfsync": "always"}
    with running_cluster(**options) as nodes:
        one, other = Worker(cluster_url(nodes)), Worker(cluster_url(nodes))
        queue = one.fleet.queue = one.fleet.frontier("spider")
        (home,) = (node for node in nodes if has_slot_of(node, "{neardup}:q"))
        urls = (b"site%d.example/1" % n for n in range(100))
        url = next(url for url in urls if not has_slot_of(home, one.shard_of(url)))
        request = queue.queued(b"payload", "site.example", b"key", 0, "oldest")
        assert queue.push([request]).result(PATIENCE_S) == [1]
        home.kill()
        with pytest.raises(Unanswered):
            queue.push([request]).result(PATIENCE_S)
        one.fleet.mark(url)
        wait_until(lambda: is_told(one))
        assert not other.seen(url)
        home.start()
        wait_until(lambda: knows_its_requests(queue))
        wait_until(lambda: other.seen(url))
        for worker in (one, other):
            worker.close()
            assert worker.stat("backend/lost") == 0


def has_slot_of(node: RunningServer, key: str) -> bool:
    """Whether a node of a cluster holds a key, or would."""
    return node.command("EXISTS", key).startswith(":")


def knows_its_requests(queue: SharedFrontier) -> bool:
    """Whether the queue's server has all requests that it had, as the scheduler finds out."""
    n_failures = queue.n_failures
    try:
        queue.started().result(PATIENCE_S)
    except Unanswered:
        return False
    queue.release(n_failures)
    return not queue.has_gone_back


def slot_is_of(node: RunningServer, worker: Worker, site: str) -> bool:
    """Whether a node holds the pages of a site."""
    reading = worker.state.detector.read(f"{site}/1", "")
    return has_slot_of(node, f"{{neardup:p:{reading.site:016x}}}")


USER = "worker on >Pass/word1 ~{neardup* +@connection +eval +evalsha +get +set +del +exists"
USER += " +hget +hset +hdel +getbit +setbit +bitfield +sadd +scard +srandmember"
USER += " +append +hlen +hmget +pexpire +sismember +srem +time +hincrby +hvals"
FRONTIER_USER = (
    "+decr +decrby +hexists +hgetall +hincrby +hlen +hscan +hvals +incr +info +pttl +spop"
)
FRONTIER_USER += " +zadd +zcount +zrange +zrangebyscore +zrem +zscore"
RECRAWL_USER = "+hgetall +zadd +zcount +zrangebyscore +zrem +zscore"
CLUSTER_USER = "+cluster|slots"


def test_the_docs_name_the_user_that_is_tested() -> None:
    docs = (Path(__file__).resolve().parents[1] / "docs" / "fleet.md").read_text()
    assert f"ACL SETUSER {USER.replace('Pass/word1', 'password')}\n" in docs
    assert f"ACL SETUSER worker {CLUSTER_USER}\n" in docs
    assert f"ACL SETUSER worker {FRONTIER_USER}\n" in docs
    assert f"ACL SETUSER worker {RECRAWL_USER}\n" in docs


def test_a_valkey_url_names_the_same_server(server: RunningServer) -> None:
    one, other = Worker(server.url), Worker(server.url.replace("redis://", "valkey://"))
    one.fleet.mark(b"site.example/1")
    one.close()
    assert other.seen(b"site.example/1")
    other.close()


def test_in_a_cluster_the_user_of_the_docs_will_do() -> None:
    with running_cluster() as nodes:
        for node in nodes:
            node.command("ACL", "SETUSER", *USER.split(), *CLUSTER_USER.split())
            node.command("ACL", "SETUSER", "default", "off")
        url = (
            cluster_url(nodes).replace("redis+", "valkey+").replace("//", "//worker:Pass%2Fword1@")
        )
        one, other = Worker(url, key=None), Worker(url, key=None)
        for number in range(100):  # enough to fill the newest entries, on every node
            site = f"https://site{number % 9}.example"
            assert one.decide(f"{site}/{number}", prose(number)).kind == "new"
            one.fleet.mark(b"site%d.example/1" % number)
        forgotten = one.decide("https://site.example/x", prose("x"), keep=False)
        one.settle(forgotten, kept=False)
        one.close()
        assert other.decide("https://site.example/x2", prose("x")).kind == "new"
        assert all(other.seen(b"site%d.example/1" % number) for number in range(100))
        other.close()
        for worker in (one, other):
            assert worker.stat("backend/unanswered") == worker.stat("backend/refused") == 0
            assert worker.stat("backend/lost") == 0


def test_a_cluster_answers_as_one_server() -> None:
    with running_cluster() as nodes:
        one, other = Worker(cluster_url(nodes)), Worker(cluster_url(nodes))
        for number in range(40):
            site = f"https://site{number}.example"
            assert one.decide(f"{site}/1", prose(number)).kind == "new"
            assert other.decide(f"{site}/2", prose(number) + " more").kind == "near"
            one.fleet.mark(b"site%d.example/1" % number)
        one.close()
        assert all(other.seen(b"site%d.example/1" % number) for number in range(40))
        assert not other.seen(b"site1.example/2")
        assert other.stat("backend/unanswered") == one.stat("backend/lost") == 0
        other.close()
        for node in nodes:
            wait_until(lambda node=node: is_left_alone(node))


def is_left_alone(server: RunningServer) -> bool:
    """Whether a server has no connection besides the one that asks."""
    return "connected_clients:1\r" in server.command("INFO", "CLIENTS")


def test_a_replica_takes_over_what_its_master_was_told() -> None:
    sites = [f"https://site{number}.example" for number in range(30)]
    with running_cluster(n_replicas=1) as nodes:
        one = Worker(cluster_url(nodes))
        for number, site in enumerate(sites[:15]):
            assert one.decide(f"{site}/1", prose(number)).kind == "new"
        wait_until(lambda: is_told(one) and is_replicated(nodes[0]))
        nodes[0].kill()
        for number, site in enumerate(sites[15:], start=15):
            assert one.decide(f"{site}/1", prose(number)).kind == "new"
        assert one.stat("backend/unanswered") > 0
        for node in nodes[1:]:
            wait_until(lambda node=node: is_replaced(nodes[0], node))
        wait_until(lambda: is_told(one))
        one.close()
        assert one.stat("backend/lost") == one.stat("backend/refused") == 0
        other = Worker(cluster_url(nodes))
        for number, site in enumerate(sites):
            assert other.decide(f"{site}/2", prose(number)).kind == "exact"
        other.close()


def is_told(worker: Worker) -> bool:
    """Whether the server has everything that it was to be told."""
    return not worker.fleet._link._waiting


def is_replicated(master: RunningServer) -> bool:
    """Whether a master's replica has everything that the master has."""
    answer = master.command("INFO", "REPLICATION")
    there = re.search(r"slave0:.*state=online,offset=(\d+)", answer)
    here = re.search(r"master_repl_offset:(\d+)", answer)
    return bool(there and here and there[1] == here[1])


def names_as_master(sentinel: RunningServer, server: RunningServer) -> bool:
    """Whether a sentinel says that a server is the master, and that nothing is wrong with it."""
    told = sentinel.command("SENTINEL", "MASTER", "shop").split("\r\n")
    return (
        told[told.index("port") + 2] == str(server.port)
        and told[told.index("flags") + 2] == "master"
    )


def is_replaced(gone: RunningServer, node: RunningServer) -> bool:
    """Whether a node of the cluster knows that one that is gone has no slots any more."""
    lines = node.command("CLUSTER", "NODES").splitlines()  # 8 fields a node, then its slots
    return any(f":{gone.port}@" in line and len(line.split()) == 8 for line in lines)


def test_a_cluster_that_was_gone_as_a_whole_is_told_what_it_missed() -> None:
    sites = [f"https://site{number}.example" for number in range(6)]
    with running_cluster() as nodes:
        one = Worker(cluster_url(nodes))
        for node in nodes:
            node.kill()
        for number, site in enumerate(sites):
            assert one.decide(f"{site}/1", prose(number)).kind == "new"
        assert one.stat("backend/unanswered") == len(sites)
        late = Worker(cluster_url(nodes))
        assert late.decide("https://late.example/1", prose("late")).kind == "new"
        for node in nodes:
            node.start()
        for worker in (one, late):
            wait_until(lambda worker=worker: is_told(worker))
            worker.close()
            assert worker.stat("backend/lost") == worker.stat("backend/refused") == 0
        other = Worker(cluster_url(nodes))
        for number, site in enumerate(sites):
            assert other.decide(f"{site}/2", prose(number)).kind == "exact"
        assert other.decide("https://late.example/2", prose("late")).kind == "exact"
        other.close()


def test_sentinels_name_the_master_and_the_one_that_takes_its_place(tmp_path: Path) -> None:
    folders = [tmp_path / "master", tmp_path / "replica"]
    for folder in folders:  # one that they share would have one dump.rdb
        folder.mkdir()
    with (
        running_server(dir=folders[0]) as master,
        running_server(dir=folders[1], repl_diskless_sync_delay=0) as replica,
        running_sentinel(master) as sentinel,
    ):
        replica.command("REPLICAOF", "127.0.0.1", str(master.port))
        wait_until(lambda: is_replicated(master))
        wait_until(lambda: "slaves=1" in sentinel.command("INFO", "SENTINEL"))
        # The first of the sentinels is gone.
        url = f"valkey+sentinel://127.0.0.1:1,127.0.0.1:{sentinel.port}/shop/0"
        worker = Worker(url)
        worker.fleet.mark(b"site.example/1")
        assert worker.decide("https://site.example/1", prose(1)).kind == "new"
        wait_until(lambda: is_replicated(master))
        master.kill()
        wait_until(lambda: names_as_master(sentinel, replica))
        wait_until(lambda: is_told(worker))
        late = Worker(url)
        assert late.seen(b"site.example/1")
        assert late.decide("https://site.example/2", prose(1)).kind == "exact"
        for one in (worker, late):
            one.close()
            assert one.stat("backend/lost") == one.stat("backend/refused") == 0


def test_sentinels_that_are_gone_are_named_without_their_addresses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = Worker(f"redis+sentinel://:{SECRET}@127.0.0.1:1/shop")
    assert worker.decide("https://site.example/1", prose(1)).kind == "new"
    worker.close()
    assert "No master found for 'shop'" in caplog.text
    assert "127.0.0.1" not in caplog.text
    assert SECRET not in caplog.text


def test_a_user_of_the_master_and_one_of_the_sentinels_are_told_apart() -> None:
    client = connect("redis+sentinel://me:a%2Fb@one,[::1]:7/my%20shop/3?sentinel_password=c")
    pool = client.connection_pool
    assert pool.service_name == "my shop"
    told = pool.connection_kwargs
    assert (told["username"], told["password"], told["db"]) == ("me", "a/b", 3)
    sentinels = [node.connection_pool.connection_kwargs for node in pool.sentinel_manager.sentinels]
    assert [(s["host"], s["port"]) for s in sentinels] == [("one", 26379), ("::1", 7)]
    assert [(s.get("username"), s["password"]) for s in sentinels] == [(None, "c")] * 2


def test_tls_and_a_user_with_few_permissions_will_do(tmp_path: Path) -> None:
    with running_tls_server(tmp_path) as (server, certificate):
        server.command("ACL", "SETUSER", *USER.split())
        server.command("ACL", "SETUSER", "default", "off")
        url = f"rediss://worker:Pass%2Fword1@127.0.0.1:{server.port}/0?ssl_ca_certs={certificate}"
        one, other = Worker(url), Worker(url)
        for number in range(100):  # enough to fill the newest entries
            assert one.decide(f"https://site.example/{number}", prose(number)).kind == "new"
        one.fleet.mark(b"site.example/1")
        forgotten = one.decide("https://site.example/x", prose("x"), keep=False)
        one.settle(forgotten, kept=False)
        one.close()
        assert other.seen(b"site.example/1")
        assert other.decide("https://site.example/x2", prose("x")).kind == "new"
        assert other.decide("https://site.example/x3", prose(7)).kind == "exact"
        other.close()
        for worker in (one, other):
            assert worker.stat("backend/unanswered") == worker.stat("backend/refused") == 0


def test_a_certificate_of_another_name_is_no_server(tmp_path: Path) -> None:
    asks = Questions("tls", 3, capacity=100, error_rate=0.01, index=IndexOptions(6, 7, 100))
    with running_tls_server(tmp_path) as (server, certificate):
        for host, is_named in (("localhost", False), ("127.0.0.1", True)):
            client = Server(f"valkeys://{host}:{server.port}/0?ssl_ca_certs={certificate}")
            (answer,) = client.send([asks.seen(b"site.example/1")])
            assert isinstance(answer, Exception) != is_named
            assert is_named or "Hostname mismatch" in str(answer)
            client.close()


def test_a_certificate_that_is_not_trusted_is_no_server(tmp_path: Path) -> None:
    asks = Questions("tls", 3, capacity=100, error_rate=0.01, index=IndexOptions(6, 7, 100))
    with running_tls_server(tmp_path) as (server, _):
        client = Server(f"rediss://127.0.0.1:{server.port}/0")
        (answer,) = client.send([asks.seen(b"site.example/1")])
        assert isinstance(answer, Exception)
        assert is_passing(answer)
        client.close()


SECRET = "Corr3ctH0rse"  # noqa: S105
SPIDER = '''
import scrapy


class Three(scrapy.Spider):
    """A page, its copy and another page, one after the other."""

    name = "three"
    custom_settings = {"CONCURRENT_REQUESTS": 1}

    async def start(self):
        for path in ("page/1", "copy/1", "page/2"):
            yield scrapy.Request(f"{self.root}/{path}")

    def parse(self, response):
        yield {"url": response.url}
'''


@pytest.mark.parametrize("trouble", ["none", "password", "url"])
def test_a_password_shows_nowhere(
    trouble: str, server: RunningServer, mock_site: MockSite, tmp_path: Path
) -> None:
    server.command("CONFIG", "SET", "requirepass", "another" if trouble == "password" else SECRET)
    password = f"{SECRET}/{SECRET}" if trouble == "url" else SECRET
    url = f"redis://:{password}@127.0.0.1:{server.port}/0"
    (tmp_path / "spider.py").write_text(SPIDER)
    settings = {"ADDONS": json.dumps(ADDONS), "NEARDUP_BACKEND": url, "NEARDUP_STATE_DIR": "state"}
    settings |= {"LOG_LEVEL": "DEBUG", "NEARDUP_KEY": "0"}
    options = [part for name, value in settings.items() for part in ("-s", f"{name}={value}")]
    command = [sys.executable, "-m", "scrapy", "runspider", "spider.py", *options]
    done = subprocess.run(
        [*command, "-a", f"root={mock_site.root}", "-O", "items.jsonl"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    log = done.stdout + done.stderr
    assert ("NEARDUP_BACKEND" in log) == (trouble != "none"), log
    assert ("Traceback" in log) == (trouble == "url"), log
    assert ("neardup/items/dropped" in log) == (trouble != "url"), log
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    shown = [log.encode(), *(file.read_bytes() for file in files)]
    assert len(files) > 5 or trouble == "url"
    assert SECRET.encode() not in b"".join(shown), log


def test_what_was_carried_out_beside_a_script_that_was_missing_keeps_its_first_answer(
    server: RunningServer,
) -> None:
    swap = "return redis.call('SET', KEYS[1], ARGV[1], 'GET') or 'nothing'"
    client = Server(server.url)
    try:
        client.call(Call(swap, "other", ("0",), bytes))  # so that the server has this script only
        read = Call("return redis.call('GET', KEYS[1]) or 'nothing'", "{a}", (), bytes)
        assert client.send([read, Call(swap, "{a}", ("1",), bytes)])[1] == b"nothing"
    finally:
        client.close()


def test_merged_calls_are_carried_out_where_the_last_of_them_stands(server: RunningServer) -> None:
    script = "redis.call('RPUSH', KEYS[1], unpack(ARGV)) return ARGV"
    visit = Call(script, "told", ("visit of b",), list)
    done = [Call(script, "told", (f"{name} is done",), list, merges=True) for name in "ab"]
    client = Server(server.url)
    try:
        answers = client.send([done[0], visit, done[1]])
        told = client.call(Call("return redis.call('LRANGE', KEYS[1], 0, -1)", "told", (), list))
    finally:
        client.close()
    assert told == [b"visit of b", b"a is done", b"b is done"]
    assert answers == [b"a is done", [b"visit of b"], b"b is done"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("//", "//worker:wrong@", "Correct user and password in its URL"),
        ("/0", "/99", "out of range.*Correct host and database in its URL"),
        ("//", "//worker:Pass%2Fword1@", "no permissions to run.*what its user may do there"),
        (r"127.0.0.1:\d+", "127.0.0.1:1", "does not answer.*Start the server, correct its URL, or"),
    ],
)
def test_a_worker_that_cannot_join_is_told_what_to_correct(
    old: str, new: str, said: str, server: RunningServer
) -> None:
    server.command("ACL", "SETUSER", *USER.split(), "-evalsha")
    with pytest.raises(SettingsError, match=said) as refusal:
        Worker(re.sub(old, new, server.url), key=None)
    assert ("Start the server" in str(refusal.value)) == new.endswith(":1")


def test_a_worker_that_does_not_trust_the_server_is_told_what_to_correct(tmp_path: Path) -> None:
    with running_tls_server(tmp_path) as (server, _):
        said = r"CERTIFICATE_VERIFY_FAILED.*Correct the host in its URL, or .* \?ssl_ca_certs=FILE"
        with pytest.raises(SettingsError, match=said):
            Worker(f"rediss://127.0.0.1:{server.port}/0", key=None)

"""Pages of a large site lie in several shards, and none of them is missed for that."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from itertools import combinations
from typing import Any

import pytest
from fleets import RunningServer, Worker, cluster_url, running_cluster, wait_until
from mock_site import prose
from test_fleet import is_to_compare, near_one_of, shared_page

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from scrapy_neardup.commands import main
from scrapy_neardup.fleet import worker as module
from scrapy_neardup.fleet.client import Server
from scrapy_neardup.fleet.futures import answer_of
from scrapy_neardup.fleet.page_shards import Admission, PageShards
from scrapy_neardup.fleet.protocol import Call, IndexOptions, Questions, ShardOpen, SharedPage

SITE = "https://site.example"
DISTANCE = 3


class Peer:
    """What a worker knows of shards, with a connection of its own."""

    def __init__(
        self, url: str, shard_pages: int, scan_limit: int = 20_000, ttl_ms: int = 0
    ) -> None:
        index = IndexOptions(DISTANCE, DISTANCE + 1, scan_limit, ttl_ms, shard_pages)
        self.asks = Questions("shards", 3, capacity=1000, error_rate=0.01, index=index)
        self.client = Server(url)
        self.shards = PageShards(self.asks, self.ask, self.answer)
        self.meanwhile: list[SharedPage] = []  # come while this worker waits for an answer

    def ask(self, call: Call) -> Future[Any]:
        answer: Future[Any] = Future()
        try:
            answer.set_result(call.read(self.client.send([call])[0]))
        except Exception as error:
            answer.set_exception(error)
        return answer

    async def answer(self, asked: Future[Any]) -> Any:
        if self.meanwhile:
            await self.shards.admit(self.meanwhile.pop(), [])
        return await answer_of(asked)

    def admit(self, page: SharedPage, compared: list[bytes]) -> Admission:
        return asyncio.run(self.shards.admit(page, compared))

    def bring(self, page: SharedPage) -> tuple[SharedPage, list[SharedPage]]:
        """Admit a page; that, and all that it had to be compared with first."""
        compared: list[SharedPage] = []
        while (found := self.admit(page, [one.stamp for one in compared])).near:
            compared += found.near
        assert found.is_complete
        assert found.near is not None
        return found.page, compared


@pytest.fixture
def peer(server: RunningServer) -> Iterator[Callable[..., Peer]]:
    peers: list[Peer] = []

    def make(shard_pages: int = 20, **options: int) -> Peer:
        peers.append(Peer(server.url, shard_pages, **options))
        return peers[-1]

    yield make
    for one in peers:
        one.client.close()


def test_every_page_within_the_distance_is_given_whatever_shard_it_is_in(
    peer: Callable[..., Peer],
) -> None:
    """Against a plain list, by three workers in turn, each of which finds out what is sealed."""
    rng, peers = random.Random(1), [peer(), peer(), peer()]
    centres = [rng.getrandbits(64) for _ in range(40)]
    known: dict[str, SharedPage] = {}
    for number in range(300):
        fingerprint = near_one_of(centres, DISTANCE, rng)
        url, worker = f"{SITE}/{rng.randrange(250)}", rng.randrange(3)
        page, one = shared_page(url, fingerprint, number, worker=worker), peers[worker]
        expected = {other.stamp for other in known.values() if is_to_compare(other, page, DISTANCE)}
        page, compared = one.bring(page)
        assert {other.stamp for other in compared} == expected
        earlier = known.pop(page.kept.page.url, page)
        if earlier.shard != page.shard:
            assert one.client.send([one.asks.forget(earlier)]) == [1]
        known[page.kept.page.url] = page
        if number % 3 == 0:
            forgotten = known.pop(rng.choice(list(known)))
            assert one.client.send([one.asks.forget(forgotten)]) == [1]
    assert len({page.shard for page in known.values()}) > 8


def test_nothing_enters_a_sealed_shard_however_many_leave_it(peer: Callable[..., Peer]) -> None:
    one, other = peer(2), peer(2)
    pages = [one.bring(shared_page(f"{SITE}/{n}", n << 32, 10 * n + 1))[0] for n in range(3)]
    assert [page.shard for page in pages] == [0, 0, 1]
    assert one.client.send([one.asks.forget(page) for page in pages[:2]]) == [1, 1]
    assert other.bring(shared_page(f"{SITE}/4", 4 << 32, 41))[0].shard == 1


def test_a_page_is_looked_for_in_shards_that_another_one_finds_to_be_sealed_meanwhile(
    peer: Callable[..., Peer],
) -> None:
    one, other, rng = peer(2), peer(2), random.Random(1)
    pages = [shared_page(f"{SITE}/{n}", rng.getrandbits(64), 10 * n + 1) for n in range(10)]
    for n, page in enumerate(pages[:9]):
        assert (one if n < 3 else other).bring(page)[1] == []
    twin = shared_page(f"{SITE}/twin", pages[6].kept.page.fingerprint, 111)
    one.meanwhile = [pages[9]]
    assert [found.stamp for found in one.bring(twin)[1]] == [pages[6].stamp]


def test_pages_of_a_sealed_shard_are_forgotten_by_age(peer: Callable[..., Peer]) -> None:
    one, far_apart = peer(2, ttl_ms=86_400_000), (0, 0xFFFF, 0xFFFF0000)
    pages = [
        one.bring(shared_page(f"{SITE}/{n}", fingerprint, 10 * n + 1))[0]
        for n, fingerprint in enumerate(far_apart)
    ]
    page, compared = one.bring(shared_page(f"{SITE}/new", 0, 41))
    assert page.shard == 1
    assert compared == []  # though it is near the first one, of the year 1970
    assert one.client.send([one.asks.status(page) for page in pages[:2]]) == [None, b"u"]


def test_many_pages_that_are_too_old_are_removed_some_at_a_time(peer: Callable[..., Peer]) -> None:
    one, late = peer(1000), peer(1000, ttl_ms=86_400_000)
    pairs = [1 << i | 1 << k for i, k in combinations(range(16), 2)]
    old = [one.bring(shared_page(f"{SITE}/{n}", p, 10 * n + 1))[0] for n, p in enumerate(pairs)]
    now = int(time.time()) // 10 * 10
    for n, left in enumerate((70, 20, 0), start=1):
        _, compared = late.bring(shared_page(f"{SITE}/late/{n}", 0, now + n))
        assert len(compared) == n - 1  # those that came late, too
        told = one.client.send([one.asks.status(page) for page in old])
        assert told.count(b"u") == left


def test_a_shard_whose_server_lost_its_data_is_filled_again(peer: Callable[..., Peer]) -> None:
    one = peer(2)
    for n in range(5):
        last, _ = one.bring(shared_page(f"{SITE}/{n}", n << 32, 10 * n + 1))
    assert last.shard == 2
    assert "OK" in one.client.call(Call("return redis.call('FLUSHALL')", "any", (), str))
    page = shared_page(f"{SITE}/new", 9 << 32, 91)
    with pytest.raises(ShardOpen, match="is open"):
        one.ask(one.asks.look(page)).result()
    assert one.bring(page)[0].shard == 0


def test_a_sealed_shard_with_too_many_entries_leaves_a_page_undecided(
    peer: Callable[..., Peer],
) -> None:
    one, fingerprint = peer(100, scan_limit=100), random.Random(1).getrandbits(64)
    stamps: list[bytes] = []
    for n in range(100):  # of which 64 then are in each tree
        page = shared_page(f"{SITE}/{n}", fingerprint, 10 * n + 1)
        assert one.admit(page, stamps).near == []
        stamps.append(page.stamp)
    for n in (100, 101):  # the first one finds out that the shard is sealed, the next one knows
        found = one.admit(shared_page(f"{SITE}/{n}", fingerprint, 10 * n + 1), stamps)
        assert found.near == []
        assert not found.is_complete
        assert found.page.shard == 1
        assert not found.page.kept.indexed


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of two pages."""
    monkeypatch.setattr(module, "IndexOptions", partial(IndexOptions, shard_pages=2))


@pytest.mark.usefixtures("small_shards")
def test_workers_find_the_pages_of_each_other_in_all_shards(server: RunningServer) -> None:
    one, other = Worker(server.url), Worker(server.url)
    for n in range(9):
        assert one.decide(f"{SITE}/{n}", prose(n, n_words=600)).kind == "new"
    one.close()
    for n in range(9):
        decision = other.decide(f"{SITE}/other/{n}", f"{prose(n, n_words=600)} once more")
        assert decision.kind == "near"
        assert decision.original == f"{SITE}/{n}"
    other.close()


@pytest.mark.usefixtures("small_shards")
def test_a_page_that_changed_leaves_the_shard_of_its_earlier_self(server: RunningServer) -> None:
    one, other = Worker(server.url), Worker(server.url)
    for n in range(5):
        assert one.decide(f"{SITE}/{n}", prose(n)).kind == "new"
    assert one.decide(f"{SITE}/0", prose("changed")).kind == "new"
    one.close()
    assert other.decide(f"{SITE}/copy", prose("changed")).kind == "exact"
    assert other.decide(f"{SITE}/as-it-was", prose(0)).kind == "new"
    other.close()


@pytest.mark.usefixtures("small_shards")
def test_all_shards_of_a_site_are_exported_and_forgotten(
    server: RunningServer, tmp_path: Any
) -> None:
    one = Worker(server.url)
    for n in range(5):
        one.decide(f"{SITE}/{n}", prose(n))
    one.close()
    dump = str(tmp_path / "fleet.dump")
    assert main(["fleet", "export", server.url, "--file", dump]) == 0
    assert main(["fleet", "forget", server.url, "--site", SITE]) == 0
    assert ":p:" not in server.command("KEYS", "*")
    assert server.command("FLUSHALL").startswith("+OK")
    assert main(["fleet", "import", server.url, "--file", dump]) == 0
    other = Worker(server.url)
    assert {other.decide(f"{SITE}/copy/{n}", prose(n)).kind for n in range(5)} == {"exact"}
    other.close()


@pytest.mark.usefixtures("small_shards")
def test_in_a_cluster_several_nodes_hold_the_pages_of_one_site() -> None:
    with running_cluster() as nodes:
        url = cluster_url(nodes)
        one, other = Worker(url), Worker(url)
        for n in range(20):
            assert one.decide(f"{SITE}/{n}", prose(n)).kind == "new"
        one.close()
        holding = [node for node in nodes if ":p:" in node.command("KEYS", "*")]
        assert len(holding) > 1
        for n in range(20):
            assert other.decide(f"{SITE}/copy/{n}", prose(n)).kind == "exact"
        other.close()


@pytest.mark.usefixtures("small_shards")
def test_a_server_that_lost_its_data_is_told_again_what_one_shard_holds(
    server: RunningServer,
) -> None:
    """The rest is kept twice: a message to a sealed shard is refused, and counted."""
    one = Worker(server.url)
    for n in range(5):
        one.decide(f"{SITE}/{n}", prose(n))
    server.command("FLUSHALL")
    wait_until(lambda: one.fleet.n_restored == 1)
    one.decide("https://another.example/", prose("another"))
    one.close()
    assert one.stat("backend/refused") == 3
    other = Worker(server.url)
    kinds = [other.decide(f"{SITE}/copy/{n}", prose(n)).kind for n in range(5)]
    assert kinds == ["exact", "exact", "new", "new", "new"]
    other.close()

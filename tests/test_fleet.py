"""Workers that share a server fetch no URL twice and keep no page twice, and lose none."""

import asyncio
import json
import multiprocessing
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crawls import PagesSpider, crawl, crawl_requests
from fleets import (
    RunningServer,
    Worker,
    bring_twins,
    crawl_beside_others,
    hold_a_page,
    running_server,
    wait_until,
)
from mock_site import MockSite, page, prose
from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler, Scheduler
from scrapy.crawler import Crawler
from scrapy.http import Response

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from scrapy_neardup.detect.decision import Decision
from scrapy_neardup.detect.page_table import PageRow
from scrapy_neardup.detect.templates import WARM
from scrapy_neardup.errors import FleetError, SettingsError
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.fleet import scripts, shared_pages
from scrapy_neardup.fleet.client import Server
from scrapy_neardup.fleet.link import Link
from scrapy_neardup.fleet.protocol import (
    MAX_SLICES,
    N_SHARDS,
    Call,
    IndexOptions,
    Questions,
    SharedPage,
    TooManyEntries,
    filter_slices,
)
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.records import KeptPage
from scrapy_neardup.urls.filters.scalable import share_of
from scrapy_neardup.urls.filters.sizing import classic_rate


def stream(n: int) -> list[tuple[str, str]]:
    """URLs and texts of two sites: new ones, copies, edited ones, short ones, pages that change."""
    rng = random.Random(7)
    pages: list[tuple[str, str]] = []
    for number in range(n):
        url = f"https://{rng.choice(('a', 'b'))}.example/{number}"
        draw = rng.random()
        text = prose(number, n_words=rng.choice((5, 60, 200)))
        if pages and draw < 0.2:
            text = rng.choice(pages)[1]
        elif pages and draw < 0.5:
            words = rng.choice(pages)[1].split()
            words[rng.randrange(len(words))] = "edited"
            text = " ".join(words)
        elif pages and draw < 0.6:
            url = rng.choice(pages)[0]
        pages.append((url, text))
    return pages


def test_one_worker_decides_as_without_a_server(server: RunningServer) -> None:
    alone = State.open(None, make_state_factory(NearDupSettings(boilerplate="keep")), key=5)
    worker = Worker(server.url)
    for url, text in stream(300):
        expected, _ = alone.decide(alone.detector.read(url, text))
        decision = worker.decide(url, text)
        assert (decision.kind, decision.original) == (expected.kind, expected.original), url
    worker.close()


def test_two_workers_in_turn_decide_as_one_would(server: RunningServer) -> None:
    alone = State.open(None, make_state_factory(NearDupSettings(boilerplate="keep")), key=5)
    workers = [Worker(server.url) for _ in range(2)]
    pages = dict(stream(300))  # each URL once, as a shared filter has it
    for number, (url, text) in enumerate(pages.items()):
        expected, _ = alone.decide(alone.detector.read(url, text))
        decision = workers[number % 2].decide(url, text)
        assert decision.is_duplicate == expected.is_duplicate, url
        assert decision.kind == expected.kind
    for worker in workers:
        worker.close()


def test_of_twins_brought_at_the_same_moment_one_is_kept(server: RunningServer) -> None:
    context = multiprocessing.get_context("spawn")
    gate, answers = context.Barrier(3), context.Queue()
    processes = [
        context.Process(target=bring_twins, args=(server.url, number, gate, answers))
        for number in range(3)
    ]
    for process in processes:
        process.start()
    found = [answers.get(timeout=300)[1] for _ in processes]
    for process in processes:
        process.join()
    kept = Counter(page for one in found for page in one)
    assert kept == dict.fromkeys(range(200), 1)


def test_a_marked_url_is_seen_by_the_others(server: RunningServer) -> None:
    one, other = Worker(server.url), Worker(server.url)
    one.fleet.mark(b"site.example/1")
    one.close()
    assert other.seen(b"site.example/1")
    assert not other.seen(b"site.example/2")
    other.close()


def test_the_filter_on_the_server_grows_and_keeps_its_error_rate(server: RunningServer) -> None:
    asks = Questions("grows", 3, capacity=1600, error_rate=0.01, index=IndexOptions(6, 7, 100))
    client = Server(server.url)
    known = [b"site.example/%d" % number for number in range(2000)]
    new = [b"site.example/new/%d" % number for number in range(5000)]
    for key in known:  # all of one site: one shard, which has room for 100 at first
        client.send([asks.mark(key)])
    assert client.send([asks.seen(key) for key in known]) == [1] * 2000
    wrong = sum(client.send([asks.seen(key) for key in new]))
    assert wrong < 70  # 50 expected at most; 70 is 2.8 standard deviations above
    assert client.n_round_trips == 2000 + 2 + 2  # two scripts were sent in full at first
    client.close()


def test_the_servers_filter_takes_a_third_of_the_error_rate(server: RunningServer) -> None:
    worker = Worker(server.url, url_error_rate=0.09, url_capacity=16_000)
    for number in range(15_000):  # all of one site: four slices, each filled
        worker.fleet.mark(b"site.example/%d" % number)

    async def ask() -> list[bool]:
        new = [b"site.example/new/%d" % number for number in range(5000)]
        return await asyncio.gather(*map(worker.fleet.seen, new))

    wait_until(lambda: not worker.fleet._link._waiting)
    wrong = sum(asyncio.run(ask()))
    worker.close()
    assert wrong < 200  # 150 expected at most; 200 is 4 standard deviations above


def aged(server: RunningServer, name: str, parts: int) -> None:
    """The server's URLs as they will be when so many eighths of their time to live have gone by."""
    client = Server(server.url)
    script = (
        "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do "
        "local head, part, rest = string.match(key, '^(.*:t)(%d+)(.*)$') "
        "redis.call('RENAME', key, head .. string.format('%.0f', part - ARGV[2]) .. rest) end"
    )
    client.call(Call(script, name, (f"{{{name}:u:*}}:t*", parts), lambda answer: answer))
    client.close()


def test_urls_are_forgotten_when_their_time_is_over(server: RunningServer) -> None:
    ttl_ms = 80 * 86_400_000  # so that no eighth of it ends meanwhile
    options = IndexOptions(6, 7, 100, ttl_ms)
    asks = Questions("ttl", 3, capacity=100, error_rate=0.01, index=options)
    client = Server(server.url)
    keys = [b"site.example/%d" % number for number in range(40)]  # of more slices than one
    assert client.send([asks.mark(key) for key in keys]) == [0] * 40
    aged(server, "ttl", 7)
    assert client.send([asks.seen(key) for key in keys]) == [1] * 40
    assert client.call(asks.mark(keys[0]))  # once more, as of now
    aged(server, "ttl", 1)
    assert client.send([asks.seen(key) for key in keys]) == [1] + [0] * 39
    client.close()


def test_what_is_forgotten_by_age_leaves_the_server(server: RunningServer) -> None:
    ttl_ms = 80 * 86_400_000
    asks = Questions("ttl", 3, capacity=1, error_rate=0.01, index=IndexOptions(6, 7, 100, ttl_ms))
    client = Server(server.url)
    for number in range(9):
        client.call(asks.mark(b"site.example/%d" % number))
    script = (
        "local found = {} for _, key in ipairs(redis.call('KEYS', ARGV[1])) do "
        "found[#found + 1] = redis.call('PTTL', key) end return found"
    )
    rests = client.call(Call(script, "ttl", ("{ttl:u:*}:t*",), lambda answer: answer))
    assert len(rests) >= 3
    assert all(ttl_ms * 7 // 8 - 60_000 < rest <= ttl_ms for rest in rests)
    client.close()


def test_pages_are_forgotten_when_their_time_is_over(server: RunningServer) -> None:
    one, other = (Worker(server.url, ttl=10.0) for _ in range(2))
    now = time.time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scrapy_neardup.detect.detector.time.time", lambda: now - 11 * 86_400)
        assert one.decide("https://site.example/old", prose(1)).kind == "new"
        patch.setattr("scrapy_neardup.detect.detector.time.time", lambda: now - 9 * 86_400)
        assert one.decide("https://site.example/young", prose(2)).kind == "new"
    assert other.decide("https://site.example/1", prose(1) + " more").kind == "new"
    assert other.decide("https://site.example/2", prose(2) + " more").kind == "near"
    third = Worker(server.url, ttl=10.0)
    found = third.decide("https://site.example/3", prose(1) + " more")
    assert (found.kind, found.original) == ("exact", "https://site.example/1")
    for worker in (one, other, third):
        worker.close()


def test_workers_that_forget_at_other_times_are_no_fleet(server: RunningServer) -> None:
    one = Worker(server.url, ttl=10.0)
    with pytest.raises(FleetError, match=r"ttl.*10.*20|ttl.*20.*10"):
        Worker(server.url, ttl=20.0)
    one.close()


def test_no_slice_exceeds_what_a_value_may_hold() -> None:
    sizes = [one.size_bits for one in filter_slices(10_000_000, 1e-9)]
    assert sizes == sorted(sizes)
    assert sizes[-1] < 2**32


@pytest.mark.parametrize("capacity", [1, 1_000_000, 3 * 10**9, 2**40])
def test_a_shard_has_room_for_the_urls_of_a_large_site(capacity: int) -> None:
    slices = filter_slices(-(-capacity // N_SHARDS), 1e-6 / 3)
    least = min(10**9, 10 * capacity)
    assert sum(one.capacity for one in slices) > least
    for n, one in enumerate(slices):
        share = 1e-6 / 3 * share_of(n)
        assert classic_rate(one.size_bits / one.capacity, one.n_hashes) <= share * 1.001
        assert 0 < one.size_bits < 2**32


def test_with_a_huge_capacity_urls_are_remembered(server: RunningServer) -> None:
    asks = Questions("huge", 3, capacity=3 * 10**9, error_rate=1e-6, index=IndexOptions(6, 7, 100))
    # The first clears half a gigabyte: on a busy machine that takes longer than a worker waits.
    client = Server(f"{server.url}?socket_timeout=60")
    assert client.call(asks.mark(b"site.example/1"))
    assert client.call(asks.seen(b"site.example/1"))
    assert not client.call(asks.seen(b"site.example/2"))
    client.close()


def test_a_filter_of_which_the_server_evicted_a_part_keeps_its_error_rate(
    server: RunningServer,
) -> None:
    worker = Worker(server.url, url_capacity=16_000)
    keys = [b"site.example/%d" % number for number in range(3_000)]
    for key in keys[:1_000]:
        worker.fleet.mark(key)
    wait_until(lambda: worker.seen(keys[999]))  # questions may come before what is told
    shard = worker.shard_of(keys[0])
    n_bits = server.command("BITCOUNT", f"{shard}:1")
    server.command("DEL", shard)  # of the slices; the bits stay
    for key in keys[1_000:2_000]:
        worker.fleet.mark(key)
    worker.close()
    assert int(server.command("BITCOUNT", f"{shard}:1")[1:]) < 1.1 * int(n_bits[1:])


def test_where_the_server_evicted_which_pages_were_kept_none_is_a_reason_to_drop(
    server: RunningServer,
) -> None:
    one, other = Worker(server.url), Worker(server.url)
    one.decide("https://site.example/kept", prose(1))
    under_way = one.decide("https://site.example/way", prose(2), keep=False)
    (sets,) = (key for key in server.command("KEYS", "*").split() if key.endswith(":open"))
    server.command("DEL", sets)
    assert other.decide("https://site.example/2", prose(2)).kind == "new"
    assert other.decide("https://site.example/1", prose(1)).kind == "new"
    one.settle(under_way, kept=False)
    one.close()
    assert other.decide("https://site.example/3", prose(1)).kind == "exact"
    other.close()


def test_urls_that_a_full_filter_does_not_take_are_counted(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(server.url)
    server.command("HSET", worker.shard_of(b"site.example/1"), "slices", str(MAX_SLICES))
    server.command("HSET", worker.shard_of(b"site.example/1"), "newest", str(10**12))
    for number in range(3):
        worker.fleet.mark(b"site.example/%d" % number)
    worker.close()
    assert worker.stat("backend/refused") == 3
    assert worker.stat("backend/lost") == 0
    assert "a shard of the URL filter is full" in caplog.text


@pytest.mark.parametrize("room", [6, 1])
@pytest.mark.parametrize("distance", [0, 1, 3, 6])
def test_every_page_within_the_distance_is_given_and_no_other(
    distance: int, room: int, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a plain list: pages that come, come again with other words, and are forgotten.

    room: entries that a node holds, one so that all levels are used.
    """
    for name in ("ADMIT", "FORGET"):
        script = getattr(scripts, name)
        assert "14 * 64, 14 * 6" in script
        monkeypatch.setattr(
            scripts, name, script.replace("14 * 64, 14 * 6", f"14 * 4, 14 * {room}")
        )
    rng, client = random.Random(distance), Server(server.url)
    options = IndexOptions(distance, distance + 1, 20_000)
    asks = Questions("oracle", 3, capacity=1000, error_rate=0.01, index=options)
    centres = [rng.getrandbits(64) for _ in range(40)]
    known: dict[str, SharedPage] = {}
    for number in range(500):
        fingerprint = near_one_of(centres, distance, rng)
        own = rng.choice(centres) if number % 2 else fingerprint
        url, worker = f"https://site.example/{rng.randrange(400)}", rng.randrange(4)
        page = shared_page(url, fingerprint, number, own, worker)
        (given,) = client.send([asks.admit(page)])
        expected = {one.stamp for one in known.values() if is_to_compare(one, page, distance)}
        read = asks.admit(page).read(given)
        assert {one.stamp for one in read} == expected
        assert client.send([asks.admit(page, list(expected))])[0] == [0]
        known[page.kept.page.url] = page
        if number % 3 == 0:
            forgotten = known.pop(rng.choice(list(known)))
            assert client.send([asks.forget(forgotten)]) == [1]
            assert client.send([asks.forget(forgotten), asks.status(forgotten)]) == [0, None]
    client.close()


def near_one_of(centres: list[int], distance: int, rng: random.Random) -> int:
    """A fingerprint within the distance of one of some, or up to two bits farther."""
    fingerprint = rng.choice(centres)
    for bit in rng.sample(range(64), rng.randrange(distance + 3)):
        fingerprint ^= 1 << bit
    return fingerprint


def shared_page(
    url: str, fingerprint: int, number: int, own: int | None = None, worker: int | None = None
) -> SharedPage:
    """A page as a worker brings it, by default one of its own; of every tenth only exact repeats
    count.

    own: the fingerprint of its own part.
    """
    sketch = np.full(13, number, dtype=np.uint64)
    sketch[0] = fingerprint if own is None else own
    digest = (number % 97).to_bytes(16, "big")
    page = PageRow(fingerprint, sketch, digest, 1, url, float(number))
    stamp = (number if worker is None else worker).to_bytes(4, "big") + number.to_bytes(4, "big")
    return SharedPage(stamp, KeptPage(page, bool(number % 10)))


def is_to_compare(one: SharedPage, page: SharedPage, distance: int) -> bool:
    """Whether a known page may be what another repeats."""
    (one_row, indexed), (row, also) = one.kept, page.kept
    found_by = [(r.fingerprint, int(r.sketch[0])) for r in (one_row, row)]
    near = min((a ^ b).bit_count() for a, b in product(*found_by)) <= distance and indexed and also
    exact = not indexed and one_row.digest == row.digest
    return one_row.url == row.url or ((near or exact) and one.worker != page.worker)


def test_too_many_entries_leave_a_page_to_exact_comparison(server: RunningServer) -> None:
    asks = Questions("many", 3, capacity=1000, error_rate=0.01, index=IndexOptions(6, 7, 100))
    client, rng = Server(server.url), random.Random(1)
    fingerprint, stamps = rng.getrandbits(64), []
    for number in range(65):  # of which 64 then are in seven trees
        page = shared_page(f"https://site.example/{number}", fingerprint, 10 * number + 1)
        assert client.send([asks.admit(page, stamps)]) == [[0]]
        stamps.append(page.stamp)
    page = shared_page("https://site.example/new", fingerprint, 3)
    (answer,) = client.send([asks.admit(page, stamps)])
    with pytest.raises(TooManyEntries, match="more than 100 fingerprints"):
        asks.admit(page).read(answer)
    assert client.send([asks.keep(page), asks.status(page)]) == [1, b"k"]
    told = shared_page("https://site.example/told", fingerprint, 13)
    link = Link(client.send, Call("return 1", "beat", (), int))
    link.tell(asks.admit(told, stamps))
    link.close(30)
    assert link.n_refused == 0  # it was admitted
    assert client.send([asks.status(told)]) == [b"u"]
    client.close()


def test_a_page_of_a_large_site_adds_less_than_two_kb_to_the_servers_file(tmp_path: Path) -> None:
    """Pages with 488 bytes of sketches and two fingerprints."""
    options = {"appendonly": "yes", "auto_aof_rewrite_percentage": 0, "dir": tmp_path}
    asks = Questions("large", 3, capacity=1, error_rate=0.01, index=IndexOptions(6, 7, 20_000))
    rng, written = random.Random(1), []
    with running_server(**options) as running:
        client = Server(running.url)
        for number in range(0, 12_000, 500):
            pages = [large_page(rng, n) for n in range(number, number + 500)]
            assert client.send([asks.admit(page) for page in pages]) == [[0]] * 500
            assert client.send([asks.keep(page) for page in pages]) == [1] * 500
            written.append(sum(file.stat().st_size for file in tmp_path.rglob("*.aof")))
        client.close()
    assert written[-1] - written[-3] < 2000 * 1000


def large_page(rng: random.Random, number: int) -> SharedPage:
    sketch = np.frombuffer(rng.randbytes(488), dtype=np.uint64)
    url = f"https://site.example/{number:054}"
    page = PageRow(rng.getrandbits(64), sketch, rng.randbytes(16), 1, url, float(number))
    return SharedPage(number.to_bytes(8, "big"), KeptPage(page, True))


def test_what_is_asked_at_once_shares_a_round_trip(server: RunningServer) -> None:
    worker = Worker(server.url)

    async def ask() -> list[bool]:
        keys = [b"site%d.example/1" % number for number in range(100)]
        for key in keys[:50]:
            worker.fleet.mark(key)
        return await asyncio.gather(*(worker.fleet.seen(key) for key in keys))

    asyncio.run(ask())
    assert asyncio.run(ask()) == [True] * 50 + [False] * 50
    worker.close()
    assert worker.stat("backend/asked") == 200
    assert worker.stat("backend/round_trips") < 20


def test_a_page_whose_items_were_dropped_is_no_reason_to_drop(server: RunningServer) -> None:
    one, other = Worker(server.url), Worker(server.url)
    brought = one.decide("https://site.example/1", prose(1), keep=False)
    assert brought.page_id is not None
    one.state.drop(brought.page_id)
    one.fleet.pages.drop(brought.page_id)
    one.close()
    assert other.decide("https://site.example/2", prose(1)).kind == "new"
    other.close()


def test_a_page_of_a_worker_that_died_is_overtaken(server: RunningServer) -> None:
    dead, other, third = (Worker(server.url) for _ in range(3))
    dead.decide("https://site.example/1", prose(1), keep=False)
    dead.close()
    server.command("DEL", dead.sign_of_life)
    assert other.decide("https://site.example/2", prose(1)).kind == "new"
    assert other.stat("backend/overtaken") == 1
    other.close()
    decision = third.decide("https://site.example/3", prose(1))
    assert (decision.kind, decision.original) == ("exact", "https://site.example/2")
    third.close()


def test_all_undecided_pages_near_one_are_waited_for_together(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    async def pause(seconds: float) -> None:
        rests.append(seconds)
        await asyncio.sleep(seconds)

    monkeypatch.setattr(shared_pages, "PATIENCE_S", 1.0)
    monkeypatch.setattr(shared_pages, "pause", pause)
    one, other = Worker(server.url), Worker(server.url)
    for number in range(6):
        one.decide(f"https://site.example/{number}", f"{prose(1)} {number}.50 EUR", keep=False)
    assert other.decide("https://site.example/x", f"{prose(1)} 99.50 EUR").kind == "new"
    assert other.stat("backend/overtaken") == 6
    assert sum(rests) < 2.0
    one.close()
    other.close()


def test_a_worker_that_was_killed_takes_no_page_with_it(server: RunningServer) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=hold_a_page, args=(server.url, ready))
    process.start()
    assert ready.wait(60)
    process.kill()
    process.join()
    other = Worker(server.url)
    assert other.decide("https://site.example/2", prose(1)).kind == "new"
    assert other.stat("backend/overtaken") == 1
    other.close()


@pytest.mark.parametrize("kept", [True, False])
def test_items_of_a_worker_that_lives_are_waited_for(kept: bool, server: RunningServer) -> None:
    one, other = Worker(server.url), Worker(server.url)

    async def bring_twins() -> Decision:
        held = await one.judge("https://site.example/1", prose(1), keep=False)
        waiting = asyncio.ensure_future(other.judge("https://site.example/2", prose(1)))
        while other.stat("backend/asked") < 10:  # of these four looks at the page
            await one.fleet.seen(b"site.example/1")
            assert not waiting.done()
        one.settle(held, kept)
        return await waiting

    decision = asyncio.run(bring_twins())
    assert decision.kind == ("exact" if kept else "new")
    assert other.stat("backend/overtaken") == 0
    one.close()
    other.close()


def test_a_worker_gives_signs_of_life_again_and_again(server: RunningServer) -> None:
    worker = Worker(server.url)
    for _ in range(2):
        wait_until(lambda: server.command("EXISTS", worker.sign_of_life) == ":1\r\n")
        server.command("DEL", worker.sign_of_life)
    worker.close()


def test_a_url_that_two_workers_fetched_at_once_is_kept_once(server: RunningServer) -> None:
    one, other, again = (Worker(server.url) for _ in range(3))
    url = "https://site.example/1"
    assert one.decide(url, prose(1), once=True).kind == "new"
    decision = other.decide(url, prose(1), once=True)
    assert (decision.kind, decision.original) == ("exact", url)
    decision = other.decide(url, prose(1), once=True)  # as after a redirect or a retry
    assert (decision.kind, decision.original) == ("exact", url)
    assert other.decide(url, prose(2), once=True).kind == "new"  # with other words
    assert again.decide(url, prose(1)).kind == "new"  # read again on purpose
    for worker in (one, other, again):
        worker.close()


def test_a_page_of_which_a_copy_was_dropped_here_is_still_the_other_workers(
    server: RunningServer,
) -> None:
    one, other = Worker(server.url), Worker(server.url)
    url, copy = "https://site.example/1", "https://site.example/copy"
    assert one.decide(url, prose(1), once=True).kind == "new"
    assert other.decide(copy, prose(1), once=True).original == url
    for _ in range(2):
        decision = other.decide(url, prose(1), once=True)
        assert (decision.kind, decision.original) == ("exact", url)
    for worker in (one, other):
        worker.close()


def test_workers_of_another_specification_are_refused(server: RunningServer) -> None:
    Worker(server.url).close()
    with pytest.raises(FleetError, match="distance is 6 there and 3 here"):
        Worker(server.url, distance=3)


def shown_text(response: Response) -> str:
    """An extractor."""
    return response.text


@pytest.mark.parametrize(
    ("setting", "there", "here"),
    [
        ("url_capacity", 1_000_000, 100_000),
        ("url_error_rate", 1e-6, 1e-3),
        ("similarity", 0.9, 0.5),
        ("min_words", 50, 7),
        ("confirm_distance", 40, None),
        ("boilerplate", "learn", "keep"),
        ("facts", "compare", "ignore"),
        ("compare", "item", "page"),
        ("item_fields", (), ("title", "body")),
        ("ignore_fields", (), ("position",)),
        ("index_admit", "novel", "all"),
        ("extractor", None, shown_text),
        ("extractor", None, "project.text.main"),
    ],
)
def test_a_worker_that_would_drop_other_pages_is_refused(
    setting: str, there: Any, here: Any, server: RunningServer
) -> None:
    Worker(server.url, **{setting: there}).close()
    Worker(server.url, **{setting: there}).close()
    if callable(here):
        shown = repr(f"{here.__module__}.{here.__qualname__}")
    else:
        shown = repr(here) if isinstance(here, (str, int, float)) else repr(str(here))
    with pytest.raises(FleetError, match=rf"{setting} is .* there and {re.escape(shown)} here"):
        Worker(server.url, **{setting: here})


def test_a_worker_may_do_something_else_with_the_same_duplicates(server: RunningServer) -> None:
    Worker(server.url).close()
    Worker(server.url, action="tag", engine="numpy", template_mb=7, ledger="off").close()


def test_without_key_the_fleet_draws_one(server: RunningServer) -> None:
    one, other = Worker(server.url, key=None), Worker(server.url, key=None)
    assert one.fleet.key == other.fleet.key != 0
    one.close()
    other.close()


def test_without_key_and_server_no_fleet_begins() -> None:
    with pytest.raises(SettingsError, match="NEARDUP_KEY"):
        Worker("redis://127.0.0.1:1/0", key=None)


def test_a_second_crawl_fetches_and_keeps_nothing_twice(
    server: RunningServer, mock_site: MockSite
) -> None:
    settings = {"NEARDUP_BACKEND": server.url, "CONCURRENT_REQUESTS": 4}
    first = crawl_requests(mock_site, "/page/1", "/page/2", "/page/3", settings=settings)
    assert len(first.items) == 3
    second = crawl_requests(
        mock_site, "/page/1", "/copy/2", "/near/3", "/page/4", settings=settings
    )
    assert second.urls == [mock_site.url("/page/4")]
    assert second.stat("backend/seen") == 1
    assert second.stat("items/dropped") == 2
    assert mock_site.gets("/page/1") == 1
    assert second.stat("backend/unanswered") == second.stat("backend/lost") == 0


@pytest.mark.parametrize("other", ["copy", "page"])
def test_two_crawls_at_once_keep_each_page_once(
    other: str, server: RunningServer, mock_site: MockSite
) -> None:
    context = multiprocessing.get_context("spawn")
    gate, answers = context.Barrier(2), context.Queue()
    port = int(mock_site.root.rpartition(":")[2])
    processes = [
        context.Process(
            target=crawl_beside_others,
            args=(server.url, port, [f"/{kind}/{n}" for n in range(40)], gate, answers),
        )
        for kind in ("page", other)
    ]
    for process in processes:
        process.start()
    kept = [path for _ in processes for path in answers.get(timeout=300)]
    for process in processes:
        process.join()
    assert Counter(path.split("/")[2] for path in kept) == {str(n): 1 for n in range(40)}


class FollowsToADeadEnd(PagesSpider):
    """Finds on every page a link that never answers."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield Request(response.urljoin("/dead"), errback=lambda failure: None)


class FleetsScheduler(BaseScheduler):
    """A scheduler that is not Scrapy's, as those of fleets are; here on one worker's queue."""

    def __init__(self, queue: Scheduler) -> None:
        self.queue = queue

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "FleetsScheduler":
        return cls(Scheduler.from_crawler(crawler))

    def open(self, spider: Spider) -> Any:
        return self.queue.open(spider)

    def has_pending_requests(self) -> bool:
        return self.queue.has_pending_requests()

    def enqueue_request(self, request: Request) -> bool:
        return self.queue.enqueue_request(request)

    def next_request(self) -> Request | None:
        return self.queue.next_request()


@pytest.mark.parametrize(("scheduler", "fetched"), [(Scheduler, 2), (FleetsScheduler, 1)])
def test_a_page_waits_for_its_links_unless_the_queue_is_the_fleets(
    scheduler: type,
    fetched: int,
    server: RunningServer,
    mock_site: MockSite,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {"NEARDUP_BACKEND": server.url, "SCHEDULER": scheduler}
    for _ in range(2):
        crawl(
            FollowsToADeadEnd,
            settings,
            seed=mock_site.url("/page/seed"),
            requests=lambda: iter([Request(mock_site.url("/page/1"))]),
        )
    assert mock_site.gets("/page/1") == fetched
    is_warned = "requests taken by a worker that is killed are lost" in caplog.text
    assert is_warned == (scheduler is not Scheduler)


@pytest.mark.parametrize("has_job", [True, False])
def test_a_worker_whose_queue_could_be_lost_with_its_folder_says_so(
    server: RunningServer,
    mock_site: MockSite,
    tmp_path: Path,
    has_job: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    job = {"JOBDIR": str(tmp_path)} if has_job else {}
    crawl(FollowsToADeadEnd, {"NEARDUP_BACKEND": server.url, **job}, seed=mock_site.url("/page/1"))
    assert (f"keeps its queue in {tmp_path}" in caplog.text) == has_job


def test_the_example_beside_scrapy_redis_keeps_each_page_once(
    server: RunningServer, mock_site: MockSite, tmp_path: Path
) -> None:
    pytest.importorskip("scrapy_redis", reason="scrapy-redis is not installed")
    links = [mock_site.url(f"/{kind}/{n}") for n in range(20) for kind in ("page", "copy")]
    root = mock_site.add("/root", page(prose("root"), *links))
    example = Path(__file__).resolve().parents[1] / "docs" / "examples" / "scrapy_redis_fleet.py"
    command = [sys.executable, str(example), server.url, root, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    files = sorted(tmp_path.glob("worker-*.jsonl"))
    kept = [json.loads(line)["url"] for file in files for line in file.read_text().splitlines()]
    texts = Counter(url.rpartition("/")[2] for url in set(kept))
    assert texts == {"root": 1} | {str(n): 1 for n in range(20)}, done.stderr
    assert not [
        hit for hit, count in mock_site.hits.items() if count > 1 and mock_site.url(hit[1]) in links
    ]


def templated(number: int, edited: str = "") -> str:
    """A page of a site whose template is nine tenths of each."""
    chrome = [prose(f"chrome {line}", n_words=20) for line in range(60)]
    return "\n".join([*chrome[:30], prose(number, n_words=120) + edited, *chrome[30:]])


@pytest.mark.parametrize("n_known", [1, 4, 8])
def test_a_worker_new_to_a_site_knows_the_templates_that_others_learnt(
    n_known: int, server: RunningServer
) -> None:
    alone = State.open(None, make_state_factory(NearDupSettings()), key=5)
    one, other = (Worker(server.url, boilerplate="learn") for _ in range(2))
    for number in range(n_known):
        url, text = f"https://site.example/{number}", templated(number)
        assert alone.decide(alone.detector.read(url, text))[0].kind == "new"
        assert one.decide(url, text).kind == "new"
    one.close()
    for number, text in enumerate([templated(100), templated(0, " edited"), templated(101)]):
        url = f"https://site.example/more/{number}"
        expected, _ = alone.decide(alone.detector.read(url, text))
        is_near = number == 1 and n_known >= WARM
        assert other.decide(url, text).kind == expected.kind == ("near" if is_near else "new")
    other.close()


def test_near_pages_brought_at_once_on_a_new_site_are_told(server: RunningServer) -> None:
    workers = [Worker(server.url, boilerplate="keep") for _ in range(2)]

    async def bring_all() -> list[Decision]:
        brought = (
            worker.judge(
                f"https://site.example/{edit}", prose(1, n_words=600) + f" edit{chr(97 + edit)}"
            )
            for edit, worker in enumerate(workers * 4)
        )
        return await asyncio.gather(*brought)

    decisions = asyncio.run(bring_all())
    assert sorted(decision.kind for decision in decisions) == ["near"] * 7 + ["new"]
    for worker in workers:
        worker.close()

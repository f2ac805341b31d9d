"""A server that loses the fleet's secret neither splits the fleet silently nor keeps anyone out."""

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from fleets import RunningServer, Worker, running_server, wait_until
from mock_site import prose

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from scrapy_neardup.errors import FleetError, SettingsError
from scrapy_neardup.fleet import worker as module

FLEET = "{neardup}:fleet"


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    """To be closed at the end."""
    open_ones: list[Worker] = []
    yield open_ones
    for worker in open_ones:
        worker.close()


def text(seed: int | str) -> str:
    """So long that one word more is near under any secret that a fleet may draw."""
    return prose(seed, 4000)


def is_joined(server: RunningServer) -> bool:
    return server.command("EXISTS", FLEET) == ":1\r\n"


def test_a_fleet_whose_server_lost_its_data_stays_one_and_tells_it_again(
    server: RunningServer, workers: list[Worker], caplog: pytest.LogCaptureFixture
) -> None:
    one, other = Worker(server.url, key=None), Worker(server.url, key=None)
    workers += [other]
    for number in range(5):
        assert one.decide(f"https://site.example/{number}", text(number)).kind == "new"
    assert other.decide("https://site.example/other", text("other")).kind == "new"
    under_way = one.decide("https://site.example/way", text("way"), keep=False)
    assert one.decide("https://site.example/short", "a few words").kind == "too-short"
    server.command("FLUSHALL")
    wait_until(lambda: is_joined(server))
    late = Worker(server.url, key=None)
    workers += [late]
    assert late.fleet.key == one.fleet.key
    wait_until(lambda: one.fleet._membership.lost_data and other.fleet._membership.lost_data)
    assert one.decide("https://site.example/0", text(0)).kind == "new"  # as it is read again
    assert other.decide("https://site.example/other", text("other")).kind == "new"
    one.settle(under_way, kept=True)
    one.close()
    for number in [*range(5), "way", "other"]:
        assert late.decide(f"https://site.example/{number}/copy", text(number)).kind == "exact"
        near = text(number) + " more"
        assert late.decide(f"https://site.example/{number}/near", near).kind == "near"
    assert late.decide("https://site.example/short/copy", "a few words").kind == "exact"
    assert one.stat("backend/restored") == 1
    assert one.stat("backend/left") == one.stat("backend/lost") == 0
    assert "lost what the fleet under NEARDUP_BACKEND_PREFIX='neardup'" in caplog.text


@pytest.mark.parametrize("closing_s", [0.0, 1.0])
def test_what_a_server_is_told_again_does_not_hold_the_loop_and_is_counted_where_time_is_up(
    closing_s: float, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSING_S", closing_s)
    worker, n_told = Worker(server.url), []

    async def decide_and_close() -> None:
        await worker.judge("https://site.example/last", prose("last"))
        closing = asyncio.ensure_future(worker.fleet.close())
        while not closing.done():
            n_told.append(len(worker.fleet._link._waiting))
            await asyncio.sleep(0)

    for number in range(150):
        worker.decide(f"https://site.example/{number}", prose(number))
    server.command("FLUSHALL")
    wait_until(lambda: worker.fleet.n_restored == 1)
    server.kill()
    asyncio.run(decide_and_close())
    assert max(later - n for n, later in pairwise([0, *n_told])) < 100
    assert 300 <= worker.stat("backend/lost") <= 310


def test_a_worker_that_finds_another_fleet_says_so_and_goes_on_alone(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    one = Worker(server.url, key=None)
    assert one.decide("https://site.example/1", prose(1)).kind == "new"
    Worker(server.url, key=None, backend_prefix="other").close()
    server.command("COPY", "{other}:fleet", FLEET, "REPLACE")
    assert not one.seen(b"site.example/1")
    assert one.stat("backend/unanswered") == 1
    n_keys = server.command("DBSIZE")
    one.fleet.mark(b"site.example/1")
    assert one.decide("https://site.example/2", prose(2)).kind == "new"
    assert one.decide("https://site.example/3", prose(2)).kind == "exact"
    one.close()
    assert server.command("DBSIZE") == n_keys
    assert one.stat("backend/left") == 1
    assert one.stat("backend/lost") > 0
    messages = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    (message,) = [m for m in messages if "has left its fleet and goes on alone" in m]
    assert "sketch.key is" in message
    assert "with a new NEARDUP_STATE_DIR" in message


def test_a_worker_that_left_joins_again_when_it_is_started_again(server: RunningServer) -> None:
    one = Worker(server.url, key=None)
    Worker(server.url, key=None, backend_prefix="other").close()
    server.command("COPY", "{other}:fleet", FLEET, "REPLACE")
    one.seen(b"site.example/1")
    one.close()
    again, other = Worker(server.url, key=None), Worker(server.url, key=None)
    assert again.decide("https://site.example/1", prose(1)).kind == "new"
    assert other.decide("https://site.example/2", prose(1)).kind == "exact"
    again.close()
    other.close()
    assert again.stat("backend/left") == again.stat("backend/unanswered") == 0


def test_a_worker_that_began_without_the_server_leaves_a_fleet_of_other_settings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running_server(appendonly="yes", dir=tmp_path) as server:
        Worker(server.url).close()
        server.kill()
        late = Worker(server.url, similarity=0.5)
        server.start()
        wait_until(lambda: late.fleet._link.has_left)
        late.close()
    assert late.stat("backend/left") == 1
    assert "similarity is 0.88 there and 0.5 here" in caplog.text


def test_a_worker_that_began_without_the_server_founds_the_fleet_when_it_is_there(
    server: RunningServer, workers: list[Worker]
) -> None:
    server.kill()
    early = Worker(server.url)
    server.start()
    wait_until(lambda: is_joined(server))
    with pytest.raises(FleetError, match="min_words is 20 there and 7 here"):
        Worker(server.url, min_words=7)
    workers += [Worker(server.url), early]


@pytest.mark.parametrize("options", [("maxmemory", "1"), ("min-replicas-to-write", "1")])
def test_a_worker_joins_a_fleet_whose_server_takes_no_writes(
    options: tuple[str, str], server: RunningServer, workers: list[Worker]
) -> None:
    one = Worker(server.url, key=None)
    one.fleet.mark(b"site.example/1")
    assert one.decide("https://site.example/1", prose(1)).kind == "new"
    one.close()
    assert server.command("CONFIG", "SET", *options).startswith("+OK")
    late = Worker(server.url, key=None)
    workers += [late]
    assert late.fleet.key == one.fleet.key
    assert late.seen(b"site.example/1")


def test_the_first_worker_of_a_fleet_says_why_it_cannot_begin_one() -> None:
    with running_server(maxmemory="1") as server:
        with pytest.raises(SettingsError, match="used memory > 'maxmemory'"):
            Worker(server.url, key=None)
        Worker(server.url).close()  # with a key of its own it goes on alone


def test_workers_that_bring_their_key_along_take_no_worker_without(server: RunningServer) -> None:
    Worker(server.url).close()
    with pytest.raises(FleetError, match=r"have NEARDUP_KEY set\. Set it to the same"):
        Worker(server.url, key=None)
    with pytest.raises(FleetError, match=r"fingerprint\.key is"):
        Worker(server.url, key=6)


def test_a_worker_of_a_version_that_stores_something_else_is_refused(
    server: RunningServer, workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    workers.append(Worker(server.url))
    known = module.LAYOUT
    monkeypatch.setattr(module, "LAYOUT", 99)
    with pytest.raises(FleetError, match=f"layout is {known} there and 99 here"):
        Worker(server.url)


def test_of_workers_that_begin_at_once_all_have_the_same_secret(server: RunningServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda _: Worker(server.url, key=None), range(8)))
    assert len({worker.fleet.key for worker in started}) == 1
    for worker in started:
        worker.close()

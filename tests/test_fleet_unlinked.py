"""Pages that no worker of a fleet finds linked any more are gone; in doubt none is."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleets import RunningServer, Worker, cluster_url, hostile_server, running_cluster, wait_until
from mock_site import MockSite, page, prose
from scrapy.http import Response
from test_crawl_recrawl import Several, Shop, add_sections, add_shop, found, product
from test_crawl_revisits import DAY, Clock, clock

pytest.importorskip("redis", reason="the extra `redis` is not installed")

import redis
from test_fleet_change_log import Listed
from test_fleet_hostile_server import ANSWERS
from test_fleet_recrawl import FLEET_SCHEDULER, Hands, is_clean

from scrapy_neardup.commands import main
from scrapy_neardup.fleet import unlinked
from scrapy_neardup.fleet import unlinked_scripts as scripts
from scrapy_neardup.fleet.link import Unanswered
from scrapy_neardup.fleet.unlinked import START_BYTES, LinkTeller, SharedRun, Unlinked
from scrapy_neardup.state.visit import PageKey, Visit
from scrapy_neardup.state.visit_file import Status
from tests.crawls import Outcome, crawl

__all__ = ["clock"]  # a fixture


class Linked(Listed):
    """A fleet whose start page links what it is told to."""

    def link(self, *paths: str) -> None:
        """Let the start page link these."""
        self.site.add("/start", page("start", *paths))

    def link_products(self, n: int) -> None:
        self.link(*(f"/p/{i}" for i in range(n)))

    def crawl_from(self, worker: str, *paths: str, **settings: Any) -> Outcome:
        """Crawl from several start pages."""
        seed = " ".join(self.urls(*paths))
        return crawl(Several, self.settings(worker, **settings), seed=seed)

    def tombstones(self) -> dict[str, tuple[str, str | None]]:
        """Path → what became of a page in the last run, and the path where it is now."""
        root = self.site.root
        return {
            row["url"].removeprefix(root): (
                row["status"],
                row["moved_to"] and row["moved_to"].removeprefix(root),
            )
            for row in self.rows("--tombstones")
        }


@pytest.fixture
def fleet(
    server: RunningServer,
    mock_site: MockSite,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Linked:
    return Linked(mock_site, server.url, tmp_path, capsys)


GONE = ("gone", None)


@pytest.mark.parametrize("scheduler", ["scrapy.core.scheduler.Scheduler", FLEET_SCHEDULER])
def test_the_last_of_two_workers_tells_what_is_gone(scheduler: str, fleet: Linked) -> None:
    add_shop(fleet.site, 12)
    fleet.crawl_at_once("one", "two", SCHEDULER=scheduler)
    assert fleet.tombstones() == {}
    fleet.link_products(10)
    got = fleet.crawl_at_once("one", "two", SCHEDULER=scheduler)
    assert fleet.tombstones() == {"/p/10": GONE, "/p/11": GONE}
    assert sorted(stats["neardup/recrawl/gone"] for _, stats in got) == [0, 2]


def test_what_another_start_url_led_to_is_not_gone(fleet: Linked) -> None:
    add_sections(fleet.site)
    assert found(fleet.crawl_from("one", "/a", "/b")) == {"new": 10}
    for _ in range(2):
        assert found(fleet.crawl_from("two", "/a")) == {"unchanged": 5}
    add_sections(fleet.site, linked=3)
    assert found(fleet.crawl_from("one", "/a")) == {"unchanged": 3, "changed": 1, "gone": 1}
    assert fleet.tombstones() == {"/a/3": GONE}
    assert found(fleet.crawl_from("two", "/a", "/b")) == {"unchanged": 9}


def test_start_urls_that_the_server_forgot_make_no_page_gone(
    fleet: Linked, server: RunningServer
) -> None:
    add_sections(fleet.site)
    fleet.crawl_from("one", "/a", "/b")
    assert server.command("DEL", "{neardup}:starts:shop") == ":1\r\n"
    add_sections(fleet.site, linked=3)
    for _ in range(2):
        assert "gone" not in found(fleet.crawl_from("one", "/a"))
    add_sections(fleet.site, linked=2)
    assert found(fleet.crawl_from("one", "/a"))["gone"] == 1
    assert fleet.tombstones() == {"/a/2": GONE}


def test_of_very_many_start_urls_no_page_is_gone(
    fleet: Linked, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = scripts.STARTED.replace(f"n > {scripts.MAX_STARTS}", "n > 1")
    monkeypatch.setattr(scripts, "STARTED", few)
    add_sections(fleet.site)
    for linked in (4, 3, 3):
        add_sections(fleet.site, linked=linked)
        assert "gone" not in found(fleet.crawl_from("one", "/a", "/b"))


def test_nothing_is_gone_in_a_run_cut_short_and_the_next_one_tells(fleet: Linked) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    fleet.link_products(6)
    for budget in (
        {"CLOSESPIDER_PAGECOUNT": 3},
        {"CLOSESPIDER_ITEMCOUNT": 1, "NEARDUP_ACTION": "tag"},
    ):
        assert "gone" not in found(fleet.crawl("two", **budget))
    assert found(fleet.crawl("one"))["gone"] == 2
    assert fleet.tombstones() == {"/p/6": GONE, "/p/7": GONE}


def test_nothing_is_gone_in_a_run_of_which_a_worker_was_killed(
    fleet: Linked, server: RunningServer
) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    fleet.link_products(7)
    fleet.crawl_until_killed(server, "two", FILE_OF_ITEMS=str(fleet.folder / "items"))
    assert "gone" not in found(fleet.crawl("three"))  # which goes on with the run
    assert fleet.tombstones() == {}
    assert found(fleet.crawl("one")) == {"unchanged": 8, "gone": 1}


def test_a_page_that_is_linked_and_fails_is_not_gone(fleet: Linked) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    fleet.link_products(7)
    fleet.site.add("/p/3", "out of order", status=500)
    second = fleet.crawl("two", RETRY_TIMES=0)
    assert found(second)["gone"] == 1
    assert fleet.tombstones() == {"/p/7": GONE}
    fleet.site.add("/p/3", product(3))
    assert found(fleet.crawl("one")) == {"unchanged": 8}


class Hubs(Linked):
    """The start page leads to a page of links, and to a product."""

    def add_hub(self, n: int = 3) -> None:
        self.link("/hub", "/p/9")
        self.site.add("/hub", page("hub", *(f"/p/{i}" for i in range(n))))
        for i in (0, 1, 2, 9):
            self.site.add(f"/p/{i}", product(i))


@pytest.fixture
def hubs(fleet: Linked) -> Hubs:
    found_by_hubs = Hubs(fleet.site, fleet.url, fleet.folder, fleet.capsys)
    found_by_hubs.add_hub()
    found_by_hubs.crawl("one")
    return found_by_hubs


def test_nothing_is_gone_when_a_page_of_links_failed(hubs: Hubs) -> None:
    hubs.site.add("/hub", "out of order", status=503)
    assert found(hubs.crawl("two", RETRY_TIMES=0)) == {"unchanged": 2}
    hubs.add_hub()
    assert found(hubs.crawl("one")) == {"unchanged": 6}


def test_nothing_is_gone_when_a_callback_failed(hubs: Hubs) -> None:
    class Failing(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            if response.url.endswith("/hub"):
                raise ValueError
            yield from super().parse(response)

    assert "gone" not in found(hubs.crawl("two", Failing))
    assert found(hubs.crawl("one")) == {"unchanged": 6}


def test_nothing_is_gone_when_a_page_of_links_is_not_to_be_read(hubs: Hubs) -> None:
    robots = "User-agent: *\nDisallow: /hub\nDisallow: /login\n"
    hubs.site.add("/robots.txt", robots, content_type="text/plain")
    assert found(hubs.crawl("two")) == {"unchanged": 2}
    hubs.site.add("/robots.txt", "User-agent: *\nDisallow: /login\n", content_type="text/plain")
    hubs.add_hub(n=2)
    hubs.link("/hub", "/p/9", "/login")  # of which nobody knows anything
    assert found(hubs.crawl("one")) == {"unchanged": 3, "changed": 2, "gone": 1}


def test_nothing_is_gone_when_links_were_not_followed_for_their_depth(hubs: Hubs) -> None:
    hubs.add_hub(n=2)
    assert "gone" not in found(hubs.crawl("two", DEPTH_LIMIT=2))
    assert found(hubs.crawl("one"))["gone"] == 1


def test_a_page_that_moved_without_a_trace_is_named(fleet: Linked) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    fleet.site.add("/q/3", product(3))
    paths = [f"/p/{i}" for i in (0, 1, 2, 4, 5, 6)]  # not /p/7
    fleet.link(*paths, "/q/3")
    second = fleet.crawl("two")
    assert second.items == []
    assert fleet.tombstones() == {"/p/3": ("moved", "/q/3"), "/p/7": GONE}
    assert found(second)["moved"] == found(second)["gone"] == 1
    assert found(fleet.crawl("one"))["unchanged"] + found(second)["new"] >= 8
    assert fleet.tombstones() == {}


def test_a_page_whose_copy_is_left_moved_there(fleet: Linked) -> None:
    for path in ("/a", "/b"):
        fleet.site.add(path, product(1, text=prose("both", 80)))
    others = [f"/p/{i}" for i in range(4)]
    for i, path in enumerate(others, 10):
        fleet.site.add(path, product(i))
    fleet.link("/a", "/b", *others)
    first = fleet.crawl("one")
    (kept,) = {url for url in first.urls if url in fleet.urls("/a", "/b")}
    (copy,) = {*fleet.urls("/a", "/b")} - {kept}
    root = fleet.site.root
    fleet.link(copy.removeprefix(root), *others)
    fleet.crawl("two")
    assert fleet.tombstones() == {kept.removeprefix(root): ("moved", copy.removeprefix(root))}
    assert fleet.crawl("one").urls == [copy]  # which has its items now
    assert fleet.crawl("two").items == []


def test_pages_that_are_not_due_are_not_gone_and_those_below_them_neither(
    fleet: Linked, clock: Clock
) -> None:
    fleet.link("/hub")
    fleet.site.add("/hub", page("hub", *(f"/p/{i}" for i in range(5))))
    for i in range(5):
        fleet.site.add(f"/p/{i}", product(i))
    outcomes = []
    for day in range(8):
        outcomes.append(fleet.crawl(["one", "two"][day % 2], NEARDUP_REVISIT="adaptive"))
        assert fleet.tombstones() == {}
        clock.now += DAY / 4
    assert any(one.stat("recrawl/not_due") for one in outcomes)
    fleet.site.add("/hub", page("hub", *(f"/p/{i}" for i in range(4))))
    gone = 0
    for day in range(8):
        clock.now += 5 * DAY
        outcome = fleet.crawl(["one", "two"][day % 2], NEARDUP_REVISIT="adaptive")
        gone += found(outcome).get("gone", 0)
    assert gone == 1


def test_a_site_out_of_order_loses_no_page(fleet: Linked, caplog: pytest.LogCaptureFixture) -> None:
    add_shop(fleet.site, 12)
    fleet.crawl("one")
    fleet.site.add("/start", page("We are being repaired", "/p/0", "/p/1"))
    second = fleet.crawl("two")
    assert "gone" not in found(second)
    assert second.stat("recrawl/reverted") == 1
    assert "out of order" in caplog.text
    assert fleet.tombstones() == {}
    assert found(fleet.crawl("one", NEARDUP_RECRAWL="all"))["gone"] == 10


def test_in_a_cluster_what_nothing_links_is_gone(
    mock_site: MockSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_cluster() as nodes:
        url = cluster_url(nodes)
        fleet = Linked(mock_site, url, tmp_path, capsys)
        add_shop(fleet.site)
        fleet.crawl("one")
        fleet.link_products(7)
        second = fleet.crawl("two")
        assert is_clean(second)
        assert fleet.tombstones() == {"/p/7": GONE}


class Reader(Hands):
    """A worker that reads pages without a crawl."""

    def begin(self) -> None:
        self.visits.started(b"start".ljust(16), "https://a.example/")

    def read(self, *numbers: int) -> None:
        for number in numbers:
            key, url = b"%16d" % number, f"https://a.example/{number}"
            self.visits.linked(key, url)
            run = self.visits.run
            visit = Visit(
                key, 1, "parse", run, run, b"", run, Status.NEW, 1.5, url, b"%16d" % number,
                b"d" * 16, b"items", b"l" * 8, 0, None, None, 1,
            )  # fmt: skip
            self.visits.put(visit)
        self.visits.flush()

    def asks(self, number: int) -> None:
        page_key = PageKey(b"%16d" % number, "parse", f"https://a.example/{number}")
        asyncio.run(self.worker.fleet.bring_visit(page_key))

    def end(self) -> dict[Status, int]:
        """End the run; what is gone then."""
        self.visits.departures(True, 0)
        self.visits.end("finished")
        return self.marked()

    def marked(self) -> dict[Status, int]:
        """What is gone once the run is ended."""
        counts = Counter[Status]()
        assert asyncio.run(self.visits.mark_unlinked(counts, checks=True))
        return counts


@pytest.fixture
def hands(server: RunningServer, tmp_path: Path) -> Iterator[Any]:
    made: list[Reader] = []

    def make() -> Reader:
        made.append(Reader(server.url, tmp_path / str(len(made))))
        made[-1].begin()
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_what_a_run_that_began_meanwhile_reads_is_not_gone(hands: Any) -> None:
    first = hands()
    first.read(*range(6))
    assert first.end() == {}
    second, third = hands(), hands()
    second.read(0, 1, 2)
    third.read(3)
    third.visits.departures(True, 0)
    third.visits.end("finished")
    fourth = hands()  # begins another run
    assert fourth.visits.shared_run > second.visits.shared_run
    assert second.end() == {}
    assert third.marked() == {}
    fourth.read(0, 1, 2, 3)
    assert fourth.end() == {}  # the second may have read pages that it would have read
    fifth = hands()
    fifth.read(0, 1, 2, 3)
    assert fifth.end() == {Status.GONE: 2}


def test_what_a_worker_of_an_earlier_run_reads_meanwhile_is_not_gone(
    hands: Any, server: RunningServer
) -> None:
    """As one that was paused, and is given requests of the run that began without it."""
    first = hands()
    first.read(*range(6))
    first.end()
    paused, second = hands(), hands()
    second.read(*range(6))
    lease = f"{{neardup}}:w:{paused.visits._worker.hex()}"
    second.end()
    assert server.command("DEL", lease) == ":1\r\n"
    third = hands()
    third.read(0, 1, 2)
    wait_until(lambda: server.command("EXISTS", lease) == ":1\r\n")  # it lives
    paused.read(3, 4, 5)
    assert third.end() == {}
    fourth = hands()
    fourth.read(0, 1, 2)
    assert paused.end() == {}
    assert fourth.end() == {}
    fifth = hands()
    fifth.read(0, 1, 2, 3)
    assert fifth.end() == {Status.GONE: 2}


def test_what_a_worker_read_that_was_killed_after_its_pause_is_not_gone(
    hands: Any, server: RunningServer
) -> None:
    """It lives neither when the runs begin that follow its own nor when they end."""
    first = hands()
    first.read(*range(6))
    first.end()
    paused, second = hands(), hands()
    second.read(*range(6))
    second.end()
    lease = f"{{neardup}}:w:{paused.visits._worker.hex()}"

    def later_run() -> Any:
        """A run that begins during the pause, and does not end before it."""
        assert server.command("DEL", lease) == ":1\r\n"
        later = hands()
        later.read(0, 1, 2)
        wait_until(lambda: server.command("EXISTS", lease) == ":1\r\n")
        paused.read(3, 4, 5)
        paused.asks(0)  # which comes after what it told
        return later

    assert later_run().end() == {}
    later = later_run()
    paused.worker.fleet.release()
    assert server.command("DEL", lease) == ":1\r\n"
    assert later.end() == {}
    last = hands()
    last.read(0, 1, 2, 3)
    assert last.end() == {Status.GONE: 2}


@pytest.mark.parametrize("what", ["an eviction", "a clock that was an hour ahead"])
def test_what_hides_that_a_killed_worker_was_at_work_makes_no_page_gone(
    what: str, hands: Any, server: RunningServer
) -> None:
    first = hands()
    first.read(*range(6))
    first.end()
    paused, second = hands(), hands()
    second.read(*range(6))
    second.end()
    lease, run = f"{{neardup}}:w:{paused.visits._worker.hex()}", second.visits.shared_run
    assert server.command("DEL", lease) == ":1\r\n"
    if what != "an eviction":
        ahead, key = run + 3_600_000, "{neardup}:run:shop"
        assert server.command("HSET", key, "run", str(ahead)) == ":0\r\n"
        assert server.command("RENAME", f"{key}:{run}", f"{key}:{ahead}") == "+OK\r\n"
    later = hands()
    later.read(0, 1, 2)
    wait_until(lambda: server.command("EXISTS", lease) == ":1\r\n")
    paused.read(3, 4, 5)
    paused.asks(0)  # which comes after what it told
    paused.worker.fleet.release()
    assert server.command("DEL", lease) == ":1\r\n"
    if what == "an eviction":
        assert server.command("DEL", lease.replace(":w:", ":since:")) == ":1\r\n"
    assert later.end() == {}


def begin(one: Reader, *paths: str) -> None:
    for path in paths:
        one.visits.started(path.encode().ljust(16), f"https://a.example/{path}")
    one.visits.flush()
    wait_until(lambda: one.visits._links.is_heard)


def test_what_a_start_url_led_to_that_the_server_forgot_is_not_gone_without_it(
    hands: Any, server: RunningServer
) -> None:
    key, zero = "b" * 16, hands()
    zero.read(0, 1, 2, 3)
    assert zero.end() == {}
    first = hands()
    begin(first, key)
    field = "s" + key[:START_BYTES]  # forgotten, as by a restart with older data
    assert server.command("HDEL", "{neardup}:starts:shop", field) == ":1\r\n"
    first.read(0, 1, 2, 3, 4, 5)
    assert first.end() == {}
    second = hands()
    second.read(0, 1, 2, 3)
    assert second.end() == {}  # it did not begin with that
    third = hands()
    begin(third, key)
    third.read(0, 1, 2, 3)
    assert third.end() == {Status.GONE: 2}


def test_a_page_that_another_run_asks_for_is_not_marked(
    hands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hands()
    first.read(*range(8))
    first.end()
    second = hands()
    second.read(0, 1, 2, 3, 4)
    homes = Unlinked._homes

    async def ask_first(self: Unlinked, found: Any) -> Any:
        later = hands()
        await later.worker.fleet.bring_visit(PageKey(b"%16d" % 6, "parse", "https://a.example/6"))
        return await homes(self, found)

    with monkeypatch.context() as patched:
        patched.setattr(Unlinked, "_homes", ask_first)
        assert second.end() == {Status.GONE: 2}
    third = hands()
    third.asks(6)
    known = third.visits.visit(b"%16d" % 6, "parse")
    assert known is not None
    assert known.status == Status.NEW
    third.asks(7)
    left = third.visits.visit(b"%16d" % 7, "parse")
    assert left is not None
    assert left.status == Status.GONE


def test_a_server_that_forgot_links_makes_no_page_gone(hands: Any, server: RunningServer) -> None:
    first = hands()
    first.read(*range(6))
    first.end()
    second = hands()
    second.read(0, 1)
    wait_until(lambda: second.visits._links.is_heard)
    for key in server.command("KEYS", "*:m:shop:*").split()[2::2]:
        assert server.command("DEL", key) == ":1\r\n"  # as after an older state was put in place
    second.read(2, 3, 4)
    assert second.end() == {}
    third = hands()
    third.read(0, 1, 2, 3, 4)
    assert third.end() == {Status.GONE: 1}


def test_a_server_that_forgot_links_of_another_worker_makes_no_page_gone(
    hands: Any, server: RunningServer
) -> None:
    first = hands()
    first.read(*range(6))
    first.end()
    second, third = hands(), hands()
    second.read(0, 1, 2, 3)
    third.read(4)
    assert second.end() == {}
    (key,) = server.command("KEYS", "*:m:shop:*").split()[2::2]
    # As a replica that lagged behind when the server failed.
    assert server.command("HDEL", key, "w" + second.visits._worker.hex()) == ":1\r\n"
    assert third.end() == {}


def test_a_worker_that_the_server_forgot_makes_no_page_gone(
    hands: Any, server: RunningServer
) -> None:
    first = hands()
    first.read(*range(6))
    first.end()
    second, third = hands(), hands()
    second.read(0, 1)
    run = f"{{neardup}}:run:shop:{second.visits.shared_run}"
    assert server.command("DEL", run) == ":1\r\n"  # evicted
    third.read(2, 3, 4)
    assert third.end() == {}


def test_what_was_marked_is_counted_though_the_server_fails_then(
    hands: Any, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unlinked, "AT_ONCE", 1)
    first = hands()
    first.read(*range(6))
    first.end()
    second = hands()
    second.read(*range(4))
    second.visits.departures(True, 0)
    second.visits.end("finished")
    with redis.Redis.from_url(server.url) as client:
        (page_5,) = client.scan_iter(match="*:v:*5")
        client.delete(page_5)
        client.rpush(page_5, "no hash")
    asyncio.run(second.worker.fleet.mark_unlinked())
    assert second.worker.stat("backend/unanswered") == 1
    assert second.worker.stat("recrawl/gone") == 1


def test_pages_of_a_site_that_was_forgotten_are_not_counted(
    hands: Any, server: RunningServer
) -> None:
    first = hands()
    first.read(*range(6))
    first.end()
    assert main(["fleet", "forget", server.url, "--site", "a.example"]) == 0
    second = hands()
    second.read(20, 21)
    assert second.end() == {}
    third = hands()
    third.read(20, 21)
    assert third.end() == {}
    assert "shop" in server.command("KEYS", "*:l:*")
    name = server.command("KEYS", "*:l:*").split()[2]
    assert server.command("ZCARD", name) == ":2\r\n"


@pytest.mark.parametrize("what", ANSWERS)
def test_whatever_the_server_says_nothing_is_gone(what: str) -> None:
    run = SharedRun("neardup", "shop", 1_700_000_000_000, "ab" * 4, 5, 0)
    with hostile_server(ANSWERS[what]) as server:
        worker = Worker(server.url)
        link = worker.fleet._link
        teller = LinkTeller(link, run)
        teller.linked(b"k" * 16, "https://a.example/")
        teller.flush()
        counts = Counter[Status]()
        try:
            asyncio.run(Unlinked(link, run).is_last(teller.told))
            asyncio.run(Unlinked(link, run).mark(counts, checks=True))
        except Unanswered:
            pass
        assert not counts
        worker.fleet.release()


@pytest.mark.parametrize("is_read_first", [True, False])
def test_a_page_that_another_worker_read_in_the_run_is_not_gone(
    is_read_first: bool, hands: Any, server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    first = hands()
    first.read(*range(6))
    first.end()
    one, two = hands(), hands()
    one.asks(3)
    one.asks(4)
    one.read(0, 1, 2, 5)
    if is_read_first:
        two.asks(3)
        two.read(3)
    for number in (3, 4):  # 404
        one.visits.leaving(b"%16d" % number)
    departures = one.visits.departures(True, 0)
    assert [left.url for left in departures] == [
        f"https://a.example/{number}" for number in ((4,) if is_read_first else (3, 4))
    ]
    if not is_read_first:
        two.asks(3)
        two.read(3)
        two.asks(0)  # answered once the server has what it was told before
    one.visits.conclude(departures)
    one.visits.end("finished")
    assert two.end() == {}
    assert main(["changes", server.url, "--tombstones"]) == 0
    told = capsys.readouterr().out
    assert "https://a.example/4" in told
    assert "https://a.example/3" not in told
    assert main(["changes", server.url, "--json"]) == 0
    changes = map(json.loads, capsys.readouterr().out.splitlines())
    assert [one["url"] for one in changes if one["status"] == "gone"] == ["https://a.example/4"]

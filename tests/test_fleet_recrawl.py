"""A site crawled again by a fleet: a page is compared with what any worker found there last."""

import asyncio
import json
import math
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_crawl_conditional as tagged
from fleets import (
    RunningServer,
    Worker,
    cluster_url,
    hostile_server,
    running_cluster,
    running_server,
    wait_until,
)
from mock_site import MockSite, page, prose, redirect
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from test_crawl_recrawl import Shop, Titles, add_shop, found, noise, product, shop_with_prices

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from test_fleet_client import RECRAWL_USER, USER
from test_fleet_hostile_server import ANSWERS

from scrapy_neardup.commands import main
from scrapy_neardup.crawl.recrawl import conditional
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.fleet.visit_records import MAX_RECORD, PageReader, pack, unpack, unpack_told
from scrapy_neardup.fleet.visits import _servers
from scrapy_neardup.state.visit import HostRecord, Original, PageKey, Visit
from tests.crawls import Outcome, crawl

FLEET_SCHEDULER = "scrapy_neardup.scheduler.FleetScheduler"


class Fleet:
    """Workers of a server, each with a folder of its own."""

    def __init__(self, site: MockSite, url: str, folder: Path) -> None:
        self.site, self.url, self.folder = site, url, folder

    def settings(self, worker: str, **settings: Any) -> dict[str, Any]:
        own = {"NEARDUP_BACKEND": self.url, "NEARDUP_STATE_DIR": str(self.folder / worker)}
        return own | {"NEARDUP_RECRAWL": "changed"} | settings

    def crawl(self, worker: str, spider: type = Shop, **settings: Any) -> Outcome:
        seed = self.site.url("/start")
        return crawl(spider, self.settings(worker, **settings), seed=seed)

    def crawl_at_once(self, *workers: str, **settings: Any) -> list[tuple[list[Any], Any]]:
        """Items and stats of workers in processes of their own, which begin together."""
        context = multiprocessing.get_context("spawn")
        gate, answers = context.Barrier(len(workers)), context.Queue()
        takes_part = {worker: context.Event() for worker in workers}
        seed = self.site.url("/start")
        processes = [
            context.Process(
                target=crawl_at_the_gate,
                args=(self.settings(one, **settings), seed, gate, takes_part, one, answers),
            )
            for one in workers
        ]
        for process in processes:
            process.start()
        got = [answers.get(timeout=300) for _ in processes]
        for process in processes:
            process.join()
        return got

    def crawl_until_killed(self, server: RunningServer, worker: str, **settings: Any) -> None:
        """A worker dies as it reads /p/5, and is gone from the server."""
        given = self.settings(worker, **settings), self.site.url("/start")
        process = multiprocessing.get_context("spawn").Process(target=crawl_and_die, args=given)
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        wait_until(lambda: server.command("KEYS", "*}:w:*").startswith("*0"))

    def urls(self, *paths: str) -> list[str]:
        return [self.site.url(path) for path in paths]


class Gated(Shop):
    """Begins when all workers take part in the run, and ends when none makes start requests: the
    last one to ask would make them again where the others have left."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> "Gated":
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.wait, signals.spider_opened)
        crawler.signals.connect(spider.stay, signals.spider_idle)
        return spider

    def wait(self) -> None:
        self.gate.wait(100)

    def stay(self) -> None:
        self.own.set()  # no argument of plain type: workers are to run the same program
        if not all(event.is_set() for event in self.takes_part):
            raise DontCloseSpider


def crawl_at_the_gate(
    settings: dict[str, Any], seed: str, gate: Any, takes_part: Any, worker: str, answers: Any
) -> None:
    """A worker's process."""
    at_the_gate = {"gate": gate, "takes_part": [*takes_part.values()], "own": takes_part[worker]}
    outcome = crawl(Gated, settings, seed=seed, **at_the_gate)
    kept = {k: v for k, v in outcome.stats.items() if k.startswith("neardup/")}
    answers.put((outcome.items, kept))


@pytest.fixture
def fleet(server: RunningServer, mock_site: MockSite, tmp_path: Path) -> Fleet:
    return Fleet(mock_site, server.url, tmp_path)


def is_clean(outcome: Outcome) -> bool:
    """Whether nothing failed, was foreign, lost or refused."""
    names = ("errors/recrawl", "errors/backend", "recrawl/foreign", "backend/lost")
    return not any(outcome.stat(name) for name in (*names, "backend/refused"))


def test_what_another_worker_found_is_unchanged_and_what_differs_is_changed(fleet: Fleet) -> None:
    add_shop(fleet.site)
    first = fleet.crawl("one")
    assert len(first.items) == 8
    assert found(first) == {"new": 9}
    fleet.site.add("/p/3", product(3, price="11.00"))
    second = fleet.crawl("two")
    assert second.urls == fleet.urls("/p/3")
    assert second.items[0]["neardup"]["status"] == "changed"
    assert second.items[0]["neardup"]["fields"] == ["price"]
    assert found(second) == {"unchanged": 8, "changed": 1}
    assert fleet.site.gets("/p/0") == 2
    for worker in ("one", "two", "three"):
        again = fleet.crawl(worker)
        assert again.items == []
        assert found(again) == {"unchanged": 9}
        assert is_clean(again)


def test_what_changed_back_is_compared_with_what_another_worker_found(fleet: Fleet) -> None:
    add_shop(fleet.site, 3)
    fleet.crawl("one")
    fleet.site.add("/p/1", product(1, price="11.00"))
    assert fleet.crawl("two").urls == fleet.urls("/p/1")
    fleet.site.add("/p/1", product(1))
    assert fleet.crawl("one").urls == fleet.urls("/p/1")  # whose own last visit found the same


def test_the_item_decides_where_the_text_is_the_same(fleet: Fleet) -> None:
    prices: dict[str, int] = {}
    spider = shop_with_prices(prices)
    add_shop(fleet.site, 3)
    fleet.crawl("one", spider)
    (url,) = fleet.urls("/p/1")
    for worker, price in (("two", 11), ("three", 10), ("one", 11)):
        prices[url] = price
        outcome = fleet.crawl(worker, spider)
        assert [(item["url"], item["price"]) for item in outcome.items] == [(url, price)]
        assert outcome.items[0]["neardup"]["fields"] == ["price"]
    assert fleet.crawl("two", spider).items == []


def test_what_a_server_says_is_unchanged_is_not_downloaded_by_another_worker(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditional, "READ_SHARE", 0.0)
    site = fleet.site
    tagged.add_shop(site)
    fleet.crawl("one")
    tagged.add(site, "/p/3", product(3, price="11.00"))
    second = fleet.crawl("two")
    assert second.urls == fleet.urls("/p/3")
    assert found(second) == {"unchanged": tagged.N + 1, "changed": 1}
    assert tagged.unread(second) == tagged.N  # the first page was read in full
    third = fleet.crawl("three")
    assert third.items == []
    assert found(third) == {"unchanged": tagged.N + 2}
    assert tagged.unread(third) == tagged.N + 1
    assert is_clean(third)
    tagged.add(site, "/list", page("list", *(f"/p/{i}" for i in range(tagged.N)), "/p/new"))
    tagged.add(site, "/p/new", product(99))
    assert fleet.crawl("one").urls == fleet.urls("/p/new")


def test_a_server_that_one_worker_found_wrong_is_asked_by_none(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditional, "READ_SHARE", 0.0)
    site, links = fleet.site, [f"/p/{i}" for i in range(3)]
    for path in links:
        tagged.add(site, path, product(int(path[3:])))
    for worker, text, n_refuted in (("one", "old", 0), ("two", "new", 1)):
        site.pages["/start"] = tagged.tagged(page(text, *links), '"always"')
        assert fleet.crawl(worker).stat("recrawl/refuted") == n_refuted
    third = fleet.crawl("three")
    assert third.stat("recrawl/asked") == 0
    assert tagged.unread(third) == 0
    assert found(third) == {"unchanged": 4}


def test_a_question_and_the_old_visit_come_in_one_round_trip(fleet: Fleet) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    second = fleet.crawl("two")
    # One question for each of the nine pages and robots.txt none; pages are asked about besides.
    new = crawl(
        Shop,
        {"NEARDUP_BACKEND": fleet.url, "NEARDUP_BACKEND_PREFIX": "neardup-new"},
        seed=fleet.site.url("/start"),
    )
    assert second.stat("backend/asked") <= new.stat("backend/asked") + 1  # the start page


@pytest.mark.parametrize("scheduler", ["scrapy.core.scheduler.Scheduler", FLEET_SCHEDULER])
def test_two_workers_at_once_tell_each_change_and_nothing_else(
    scheduler: str, fleet: Fleet
) -> None:
    add_shop(fleet.site, 16)
    days: list[set[str]] = [{f"/p/{i}" for i in range(16)}, {"/p/3", "/p/11"}, set()]
    for day, expected in enumerate(days[: 3 if scheduler == FLEET_SCHEDULER else 2]):
        for path in expected if day else ():
            fleet.site.add(path, product(int(path[3:]), price=f"{day}.99"))
        got = fleet.crawl_at_once("one", "two", SCHEDULER=scheduler)
        items = [item for items, _ in got for item in items]
        assert {item["url"] for item in items} == set(fleet.urls(*expected))
        if scheduler == FLEET_SCHEDULER:
            assert len(items) == len(expected)
            n_read = {
                word: sum(s.get(f"neardup/recrawl/{word}", 0) for _, s in got)
                for word in ("new", "changed", "unchanged", "gone", "moved")
            }
            changed = len(expected) if day else 0
            assert n_read["changed"] == changed
            assert n_read["gone"] == n_read["moved"] == 0
            assert n_read["new"] == (17 if day == 0 else 0)
            assert n_read["unchanged"] == (0 if day == 0 else 17 - changed)


def test_a_page_that_answers_404_is_gone_once_and_new_when_it_is_back(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    fleet.site.add("/p/1", "gone", status=404)
    second = fleet.crawl("two")
    assert second.items == []
    assert found(second) == {"unchanged": 8, "gone": 1}
    assert main(["changes", str(fleet.folder / "two"), "--tombstones", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["status"], one["url"]) for one in told] == [("gone", *fleet.urls("/p/1"))]
    assert found(fleet.crawl("one")) == {"unchanged": 8}
    fleet.site.add("/p/1", product(1))
    fourth = fleet.crawl("three")
    assert fourth.urls == fleet.urls("/p/1")
    assert fourth.items[0]["neardup"] == {"status": "new"}


def test_what_is_linked_no_more_is_gone(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    fleet.site.add("/start", page("start", *(f"/p/{i}" for i in range(6))))
    second = fleet.crawl("two")
    assert found(second) == {"unchanged": 6, "changed": 1, "gone": 2}
    capsys.readouterr()
    assert main(["changes", fleet.url, "--tombstones", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(one["status"], one["url"]) for one in told} == {
        ("gone", url) for url in fleet.urls("/p/6", "/p/7")
    }
    assert found(fleet.crawl("one")) == {"unchanged": 7}
    add_shop(fleet.site)
    fourth = fleet.crawl("three")
    assert set(fourth.urls) == set(fleet.urls("/p/6", "/p/7"))  # they are back
    assert found(fourth) == {"unchanged": 6, "changed": 1, "new": 2}


def test_a_page_that_moved_is_named(fleet: Fleet) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    fleet.site.pages["/p/1"] = redirect("/q/1", 301)
    fleet.site.add("/q/1", product(1))
    second = fleet.crawl("two")
    assert second.items == []
    assert found(second) == {"unchanged": 8, "new": 1, "moved": 1}
    assert found(fleet.crawl("one")) == {"unchanged": 9}


def test_a_copy_passes_when_another_worker_finds_that_its_original_changed(fleet: Fleet) -> None:
    text = prose("both", 80)
    for path in ("/a", "/b"):
        fleet.site.add(path, product(1, text=text))
    fleet.site.add("/start", page("start", "/a", "/b"))
    first = fleet.crawl("one", Titles)
    (kept,) = first.urls
    copy = next(url for url in fleet.urls("/a", "/b") if url != kept)
    for worker in ("two", "three"):
        assert found(fleet.crawl(worker, Titles)) == {"unchanged": 3}
    fleet.site.add(kept.removeprefix(fleet.site.root), product(2, text=prose("other", 80)))
    urls = [url for worker in ("two", "one") for url in fleet.crawl(worker, Titles).urls]
    assert sorted(urls) == sorted([kept, copy])
    assert fleet.crawl("three", Titles).items == []


def test_what_varies_at_every_visit_is_learnt_by_all_workers(fleet: Fleet) -> None:
    n = 40
    fleet.site.add("/start", page("start", *(f"/p/{i}" for i in range(n))))

    def show(visit: int) -> None:
        for i in range(n):
            fleet.site.add(f"/p/{i}", product(i, "12.50", noise(visit, i)))

    show(1)
    fleet.crawl("one", Titles)
    show(2)
    second = fleet.crawl("two", Titles)
    assert found(second) == {"unchanged": 1, "minor": n}  # as is known by the end
    show(3)
    third = fleet.crawl("three", Titles)
    assert third.items == []
    assert found(third) == {"unchanged": 1, "minor": n}


def test_a_site_that_answers_everything_alike_changes_nothing(fleet: Fleet) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    for i in range(8):
        fleet.site.add(f"/p/{i}", page("We are sorry", "down for maintenance"))
    second = fleet.crawl("two")
    assert second.stat("recrawl/reverted") == 1
    add_shop(fleet.site)
    third = fleet.crawl("one")
    assert third.items == []
    assert found(third) == {"unchanged": 9}


def test_what_passed_while_a_fleet_s_site_was_out_of_order_is_put_right(fleet: Fleet) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    for i in range(8):
        fleet.site.add(f"/p/{i}", "<h1>Sorry</h1><p class=price>We are being repaired</p>")
    second = fleet.crawl("two")
    assert second.stat("recrawl/reverted") == 1
    assert len(second.items) == 8
    add_shop(fleet.site)
    assert len(fleet.crawl("one").items) == 8
    assert fleet.crawl("two").items == []


def crawl_and_die(settings: dict[str, Any], seed: str) -> None:
    """A worker's process, killed when it reads a page whose items it does not yield."""

    class Killed(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            if response.url.endswith("/p/5"):
                os.kill(os.getpid(), signal.SIGKILL)
            yield from super().parse(response)

    crawl(Killed, settings | {"ITEM_PIPELINES": {WritesDown: 900}}, seed=seed)


class WritesDown:
    """Stores each item at once, so that no page waits for its items."""

    def open_spider(self, spider: Any) -> None:
        self.path = Path(spider.settings["FILE_OF_ITEMS"])

    def process_item(self, item: Any, spider: Any) -> Any:
        with self.path.open("a") as file:
            file.write(json.dumps(item) + "\n")
        return item


def test_a_run_whose_worker_was_killed_goes_on_with_the_next(
    fleet: Fleet, server: RunningServer
) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    for i in (1, 6):
        fleet.site.add(f"/p/{i}", product(i, price="99"))
    feed = fleet.folder / "killed.jsonl"
    order = {"DEPTH_PRIORITY": 1, "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}
    fleet.crawl_until_killed(server, "two", FILE_OF_ITEMS=str(feed), **order)
    rest = fleet.crawl("three", **order)
    before = [json.loads(line)["url"] for line in feed.read_text().splitlines()]
    assert set(before + rest.urls) == set(fleet.urls("/p/1", "/p/6"))
    assert fleet.site.gets("/p/0") == 2  # done before the kill
    assert fleet.site.gets("/p/7") == 2
    assert found(fleet.crawl("one")) == {"unchanged": 9}


class Stopping(Shop):
    """Stops the server of the fleet when it reads a page."""

    server: RunningServer

    def parse(self, response: Response) -> Iterator[Any]:
        if response.url.endswith("/p/4"):
            self.server.kill()
        yield from super().parse(response)


def test_without_the_server_items_pass_and_nothing_is_gone(fleet: Fleet) -> None:
    with running_server() as server:
        fleet.url = server.url
        add_shop(fleet.site)
        fleet.crawl("one")
        fleet.site.add("/p/6", product(6, price="11.00"))
        stopping = type("StoppingHere", (Stopping,), {"server": server})
        second = fleet.crawl("two", stopping, DEPTH_PRIORITY=1)
    assert fleet.site.url("/p/6") in second.urls
    assert second.stat("backend/unanswered") > 0
    assert second.stat("recrawl/gone") == 0
    statuses = {item["neardup"]["status"] for item in second.items}
    assert statuses <= {"new", "changed"}


def test_what_the_server_has_forgotten_is_new(fleet: Fleet, server: RunningServer) -> None:
    add_shop(fleet.site, 3)
    fleet.crawl("one")
    server.command("FLUSHALL")
    second = fleet.crawl("two")
    assert len(second.items) == 3
    assert found(second) == {"new": 4}
    assert found(fleet.crawl("one")) == {"unchanged": 4}


def test_in_a_cluster_workers_know_what_others_found(mock_site: MockSite, tmp_path: Path) -> None:
    with running_cluster() as nodes:
        url = cluster_url(nodes)
        fleet = Fleet(mock_site, url, tmp_path)
        add_shop(fleet.site)
        fleet.crawl("one")
        fleet.site.add("/p/3", product(3, price="11.00"))
        second = fleet.crawl("two")
        assert second.urls == fleet.urls("/p/3")
        assert found(second) == {"unchanged": 8, "changed": 1}
        assert is_clean(second)


class Hands:
    """A worker that takes part in a run without a crawl."""

    def __init__(self, url: str, folder: Path) -> None:
        folder.mkdir()
        self.worker = Worker(url)
        self.visits = self.worker.fleet.take_part(folder, "shop")

    def put(self, items: bytes, *originals: Original) -> None:
        repeats = b"".join(one.pack() for one in originals)
        row = VISIT._replace(run=self.visits.run, spider=1, items=items, repeats=repeats)
        self.visits.put(row)

    def items(self) -> bytes:
        """What the page's items were, as the server says; what was put has arrived then."""
        asyncio.run(self.worker.fleet.bring_visit(PageKey(VISIT.key, "parse", VISIT.url)))
        known = self.visits.visit(VISIT.key, "parse")
        assert known is not None
        return known.items

    def is_done(self) -> bool:
        page_key = PageKey(VISIT.key, "parse", VISIT.url)
        return asyncio.run(self.worker.fleet.bring_visit(page_key))

    def close(self) -> None:
        self.visits.close()
        self.worker.close()


def test_workers_that_start_after_a_run_was_ended_begin_another(
    server: RunningServer, tmp_path: Path
) -> None:
    one, two = (Hands(server.url, tmp_path / name) for name in ("one", "two"))
    assert one.visits.shared_run == two.visits.shared_run
    one.put(b"first")
    one.items()
    two.put(b"second")
    one.visits.done(VISIT.key)
    two.visits.end("finished")
    one.close()
    two.close()
    three = Hands(server.url, tmp_path / "three")
    assert three.visits.shared_run > one.visits.shared_run
    assert three.items() == b""  # of two that kept items it is not known which was last
    assert not three.is_done()
    three.put(b"third")
    three.visits.done(VISIT.key)
    three.close()
    four = Hands(server.url, tmp_path / "four")  # nobody ended the run
    assert four.visits.shared_run == three.visits.shared_run
    assert four.is_done()
    assert four.items() == b"third"
    four.close()


@pytest.mark.parametrize("asks", [True, False])
def test_what_a_run_found_last_of_a_page_is_compared_with(
    asks: bool, server: RunningServer, tmp_path: Path
) -> None:
    one, two = (Hands(server.url, tmp_path / name) for name in ("one", "two"))
    one.put(b"first")
    one.items()
    if asks:
        assert two.items() == b"first"
    two.put(b"second")
    two.items()
    three = Hands(server.url, tmp_path / "three")
    assert three.items() == (b"second" if asks else b"")
    three.put(b"second")
    for hands in (one, two, three):
        hands.close()


def test_a_page_that_was_a_copy_for_a_worker_that_died_is_what_the_next_one_found(
    server: RunningServer, tmp_path: Path
) -> None:
    """The page whose items it was to repeat may never have been kept."""
    one, two, three = (Hands(server.url, tmp_path / name) for name in ("one", "two", "three"))
    one.put(b"a copy", Original(b"o" * 16, 7))
    one.items()
    two.put(b"kept")
    two.items()
    assert three.items() == b"kept"
    one.put(b"a copy", Original(b"o" * 16, 7))  # it was paused only
    one.items()
    four = Hands(server.url, tmp_path / "four")
    assert four.items() == b"kept"
    for hands in (one, two, three, four):
        hands.close()


def test_a_user_with_few_permissions_will_do(fleet: Fleet, server: RunningServer) -> None:
    server.command("ACL", "SETUSER", *USER.split(), *RECRAWL_USER.split())
    server.command("ACL", "SETUSER", "default", "off")
    fleet.url = server.url.replace("redis://", "redis://worker:Pass%2Fword1@")
    add_shop(fleet.site, 3)
    for worker, expected in (("one", {"new": 4}), ("two", {"unchanged": 4})):
        outcome = fleet.crawl(worker)
        assert found(outcome) == expected
        assert is_clean(outcome)
        assert outcome.stat("backend/unanswered") == 0


@pytest.mark.parametrize("what", ["an integer", "a list of them", "a record of zeros", "nothing"])
def test_whatever_the_server_says_of_pages_their_items_pass(what: str, fleet: Fleet) -> None:
    add_shop(fleet.site, 3)
    with hostile_server(b":1700000000000\r\n") as server:  # which is a run

        class Turning(Shop):
            def parse_seed(self, response: Response) -> Iterator[Any]:
                server.answer = ANSWERS[what]
                return super().parse_seed(response)

        fleet.url = server.url
        outcome = fleet.crawl("one", Turning, NEARDUP_KEY=5)
    assert len(outcome.items) == 3
    assert found(outcome) == {"new": 4}


def test_a_site_that_was_forgotten_is_new(fleet: Fleet) -> None:
    add_shop(fleet.site, 3)
    fleet.crawl("one")
    assert main(["fleet", "forget", fleet.url, "--site", fleet.site.url("/")]) == 0
    assert found(fleet.crawl("two")) == {"new": 4}


def test_all_items_pass_where_all_are_asked_for(fleet: Fleet) -> None:
    add_shop(fleet.site, 3)
    fleet.crawl("one")
    assert len(fleet.crawl("two", NEARDUP_RECRAWL="all").items) == 3
    assert fleet.crawl("three").items == []


def test_a_run_needs_a_server_and_a_folder_of_its_own(fleet: Fleet) -> None:
    add_shop(fleet.site, 1)
    with pytest.raises(SettingsError, match="Start the server"):
        fleet.crawl("one", NEARDUP_BACKEND="redis://127.0.0.1:1/0")


VISIT = Visit(
    b"k" * 16, 1, "parse", 3, 2, b"", 3, 3, 1.5, "https://a.example/é", b"t" * 16, b"d" * 16,
    b"items", b"lines" * 8, 4, b"c" * 16, None, 2, n_visits=5, n_changes=2, since=0.5, n_new=1,
    version=2**62 + 5, repeats=Original(b"o" * 16, 7).pack() * 2,
)  # fmt: skip
READER = PageReader("shop", "parse")


def test_a_record_gives_the_visit_back() -> None:
    record = pack(VISIT, READER, b"wwww", 1_700_000_000_123, 9, 5)
    visit, run, first = unpack(record, VISIT.key, READER, 5)
    of_the_file = {"spider": 0, "run": 0, "first": 0, "linked": 0}
    assert visit == VISIT._replace(**of_the_file)
    assert (run, first) == (1_700_000_000_123, 9)


def test_a_large_record_leaves_out_what_can_be_done_without() -> None:
    large = VISIT._replace(requests=b"r" * MAX_RECORD, etag=b'"1"')
    visit, _, _ = unpack(pack(large, READER, b"wwww", 2, 1, 5), VISIT.key, READER, 5)
    assert (visit.requests, visit.etag, visit.lines) == (None, None, VISIT.lines)
    large = VISIT._replace(items=b"i" * MAX_RECORD)
    record = pack(large, READER, b"wwww", 2, 1, 5)
    assert len(record) <= MAX_RECORD
    assert unpack(record, VISIT.key, READER, 5)[0].items == b""  # so it is changed


def test_a_record_that_no_worker_wrote_there_is_refused() -> None:
    record = pack(VISIT, READER, b"wwww", 2, 1, 5)
    others = [record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :] for at in range(len(record))]
    others += [record[:at] for at in range(len(record))]
    others += [b"x" * (3 * MAX_RECORD)]
    for other in others:
        with pytest.raises(ValueError, match=r"key|bytes"):
            unpack(other, VISIT.key, READER, 5)
    for key, reader, secret in (
        (b"z" * 16, READER, 5),
        (VISIT.key, PageReader("shop", "other"), 5),
        (VISIT.key, PageReader("other", "parse"), 5),
        (VISIT.key, READER, 6),
    ):
        with pytest.raises(ValueError, match="key"):
            unpack(record, key, reader, secret)
    with pytest.raises(ValueError, match="18 bytes"):
        unpack_told(b"x" * 18)


@pytest.mark.parametrize(
    ("what", "run"),
    [
        ({"links": 2**63}, 2),
        ({"links": 10**400}, 2),
        ({"depth": -1}, 2),
        ({"version": 2**63}, 2),
        ({"time": 1e300}, 2),
        ({"due": math.nan}, 2),
        ({"since": -1.0}, 2),
        ({}, math.inf),
        ({}, math.nan),
        ({}, 1e300),
        ({}, -1),
    ],
    ids=str,
)
def test_numbers_that_no_file_holds_are_refused(what: dict[str, Any], run: float) -> None:
    """Who has the fleet's key writes records: one page is new then, and the others are written."""
    record = pack(VISIT._replace(**what), READER, b"wwww", run, 1, 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"."):
        unpack(record, VISIT.key, READER, 5)


@pytest.mark.parametrize("run", [b":0\r\n", b":" + b"9" * 400 + b"\r\n", b":-5\r\n", b"+nan\r\n"])
def test_a_run_that_no_clock_began_is_refused(run: bytes, fleet: Fleet) -> None:
    with hostile_server(run) as server:
        fleet.url = server.url
        with pytest.raises(SettingsError, match="does not answer"):
            fleet.crawl("one", NEARDUP_KEY=5)


@pytest.mark.parametrize("host", [b"9" * 30 + b" 0", b"0 -1", b"1", b"a b"])
def test_hosts_of_pages_without_number_are_left_out(host: bytes) -> None:
    assert _servers([b"a.example", b"2 3"]) == {b"a.example": HostRecord(2, 3)}
    with pytest.raises(ValueError, match=r"."):
        _servers([b"a.example", b"2 3", b"b.example", host])


class StoppingAtItsEnd(Shop):
    """The server stops as the spider is closed."""

    def closed(self, reason: str) -> None:
        self.stop()


@pytest.mark.parametrize("recrawl", ["", "changed"])
@pytest.mark.parametrize("scheduler", ["scrapy.core.scheduler.Scheduler", FLEET_SCHEDULER])
def test_after_an_outage_as_a_crawl_ended_the_next_one_fetches(
    scheduler: str, recrawl: str, mock_site: MockSite, tmp_path: Path
) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    with running_server(appendonly="yes", appendfsync="always", dir=folder) as server:
        fleet = Fleet(mock_site, server.url, tmp_path)
        more = {"SCHEDULER": scheduler, "NEARDUP_RECRAWL": recrawl}
        add_shop(mock_site)
        fleet.crawl("one", **more)
        seed = mock_site.url("/start")
        crawl(StoppingAtItsEnd, fleet.settings("one", **more), seed=seed, stop=server.kill)
        server.start()
        mock_site.add("/p/1", product(1, price="99.00"))
        mock_site.add("/p/9", product(9))
        mock_site.add("/start", page("start now", *(f"/p/{i}" for i in range(10))))
        third = fleet.crawl("one", **more)
        assert fleet.urls("/p/9")[0] in third.urls
        assert (fleet.urls("/p/1")[0] in third.urls) == bool(recrawl)


def add_start(site: MockSite, price: str) -> None:
    links = "".join(f'<a href="/p/{i}">{i}</a>' for i in range(8))
    site.add("/start", product(77, price=price, noise=links))


def prices_of_start(outcome: Outcome) -> list[str]:
    return [item["price"] for item in outcome.items if item["url"].endswith("/start")]


def test_what_the_worker_found_that_went_on_with_a_run_is_compared_with(
    server: RunningServer, fleet: Fleet, tmp_path: Path
) -> None:
    """The price goes up and comes down again: each change is told."""
    add_shop(fleet.site)
    add_start(fleet.site, "1.00")
    assert prices_of_start(fleet.crawl("one")) == ["1.00"]
    add_start(fleet.site, "2.00")
    file = tmp_path / "items"
    fleet.crawl_until_killed(server, "two", FILE_OF_ITEMS=str(file))
    assert "2.00" in file.read_text()
    add_start(fleet.site, "3.00")  # hours later the run goes on
    assert prices_of_start(fleet.crawl("three")) == ["3.00"]
    add_start(fleet.site, "2.00")
    assert prices_of_start(fleet.crawl("four")) == ["2.00"]
    assert prices_of_start(fleet.crawl("five")) == []

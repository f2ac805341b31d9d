"""Workers of a fleet fetch known pages when they are due, by what all of them found."""

import asyncio
import json
import math
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleets import RunningServer, running_server
from mock_site import MockSite, page
from scrapy.http import Response
from test_crawl_recrawl import Shop, add_shop, found, product
from test_crawl_revisits import DAY, Clock, N, Sitemapped, add_sitemap, clock, not_due

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from test_fleet_client import RECRAWL_USER, USER
from test_fleet_recrawl import FLEET_SCHEDULER, VISIT, Fleet, Hands, Stopping, is_clean

from scrapy_neardup.commands import main
from scrapy_neardup.crawl.recrawl.revisits import Revisits
from scrapy_neardup.fleet import visit_scripts as scripts
from scrapy_neardup.fleet.protocol import Call
from scrapy_neardup.fleet.visit_records import pack_hint, unpack_hint
from scrapy_neardup.learn.change_rates import History
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.visit import Hint, HostRecord, PageKey
from tests.crawls import Outcome

__all__ = ["clock"]  # a fixture
WORKERS = ("one", "two", "three")


class Revisiting(Fleet):
    """A fleet under NEARDUP_REVISIT, of whose workers each day another one crawls."""

    n_crawls = 0

    def settings(self, worker: str, **settings: Any) -> dict[str, Any]:
        return super().settings(worker, **({"NEARDUP_REVISIT": "adaptive"} | settings))

    def crawl_next(self, spider: type = Shop, **settings: Any) -> Outcome:
        self.n_crawls += 1
        outcome = self.crawl(WORKERS[self.n_crawls % 3], spider, **settings)
        assert is_clean(outcome)
        assert found(outcome).get("gone", 0) == 0
        return outcome

    def gets(self, *paths: str) -> int:
        return sum(map(self.site.gets, paths))


@pytest.fixture
def fleet(server: RunningServer, mock_site: MockSite, tmp_path: Path) -> Revisiting:
    return Revisiting(mock_site, server.url, tmp_path)


PAGES = [f"/p/{i}" for i in range(N)]


def test_a_page_that_never_changes_is_fetched_ever_more_seldom(
    fleet: Revisiting, clock: Clock
) -> None:
    add_shop(fleet.site, N)
    gets = []
    for day in range(30):
        assert fleet.crawl_next().items == [] or day == 0
        gets.append(fleet.gets(*PAGES))
        clock.now += DAY
    early, late = gets[10] - gets[0], gets[29] - gets[19]
    assert 0 < 2 * late <= early
    assert fleet.gets("/start") == 30


def test_a_page_that_changes_every_day_is_fetched_every_day(
    fleet: Revisiting, clock: Clock
) -> None:
    add_shop(fleet.site, N)
    fetched = []
    for day in range(20):
        fleet.site.add("/p/1", product(1, price=f"{day}.00"))
        outcome = fleet.crawl_next()
        fetched.append(fleet.gets("/p/1"))
        assert len(outcome.urls) == (N if day == 0 else fetched[-1] - fetched[-2])
        clock.now += DAY
    assert fetched[-1] - fetched[-9] == 8
    assert fleet.gets("/p/2") < 12


def add_list(site: MockSite) -> None:
    site.add("/start", page("start", "/list"))
    site.add("/list", page("list", *PAGES))
    for i, path in enumerate(PAGES):
        site.add(path, product(i))


def test_links_of_a_page_that_is_not_due_are_followed_by_any_worker(
    fleet: Revisiting, clock: Clock
) -> None:
    add_list(fleet.site)
    for day in range(12):
        fleet.site.add("/p/1", product(1, price=f"{day}.00"))
        outcome = fleet.crawl_next()
        assert day == 0 or set(outcome.urls) <= {fleet.site.url("/p/1")}
        assert found(outcome).get("new", 0) == (N + 2 if day == 0 else 0)
        clock.now += DAY
    assert outcome.urls
    assert fleet.gets("/list") < 12
    assert not_due(outcome) > 0


def test_pages_not_due_are_counted_and_listed_and_cost_no_question(
    fleet: Revisiting, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    add_shop(fleet.site, N)
    first = fleet.crawl("one")
    clock.now += 60
    second = fleet.crawl("two")
    assert not_due(second) == N
    assert second.items == []
    assert second.stat("backend/asked") <= first.stat("backend/asked")
    capsys.readouterr()
    assert main(["changes", str(fleet.folder / "two"), "--due", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["url"] for row in rows if row["passed_over_in_run"]} == set(fleet.urls(*PAGES))
    clock.now += 60
    third = fleet.crawl("three", NEARDUP_REVISIT=None)
    assert not_due(third) == 0
    assert found(third) == {"unchanged": N + 1}
    assert main(["changes", str(fleet.folder / "three"), "--due", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert not any(row["passed_over_in_run"] for row in rows)


def test_two_workers_at_once_pass_each_page_over_once(fleet: Revisiting) -> None:
    add_list(fleet.site)
    fleet.crawl_at_once("one", "two", SCHEDULER=FLEET_SCHEDULER)
    fleet.site.add("/p/new", product(99))
    fleet.site.add("/start", page("start", "/list", "/p/new"))
    got = fleet.crawl_at_once("one", "two", SCHEDULER=FLEET_SCHEDULER)
    assert [item["url"] for items, _ in got for item in items] == fleet.urls("/p/new")
    n = {
        word: sum(stats.get(f"neardup/recrawl/{word}", 0) for _, stats in got)
        for word in ("not_due", "gone", "new", "changed")
    }
    assert n == {"not_due": N + 1, "gone": 0, "new": 1, "changed": 1}
    assert fleet.gets(*PAGES) == N


def test_links_between_known_pages_that_vary_are_no_change(fleet: Revisiting, clock: Clock) -> None:
    n = 24
    paths, rng = [f"/q/{i}" for i in range(n)], random.Random(3)
    fleet.site.add("/start", page("start", paths[0]))

    def mix() -> None:
        for i, path in enumerate(paths):
            others = [paths[(i + 1) % n], *rng.sample(paths, 3)]
            links = "".join(f"<a href={other}></a>" for other in others)
            fleet.site.add(path, product(i, noise=links))

    gets = []
    for _ in range(16):
        mix()
        fleet.crawl_next()
        gets.append(fleet.gets(*paths))
        clock.now += DAY
    assert gets[15] - gets[8] < 4 * n  # in seven days


def test_a_page_that_brings_new_links_changes(fleet: Revisiting, clock: Clock) -> None:
    fetched = []
    for day in range(12):
        fleet.site.add("/start", page("start", "/hub", *PAGES))
        links = "".join(f"<a href=/news/{i}></a>" for i in range(day + 1))
        fleet.site.add("/hub", product(50, noise=links))
        fleet.site.add(f"/news/{day}", product(100 + day))
        for i, path in enumerate(PAGES):
            fleet.site.add(path, product(i))
        urls = fleet.crawl_next().urls
        fetched.append(fleet.gets("/hub"))
        assert fleet.site.url(f"/news/{day}") in urls or fetched[-1] == fetched[-2]
        clock.now += DAY
    assert fetched[-1] - fetched[5] == 6  # every day


def test_what_a_sitemap_said_to_one_worker_is_known_to_the_others(
    fleet: Revisiting, clock: Clock
) -> None:
    dates = dict.fromkeys(PAGES, clock.now - DAY)
    for day in range(30):
        path = PAGES[day % N]
        fleet.site.add(path, product(day % N, price=f"{day}.00"))
        dates[path] = clock.now - 60
        for i, other in enumerate(PAGES):
            if other not in fleet.site.pages:
                fleet.site.add(other, product(i))
        add_sitemap(fleet.site, dates)
        outcome = fleet.crawl_next(Sitemapped)
        if day:
            assert outcome.urls == [fleet.site.url(path)]
        clock.now += DAY
    assert not_due(outcome) == N - 1


def test_without_the_server_every_page_is_fetched(fleet: Revisiting, clock: Clock) -> None:
    with running_server() as server:
        fleet.url = server.url
        add_shop(fleet.site, N)
        fleet.crawl("one")
        clock.now += 60
        stopping = type("StoppingHere", (Stopping,), {"server": server})
        fleet.site.add("/start", page("start", *PAGES[4:5], *PAGES))
        fleet.site.add("/p/4", product(4, price="1"))
        clock.now += 40 * DAY  # all are due
        second = fleet.crawl("one", stopping, DEPTH_PRIORITY=1)
    assert not_due(second) == 0
    assert fleet.gets(*PAGES) == 2 * N
    assert second.stat("backend/unanswered") > 0


def test_what_the_server_has_forgotten_is_fetched(
    fleet: Revisiting, server: RunningServer, clock: Clock
) -> None:
    add_shop(fleet.site, N)
    fleet.crawl("one")
    clock.now += 60
    server.command("FLUSHALL")
    second = fleet.crawl("one")
    assert not_due(second) == 0
    assert len(second.items) == N


def test_a_user_with_few_permissions_will_do(
    fleet: Revisiting, server: RunningServer, clock: Clock
) -> None:
    server.command("ACL", "SETUSER", *USER.split(), *RECRAWL_USER.split())
    server.command("ACL", "SETUSER", "default", "off")
    fleet.url = server.url.replace("redis://", "redis://worker:Pass%2Fword1@")
    for i, path in enumerate(PAGES):
        fleet.site.add(path, product(i))
    for expected in (0, N):
        add_sitemap(fleet.site, dict.fromkeys(PAGES, clock.now - DAY))
        outcome = fleet.crawl_next(Sitemapped)
        assert not_due(outcome) == expected
        assert outcome.stat("backend/unanswered") == 0
        clock.now += 60


class Pair:
    """Two workers that take part in a run without a crawl."""

    def __init__(self, url: str, folder: Path) -> None:
        self.one, self.two = (Hands(url, folder / name) for name in ("one", "two"))

    def sync(self) -> None:
        """What was told has arrived."""
        for hands in (self.one, self.two):
            hands.is_done()

    def close(self) -> None:
        self.one.close()
        self.two.close()


@pytest.fixture
def pair(server: RunningServer, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(server.url, tmp_path)
    yield pair
    pair.close()


def test_what_workers_count_of_a_shape_adds_up(pair: Pair) -> None:
    one, two = pair.one.visits, pair.two.visits
    one.put_shape("a.example/*", History(1, 1, DAY))
    two.put_shape("a.example/*", History(1, 0, 2 * DAY))
    one.put_shape("a.example/*", History(2, 1, 4 * DAY))
    two.put_server("a.example", HostRecord(n_refuted=1, n_dates_right=3, n_dates_wrong=1))
    pair.sync()
    assert one.shapes() == two.shapes() == {"a.example/*": History(3, 1, 6 * DAY)}
    assert one.servers()["a.example"] == HostRecord(1, 0, 3, 1)
    one.put_shape("a.example/*", History(4, 2, 7 * DAY))
    pair.sync()
    assert two.shapes() == {"a.example/*": History(4, 2, 7 * DAY)}


def test_a_count_that_comes_twice_counts_once(pair: Pair) -> None:
    visits = pair.one.visits
    visits.put_shape("a.example/*", History(1, 1, DAY))
    pair.sync()
    arguments = (pair.one.worker.fleet._worker.hex(), 1, 60_000, "sa.example/*", 1, 1, DAY)
    again = Call(scripts.ADD, visits._rates_key, arguments, bool)
    assert visits._link.ask(again).result() is False
    assert visits.shapes() == {"a.example/*": History(1, 1, DAY)}


@pytest.mark.parametrize(
    "sums", [(math.nan, 1, 1), (1, 1, math.inf), (-1, 0, 1), (1e308, 1e308, 1e-300), (1, 9, 0)]
)
def test_whatever_a_server_counts_a_page_waits_no_longer_than_the_maximum(
    sums: tuple[float, ...], pair: Pair, clock: Clock
) -> None:
    packed = struct.pack(">ddd", *sums)
    put = "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return 1"
    visits = pair.one.visits
    for name in ("sa.example/*", "sa.example", "da.example"):
        visits._link.ask(Call(put, visits._rates_key, (name, packed), bool)).result()
    for hint in (Hint(clock.now - 40 * DAY, None), Hint(None, 1e300), Hint(-1e300, 0.0)):
        visits.put_hint(PageKey(VISIT.key, "", VISIT.url), hint)
        pair.sync()
        settings = NearDupSettings(recrawl="changed", revisit="adaptive")
        revisits = Revisits(settings, visits, visits.servers())
        visit = VISIT._replace(time=clock.now - 30 * DAY)
        assert revisits.is_due(visit)


def test_what_one_worker_reads_in_a_sitemap_comes_with_the_answer_about_the_page(
    pair: Pair,
) -> None:
    hint = Hint(1_700_000_000.0, None)
    pair.one.visits.put_hint(PageKey(VISIT.key, "", VISIT.url), hint)
    assert pair.two.visits.hint(VISIT.key) is None
    pair.sync()
    pair.sync()
    assert pair.two.visits.hint(VISIT.key) == hint


def test_a_hint_gives_back_what_was_said() -> None:
    for hint in (Hint(1.5, 3.0), Hint(None, 3.0), Hint(1.5, None)):
        assert unpack_hint(pack_hint(hint)) == hint
    assert unpack_hint(b"") is None
    assert unpack_hint(struct.pack(">dd", math.inf, -math.inf)) == Hint(None, None)
    with pytest.raises(struct.error):
        unpack_hint(b"x")


def test_a_page_that_was_passed_over_is_what_another_worker_finds_it_to_be(pair: Pair) -> None:
    one, two = pair.one.visits, pair.two.visits
    page_key = PageKey(VISIT.key, "parse", VISIT.url)
    two.put(VISIT._replace(run=two.run, spider=two.spider, version=7))
    two.end("finished")
    pair.sync()
    three = Hands(pair.one.worker.settings.backend or "", one.path.parents[1] / "three")
    four = Hands(pair.one.worker.settings.backend or "", one.path.parents[1] / "four")
    asyncio.run(three.worker.fleet.bring_visit(page_key))
    known = three.visits.visit(VISIT.key, "parse")
    assert known is not None
    assert known.run < three.visits.run
    three.visits.passed(known)
    three.visits.flush()
    assert three.visits.n_passed() == 1
    four.put(b"changed")
    assert four.items() == b"changed"
    asyncio.run(three.worker.fleet.bring_visit(page_key))
    three.visits.flush()
    assert three.visits.version(VISIT.key) == VISIT.version
    three.close()
    four.close()


def test_what_a_page_leads_to_must_be_known_to_pass_it_over(
    fleet: Revisiting, clock: Clock
) -> None:
    class Lambdas(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            for output in super().parse(response):
                if not isinstance(output, dict):
                    output.callback = lambda response: self.parse(response)
                yield output

    add_list(fleet.site)
    fleet.crawl_next(Lambdas)
    clock.now += 60
    assert not_due(fleet.crawl_next(Lambdas)) == 0
    assert fleet.gets("/p/1") == 2

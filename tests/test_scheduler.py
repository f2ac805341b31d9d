"""FleetScheduler: real crawls whose requests wait on a real server."""

import json
import logging
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from crawls import Outcome, crawl
from fleets import PATIENCE_S, RunningServer, running_server, wait_until, wire_to
from mock_site import MockSite, Reply, page, prose, redirect, running_site
from scrapy import FormRequest, Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from test_fleet_frontier import Workers
from test_state_guest import opened

from scrapy_neardup.crawl import session
from scrapy_neardup.crawl.queues.fleet_queue import FleetQueue
from scrapy_neardup.crawl.queues.request_json import request_to_json
from scrapy_neardup.crawl.requests.request_tracker import TRACE
from scrapy_neardup.errors import FleetError, SettingsError
from scrapy_neardup.fleet.client import Server
from scrapy_neardup.fleet.frontier import SharedFrontier
from scrapy_neardup.fleet.futures import pause
from scrapy_neardup.fleet.link import Link
from scrapy_neardup.fleet.protocol import beat
from scrapy_neardup.signals import items_delivered, items_held

SCHEDULER = "scrapy_neardup.scheduler.FleetScheduler"


class Links(Spider):
    """Follows every link and makes an item of every page."""

    name = "links"
    root: str
    outcome: Outcome
    reason = ""

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.root)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"url": response.url}
        yield from response.follow_all(css="a")

    def closed(self, reason: str) -> None:
        self.outcome.stats["reason"] = reason


def run(server: RunningServer, root: str, spider: type[Spider] = Links, **more: Any) -> Outcome:
    settings = {"NEARDUP_BACKEND": server.url, "SCHEDULER": SCHEDULER, "CONCURRENT_REQUESTS": 8}
    return crawl(spider, settings | more, root=root)


def hub(site: MockSite, *paths: str) -> str:
    return site.add("/hub", page(prose("hub"), *map(site.url, paths)))


def kept(outcome: Outcome, site: MockSite) -> Counter[str]:
    return Counter(url.removeprefix(site.root) for url in outcome.urls)


def contents(outcome: Outcome, site: MockSite) -> Counter[str]:
    """What was kept, where a copy stands for its original."""
    return Counter(path.replace("/copy/", "/page/") for path in kept(outcome, site).elements())


def test_a_crawl_keeps_what_it_keeps_with_scrapys_scheduler(
    server: RunningServer, mock_site: MockSite
) -> None:
    pages = [f"/page/{n}" for n in range(20)]
    root = hub(mock_site, *pages, *pages, "/copy/1", "/moved", "/login", "/flaky", "/missing")
    settings = {"CONCURRENT_REQUESTS": 8}
    expected = contents(crawl(Links, settings, root=root), mock_site)
    mock_site.hits.clear()
    outcome = run(server, root)
    assert contents(outcome, mock_site) == expected
    assert not [key for key in outcome.stats if key.startswith("neardup/errors")]
    assert outcome.stats["finish_reason"] == "finished"
    assert server.command("HLEN", "{neardup}:q:s:links:requests") == ":0\r\n"


def test_a_second_crawl_makes_the_start_requests_again_and_no_other(
    server: RunningServer, mock_site: MockSite
) -> None:
    root = hub(mock_site, "/page/1", "/page/2")
    run(server, root)
    run(server, root)
    assert mock_site.gets("/hub") == 2
    assert mock_site.gets("/page/1") == mock_site.gets("/page/2") == 1


class Local(Links):
    """Finds requests that cannot be written as JSON."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield Request(link, cb_kwargs={"unwritable": object()})


class OfLeaves(Links):
    """Makes items of pages that lead nowhere."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        if response.css("a"):
            yield from response.follow_all(css="a")
        else:
            yield {"url": response.url, "text": response.text}


@pytest.mark.parametrize("ahead", [16, 0])
def test_the_next_crawl_finds_what_is_new_behind_pages_that_brought_no_item(
    ahead: int, server: RunningServer, mock_site: MockSite, tmp_path: Path
) -> None:
    folder = {"NEARDUP_STATE_DIR": str(tmp_path)} if ahead else {}
    mock_site.add("/late", page(prose("late"), "/list", "/leaf/1"))
    root = hub(mock_site, "/late", "/list")
    for n in (1, 2):
        mock_site.add(f"/leaf/{n}", page(prose(f"leaf {n}")))
    mock_site.add("/list", page(prose("list"), "/leaf/1"))
    first = run(server, root, OfLeaves, **folder)
    assert [*kept(first, mock_site)] == ["/leaf/1"]
    assert mock_site.gets("/list") == 1
    mock_site.add("/list", page(prose("list"), "/leaf/1", "/leaf/2"))
    second = run(server, root, OfLeaves, **folder)
    assert [*kept(second, mock_site)] == ["/leaf/2"]
    assert mock_site.gets("/list") == 2
    assert mock_site.gets("/leaf/1") == 1


class WhenIdle(Spider):
    """Calls its idle() when there is nothing left to do."""

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, signal=signals.spider_idle)
        return spider

    def idle(self) -> None:
        raise NotImplementedError


class Staying(WhenIdle, OfLeaves):
    """Ends its run when it has nothing left to do, begins another, and goes on with that."""

    server: RunningServer
    site: MockSite
    runs = 1

    def idle(self) -> None:
        if self.runs == 1:
            self.runs = 2
            self.server.command("HSET", "{neardup}:q:s:links:run", "id", "2")
            self.site.add("/list", page(prose("list"), "/leaf/1", "/leaf/2"))
            self.crawler.engine.crawl(Request(self.root, dont_filter=True))
            raise DontCloseSpider


@pytest.mark.parametrize("ours", [True, False])
def test_a_worker_that_outlives_a_run_reads_lists_again_in_the_next_one(
    ours: bool, server: RunningServer, mock_site: MockSite
) -> None:
    class Now(Staying):
        pass

    Now.server, Now.site = server, mock_site
    for n in (1, 2):
        mock_site.add(f"/leaf/{n}", page(prose(f"leaf {n}")))
    mock_site.add("/list", page(prose("list"), "/leaf/1"))
    dupefilter = "scrapy_neardup.dupefilter.LayeredBloomDupeFilter" if ours else RFPDupeFilter
    outcome = run(server, hub(mock_site, "/list"), Now, DUPEFILTER_CLASS=dupefilter)
    assert [*kept(outcome, mock_site)] == ["/leaf/1", "/leaf/2"]
    assert mock_site.gets("/leaf/1") == 1


def test_a_crawl_without_the_shared_queue_says_that_it_finds_nothing_behind_known_lists(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    mock_site.add("/list", page(prose("list"), "/leaf/1"))
    mock_site.add("/leaf/1", page(prose("leaf")))
    root, own_queue = hub(mock_site, "/list"), {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}
    run(server, root, OfLeaves, **own_queue)
    assert "reads none of them again" not in caplog.text
    assert not run(server, root, OfLeaves, **own_queue).items
    assert "had fetched all 1 URLs that this one found" in caplog.text
    caplog.clear()
    run(server, root, OfLeaves)
    assert "reads none of them again" not in caplog.text


def test_a_page_without_an_item_is_read_once_in_a_run_that_was_stopped(
    server: RunningServer, mock_site: MockSite
) -> None:
    leaves = [f"/leaf/{n}" for n in range(9)]
    mock_site.add("/list", page(prose("list"), "/way", *leaves))  # the last is followed first
    mock_site.add("/way", page(prose("way"), "/list"))
    for leaf in leaves:
        mock_site.add(leaf, page(prose(leaf)))
    root = hub(mock_site, "/list")
    first = run(server, root, OfLeaves, CLOSESPIDER_ITEMCOUNT=1, CONCURRENT_REQUESTS=1)
    assert len(kept(first, mock_site)) < len(leaves)
    second = run(server, root, OfLeaves, CONCURRENT_REQUESTS=1)
    assert second.stat("urls/led_on") == second.stat("urls/dropped") == 1  # /way, and back
    assert Counter(kept(first, mock_site)) + kept(second, mock_site) == Counter(leaves)
    assert mock_site.gets("/list") == 1


def test_requests_that_cannot_be_written_as_json_stay_with_the_worker(
    server: RunningServer, mock_site: MockSite
) -> None:
    outcome = run(server, hub(mock_site, "/page/1", "/page/2"), Local)
    assert kept(outcome, mock_site) == Counter(["/hub", "/page/1", "/page/2"])
    assert outcome.stats["scheduler/unserializable"] == 2
    assert outcome.stat("frontier/pushed") == 1


class Rules(Links, CrawlSpider):
    """Scrapy hands on what each link says."""

    rules = (Rule(LinkExtractor(), callback="parse_page"),)
    parse = CrawlSpider.parse

    def parse_page(self, response: Response, **_: Any) -> Iterator[Any]:
        yield {"url": response.url}


def test_requests_for_links_that_a_rule_found_are_shared(
    server: RunningServer, mock_site: MockSite
) -> None:
    outcome = run(server, hub(mock_site, "/page/1", "/page/2"), Rules)
    assert kept(outcome, mock_site) == Counter(["/page/1", "/page/2"])
    assert "scheduler/unserializable" not in outcome.stats
    assert outcome.stat("frontier/pushed") == 3


class LocalStart(Local):
    """Starts with such a request, too."""

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.root, cb_kwargs={"unwritable": object()})


def test_a_request_that_stays_with_its_worker_waits_until_no_other_has_its_host(
    server: RunningServer, mock_site: MockSite
) -> None:
    other, hits = Workers(server)("links", key=0), []
    other.push("1", host="127.0.0.1", key=False)
    assert other.take() == ["1"]

    def release_the_host() -> None:
        wait_until(lambda: server.command("ZCARD", "{neardup}:q:wanted:127.0.0.1") == ":1\r\n")
        hits.append(mock_site.gets("/hub"))
        other.done(*other.given.requests)
        other.released = ["127.0.0.1"]
        other.take(0, is_idle=True)

    with ThreadPoolExecutor() as pool:
        released = pool.submit(release_the_host)
        settings = {"ROBOTSTXT_OBEY": False}
        outcome = run(server, hub(mock_site, "/page/1", "/page/2"), LocalStart, **settings)
        released.result()
    assert hits == [0]
    assert kept(outcome, mock_site) == Counter(["/hub", "/page/1", "/page/2"])
    assert outcome.stats["finish_reason"] == "finished"
    other.link.close(0)


def test_a_request_that_fails_in_each_crawl_is_made_no_more_often_in_the_next(
    server: RunningServer, mock_site: MockSite
) -> None:
    root, hits = hub(mock_site, "/dead", "/page/1"), [0]
    for _ in range(4):
        run(server, root, RETRY_TIMES=1)
        hits.append(mock_site.gets("/dead"))
    assert [after - before for before, after in pairwise(hits)] == [2, 3, 3, 3]


class WithSku(Request):
    """Holds what Request.to_dict() does not know of."""

    def __init__(self, *args: Any, sku: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sku = sku


class WithSlot(Request):
    """The same in a slot."""

    __slots__ = ("sku",)

    def __init__(self, *args: Any, sku: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sku = sku


class WithKey(Request):
    """Signs its URL."""

    def __init__(self, url: str, *args: Any, sku: str = "", **kwargs: Any) -> None:
        super().__init__(f"{url}?key={sku}", *args, **kwargs)
        self.sku = "of the URL"


class WithoutUrl(Request):
    """Cannot be made from what Request.to_dict() gives."""

    def __init__(self, link: str, sku: str, **kwargs: Any) -> None:
        super().__init__(link, **kwargs)
        self.sku = sku


class Shop(Links):
    """Makes requests of a class of its own."""

    class Nested(WithSku):
        """Is not found by its name."""

    kind: type[Any]

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        for n, link in enumerate(response.css("a::attr(href)").getall()):
            yield self.kind(link, callback=self.page, sku=f"sku-{n}")

    def page(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "sku": getattr(response.request, "sku", "")}


@pytest.mark.parametrize("kind", [WithSku, WithSlot, WithKey, WithoutUrl, Shop.Nested])
def test_requests_that_would_come_back_as_others_stay_with_the_worker(
    server: RunningServer, mock_site: MockSite, kind: type[Request]
) -> None:
    root = hub(mock_site, "/page/1", "/page/2")
    shop = type("OfKind", (Shop,), {"kind": kind})
    expected = crawl(shop, {}, root=root)
    assert len(expected.items) == 2
    outcome = run(server, root, shop)
    assert sorted(map(repr, outcome.items)) == sorted(map(repr, expected.items))
    assert outcome.stats["scheduler/unserializable"] == 2
    assert outcome.stats["finish_reason"] == "finished"


class WithListedSku(WithSku):
    """Says what it holds."""

    attributes = (*Request.attributes, "sku")


def test_requests_of_a_class_that_lists_its_attributes_are_shared(
    server: RunningServer, mock_site: MockSite
) -> None:
    shop = type("OfKind", (Shop,), {"kind": WithListedSku})
    outcome = run(server, hub(mock_site, "/page/1", "/page/2"), shop)
    assert sorted(item["sku"] for item in outcome.items) == ["sku-0", "sku-1"]
    assert "scheduler/unserializable" not in outcome.stats
    assert outcome.stat("frontier/pushed") == 3


class Laden(Links):
    """Hands on much with each link."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"url": response.url}
        yield from response.follow_all(css="a", meta={"laden": "x" * 20_000})


def test_large_requests_arrive_over_a_link_that_carries_a_few_at_a_time(
    server: RunningServer, mock_site: MockSite
) -> None:
    root = hub(mock_site, *(f"/page/{n}" for n in range(30)))
    with wire_to(server, most=200_000) as wire:
        settings = {"NEARDUP_BACKEND": wire.url, "CONCURRENT_REQUESTS": 2}
        outcome = run(server, root, Laden, **settings, CLOSESPIDER_TIMEOUT=30)
    assert len(outcome.items) == 31
    assert outcome.stats["finish_reason"] == "finished"


class Books(Links):
    """Puts each book out with its author, whose page has another session id in each link."""

    of: Iterable[int]

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        for n in self.of:
            url = response.urljoin(by_session(n))
            yield Request(url, self.author, cb_kwargs={"book": n})

    def author(self, response: Response, book: int) -> Iterator[Any]:
        yield {"url": response.url, "book": book}


PLAIN = 9  # a book whose author is linked by the page's own URL


def by_session(n: int) -> str:
    if n == PLAIN:
        return "/page/author"
    return f"/page/author?sid={n}123456789abcdef0123456789abcdef"


class MembersOnly(MockSite):
    """Shows /member/N to who has been to /login."""

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        if path == "/login":
            return Reply(page(prose("login")), headers={"Set-Cookie": "passed=1"})
        if path.startswith("/member/"):
            is_member = "passed=1" in cookie
            return Reply(page(prose(path))) if is_member else redirect("/login")
        return super().reply(method, path, cookie, body)


class Members(Links):
    """Logs in, and reads the members' pages."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        for number in range(3):
            yield response.follow(f"/member/{number}", self.member)

    def member(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


def test_a_worker_goes_on_behind_the_login_of_another(server: RunningServer) -> None:
    with running_site(MembersOnly) as site:
        root = site.url("/login")
        first = run(server, root, Members, CLOSESPIDER_PAGECOUNT=2, CONCURRENT_REQUESTS=1)
        assert not first.items
        second = run(server, root, Members)
        assert kept(second, site) == Counter(f"/member/{n}" for n in range(3))


class Sessions(MockSite):
    """Gives each visitor a session; a form at /login makes one a member's. Old ids stay valid."""

    is_new_at_login = True
    is_renewed = False  # at each answer

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.of_members: set[str] = set()
        self._ids = count()

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        is_login = method == "POST"
        is_member = is_login or cookie in self.of_members
        if not cookie or self.is_renewed or (is_login and self.is_new_at_login):
            cookie = f"session={next(self._ids)}"
        if is_member:
            self.of_members.add(cookie)
        given = {"Set-Cookie": f"{cookie}; Path=/"}
        if is_login:
            return redirect("/member/home", 303, **given)
        text = path if is_member or not path.startswith("/member/") else "log in"
        return Reply(page(prose(text)), headers=given)


class SessionsOfOldPhp(Sessions):
    """A session keeps its id at the login."""

    is_new_at_login = False


class RenewedSessions(Sessions):
    is_renewed = True


class Signing(Links):
    """Signs in by a form, and reads the members' pages."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        fields = {"user": "me", "password": "secret"}
        yield FormRequest(response.url, callback=self.members, formdata=fields)

    def members(self, response: Response) -> Iterator[Any]:
        for number in range(8):
            yield response.follow(f"/member/{number}", self.member)

    def member(self, response: Response) -> Iterator[Any]:
        if prose("log in") not in response.text:
            yield {"url": response.url}


class Visiting(Signing):
    """Has read pages as an unknown visitor before it takes requests."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.visit, signal=signals.spider_opened)
        return spider

    async def visit(self) -> None:
        assert self.crawler.engine
        for number in range(20):
            url = self.root.replace("/login", f"/page/{number}")
            await self.crawler.engine.download_async(Request(url))


@pytest.mark.parametrize("kind", [Sessions, SessionsOfOldPhp, RenewedSessions])
def test_a_login_holds_for_a_worker_that_is_an_unknown_visitor(
    server: RunningServer, kind: type[Sessions]
) -> None:
    with running_site(kind) as site:
        root = site.url("/login")
        first = run(server, root, Signing, CLOSESPIDER_PAGECOUNT=3, CONCURRENT_REQUESTS=1)
        second = run(server, root, Visiting)
        members = Counter(f"/member/{n}" for n in range(8))
        assert len(first.items) < 8
        assert kept(first, site) + kept(second, site) == members


class Tagging(Links):
    """Tags its items with an argument."""

    tag: str

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"url": response.url, "tag": self.tag}
        yield from response.follow_all(css="a")


def run_tagged(server: RunningServer, root: str, tag: str, **more: Any) -> Outcome:
    settings = {"NEARDUP_BACKEND": server.url, "SCHEDULER": SCHEDULER} | more
    return crawl(Tagging, settings, root=root, tag=tag, _job=str(more))


def test_a_worker_that_goes_on_with_a_run_of_other_arguments_says_so(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    root = hub(mock_site, "/page/1", "/page/2")
    first = run_tagged(server, root, "shoes", CLOSESPIDER_PAGECOUNT=2)
    assert not first.stat("frontier/other_arguments")
    second = run_tagged(server, root, "hats")
    assert kept(first, mock_site) + kept(second, mock_site) == Counter(
        {"/hub": 2, "/page/1": 1, "/page/2": 1}  # each starts for itself
    )
    assert second.stat("frontier/other_arguments") == 1
    assert caplog.text.count("begun by a worker with another 'tag'.") == 1


def test_a_run_with_other_arguments_than_the_last_says_once_what_is_known(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    """Not as a warning: the day may be an argument."""
    caplog.set_level(logging.INFO)
    root = hub(mock_site, "/page/1", "/page/2")
    for tag, n_told in (("monday", 0), ("tuesday", 1), ("tuesday", 1)):
        ended = run_tagged(server, root, tag, LOG_LEVEL="INFO")
        told = [one for one in caplog.records if "the last run of this spider had" in one.msg]
        assert [one.levelname for one in told] == n_told * ["INFO"]
        assert not ended.stat("frontier/other_arguments")


def test_another_secret_makes_no_arguments_others(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    """Their digests are keyed."""
    root = hub(mock_site, "/page/1", "/page/2")
    run_tagged(server, root, "hats", NEARDUP_KEY=None, CLOSESPIDER_PAGECOUNT=1)
    server.command("DEL", "{neardup}:fleet")  # as `fleet rotate-key` does
    second = run_tagged(server, root, "hats", NEARDUP_KEY=None)
    assert second.stats["finish_reason"] == "finished"
    assert not second.stat("frontier/other_arguments")
    assert "with another" not in caplog.text


class Titles(Links):
    """Finds something else on the same pages."""

    name = "titles"

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"title": response.css("title::text").get(), "of": response.url}
        yield from response.follow_all(css="a")


def test_a_spider_of_a_fleet_gets_the_pages_that_another_one_has_read(
    server: RunningServer, mock_site: MockSite
) -> None:
    pages = [f"/page/{n}" for n in range(5)]
    root = hub(mock_site, *pages)
    run(server, root)
    outcome = run(server, root, Titles)
    assert sorted(item["of"] for item in outcome.items) == sorted(
        map(mock_site.url, ["/hub", *pages])
    )


OWN_QUEUE = {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}
RECRAWL = {"NEARDUP_RECRAWL": "changed"}


@pytest.mark.parametrize(("more", "times"), [({}, 1), (OWN_QUEUE, 1), (RECRAWL, 2)])
def test_an_item_under_way_is_put_out_though_its_last_page_was_read_by_another_url(
    server: RunningServer, mock_site: MockSite, tmp_path: Path, more: dict[str, Any], times: int
) -> None:
    for n in (*range(5), PLAIN):
        mock_site.add(by_session(n), page(prose("author")))
    settings = {"CONCURRENT_REQUESTS": 1, "NEARDUP_STATE_DIR": str(tmp_path)} | more
    first = run(server, hub(mock_site), type("First", (Books,), {"of": range(3)}), **settings)
    assert sorted(item["book"] for item in first.items) == [0, 1, 2]
    assert first.stat("urls/exempt/item") == 2
    settings["NEARDUP_STATE_DIR"] = str(tmp_path / "of_another_worker")
    second = run(server, hub(mock_site), type("Second", (Books,), {"of": range(1, 5)}), **settings)
    assert {3, 4} <= {item["book"] for item in second.items}
    assert mock_site.gets(by_session(2)) == times
    for n, worker in enumerate(("third", "fourth")):
        settings["NEARDUP_STATE_DIR"] = str(tmp_path / worker)
        last = run(server, hub(mock_site), type("Plain", (Books,), {"of": [PLAIN]}), **settings)
        assert PLAIN in {item["book"] for item in last.items} or n
    assert mock_site.gets("/page/author") == times


class Gate(Links):
    """Opens a gate that leads to its page by a longer URL."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield response.follow("/page/gate", self.opened)

    def opened(self, response: Response) -> Iterator[Any]:
        for link in response.css("a"):
            yield response.follow(link, self.entered)

    def entered(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


@pytest.mark.parametrize("more", [{}, OWN_QUEUE])
def test_a_gate_that_leads_to_its_page_by_a_longer_url_is_passed(
    server: RunningServer, mock_site: MockSite, more: dict[str, Any]
) -> None:
    longer = "/page/gate?utm_source=accept"
    mock_site.add("/page/gate", page("a gate", longer))
    mock_site.add(longer, page(prose("behind it")))
    outcome = run(server, hub(mock_site), Gate, **more)
    assert outcome.urls == [mock_site.url(longer)]


class Failing(Links):
    """Its callback raises on one page, unless it is mended."""

    is_mended = False

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        if response.url.endswith("/page/1") and not self.is_mended:
            raise ValueError("no")
        yield from super().parse(response)


class Mended(Failing):
    is_mended = True


def test_a_page_that_failed_is_read_again_by_the_next_crawl(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    root = hub(mock_site, "/page/1", "/page/2")
    first = run(server, root, Failing)
    assert first.stats["finish_reason"] == "finished"
    assert first.stat("frontier/left") == 1
    assert "1 requests stay on the server" in caplog.text
    assert kept(first, mock_site) == Counter(["/hub", "/page/2"])
    second = run(server, root, Mended)
    assert not second.stat("frontier/left")
    assert "/page/1" in kept(second, mock_site)
    assert mock_site.gets("/page/2") == 1


class Stopping(Links):
    """Makes an item of /page/2, and wants to go no further."""

    def parse(self, response: Response, **kwargs: Any) -> Any:
        yield from super().parse(response)
        if response.url.endswith("/page/2"):
            raise CloseSpider("old")


class StoppingAtOnce(Stopping):
    """Makes no item of it, and its callback is no generator."""

    def parse(self, response: Response, **kwargs: Any) -> Any:
        if response.url.endswith("/page/2"):
            raise CloseSpider("old")
        return list(Links.parse(self, response))


class StoppingLocally(Stopping):
    """Its requests cannot be written as JSON, but for the first."""

    def parse(self, response: Response, **kwargs: Any) -> Any:
        for one in super().parse(response):
            yield one.replace(cb_kwargs={"local": object()}) if isinstance(one, Request) else one


IN_ORDER = {
    "CONCURRENT_REQUESTS": 1,
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
}


@pytest.mark.parametrize("spider", [Stopping, StoppingAtOnce])
def test_who_goes_on_with_a_spider_that_stopped_itself_does_not_begin_where_it_stopped(
    server: RunningServer, mock_site: MockSite, spider: type[Spider]
) -> None:
    root = hub(mock_site, *(f"/page/{n}" for n in range(1, 5)))
    first = run(server, root, spider, **IN_ORDER)
    assert first.stats["finish_reason"] == "old"
    second = run(server, root, spider, **IN_ORDER)
    assert second.stats["finish_reason"] == "finished"
    of_page_2 = [] if spider is StoppingAtOnce else ["/page/2"]
    both = kept(first, mock_site) + kept(second, mock_site)
    assert both == Counter(["/hub", "/page/1", "/page/3", "/page/4", *of_page_2])
    assert mock_site.gets("/page/2") == 1


def test_a_page_of_requests_that_stay_with_a_worker_that_stopped_itself_is_not_read_for_ever(
    server: RunningServer, mock_site: MockSite
) -> None:
    root = hub(mock_site, "/page/2")
    assert run(server, root, StoppingLocally, **IN_ORDER).stats["finish_reason"] == "old"
    left = server.command("HLEN", "{neardup}:q:s:links:requests")
    assert left == ":0\r\n"


def test_a_worker_that_is_stopped_says_how_many_requests_of_its_run_wait(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    root = hub(mock_site, *(f"/page/{n}" for n in range(1, 5)))
    run(server, root, StoppingAtOnce, **IN_ORDER)
    left = int(server.command("HLEN", "{neardup}:q:s:links:requests").removeprefix(":"))
    assert left > 0
    assert caplog.text.count("requests of this run wait on the server") == 1
    assert f"neardup: {left} requests of this run wait" in caplog.text
    caplog.clear()
    run(server, root, StoppingAtOnce, **IN_ORDER)
    assert "wait on the server" not in caplog.text


class Stopped(Links):
    """Stops in the errback of a page that a robots.txt forbids."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, errback=self.stop)

    def stop(self, failure: Any) -> None:
        raise CloseSpider("forbidden")


def test_a_request_whose_errback_stopped_the_spider_is_done_if_it_was_dropped_on_purpose(
    server: RunningServer, mock_site: MockSite
) -> None:
    root = hub(mock_site, "/private/page")
    assert run(server, root, Stopped).stats["finish_reason"] == "forbidden"
    assert server.command("HLEN", "{neardup}:q:s:links:requests") == ":0\r\n"


class TwoItems(Links):
    """Two items a page, of which a pipeline fails to store the second."""

    is_stored = False

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        for n in range(2):
            yield {"url": response.url, "n": n}
        yield from response.follow_all(css="a")


class Store:
    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        self = cls()
        self.crawler = crawler  # type: ignore[attr-defined]
        return self

    def process_item(self, item: Any) -> Any:
        if item["n"] and not self.crawler.spider.is_stored:  # type: ignore[attr-defined]
            raise OSError("the database is away")
        return item


@pytest.mark.parametrize("compare", ["page", "item"])
def test_an_item_that_could_not_be_stored_comes_with_the_next_crawl(
    server: RunningServer, mock_site: MockSite, compare: str
) -> None:
    settings = {"NEARDUP_COMPARE": compare, "ITEM_PIPELINES": {Store: 500}}
    root = hub(mock_site, "/page/1")
    first = run(server, root, TwoItems, **settings)
    assert [item["n"] for item in first.items] == [0, 0]
    later = type("Later", (TwoItems,), {"is_stored": True})
    second = run(server, root, later, **settings)
    assert mock_site.url("/page/1") in [item["url"] for item in second.items if item["n"]]


class FailingBelow(Links):
    """A callback of its own reads what is linked, and raises, unless it is mended."""

    is_mended = False

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield from response.follow_all(css="a", callback=self.parse_page)

    def parse_page(self, response: Response) -> Iterator[Any]:
        if not self.is_mended:
            raise ValueError("no")
        yield {"url": response.url}


class Renamed(Links):
    """The same, but the callback has another name."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield from response.follow_all(css="a", callback=self.read)

    def read(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


def test_a_page_whose_request_cannot_be_made_any_more_is_read_where_it_is_linked_again(
    server: RunningServer, mock_site: MockSite
) -> None:
    root = hub(mock_site, "/page/1", "/page/2")
    run(server, root, FailingBelow, LOG_LEVEL="CRITICAL")
    second = run(server, root, Renamed, LOG_LEVEL="CRITICAL")
    assert kept(second, mock_site) == Counter(["/page/1", "/page/2"])
    assert second.stats["finish_reason"] == "requests_lost"  # of those no page may link any more
    assert second.stat("requests/lost") == 2
    third = run(server, root, Renamed)
    assert third.stats["finish_reason"] == "finished"


def test_a_request_that_no_page_links_any_more_waits_for_its_callback(
    server: RunningServer, mock_site: MockSite
) -> None:
    run(server, hub(mock_site, "/page/1"), FailingBelow, LOG_LEVEL="CRITICAL")
    root = hub(mock_site)
    for _ in range(2):
        second = run(server, root, Renamed, LOG_LEVEL="CRITICAL")
        assert second.stats["finish_reason"] == "requests_lost"
    third = crawl(
        FailingBelow,
        {"NEARDUP_BACKEND": server.url, "SCHEDULER": SCHEDULER},
        root=root,
        is_mended=True,
    )
    assert kept(third, mock_site) == Counter(["/page/1"])
    assert third.stats["finish_reason"] == "finished"


class Flushing(Links):
    """Takes away the server's data in the middle of the crawl."""

    server: RunningServer

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield from super().parse(response)
        if response.url.endswith("/page/1"):
            self.server.command("FLUSHALL")
            session = self.crawler._neardup_session  # type: ignore[attr-defined]
            wait_until(lambda: session._fleet.n_restored == 1)


def test_a_crawl_whose_queue_the_server_lost_does_not_end_as_finished(
    server: RunningServer, mock_site: MockSite
) -> None:
    class Losing(Flushing):
        pass

    Losing.server = server
    outcome = run(server, hub(mock_site, "/page/1", "/page/2"), Losing)
    assert outcome.stats["finish_reason"] == "requests_lost"


def test_requests_of_which_the_server_has_only_the_ids_are_warned_of_once(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    root = hub(mock_site, *(f"/page/{n}" for n in range(8)))
    run(server, root, CLOSESPIDER_PAGECOUNT=1, CONCURRENT_REQUESTS=1)
    server.command("DEL", "{neardup}:q:s:links:requests")
    outcome = run(server, root, CONCURRENT_REQUESTS=1)
    assert outcome.stats["finish_reason"] == "requests_lost"
    assert outcome.stat("requests/lost") > 1
    assert caplog.text.count("it has no more than their ids") == 1
    assert "another NEARDUP_BACKEND_PREFIX" in caplog.text


class StoringLate(Flushing):
    """Its items are stored when the worker has noticed that the server has lost its data."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> "StoringLate":
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.hold, signals.spider_opened)
        crawler.signals.connect(spider.store, signals.spider_idle)
        return spider

    def hold(self) -> None:
        self.crawler.signals.send_catch_log(items_held, batch=1)

    def store(self) -> None:
        if not self.crawler.stats.get_value("neardup/frontier/went_back"):
            raise DontCloseSpider
        self.crawler.signals.send_catch_log(items_delivered, batch=1)


def test_pages_that_waited_for_their_items_to_be_stored_are_read_again_after_a_loss(
    server: RunningServer, mock_site: MockSite
) -> None:
    class Losing(StoringLate):
        pass

    Losing.server = server
    mock_site.add("/way", page(prose("way"), *map(mock_site.url, ("/page/1", "/page/2"))))
    root = hub(mock_site, "/way")
    first = run(server, root, Losing, CONCURRENT_REQUESTS=1)
    assert first.stats["finish_reason"] == "requests_lost"
    second = run(server, root)
    assert "/page/2" in {*kept(first, mock_site), *kept(second, mock_site)}
    assert mock_site.gets("/way") == 2


class Delivering(StoringLate):
    """The server loses its data just when its items are stored, and no connection fails."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield from Links.parse(self, response, **kwargs)
        # The newest of the requests is made first: the others wait on the server.
        if response.url.endswith("/page/19"):
            self.lose()

    def lose(self) -> None:
        self.server.command("FLUSHALL")
        self.crawler.signals.send_catch_log(items_delivered, batch=1)
        self.wait_until_told()

    def wait_until_told(self) -> None:
        session = self.crawler._neardup_session  # type: ignore[attr-defined]
        wait_until(lambda: not session._fleet._link._waiting)


class DeliveringBeside(Delivering):
    """The server is away, and comes back empty, just when its items are stored."""

    def lose(self) -> None:
        session = self.crawler._neardup_session  # type: ignore[attr-defined]
        self.server.kill()
        self.crawler.signals.send_catch_log(items_delivered, batch=1)
        wait_until(lambda: session._fleet._link.is_down)
        self.server.start()


@pytest.mark.parametrize("spider", [Delivering, DeliveringBeside])
def test_pages_that_were_to_be_marked_when_the_server_lost_its_data_are_read_again(
    spider: type[Delivering], server: RunningServer, mock_site: MockSite
) -> None:
    class Losing(spider):  # type: ignore[valid-type, misc]
        pass

    Losing.server = server
    pages = [f"/page/{n}" for n in range(1, 20)]
    mock_site.add("/way", page(prose("way"), *map(mock_site.url, pages)))
    root = hub(mock_site, "/way")
    first = run(server, root, Losing, CONCURRENT_REQUESTS=1)
    assert first.stats["finish_reason"] == "requests_lost"
    assert not {*pages} <= {*kept(first, mock_site)}
    second = run(server, root)
    assert second.stats["finish_reason"] == "finished"
    assert {*pages} <= {*kept(first, mock_site), *kept(second, mock_site)}


class DeliveringLater(DeliveringBeside):
    """The server comes back with what it had when the page of links was read."""

    def hold(self) -> None:
        """Not from the start: see parse()."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        if response.url.endswith("/way"):
            self.wait_until_told()
            self.server.command("SAVE")
            super().hold()
        yield from super().parse(response, **kwargs)


def test_pages_that_were_to_be_completed_when_the_server_went_back_are_read_again(
    mock_site: MockSite, tmp_path: Path
) -> None:
    with running_server(dir=tmp_path) as server:

        class Losing(DeliveringLater):
            pass

        Losing.server = server
        pages = [f"/page/{n}" for n in range(1, 20)]
        mock_site.add("/way", page(prose("way"), *map(mock_site.url, pages)))
        mock_site.add("/mid", page(prose("mid"), mock_site.url("/way")))
        root = hub(mock_site, "/mid")
        first = run(server, root, Losing, CONCURRENT_REQUESTS=1)
        assert first.stats["finish_reason"] == "requests_lost"
        assert not {*pages} <= {*kept(first, mock_site)}
        mock_site.hits.clear()
        second = run(server, root)
        assert second.stats["finish_reason"] == "finished"
    assert not mock_site.gets("/mid")
    assert {*pages} <= {*kept(first, mock_site), *kept(second, mock_site)}


class GoingBack(Links):
    """Restarts the server with what it had when the first page was read."""

    server: RunningServer

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        if response.url.endswith("/hub"):
            self.server.command("SAVE")
        else:
            self.server.kill()
            self.server.start()
        yield from super().parse(response)


def test_a_crawl_whose_server_went_back_says_so_and_the_next_one_reads_what_was_lost(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running_server(dir=tmp_path) as server:

        class Losing(GoingBack):
            pass

        Losing.server = server
        mock_site.add("/way", page(prose("way"), *map(mock_site.url, ("/page/1", "/page/2"))))
        root = hub(mock_site, "/way")
        first = run(server, root, Losing)
        assert first.stats["finish_reason"] == "requests_lost"
        assert first.stats["neardup/frontier/went_back"] == 1
        assert "has forgotten what it had answered" in caplog.text
        mock_site.hits.clear()
        second = run(server, root)
        assert second.stats["finish_reason"] == "finished"
    assert mock_site.gets("/hub") >= 1 <= mock_site.gets("/way")
    assert {*kept(first, mock_site), *kept(second, mock_site)} == {
        "/hub",
        "/way",
        "/page/1",
        "/page/2",
    }


class Restarting(Links):
    """Stops the server for a while in the middle of the crawl."""

    server: RunningServer

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.item_scraped, signal=signals.item_scraped)
        return spider

    def item_scraped(self, item: Any) -> None:
        if item["url"].endswith("/hub"):
            self.server.kill()
            self.server.start()


def test_a_server_that_restarts_with_its_file_loses_nothing(
    mock_site: MockSite, tmp_path: Path
) -> None:
    with running_server(appendonly="yes", appendfsync="everysec", dir=tmp_path) as server:

        class Stopping(Restarting):
            pass

        Stopping.server = server
        pages = [f"/page/{n}" for n in range(20)]
        outcome = run(server, hub(mock_site, *pages), Stopping)
    assert kept(outcome, mock_site) == Counter(["/hub", *pages])
    assert outcome.stats["finish_reason"] == "finished"


def work(url: str, root: str, gate: Any, answers: Any) -> None:
    gate.wait()
    outcome = crawl(
        Links,
        {"NEARDUP_BACKEND": url, "SCHEDULER": SCHEDULER, "CONCURRENT_REQUESTS": 4},
        root=root,
    )
    answers.put(outcome.urls)


class Holding(MockSite):
    """Gives its hub when three workers are at work: the run may be over soon after that."""

    server: RunningServer

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        if path == "/hub":
            wait_until(lambda: self.server.command("ZCARD", "{neardup}:q:workers") == ":3\r\n")
        return super().reply(method, path, cookie, body)


@pytest.fixture
def holding_site(server: RunningServer) -> Iterator[Holding]:
    with running_site(Holding) as site:
        site.server = server
        yield site


def test_workers_share_the_work_and_make_the_start_requests_once(
    server: RunningServer, holding_site: Holding
) -> None:
    mock_site = holding_site
    pages = [f"/page/{n}" for n in range(20)]
    root = hub(mock_site, *pages)
    context = get_context("spawn")
    gate, answers = context.Barrier(3), context.Queue()
    processes = [
        context.Process(target=work, args=(server.url, root, gate, answers)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    urls = [url for _ in processes for url in answers.get(timeout=300)]
    for process in processes:
        process.join()
    assert Counter(url.removeprefix(mock_site.root) for url in urls) == Counter(["/hub", *pages])
    assert mock_site.gets("/hub") == 1
    assert all(mock_site.gets(path) == 1 for path in pages)


def test_without_a_server_the_crawl_does_not_start(mock_site: MockSite) -> None:
    with pytest.raises(SettingsError, match="NEARDUP_BACKEND, which is not set"):
        crawl(Links, {"SCHEDULER": SCHEDULER}, root=mock_site.url("/page/1"))


def test_a_worker_that_is_refused_says_why_and_nothing_about_its_scheduler(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    run(server, mock_site.url("/page/1"))
    with pytest.raises(FleetError, match="distance is 6 there and 1 here"):
        run(server, mock_site.url("/page/1"), NEARDUP_DISTANCE=1)
    assert "Scheduler close failure" not in caplog.text


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random"])
def test_a_server_that_may_evict_requests_is_refused(policy: str, mock_site: MockSite) -> None:
    with (
        running_server(maxmemory="100mb", maxmemory_policy=policy) as server,
        pytest.raises(SettingsError, match=f"{policy}: when its memory is full it evicts"),
    ):
        run(server, mock_site.url("/page/1"))


def test_a_server_that_may_evict_keys_that_expire_is_warned_of(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    with running_server(maxmemory="100mb", maxmemory_policy="volatile-lru") as server:
        outcome = run(server, mock_site.url("/page/1"))
    assert outcome.stats["finish_reason"] == "finished"
    assert caplog.text.count("is volatile-lru: when its memory is full it evicts keys") == 1


class Sharing(Links):
    """Gives the requests of a page one dict, or each its own."""

    is_shared: bool

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        shared: dict[str, Any] = {}
        for link in response.css("a"):
            item = shared if self.is_shared else {}
            yield response.follow(link, meta={"item": item, "cookiejar": [1]})
        yield {"url": response.url}


@pytest.mark.parametrize("is_shared", [True, False])
def test_requests_that_share_a_dict_are_warned_of(
    is_shared: bool, server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    class Now(Sharing):
        pass

    Now.is_shared = is_shared
    run(server, hub(mock_site, "/page/1", "/page/2", "/page/3"), Now)
    assert caplog.text.count("requests share the dict under 'item'") == is_shared


def stopped(server: RunningServer, site: MockSite, folder: Path, n_items: int = 2) -> str:
    """A crawl with a state folder is stopped while requests wait on the server; its root."""
    root = hub(site, *(f"/page/{n}" for n in range(10)))
    options = {"CLOSESPIDER_ITEMCOUNT": n_items, "NEARDUP_STATE_DIR": str(folder)}
    run(server, root, **options, CONCURRENT_REQUESTS=1)
    return root


@pytest.mark.parametrize("other", [{"NEARDUP_BACKEND_PREFIX": "other"}, {"NEARDUP_BACKEND": None}])
def test_a_folder_whose_links_wait_in_another_queue_is_refused(
    other: dict[str, Any], server: RunningServer, mock_site: MockSite, tmp_path: Path
) -> None:
    root, folder = stopped(server, mock_site, tmp_path), {"NEARDUP_STATE_DIR": str(tmp_path)}
    if "NEARDUP_BACKEND" in other:
        other = other | {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}
    with pytest.raises(SettingsError, match="calls pages seen whose links waited in the queue"):
        run(server, root, **folder, **other)
    outcome = run(server, root, **folder)
    assert outcome.stats["finish_reason"] == "finished"
    assert all(mock_site.gets(f"/page/{n}") == 1 for n in range(10))
    assert run(server, root, **folder, **other).stats["finish_reason"] == "finished"


def test_a_folder_whose_links_waited_in_a_queue_that_was_wiped_is_refused(
    server: RunningServer, mock_site: MockSite, tmp_path: Path
) -> None:
    root, folder = stopped(server, mock_site, tmp_path), {"NEARDUP_STATE_DIR": str(tmp_path)}
    server.command("FLUSHALL")
    with pytest.raises(SettingsError, match="do not have it, or not any more"):
        run(server, root, **folder)


def test_a_folder_is_refused_if_the_server_went_back_while_no_worker_lived(
    mock_site: MockSite, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    with running_server(dir=tmp_path) as server:
        root = stopped(server, mock_site, folder, 1)
        server.command("SAVE")
        stopped(server, mock_site, folder, 3)
        server.kill()
        server.start()
        with pytest.raises(SettingsError, match="the server has gone back to an older state"):
            run(server, root, NEARDUP_STATE_DIR=str(folder))
        with pytest.raises(SettingsError, match="the server has gone back to an older state"):
            run(server, root, NEARDUP_STATE_DIR=str(folder))  # nor does it agree the second time


def test_the_copy_of_a_folder_is_refused_as_the_folder_is_if_the_server_went_back(
    mock_site: MockSite, tmp_path: Path
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    with running_server(dir=tmp_path) as server:
        root = stopped(server, mock_site, one, 1)
        shutil.copytree(one, other)
        stopped(server, mock_site, one, 1)
        server.command("SAVE")
        for folder in (one, other):
            stopped(server, mock_site, folder, 2)
        server.kill()
        server.start()
        for folder in (one, other):
            with pytest.raises(SettingsError, match="the server has gone back to an older state"):
                run(server, root, NEARDUP_STATE_DIR=str(folder))


def test_a_folder_whose_links_wait_is_refused_while_the_server_does_not_answer(
    mock_site: MockSite, tmp_path: Path
) -> None:
    key = {"NEARDUP_KEY": 7}
    with running_server(dir=tmp_path) as server:
        root = hub(mock_site, *(f"/page/{n}" for n in range(10)))
        folder = {"NEARDUP_STATE_DIR": str(tmp_path / "folder")}
        run(server, root, **folder, **key, CLOSESPIDER_ITEMCOUNT=2, CONCURRENT_REQUESTS=1)
        server.kill()
        with pytest.raises(SettingsError, match="the server of NEARDUP_BACKEND does not answer"):
            run(server, root, **folder, **key)


def test_a_worker_is_no_guest_in_the_folder_of_another(
    server: RunningServer, mock_site: MockSite, tmp_path: Path
) -> None:
    settings = {"NEARDUP_STATE_DIR": str(tmp_path), "NEARDUP_KEY": 0}
    owner = opened(tmp_path)
    with pytest.raises(SettingsError, match="needs a folder of its own"):
        run(server, hub(mock_site), **settings)
    owner.close()
    assert run(server, hub(mock_site), **settings).stats["finish_reason"] == "finished"


def test_folder_and_server_note_how_far_a_crawl_is_while_it_runs(
    server: RunningServer, mock_site: MockSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "NOTE_INTERVAL_S", 0.01)
    root, folder = hub(mock_site, "/page/1", "/page/2"), str(tmp_path)
    run(server, root, NEARDUP_STATE_DIR=folder, CONCURRENT_REQUESTS=1)
    noted = json.loads((tmp_path / "fleet_queue").read_bytes())
    _, on_server = server.command("GET", "{neardup}:q:folder:" + noted["folder"]).split()
    assert int(on_server) == noted["number"] > 2  # one when it began, one when it ended


def test_a_folder_whose_requests_were_all_made_goes_on_with_a_server_that_went_back(
    mock_site: MockSite, tmp_path: Path
) -> None:
    folder = {"NEARDUP_STATE_DIR": str(tmp_path / "folder")}
    with running_server(dir=tmp_path) as server:
        root = hub(mock_site, "/page/1")
        run(server, root)
        server.command("SAVE")  # the fleet, and nothing of the folder
        run(server, root, **folder)
        server.kill()
        server.start()
        for _ in range(2):
            assert run(server, root, **folder).stats["finish_reason"] == "finished"


class Wiped(Links):
    """The server loses all that it has once it was read that the first page is done."""

    server: RunningServer

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        if response.url.endswith("/page/1"):
            self.server.command("FLUSHALL")
        yield from super().parse(response)


def test_a_folder_whose_links_waited_in_a_queue_that_was_wiped_meanwhile_is_refused(
    server: RunningServer, mock_site: MockSite, tmp_path: Path
) -> None:
    class Now(Wiped):
        pass

    Now.server = server
    root, folder = hub(mock_site, "/page/1"), {"NEARDUP_STATE_DIR": str(tmp_path)}
    assert run(server, root, Now, **folder).stats["finish_reason"] == "requests_lost"
    with pytest.raises(SettingsError, match="that queue has lost requests"):
        run(server, root, **folder)


class Evicting(Links):
    """The server may evict requests from the first page on, and does."""

    server: RunningServer
    policy = "allkeys-lru"
    eviction: tuple[str, ...]  # what has the effect of one

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        if response.url.endswith("/hub"):
            self.server.command("CONFIG", "SET", "maxmemory-policy", self.policy)
            self.server.command("CONFIG", "SET", "maxmemory", "100mb")
            self.server.command(*self.eviction)
        yield from super().parse(response)


@pytest.mark.parametrize("eviction", ["DEL", "INCR"])  # nothing waits, or more than is there
def test_a_crawl_whose_server_begins_to_evict_requests_ends_and_says_so(
    eviction: str, server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    class Now(Evicting):
        pass

    Now.server, Now.eviction = server, (eviction, "{neardup}:q:s:links:n")
    outcome = run(server, hub(mock_site, "/page/1"), Now)
    assert kept(outcome, mock_site) == Counter(["/hub", "/page/1"])
    assert outcome.stats["finish_reason"] == "requests_lost"
    assert "maxmemory-policy of the server of NEARDUP_BACKEND has become allkeys-lru" in caplog.text


class Forgetting(Links):
    """The server loses some keys of the queue once requests wait there, and evicts no more."""

    server: RunningServer
    keys: tuple[str, ...]

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        if not response.url.endswith("/hub") and self.keys:
            queue = "{neardup}:q:s:links:"
            gone = self.server.command("DEL", *(queue + key for key in self.keys))
            assert gone == f":{len(self.keys)}\r\n"
            self.keys = ()
        yield from super().parse(response)


@pytest.mark.parametrize("keys", [("h:127.0.0.1",), ("n", "h:127.0.0.1"), ("n",)], ids=" ".join)
def test_a_crawl_whose_server_has_lost_the_queue_of_a_host_ends_and_says_so(
    keys: tuple[str, ...],
    server: RunningServer,
    mock_site: MockSite,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Now(Forgetting):
        pass

    Now.server, Now.keys = server, keys
    root = hub(mock_site, *(f"/page/{n}" for n in range(6)))
    outcome = run(server, root, Now, CONCURRENT_REQUESTS=1, CLOSESPIDER_TIMEOUT=20)
    assert outcome.stats["finish_reason"] == "requests_lost"
    assert caplog.text.count("has lost keys of the queue") == 1
    assert "under another NEARDUP_BACKEND_PREFIX" in caplog.text
    assert "refuses to give requests" not in caplog.text


def test_requests_of_a_host_that_the_server_has_forgotten_are_made(
    server: RunningServer, mock_site: MockSite
) -> None:
    pages = [f"/page/{n}" for n in range(6)]
    root = hub(mock_site, *pages)
    run(server, root, CLOSESPIDER_PAGECOUNT=1, CONCURRENT_REQUESTS=1)
    assert server.command("DEL", "{neardup}:q:s:links:free") == ":1\r\n"
    outcome = run(server, root, CLOSESPIDER_TIMEOUT=20)
    assert outcome.stats["finish_reason"] == "finished"
    assert all(mock_site.gets(path) == 1 for path in pages)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru"])
def test_a_crawl_whose_server_forgot_its_calls_is_told_whether_requests_are_evicted(
    policy: str, server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    class Now(Evicting):
        pass

    Now.server, Now.policy, Now.eviction = server, policy, ("DEL", "{neardup}:q:heard")
    outcome = run(server, hub(mock_site, "/page/1"), Now)
    evicts = policy == "allkeys-lru"
    assert outcome.stats["finish_reason"] == "requests_lost"
    assert outcome.stats["neardup/frontier/went_back"] == 1
    assert caplog.text.count("NEARDUP_BACKEND has become allkeys-lru") == evicts
    assert caplog.text.count("has forgotten what it had answered") == (not evicts)


def test_a_worker_that_may_not_ask_whether_requests_are_evicted_says_so(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    server.command("ACL", "SETUSER", "default", "-info")
    assert run(server, mock_site.url("/page/1")).stats["finish_reason"] == "finished"
    assert "Give its user +info" in caplog.text


class Closing(Links):
    """Another crawl begins and ends while this one closes."""

    def closed(self, reason: str) -> None:
        self.other.append(self.crawl_other())


def other_crawl(url: str, root: str) -> str:
    settings = {"NEARDUP_BACKEND": url, "SCHEDULER": SCHEDULER, "LOG_ENABLED": False}
    return str(crawl(Links, settings, root=root).stats["finish_reason"])


def test_a_crawl_that_starts_while_another_closes_makes_its_start_requests(
    server: RunningServer, mock_site: MockSite
) -> None:
    root = hub(mock_site, "/page/1", "/page/2")
    reasons: list[str] = []
    with get_context("spawn").Pool(1) as pool:

        def crawl_other() -> str:
            return pool.apply_async(other_crawl, (server.url, root)).get(60)

        settings = {"NEARDUP_BACKEND": server.url, "SCHEDULER": SCHEDULER}
        crawl(Closing, settings, root=root, other=reasons, crawl_other=crawl_other)
    assert reasons == ["finished"]
    assert mock_site.gets("/hub") == 2


def test_what_comes_while_a_worker_closes_is_given_back(
    server: RunningServer, mock_site: MockSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, workers = FleetQueue.close, Workers(server)
    other = workers("links", key=0)
    payload = request_to_json(Request(mock_site.url("/page/2")).to_dict())
    row = other.frontier.queued(payload, "127.0.0.1", None, 0, "oldest")

    async def close_while_an_answer_is_on_its_way(self: FleetQueue) -> None:
        while self._is_running:
            await pause(0.001)
        assert other.frontier.push([row]).result(PATIENCE_S) == [1]
        self._look()  # as its timer does until it is closed
        await pause(0)
        await close(self)

    monkeypatch.setattr(FleetQueue, "close", close_while_an_answer_is_on_its_way)
    run(server, mock_site.url("/page/1"))
    assert other.ask().requests == [row]
    other.link.close(0)


def test_where_the_plugin_is_switched_off_it_is_scrapys_scheduler(mock_site: MockSite) -> None:
    settings = {"SCHEDULER": SCHEDULER, "NEARDUP_ENABLED": False}
    outcome = crawl(Links, settings, root=hub(mock_site, "/page/1"))
    assert len(outcome.items) == 2


def test_a_crawl_that_was_stopped_goes_on_without_its_start_requests(
    server: RunningServer, mock_site: MockSite
) -> None:
    pages = [f"/page/{n}" for n in range(20)]
    root = hub(mock_site, *pages)
    first = run(server, root, CLOSESPIDER_ITEMCOUNT=5, CONCURRENT_REQUESTS=2)
    assert first.stats["finish_reason"] == "closespider_itemcount"
    second = run(server, root)
    assert kept(first, mock_site) + kept(second, mock_site) == Counter(["/hub", *pages])
    assert all(mock_site.gets(path) == 1 for path in ("/hub", *pages))


def test_who_goes_on_with_a_crawl_adds_what_it_starts_with_itself(
    server: RunningServer, mock_site: MockSite
) -> None:
    """A spider with another argument, or whose start URLs were changed."""
    root = hub(mock_site, "/page/1", "/page/2", "/page/3")
    other = mock_site.add("/other", page(prose("other"), mock_site.url("/page/9")))
    first = run(server, root, CLOSESPIDER_ITEMCOUNT=1, CONCURRENT_REQUESTS=1)
    second = run(server, other)
    paths = ["/hub", "/other", "/page/1", "/page/2", "/page/3", "/page/9"]
    assert kept(first, mock_site) + kept(second, mock_site) == Counter(paths)
    assert all(mock_site.gets(path) == 1 for path in paths)


def test_a_crawl_with_another_scheduler_is_refused_while_requests_wait(
    server: RunningServer, mock_site: MockSite
) -> None:
    """The pages that link them count as fetched, and it would not ask for them."""
    root = hub(mock_site, *(f"/page/{n}" for n in range(10)))
    run(server, root, CLOSESPIDER_ITEMCOUNT=2, CONCURRENT_REQUESTS=1)
    scrapys = {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}
    with pytest.raises(SettingsError, match=r"requests of spider 'links' wait on the server"):
        run(server, root, **scrapys)
    assert run(server, root).stats["finish_reason"] == "finished"
    assert run(server, root, **scrapys).stats["finish_reason"] == "finished"
    assert all(mock_site.gets(f"/page/{n}") == 1 for n in range(10))


class Polling(Links):
    """Starts three times with one request."""

    async def start(self) -> AsyncIterator[Any]:
        for _ in range(3):
            yield Request(self.root, dont_filter=True, priority=1)


def test_equal_start_requests_of_one_worker_are_all_made(
    server: RunningServer, mock_site: MockSite
) -> None:
    run(server, mock_site.url("/page/1"), Polling)
    assert mock_site.gets("/page/1") == 3


def test_a_worker_that_joins_a_run_polls_though_another_has(
    server: RunningServer, mock_site: MockSite
) -> None:
    """Of its equal start requests the first was made in the run; the others are its own."""
    root = hub(mock_site, *(f"/page/{n}" for n in range(5)))
    run(server, root, Polling, CLOSESPIDER_PAGECOUNT=4, CONCURRENT_REQUESTS=1)
    assert run(server, root, Polling).stats["finish_reason"] == "finished"
    assert mock_site.gets("/hub") == 3 + 2
    assert all(mock_site.gets(f"/page/{n}") == 1 for n in range(5))


class Waiting(Links):
    """Starts the server when the crawl has begun."""

    server: RunningServer

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.server.start, signal=signals.spider_opened)
        return spider


def test_a_worker_that_begins_before_the_server_waits_for_it(
    server: RunningServer, mock_site: MockSite
) -> None:
    class Early(Waiting):
        pass

    server.kill()
    Early.server = server
    outcome = run(server, hub(mock_site, "/page/1"), Early)
    assert kept(outcome, mock_site) == Counter(["/hub", "/page/1"])


class Abandoned(Links):
    """The server is killed, and stays away."""

    server: RunningServer

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        if response.url.endswith("/page/7"):
            self.server.kill()
        yield from super().parse(response)


def test_a_crawl_without_its_server_waits_and_what_it_leaves_is_for_the_next_run(
    tmp_path: Path, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"appendonly": "yes", "appendfsync": "always", "dir": tmp_path}
    with running_server(**options) as server:

        class Now(Abandoned):
            pass

        Now.server = server
        pages = [f"/page/{n}" for n in range(1, 10)]
        root = hub(mock_site, *pages)
        first = run(server, root, Now, CONCURRENT_REQUESTS=1, CLOSESPIDER_TIMEOUT=4)
        server.start()
        second = run(server, root)
    assert first.stats["finish_reason"] == "closespider_timeout"
    assert "where the requests wait, failed" in caplog.text
    assert "waits until the server is back" in caplog.text
    assert len(kept(first, mock_site)) < 1 + len(pages)
    assert second.stats["finish_reason"] == "finished"
    assert {*kept(first, mock_site), *kept(second, mock_site)} == {"/hub", *pages}


class Asking(WhenIdle, Links):
    """Asks for more when there is nothing left to do."""

    more: str

    def idle(self) -> None:
        if self.more:
            url, self.more = self.more, ""
            self.crawler.engine.crawl(Request(url, callback=self.parse))
            raise DontCloseSpider


def test_a_spider_may_go_on_when_it_is_idle(server: RunningServer, mock_site: MockSite) -> None:
    class More(Asking):
        more = mock_site.url("/page/2")

    outcome = run(server, hub(mock_site, "/page/1"), More)
    assert kept(outcome, mock_site) == Counter(["/hub", "/page/1", "/page/2"])


class Elsewhere(Links):
    """Follows links in another slot than that of the start request."""

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield {"url": response.url}
        yield from response.follow_all(css="a", meta={"download_slot": "quick"})


def test_a_host_rests_for_others_as_long_as_its_slot_does(
    server: RunningServer, mock_site: MockSite
) -> None:
    slots = {"127.0.0.1": {"delay": 500}}
    root = hub(mock_site, "/page/1", "/page/2")
    run(server, root, Elsewhere, DOWNLOAD_SLOTS=slots, ROBOTSTXT_OBEY=False)
    rest_ms = server.command("PTTL", "{neardup}:q:rest:127.0.0.1")
    assert int(rest_ms.removeprefix(":")) > 100_000
    assert server.command("EXISTS", "{neardup}:q:rest:quick") == ":0\r\n"


class Watching(Links):
    """Notes how many requests are with the downloader."""

    most = 0

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        yield from super().parse(response)
        assert self.crawler.engine
        type(self).most = max(self.most, len(self.crawler.engine.downloader.active))


def test_requests_taken_ahead_do_not_crowd_the_downloader(
    server: RunningServer, mock_site: MockSite
) -> None:
    pages = [f"/page/{n}" for n in range(40)]
    outcome = run(server, hub(mock_site, *pages), Watching, CONCURRENT_REQUESTS_PER_DOMAIN=2)
    assert kept(outcome, mock_site) == Counter(["/hub", *pages])
    assert Watching.most <= 2


class AskingAhead(Links):
    """Asks about a URL, and wants the answer when the server is gone."""

    server: RunningServer

    async def parse(self, response: Response, **kwargs: Any) -> AsyncIterator[Any]:
        urls = self.crawler._neardup_session.urls  # type: ignore[attr-defined]
        request = response.follow("/page/1", meta={TRACE: (0, 0, 0, 0)})
        urls.ask_ahead(request)
        _, (asked,) = urls._fleet._asked_ahead[request]
        assert asked.result(PATIENCE_S) == 1
        self.server.kill()
        yield {"url": request.url, "known": await urls.was_fetched(request)}


def test_what_was_asked_ahead_is_not_asked_again(
    server: RunningServer, mock_site: MockSite
) -> None:
    run(server, hub(mock_site, "/page/1"))
    settings = {"NEARDUP_BACKEND": server.url}
    outcome = crawl(AskingAhead, settings, root=mock_site.url("/hub"), server=server)
    assert [item["known"] for item in outcome.items] == [True]


class Planting(Links):
    """While it crawls, somebody queues a request on the server, to have a file read."""

    server: RunningServer

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        if response.url.endswith("/hub"):
            link = Link(
                Server(self.server.url).send, beat("neardup", b"evil", b"", lambda *_: True)
            )
            stranger = SharedFrontier(link, "neardup", b"evil", 1, self.name, own_key=0)
            fields = Request("file:///etc/hosts", callback=self.parse).to_dict(spider=self)
            planted = stranger.queued(request_to_json(fields), "", None, 0, "oldest")
            assert stranger.push([planted]).result(PATIENCE_S) == [1]
            link.close(0)
        yield from super().parse(response)


def test_a_request_that_somebody_planted_on_the_server_reads_no_file(
    server: RunningServer, mock_site: MockSite
) -> None:
    Planting.server = server
    root = hub(mock_site, "/page/1", "/page/2")
    outcome = run(server, root, Planting, NEARDUP_KEY=5)
    assert kept(outcome, mock_site) == Counter(["/hub", "/page/1", "/page/2"])
    assert outcome.stat("requests/lost") == 1
    assert outcome.stats["finish_reason"] == "requests_lost"

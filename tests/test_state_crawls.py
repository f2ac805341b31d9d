"""Crawls that share a state: what one has done, the next one knows; nothing stops either."""

import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DontCloseSpider, StopDownload
from scrapy.http import Response

from scrapy_neardup.commands import NOTHING_FOUND, main
from scrapy_neardup.crawl.requests.request_tracker import TRACE
from scrapy_neardup.errors import NearDupError
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.lock import FolderLock
from tests.crawls import ADDONS, Outcome, PagesSpider, crawl, crawl_requests
from tests.mock_site import MockSite, cut_off, page, prose

ROOT = Path(__file__).resolve().parents[1]


class Follower(PagesSpider):
    """Makes an item of every page and follows its links, from the site's /start."""

    def parse_seed(self, response: Response) -> Iterator[Any]:
        yield from self.parse(response)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


def follow(site: MockSite, folder: Path, **settings: Any) -> Outcome:
    where = {"NEARDUP_STATE_DIR": str(folder)} | settings
    return crawl(Follower, where, seed=site.url("/start"))


def add_branch(site: MockSite) -> None:
    """/start leads to /hub, that to /leaf/0, /leaf/1 and /leaf/2."""
    site.add("/start", page(prose("start"), "/hub"))
    site.add("/hub", page(prose("hub"), "/leaf/0", "/leaf/1", "/leaf/2"))
    for number in range(3):
        site.add(f"/leaf/{number}", page(prose(f"leaf {number}")))


def test_the_next_crawl_fetches_nothing_but_its_start(mock_site: MockSite, tmp_path: Path) -> None:
    add_branch(mock_site)
    first = follow(mock_site, tmp_path)
    assert len(first.items) == 5
    assert first.stat("state/unfinished_pages") == 0
    second = follow(mock_site, tmp_path)
    assert second.urls == [mock_site.url("/start")]
    assert second.stat("urls/dropped") == 1
    assert mock_site.gets("/leaf/0") == 1


class OfLeaves(Follower):
    """Makes items of pages that lead nowhere; of others it follows the links."""

    name = "leaves"

    def parse(self, response: Response) -> Iterator[Any]:
        if not (links := response.css("a")):
            yield {"url": response.url, "text": response.css("body").get()}
        yield from response.follow_all(links)


def test_the_next_crawl_finds_what_is_new_behind_pages_that_brought_no_item(
    mock_site: MockSite, tmp_path: Path
) -> None:
    """Those are lists: new pages come behind them. Each is read once in a run."""
    add_branch(mock_site)
    mock_site.add("/start", page(prose("start"), "/late", "/hub"))  # the last is followed first
    mock_site.add("/late", page(prose("late"), "/hub?utm_source=late", "/leaf/0"))
    where, start = {"NEARDUP_STATE_DIR": str(tmp_path)}, mock_site.url("/start")
    first = crawl(OfLeaves, where, seed=start)
    assert len(first.items) == 3
    assert first.stat("urls/led_on") == 2
    assert first.stat("urls/dropped") == 1
    mock_site.add("/hub", page(prose("hub"), "/leaf/0", "/leaf/1", "/leaf/2", "/leaf/new"))
    mock_site.add("/leaf/new", page(prose("a new leaf")))
    second = crawl(OfLeaves, where, seed=start)
    assert second.urls == [mock_site.url("/leaf/new")]
    assert mock_site.gets("/hub") == mock_site.gets("/late") == 2
    assert mock_site.gets("/hub?utm_source=late") == 0
    assert mock_site.gets("/leaf/0") == 1


class Lengths(Follower):
    """Takes something else of each page."""

    name = "lengths"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"page": response.url, "length": len(response.text)}
        yield from response.follow_all(css="a")


def test_another_spider_finds_something_else_on_the_same_pages(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_branch(mock_site)
    follow(mock_site, tmp_path)
    where, start = {"NEARDUP_STATE_DIR": str(tmp_path)}, mock_site.url("/start")
    assert len(crawl(Lengths, where, seed=start).items) == 5
    assert len(crawl(Lengths, where, seed=start).items) == 1
    assert follow(mock_site, tmp_path).urls == [start]


def test_the_shell_leaves_the_state_alone(mock_site: MockSite, tmp_path: Path) -> None:
    add_branch(mock_site)
    settings = {"ADDONS": json.dumps(ADDONS), "NEARDUP_STATE_DIR": str(tmp_path / "state")}
    command = [sys.executable, "-m", "scrapy", "shell", mock_site.url("/start")]
    command += ["-c", "response.status"]
    for name, value in settings.items():
        command += ["-s", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["200"], done.stderr
    assert not (tmp_path / "state").exists()


def test_a_time_to_live_set_later_forgets_nothing_younger(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_branch(mock_site)
    follow(mock_site, tmp_path)
    assert follow(mock_site, tmp_path, NEARDUP_TTL=8).urls == [mock_site.url("/start")]
    assert follow(mock_site, tmp_path).urls == [mock_site.url("/start")]
    assert mock_site.gets("/leaf/0") == 1
    assert len(follow(mock_site, tmp_path, NEARDUP_TTL=1e-9).items) == 5


def test_a_copy_of_an_earlier_crawls_page_is_dropped(mock_site: MockSite, tmp_path: Path) -> None:
    where = {"NEARDUP_STATE_DIR": str(tmp_path)}
    crawl_requests(mock_site, "/page/1", settings=where)
    outcome = crawl_requests(mock_site, "/copy/1", "/near/1", settings=where)
    assert mock_site.url("/copy/1") not in outcome.urls
    assert outcome.stat("pages/exact") == 1


@pytest.mark.parametrize(("before", "now"), [(7, 8), (8, 7), (9, None)])
def test_a_state_opens_under_any_number_of_blocks(
    mock_site: MockSite, tmp_path: Path, before: int, now: int | None
) -> None:
    where = {"NEARDUP_STATE_DIR": str(tmp_path), "NEARDUP_BOILERPLATE": "keep"}
    crawl_requests(mock_site, "/page/1", settings=where | {"NEARDUP_BLOCKS": before})
    now_where = where | {"NEARDUP_BLOCKS": now}
    outcome = crawl_requests(mock_site, "/near/1", "/page/2", settings=now_where)
    assert outcome.stat("pages/near") == 1
    assert outcome.stat("pages/new") == 1
    again = crawl_requests(mock_site, "/near/2", settings=now_where)
    assert again.stat("pages/near") == 1


def test_a_crawl_that_ends_early_leaves_the_rest_to_the_next(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_branch(mock_site)
    first = follow(mock_site, tmp_path, CLOSESPIDER_ITEMCOUNT=3)
    assert first.stat("state/unfinished_pages") > 0
    second = follow(mock_site, tmp_path)
    leaves = {mock_site.url(f"/leaf/{number}") for number in range(3)}
    assert leaves <= set(first.urls) | set(second.urls)
    assert second.stat("state/unfinished_pages") == 0


def test_a_page_that_could_not_be_had_is_asked_for_again(
    mock_site: MockSite, tmp_path: Path
) -> None:
    mock_site.add("/start", page(prose("start"), "/hub"))
    mock_site.add("/hub", page(prose("hub"), "/page/1", "/flaky"))
    first = follow(mock_site, tmp_path, RETRY_TIMES=0)
    assert mock_site.url("/flaky") not in first.urls
    for _ in range(2):
        last = follow(mock_site, tmp_path, RETRY_TIMES=0)
    assert mock_site.url("/flaky") in last.urls
    assert mock_site.gets("/page/1") == 1


class Titled(Follower):
    """Follows links with a request of its own making, and takes an item with data of each page."""

    meta: ClassVar[dict[str, Any]] = {}

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "words": response.css("p::text").get("").split()[:3]}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, meta=self.meta)


def read_hub_twice(
    site: MockSite, folder: Path, hub: str = "hub", meta: Any = None, **settings: Any
) -> Outcome:
    """What a crawl gives that reads /hub again, because /flaky failed when it was read first.

    hub: what it says then. meta: of that crawl's requests.
    """
    settings = {"NEARDUP_STATE_DIR": str(folder), "RETRY_TIMES": 0} | settings
    site.add("/start", page(prose("start"), "/hub"))
    site.add("/hub", page(prose("hub"), "/flaky"))
    first = crawl(Titled, settings, seed=site.url("/start"))
    assert site.url("/hub") in first.urls
    site.add("/hub", page(prose(hub), "/flaky"))
    second = crawl(type("Again", (Titled,), {"meta": meta}), settings, seed=site.url("/start"))
    assert site.gets("/hub") == 2
    return second


def test_an_item_put_out_before_a_crawl_was_cut_off_does_not_come_again(
    mock_site: MockSite, tmp_path: Path
) -> None:
    second = read_hub_twice(mock_site, tmp_path)
    assert mock_site.url("/hub") not in second.urls
    assert second.stat("items/put_out_before") == 1


@pytest.mark.parametrize(
    "how",
    [
        {"hub": "another hub"},
        {"meta": {"neardup_refresh": True}},
        {"NEARDUP_ACTION": "tag"},
        {"NEARDUP_TTL": 30},
    ],
)
def test_it_comes_again_where_its_page_changed_or_somebody_asks_for_it(
    mock_site: MockSite, tmp_path: Path, how: dict[str, Any]
) -> None:
    second = read_hub_twice(mock_site, tmp_path, **how)
    assert mock_site.url("/hub") in second.urls
    assert not second.stat("items/put_out_before")


def test_an_item_that_another_spider_put_out_is_put_out_for_this_one_as_well(
    mock_site: MockSite, tmp_path: Path
) -> None:
    """Their feeds may be two. Reading the site a second time, each has put out what it found."""
    add_branch(mock_site)
    where = {"NEARDUP_STATE_DIR": str(tmp_path)}
    names = ("names", "search", "names", "search")
    spiders = (type("Named", (Titled,), {"name": name}) for name in names)
    outcomes = [crawl(spider, where, seed=mock_site.url("/start")) for spider in spiders]
    assert [len(outcome.items) for outcome in outcomes] == [5, 5, 1, 1]
    assert not any(outcome.stat("items/put_out_before") for outcome in outcomes)


def test_items_of_requests_that_the_engine_was_given_come_from_every_crawl(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class AtIdle(Titled):
        @classmethod
        def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
            spider = super().from_crawler(crawler, *args, **kwargs)
            crawler.signals.connect(spider.give_leaf, signal=signals.spider_idle)
            spider.waiting = ["/leaf/0"]
            return spider

        def give_leaf(self) -> None:
            if self.waiting:
                self.crawler.engine.crawl(Request(mock_site.url(self.waiting.pop())))
                raise DontCloseSpider

    add_branch(mock_site)
    mock_site.add("/start", page(prose("start")))
    where = {"NEARDUP_STATE_DIR": str(tmp_path)}
    for _ in range(2):
        assert mock_site.url("/leaf/0") in crawl(AtIdle, where, seed=mock_site.url("/start")).urls


def test_links_that_lead_nowhere_hold_nothing_up(mock_site: MockSite, tmp_path: Path) -> None:
    class Bounded(Follower):
        allowed_domains = ("127.0.0.1",)

    links = ("/missing", "/private/page", "http://elsewhere.example/", "/start", "/page/1")
    mock_site.add("/start", page(prose("start"), "/hub"))
    mock_site.add("/hub", page(prose("hub"), *links, *links))
    outcome = crawl(Bounded, {"NEARDUP_STATE_DIR": str(tmp_path)}, seed=mock_site.url("/start"))
    assert outcome.stat("state/unfinished_pages") == 0
    assert outcome.stats["offsite/filtered"] == 2


def test_a_callback_that_raises_leaves_its_page_to_the_next_crawl(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Stumbling(Follower):
        def parse(self, response: Response) -> Iterator[Any]:
            yield from super().parse(response)
            if response.url.endswith("/hub"):
                raise ValueError("a defect of the spider")

    add_branch(mock_site)
    where = {"NEARDUP_STATE_DIR": str(tmp_path), "LOG_LEVEL": "CRITICAL"}
    crawl(Stumbling, where, seed=mock_site.url("/start"))
    follow(mock_site, tmp_path)
    assert mock_site.gets("/hub") == 2
    assert mock_site.gets("/leaf/0") == 1


class Priced(Follower):
    """Takes the price of each page that has a heading."""

    custom_settings: ClassVar = {"DOWNLOAD_FAIL_ON_DATALOSS": False}

    def parse(self, response: Response) -> Iterator[Any]:
        if name := response.css("h1::text").get():
            yield {"url": response.url, "name": name, "price": response.css("b::text").get()}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


def thing(number: int) -> bytes:
    words = prose(f"thing {number}", 60)
    return f"<h1>Thing {number}</h1><p>{words}</p><b>{number}.50</b>".encode()


def add_list(site: MockSite) -> bytes:
    """/start leads to /list, that to /thing/0 to /thing/3; what /list says."""
    site.add("/start", page(prose("start"), "/list"))
    for number in range(4):
        site.add(f"/thing/{number}", thing(number))
    listed = page(prose("list"), *(f"/thing/{number}" for number in range(4)))
    site.add("/list", listed)
    return listed


@pytest.mark.parametrize("compare", ["item", "page"])
@pytest.mark.parametrize("where", ["NEARDUP_STATE_DIR", "JOBDIR"])
def test_a_page_that_was_cut_off_is_read_again_by_the_next_crawl(
    mock_site: MockSite, tmp_path: Path, where: str, compare: str
) -> None:
    settings = {where: str(tmp_path), "NEARDUP_COMPARE": compare}
    listed, whole = add_list(mock_site), thing(1)
    mock_site.pages["/list"] = cut_off(listed, listed.index(b'<li><a href="/thing/3'))
    mock_site.pages["/thing/1"] = cut_off(whole, whole.index(b"<b>"))
    first = crawl(Priced, settings, seed=mock_site.url("/start"))
    assert sorted(item["price"] or "" for item in first.items) == ["", "0.50", "2.50"]
    assert first.stat("pages/cut_off") == 2
    mock_site.add("/list", listed)
    mock_site.add("/thing/1", whole)
    second = crawl(Priced, settings, seed=mock_site.url("/start"))
    assert sorted(item["price"] for item in second.items) == ["1.50", "3.50"]
    assert "neardup/pages/cut_off" not in second.stats
    assert mock_site.gets("/thing/0") == 1
    assert crawl(Priced, settings, seed=mock_site.url("/start")).items == []
    assert mock_site.gets("/thing/1") == 2
    assert mock_site.gets("/list") == (2 if where == "JOBDIR" else 3)  # it brings no item


@pytest.mark.parametrize("where", ["NEARDUP_STATE_DIR", "JOBDIR"])
def test_a_page_that_is_always_cut_off_is_read_once_in_each_crawl(
    mock_site: MockSite, tmp_path: Path, where: str
) -> None:
    add_list(mock_site)
    mock_site.add("/start", page(prose("start"), "/list", "/thing/1"))
    mock_site.pages["/thing/1"] = cut_off(thing(1), 30)
    for number in range(4):
        outcome = crawl(Priced, {where: str(tmp_path)}, seed=mock_site.url("/start"))
        assert outcome.stat("pages/cut_off") == 1
        assert mock_site.gets("/thing/1") == number + 1
        assert mock_site.url("/thing/1") in outcome.urls


class Brief(Follower):
    """Wants no more of a leaf than its first bytes."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        crawler.signals.connect(cls.stop, signal=signals.bytes_received)
        return super().from_crawler(crawler, *args, **kwargs)

    @staticmethod
    def stop(request: Request) -> None:
        if "/leaf/" in request.url:
            raise StopDownload(fail=False)


@pytest.mark.parametrize("where", ["NEARDUP_STATE_DIR", "JOBDIR"])
@pytest.mark.parametrize(("spider", "status"), [(Brief, 200), (Follower, 206)])
def test_a_part_of_a_page_that_the_spider_wanted_is_not_read_again(
    mock_site: MockSite, tmp_path: Path, where: str, spider: type[Follower], status: int
) -> None:
    add_branch(mock_site)
    for number in range(3):
        mock_site.add(f"/leaf/{number}", page(prose("menu")), status)
    for _ in range(2):
        outcome = crawl(spider, {where: str(tmp_path)}, seed=mock_site.url("/start"))
    assert outcome.urls == [mock_site.url("/start")]
    assert [mock_site.gets(f"/leaf/{number}") for number in range(3)] == [1, 1, 1]


class Stopping(Follower):
    """Wants no more at /leaf/1."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield from super().parse(response)
        if response.url.endswith("/leaf/1"):
            raise CloseSpider("enough")


def test_a_page_at_which_a_spider_stopped_is_found_again_by_the_next_crawl(
    mock_site: MockSite, tmp_path: Path
) -> None:
    """It may have more to say, to a spider that has not had enough yet."""
    add_branch(mock_site)
    where = {"NEARDUP_STATE_DIR": str(tmp_path)}
    stopped = crawl(Stopping, where, seed=mock_site.url("/start"))
    assert stopped.stats["finish_reason"] == "enough"
    following = follow(mock_site, tmp_path)
    assert mock_site.gets("/leaf/1") == 2
    read = [*stopped.urls, *following.urls]
    assert {f"/leaf/{n}" for n in range(3)} <= {url.removeprefix(mock_site.root) for url in read}
    assert read.count(mock_site.url("/leaf/1")) == 1


@pytest.mark.parametrize("meta", ["neardup_refresh", "neardup_skip"])
def test_a_request_may_ask_for_a_seen_page(mock_site: MockSite, tmp_path: Path, meta: str) -> None:
    where = {"NEARDUP_STATE_DIR": str(tmp_path)}
    crawl_requests(mock_site, "/page/1", settings=where)
    again = Request(mock_site.url("/page/1"), meta={meta: True})
    assert crawl_requests(mock_site, again, settings=where).urls == [mock_site.url("/page/1")]


def test_after_its_time_to_live_a_page_is_fetched_and_kept_again(
    mock_site: MockSite, tmp_path: Path
) -> None:
    where = {"NEARDUP_STATE_DIR": str(tmp_path), "NEARDUP_TTL": 1e-9}
    for _ in range(2):
        outcome = crawl_requests(mock_site, "/page/1", settings=where)
        assert outcome.urls == [mock_site.url("/page/1")]
    assert mock_site.gets("/page/1") == 2


def test_jobdir_keeps_the_state_of_its_job(mock_site: MockSite, tmp_path: Path) -> None:
    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path)}
    crawl(Follower, where, seed=mock_site.url("/start"))
    assert list((tmp_path / "neardup").glob("snapshot-*"))
    outcome = crawl(Follower, where, seed=mock_site.url("/start"))
    assert outcome.urls == [mock_site.url("/start")]


def test_a_job_stopped_and_resumed_fetches_each_page_once(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_branch(mock_site)
    urls = []
    for _ in range(2):
        where = {"JOBDIR": str(tmp_path), "CLOSESPIDER_ITEMCOUNT": 3}
        urls += crawl(Follower, where, seed=mock_site.url("/start")).urls
    assert {mock_site.url(f"/leaf/{number}") for number in range(3)} <= set(urls)
    assert mock_site.gets("/hub") == 1
    assert all(mock_site.gets(f"/leaf/{number}") == 1 for number in range(3))


def test_a_job_goes_on_in_a_list_of_urls_where_it_was_stopped(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class Listed(PagesSpider):
        async def start(self) -> AsyncIterator[Any]:
            for number in range(12):
                yield Request(mock_site.url(f"/page/{number}"))

    urls = []
    for _ in range(6):
        where = {"JOBDIR": str(tmp_path), "CLOSESPIDER_ITEMCOUNT": 3, "CONCURRENT_REQUESTS": 1}
        urls += crawl(Listed, where).urls
    assert sorted(urls) == sorted(mock_site.url(f"/page/{number}") for number in range(12))
    assert all(mock_site.gets(f"/page/{number}") == 1 for number in range(12))


def test_a_state_that_cannot_be_written_is_said_once_and_loses_no_page(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_branch(mock_site)
    (tmp_path / "file").write_text("in the way")
    outcome = follow(mock_site, tmp_path / "file" / "state", NEARDUP_SNAPSHOT_INTERVAL=0.01)
    assert len(outcome.items) == 5
    assert outcome.stat("state/errors") >= 1
    said = [r for r in caplog.records if r.name == "scrapy_neardup.state.store"]
    assert [record.levelno for record in said] == [logging.ERROR]
    assert not [r for r in caplog.records if r.exc_info]  # the folder is all there is to look at


FULL_DISK = """
import json, logging, resource, sys
from tests.test_state_crawls import Follower, crawl
logging.basicConfig()
limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), limit))
where = {"NEARDUP_STATE_DIR": sys.argv[2], "NEARDUP_SNAPSHOT_INTERVAL": 0.01}
outcome = crawl(Follower, where, seed=sys.argv[1])
print(json.dumps([outcome.urls, outcome.stat("state/errors")]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on file sizes there")
@pytest.mark.parametrize("room", [0, 1000, 5000, 100_000])
def test_a_full_disk_loses_no_page(mock_site: MockSite, tmp_path: Path, room: int) -> None:
    """`room`: bytes that a file may have, as on a disk that is full after so many."""
    add_branch(mock_site)
    command = [sys.executable, "-c", FULL_DISK, mock_site.url("/start"), str(tmp_path), str(room)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    urls, n_errors = json.loads(done.stdout.splitlines()[-1])
    assert len(urls) == 5
    assert n_errors >= 1
    assert done.stderr.count("loses no page") == 1
    again = follow(mock_site, tmp_path)
    assert mock_site.url("/start") in again.urls


def test_a_queue_that_a_crash_left_is_set_aside(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_branch(mock_site)
    settings = NearDupSettings(key=0)
    state = State.open(tmp_path / "neardup", make_state_factory(settings), key=0)
    assert state.store is not None
    state.store.close()  # as the end of its process would
    queue = tmp_path / "requests.queue"
    queue.mkdir()
    (queue / "0").write_bytes(b"torn")
    outcome = crawl(Follower, {"JOBDIR": str(tmp_path)}, seed=mock_site.url("/start"))
    assert len(outcome.items) == 5
    assert (tmp_path / "requests.queue.crashed" / "0").exists()
    assert "what waited in it is found again" in caplog.text


def test_a_request_that_another_queue_kept_through_a_crash_is_dropped(
    mock_site: MockSite, tmp_path: Path
) -> None:
    state = State.open(tmp_path, make_state_factory(NearDupSettings(key=0)), key=0)
    state.close()
    stale = Request(mock_site.url("/page/1"), meta={TRACE: (0, 0, state.id, 12345)})
    foreign = Request(mock_site.url("/page/2"), meta={TRACE: (0, 0, state.id + 1, 12345)})

    class Resumed(PagesSpider):
        async def start(self) -> Any:
            yield stale
            yield foreign

    outcome = crawl(Resumed, {"NEARDUP_STATE_DIR": str(tmp_path)})
    assert outcome.urls == [mock_site.url("/page/2")]
    assert outcome.stat("urls/stale") == 1


def test_a_crawl_that_could_not_start_leaves_the_queue_as_it_was(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path)}
    first = crawl(Follower, where | {"CLOSESPIDER_ITEMCOUNT": 2}, seed=mock_site.url("/start"))
    with pytest.raises(ValueError, match="tipo"):
        crawl(Follower, where | {"NEARDUP_EXTRACTOR": "tipo"}, seed=mock_site.url("/start"))
    second = crawl(Follower, where, seed=mock_site.url("/start"))
    assert not (tmp_path / "requests.queue.crashed").exists()
    assert len(set(first.urls) | set(second.urls)) == 5
    assert mock_site.gets("/hub") == 1


class Counting(Follower):
    """Counts its pages in the state that Scrapy keeps for a job."""

    state: dict[str, int]

    def parse(self, response: Response) -> Iterator[Any]:
        self.state["pages"] = self.state.get("pages", 0) + 1
        yield from super().parse(response)


@pytest.mark.parametrize("is_locked", [True, False])
def test_a_crawl_that_is_refused_leaves_the_spider_s_state_as_it_was(
    mock_site: MockSite, tmp_path: Path, is_locked: bool
) -> None:
    add_branch(mock_site)
    where, seed = {"JOBDIR": str(tmp_path)}, mock_site.url("/start")
    first = crawl(Counting, where | {"CLOSESPIDER_ITEMCOUNT": 2}, seed=seed)
    written = (tmp_path / "spider.state").read_bytes()
    lock = FolderLock(tmp_path / "neardup") if is_locked else None
    with pytest.raises(NearDupError):
        crawl(Counting, where | ({} if is_locked else {"NEARDUP_SCOPE": "all"}), seed=seed)
    assert (tmp_path / "spider.state").read_bytes() == written
    if lock is not None:
        lock.close()
    second = crawl(Counting, where, seed=seed)
    assert len(set(first.urls) | set(second.urls)) == 5


def test_a_crawl_whose_key_is_gone_is_refused_until_it_is_put_back(
    mock_site: MockSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_branch(mock_site)
    drawn: dict[str, Any] = {"NEARDUP_KEY": None}
    follow(mock_site, tmp_path, **drawn)
    key = tmp_path / "key"
    text = key.read_bytes()
    key.unlink()
    with pytest.raises(NearDupError, match=f"{key} is missing"):
        follow(mock_site, tmp_path, **drawn)
    assert not key.exists()
    assert main(["check", str(tmp_path)]) == NOTHING_FOUND
    told = capsys.readouterr().out
    assert f"{key} is missing" in told
    assert "Codes were not verified" in told
    assert main(["repair", str(tmp_path)]) == 0
    assert "codes were not verified" in capsys.readouterr().out
    key.write_bytes(text)
    assert main(["check", str(tmp_path)]) == 0
    follow(mock_site, tmp_path, **drawn)
    assert mock_site.gets("/leaf/1") == 1

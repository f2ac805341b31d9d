"""A crawl's session goes with its crawler, and gives everything back however the crawl ends."""

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
from scrapy import Request, Spider, signals
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import HtmlResponse
from scrapy.pipelines import ItemPipelineManager
from scrapy.utils.log import LogCounterHandler

from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.errors import SnapshotError, StateLocked
from scrapy_neardup.state.recovery import read_folder
from scrapy_neardup.urls.filters.layered import LayeredBloomFilter
from tests.crawls import SETTINGS, PagesSpider, crawl_requests
from tests.fleets import RunningServer
from tests.mock_site import MockSite

ROOT = Path(__file__).resolve().parents[1]
# Scrapy leaves its own HTTP client open where a start fails.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
crawlers: WeakSet[Crawler] = WeakSet()


def held() -> dict[str, Any]:
    """What this process has of crawls: objects, threads, files and sockets."""
    forget_log_counters()
    gc.collect()
    gc.collect()  # what the first one released
    return {
        "crawlers": len(crawlers),
        "sessions": sum(isinstance(one, CrawlSession) for one in gc.get_objects()),
        "threads": sorted(t.name for t in threading.enumerate() if t.name.startswith("neardup")),
        "files": sorted(path for path in open_files() if "/neardup" in path or "/state" in path),
    }


def forget_log_counters() -> None:
    """Take away what holds a cancelled crawler: no signal tells Scrapy's LogCount to."""
    for handler in logging.root.handlers[:]:
        if isinstance(handler, LogCounterHandler):
            logging.root.removeHandler(handler)


def open_files() -> Iterator[str]:
    """The paths of this process's open files."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            yield os.readlink(descriptor)


@pytest.fixture(autouse=True)
def nothing_is_left_behind(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    before = held()
    with caplog.at_level("CRITICAL"):  # records hold the frames of what was raised
        yield
    assert held() == before


class Seed(PagesSpider):
    """One page and its item."""

    def parse_seed(self, response: Any) -> Iterator[Any]:
        yield {"url": response.url}
        yield Request(response.urljoin("/page/1"))


async def run_one(site: MockSite, settings: dict[str, Any], spider: type[Spider] = Seed) -> None:
    runner = AsyncCrawlerRunner(SETTINGS | settings)
    crawler = runner.create_crawler(spider)
    crawlers.add(crawler)
    await runner.crawl(crawler, seed=site.url("/page/seed"))


def run(site: MockSite, settings: dict[str, Any], spider: type[Spider] = Seed) -> None:
    asyncio.run(run_one(site, settings, spider))


def fails(site: MockSite, settings: dict[str, Any], error: type[Exception] = ValueError) -> None:
    """Run a crawl that cannot start; without a frame of it in the hand afterwards."""
    with pytest.raises(error):
        run(site, {"LOG_ENABLED": False} | settings)


class RaisesAtOnce:
    """A component that cannot be made."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        raise ValueError("a defect of another component")


class RaisesOnceOpened(RaisesAtOnce):
    """A pipeline that cannot be opened."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        return cls()

    def open_spider(self) -> None:
        raise ValueError("a defect of another component")

    def process_item(self, item: Any) -> Any:
        return item


class NotWanted(RaisesAtOnce):
    """A component that is switched off."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        raise NotConfigured("switched off")


class RaisesInHandler(RaisesAtOnce):
    """An extension whose signal handler raises."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        one = cls()
        crawler.signals.connect(one.spider_opened, signal=signals.spider_opened)
        crawler.one = one
        return one

    def spider_opened(self) -> None:
        raise ValueError("a defect of another component")


@pytest.mark.parametrize("is_started", [False, True])
def test_pipelines_and_middlewares_without_a_crawl_pass_everything_on(is_started: bool) -> None:
    """As in tests of a project's own components, which drive Scrapy's managers by hand."""
    crawler = Crawler(PagesSpider, SETTINGS)
    crawler._apply_settings()
    crawler.spider = PagesSpider()
    crawlers.add(crawler)
    spidermw = SpiderMiddlewareManager.from_crawler(crawler)
    pipelines = ItemPipelineManager.from_crawler(crawler)

    def scraped(response: Any, request: Any) -> Any:
        async def callback() -> Any:
            return [{"n": 1}, Request("http://a.example/2")]

        return callback()

    async def outputs() -> list[Any]:
        if is_started:
            await spidermw.process_start()
        request = Request("http://a.example/1")
        response = HtmlResponse(request.url, body=b"<p>words</p>", request=request)
        result = await spidermw.scrape_response_async(scraped, response, request)
        return [output async for output in result]

    item, request = asyncio.run(outputs())
    assert (item, request.url) == ({"n": 1}, "http://a.example/2")
    assert asyncio.run(pipelines.process_item_async(item)) is item


@pytest.mark.filterwarnings("error:coroutine:RuntimeWarning")
def test_a_pipeline_that_cannot_be_opened_is_reported_without_a_warning(
    mock_site: MockSite, recwarn: pytest.WarningsRecorder
) -> None:
    with pytest.raises(ValueError, match="a defect of another component"):
        run(mock_site, {"ITEM_PIPELINES": {RaisesOnceOpened: 300}})
    gc.collect()
    assert not [w for w in recwarn if "never awaited" in str(w.message)]


def test_many_crawls_in_one_process_leave_nothing_behind(
    mock_site: MockSite, tmp_path: Path
) -> None:
    for where in ({}, {"NEARDUP_STATE_DIR": str(tmp_path / "state")}, {"JOBDIR": str(tmp_path)}):
        for _ in range(3):
            run(mock_site, where)


def test_a_crawl_that_ended_keeps_nothing_open_while_its_crawler_is_kept(
    mock_site: MockSite, tmp_path: Path
) -> None:
    before = held()
    where = {"NEARDUP_STATE_DIR": str(tmp_path / "state"), "NEARDUP_LEARN": "act"}
    runner = AsyncCrawlerRunner(SETTINGS | where)
    crawler = runner.create_crawler(Seed)

    async def crawl() -> None:
        await runner.crawl(crawler, seed=mock_site.url("/page/seed"))

    asyncio.run(crawl())
    after = held()
    assert (after["threads"], after["files"]) == (before["threads"], before["files"])
    assert crawler.stats


def test_crawls_of_one_runner_at_the_same_time_leave_nothing_behind(mock_site: MockSite) -> None:
    async def all_at_once() -> None:
        await asyncio.gather(*(run_one(mock_site, {}) for _ in range(4)))

    asyncio.run(all_at_once())


@pytest.mark.parametrize("place", ["ITEM_PIPELINES", "SPIDER_MIDDLEWARES", "EXTENSIONS"])
def test_a_component_that_cannot_be_made_leaves_the_folder_free(
    mock_site: MockSite, tmp_path: Path, place: str
) -> None:
    where = {"NEARDUP_STATE_DIR": str(tmp_path / "state")}
    for _ in range(2):  # the second would find the folder locked by its own process
        fails(mock_site, where | {place: {RaisesAtOnce: 999}})
    run(mock_site, where)


def test_a_scheduler_that_cannot_be_made_leaves_the_folder_free(
    mock_site: MockSite, tmp_path: Path
) -> None:
    where = {"JOBDIR": str(tmp_path)}
    with suppress(Exception):  # Scrapy stumbles while it closes
        run(mock_site, where | {"SCHEDULER_DISK_QUEUE": "no.such.Queue", "LOG_ENABLED": False})
    gc.collect()
    run(mock_site, where)


def test_a_pipeline_that_cannot_be_opened_leaves_the_folder_free(
    mock_site: MockSite, tmp_path: Path
) -> None:
    where = {"NEARDUP_STATE_DIR": str(tmp_path / "state")}
    for _ in range(2):
        fails(mock_site, where | {"ITEM_PIPELINES": {RaisesOnceOpened: 999}})
    run(mock_site, where)


@pytest.mark.parametrize("extension", [NotWanted, RaisesInHandler])
def test_a_component_that_only_complains_stops_nothing(
    mock_site: MockSite, tmp_path: Path, extension: type
) -> None:
    where = {
        "NEARDUP_STATE_DIR": str(tmp_path / "state"),
        "EXTENSIONS": {extension: 0},
        "LOG_ENABLED": False,
    }
    for _ in range(2):
        run(mock_site, where)


class FilterWithADefect(LayeredBloomFilter):
    """A filter of a project's own that cannot tell how full it is."""

    @property
    def at_risk(self) -> bool:
        raise ValueError("a defect of another component")


def test_what_cannot_be_told_at_the_end_keeps_nothing_from_being_saved(
    mock_site: MockSite, tmp_path: Path
) -> None:
    settings = {
        "NEARDUP_STATE_DIR": str(tmp_path / "state"),
        "NEARDUP_URL_FILTER": FilterWithADefect,
        "NEARDUP_SNAPSHOT_INTERVAL": 1e-3,
        "LOG_ENABLED": False,
    }
    outcomes = [
        crawl_requests(mock_site, "/page/1", "/page/2", settings=settings) for _ in range(2)
    ]
    assert [len(outcome.urls) for outcome in outcomes] == [2, 0]
    assert outcomes[0].stat("errors/advice") > 1
    assert read_folder(tmp_path / "state").closed


def test_switched_off_there_is_no_session(mock_site: MockSite) -> None:
    run(mock_site, {"NEARDUP_ENABLED": False})


def test_a_state_that_is_refused_is_given_back(mock_site: MockSite, tmp_path: Path) -> None:
    where = {"NEARDUP_STATE_DIR": str(tmp_path / "state")}
    run(mock_site, where)
    for _ in range(2):
        fails(mock_site, where | {"NEARDUP_SHINGLE": 2}, SnapshotError)
    run(mock_site, where)


SPIDER = """
import scrapy

class Greeting(scrapy.Spider):
    name = "greeting"
    start_urls = ["data:text/html,<p>hello</p>"]
    custom_settings = {"ADDONS": {"scrapy_neardup.NearDupAddon": 500}}

    def parse(self, response):
        yield {"text": response.text}
"""


def test_a_crawl_that_is_refused_begins_and_ends_with_what_there_is_to_do(tmp_path: Path) -> None:
    spider, state = tmp_path / "greeting.py", tmp_path / "state"
    spider.write_text(SPIDER)
    command = [sys.executable, "-m", "scrapy", "runspider", str(spider)]
    command += ["-s", f"NEARDUP_STATE_DIR={state}", "-s", "LOG_LEVEL=INFO"]
    subprocess.run(command, check=True, capture_output=True)
    command += ["-s", "NEARDUP_SCOPE=all"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    first = next(line for line in lines if "ERROR" in line)
    assert "neardup: the crawl cannot start: " in first
    for line in (first, lines[-1]):  # above and below Scrapy's own errors
        assert "scope is 'site' there and 'all' here. Restore the settings" in line
    assert "neardup stats" not in done.stderr  # the crawl did not start
    ours = [line for line in done.stderr.splitlines() if "scrapy_neardup/" in line]
    assert ours
    assert all("in process_start" in line for line in ours)


def both_at_once(mock_site: MockSite, *settings: dict[str, Any]) -> list[Any]:
    async def crawls() -> list[Any]:
        runs = (run_one(mock_site, each) for each in settings)
        return await asyncio.gather(*runs, return_exceptions=True)

    return asyncio.run(crawls())


def test_a_jobdir_is_for_one_crawl_at_a_time(mock_site: MockSite, tmp_path: Path) -> None:
    where = {"JOBDIR": str(tmp_path), "LOG_ENABLED": False}

    results = both_at_once(mock_site, where, where)
    assert [type(result) for result in results] == [type(None), StateLocked]


def test_a_crawl_that_is_cancelled_gives_everything_back(
    mock_site: MockSite, tmp_path: Path
) -> None:
    """As by Ctrl-C in a program that awaits a crawl: Scrapy sends no signal then."""

    class Cancelling(Seed):
        def parse_seed(self, response: Any) -> Iterator[Any]:
            asyncio.get_running_loop().call_soon(task.cancel)
            yield {"url": response.url}

    async def cancelled() -> None:
        nonlocal task
        task = asyncio.ensure_future(run_one(mock_site, where, Cancelling))
        with suppress(asyncio.CancelledError):
            await task

    task: Any = None
    where = {"NEARDUP_STATE_DIR": str(tmp_path / "state"), "LOG_ENABLED": False}
    asyncio.run(cancelled())
    task = None
    gc.collect()
    run(mock_site, where)


def test_a_fleets_worker_gives_back_thread_and_sockets(
    mock_site: MockSite, server: RunningServer
) -> None:
    pytest.importorskip("redis", reason="the extra `redis` is not installed")
    fleet = {"NEARDUP_BACKEND": server.url, "LOG_ENABLED": False}
    run(mock_site, fleet)
    fails(mock_site, fleet | {"ITEM_PIPELINES": {RaisesAtOnce: 999}})
    fails(mock_site, fleet | {"ITEM_PIPELINES": {RaisesOnceOpened: 999}})
    gc.collect()
    assert "connected_clients:1\r" in server.command("INFO", "clients")  # this question's own


INTERRUPTED = """
import gc, os, signal, sys, threading, weakref
sys.path.insert(0, "tests")
from scrapy.crawler import {process}
from tests.crawls import SETTINGS
from tests.test_crawl_session import Seed

class Interrupting(Seed):
    def parse_seed(self, response):
        os.kill(os.getpid(), signal.SIGINT)
        yield from super().parse_seed(response)

process = {process}(SETTINGS | {{"TWISTED_REACTOR_ENABLED": True}})
alive = weakref.WeakSet()
for n in range(3):
    class OfAFolder(Interrupting):
        custom_settings = {{"NEARDUP_STATE_DIR": f"{{sys.argv[2]}}/{{n}}"}}
    crawler = process.create_crawler(OfAFolder)
    alive.add(crawler)
    process.crawl(crawler, seed=sys.argv[1])
del crawler
process.start()
process.crawlers.clear()
gc.collect()
print([t.name for t in threading.enumerate() if t.name.startswith("neardup")])
from scrapy_neardup.state.lock import FolderLock
from pathlib import Path
for n in range(3):
    FolderLock(Path(sys.argv[2]) / str(n)).close()
print("unlocked")
"""


@pytest.mark.parametrize("process", ["CrawlerProcess", "AsyncCrawlerProcess"])
def test_ctrl_c_gives_everything_back(mock_site: MockSite, tmp_path: Path, process: str) -> None:
    code = INTERRUPTED.format(process=process)
    command = [sys.executable, "-c", code, mock_site.url("/page/seed"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.stdout.splitlines() == ["[]", "unlocked"], done.stderr


def test_the_gauges_are_set_from_the_start(mock_site: MockSite) -> None:
    at_start: dict[str, Any] = {}
    while_it_runs: dict[str, Any] = {}

    class Looking(Seed):
        async def start(self) -> Any:
            at_start.update(self.crawler.stats.get_stats())
            async for request in super().start():
                yield request

        def parse(self, response: Any) -> Iterator[Any]:
            while_it_runs.update(self.crawler.stats.get_stats())
            yield {"url": response.url}

        async def parse_seed(self, response: Any) -> Any:
            yield {"url": response.url}
            await asyncio.sleep(0.05)  # some intervals go by
            yield Request(response.urljoin("/page/1"))

    run(mock_site, {"NEARDUP_SNAPSHOT_INTERVAL": 0.01}, Looking)
    assert at_start["neardup/memory/bytes"] > 0
    assert at_start["neardup/index/size"] == 0
    assert while_it_runs["neardup/index/size"] == 1

"""The queues of a job: in Scrapy's order, kept through crashes, taken over from older jobs."""

import json
import os
import pickle
import random
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.http import Response

from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.errors import SettingsError, StateError, StateLocked
from scrapy_neardup.state.frontier_file import NAME
from scrapy_neardup.state.lock import FolderLock
from scrapy_neardup.state.mac import MAC_BYTES
from tests.crawls import ADDONS, SETTINGS, PagesSpider, crawl
from tests.mock_site import MockSite, page, prose
from tests.test_state_crawls import ROOT, Follower, Stopping, add_branch

SCRAPYS = {
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleLifoDiskQueue",
    "SCHEDULER_START_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
}
ONE_QUEUE = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue"}
OLDEST_FIRST = {"SCHEDULER_DISK_QUEUE": "scrapy_neardup.DurableFifoQueue"}
SCRAPYS_OLDEST_FIRST = SCRAPYS | {"SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue"}


class Wide(PagesSpider):
    """Starts with four pages, and finds twelve on each, of several priorities and slots."""

    async def start(self) -> Any:
        for number in range(4):
            yield Request(self.root + f"/start/{number}", priority=number % 2)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        if "/start/" in response.url:
            rng = random.Random(response.url[-1])
            for number in range(12):
                meta = {"download_slot": rng.choice("ab")}
                url = self.root + f"/leaf/{response.url[-1]}/{number}"
                yield Request(url, priority=rng.randrange(-1, 2), meta=meta)


def add_wide(site: MockSite) -> None:
    for number in range(4):
        site.add(f"/start/{number}", page(prose(f"start {number}")))
        for leaf in range(12):
            site.add(f"/leaf/{number}/{leaf}", page(prose(f"leaf {number} {leaf}")))


def wide(site: MockSite, folder: Path, settings: dict[str, Any]) -> list[str]:
    """The paths that a job fetches, in their order."""
    urls = crawl(Wide, {"JOBDIR": str(folder)} | settings, root=site.url("")).urls
    return [url.removeprefix(site.url("")) for url in urls]


@pytest.mark.parametrize(
    ("ours", "scrapys"),
    [
        ({}, SCRAPYS),
        (ONE_QUEUE, SCRAPYS | ONE_QUEUE),
        (OLDEST_FIRST, SCRAPYS_OLDEST_FIRST),
        ({"SCHEDULER_START_DISK_QUEUE": None}, SCRAPYS | {"SCHEDULER_START_DISK_QUEUE": None}),
    ],
)
def test_requests_come_in_scrapys_order(
    mock_site: MockSite, tmp_path: Path, ours: dict[str, Any], scrapys: dict[str, Any]
) -> None:
    add_wide(mock_site)
    paths = wide(mock_site, tmp_path / "a", ours)
    assert len(paths) == 4 + 4 * 12
    assert paths == wide(mock_site, tmp_path / "b", scrapys)


@pytest.mark.parametrize("settings", [{}, ONE_QUEUE, OLDEST_FIRST])
def test_a_job_that_was_stopped_goes_on_with_what_waits(
    mock_site: MockSite, tmp_path: Path, settings: dict[str, Any]
) -> None:
    add_wide(mock_site)
    settings = settings | {"CLOSESPIDER_ITEMCOUNT": 9}
    paths: list[str] = []
    for _ in range(9):
        paths += wide(mock_site, tmp_path, settings)
    leaves = [path for path in paths if "/leaf/" in path]
    assert len(leaves) == len(set(leaves)) == 4 * 12


@pytest.mark.parametrize("settings", [{}, ONE_QUEUE])
def test_a_job_whose_start_brings_nothing_goes_on_with_what_waits(
    mock_site: MockSite, tmp_path: Path, settings: dict[str, Any]
) -> None:
    """No start request opens the queues again."""

    class WideOnce(Wide):
        async def start(self) -> Any:
            if not list(tmp_path.glob("neardup/snapshot-*")):
                async for request in super().start():
                    yield request

    add_wide(mock_site)
    settings = settings | {"JOBDIR": str(tmp_path)}
    stopped = settings | {"CLOSESPIDER_ITEMCOUNT": 6}
    urls = crawl(WideOnce, stopped, root=mock_site.url("")).urls
    assert len(urls) < 52
    urls += crawl(WideOnce, settings, root=mock_site.url("")).urls
    assert len(urls) == len(set(urls)) == 52


def test_a_queue_that_an_older_job_left_is_taken_over(mock_site: MockSite, tmp_path: Path) -> None:
    add_wide(mock_site)
    first = wide(mock_site, tmp_path, SCRAPYS | {"CLOSESPIDER_ITEMCOUNT": 9})
    assert [path for path in (tmp_path / "requests.queue").rglob("*") if path.name == "0"]
    rest = wide(mock_site, tmp_path, {})
    assert {path for path in first + rest if "/leaf/" in path} == {
        f"/leaf/{number}/{leaf}" for number in range(4) for leaf in range(12)
    }
    assert not set(first) & {path for path in rest if "/leaf/" in path}
    files = [path for path in (tmp_path / "requests.queue").rglob("*") if path.is_file()]
    assert [path.name for path in files] == ["active.json"]


class WithoutHosts(Spider):
    """Asks for a page, and for documents that are in their URLs."""

    name = "without_hosts"

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.seed)
        for number in range(20):
            yield Request(f"data:,words{number}", callback=self.parse_document)

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request(f"{response.url}?again")

    def parse_document(self, response: Response) -> Iterator[Any]:
        yield {"words": response.text}
        yield Request(f"{response.url}-more", callback=self.parse_document_found)

    def parse_document_found(self, response: Response) -> Iterator[Any]:
        yield {"words": response.text}


@pytest.mark.parametrize("first", [{}, SCRAPYS], ids=["ours", "scrapys"])
def test_requests_without_a_host_go_on(
    mock_site: MockSite, tmp_path: Path, first: dict[str, Any]
) -> None:
    """Scrapy has them in a slot whose name is empty."""
    where = {"JOBDIR": str(tmp_path), "CONCURRENT_REQUESTS": 2}
    stopped = where | first | {"CLOSESPIDER_ITEMCOUNT": 9}
    seed = mock_site.url("/page/1")
    items = crawl(WithoutHosts, stopped, seed=seed).items
    for _ in range(3):
        items += crawl(WithoutHosts, where, seed=seed).items
    expected = {f"words{number}{more}" for number in range(20) for more in ("", "-more")}
    assert {item["words"] for item in items if "words" in item} == expected
    if not first:  # else pages of which links wait in Scrapy's queue are read again
        assert len(items) <= len(expected) + 2


def test_a_queue_of_an_older_job_that_cannot_be_read_is_found_again(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path)}
    stopped = where | SCRAPYS | {"CLOSESPIDER_ITEMCOUNT": 2, "CONCURRENT_REQUESTS": 1}
    first = crawl(Follower, stopped, seed=mock_site.url("/start"))
    (queue,) = (tmp_path / "requests.queue").glob("*/0")
    queue.write_bytes(queue.read_bytes()[:-1])
    second = crawl(Follower, where, seed=mock_site.url("/start"))
    assert len(set(first.urls + second.urls)) == 5
    assert "was not closed, or is damaged" in caplog.text
    assert (tmp_path / "requests.queue.crashed").exists()


def test_a_job_with_waiting_requests_is_not_left_for_another_queue(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path)}
    crawl(Follower, where | {"CLOSESPIDER_ITEMCOUNT": 2}, seed=mock_site.url("/start"))
    with pytest.raises(SettingsError, match="requests of this job wait in"):
        crawl(Follower, where | SCRAPYS, seed=mock_site.url("/start"))
    with pytest.raises(SettingsError, match="another SCHEDULER_PRIORITY_QUEUE"):
        crawl(Follower, where | ONE_QUEUE, seed=mock_site.url("/start"))
    outcome = crawl(Follower, where, seed=mock_site.url("/start"))
    assert len(outcome.urls) >= 3


class Killed(Follower):
    """Dies after so many pages, with everything on the disk that was to be there by then."""

    n_pages = 0

    def parse(self, response: Response) -> Iterator[Any]:
        queues = CrawlSession.of(self.crawler).disk_queues
        assert queues is not None
        queues.flush()
        queues.flush()  # what the former let be done
        self.n_pages += 1
        if self.n_pages > self.lives:
            os._exit(9)
        yield from super().parse(response)


CRAWL = """
import sys
from tests.test_squeues import Killed, crawl
crawl(Killed, {"JOBDIR": sys.argv[1]}, seed=sys.argv[2], lives=int(sys.argv[3]))
"""


def killed(site: MockSite, folder: Path, lives: int) -> None:
    command = [sys.executable, "-c", CRAWL, str(folder), site.url("/start"), str(lives)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 9, done.stderr


@pytest.mark.parametrize("lives", [1, 2, 3, 4])
def test_a_killed_job_reads_again_what_was_under_way_and_nothing_else(
    mock_site: MockSite, tmp_path: Path, lives: int
) -> None:
    add_branch(mock_site)
    killed(mock_site, tmp_path, lives)
    before = {path: mock_site.gets(path) for path in ("/hub", "/leaf/0", "/leaf/1", "/leaf/2")}
    outcome = crawl(Follower, {"JOBDIR": str(tmp_path)}, seed=mock_site.url("/start"))
    after = {path: mock_site.gets(path) for path in before}
    assert all(after.values())
    assert sum(after.values()) <= len(after) + 1  # the one under way
    assert before["/hub"] == 0 or after["/hub"] <= 2
    assert outcome.stat("state/unfinished_pages") == 0
    assert not (tmp_path / "neardup" / "frontier.sqlite").exists()


def test_waiting_pages_take_no_memory(mock_site: MockSite, tmp_path: Path) -> None:
    """One page of many links: it is done when they are on the disk."""
    unfinished: list[int] = []

    class Watching(Killed):
        lives = 1000

        def parse(self, response: Response) -> Iterator[Any]:
            yield from super().parse(response)
            CrawlSession.of(self.crawler).refresh_gauges()
            unfinished.append(self.crawler.stats.get_value("neardup/state/unfinished_pages"))

    mock_site.add("/start", page(prose("start"), "/hub/0"))
    for number in range(20):
        links = [f"/hub/{number + 1}", *(f"/leaf/{number}/{leaf}" for leaf in range(5))]
        mock_site.add(f"/hub/{number}", page(prose(f"hub {number}"), *links[::-1]))
    crawl(
        Watching,
        {"JOBDIR": str(tmp_path), "HTTPERROR_ALLOW_ALL": True},
        seed=mock_site.url("/start"),
    )
    assert len(unfinished) > 20
    assert max(unfinished) <= 2


def test_a_request_that_failed_waits_for_the_next_crawl(
    mock_site: MockSite, tmp_path: Path
) -> None:
    mock_site.add("/start", page(prose("start"), "/hub"))
    mock_site.add("/hub", page(prose("hub"), "/page/1", "/flaky"))
    where = {"JOBDIR": str(tmp_path), "RETRY_TIMES": 0}
    first = crawl(Follower, where, seed=mock_site.url("/start"))
    assert mock_site.url("/flaky") not in first.urls
    assert first.stat("state/unfinished_pages") == 1
    for _ in range(2):
        last = crawl(Follower, where, seed=mock_site.url("/start"))
    assert mock_site.url("/flaky") in last.urls
    assert mock_site.gets("/hub") == 1


@pytest.mark.parametrize("settings", [{}, SCRAPYS])
def test_a_job_whose_spider_stopped_itself_goes_on_behind_the_page_where_it_did(
    mock_site: MockSite, tmp_path: Path, settings: dict[str, Any]
) -> None:
    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path)} | settings
    first = crawl(Stopping, where, seed=mock_site.url("/start"))
    assert first.stats["finish_reason"] == "enough"
    second = crawl(Stopping, where, seed=mock_site.url("/start"))
    assert second.stats["finish_reason"] == "finished"
    assert mock_site.gets("/leaf/1") == 1
    leaves = [url for url in first.urls + second.urls if "/leaf/" in url]
    assert sorted(leaves) == [mock_site.url(f"/leaf/{n}") for n in range(3)]


class Dead(Follower):
    """Starts with pages that never answer, and asks for one of them twice."""

    errback: Any = None

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.seed, errback=self.errback)
        for url in (self.seed.replace("/start", "/dead"), "http://127.0.0.1:9/"):
            yield Request(url, dont_filter=True, errback=self.errback)
            yield Request(url, dont_filter=True, errback=self.errback)


class DeadToErrbacks(Dead):
    """The same with errbacks."""

    def errback(self, failure: Any) -> None:
        """Makes nothing of it."""


def test_a_request_that_fails_in_each_crawl_is_made_no_more_often_in_the_next(
    mock_site: MockSite, tmp_path: Path
) -> None:
    """A link to it is found anew in each, and what is left of its retries counts as the same."""
    mock_site.add("/start", page(prose("start"), mock_site.url("/dead"), mock_site.url("/page/1")))
    where, hits = {"JOBDIR": str(tmp_path), "RETRY_TIMES": 2}, [0]
    for _ in range(4):
        crawl(Follower, where, seed=mock_site.url("/start"))
        hits.append(mock_site.gets("/dead"))
    assert [after - before for before, after in pairwise(hits)] == [3, 1, 1, 1]


class Again(Follower):
    """Has an errback that makes a request once more, and then gives up."""

    n_failures = 0

    def parse(self, response: Response) -> Iterator[Any]:
        for output in super().parse(response):
            is_request = isinstance(output, Request)
            yield output.replace(errback=self.once_more) if is_request else output

    def once_more(self, failure: Any) -> Iterator[Any]:
        self.n_failures += 1
        if self.n_failures == 1:
            yield failure.request.replace(dont_filter=True)


def test_a_request_that_an_errback_has_made_again_in_vain_stays(
    mock_site: MockSite, tmp_path: Path
) -> None:
    """The copy is equal to the request that failed before, which does not stay."""
    dead = "http://127.0.0.1:9/"
    mock_site.add("/start", page(prose("start"), "/hub"))
    mock_site.add("/hub", page(prose("hub"), dead))
    where = {"JOBDIR": str(tmp_path), "RETRY_ENABLED": False, "ROBOTSTXT_OBEY": False}
    failed = [
        crawl(Again, where, seed=mock_site.url("/start")).stats.get("downloader/exception_count")
        for _ in range(3)
    ]
    assert failed == [2, 2, 2]
    assert mock_site.gets("/hub") == 1


@pytest.mark.parametrize("spider", [Dead, DeadToErrbacks])
def test_of_equal_requests_that_fail_in_each_crawl_one_stays(
    mock_site: MockSite, tmp_path: Path, spider: type[Dead]
) -> None:
    mock_site.add("/start", page(prose("start")))
    where = {"JOBDIR": str(tmp_path), "RETRY_TIMES": 1, "ROBOTSTXT_OBEY": False}
    hits, errors = [0], []
    for _ in range(4):
        outcome = crawl(spider, where, seed=mock_site.url("/start"))
        hits.append(mock_site.gets("/dead"))
        errors.append(outcome.stats["downloader/exception_count"])
    assert [after - before for before, after in pairwise(hits)] == errors == [4, 5, 5, 5]


def test_requests_that_cannot_be_serialised_stay_in_memory_and_their_page_waits(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class Lambdas(Follower):
        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url}
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, callback=lambda response: self.parse(response))

    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path)}
    stopped = where | {"CLOSESPIDER_ITEMCOUNT": 2}
    first = crawl(Lambdas, stopped, seed=mock_site.url("/start"))
    assert first.stats["scheduler/unserializable"]
    second = crawl(Lambdas, where, seed=mock_site.url("/start"))
    assert len(set(first.urls + second.urls)) == 5


def repair(job: Path) -> None:
    """With the settings that the job was crawled with."""
    settings = ["-s", f"NEARDUP_KEY={SETTINGS['NEARDUP_KEY']}"]
    command = [sys.executable, "-m", "scrapy", "neardup", *settings, "repair", str(job)]
    subprocess.run(command, check=True, cwd=job)


class Planted:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_planted_request_is_refused_before_it_is_unpickled(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever can write to the file but not read the key."""
    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path / "job")}
    crawl(Follower, where | {"CLOSESPIDER_ITEMCOUNT": 2}, seed=mock_site.url("/start"))
    run, trace = pickle.dumps(Planted(tmp_path / "run")), tmp_path / "run"
    with closing(sqlite3.connect(tmp_path / "job" / "neardup" / NAME)) as db, db:
        assert db.execute("UPDATE requests SET request = ?", (run + bytes(MAC_BYTES),)).rowcount
    second = crawl(Follower, where, seed=mock_site.url("/start"))
    assert second.stats["finish_reason"] == "requests_lost"
    assert "was not written under this folder's key" in caplog.text
    assert not trace.exists()
    pickle.loads(run)  # noqa: S301
    assert trace.exists()


def test_a_request_whose_callback_is_gone_is_counted_and_kept(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Renamed(Follower):
        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url}
            for link in response.css("a::attr(href)").getall():
                yield response.follow(link, callback=self.parse_leaf)

        def parse_leaf(self, response: Response) -> Iterator[Any]:
            yield from self.parse(response)

    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path)}
    first = crawl(Renamed, where | {"CLOSESPIDER_ITEMCOUNT": 2}, seed=mock_site.url("/start"))
    second = crawl(Follower, where, seed=mock_site.url("/start"))
    assert second.stat("errors/frontier") > 0
    third = crawl(Renamed, where, seed=mock_site.url("/start"))
    assert {mock_site.url(f"/leaf/{number}") for number in range(3)} <= set(first.urls + third.urls)
    assert third.stat("errors/frontier") == 0


def test_what_a_frontier_holds_can_be_peeked_at(mock_site: MockSite, tmp_path: Path) -> None:
    seen: list[Any] = []

    class Peeking(Follower):
        def parse(self, response: Response) -> Iterator[Any]:
            yield from super().parse(response)
            scheduler = self.crawler.engine._slot.scheduler
            seen.append(scheduler.dqs.peek() if scheduler.dqs else None)

    add_branch(mock_site)
    crawl(Peeking, {"JOBDIR": str(tmp_path)}, seed=mock_site.url("/start"))
    assert seen[-1] is None
    assert any(isinstance(request, Request) for request in seen)


def test_a_single_pages_command_leaves_the_job_alone(mock_site: MockSite, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scrapy", "fetch", mock_site.url("/page/1")]
    for setting in (f"ADDONS={json.dumps(ADDONS)}", f"JOBDIR={tmp_path}"):
        command += ["-s", setting]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "neardup").exists()
    assert json.loads((tmp_path / "requests.queue" / "active.json").read_text()) in ({}, [])


def test_a_job_whose_frontier_is_damaged_is_refused_until_repaired_and_loses_no_page(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_branch(mock_site)
    killed(mock_site, tmp_path, 2)
    frontier = tmp_path / "neardup" / NAME
    for path in frontier.parent.glob(NAME + "*"):
        path.write_bytes(b"nothing that SQLite knows")
    for _ in range(2):
        with pytest.raises(StateError, match="scrapy neardup repair"):
            crawl(Follower, {"JOBDIR": str(tmp_path)}, seed=mock_site.url("/start"))
    repair(tmp_path)
    outcome = crawl(Follower, {"JOBDIR": str(tmp_path)}, seed=mock_site.url("/start"))
    assert len(set(outcome.urls)) + outcome.stat("items/put_out_before") == 5


@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied", "gone"])
def test_a_killed_job_whose_frontiers_log_is_damaged_is_refused_until_repaired(
    mock_site: MockSite, tmp_path: Path, damage: str
) -> None:
    """SQLite drops what is behind a damaged frame, and does not tell."""
    add_branch(mock_site)
    killed(mock_site, tmp_path, 2)
    log = tmp_path / "neardup" / f"{NAME}-wal"
    data = log.read_bytes()
    third = len(data) // 3
    changed = {
        "flipped": data[:third] + bytes([data[third] ^ 4]) + data[third + 1 :],
        "cut": data[:third],
        "emptied": b"",
    }
    log.unlink() if damage == "gone" else log.write_bytes(changed[damage])
    refused_until_repaired(mock_site, tmp_path)


@pytest.mark.parametrize("left", [b"", b"S", None])
def test_a_stopped_job_whose_frontier_is_cut_off_or_gone_is_refused_until_repaired(
    mock_site: MockSite, tmp_path: Path, left: bytes | None
) -> None:
    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path)}
    crawl(Follower, where | {"CLOSESPIDER_ITEMCOUNT": 2}, seed=mock_site.url("/start"))
    frontier = tmp_path / "neardup" / NAME
    frontier.unlink() if left is None else frontier.write_bytes(left)
    with pytest.raises(StateError, match="scrapy neardup repair"):
        crawl(Follower, where | SCRAPYS, seed=mock_site.url("/start"))
    refused_until_repaired(mock_site, tmp_path)


@pytest.mark.parametrize("at", [-4, 3, 20, 42], ids=["id", "slot", "hash", "slash"])
@pytest.mark.parametrize("bit", [1, 7])
def test_a_stopped_job_of_which_a_queues_name_is_damaged_is_refused_until_repaired(
    mock_site: MockSite, tmp_path: Path, at: int, bit: int
) -> None:
    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path), "CLOSESPIDER_ITEMCOUNT": 2}
    crawl(Follower, where, seed=mock_site.url("/start"))
    frontier = tmp_path / "neardup" / NAME
    data = bytearray(frontier.read_bytes())
    data[data.index(b"127.0.0.1-", 4096) + at] ^= 1 << bit
    frontier.write_bytes(data)
    refused_until_repaired(mock_site, tmp_path)


def refused_until_repaired(site: MockSite, job: Path) -> None:
    """And then no page is lost."""
    where = {"JOBDIR": str(job)}
    for _ in range(2):
        with pytest.raises(StateError, match="scrapy neardup repair"):
            crawl(Follower, where, seed=site.url("/start"))
    repair(job)
    outcome = crawl(Follower, where, seed=site.url("/start"))
    assert len(set(outcome.urls)) + outcome.stat("items/put_out_before") == 5
    assert len(crawl(Follower, where, seed=site.url("/start")).urls) <= 1


def test_a_request_that_is_damaged_in_the_frontier_does_not_pass_for_another(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path)}
    crawl(Follower, where | {"CLOSESPIDER_ITEMCOUNT": 2}, seed=mock_site.url("/start"))
    frontier = tmp_path / "neardup" / NAME
    frontier.write_bytes(frontier.read_bytes().replace(b"/leaf/1", b"/leaf/9"))
    second = crawl(Follower, where, seed=mock_site.url("/start"))
    assert second.stats["finish_reason"] == "requests_lost"
    assert second.stat("requests/lost") == 1
    assert not mock_site.gets("/leaf/9")
    repair(tmp_path)
    crawl(Follower, where, seed=mock_site.url("/start"))
    assert mock_site.gets("/leaf/1")


def test_a_job_with_waiting_requests_is_not_left_for_a_state_elsewhere(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path / "job")}
    elsewhere = where | {"NEARDUP_STATE_DIR": str(tmp_path / "state")}
    crawl(Follower, where | {"CLOSESPIDER_ITEMCOUNT": 2}, seed=mock_site.url("/start"))
    with pytest.raises(SettingsError, match="state folder of its own"):
        crawl(Follower, elsewhere, seed=mock_site.url("/start"))
    crawl(Follower, where, seed=mock_site.url("/start"))
    assert len(crawl(Follower, elsewhere, seed=mock_site.url("/start")).urls) == 5


def test_a_job_with_its_state_elsewhere_sets_aside_the_queue_that_a_crash_left(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_branch(mock_site)
    where = {"JOBDIR": str(tmp_path / "job"), "NEARDUP_STATE_DIR": str(tmp_path / "state")}
    stopped = where | {"CLOSESPIDER_ITEMCOUNT": 2}
    first = crawl(Follower, stopped, seed=mock_site.url("/start"))
    (queue,) = (tmp_path / "job" / "requests.queue").glob("*/0")
    queue.write_bytes(b"torn")
    (tmp_path / "job" / "neardup.running").touch()  # as a kill leaves it
    second = crawl(Follower, where, seed=mock_site.url("/start"))
    assert len(set(first.urls + second.urls)) == 5
    assert second.stats["finish_reason"] == "finished"
    assert not (tmp_path / "job" / "neardup.running").exists()


def test_a_job_with_its_state_elsewhere_is_for_one_crawl_at_a_time(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_branch(mock_site)
    lock = FolderLock(tmp_path)
    where = {"JOBDIR": str(tmp_path), "NEARDUP_STATE_DIR": str(tmp_path / "state")}
    with pytest.raises(StateLocked, match="in use by process"):
        crawl(Follower, where, seed=mock_site.url("/start"))
    lock.close()
    assert crawl(Follower, where, seed=mock_site.url("/start")).urls

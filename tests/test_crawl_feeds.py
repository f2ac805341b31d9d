"""Pages count as known only when the feed has their items, however the crawl ends."""

import csv
import errno
import io
import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import FileFeedStorage

from scrapy_neardup.signals import items_delivered, items_held
from tests.crawls import crawl
from tests.mock_site import MockSite, page, prose
from tests.test_state_crawls import ROOT, Follower, follow

N_LEAVES = 30

KILLED = """
import json, os, signal, sys
from scrapy import signals
from tests import test_state_crawls as crawls
from tests.mock_site import MockSite

class Killer:
    def __init__(self, crawler):
        self.left = crawler.settings.getint("KILL_AFTER")
        crawler.signals.connect(self.item_scraped, signal=signals.item_scraped)
    @classmethod
    def from_crawler(cls, crawler):
        return cls(crawler)
    def item_scraped(self):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

seed, settings = sys.argv[1], json.loads(sys.argv[2])
extensions = {Killer: 0}
outcome = crawls.crawl(crawls.Follower, settings | {"EXTENSIONS": extensions}, seed=seed)
"""


@pytest.fixture
def site(mock_site: MockSite) -> MockSite:
    leaves = [f"/leaf/{number}" for number in range(N_LEAVES)]
    mock_site.add("/start", page(prose("start"), *leaves))
    for leaf in leaves:
        mock_site.add(leaf, page(prose(leaf)))
    return mock_site


def crawl_until_killed(site: MockSite, n_items: int, settings: dict[str, Any]) -> bool:
    """Crawl in a process of its own, killed after so many items (0: never); whether it was."""
    settings = settings | {"KILL_AFTER": n_items}
    command = [sys.executable, "-c", KILLED, site.url("/start"), json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def feed_to(path: Path, **options: Any) -> dict[str, Any]:
    return {"FEEDS": {str(path): {"format": "jsonlines"} | options}}


def crawl_start(site: MockSite, settings: dict[str, Any]) -> dict[str, Any]:
    """Crawl in this process; the stats."""
    return crawl(Follower, settings, seed=site.url("/start")).stats


def urls_of(path: Path) -> Counter[str]:
    """The URLs of a feed of lines; a line that a crash cut off is left out."""
    urls: Counter[str] = Counter()
    for line in path.read_bytes().splitlines():
        try:
            urls[json.loads(line)["url"]] += 1
        except ValueError:
            assert not line.endswith(b"}"), line
    return urls


def expected(site: MockSite) -> set[str]:
    return {site.url("/start")} | {site.url(f"/leaf/{number}") for number in range(N_LEAVES)}


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("where", ["NEARDUP_STATE_DIR", "JOBDIR"])
def test_every_item_of_a_killed_and_resumed_crawl_is_in_the_feed(
    site: MockSite, tmp_path: Path, where: str
) -> None:
    feed = tmp_path / "items.jsonl"
    settings = {where: str(tmp_path / "state"), "NEARDUP_SNAPSHOT_INTERVAL": 0.05} | feed_to(feed)
    assert crawl_until_killed(site, 7, settings)
    assert crawl_until_killed(site, 20, settings)
    assert not crawl_until_killed(site, 0, settings)
    assert set(urls_of(feed)) == expected(site)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("where", ["NEARDUP_STATE_DIR", "JOBDIR"])
def test_pages_of_a_compressed_feed_are_known_when_it_is_closed(
    site: MockSite, tmp_path: Path, where: str
) -> None:
    settings = {where: str(tmp_path / "state"), "NEARDUP_SNAPSHOT_INTERVAL": 0.05}
    gzip = ["scrapy.extensions.postprocessing.GzipPlugin"]
    torn = feed_to(tmp_path / "torn.gz", postprocessing=gzip)
    assert crawl_until_killed(site, 20, settings | torn)
    assert not crawl_until_killed(site, 0, settings | feed_to(tmp_path / "items.jsonl"))
    found = urls_of(tmp_path / "items.jsonl")
    start = site.url("/start")
    if where == "JOBDIR":  # it may wait in the frontier, and the spider begins with it again
        found[start] = min(found[start], 1)
    assert found == Counter(expected(site))


def test_later_crawls_know_what_is_in_the_feed(site: MockSite, tmp_path: Path) -> None:
    feed = tmp_path / "items.jsonl"
    for fsync in ("always", "no"):
        outcome = follow(site, tmp_path / "state", NEARDUP_FSYNC=fsync, **feed_to(feed))
        assert outcome.stat("state/undelivered") == 0
    assert urls_of(feed) == Counter([*expected(site), site.url("/start")])
    assert site.gets("/leaf/0") == 1


def test_an_item_behind_a_line_that_a_crash_cut_off_is_read(site: MockSite, tmp_path: Path) -> None:
    feed = tmp_path / "items.jsonl"
    feed.write_text('{"url": "http')
    follow(site, tmp_path / "state", **feed_to(feed))
    assert set(urls_of(feed)) == expected(site)


@pytest.mark.parametrize(
    "torn",
    ['url\r\n"http://a.example/?a=1,2', 'url\r\n"two\r\n', "url\r\nhttp", "url\r", 'url\r\n"a"'],
)
def test_a_row_behind_one_that_a_crash_cut_off_is_read(
    site: MockSite, tmp_path: Path, torn: str
) -> None:
    feed = tmp_path / "items.csv"
    feed.write_bytes(torn.encode())
    follow(site, tmp_path / "state", FEEDS={str(feed): {"format": "csv"}})
    with feed.open(newline="") as file:
        assert {cell for row in csv.reader(file) for cell in row} >= expected(site)


class FailingOnce(io.BufferedWriter):
    """A file that cannot take one item, and works again before it is flushed."""

    has_failed = False

    def write(self, data: Any) -> int:
        if b"/leaf/3" in bytes(data) and not FailingOnce.has_failed:
            FailingOnce.has_failed = True
            raise OSError(errno.EIO, "Input/output error")
        return super().write(data)


@pytest.mark.parametrize("format", ["jsonlines", "json"])
def test_an_item_that_a_feed_could_not_take_comes_with_the_next_crawl(
    site: MockSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    monkeypatch.setattr(FailingOnce, "has_failed", False)
    monkeypatch.setattr(
        FileFeedStorage, "open", lambda self, spider: FailingOnce(io.FileIO(self.path, "ab"))
    )
    feeds = [tmp_path / f"{n}" for n in range(2)]
    for feed in feeds:
        follow(site, tmp_path / "state", FEEDS={str(feed): {"format": format}})
    first, second = (feed.read_text() for feed in feeds)
    assert FailingOnce.has_failed
    assert site.url("/leaf/3") not in first
    assert site.url("/leaf/3") in second


def test_batches_are_delivered_one_by_one(site: MockSite, tmp_path: Path) -> None:
    batches = feed_to(tmp_path / "%(batch_id)d.jsonl") | {"FEED_EXPORT_BATCH_ITEM_COUNT": 1}
    for _ in range(2):
        outcome = follow(site, tmp_path / "state", **batches)
        assert outcome.stat("state/undelivered") == 0
    assert site.gets("/leaf/0") == 1


class Unreachable(FileFeedStorage):
    """A storage whose server does not answer."""

    def store(self, file: Any) -> None:
        file.close()
        raise ConnectionError("no answer")


@pytest.mark.parametrize("where", ["NEARDUP_STATE_DIR", "JOBDIR"])
def test_pages_of_a_feed_that_could_not_be_stored_are_fetched_again(
    site: MockSite, tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {where: str(tmp_path / "state")}
    failing = {"FEED_STORAGES": {"": Unreachable}, "NEARDUP_SNAPSHOT_INTERVAL": 0.01}
    first = crawl_start(site, settings | failing | feed_to(tmp_path / "lost.jsonl"))
    assert first["neardup/state/undelivered"] > 0
    assert "was not stored: the next crawl fetches again" in caplog.text
    feed = tmp_path / "items.jsonl"
    second = crawl_start(site, settings | feed_to(feed))
    assert second["neardup/state/undelivered"] == 0
    assert set(urls_of(feed)) == expected(site)


class UnreachableOnce(FileFeedStorage):
    """A storage whose server does not answer when it is to take the first batch."""

    def store(self, file: Any) -> None:
        if Path(self.path).name == "1.jsonl":
            file.close()
            raise ConnectionError("no answer")
        super().store(file)


def test_only_the_batch_that_could_not_be_stored_is_named(
    site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    batches = feed_to(tmp_path / "%(batch_id)d.jsonl") | {"FEED_EXPORT_BATCH_ITEM_COUNT": 1}
    failing = {"FEED_STORAGES": {"": UnreachableOnce}}
    outcome = follow(site, tmp_path / "state", **batches, **failing)
    assert outcome.stat("state/undelivered") > 0
    told = [r.getMessage() for r in caplog.records if "was not stored" in r.getMessage()]
    assert len(told) == 1
    assert "1.jsonl was not stored" in told[0]


class Batches:
    """A pipeline that returns at once, and stores all items when the spider closes, or never."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.batch: object = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Batches":
        return cls(crawler)

    def process_item(self, item: Any) -> Any:
        if self.batch is None and "leaf/7" in item["url"]:
            self.batch = object()
            self.crawler.signals.send_catch_log(items_held, batch=self.batch)
        return item

    def close_spider(self) -> None:
        if self.crawler.settings.getbool("BATCH_IS_STORED"):
            self.crawler.signals.send_catch_log(items_delivered, batch=self.batch)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_pipeline_can_say_that_it_holds_items_back(
    site: MockSite, tmp_path: Path, is_stored: bool
) -> None:
    settings = {"ITEM_PIPELINES": {Batches: 900}, "BATCH_IS_STORED": is_stored}
    outcome = follow(site, tmp_path, **settings)
    assert (outcome.stat("state/undelivered") == 0) == is_stored
    follow(site, tmp_path)
    assert site.gets("/leaf/7") == (1 if is_stored else 2)

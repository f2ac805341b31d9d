"""What errbacks yield after a failed download is waited for like what callbacks yield."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.http import Response
from twisted.python.failure import Failure

from tests.crawls import Outcome, PagesSpider, crawl
from tests.mock_site import MockSite, page, prose
from tests.test_state_crawls import ROOT

FORBIDDEN = "/private/page"  # by robots.txt


class Fallback(PagesSpider):
    """Follows the links of /hub; asks for /mirror where one of them fails.

    die: the process ends where the errback's page or item is under way, as told.
    """

    die = ""

    def parse_seed(self, response: Response) -> Iterator[Any]:
        yield response.follow("/hub", self.parse_hub)

    def parse_hub(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, errback=self.failed)

    def failed(self, failure: Any) -> Iterator[Any]:
        yield Request(failure.request.url.replace(failed_path(failure), "/mirror"))

    def parse(self, response: Response) -> Iterator[Any]:
        if self.die:
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"url": response.url}


def failed_path(failure: Any) -> str:
    return "/" + failure.request.url.split("/", 3)[3]


class WithItem(Fallback):
    """Makes an item of what failed."""

    def failed(self, failure: Any) -> Iterator[Any]:
        yield {"url": failure.request.url, "failed": True}


class InTheErrback(Fallback):
    """Dies when the frontier has forgotten the request that failed, if it ever does."""

    async def failed(self, failure: Any) -> AsyncIterator[Any]:  # type: ignore[override]
        from scrapy_neardup.crawl.session import CrawlSession

        queues = CrawlSession.of(self.crawler).disk_queues
        assert queues is not None
        if self.die:
            for _ in range(2):
                queues.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        yield Request(failure.request.url.replace(failed_path(failure), "/mirror"))


class DieWithItem:
    """A pipeline in which the process ends while the item of an errback is under way."""

    def __init__(self, spider: Any) -> None:
        self.spider = spider

    @classmethod
    def from_crawler(cls, crawler: Any) -> "DieWithItem":
        return cls(crawler.spider)

    def process_item(self, item: Any) -> Any:
        if self.spider.die and "failed" in item:
            os.kill(os.getpid(), signal.SIGKILL)
        return item


DYING = """
import json, sys
from tests import test_crawl_errbacks as errbacks
name, seed, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
errbacks.crawl(getattr(errbacks, name), settings, seed=seed, die="yes")
"""


def crawl_and_die(spider: type[Fallback], site: MockSite, settings: dict[str, Any]) -> None:
    """Crawl in a process of its own, which is killed."""
    command = [sys.executable, "-c", DYING, spider.__name__, site.url("/page/seed")]
    done = subprocess.run(
        [*command, json.dumps(settings)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def fetch(
    spider: type[Fallback], site: MockSite, settings: dict[str, Any], **kwargs: Any
) -> Outcome:
    return crawl(spider, settings, seed=site.url("/page/seed"), **kwargs)


@pytest.fixture
def site(mock_site: MockSite) -> MockSite:
    mock_site.add("/hub", page(prose("hub"), FORBIDDEN))
    mock_site.add("/mirror", page(prose("mirror")))
    return mock_site


needs_sigkill = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")


@needs_sigkill
@pytest.mark.parametrize("where", ["NEARDUP_STATE_DIR", "JOBDIR"])
def test_a_request_that_an_errback_made_is_found_again_after_a_kill(
    site: MockSite, tmp_path: Path, where: str
) -> None:
    crawl_and_die(Fallback, site, {where: str(tmp_path)})
    assert site.url("/mirror") in fetch(Fallback, site, {where: str(tmp_path)}).urls


@needs_sigkill
@pytest.mark.parametrize("where", ["NEARDUP_STATE_DIR", "JOBDIR"])
def test_an_item_that_an_errback_made_comes_again_after_a_kill(
    site: MockSite, tmp_path: Path, where: str
) -> None:
    settings = {
        where: str(tmp_path),
        "ITEM_PIPELINES": {"tests.test_crawl_errbacks.DieWithItem": 900},
    }
    crawl_and_die(WithItem, site, settings)
    assert site.url(FORBIDDEN) in fetch(WithItem, site, settings).urls


@needs_sigkill
def test_a_request_stays_in_the_frontier_while_its_errback_runs(
    site: MockSite, tmp_path: Path
) -> None:
    crawl_and_die(InTheErrback, site, {"JOBDIR": str(tmp_path)})
    assert site.url("/mirror") in fetch(InTheErrback, site, {"JOBDIR": str(tmp_path)}).urls


def test_what_an_errback_made_is_done_and_not_asked_for_again(
    site: MockSite, tmp_path: Path
) -> None:
    where = {"NEARDUP_STATE_DIR": str(tmp_path)}
    first = fetch(Fallback, site, where)
    assert first.stat("state/unfinished_pages") == 0
    assert fetch(Fallback, site, where).urls == []
    assert site.gets("/hub") == site.gets("/mirror") == 1


@pytest.mark.parametrize("links", [FORBIDDEN, "http://127.0.0.1:1/refused"])
def test_copies_of_a_request_that_failed_are_all_waited_for(
    mock_site: MockSite, tmp_path: Path, links: str
) -> None:
    class Copying(Fallback):
        """Asks for two mirrors by copies of the request that failed, with its meta."""

        def failed(self, failure: Any) -> Iterator[Any]:
            if failed_path(failure) != "/dead":
                yield failure.request.replace(url=mock_site.url("/mirror"))
                yield failure.request.replace(url=mock_site.url("/dead"))

    mock_site.add("/hub", page(prose("hub"), links))
    mock_site.add("/mirror", page(prose("mirror")))
    where = {"NEARDUP_STATE_DIR": str(tmp_path), "RETRY_TIMES": 0}
    for _ in range(2):
        outcome = fetch(Copying, mock_site, where)
        assert outcome.stat("state/unfinished_pages") > 0
    assert mock_site.gets("/hub") == 2  # for the sake of /dead
    assert mock_site.gets("/mirror") == 1


@pytest.mark.parametrize("again", [False, True])
def test_a_download_that_failed_is_left_to_the_next_crawl_unless_its_errback_repeats_it(
    mock_site: MockSite, tmp_path: Path, again: bool
) -> None:
    class Repeating(Fallback):
        def failed(self, failure: Any) -> Iterator[Any]:
            yield {"url": failure.request.url}
            if again:
                yield failure.request.replace(url=mock_site.url("/page/1"), dont_filter=True)
            else:
                yield Request(mock_site.url("/page/1"))

    mock_site.add("/hub", page(prose("hub"), "http://127.0.0.1:1/refused"))
    outcome = fetch(Repeating, mock_site, {"NEARDUP_STATE_DIR": str(tmp_path), "RETRY_TIMES": 0})
    assert mock_site.url("/page/1") in outcome.urls
    assert (outcome.stat("state/unfinished_pages") == 0) == again


@pytest.mark.parametrize("fails", [False, True])
def test_a_page_is_done_when_the_errback_of_its_link_is(
    site: MockSite, tmp_path: Path, fails: bool
) -> None:
    """Returning or raising the failure again is no defect of an errback; another error is."""

    class Raising(Fallback):
        def failed(self, failure: Any) -> Any:
            if fails:
                raise ValueError("a defect of the errback")
            return failure

    outcome = fetch(Raising, site, {"NEARDUP_STATE_DIR": str(tmp_path), "LOG_LEVEL": "CRITICAL"})
    assert (outcome.stat("state/unfinished_pages") > 0) == fails


def test_an_errbacks_items_are_kept_and_counted(site: MockSite) -> None:
    class Two(Fallback):
        def failed(self, failure: Any) -> Iterator[Any]:
            assert failure.check(IgnoreRequest)
            yield {"url": failure.request.url, "failed": True}
            yield {"url": failure.request.url, "failed": True}

    outcome = fetch(Two, site, {})
    assert outcome.urls.count(site.url(FORBIDDEN)) == 2
    assert outcome.stat("items/without_page") == 2
    assert not outcome.dropped


def test_an_item_of_an_errback_that_a_pipeline_drops_holds_nothing_up(
    site: MockSite, tmp_path: Path
) -> None:
    class Dropping:
        def process_item(self, item: Any) -> Any:
            if "failed" in item:
                raise DropItem("it failed")
            return item

    settings = {"NEARDUP_STATE_DIR": str(tmp_path), "ITEM_PIPELINES": {Dropping: 900}}
    outcome = fetch(WithItem, site, settings)
    assert outcome.stat("state/unfinished_pages") == 0


def test_an_errback_is_called_with_a_failure_of_the_request(site: MockSite) -> None:
    seen = []

    class Asking(Fallback):
        def failed(self, failure: Any) -> None:  # type: ignore[override]
            seen.append((type(failure), failure.request.url))

    fetch(Asking, site, {})
    assert seen == [(Failure, site.url(FORBIDDEN))]

"""Python's garbage collector leaves alone what a crawl begins with, and all of it comes back."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from crawls import PagesSpider, crawl, crawl_requests
from mock_site import MockSite, page
from scrapy import Request
from scrapy.http import Response

from scrapy_neardup.crawl.garbage import freeze


@pytest.fixture(autouse=True)
def first_crawl_of_the_process() -> Iterator[None]:
    freeze.cache_clear()
    yield
    freeze.cache_clear()


def frozen_while_crawling(site: MockSite) -> int:
    """How many objects the collector leaves alone while a page is read."""
    counts: list[int] = []

    def parse(response: Response, **_: Any) -> None:
        counts.append(gc.get_freeze_count())

    crawl_requests(site, Request(site.add("/page", page("words")), callback=parse))
    return counts[0]


def test_what_a_crawl_begins_with_is_looked_at_no_more_until_it_ends(mock_site: MockSite) -> None:
    assert frozen_while_crawling(mock_site) > 10_000
    assert gc.get_freeze_count() == 0


def test_a_later_crawl_freezes_nothing_that_an_earlier_one_left(mock_site: MockSite) -> None:
    frozen_while_crawling(mock_site)
    assert frozen_while_crawling(mock_site) == 0


def test_what_somebody_else_froze_stays_frozen(mock_site: MockSite) -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        frozen_while_crawling(mock_site)
        assert gc.get_freeze_count() == pytest.approx(before, rel=0.01)  # some were freed
    finally:
        gc.unfreeze()


class Cancelling(PagesSpider):
    """Its crawl is cancelled by its first page."""

    name = "cancelling"

    def parse_seed(self, response: Response) -> Iterator[Any]:
        for task in asyncio.all_tasks():
            task.cancel()
        yield {"url": response.url}


def test_a_cancelled_crawl_gives_its_folder_back_when_the_next_begins(
    mock_site: MockSite, tmp_path: Path
) -> None:
    where = {"NEARDUP_STATE_DIR": str(tmp_path), "LOG_ENABLED": False}
    with suppress(asyncio.CancelledError):
        crawl(Cancelling, where, seed=mock_site.url("/page/seed"))
    assert gc.get_freeze_count() > 0
    outcome = crawl_requests(mock_site, settings=where)
    assert gc.get_freeze_count() == 0
    assert outcome.stats["finish_reason"] == "finished"

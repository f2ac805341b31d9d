"""Pages whose items were dropped for another page, in crawls after that one says something else."""

from asyncio import Event
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from scrapy.http import Request, Response

from tests.mock_site import MockSite, page, redirect
from tests.test_crawl_conditional import add, read_none_at_random  # noqa: F401 - a fixture
from tests.test_crawl_recrawl import Shop, events, found, product, recrawl

LAST_FIRST = {"SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}


def add_twins(site: MockSite, *paths: str) -> None:
    """A start page that links to pages of the same content, in their order."""
    site.add("/start", page("start", *paths))
    for path in paths:
        site.add(path, product(1))


def crawled(site: MockSite, folder: Path, **settings: Any) -> list[str]:
    """Paths of the items that passed; links are followed in their order."""
    outcome = recrawl(site, folder, **LAST_FIRST, **settings)
    return [url.removeprefix(site.root) for url in outcome.urls]


@pytest.mark.parametrize("links", [("/a", "/b"), ("/b", "/a")])
def test_a_copy_passes_when_its_original_says_something_else(
    mock_site: MockSite, tmp_path: Path, links: tuple[str, str]
) -> None:
    add_twins(mock_site, "/a", "/b")
    assert crawled(mock_site, tmp_path) == ["/a"]
    mock_site.add("/start", page("start", *links))  # read before its original, or after it
    mock_site.add("/a", product(2))
    second = recrawl(mock_site, tmp_path, **LAST_FIRST)
    assert sorted(second.urls) == [mock_site.url("/a"), mock_site.url("/b")]
    told = {item["url"]: item["neardup"]["status"] for item in second.items}
    assert told == {mock_site.url("/a"): "changed", mock_site.url("/b"): "new"}
    assert crawled(mock_site, tmp_path) == []


def test_of_several_copies_one_takes_the_place_of_the_original(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_twins(mock_site, "/a", "/b", "/c", "/d")
    assert crawled(mock_site, tmp_path) == ["/a"]
    mock_site.add("/a", product(2))
    assert len(crawled(mock_site, tmp_path)) == 2
    assert crawled(mock_site, tmp_path) == []
    for path in ("/b", "/c", "/d"):
        mock_site.add(path, product(3))
    assert len(crawled(mock_site, tmp_path)) == 1


@pytest.mark.parametrize("links", [("/a", "/b"), ("/b", "/a")])
def test_a_copy_that_was_not_downloaded_passes_all_the_same(
    mock_site: MockSite, tmp_path: Path, links: tuple[str, str]
) -> None:
    for path in ("/a", "/b"):
        add(mock_site, path, product(1))
    add(mock_site, "/start", page("start", "/a", "/b"))
    assert crawled(mock_site, tmp_path) == ["/a"]
    assert crawled(mock_site, tmp_path) == []
    add(mock_site, "/start", page("start", *links))
    add(mock_site, "/a", product(2))
    assert sorted(crawled(mock_site, tmp_path)) == ["/a", "/b"]
    assert crawled(mock_site, tmp_path) == []


class AnswersLate:
    """Lets no 304 go on to its callback before the item of a changed page has passed."""

    passed: ClassVar[Event]

    async def process_response(self, request: Request, response: Response) -> Response:
        if response.status == 304 and request.url.endswith("/b"):
            await self.passed.wait()
        return response

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        async for output in result:
            yield output
        if response.url.endswith("/a"):
            self.passed.set()


def test_a_copy_passes_whose_original_changed_after_its_server_called_it_unchanged(
    mock_site: MockSite, tmp_path: Path
) -> None:
    late: dict[str, Any] = {"CONCURRENT_REQUESTS_PER_DOMAIN": 2, "CONCURRENT_REQUESTS": 2}
    late |= {f"{kind}_MIDDLEWARES": {AnswersLate: 1} for kind in ("DOWNLOADER", "SPIDER")}
    AnswersLate.passed = Event()
    for path in ("/a", "/b"):
        add(mock_site, path, product(1))
    add(mock_site, "/start", page("start", "/a", "/b"))
    assert crawled(mock_site, tmp_path, **late) == ["/a"]
    assert crawled(mock_site, tmp_path, **late) == []
    add(mock_site, "/start", page("start", "/b", "/a"))
    add(mock_site, "/a", product(2))
    AnswersLate.passed = Event()
    assert crawled(mock_site, tmp_path, **late) == ["/a", "/b"]
    assert crawled(mock_site, tmp_path, **late) == []


class Prices(Shop):
    """Takes prices from elsewhere: pages that say the same may have others."""

    prices: ClassVar[dict[str, int]]

    def parse(self, response: Response) -> Iterator[Any]:
        for output in super().parse(response):
            if isinstance(output, dict):
                output["price"] = self.prices.get(response.url[-2:], 10)
            yield output


@pytest.mark.parametrize("links", [("/a", "/b", "/c"), ("/c", "/b", "/a")])
def test_a_copy_passes_when_only_an_item_of_its_original_changed(
    mock_site: MockSite, tmp_path: Path, links: tuple[str, ...]
) -> None:
    class Asking(Prices):
        prices: ClassVar[dict[str, int]] = {}

    add_twins(mock_site, "/a", "/b", "/c")
    assert len(recrawl(mock_site, tmp_path, Asking, **LAST_FIRST).items) == 1
    mock_site.add("/start", page("start", *links))
    Asking.prices["/a"] = 11
    second = recrawl(mock_site, tmp_path, Asking, **LAST_FIRST)
    prices = sorted(item["price"] for item in second.items)
    assert prices == [10, 11]  # of two copies with the old price one stands for both
    assert recrawl(mock_site, tmp_path, Asking, **LAST_FIRST).items == []


def test_a_new_page_that_says_what_another_said_once_passes(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_twins(mock_site, "/a")
    mock_site.add("/start", page("start", "/a", "/x"))
    mock_site.add("/x", product(5))
    assert crawled(mock_site, tmp_path) == ["/a", "/x"]
    mock_site.add("/a", page("no item any more"))
    mock_site.add("/x", "gone", status=410)
    assert crawled(mock_site, tmp_path) == []
    mock_site.add("/start", page("start", "/a", "/late", "/x2"))
    mock_site.add("/late", product(1))
    mock_site.add("/x2", product(5))
    assert crawled(mock_site, tmp_path) == ["/late", "/x2"]


def test_a_copy_that_its_original_moved_to_stands_for_it(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_twins(mock_site, "/a", "/b", "/c")
    assert crawled(mock_site, tmp_path) == ["/a"]
    mock_site.add("/a", "gone", status=404)
    assert crawled(mock_site, tmp_path) == []
    (home,) = events(tmp_path, 2, "moved").values()
    assert home in (mock_site.url("/b"), mock_site.url("/c"))
    assert crawled(mock_site, tmp_path) == []
    path = home.removeprefix(mock_site.root)
    mock_site.add(path, product(2))
    assert sorted(crawled(mock_site, tmp_path)) == ["/b", "/c"]  # the other one is no copy now
    assert crawled(mock_site, tmp_path) == []


def test_a_page_with_items_of_its_own_is_nobody_s_new_home(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class Asking(Prices):
        prices: ClassVar = {"/b": 12}  # the same text as /a, another item

    add_twins(mock_site, "/a", "/b")
    assert len(recrawl(mock_site, tmp_path, Asking).items) == 2
    mock_site.add("/a", "gone", status=404)
    second = recrawl(mock_site, tmp_path, Asking)
    assert found(second)["gone"] == 1
    assert "moved" not in found(second)


def test_a_page_that_took_over_from_another_changes_for_itself(
    mock_site: MockSite, tmp_path: Path
) -> None:
    """Its items passed, so what it says now must pass, too, whatever it repeats."""
    add_twins(mock_site, "/a", "/b")
    mock_site.add("/b", product(3))
    mock_site.add("/start", page("start", "/a", "/b"))
    assert crawled(mock_site, tmp_path) == ["/a", "/b"]
    mock_site.add("/b", product(1))  # now a copy, and passes: what stood at /b is no more
    assert crawled(mock_site, tmp_path) == ["/b"]
    for path in ("/a", "/b"):
        mock_site.add(path, product(4))
    assert crawled(mock_site, tmp_path) == ["/a", "/b"]


def test_a_page_whose_items_are_compared_by_fields_is_no_copy_for_good(
    mock_site: MockSite, tmp_path: Path
) -> None:
    fields = {"NEARDUP_ITEM_FIELDS": ["title"]}
    add_twins(mock_site, "/a", "/b")
    mock_site.add("/b", product(1, "7.00"))  # another page, of which the title repeats
    assert crawled(mock_site, tmp_path, **fields) == ["/a"]
    mock_site.add("/a", product(2))
    assert sorted(crawled(mock_site, tmp_path, **fields)) == ["/a", "/b"]
    assert crawled(mock_site, tmp_path, **fields) == []


def test_a_page_that_leads_to_a_copy_loses_nothing(mock_site: MockSite, tmp_path: Path) -> None:
    add_twins(mock_site, "/a", "/b")
    crawled(mock_site, tmp_path)
    mock_site.pages["/a"] = redirect("/b", 301)
    second = recrawl(mock_site, tmp_path, **LAST_FIRST)
    assert second.items == []
    assert events(tmp_path, 2, "moved") == {mock_site.url("/a"): mock_site.url("/b")}
    mock_site.add("/b", product(6))
    assert crawled(mock_site, tmp_path) == ["/b"]


def test_a_changed_original_is_told_by_a_crawl_that_was_cut_short(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_twins(mock_site, "/b", "/a")
    mock_site.add("/start", page("start", "/a", "/b"))
    assert crawled(mock_site, tmp_path) == ["/a"]
    mock_site.add("/start", page("start", "/b", "/a"))
    mock_site.add("/a", product(2))
    assert crawled(mock_site, tmp_path, CLOSESPIDER_ITEMCOUNT=1)[:1] == ["/a"]
    assert crawled(mock_site, tmp_path) in (["/b"], [])
    assert crawled(mock_site, tmp_path) == []

"""Items whose callbacks have waited for something, and may say what their pages do not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import wraps
from types import MappingProxyType
from typing import Any

import pytest
from crawls import PagesSpider, crawl
from mock_site import MockSite, page, prose
from scrapy.http import HtmlResponse, Request, Response

from scrapy_neardup.crawl.items.elsewhere import (
    MAX_PAGE_BYTES,
    MAX_VALUES,
    is_given_objects,
    said_by,
    says_more,
    waits_first,
)

PAGE = HtmlResponse(
    "http://shop.example/lamp/7?colour=red",
    body=b"""<h1>Tom &amp;  Jerry's <b>lamp</b></h1><img src="/img/7.jpg"><i>19.50</i>""",
    encoding="utf-8",
)
SAID = said_by(PAGE)


@pytest.mark.parametrize(
    "value",
    [
        "lamp",
        "Tom & Jerry's lamp",
        " lamp ",
        "19.50",
        "red",
        "http://shop.example/img/7.jpg",
        "",
        None,
        ["lamp", {"of": ("red", "19.50")}],
        MappingProxyType({"of": ("red", "lamp")}),
    ],
)
def test_what_a_page_and_its_url_say_is_no_more(value: Any) -> None:
    assert not says_more({"value": value}, SAID, frozenset())


@pytest.mark.parametrize(
    "value",
    [
        "amp lamp",
        "lam",
        "★★★",
        7,  # by chance
        "(19)",
        9,
        50,
        True,
        b"lamp",
        "http://shop.example/img/8.jpg",
        ["lamp", {"of": ("red", 1950)}],
        ["lamp"] * (MAX_VALUES + 1),
        datetime(2020, 1, 1, tzinfo=UTC),
    ],
)
def test_anything_else_is_more(value: Any) -> None:
    assert says_more({"value": value}, SAID, frozenset())


def test_times_of_the_visit_and_ignored_fields_are_no_more() -> None:
    times = {"scraped": datetime.now(UTC), "crawled_on": "2026-11-27", "fetched": 1_700_000_000}
    assert not says_more(times | {"shop": "acme"}, SAID, frozenset({"shop"}))
    assert says_more({"accessories": "3 plugs"}, SAID, frozenset())
    assert says_more({"accessories": 3}, SAID, frozenset())


def test_of_long_pages_and_of_files_it_is_not_known_what_they_say() -> None:
    assert said_by(Response(PAGE.url, body=PAGE.body)) is None
    assert said_by(PAGE.replace(body=PAGE.body + b" " * MAX_PAGE_BYTES)) is None
    assert says_more({"value": "lamp"}, None, frozenset())


def test_a_coroutine_waits_before_it_returns_its_items() -> None:
    async def coroutine(response: Response) -> None:
        """Returns its items."""

    async def generator(response: Response) -> AsyncIterator[Any]:
        yield {}

    def decorated(callback: Callable[..., Any]) -> Callable[..., Any]:
        return wraps(callback)(lambda response: callback(response))

    assert waits_first(coroutine)
    assert waits_first(decorated(coroutine))
    assert not waits_first(generator)
    assert not waits_first(None)


def test_what_a_component_made_for_a_callback_may_have_waited() -> None:
    plain = {"place": 3, "of": {"name": "lamp"}, "path": ["a"]}
    assert not is_given_objects(Request(PAGE.url, cb_kwargs=plain))
    assert is_given_objects(Request(PAGE.url, cb_kwargs=plain | {"page": PAGE}))
    assert not is_given_objects(None)


class Waiting(PagesSpider):
    """Waits for what it says."""

    says: Any

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield {"title": response.css("h1::text").get(), "url": response.url}
        await asyncio.to_thread(str)
        yield {"name": self.says(response), "url": response.url}


class Ready(Waiting):
    """Has what it says."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield {"name": self.says(response), "url": response.url}


@pytest.mark.parametrize(
    ("spider", "says", "n_kept"),
    [
        (Waiting, lambda response: "from elsewhere", 4),
        (Waiting, lambda response: response.css("h1::text").get(), 2),
        (Ready, lambda response: "from elsewhere", 1),
    ],
)
def test_of_equal_pages_the_url_tells_items_apart_whose_callback_waited_for_what_they_say(
    mock_site: MockSite, spider: type[PagesSpider], says: Any, n_kept: int
) -> None:
    for n in range(3):
        mock_site.add(f"/p/{n}", page(f"<h1>A lamp</h1>{prose('lamps')}"))
    requests = [Request(mock_site.url(f"/p/{n}"), priority=-n) for n in range(3)]
    outcome = crawl(
        spider,
        {"CONCURRENT_REQUESTS": 1},
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter(requests),
        says=says,
    )
    assert len(outcome.items) == n_kept

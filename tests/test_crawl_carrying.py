"""A request is more than a link where an item may be under way in it, wherever that is held."""

from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Any

import pytest
from crawls import Outcome, PagesSpider, crawl
from mock_site import MockSite, page, prose
from scrapy import Request
from scrapy.http import Response

N_BOOKS = 3
FETCHED = {
    "cookiejar": 1,
    "download_timeout": 9,
    "link_text": "Next",
    "rule": 0,
    "dont_retry": True,
}


def renamed(method: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator under whose name no method is found."""

    def wrapper(*args: Any) -> Any:
        return method(*args)

    return wrapper


def author_of(response: Response) -> Iterator[Any]:
    yield {"url": response.url}


class Book:
    """Knows by itself what to do with its author's page."""

    def __init__(self, number: int) -> None:
        self.number = number

    def author(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "book": self.number}

    def __call__(self, response: Response) -> Iterator[Any]:
        return self.author(response)


class Books(PagesSpider):
    """Asks for one author's page once for each book, by another campaign's URL each time."""

    more: Callable[[Any, int], dict[str, Any]]

    def parse_seed(self, response: Response) -> Iterator[Any]:
        self.meta_of_seed = response.meta | {"is_start_request": False}
        for n in range(N_BOOKS):
            url = response.urljoin(f"/page/author?utm_source=book{n}")
            yield Request(url, priority=-n, **self.more(self, n))

    def parse(self, response: Response, **said: Any) -> Iterator[Any]:
        yield {"url": response.url, **said}

    def __author(self, response: Response) -> Iterator[Any]:
        return author_of(response)

    private = property(lambda self: self.__author)

    @renamed
    def author(self, response: Response) -> Iterator[Any]:
        return author_of(response)

    @wraps(author_of)
    def wrapped(self, response: Response) -> Iterator[Any]:
        return author_of(response)

    def failed(self, failure: Any) -> None:
        """Nothing is left to put out."""


class OfTheirOwn(Books):
    """Overrides the callback that it asks for."""

    def parse(self, response: Response, **said: Any) -> Iterator[Any]:
        raise AssertionError(response.url)

    inherited = property(lambda self: super().parse)


def crawl_books(site: MockSite, more: Callable[[Any, int], dict[str, Any]]) -> Outcome:
    for n in range(N_BOOKS):
        site.add(f"/page/author?utm_source=book{n}", page(prose("author")))
    return crawl(OfTheirOwn, seed=site.url("/page/seed"), more=more)


def nested(book: int) -> Callable[[Response], Iterator[Any]]:
    def author(response: Response) -> Iterator[Any]:
        yield {"url": response.url, "book": book}

    return author


@pytest.mark.parametrize(
    "more",
    [
        lambda spider, n: {"callback": lambda response: [{"book": n}]},
        lambda spider, n: {"callback": lambda response, book=n: [{"book": book}]},
        lambda spider, n: {"callback": nested(n)},
        lambda spider, n: {"callback": partial(spider.inherited, book=n)},
        lambda spider, n: {"callback": Book(n).author},
        lambda spider, n: {"callback": Book(n)},
        lambda spider, n: {"callback": author_of, "errback": nested(n)},
        lambda spider, n: {"callback": author_of, "flags": [str(n)]},
        *(
            lambda spider, n, key=key: {"callback": author_of, "meta": {key: n}}
            for key in (
                "_item",
                "depth_item",
                "download_count",
                "proxy_item",
                "retry_item",
                "link_text",
            )
        ),
    ],
)
def test_a_request_that_holds_an_item_is_made_for_each_url_of_its_page(
    mock_site: MockSite, more: Callable[[Any, int], dict[str, Any]]
) -> None:
    outcome = crawl_books(mock_site, more)
    assert outcome.stat("urls/exempt/item") == N_BOOKS - 1


@pytest.mark.parametrize(
    "more",
    [
        lambda spider, n: {"callback": author_of},
        lambda spider, n: {"callback": lambda response: [{"url": response.url}]},
        lambda spider, n: {"callback": spider.private},
        lambda spider, n: {"callback": spider.author},
        lambda spider, n: {"callback": spider.wrapped},
        lambda spider, n: {"callback": spider.inherited, "errback": spider.failed},
        lambda spider, n: {"callback": author_of, "meta": spider.meta_of_seed | FETCHED},
    ],
)
def test_a_plain_link_is_followed_once_whatever_its_callback_is_called(
    mock_site: MockSite, more: Callable[[Any, int], dict[str, Any]]
) -> None:
    outcome = crawl_books(mock_site, more)
    assert outcome.stat("urls/dropped") == N_BOOKS - 1

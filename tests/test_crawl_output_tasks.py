"""What a callback yields is handled in its order, as many outputs at once as Scrapy allows."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest
from crawls import Outcome, PagesSpider, crawl
from mock_site import MockSite, page, prose
from scrapy import Request
from scrapy.core.scraper import Scraper
from scrapy.http import Response


class Watched:
    """A pipeline that notes what is under way in it at once."""

    under_way: ClassVar[list[int]] = []
    most = n_tasks = 0

    async def process_item(self, item: Any) -> Any:
        cls = type(self)
        cls.under_way.append(item["n"])
        cls.most = max(cls.most, len(cls.under_way))
        cls.n_tasks = max(cls.n_tasks, len(asyncio.all_tasks()))
        for _ in range(3):
            await asyncio.sleep(0)
        cls.under_way.remove(item["n"])
        return item


def pipeline() -> type[Watched]:
    """One of its own for each crawl."""
    return type("OfOneCrawl", (Watched,), {"under_way": []})


def crawl_page(
    site: MockSite, spider: type[PagesSpider], watched: type[Watched], **settings: Any
) -> Outcome:
    """Crawl the page /page by a spider's parse()."""
    url = site.add("/page", page(prose(1)))
    settings["ITEM_PIPELINES"] = {watched: 400}
    return crawl(spider, settings, seed=site.url("/"), requests=lambda: iter([Request(url)]))


class Rows(PagesSpider):
    """Yields 250 items of a page."""

    def parse(self, response: Response) -> Iterator[Any]:
        for n in range(250):
            yield {"url": response.url, "n": n}


class Row(PagesSpider):
    """Yields one item of a page."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "n": 0}


class Failing(PagesSpider):
    """Raises after its second item."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield from ({"url": response.url, "n": n} for n in range(2))
        raise ValueError("of the spider")


class Waiting(PagesSpider):
    """Yields its second item when the first has passed the pipelines."""

    outcome: Outcome

    async def parse(  # type: ignore[override]
        self, response: Response
    ) -> AsyncIterator[Any]:
        yield {"url": response.url, "n": 0}
        while not self.outcome.items:
            await asyncio.sleep(0)
        yield {"url": response.url, "n": 1}


def test_all_items_of_a_page_pass_in_their_order(mock_site: MockSite) -> None:
    outcome = crawl_page(mock_site, Rows, pipeline())
    assert [item["n"] for item in outcome.items] == list(range(250))


def test_no_more_items_are_under_way_than_the_setting_allows(mock_site: MockSite) -> None:
    watched = pipeline()
    outcome = crawl_page(mock_site, Rows, watched, CONCURRENT_ITEMS=7)
    assert len(outcome.items) == 250
    assert watched.most == 7


def test_a_page_of_one_item_starts_no_hundred_tasks(mock_site: MockSite) -> None:
    watched = pipeline()
    crawl_page(mock_site, Row, watched)
    assert 0 < watched.n_tasks < 20


class Links(PagesSpider):
    """Yields 500 links of a page, then one item."""

    n_found = 0

    def parse(self, response: Response) -> Iterator[Any]:
        for self.n_found in range(1, 501):
            yield Request(response.urljoin(f"#{self.n_found}"))
        yield {"url": response.url, "n": self.n_found}


def test_links_take_no_tasks(mock_site: MockSite) -> None:
    watched = pipeline()
    crawl_page(mock_site, Links, watched)
    assert 0 < watched.n_tasks < 20


def test_a_callback_is_halted_while_twice_as_many_outputs_wait(mock_site: MockSite) -> None:
    n_found = []

    class Stopped(Links):
        def parse(self, response: Response) -> Iterator[Any]:
            yield from ({"url": response.url, "n": n} for n in range(3))
            yield from super().parse(response)

    class Noting(Watched):
        under_way: ClassVar[list[int]] = []

        async def process_item(self, item: Any) -> Any:
            n_found.append(self.crawler.spider.n_found)
            return await super().process_item(item)

        @classmethod
        def from_crawler(cls, crawler: Any) -> "Noting":
            pipeline = cls()
            pipeline.crawler = crawler
            return pipeline

    crawl_page(mock_site, Stopped, Noting, CONCURRENT_ITEMS=2)
    assert n_found == [1, 1, n_found[2], 500]


def test_what_a_callback_yielded_before_it_raised_passes(mock_site: MockSite) -> None:
    outcome = crawl_page(mock_site, Failing, pipeline(), LOG_LEVEL="CRITICAL")
    assert [item["n"] for item in outcome.items] == [0, 1]
    assert outcome.stats["spider_exceptions/ValueError"] == 1


def test_items_are_handled_while_the_callback_goes_on(mock_site: MockSite) -> None:
    outcome = crawl_page(mock_site, Waiting, pipeline())
    assert [item["n"] for item in outcome.items] == [0, 1]


def test_a_scraper_that_a_project_has_changed_is_left_alone(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    handled: list[str] = []
    scrapys = Scraper.handle_spider_output_async

    async def handle_spider_output_async(
        self: Scraper, result: Any, request: Request, response: Any
    ) -> None:
        handled.append(response.url)
        await scrapys(self, result, request, response)

    monkeypatch.setattr(Scraper, "handle_spider_output_async", handle_spider_output_async)
    outcome = crawl_page(mock_site, Row, pipeline())
    assert len(outcome.items) == 1
    assert handled == [mock_site.url("/"), mock_site.url("/page")]

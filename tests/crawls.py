"""Run real crawls in tests: in this process without a reactor, or in a process of their own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.http import Response

ADDONS = {"scrapy_neardup.NearDupAddon": 500}
SETTINGS: dict[str, Any] = {
    "ADDONS": ADDONS,
    "TWISTED_REACTOR_ENABLED": False,
    "ROBOTSTXT_OBEY": True,
    "RETRY_TIMES": 2,
    "LOG_LEVEL": "WARNING",
    "CONCURRENT_REQUESTS": 1,
    "NEARDUP_KEY": 0,  # the same fingerprints in every run
    "NEARDUP_BOILERPLATE": "keep",  # a site of a few pages is too small to learn templates from
}


@dataclass
class Outcome:
    """What a crawl left behind."""

    items: list[Any] = field(default_factory=list)
    dropped: list[tuple[Any, Exception]] = field(default_factory=list)
    failures: list[Any] = field(default_factory=list)
    stats: dict[str, Any] = field(default_factory=dict)

    def stat(self, name: str) -> Any:
        """A neardup/ stat, 0 where nothing was counted."""
        return self.stats.get(f"neardup/{name}", 0)

    @property
    def urls(self) -> list[str]:
        return [item["url"] for item in self.items]


class PagesSpider(Spider):
    """Asks for each of its `requests` in turn and makes one item of every response."""

    name = "pages"
    requests: Callable[[], Iterator[Request]]

    async def start(self) -> AsyncIterator[Any]:
        # One seed, then ordinary requests: start requests are exempt from the URL question.
        yield Request(self.seed, callback=self.parse_seed, dont_filter=True)

    def parse_seed(self, response: Response) -> Iterator[Any]:
        yield from self.requests()

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


async def _run(spider: type[Spider], settings: dict[str, Any], kwargs: Any) -> Outcome:
    outcome = Outcome()
    runner = AsyncCrawlerRunner(SETTINGS | settings)
    crawler = runner.create_crawler(spider)

    def scraped(item: Any) -> None:
        outcome.items.append(item)

    def dropped(item: Any, exception: Exception) -> None:
        outcome.dropped.append((item, exception))

    crawler.signals.connect(scraped, signals.item_scraped)
    crawler.signals.connect(dropped, signals.item_dropped)
    await runner.crawl(crawler, outcome=outcome, **kwargs)
    assert crawler.stats
    outcome.stats = crawler.stats.get_stats()
    return outcome


def crawl(spider: type[Spider], settings: dict[str, Any] | None = None, **kwargs: Any) -> Outcome:
    """Crawl to the end and tell what came of it; the spider gets `outcome` and `kwargs`."""
    return asyncio.run(_run(spider, settings or {}, kwargs))


def crawl_requests(
    site: Any, *requests: Request | str, settings: dict[str, Any] | None = None
) -> Outcome:
    """Ask for a site's paths or requests in order, one after the other, after one seed page."""
    made = [r if isinstance(r, Request) else Request(site.url(r)) for r in requests]
    for priority, request in enumerate(reversed(made)):
        request.priority = priority
    return crawl(PagesSpider, settings, seed=site.url("/page/seed"), requests=lambda: iter(made))

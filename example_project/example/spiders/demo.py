"""A spider that collects every page of the embedded demo site, or of any other site."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self
from urllib.parse import urlsplit

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError
from scrapy.http import HtmlResponse, Request, Response
from scrapy.linkextractors import LinkExtractor

from example.items import PageItem
from example.site.days import Day
from example.site.plan import Plan
from example.site.server import SiteServer

PORT = 8643  # of the site that is crawled every day: another port would be another site
DAILY = {
    "NEARDUP_RECRAWL": "changed",
    "NEARDUP_STATE_DIR": "demo-state",
    "EXTENSIONS": {"example.scorecard.Scorecard": None},  # it knows the site of one day
    "NEARDUP_FOLLOW_DUPLICATES": True,
}
OWN_SITE_MANNERS = {"DOWNLOAD_DELAY": 0.005, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}


class DemoSpider(Spider):
    """Follows every link that stays on the hosts it started from; one item per HTML page.

    Without arguments it starts the demo site on a free port and crawls that. With
    `-a start=URL` it crawls that site instead, with `-a start=URL,URL` several. (Of `-a start`
    given twice, Scrapy keeps the last.)

    With `-a day=1` the demo site shows what it has on a day, on a port that stays the same, and the
    crawl remembers it: `-a day=2`, a day later, keeps only what changed. `-a port=N` takes
    another port.
    """

    name = "demo"

    def __init__(self, start: str = "", day: str = "", port: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = split_urls(start)
        self.hosts = {urlsplit(url).netloc for url in self.start_urls}
        self.day = read_day(day)
        self.server = None if self.start_urls else served(self.day, port)
        self.links = LinkExtractor()

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        if spider.server is not None:
            crawler.settings.setdict(OWN_SITE_MANNERS, priority="spider")
            if spider.day:
                crawler.settings.setdict(DAILY, priority="spider")
            crawler.signals.connect(spider.server.start, signal=signals.spider_opened)
            crawler.signals.connect(spider.server.stop, signal=signals.spider_closed)
        return spider

    async def start(self) -> AsyncIterator[Request]:
        if self.server is not None:
            self.start_urls = [self.server.root + "/"]
        for url in self.start_urls:
            yield Request(url, self.parse_start)

    def parse_start(self, response: Response) -> Iterator[PageItem | Request]:
        """A start URL may redirect to another host, such as www; that is then the site."""
        self.hosts.add(urlsplit(response.url).netloc)
        yield from self.parse(response)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[PageItem | Request]:
        if (
            not isinstance(response, HtmlResponse)
            or urlsplit(response.url).netloc not in self.hosts
        ):
            return
        yield PageItem(response.url, response.css("title::text").get("").strip())
        for link in self.links.extract_links(response):
            if urlsplit(link.url).netloc in self.hosts:
                yield response.follow(link)


def read_day(day: str) -> int:
    """The number of a day, 0 for none. Raises UsageError."""
    if day and not (day.isdecimal() and 0 < int(day) < 1000):
        raise UsageError(f"day={day!r}: takes a number from 1 to 999")
    return int(day or 0)


def served(day: int, port: str) -> SiteServer:
    """The demo site, which listens from now on. Raises UsageError."""
    if not day:
        return SiteServer(Plan())
    try:
        return SiteServer(Day(day), int(port or PORT))
    except (OSError, ValueError, OverflowError) as error:
        raise UsageError(f"port={port or PORT}: no site can be there: {error}") from error


def split_urls(urls: str) -> list[str]:
    """URLs from one argument; a comma within a URL is left alone. Raises UsageError."""
    found = [url.strip() for url in re.split(r",(?=\s*https?://)", urls) if url.strip()]
    for url in found:
        if not url.startswith(("http://", "https://")) or not urlsplit(url).netloc:
            raise UsageError(f"start={url!r}: takes http:// or https:// URLs, separated by commas")
    return found

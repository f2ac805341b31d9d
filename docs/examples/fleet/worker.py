"""One worker of a fleet that follows every link of a site; compose.yaml starts three of them.

START=http://site.example/ NEARDUP_BACKEND=redis://127.0.0.1:6379/0 python worker.py

METRICS_PORT is that of its metrics, 9410 by default; 0, for none, where several run on one machine.
"""

import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response


class Everything(scrapy.Spider):
    """Follows every link of a site and makes one item of every page."""

    name = "everything"
    root: str

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.root)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        for link in response.css("a::attr(href)").getall():
            url = response.urljoin(link)
            if urlsplit(url).netloc == urlsplit(self.root).netloc:
                yield scrapy.Request(url)


def main() -> int:
    """Crawl until the fleet has nothing left to fetch; 1 if the worker is to be started again."""
    items = f"{os.environ.get('ITEMS', '.')}/{socket.gethostname()}-{os.getpid()}.jsonl"
    settings = {
        "ADDONS": {"scrapy_neardup.NearDupAddon": 500},
        "SCHEDULER": "scrapy_neardup.scheduler.FleetScheduler",
        "NEARDUP_BACKEND": os.environ["NEARDUP_BACKEND"],
        "NEARDUP_METRICS_HOST": "0.0.0.0",  # noqa: S104  # the other containers
        "NEARDUP_METRICS_PORT": int(os.environ.get("METRICS_PORT", "9410")),
        "FEEDS": {items: {"format": "jsonlines"}},
        "ROBOTSTXT_OBEY": True,
        "LOG_LEVEL": "INFO",
    }
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler(Everything)
    process.crawl(crawler, root=os.environ["START"])
    process.start()
    # A worker that was refused has no reason; one whose requests were lost, requests_lost.
    assert crawler.stats
    return int(crawler.stats.get_value("finish_reason") not in ("finished", "shutdown"))


if __name__ == "__main__":
    sys.exit(main())

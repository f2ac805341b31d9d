"""Two workers share a queue (scrapy-redis) and a memory (scrapy_neardup) on one server.

    pip install '.[redis]' scrapy-redis
    python docs/examples/scrapy_redis_fleet.py redis://127.0.0.1:6379/0 http://site.example/ OUT

Each worker is a process of its own and writes OUT/worker-N.jsonl. A fleet that crawled a site
fetches none of it again: give another database, or delete the server's keys, to start afresh.
"""

import multiprocessing
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response

N_WORKERS = 2


class Everything(scrapy.Spider):
    """Follows every link of a site and makes one item of every page."""

    name = "everything"
    root: str

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.root)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield from response.follow_all(css="a")


def work(server: str, root: str, items: Path) -> None:
    """One worker, until nothing is left to fetch."""
    settings = {
        "ADDONS": {"scrapy_neardup.NearDupAddon": 500},
        "NEARDUP_BACKEND": server,
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "SCHEDULER_PERSIST": True,  # a worker that is done first leaves the others their queue
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "REDIS_URL": server,
        "FEEDS": {str(items): {"format": "jsonlines"}},
        "ROBOTSTXT_OBEY": True,
        "LOG_LEVEL": "WARNING",
    }
    process = AsyncCrawlerProcess(settings)
    process.crawl(Everything, root=root)
    process.start()


def main(server: str, root: str, out: str) -> None:
    """Start the workers, and wait for them."""
    context = multiprocessing.get_context("spawn")
    files = [Path(out) / f"worker-{n}.jsonl" for n in range(N_WORKERS)]
    workers = [context.Process(target=work, args=(server, root, file)) for file in files]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Which requests have failed for good: of equal ones a queue on disk keeps one."""

from __future__ import annotations

from scrapy.crawler import Crawler
from scrapy.http import Request

from scrapy_neardup.crawl.queues.request_json import fields_for_json, request_to_json
from scrapy_neardup.crawl.requests.request_tracker import TRACE, made_again

# In meta, of one try to download a page.
OF_A_TRY = (TRACE, "depth", "download_latency", "download_slot", "download_timeout")


class FailedRequests:
    """Requests that failed in this crawl, and stay for the next one.

    That one finds, or starts with, such a one of its own. If both failed and both stayed, there
    would be more of them after each crawl.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._hashes: set[int] = set()

    def add(self, request: Request) -> bool:
        """Note a request; whether one was there that is equal but for its tries and its priority.

        False, too, for a request that holds objects, which are not compared. O(1) but for its size.
        """
        try:
            fields = fields_for_json(made_again(request), self._crawler.spider)
            meta = {name: value for name, value in fields["meta"].items() if name not in OF_A_TRY}
            name = hash(request_to_json(fields | {"priority": 0, "meta": meta}))
        except ValueError:
            return False
        is_there = name in self._hashes
        self._hashes.add(name)
        return is_there

"""Scrapy's queues of requests under JOBDIR, kept in the frontier, where no crash loses them."""

from __future__ import annotations

from typing import Any

from queuelib.queue import LifoDiskQueue
from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Request
from scrapy.squeues import PickleLifoDiskQueue

from scrapy_neardup.crawl.delivery import Delivery
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.jobdir import queue_folder
from scrapy_neardup.crawl.requests.request_tracker import (
    RequestTracker,
    had_dont_filter,
    is_of_spider,
    stored_fields,
)
from scrapy_neardup.crawl.requests.seen_urls import SeenUrls
from scrapy_neardup.state import State
from scrapy_neardup.state.frontier import Frontier, Row, RowQueue

COMMIT_INTERVAL_S = 0.25


class DiskQueues:
    """What the queues of one crawl share.

    A page need not wait for a request found on it once the frontier has committed that: so its
    being done waits, in the delivery, for the commit. A request that was taken stays in the
    frontier until its page is done.
    """

    def __init__(
        self,
        frontier: Frontier,
        state: State,
        crawler: Crawler,
        requests: RequestTracker,
        urls: SeenUrls | None,
        delivery: Delivery,
        attempt: FailOpen,
    ) -> None:
        """urls: whom to ask about requests of an earlier crawl; None where Scrapy's is asked."""
        self.frontier = frontier
        self._state = state
        self.attempt = attempt
        self._crawler = crawler
        self._requests = requests
        self._urls = urls
        self._delivery = delivery
        self._folder = str(queue_folder(crawler))
        self._serialiser = Serialiser(crawler, f"{self._folder}/0")

    def name(self, key: str) -> str:
        """What Scrapy would call a queue's file, from the path that it would give it."""
        return key.removeprefix(self._folder + "/")

    def push(self, queue: RowQueue, request: Request) -> None:
        """Add a request. Raises ValueError for one that cannot be serialised, as Scrapy's do."""
        assert self._crawler.engine
        slot = self._crawler.engine.downloader.get_slot_key(request)
        queue.push(self._serialiser.packed(request), slot)
        self._delivery.hold((self.frontier, self.frontier.batch))
        self._requests.ended(request)

    def pop(self, queue: RowQueue) -> Request | None:
        """Take the next request that is still wanted.

        One that cannot be read, say because its callback is gone, stays for the next crawl.
        """
        while (row := queue.pop()) is not None:
            request = self.attempt("frontier", self.unpacked, row)
            if request is None:
                continue
            self._requests.leased(request, row.id)
            if not self._is_repeated(row, request):
                return request
            self._crawler.signals.send_catch_log(
                signals.request_dropped, request=request, spider=self._crawler.spider
            )
        return None

    def unpacked(self, row: Row) -> Request:
        """The request of a row, which the frontier has checked: to unpickle is to run."""
        return self._serialiser.unpacked(row.request)

    def _is_repeated(self, row: Row, request: Request) -> bool:
        """Whether a request of an earlier crawl was found again by this one before its turn."""
        if self._urls is None or not self.frontier.is_reopened(row.id):
            return False
        if had_dont_filter(request) if is_of_spider(request) else request.dont_filter:
            return False  # as the spider yielded it: retries set it
        return self._urls.is_not_to_be_queued(request)

    def commit(self) -> None:
        """To be called every COMMIT_INTERVAL_S seconds."""
        # First what lets pages be done: so these go with the commit that begins now.
        self._committed(self.frontier.ended())
        self._committed(self.frontier.commit())

    def flush(self) -> None:
        """Wait for the disk, and let pages be done whose requests are safe now."""
        self._committed(self.frontier.flush())

    def close(self) -> None:
        """Save everything and close the file; remove it if it holds nothing."""
        self.flush()
        if self.frontier.close() and self._state.frontier_emptied():
            self.frontier.remove()

    def _committed(self, batches: list[int]) -> None:
        if batches:  # first: a page that is done tells that what it led to was committed
            self._state.frontier_committed(batches[-1])
        for batch in batches:
            self._delivery.stored((self.frontier, batch))


class _InMemory(LifoDiskQueue):
    """Stands where Scrapy's queue has its file: holds what was last pushed."""

    def __init__(self, *_: Any) -> None:
        self.data = b""

    def push(self, data: Any) -> None:
        self.data = data

    def pop(self) -> Any:
        return self.data


class Serialiser(PickleLifoDiskQueue, _InMemory):  # type: ignore[valid-type,misc]
    """Scrapy's own disk queue, whose bytes go to the frontier instead of a file of its own.

    So requests become the same bytes as in Scrapy, and no others fail; nothing here pickles.
    """

    def packed(self, request: Request) -> bytes:
        """A request's bytes. Raises ValueError for one that cannot be serialised."""
        self.push(_WithoutPage(request))
        return self.data

    def unpacked(self, data: bytes) -> Request:
        """The request of some bytes that packed() made."""
        self.data = data
        request = self.pop()
        assert isinstance(request, Request)
        return request


class _WithoutPage:
    """A request as Scrapy's queue asks for it, without the page that this crawl found it on."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def to_dict(self, *, spider: Spider | None = None) -> dict[str, Any]:
        return stored_fields(self._request, spider)

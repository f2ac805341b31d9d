"""DurableLifoQueue, DurableFifoQueue: requests under JOBDIR that no crash loses."""

from __future__ import annotations

from typing import Any, ClassVar

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Request
from scrapy.squeues import PickleFifoDiskQueue, PickleLifoDiskQueue

from scrapy_neardup.crawl.queues.disk_queues import DiskQueues
from scrapy_neardup.crawl.session import CrawlSession


class DurableFifoQueue:
    """A SCHEDULER_DISK_QUEUE or SCHEDULER_START_DISK_QUEUE: the oldest request comes first.

    All queues of a job share one SQLite file, see state/frontier.py. Requests are serialised as
    by Scrapy's pickle queues; what cannot be, Scrapy keeps in memory. Scrapy's own queue stands
    in where the frontier is not used: the plugin is switched off, the state is not the job's own
    (NEARDUP_STATE_DIR), a command looks at single pages, or the scheduler is another.
    """

    keeps_requests = True  # through a crash
    newest_first = False
    scrapys: ClassVar[Any] = PickleFifoDiskQueue

    def __init__(self, queues: DiskQueues, name: str) -> None:
        """name: what Scrapy would call the queue's file in `requests.queue`."""
        self._queues = queues
        self._rows = queues.frontier.queue(name, self.newest_first)

    @classmethod
    def from_crawler(cls, crawler: Crawler, key: str) -> Any:
        """The queue of a path. Raises what CrawlSession.open does."""
        try:
            session = CrawlSession.of(crawler)
        except NotConfigured:
            return cls.scrapys.from_crawler(crawler, key)
        session.open()
        queues = session.disk_queues
        if queues is None:
            return cls.scrapys.from_crawler(crawler, key)
        return cls(queues, queues.name(key))

    def push(self, request: Request) -> None:
        """Add a request. Raises ValueError for one that cannot be serialised."""
        self._queues.push(self._rows, request)

    def pop(self) -> Request | None:
        """Take the next request; None if there is none."""
        return self._queues.pop(self._rows)

    def peek(self) -> Request | None:
        """The next request, which stays; None if there is none."""
        row = self._rows.peek()
        return None if row is None else self._queues.unpacked(row)

    def close(self) -> None:
        """Called when the queue is empty, and for all when the crawl ends."""
        self._rows.close()

    def __len__(self) -> int:
        return len(self._rows)


class DurableLifoQueue(DurableFifoQueue):
    """The same, but the newest request comes first: Scrapy's default order."""

    newest_first = True
    scrapys = PickleLifoDiskQueue

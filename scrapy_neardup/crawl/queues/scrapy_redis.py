"""What a project of scrapy-redis has set, as FleetScheduler sees it."""

from __future__ import annotations

from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.squeues import FifoMemoryQueue
from scrapy.utils.misc import load_object

from scrapy_neardup.crawl.configured import is_of_scrapy_redis
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.errors import SettingsError

SPIDERS = "scrapy_redis.spiders"
OLDEST_FIRST = ("FifoQueue", "SpiderQueue")  # its names of one class
QUEUE_KEY = "%(spider)s:requests"  # its SCHEDULER_QUEUE_KEY
# Its methods that take messages → the command that takes one.
POPS = {"pop_list_queue": "LPOP", "spop": "SPOP", "pop_priority_queue": "ZPOPMAX"}


def is_oldest_first(crawler: Crawler) -> bool:
    """Whether of requests of one priority the oldest is to be made first.

    By scrapy-redis's SCHEDULER_QUEUE_CLASS, else by Scrapy's SCHEDULER_MEMORY_QUEUE.
    """
    name = crawler.settings.get("SCHEDULER_QUEUE_CLASS")
    if name:
        name = name if isinstance(name, str) else name.__name__
        return name.rpartition(".")[2] in OLDEST_FIRST
    return issubclass(load_object(crawler.settings["SCHEDULER_MEMORY_QUEUE"]), FifoMemoryQueue)


def refuse_to_forget_requests(crawler: Crawler) -> None:
    """Raise SettingsError for a dupefilter that outlives the requests that it calls seen."""
    dupefilter = load_object(crawler.settings["DUPEFILTER_CLASS"])
    if is_of_scrapy_redis(dupefilter):
        raise SettingsError(
            f"DUPEFILTER_CLASS={crawler.settings['DUPEFILTER_CLASS']} goes on calling a request "
            f"seen that a worker found and did not queue before it was killed. Leave "
            f"DUPEFILTER_CLASS out: the server of NEARDUP_BACKEND queues a URL once"
        )


def takes_messages(spider: Spider | None) -> bool:
    """Whether a spider is one of scrapy-redis's, with start URLs in a key."""
    return any(kind.__module__ == SPIDERS for kind in type(spider).__mro__)


def takes_them_its_own_way(spider: Any) -> bool:
    """Whether such a spider does not take its messages as scrapy-redis's do."""
    is_own = type(spider).next_requests.__module__ != SPIDERS
    return is_own or getattr(spider.fetch_data, "__name__", "") not in POPS


def refuse_to_leave_queue(spider: Any, attempt: FailOpen) -> None:
    """Raise SettingsError if requests wait in a queue of scrapy-redis's: none looks there now.

    Waits for its server, as its spiders do; one that does not answer is let pass.
    """
    key = spider.settings.get("SCHEDULER_QUEUE_KEY", QUEUE_KEY) % {"spider": spider.name}
    if attempt("start_messages", spider.server.exists, key):
        raise SettingsError(
            f"requests wait in {key!r}, left by a crawl with scrapy-redis's scheduler, and the "
            f"pages that link them count as fetched. Run the spider with that scheduler until it "
            f"ends, or delete the key and set another NEARDUP_BACKEND_PREFIX"
        )

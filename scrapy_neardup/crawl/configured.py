"""What a project has set of Scrapy's own parts: scheduler, dupefilter, queues, commands."""

from __future__ import annotations

from typing import Any

from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue
from scrapy.utils.misc import load_object

from scrapy_neardup.settings import NearDupSettings


def is_inspection(crawler: Crawler) -> bool:
    """Whether somebody looks at single pages by `scrapy shell`, `fetch`, `parse` or `check`.

    Those commands put their own start method into the spider class; the shell, which has none,
    makes an engine, and crawls nothing.
    """
    by_command: bool = crawler.spidercls.start.__module__.startswith("scrapy.commands.")
    return by_command or not crawler.crawling


def joins_fleet(settings: NearDupSettings, crawler: Crawler) -> bool:
    """Whether the crawl is a worker of a fleet; commands that look at single pages are not."""
    return settings.backend is not None and not is_inspection(crawler)


# --- the scheduler


def has_foreign_scheduler(crawler: Crawler) -> bool:
    """Whether the scheduler is not Scrapy's: those that share a queue between workers are not."""
    return not _is_scrapys(_loaded(crawler, "SCHEDULER"))


def has_fleet_scheduler(crawler: Crawler) -> bool:
    """Whether the scheduler is ours whose requests wait on the fleet's server."""
    return getattr(_loaded(crawler, "SCHEDULER"), "shares_requests", False)


def uses_frontier(crawler: Crawler) -> bool:
    """Whether all that decides about the queue of a job is ours, or Scrapy's own."""
    queues = ("SCHEDULER_DISK_QUEUE", "SCHEDULER_START_DISK_QUEUE")
    named = [name for name in queues if crawler.settings[name]]
    if not all(getattr(_loaded(crawler, name), "keeps_requests", False) for name in named):
        return False
    if has_foreign_scheduler(crawler) or has_fleet_scheduler(crawler):
        return False
    return priorities_of(crawler) is not None


def priorities_of(crawler: Crawler) -> type | None:
    """Which of the two priority queues whose files we can write for it the crawl has."""
    found = _loaded(crawler, "SCHEDULER_PRIORITY_QUEUE")
    known = (DownloaderAwarePriorityQueue, ScrapyPriorityQueue)
    return next((one for one in known if one in found.__mro__), None)


# --- the dupefilter


def has_our_dupefilter(crawler: Crawler) -> bool:
    """Whether the crawl's dupefilter asks us which URLs were queued."""
    return getattr(_loaded(crawler, "DUPEFILTER_CLASS"), "asks_session", False)


def has_known_dupefilter(crawler: Crawler) -> bool:
    """Whether every request passes a dupefilter of Scrapy's that we know, or ours."""
    is_known = _loaded(crawler, "DUPEFILTER_CLASS") is RFPDupeFilter or has_our_dupefilter(crawler)
    return is_known and _asks_dupefilter(crawler)


def filters_nothing(crawler: Crawler) -> bool:
    """Whether a URL may be fetched as often as the spider asks for it, also where it starts."""
    return lets_all_pass(crawler) or not _asks_dupefilter(crawler)


def lets_all_pass(crawler: Crawler) -> bool:
    """Whether the dupefilter is Scrapy's that filters nothing, or does as that."""
    dupefilter = _loaded(crawler, "DUPEFILTER_CLASS")
    return getattr(dupefilter, "request_seen", None) is BaseDupeFilter.request_seen


def is_of_scrapy_redis(kind: type) -> bool:
    """Whether a class is one of scrapy-redis's, or made of one."""
    return any(each.__module__.startswith("scrapy_redis") for each in kind.__mro__)


def _asks_dupefilter(crawler: Crawler) -> bool:
    """Whether the scheduler is known to ask the dupefilter: Scrapy's, ours or scrapy-redis's."""
    scheduler = _loaded(crawler, "SCHEDULER")
    return _is_scrapys(scheduler) or is_of_scrapy_redis(scheduler)


def _is_scrapys(scheduler: type) -> bool:
    # Not issubclass(): to Scrapy, whatever has a scheduler's methods is a subclass.
    return Scheduler in scheduler.__mro__


def _loaded(crawler: Crawler, setting: str) -> Any:
    return load_object(crawler.settings[setting])

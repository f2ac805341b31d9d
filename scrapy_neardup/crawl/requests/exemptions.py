"""Requests that come back on purpose: they pass whether or not their URL was fetched."""

from __future__ import annotations

from collections.abc import Callable

from scrapy.crawler import Crawler
from scrapy.http import Request
from scrapy.http.request import NO_CALLBACK

from scrapy_neardup.crawl.configured import (
    has_known_dupefilter,
    is_inspection,
    lets_all_pass,
)
from scrapy_neardup.crawl.requests.request_keys import RequestKeys
from scrapy_neardup.crawl.requests.request_tracker import had_dont_filter, is_of_spider
from scrapy_neardup.crawl.requests.run_notes import RunNotes
from scrapy_neardup.crawl.requests.start_urls import StartUrls

Name = Callable[[Request], bytes | None]


class Exemptions:
    """Which requests pass, and why.

    name_in_run  by what a run knows the URLs that are fetched again if the project's dupefilter
                 lets them pass; None where it lets none pass that we would not
    """

    def __init__(
        self,
        crawler: Crawler,
        keys: RequestKeys,
        notes: RunNotes,
        starts: StartUrls,
        is_of_job: bool,
    ) -> None:
        """is_of_job: whether what is known was read in earlier runs of this JOBDIR, not by other
        crawls, so that the spider wants it once.
        """
        self.name_in_run = name_in_run(crawler, keys.key)
        self._is_inspection = is_inspection(crawler)
        self._key = keys.key
        self._starts = starts
        self._is_of_job = is_of_job
        self._notes = notes

    def reason(self, request: Request) -> str | None:
        """Why a request passes; None for an ordinary one."""
        meta = request.meta
        if self._is_inspection:
            return "inspection"
        if request.callback is NO_CALLBACK:
            return "media_or_robots"
        if not request.url.startswith(("http://", "https://")):
            return "scheme"
        if meta.get("neardup_skip") or meta.get("neardup_refresh"):
            return "meta"
        if meta.get("is_start_request") and not self._was_to_be_filtered(request):
            return "start"
        if meta.get("retry_times"):
            return "retry"
        if not is_of_spider(request):
            return "dont_filter" if request.dont_filter else "inline"
        if request.dont_filter or had_dont_filter(request):
            return "dont_filter"
        if self._may_be_fetched_again(request):
            return "unfiltered"
        if self.returns_to_its_chain(request):
            return "redirect"
        return "start" if self._shows_more_now(request) else None

    def _was_to_be_filtered(self, request: Request) -> bool:
        """Whether Scrapy would make a start request once a job: one of many, from a file."""
        is_once = self._is_of_job and is_of_spider(request)
        return is_once and not (request.dont_filter or had_dont_filter(request))

    def _may_be_fetched_again(self, request: Request) -> bool:
        """Whether this run has fetched a request's URL, and its dupefilter let it pass again."""
        name = None if self.name_in_run is None else self.name_in_run(request)
        return name is not None and self._notes.may_have(name)

    def _shows_more_now(self, request: Request) -> bool:
        """Whether a request leads back to a start URL for the first time, to something else."""
        key = self._key(request)
        return key in self._starts.known and self._starts.may_differ(request, key)

    def returns_to_its_chain(self, request: Request) -> bool:
        """Whether a redirect leads back to a URL it came through, as cookie walls do."""
        chain = request.meta.get("redirect_urls")
        if not chain:
            return False
        key = self._key(request)
        return any(self._key(request.replace(url=url)) == key for url in chain)


def name_in_run(crawler: Crawler, key: Name) -> Name | None:
    """By what a run knows the URLs that are fetched again if the dupefilter lets them pass.

    None for Scrapy's own, which lets none pass that we would not, and for ours, which asks us. Our
    key if all requests are to be made. A project's may tell requests apart by what we do not know,
    as the store in their meta: the URL as it stands, so that our key still tells which others are
    the same. So may its own scheduler, which need ask no dupefilter at all.
    """
    if lets_all_pass(crawler):
        return key
    return None if has_known_dupefilter(crawler) else _as_it_stands


def _as_it_stands(request: Request) -> bytes:
    return request.url.encode()

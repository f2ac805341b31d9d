"""LayeredBloomDupeFilter: the crawl's URL filter as a DUPEFILTER_CLASS."""

from __future__ import annotations

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import NotConfigured
from scrapy.http import Request

from scrapy_neardup import stats
from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.downloadermiddleware import returns_to_its_chain
from scrapy_neardup.urls.filters.layered import LayeredBloomFilter


class LayeredBloomDupeFilter(BaseDupeFilter):
    """Filters requests before they are queued, in a few bytes a URL instead of about a hundred.

    Two filters answer: URLs fetched (the crawl's own, which a state folder keeps) and URLs
    queued in this run. What was queued and not fetched when a crawl died is asked for
    again, so nothing is lost. A redirect back into its own chain passes.
    """

    def __init__(self, session: CrawlSession) -> None:
        self.session = session
        self.queued = LayeredBloomFilter(
            session.settings.url_capacity, session.settings.url_error_rate
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> BaseDupeFilter:  # type: ignore[override]
        """The filter; Scrapy's own where NEARDUP_ENABLED is False."""
        try:
            return cls(CrawlSession.of(crawler))
        except NotConfigured:
            return RFPDupeFilter.from_crawler(crawler)

    def request_seen(self, request: Request) -> bool:
        """Whether the same page was queued or fetched before; remembers that it is queued."""
        if returns_to_its_chain(request, self.session):
            return False
        key = self.session.key(request)
        if key is None:
            return False
        return bool(self.session.attempt("filter", self._seen, request, key))

    def _seen(self, request: Request, key: bytes) -> bool:
        queued = self.queued.add(key)
        wanted_again = request.meta.get("neardup_refresh") or request.meta.get("is_start_request")
        return queued or (not wanted_again and self.session.state.seen(key))

    def log(self, request: Request, spider: Spider) -> None:
        """Count a filtered request; Scrapy calls this for each."""
        self.session.count(stats.URLS_FILTERED)
        self.session.count("dupefilter/filtered")

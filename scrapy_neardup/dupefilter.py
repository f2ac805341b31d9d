"""LayeredBloomDupeFilter: the session's URL question as a DUPEFILTER_CLASS."""

from __future__ import annotations

import logging

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import NotConfigured
from scrapy.http import Request
from scrapy.utils.request import referer_str

from scrapy_neardup.crawl.session import CrawlSession

logger = logging.getLogger(__name__)


class LayeredBloomDupeFilter(BaseDupeFilter):
    """Filters requests before they are queued, in a few bytes a URL instead of about a hundred.

    Asks the crawl's session and keeps nothing of its own. What was queued and not fetched when
    a crawl died is asked for again, so nothing is lost.
    """

    asks_session = True

    def __init__(self, session: CrawlSession, debug: bool = False) -> None:
        """debug: log every filtered request, as DUPEFILTER_DEBUG asks, not the first only."""
        self.session = session
        self.debug = debug
        self.has_logged = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> BaseDupeFilter:  # type: ignore[override]
        """The filter; Scrapy's own where NEARDUP_ENABLED is False."""
        try:
            session = CrawlSession.of(crawler)
        except NotConfigured:
            return RFPDupeFilter.from_crawler(crawler)
        return cls(session, crawler.settings.getbool("DUPEFILTER_DEBUG"))

    def open(self) -> None:
        """Called when the scheduler opens. Raises what CrawlSession.open does."""
        self.session.open()

    def request_seen(self, request: Request) -> bool:
        """Whether the same page was queued or fetched before; remembers that it is queued."""
        return self.session.urls.is_not_to_be_queued(request)

    def log(self, request: Request, spider: Spider) -> None:
        """Count a filtered request and log it; Scrapy calls this for each."""
        self.session.count("dupefilter/filtered")
        extra = {"spider": spider}
        if self.debug:
            text = "Filtered duplicate request: %s (referer: %s)"
            logger.debug(text, request, referer_str(request), extra=extra)
        elif not self.has_logged:
            self.has_logged = True
            text = "Filtered duplicate request: %s. No more are logged; see DUPEFILTER_DEBUG"
            logger.debug(text, request, extra=extra)

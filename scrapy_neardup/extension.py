"""MetricsExtension: a crawl's stats for Prometheus."""

from __future__ import annotations

import logging
from typing import Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.asyncio import create_looping_call

from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.report.metrics import Metrics

logger = logging.getLogger(__name__)

REFRESH_S = 5.0  # between looks at sizes, which are stats only when somebody looks


class MetricsExtension:
    """Serves all stats of a crawl, Scrapy's and ours, on NEARDUP_METRICS_PORT while it runs."""

    def __init__(self, session: CrawlSession, crawler: Crawler) -> None:
        self._session, self._crawler = session, crawler
        self._metrics: Metrics | None = None
        self._refreshing = create_looping_call(self._refresh)
        crawler.signals.connect(self.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """The extension. Raises NotConfigured without a port."""
        session = CrawlSession.of(crawler)
        if session.settings.metrics_port is None:
            raise NotConfigured
        return cls(session, crawler)

    def spider_opened(self, spider: Spider) -> None:
        """Begin to serve; a port that is taken costs the metrics, not the crawl."""
        settings = self._session.settings
        host, port = settings.metrics_host, settings.metrics_port
        assert self._crawler.stats
        assert port is not None
        stats = self._crawler.stats
        try:
            self._metrics = Metrics(lambda: dict(stats.get_stats()), spider.name, host, port)
        except OSError as error:
            logger.warning(
                "neardup: no metrics of this crawl: NEARDUP_METRICS_HOST=%s, "
                "NEARDUP_METRICS_PORT=%d: %s. Take another port, or 0 for any free one",
                *(host, port, error.strerror or error),
            )
            return
        logger.info("neardup: metrics at %s", self._metrics.url)
        self._refreshing.start(REFRESH_S, now=False)

    def _refresh(self) -> None:
        self._session.refresh_gauges()

    def spider_closed(self) -> None:
        """Serve no more."""
        if self._refreshing.running:
            self._refreshing.stop()
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None

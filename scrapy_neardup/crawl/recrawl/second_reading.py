"""A page read twice at once: what differs then says nothing of the page."""

from __future__ import annotations

from typing import Any

from scrapy.crawler import Crawler
from scrapy.http import Request, Response
from scrapy.http.request import NO_CALLBACK

from scrapy_neardup import stats
from scrapy_neardup.crawl.counts import Counts
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.items.source_page import CrawledPage
from scrapy_neardup.crawl.pages.judge import PageJudge
from scrapy_neardup.crawl.pages.long_bodies import SHORT_BYTES
from scrapy_neardup.crawl.recrawl.known_pages import KnownPages
from scrapy_neardup.crawl.recrawl.visit_comparison import VisitComparison
from scrapy_neardup.crawl.recrawl.visit_items import Fields
from scrapy_neardup.crawl.requests.inline_downloads import OURS
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.revision import Held, Revision

# What a request says of how it is downloaded, by Scrapy's names.
OF_A_DOWNLOAD = ("bindaddress", "cookiejar", "download_timeout", "dont_merge_cookies", "proxy")


class SecondReading:
    """Reads what a page says, and once more where that may show its change to be noise."""

    def __init__(
        self,
        known: KnownPages,
        comparison: VisitComparison,
        crawler: Crawler,
        judge: PageJudge,
        attempt: FailOpen,
        count: Counts,
    ) -> None:
        self._known = known
        self._comparison = comparison
        self._crawler = crawler
        self._judge = judge
        self._attempt = attempt
        self._count = count

    async def revision(
        self, body: bytes, content: PageContent | str | None, held: Held
    ) -> Revision | None:
        """What this visit finds, off the loop's thread where that takes long; None if it fails."""

        def read() -> Revision | None:
            return self._attempt("recrawl", Revision.of, content, body, held)

        return read() if len(body) < SHORT_BYTES else await self._count.in_thread(read)

    async def read_twice(self, page: CrawledPage, fields: Fields | None, now: Revision) -> None:
        """Read a page again where that may show that it differs from its earlier self in noise."""
        request, response = page.response.request, page.response
        assert request is not None
        if not now.held or not self._may_be_repeated(request):
            return
        earlier = self._known.comparable(self._known.visit(request))
        is_to_be_read = self._comparison.is_to_be_read_twice
        if not self._attempt("recrawl", is_to_be_read, response.url, earlier, now, fields):
            return
        self._count(stats.RECRAWL_READ_TWICE)
        again = await self._downloaded_again(request)
        if again is None or (again.url, again.status) != (response.url, response.status):
            return
        content = await self._judge.content(CrawledPage(page.id, again, is_tracked=False))
        other = await self.revision(again.body, content, now.held)
        if other is not None:
            self._attempt("recrawl", self._comparison.read_twice, response.url, now, other)

    def _may_be_repeated(self, request: Request) -> bool:
        """Whether a request made again reads a page anew, and does no more than that."""
        is_cached = self._crawler.settings.getbool("HTTPCACHE_ENABLED")
        return request.method == "GET" and not request.body and not is_cached

    async def _downloaded_again(self, request: Request) -> Response | None:
        meta: dict[str, Any] = {OURS: True}
        meta |= {name: request.meta[name] for name in OF_A_DOWNLOAD if name in request.meta}
        again = request.replace(
            callback=NO_CALLBACK, errback=None, cb_kwargs={}, meta=meta, dont_filter=True
        )
        assert self._crawler.engine is not None
        try:
            return await self._crawler.engine.download_async(again)
        except Exception:  # whatever the project's downloader raises, it proves nothing
            return None

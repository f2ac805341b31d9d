"""Names pages that a site shows for paths that do not exist: the ledger gives them no original."""

from __future__ import annotations

from concurrent.futures import Future
from secrets import token_hex
from urllib.parse import urlsplit

from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response
from scrapy.http.request import NO_CALLBACK

from scrapy_neardup import stats
from scrapy_neardup.crawl.fail_open import Count, FailOpen
from scrapy_neardup.crawl.items.source_page import CrawledPage
from scrapy_neardup.crawl.pages.judge import PageJudge
from scrapy_neardup.crawl.requests.inline_downloads import OURS
from scrapy_neardup.detect.decision import Decision
from scrapy_neardup.factory import make_rules
from scrapy_neardup.fleet.futures import answer_of
from scrapy_neardup.learn.soft_404 import UnrelatedUrls, outline
from scrapy_neardup.learn.url_parts import cut
from scrapy_neardup.settings import NearDupSettings

MAX_HOSTS = 4096  # that are probed
MAX_ORIGINALS = 65_536
NOBODY = -1  # a page that is no page of the lifecycle


class SoftNotFound:
    """Learns what soft 404s look like, and gives their decisions a kind of their own.

    Only the name changes: an item of a soft 404 is dropped where it would be as that of a copy.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: NearDupSettings,
        judge: PageJudge,
        attempt: FailOpen,
        count: Count,
    ) -> None:
        self._crawler = crawler
        self.probes = settings.soft_404_probe
        self._rules = make_rules(settings)
        self._judge = judge
        self._attempt = attempt
        self._count = count
        # By host; None where there is no soft 404.
        self._outlines: dict[str, Future[int | None]] = {}
        self._urls = UnrelatedUrls()
        self._originals: dict[str, bool] = {}  # URL of a page that was repeated → is soft 404

    async def probe(self, response: Response) -> None:
        """Ask a host for a path that cannot exist, once, where the project wants that."""
        host = origin_of(response.url)
        asked = self._outlines.get(host)
        if asked is None and len(self._outlines) < MAX_HOSTS:
            asked = self._outlines[host] = Future()
            found = None
            try:
                found = await self._asked(host)
            finally:  # also where the crawl is cut off: nobody waits for ever
                asked.set_result(found)
        elif asked is not None and not asked.done():  # by another page, a moment ago
            await answer_of(asked)

    async def _asked(self, host: str) -> int | None:
        try:
            return await self._answer(host)
        except IgnoreRequest:  # robots.txt, or another component
            return None
        except Exception:
            self._attempt.failed("soft_404")
            return None

    async def _answer(self, host: str) -> int | None:
        """The outline of what a host answers; None for an error or a redirect, as it should be."""
        url = f"{host}/{token_hex(10)}"
        request = Request(url, callback=NO_CALLBACK, dont_filter=True, meta={OURS: True})
        assert self._crawler.engine
        self._count(stats.SOFT_404_PROBES)
        response = await self._crawler.engine.download_async(request)
        if response.status != 200 or "redirect_urls" in response.meta:
            return None
        words = await self._judge.words(CrawledPage(NOBODY, response, is_tracked=False))
        return outline(words, response.url) if words else None

    def name(self, page: CrawledPage) -> None:
        """Give the decision about a page its kind, if the page is a soft 404."""
        judged = page.judged
        if judged is None or not (self._is_probed(page) or self._is_learnt(page, judged)):
            return
        if urlsplit(page.response.url).path not in ("", "/"):
            self._remember(page.response.url, is_soft=True)
            page.judged = judged._replace(kind="soft-404")
            page.applied = page.applied and page.applied._replace(kind="soft-404")
            self._count(stats.PAGES_SOFT_404)

    def _is_probed(self, page: CrawledPage) -> bool:
        asked = self._outlines.get(origin_of(page.response.url)) if self._outlines else None
        if asked is None or not asked.done() or asked.result() is None or not page.words:
            return False
        return outline(page.words, page.response.url) == asked.result()

    def _is_learnt(self, page: CrawledPage, judged: Decision) -> bool:
        original = judged.original
        if original is None or not judged.is_duplicate:
            return False
        known = self._originals.get(original)
        if known is not None:
            return known
        url = cut(page.key(self._rules))
        is_unrelated = None if url is None else self._urls.came(original, url)
        if is_unrelated is None:
            return False
        is_soft = is_unrelated and not self._judge.has_own_content(page)
        self._remember(original, is_soft)
        return is_soft

    def _remember(self, original: str, is_soft: bool) -> None:
        if len(self._originals) >= MAX_ORIGINALS:
            self._originals.clear()
        self._originals[original] = is_soft


def origin_of(url: str) -> str:
    """The scheme and host of a URL, with its port: what probes are sent to."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"

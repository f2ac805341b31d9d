"""Where pages lead: what links them, which links are new, and which ways end in no page."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from scrapy_neardup.crawl.counts import Counts
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.items.source_page import CrawledPage
from scrapy_neardup.crawl.pages.long_bodies import SHORT_BYTES
from scrapy_neardup.crawl.recrawl.conditional import GONE
from scrapy_neardup.crawl.recrawl.known_pages import KnownPages, callback_name
from scrapy_neardup.crawl.recrawl.revisits import HUB_PRIORITY, Revisits, hints_of, is_sitemap
from scrapy_neardup.crawl.recrawl.stored_requests import urls_stored
from scrapy_neardup.state.visit import Hint, PageKey, key_of
from scrapy_neardup.state.visit_file import Status
from scrapy_neardup.state.visits import Visits

if TYPE_CHECKING:
    from scrapy_neardup.crawl.requests.seen_urls import SeenUrls

HINTS_AT_ONCE = 500  # of a sitemap: about 15 ms
MAX_NEW_LINKS = 100  # of a page, about which a fleet is asked


class PageLinks:
    """Notes which pages are linked, so that the crawl's end can tell which are by none.

    A page that held links and is asked for is awaited until it comes, or is gone: whatever
    component swallows its request, its links are missed.
    """

    def __init__(
        self,
        visits: Visits,
        known: KnownPages,
        revisits: Revisits | None,
        crawler: Crawler,
        urls: SeenUrls,
        attempt: FailOpen,
        count: Counts,
    ) -> None:
        self._visits = visits
        self._known = known
        self._revisits = revisits
        self._urls = urls
        self._attempt = attempt
        self._count = count
        self._awaited: set[bytes] = set()  # keys of pages
        self._misses_any = False
        crawler.signals.connect(self._dropped, signal=signals.request_dropped)

    # --- pages that may hold links

    @property
    def misses_any(self) -> bool:
        """Whether a page that may hold links could not be read."""
        return self._misses_any or bool(self._awaited)

    def missed(self) -> None:
        """Links of a page may be missing."""
        self._misses_any = True

    def asked_for(self, request: Request) -> None:
        """A request of the spider is about to be downloaded."""
        known = self._known.visit(request, counts=False)
        if known is not None and known.links and known.status < Status.GONE:
            self._awaited.add(known.key)

    # --- requests that end

    def answered(self, request: Request, status: int, is_page: bool) -> None:
        """The final response to a request of the spider came."""
        key = self._known.key(request)
        if is_page:
            self._came(request, key)
        elif status in GONE and key is not None:
            self._visits.leaving(key)
            self._came(request, key)
        else:
            self.failed(request)

    def _came(self, request: Request, key: bytes | None) -> None:
        if key is not None:
            self._awaited.discard(key)
        self.redirected(request)

    def _dropped(self, request: Request, spider: Spider) -> None:
        """A request was not queued: its page is read by another one of this run."""
        if "redirect_urls" in request.meta:
            self._attempt("recrawl", self.redirected, request)

    def redirected(self, request: Request) -> None:
        """The URLs through which a request came lead to its own, which was read, or is gone."""
        urls = request.meta.get("redirect_urls", ())
        at = self._known.key(request) if urls else None
        for url in urls:
            source = self._known.key(request.replace(url=url))
            if source is not None and source != at:
                self._visits.leaving(source, request.url, at)
                self._awaited.discard(source)

    def failed(self, request: Request) -> None:
        """A request brought no page, as may be otherwise another time."""
        known = self._known.visit(request)
        if known is None or known.links:
            self.missed()

    def not_made(self, request: Request) -> None:
        """A request was dropped, as for robots.txt: what its page linked is linked by nobody."""
        key = self._known.key(request)
        if key is None:
            return
        known = self._visits.visit(key, callback_name(request))
        if known is None:
            self._visits.not_made(PageKey(key, callback_name(request), request.url))
        elif known.links and known.status < Status.GONE:
            self.missed()

    # --- links

    def linked(self, page: CrawledPage, request: Request) -> None:
        """A page led to a request."""
        page.n_links += 1
        url_key = self._urls.key(request)
        if url_key is None:
            return
        key = key_of(url_key)
        self._visits.linked(key, request.url)
        if self._revisits is not None:
            if self._revisits.is_new(url_key):
                self._new_link(page, url_key, request.url)
            if self._revisits.is_hub(key):
                request.priority += HUB_PRIORITY

    def _new_link(self, page: CrawledPage, url_key: bytes, url: str) -> None:
        """A page led to a URL that this worker does not know."""
        page.n_new_links += 1
        if self._visits.is_shared:
            page.new_links[url_key] = url

    async def ask_which_are_new(self, page: CrawledPage) -> None:
        """Under a fleet, ask which links of a known page are new to all workers.

        Those that the page had at its last visit are not asked about. Where there are too many, or
        nobody can tell, all count as new: the page is fetched the sooner.
        """
        request = page.response.request
        assert request is not None
        known = self._known.visit(request, counts=False)
        if known is None:  # its links do not count
            return
        try:
            before = set() if known.requests is None else urls_stored(known.requests)
            others = [key for key, url in page.new_links.items() if url not in before]
            page.n_new_links = len(others)
            if len(others) <= MAX_NEW_LINKS:
                page.n_new_links = await self._urls.n_new_to_all(others)
        except Exception:
            self._attempt.failed("recrawl")

    def found_on(self, request: Request) -> bytes | None:
        """The key of the page that a request names as the one it was found on."""
        referer = request.headers.get("Referer")
        if referer is None:
            return None
        url = referer.decode("utf-8", "replace")
        is_page = url.startswith(("http://", "https://"))
        return self._known.key(Request(url)) if is_page else None

    # --- sitemaps

    async def read_sitemap(self, response: Response) -> None:
        """Take down what a sitemap says of its URLs, a part at a time."""
        if self._revisits is None or not is_sitemap(response):
            return
        hints = hints_of(response)

        def read() -> list[tuple[str, Hint]] | None:
            return self._attempt("recrawl", lambda: list(islice(hints, HINTS_AT_ONCE)))

        is_short = len(response.body) < SHORT_BYTES
        while part := read() if is_short else await self._count.in_thread(read):
            self._attempt("recrawl", self._put_hints, part)

    def _put_hints(self, part: list[tuple[str, Hint]]) -> None:
        for url, hint in part:
            if (key := self._known.key(Request(url))) is not None:
                self._visits.put_hint(PageKey(key, "", url), hint)

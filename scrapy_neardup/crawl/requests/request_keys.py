"""By which keys a request is known: of the page that it asks for, and of its URL as it stands."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from scrapy.crawler import Crawler
from scrapy.http import Request

from scrapy_neardup import stats
from scrapy_neardup.crawl.fail_open import Count, FailOpen
from scrapy_neardup.crawl.requests.run_notes import RunNotes
from scrapy_neardup.factory import make_rules
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.urls.filters.rotating import RotatingUrlFilter
from scrapy_neardup.urls.key import MAX_URL, as_scrapy, request_key, url_key
from scrapy_neardup.urls.request_fingerprinter import own_fingerprinter

NOT_MADE = b""  # no key is empty
BY_LONGER = b"\0+"  # behind the key of a page that was asked for by a URL with more than it says


class RequestKeys:
    """Makes keys of requests, and knows which pages were asked for by several URLs.

    A page's key leaves out of a URL what the rules say: session ids, tracking arguments, the
    scheme. Its exact key is by Scrapy's rules, to which such URLs are of different pages.

    has_any_longer  whether any page was asked for by a URL of which its key leaves something out
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: NearDupSettings,
        fetched: RotatingUrlFilter,
        notes: RunNotes,
        owner: bytes,
        attempt: FailOpen,
        count: Count,
    ) -> None:
        """owner: behind each key in `fetched`, where other spiders have it, too."""
        self.has_any_longer = False
        self._rules = make_rules(settings)
        self._as_scrapy = as_scrapy(self._rules)
        self._rewrites = self._rules.rewrites  # else they leave out arguments and ids in paths
        self._fingerprinter = own_fingerprinter(crawler.request_fingerprinter)
        self._fetched = fetched
        self._notes = notes
        self._owner = owner
        self._attempt = attempt
        self._count = count
        self._keys: WeakKeyDictionary[Request, bytes | None] = WeakKeyDictionary()

    def key(self, request: Request) -> bytes | None:
        """The key of a request, made once; None, counted, for one that has none."""
        key = self._keys.get(request, NOT_MADE)
        if key is NOT_MADE:
            key = self._keys[request] = self._attempt(
                "url_key", request_key, request, self._rules, self._fingerprinter
            )
            url = request.url
            if len(url) > MAX_URL and self._fingerprinter is None:
                self._count(stats.URLS_OVER_BUDGET)
            if key and (self._rewrites or "?" in url or ";" in url or "(" in url):
                self._note_longer(request, key)
        return key

    def exact(self, request: Request) -> bytes:
        """The key of a request by Scrapy's rules, with all that the URL says."""
        return request_key(request, self._as_scrapy, self._fingerprinter)

    def of_url(self, url: str) -> bytes:
        """The key of a URL."""
        return url_key(url, self._rules)

    def exact_of_url(self, url: str) -> bytes:
        """The key of a URL by Scrapy's rules."""
        return url_key(url, self._as_scrapy)

    def _note_longer(self, request: Request, key: bytes) -> None:
        if self.exact(request) != key:
            self._notes.note(key + BY_LONGER)
            self.has_any_longer = True

    def has_longer(self, key: bytes) -> bool:
        """Whether a page was asked for by a URL with more than its key, in this run or in an
        earlier one of a job, as far as is known.
        """
        name = key + BY_LONGER
        if self._notes.may_have(name):
            return True
        found = self._attempt("filter", self._fetched.__contains__, name + self._owner)
        return found is not False

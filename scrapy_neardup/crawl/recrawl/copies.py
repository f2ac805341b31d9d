"""Copies: pages whose items were dropped for others'. Do those still say what they said then?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy.http import Request

from scrapy_neardup.crawl.requests.request_tracker import made_again
from scrapy_neardup.state.visit import DEPARTED, FIRST, UNKNOWN, Original, Visit
from scrapy_neardup.state.visits import Visits

if TYPE_CHECKING:
    from scrapy_neardup.crawl.items.source_page import CrawledPage
    from scrapy_neardup.crawl.pages.judge import PageJudge

MAX_READ_AGAIN = 10_000  # copies of a run whose requests are kept, in case an original changes
MAX_ORIGINALS = 1000  # of one page, whose items may repeat those of many
TOO_MANY = Original(bytes(16), FIRST)  # no page has this key: the copy's items always pass


class Copies:
    """Remembers with each copy which version of which page has its items.

    A page has a new version when it is new or changed. From the moment when it is compared with
    other pages these are copies of the new version; until it is stored, that is known here only.
    A copy of an older version is an *orphan*: what it says stands nowhere else.
    """

    def __init__(
        self, visits: Visits, judge: PageJudge, key: Callable[[Request], bytes | None]
    ) -> None:
        self._visits = visits
        self._judge = judge
        self._key = key
        self._versions: dict[bytes, int] = {}  # of pages under way
        # Original → requests of its copies that this run dropped. If it changes, they are made
        # again; those for which there is no room pass in the next crawl.
        self._requests: defaultdict[bytes, list[Request]] = defaultdict(list)
        self._n_requests = 0

    def is_orphan(self, visit: Visit) -> bool:
        """Whether items of a page were dropped for one that says something else now."""
        return any(self._version(one.key) != one.version for one in visit.originals())

    def _version(self, key: bytes) -> int:
        version = self._versions.get(key)
        return self._visits.version(key) if version is None else version

    def judged(self, page: CrawledPage) -> None:
        """A page was compared with others, and takes its earlier self's place for them.

        One that repeats a page that is gone is to be kept.
        """
        self._take_place(page)
        decision, request = page.applied, page.response.request
        page.version = self._version_of_its_own(page)
        if decision is None or not decision.is_duplicate or request is None:
            return
        page.original = self._original(request, decision.original)
        if page.original is not None and page.original.version == DEPARTED:
            page.applied = None
        elif page.original is not None and page.original.version != UNKNOWN:
            page.version = page.original.version

    def _version_of_its_own(self, page: CrawledPage) -> int:
        return FIRST if page.revisit is None else page.revisit.visit.version

    def _original(self, request: Request, url: str | None) -> Original | None:
        """A page's original as it is now; None where it is an earlier self of the page."""
        key = None if url is None else self._key(request.replace(url=url))
        return None if key in (None, self._key(request)) else Original(key, self._version(key))

    def dropped(self, page: CrawledPage, url: str | None) -> None:
        """An item of a page is dropped for that of another. url: of that, if not by judged()."""
        request = page.response.request
        assert request is not None
        original = page.original if url is None else self._original(request, url)
        if original is None or original.key in page.originals:
            return
        if len(page.originals) >= MAX_ORIGINALS:
            original = TOO_MANY
        page.originals[original.key] = original.version
        self._note(request, original.key)

    def unchanged(self, request: Request, visit: Visit) -> None:
        """A known page gives no item in this run."""
        for one in visit.originals():
            self._note(request, one.key)

    def _note(self, request: Request, original: bytes) -> None:
        if self._n_requests < MAX_READ_AGAIN:
            self._n_requests += 1
            self._requests[original].append(request)

    def changed(self, page: CrawledPage, key: bytes) -> list[Request]:
        """A page has a new version: requests for its copies that this run read before."""
        if not page.is_read:  # it gave no item, so it was compared with no other page
            self._judge.forget(page.response.url)
            self._take_place(page)
        requests = self._requests.pop(key, [])
        self._n_requests -= len(requests)
        return [made_again(request) for request in requests]

    def _take_place(self, page: CrawledPage) -> None:
        if page.revisit is not None:
            visit = page.revisit.visit
            self._versions[visit.key] = visit.version

    def stored(self, visit: Visit) -> None:
        """A page's row is written, its version with it."""
        if self._versions.get(visit.key) == visit.version:
            del self._versions[visit.key]

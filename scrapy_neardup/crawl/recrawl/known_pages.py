"""What earlier visits found: asked by the request for a page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scrapy.http import Request

from scrapy_neardup.crawl.recorder import callback_of
from scrapy_neardup.state.visit import Visit, key_of
from scrapy_neardup.state.visit_file import Status
from scrapy_neardup.state.visits import Visits

if TYPE_CHECKING:
    from scrapy_neardup.crawl.requests.seen_urls import SeenUrls


class KnownPages:
    """Visits by request. A URL that several callbacks read has one for each."""

    def __init__(self, visits: Visits, urls: SeenUrls, ttl_s: float | None) -> None:
        """ttl_s: how long a visit counts, in seconds; None for ever."""
        self._visits = visits
        self._urls = urls
        self._ttl_s = ttl_s

    def key(self, request: Request) -> bytes | None:
        """The key of a request's page; None where its URL has none."""
        key = self._urls.key(request)
        return None if key is None else key_of(key)

    def visit(self, request: Request, counts: bool = True) -> Visit | None:
        """The last visit of a page, in this run or an earlier one.

        counts: whether a foreign row is counted, which whoever asks again is to do.
        """
        key = self.key(request)
        return None if key is None else self._visits.visit(key, callback_name(request), counts)

    def comparable(self, visit: Visit | None) -> Visit | None:
        """A visit, if it is to be compared with: not of a page that was gone, nor too old."""
        if visit is None or visit.status in (Status.GONE, Status.MOVED):
            return None
        is_over = self._ttl_s is not None and time.time() - visit.time > self._ttl_s
        return None if is_over else visit


def callback_name(request: Request) -> str:
    """The name of a request's callback, by which visits tell readers of a URL apart."""
    return callback_of(request) or "parse"

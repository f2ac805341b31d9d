"""Files of items that media pipelines did not get or could not store, and a later crawl may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response
from w3lib.url import safe_url_string

from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.items.item_fields import named_values
from scrapy_neardup.crawl.requests.request_tracker import is_transient

MAX_URL_CHARS = 8192


class FailedFiles:
    """Downloads without a callback that failed in this crawl, or that a store refused, by URL.

    A media pipeline lets an item pass without its file, and tells nobody. It keeps more of each
    failure than its URL, until the crawl ends.
    """

    def __init__(self, attempt: FailOpen) -> None:
        self._attempt = attempt
        self._urls: set[str] = set()
        # Apart: another pipeline may be answered for the same URL, and its store take the file.
        self._refused: set[str] = set()

    def answered(self, request: Request, response: Response) -> None:
        """The final response came. A file that is gone, or refused, is not waited for."""
        if is_transient(response.status):
            self._urls.add(first_url(request))
        else:
            self._urls.discard(first_url(request))

    def failed(self, request: Request, exception: Exception) -> None:
        """No response came; where a component dropped the request, none is to come."""
        if not isinstance(exception, IgnoreRequest):
            self._urls.add(first_url(request))

    def refused(self, request: Request) -> None:
        """The file came, but the store of a media pipeline did not take it."""
        self._refused.add(first_url(request))

    def are_of(self, item: Any) -> bool:
        """Whether a field of an item is the URL of one, or a list that has it."""
        if not self._urls and not self._refused:
            return False
        return bool(self._attempt("files", self._are_of, item))

    def _are_of(self, item: Any) -> bool:
        found = map(safe_url_string, urls_in(item))
        return any(url in self._urls or url in self._refused for url in found)


def first_url(request: Request) -> str:
    """The URL of a request, before it was redirected."""
    first: str = request.meta.get("redirect_urls", (request.url,))[0]
    return first


def urls_in(item: Any) -> Iterator[str]:
    """What may be a URL among an item's fields and the entries of their lists."""
    for _, value in named_values(item):
        for one in value if isinstance(value, (list, tuple, set, frozenset)) else (value,):
            if isinstance(one, str) and len(one) <= MAX_URL_CHARS and ":" in one:
                yield one

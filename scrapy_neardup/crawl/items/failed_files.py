"""Files of items, as media pipelines download them, that failed and may be had by a later crawl."""

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
    """Downloads without a callback that failed in this crawl, by their URLs.

    A media pipeline lets an item pass without its file, and tells nobody. It keeps more of each
    failure than its URL, until the crawl ends.
    """

    def __init__(self, attempt: FailOpen) -> None:
        self._attempt = attempt
        self._urls: set[str] = set()

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

    def are_of(self, item: Any) -> bool:
        """Whether a field of an item is the URL of one, or a list that has it."""
        return bool(self._urls) and bool(self._attempt("files", self._are_of, item))

    def _are_of(self, item: Any) -> bool:
        return any(safe_url_string(url) in self._urls for url in urls_in(item))


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

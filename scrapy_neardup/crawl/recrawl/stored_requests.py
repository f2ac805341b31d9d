"""Requests that a callback yielded, stored with its page, and given back where it is not called."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from typing import Any

from scrapy import Spider
from scrapy.http import Request
from scrapy.http.headers import Headers

from scrapy_neardup.crawl.queues.request_json import (
    fields_for_json,
    from_plain,
    plain,
    request_from_plain,
)
from scrapy_neardup.crawl.recrawl.program import OF_LOGIN, headers_handed_on, is_of_fetching

MAX_STORED_BYTES = 64_000  # of a page; one that has more is always read
MAX_JSON_BYTES = 1_000_000  # of those: packed and read in one call
# Fields of a request that hand nothing on.
OF_A_LINK = {
    *("url", "callback", "errback", "method", "body", "encoding", "priority", "dont_filter"),
    "_class",
}


class YieldedRequests:
    """Takes down what one callback yields. Requests alike in all but their URL share the rest."""

    def __init__(self, spider: Spider | None) -> None:
        self._spider = spider
        self._groups: list[tuple[dict[str, Any], list[str]]] | None = []
        self._n_chars = 0  # of URLs

    def add(self, request: Request) -> None:
        """The callback yielded a request; one that cannot be stored spoils them all."""
        if self._groups is None:
            return
        if is_of_login(request):
            self._groups = None
            return
        try:
            fields = plain(fields_for_json(request, self._spider))
        except ValueError:
            self._groups = None
            return
        url = fields.pop("url")
        self._n_chars += len(url)
        if self._n_chars > MAX_JSON_BYTES:
            self._groups = None
            return
        if not self._groups or self._groups[-1][0] != fields:
            self._groups.append((fields, []))
        self._groups[-1][1].append(url)

    def packed(self) -> bytes | None:
        """All of them; None where they cannot be stored, or are too much."""
        if self._groups is None:
            return None
        text = json.dumps(self._groups, separators=(",", ":")).encode("ascii")
        if len(text) > MAX_JSON_BYTES:
            return None
        packed = zlib.compress(text)
        return packed if len(packed) <= MAX_STORED_BYTES else None


def is_of_login(request: Request) -> bool:
    """Whether a request carries what a later crawl has to get anew: it is not to be made again."""
    return bool(request.cookies) or any(map(OF_LOGIN.search, request.headers))


def given_back(packed: bytes, spider: Spider) -> list[Request]:
    """The requests that YieldedRequests.packed() was told of, made anew, in their order.

    Raises ValueError, zlib.error, and AttributeError where the spider has no such callback.
    """
    return [
        request_from_plain(fields | {"url": url}, spider)
        for fields, urls in _groups(packed)
        for url in urls
    ]


def urls_stored(packed: bytes) -> set[str]:
    """Their URLs. Raises ValueError, zlib.error."""
    return {url for _, urls in _groups(packed) for url in urls}


def handed_on(packed: bytes) -> dict[str, set[str]]:
    """By URL, what a callback handed on to the requests for it, in words; "" for nothing.

    Raises ValueError, zlib.error.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for fields, urls in _groups(packed):
        told = _handed_on(fields)
        for url in urls:
            found[url].add(told)
    return found


def _handed_on(fields: dict[str, Any]) -> str:
    """What a stored request hands on to its callback, but for what tells how it is fetched."""
    fields = from_plain({name: value for name, value in fields.items() if name not in OF_A_LINK})
    meta = {key: value for key, value in fields.pop("meta", {}).items() if not is_of_fetching(key)}
    headers = headers_handed_on(Headers(fields.pop("headers", {})))
    own = {"meta": meta, "headers": headers, **fields}
    told = sorted((name, _in_words(value)) for name, value in own.items() if value)
    return repr(told) if told else ""


def _in_words(value: Any) -> str:
    return repr(sorted(map(repr, value.items())) if isinstance(value, dict) else value)


def _groups(packed: bytes) -> list[tuple[dict[str, Any], list[str]]]:
    text = zlib.decompressobj().decompress(packed, MAX_JSON_BYTES)
    groups: list[tuple[dict[str, Any], list[str]]] = json.loads(text)
    return groups

"""Requests ↔ what the server of a shared queue has of them."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any
from weakref import WeakSet

from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.queues.carried_cookies import CarriedCookies
from scrapy_neardup.crawl.queues.request_json import (
    fields_for_json,
    request_from_plain,
    request_to_json,
)
from scrapy_neardup.crawl.requests.seen_urls import SeenUrls
from scrapy_neardup.fleet.frontier import QueuedRequest, SharedFrontier

COOKIES = "neardup_cookies"  # beside the fields of a request

Taken = tuple[QueuedRequest, Request, dict[str, Any]]  # the third: its payload, read


class QueuedRequests:
    """Packs requests for the server, and makes them of what it gives.

    Beside its fields a request takes along the cookies that its worker has for it.
    """

    def __init__(
        self,
        frontier: SharedFrontier,
        crawler: Crawler,
        urls: SeenUrls,
        attempt: FailOpen,
        order: str,
    ) -> None:
        """order: "newest" or "oldest", which of one priority is to be made first."""
        self._frontier = frontier
        self._crawler = crawler
        self._urls = urls
        self._attempt = attempt
        self._order = order
        self._cookies = CarriedCookies(crawler)
        self._arguments = b""
        self._starting: WeakSet[Request] = WeakSet()  # start requests that are not packed yet
        self._named: set[bytes] = set()  # keys of start requests

    def open(self, arguments: bytes) -> None:
        """The crawl begins. arguments: of the spider; with others it starts with other requests."""
        self._arguments = arguments

    def starts(self, request: Request) -> None:
        """The spider starts with a request, as others may: the server queues it once a run."""
        self._starting.add(request)

    def packed(self, request: Request, host: str) -> QueuedRequest:
        """What the server is to have. Raises ValueError for one that JSON cannot hold."""
        fields = fields_for_json(request, self._crawler.spider)
        cookies = self._attempt("frontier", self._cookies.of, request)
        payload = request_to_json(fields | {COOKIES: cookies} if cookies else fields)
        is_start = request in self._starting
        self._starting.discard(request)
        key = (
            self._start_key(request_to_json(fields) if cookies else payload)
            if is_start
            else self._urls.key_to_be_queued_once(request)
        )
        order = "start" if request.meta.get("is_start_request") else self._order
        return self._frontier.queued(payload, host, key, request.priority, order)

    def _start_key(self, payload: bytes) -> bytes | None:
        """Of equal start requests the first that all workers make has one key, further ones none.

        Those are made for each worker: one that is started again polls though it has polled.
        """
        name = b"start " + blake2b(self._arguments + payload, digest_size=8).digest()
        if name in self._named:
            return None
        self._named.add(name)
        return name

    def ready(self, row: QueuedRequest) -> Taken:
        """A request that was given, about whose URL the fleet is asked."""
        assert self._crawler.spider
        fields = json.loads(row.payload)
        request = request_from_plain(fields, self._crawler.spider)
        self._urls.ask_ahead(request)
        return row, request, fields

    def unpacked(self, request: Request, fields: dict[str, Any]) -> None:
        """A request is about to be made: take over what it took along."""
        self._attempt("frontier", self._cookies.take, request, fields.get(COOKIES, []))

    def answered(self, request: Request, response: Response) -> None:
        """A site has answered, maybe by a redirect; no middleware knows of it yet."""
        self._attempt("frontier", self._cookies.answered, request, response)

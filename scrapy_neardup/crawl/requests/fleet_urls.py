"""The URL question to the other workers of a fleet."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from enum import IntEnum
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy.http import Request

from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.recorder import callback_of
from scrapy_neardup.crawl.requests.request_keys import BY_LONGER, RequestKeys
from scrapy_neardup.state.visit import PageKey, key_of

if TYPE_CHECKING:
    from scrapy_neardup.fleet.worker import FleetWorker

IN_RUN = b"\0@"  # between the name of a URL and the run that alone is to know it
AHEAD_S = 2.0  # for which an answer counts: another worker may fetch the URL meanwhile


class Seen(IntEnum):
    """Whether workers of a fleet have fetched a URL."""

    NO = 0
    IN_RUN = 1  # in the run of the shared queue, which alone is to know it
    EVER = 2


class FleetUrls:
    """Asks the fleet which URLs its workers have fetched, and tells it of those fetched here.

    compares  whether it is asked for what pages were when they were read last, which tells
              whether this run has read them, too; under NEARDUP_RECRAWL
    """

    def __init__(
        self, fleet: FleetWorker, spider: str, keys: RequestKeys, compares: bool, attempt: FailOpen
    ) -> None:
        self.compares = compares
        self._fleet = fleet
        self._spider = spider.encode("utf-8", "surrogatepass")
        self._keys = keys
        self._attempt = attempt
        self._asked_ahead: WeakKeyDictionary[Request, tuple[float, list[Future[Any]]]]
        self._asked_ahead = WeakKeyDictionary()

    def ask_ahead(self, request: Request, key: bytes) -> None:
        """Ask about a request that is to be made soon."""
        self._asked_ahead[request] = monotonic(), self._ask(request, key)

    def _ask(self, request: Request, key: bytes) -> list[Future[Any]]:
        if self.compares:
            return [self._fleet.ask_visit(_page_key(request, key))]
        return [self._fleet.ask_seen(name) for name in self._names(key)]

    async def has(self, request: Request, key: bytes) -> Seen:
        """Whether the page of a request was fetched; not if that cannot be told."""
        asked_at, asked = self._asked_ahead.pop(request, (-inf, []))
        is_recent = monotonic() - asked_at < AHEAD_S
        asked = asked if is_recent else []
        if self.compares:
            return Seen.EVER if await self.has_read(request, key, *asked) else Seen.NO
        return await self._seen(key, asked)

    async def _seen(self, key: bytes, asked: Iterable[Future[Any]] = ()) -> Seen:
        """asked: the questions about all names of a key, if they were asked ahead."""
        names = self._names(key)
        asked = list(asked) or [self._fleet.ask_seen(name) for name in names]  # in one round trip
        for name, question, seen in zip(names, asked, (Seen.EVER, Seen.IN_RUN), strict=False):
            if await self._fleet.seen(name, question):
                return seen
        return Seen.NO

    def _names(self, key: bytes) -> list[bytes]:
        """What a key may be known by: for good, and in this run."""
        return [self._of_spider(key), *self._in_run(key)]

    def _in_run(self, key: bytes) -> list[bytes]:
        """What a key is known by in this run; none where that is not known."""
        queue = self._fleet.queue
        return [] if queue is None or not queue.run else [self._of_spider(key) + IN_RUN + queue.run]

    async def has_read(
        self, request: Request, key: bytes, asked: Future[Any] | None = None
    ) -> bool:
        """Whether this run is done with a page, of which it is known from then on what it was."""
        try:
            return await self._fleet.bring_visit(_page_key(request, key), asked)
        except Exception:
            self._attempt.failed("recrawl")
            return False

    async def has_made(self, request: Request, key: bytes) -> bool:
        """Whether a request that may carry an item, to a page that was read, was made as it is."""
        if not await self._is_another_url(request, key):
            return True
        return bool(await self._seen(self.name(request)))

    async def _is_another_url(self, request: Request, key: bytes) -> bool:
        """Whether a page that was read may have been asked for by another URL than a request's."""
        if self._keys.exact(request) != key or self._keys.has_longer(key):
            return True
        return bool(await self._seen(key + BY_LONGER))

    async def n_new_to_all(self, keys: list[bytes]) -> int:
        """How many URLs no worker of the fleet has handled, or cannot be told of."""
        shared = [*map(self._of_spider, keys)]
        asked = [(key, self._fleet.ask_seen(key)) for key in shared]  # in one round trip
        return [await self._fleet.seen(*one) for one in asked].count(False)

    def mark(self, names: Iterable[bytes]) -> None:
        """Tell of pages and requests that are done, by their keys and names."""
        for name in names:
            self._fleet.mark(self._of_spider(name))

    def mark_in_run(self, names: Iterable[bytes]) -> None:
        """As mark(), for this run only; where that is not known, the fleet is not told."""
        for name in names:
            for name_in_run in self._in_run(name):
                self._fleet.mark(name_in_run)

    def name(self, request: Request) -> bytes:
        """What a request is known by: in the slot of its page's URL, and of this run of visits."""
        return b"%s\0%d" % (self._keys.exact(request), self._fleet.run)

    def _of_spider(self, key: bytes) -> bytes:
        """A key as the fleet has it: another spider may find something else on the page."""
        return b"%s\0%s" % (key, self._spider)


def _page_key(request: Request, key: bytes) -> PageKey:
    return PageKey(key_of(key), callback_of(request) or "parse", request.url)

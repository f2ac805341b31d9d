"""What a run notes of its requests, in the filter of queued URLs: names that are no keys."""

from __future__ import annotations

from functools import partial

from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.urls.filters.exact import ExactUrlFilter
from scrapy_neardup.urls.filters.rotating import RotatingUrlFilter


class RunNotes:
    """Names that a run notes. Where the filter had no room for one, or failed, any may be noted.

    A "no" may then be about a name that was noted, and lets an item be lost. So whoever asks is
    told yes, but for names by which the crawl would not end: those that pass once only are kept
    elsewhere, in 10 to 20 bytes each beyond NEARDUP_URL_MAX_MB.
    """

    def __init__(self, queued: RotatingUrlFilter, ttl_s: float | None, attempt: FailOpen) -> None:
        self._queued = queued
        self._elsewhere = RotatingUrlFilter(partial(ExactUrlFilter, 1), ttl_s)
        self._attempt = attempt
        self._has_failed = False

    def clear(self) -> None:
        """Another run begins."""
        self._queued.clear()
        self._elsewhere.clear()

    def note(self, name: bytes) -> None:
        """Note a name, for may_have()."""
        if self._attempt("filter", self._queued.add, name) is None:
            self._has_failed = True

    def may_have(self, name: bytes) -> bool:
        """Whether a name was noted, as far as is known."""
        if self._attempt("filter", self._queued.__contains__, name) is not False:
            return True
        return self._has_failed or self._queued.n_refused > 0

    def is_first(self, name: bytes) -> bool:
        """Note a name, for has(); whether it was not noted before."""
        if self.has(name):
            return False
        self._attempt("filter", self._queued.add, name)
        if not self._attempt("filter", self._queued.__contains__, name):
            self._attempt("filter", self._elsewhere.add, name)
        return True

    def has(self, name: bytes) -> bool:
        """Whether is_first() was asked about a name."""
        found = self._attempt("filter", self._queued.__contains__, name)
        return bool(found or self._attempt("filter", self._elsewhere.__contains__, name))

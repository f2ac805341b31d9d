"""Counting from any thread: stats are the loop's, which adds what a thread has counted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from scrapy.utils.asyncio import run_in_thread

T = TypeVar("T")

Counted = list[tuple[str, int]]


class _OfThread(threading.local):
    counted: Counted | None = None  # None on the loop's thread


class Counts:
    """Adds to the stats of a crawl; in a thread, to a list of its own (collected())."""

    def __init__(self, add: Callable[..., None]) -> None:
        """add: adds to a stat; called on the loop's thread only."""
        self._add = add
        self._of_thread = _OfThread()

    def __call__(self, key: str, count: int = 1) -> None:
        """Add to a stat."""
        counted = self._of_thread.counted
        if counted is None:
            self._add(key, count)
        else:
            counted.append((key, count))

    async def in_thread(self, action: Callable[[], T]) -> T:
        """The result of an action, which may count, off the loop's thread."""
        result, counted = await run_in_thread(lambda: self.collected(action))
        self.add(counted)
        return result

    def collected(self, action: Callable[[], T]) -> tuple[T, Counted]:
        """The result of an action in this thread, and what it counted."""
        counted: Counted = []
        self._of_thread.counted = counted
        try:
            return action(), counted
        finally:
            self._of_thread.counted = None

    def add(self, counted: Counted) -> None:
        """Add what a thread counted; on the loop's thread."""
        for key, count in counted:
            self._add(key, count)

"""The way to the server: fails open, waits longer after each failure, replays what was missed."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from scrapy_neardup.errors import FleetError

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 30.0
MAX_WAITING = 1_000_000  # things to tell; at a few hundred bytes each


class Unanswered(FleetError):
    """The server could not be asked, or gave no answer."""


class Link:
    """Questions from any thread, and a thread of its own for what the server is to be told.

    What is told is kept until the server has it, in order; beyond MAX_WAITING the newest is
    given up and counted. Nothing waits for a server that failed: until its pause is over, every
    question is Unanswered at once.
    """

    def __init__(self) -> None:
        self.n_lost = 0
        self._failures: tuple[type[Exception], ...] = failures()
        self._waiting: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._closing_at: float | None = None
        self._pause = FIRST_PAUSE_S
        self._down_until = 0.0
        self._logged = False
        self._thread = threading.Thread(target=self._tell_all, name="neardup-fleet", daemon=True)
        self._thread.start()

    def ask(self, question: Callable[[], T]) -> T:
        """The server's answer. Raises Unanswered."""
        if time.monotonic() < self._down_until:
            raise Unanswered("the server failed a moment ago")
        try:
            answer = question()
        except self._failures as error:
            self._failed(error)
            raise Unanswered(str(error)) from error
        self._pause = FIRST_PAUSE_S
        return answer

    def tell(self, message: Callable[[], object]) -> None:
        """Send something as soon as the server takes it; never waits."""
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self.n_lost += 1
                return
            self._waiting.append(message)
            self._changed.notify()

    def close(self, patience_s: float) -> None:
        """Send what waits, for so many seconds at most; counts what is left as lost."""
        with self._changed:
            self._closing_at = time.monotonic() + patience_s
            self._changed.notify()
        self._thread.join()
        self.n_lost += len(self._waiting)

    def _failed(self, error: Exception) -> None:
        self._down_until = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
        if not self._logged:
            self._logged = True
            logger.warning(
                "neardup: the server of NEARDUP_BACKEND failed (%s). The crawl goes on with what "
                "this worker remembers, and tries again; further failures are only counted",
                error,
            )

    def _tell_all(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and self._closing_at is None:
                    self._changed.wait()
                if not self._waiting or self._too_late():
                    return
                message = self._waiting[0]
            try:
                self.ask(message)
            except Unanswered:
                self._sit_out()
            else:
                self._waiting.popleft()

    def _sit_out(self) -> None:
        with self._changed:
            rest = self._down_until - time.monotonic()
            if self._closing_at is not None:
                rest = min(rest, self._closing_at - time.monotonic())
            if rest > 0:
                self._changed.wait(rest)

    def _too_late(self) -> bool:
        return self._closing_at is not None and time.monotonic() >= self._closing_at


def failures() -> tuple[type[Exception], ...]:
    """What a client raises where the server fails: gone, slow, full, loading, read-only."""
    from redis.exceptions import RedisError

    return (RedisError, OSError)

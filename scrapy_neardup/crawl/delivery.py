"""What makes pages known to later crawls waits here until the sinks have stored their items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from scrapy_neardup.crawl.fail_open import FailOpen

Action = Callable[..., object]


class Delivery:
    """A queue of actions, carried out in their order; one that is held holds all behind it.

    Order matters: the page on which another was found counts as seen only after that one.
    """

    def __init__(self, attempt: FailOpen) -> None:
        self._attempt = attempt
        self._waiting: deque[tuple[Action, tuple[Any, ...]]] = deque()
        self._n_put = self._n_given_up = 0
        self._is_given_up = False  # a feed could not be stored
        self._held_from: dict[Hashable, int] = {}  # batch → actions put before it was held
        # Whether actions wait for release(), which is called when buffers have been flushed.
        self.is_buffered = False
        self._n_flushed = 0  # actions put before that was last called

    def put(self, action: Action, *args: object) -> None:
        """Carry out an action when all items that left the pipelines so far are stored."""
        self._n_put += 1
        if self._is_given_up:
            self._n_given_up += 1
            return
        if not (self._waiting or self._held_from or self.is_buffered):
            self._attempt("state", action, *args)
            return
        self._waiting.append((action, args))
        self._carry_out()

    def after(self, action: Action) -> Action:
        """The action as one that waits when it is called."""

        def put(*args: object) -> None:
            self.put(action, *args)

        return put

    def hold(self, batch: Hashable) -> None:
        """Items that leave the pipelines from now on may wait in a batch."""
        self._held_from.setdefault(batch, self._n_put)

    def stored(self, batch: Hashable) -> None:
        """All items of a batch are stored."""
        self._held_from.pop(batch, None)
        self._carry_out()

    def hold_for_good(self) -> None:
        """Items were lost: carry out nothing more, so that the next crawl fetches them again.

        From now on actions are only counted.
        """
        self._is_given_up = True
        self._n_given_up += len(self._waiting)
        self._waiting.clear()

    def release(self) -> None:
        """Buffers hold nothing of what was put so far: carry out what no batch holds."""
        self._n_flushed = self._n_put
        self._carry_out()

    def _carry_out(self) -> None:
        while self._waiting and self._n_put - len(self._waiting) < self._n_free:
            action, args = self._waiting.popleft()
            self._attempt("state", action, *args)

    @property
    def _n_free(self) -> int:
        """How many of the actions put so far need not wait."""
        n_stored = self._n_flushed if self.is_buffered else self._n_put
        return min([n_stored, *self._held_from.values()])

    def __len__(self) -> int:
        """Actions that wait, or were given up."""
        return len(self._waiting) + self._n_given_up

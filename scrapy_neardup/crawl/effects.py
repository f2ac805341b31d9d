"""Who carries out what the page lifecycle asks for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.pages.page_lifecycle import Effect


class Effects:
    """Tells the lifecycle of events, and its subscribers of the effects, in their order.

    A subscriber that fails is counted and does not keep the others from their effects.
    """

    def __init__(self, attempt: FailOpen) -> None:
        self._attempt = attempt
        self._actions: defaultdict[type[Effect], list[Callable[..., object]]] = defaultdict(list)

    def subscribe(self, effect: type[Effect], action: Callable[..., object]) -> None:
        """From now on, call an action with the fields of each effect of a type."""
        self._actions[effect].append(action)

    def of(self, event: Callable[..., Iterable[Effect]], *args: Any) -> None:
        """Tell of an event, a method of the lifecycle, and carry out its effects."""
        for effect in self._attempt("state", event, *args) or ():
            for action in self._actions[type(effect)]:
                self._attempt("state", action, *effect)

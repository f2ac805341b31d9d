"""Kinds of URLs that have stopped bringing anything new: traps, and what has been read through.

A kind is dry when so many pages of it in a row said nothing new that the share of new ones is low,
by the bound of 0 in n (Good and Turing's estimate is 0 then: nothing was seen once only). It ends
when the bound is lower still. One page that says something new, or leads to it, opens it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from scrapy_neardup.learn.rule import predictions_for
from scrapy_neardup.learn.url_parts import UrlParts, value_class

DRY_AFTER = predictions_for(0.1)  # 29 pages: fewer than 10 % are new, by 95 %
ENDED_AFTER = predictions_for(0.01)  # 299 pages: fewer than 1 %
MAX_DEPTH = 8
MAX_ARGUMENTS = 3
MAX_KINDS = 16_384


def kind_of(url: UrlParts) -> str:
    """Host, first directory, depth and number of arguments: `a.example/shop/*?2`.

    Facets in any combination are of three kinds, and links that lengthen a path of eight.
    """
    segments = url.segments
    if len(segments) > MAX_DEPTH:
        path = f"{url.host}/{'*/' * MAX_DEPTH}…"
    elif len(segments) == 1:
        path = f"{url.host}/{value_class(segments[0])}"
    else:
        path = url.shape
    return f"{path}?{min(len(url.arguments), MAX_ARGUMENTS)}"


class DryKinds:
    """How many pages of each kind, in a row, have said nothing new. The oldest are forgotten."""

    def __init__(self) -> None:
        self._n_dry: OrderedDict[str, int] = OrderedDict()
        self.n_opened = 0  # times that a dry kind brought something new

    def came(self, kind: str, is_new: bool) -> None:
        """A page of a kind was read. is_new: it, or what it leads to, says something new."""
        n_dry = self._n_dry.pop(kind, 0)
        if is_new:
            self.n_opened += n_dry >= DRY_AFTER
            return
        self._n_dry[kind] = n_dry + 1
        if len(self._n_dry) > MAX_KINDS:
            self._n_dry.popitem(last=False)

    def is_dry(self, kind: str) -> bool:
        """Whether requests of the kind had better wait until nothing else is left."""
        return self._n_dry.get(kind, 0) >= DRY_AFTER

    def has_ended(self, kind: str) -> bool:
        """Whether no more requests of the kind are made, unless it brings something new."""
        return self._n_dry.get(kind, 0) >= ENDED_AFTER

    def counts(self) -> dict[str, int]:
        """Dry kinds, and how many pages of each said nothing new."""
        return {kind: n for kind, n in self._n_dry.items() if n >= DRY_AFTER}

    def restore(self, counts: Mapping[str, int]) -> None:
        """Go on with the counts of an earlier crawl."""
        self._n_dry.update(counts)

"""Kinds of URLs that have stopped bringing anything new: traps, and what has been read through.

A page that says something new, which no later page of its kind has repeated, is a single. Where n1
of n pages are singles, n1 / n is Good and Turing's estimate (1953) of the chance that the next page
is new. If the order of pages is random, the chance that n of them have at most n1 singles and the
next one is new is at most (n1 + 1) / (n + 1), whatever the pages are: of n + 1 pages at most n1 + 1
are singles then, and each of them is as likely to be the last as any other page.

A kind is dry when that bound is at most DRY for its last n pages, with n1 up to MAX_SINGLES, and it
has ended when it is at most ENDED with n1 = 0. Three singles in a row open it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scrapy_neardup.learn.url_parts import UrlParts, value_class

DRY, ENDED = 1 / 30, 1 / 300
DRY_AFTER, ENDED_AFTER = 29, 299  # pages, of which none is a single
MAX_SINGLES = 2
KEPT_SINGLES = 8  # of a kind: one that is repeated is replaced by an older one
MAX_DEPTH = 8
MAX_ARGUMENTS = 3
MAX_KINDS = 16_384


def kind_of(url: UrlParts) -> str:
    """Host, first directory, depth and number of arguments: `a.example/shop/*?2`.

    Facets in any combination are of three kinds, and links that lengthen a path of eight.
    """
    segments = url.segments
    if len(segments) > MAX_DEPTH:
        first = segments[0] if value_class(segments[0]) == segments[0] else "*"
        path = f"{url.host}/{first}/{'*/' * (MAX_DEPTH - 1)}…"
    elif len(segments) == 1:
        path = f"{url.host}/{value_class(segments[0])}"
    else:
        path = url.shape
    return f"{path}?{min(len(url.arguments), MAX_ARGUMENTS)}"


def bound(n_singles: int, n_pages: int) -> float:
    """The chance of so few singles among so many pages, and a new page after them, at most."""
    return (n_singles + 1) / (n_pages + 1)


def how_dry(since: Sequence[int]) -> str:
    """What speaks for a kind being dry, in words; since: as DryKinds.counts() has it."""
    n_singles = min(range(len(since)), key=lambda n: bound(n, since[n]))
    n_pages = since[n_singles]
    return (
        f"dry: of the last {n_pages:,} pages {n_singles or 'none'} said something new; "
        f"the next does with a chance of at most {bound(n_singles, n_pages):.1%}"
    )


@dataclass(slots=True)
class Kind:
    """What was read of a kind: how many pages, and at which of them its singles were met."""

    n_pages: int = 0
    singles: dict[int, int] = field(default_factory=dict)  # hash of what it says → page

    def came(self, said: str, is_new: bool) -> None:
        """A page was read. said: what it says, the same for pages that say the same."""
        self.n_pages += 1
        what = hash(said)
        if self.singles.pop(what, None) is None and is_new:
            self.singles[what] = self.n_pages
            if len(self.singles) > KEPT_SINGLES:
                del self.singles[next(iter(self.singles))]

    def since(self) -> list[int]:
        """The last pages with no single, with at most one, and so on; the newest are counted."""
        newest = sorted(self.singles.values(), reverse=True)[: MAX_SINGLES + 1]
        begins = newest + [0] * (MAX_SINGLES + 1 - len(newest))
        return [self.n_pages - begin for begin in begins]

    @property
    def is_dry(self) -> bool:
        """Whether few of its next pages are new."""
        return any(bound(n_singles, n) <= DRY for n_singles, n in enumerate(self.since()))

    @property
    def has_ended(self) -> bool:
        """Whether hardly any of its next pages is new."""
        return bound(0, self.since()[0]) <= ENDED


class DryKinds:
    """What was read of each kind. The oldest are forgotten."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[str, Kind] = OrderedDict()
        self.n_opened = 0  # times that a dry kind brought something new

    def came(self, kind: str, said: str, is_new: bool) -> None:
        """A page of a kind was read.

        said    what it says, the same for pages that say the same
        is_new  whether it, or what it leads to, says something new
        """
        known = self._kinds.setdefault(kind, Kind())
        self.n_opened += is_new and known.is_dry
        known.came(said, is_new)
        self._kinds.move_to_end(kind)
        if len(self._kinds) > MAX_KINDS:
            self._kinds.popitem(last=False)

    def is_dry(self, kind: str) -> bool:
        """Whether requests of the kind had better wait until nothing else is left."""
        known = self._kinds.get(kind)
        return known is not None and known.is_dry

    def has_ended(self, kind: str) -> bool:
        """Whether no more requests of the kind are made, unless it brings something new."""
        known = self._kinds.get(kind)
        return known is not None and known.has_ended

    def counts(self) -> dict[str, list[int]]:
        """Dry kinds; of each, the last pages with no single, with at most one, and so on."""
        return {kind: known.since() for kind, known in self._kinds.items() if known.is_dry}

    def restore(self, counts: Mapping[str, Sequence[int]]) -> None:
        """Go on with the counts of an earlier crawl."""
        for kind, since in counts.items():
            n_pages = max(since, default=0)
            singles = {-i: n_pages - n for i, n in enumerate(since, 1) if n < n_pages}
            self._kinds[kind] = Kind(n_pages, singles)

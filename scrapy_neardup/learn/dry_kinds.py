"""Kinds of URLs that have stopped bringing anything new: traps, and what has been read through.

Where n1 of n pages say something that no other page says, Good and Turing (1953) estimate the
chance that the next page is new as n1 / n. Copies often come right behind their page, which leaves
none such. So here n1 counts the pages that were new when they came: never fewer.

If the order of pages is random, at most n1 of n pages were new and the next one is with a chance of
at most (n1 + 1) / (n + 1), whatever the pages are: of n + 1 pages, at most n1 + 1 are the only ones
that say what nobody said before, and each of them is as likely to be the last as any other page.

A kind is dry when that bound is at most DRY for its last n pages, with n1 up to MAX_NEW, and it has
ended when it is at most ENDED with n1 = 0. Three new pages in a row open it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scrapy_neardup.learn.url_parts import UrlParts, value_class

DRY, ENDED = 1 / 30, 1 / 300
DRY_AFTER, ENDED_AFTER = 29, 299  # pages, of which none is new
MAX_NEW = 2
MAX_DEPTH = 8
MAX_ARGUMENTS = 3
MAX_KINDS = 16_384
MAX_GROUPS = 65_536  # of all kinds


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


def group_of(url: UrlParts) -> str:
    """What tells URLs of a kind apart that may be of different authors or sections.

    Their folders, the names of their arguments, and values that are words. What is numbered or
    drawn at random counts as one.
    """
    folders = map(value_class, url.segments[:-1])
    values = (argument.partition("=") for argument in url.arguments)
    arguments = sorted(f"{name}={value_class(value)}" for name, _, value in values)
    return f"{'/'.join(folders)}?{'&'.join(arguments)}"


def bound(n_new: int, n_pages: int) -> float:
    """The chance of so few new pages among so many, and a new one after them, at most."""
    return (n_new + 1) / (n_pages + 1)


def how_dry(since: Sequence[int]) -> str:
    """What speaks for a kind being dry, in words; since: as DryKinds.counts() has it."""
    n_new = min(range(len(since)), key=lambda n: bound(n, since[n]))
    n_pages = since[n_new]
    return (
        f"dry: of the last {n_pages:,} pages {n_new or 'none'} said something new; "
        f"the next does with a chance of at most {bound(n_new, n_pages):.1%}"
    )


@dataclass(slots=True)
class Kind:
    """What was read of a kind: how many pages, and which of them were new, the newest of those."""

    n_pages: int = 0
    new: list[int] = field(default_factory=list)

    def came(self, is_new: bool) -> None:
        """A page was read."""
        self.n_pages += 1
        if is_new:
            self.new = [*self.new[-MAX_NEW:], self.n_pages]

    def since(self) -> list[int]:
        """The last pages of which none was new, at most one was, and so on."""
        begins = [0] * (MAX_NEW + 1 - len(self.new)) + self.new
        return [self.n_pages - begin for begin in reversed(begins)]

    @property
    def is_dry(self) -> bool:
        """Whether few of its next pages are new."""
        return any(bound(n_new, n) <= DRY for n_new, n in enumerate(self.since()))

    @property
    def has_ended(self) -> bool:
        """Whether hardly any of its next pages is new."""
        return bound(0, self.since()[0]) <= ENDED


class DryKinds:
    """What was read of each kind, and of each group of URLs in it. The oldest are forgotten."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[str, Kind] = OrderedDict()
        self._groups: OrderedDict[tuple[str, str], bool] = OrderedDict()

    def came(self, kind: str, group: str, is_new: bool) -> None:
        """A page was read. is_new: whether it, or what it leads to, says something new."""
        known = self._kinds.setdefault(kind, Kind())
        known.came(is_new)
        self._kinds.move_to_end(kind)
        if len(self._kinds) > MAX_KINDS:
            self._kinds.popitem(last=False)
        self._groups[kind, group] = is_new
        self._groups.move_to_end((kind, group))
        if len(self._groups) > MAX_GROUPS:
            self._groups.popitem(last=False)

    def is_dry(self, kind: str) -> bool:
        """Whether requests of the kind had better wait until nothing else is left."""
        known = self._kinds.get(kind)
        return known is not None and known.is_dry

    def has_ended(self, kind: str) -> bool:
        """Whether no more requests of the kind are made, unless it brings something new."""
        known = self._kinds.get(kind)
        return known is not None and known.has_ended

    def hope(self, kind: str, group: str) -> int:
        """2 where the last page of a group was new, 1 where none was read, else 0."""
        last_was_new = self._groups.get((kind, group))
        return 1 if last_was_new is None else 2 * last_was_new

    def counts(self) -> dict[str, list[int]]:
        """Dry kinds; of each, the last pages of which none was new, at most one was, and so on."""
        return {kind: known.since() for kind, known in self._kinds.items() if known.is_dry}

    def restore(self, counts: Mapping[str, Sequence[int]]) -> None:
        """Go on with the counts of an earlier crawl."""
        for kind, since in counts.items():
            n_pages = max(since, default=0)
            new = sorted(n_pages - n for n in since if n < n_pages)
            self._kinds[kind] = Kind(n_pages, new[-MAX_NEW - 1 :])

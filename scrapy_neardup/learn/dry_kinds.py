"""Kinds of URLs that have stopped bringing anything new: traps, and what has been read through.

Where n1 of n pages say something that no other page says, Good and Turing (1953) estimate the
chance that the next page is new as n1 / n. Copies often come right behind their page, which leaves
none such. So here n1 counts the pages that were new when they came: never fewer.

If the order of pages is random, at most n1 of n pages were new and the next one is with a chance of
at most (n1 + 1) / (n + 1), whatever the pages are: of n + 1 pages, at most n1 + 1 are the only ones
that say what nobody said before, and each of them is as likely to be the last as any other page.

A kind is dry when that bound is at most DRY for its last n pages, with n1 up to MAX_NEW. Three new
pages in a row open it again. A page that leads to a new URL of another kind counts as new unless
that kind is dry, too: a month without events leads to its days.

A kind ends when the bound is at most ENDED with n1 = 0, and it grows: its pages, or those of other
kinds that end, gave at least half as many new URLs of it as were read meanwhile. What does not grow
comes to its end by itself, and is read.

Where pages fan out, what goes on from the newest new page is a small part of what waits. So of a
kind that ends, what waited when that page came is read as well, until the bound is at most
ENDED_FOR_GOOD: a trap may have led to any number of URLs by then.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from scrapy_neardup.learn.url_parts import KeyParts, value_class

DRY, ENDED, ENDED_FOR_GOOD = 1 / 30, 1 / 300, 1 / 1000
MAX_NEW = 2
MAX_DEPTH = 8
MAX_ARGUMENTS = 3
MAX_KINDS = 16_384
MAX_GROUPS = 65_536  # of all kinds
MAX_LEADS = 64  # kinds that a kind leads to, and that lead to it
MAX_ASKED = 256  # kinds that are looked at for one of them
GROWS = 0.5  # new URLs for each page that was read: less comes to an end


def kind_of(url: KeyParts) -> str:
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


def group_of(url: KeyParts) -> str:
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


def how_dry(since: Sequence[int], has_ended: bool) -> str:
    """What speaks for a kind being dry, in words; since: as Kind.since() has it."""
    n_new = min(range(len(since)), key=lambda n: bound(n, since[n]))
    n_pages = since[n_new]
    return (
        f"{'ended' if has_ended else 'dry'}: of the last {n_pages:,} pages {n_new or 'none'} said "
        f"something new; the next does with a chance of at most {bound(n_new, n_pages):.1%}"
    )


class LineSpan(NamedTuple):
    """Where the oldest and the newest of some requests stand in the file of what waits."""

    oldest: int
    newest: int


class DryKind(NamedTuple):
    """What is kept of a dry kind.

    since  its last pages of which none was new, at most one was, and so on
    """

    since: Sequence[int]
    has_ended: bool


@dataclass(slots=True)
class Kind:
    """What was read of a kind.

    new     which of its pages said something new, the newest of those
    leads   by kind, which of its pages gave a new URL of that kind, the newest of those
    gained  how many URLs of this kind were found since its last new page, by the kind of their page
    newest  its newest new page when the crawl last ran idle; -1 before
    due_to  the newest line that waited when the crawl first ran idle after that page; -1 once what
            stands up to there is read
    """

    n_pages: int = 0
    new: list[int] = field(default_factory=list)
    leads: OrderedDict[str, list[int]] = field(default_factory=OrderedDict)
    gained: Counter[str] = field(default_factory=Counter)
    newest: int = -1
    due_to: int = -1

    def came(self, is_new: bool, leads: Collection[str]) -> None:
        """A page was read, and gave new URLs of other kinds."""
        self.n_pages += 1
        if is_new:
            self.new = newest([*self.new, self.n_pages])
            self.gained.clear()
        for other in leads:
            self.leads[other] = newest([*self.leads.pop(other, ()), self.n_pages])
        while len(self.leads) > MAX_LEADS:  # it leads to whatever comes: as if it were new
            self.new = newest([*self.new, *self.leads.popitem(last=False)[1]])

    def found_on(self, kind: str, n_urls: int) -> None:
        """New URLs of this kind were found on a page of that kind."""
        if kind in self.gained or len(self.gained) < MAX_LEADS:
            self.gained[kind] += n_urls

    def new_unless(self, little: Callable[[str], bool]) -> list[int]:
        """The newest pages that said something new, or led to a kind that does not bring little."""
        led = (pages for other, pages in self.leads.items() if not little(other))
        return newest([*self.new, *chain.from_iterable(led)])

    def since(self, new: Sequence[int]) -> list[int]:
        """The last pages of which none is among these, at most one is, and so on."""
        begins = [0] * (MAX_NEW + 1 - len(new)) + list(new)
        return [self.n_pages - begin for begin in reversed(begins)]

    def grows_from(self, kinds: Collection[str]) -> bool:
        """Whether pages of these kinds give new URLs of this one about as fast as it is read."""
        n_pages = self.since(self.new)[0]
        return sum(self.gained[kind] for kind in kinds) >= GROWS * n_pages


def newest(pages: Sequence[int]) -> list[int]:
    """The last few of some pages."""
    return sorted(set(pages))[-MAX_NEW - 1 :]


class DryKinds:
    """What was read of each kind, and of each group of URLs in it. The oldest are forgotten.

    ended  kinds of which no more requests are made, unless they bring something new
    """

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self._kinds: OrderedDict[str, Kind] = OrderedDict()
        self._groups: OrderedDict[tuple[str, str], bool] = OrderedDict()
        self._dry: dict[str, bool] = {}  # answers since the last page

    def came(self, kind: str, group: str, is_new: bool, leads: Mapping[str, int]) -> None:
        """A page was read. leads: how many URLs on it are new, by their kind."""
        self._dry.clear()
        self._kind(kind).came(is_new, [other for other in leads if other != kind])
        for other, n_urls in leads.items():
            self._kind(other).found_on(kind, n_urls)
        if is_new:
            self.ended.discard(kind)
        self._groups[kind, group] = is_new
        self._groups.move_to_end((kind, group))
        if len(self._groups) > MAX_GROUPS:
            self._groups.popitem(last=False)

    def _kind(self, kind: str) -> Kind:
        known = self._kinds.setdefault(kind, Kind())
        self._kinds.move_to_end(kind)
        if len(self._kinds) > MAX_KINDS:
            self._kinds.popitem(last=False)
        return known

    def is_dry(self, kind: str) -> bool:
        """Whether requests of the kind had better wait until nothing else is left."""
        if kind not in self._dry:
            self._dry[kind] = self._brings_little(kind, DRY, MAX_NEW, {})
        return self._dry[kind]

    def is_read_through(self, kind: str) -> bool:
        """Whether hardly any of its next pages is new, or leads to what may be."""
        return self._brings_little(kind, ENDED, 0, {})

    def _brings_little(
        self, kind: str, limit: float, max_new: int, answers: dict[str, bool]
    ) -> bool:
        """Whether the bound for a kind is at most limit.

        answers: for kinds that were asked about; those that lead back are taken to bring little.
        """
        known = self._kinds.get(kind)
        if known is None or len(answers) >= MAX_ASKED:
            return False

        def is_below(new: Sequence[int]) -> bool:
            since = known.since(new)[: max_new + 1]
            return any(bound(n_new, n_pages) <= limit for n_new, n_pages in enumerate(since))

        def little(other: str) -> bool:
            if other not in answers:
                answers[other] = self._brings_little(other, limit, max_new, answers)
            return answers[other]

        answers[kind] = is_below(known.new)
        if answers[kind] and known.leads:
            answers[kind] = is_below(known.new_unless(little))
        return answers[kind]

    def find_ended(self, waiting: Mapping[str, LineSpan]) -> None:
        """Which kinds end: those that grow from each other, and from what waits.

        waiting: what waits of each kind. To be called whenever the crawl runs idle.
        """
        for kind, lines in waiting.items():
            self._note_newest(kind, lines)
        self.ended = set()
        reached = list(waiting)
        while reached:
            kind = reached.pop()
            if kind not in self.ended and self.is_read_through(kind):
                self.ended.add(kind)
                reached += self._kinds[kind].leads
        while left := {k for k in self.ended if not self._kinds[k].grows_from(self.ended)}:
            self.ended -= left
        for kind in self.ended:
            if kind not in waiting or self._is_done(kind, waiting[kind]):
                self._kinds[kind].due_to = -1

    def _note_newest(self, kind: str, waiting: LineSpan) -> None:
        """Where a new page came since the crawl last ran idle, what waits now is due."""
        if known := self._kinds.get(kind):
            newest = max(known.new_unless(self.is_dry), default=0)
            if newest > known.newest:
                known.newest, known.due_to = newest, waiting.newest

    def _is_done(self, kind: str, waiting: LineSpan) -> bool:
        """Whether nothing that waits of an ended kind is due any more."""
        is_read = waiting.oldest > self._kinds[kind].due_to
        return is_read or self._brings_little(kind, ENDED_FOR_GOOD, 0, {})

    def due_to(self, kind: str) -> int:
        """The newest line that is due of an ended kind; -1 where none is."""
        return self._kinds[kind].due_to

    def hope(self, kind: str, group: str) -> int:
        """2 where the last page of a group was new, 1 where none was read, else 0."""
        last_was_new = self._groups.get((kind, group))
        return 1 if last_was_new is None else 2 * last_was_new

    def kept(self) -> dict[str, DryKind]:
        """Dry kinds, for a later crawl."""
        return {
            kind: DryKind(
                known.since(known.new_unless(self.is_dry)),
                kind in self.ended and known.due_to < 0,
            )
            for kind, known in self._kinds.items()
            if self.is_dry(kind)
        }

    def restore(self, kept: Mapping[str, DryKind]) -> None:
        """Go on with what an earlier crawl left."""
        for kind, (since, has_ended) in kept.items():
            n_pages = max(since, default=0)
            new = sorted(n_pages - n for n in since if n < n_pages)
            gained = Counter({kind: n_pages}) if has_ended else Counter[str]()
            seen = n_pages if has_ended else -1  # of what ended nothing is due
            self._kinds[kind] = Kind(n_pages, newest(new), gained=gained, newest=seen)

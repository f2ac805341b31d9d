"""Requests of dry kinds wait until nothing else is left, and end where a trap would not."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping
from heapq import nsmallest
from itertools import chain
from math import inf
from random import sample
from typing import TypeVar

from scrapy.crawler import Crawler
from scrapy.http import Request

from scrapy_neardup.crawl.items.source_page import CrawledPage
from scrapy_neardup.crawl.learning.url_learning import is_answer, is_spared
from scrapy_neardup.crawl.requests.carrying import may_carry_an_item
from scrapy_neardup.detect.near import MIN_WORDS
from scrapy_neardup.detect.text import Blocks, without_numbers
from scrapy_neardup.factory import make_queued_urls, make_rules
from scrapy_neardup.learn.dry_kinds import LineSpan, group_of, kind_of
from scrapy_neardup.learn.learner import Learner
from scrapy_neardup.learn.soft_404 import outline
from scrapy_neardup.learn.url_parts import KeyParts, split
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.skipped import DEFERRED, Group, Reasons, WaitingPlace
from scrapy_neardup.urls.key import url_key

FOUND_ON = "neardup_found_on"  # in a request's meta: the kind of the page on which it was found
# Requests of a kind that are made whenever the crawl runs idle: while it may end, and if not.
PROBES, AT_ONCE = 10, 100
MAX_LINES = 131_072
MAX_BYTES = 1 << 17  # of lines that are new: more are no text of a link
MIN_DIFFERENT = 5  # words but numbers, of MIN_WORDS that are new

T = TypeVar("T")


class UrlDeferral:
    """Learns which kinds are dry. It asks of a page whether it, or a link on it, is new."""

    def __init__(self, crawler: Crawler, settings: NearDupSettings, learner: Learner) -> None:
        self._learner = learner
        self.dry = learner.dry
        self._rules = make_rules(settings)
        self._found = make_queued_urls(settings)  # keys of all requests that pages gave
        self._depth_priority = crawler.settings.getint("DEPTH_PRIORITY")
        self._lowest = 0  # priority that the spider gave a request
        self._known = KnownLines()

    def found(self, page: CrawledPage, request: Request, key: bytes | None) -> None:
        """A page gave a request: it leads to its kind if that is new, and no copy by a rule."""
        self._lowest = min(self._lowest, self._given_priority(request))
        url = split(key) if key is not None else None
        if key is None or url is None:
            page.leads_on = True
            return
        request.meta[FOUND_ON] = self._kind_of_page(page)
        if not self._found.add(key):
            return
        twin = self._learner.twin(key)
        if twin is None or not is_spared(request, twin):
            page.leads_to = page.leads_to or Counter()
            page.leads_to[kind_of(url)] += 1

    def _given_priority(self, request: Request) -> int:
        """The priority that the spider gave a request, before DEPTH_PRIORITY lowered it."""
        return request.priority + self._depth_priority * int(request.meta.get("depth", 0))

    def page_settled(self, page: CrawledPage, failed: bool) -> None:
        """Nothing more can happen to a page's items."""
        kind = self._kind_of_page(page)
        url = self._asked_url(page) if kind and not failed else None
        if url is not None:
            is_new = self._says_something_new(page, kind)  # also where that is known already
            is_new = is_new or page.leads_on or bool(page.offered)
            self.dry.came(kind, group_of(url), is_new, page.leads_to or {})

    def _says_something_new(self, page: CrawledPage, kind: str) -> bool:
        decision = page.judged
        if decision is None or page.differing is not None or decision.kind == "undecided":
            return True
        if decision.kind == "too-short":
            # The months of a calendar without events have but a few, and so has what is not found.
            return self._known.add(hash((kind, outline(page.words, page.response.url))))
        if decision.kind in ("new", "contains"):
            return page.blocks is None or self._known.adds(page.words, page.blocks)
        return False

    def _kind_of_page(self, page: CrawledPage) -> str:
        if page.kind is None:  # asked for each link on it
            url = self._asked_url(page) if is_answer(page.response) else None
            page.kind = "" if url is None else kind_of(url)
        return page.kind

    def _asked_url(self, page: CrawledPage) -> KeyParts | None:
        """The URL that was asked for, which may have led to the page's own by redirects.

        Only requests for such URLs can be deferred, so theirs is the kind that a page speaks for.
        """
        asked = page.response.meta.get("redirect_urls")
        return split(url_key(asked[0], self._rules) if asked else page.key(self._rules))

    def why_to_wait(self, request: Request, key: bytes) -> list[str] | None:
        """Why a request had better wait: its kind, and that of its page; None for any other.

        Never one in which an item may be under way, nor one that would wait for requests to which
        the spider gave a lower priority.
        """
        url = split(key)
        if url is None or self._given_priority(request) > self._lowest:
            return None
        kind = kind_of(url)
        if not self.dry.is_dry(kind) or may_carry_an_item(request):
            return None
        return [DEFERRED + kind, DEFERRED + request.meta.get(FOUND_ON, "")]

    def probes(self, waiting: Reasons) -> Iterator[int]:
        """Lines of a few of the requests that wait, of each kind that has not ended.

        What pages of kinds that have not ended led to is made in any case: that has an end.
        """
        reasons = {
            (reason[0].removeprefix(DEFERRED), reason[-1].removeprefix(DEFERRED)): groups
            for reason, groups in waiting.items()
            if reason[0].startswith(DEFERRED) and any(group.places for group in groups.values())
        }
        self.dry.find_ended(lines_of(reasons))
        left = {r: groups for r, groups in reasons.items() if not self.dry.ended.issuperset(r)}
        open_ = {r: groups for r, groups in left.items() if not self.dry.is_read_through(r[0])}
        # What is read through waits for the rest: whether it ends depends on what leads to it.
        for (kind, found_on), groups in (open_ or left or reasons).items():
            is_probed = (kind, found_on) in open_ and self.dry.is_dry(kind)
            due_to = inf if left else self.dry.due_to(kind)
            yield from self._drawn(kind, due(groups, due_to), PROBES if is_probed else AT_ONCE)

    def _drawn(
        self, kind: str, groups: Mapping[str, list[WaitingPlace]], left: int
    ) -> Iterator[int]:
        """Lines of so many requests: half of them nearest to the start, the others at random.

        At random, as the bound asks for: what is found later may be better. The nearest, since what
        leads away for ever, as a calendar does, is new nearby if anywhere. First in groups that
        brought something new when they were last read, then in those of which nothing was read:
        so nobody ends a kind by pages of their own while another's wait.
        """
        for hope in (2, 1, 0):
            some = [
                nearest_and_drawn(places, 1 if hope == 1 else left)
                for name, places in groups.items()
                if self.dry.hope(kind, name) == hope
            ]
            drawn = nearest_and_drawn(list(chain.from_iterable(some)), left)
            left -= len(drawn)
            yield from (place.line for place in drawn)


def lines_of(reasons: Mapping[tuple[str, str], Mapping[str, Group]]) -> dict[str, LineSpan]:
    """Where the requests of each kind stand that wait."""
    lines: dict[str, LineSpan] = {}
    for (kind, _), groups in reasons.items():
        for places in (group.places for group in groups.values() if group.places):
            one = LineSpan(next(iter(places.values())).line, next(reversed(places.values())).line)
            oldest, newest = lines.get(kind, one)
            lines[kind] = LineSpan(min(oldest, one.oldest), max(newest, one.newest))
    return lines


def due(groups: Mapping[str, Group], line: float) -> dict[str, list[WaitingPlace]]:
    """By group, what stands no later in the file than a line."""
    return {
        name: [place for place in group.places.values() if place.line <= line]
        for name, group in groups.items()
    }


def drawn_of(some: Collection[T], n: int) -> list[T]:
    """At most n of them, at random."""
    return sample(list(some), min(n, len(some)))


def nearest_and_drawn(places: Collection[WaitingPlace], n: int) -> list[WaitingPlace]:
    """At most n places: half of them those nearest to the start, and others at random."""
    nearest = nsmallest((n + 1) // 2, places)
    return nearest + drawn_of(set(places).difference(nearest), n - len(nearest))


class KnownLines:
    """Hashes of lines that pages have had, with their numbers and without. The oldest are
    forgotten.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[int, None] = OrderedDict()

    def add(self, line: int) -> bool:
        """A page has a line; whether it is new."""
        if line in self._lines:
            return False
        self._lines[line] = None
        if len(self._lines) > MAX_LINES:
            self._lines.popitem(last=False)
        return True

    def adds(self, words: bytes, blocks: Blocks) -> bool:
        """A page has these lines; whether those that are new say something.

        Not where few words come again and again, as in the text of a link that grows: p=1&p=2&….
        """
        n_words, begin, new = 0, 0, []
        is_long = len(words) > MAX_BYTES  # to look for numbers in it would hold up the crawl
        columns = (blocks.hashes.tolist(), blocks.n_words.tolist(), blocks.ends.tolist())
        for line, n, end in zip(*columns, strict=True):
            said = words[begin:end]
            if self.add(line) and (is_long or self.add(hash(tuple(without_numbers(said))))):
                n_words += n
                new.append(said)
            begin = end
        if n_words < MIN_WORDS:
            return False
        all_new = b" ".join(new)
        return len(all_new) > MAX_BYTES or len(set(without_numbers(all_new))) >= MIN_DIFFERENT

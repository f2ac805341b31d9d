"""Requests of dry kinds wait until nothing else is left, and end where a trap would not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from itertools import chain
from random import sample
from typing import TypeVar

from scrapy.crawler import Crawler
from scrapy.http import Request

from scrapy_neardup.crawl.items import CrawledPage
from scrapy_neardup.crawl.url_learning import is_plain
from scrapy_neardup.detect.near import MIN_WORDS
from scrapy_neardup.detect.text import Blocks, without_numbers
from scrapy_neardup.factory import make_queued_urls, make_rules
from scrapy_neardup.learn.dry_kinds import DryKinds, group_of, kind_of
from scrapy_neardup.learn.url_parts import split
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.skipped import DEFERRED, Reasons

# Requests of a kind that are made whenever the crawl runs idle: while it is dry, and if not.
PROBES, AT_ONCE = 10, 100
MAX_LINES = 131_072
MAX_BYTES = 1 << 17  # of lines that are new: more are no text of a link
MIN_DIFFERENT = 5  # words but numbers, of MIN_WORDS that are new

T = TypeVar("T")


class UrlDeferral:
    """Learns which kinds are dry. It asks of a page whether it, or a link on it, is new."""

    def __init__(self, crawler: Crawler, settings: NearDupSettings, dry: DryKinds) -> None:
        self.dry = dry
        self._rules = make_rules(settings)
        self._found = make_queued_urls(settings)  # keys of all requests that pages gave
        self._depth_priority = crawler.settings.getint("DEPTH_PRIORITY")
        self._lowest = 0  # priority that the spider gave a request
        self._known = KnownLines()

    def found(self, page: CrawledPage, request: Request, key: bytes | None) -> None:
        """A page gave a request: it leads on if that is new, and no more of its own kind."""
        self._lowest = min(self._lowest, self._given_priority(request))
        url = split(key) if key is not None else None
        if key is None or url is None:
            page.leads_on = True
        elif self._found.add(key) and not page.leads_on:
            page.leads_on = kind_of(url) != self._kind_of_page(page)

    def _given_priority(self, request: Request) -> int:
        """The priority that the spider gave a request, before DEPTH_PRIORITY lowered it."""
        return request.priority + self._depth_priority * int(request.meta.get("depth", 0))

    def page_settled(self, page: CrawledPage, failed: bool) -> None:
        """Nothing more can happen to a page's items."""
        url = split(page.key(self._rules))
        if url is not None and not failed and is_plain(page.response):
            kind = kind_of(url)
            is_new = self._says_something_new(page, kind)  # also where that is known already
            self.dry.came(kind, group_of(url), page.leads_on or bool(page.offered) or is_new)

    def _says_something_new(self, page: CrawledPage, kind: str) -> bool:
        decision = page.judged
        if decision is None or page.differing is not None or decision.kind == "undecided":
            return True
        if decision.kind == "too-short":
            # The months of a calendar without events have but a few.
            return self._known.add(hash(f"{kind} {' '.join(without_numbers(page.words))}"))
        if decision.kind in ("new", "contains"):
            return page.blocks is None or self._known.adds(page.words, page.blocks)
        return False

    def _kind_of_page(self, page: CrawledPage) -> str | None:
        url = split(page.key(self._rules))
        return None if url is None else kind_of(url)

    def kind_to_wait(self, request: Request, key: bytes) -> str | None:
        """The kind of a request that had better wait; None for any other.

        Never one that would wait for requests to which the spider gave a lower priority.
        """
        url = split(key)
        if url is None or self._given_priority(request) > self._lowest:
            return None
        kind = kind_of(url)
        return kind if self.dry.is_dry(kind) else None

    def probes(self, waiting: Reasons) -> Iterator[int]:
        """Lines of a few of the requests that wait, of each kind that has not ended.

        Drawn at random, as the bound asks for: what is found later may be better. First in groups
        that brought something new when they were last read, then in those of which nothing was
        read: so nobody ends a kind by pages of their own while another's wait.
        """
        for (reason, *_), groups in waiting.items():
            kind = reason.removeprefix(DEFERRED)
            if kind == reason or self.dry.has_ended(kind):
                continue
            left = PROBES if self.dry.is_dry(kind) else AT_ONCE
            for hope in (2, 1, 0):
                lines = [
                    drawn_of(group.lines.values(), 1 if hope == 1 else left)
                    for name, group in groups.items()
                    if self.dry.hope(kind, name) == hope
                ]
                drawn = drawn_of(list(chain.from_iterable(lines)), left)
                left -= len(drawn)
                yield from drawn


def drawn_of(some: Collection[T], n: int) -> list[T]:
    """At most n of them, at random."""
    return sample(list(some), min(n, len(some)))


class KnownLines:
    """Hashes of lines that pages have had. The oldest are forgotten."""

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
        columns = (blocks.hashes.tolist(), blocks.n_words.tolist(), blocks.ends.tolist())
        for line, n, end in zip(*columns, strict=True):
            if self.add(line):
                n_words += n
                new.append(words[begin:end])
            begin = end
        if n_words < MIN_WORDS:
            return False
        said = b" ".join(new)
        return len(said) > MAX_BYTES or len(set(without_numbers(said))) >= MIN_DIFFERENT

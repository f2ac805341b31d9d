"""What a crawl learns about its URLs: judged pages in, rules kept in the state folder."""

from __future__ import annotations

import logging
import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.items.source_page import CrawledPage
from scrapy_neardup.crawl.requests.carrying import may_carry_an_item
from scrapy_neardup.detect.near import MIN_WORDS
from scrapy_neardup.errors import StateError
from scrapy_neardup.factory import make_rules
from scrapy_neardup.learn.changes import bare_host
from scrapy_neardup.learn.learner import MAX_HOSTS, NO_EVIDENCE, Judged, Learner, Twin
from scrapy_neardup.learn.rule import Standing
from scrapy_neardup.learn.stored_rules import FILE
from scrapy_neardup.own_files import set_aside
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.learnt_rules import load_rules, save_rules
from scrapy_neardup.urls.key import OWN_KEY, request_key, url_key
from scrapy_neardup.urls.request_fingerprinter import own_fingerprinter

if TYPE_CHECKING:
    from scrapy_neardup.fleet.worker import FleetWorker

MAX_ASIDE = 16_384  # pages, about 250 bytes each
BATCH = 64  # pages are learnt from at once: one at a time, processor caches are cold each time
ONE_IN = 4  # pages are learnt from where the last ones taught nothing
SHARE = 200  # of the thread's CPU learning gets one part in so many; putting aside takes as much
ONE_IN_OVER = 16  # pages are learnt from while it has taken more
EXCHANGE_INTERVAL_S = 5.0  # between messages to a fleet
BETWEEN_TOKENS = re.compile(r"[/?&=;]")
DIGIT = re.compile(r"\d")

logger = logging.getLogger(__name__)


class JudgedPage(NamedTuple):
    """A page that was judged, as it is put aside.

    host                   as of host_of()
    original, tells, size  as in Judged, but the original's URL
    callback               as of handler_of()
    """

    host: str
    url: str
    original: str | None
    tells: bool
    size: int
    callback: str = ""


class PutAside:
    """Pages of hosts on which no copy was met: without one there is nothing to learn.

    When one comes, its host's pages are learnt from in their order, many at a time.
    """

    def __init__(self) -> None:
        self._pages: deque[JudgedPage] = deque(maxlen=MAX_ASIDE)
        self._due: OrderedDict[str, deque[JudgedPage]] = OrderedDict()  # by host with copies

    def add(self, page: JudgedPage) -> list[JudgedPage]:
        """A page was judged; what is to be learnt from now, oldest first."""
        due = self._due.get(page.host)
        if due is None:
            self._pages.append(page)
            if page.original is None:
                return []
            due = self._begin(page.host)
        else:
            due.append(page)
        return [due.popleft() for _ in range(BATCH)] if len(due) >= BATCH else []

    def _begin(self, host: str) -> deque[JudgedPage]:
        due = self._due[host] = deque(page for page in self._pages if page.host == host)
        others = (page for page in self._pages if page.host != host)
        self._pages = deque(others, maxlen=MAX_ASIDE)
        if len(self._due) > MAX_HOSTS:
            self._due.popitem(last=False)
        return due

    def rest(self) -> Iterator[JudgedPage]:
        """All pages of hosts with copies that were not learnt from."""
        for due in self._due.values():
            while due:
                yield due.popleft()


class UrlLearning:
    """Tells a learner of each page that was judged, and keeps its rules.

    Where a project says itself which requests are the same, there is nothing to learn.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: NearDupSettings,
        folder: Path | None,
        key: int,
        learner: Learner,
    ) -> None:
        """folder: of the state, None where nothing is to be kept. key: its secret."""
        self.learner = learner
        self._rules = make_rules(settings)
        self.is_on = settings.learn != "off"
        if own_fingerprinter(crawler.request_fingerprinter) is not None:
            self.is_on = False
        self._min_words = max(settings.min_words, MIN_WORDS)
        self._put_aside = PutAside()
        self._spent_s = 0.0  # CPU, on watching
        self.n_pages = 0  # that could be learnt from
        self._folder = folder
        self._key = key

    # --- pages

    def page_settled(self, page: CrawledPage, failed: bool) -> None:
        """Nothing more can happen to a page's items."""
        if not self.is_on or failed or not is_plain(page.response):
            return
        settled = self._settled(page)
        if settled is None:
            return
        self.n_pages += 1
        if self.learner.acts:
            self._learn_from(settled)
        elif due := self._put_aside.add(settled):
            self._watch(due)

    def catch_up(self) -> None:
        """Learn from what was put aside on hosts with copies, before the rules are looked at."""
        self._watch(self._put_aside.rest())

    def _watch(self, pages: Iterable[JudgedPage]) -> None:
        """Learn from pages: from all of them, as long as that takes little of the crawl."""
        begun = thread_time()
        is_over = self._spent_s * SHARE > begun
        for page in pages:
            is_quiet = self.learner.is_quiet(page.host)
            one_in = ONE_IN_OVER if is_over else ONE_IN if is_quiet else 1
            if weight := weight_in_sample(page.url, one_in):
                self._learn_from(page, weight)
        self._spent_s += thread_time() - begun

    def _learn_from(self, page: JudgedPage, weight: int = 1) -> None:
        """weight: as in Judged."""
        original = None if page.original is None else url_key(page.original, self._rules)
        key = url_key(page.url, self._rules)
        judged = Judged(page.url, key, original, page.tells, page.size, weight, page.callback)
        self.learner.observe(judged)

    def _settled(self, page: CrawledPage) -> JudgedPage | None:
        """The page as evidence; None for one of which it is not known what it says."""
        decision, url = page.judged, page.response.url
        if decision is None or decision.kind in NO_EVIDENCE or decision.cold:
            return None
        original = None
        # A list that differs in an entry is another one: without items its text has to be the same.
        differs = page.differing is not None or (decision.kind == "near" and is_bare(page))
        if decision.is_duplicate and not differs:
            if page.applied is None or decision.original is None or not repeats(page):
                return None
            original = decision.original
        tells = decision.words >= self._min_words
        request = page.response.request
        callback = handler_of(request) if request and self.learner.acts else ""
        return JudgedPage(
            bare_host_of(url), url, original, tells, len(page.response.body), callback
        )

    def exchange(self, fleet: FleetWorker) -> None:
        """Tell the other workers of rules, and hear of theirs."""
        self.learner.hear(fleet.exchange_rules(self.learner.rules()))

    def key(self, request: Request) -> bytes:
        """The key of a request, as the learner has it."""
        return request_key(request, self._rules)

    # --- the state folder

    def restore(self) -> None:
        """Go on with the rules of the crawls before; without them, where the file is damaged."""
        if not self._is_kept():
            return
        assert self._folder is not None
        try:
            rules, dry = load_rules(self._folder, self._key)
            self.learner.restore(rules)
            self.learner.dry.restore(dry)
        except StateError as error:
            aside = set_aside(self._folder / FILE)
            logger.warning("neardup: %s; set aside as %s. Rules are learnt anew", error, aside.name)

    def save(self) -> None:
        """Keep the rules for later crawls. Raises OSError."""
        if self._folder is None or not self.is_on:
            return
        rules, dry = self.learner.rules(), self.learner.dry.kept()
        if rules or dry or self._is_kept():
            save_rules(self._folder, rules, dry, self._key)

    def _is_kept(self) -> bool:
        """Whether a crawl before left rules."""
        return self._folder is not None and self.is_on and (self._folder / FILE).exists()

    def gauges(self) -> dict[str, Any]:
        """How many rules there are, and what those that are trusted save."""
        if not self.is_on:
            return {}
        standings = [rule.standing for rule in self.learner.rules()]
        counted = {stats.LEARN_RULES.format(s.value): standings.count(s) for s in Standing}
        del counted[stats.LEARN_RULES.format(Standing.PROPOSED.value)]
        return counted | {
            stats.LEARN_OBSERVED: self.n_pages,
            stats.LEARN_WOULD_SAVE: 0 if self.learner.acts else self.learner.n_saved,
        }


def is_plain(response: Response) -> bool:
    """Whether a page is what a GET of its URL answers: not an error, not found by a redirect."""
    return is_answer(response) and "redirect_urls" not in response.meta


def is_answer(response: Response) -> bool:
    """Whether a page is what a GET of a URL leads to, by redirects or without; not an error."""
    request: Request | None = response.request
    if request is None or response.status != 200 or request.method != "GET" or request.body:
        return False
    return not (OWN_KEY in request.meta or request.meta.get("verbatim_url"))


def bare_host_of(url: str) -> str:
    """A URL's host, without `www.` and the like; "" of one that has none, as of `data:`."""
    return bare_host(url.partition("://")[2].partition("/")[0])


def handler_of(request: Request) -> str:
    """What of the spider gets the page: a method, and in a CrawlSpider one of its rules."""
    callback, rule = request.callback, request.meta.get("rule")
    name = "parse" if callback is None else getattr(callback, "__name__", "")
    return name if rule is None else f"{name} {rule}"


def is_spared(request: Request, twin: Twin) -> bool:
    """Whether a request that rules take for a copy may be skipped.

    Not where an item may be under way in it, nor where another callback would get its page, which
    may make of it what nobody made of the twin's.
    """
    return handler_of(request) == twin.callback and not may_carry_an_item(request)


def weight_in_sample(url: str, one_in: int) -> int:
    """How many pages a URL stands for in a sample of one in so many; 0 if it is not of it.

    It is drawn by its numbers and tokens, since only pairs teach: of two URLs that differ in one
    thing mostly both are of it, or none is. Nobody can tell from outside which are drawn.
    """
    if one_in == 1:
        return 1
    path = url.partition("://")[2].partition("/")[2]
    tokens = [token for token in BETWEEN_TOKENS.split(path) if DIGIT.search(token)] or [path]
    is_drawn = any(hash(token) % one_in == 0 for token in tokens)
    return max(1, one_in // len(tokens)) if is_drawn else 0


def is_bare(page: CrawledPage) -> bool:
    """Whether a page brought no item."""
    return not page.n_repeating and not page.offered


def repeats(page: CrawledPage) -> bool:
    """Whether every item of a copy was found to say nothing new, or there was none."""
    return not page.offered

"""What a crawl learns about its URLs: judged pages in, rules kept in the state folder."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.items import CrawledPage
from scrapy_neardup.detect.near import MIN_WORDS
from scrapy_neardup.errors import StateError
from scrapy_neardup.factory import make_rules
from scrapy_neardup.learn.learner import NO_EVIDENCE, Judged, Learner
from scrapy_neardup.learn.rule import Standing
from scrapy_neardup.learn.stored_rules import FILE
from scrapy_neardup.own_files import set_aside
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.learnt_rules import load_rules, save_rules
from scrapy_neardup.urls.key import OWN_KEY, url_key
from scrapy_neardup.urls.request_fingerprinter import own_fingerprinter

if TYPE_CHECKING:
    from scrapy_neardup.fleet.worker import FleetWorker

EXCHANGE_INTERVAL_S = 5.0  # between messages to a fleet

logger = logging.getLogger(__name__)


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
        self._folder = folder
        self._key = key

    # --- pages

    def page_settled(self, page: CrawledPage, failed: bool) -> None:
        """Nothing more can happen to a page's items."""
        if not self.is_on or failed or not is_plain(page.response):
            return
        judged = self._judged(page)
        if judged is not None:
            self.learner.observe(judged)

    def _judged(self, page: CrawledPage) -> Judged | None:
        """The page as evidence; None for one of which it is not known what it says."""
        decision, url = page.judged, page.response.url
        if decision is None or decision.kind in NO_EVIDENCE or decision.cold:
            return None
        original = None
        # A list that differs in an entry is another one: without items its text has to be the same.
        differs = page.differing is not None or (decision.kind == "near" and is_bare(page))
        if decision.is_duplicate and not differs:
            if page.decision is None or decision.original is None or not repeats(page):
                return None
            original = url_key(decision.original, self._rules)
        tells = decision.words >= self._min_words
        key = page.key(self._rules)
        return Judged(url, key, original, tells, len(page.response.body))

    def exchange(self, fleet: FleetWorker) -> None:
        """Tell the other workers of rules, and hear of theirs."""
        for rule in fleet.exchange_rules(self.learner.rules()):
            self.learner.hear(rule)

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
        rules, dry = self.learner.rules(), self.learner.dry.counts()
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
            stats.LEARN_OBSERVED: self.learner.n_seen,
            stats.LEARN_WOULD_SAVE: 0 if self.learner.acts else self.learner.n_saved,
        }


def is_plain(response: Response) -> bool:
    """Whether a page is what a GET of its URL answers: not an error, not found by a redirect."""
    request: Request | None = response.request
    if request is None or response.status != 200 or request.method != "GET" or request.body:
        return False
    meta = request.meta
    return not ("redirect_urls" in meta or OWN_KEY in meta or meta.get("verbatim_url"))


def is_bare(page: CrawledPage) -> bool:
    """Whether a page brought no item."""
    return not page.n_repeating and not page.offered


def repeats(page: CrawledPage) -> bool:
    """Whether every item of a copy was found to say nothing new, or there was none."""
    return not page.offered

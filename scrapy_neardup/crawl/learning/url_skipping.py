"""Requests that learnt rules skip (NEARDUP_LEARN = "act"), and how they are made after all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.http import Request, Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.delivery import Delivery
from scrapy_neardup.crawl.fail_open import Count, FailOpen
from scrapy_neardup.crawl.items.source_page import CrawledPage
from scrapy_neardup.crawl.learning.url_deferral import UrlDeferral, drawn_of
from scrapy_neardup.crawl.learning.url_learning import UrlLearning, is_spared
from scrapy_neardup.crawl.queues.request_json import (
    fields_for_json,
    request_from_json,
    request_to_json,
)
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.requests.request_tracker import RequestTracker, urls_of
from scrapy_neardup.learn.learner import Twin
from scrapy_neardup.state.skipped import DEFERRED, SkippedRequest, SkippedRequests

SYNC_INTERVAL_S = 1.0
AT_ONCE = 1000  # requests that are made when the crawl runs idle
MAX_VERIFIED = 3  # copies of one content that are downloaded though a rule would skip them
MAX_CONTENTS = 65_536
MAX_CHECKED = 20  # groups of URLs that one rule skipped, of which two are made before the end


class RequestSkipped(IgnoreRequest):
    """A request that was not made, and is kept by name: its page was not fetched.

    A learnt rule takes it for a copy, or its kind of URL has stopped bringing anything new.
    """


class UrlSkipping:
    """Skips what trusted rules take for copies, and keeps each request by name.

    A request in which an item may be under way is always made.

    When the crawl has nothing else to do, requests are made that a rule skipped which a page has
    contradicted since, in this crawl or an earlier one, then a few of those that wait because their
    kind is dry, and at last a few that trusted rules skipped. A crawl that was stopped leaves them
    to the next.
    """

    def __init__(
        self,
        crawler: Crawler,
        learning: UrlLearning,
        deferral: UrlDeferral,
        skipped: SkippedRequests,
        acts: bool,
        requests: RequestTracker,
        recorder: Recorder,
        delivery: Delivery,
        attempt: FailOpen,
        count: Count,
    ) -> None:
        """acts: whether anything is skipped; if not, what was skipped earlier may be made."""
        self._crawler = crawler
        self._learning = learning
        self._learner = learning.learner
        self.deferral = deferral
        self._skipped = skipped
        self.acts = acts
        self._requests = requests
        self._recorder = recorder
        self._delivery = delivery
        self._attempt = attempt
        self._count = count
        self._batch = object()  # of requests that no disk is sure to hold
        self._saved: set[int] = set()  # hashes of URLs that rules skipped in this run and not made
        self._made: set[str] = set()  # URLs given back in this run
        self._wanted: set[str] = set()  # by a person, and fetched in this run
        self._n_verified: Counter[int] = Counter()  # copies downloaded, by hash of their twin's URL
        self.n_deferred = 0  # requests of this crawl that wait
        crawler.signals.connect(self.idle, signal=signals.spider_idle)

    # --- skipping

    def reason_to_skip(self, request: Request, key: bytes) -> RequestSkipped | None:
        """What the request is told where it is skipped; it is kept by name and counted then."""
        if not self.acts or request.url in self._made or self._recorder.wants(request.url):
            return None
        twin = self._attempt("learn", self._learner.twin, key)
        if twin is not None:
            return self._skips_copy(request, key, twin)
        why = self._attempt("learn", self.deferral.why_to_wait, request, key)
        if why is None or not self._attempt("learn", self._keep, request, "", why):
            return None
        self.n_deferred += 1
        self._recorder.url_deferred(request)
        kind = why[0].removeprefix(DEFERRED)
        return RequestSkipped(f"waits, for {kind} has stopped bringing anything new: {request.url}")

    def _skips_copy(self, request: Request, key: bytes, twin: Twin) -> RequestSkipped | None:
        if not is_spared(request, twin) or self._is_verified(key, twin):
            return None
        names = [rule.name for rule in twin.rules]
        if not self._attempt("learn", self._keep, request, twin.url, names):
            return None
        self._tell_skipped(request, twin)
        return RequestSkipped(f"a copy of {twin.url}, says a learnt rule: {request.url}")

    def _is_verified(self, key: bytes, twin: Twin) -> bool:
        """Whether a copy is downloaded all the same.

        A few times for each content: where links on copies are copies, a share of them all would
        have no end.
        """
        content = hash(twin.url)
        if not self._learner.is_verified(key) or self._n_verified[content] >= MAX_VERIFIED:
            return False
        self._n_verified[content] += 1
        if len(self._n_verified) > MAX_CONTENTS:
            del self._n_verified[next(iter(self._n_verified))]
        self._count(stats.LEARN_VERIFIED)
        return True

    def _tell_skipped(self, request: Request, twin: Twin) -> None:
        self._learner.saved(twin, 0)
        self._saved.add(hash(request.url))
        self._count(stats.LEARN_SKIPPED)
        self._recorder.url_dropped(request, twin.url)

    def _keep(self, request: Request, twin: str, why: list[str]) -> bool:
        fields = as_json(request, self._crawler.spider)
        if fields is None:
            return False
        self._skipped.add(SkippedRequest(request.url, twin, why, fields))
        # The page on which it was found is not done before the disk holds it.
        self._delivery.hold(self._batch)
        return True

    @property
    def n_saved(self) -> int:
        """Downloads that rules saved in this run, and that were not made after all."""
        return len(self._saved)

    @property
    def n_foreign(self) -> int:
        """Lines of the list that nobody with the folder's key wrote."""
        return self._skipped.n_foreign

    def sync(self) -> None:
        """To be called every second, and at the end. Raises OSError."""
        self._skipped.sync()
        batch, self._batch = self._batch, object()
        self._delivery.stored(batch)

    def found(self, page: CrawledPage, request: Request, key: bytes | None) -> None:
        """A page gave a request."""
        self._attempt("learn", self.deferral.found, page, request, key)

    def page_settled(self, page: CrawledPage, failed: bool) -> None:
        """Nothing more can happen to a page's items."""
        if not self.acts:
            return
        # What a person wants is kept in any case, and says nothing of others of its kind.
        url = page.response.url
        if not (self._recorder.wants(url) or url in self._wanted):
            self._attempt("learn", self.deferral.page_settled, page, failed)

    # --- giving back

    def as_skipped(self, url: str) -> Request | None:
        """The request for a URL with all that it had when it was skipped, made anew.

        None where none was, or its spider has no such callback any more.
        """
        skipped = self._attempt("learn", self._skipped.of_url, url)
        return skipped and self._attempt("learn", self._request, skipped)

    def of_page(self, response: Response) -> list[str]:
        """The URLs of a response that were given back, or that a person wants."""
        if not self._made:
            return self._recorder.wanted(response)
        wants = self._recorder.wants
        return [url for url in urls_of(response) if url in self._made or wants(url)]

    def page_done(self, urls: list[str]) -> None:
        """The page of URLs that were given back is done. Raises OSError."""
        for url in urls if self._skipped else ():
            if url not in self._made:  # links to what a person wanted do not wait again
                self._wanted.add(url)
                self._made.add(url)
            self._skipped.fetched(url)

    def idle(self) -> None:
        """The crawl has nothing to do. Raises DontCloseSpider where there is something."""
        if self._attempt("learn", self._give_back):
            raise DontCloseSpider

    def _give_back(self) -> int:
        if not self._learning.is_on or not self._skipped:
            return 0
        trusted = {rule.name for rule in self._learner.rules() if rule.acts}
        reasons = self._skipped.reasons()
        waits = {rule for reason in reasons for rule in reason if rule.startswith(DEFERRED)}
        found = list(islice(self._skipped.to_make(trusted | waits), AT_ONCE))
        found = found or self._read(self.deferral.probes(reasons))
        counted = stats.LEARN_GIVEN_BACK
        if not found and self.acts:
            found, counted = self._read(self._checks()), stats.LEARN_VERIFIED
        for one in found:
            self._attempt("learn", self._make_or_skip, one, counted)
            # Also where that failed, as without its callback: else it is found again for ever.
            self._skipped.taken(one)
        return len(found)

    def _checks(self) -> Iterator[int]:
        """Lines of a few requests that acting rules skipped: of each group of URLs two.

        The newest, in case the site has changed its mind, and another.
        """
        for reason, groups in self._skipped.reasons().items():
            if reason[0].startswith(DEFERRED):
                continue
            unchecked = [group for group in groups.values() if group.is_to_check]
            for group in drawn_of(unchecked, MAX_CHECKED):
                *others, newest = group.places.values()
                yield from (place.line for place in (newest, *drawn_of(others, 1)))
            for group in unchecked:
                group.checked()

    def _read(self, lines: Iterator[int]) -> list[SkippedRequest]:
        return list(filter(None, map(self._skipped.at, list(lines))))

    def _make_or_skip(self, skipped: SkippedRequest, counted: str) -> None:
        request = self._request(skipped)
        if not skipped.rules[0].startswith(DEFERRED):
            self._count(counted)
            self._learner.not_saved(skipped.rules)
            self._saved.discard(hash(skipped.url))
        else:
            self.n_deferred = max(0, self.n_deferred - 1)
            if self.acts and self._is_copy(skipped, request):
                return
        self._make(skipped, request)

    def _request(self, skipped: SkippedRequest) -> Request:
        assert self._crawler.spider
        return request_from_json(json.dumps(skipped.request).encode(), self._crawler.spider)

    def _is_copy(self, waited: SkippedRequest, request: Request) -> bool:
        """Whether a rule, which was not trusted yet when a request was deferred, skips it now."""
        key = self._learning.key(request)
        twin = self._learner.twin(key)
        if twin is None or not is_spared(request, twin) or self._is_verified(key, twin):
            return False
        skipped = waited._replace(twin=twin.url, rules=[rule.name for rule in twin.rules])
        if not self._attempt("learn", self._skipped.replace, waited, skipped):
            return False
        self._tell_skipped(request, twin)
        return True

    def _make(self, skipped: SkippedRequest, request: Request) -> None:
        self._made.add(skipped.url)
        self._requests.started(request)
        # After the tracker took down what the spider wants: a dupefilter knows the request, which
        # was queued before it was skipped.
        request.dont_filter = True
        assert self._crawler.engine
        self._crawler.engine.crawl(request)


def as_json(request: Request, spider: Spider | None) -> dict[str, Any] | None:
    """The fields of a request; None where JSON cannot hold them all: it had better be made."""
    try:
        fields: dict[str, Any] = json.loads(request_to_json(fields_for_json(request, spider)))
    except ValueError:
        return None
    return fields

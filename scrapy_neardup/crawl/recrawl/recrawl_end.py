"""What a crawl of known URLs says at its end: which pages left; whether the site is in order."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from scrapy.crawler import Crawler

from scrapy_neardup import stats
from scrapy_neardup.crawl.counts import Counts
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.recrawl.conditional import ConditionalRequests
from scrapy_neardup.crawl.recrawl.visit_comparison import VisitComparison
from scrapy_neardup.crawl.recrawl.visit_items import gave_items
from scrapy_neardup.ledger.schema import Entry, EntryKind
from scrapy_neardup.state.visit import Departure
from scrapy_neardup.state.visit_file import Status
from scrapy_neardup.state.visits import Visits, seem_out_of_order

if TYPE_CHECKING:
    from scrapy_neardup.crawl.pages.judge import PageJudge

logger = logging.getLogger(__name__)

MANY_CHANGED = 20  # pages that must differ in one field only before it is named


class RecrawlEnd:
    """Makes what a crawl found of known pages count for the next one, or takes it back."""

    def __init__(
        self,
        visits: Visits,
        crawler: Crawler,
        judge: PageJudge,
        recorder: Recorder,
        comparison: VisitComparison,
        conditions: ConditionalRequests,
        count: Counts,
        passes_all: bool,
    ) -> None:
        self._visits = visits
        self._crawler = crawler
        self._judge = judge
        self._recorder = recorder
        self._comparison = comparison
        self._conditions = conditions
        self._count = count
        self._passes_all = passes_all

    def conclude(self, reason: str, misses_links: bool) -> None:
        """The crawl ended for a reason, and no other goes on with its queue.

        misses_links: whether a page that may hold links could not be read.
        """
        visits, ended = self._visits, reason == "finished"
        if ended and not (visits.goes_on or visits.is_shared):
            self._conditions.ended()
        visits.flush()
        tells, limit = self._read_all_links(misses_links), self._depth_limit()
        departures = visits.departures(tells, limit) if ended else []
        n_gone = sum(one.target is None for one in departures)
        if not self._passes_all and self._is_outage(n_gone):
            visits.revert(gave_items)
            self._judge.echoes.forget_crawl()
        else:
            minor = self._comparison.minor()
            visits.minor([(one.key, one.callback, one.url) for one in minor])
            visits.conclude(departures)
            self._depart(departures)
            visits.set_learnt(self._comparison.noise.pack())
            self._judge.echoes.conclude()
            self._record(departures)
        visits.end(reason)
        self._advise()

    def _advise(self) -> None:
        """Name a field that makes most pages changed: it may differ at every visit."""
        n_compared = self._comparison.n_compared
        for name, n in self._comparison.only_fields.most_common(1):
            if name and n >= MANY_CHANGED and 2 * n > n_compared:
                logger.info(
                    "neardup: of %d known pages %d are changed for their field %r alone. If it "
                    "differs at every visit, whatever the page says, leave it out: "
                    "NEARDUP_IGNORE_FIELDS = [%r]",
                    *(n_compared, n, name, name),
                )

    def _depart(self, departures: list[Departure]) -> None:
        """No page is a copy of one that left; where another has its items, of that one."""
        for one in departures:
            if one.heir is not None and one.target is not None:
                self._judge.move(one.url, one.target)
            else:
                self._judge.forget(one.url)

    def _read_all_links(self, misses_links: bool) -> bool:
        """Whether links tell what is gone: every page of links that the crawl came to was read.

        Of a fleet, as far as this worker came to them.
        """
        assert self._crawler.stats
        n_failed = self._crawler.stats.get_value(stats.ERRORS.format("recrawl"), 0)
        return not misses_links and not n_failed  # a link may be among what failed

    def _depth_limit(self) -> int:
        """The depth at which links were not followed; 0 if none was reached."""
        limit = self._crawler.settings.getint("DEPTH_LIMIT")
        assert self._crawler.stats
        reached = self._crawler.stats.get_value("request_depth_max", 0)
        return limit if limit and reached >= limit else 0

    def _is_outage(self, n_gone: int) -> bool:
        """Whether the site seems out of order; said, and counted."""
        n_known = self._visits.n_known()
        if self._comparison.is_out_of_order():
            what = "became the same page"
        elif seem_out_of_order(n_gone, n_known):
            what = "are gone"
        else:
            return False
        self._count(stats.RECRAWL_REVERTED)
        logger.warning(
            "neardup: most known pages %s: the site seems out of order. Nothing counts as changed, "
            "gone or moved, and the next crawl compares with what was there before; pages whose "
            "items have passed pass once more. If the site is as it should be, crawl once with "
            "NEARDUP_RECRAWL='all'%s",
            *(what, self._if_urls_are_new()),
        )
        return True

    def _if_urls_are_new(self) -> str:
        """What to make of it where most pages that were read are new."""
        counts = self._visits.counts()
        if 2 * counts.get(Status.NEW, 0) <= sum(counts.values()):
            return ""
        return (
            ". Most pages that were read are new: if URLs of this site are others in every crawl, "
            "as by a cursor or a token in them, that will not help, and none of its pages is ever "
            "called gone. Make requests by a URL that stays, or leave the parameter out by "
            "NEARDUP_URL_IGNORE_PARAMS if it does not tell pages apart"
        )

    def _record(self, departures: list[Departure]) -> None:
        ledger = self._recorder.ledger
        if ledger is None:
            return
        for one in departures:
            kind: EntryKind = "gone" if one.target is None else "moved"
            ledger.record(Entry(one.url, kind, "counted", one.target))


def in_words(
    counts: Counter[Status] | dict[Status, int],
    n_trusted: int = 0,
    n_not_due: int = 0,
    n_unfinished: int = 0,
) -> str:
    """One line for the person who runs the crawl."""
    n = {status: counts.get(status, 0) for status in Status}
    same = n[Status.UNCHANGED] + n[Status.MINOR]
    return (
        f"{sum(n.values()):,} pages: {n[Status.NEW]:,} new, {n[Status.CHANGED]:,} changed, "
        f"{n[Status.GONE]:,} gone, {n[Status.MOVED]:,} moved, {same:,} unchanged "
        f"({n_trusted:,} not downloaded, {n[Status.MINOR]:,} but for what varies at every visit)"
        + f", {n_not_due:,} not due" * bool(n_not_due)
        + f", {n_unfinished:,} more to be read again" * bool(n_unfinished)
    )

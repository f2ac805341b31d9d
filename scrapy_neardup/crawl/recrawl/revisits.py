"""Which known pages are due (NEARDUP_REVISIT), by how often they and pages alike changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from lxml import etree
from scrapy.http import Response

from scrapy_neardup.crawl.recrawl.conditional import authority_of
from scrapy_neardup.detect.sites import site_of
from scrapy_neardup.factory import DAY_S, make_queued_urls, make_rules
from scrapy_neardup.learn.change_rates import History, change_rate, interval
from scrapy_neardup.learn.url_parts import cut
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.visit import Hint, HostRecord, Visit, key_of
from scrapy_neardup.state.visits import Visits
from scrapy_neardup.urls.key import url_key

MAX_SHAPES = 16_384  # of which it is known how often their pages change
MAX_HINTS = 50_000  # of one sitemap, as the protocol has it
MAX_TAGS = 600_000  # of one: each URL has five elements at most, twice
FEW_VISITS = 10  # of pages alike: below, a sitemap's changefreq says more
RELIABLE, ENOUGH = 0.9, 5  # share of a host's dates that were right, of so many at least
HUB_PRIORITY = 1  # added to requests for pages that brought new links
FREQUENCIES_S = {
    "always": 0,
    "hourly": 3600,
    "daily": DAY_S,
    "weekly": 7 * DAY_S,
    "monthly": 30 * DAY_S,
    "yearly": 365 * DAY_S,
    "never": 3650 * DAY_S,
}


class Revisits:
    """Estimates how often pages change, and says which are due."""

    def __init__(
        self, settings: NearDupSettings, visits: Visits, servers: dict[str, HostRecord]
    ) -> None:
        """servers: what is known of each host, shared with ConditionalRequests."""
        self._visits = visits
        self._rules = make_rules(settings)
        self._min_s, self._max_s = settings.revisit_min * DAY_S, settings.revisit_max * DAY_S
        self._shapes = visits.shapes()
        self._servers = servers
        self._found = make_queued_urls(settings)  # keys of all that pages led to

    # --- before a download

    def is_due(self, visit: Visit) -> bool:
        """Whether a page that was read in an earlier run is to be fetched in this one."""
        now = time.time()
        if visit.time > now:  # the clock was ahead then, or is behind now
            return True
        hint = self._visits.hint(visit.key)
        if hint is not None and hint.modified is not None and hint.modified <= now + DAY_S:
            server = self._servers.get(authority_of(visit.url), HostRecord())
            n_dates = server.n_dates_right + server.n_dates_wrong
            trust = (server.n_dates_right + 1) / (n_dates + 2)
            if hint.modified > visit.time and trust >= 1 / 2:
                return True
            if hint.modified <= visit.time and trust >= RELIABLE and n_dates >= ENOUGH:
                return now >= visit.time + self._max_s
        return now >= visit.time + self._interval(visit, hint)

    def _interval(self, visit: Visit, hint: Hint | None) -> float:
        alike = self._shapes.get(self._shape(visit.url), History())
        if hint is not None and hint.period is not None and alike.n_visits < FEW_VISITS:
            return max(self._min_s, min(self._max_s, hint.period))
        seconds = min(max(0.0, visit.time - visit.since), visit.n_visits * self._max_s)
        page = History(visit.n_visits, visit.n_changes, seconds)
        rate = change_rate(page, alike)
        return self._min_s if rate is None else interval(rate, self._min_s, self._max_s)

    def _shape(self, url: str) -> str:
        parts = cut(url_key(url, self._rules))
        return authority_of(url) if parts is None else parts.shape

    def is_hub(self, key: bytes) -> bool:
        """Whether a page brought new links when it was read last."""
        return bool(self._visits.n_new(key))

    def is_new(self, url_key: bytes) -> bool:
        """Whether no visit is known of a page, and nothing else in this run led to it."""
        is_first = bool(self._found.add(url_key))
        return is_first and self._visits.n_new(key_of(url_key)) is None

    # --- after it

    def compared(self, visit: Visit, earlier: Visit, changed: bool) -> Visit:
        """The row of a page that was compared with its earlier self, of an earlier run."""
        # Nobody was to wait longer: if the clock had not jumped, nothing was seen of the rest.
        seconds = min(visit.time - earlier.time, self._max_s)
        if seconds > 0:
            shape = self._shape(visit.url)
            if shape in self._shapes or len(self._shapes) < MAX_SHAPES:
                known = self._shapes.get(shape, History()).plus(changed, seconds)
                self._shapes[shape] = known
                self._visits.put_shape(shape, known)
            visit = visit._replace(
                n_visits=earlier.n_visits + 1, n_changes=earlier.n_changes + changed
            )
        # A clock that jumped has left no time between; the page begins anew.
        since = earlier.since if 0 < earlier.since <= earlier.time < visit.time else visit.time
        visit = visit._replace(since=since)
        return self.scheduled(visit)

    def scheduled(self, visit: Visit) -> Visit:
        """The row of a page with the time when it is due."""
        hint = self._visits.hint(visit.key)
        return visit._replace(due=visit.time + self._interval(visit, hint))

    def judge_dates(self, earlier: Visit, changed: bool) -> None:
        """A page was read of which a sitemap may have said whether it changed."""
        hint = self._visits.hint(earlier.key)
        if hint is None or hint.modified is None:
            return
        said = hint.modified > earlier.time
        if said or changed:
            host = authority_of(earlier.url)
            known = self._servers.get(host, HostRecord())
            found = known._replace(
                n_dates_right=known.n_dates_right + (said and changed),
                n_dates_wrong=known.n_dates_wrong + (said != changed),
            )
            self._servers[host] = found
            self._visits.put_server(host, found)


def is_sitemap(response: Response) -> bool:
    """Whether a response is one, of no more tags than the protocol's 50,000 URLs have."""
    return b"<urlset" in response.body[:1000] and response.body.count(b"<") <= MAX_TAGS


def hints_of(response: Response) -> Iterator[tuple[str, Hint]]:
    """What a sitemap says of URLs of its own site; safe in any thread."""
    site = site_of(response.url)
    for entry in islice(_entries(response.body), MAX_HINTS):
        hint = Hint(_moment(entry.get("lastmod")), _period(entry.get("changefreq")))
        url = entry.get("loc", "")
        # Of another site's pages it could say that they never change, so that nobody looks.
        if url.startswith("http") and (hint.modified or hint.period) and site_of(url) == site:
            yield url, hint


def _entries(body: bytes) -> Iterator[dict[str, str]]:
    """The texts of each URL's elements. Not scrapy's Sitemap, which lists all nodes in one call."""
    parser = etree.XMLParser(recover=True, remove_comments=True, resolve_entities=False)
    try:
        root = etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError):
        return
    if root is None or etree.QName(root).localname != "urlset":  # a page with text that is one
        return
    for url in root.iterchildren(etree.Element):
        parts = url.iterchildren(etree.Element)
        yield {etree.QName(part).localname: (part.text or "").strip() for part in parts}


def _moment(text: Any) -> float | None:
    """A W3C date as seconds since 1970: of a day its end, since it may have changed until then."""
    try:
        moment = datetime.fromisoformat(str(text).strip())
        if len(str(text).strip()) <= len("2026-05-02"):
            moment += timedelta(days=1)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _period(text: Any) -> float | None:
    return FREQUENCIES_S.get(str(text).strip().lower())

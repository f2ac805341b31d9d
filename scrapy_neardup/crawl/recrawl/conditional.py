"""Conditional requests: servers are asked for known pages only if they changed (RFC 9110, 13)."""

from __future__ import annotations

import logging
import random
import re
from collections import Counter
from datetime import UTC, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from scrapy.crawler import Crawler
from scrapy.http import Request, Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.fail_open import Count
from scrapy_neardup.crawl.recrawl.stored_requests import handed_on, urls_stored
from scrapy_neardup.crawl.requests.inline_downloads import is_inline
from scrapy_neardup.crawl.requests.request_tracker import is_cut_off
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.visit import HostRecord, Visit
from scrapy_neardup.state.visit_file import Status
from scrapy_neardup.state.visits import Visits

logger = logging.getLogger(__name__)

# Flags of a response that may lack its end though nobody knows, or is not what the server says now.
UNSURE = frozenset({"partial", "cached"})
READ_SHARE = 0.05  # of pages that a host could be asked about: they are read all the same
MAX_TRUSTED = 20  # visits in a row at which a server's word is taken
MISMATCHES = 5  # unchanged pages in a row with other validators, until a host is not asked
FAILURES = 5  # in a row in a run, until a host is asked no more in it
MAX_HOSTS = 10_000  # of which it is known how far they were right; others are not asked
MAX_VALIDATOR = 256  # bytes
# An entity tag as RFC 9110 writes it. "" is one, but some servers send it for everything.
ETAG = re.compile(rb'(?:W/)?"[\x21\x23-\x7e\x80-\xff]+"')
# A page may change twice in one second; by then a date is taken for settled (RFC 9110, 8.8.2.2).
SETTLED_S = 60
# By how much the date of a test is earlier than the page's: versions that go back do so by less.
LONG_BEFORE = timedelta(days=365)
# Requests that have one of these ask for something of their own.
OWN_CONDITIONS = ("If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "Range")
GONE = (404, 410)
ALWAYS_READ = "/"  # before a host, of which no page may be left unread, for reasons of the spider
OF_SPIDER = ""  # in place of a host: the spider's pages depend on more than they say
# In meta, which a request keeps through redirects and retries: what has been asked in it.
ASKED = "neardup_asked"
TESTED = "neardup_tested"  # by what no version of the page had: an honest server sends it
IN_FULL = "neardup_in_full"


class Validators(NamedTuple):
    """By what a server may be asked whether a page is the same; neither, where it gave none."""

    etag: bytes | None
    modified: bytes | None

    @classmethod
    def of(cls, response: Response) -> Validators:
        """Those of a response that can be relied on; a later one must be sent as it came."""
        if response.status != 200 or is_cut_off(response) or UNSURE & set(response.flags):
            return cls(None, None)
        return cls(_etag(response), _modified(response))

    def never_given(self) -> Validators:
        """Such as the server that gave these can never have given their page."""
        if self.etag is not None:
            return Validators(f'"{random.getrandbits(64):016x}"'.encode(), None)
        assert self.modified is not None
        earlier = parsedate_to_datetime(self.modified.decode("ascii")) - LONG_BEFORE
        return Validators(None, format_datetime(earlier.astimezone(UTC), usegmt=True).encode())

    def are_those_of(self, visit: Visit) -> bool:
        """Whether a server that was asked about a visit would have said: the same."""
        if visit.etag is not None:
            return self.etag is not None and _weak(self.etag) == _weak(visit.etag)
        return visit.modified is not None and self.modified == visit.modified


def _etag(response: Response) -> bytes | None:
    tags = response.headers.getlist("ETag")
    if len(tags) != 1 or len(tags[0]) > MAX_VALIDATOR:
        return None
    return bytes(tags[0]) if ETAG.fullmatch(tags[0]) else None


def _weak(tag: bytes) -> bytes:
    return tag.removeprefix(b"W/")


def _modified(response: Response) -> bytes | None:
    """Last-Modified, where the server's own clock says that it is past and settled."""
    dates = response.headers.getlist("Last-Modified")
    now = response.headers.get("Date")
    if len(dates) != 1 or now is None or max(len(dates[0]), len(now)) > MAX_VALIDATOR:
        return None
    try:
        modified, at = (parsedate_to_datetime(text.decode("ascii")) for text in (dates[0], now))
        is_settled = (at - modified).total_seconds() >= SETTLED_S
    except (ValueError, TypeError, OverflowError):  # TypeError: only one of them has a zone
        return None
    return bytes(dates[0]) if is_settled else None


class ConditionalRequests:
    """Which requests ask for a page only if it changed, and which hosts answer that truly.

    A page is read all the same where what its callback yielded is not stored, or may be another
    by now (program.py); at the first of a host's pages in a run, and at a few chosen at random.
    Those are asked for by validators that they never had. If a server says 304 all the same, or if
    one had changed under the same validator, or yields other requests, the host is not asked again.
    """

    def __init__(
        self,
        settings: NearDupSettings,
        visits: Visits,
        servers: dict[str, HostRecord],
        crawler: Crawler,
        count: Count,
    ) -> None:
        """servers: what is known of each host, shared with Revisits."""
        self._visits = visits
        self._crawler = crawler
        self._count = count
        drops = settings.recrawl == "changed" and settings.action == "drop"
        # The cache has the page itself, and asks the server on its own account.
        self._asks = drops and not crawler.settings.getbool("HTTPCACHE_ENABLED")
        self._servers = servers
        # While no callback has downloaded inline, pages are read so that the next crawl may ask.
        self._has_inline = False
        self._had_inline = servers.get(OF_SPIDER, HostRecord()).n_refuted > 0
        self._checked: set[str] = set()  # hosts of which a page is read in full in this run
        # Hosts and callbacks of which a page handed on in this run what it had handed on before.
        self._hand_on_the_same: set[tuple[str, str]] = set()
        self._n_trusted: Counter[str] = Counter()  # host → pages of this run
        self._n_failed: Counter[str] = Counter()  # host → answers in a row that were none

    @property
    def ask_any(self) -> bool:
        """Whether a server may be asked, now or by the next crawl: validators are worth it."""
        return self._asks and not self._has_inline

    def bypassed(self, request: Request) -> None:
        """A request is made that no callback yielded: perhaps of something that its page's items
        say, of which no server tells us.
        """
        if not self.ask_any or not is_inline(request, self._crawler):
            return
        self._has_inline = True
        if not self._had_inline:
            self._visits.put_server(OF_SPIDER, HostRecord(n_refuted=1))
            logger.info(
                "neardup: callbacks of this spider download inline, so that its pages depend on "
                "more than their own server can tell: all are read in full, until a whole crawl "
                "goes by in which none does"
            )

    def ended(self) -> None:
        """A whole crawl is over: if every page was read, and none downloaded inline, ask again."""
        if self._had_inline and self.ask_any:
            self._visits.put_server(OF_SPIDER, HostRecord())

    # --- requests

    def withdraw(self, request: Request) -> None:
        """Take our conditions out of a request that was redirected or is made once more."""
        if ASKED in request.meta:
            for name in (ASKED, TESTED):
                request.meta.pop(name, None)
            for name in OWN_CONDITIONS[:2]:
                request.headers.pop(name, None)

    def ask(self, request: Request, visit: Visit) -> None:
        """Let a request for a page that was read in an earlier run ask whether it changed.

        By its tag alone, if it has one: some servers take a page for unchanged if its tag or its
        date is the same, and many dates are those of a file that all pages are made by.
        """
        if not (visit.etag or visit.modified) or not self._may_ask(request, visit):
            return
        by = Validators(visit.etag, visit.modified)
        if self._is_to_be_read(visit):
            request.meta[TESTED] = True
            by = by.never_given()
        else:
            self._count(stats.RECRAWL_ASKED)
        request.meta[ASKED] = True
        if by.etag is not None:
            request.headers["If-None-Match"] = by.etag
        elif by.modified is not None:
            request.headers["If-Modified-Since"] = by.modified

    def _may_ask(self, request: Request, visit: Visit) -> bool:
        if not self.ask_any or self._had_inline or request.method != "GET" or request.body:
            return False
        if any(name in request.headers for name in OWN_CONDITIONS) or self._is_expected(request):
            return False
        if request.meta.get(IN_FULL) or request.meta.get("retry_times"):
            return False  # what is made once more may have failed by what we asked
        host = authority_of(visit.url)
        return self.believes(host) and self._n_failed[host] < FAILURES

    def _is_to_be_read(self, visit: Visit) -> bool:
        """Whether a page is read to see how far its host is right."""
        host = authority_of(visit.url)
        if host not in self._checked:
            self._checked.add(host)
            return True
        return visit.trusted >= MAX_TRUSTED or random.random() < READ_SHARE  # noqa: S311

    def _is_expected(self, request: Request) -> bool:
        """Whether the spider handles 304 itself."""
        meta, settings = request.meta, self._crawler.settings
        if meta.get("handle_httpstatus_all") or settings.getbool("HTTPERROR_ALLOW_ALL"):
            return True
        listed = [
            *meta.get("handle_httpstatus_list", ()),
            *getattr(self._crawler.spider, "handle_httpstatus_list", ()),
            *settings.getlist("HTTPERROR_ALLOWED_CODES"),
        ]
        return any(str(code) == "304" for code in listed)

    def believes(self, host: str) -> bool:
        """Whether a host's validators were right, as far as is known."""
        known = self._servers.get(host)
        if known is None:
            return len(self._servers) < MAX_HOSTS
        return not known.n_refuted and known.n_mismatched < MISMATCHES

    def never_leave_unread(self, url: str, why: str) -> None:
        """Read all pages of a URL's host from now on. why: for the log."""
        host = authority_of(url)
        if not self.is_always_read(host):
            self._servers[ALWAYS_READ + host] = HostRecord(n_refuted=1)
            self._visits.put_server(ALWAYS_READ + host, HostRecord(n_refuted=1))
            logger.warning("neardup: pages of %s are read in full from now on: %s", host, why)

    def is_always_read(self, host: str) -> bool:
        """Whether never_leave_unread() was called for a host."""
        return ALWAYS_READ + host in self._servers

    def hands_on_the_same(self, visit: Visit) -> bool:
        """Whether a page's requests may be made again with what its callback handed on then.

        That may be the day of the crawl. So pages of a host's callback that hand on anything are
        read until one of them, unchanged, has handed on the same again in this run.
        """
        if (authority_of(visit.url), visit.callback) in self._hand_on_the_same:
            return True
        return visit.requests is not None and not any(
            told != {""} for told in handed_on(visit.requests).values()
        )

    # --- answers

    def fails(self, request: Request, response: Response) -> bool:
        """Whether a server fails where we asked something: its page is to be had in full then.

        That a page is gone is an answer. An empty page is none, as some send it in place of a 304.
        """
        if ASKED not in request.meta:
            return False
        is_refused = response.status >= 400 and response.status not in GONE
        is_empty = 200 <= response.status < 300 and not response.body
        if is_refused or is_empty:
            self._failed(request.url)
            return True
        self._n_failed.pop(authority_of(request.url), None)
        return False

    def _failed(self, url: str) -> None:
        host = authority_of(url)
        self._n_failed[host] += 1
        if self._n_failed[host] == FAILURES:
            logger.info(
                "neardup: %s failed %d times in a row when it was asked whether a page changed, "
                "last for %s. It is asked no more in this crawl: its pages are read in full",
                host,
                FAILURES,
                url,
            )

    def is_answer(self, request: Request, response: Response, visit: Visit) -> bool:
        """Whether a 304 answers what we asked of a visit. What it says by must be what we asked by.

        None does by whom we would not ask any more: it was on its way when its host was found out.
        """
        if ASKED not in request.meta or not self.believes(authority_of(visit.url)):
            return False
        if visit.etag is not None:
            tag = response.headers.get("ETag")
            return tag is None or _weak(tag) == _weak(visit.etag)
        return response.headers.get("Last-Modified") in (None, visit.modified)

    def failed_test(self, url: str) -> None:
        """A server says 304 by what its page never had."""
        host = authority_of(url)
        known = self._servers.get(host, HostRecord())
        refuted = known._replace(n_refuted=known.n_refuted + 1)
        why = "is unchanged, as its server says (304), since it had validators that it never had"
        self._learnt(host, known, refuted, f"{url} {why}")

    def trusted(self, visit: Visit) -> None:
        """A server's word was taken."""
        self._n_trusted[authority_of(visit.url)] += 1

    def compared(
        self, earlier: Visit, now: Validators, status: Status, requests: bytes | None
    ) -> None:
        """A page was read that a server could have been asked about. requests: it yielded."""
        if status in (Status.UNCHANGED, Status.MINOR) and earlier.requests and requests:
            is_same_page = status == Status.UNCHANGED
            self._compare_handed_on(earlier, earlier.requests, requests, is_same_page)
        if earlier.etag is None and earlier.modified is None:
            return
        host = authority_of(earlier.url)
        known = self._servers.get(host, HostRecord())
        if now.are_those_of(earlier):
            is_refuted = status == Status.CHANGED or not _same_urls(earlier.requests, requests)
            found = known._replace(n_refuted=known.n_refuted + is_refuted, n_mismatched=0)
        elif status == Status.UNCHANGED:
            found = known._replace(n_mismatched=known.n_mismatched + 1)
        else:
            return
        if found != known:
            why = "changed although its server gives it the validators (ETag, Last-Modified) of the"
            self._learnt(host, known, found, f"{earlier.url} {why} last visit")

    def _compare_handed_on(
        self, earlier: Visit, before: bytes, now: bytes, is_same_page: bool
    ) -> None:
        """A page was read: see whether it is its callback that hands on another thing.

        before, now: the requests that it yielded, as they are stored. Where the page differs in a
        trifle, that may be what they hand on: a price, as on pages without an item it may be one.
        """
        if before == now or not _hand_on_other_things(before, now):
            self._hand_on_the_same.add((authority_of(earlier.url), earlier.callback))
        elif is_same_page:
            self.never_leave_unread(
                earlier.url,
                f"what the callback of {earlier.url} hands on to its requests (cb_kwargs, meta, "
                f"headers) is another at each visit, although the page is the same",
            )

    def _learnt(self, host: str, before: HostRecord, now: HostRecord, why: str) -> None:
        """Keep what is known of a host now. why: it is refuted, if it is."""
        self._servers[host] = now
        self._visits.put_server(host, now)
        if now.n_refuted and not before.n_refuted:
            self._count(stats.RECRAWL_REFUTED)
            logger.warning(
                "neardup: %s. Pages of %s are read in full from now on; %d of this crawl passed "
                "for unchanged by its word, and are read by the next crawl",
                why,
                host,
                self._n_trusted[host],
            )
        elif now.n_mismatched == MISMATCHES:
            logger.info(
                "neardup: %s gives unchanged pages new validators (ETag, Last-Modified) at every "
                "visit, and is not asked by them",
                host,
            )


def authority_of(url: str) -> str:
    """The host of a URL, with its port, in lower case."""
    return urlsplit(url).netloc.lower()


def _hand_on_other_things(before: bytes, now: bytes) -> bool:
    """Whether two visits' requests for one URL differ. Of links that are new, or gone, nothing is
    learnt.
    """
    earlier, later = handed_on(before), handed_on(now)
    return any(earlier[url] != later[url] for url in earlier.keys() & later.keys())


def _same_urls(earlier: bytes | None, now: bytes | None) -> bool:
    if earlier is None or now is None or earlier == now:
        return earlier == now or earlier is None
    return urls_stored(earlier) == urls_stored(now)

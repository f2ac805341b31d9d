"""The URL question: was this URL fetched before, or queued in this run? Asked in one place."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Request, Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.configured import filters_nothing, has_fleet_scheduler
from scrapy_neardup.crawl.delivery import Delivery
from scrapy_neardup.crawl.fail_open import Count, FailOpen
from scrapy_neardup.crawl.jobdir import is_of_job, state_folder
from scrapy_neardup.crawl.learning.url_skipping import UrlSkipping
from scrapy_neardup.crawl.pages.page_lifecycle import PageLifecycle
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.requests.carrying import may_carry_an_item
from scrapy_neardup.crawl.requests.exemptions import Exemptions
from scrapy_neardup.crawl.requests.fleet_urls import FleetUrls, Seen
from scrapy_neardup.crawl.requests.page_depths import LeastDepths, minds_depth
from scrapy_neardup.crawl.requests.request_keys import BY_LONGER, RequestKeys
from scrapy_neardup.crawl.requests.request_tracker import (
    fleet_was_asked,
    fleet_was_not_asked,
    had_dont_filter,
    is_of_spider,
)
from scrapy_neardup.crawl.requests.run_notes import RunNotes
from scrapy_neardup.crawl.requests.senders import Senders, sender_of
from scrapy_neardup.crawl.requests.start_urls import StartUrls
from scrapy_neardup.factory import make_queued_urls, ttl_s
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.visit import key_of
from scrapy_neardup.state.visits import Visits
from scrapy_neardup.urls.filters.rotating import RotatingUrlFilter

if TYPE_CHECKING:
    from scrapy_neardup.fleet.worker import FleetWorker

# Before keys in the filter of queued URLs; none begins so.
CARRYING, READ_NOW, WITH_ITEM, LED_ON = b"\0", b"\1", b"\2", b"\3"
# Behind the key of a page that led on to itself, and of the URL by which it did.
FROM_ITSELF = b"\0@"

# What a URL is new in, by the first layer of the filter that had not seen it.
NOVELTY = {1: stats.URLS_NEW_HOST, 2: stats.URLS_NEW_DIRECTORY}


class UrlAlreadyFetched(IgnoreRequest):
    """The URL of a request was fetched before: in this run or, with a state folder, earlier."""

    def __init__(self, request: Request) -> None:
        super().__init__(f"already fetched: {request.url}")


class SeenUrls:
    """Answers whether a URL was fetched before, and whether it was queued in this run.

    Fetched are URLs of earlier crawls and of this one: the state's filter, and the pages under
    way. Queued are those that a dupefilter asked for: a filter of this run only, so that what
    was queued and not fetched when a crawl died is asked for again. Where Scrapy is told to filter
    nothing, it has those that were fetched in this run, to be fetched as often as the spider asks.
    In a folder for many crawls, and in a fleet that shares its queue, a page that brought no item
    is known to this run only: the next one may find new pages through it, as through lists,
    sitemaps, forms and start pages. A fleet without FleetScheduler has no runs, and knows it for
    good. With the filter of the fleet's server they share NEARDUP_URL_ERROR_RATE.

    Any drop is counted once and recorded once, whoever asked. A URL that was queued in this run
    already is only counted: it is fetched, so nothing is to be explained.

    key  the key of a request, or None: RequestKeys.key
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: NearDupSettings,
        state: State,
        lifecycle: PageLifecycle,
        recorder: Recorder,
        fleet: FleetWorker | None,
        skipping: UrlSkipping,
        delivery: Delivery,
        attempt: FailOpen,
        count: Count,
        visits: Visits | None = None,
    ) -> None:
        """visits: which URLs this run has read, where what earlier ones did is to be read again."""
        folder = state_folder(settings, crawler)
        self._knows_others = folder is not None and not is_of_job(folder, crawler)
        shares_runs = has_fleet_scheduler(crawler) and visits is None
        self._reads_lists_again = self._knows_others if fleet is None else shares_runs
        self._visits = visits
        self._fetched = state.urls
        self._queued = make_queued_urls(settings)
        # Behind keys in a folder that other spiders may share: they find something else on a page.
        spider = crawler.spidercls.name or ""
        owner = b"\0" + spider.encode("utf-8", "surrogatepass") if self._knows_others else b""
        self._owner = owner
        self._notes = RunNotes(self._queued, ttl_s(settings), attempt)
        self._keys = RequestKeys(
            crawler, settings, self._fetched, self._notes, owner, attempt, count
        )
        self.key = self._keys.key
        compares = visits is not None and visits.is_shared
        self._fleet = (
            None if fleet is None else FleetUrls(fleet, spider, self._keys, compares, attempt)
        )
        self._state = state
        self._under_way = lifecycle
        self._recorder = recorder
        self._skipping = skipping
        self._delivery = delivery
        self._undelivered: set[bytes] = set()  # keys of pages that are done, but not delivered
        self._incomplete: set[bytes] = set()  # those of them whose requests may be lost
        self._names: dict[bytes, set[bytes]] = {}  # page under way → those of its requests, if any
        self._attempt = attempt
        self._count = count
        self._filters_nothing = filters_nothing(crawler)
        self._forgets = settings.ttl is not None
        self._starts = StartUrls()
        self._senders = Senders(self._queued, attempt)
        is_job = folder is not None and not self._knows_others and fleet is None
        self._exemptions = Exemptions(crawler, self._keys, self._notes, self._starts, is_job)
        self._minds_depth = minds_depth(crawler)
        self._read_at, self._queued_at = LeastDepths(), LeastDepths()  # empty unless it does

    @property
    def filters(self) -> tuple[RotatingUrlFilter, RotatingUrlFilter]:
        """The filter of fetched URLs and that of queued ones; the latter empty until asked."""
        return self._fetched, self._queued

    # --- the question before a download

    def was_fetched(self, request: Request) -> bool | Awaitable[bool]:
        """Whether a request is to be dropped because its URL was fetched before; counted.

        Under NEARDUP_BACKEND the fleet may have to be asked. Raises RequestSkipped for one that
        is not made for what was learnt.
        """
        self._count(stats.URLS_ASKED)
        if self._fleet is not None:
            fleet_was_not_asked(request)
        reason = self._exemptions.reason(request)
        if reason is not None:
            self._count(stats.URLS_EXEMPT.format(reason))
            return self._is_let_pass(request)
        key = self.key(request)
        if key is not None and self._knows(request, key):
            if self._is_let_in(request, key):
                return False
            if not self._is_made_for_an_item(request, key):
                return self._is_dropped(request)
            if self._fleet is not None:
                return self._is_made_in_fleet(self._fleet, request, key)
            self._count(stats.URLS_EXEMPT.format("item"))
            return False
        if key is not None and (skipped := self._skipping.reason_to_skip(request, key)):
            raise skipped
        if key is not None and self._fleet is not None:
            return self._was_fetched_in_fleet(self._fleet, request, key)
        self._count(stats.URLS_NEW)
        return False

    def ask_ahead(self, request: Request) -> None:
        """Ask the fleet about a request that is to be made soon."""
        key = self._key_unless_exempt(request)
        if self._fleet is not None and key is not None and not self._knows(request, key):
            self._fleet.ask_ahead(request, key)

    def _is_let_pass(self, request: Request) -> bool | Awaitable[bool]:
        """False for an exempt request, as soon as it is known what its page was."""
        is_compared = self._fleet is not None and self._fleet.compares and is_of_spider(request)
        key = self.key(request) if is_compared else None
        if self._fleet is None or key is None:
            return False
        return self._passes_when_compared(self._fleet, request, key)

    async def _passes_when_compared(self, fleet: FleetUrls, request: Request, key: bytes) -> bool:
        await fleet.has_read(request, key)
        return False

    async def n_new_to_all(self, keys: list[bytes]) -> int:
        """How many URLs no worker of the fleet has handled, or cannot be told of."""
        assert self._fleet
        return await self._fleet.n_new_to_all(keys)

    async def _was_fetched_in_fleet(self, fleet: FleetUrls, request: Request, key: bytes) -> bool:
        fleet_was_asked(request)
        seen = await fleet.has(request, key)
        if not seen:
            self._count(stats.URLS_NEW)
            return False
        if self._is_let_in(request, key):
            return False
        if self._is_made_for_an_item(request, key):
            return await self._is_made_in_fleet(fleet, request, key)
        self._count(stats.BACKEND_SEEN)
        if seen is Seen.IN_RUN:
            self._notes.is_first(LED_ON + key)
        elif not self._forgets:  # else it would be remembered here for longer than there
            self._attempt("filter", self._fetched.add, key + self._owner)
        return self._is_dropped(request)

    async def _is_made_in_fleet(self, fleet: FleetUrls, request: Request, key: bytes) -> bool:
        """Whether a request is to be dropped that may carry an item: if it was made as it is."""
        if await fleet.has_made(request, key):
            self._count(stats.BACKEND_SEEN)
            return self._is_dropped(request)
        fleet_was_not_asked(request)
        self._count(stats.URLS_EXEMPT.format("item"))
        if fleet.compares:
            await fleet.has_read(request, key)
        return False

    def _is_dropped(self, request: Request) -> bool:
        """What becomes of a request whose URL was fetched: dropped, but where a person wants it."""
        if self._recorder.wants(request.url):
            self._count(stats.URLS_EXEMPT.format("undone"))
            return False
        self._count(stats.URLS_DROPPED)
        self._recorder.url_dropped(request)
        return True

    # --- the question before a request is queued

    def is_not_to_be_queued(self, request: Request) -> bool:
        """Whether a URL was queued in this run, or fetched before; it counts as queued then."""
        key = self.key(request)
        if key is None or self._exemptions.returns_to_its_chain(request):
            return False
        if self._attempt("filter", self._was_queued, key):
            if self._is_queued_again(request, key):
                return False
            self._count(stats.URLS_FILTERED)
            return True
        if self._minds_depth:
            self._queued_at.note(request, key)
        exemption = self._exemptions.reason(request)
        if exemption == "scheme" and not self._knows_others and self.seen(key):
            self._count(stats.URLS_FILTERED)  # of data: and file: Scrapy's own filter decides
            return True
        if exemption is not None or self._recorder.wants(request.url):
            return False  # counted when the request is about to be downloaded
        if not self._knows(request, key):
            return False
        if self._is_queued_again(request, key):
            return False
        self._count(stats.URLS_ASKED)
        return self._is_dropped(request)

    def key_to_be_queued_once(self, request: Request) -> bytes | None:
        """The key of a request of which one in a queue is enough.

        None for one that comes back on purpose, and for one that has none.
        """
        key = self._key_unless_exempt(request)
        if key is None:
            return None
        is_more = may_carry_an_item(request) or sender_of(request)
        if is_more or self._leads_from_itself(request, key, is_queued=True):
            return CARRYING + self._keys.exact(request)
        return key

    def _key_unless_exempt(self, request: Request) -> bytes | None:
        return None if self._exemptions.reason(request) is not None else self.key(request)

    def _was_queued(self, key: bytes) -> bool:
        # Of several generations add() asks only the newest; of one, it says all there is to say.
        if self._forgets and key in self._queued:
            return True
        return self._queued.add(key) == 0

    def _is_queued_again(self, request: Request, key: bytes) -> bool:
        """Whether a request for a known page is to be queued all the same."""
        if self._is_less_deep(self._queued_at, request, key):
            self._queued_at.note(request, key)
            return True
        return self._is_queued_for_an_item(request, key) or self._leads_from_itself(
            request, key, is_queued=True
        )

    def _is_queued_for_an_item(self, request: Request, key: bytes) -> bool:
        """Whether a request is to be queued for an item that it may carry: once for each URL."""
        name = self._name_as_scrapy(request, key)
        if name is None or (self.seen(key) and not self._is_of_this_run(key)):
            return False
        return self._notes.is_first(name)

    def _is_let_in(self, request: Request, key: bytes) -> bool:
        """Whether a request for a known page leads behind a gate, or is less deep; counted."""
        if self._leads_from_itself(request, key):
            reason = "itself"
        elif self._is_less_deep(self._read_at, request, key):
            reason = "depth"
        else:
            return False
        self._count(stats.URLS_EXEMPT.format(reason))
        return True

    def _is_less_deep(self, depths: LeastDepths, request: Request, key: bytes) -> bool:
        """Whether a page is found less deep than before, by another URL: to Scrapy another page."""
        if not depths.is_undercut(request, key):
            return False
        return self._keys.exact(request) != key or self._keys.has_longer(key)

    def _leads_from_itself(self, request: Request, key: bytes, is_queued: bool = False) -> bool:
        """Whether a page led on to itself by another URL, for the first time, and brought no item.

        So do gates: the page behind has a session id, or an argument that says who was let in. A
        page whose items were dropped brought none: gates whose text is an item repeat one another.
        is_queued: whether it is asked for a queue, which takes such a URL once.
        """
        if not self._keys.has_longer(key):
            return False
        referer = (request.headers.get(b"Referer") or b"").decode("latin-1")
        exact = self._keys.exact(request)
        if not referer or self._keys.exact_of_url(referer) == exact:
            return False
        if self._keys.of_url(referer) != key or self._brought_item(referer):
            return False
        if self._notes.is_first(key + FROM_ITSELF):
            self._notes.is_first(exact + FROM_ITSELF)
            return True
        return not is_queued and self._notes.has(exact + FROM_ITSELF)

    def _brought_item(self, url: str) -> bool:
        """Whether the page of a URL brought an item that was kept: only such pages have a row."""
        return self._state.detector.pages.with_url(url) is not None

    def _is_made_for_an_item(self, request: Request, key: bytes) -> bool:
        """Whether an item may be under way in a request for a page that this run has by another
        URL: it would be lost with the request.

        To Scrapy, session ids and tracking arguments are parts of the URL: it makes the request.
        """
        if self._fleet is not None:  # which tells more of URLs
            return self._is_more_than_a_link(request, key)
        return self._name_as_scrapy(request, key) is not None and self._is_of_this_run(key)

    def _is_of_this_run(self, key: bytes) -> bool:
        """Whether a known page was read in this run, or in this job, and not by other crawls.

        Of a fleet's pages that is not known: it counts as so.
        """
        if not self._knows_others or self._fleet is not None or key in self._starts.known:
            return True
        if key in self._under_way or key in self._undelivered:
            return True
        return self._notes.may_have(READ_NOW + key)

    def _name_as_scrapy(self, request: Request, key: bytes) -> bytes | None:
        """What a request that is more than a link has for a key under Scrapy's rules.

        None where its page was asked for by this very URL, as far as is known.
        """
        if not self._is_more_than_a_link(request, key):
            return None
        name = self._keys.exact(request)
        return CARRYING + name if name != key or self._keys.has_longer(key) else None

    def _is_more_than_a_link(self, request: Request, key: bytes) -> bool:
        """Whether an item may be under way in a request, or somebody else asks for the page."""
        return may_carry_an_item(request) or self._senders.is_new(request, key)

    # --- what is known

    def seen(self, key: bytes) -> bool:
        """Whether the page of a key was fetched, in this crawl or an earlier one.

        Not if that cannot be told.
        """
        return key in self._under_way or key in self._undelivered or self._was_delivered(key)

    def _was_delivered(self, key: bytes) -> bool:
        if self._visits is not None:
            return bool(self._attempt("recrawl", self._visits.is_done, key_of(key)))
        if self._reads_lists_again and self._notes.has(LED_ON + key):
            return True
        if self._attempt("filter", self._fetched.__contains__, key + self._owner):
            return True
        # Earlier releases noted of no URL which spider had read it.
        return self._knows_others and bool(self._attempt("filter", self._fetched.__contains__, key))

    def _knows(self, request: Request, key: bytes) -> bool:
        return key in self._starts.known or self.seen(key)

    def answered(self, request: Request, response: Response) -> bytes | None:
        """A request brought a page: the key of its URL if that counts as seen by it."""
        if request.meta.get("neardup_skip"):
            return None
        key = self.key(request)
        if not self._filters_nothing:
            self._starts.answered(request, response, key)
        if had_dont_filter(request):
            return None
        if self._keys.has_any_longer and key is not None:  # else nobody asks for it by another URL
            self._senders.note(request, key)
        if self._minds_depth and key is not None:
            self._read_at.note(request, key)
        if self._knows_others and key is not None:
            self._notes.note(READ_NOW + key)
        name_in_run = self._exemptions.name_in_run
        name = None if name_in_run is None else name_in_run(request)
        if name is not None:
            self._notes.note(name)
        if self._fleet is None or key is None:
            return key
        if may_carry_an_item(request) or sender_of(request):
            self._names.setdefault(key, set()).add(self._fleet.name(request))
        return key

    def brought_item(self, request: Request) -> None:
        """A page brought its first item."""
        if "is_start_request" in request.meta:
            self._starts.brought_item(self.key(request))
        if self._reads_lists_again and (key := self.key(request)) is not None:
            self._notes.note(WITH_ITEM + key)

    def completed(self, key: bytes) -> None:
        """A page is done: once it is delivered, later crawls know its URL, and other workers."""
        self._undelivered.add(key)
        names = self._names.pop(key, ()) if self._names else ()
        self._delivery.put(self._delivered, key, names)

    def run_began(self) -> None:
        """This worker outlives a run of its fleet: what that asked for, another one asks for."""
        self._notes.clear()

    def requests_lost(self) -> None:
        """What was found on pages that are done, but not delivered, may be lost: the next crawl is
        to read them again.
        """
        self._incomplete |= self._undelivered

    def _delivered(self, key: bytes, names: Iterable[bytes]) -> None:
        self._undelivered.discard(key)
        if key in self._incomplete:
            return
        is_by_longer = self._keys.has_any_longer and self._notes.may_have(key + BY_LONGER)
        names = *names, *([key + BY_LONGER] if is_by_longer else ())
        if self._reads_lists_again and not self._notes.has(WITH_ITEM + key):
            self._led_on(key, names)
            return
        if is_by_longer:
            self._state.url_done(key + BY_LONGER + self._owner)
        layer = self._state.url_done(key + self._owner)  # last: in a full filter it needs the other
        if self._visits is not None:
            self._visits.done(key_of(key))
        if self._fleet is not None:
            self._fleet.mark((key, *names))
        if not layer:
            return
        self._count(stats.URLS_MARKED)
        if layer <= self._fetched.filters[-1].layers and layer in NOVELTY:
            self._count(NOVELTY[layer])

    def _led_on(self, key: bytes, names: Iterable[bytes]) -> None:
        """A page is done that brought no item: this run need not read it again, later ones do."""
        if self._visits is not None:
            self._visits.done(key_of(key))
        else:
            self._notes.is_first(LED_ON + key)
        if self._fleet is not None:
            self._fleet.mark_in_run((*names, key))
        self._count(stats.URLS_LED_ON)

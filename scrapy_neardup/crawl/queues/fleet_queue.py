"""The queue of requests that the workers of a fleet share, as Scrapy's scheduler sees it.

A request found here waits in `_unsent` until the server has it; only then need its page wait for
it no more. One that the server gave waits in `_taken` until the engine asks for it and its host
has room. Meanwhile the server is asked whether its URL was seen, so that no download waits for that
answer, nor for the next requests. It is leased: the server gives it to another worker if this one
dies before its page is completed.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Request
from scrapy.utils.asyncio import create_looping_call
from scrapy.utils.defer import deferred_from_coro

from scrapy_neardup import stats
from scrapy_neardup.crawl.fail_open import Count, FailOpen
from scrapy_neardup.crawl.queues.local_requests import LocalRequests
from scrapy_neardup.crawl.queues.lost_requests import REASON
from scrapy_neardup.crawl.queues.queue_losses import QueueLosses
from scrapy_neardup.crawl.queues.queue_mark import QueueMark
from scrapy_neardup.crawl.queues.queued_requests import QueuedRequests, Taken
from scrapy_neardup.crawl.queues.shared_values import SharedValues
from scrapy_neardup.crawl.queues.spider_arguments import SpiderArguments
from scrapy_neardup.crawl.requests.request_tracker import RequestTracker
from scrapy_neardup.crawl.requests.seen_urls import SeenUrls
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.fleet.frontier import Given, QueuedRequest, SharedFrontier
from scrapy_neardup.fleet.futures import answer_of, pause
from scrapy_neardup.fleet.link import Refused, Unanswered
from scrapy_neardup.fleet.worker import FleetWorker

logger = logging.getLogger(__name__)

POLL_S = 0.25  # between questions for requests while there are none
PAUSE_S = 0.02  # between looks at whether an answer has come
PUSHED_AT_ONCE, PUSHES = 64, 16  # requests in a call, calls in a round
PUSHED_BYTES = 2**16  # in a call: a slow link has to bring them before the server counts as failed
AHEAD_OF_A_HOST = 2  # times as many of a host in hand as are downloaded at once
DEFAULT_AHEAD = 16  # requests taken ahead, where CONCURRENT_REQUESTS is 0
CLOSING_S = 5.0  # to push what was found last
ASK_AGAIN = 3  # what START answers where it is not done

Unsent = tuple[QueuedRequest, Request]
Push = tuple[list[Unsent], Future[list[int]]]  # the second: whether each is new to the server


class FleetQueue:
    """What FleetScheduler has in the place of a queue on disk. For the loop's thread.

    `feed` is called while nothing waits, here or on the server, and other workers are busy;
    `run_began` when this worker is given requests of another run than before.
    """

    _local: LocalRequests  # those that are not on the server
    _arguments: SpiderArguments  # when the crawl begins
    feed: Callable[[], object] | None = None
    run_began: Callable[[], None]

    def __init__(
        self,
        fleet: FleetWorker,
        crawler: Crawler,
        requests: RequestTracker,
        urls: SeenUrls,
        attempt: FailOpen,
        count_: Count,
        newest_first: bool,
    ) -> None:
        self._fleet = fleet
        self._frontier: SharedFrontier = fleet.frontier(crawler.spidercls.name or "")
        fleet.queue = self._frontier
        self._crawler = crawler
        self._requests = requests
        self._urls = urls
        self._attempt = attempt
        self._count = count_
        settings = crawler.settings
        self._ahead = settings.getint("CONCURRENT_REQUESTS") or DEFAULT_AHEAD
        self._per_host = settings.getint("CONCURRENT_REQUESTS_PER_DOMAIN") or self._ahead
        self._delay_s = settings.getfloat("DOWNLOAD_DELAY")
        self._unsent: deque[Unsent] = deque()
        self._sending: list[Unsent] = []
        self._taken: deque[Taken] = deque()
        self._leases: dict[int, bytes] = {}  # number in the lifecycle → id on the server
        self._numbers = count()
        self._owned: set[str] = set()  # hosts that the server gave us
        self._releasing: set[str] = set()  # of those, what the server is told to give to others
        self._is_running = self._is_closed = self._is_over = False
        self._starts = False  # whether we make start requests, and the server does not know
        self._has_started = False  # whether we have made them all
        self._shared_values = SharedValues()
        order = "newest" if newest_first else "oldest"
        self._packing = QueuedRequests(self._frontier, crawler, urls, attempt, order)
        self._losses = QueueLosses(self._frontier, fleet, count_)
        self._run_id = b""
        self._n_left = 0  # requests of other workers that wait for the next run
        self._n_waiting: int | None = None  # for this one, at our end; None: not known
        self._timer = create_looping_call(self._look)
        crawler.signals.connect(self.spider_idle, signal=signals.spider_idle)
        crawler.signals.connect(self._packing.answered, signal=signals.response_downloaded)

    # --- called by the scheduler

    def open(self) -> None:
        """Begin to ask for requests. Raises SettingsError if the server may evict them."""
        self._losses.check_eviction()
        assert self._crawler.spider
        self._arguments = SpiderArguments(self._crawler.spider, self._fleet.key)
        self._packing.open(self._arguments.packed)
        self._timer.start(POLL_S, now=False)

    def local_requests(self, queue: Any) -> LocalRequests:
        """What stands for Scrapy's queue in memory."""
        self._local = LocalRequests(queue, self._host_of, self._is_ours, self._look)
        return self._local

    def _is_ours(self, host: str) -> bool:
        return host in self._owned and host not in self._releasing

    def _host_of(self, request: Request) -> str:
        assert self._crawler.engine
        return self._crawler.engine.downloader.get_slot_key(request)

    def push(self, request: Request) -> None:
        """Queue a request. Raises ValueError for one that cannot be written as JSON."""
        if self._frontier.is_left:
            raise ValueError("the worker has left its fleet")
        self._unsent.append((self._packing.packed(request, self._host_of(request)), request))
        self._shared_values.add(request)
        self._is_over = False
        self._look()

    def pop(self) -> Request | None:
        """The next request that the server gave and whose host has room; None if there is none."""
        self._look()
        busy = self._downloading()
        for at, (row, _, _) in enumerate(self._taken):
            if busy[row.host] < self._per_host:
                return self._popped(at)
        return None

    def _popped(self, at: int) -> Request:
        row, request, fields = self._taken[at]
        del self._taken[at]
        self._packing.unpacked(request, fields)
        number = next(self._numbers)
        self._leases[number] = row.id
        self._requests.leased(request, number)
        return request

    def __len__(self) -> int:
        return len(self._taken) + len(self._unsent) + len(self._sending)

    @property
    def is_over(self) -> bool:
        """Whether nothing waits, here or on the server, and no worker has anything under way."""
        gives_none = self._is_over or self._losses.ends_early or self._frontier.is_left
        return not len(self) and gives_none

    async def close(self) -> None:
        """Push what was found last, and give back what was not begun; also what still comes."""
        for _ in range(int(CLOSING_S / POLL_S)):
            if not self._unsent and not self._sending:
                break
            self._look()
            await pause(POLL_S)
        self._is_closed = True
        if self._timer.running:
            self._timer.stop()
        for _ in range(int(CLOSING_S / PAUSE_S)):
            if not self._is_running:
                break
            await pause(PAUSE_S)
        self._count(stats.FRONTIER_UNSENT, len(self._unsent) + len(self._sending))
        with suppress(Refused, Unanswered):
            left = await answer_of(self._frontier.left())
            self._n_left = left.n_failed
            self._n_waiting = left.n_waiting + len(self._taken)
        self._frontier.give_back([row.id for row, _, _ in self._taken])
        self._taken.clear()

    # --- called by the session

    def done(self, number: int) -> None:
        """All that a request led to is safe."""
        self._frontier.done(self._leases.pop(number))

    async def note(self, mark: QueueMark) -> None:
        """Let the server and a state folder note that what was found until now waits there.

        If the server does not answer, neither does. Raises OSError.
        """
        with suppress(Refused, Unanswered):
            folder, number = mark.next
            mark.agree(number, await answer_of(self._frontier.note(folder, number)))

    def leave(self, finished: bool) -> None:
        """The crawl has ended, and all that it completed is told."""
        self._frontier.leave(len(self._leases), finished, self._losses.has_lost)
        if finished:
            self._warn_of_the_next_run()
        elif not self._losses.has_lost:  # else the next start begins a run
            self._warn_of_this_run()

    def _warn_of_the_next_run(self) -> None:
        if self.n_left:
            self._count(stats.FRONTIER_LEFT, self.n_left)
            logger.warning(
                "neardup: %d requests stay on the server of NEARDUP_BACKEND for the next run of "
                "this spider: their pages or downloads failed, or six workers in a row stopped or "
                "died while they had one. Start the crawl again to make them",
                self.n_left,
            )

    def _warn_of_this_run(self) -> None:
        if self._n_waiting is None:  # the server does not answer
            return
        if n_waiting := self._n_waiting + len(self._leases):
            logger.warning(
                "neardup: %d requests of this run wait on the server of NEARDUP_BACKEND: this "
                "worker was stopped, or its spider stopped itself. Workers that are at work make "
                "them, and the next start of this spider goes on with this run: it does not make "
                "again the start requests that were made",
                n_waiting,
            )

    @property
    def n_left(self) -> int:
        """Requests that wait for the next run, once the crawl has ended."""
        return self._n_left + len(self._leases)

    @property
    def has_forgotten(self) -> bool:
        """Whether the server has lost requests that it had."""
        return self._losses.has_forgotten

    async def begin(self) -> None:
        """Begin a run, or take part in one; waits for the server."""
        self._starts = True
        while not (self._frontier.is_left or self._is_closed):
            try:
                start = self._frontier.start(self._fleet.run, self._arguments.packed)
                begun = await answer_of(start)
            except Refused:
                return
            except Unanswered:
                await pause(POLL_S)
            else:
                self._attempt("frontier", self._arguments.compare, begun, self._count)
                if begun.how != ASK_AGAIN:
                    return

    def starts(self, request: Request) -> None:
        """The spider starts with a request, as others may: the server queues it once a run."""
        self._packing.starts(request)

    def started(self) -> None:
        """The spider has made all its start requests."""
        self._has_started = True

    def spider_idle(self) -> None:
        """There is nothing left to do. Raises CloseSpider where requests were lost."""
        if self._losses.asks_no_more:  # whatever waits for more: nothing more comes
            assert self._crawler.engine
            deferred_from_coro(self._crawler.engine.close_spider_async(reason=REASON))
        if self._losses.has_lost:
            raise CloseSpider(REASON)

    # --- rounds: one at a time, each one round trip

    def _look(self) -> None:
        """Begin a round if there is something to push or to take."""
        if self._is_running or self._is_closed or not self._has_work:
            return
        self._is_running = True
        deferred_from_coro(self._run())

    @property
    def _has_work(self) -> bool:
        needs_more = 2 * len(self._taken) <= self._ahead and not self._losses.asks_no_more
        has_news = bool(self._unsent) or self._is_to_tell_started
        return has_news or needs_more or self._local.waits

    @property
    def _is_to_tell_started(self) -> bool:
        """Whether all start requests are made, and the server does not know."""
        return self._starts and self._has_started

    async def _run(self) -> None:
        try:
            while not self._is_closed and await self._round():
                pass
        except Exception:
            self._attempt.failed("frontier")
        finally:
            self._is_running = False

    async def _round(self) -> bool:
        """Push and take, in one round trip; whether another one is worth it at once."""
        if self._frontier.is_left:
            self._refused(self._unsent)
            self._unsent.clear()
            self._ask_for_no_host()
            return False
        n_failures = self._frontier.n_failures
        pushes = self._push()
        in_hand = self._in_hand()
        self._releasing = self._owned - in_hand.keys()
        was_idle = self._is_idle
        take = self._take(in_hand)
        tells_started = self._is_to_tell_started and not self._unsent and not pushes
        started = self._frontier.started() if tells_started else None
        n_unanswered = await self._answers_to(pushes)
        if self._losses.goes_back():
            await self._note_loss()
        try:
            given = await answer_of(take)
            if started is not None:
                await answer_of(started)
                self._starts = False
        except Refused as error:
            self._losses.refused(error)
            self._ask_for_no_host()
            return False
        except Unanswered:
            return False
        self._losses.given(len(given.requests))
        if self._losses.goes_back():
            await self._note_loss()
        if not self._frontier.has_gone_back:  # by all answers of this round
            self._frontier.release(n_failures)
        self._owned -= self._releasing
        self._releasing = set()
        await self._losses.check_eviction_again(given, was_idle, self._is_over)
        self._given(given, was_idle)
        return not n_unanswered and self._has_work and bool(given.requests or pushes)

    def _push(self) -> list[Push]:
        chunks = [chunk for _ in range(PUSHES) if (chunk := _next_chunk(self._unsent))]
        self._sending = [one for chunk in chunks for one in chunk]
        return [(chunk, self._frontier.push([row for row, _ in chunk])) for chunk in chunks]

    def _take(self, in_hand: Counter[str]) -> Future[Given]:
        """Ask for requests, and give up hosts of which none is in hand."""
        most = AHEAD_OF_A_HOST * self._per_host
        rooms = {host: max(0, most - n) for host, n in in_hand.items()}
        return self._frontier.take(
            0 if self._losses.asks_no_more else self._ahead - len(self._taken),
            most,
            rooms,
            self._releasing,
            is_idle=self._is_idle,
            rest_s=max(map(self._rest_s, self._releasing), default=0.0),
            wanted=self._local.wanted(),
        )

    def _rest_s(self, host: str) -> float:
        """How long a host rests before another worker may have it: as between two requests."""
        assert self._crawler.engine
        slot = self._crawler.engine.downloader.slots.get(host)  # DOWNLOAD_SLOTS, AutoThrottle
        return self._delay_s if slot is None else slot.delay

    async def _answers_to(self, pushes: list[Push]) -> int:
        """Wait until the server has what was pushed; how much of it is to be pushed again."""
        unanswered: list[Unsent] = []
        for chunk, push in pushes:
            try:
                self._pushed(chunk, await answer_of(push))
            except Refused:
                self._refused(chunk)
            except Unanswered:
                unanswered += chunk
        self._sending = []
        self._unsent.extendleft(reversed(unanswered))
        return len(unanswered)

    async def _note_loss(self) -> None:
        """The server has gone back: let it be told again, and pages be read again."""
        self._starts = self._starts or self._has_started  # or nobody says that they are all in
        self._requests.lost()
        self._urls.requests_lost()
        self._fleet.tell_again()
        await self._losses.say_that_it_went_back()

    def _ask_for_no_host(self) -> None:
        """Make what stays with this worker, whosever its host is."""
        if self._local.waits:
            self._local.given_all()
            self._wake_engine()

    def _pushed(self, chunk: Sequence[Unsent], answers: list[int]) -> None:
        for (_, request), is_new in zip(chunk, answers, strict=True):
            self._count(stats.FRONTIER_PUSHED if is_new else stats.FRONTIER_KNOWN)
            self._requests.ended(request)  # the server has it: its page need not wait for it

    def _refused(self, chunk: Iterable[Unsent]) -> None:
        for _, request in chunk:
            self._count(stats.FRONTIER_REFUSED)
            self._local.push(request)
            self._wake_engine()

    def _given(self, given: Given, was_idle: bool) -> None:
        self._frontier.taken()
        self._note_run()
        found = [
            (row, self._attempt("frontier", self._packing.ready, row)) for row in given.requests
        ]
        self._taken.extend(taken for _, taken in found if taken is not None)
        self._losses.set_aside([row for row, taken in found if taken is None])
        self._owned.update(given.hosts, (row.host for row in given.requests))
        self._local.given(given.hosts)
        self._count(stats.FRONTIER_TAKEN, len(given.requests))
        self._count(stats.FRONTIER_RETURNED, given.n_returned)
        self._losses.note_missing(given)
        self._is_over = was_idle and given.is_over and not given.requests
        if given.requests or given.hosts or self.is_over:
            self._wake_engine()
        elif was_idle and not given.n_waiting and self.feed is not None:
            self._feed(self.feed)

    def _note_run(self) -> None:
        if self._run_id and self._run_id != self._frontier.run:
            self.run_began()
        self._run_id = self._frontier.run

    def _feed(self, feed: Callable[[], object]) -> None:
        assert self._crawler.engine
        if not self._crawler.engine.needs_backout():
            self._attempt("start_messages", feed)

    def _in_hand(self) -> Counter[str]:
        """Requests by host that are to be downloaded, or are being so."""
        taken = Counter(row.host for row, _, _ in self._taken)
        return self._downloading() + self._local.ready + taken

    def _downloading(self) -> Counter[str]:
        assert self._crawler.engine
        downloader = self._crawler.engine.downloader
        return Counter(downloader.get_slot_key(request) for request in downloader.active)

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is under way here, so that nothing more will be found here."""
        engine = self._crawler.engine
        assert engine
        assert engine.scraper.slot
        return (
            not len(self)
            and not self._starts
            and not len(self._local)
            and not engine.downloader.active
            and engine.scraper.slot.is_idle()
        )

    def _wake_engine(self) -> None:
        slot = getattr(self._crawler.engine, "_slot", None)
        if slot is not None:
            slot.nextcall.schedule()


def refuse_to_leave(frontier: SharedFrontier, spider: str) -> None:
    """Raise SettingsError if requests wait on the server and this crawl does not ask for them.

    Waits for the server; one that does not answer, or is not to be asked, is let pass.
    """
    try:
        left = frontier.left().result()
    except (Refused, Unanswered):
        return
    n = left.n_waiting + left.n_leased + left.n_failed
    if n and not left.n_alive:
        raise SettingsError(
            f"{n:,} requests of spider {spider!r} wait on the server of NEARDUP_BACKEND, left by a "
            f"crawl with FleetScheduler, and this crawl has another SCHEDULER: the pages that link "
            f"them count as fetched. Run the spider with 'scrapy_neardup.scheduler.FleetScheduler' "
            f"until it ends, or set another NEARDUP_BACKEND_PREFIX"
        )


def _next_chunk(unsent: deque[Unsent]) -> list[Unsent]:
    """Take what one call sends off a queue: a request that has too many bytes goes alone."""
    chunk: list[Unsent] = []
    n_bytes = 0
    while unsent and len(chunk) < PUSHED_AT_ONCE:
        n_bytes += len(unsent[0][0].record)
        if chunk and n_bytes > PUSHED_BYTES:
            break
        chunk.append(unsent.popleft())
    return chunk

"""What the server of a shared queue has lost or refuses: said once, and never a finished crawl."""

from __future__ import annotations

import json
import logging
from contextlib import suppress

from scrapy_neardup import stats
from scrapy_neardup.crawl.fail_open import Count
from scrapy_neardup.crawl.queues.lost_requests import REASON
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.fleet.frontier import END, Given, QueuedRequest, SharedFrontier
from scrapy_neardup.fleet.futures import answer_of
from scrapy_neardup.fleet.link import Refused, Unanswered
from scrapy_neardup.fleet.permissions import is_forbidden
from scrapy_neardup.fleet.worker import FleetWorker

logger = logging.getLogger(__name__)

EXPIRING = "volatile"  # how policies begin by which a server evicts no requests
CHECKED_EVERY = 20  # rounds without anything to do: whether the server evicts, or has evicted
PERMITS = (
    "Allow the server's user what the handbook's page 'A fleet of workers' lists for FleetScheduler"
)
DAMAGED = (
    "The queue there is damaged, by evictions or by another program. Start the crawl again under "
    "another NEARDUP_BACKEND_PREFIX"
)


class QueueLosses:
    """Whether requests of a shared queue are lost, and whether to ask for more of them."""

    def __init__(self, frontier: SharedFrontier, fleet: FleetWorker, count: Count) -> None:
        self._frontier = frontier
        self._fleet = fleet
        self._count = count
        self._n_lost = 0
        self._has_gaps = False  # whether the server had of some requests but the ids
        self._is_refused = False  # whether the server refused for good to give requests
        self._went_back = False  # whether the server has forgotten what it had answered
        self._may_evict = False  # whether the server may evict requests since the crawl began
        self._lacks_keys = False  # whether the server has lost a part of the queue
        self._n_idle = 0  # rounds since there was anything to do

    # --- what follows

    @property
    def has_lost(self) -> bool:
        """Whether the crawl is not to end as if it had fetched everything."""
        has_gone = self._fleet.n_restored or self._frontier.is_left
        return bool(self._n_lost or self.ends_early or has_gone)

    @property
    def ends_early(self) -> bool:
        """Whether what waits on the server is left to other workers, or to the next run."""
        return self._is_refused or self.asks_no_more

    @property
    def asks_no_more(self) -> bool:
        """Whether requests that waited on the server may be lost.

        This worker knows of pages that led to them, and would not read these again, as the next
        run does.
        """
        return self._went_back or self._may_evict or self._lacks_keys

    @property
    def has_forgotten(self) -> bool:
        """Whether the server has lost requests that it had."""
        return bool(self.asks_no_more or self._fleet.n_restored)

    # --- a server that evicts

    def check_eviction(self) -> None:
        """Waits for the server, as joining the fleet does; one that does not answer is let pass.

        Raises SettingsError if it may evict requests.
        """
        try:
            policy = self._frontier.eviction().result()
        except Unanswered:
            return
        if policy == "?":
            logger.warning(
                "neardup: this worker may not ask the server of NEARDUP_BACKEND whether it evicts "
                "requests when its memory is full. Give its user +info, or see to it that "
                "maxmemory-policy is noeviction"
            )
        elif policy.startswith(EXPIRING):
            logger.warning(
                "neardup: maxmemory-policy of the server of NEARDUP_BACKEND is %s: when its memory "
                "is full it evicts keys that expire. By one of them workers see that it has lost "
                "no requests; without it they end as %r. Set noeviction",
                *(policy, REASON),
            )
        elif policy:
            raise SettingsError(
                f"maxmemory-policy of the server of NEARDUP_BACKEND is {policy}: when its memory "
                f"is full it evicts requests that wait, and their pages are never fetched. Set "
                f"noeviction, or leave SCHEDULER alone"
            )

    async def check_eviction_again(self, given: Given, was_idle: bool, is_over: bool) -> None:
        """Before the crawl ends, and while it waits: what was evicted may be waited for in vain.

        What no worker comes by is found again. is_over: whether the crawl ends already.
        """
        self._n_idle = self._n_idle + 1 if was_idle and not given.requests else 0
        ends = bool(self._n_idle) and given.is_over and not is_over
        if self.asks_no_more or not (ends or self._n_idle % CHECKED_EVERY == 1):
            return
        if not await self._has_begun_to_evict() and (n := await self._n_displaced()):
            self._note_lost_keys(f"{n:,} requests that are to wait have no place there")

    async def _n_displaced(self) -> int:
        """How many requests are to wait on the server and do not: 0 where it gives some of them."""
        with suppress(Unanswered):
            found = await answer_of(self._frontier.relist(END))
            while found.cursor != END and not found.n_there:
                found = await answer_of(self._frontier.relist(found.cursor))
            return 0 if found.n_there else found.n_due
        return 0

    def _note_lost_keys(self, sign: str) -> None:
        """The server has lost a part of the queue; said once."""
        if not (self._lacks_keys or self._may_evict):
            logger.warning(
                "neardup: the server of NEARDUP_BACKEND has lost keys of the queue (%s): it "
                "evicted them for want of memory, or somebody removed them. This worker makes the "
                "requests that it has, and ends as %r. Set maxmemory-policy noeviction, and start "
                "the crawl again under another NEARDUP_BACKEND_PREFIX: under this one the pages "
                "that link what was lost count as read",
                *(sign, REASON),
            )
        self._lacks_keys = True

    async def _has_begun_to_evict(self) -> bool:
        """Whether the server may evict requests by now; said once."""
        if self._may_evict:
            return True
        with suppress(Unanswered):
            policy = await answer_of(self._frontier.eviction())
            self._may_evict = policy not in ("", "?") and not policy.startswith(EXPIRING)
        if self._may_evict:
            logger.warning(
                "neardup: maxmemory-policy of the server of NEARDUP_BACKEND has become %s: it may "
                "have evicted requests that waited. This worker makes those that it has, and ends "
                "as %r. Set noeviction, and start the crawl again, under another "
                "NEARDUP_BACKEND_PREFIX if it was full",
                *(policy, REASON),
            )
        return self._may_evict

    # --- a server that goes back, or refuses

    def goes_back(self) -> bool:
        """Whether the server has forgotten what it had answered; True once.

        The requests that it had are lost: the run does not finish. Those that other workers
        pushed are noticed by them.
        """
        if not self._frontier.has_gone_back or self._went_back:
            return False
        self._went_back = True
        self._count(stats.FRONTIER_WENT_BACK)
        return True

    async def say_that_it_went_back(self) -> None:
        """What may have been the cause, and what is to be done for it."""
        if await self._has_begun_to_evict():
            return
        logger.warning(
            "neardup: the server of NEARDUP_BACKEND has forgotten what it had answered: it was "
            "restored from an older file, failed over to a replica that lagged behind, or evicted "
            "keys for want of memory (maxmemory-policy volatile-…). Requests may be lost. This "
            "worker makes those that it has, and ends as %r. Start it again: the crawl makes the "
            "start requests again, and reads again the pages that were under way and those that "
            "gave no item. In a cluster, or if only keys of the queue were lost, set another "
            "NEARDUP_BACKEND_PREFIX if pages that gave items lead to others: the server still "
            "knows these, and does not have them read again",
            REASON,
        )

    def refused(self, error: Refused) -> None:
        """What waits on the server is left to other workers: this one ends with what it has."""
        if not self._is_refused:
            logger.warning(
                "neardup: the server of NEARDUP_BACKEND refuses to give requests (%s). This worker "
                "makes those that it has, and ends as %r. %s",
                *(error, REASON, PERMITS if is_forbidden(error) else DAMAGED),
            )
        self._is_refused = True

    def given(self, n_requests: int) -> None:
        """The server has given so many requests. None does not show that it refuses no more."""
        self._is_refused = self._is_refused and not n_requests

    # --- single requests

    def set_aside(self, rows: list[QueuedRequest]) -> None:
        """Leave requests to the next run that cannot be made, unless they are found anew."""
        if not rows:
            return
        self._frontier.set_aside([row.id for row in rows])
        self._note(len(rows))
        logger.warning(
            "neardup: %d requests that an earlier run left on the server of NEARDUP_BACKEND cannot "
            "be made, such as that for %.500r. The crawl ends as %r. They wait there until a page "
            "links them again, or until the spider has such a callback again, if only one that "
            "yields nothing",
            *(len(rows), _url_of(rows[0]), REASON),
        )

    def note_missing(self, given: Given) -> None:
        """Count requests that the server has no longer as they were queued."""
        if given.n_waiting < 0:
            self._note_lost_keys(f"it counts {given.n_waiting:,} requests that wait")
        for id in given.foreign:
            self._frontier.done(id)
        if n_lost := given.n_lost + len(given.foreign):
            self._note(n_lost)
        if given.n_lost and not self._has_gaps:
            self._has_gaps = True
            logger.warning(
                "neardup: %d requests on the server of NEARDUP_BACKEND, at least, are lost: it has "
                "no more than their ids. The crawl ends as %r. Start it again under another "
                "NEARDUP_BACKEND_PREFIX: under this one the pages that link them count as read",
                *(given.n_lost, REASON),
            )
        if given.foreign:
            logger.warning(
                "neardup: %d requests on the server of NEARDUP_BACKEND are damaged, or no worker "
                "queued them under this NEARDUP_KEY. They are not made; the crawl ends as %r",
                *(len(given.foreign), REASON),
            )

    def _note(self, n_lost: int) -> None:
        self._n_lost += n_lost
        self._count(stats.REQUESTS_LOST, n_lost)


def _url_of(row: QueuedRequest) -> str:
    try:
        return str(json.loads(row.payload)["url"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return "?"

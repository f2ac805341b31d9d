"""Start URLs that scrapy-redis's spiders take from a key: kept there until they are safe.

RedisSpider and RedisCrawlSpider pop messages from `redis_key` and make requests of them, which a
worker that is killed takes along. Here a message that is taken moves to the hash `redis_key`:taken,
as WORKER-CALL:NUMBER → message, and leaves it when its requests are on the fleet's server, or, with
another scheduler, when their pages are completed. What a worker left there whose heartbeat has
stopped is taken by the next one that asks.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from itertools import count
from typing import Any

from scrapy.exceptions import CloseSpider
from scrapy.http import Request
from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro

from scrapy_neardup import stats
from scrapy_neardup.crawl.effects import Effects
from scrapy_neardup.crawl.fail_open import Count, FailOpen
from scrapy_neardup.crawl.pages.page_lifecycle import PageLifecycle
from scrapy_neardup.crawl.queues.scrapy_redis import POPS
from scrapy_neardup.crawl.requests.request_tracker import RequestTracker
from scrapy_neardup.fleet.worker import FleetWorker

logger = logging.getLogger(__name__)

FIRST_LEASE = 2**62  # leases of requests have lower numbers
TAKEN = ":taken"

# KEYS: redis_key, redis_key:taken. ARGV: this call, most messages, the command that pops one, then
# dead workers and calls of this one that failed. Answer: how many of their messages are this
# worker's from now on, who else has some, then field and message of each, new ones first: among
# the others may be many of which no request can be made. There may be the most of both, so that
# neither wait for ever. A call that comes again, because its answer was lost, is given the same.
TAKE = """
local key, taken, this = KEYS[1], KEYS[2], ARGV[1]
local most, pop = tonumber(ARGV[2]), ARGV[3]
local found, others, n_returned, is_dead, is_told = {}, {}, 0, {}, {}
for i = 4, #ARGV do is_dead[ARGV[i]] = true end
local function lease(message)
  local field = this .. ':' .. #found / 2
  redis.call('HSET', taken, field, message)
  found[#found + 1] = field
  found[#found + 1] = message
end
local fields = redis.call('HKEYS', taken)
for _, field in ipairs(fields) do
  if string.match(field, '^[^:]+') == this then
    found[#found + 1] = field
    found[#found + 1] = redis.call('HGET', taken, field)
  end
end
if #found > 0 then return {0, {}, found} end
for _ = 1, most do
  local message = redis.call(pop, key)
  if type(message) == 'table' then message = message[1] end
  if not message then break end
  lease(message)
end
for _, field in ipairs(fields) do
  local call, worker = string.match(field, '^((%x+)-%d+):')
  if (is_dead[call] or is_dead[worker]) and n_returned < most then
    local message = redis.call('HGET', taken, field)
    redis.call('HDEL', taken, field)
    lease(message)
    n_returned = n_returned + 1
  elseif worker and not is_told[worker] and string.sub(this, 1, #worker) ~= worker then
    is_told[worker] = true
    others[#others + 1] = worker
  end
end
return {n_returned, others, found}
"""
MAX_FAILED = 100  # calls whose messages are asked for again


class StartMessages:
    """Takes the place of a spider's next_requests()."""

    def __init__(
        self,
        spider: Any,
        fleet: FleetWorker,
        requests: RequestTracker,
        lifecycle: PageLifecycle,
        effects: Effects,
        attempt: FailOpen,
        count_: Count,
    ) -> None:
        """spider: one that takes_messages(), as scrapy-redis does."""
        self._spider = spider
        self._fleet = fleet
        self._requests = requests
        self._lifecycle = lifecycle
        self._effects = effects
        self._attempt = attempt
        self._count = count_
        self._pop = POPS[spider.fetch_data.__name__]
        self._taken = spider.redis_key + TAKEN
        self._leases: dict[int, Any] = {}  # number in the lifecycle → field
        self._numbers = count(FIRST_LEASE)
        self._n_calls = 0
        self._failed: deque[str] = deque(maxlen=MAX_FAILED)  # calls that may have taken messages
        self._waiting: deque[tuple[Any, Any]] = deque()  # fields and messages, not made yet
        self._asked: dict[str, Future[Any]] = {}  # workers that have messages → are they alive?
        self._alive: set[str] = set()  # workers that were when they were asked about last
        self._n_stay = 0  # messages of which no request could be made
        self._done: list[Any] = []  # fields that are to be removed
        self._is_removing = False
        self._size_of = spider.count_size
        spider.next_requests = self.next_requests
        spider.count_size = self.count_size

    def next_requests(self) -> Iterator[Request]:
        """The requests of the next messages, as the spider makes them."""
        if not self._waiting:
            self._waiting.extend(self._attempt("start_messages", self._take) or ())
        while self._waiting:
            yield from self._made(*self._waiting.popleft())

    def count_size(self, key: str) -> int:
        """How many messages the spider is to wait for; 1 if the server does not answer."""
        n = self._attempt("start_messages", self._n_waiting, key)
        return 1 if n is None else n

    def _n_waiting(self, key: str) -> int:
        """Those that wait, and those taken by workers not known to be alive."""
        server, safe = self._spider.server, {self._fleet.name, *self._alive}
        owners = (_text(field).partition("-")[0] for field in server.hkeys(self._taken))
        return int(self._size_of(key)) + sum(owner not in safe for owner in owners)

    def _take(self) -> Iterable[tuple[Any, Any]]:
        spider, dead = self._spider, self._dead()
        self._n_calls += 1
        call = f"{self._fleet.name}-{self._n_calls}"
        arguments = call, spider.redis_batch_size, self._pop, *dead, *self._failed
        self._failed.append(call)
        answer = spider.server.eval(TAKE, 2, spider.redis_key, self._taken, *arguments)
        self._failed.clear()
        n_returned, others, found = answer
        self._count(stats.START_MESSAGES_RETURNED, n_returned)
        self._ask(map(_text, others))
        return zip(found[::2], found[1::2], strict=True)

    def _ask(self, others: Iterable[str]) -> None:
        """Ask the fleet which workers are alive, unless that is asked already."""
        pending = {name: asked for name, asked in self._asked.items() if not asked.done()}
        self._asked = {name: pending.get(name) or self._fleet.ask_alive(name) for name in others}

    def _dead(self) -> list[str]:
        """Those workers with messages of which the fleet has said since that they are dead."""
        answered = {name: asked for name, asked in self._asked.items() if asked.done()}
        told = {name: asked.result() for name, asked in answered.items() if not asked.exception()}
        self._alive = {name for name, is_alive in told.items() if is_alive}
        return [name for name in told if name not in self._alive]

    def _made(self, field: Any, message: Any) -> Iterator[Request]:
        """What the spider makes of a message, which waits for it as a page does for its links.

        Where that fails, the message is never done: it stays in the hash.
        """
        number = next(self._numbers)
        self._leases[number] = field
        page = self._lifecycle.answered(None, self._lifecycle.leased(number, None))
        has_failed = False
        try:
            yield from self._requests_of(message, page)
        except CloseSpider:  # it wants to end its crawl, and is heard by Scrapy
            raise
        except Exception:  # whatever the project's code raises is about this message
            has_failed = True
            self._note_failure(message)
        self._effects.of(self._lifecycle.exhausted, page, has_failed)

    def _requests_of(self, message: Any, page: int) -> Iterator[Request]:
        made = self._spider.make_request_from_data(message)
        for request in [made] if isinstance(made, Request) else made or ():
            self._requests.found(request, page)
            yield request

    def _note_failure(self, message: Any) -> None:
        """Count and log the exception that is being handled, as Scrapy does those of callbacks."""
        self._n_stay += 1
        self._count(stats.ERRORS.format("start_messages"))
        logger.exception(
            "neardup: %s can make no request of the message %.200r; it stays in %r",
            *(type(self._spider).__name__, message, self._taken),
        )

    def has(self, lease: int) -> bool:
        """Whether a lease is that of a message."""
        return lease >= FIRST_LEASE

    def done(self, lease: int) -> None:
        """All that a message led to is safe."""
        self._done.append(self._leases.pop(lease))
        if not self._is_removing:
            self._is_removing = True
            deferred_from_coro(self._remove())

    async def _remove(self) -> None:
        """Remove messages that are done; in a thread, for scrapy-redis's client waits."""
        try:
            while self._done:
                n = len(self._done)
                await run_in_thread(self._spider.server.hdel, self._taken, *self._done[:n])
                del self._done[:n]
        except Exception:
            self._attempt.failed("start_messages")  # they are removed with the next
        finally:
            self._is_removing = False

    def close(self) -> None:
        """The crawl has ended."""
        if self._done:
            self._attempt("start_messages", self._spider.server.hdel, self._taken, *self._done)
        if self._n_stay:
            logger.warning(
                "neardup: %d messages stay in %r: %s raised while it made their requests. The log "
                "has the errors. The next worker tries them again. Mend make_request_from_data, or "
                "delete them there",
                *(self._n_stay, self._taken, type(self._spider).__name__),
            )


def _text(name: bytes | str) -> str:
    return name if isinstance(name, str) else name.decode("ascii")

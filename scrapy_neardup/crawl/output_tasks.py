"""What a callback yields is handled by a task for each item, not by CONCURRENT_ITEMS tasks."""

from __future__ import annotations

import asyncio
from asyncio import FIRST_COMPLETED, sleep
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from scrapy.core.scraper import Scraper
from scrapy.crawler import Crawler
from scrapy.http import Request, Response
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.defer import aiter_errback
from twisted.python.failure import Failure

from scrapy_neardup.crawl.first_step import FirstStep, begun_task
from scrapy_neardup.crawl.queues.lost_requests import engine_of

Outputs = AsyncIterator[Any]
Handle = Callable[[Any], Coroutine[Any, Any, None]]
HandleOutputs = Callable[[Outputs, Request, Response | Failure], Coroutine[Any, Any, None]]


def make_on_demand(crawler: Crawler) -> None:
    """Let a crawl start a task for each item, CONCURRENT_ITEMS of a response at a time.

    Scrapy 2.15 to 2.19 starts CONCURRENT_ITEMS tasks for every response, 100 by default, however
    little its callback yields. Starting them and collecting them as garbage takes a third of the
    CPU time of a crawl of short pages, which is more than all that the plugin takes. No setting
    tells Scrapy otherwise, so the method of its scraper is wrapped. Outputs are handled as before:
    in their order, as many at once, while the callback goes on, and before another callback
    begins. Left alone are a scraper whose method is not Scrapy's own, or that lacks what this
    relies on, and one without asyncio, which starts no tasks.
    """
    scraper: Any = getattr(engine_of(crawler), "scraper", None)
    handle: Any = getattr(scraper, "handle_spider_output_async", None)
    is_scrapys = getattr(handle, "__module__", None) == Scraper.__module__
    needed = ("_process_spidermw_output_async", "concurrent_items")
    if is_scrapys and all(hasattr(scraper, name) for name in needed) and is_asyncio_available():
        scraper.handle_spider_output_async = _handling(scraper, handle)


def _handling(scraper: Any, handle: HandleOutputs) -> HandleOutputs:
    async def handle_spider_output_async(
        result: Outputs, request: Request, response: Response | Failure
    ) -> None:
        if not isinstance(result, AsyncIterator):  # our spider middleware is switched off
            return await handle(result, request, response)
        outputs = aiter_errback(result, scraper.handle_spider_error, request, response)
        process = scraper._process_spidermw_output_async
        tasks = OutputTasks(lambda output: process(output, response), scraper.concurrent_items)
        await tasks.handle_all(outputs)

    return handle_spider_output_async


class OutputTasks:
    """Handles what a callback yields, in its order, so many items at once.

    The callback goes on until it ends or waits; then what it has yielded is handled, as far as
    that comes without waiting. Nothing comes in between, as in Scrapy: a pipeline may read what
    the callback has left in an attribute of the spider, where the next one leaves its own. A
    callback is halted while twice as many outputs wait.

    What a task raises is not raised here, as in Scrapy: asyncio reports it.
    """

    def __init__(self, handle: Handle, n_at_once: int) -> None:
        self._handle = handle
        self._n_at_once = n_at_once
        self._waiting: deque[Any] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._is_due = False  # whether the loop is going to call _begin_waiting()

    async def handle_all(self, outputs: Outputs) -> None:
        """Returns when all outputs have been handled."""
        callback = self._loop.create_task(self._collect(outputs))
        self._begin_soon()  # next in the loop's queue, before another callback's task
        await callback
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _collect(self, outputs: Outputs) -> None:
        waiting, tasks = self._waiting, self._tasks
        async for output in outputs:
            waiting.append(output)
            if not self._is_due:
                self._begin_soon()
            while len(waiting) >= 2 * self._n_at_once:
                # Where none is under way, _begin_waiting() comes next.
                await (asyncio.wait(tasks, return_when=FIRST_COMPLETED) if tasks else sleep(0))

    def _begin_soon(self) -> None:
        self._is_due = True
        self._loop.call_soon(self._begin_waiting)

    def _begin_waiting(self) -> None:
        self._is_due = False
        while self._waiting and len(self._tasks) < self._n_at_once:
            self._begin(self._waiting.popleft())

    def _begin(self, output: Any) -> None:
        if isinstance(output, Request):
            step = FirstStep(self._handle(output))
            if step.is_done:  # as up to Scrapy 2.19: to schedule a request waits for nothing
                return
            task = asyncio.ensure_future(step)
        else:
            task = begun_task(self._handle(output))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._waiting and not self._is_due:
            self._begin_soon()

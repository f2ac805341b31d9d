"""What a callback yields is handled by as many tasks as it yields, not by CONCURRENT_ITEMS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from scrapy.core.scraper import Scraper
from scrapy.crawler import Crawler
from scrapy.http import Request, Response
from scrapy.utils.asyncio import is_asyncio_available
from scrapy.utils.defer import aiter_errback
from twisted.python.failure import Failure

from scrapy_neardup.crawl.lost_requests import engine_of

Outputs = AsyncIterator[Any]
Handle = Callable[[Outputs, Request, Response | Failure], Awaitable[None]]


def make_on_demand(crawler: Crawler) -> None:
    """Let a crawl start a task for each output, CONCURRENT_ITEMS of a response at a time.

    Scrapy 2.15 to 2.19 starts CONCURRENT_ITEMS tasks for every response, 100 by default, however
    little its callback yields. Starting them and collecting them as garbage takes a third of the
    CPU time of a crawl of short pages, which is more than all that the plugin takes. No setting
    tells Scrapy otherwise, so the method of its scraper is wrapped. Outputs are handled as before:
    in their order, as many at once, while the callback goes on. Left alone are a scraper whose
    method is not Scrapy's own, or that lacks what this relies on, and one without asyncio, which
    starts no tasks.
    """
    scraper: Any = getattr(engine_of(crawler), "scraper", None)
    handle: Any = getattr(scraper, "handle_spider_output_async", None)
    is_scrapys = getattr(handle, "__module__", None) == Scraper.__module__
    needed = ("_process_spidermw_output_async", "concurrent_items")
    if is_scrapys and all(hasattr(scraper, name) for name in needed) and is_asyncio_available():
        scraper.handle_spider_output_async = _handling(scraper, handle)


def _handling(scraper: Any, handle: Handle) -> Handle:
    async def handle_spider_output_async(
        result: Outputs, request: Request, response: Response | Failure
    ) -> None:
        if not isinstance(result, AsyncIterator):  # our spider middleware is switched off
            return await handle(result, request, response)
        outputs = aiter_errback(result, scraper.handle_spider_error, request, response)
        await in_tasks(
            lambda output: scraper._process_spidermw_output_async(output, response),
            outputs,
            scraper.concurrent_items,
        )

    return handle_spider_output_async


async def in_tasks(
    handle: Callable[[Any], Awaitable[None]], outputs: Outputs, n_at_once: int
) -> None:
    """Handle each output in a task of its own, at most so many at once; ends when all have.

    What a task raises is not raised here, as in Scrapy: asyncio reports it.
    """
    free, tasks = asyncio.Semaphore(n_at_once), set()

    def done(task: asyncio.Task[None]) -> None:
        tasks.discard(task)
        free.release()

    async for output in outputs:
        await free.acquire()
        task = asyncio.ensure_future(handle(output))
        tasks.add(task)
        task.add_done_callback(done)
    if tasks:
        await asyncio.wait(tasks)

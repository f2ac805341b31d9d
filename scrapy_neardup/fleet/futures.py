"""Waiting without blocking the crawl's event loop, whichever it is: for a thread, or for time."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

from scrapy.utils.asyncio import is_asyncio_available
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

T = TypeVar("T")


async def answer_of(future: Future[T]) -> T:
    """The result of a future that a thread sets. Raises its exception."""
    if is_asyncio_available():
        return await asyncio.wrap_future(future)
    from twisted.internet import reactor

    done: Deferred[None] = Deferred()
    future.add_done_callback(lambda _: reactor.callFromThread(done.callback, None))
    await done
    return future.result()


async def pause(seconds: float) -> None:
    """Wait for this many seconds."""
    if is_asyncio_available():
        await asyncio.sleep(seconds)
        return
    from twisted.internet import reactor

    await deferLater(reactor, seconds)

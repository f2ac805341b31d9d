"""Waiting on the crawl's loop, whichever it is: for a thread's answer, or for a while."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

from scrapy.utils.asyncio import is_asyncio_available
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

T = TypeVar("T")


async def answer_of(future: Future[T]) -> T:
    """What a thread puts into a future. Raises what it puts there."""
    if is_asyncio_available():
        return await asyncio.wrap_future(future)
    from twisted.internet import reactor

    done: Deferred[None] = Deferred()
    future.add_done_callback(lambda _: reactor.callFromThread(done.callback, None))
    await done
    return future.result()


async def pause(seconds: float) -> None:
    """Let so much time pass."""
    if is_asyncio_available():
        await asyncio.sleep(seconds)
        return
    from twisted.internet import reactor

    await deferLater(reactor, seconds)

"""The next output of a callback is had at once where it needs no waiting, and else awaited."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from scrapy_neardup.crawl.next_output import NextOutput


def test_an_output_is_there_without_waiting() -> None:
    async def callback() -> AsyncIterator[int]:
        yield 1
        yield 2

    result = callback()
    outputs = [NextOutput(result), NextOutput(result)]
    assert [(one.is_there, one.output) for one in outputs] == [(True, 1), (True, 2)]
    end = NextOutput(result)
    assert not end.is_there
    assert not end.waits


def test_an_output_that_the_callback_waits_for_is_awaited() -> None:
    async def crawl() -> None:
        download = asyncio.get_running_loop().create_future()

        async def callback() -> AsyncIterator[str]:
            first = await download
            await asyncio.sleep(0)
            yield first

        following = NextOutput(callback())
        assert following.waits
        assert not following.is_there
        download.set_result("page")
        assert await following == "page"

    asyncio.run(crawl())


def test_what_a_callback_raises_is_raised_where_its_output_is_awaited() -> None:
    async def callback(waits: bool) -> AsyncIterator[int]:
        if waits:
            await asyncio.sleep(0)
        raise ValueError("no price")
        yield

    async def crawl(waits: bool) -> None:
        following = NextOutput(callback(waits))
        assert following.waits == waits
        with pytest.raises(ValueError, match="no price"):
            await following

    asyncio.run(crawl(waits=False))
    asyncio.run(crawl(waits=True))


def test_a_callback_that_waits_is_told_that_it_is_cancelled() -> None:
    async def crawl() -> None:
        waited_for = asyncio.get_running_loop().create_future()
        was_told = []

        async def callback() -> AsyncIterator[int]:
            try:
                yield await waited_for
            except asyncio.CancelledError:
                was_told.append(True)
                raise

        following = NextOutput(callback())

        async def awaiting() -> int:
            output: int = await following
            return output

        task = asyncio.ensure_future(awaiting())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert was_told

    asyncio.run(crawl())

"""What needs no waiting is had at once, and the rest is awaited."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from scrapy_neardup.crawl.first_step import FirstStep


def test_an_output_is_done_without_waiting() -> None:
    async def callback() -> AsyncIterator[int]:
        yield 1
        yield 2

    result = callback()
    outputs = [FirstStep(anext(result)), FirstStep(anext(result))]
    assert [(one.is_done, one.value) for one in outputs] == [(True, 1), (True, 2)]
    end = FirstStep(anext(result))
    assert not end.is_done
    assert not end.waits


def test_an_output_that_the_callback_waits_for_is_awaited() -> None:
    async def crawl() -> None:
        download = asyncio.get_running_loop().create_future()

        async def callback() -> AsyncIterator[str]:
            first = await download
            await asyncio.sleep(0)
            yield first

        following = FirstStep(anext(callback()))
        assert following.waits
        assert not following.is_done
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
        following = FirstStep(anext(callback(waits)))
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

        following = FirstStep(anext(callback()))

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

"""What needs no waiting is had at once, and the rest is awaited."""

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest

from scrapy_neardup.crawl.first_step import FirstStep, begun_task


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


def test_a_begun_task_has_come_to_where_it_waits() -> None:
    async def crawl() -> None:
        steps = []

        async def pipeline() -> str:
            steps.append("before")
            await asyncio.sleep(0)
            steps.append("after")
            return "item"

        task = begun_task(pipeline())
        assert steps == ["before"]
        assert await task == "item"
        assert steps == ["before", "after"]

    asyncio.run(crawl())


def test_a_begun_task_is_the_current_one_in_all_its_steps() -> None:
    async def crawl() -> None:
        caller, seen = asyncio.current_task(), []

        async def pipeline() -> None:
            seen.append(asyncio.current_task())
            await asyncio.sleep(0)
            seen.append(asyncio.current_task())

        task = begun_task(pipeline())
        assert asyncio.current_task() is caller
        await task
        assert seen == [task, task]

    asyncio.run(crawl())


def test_a_timeout_within_a_begun_task_ends_what_it_waits_for() -> None:
    async def crawl() -> None:
        async def pipeline() -> str:
            try:
                async with asyncio.timeout(0):
                    await asyncio.get_running_loop().create_future()
            except TimeoutError:
                return "too late"
            return "in time"

        assert await begun_task(pipeline()) == "too late"

    asyncio.run(crawl())


def test_a_begun_task_keeps_its_context_to_itself() -> None:
    page: ContextVar[str] = ContextVar("page", default="none")

    async def crawl() -> None:
        async def pipeline() -> str:
            page.set("one")
            await asyncio.sleep(0)
            return page.get()

        task = begun_task(pipeline())
        assert page.get() == "none"
        assert await task == "one"

    asyncio.run(crawl())


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
def test_what_a_task_raises_as_it_begins_is_raised_where_it_is_awaited(
    error: type[BaseException],
) -> None:
    async def crawl() -> None:
        async def pipeline() -> None:
            raise error

        task = begun_task(pipeline())
        with pytest.raises(error):
            await task

    asyncio.run(crawl())

"""What runs at once, as far as it comes without waiting."""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any, TypeVar

Value = TypeVar("Value")


class FirstStep:
    """An awaitable that runs at once, in the task that makes this, until it waits for something.

    What it waits for may be a download, say, or what becomes of what a callback has yielded. It
    is to be awaited then, in the same task, and goes on from there.

    is_done  whether it has ended
    value    its value, if so
    waits    whether it waits
    error    what it raised, StopAsyncIteration included
    """

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self._steps: Generator[Any, Any, Any] = awaitable.__await__()
        self.is_done = self.waits = False
        self.value = self._awaited = None
        self.error: BaseException | None = None
        try:
            self._awaited = self._steps.send(None)
            self.waits = True
        except StopIteration as end:
            self.is_done, self.value = True, end.value
        except (Exception, asyncio.CancelledError) as error:
            self.error = error

    def __await__(self) -> Generator[Any, Any, Any]:
        """The value. Raises what the awaitable raises."""
        if self.error is not None:
            raise self.error
        if self.is_done:
            return self.value
        resume: Callable[[Any], Any]
        while True:
            try:
                resume, value = self._steps.send, (yield self._awaited)
            except BaseException as error:  # to be dealt with where it waits
                resume, value = self._steps.throw, error
            try:
                self._awaited = resume(value)
            except StopIteration as end:
                return end.value


def begun_task(coroutine: Coroutine[Any, Any, Value]) -> asyncio.Task[Value]:
    """A task of the running loop that has come as far as it comes without waiting.

    The coroutine sees the task as the current one, and keeps its context variables, from its first
    step on. Python 3.12 has asyncio.eager_task_factory for this, 3.11 has not; the functions that
    say which task is the current one are what asyncio documents for other kinds of tasks.
    """
    context, steps = copy_context(), list[FirstStep]()

    async def ended() -> Value:
        value: Value = await steps[0]
        return value

    loop, caller = asyncio.get_running_loop(), asyncio.current_task()
    task = asyncio.Task(ended(), loop=loop, context=context)  # never eager, unlike create_task()
    if caller is not None:
        _leave_task(loop, caller)
    _enter_task(loop, task)
    try:
        steps.append(context.run(FirstStep, coroutine))
    finally:
        _leave_task(loop, task)
        if caller is not None:
            _enter_task(loop, caller)
    return task

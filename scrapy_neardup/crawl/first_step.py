"""How far an awaitable comes without waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any


class FirstStep:
    """An awaitable that runs at once, in the task that makes this, until it waits for something.

    What it waits for may be a download, say, or what becomes of what a callback has yielded. It
    is to be awaited then, in the same task, and goes on from there. One that is done is not.

    is_done  whether it has ended
    value    its value, if so
    waits    whether it waits
    error    what it raised, StopAsyncIteration included
    """

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self._steps: Generator[Any, Any, Any] = awaitable.__await__()
        self.is_done = self.waits = False
        self.value = self._awaited = None
        self.error: Exception | None = None
        try:
            self._awaited = self._steps.send(None)
            self.waits = True
        except StopIteration as end:
            self.is_done, self.value = True, end.value
        except Exception as error:
            self.error = error

    def __await__(self) -> Generator[Any, Any, Any]:
        """The value. Raises what the awaitable raises."""
        if self.error is not None:
            raise self.error
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

"""What a callback yields next, as far as that can be had without waiting."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from typing import Any


class NextOutput:
    """The next output of a callback, which is asked for at once. To be awaited unless it is there.

    The callback runs until it yields, ends, raises, or waits for something: a download, say, or
    what becomes of what it has yielded. Awaited, it goes on from there.

    is_there  whether it has yielded
    output    what it has yielded
    waits     whether it waits
    """

    def __init__(self, result: AsyncIterator[Any]) -> None:
        self._steps: Generator[Any, Any, Any] = anext(result).__await__()
        self.is_there = self.waits = False
        self.output = self._awaited = None
        self._error: BaseException | None = None
        try:
            self._awaited = self._steps.send(None)
            self.waits = True
        except StopIteration as end:
            self.is_there, self.output = True, end.value
        except (StopAsyncIteration, Exception) as error:
            self._error = error

    def __await__(self) -> Generator[Any, Any, Any]:
        """The output. Raises what the callback raises, StopAsyncIteration where it has ended."""
        if self._error is not None:
            raise self._error
        resume: Callable[[Any], Any]
        while True:
            try:
                resume, value = self._steps.send, (yield self._awaited)
            except BaseException as error:  # to be dealt with where the callback waits
                resume, value = self._steps.throw, error
            try:
                self._awaited = resume(value)
            except StopIteration as end:
                return end.value

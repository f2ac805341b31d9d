"""Worker processes, each called by a thread of its own; one that ends is started again."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import Any, Self, TypeVar

from scrapy_neardup.offline.dedup.reading import ReadingWorker, Work

AHEAD = 3  # calls a worker that may wait for the oldest to be done: bounds memory
END = "end of the answers"

T = TypeVar("T")

# What a pipe raises whose other process has ended, an OSError where it did within a message.
HUNG_UP = (EOFError, OSError)


class WorkerEnded(Exception):
    """A worker's process ended during a call, while it looked at a record; -1: at none."""

    def __init__(self, index: int) -> None:
        super().__init__(f"a worker process ended at record {index}")
        self.index = index


class WorkersClosed(Exception):
    """A worker's process was ended on purpose, while a thread was calling it."""


class Worker:
    """One process."""

    def __init__(self, work: Work) -> None:
        self._work = work
        # A server that has imported everything forks workers: they start at once, and inherit no
        # locks of this process's threads, as they would if it forked itself.
        self._context = get_context("spawn") if os.name == "nt" else get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._at = self._context.RawValue("q", -1)
        self._is_ending = False
        self._lock = threading.Lock()  # on which process is this worker's
        self._start()

    def _start(self) -> None:
        self._pipe, theirs = self._context.Pipe()
        self._at.value = -1
        self._process = self._context.Process(
            target=serve, args=(theirs, self._work, self._at), daemon=True
        )
        self._process.start()
        theirs.close()

    def call(self, name: str, *args: Any) -> Any:
        """What a method of Reader returns or raises. Raises WorkerEnded.

        A process that ended at no record, as one does that is killed while it waits, is replaced
        and the new one asked.
        """
        try:
            return self._answer(name, args)
        except WorkerEnded as ended:
            if ended.index >= 0:
                raise
        return self._answer(name, args)

    def _answer(self, name: str, args: tuple[Any, ...]) -> Any:
        self._told(self._pipe.send, (name, args))
        return _returned(self._told(self._pipe.recv))

    def stream(self, name: str, *args: Any) -> Iterator[Any]:
        """What a method of Reader yields, one by one. Raises WorkerEnded."""
        self._told(self._pipe.send, (name, args))
        while (answer := self._told(self._pipe.recv)) != END:
            yield _returned(answer)

    def _told(self, say: Callable[..., T], *words: Any) -> T:
        """What the pipe sends or receives. Raises WorkerEnded."""
        try:
            return say(*words)
        except HUNG_UP as error:
            raise self._ended() from error

    def _ended(self) -> Exception:
        with self._lock:
            if self._is_ending:  # from another thread: no new process
                return WorkersClosed()
            ended = WorkerEnded(self._at.value)
            self.close()
            self._start()
            return ended

    def kill(self) -> None:
        """End the process, whatever it is doing: a thread's call under way raises WorkersClosed."""
        with self._lock:
            self._is_ending = True
            self._process.kill()

    def close(self) -> None:
        """End the process and give back what is held of it; no thread may be calling it."""
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._process.close()


def _returned(answer: Any) -> Any:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def serve(pipe: Connection, work: Work, at: Any) -> None:
    """A worker's process: answer calls until the main process hangs up or ends."""
    # Ctrl-C reaches all processes of a terminal; only the main one reports it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def now_at(index: int) -> None:
        at.value = index

    reader = ReadingWorker(work, now_at)
    with suppress(*HUNG_UP):  # the main process, also meanwhile
        while True:
            name, args = pipe.recv()
            try:
                answer = getattr(reader, name)(*args)
                if isinstance(answer, Iterator):
                    for part in answer:
                        pipe.send(part)
                    answer = END
            except Exception as error:
                answer = error
            pipe.send(answer)


def _end_with_parent() -> None:
    # One that lives on could write where the next run writes.
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class Workers:
    """Some workers, and one that reads the inputs for them; a context."""

    def __init__(self, work: Work, jobs: int) -> None:
        self.jobs = jobs
        self.feeder = Worker(work)
        self._all = [Worker(work) for _ in range(jobs)]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._all:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        workers = (self.feeder, *self._all)
        for worker in workers:
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()

    def in_order(
        self, things: Iterable[T], work_on: Callable[[Worker, T], Any]
    ) -> Iterator[tuple[T, Any]]:
        """Each thing with what work_on made of it, in their order; several at a time."""
        waiting: deque[tuple[T, Future[Any]]] = deque()
        for thing in things:
            waiting.append((thing, self._threads.submit(self._with_idle, work_on, thing)))
            if len(waiting) > AHEAD * self.jobs:
                yield _done(waiting.popleft())
        while waiting:
            yield _done(waiting.popleft())

    def _with_idle(self, work_on: Callable[[Worker, T], Any], thing: T) -> Any:
        worker = self._idle.get()
        try:
            return work_on(worker, thing)
        finally:
            self._idle.put(worker)


def _done(waiting: tuple[T, Future[Any]]) -> tuple[T, Any]:
    thing, future = waiting
    return thing, future.result()

"""The processes of the crash campaign: crawls of the demo site, each in a fresh one, and the site.

A crawl is forked off a server that has imported what crawls need, runs no thread and has opened
nothing (multiprocessing's forkserver): so it begins as a new interpreter would, but within
milliseconds. Each process beats on a pipe, which ends when the process does. One that falls silent
has the stacks of all its threads printed.
"""

import asyncio
import faulthandler
import multiprocessing
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.http import Request, Response
from scrapy.utils.engine import format_engine_status
from twisted.internet.asyncioreactor import AsyncioSelectorReactor

import scrapy_neardup.extension
import scrapy_neardup.spidermiddleware
import scrapy_neardup.squeues  # noqa: F401  # as those above: what the add-on names is imported once
from scrapy_neardup.crawl.requests.seen_urls import UrlAlreadyFetched
from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.pipeline import PutOutBefore
from tests import faults

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "example_project"))

from example.site.plan import Plan
from example.site.server import SiteServer
from example.spiders.demo import DemoSpider

TICK_S = 0.2  # then a sync, then the next one
SILENCE_S = 120.0  # without a beat: then the stacks are printed
GIVE_UP_S = 600.0  # without a beat: then the campaign fails
SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_neardup.NearDupAddon": 500},
    "DOWNLOADER_MIDDLEWARES": {"tests.crash_crawl.Recorder": 140},
    "ITEM_PIPELINES": {"tests.crash_crawl.Export": 900},
    "NEARDUP_KEY": 1,  # one that mistakes no page of the site for a copy, whatever the order
    "DEPTH_LIMIT": 30,
    "ROBOTSTXT_OBEY": True,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "ERROR",
}
PROCESSES = multiprocessing.get_context("forkserver")


def now() -> str:
    """Seconds on a clock that all processes share, and that nothing sets."""
    return f"{time.monotonic():.3f}"


class Diary:
    """What happens, a line at a time; each line is whole, whatever ends the process."""

    def __init__(self, path: str | Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *words: str) -> None:
        os.write(self._fd, (" ".join(words) + "\n").encode())


class Recorder:
    """Writes down which pages are fetched, dropped as seen, dropped as copies; and ticks."""

    def __init__(self, crawler: Crawler) -> None:
        self.diary = Diary(crawler.settings["DIARY"])
        self.beat = crawler.settings.getint("BEAT")
        self.ticked = crawler.settings["TICKED"]
        crawler.signals.connect(self.spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(self.item_dropped, signal=signals.item_dropped)
        crawler.signals.connect(self.request_dropped, signal=signals.request_dropped)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)
        # Last, for its own handlers: what it remembers must have been written down before.
        self.session = CrawlSession.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def spider_opened(self) -> None:
        self._ticking = asyncio.get_running_loop().create_task(self.tick())

    async def tick(self) -> None:
        """Measure time by what this loop and this disk get done: a busy machine is slow in both."""
        with open(self.ticked, "ab") as file:
            while True:
                await asyncio.sleep(TICK_S)
                file.write(b".")
                file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
                self.diary.write("tick", now())

    def process_response(self, request: Request, response: Response) -> Response:
        self.diary.write("fetched", self.key(request), response.url, now())
        os.write(self.beat, b".")
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        if isinstance(exception, UrlAlreadyFetched):
            self.diary.write("seen", self.key(request))

    def request_dropped(self, request: Request) -> None:
        key = self.session.urls.key(request)
        if key is not None and self.session.urls.seen(key):
            self.diary.write("seen", key.decode())

    def item_dropped(self, item: Any, exception: Any) -> None:
        if isinstance(exception, PutOutBefore):
            self.diary.write("again", item.url, now())
        else:
            self.diary.write("copy", item.url, exception.decision.original, now())

    def spider_closed(self, reason: str) -> None:
        self._ticking.cancel()
        self.diary.write("closed", reason)

    def key(self, request: Request) -> str:
        return (self.session.urls.key(request) or b"?").decode()


class Export:
    """The last pipeline: an item that it has written down has left. Slow, as databases are."""

    def __init__(self, crawler: Crawler) -> None:
        self.diary = Diary(crawler.settings["DIARY"])

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        await asyncio.sleep(random.uniform(0, 0.05))
        self.diary.write("kept", item.url, now())
        return item


def crawl(
    beat: int,
    settings: dict[str, Any],
    start: str,
    fault: tuple[Path, faults.Fault, int] | None = None,
) -> None:
    """Crawl until the end, whatever it is. fault: what faults.arm() is to be given."""
    assert_fresh()
    if fault is not None:
        faults.arm(*fault)
    # Twisted's timers go by the clock, and it connects by one: where the clock jumps back then, the
    # request waits until it has caught up. No plugin can help that.
    AsyncioSelectorReactor.seconds = staticmethod(time.monotonic)
    process = AsyncCrawlerProcess(SETTINGS | settings | {"BEAT": beat})
    crawler = process.create_crawler(DemoSpider)
    signal.signal(signal.SIGUSR2, lambda *_: tell_status(crawler))
    process.crawl(crawler, start=start)
    process.start()


def tell_status(crawler: Crawler) -> None:
    """Write down what the engine waits for; says nothing before there is one."""
    with suppress(RuntimeError):
        if crawler.engine is not None:
            sys.stderr.write(format_engine_status(crawler.engine))
            sys.stderr.flush()


def assert_fresh() -> None:
    """A thread of the server would be gone in here, and any lock that it held be held for good."""
    if (tasks := Path("/proc/self/task")).exists():
        assert len(list(tasks.iterdir())) == 1, "the server of the processes has threads"


class Asked(list[str]):
    """Writes down each path that a site is asked for."""

    def __init__(self, path: Path) -> None:
        self._diary = Diary(path)

    def append(self, path: str) -> None:
        self._diary.write("asked", path, now())


def serve(beat: int, asked: Path, root: Connection) -> None:
    """The demo site until the process is killed; says first where it is."""
    server = SiteServer(Plan())
    server.asked = Asked(asked)
    root.send(server.root)
    server.serve_forever()


class Child:
    """An action in a process of its own, which beats on a pipe; the pipe ends when it does."""

    def __init__(self, log: Path, action: Callable[..., None], *args: Any) -> None:
        """The action gets the pipe's end to write to, and the arguments. log: of its errors."""
        # NumPy's linear algebra starts a thread for each further core when it is imported.
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        PROCESSES.set_forkserver_preload([__name__])
        self._log = log
        self._pulse, beat = PROCESSES.Pipe(duplex=False)
        self._process = PROCESSES.Process(target=_begun, args=(log, action, beat, *args))
        self._process.start()
        beat.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def send(self, what: signal.Signals) -> None:
        """Send a signal to the process, if it still is there."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, what)

    def has_ended(self, timeout_s: float, beats: float = float("inf")) -> bool:
        """Wait for the end, for so many beats, or for so long; whether it is the end."""
        deadline = time.monotonic() + timeout_s
        while beats > 0:
            if not self._is_heard(max(0.0, deadline - time.monotonic())):
                return False
            if not (heard := os.read(self._pulse.fileno(), 4096)):
                return True
            beats -= len(heard)
        return False

    def _is_heard(self, timeout_s: float) -> bool:
        return bool(select.select([self._pulse], [], [], timeout_s)[0])

    def _ends(self) -> bool:
        """Wait for the end while there are beats; whether it came, and no silence before."""
        silent_s = 0.0
        while silent_s < GIVE_UP_S:
            if not self._is_heard(SILENCE_S):
                silent_s += SILENCE_S
                say(f"nothing for {silent_s:.0f} s from {self.pid}:", self.stacks())
            elif not os.read(self._pulse.fileno(), 4096):
                return True
            else:
                silent_s = 0.0
        return False

    def stacks(self) -> str:
        """Where each thread is, what the crawl waits for if its loop runs, and how long the process
        ran and waited for a processor (ns).
        """
        n_before = self._log.stat().st_size
        for what in (signal.SIGUSR1, signal.SIGUSR2):
            self.send(what)
            self.has_ended(1.0)
        schedule = Path(f"/proc/{self.pid}/schedstat")
        ran = schedule.read_text() if schedule.exists() else ""
        return f"{ran}{self._log.read_bytes()[n_before:].decode(errors='replace')}"

    def end(self, how: str) -> bool:
        """Send the signals, and wait until the process is no more; whether it was killed."""
        for name in how.split():
            self.send(signal.Signals[name])
            self.has_ended(0.02)
        ended = self._ends()
        if not ended:
            self.send(signal.SIGKILL)
        self._pulse.close()
        self._process.join()
        assert ended, f"after {how or 'no signal'} the process neither went on nor ended"
        assert self._process.exitcode is not None
        return self._process.exitcode < 0


def _begun(log: Path, action: Callable[..., None], beat: Connection, *args: Any) -> None:
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), sys.stderr.fileno())
    faulthandler.register(signal.SIGUSR1)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # until somebody has more to say
    action(beat.fileno(), *args)


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201  # a command's output

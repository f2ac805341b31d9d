"""Kill and pause workers of a fleet, and kill its server, at random moments: nothing is lost.

    python -m tests.fleet_crash --kills 300
    python -m tests.fleet_crash --kills 20 --recrawl
    python -m tests.fleet_crash --kills 20 --cluster
    python -m tests.fleet_crash --kills 20 --scheduler redis-spider
    python -m tests.fleet_crash --kills 20 --scheduler scrapy-redis

A campaign is one crawl of a site on several hosts by four workers, which are processes. Each that
is killed (SIGKILL) is replaced by a new one; the server, which has an append-only file, is started
again. Some workers are stopped (SIGSTOP) for longer than their lease, and go on. They write down, a
line at a time, which pages they fetched and which items left the pipelines. In the end every
content has to be among these, and no more of them twice than the workers that were killed or
paused had under way. With scrapy-redis's scheduler what is lost is only counted. Spiders of
scrapy-redis (redis-spider…) take half of the pages, to which no link leads, from a key.

With --cluster the server is three nodes, of which one is killed at a time.

With --recrawl the site is crawled under NEARDUP_RECRAWL, and twice more: at once, when no page is
due, so that each is to be reached and none kept; and when every third content is another one, which
has to be kept.
"""

import argparse
import asyncio
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from multiprocessing import Value
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.http import Response

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fleets import PROGRAM, RunningServer, cluster_url, free_port, running_cluster, running_server
from mock_site import prose

from scrapy_neardup.fleet.protocol import LEASE_S

N_WORKERS, N_HOSTS, N_PAGES = 4, 6, 40  # pages of each host, of which every fifth is a copy
MAX_BEATS = 30  # pages between two kills
CONCURRENT = 8
PATIENCE_S = 180.0
LINKS = "X-Links"
PAUSE_S = LEASE_S + 1
TOLD = tuple(
    f"neardup/{what}/" for what in ("frontier", "errors", "start_messages", "requests", "recrawl")
)
SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_neardup.NearDupAddon": 500},
    "DOWNLOADER_MIDDLEWARES": {"tests.fleet_crash.Recorder": 140},
    "ITEM_PIPELINES": {"tests.fleet_crash.Export": 900},
    "CONCURRENT_REQUESTS": CONCURRENT,
    "NEARDUP_KEY": 1,
    "NEARDUP_BOILERPLATE": "keep",
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "ERROR",
}
FLEET = {"SCHEDULER": "scrapy_neardup.scheduler.FleetScheduler"}
SCRAPY_REDIS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "SCHEDULER_PERSIST": True,
    "SCHEDULER_IDLE_BEFORE_CLOSE": 5,
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
}
FIFO = {"SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.FifoQueue"}
MESSAGES = {"MAX_IDLE_TIME_BEFORE_CLOSE": 10}
SCHEDULERS: dict[str, dict[str, Any]] = {
    "fleet": FLEET,
    "redis-spider": FLEET | MESSAGES,
    "redis-spider-fifo": FLEET | MESSAGES | FIFO | {"REDIS_START_URLS_AS_SET": True},
    "redis-spider-alone": MESSAGES,  # with Scrapy's scheduler
    "scrapy-redis": SCRAPY_REDIS,
    "scrapy-redis-fifo": SCRAPY_REDIS | FIFO,
    "scrapy-redis-spider": SCRAPY_REDIS | MESSAGES,
}
LOSING = ("scrapy-redis", "scrapy-redis-fifo", "scrapy-redis-spider")
START_KEY = "start"
N_LINKED = N_PAGES // 2  # pages of each host that links lead to, where the others are messages


def content_of(host: int, number: int) -> str:
    """What a page says: every fifth repeats the one before it."""
    return f"{host}-{number - 1 if number % 5 == 4 else number}"


def changes(content: str) -> bool:
    """Whether a content is another one on the second day."""
    return int(content.partition("-")[2]) % 3 == 0


def n_changed_copies() -> int:
    pages = [(host, n) for host in range(N_HOSTS) for n in range(N_PAGES)]
    return sum(n % 5 == 4 and changes(content_of(host, n)) for host, n in pages)


class Crawl(NamedTuple):
    """One crawl of a site: on which day, under which settings, and which contents it is to keep."""

    day: int
    settings: dict[str, Any]
    is_wanted: Callable[[str], bool]


CHANGED = {"NEARDUP_RECRAWL": "changed"}
ADAPTIVE = CHANGED | {"NEARDUP_REVISIT": "adaptive"}
ONCE = [Crawl(0, {}, bool)]
AGAIN = [
    Crawl(0, ADAPTIVE, bool),
    Crawl(0, ADAPTIVE, lambda content: False),
    Crawl(1, CHANGED, changes),
]


def links_of(host: int, number: int) -> Iterator[tuple[int, int]]:
    """A page leads to two of its host, so that each has one way from its root; roots to roots."""
    yield from ((host, n) for n in (2 * number + 1, 2 * number + 2) if n < N_PAGES)
    yield host, number // 2
    if number == 0 and host + 1 < N_HOSTS:
        yield host + 1, 0


def address(host: int, port: int) -> str:
    return f"http://127.0.0.{host + 1}:{port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    day: Any

    def do_GET(self) -> None:
        host = int(str(self.server.server_address[0]).rpartition(".")[2]) - 1
        port, number = int(self.server.server_address[1]), int(self.path.strip("/") or 0)
        links = [f"{address(h, port)}/{n}" for h, n in links_of(host, number)]
        content = content_of(host, number)
        is_other = self.day.value and changes(content)
        body = f"<p>{prose(content + ' today' * is_other)}</p>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header(LINKS, " ".join(links))  # not in the page: copies differ in nothing
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Keep the output clean."""


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *args: object) -> None:
        """A worker that is killed hangs up."""


def serve(port: int, day: Any) -> None:
    """In a process of its own: the site, each host on an address of its own."""
    Handler.day = day
    servers = [QuietServer((f"127.0.0.{host + 1}", port), Handler) for host in range(N_HOSTS)]
    for server in servers[1:]:
        Thread(target=server.serve_forever, daemon=True).start()
    servers[0].serve_forever()


class EveryPage(Spider):
    """Follows every link and makes an item of every page."""

    name = "every page"
    root: str

    async def start(self) -> AsyncIterator[Any]:
        yield Request(self.root)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield from response.follow_all((response.headers[LINKS] or b"").decode().split())


def every_message() -> type[Spider]:
    """A spider of scrapy-redis's, which takes half of the pages from a key."""
    from scrapy_redis.spiders import RedisSpider

    class EveryMessage(RedisSpider):
        name = "every message"
        redis_key = START_KEY

        def make_request_from_data(self, data: bytes) -> Any:
            os.write(self.settings.getint("BEAT"), b".")  # a moment to be killed at
            time.sleep(random.uniform(0, 0.02))
            return super().make_request_from_data(data)

        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url}
            links = (response.headers[LINKS] or b"").decode().split()
            yield from response.follow_all(link for link in links if is_linked(link))

    return EveryMessage


def takes_messages(settings: Mapping[str, Any]) -> bool:
    """Whether the spider is one of scrapy-redis's: of its settings only theirs has this one."""
    return "MAX_IDLE_TIME_BEFORE_CLOSE" in settings


def is_linked(url: str) -> bool:
    return 0 < int(url.rpartition("/")[2]) < N_LINKED


def messages(port: int) -> list[str]:
    pages = [(h, n) for n in range(N_PAGES) for h in range(N_HOSTS)]
    urls = [f"{address(h, port)}/{n}" for h, n in pages]
    return [url for url in urls if not is_linked(url)]


class Diary:
    """What happens, a line at a time; each line is whole, whatever ends the process."""

    def __init__(self, crawler: Crawler) -> None:
        path = crawler.settings["DIARY"]
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *words: object) -> None:
        os.write(self._fd, (" ".join(map(str, words)) + "\n").encode())


class Recorder:
    """Writes down which pages are fetched, and beats."""

    def __init__(self, crawler: Crawler) -> None:
        self.diary, self.beat = Diary(crawler), crawler.settings.getint("BEAT")
        self.crawler = crawler
        crawler.signals.connect(self.closed, signal=signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Recorder":
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        self.diary.write("fetched", response.url)
        os.write(self.beat, b".")
        return response

    def closed(self, reason: str) -> None:
        assert self.crawler.stats
        stats = self.crawler.stats.get_stats()
        self.diary.write("closed", reason)
        for key, value in stats.items():
            if key.startswith(TOLD):
                self.diary.write("stat", key.removeprefix("neardup/"), value)


class Export:
    """The last pipeline: an item that it has written down has left. Slow, as databases are."""

    def __init__(self, crawler: Crawler) -> None:
        self.diary = Diary(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "Export":
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        await asyncio.sleep(random.uniform(0, 0.05))
        self.diary.write("kept", item["url"])
        return item


class Child:
    """A worker's process, which beats on a pipe."""

    def __init__(self, settings: dict[str, Any], root: str, log: Path) -> None:
        self.pulse, beat = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pulse)
            try:
                fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
                os.dup2(fd, sys.stderr.fileno())
                process = AsyncCrawlerProcess(SETTINGS | settings | {"BEAT": beat})
                if takes_messages(settings):
                    process.crawl(every_message())
                else:
                    process.crawl(EveryPage, root=root)
                process.start()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(beat)

    def pause(self) -> None:
        """Stop it until its lease has expired and its requests are given to others."""
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(PAUSE_S)
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.bury()

    def bury(self) -> None:
        os.close(self.pulse)
        os.waitpid(self.pid, 0)


@dataclass
class Campaign:
    """One crawl by workers that are killed and replaced."""

    folder: Path
    servers: list[RunningServer]
    settings: dict[str, Any]
    root: str
    workers: list[Child] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    kills_to_the_end: bool = False  # also when a worker has ended by itself
    has_ended: bool = False  # whether one has
    numbers: Iterator[int] = field(default_factory=count)  # of folders for workers

    def run(self, rng: random.Random, most: int) -> None:
        """Crawl to the end; up to `most` kills on the way."""
        for _ in range(N_WORKERS):
            self.join()
        try:
            while self.workers and self.kills.total() < most:
                if self.waits_for(rng.randrange(MAX_BEATS)):
                    self.strike(rng)
            self.waits_for(sys.maxsize)
            if self.messages_left():  # taken by workers that were killed when the others ended
                self.join()
                self.waits_for(sys.maxsize)
        finally:
            for worker in self.workers:
                worker.kill()

    def messages_left(self) -> bool:
        keys = f"{START_KEY} {START_KEY}:taken"
        takes_any = takes_messages(self.settings)
        return takes_any and self.servers[0].command("EXISTS", keys) != ":0\r\n"

    def join(self) -> None:
        settings = self.settings | {"DIARY": str(self.folder / "diary")}
        if "NEARDUP_RECRAWL" in settings:
            settings["NEARDUP_STATE_DIR"] = str(self.folder / f"worker-{next(self.numbers)}")
        self.workers.append(Child(settings, self.root, self.folder / "log"))

    def waits_for(self, beats: int) -> bool:
        """Wait for so many pages; whether no worker has ended by itself meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while beats > 0 and self.workers:
            rest_s = deadline - time.monotonic()
            assert rest_s > 0, f"nothing happens any more; see {self.folder}"
            ready = select.select([worker.pulse for worker in self.workers], [], [], rest_s)[0]
            for worker in [worker for worker in self.workers if worker.pulse in ready]:
                heard = os.read(worker.pulse, 4096)
                beats -= len(heard)
                if heard:
                    deadline = time.monotonic() + PATIENCE_S
                else:
                    worker.bury()
                    self.workers.remove(worker)
                    self.has_ended = True
        return bool(self.workers) and (not self.has_ended or self.kills_to_the_end)

    def strike(self, rng: random.Random) -> None:
        """Kill a worker and let a new one join, pause one, or restart the server."""
        if rng.random() < 0.1 * len(self.servers):
            server = rng.choice(self.servers)
            server.kill()
            time.sleep(rng.uniform(0, 1))
            server.start()
            self.kills["server"] += 1
            return
        victim = self.workers[rng.randrange(len(self.workers))]
        if rng.random() < 0.1:
            victim.pause()
            self.kills["paused"] += 1
            return
        self.workers.remove(victim)
        victim.kill()
        self.kills["worker"] += 1
        self.join()


def judge(lines: list[str], is_wanted: Callable[[str], bool]) -> Counter[str]:
    """What a diary says: contents lost, contents kept more than once, or though they were not
    wanted, fetches beyond the first."""
    counts: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    fetched: Counter[str] = Counter()
    for line in lines:
        what, *words = line.split(" ")
        if what == "fetched":
            fetched[words[0]] += 1
        elif what == "kept":
            url = urlsplit(words[0])
            host = int((url.hostname or "").rpartition(".")[2]) - 1
            kept[content_of(host, int(url.path.strip("/") or 0))] += 1
        elif what == "stat":
            counts[words[0]] += int(words[1])
    contents = {content_of(h, n) for h in range(N_HOSTS) for n in range(N_PAGES)}
    wanted = set(filter(is_wanted, contents))
    twice = kept.total() - len(kept.keys() & wanted)
    counts |= Counter(lost=len(wanted - kept.keys()), twice=twice)
    counts |= Counter(unreached=N_HOSTS * N_PAGES - len(fetched))
    return counts | Counter(contents=len(wanted), refetched=fetched.total() - len(fetched))


def check(campaign: Campaign, counts: Counter[str], n_copies: int) -> None:
    """Raise if anything was lost. n_copies: of changed pages; those read first are kept, too."""
    folder = campaign.folder
    assert not counts["lost"] + counts["unreached"], f"lost: see {folder}"
    n_interrupted = campaign.kills.total() + campaign.kills["server"] * (N_WORKERS - 1)
    under_way = CONCURRENT * (2 if takes_messages(campaign.settings) else 1)
    most = n_interrupted * under_way + n_copies
    assert counts["twice"] <= most, f"kept twice: {counts['twice']}; see {folder}"
    assert not counts["errors/frontier"], f"errors: see {folder}"
    assert not campaign.messages_left(), f"messages left: see {folder}"
    assert not counts["errors/recrawl"], f"errors: see {folder}"
    assert not counts["recrawl/gone"] + counts["recrawl/moved"], f"gone: see {folder}"


def push_messages(server: RunningServer, scheduler: str, port: int) -> None:
    """Let the spiders of scrapy-redis have something to begin with."""
    if takes_messages(SCHEDULERS[scheduler]):
        push = "SADD" if "REDIS_START_URLS_AS_SET" in SCHEDULERS[scheduler] else "RPUSH"
        for message in messages(port):
            server.command(push, START_KEY, message)


@contextmanager
def running_servers(folder: Path, is_cluster: bool) -> Iterator[list[RunningServer]]:
    """A server that keeps its data when it is killed, or a cluster of such."""
    assert PROGRAM, "neither valkey-server nor redis-server is installed"
    durable = {"appendonly": "yes", "appendfsync": "everysec"}
    if is_cluster:
        with running_cluster(cluster_require_full_coverage="no", **durable) as nodes:
            yield nodes
        return
    with running_server(**durable, dir=str(folder)) as server:
        yield [server]


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201  # a command's output


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet_crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="and pauses, of workers and servers")
    parser.add_argument("--each", type=int, default=8, help="kills in one crawl, at most")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the moments")
    parser.add_argument("--scheduler", choices=SCHEDULERS, default="fleet")
    parser.add_argument("--recrawl", action="store_true", help="crawl each site once more")
    parser.add_argument("--cluster", action="store_true", help="of three nodes (scheduler fleet)")
    options = parser.parse_args()
    if options.cluster and options.scheduler != "fleet":
        parser.error(f"--scheduler {options.scheduler}: scrapy-redis knows no cluster")
    say(f"seed {options.seed}")
    rng, begin, sum_ = random.Random(options.seed), time.monotonic(), Counter[str]()
    kills: Counter[str] = Counter()
    root, port = Path(tempfile.mkdtemp(prefix="neardup-fleet-")), free_port()
    day = Value("i", 0)
    site = os.fork()
    if site == 0:
        serve(port, day)
    try:
        while kills.total() < options.kills:
            with ExitStack() as stack:
                folder = root / "crawl"
                folder.mkdir()
                servers = stack.enter_context(running_servers(folder, options.cluster))
                settings = {"NEARDUP_BACKEND": servers[0].url, "REDIS_URL": servers[0].url}
                if options.cluster:
                    settings["NEARDUP_BACKEND"] = cluster_url(servers)
                settings |= SCHEDULERS[options.scheduler]
                push_messages(servers[0], options.scheduler, port)
                for crawl in AGAIN if options.recrawl else ONCE:
                    day.value = crawl.day
                    started = settings | crawl.settings
                    campaign = Campaign(folder, servers, started, address(0, port) + "/0")
                    campaign.kills_to_the_end = options.scheduler in LOSING
                    campaign.run(rng, min(options.each, options.kills - kills.total()))
                    diary = folder / "diary"
                    counts = judge(diary.read_text().splitlines(), crawl.is_wanted)
                    diary.unlink()
                    kills += campaign.kills
                    sum_ += counts
                    say(dict(campaign.kills), dict(counts))
                    if options.scheduler not in LOSING:
                        check(campaign, counts, n_changed_copies() if day.value else 0)
            shutil.rmtree(folder)
    finally:
        os.kill(site, signal.SIGKILL)
        os.waitpid(site, 0)
    shutil.rmtree(root)
    seconds = time.monotonic() - begin
    what = {name: sum_[name] for name in ("contents", "lost", "twice", "refetched")}
    say(f"{dict(kills)} killed, {what} in {seconds:.0f} s")


if __name__ == "__main__":
    main()

"""End a crawl of the demo site before its time, go on with it, and see that nothing is lost.

    python -m tests.crash --rounds 1000
    python -m tests.crash --model

A campaign is one crawl, ended and resumed until it finishes. Each of its rounds is a process
of its own, ended by SIGKILL, SIGTERM or SIGINT twice after a number of pages, or struck at a
single write, sync, cut, rename or removal (faults.py): killed before it, in it or after it, or
told that the disk is broken or full, or that the clock jumped. Where the state is, how often it
is saved and synced, and whether links of copies are followed, is drawn for each campaign. The
processes write down what happens to each page, a line at a time, so that the oracle can tell
afterwards; half of the campaigns write a feed, too, which has to have everything in the end. In
the manner of RocksDB's db_crashtest.
Then come campaigns of two crawls at once in one folder (crash_pairs.py).
--model: crash_model.py, which crashes no process but a model of a file system.
"""

import argparse
import asyncio
import faulthandler
import gc
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.http import Request, Response

from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.downloadermiddleware import UrlAlreadyFetched
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.frontier import Frontier
from tests import crash_model, faults

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "example_project"))

from example.scorecard import path_of
from example.site.plan import Plan
from example.site.server import SiteServer
from example.spiders.demo import DemoSpider

ROOT = Path(__file__).resolve().parents[1]
MAX_PAGES = 80  # of a round
MAX_ROUNDS = 60  # of a campaign; the next one may finish
PATIENCE_S = 120.0  # without a page
LATELY_S = 2.0  # a second until what feeds have is recorded, and one until that is committed
SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_neardup.NearDupAddon": 500},
    "DOWNLOADER_MIDDLEWARES": {"tests.crash.Recorder": 140},
    "ITEM_PIPELINES": {"tests.crash.Export": 900},
    "NEARDUP_KEY": 1,  # one that mistakes no page of the site for a copy, whatever the order
    "DEPTH_LIMIT": 30,
    "ROBOTSTXT_OBEY": True,
    "TELNETCONSOLE_ENABLED": False,
    "LOG_LEVEL": "ERROR",
}
ENDS = {"SIGKILL": 8, "SIGTERM": 1, "SIGINT SIGINT": 1}  # the signals, how often each


class Diary:
    """What happens, a line at a time; each line is whole, whatever ends the process."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, *words: str) -> None:
        os.write(self._fd, (" ".join(words) + "\n").encode())


class Recorder:
    """Writes down which pages are fetched, dropped as seen, dropped as copies."""

    def __init__(self, crawler: Crawler) -> None:
        self.diary = Diary(crawler.settings["DIARY"])
        self.beat = crawler.settings.getint("BEAT")
        crawler.signals.connect(self.item_dropped, signal=signals.item_dropped)
        crawler.signals.connect(self.request_dropped, signal=signals.request_dropped)
        crawler.signals.connect(self.spider_closed, signal=signals.spider_closed)
        # Last, for its own handlers: what it remembers must have been written down before.
        self.session = CrawlSession.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_response(self, request: Request, response: Response) -> Response:
        self.diary.write("fetched", self.key(request), response.url, f"{time.monotonic():.3f}")
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
        self.diary.write("copy", item.url, exception.decision.original)

    def spider_closed(self, reason: str) -> None:
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
        self.diary.write("kept", item.url, f"{time.monotonic():.3f}")
        return item


class Child:
    """An action in a process of its own, which beats on a pipe; the pipe ends when it does."""

    def __init__(self, action: Callable[[int], None]) -> None:
        self._pulse, beat = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._pulse)
            try:
                action(beat)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(beat)

    def has_ended(self, timeout_s: float, beats: float = float("inf")) -> bool:
        """Wait for the end, for so many beats, or for so long; whether it is the end."""
        deadline = time.monotonic() + timeout_s
        while beats > 0:
            rest_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._pulse], [], [], rest_s)[0]:
                return False
            if not (heard := os.read(self._pulse, 4096)):
                return True
            beats -= len(heard)
        return False

    def ends(self) -> bool:
        """Wait for the end while there are beats; whether it came, and no silence before."""
        while select.select([self._pulse], [], [], PATIENCE_S)[0]:
            if not os.read(self._pulse, 4096):
                return True
        return False

    def end(self, how: str) -> bool:
        """Send the signals, and wait until the process is no more; whether it was killed."""
        for name in how.split():
            os.kill(self.pid, signal.Signals[name])
            self.has_ended(0.02)
        stuck = not self.ends()
        if stuck:
            os.kill(self.pid, signal.SIGUSR1)  # its log tells where it is
            self.has_ended(1.0)
            os.kill(self.pid, signal.SIGKILL)
        os.close(self._pulse)
        _, status = os.waitpid(self.pid, 0)
        assert not stuck, f"after {how} the process went on"
        return os.WIFSIGNALED(status)


PLACES = ("job", "state", "both")


@dataclass
class Campaign:
    """One crawl of a site, ended and resumed until it finishes."""

    folder: Path
    start: str
    place: str  # of the state: JOBDIR, NEARDUP_STATE_DIR, or both
    has_feed: bool
    settings: dict[str, Any] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)
    was_hindered: bool = False  # whether the last round could not write what it wanted to

    @classmethod
    def drawn(cls, folder: Path, start: str, rng: random.Random) -> Self:
        """One of any kind."""
        settings = {
            "NEARDUP_FOLLOW_DUPLICATES": rng.random() < 0.5,
            "NEARDUP_SNAPSHOT_INTERVAL": rng.choice((0.1, 0.5, 300)),
            "NEARDUP_FSYNC": rng.choice(("always", "everysec", "no")),
        }
        return cls(folder, start, rng.choice(PLACES), rng.random() < 0.5, settings)

    @property
    def diary(self) -> Path:
        return self.folder / "diary"

    @property
    def feed(self) -> Path:
        return self.folder / "items.jsonl"

    @property
    def state_folder(self) -> Path:
        return self.folder / "job" / "neardup" if self.place == "job" else self.folder / "state"

    def crawl(self, beat: int, fault: tuple[faults.Fault, int] | None = None) -> None:
        """In a process of its own: crawl until the end, whatever it is."""
        if fault is not None:
            faults.arm(self.folder, *fault)
        log = os.open(self.folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(log, sys.stderr.fileno())
        faulthandler.register(signal.SIGUSR1)
        where = {} if self.place == "state" else {"JOBDIR": str(self.folder / "job")}
        where |= {} if self.place == "job" else {"NEARDUP_STATE_DIR": str(self.state_folder)}
        feeds = {str(self.feed): {"format": "jsonlines"}} if self.has_feed else {}
        here = {"DIARY": str(self.diary), "BEAT": beat, "FEEDS": feeds}
        process = AsyncCrawlerProcess(SETTINGS | self.settings | where | here)
        process.crawl(DemoSpider, start=self.start)
        process.start()

    def round(self, rng: random.Random, max_pages: float) -> None:
        """Crawl on; end it at a random moment if it has not finished by itself."""
        self.was_hindered = False
        if faults.LOADED in os.environ and rng.random() < 0.6 and max_pages < float("inf"):
            self.faulty_round(rng)
        else:
            self.ended_round(rng, max_pages)

    def faulty_round(self, rng: random.Random) -> None:
        """Crawl on; let something happen at a single call."""
        fault = faults.chosen(rng)
        child = Child(lambda beat: self.crawl(beat, fault))
        was_killed = child.end("")
        is_kill = fault[0] in faults.KILLS
        self.was_hindered = not is_kill
        self.ends[fault[0].name if was_killed or not is_kill else ""] += 1

    def ended_round(self, rng: random.Random, max_pages: float) -> None:
        """Crawl on; end it by signals."""
        child = Child(self.crawl)
        # A count of pages, not a time: a busy machine shall not kill crawls that never began.
        pages = rng.uniform(0, max_pages)
        if child.has_ended(PATIENCE_S, pages) or child.has_ended(rng.uniform(0, 0.03)):
            how = ""
        else:
            (how,) = rng.choices(list(ENDS), list(ENDS.values()))
        child.end(how)
        self.ends[how] += 1

    @property
    def is_finished(self) -> bool:
        if self.was_hindered or not self.diary.exists():
            return False
        return self.diary.read_text().endswith("closed finished\n")


def check_state(folder: Path) -> None:
    """What the crawl left opens again and holds every invariant.

    Opens a copy: opening writes, and the next round must find what the crawl left.
    """
    if not folder.exists():
        return
    with tempfile.TemporaryDirectory(prefix="neardup-crash-") as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        state = State.open(
            Path(copy),
            make_state_factory(NearDupSettings()),
            key=SETTINGS["NEARDUP_KEY"],
            fsync="no",
        )
        state.check()
        if (frontier := Path(copy, "frontier.sqlite")).exists():
            Frontier(frontier).release()
        assert state.store is not None
        state.store.close()
        del state
        gc.collect()  # of cycles, which keep snapshots mapped and their files open


def check_diary(lines: list[str], plan: Plan) -> Counter[str]:
    """No page dropped as seen that was not handled, no content lost. How much of what there was."""
    keys: dict[str, str] = {}  # URL → key
    handled: set[str] = set()  # keys
    fetched_now: set[str] = set()
    kept: set[str] = set()
    copies: dict[str, str] = {}  # URL → original, by the last word on it
    for line in lines:
        what, *words = line.split(" ")
        if what == "round":
            fetched_now = set()
        elif what == "fetched":
            keys[words[1]] = words[0]
            fetched_now.add(words[0])
        elif what == "seen":
            assert words[0] in fetched_now | handled, f"{words[0]} was dropped and never handled"
        elif what == "kept":
            kept.add(words[0])
            # Dropped before as a copy of a page that a crash then lost: the copy took its place.
            copies.pop(words[0], None)
            handled.add(keys[words[0]])
        elif what == "copy":
            copies[words[0]] = words[1]
            handled.add(keys[words[0]])
    # A crash may lose an original, which then is a copy itself, whose links are not followed.
    unkept = {original_of(url, copies) for url in copies} - kept
    assert not unkept, f"copies were dropped of pages that were never kept: {unkept}"
    lost = lost_contents(kept, plan)
    assert not lost, f"lost: {lost}"
    return Counter(line.split(" ", 1)[0] for line in lines)


def lost_contents(urls: set[str], plan: Plan) -> set[str]:
    """What the site has and none of these pages says."""
    contents = {plan.page(path_of(url)).content for url in urls}
    return {page.content for page in plan.pages.values()} - contents


def check_feed(feed: Path, plan: Plan) -> Counter[str]:
    """Every content is in the feed. How many lines it has: cut off by a kill, or of a URL again."""
    n_lines, urls = len(feed.read_bytes().splitlines()), urls_in(feed)
    lost = lost_contents(set(urls), plan)
    assert not lost, f"not in the feed: {lost}"
    again = len(urls) - len(set(urls))
    return Counter(lines=n_lines, torn=n_lines - len(urls), again=again)


def urls_in(feed: Path) -> list[str]:
    """The URL of each line that no kill cut off."""
    urls = []
    for line in feed.read_bytes().splitlines():
        with suppress(ValueError):
            urls.append(json.loads(line)["url"])
    return urls


def original_of(url: str, copies: dict[str, str]) -> str:
    """What a copy repeats in the end: the first that is not a copy itself."""
    for _ in copies:
        url = copies.get(url, url)
    return url


def run(campaign: Campaign, rng: random.Random, plan: Plan, reference: set[str]) -> Counter[str]:
    """Kill and resume until the crawl finishes; what its diary counts. Raises AssertionError.

    reference: keys of what a crawl fetches that follows every link.
    """
    campaign.folder.mkdir()
    while not campaign.is_finished:
        assert campaign.ends.total() < MAX_ROUNDS + 5, "the crawl does not finish"
        Diary(str(campaign.diary)).write("round")
        campaign.round(rng, MAX_PAGES if campaign.ends.total() < MAX_ROUNDS else float("inf"))
        if campaign.was_hindered:
            Diary(str(campaign.diary)).write("hindered")
        check_state(campaign.state_folder)
    lines = campaign.diary.read_text().splitlines()
    counts = check_diary(lines, plan) + refetched(lines)
    if campaign.settings["NEARDUP_FOLLOW_DUPLICATES"]:
        missed = reference - set(keys_fetched(lines))
        assert not missed, f"never fetched: {missed}"
    if campaign.place == "job":
        check_repeats(lines)
    return counts + check_feed(campaign.feed, plan) if campaign.has_feed else counts


def keys_fetched(lines: list[str]) -> dict[str, str]:
    """The keys of what a diary says was fetched, each with a path."""
    words = (line.split(" ") for line in lines if line.startswith("fetched "))
    return {key: path_of(url) for _, key, url, _ in words}


def refetched(lines: list[str]) -> Counter[str]:
    """How many pages rounds fetched again, and how many of them not for the first time lately.

    Lately is the last second before the end of a round, plus what was under way then. What each
    process fetches (the start page, robots.txt), and what a round fetched that could not write, is
    left out.
    """
    earlier: dict[str, bool] = {}  # key → whether it was fetched lately
    here: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for line in [*lines, "round"]:
        what, *words = line.split(" ")
        if what == "fetched" and path_of(words[1]) not in ("/", "/robots.txt"):
            here.setdefault(words[0], float(words[2]))
        elif what == "round":
            counts["refetched"] += len(here.keys() & earlier)
            counts["refetched_old"] += sum(not earlier[key] for key in here.keys() & earlier)
            end = max(here.values(), default=0.0)
            earlier |= {key: end - at < 1.0 for key, at in here.items()}
            here = {}
        elif what == "hindered":
            here = {}
    return counts


def check_repeats(lines: list[str]) -> None:
    """An item that two rounds kept was under way, or had left less than LATELY_S ago, at a crash.

    With a frontier: without one, pages are read again to find what waited. Left out are the start
    page, which each process fetches and keeps, and what a round kept that could not write.
    """
    kept: dict[str, float] = {}  # URL → how long before the end of its round
    here: dict[str, float] = {}
    end = 0.0
    for line in [*lines, "round"]:
        what, *words = line.split(" ")
        if what in ("kept", "fetched"):
            end = float(words[-1])
        if what == "kept" and path_of(words[0]) != "/":
            age_s = kept.get(words[0], 0.0)
            assert age_s <= LATELY_S, f"{words[0]} again, which had left {age_s:.1f} s before"
            here[words[0]] = end
        elif what == "round":
            kept |= {url: end - at for url, at in here.items()}
            here = {}
        elif what == "hindered":
            here = {}


def reference_of(start: str, root: Path, plan: Plan) -> set[str]:
    """The keys of the site's listed pages, as far as a crawl fetches them that nothing ends."""
    campaign = Campaign(root / "reference", start, "state", False)
    campaign.settings["NEARDUP_FOLLOW_DUPLICATES"] = True
    campaign.folder.mkdir()
    child = Child(campaign.crawl)
    child.end("")
    fetched = keys_fetched(campaign.diary.read_text().splitlines())
    return {key for key, path in fetched.items() if path in plan.pages}


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201  # a command's output


def main() -> None:
    from tests import crash_pairs  # which is made of this module's parts

    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="crawls to end before their time")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the moments")
    parser.add_argument("--pairs", type=int, help="campaigns of two crawls; by default rounds / 15")
    parser.add_argument("--model", action="store_true", help="replay a model of a file system")
    parser.add_argument("--lives", type=int, default=20, help="of states under --model")
    options = parser.parse_args()
    if faults.IS_POSSIBLE and faults.LOADED not in os.environ and not options.model:
        command = [sys.executable, "-m", "tests.crash", *sys.argv[1:]]
        os.execve(sys.executable, command, faults.preloaded())  # noqa: S606  # no shell wanted
    say(f"seed {options.seed}")
    if options.model:
        say(f"every promise kept: {dict(crash_model.run(options.lives, options.seed))} crashes")
        return
    rng, plan, begin = random.Random(options.seed), Plan(), time.monotonic()
    server = SiteServer(plan)
    site = Child(lambda beat: server.serve_forever())
    server.server_close()
    root = Path(tempfile.mkdtemp(prefix="neardup-crash-"))
    ends: Counter[str] = Counter()
    totals: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by place
    try:
        reference = reference_of(server.root + "/", root, plan)
        while ends.total() - ends[""] < options.rounds:
            campaign = Campaign.drawn(root / "crawl", server.root + "/", rng)
            counts = run(campaign, rng, plan, reference)
            ends += campaign.ends
            totals[campaign.place] += counts
            kind = campaign.place, campaign.has_feed, *campaign.settings.values()
            say(*kind, dict(campaign.ends), dict(counts))
            shutil.rmtree(campaign.folder)
        n_pairs = options.rounds // 15 if options.pairs is None else options.pairs
        for number in range(n_pairs):
            pair = root / f"pair-{number}"
            say("pair", dict(crash_pairs.run(pair, server.root + "/", rng, plan, reference)))
    finally:
        site.end("SIGKILL")
    shutil.rmtree(root)
    for place, total in totals.items():
        say(place, {key: total[key] for key in ("fetched", "refetched", "refetched_old", "again")})
    say(f"no page lost: {dict(ends)} in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()

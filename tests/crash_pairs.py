"""Two `scrapy crawl` processes at once on one NEARDUP_STATE_DIR, either killed at random moments.

The one that comes first has the folder, the other is its guest. After a few rounds a single crawl
goes on until it finishes. The oracle reads what all of them wrote down: no URL was dropped as seen
that no crawl before had handled, every content is in the feeds, every URL was fetched.
"""

import os
import random
import signal
import sys
from collections import Counter
from dataclasses import dataclass
from heapq import merge
from itertools import accumulate, takewhile
from operator import itemgetter
from pathlib import Path

from example.site.plan import Plan

from tests.crash import MAX_PAGES, MAX_ROUNDS
from tests.crash_crawl import SILENCE_S, Child
from tests.crash_oracle import check_diary, check_state, keys_fetched, lost_contents, urls_in

ROOT = Path(__file__).resolve().parents[1]

ROUNDS = 4  # of two crawls; then one goes on alone
SETTINGS = f"""
import faulthandler, signal, sys
faulthandler.register(signal.SIGUSR1)
sys.path[:0] = {[str(ROOT), str(ROOT / "example_project")]!r}
from tests.crash_crawl import SETTINGS
globals().update(SETTINGS)
SPIDER_MODULES = ["example.spiders"]
NEARDUP_STATE_DIR = "state"
NEARDUP_FOLLOW_DUPLICATES = True
LOG_LEVEL = "WARNING"
"""


@dataclass
class Pair:
    """A Scrapy project in a folder, and what its crawls wrote down."""

    folder: Path
    start: str
    rng: random.Random

    def make(self) -> None:
        (self.folder / "settings.py").write_text(SETTINGS)
        (self.folder / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")

    def begun(self, name: str) -> Child:
        """A process that crawls, and writes diary-NAME and NAME.jsonl."""
        return Child(self.folder / f"log-{name}", scrapy_crawl, self.folder, name, self.start)

    def diary(self, name: str) -> list[str]:
        path = self.folder / f"diary-{name}"
        return path.read_text().splitlines() if path.exists() else []

    def urls(self) -> set[str]:
        """What is in any feed."""
        return {url for feed in self.folder.glob("*.jsonl") for url in urls_in(feed)}

    def end(self, child: Child) -> bool:
        """Kill a crawl after some of its pages, or let it end; whether it was killed."""
        pages = self.rng.uniform(0, MAX_PAGES) if self.rng.random() < 0.8 else float("inf")
        child.has_ended(SILENCE_S, pages)
        if pages < float("inf"):
            child.send(signal.SIGKILL)
        return child.end("")

    def round(self, number: int) -> Counter[str]:
        """Two crawls, each killed or not; how it went."""
        children = [self.begun(f"{number}-{one}") for one in ("a", "b")]
        self.rng.shuffle(children)
        return Counter("killed" if self.end(child) else "finished" for child in children)


def scrapy_crawl(beat: int, folder: Path, name: str, start: str) -> None:
    """Become `scrapy crawl` in a project's folder."""
    os.chdir(folder)
    os.set_inheritable(beat, True)
    settings = {"DIARY": f"diary-{name}", "BEAT": beat, "TICKED": f"ticks-{name}"}
    given = [word for key, value in settings.items() for word in ("-s", f"{key}={value}")]
    command = ["crawl", "demo", "-a", f"start={start}", "-o", f"{name}.jsonl", *given]
    os.execv(sys.executable, [sys.executable, "-m", "scrapy", *command])  # noqa: S606


def run(
    folder: Path, start: str, rng: random.Random, plan: Plan, reference: set[str]
) -> Counter[str]:
    """Crawl by twos, then alone until the end; what happened. Raises AssertionError.

    reference: keys of what a crawl fetches that follows every link.
    """
    folder.mkdir()
    pair, counts = Pair(folder, start, rng), Counter[str]()
    pair.make()
    history: list[str] = []
    for number in range(ROUNDS):
        counts += pair.round(number)
        diaries = [pair.diary(f"{number}-{one}") for one in ("a", "b")]
        for own, other in (diaries, diaries[::-1]):
            # Neither knows what the other one handles meanwhile.
            check_seen([*history, *written_before(other, own)], own)
        history += ["round", *in_order(*diaries)]
        check_state(folder / "state")
    for number in range(MAX_ROUNDS):
        child = pair.begun(f"last-{number}")
        child.end("")
        history += ["round", *pair.diary(f"last-{number}")]
        if history[-1] == "closed finished":
            break
    counts += check_diary(history, plan)
    lost = lost_contents(pair.urls(), plan)
    assert not lost, f"not in the feeds: {lost}"
    missed = reference - set(keys_fetched(history))
    assert not missed, f"never fetched: {missed}"
    left = [path.name for path in (folder / "state").glob("guest-*") if not path.suffix]
    assert not left, f"not merged: {left}"
    counts["guests"] = sum(
        "goes on as a guest" in path.read_text() for path in folder.glob("log-*")
    )
    return counts


def written_before(other: list[str], own: list[str]) -> list[str]:
    """What a diary said when the first page of another one came: that crawl may have begun late."""
    return list(takewhile(lambda line: time_of(line) < begin_of(own), other))


def in_order(*diaries: list[str]) -> list[str]:
    """What crawls wrote down that ran at once, by time: the last word on a page is the last said.

    A line that does not tell its time came right behind the line before it.
    """
    timed = (zip(accumulate(map(time_of, diary), max), diary, strict=True) for diary in diaries)
    return [line for _, line in merge(*timed, key=itemgetter(0))]


def begin_of(diary: list[str]) -> float:
    """When the first page of a diary came."""
    return min(filter(None, map(time_of, diary)), default=float("inf"))


def time_of(line: str) -> float:
    """When a line of a diary was written; 0 where it does not say."""
    what, *words = line.split(" ")
    return float(words[-1]) if what in ("fetched", "kept", "copy", "again") else 0.0


def check_seen(history: list[str], own: list[str]) -> None:
    """What a crawl dropped as seen was handled before it began, or fetched by itself."""
    keys, handled, fetched = {}, set(), set()
    for line in [*history, "now", *own]:
        what, *words = line.split(" ")
        if what == "now":
            fetched = set()
        elif what == "fetched":
            keys[words[1]] = words[0]
            fetched.add(words[0])
        elif what in ("kept", "copy", "again"):
            handled.add(keys[words[0]])
        elif what == "seen":
            assert words[0] in fetched | handled, f"{words[0]} was dropped and never handled"

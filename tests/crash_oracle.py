"""What is to hold of the diaries, the feed and the state that the crash campaign's crawls leave."""

import gc
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from example.scorecard import path_of
from example.site.plan import Plan

from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.frontier import Frontier
from tests.crash_crawl import SETTINGS, TICK_S

# A second of crawling. What a page leads to is committed in the first quarter, its item flushed in
# the first half; then a quarter until the page is done on the disk, and the time of the syncs.
LATELY_TICKS = round(1 / TICK_S)
OF_EACH_PROCESS = ("/", "/robots.txt")  # what each fetches, and keeps


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
            Frontier(frontier, state.key, state.frontier_commit).release()
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
    put_out_before: set[str] = set()  # as a later crawl said
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
        elif what == "again":
            put_out_before.add(words[0])
            handled.add(keys[words[0]])
        elif what == "copy":
            copies[words[0]] = words[1]
            handled.add(keys[words[0]])
    # A crash may lose an original, which then is a copy itself, whose links are not followed.
    unkept = {original_of(url, copies) for url in copies} - kept
    assert not unkept, f"copies were dropped of pages that were never kept: {unkept}"
    unkept = put_out_before - kept
    assert not unkept, f"said to be put out before, and never were: {unkept}"
    lost = lost_contents(kept, plan)
    assert not lost, f"lost: {lost}"
    counts = Counter(line.split(" ", 1)[0] for line in lines)
    del counts["tick"]
    return counts


def original_of(url: str, copies: dict[str, str]) -> str:
    """What a copy repeats in the end: the first that is not a copy itself."""
    for _ in copies:
        url = copies.get(url, url)
    return url


def lost_contents(urls: set[str], plan: Plan) -> set[str]:
    """What the site has and none of these pages says."""
    contents = {plan.page(path_of(url)).content for url in urls}
    return {page.content for page in plan.pages.values()} - contents


def check_feed(feed: Path, plan: Plan) -> Counter[str]:
    """Every content is in the feed. How many lines it has: cut off by a kill, or of a URL again."""
    n_lines, urls = len(feed.read_bytes().splitlines()), urls_in(feed)
    lost = lost_contents(set(urls), plan)
    assert not lost, f"not in the feed: {lost}"
    doubled = len(urls) - len(set(urls))
    return Counter(lines=n_lines, torn=n_lines - len(urls), doubled=doubled)


def urls_in(feed: Path) -> list[str]:
    """The URL of each line that no kill cut off."""
    urls = []
    for line in feed.read_bytes().splitlines():
        with suppress(ValueError):
            urls.append(json.loads(line)["url"])
    return urls


def keys_fetched(lines: list[str]) -> dict[str, str]:
    """The keys of what a diary says was fetched, each with a path."""
    words = (line.split(" ") for line in lines if line.startswith("fetched "))
    return {key: path_of(url) for _, key, url, _ in words}


@dataclass
class Round:
    """What one process did, by the paths of pages.

    asked    what the site was asked for; times
    done     items that were kept, or dropped as copies; ticks of the process before the last one
    kept     those that were kept
    """

    begin: float
    hindered: bool = False
    n_ticks: int = 0
    asked: set[str] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)

    def note(self, what: str, words: list[str]) -> None:
        if what == "tick":
            self.n_ticks += 1
        elif what == "hindered":
            self.hindered = True
        elif (
            what in ("kept", "copy", "again") and (path := path_of(words[0])) not in OF_EACH_PROCESS
        ):
            self.done[path] = self.n_ticks
            if what == "kept":
                self.kept.add(path)

    def age(self, path: str) -> int | None:
        """Ticks between the end of a page's item and that of the process; None: it had not ended.

        A tick that began before the item ended counts for nothing.
        """
        return max(0, self.n_ticks - self.done[path] - 1) if path in self.done else None


def rounds_of(lines: Iterable[str], asked: Iterable[str]) -> list[Round]:
    """The rounds of a diary, with what the site was asked for meanwhile."""
    rounds: list[Round] = []
    for line in lines:
        what, *words = line.split(" ")
        if what == "round":
            rounds.append(Round(float(words[0])))
        else:
            rounds[-1].note(what, words)
    for line in asked:
        _, path, time = line.split(" ")
        if path not in OF_EACH_PROCESS:
            last = [one for one in rounds if one.begin <= float(time)][-1:]
            for one in last:
                one.asked.add(path)
    return rounds


def again(rounds: list[Round], paths: str) -> Iterator[tuple[str, int | None]]:
    """What a round did that an earlier one had done, too: path, and its age() in that one.

    paths: "asked" or "kept". What a round did that could not write is left out.
    """
    earlier: dict[str, int | None] = {}
    for one in rounds:
        here: set[str] = getattr(one, paths)
        yield from ((path, earlier[path]) for path in here & earlier.keys())
        for path in here:
            earlier.pop(path, None)
        if not one.hindered:
            earlier |= {path: one.age(path) for path in here}


def check_refetched(rounds: list[Round], is_bounded: bool) -> Counter[str]:
    """A page that two rounds asked the site for was under way, or done lately, at a crash.

    is_bounded: so it is with a frontier; without one, pages are read again to find what waited.
    How many were asked for again, and how many of these had been done before that.
    """
    counts: Counter[str] = Counter()
    for path, age in again(rounds, "asked"):
        counts["refetched"] += 1
        counts["refetched_old"] += age is not None and age > LATELY_TICKS
        if is_bounded and age is not None:
            assert age <= LATELY_TICKS, f"{path} fetched again, done {age} ticks before the end"
    return counts


def check_repeated(rounds: list[Round]) -> Counter[str]:
    """An item that two rounds kept was under way, or had left lately, at a crash; how many."""
    counts: Counter[str] = Counter()
    for path, age in again(rounds, "kept"):
        counts["repeated"] += 1
        assert age is not None  # what was kept was done
        assert age <= LATELY_TICKS, f"{path} kept again, which had left {age} ticks before the end"
    return counts

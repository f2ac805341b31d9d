"""What a page costs a state of many pages: memory, time, recall, pauses; growing step by step.

    python -m benchmarks.scale --pages 1e6 --folder FOLDER

Decides about made pages, one by one, as a crawl would: half of them on one site, the others on
sites of a thousand pages; each has a menu of its host and TEXT_WORDS words. One in a hundred is
a planted copy of an earlier page of its site, with one word changed, to be found as near. Saves a
snapshot every SNAPSHOT_PAGES pages. Prints a line at 1, 2 and 5 times each power of ten: bytes a
page in memory (what of the process is no file; the tables, whether mapped or not; the index of
those), microseconds of CPU a page, copies found of those planted, misses that are farther than is
looked for, and the longest pause of the loop's thread since the line before, in CPU and wall time;
beside it the longest that making a page took, which is always the same work and touches nothing of
the state: where that is long, the machine holds up whatever runs. At the end it closes the state
and opens it again.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State

TEXT_WORDS, MENU_WORDS, VOCABULARY = 150, 12, 20_000
PAGES_OF_A_SITE, PLANTED_EVERY = 1_000, 100
SNAPSHOT_PAGES = 150_000  # five minutes of 500 pages a second
FIRST_LINE = 10_000
COLUMNS = ["pages", "B/page", "tables", "index", "read us", "decide us", "found", "far"]
COLUMNS += ["pause ms", "making ms"]


class MadePage(NamedTuple):
    """A page, and for a copy the URL of its original."""

    url: str
    text: str
    original: str | None


class Figures:
    """What was measured since the last line."""

    def __init__(self) -> None:
        self.n = self.planted = self.found = self.far = 0
        self.read_s = self.decide_s = self.pause_cpu_s = self.pause_s = 0.0
        self.making_cpu_s = self.making_s = 0.0

    def timed(self, action: Callable[[], Any]) -> Any:
        """What an action of the loop's thread gives; its time counts as a pause."""
        found, cpu_s, wall_s = clocked(action)
        self.decide_s += cpu_s
        self.pause_cpu_s, self.pause_s = max(self.pause_cpu_s, cpu_s), max(self.pause_s, wall_s)
        return found

    def made(self, number: int) -> MadePage:
        """The page of a number."""
        found: MadePage
        found, cpu_s, wall_s = clocked(lambda: page(number))
        self.making_cpu_s = max(self.making_cpu_s, cpu_s)
        self.making_s = max(self.making_s, wall_s)
        return found


def clocked(action: Callable[[], Any]) -> tuple[Any, float, float]:
    """What an action gives, the CPU seconds of the thread, and the seconds by the clock."""
    cpu, wall = time.thread_time(), time.perf_counter()
    found = action()
    return found, time.thread_time() - cpu, time.perf_counter() - wall


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--pages", type=lambda text: int(float(text)), default=1_000_000)
    parser.add_argument("--folder", type=Path, required=True, help="of the state; must be empty")
    options = parser.parse_args()
    state = opened(options.folder)
    state.begin()
    print(*(f"{name:>10}" for name in COLUMNS), flush=True)
    grow(state, options.pages)
    begin = time.perf_counter()
    state.close()
    print(f"closed in {time.perf_counter() - begin:.1f} s", flush=True)
    begin = time.perf_counter()
    again = opened(options.folder)
    print(f"opened in {time.perf_counter() - begin:.1f} s, {len(again.detector):,} pages")
    again.release()


def opened(folder: Path) -> State:
    return State.open(folder, make_state_factory(NearDupSettings(key=1)), key=1)


def grow(state: State, n_pages: int) -> None:
    figures, lines = Figures(), line_ends(n_pages)
    next_line = next(lines)
    before = memory()
    for number in range(n_pages):
        decide(state, figures.made(number), figures)
        if number % SNAPSHOT_PAGES == SNAPSHOT_PAGES - 1:
            figures.timed(state.snapshot)
        if number + 1 == next_line:
            print_line(state, number + 1, memory() - before, figures)
            figures, next_line = Figures(), next(lines, 0)


def line_ends(n_pages: int) -> Iterator[int]:
    power = FIRST_LINE
    while power < n_pages:
        yield from (n for n in (power, 2 * power, 5 * power) if n < n_pages)
        power *= 10
    yield n_pages


def page(number: int) -> MadePage:
    """The page of a number; the same text whenever it is asked for."""
    site, place = site_of(number)
    words = words_of(number)
    copied = None
    if number % PLANTED_EVERY == PLANTED_EVERY - 1:
        rng = random.Random(-number)
        copied = original_of(number, place, rng)
        words = words_of(copied)
        words[rng.randrange(TEXT_WORDS)] = "changed"
    text = f"{menu_of(site)}\n{' '.join(words)}"
    return MadePage(url_of(number), text, None if copied is None else url_of(copied))


def site_of(number: int) -> tuple[int, int]:
    """The number of its site, 0 for the large one, and which of the site's pages it is."""
    half = number // 2
    return (0, half) if number % 2 else (1 + half // PAGES_OF_A_SITE, half % PAGES_OF_A_SITE)


def original_of(number: int, place: int, rng: random.Random) -> int:
    """An earlier page of the same site that is no copy itself."""
    while True:
        earlier = number - 2 * rng.randint(1, max(place, 1))
        if earlier >= 0 and earlier % PLANTED_EVERY != PLANTED_EVERY - 1:
            return earlier


def url_of(number: int) -> str:
    return f"http://www.site-{site_of(number)[0]}.example/section/an-article-{number}.html"


def words_of(number: int) -> list[str]:
    return random.Random(number).choices(WORDS, k=TEXT_WORDS)


def menu_of(site: int) -> str:
    return " ".join(random.Random(f"menu {site}").choices(WORDS, k=MENU_WORDS))


def letters(number: int) -> str:
    return "".join(chr(97 + number // 26**place % 26) for place in range(5))


WORDS = [letters(17 * number) for number in range(VOCABULARY)]


def decide(state: State, made: MadePage, figures: Figures) -> None:
    cpu = time.thread_time()
    reading = state.detector.read(made.url, made.text)
    figures.read_s += time.thread_time() - cpu

    def decided() -> Any:
        decision, is_new = state.decide(reading)
        if is_new:
            state.keep(decision.page_id)
        return decision

    decision = figures.timed(decided)
    figures.n += 1
    if made.original is not None and not decision.cold:
        figures.planted += 1
        figures.found += decision.is_duplicate and decision.original == made.original
        figures.far += not decision.is_duplicate and is_far(state, reading, made.original)


def is_far(state: State, reading: Any, original: str) -> bool:
    """Whether both fingerprints of a copy are farther from its original's than is looked for."""
    pages = state.detector.pages
    row = pages.with_url(original)
    if row is None:
        return True
    theirs = {int(pages.fingerprints[row]), int(pages.sketches[row][0])}
    ours = {reading.signatures.fingerprint, state.detector.own_part(reading).fingerprint}
    distance = state.detector.limits.distance
    return all((one ^ other).bit_count() > distance for one in ours for other in theirs)


def print_line(state: State, n: int, used: int, figures: Figures) -> None:
    detector, made = state.detector, max(1, figures.n)
    values = (
        f"{n:,}",
        f"{used / n:.0f}",
        f"{detector.nbytes / n:.0f}",
        f"{detector.index.nbytes / n:.0f}",
        f"{1e6 * figures.read_s / made:.0f}",
        f"{1e6 * figures.decide_s / made:.0f}",
        f"{figures.found}/{figures.planted}",
        f"{figures.far}",
        f"{1e3 * figures.pause_cpu_s:.1f}/{1e3 * figures.pause_s:.0f}",
        f"{1e3 * figures.making_cpu_s:.1f}/{1e3 * figures.making_s:.0f}",
    )
    print(*(f"{value:>10}" for value in values), flush=True)


def memory() -> int:
    """Bytes in memory that are of no file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return 1024 * int(line.split()[1])
    return 0


if __name__ == "__main__":
    main()

"""Simulate when to come back: freshness and downloads of NEARDUP_REVISIT against other schedules.

    python benchmarks/revisit.py [--pages 2000] [--days 180] [--seed 1]
    python benchmarks/revisit.py --releases

The histories are made: pages of seven shapes, each page a Poisson process of its own rate. A
crawl comes every six hours and fetches what is due. Every page is fetched at the start.
--releases takes instead the labelled pages that say when they were released (three versions of the
documents of SQLAlchemy): a page changes on the day of a release whose visible text differs from the
one before in more than numbers and dates. The shape of a page is its folder.

    fixed     every page after the same time
    nutch     AdaptiveFetchSchedule with its defaults: interval * 1.4 where nothing changed, * 0.8
              where it did, and sync_delta 0.3
    adaptive  NEARDUP_REVISIT="adaptive"

    fresh     share of time and pages at which a page is as it was seen last
    same      freshness of the fixed schedule that downloads as much
    late      days until a change is seen, on average; those not seen at the end count until then
"""

import argparse
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scrapy_neardup.crawl.pages.extract import visible_text_of_html
from scrapy_neardup.detect.revision import masked
from scrapy_neardup.learn.change_rates import History, change_rate, interval

TICK = 0.25  # days
LABELLED = Path(__file__).parents[2] / "shared/data/pairs/pages.jsonl.gz"
RELEASED = re.compile(r"Release Date:\s*(?:</\w+>\s*)?(\w+ \d+, \d{4})")
AFTER = 60  # days after the last release
# Days between changes: of a shape's pages the median, and by what factor they spread.
SHAPES = ((0.1, 1.5), (0.5, 2.0), (2.0, 3.0), (7.0, 2.0), (30.0, 3.0), (120.0, 3.0), (1000.0, 5.0))
Schedule = Callable[[int, int, bool, float, float], float]


class Outcome(NamedTuple):
    downloads: float  # a page and day
    fresh: float
    late: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--days", type=int, default=180)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--releases", action="store_true")
    options = parser.parse_args()
    if options.releases:
        changes, shapes, days = releases()
        n = [sum(map(bool, changes)), sum(map(len, changes))]
        print(f"{len(changes)} pages, {n[0]} of which change, {n[1]} times in all, in {days} days")
    else:
        rng, days = np.random.default_rng(options.seed), options.days
        changes, shapes = histories(options.pages, days, rng)
    fixed = [
        simulate(changes, days, lambda *_, every=every: every)
        for every in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    ]
    print("schedule          downloads   fresh    same    late")
    for every, outcome in zip((0.25, 0.5, 1, 2, 4, 8, 16, 32, 64), fixed, strict=True):
        tell(f"fixed {every}", outcome, fixed)
    for low in (0.25, 0.5, 1.0, 2.0, 4.0):
        tell(f"nutch {low}-30", simulate(changes, days, nutch(len(changes), low)), fixed)
    for low in (0.25, 0.5, 1.0, 2.0, 4.0):
        tell(f"adaptive {low}-30", simulate(changes, days, adaptive(shapes, low)), fixed)


def releases() -> tuple[list[list[float]], list[int], int]:
    """Of each labelled page the times at which it changes, and its shape; then the days."""
    found: defaultdict[str, dict[datetime, str]] = defaultdict(dict)
    with gzip.open(LABELLED, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            if released := RELEASED.search(row["html"]):
                day = datetime.strptime(released[1], "%B %d, %Y")
                lines = visible_text_of_html(row["html"]).splitlines()
                found[row["group"]][day] = "\n".join(map(masked, lines))
    days = sorted({day for texts in found.values() for day in texts})
    whole = {name: texts for name, texts in found.items() if len(texts) == len(days)}
    changes = [
        [
            float((later - days[0]).days)
            for earlier, later in pairwise(days)
            if texts[earlier] != texts[later]
        ]
        for texts in whole.values()
    ]
    folders = [name.rpartition("/")[0] for name in whole]
    shapes = [sorted(set(folders)).index(folder) for folder in folders]
    return changes, shapes, (days[-1] - days[0]).days + AFTER


def histories(n: int, days: int, rng: np.random.Generator) -> tuple[list[list[float]], list[int]]:
    """Of each page the times at which it changes, and its shape."""
    changes, shapes = [], []
    for page in range(n):
        shape = page % len(SHAPES)
        median, spread = SHAPES[shape]
        every = median * spread ** rng.standard_normal()
        times = np.cumsum(rng.exponential(every, size=int(days / every * 1.5) + 50))
        changes.append(times[times < days].tolist())
        shapes.append(shape)
    return changes, shapes


def simulate(changes: list[list[float]], days: int, schedule: Schedule) -> Outcome:
    """Let each page be fetched when the schedule says; time in days."""
    n_fetched, stale, late, n_changes = 0, 0.0, 0.0, 0
    seen = [0] * len(changes)
    due = [0.0] * len(changes)
    last = [0.0] * len(changes)
    for tick in range(int(days / TICK)):
        now = tick * TICK
        for page in range(len(changes)):
            if due[page] > now + 1e-9:
                continue
            times, n_before = changes[page], seen[page]
            n = n_before
            while n < len(times) and times[n] <= now:
                late += now - times[n]
                n += 1
            if n > n_before:
                stale += now - times[n_before]
            seen[page] = n
            n_fetched += 1
            n_visit = 0 if now == 0 else 1
            due[page] = now + schedule(page, n_visit, n > n_before, now - last[page], now)
            last[page] = now
    for times, n in zip(changes, seen, strict=True):
        late += sum(days - time for time in times[n:])
        stale += days - times[n] if n < len(times) else 0.0
        n_changes += len(times)
    n_pages = len(changes)
    return Outcome(n_fetched / n_pages / days, 1 - stale / n_pages / days, late / n_changes)


def nutch(n: int, low: float, high: float = 30.0) -> Schedule:
    """AdaptiveFetchSchedule.setFetchSchedule() with the defaults of nutch-default.xml."""
    every, modified = [low] * n, [0.0] * n

    def schedule(page: int, n_visit: int, changed: bool, since: float, now: float) -> float:
        if not n_visit:
            return every[page]
        every[page] *= 0.8 if changed else 1.4
        if changed:
            modified[page] = now
        delta = now - modified[page]
        every[page] = min(high, max(low, every[page], delta))
        return max(TICK, every[page] - 0.3 * delta)

    return schedule


def adaptive(shapes: list[int], low: float, high: float = 30.0) -> Schedule:
    """What a crawl under NEARDUP_REVISIT does, without sitemaps."""
    pages = [History()] * len(shapes)
    alike = [History()] * (max(shapes) + 1)

    def schedule(page: int, n_visit: int, changed: bool, since: float, now: float) -> float:
        shape = shapes[page]
        if n_visit:
            pages[page] = pages[page].plus(changed, since)
            alike[shape] = alike[shape].plus(changed, since)
        rate = change_rate(pages[page], alike[shape])
        return low if rate is None else interval(rate, low, high)

    return schedule


def tell(name: str, outcome: Outcome, fixed: list[Outcome]) -> None:
    known = sorted((one.downloads, one.fresh) for one in fixed)
    same = np.interp(
        np.log(outcome.downloads), np.log([d for d, _ in known]), [f for _, f in known]
    )
    downloads, fresh, late = outcome
    print(f"{name:<17} {downloads:>9.3f} {fresh:>7.3f} {same:>7.3f} {late:>7.2f}")


if __name__ == "__main__":
    main()

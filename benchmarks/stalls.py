"""How long the crawl's loop is held up by what a state does at once: tables that grow, snapshots.

    python -m benchmarks.stalls [--pages N] [--frontier N]

Remembers N pages one by one, saving the state twenty times on the way, and times each call on the
loop's thread. Then pushes requests into a frontier and takes them again, beside Scrapy's own disk
queue and queuelib's queue in SQLite.
"""

import argparse
import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from queuelib.queue import LifoDiskQueue, LifoSQLiteQueue
from scrapy import Request

from scrapy_neardup.detect.page_table import Page
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.frontier import Frontier

SNAPSHOTS = 20
COMMIT_EVERY = 250  # requests: a quarter of a second of a crawl of 1,000 pages a second
SLOW = 2000  # requests for a queue that syncs each


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--frontier", type=int, default=50_000, help="requests")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, calls in timed_calls(Path(folder), options.pages).items():
            slowest = ", ".join(f"{1000 * s:.1f}" for s in sorted(calls)[-3:])
            print(f"{name:<12}{len(calls):>10,} calls, the slowest: {slowest} ms")
    for name, rate in queues(options.frontier).items():
        print(f"{name:<28}{rate[0]:>9,.0f} pushes/s{rate[1]:>9,.0f} pops/s")


def timed_calls(folder: Path, n_pages: int) -> dict[str, list[float]]:
    """Seconds of each call that remembers a page, adds a URL, or begins a snapshot."""
    state = State.open(folder, make_state_factory(NearDupSettings(key=1)), key=1)
    state.begin()
    calls: dict[str, list[float]] = {"page": [], "URL": [], "snapshot": []}
    rng = np.random.default_rng(1)
    n_words = state.detector.pages.arrays()["sketches"].shape[1]
    for number in range(n_pages):
        sketch = rng.integers(0, 2**64, n_words, dtype=np.uint64)
        url = f"http://host{number % 999}.example/section/{number % 31}/an-article-{number}"
        page = Page(int(sketch[0]), sketch, rng.bytes(16), number % 999, url, time.time())
        calls["page"].append(seconds(lambda page=page: state.detector.restore(page, indexed=True)))
        calls["URL"].append(seconds(lambda url=url: state.url_done(url.encode())))
        if number % (n_pages // SNAPSHOTS) == 0:
            calls["snapshot"].append(seconds(state.snapshot))
    state.close()
    return calls


def seconds(action: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def queues(n: int) -> dict[str, tuple[float, float]]:
    """Pushes and pops a second of pickled requests, by queue."""
    data = pickle.dumps(Request("http://example.com/a/page/of/some/length").to_dict(), 4)
    with tempfile.TemporaryDirectory() as folder:
        scrapys = LifoDiskQueue(f"{folder}/pickle")
        sqlite = LifoSQLiteQueue(f"{folder}/sqlite")
        frontier = Frontier(Path(folder, "frontier"))
        rows = frontier.queue("0", newest_first=True)

        def push(number: int) -> None:
            rows.push(data, "")
            if number % COMMIT_EVERY == 0:
                frontier.commit()

        def pop(number: int) -> None:
            row = rows.pop()
            assert row is not None
            frontier.done(row.id)
            if number % COMMIT_EVERY == 0:
                frontier.commit()

        rates = {
            "Scrapy's pickle queue": both(n, lambda _: scrapys.push(data), lambda _: scrapys.pop()),
            "queuelib's SQLite queue": both(
                min(n, SLOW), lambda _: sqlite.push(data), lambda _: sqlite.pop()
            ),
            "the frontier": both(n, push, pop),
        }
        frontier.close()
    return rates


def both(n: int, push: Callable[[int], Any], pop: Callable[[int], Any]) -> tuple[float, float]:
    times = [seconds(lambda action=action: each(n, action)) for action in (push, pop)]
    return n / times[0], n / times[1]


def each(n: int, action: Callable[[int], Any]) -> None:
    for number in range(n):
        action(number)


if __name__ == "__main__":
    main()

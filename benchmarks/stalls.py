"""How long the crawl's loop is held up by what a state does at once: tables that grow, snapshots.

    python -m benchmarks.stalls [--pages N] [--frontier N]

Fills a state with N pages and saves it. Then opens it and remembers pages one by one, at the
pace of a fast crawl, while snapshots are written. Times each call on the loop's thread, by the
clock and by what that thread ran, which other work on the machine does not lengthen, and tells
how many bytes each snapshot wrote. Then pushes requests into a frontier and takes them again,
beside Scrapy's own disk queue and queuelib's queue in SQLite. With --folder, a state that is there
is not filled.
"""

import argparse
import pickle
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from queuelib.queue import LifoDiskQueue, LifoSQLiteQueue
from scrapy import Request

from scrapy_neardup.detect.id_table import IdTable
from scrapy_neardup.detect.page_table import Column, PageRow, PageTable
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.frontier import Frontier

SNAPSHOTS, PAGES_BETWEEN = 5, 5_000
PAGES_A_SECOND = 500
AT_ONCE = 100_000  # pages, of those that fill the state
COMMIT_EVERY = 250  # requests: a quarter of a second of a crawl of 1,000 pages a second
SLOW = 2000  # requests for a queue that syncs each


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stalls", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the state is, for a while")
    parser.add_argument("--frontier", type=int, default=50_000, help="requests")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not any(folder.glob("snapshot-*")):
            fill(folder, options.pages)
        for name, calls in timed_calls(folder).items():
            wall, cpu = (slowest(times) for times in zip(*calls, strict=True))
            print(f"{name:<12}{len(calls):>10,} calls, the slowest: {wall} ms; CPU {cpu} ms")
    for name, rate in queues(options.frontier).items():
        print(f"{name:<28}{rate[0]:>9,.0f} pushes/s{rate[1]:>9,.0f} pops/s")


def slowest(times: Iterable[float]) -> str:
    return ", ".join(f"{1000 * s:.1f}" for s in sorted(times)[-3:])


def opened(folder: Path) -> State:
    return State.open(folder, make_state_factory(NearDupSettings(key=1)), key=1)


def fill(folder: Path, n_pages: int) -> None:
    """Save a state of so many pages of random words, each found by its URL and its digest."""
    state = opened(folder)
    state.begin()
    rng, pages = np.random.default_rng(1), state.detector.pages
    by_url, by_digest = IdTable(), IdTable()
    columns = {name: Column(a.dtype.str, *a.shape[1:]) for name, a in pages.arrays().items()}
    for start in range(0, n_pages, AT_ONCE):
        ids = np.arange(start, min(start + AT_ONCE, n_pages))
        urls = [url_of(number) for number in ids.tolist()]
        state.urls.add_at([url.encode() for url in urls], [time.time()] * len(ids))
        rows = made_rows(rng, urls, pages.sketch_words)
        rows["url_ends"] += np.uint64(len(columns["url_bytes"]))
        for name, values in rows.items():
            columns[name].extend(values)
        by_url.put_many(rows["url_keys"], ids)
        by_digest.put_many(rows["digests"][:, 0] ^ rows["sites"], ids)
        state.detector.index.add_many(rows["fingerprints"], ids)
    arrays = {name: columns[name].rows() for name in rows}
    arrays |= by_url.arrays("by_url", None) | by_digest.arrays("by_digest", None)
    arrays["is_alive"] = np.ones(n_pages, np.uint8)
    state.detector.pages = PageTable.from_arrays(arrays)
    print(f"{n_pages:,} pages in memory: {state.detector.nbytes / 1e9:.2f} GB")
    begin = time.perf_counter()
    state.close()
    took, n_bytes = time.perf_counter() - begin, sum(files_in(folder).values())
    print(f"saved in {took:.1f} s: {n_bytes / 1e9:.2f} GB")


def url_of(number: int) -> str:
    return f"http://host{number % 999}.example/section/{number % 31}/an-article-{number}"


def made_rows(rng: np.random.Generator, urls: list[str], n_words: int) -> dict[str, Any]:
    """Columns of the page table for pages of random words."""
    n = len(urls)
    sketches = rng.integers(0, 2**64, (n, n_words), dtype=np.uint64)
    encoded = [url.encode() for url in urls]
    return {
        "fingerprints": sketches[:, 0],
        "sketches": sketches,
        "digests": rng.integers(0, 2**64, (n, 2), dtype=np.uint64),
        "sites": rng.integers(0, 999, n, dtype=np.uint64),
        "times": np.full(n, time.time()),
        "url_keys": rng.integers(0, 2**64, n, dtype=np.uint64),
        "url_ends": np.cumsum([len(url) for url in encoded], dtype=np.uint64),
        "url_bytes": np.frombuffer(b"".join(encoded), np.uint8),
    }


def timed_calls(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Seconds of each call that remembers a page, adds a URL, or begins a snapshot; and of CPU."""
    begin = time.perf_counter(), time.process_time()
    state = opened(folder)
    wall_s, cpu_s = time.perf_counter() - begin[0], time.process_time() - begin[1]
    print(f"opened in {wall_s:.1f} s, {cpu_s:.1f} s CPU")
    state.begin()
    done(state)
    calls: dict[str, list[tuple[float, float]]] = {"page": [], "URL": [], "snapshot": []}
    rng, n_words = np.random.default_rng(2), state.detector.pages.sketch_words
    for number in range(SNAPSHOTS * PAGES_BETWEEN):
        sketch, url = rng.integers(0, 2**64, n_words, dtype=np.uint64), url_of(10**9 + number)
        page = PageRow(int(sketch[0]), sketch, rng.bytes(16), number % 999, url, time.time())
        calls["page"].append(both(lambda page=page: state.detector.restore(page, indexed=True)))
        calls["URL"].append(both(lambda url=url: state.url_done(url.encode())))
        if number % PAGES_BETWEEN == 0:
            n_pages, before = len(state.detector), files_in(folder)
            calls["snapshot"].append(both(state.snapshot))
        elif number % PAGES_BETWEEN == PAGES_BETWEEN - 1:
            done(state)
            written = dict(files_in(folder).items() - before.items())
            print(f"snapshot of {n_pages:,} pages: {sum(written.values()) / 1e6:,.0f} MB written")
        time.sleep(max(0.0, 1 / PAGES_A_SECOND - calls["page"][-1][0]))
    state.release()
    return calls


def done(state: State) -> None:
    """Wait for the thread that writes."""
    assert state._writing is not None
    assert state._writing.result()


def files_in(folder: Path) -> dict[tuple[str, int], int]:
    """Bytes of the state's files; one that was written again is another one."""
    paths = [path for path in folder.iterdir() if path.name.startswith(("snapshot-", "rows-"))]
    return {(path.name, path.stat().st_ino): path.stat().st_size for path in paths}


def both(action: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock, and of them those that this thread ran."""
    begin, cpu = time.perf_counter(), time.thread_time()
    action()
    return time.perf_counter() - begin, time.thread_time() - cpu


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
            "Scrapy's pickle queue": rates_of(
                n, lambda _: scrapys.push(data), lambda _: scrapys.pop()
            ),
            "queuelib's SQLite queue": rates_of(
                min(n, SLOW), lambda _: sqlite.push(data), lambda _: sqlite.pop()
            ),
            "the frontier": rates_of(n, push, pop),
        }
        frontier.close()
    return rates


def rates_of(n: int, push: Callable[[int], Any], pop: Callable[[int], Any]) -> tuple[float, float]:
    times = [both(lambda action=action: each(n, action))[0] for action in (push, pop)]
    return n / times[0], n / times[1]


def each(n: int, action: Callable[[int], Any]) -> None:
    for number in range(n):
        action(number)


if __name__ == "__main__":
    main()

"""What resuming costs: opening the state of ten million URLs and a million pages, and saving it.

    python -m benchmarks.resume [--urls N] [--pages N] [--json FILE]

Target: open in less than 1 s, without a copy. Each opening is a process of its own, once with
the file in the page cache and once without; "copied" is the memory that belongs to the process
alone afterwards, less what it had before.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from scrapy_neardup.detect.page_table import PageRow
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State

BATCH = 100_000
OPENINGS = 5


def main() -> None:
    options = parsed()
    if options.open:
        print(json.dumps(open_once(options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        row = measured(Path(folder), options)
    for name, value in row.items():
        print(
            f"{name:<28}{value:>14,.3f}" if isinstance(value, float) else f"{name:<28}{value:>14,}"
        )
    if options.json:
        Path(options.json).write_text(json.dumps(row, indent=1), encoding="utf-8")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resume", description=__doc__)
    parser.add_argument("--urls", type=int, default=10_000_000)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON, too")
    parser.add_argument("--open", metavar="FOLDER", help=argparse.SUPPRESS)
    return parser.parse_args()


def opened(folder: Path, n_urls: int) -> State:
    settings = NearDupSettings(url_capacity=n_urls, key=1)
    return State.open(folder, make_state_factory(settings), key=1, fsync="no")


def measured(folder: Path, options: argparse.Namespace) -> dict[str, float | int]:
    """Fill a state, save it, open it again and again."""
    state = opened(folder, options.urls)
    fill_urls(state, options.urls)
    fill_pages(state, options.pages)
    begin = time.perf_counter()
    state.snapshot()
    loop_s = time.perf_counter() - begin
    state.close()
    save_s = time.perf_counter() - begin
    (snapshot,) = folder.glob("snapshot-*")
    warm = [in_a_process(folder, options) for _ in range(OPENINGS)]
    cold = []
    for _ in range(OPENINGS):
        evict(snapshot)
        cold.append(in_a_process(folder, options))
    return {
        "URLs": options.urls,
        "pages": options.pages,
        "snapshot, MB": snapshot.stat().st_size / 1e6,
        "open, s": median(warm, "open_s"),
        "open, not in page cache, s": median(cold, "open_s"),
        "copied, MB": median(warm, "copied_mb"),
        "first look-ups, us each": median(warm, "lookup_us"),
        "loop waits for a snapshot, s": loop_s,
        "two snapshots written, s": save_s,
    }


def fill_urls(state: State, n: int) -> None:
    for start in range(0, n, BATCH):
        keys = [b"host%d.example/%d/%d" % (i % 999, i % 31, i) for i in range(start, start + BATCH)]
        state.urls.add_at(keys, [0.0] * BATCH)


def fill_pages(state: State, n: int) -> None:
    rng = np.random.default_rng(1)
    n_words, now = state.detector.pages.arrays()["sketches"].shape[1], time.time()
    for i in range(n):
        sketch = rng.integers(0, 2**64, n_words, dtype=np.uint64)
        url = f"http://host{i % 999}.example/section/{i % 31}/the-title-of-an-article-{i}"
        page = PageRow(int(sketch[0]), sketch, rng.bytes(16), i % 999, url, now)
        state.detector.restore(page, indexed=True)


def in_a_process(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.resume", "--open", str(folder)]
    command += ["--urls", str(options.urls), "--pages", str(options.pages)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    row: dict[str, float] = json.loads(done.stdout)
    return row


def open_once(options: argparse.Namespace) -> dict[str, float]:
    opened(Path(tempfile.mkdtemp()), 1000)  # so that everything is imported
    before = private_mb()
    begin = time.perf_counter()
    state = opened(Path(options.open), options.urls)
    open_s = time.perf_counter() - begin
    copied_mb = private_mb() - before
    begin = time.perf_counter()
    keys = (b"host%d.example/%d/%d" % (i % 999, i % 31, i) for i in range(1000))
    missed = sum(key not in state.urls for key in keys)
    lookup_us = (time.perf_counter() - begin) * 1e3
    assert missed == 0
    assert len(state.detector) == options.pages
    assert state.store is not None
    state.store.close()
    return {"open_s": open_s, "copied_mb": copied_mb, "lookup_us": lookup_us}


def private_mb() -> float:
    """Memory of this process that it shares with nobody and no file; NaN where nobody says."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return float("nan")
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty")) / 1e3


def evict(path: Path) -> None:
    """Ask the system to forget a file's pages."""
    with path.open("rb") as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def median(rows: list[dict[str, float]], name: str) -> float:
    return float(np.median([row[name] for row in rows]))


if __name__ == "__main__":
    main()

"""What signatures cost here and in another checkout: `python -m benchmarks.side_by_side OTHER`.

OTHER is a folder with another version of the package, its kernels built. Words of the real pages →
fingerprint and sketch, and → odd sketch, by default settings; one core, in processes that take
turns. Prints the best rate of each, because other processes only make it worse, and the ratio.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
ROUNDS = 10  # over all pages, in each turn
MEASURE = "--measure"  # what a process is told that does so
RATES = ("fingerprint and sketch", "odd sketch", "both")


def measure() -> None:
    """Print the best rates of the package that is imported, in bytes a second, as JSON."""
    from scrapy_neardup.detect.odd_sketch import odd_row
    from scrapy_neardup.engines import load_engine

    pages = json.load(sys.stdin)
    words, engine = [page.encode() for page in pages], load_engine("auto")
    n_bytes = sum(map(len, words))
    first = seconds(engine.signatures, words)
    second = seconds(lambda page: odd_row(page, 0, 1), words)
    best = (n_bytes / first, n_bytes / second, n_bytes / (first + second))
    json.dump(best, sys.stdout)


def seconds(run: Callable[[bytes], object], pages: list[bytes]) -> float:
    """The least CPU time that all pages took."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.thread_time()
        for page in pages:
            run(page)
        best = min(best, time.thread_time() - start)
    return best


def main() -> None:
    """Measure both in turn, and print a line for each rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    from benchmarks.fingerprints import words

    pages = json.dumps([page.decode() for page in words()])
    turns = [[rates(folder, pages) for folder in (HERE, given.other)] for _ in range(given.turns)]
    for what, ours, theirs in zip(RATES, *(best(n, turns) for n in (0, 1)), strict=True):
        sys.stdout.write(
            f"{what}: {ours / 1e6:.0f} MB/s here, {theirs / 1e6:.0f} there, {ours / theirs:.2f}\n"
        )


def rates(folder: Path, pages: str) -> list[float]:
    """What measure() prints where a folder's package is imported."""
    command = [sys.executable, "-P", __file__, MEASURE]
    environment = os.environ | {"PYTHONPATH": str(folder.resolve())}
    done = subprocess.run(
        command, input=pages, env=environment, capture_output=True, text=True, check=True
    )
    found: list[float] = json.loads(done.stdout)
    return found


def best(n: int, turns: list[list[list[float]]]) -> list[float]:
    """The best of each rate of one of both."""
    return [max(column) for column in zip(*(turn[n] for turn in turns), strict=True)]


if __name__ == "__main__":
    measure() if sys.argv[1:] == [MEASURE] else main()

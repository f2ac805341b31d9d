"""Made pages with planted copies through `scrapy neardup dedup`: what is dropped, and for what.

    python -m benchmarks.dedup_planted [--pages N] [--jobs N] [--folder DIR] [--json FILE]

The pages are those of planted.py, in Parquet. A page is dropped wrongly if it or the page that it
was dropped for was rewritten, or if the two have different sources. CPU seconds are those of all
processes.
"""

import argparse
import json
import sys
from collections import Counter
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.dedup_peers import timed
from benchmarks.planted import KINDS, Planted, write


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dedup_planted", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where there is room, and pages stay")
    parser.add_argument("--json", metavar="FILE", type=Path)
    options = parser.parse_args()
    planted = Planted(options.pages)
    with TemporaryDirectory(dir=options.folder) as scratch:
        corpus = (options.folder or Path(scratch)) / f"pages-{options.pages}"
        write(planted, corpus)
        out = Path(scratch) / "out"
        row = run(corpus, out, options.jobs) | judged(planted, out)
    print(json.dumps(row, indent=1))
    if options.json:
        options.json.write_text(json.dumps(row, indent=1), encoding="utf-8")


def run(corpus: Path, out: Path, jobs: int) -> dict[str, Any]:
    """Run the command; how long it took, and the CPU seconds and memory of its processes."""
    command = [sys.executable, "-m", "scrapy_neardup", "dedup", str(corpus), "--out", str(out)]
    took = timed([*command, "--jobs", str(jobs)], inf)
    if took.failed:
        raise SystemExit(took.failed)
    return {
        "wall s": round(took.wall_s, 1),
        "CPU s": round(took.cpu_s, 1),
        "CPU s of the main process": round(took.main_cpu_s, 1),
        "peak MB": round(took.peak_mb),
    }


def judged(planted: Planted, out: Path) -> dict[str, Any]:
    """Of the pages that were dropped, how many of each kind, and for what."""
    dropped, n_wrong = Counter[str](), 0
    with (out / "duplicates.jsonl").open("rb") as lines:
        for row in map(json.loads, lines):
            page, original = place_of(row["url"]), place_of(row["original"]["url"])
            kinds = {name_of(planted.kinds[place]) for place in (page, original)}
            dropped[name_of(planted.kinds[page])] += 1
            is_copy = planted.sources[page] == planted.sources[original]
            n_wrong += "rewritten" in kinds or not is_copy
    made = Counter(map(name_of, planted.kinds.tolist()))
    return {"made": made, "dropped": dropped, "dropped wrongly": n_wrong}


def name_of(kind: int) -> str:
    return list(KINDS)[kind]


def place_of(url: str) -> int:
    return int(url.rpartition("/")[2])


if __name__ == "__main__":
    main()

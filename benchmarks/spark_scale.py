"""What the measured run of benchmarks/spark.py would be at 10^9 and 10^10 pages: arithmetic only.

    python -m benchmarks.spark_scale FILE [--cores 32] [--hours 10]

FILE is what `python -m benchmarks.spark stages --json FILE` wrote. Nothing here is measured but
that file and how crowded the cells of its pages are (a sample of planted.py's). Formulas are in
docs/spark-scale.md.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.planted import Planted, pages
from scrapy_neardup.detect.near import DISTANCE
from scrapy_neardup.engines import FINGERPRINT, SKETCH
from scrapy_neardup.spark.candidates import fingerprints_of
from scrapy_neardup.spark.cells import ENTRY, ENTRY_NS, PAIR_NS, choices, crowding_of
from scrapy_neardup.spark.signatures import signer

SAMPLE = 1 << 14
CELL_ROWS = 20_000
TIMES = (10**9, 10**10)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_scale", description=__doc__)
    parser.add_argument("report", metavar="FILE", type=Path)
    parser.add_argument("--cores", type=int, default=32, help="of a machine; default: 32")
    parser.add_argument("--hours", type=float, default=10, help="that it may take; default: 10")
    options = parser.parse_args()
    report = json.loads(options.report.read_text("utf-8"))
    for n_pages in TIMES:
        print(json.dumps(linear(report, n_pages, options), indent=1))
    crowding = crowding_of(DISTANCE, sampled())
    for n_pages in (report["docs"], *TIMES):
        print(json.dumps(one_scope(crowding, n_pages), indent=1))


def linear(report: dict[str, Any], n_pages: int, options: argparse.Namespace) -> dict[str, float]:
    """Ever more sites of the same sizes: everything is a page's share, times the pages."""
    times = n_pages / report["docs"]
    cpu_h = times * sum(row["cpu_s"] for row in report["stages"]) / 3600
    written = times * sum(row.get("shuffle_written_mb", 0) for row in report["stages"]) / 1e6
    machines = -(-cpu_h // (options.cores * options.hours))
    return {
        "pages": n_pages,
        "core_hours": round(cpu_h, 1),
        "machine_hours": round(cpu_h / options.cores, 1),
        "machines": machines,
        "shuffled_tb": round(written, 2),
        "shuffled_gb_a_machine": round(1000 * written / machines, 1),
    }


def one_scope(crowding: Any, n_pages: int) -> dict[str, float]:
    """Every page compared with all others (scope="all"): the cheapest way to cut, by the plan."""
    ways = choices(DISTANCE)
    costs = [way.nanoseconds(n_pages, crowding, CELL_ROWS) for way in ways]
    best = int(np.argmin(costs))
    own = crowding[ways[best].start : ways[best].start + len(ways[best].leading_bits)]
    entries = np.maximum(1, n_pages * own / CELL_ROWS).sum()
    return {
        "pages": n_pages,
        "tables": len(own),
        "entries_a_page": round(float(entries), 1),
        "compared_a_page": round(float(n_pages * own.sum() / 2)),
        "entry_ns": ENTRY_NS,
        "pair_ns": PAIR_NS,
        "core_hours": round(costs[best] * n_pages / 3.6e12, 1),
        "shuffled_gb": round(float(entries) * ENTRY.itemsize * n_pages / 1e9, 1),
    }


def sampled() -> Any:
    """Fingerprints of SAMPLE pages that repeat nothing."""
    sign = signer("all", FINGERPRINT, SKETCH)
    return fingerprints_of(pa.Table.from_batches(sign(iter(new_pages(SAMPLE)))))


def new_pages(n: int) -> list[pa.RecordBatch]:
    """As many pages that repeat nothing, as a signer reads them."""
    planted = Planted(2 * n)
    table = pages(planted, np.flatnonzero(planted.are("new"))[:n])
    columns = {"id": table["url"], "rank": table["place"], "text": table["text"]}
    return pa.table(columns).to_batches()


if __name__ == "__main__":
    main()

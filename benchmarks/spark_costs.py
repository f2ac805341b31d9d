"""What the kernels of spark-dedup take on one core, without Spark's own part.

    python -m benchmarks.spark_costs

Median CPU time of what tasks call, on made rows: signing pages of 110 words; making the entries of
cells, packing, unpacking and sorting them; comparing the rows of a cell; deciding about one site's
pairs in their order. Of the second and third, cells.py has constants by which it chooses how a site
is cut (ENTRY_NS, PAIR_NS); docs/spark-scale.md reckons with all but the first.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.rows import cpu_seconds
from benchmarks.spark_scale import new_pages
from scrapy_neardup.detect.near import CONFIRM_DISTANCE, DISTANCE
from scrapy_neardup.engines import FINGERPRINT, SKETCH
from scrapy_neardup.spark.cells import (
    CHECK_WORDS,
    CellPlan,
    CellRows,
    arranged,
    as_packed,
    choices,
    entries_of,
    pairs_of,
    unpacked,
)
from scrapy_neardup.spark.decisions import PAIR_COLUMNS, keep_in_order
from scrapy_neardup.spark.signatures import signer

N_PAGES, N_ROWS, N_IN_A_CELL, N_PAIRS = 5_000, 50_000, 20_000, 500_000
CUT = 2  # by which of choices() the rows of the second part are cut
SITE = 1


def main() -> None:
    rng = np.random.default_rng(1)
    parts: dict[str, tuple[Callable[[], Any], int, str]] = {
        "signing": (signing(), N_PAGES, "us a page"),
        "entries": (entries(rng), N_ROWS * len(choices(DISTANCE)[CUT].leading_bits), "ns an entry"),
        "comparing": (comparing(rng), N_IN_A_CELL * (N_IN_A_CELL - 1) // 2, "ns a pair"),
        "deciding": (deciding(rng), N_PAIRS, "ns a pair"),
    }
    seconds = cpu_seconds({name: run for name, (run, _, _) in parts.items()})
    for name, (_, n, unit) in parts.items():
        each = (seconds[name] or 0.0) / n * (1e6 if unit.startswith("us") else 1e9)
        print(f"{name:<12}{each:8.2f} {unit}")


def signing() -> Callable[[], Any]:
    """Pages of planted.py → their signatures."""
    batches, sign = new_pages(N_PAGES), signer("site", FINGERPRINT, SKETCH)
    return lambda: list(sign(iter(batches)))


def entries(rng: np.random.Generator) -> Callable[[], Any]:
    """Rows of a site that is cut → its entries, sorted."""
    rows, none = rows_of(rng, N_ROWS), np.zeros(0, np.int64)
    site, cut = np.array([SITE], np.uint64), np.array([CUT])
    plan = CellPlan(DISTANCE, 1, site, cut, none.view(np.uint64), none)

    def run() -> None:
        for made in unpacked(iter([as_packed(entries_of(plan, rows), plan.n_tasks)])):
            arranged(made, DISTANCE, CONFIRM_DISTANCE, 0)

    return run


def comparing(rng: np.random.Generator) -> Callable[[], Any]:
    """The rows of one cell → those within the distance."""
    none = np.zeros(0, np.int64)
    plan = CellPlan(DISTANCE, 1, none.view(np.uint64), none, none.view(np.uint64), none)
    cell = entries_of(plan, rows_of(rng, N_IN_A_CELL))
    ends = np.full(len(cell), len(cell))
    return lambda: list(pairs_of(cell, ends, DISTANCE))


def rows_of(rng: np.random.Generator, n: int) -> CellRows:
    """Rows of one site with random fingerprints."""
    words = rng.integers(0, 2**64, (n, 1 + CHECK_WORDS), np.uint64)
    return CellRows(np.arange(n), np.full(n, SITE, np.uint64), words[:, 0], words[:, 1:])


def deciding(rng: np.random.Generator) -> Callable[[], Any]:
    """Pairs of one site in their order → what is near a page that is kept."""
    later = np.sort(rng.integers(1, N_PAIRS // 5, N_PAIRS))
    columns = {name: np.zeros(N_PAIRS, np.int64) for name in PAIR_COLUMNS}
    columns |= dict(zip(PAIR_COLUMNS, (later, rng.integers(0, later)), strict=False))
    batches = pa.table(columns).to_batches(10_000)
    return lambda: list(keep_in_order(iter(batches)))


if __name__ == "__main__":
    main()

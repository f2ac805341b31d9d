"""Near-duplicate pairs of a corpus on anything that runs functions in parallel, as on Spark.

Not all pairs where there is a crowd: if more than a hundred pages are near each other, they and the
pages that share a cell with them are compared with a few others only, once, and counted on the
error stream. Spark compares them again in other orders (scrapy_neardup/spark/candidates.py).

What Dask (dask_dedup.py) and Ray (ray_dedup.py) need to know is `print_pairs`.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from scrapy_neardup.detect.near import CONFIRM_DISTANCE, DISTANCE, SIMILARITY
from scrapy_neardup.engines import FINGERPRINT, SKETCH
from scrapy_neardup.spark.candidates import MEASURED, Reach, confirmed
from scrapy_neardup.spark.cells import CHECK_WORDS, SMALL_SITE, CellPlan, candidates, packed
from scrapy_neardup.spark.columns import fingerprints_of, numbers_of
from scrapy_neardup.spark.signatures import signer

REACH = Reach(DISTANCE, CONFIRM_DISTANCE, SIMILARITY)
ROWS_A_TASK = 10_000
PAGES = pa.schema({"url": pa.string(), "text": pa.string()})


def signed(path: str) -> pa.Table:
    """Signatures of a file's pages."""
    # Cast: one file may have its strings in another way than the next, such as dictionaries.
    pages = pq.read_table(path, columns=["url", "text"]).cast(PAGES).rename_columns(["id", "text"])
    pages = pages.append_column("rank", pa.array([0] * len(pages), pa.int64()))
    batches = pages.to_batches() or [pa.RecordBatch.from_pylist([], pages.schema)]
    return pa.Table.from_batches(signer("site", FINGERPRINT, SKETCH)(iter(batches)))


def plan_of(rows: pa.Table) -> CellPlan:
    """How fingerprints come together: small sites as they are, larger ones by leading bits."""
    sites, sizes = np.unique(numbers_of(rows, "site").view(np.uint64), return_counts=True)
    large, sample = sizes > SMALL_SITE, fingerprints_of(rows)[:10_000]
    return CellPlan.of_sites(DISTANCE, REACH.cell_rows, sites[large], sizes[large], sample)


def entries(slim: pa.Table, plan: CellPlan) -> list[pa.RecordBatch]:
    """What of some rows has to come together."""
    return list(packed(iter(slim.to_batches()), plan))


def near(found: pa.RecordBatch, rows: pa.Table) -> list[dict[str, float]]:
    """Those of the candidates that sketches confirm."""
    found = found.filter(pc.not_equal(found["later"], found["earlier"]))
    columns = {name: found[name] for name in ("later", "earlier", "distance")}
    for side in ("later", "earlier"):
        measured = rows.take(found[side])
        columns |= {f"{side}_{name}": measured[name].combine_chunks() for name in MEASURED}
    (pairs,) = confirmed(iter([pa.RecordBatch.from_pydict(columns)]), REACH)
    return [pair for pair in pairs.to_pylist() if pair["differs"] == 0]


def crowded(found: list[pa.RecordBatch]) -> set[int]:
    """The rows of which not all pairs are among the candidates: they have one with themselves."""
    own = (batch.filter(pc.equal(batch["later"], batch["earlier"])) for batch in found)
    return {row for batch in own for row in batch["later"].to_pylist()}


def print_pairs(
    paths: list[str], run: Callable[[Callable[..., Any], Iterable[Any], Any], Iterable[Any]]
) -> None:
    """Print pairs of near pages of Parquet files: the later URL, the earlier, similarity.

    All pairs but some of crowds, whose pages are counted on the error stream.

    run: calls a function in parallel for each of some arguments, with what is the same for all of
    them behind it if that is not None; gives the results in the same order.

    Signatures and comparisons are tasks of `run`; the signatures (700 bytes a page) come together
    in this process.
    """
    rows = pa.concat_tables(run(signed, paths, None)).sort_by("id")
    if not len(rows):
        return
    rows = rows.append_column("n", pa.array(np.arange(len(rows))))
    check = pc.binary_slice(rows["sketch"], 0, 8 * CHECK_WORDS)
    slim = rows.select(["n", "site", "fingerprint"]).append_column("check", check)
    slices = [slim.slice(at, ROWS_A_TASK) for at in range(0, len(rows), ROWS_A_TASK)]
    parts = run(entries, slices, plan_of(rows))
    sent = pa.Table.from_batches(batch for part in parts for batch in part)
    met = [*candidates(iter(sent.sort_by("task").to_batches()), DISTANCE, CONFIRM_DISTANCE)]
    if n_crowded := len(crowded(met)):
        sys.stderr.write(f"{n_crowded} pages, in crowds, were not compared with all others\n")
    urls = rows["id"].to_pylist()
    for pair in (pair for some in run(near, met, rows) for pair in some):
        later, earlier = urls[pair["n"]], urls[pair["earlier"]]
        sys.stdout.write(f"{later}\t{earlier}\t{pair['similarity']:.3f}\n")

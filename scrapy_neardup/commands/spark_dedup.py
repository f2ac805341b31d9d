"""Deduplicate files of pages on Spark: JSONL, CSV, WARC, Parquet, folders of HTML.

Writes DIR/decisions and DIR/clusters as Parquet. Decisions are those of `dedup` on records in
the order of their URLs, but templates are not compared. Needs Java 17 and the extras:
pip install 'scrapy-neardup[spark,dedup]'. On a cluster, start it with spark-submit.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_neardup.commands.columns import add_columns
from scrapy_neardup.commands.terminal import say, say_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = """\
  scrapy neardup spark-dedup crawl.jsonl.gz deduped
  scrapy neardup spark-dedup warcs/ deduped --master 'local[8]' --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Inputs, output, columns, master and form."""
    parser.add_argument("inputs", metavar="IN", type=Path, nargs="+", help="file or folder")
    parser.add_argument("out", metavar="OUT", type=Path, help="folder to write")
    add_columns(parser)
    parser.add_argument("--scope", choices=("site", "all"), default="site", help="default: site")
    parser.add_argument("--master", help="Spark's master (default: that of Spark's configuration)")
    parser.add_argument(
        "--no-clusters", dest="clusters", action="store_false", help="write decisions only"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(options: argparse.Namespace) -> int:
    """Deduplicate and print how many pages of each kind there were."""
    from scrapy_neardup.offline.dedup.columns import Fields
    from scrapy_neardup.spark import dedup
    from scrapy_neardup.spark.records import read_pages
    from scrapy_neardup.spark.session import session

    fields = Fields(options.url, options.text, options.html, not options.no_url)
    with session(options.master) as spark, checkpoints(spark, options.out):
        rows = read_pages(spark, options.inputs, fields).persist()
        pages = rows.where("damage is null").select("url", "text", "markup")
        found = dedup(pages, markup="markup", scope=options.scope)
        found.decisions.write.mode("errorifexists").parquet(str(options.out / "decisions"))
        if options.clusters:
            found.clusters.write.mode("errorifexists").parquet(str(options.out / "clusters"))
        decisions = spark.read.parquet(str(options.out / "decisions"))
        kinds = {row["kind"]: row["count"] for row in decisions.groupBy("kind").count().collect()}
        damaged = rows.where("damage is not null").count()
    tell({"kinds": kinds, "damaged": damaged, "out": str(options.out)}, options.json)
    return 0


@contextmanager
def checkpoints(spark: SparkSession, out: Path) -> Iterator[None]:
    """A folder from which Spark takes up the rounds of the clusters when an executor is lost."""
    folder = out / "checkpoints"
    spark.sparkContext.setCheckpointDir(str(folder))
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tell(summary: dict[str, object], as_json: bool) -> None:
    """Print the summary."""
    if as_json:
        say_json(summary)
        return
    kinds = summary["kinds"]
    assert isinstance(kinds, dict)
    say(", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items())))
    say(f"{summary['damaged']:,} damaged records; see {summary['out']}")

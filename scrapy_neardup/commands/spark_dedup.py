"""Deduplicate files of pages on Spark: JSONL, CSV, WARC, Parquet, folders of HTML.

Writes OUT/decisions, OUT/clusters and OUT/damaged as Parquet. IN and OUT may be on object storage
(s3a://, gs://) or HDFS (hdfs://). Decisions are those of `dedup` on records in
the order of their URLs, but templates are not compared. Needs Java 17 and the extras:
pip install 'scrapy-neardup[spark,dedup]', for HDFS also hdfs. On a cluster, start it with
spark-submit.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from scrapy_neardup.commands.columns import add_columns
from scrapy_neardup.commands.terminal import complain, say, say_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from scrapy_neardup.spark.stored_index import StoredIndex

EXAMPLES = """\
  scrapy neardup spark-dedup crawl.jsonl.gz deduped
  scrapy neardup spark-dedup warcs/ deduped --master 'local[8]' --json
  scrapy neardup spark-dedup 's3a://crawl/warcs?region=eu-west-1' s3a://crawl/deduped
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Inputs, output, columns, master and form."""
    parser.add_argument("inputs", metavar="IN", nargs="+", help="file or folder, or its URL")
    parser.add_argument("out", metavar="OUT", help="folder to write, or its URL")
    add_columns(parser)
    parser.add_argument("--scope", choices=("site", "all"), default="site", help="default: site")
    parser.add_argument("--master", help="Spark's master (default: that of Spark's configuration)")
    parser.add_argument(
        "--no-clusters", dest="clusters", action="store_false", help="write decisions only"
    )
    parser.add_argument(
        "--index",
        help="folder or URL: compare with what earlier runs stored there, and add what is kept",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(options: argparse.Namespace) -> int:
    """Deduplicate and print how many pages of each kind there were."""
    from scrapy_neardup.offline.dedup.columns import Fields
    from scrapy_neardup.offline.file_systems import place, shown
    from scrapy_neardup.spark import dedup
    from scrapy_neardup.spark.records import read_pages
    from scrapy_neardup.spark.session import session

    inputs, out = [place(one) for one in options.inputs], place(options.out)
    folders = new_folders(out)
    index, name = index_of(options, inputs, out) if options.index else (None, None)
    fields = Fields(options.url, options.text, options.html, not options.no_url)
    with session(options.master) as spark, checkpoints(spark, out):
        rows = read_pages(spark, inputs, fields, options.scope).persist()
        pages = rows.where("damage is null").select("url", "text", "markup", "record")
        found = dedup(
            pages,
            markup="markup",
            record="record",
            scope=options.scope,
            against=index,
            version=name,
        )
        decisions = found.decisions.persist()
        write(decisions, folders[0])
        if options.clusters:
            write(found.clusters, folders[1])
        damage = rows.where("damage is not null").selectExpr("record", "damage as error")
        write(damage, folders[2])
        kinds = {row["kind"]: row["count"] for row in decisions.groupBy("kind").count().collect()}
        damaged = damage.count()
        if index and name:  # last: later runs drop what an index says is kept
            found.add_to(index, name)
    tell({"kinds": kinds, "damaged": damaged, "out": shown(out)}, options.json)
    return 0


def new_folders(out: Path | str) -> list[Path | str]:
    """The folders of OUT that are to be written. Raises InputError if one of them is there."""
    from scrapy_neardup.offline.file_systems import shown
    from scrapy_neardup.spark.storage import refuse_existing

    folders = [folder_in(out, name) for name in ("decisions", "clusters", "damaged")]
    remedy = f"Remove {shown(out)} to repeat the run that wrote it, or name another folder"
    for folder in folders:
        refuse_existing(folder, remedy)
    return folders


def index_of(
    options: argparse.Namespace, inputs: list[Path | str], out: Path | str
) -> tuple[StoredIndex, str]:
    """The index, and the name under which this run is stored; with a warning if its files are
    stored already under another."""
    from scrapy_neardup.offline.file_systems import place
    from scrapy_neardup.spark.stored_index import StoredIndex, run_name

    index, name = StoredIndex(place(options.index), options.scope), run_name(inputs, out)
    for other in index.of_other_runs(name):
        complain(
            f"{index}/{other} has what a run over the same files kept, so this run finds copies of "
            f"those pages. If that run was cut off and this is to replace it, remove the folder"
        )
    return index, name


def folder_in(out: Path | str, name: str) -> Path | str:
    """A folder of OUT."""
    if isinstance(out, Path):
        return out / name
    folder, mark, query = out.partition("?")
    return f"{folder.rstrip('/')}/{name}{mark}{query}"


def write(df: DataFrame, folder: Path | str) -> None:
    """Write Parquet to a folder, which must not be there."""
    from scrapy_neardup.spark import storage

    if isinstance(folder, Path):
        df.write.mode("errorifexists").parquet(str(folder))
    else:
        storage.write(df, folder)


@contextmanager
def checkpoints(spark: SparkSession, out: Path | str) -> Iterator[None]:
    """A folder from which Spark takes up the rounds of the clusters when an executor is lost.

    If OUT is a URL, it is that of Spark's configuration (spark.checkpoint.dir).
    """
    if not isinstance(out, Path):
        yield
        return
    folder = out / f"checkpoints-{token_hex(4)}"  # is removed, so it must not be the user's
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

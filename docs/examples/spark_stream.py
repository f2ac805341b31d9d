"""Deduplicate files of pages as they arrive, by Structured Streaming.

    spark-submit docs/examples/spark_stream.py IN OUT

IN is a folder to which JSON lines with `url` and `text` are added, file by file; a file appears
there when it is complete (write it elsewhere, then move it). OUT/decisions gets a folder for each
batch, OUT/index the signatures of what was kept. The job decides about all files that are there and
ends; start it again for those that came since, or change the trigger to let it wait.

Each page is decided once: Spark gives a batch that was not committed again under the same number.
Its decisions overwrite those of the first try, and are the same, since it is compared with the
versions of the index before it, not with its own.
"""

import sys
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from scrapy_neardup.spark import dedup
from scrapy_neardup.spark.stored_index import StoredIndex


def decide(batch: DataFrame, number: int, out: Path) -> None:
    """Decide about a batch, then add what it keeps to the index."""
    index, name = StoredIndex(out / "index"), f"batch-{number:010}"
    found = dedup(batch, against=index, version=name)
    found.decisions.write.mode("overwrite").parquet(str(out / "decisions" / name))
    found.add_to(index, name)


def run(spark: SparkSession, folder: Path, out: Path) -> None:
    """Decide about all files that have come since the last time."""
    pages = spark.readStream.schema("url string, text string").json(str(folder))
    stream = pages.writeStream.foreachBatch(partial(decide, out=out))
    stream = stream.option("checkpointLocation", str(out / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    with SparkSession.builder.appName("stream").getOrCreate() as session:
        run(session, *map(Path, sys.argv[1:]))

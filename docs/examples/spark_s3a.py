"""Deduplicate JSON lines on object storage, by Spark's own connector.

    spark-submit --jars hadoop-aws-….jar,… docs/examples/spark_s3a.py s3a://BUCKET/IN s3a://BUCKET/OUT

IN has lines with `url` and `text`. OUT/kept gets the lines that are kept, OUT/decisions what was
decided about each, and OUT/pages all lines, numbered: a URL may stand on several. Jars of the
Hadoop that Spark was built with need no setting but those of the storage
(`spark.hadoop.fs.s3a.endpoint`, `….access.key`, `….secret.key`).
"""

import sys

from pyspark.sql import SparkSession

from scrapy_neardup.spark import dedup


def run(spark: SparkSession, source: str, out: str) -> None:
    """Write what is kept of the lines below a URL, and the decisions."""
    lines = spark.read.schema("url string, text string").json(source)
    # Stored, because Spark may number rows in another way when it reads them again.
    numbered = lines.selectExpr("string(monotonically_increasing_id()) AS record", "*")
    numbered.write.mode("overwrite").parquet(f"{out}/pages")
    pages = spark.read.parquet(f"{out}/pages")
    dedup(pages, record="record").decisions.write.mode("overwrite").parquet(f"{out}/decisions")
    repeats = spark.read.parquet(f"{out}/decisions").where("kind IN ('exact', 'near')")
    kept = pages.join(repeats, "record", "left_anti").drop("record")
    kept.write.mode("overwrite").json(f"{out}/kept")


if __name__ == "__main__":
    with SparkSession.builder.appName("s3a").getOrCreate() as session:
        run(session, *sys.argv[1:])

"""Spark's own connector reads and writes object storage.

NEARDUP_S3A_JARS names a folder with the connector's jars: hadoop-aws and the SDK that it was built
with. They are 190 MB; docs/spark.md says where they are from.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mock_site import prose
from object_storage import s3

pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
from scrapy_neardup.offline.file_systems import file_system

JARS = os.environ.get("NEARDUP_S3A_JARS")
EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "spark_s3a.py"
PROGRAM = """
import runpy, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for setting in sys.argv[1].split():
    builder = builder.config(*setting.split("=", 1))
builder.getOrCreate()
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# Hadoop 3.3 reads these as plain numbers, and has classes of its own for what 3.5 takes from
# another SDK.
OF_HADOOP_3_3 = {
    "threads.keepalivetime": 60,
    "connection.establish.timeout": 30_000,
    "connection.timeout": 200_000,
    "connection.ttl": 300_000,
    "multipart.purge.age": 86_400,
    "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
}
# Nine pages of which the last three repeat the first three, and one that stands there twice.
PAGES = [(f"http://a.example/{n}", prose(n % 6, n_words=300)) for n in range(9)]
PAGES += [("http://a.example/5", PAGES[5][1])]


@pytest.mark.skipif(not JARS, reason="NEARDUP_S3A_JARS names no jars of Hadoop's connector for S3")
def test_a_program_reads_and_writes_by_spark_s_own_connector() -> None:
    with s3() as url_of:
        files, folder = file_system(url_of("in"))
        files.create_dir(folder)
        lines = "".join(f"{json.dumps({'url': url, 'text': text})}\n" for url, text in PAGES)
        with files.open_output_stream(f"{folder}/pages.jsonl") as stream:
            stream.write(lines.encode())
        where = url_of("").partition("endpoint_override=")[2].partition("&")[0]
        run(where, "s3a://bucket/in", "s3a://bucket/out")
        kept = rows_below(url_of("out/kept"))
    assert sorted((row["url"], row["text"]) for row in kept) == PAGES[:6]


def run(endpoint: str, *arguments: str) -> None:
    """Run the example against a server that speaks S3."""
    assert JARS is not None
    own = {"endpoint": f"http://{endpoint}", "access.key": "name", "secret.key": "secret"}
    own |= {"path.style.access": "true", "connection.ssl.enabled": "false"}
    settings = {f"spark.hadoop.fs.s3a.{n}": v for n, v in (own | OF_HADOOP_3_3).items()}
    settings |= {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    settings["spark.sql.shuffle.partitions"] = "2"
    settings["spark.jars"] = ",".join(map(str, sorted(Path(JARS).glob("*.jar"))))
    told = " ".join(f"{name}={value}" for name, value in settings.items())
    command = [sys.executable, "-c", PROGRAM, told, str(EXAMPLE), *arguments]
    env = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]


def rows_below(url: str) -> list[dict[str, Any]]:
    """The rows of the files of JSON lines below a URL."""
    from pyarrow.fs import FileSelector

    files, folder = file_system(url)
    rows = []
    for info in files.get_file_info(FileSelector(folder)):
        if info.path.endswith(".json"):
            with files.open_input_stream(info.path) as stream:
                rows += map(json.loads, stream.read().splitlines())
    return rows

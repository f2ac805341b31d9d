"""Deduplication on Spark, stage by stage, beside one process and beside plain SQL.

    python -m benchmarks.spark --docs 1000000 [--scope site] [--json FILE] [PART ...]

Pages are made with planted duplicates (planted.py), Spark runs as local[2]. Parts: stages (ours),
sql (the same fingerprints by explode and join), local (scrapy neardup dedup), random (pairs of
random fingerprints at 3 bits, by SQL, by broadcast and by shuffle), crowd (as many pages of one
site, all near each other), split (the pages as one file of JSON lines, read and signed by one task
and by a task for each part). Of each stage: wall seconds, CPU seconds of all processes, bytes that
Spark shuffled (its event log), and the most memory that the JVM and that Python had meanwhile
(proportional set size, so that what forked workers share counts once).
"""

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import ascii_lowercase
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from benchmarks.planted import KINDS, Planted, write
from scrapy_neardup.detect.near import CONFIRM_DISTANCE, DISTANCE, MIN_WORDS, SIMILARITY
from scrapy_neardup.engines import FINGERPRINT, SKETCH
from scrapy_neardup.index.layout import Layout
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.spark import Deduplicated, candidates, dedup, records
from scrapy_neardup.spark.candidates import SLIM, Reach
from scrapy_neardup.spark.decisions import first_of_each_text
from scrapy_neardup.spark.signatures import numbered, signed

PARTS = ("stages", "sql", "local", "random", "crowd", "split")
TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.5
DRIVER_MEMORY = "3g"
RANDOM_DISTANCE = 3
SPLIT_ROUNDS = 2


def main() -> None:
    options = parsed()
    planted = Planted(options.docs)
    with TemporaryDirectory(dir=options.folder) as scratch:
        corpus = Path(options.folder or scratch) / f"pages-{options.docs}"
        write(planted, corpus)
        report = measured(options, planted, corpus, Path(scratch))
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1), encoding="utf-8")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("parts", metavar="PART", nargs="*", default=PARTS, help=", ".join(PARTS))
    parser.add_argument("--docs", type=int, default=1_000_000, help="default: a million")
    parser.add_argument("--scope", choices=("site", "all"), default="site", help="default: site")
    parser.add_argument("--folder", help="where pages stay for the next run and scratch files go")
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON, too")
    return parser.parse_args()


def measured(
    options: argparse.Namespace, planted: Planted, corpus: Path, scratch: Path
) -> dict[str, Any]:
    """The report of all parts."""
    made = Counter(list(KINDS)[kind] for kind in planted.kinds.tolist())
    report: dict[str, Any] = {"docs": options.docs, "scope": options.scope, "planted": made}
    report["bytes"] = sum(path.stat().st_size for path in corpus.iterdir())
    print(json.dumps(report), flush=True)
    with spark_session(scratch) as spark:
        meter = Meter(spark)
        spark.range(1).mapInArrow(lambda batches: batches, "id long").count()  # starts workers
        if {"stages", "sql"} & set(options.parts):
            report["found"] = on_spark(spark, meter, options, planted, corpus, scratch)
            print(json.dumps(report["found"]), flush=True)
        if "random" in options.parts:
            on_random(spark, meter, options.docs)
        if "crowd" in options.parts:
            print(json.dumps(on_crowd(spark, meter, options.docs)), flush=True)
        if "split" in options.parts:
            on_split(spark, meter, corpus, scratch)
    if "local" in options.parts:
        report["local"] = local(meter, options, planted, corpus, scratch / "local")
    shuffled = shuffle_bytes(scratch)
    report["stages"] = [row | shuffled.get(row["stage"], {}) for row in meter.rows]
    for row in report["stages"]:
        print(json.dumps(row), flush=True)
    print(json.dumps({name: report.get(name) for name in ("found", "local")}))
    return report


@contextmanager
def spark_session(scratch: Path) -> Iterator[SparkSession]:
    """Spark on two cores of this machine, that logs what it does."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    (scratch / "events").mkdir()
    settings = {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch),
        "spark.sql.shuffle.partitions": "16",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (scratch / "events").as_uri(),
    }
    with SparkSession.builder.master("local[2]").config(map=settings).getOrCreate() as spark:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark


class Meter:
    """Times stages and watches this process and its descendants, Java's and Python's apart."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark: SparkSession | None = spark
        self.rows: list[dict[str, Any]] = []
        self.peaks = {"java": 0, "python": 0, "all": 0}
        self.ticks: dict[tuple[int, str], int] = {}  # CPU time of each process, ended ones too
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def stage(self, name: str, **told: Any) -> Iterator[None]:
        """Measure what happens in the block, under a name."""
        if self.spark:
            self.spark.sparkContext.setJobGroup(name, name)
        self.peaks = dict.fromkeys(self.peaks, 0)
        start, cpu = time.monotonic(), self._cpu_seconds()
        yield
        seconds = {"wall_s": time.monotonic() - start, "cpu_s": self._cpu_seconds() - cpu}
        peaks = {f"{kind}_mb": n_bytes / 1e6 for kind, n_bytes in self.peaks.items()}
        figures = {key: round(value, 1) for key, value in (seconds | peaks).items()}
        self.rows.append({"stage": name, **told, **figures, "load": os.getloadavg()[0]})
        print(json.dumps(self.rows[-1]), flush=True)

    def _watch(self) -> None:
        while True:
            now = {"java": 0, "python": 0}
            for process in family():
                kind = "java" if name_of(process) == "java" else "python"
                now[kind] += proportional_bytes(process)
            for kind, n_bytes in (now | {"all": sum(now.values())}).items():
                self.peaks[kind] = max(self.peaks[kind], n_bytes)
            self._cpu_seconds()
            time.sleep(SAMPLE_S)

    def _cpu_seconds(self) -> float:
        """CPU time so far; what a process did after it was last looked at is not in it."""
        for process in family():
            if fields := stat_of(process):
                self.ticks[process, fields[19]] = int(fields[11]) + int(fields[12])
        return sum(self.ticks.copy().values()) / TICKS


def family() -> list[int]:
    """This process and its descendants."""
    parents = {int(p.name): parent_of(int(p.name)) for p in Path("/proc").glob("[0-9]*")}
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def stat_of(process: int) -> list[str]:
    """Fields of /proc/PID/stat behind the name; empty for a process that has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def parent_of(process: int) -> int:
    return int((stat_of(process) or [0, 0])[1])


def name_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def proportional_bytes(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def on_spark(
    spark: SparkSession,
    meter: Meter,
    options: argparse.Namespace,
    planted: Planted,
    corpus: Path,
    scratch: Path,
) -> dict[str, Any]:
    """Ours stage by stage, and what it found of what was planted."""
    pages = spark.read.parquet(str(corpus))
    reach = Reach(DISTANCE, CONFIRM_DISTANCE, SIMILARITY)
    found: dict[str, Any] = {}
    with meter.stage("signatures"):
        signatures = numbered(
            signed(pages, "text", "url", "place", options.scope, FINGERPRINT, SKETCH)
        )
    with meter.stage("exact repeats"):
        rows = first_of_each_text(signatures).persist()
        found["rows"] = rows.count()
    slim = rows.where((fn.col("n") == fn.col("first_n")) & (fn.col("words") >= MIN_WORDS))
    slim = slim.select(*SLIM)
    if "stages" in options.parts:
        with meter.stage("candidates by shuffle"):
            near = candidates.candidate_pairs(slim, reach).persist()
            found["candidates"] = near.count()
        with meter.stage("confirmation"):
            met = near.where("later > earlier")
            pairs = candidates.confirmed_of(met, signatures, reach).persist()
            found["pairs"] = pairs.count()
        left_out = near.where("later = earlier").selectExpr("later AS n").distinct()
        result = Deduplicated(rows, pairs, left_out, MIN_WORDS, signatures)
        with meter.stage("decisions"):
            result.decisions.write.parquet(str(scratch / "decisions"))
        with meter.stage("clusters"):
            found["clustered"] = result.clusters.count()
        found |= judged(planted, *decided(scratch / "decisions"))
    if "sql" in options.parts:
        with meter.stage("candidates by SQL"):
            layout = Layout(DISTANCE + 2, DISTANCE)
            found["candidates by SQL"] = joined_by_sql(slim, layout).count()
    return found


def joined_by_sql(slim: DataFrame, layout: Layout) -> DataFrame:
    """Pairs of rows of a site within the layout's distance: explode, join, bit_count, distinct."""
    masks = [mask - (mask >> 63 << 64) for mask in layout.leading_masks]
    slices = [
        fn.struct(fn.lit(table).alias("table"), fn.col("fingerprint").bitwiseAND(mask).alias("x"))
        for table, mask in enumerate(masks)
    ]
    cut = slim.select("n", "site", "fingerprint", fn.explode(fn.array(*slices)).alias("slice"))
    one, other = (
        cut.select("site", "slice", fn.col("n").alias(n), fn.col("fingerprint").alias(f))
        for n, f in (("later", "f"), ("earlier", "g"))
    )
    near = fn.bit_count(fn.col("f").bitwiseXOR(fn.col("g"))) <= layout.distance
    met = one.join(other, ["site", "slice"]).where(fn.col("earlier") < fn.col("later")).where(near)
    return met.select("later", "earlier").distinct()


def on_random(spark: SparkSession, meter: Meter, n_rows: int) -> None:
    """Random fingerprints, as many as pages: what any method needs where nothing is crowded."""
    rng = np.random.default_rng(1)
    fingerprints = rng.integers(-(2**63), 2**63, n_rows)
    table = pa.table(
        {
            "n": np.arange(n_rows),
            "site": np.zeros(n_rows, np.int64),
            "fingerprint": fingerprints,
            "check": pa.array([bytes(16)] * n_rows, pa.binary()),
        }
    )
    slim = spark.createDataFrame(table).persist()
    slim.count()
    reach = Reach(RANDOM_DISTANCE, 256, 0)
    with meter.stage("random by SQL"):
        joined_by_sql(slim, Layout(RANDOM_DISTANCE + 1, RANDOM_DISTANCE)).count()
    with meter.stage("random by shuffle"):
        candidates.candidate_pairs(slim, reach).count()
    with meter.stage("random by broadcast"):
        index = PermutedIndex(RANDOM_DISTANCE + 1, RANDOM_DISTANCE)
        index.add_many(fingerprints.view(np.uint64), np.arange(n_rows))
        index.compact()
        sent = spark.sparkContext.broadcast(index.arrays())

        def scan(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            finder = PermutedIndex.from_arrays(sent.value)
            for batch in batches:
                own = batch.column("fingerprint").to_numpy().view(np.uint64)
                found = finder.all_within_many(own, RANDOM_DISTANCE)
                yield pa.record_batch([pa.array(found.ids)], ["id"])

        slim.mapInArrow(scan, "id long").count()


def on_split(spark: SparkSession, meter: Meter, corpus: Path, scratch: Path) -> None:
    """The pages as one file of JSON lines, read and signed by one task, and by one a part."""
    path = scratch / "pages.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for part in sorted(corpus.iterdir()):
            rows = pq.read_table(part, columns=["url", "text"]).to_pylist()
            file.writelines(json.dumps(row) + "\n" for row in rows)
    size = path.stat().st_size
    quarter = min(records.PART_BYTES, size // 4)
    for name, part_bytes in (("one task", size), ("parts", quarter)) * SPLIT_ROUNDS:
        records.PART_BYTES = part_bytes
        pages = records.read_pages(spark, [path], Fields())
        n_tasks = pages.rdd.getNumPartitions()
        rows = signed(pages, "text", "url", None, "site", FINGERPRINT, SKETCH, markup="markup")
        with meter.stage(f"file by {name}", tasks=n_tasks, megabytes=round(size / 1e6)):
            rows.write.format("noop").mode("overwrite").save()


def on_crowd(spark: SparkSession, meter: Meter, n_pages: int) -> dict[str, int]:
    """Pages of 200 words, in each of which another word is changed; how many of each kind."""
    rng = random.Random(1)
    text = ["".join(rng.choices(ascii_lowercase, k=6)) for _ in range(200)]

    def page(number: int) -> tuple[str, str]:
        place = rng.randrange(len(text))
        changed = [*text[:place], f"{rng.choice(text)}x", *text[place + 1 :]]
        return f"http://a.example/{number:09}", " ".join(changed)

    pages = spark.createDataFrame(map(page, range(n_pages)), "url string, text string").persist()
    pages.count()
    with meter.stage("a crowd"):
        kinds = dedup(pages).decisions.groupBy("kind").count().collect()
    return {row["kind"]: row["count"] for row in kinds}


def decided(folder: Path) -> tuple[Any, Any]:
    """Each page's original by number, -1 for none; and whether it was dropped as an exact copy."""
    table = pyarrow.dataset.dataset(folder, format="parquet").to_table(["id", "kind", "original"])
    dropped = table.filter(pa.compute.is_in(table["kind"], pa.array(["near", "exact"])))
    return numbers(dropped["id"]), numbers(dropped["original"])


def numbers(urls: Any) -> Any:
    """Numbers of pages by their URLs."""
    return np.array([int(url.rpartition("/")[2]) for url in urls.to_pylist()], dtype=np.int64)


def judged(planted: Planted, pages: Any, originals: Any) -> dict[str, Any]:
    """Of each kind how many pages were dropped, and how many of them for a page of another source.

    "new" and "rewritten" pages should be kept.
    """
    wrong = planted.sources[pages] != planted.sources[originals]
    kinds = list(KINDS)
    made = np.bincount(planted.kinds, minlength=len(kinds))
    dropped = np.bincount(planted.kinds[pages], minlength=len(kinds))
    shares = {kind: round(d / m, 5) for kind, d, m in zip(kinds, dropped, made, strict=True)}
    return {"dropped": len(pages), "dropped_share": shares, "wrong_joins": int(wrong.sum())}


def local(
    meter: Meter, options: argparse.Namespace, planted: Planted, corpus: Path, out: Path
) -> dict[str, Any]:
    """The single-process command on the same files."""
    meter.spark = None
    settings = {"BOILERPLATE": "keep", "SCOPE": options.scope, "KEY": "0"}
    command = [sys.executable, "-m", "scrapy", "neardup"]
    command += [part for k, v in settings.items() for part in ("-s", f"NEARDUP_{k}={v}")]
    command += ["dedup", str(corpus), "--out", str(out)]
    with meter.stage("scrapy neardup dedup"):
        subprocess.run([*command, "--json"], check=True, stdout=subprocess.DEVNULL)
    with (out / "duplicates.jsonl").open("rb") as lines:
        urls = [(row["url"], row["original"]["url"]) for row in map(json.loads, lines)]
    pages, originals = (numbers(pa.array(column)) for column in zip(*urls, strict=True))
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    return judged(planted, pages, originals) | {"others": summary["others"]}


def shuffle_bytes(scratch: Path) -> dict[str, dict[str, float]]:
    """By stage of ours: megabytes written to and read from shuffles, and spilled."""
    stages: dict[int, str] = {}
    found: dict[str, Counter[str]] = {}
    for path in (scratch / "events").rglob("events_*"):
        for event in map(json.loads, path.open(encoding="utf-8")):
            if event["Event"] == "SparkListenerStageSubmitted":
                group = (event.get("Properties") or {}).get("spark.jobGroup.id", "")
                stages[event["Stage Info"]["Stage ID"]] = group
            if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
                own = found.setdefault(stages.get(event["Stage ID"], ""), Counter())
                own.update(shuffled(event["Task Metrics"]))
    return {
        stage: {key: round(value / 1e6, 1) for key, value in counts.items()}
        for stage, counts in found.items()
    }


def shuffled(metrics: dict[str, Any]) -> dict[str, int]:
    """Bytes of one task."""
    read = metrics["Shuffle Read Metrics"]
    return {
        "shuffle_written_mb": metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"],
        "shuffle_read_mb": read["Local Bytes Read"] + read["Remote Bytes Read"],
        "spilled_mb": metrics["Disk Bytes Spilled"],
    }


if __name__ == "__main__":
    main()

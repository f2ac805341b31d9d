"""Deduplicates planted pages on two executors, and kills one of them every few stages.

    python -m tests.spark_kills [--pages N] [--every STAGES]

Prints in which stages executors were killed, and whether the decisions are those of one process and
the clusters those of all pairs. Linux only: an executor is found among the descendants of this
process.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.near import DISTANCE
from scrapy_neardup.engines import load_engine
from scrapy_neardup.index import load_index
from scrapy_neardup.spark import dedup
from tests.mock_site import prose

PATIENCE_S = 0.2


def pages(n: int) -> list[tuple[str, str]]:
    """Pages of three sites; half of them are copies, by chains of small changes."""
    rng = random.Random(1)
    texts: list[str] = []
    for i in range(n):
        words = (rng.choice(texts) if i % 2 and texts else prose(i)).split()
        words[rng.randrange(len(words))] = "edit" + "".join(rng.choices("abcdefgh", k=5))
        texts.append(" ".join(words))
    return [(f"https://{'abc'[i % 3]}.example/{i:06}", text) for i, text in enumerate(texts)]


def session(master: str, folder: Path) -> SparkSession:
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.task.maxFailures": "20",
        "spark.stage.maxConsecutiveAttempts": "20",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.sql.artifact.isolation.enabled": "false",
    }
    found = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    found.sparkContext.setCheckpointDir(str(folder))
    return found


def local_decisions(rows: list[tuple[str, str]]) -> list[tuple[Any, ...]]:
    """What one process decides."""
    index = load_index("permuted", blocks=DISTANCE + 1, distance=DISTANCE)
    detector = Detector(load_engine("auto"), index, boilerplate="keep", whole_pages=True)
    found = []
    for url, text in sorted(rows):
        decision = detector.decide(detector.read(url, text))
        found.append((url, decision.kind, decision.original))
    return found


def components(links: list[tuple[str, str]]) -> dict[str, str]:
    """The first page of each chain of links, by union and find."""
    first: dict[str, str] = {}

    def find(page: str) -> str:
        while first.setdefault(page, page) != page:
            page = first[page]
        return page

    for one, other in links:
        low, high = sorted((find(one), find(other)))
        first[high] = low
    return {page: find(page) for page in list(first)}


class Killer(threading.Thread):
    """Kills one executor every so many stages, while the other lives."""

    def __init__(self, spark: SparkSession, every: int) -> None:
        super().__init__(daemon=True)
        self._tracker = spark.sparkContext.statusTracker()
        self._every = every
        self._next = 1
        self.at: list[int] = []  # stages
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(PATIENCE_S):
            stages = self._tracker.getActiveStageIds()
            executors = executors_of(os.getpid())
            if len(executors) == 2 and stages and max(stages) >= self._next:
                self.at.append(max(stages))
                self._next = max(stages) + self._every
                os.kill(random.choice(executors), signal.SIGKILL)

    def end(self) -> None:
        self._ended.set()
        self.join()


def executors_of(ancestor: int) -> list[int]:
    """Processes of executors below one process."""
    parents, found = {}, []
    for entry in Path("/proc").iterdir():
        try:
            pid = int(entry.name)
            parents[pid] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                found.append(pid)
        except (ValueError, OSError):
            continue
    return [pid for pid in found if descends(pid, ancestor, parents)]


def descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != ancestor:
        pid = parents[pid]
    return pid == ancestor


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--every", type=int, default=10, help="stages from one kill to the next")
    options = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    rows = pages(options.pages)
    with tempfile.TemporaryDirectory() as folder:
        spark = session("local-cluster[2,1,1024]", Path(folder))
        killer = Killer(spark, options.every)
        killer.start()
        frame = spark.createDataFrame(rows, "url string, text string").repartition(4)
        found = dedup(frame)
        decisions = found.decisions.select("id", "kind", "original").collect()
        clusters = {row["id"]: row["cluster"] for row in found.clusters.collect()}
        killer.end()
        names = {row["n"]: row["id"] for row in found.rows.collect()}
        pairs = [(names[row["n"]], names[row["earlier"]]) for row in found.pairs.collect()]
        pairs += [(row["id"], row["original"]) for row in decisions if row["kind"] == "exact"]
        spark.stop()
    same = sorted(map(tuple, decisions)) == local_decisions(rows), clusters == components(pairs)
    told = {"kills at stages": killer.at, "decisions": same[0], "clusters": same[1]}
    print(json.dumps(told))  # noqa: T201  # a command's output
    return 0 if all(same) and killer.at else 1


if __name__ == "__main__":
    sys.exit(main())

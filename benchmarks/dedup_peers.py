"""`scrapy neardup dedup` and others on the same pages: rate, CPU, memory, recall, precision.

    python -m benchmarks.dedup_peers [--pages N] [--cores 1 2] [--only NAME …] [--limit SECONDS]

The pages are texts of ../shared/data/pairs, cut to 300 words, in which every third word is another;
15 % are copies word by word, 15 % have two other words. Every program gets the same JSON lines and
writes what it keeps. Peers that are not installed are passed over; --python names the interpreter
that has them:

    python -m venv peers
    peers/bin/pip install rensa datatrove tokenizers orjson spacy text-dedup 'xxhash<4'
    python -m benchmarks.dedup_peers --python peers/bin/python

text-dedup on Spark needs `pyspark pyarrow graphframes-py 'pandas<3'` there too, and the name of a
file in GRAPHFRAMES_JAR: what Scala's compiler, which is among Spark's jars, makes of the sources of
GraphFrames in core and graphx:

    java -Xss8m -cp 'JARS/*' scala.tools.nsc.Main -usejavacp -Xsource:3 -d out *.scala *.java
    javac -cp 'out:JARS/*' -d out *.java && jar cf graphframes.jar -C out .
"""

import argparse
import gzip
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.rows import html_pages
from scrapy_neardup.crawl.pages.extract import visible_text_of_html

WORDS = 300
RECENT = 1_000  # pages that a copy may repeat
SHARES = {"new": 0.7, "exact": 0.15, "near": 0.15}

RENSA = """
import gzip, json, sys
from rensa import RMinHash, RMinHashLSH
lsh = RMinHashLSH(threshold=0.8, num_perm=128, num_bands=16)
with open(sys.argv[1]) as file, gzip.open(sys.argv[2] + "/kept.jsonl.gz", "wt") as out:
    for number, line in enumerate(file):
        words = json.loads(line)["text"].lower().split()
        minhash = RMinHash(num_perm=128, seed=42)
        minhash.update([" ".join(words[i:i + 5]) for i in range(max(1, len(words) - 4))])
        if not lsh.query(minhash):
            lsh.insert(number, minhash)
            out.write(line)
"""
DATATROVE = """
import sys
from datatrove.executor import LocalPipelineExecutor as Run
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
if __name__ == "__main__":
    source, out, cores = sys.argv[1], sys.argv[2], int(sys.argv[3])
    folder, name = source.rsplit("/", 1)
    config = MinhashConfig(num_buckets=14, hashes_per_bucket=8)
    reader = lambda: JsonlReader(folder, glob_pattern=name, id_key="id")
    def run(steps, tasks, number):
        Run(pipeline=steps, tasks=tasks, workers=cores, logging_dir=f"{out}/logs/{number}").run()
    run([reader(), MinhashDedupSignature(f"{out}/signatures", config=config)], 1, 1)
    run([MinhashDedupBuckets(f"{out}/signatures", f"{out}/buckets", config=config)], 14, 2)
    run([MinhashDedupCluster(f"{out}/buckets", f"{out}/remove", config=config)], 1, 3)
    run([reader(), MinhashDedupFilter(f"{out}/remove"), JsonlWriter(f"{out}/kept")], 1, 4)
"""
DETECTOR = """
import gzip, json, sys
from scrapy_neardup import Detector, load_engine, load_index
detector = Detector(load_engine("auto"), load_index("permuted", blocks=7, distance=6))
with open(sys.argv[1]) as file, gzip.open(sys.argv[2] + "/kept.jsonl.gz", "wt", 1) as out:
    for page in map(json.loads, file):
        if not detector.decide(detector.read(page["url"], page["text"])).is_duplicate:
            out.write(json.dumps({"id": page["id"]}) + "\\n")
"""
SPARK = """
import gzip, json, sys
sys.path.insert(0, "")
from pathlib import Path
from benchmarks.spark import spark_session
from scrapy_neardup.spark import dedup
source, out = sys.argv[1:3]
with spark_session(Path(out)) as spark:
    dedup(spark.read.json(source), id="url").decisions.write.parquet(out + "/decisions")
    kept = spark.read.parquet(out + "/decisions").where("kind not in ('exact', 'near')")
    with gzip.open(out + "/kept.jsonl.gz", "wt", 1) as file:
        for row in kept.toLocalIterator():
            file.write(json.dumps({"id": row["id"].rpartition("/")[2]}) + "\\n")
"""
GZIP = """
import gzip, shutil, sys
with open(sys.argv[1], "rb") as file, gzip.open(sys.argv[2] + "/kept.jsonl.gz", "wb", 6) as out:
    shutil.copyfileobj(file, out, 2**20)
"""
TEXT_DEDUP = """
import subprocess, sys
from datasets import load_from_disk
if __name__ == "__main__":
    source, out, cores = sys.argv[1:]
    subprocess.run([
        sys.executable, "-m", "text_dedup.METHOD", "--path", "json", "--data_files", source,
        "--split", "train", "--column", "text", "--output", out + "/set", "--cache_dir",
        out + "/cache", "--num_proc", cores], check=True)
    load_from_disk(out + "/set").to_json(out + "/kept.jsonl.gz", compression="gzip")
"""
# Its 4,096 and 8,192 partitions are for a large cluster: on two cores the 61,000 tasks of 3,000
# pages did not end within 500 s. With 64 partitions 2,000 pages take two minutes.
TEXT_DEDUP_SPARK = """
import gzip, json, os, subprocess, sys
from importlib.util import find_spec
from pathlib import Path
import pyarrow.json, pyarrow.parquet
source, out, cores = sys.argv[1:]
blocks = pyarrow.json.ReadOptions(block_size=2**24)
with pyarrow.json.open_json(source, blocks) as rows:
    with pyarrow.parquet.ParquetWriter(out + "/pages.parquet", rows.schema) as parquet:
        for batch in rows:
            parquet.write_batch(batch)
program = Path(find_spec("text_dedup.minhash_spark").origin).read_text()
for name in ('"100"', '"8192"', "4096"):
    assert name in program, f"{name} is no longer in text-dedup's program: read it again"
    program = program.replace(name, '"64"' if name[0] == '"' else "64")
Path(out, "minhash_spark.py").write_text(program)
# 2 GB: the driver of `the same on Spark` has as much.
options = f"--master local[{cores}] --driver-memory 2g --jars {os.environ['GRAPHFRAMES_JAR']}"
os.mkdir(out + "/events")
options += f" --conf spark.eventLog.enabled=true --conf spark.eventLog.dir={out}/events"
options += " --conf spark.eventLog.compress=false"
ended = subprocess.run([
    sys.executable, out + "/minhash_spark.py", "--input", out + "/pages.parquet",
    "--output", out + "/set", "--column", "text", "--checkpoint_dir", out + "/checkpoints"],
    env=os.environ | {
        "PYSPARK_SUBMIT_ARGS": options + " pyspark-shell", "PYSPARK_PYTHON": sys.executable})
if ended.returncode:
    sys.exit(1)
with gzip.open(out + "/kept.jsonl.gz", "wt", 1) as file:
    parts = list(map(str, Path(out, "set").rglob("*.parquet")))
    for number in pyarrow.parquet.read_table(parts, columns=["id"])["id"].to_pylist():
        file.write(json.dumps({"id": number}) + "\\n")
"""
PEERS = {
    "rensa MinHash + LSH": RENSA,
    "datatrove MinHash": DATATROVE,
    "text-dedup MinHash": TEXT_DEDUP.replace("METHOD", "minhash"),
    "text-dedup simhash": TEXT_DEDUP.replace("METHOD", "simhash"),
    "text-dedup MinHash on Spark": TEXT_DEDUP_SPARK,
    "gzip -6 (nothing else)": GZIP,
}
OURS = "scrapy neardup dedup"
PROGRAMS = {"its detector alone": DETECTOR, "the same on Spark": SPARK}  # of ours


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dedup_peers", description=__doc__)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", nargs="+", default=[OURS, *PROGRAMS, *PEERS])
    parser.add_argument("--python", default=sys.executable, help="that has the peers")
    parser.add_argument("--limit", type=float, default=900, help="seconds for each program")
    parser.add_argument("--json", metavar="FILE", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "pages.jsonl"
        sources = make(source, options.pages)
        print(f"{options.pages:,} pages, {source.stat().st_size / 1e6:.0f} MB", flush=True)
        for name in options.only:
            for cores in options.cores:
                with_peers = options.python, options.limit
                row = measured(name, source, Path(folder), cores, *with_peers, sources)
                print(json.dumps(row), flush=True)
                rows.append(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def make(path: Path, n_pages: int) -> list[int]:
    """Write the pages; of each the number of the page that it says the same as."""
    chance = random.Random(1)
    texts = [visible_text_of_html(html).split() for html in html_pages()]
    models = [words[:WORDS] for words in texts if len(words) >= WORDS]
    vocabulary = sorted({w for words in texts[::5] for w in words if w.isalpha()})
    sources: list[int] = []
    recent: list[tuple[int, list[str]]] = []
    with path.open("w", encoding="utf-8") as file:
        for number in range(n_pages):
            kind = chance.choices(list(SHARES), list(SHARES.values()))[0] if recent else "new"
            new = number, chance.choice(models)
            source, words = new if kind == "new" else chance.choice(recent)
            words = list(words)
            replaced = {"new": WORDS // 3, "exact": 0, "near": 2}[kind]
            places = [i for i, word in enumerate(words) if word.isalpha()]
            for place in chance.sample(places, min(replaced, len(places))):
                words[place] = chance.choice(vocabulary)
            if kind == "new":
                recent = [*recent[-RECENT + 1 :], (number, words)]
            sources.append(source)
            row = {"id": str(number), "url": f"http://a.example/{number}", "text": " ".join(words)}
            file.write(json.dumps(row) + "\n")
    return sources


def measured(
    name: str,
    source: Path,
    folder: Path,
    cores: int,
    python: str,
    limit_s: float,
    sources: list[int],
) -> dict[str, Any]:
    """One program on so many cores."""
    out = folder / f"{name.replace(' ', '-')}-{cores}"
    out.mkdir()
    if name == OURS:
        # Gzipped input, so that it compresses what it keeps, as the others do.
        packed = source.with_suffix(".jsonl.gz")
        if not packed.exists():
            packed.write_bytes(gzip.compress(source.read_bytes(), 1))
        command = [sys.executable, "-m", "scrapy_neardup", "dedup", str(packed)]
        command += ["--out", str(out / "ours"), "--jobs", str(cores)]
    else:
        program = out / "program.py"
        program.write_text((PROGRAMS | PEERS)[name], encoding="utf-8")
        python = sys.executable if name in PROGRAMS else python
        command = [python, str(program), str(source), str(out), str(cores)]
    took = timed(["taskset", "-c", f"0-{cores - 1}", *command], limit_s)
    row = {"program": name, "cores": cores, "CPU s": round(took.cpu_s, 1)}
    if took.failed:
        return row | {"failed": took.failed}
    return row | {
        "pages/s": round(len(sources) / took.wall_s),
        "wall s": round(took.wall_s, 1),
        "CPU s of the main process": round(took.main_cpu_s, 1),
        "peak MB": round(took.peak_mb),
        **scores(sources, kept_ids(out)),
        **shuffled(out),
    }


def shuffled(out: Path) -> dict[str, int]:
    """What a program's shuffles wrote, where it ran on Spark."""
    if not (out / "events").exists():
        return {}
    from benchmarks.spark import shuffle_bytes  # loads pyspark

    stages = shuffle_bytes(out).values()
    return {"shuffle MB": round(sum(stage["shuffle_written_mb"] for stage in stages))}


class Timed(NamedTuple):
    """What a command took. cpu_s, peak_mb: of all of its processes together."""

    wall_s: float
    cpu_s: float
    main_cpu_s: float
    peak_mb: float
    failed: str = ""


def timed(command: list[str], limit_s: float) -> Timed:
    """Run a command, at most so long."""
    began = time.monotonic()
    cpu: dict[int, float] = {}
    peak = 0.0
    # A file: a pipe that nobody reads holds programs up that write a lot to it. A session of its
    # own: processes of a fork server are nobody's children when they end, and Spark's make groups.
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=told, start_new_session=True
        )
        while process.poll() is None:
            seconds, megabytes = of_session(process.pid)
            cpu |= seconds
            peak = max(peak, megabytes)
            if time.monotonic() - began > limit_s:
                end(seconds)
                process.wait()
                why = f"stopped after {limit_s:,.0f} s"
                return Timed(limit_s, sum(cpu.values()), cpu.get(process.pid, 0.0), peak, why)
            time.sleep(0.1)
        wall = time.monotonic() - began
        told.seek(0)
        error = told.read().decode("utf-8", "replace")
    failed = error[-300:] if process.returncode else ""
    return Timed(wall, sum(cpu.values()), cpu.get(process.pid, 0.0), peak, failed)


def end(pids: Iterable[int]) -> None:
    """Kill processes, some of which may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def of_session(session: int) -> tuple[dict[int, float], float]:
    """CPU seconds of each process of a session, and their memory together."""
    cpu, megabytes, tick = {}, 0.0, os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) != session:
                continue
            cpu[int(folder.name)] = (int(fields[11]) + int(fields[12])) / tick
            megabytes += int(fields[21]) * resource.getpagesize() / 1e6
        except (OSError, ValueError, IndexError):
            continue
    return cpu, megabytes


def kept_ids(out: Path) -> set[int]:
    """The pages that a program kept."""
    files = [p for p in out.rglob("*.jsonl.gz") if "kept" in str(p.relative_to(out))]
    return {int(json.loads(line)["id"]) for path in files for line in gzip.open(path, "rt")}


def scores(sources: list[int], kept: set[int]) -> dict[str, Any]:
    """Share of surplus copies that were dropped, and contents of which nothing was kept.

    Whichever copy a program keeps: of each content one is enough.
    """
    copies = Counter(sources)
    left = Counter(sources[number] for number in kept)
    surplus = len(sources) - len(copies)
    dropped = sum(n - max(1, left[source]) for source, n in copies.items())
    return {
        "copies dropped": round(dropped / max(1, surplus), 4),
        "contents lost": sum(not left[source] for source in copies),
    }


if __name__ == "__main__":
    main()

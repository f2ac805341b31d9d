"""Gigabytes of damaged WARC through `scrapy neardup dedup`, killed in the middle and gone on with.

    python -m benchmarks.dedup [--gigabytes N] [--folder DIR] [--json FILE]

Makes the files (made_warc.py), runs the command, kills it by SIGKILL behind the middle, runs it
again, and checks that every whole record is kept or mapped to an original exactly once. Memory
is sampled every few seconds. N are gigabytes of gzipped WARC; of pages it is 3.7 times that.
What is made is deleted at the end.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from benchmarks.made_warc import make_warc

PAGE_BYTES_A_GIGABYTE = 3.7e9  # of HTML in a gigabyte of gzipped WARC
FILES = 2
SAMPLE_S = 2.0
LEFT_TO_LOSE_S = 20.0  # between a checkpoint behind the middle and the kill


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dedup", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=3.0)
    parser.add_argument(
        "--folder", type=Path, help="where there is room (default: a temporary one)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        row = measured(Path(folder), options.gigabytes)
    for name, value in row.items():
        print(f"{name:<34}{value}")
    if options.json:
        Path(options.json).write_text(json.dumps(row, indent=1), encoding="utf-8")


def measured(folder: Path, gigabytes: float) -> dict[str, Any]:
    """Make, run, kill, run again, check."""
    warcs, out = folder / "warcs", folder / "out"
    made = make(warcs, gigabytes)
    packed = sum(path.stat().st_size for path in warcs.iterdir())
    total = sum(made[kind] for kind in ("new", "exact", "near", "damaged"))
    memory: list[list[float]] = []
    killed = run(warcs, out, memory, kill_behind=total // 2)
    summary = run(warcs, out, memory)
    return {
        "gzipped WARC, GB": round(packed / 1e9, 2),
        "HTML, GB": round(made["bytes"] / 1e9, 2),
        "made": {kind: made[kind] for kind in ("new", "exact", "near", "damaged")},
        "killed behind record": killed.get("counts", {}).get("records", "none: it ended before"),
        "records": summary["records"],
        "seconds, lost work not counted": summary["seconds"],
        "records/s": round(summary["records"] / summary["seconds"], 1),
        "HTML, MB/s": round(made["bytes"] / 1e6 / summary["seconds"], 1),
        "gzipped, MB/s": round(packed / 1e6 / summary["seconds"], 1),
        "kept": summary["kept"],
        "exact": summary["exact"],
        "near": summary["near"],
        "damaged": summary["damaged"],
        "others": summary["others"],
        **accounted(out),
        **of_memory(memory),
    }


def make(folder: Path, gigabytes: float) -> Counter[str]:
    """Write the files; what they hold."""
    folder.mkdir()
    page_bytes = int(gigabytes * PAGE_BYTES_A_GIGABYTE / FILES)
    with ProcessPoolExecutor(FILES) as pool:
        files = [
            pool.submit(make_warc, folder / f"{seed}.warc.gz", page_bytes, seed)
            for seed in range(FILES)
        ]
        return sum((file.result() for file in files), Counter())


def run(warcs: Path, out: Path, memory: list[list[float]], kill_behind: int = 0) -> dict[str, Any]:
    """Run the command to its end, or to a kill; its summary, or its last checkpoint."""
    command = [sys.executable, "-m", "scrapy_neardup", "dedup", str(warcs), "--out", str(out)]
    process = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True)
    kill_at = float("inf")
    while process.poll() is None:
        time.sleep(SAMPLE_S)
        progress = checkpoint(out)
        records = progress["counts"].get("records", 0)
        memory.append([records, *megabytes(process.pid)])
        if kill_behind and kill_at == float("inf") and records >= kill_behind:
            kill_at = time.monotonic() + LEFT_TO_LOSE_S
        if time.monotonic() >= kill_at:
            progress = checkpoint(out)
            process.send_signal(signal.SIGKILL)
            process.wait()
            return progress
    assert process.stdout is not None
    summary: dict[str, Any] = json.loads(process.stdout.read())
    return summary


def checkpoint(out: Path) -> dict[str, Any]:
    """What is known to be done."""
    path = out / "progress.json"
    return json.loads(path.read_text()) if path.exists() else {"counts": {}}


def megabytes(pid: int) -> tuple[float, float]:
    """Resident memory of a process, and of its children together; without shared pages."""
    children = [int(child) for child in read(f"/proc/{pid}/task/{pid}/children").split()]
    return resident(pid), sum(map(resident, children))


def resident(pid: int) -> float:
    for line in read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1e3
    return 0.0


def read(path: str) -> str:
    """A file of /proc, "" where the process has ended."""
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""


def of_memory(samples: list[list[float]]) -> dict[str, Any]:
    """Main process and workers as the records went through; a sample of zeros saw them end."""
    seen = [sample for sample in samples if min(sample[1:])]
    shown = [
        next(s for s in seen if s[0] >= share * seen[-1][0]) for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    return {
        "records, main MB, workers MB": [[round(value) for value in sample] for sample in shown],
        "peak MB": {"main": max(s[1] for s in seen), "workers": max(s[2] for s in seen)},
    }


def accounted(out: Path) -> dict[str, Any]:
    """Whether each record is kept or mapped once, and how far the labels agree."""
    kept = Counter(url for part in sorted((out / "kept").iterdir()) for url in urls(part))
    lines = [json.loads(line) for line in (out / "duplicates.jsonl").open()]
    mapped = Counter(line["url"] for line in lines)
    agree = Counter((kind_of(line["url"]), line["kind"]) for line in lines)
    return {
        "kept or mapped more than once": sum(n - 1 for n in (kept + mapped).values()),
        "planted exact found": agree["exact", "exact"],
        "planted near found": agree["near", "near"],
        "new pages taken for copies": agree["new", "near"] + agree["new", "exact"],
        "damage listed": sum(1 for _ in (out / "damaged.jsonl").open()),
    }


def urls(part: Path) -> Iterator[str]:
    with part.open("rb") as file:
        for record in ArchiveIterator(file):
            yield record.rec_headers.get_header("WARC-Target-URI")


def kind_of(url: str) -> str:
    return url.split("/")[3]


if __name__ == "__main__":
    main()

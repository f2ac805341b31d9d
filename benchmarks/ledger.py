"""What the decision ledger takes of a crawl: CPU time and bytes a decision.

    python -m benchmarks.ledger [--n N] [--json FILE]

Target: at most 20 us of CPU a decision, all threads together, and less than 200 bytes on disk.
URLs are the real ones of ../shared/data/urls, from the part where they are longest; their mean
length is printed. "loop" is the time of the thread that decides, which is that of the crawl's
event loop; "writer" that of the ledger's own. Medians of three rounds. "in a crawl" repeats the
first mix at 500 decisions a second, as a crawl would come by them: small batches cost more.
"""

import argparse
import gzip
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

from benchmarks.rows import SHARED_DATA
from scrapy_neardup.ledger.schema import Entry
from scrapy_neardup.ledger.writer import LedgerWriter

ROUNDS = 3
RATE = 500  # decisions a second of a fast crawl
SECONDS = 8
MIX = {"new": 0.6, "near": 0.15, "exact": 0.1, "seen": 0.15}
MIXES = {"mixed": MIX, "only near-duplicates": {"near": 1.0}, "only repeated URLs": {"seen": 1.0}}
TEXT_CHARS = 6_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ledger", description=__doc__)
    parser.add_argument("--n", type=int, default=100_000, help="decisions of each mix (100,000)")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON, too")
    options = parser.parse_args()
    urls = real_urls(options.n)
    print(f"{len(urls):,} URLs, {sum(map(len, urls)) / len(urls):.0f} characters each")
    rows = {
        name: medians([measured(list(entries(urls, mix, seed))) for seed in range(ROUNDS)])
        for name, mix in MIXES.items()
    }
    paced = list(entries(urls[: RATE * SECONDS], MIX, 0))
    rows["in a crawl"] = measured(paced, rate=RATE)
    with_text = [entry._replace(text=text(urls, i)) for i, entry in enumerate(paced)]
    rows["mixed, texts kept"] = measured(with_text, keep_text=True)
    for name, row in rows.items():
        print(f"{name:<22}" + "  ".join(f"{key} {value:.1f}" for key, value in row.items()))
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")


def real_urls(n: int) -> list[str]:
    with gzip.open(SHARED_DATA / "urls" / "gov_stream.txt.gz", "rt", encoding="utf-8") as lines:
        return [line.strip() for line in islice(lines, n)]


def entries(urls: list[str], mix: dict[str, float], seed: int) -> Iterator[Entry]:
    """A decision about each URL; originals are among the thousand URLs before it."""
    chance = Random(seed)
    kinds = chance.choices(list(mix), list(mix.values()), k=len(urls))
    for i, (url, kind) in enumerate(zip(urls, kinds, strict=True)):
        fingerprint = chance.getrandbits(64)
        original = urls[max(0, i - chance.randrange(1, 1000))]
        if kind == "seen":
            yield Entry(url, "seen", "dropped", callback="parse_item")
            continue
        page = Entry(url, "new", "kept", None, None, fingerprint, words=812, size_bytes=31_234)
        page = page._replace(latency_ms=123, callback="parse_item", title=fingerprint >> 33)
        if kind == "exact":
            page = page._replace(distance=0, sketch_distance=0, similarity=1.0)
        if kind == "near":
            page = page._replace(distance=2, sketch_distance=31, similarity=0.931)
        if kind != "new":
            page = page._replace(kind=kind, action="dropped", original=original)
        yield page


def text(urls: list[str], seed: int) -> str:
    """Words of URLs: about as compressible as prose."""
    return " ".join(Random(seed).choices(urls, k=TEXT_CHARS // 90)).replace("/", " ")


def measured(decisions: list[Entry], rate: int = 0, keep_text: bool = False) -> dict[str, float]:
    """Microseconds of CPU and bytes a decision."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = LedgerWriter(Path(folder), "all", rules={}, keep_text=keep_text)
        loop, everything = time.thread_time(), time.process_time()
        for i in range(0, len(decisions), max(1, rate // 10)):
            for entry in decisions[i : i + max(1, rate // 10)]:
                ledger.record(entry)
            if rate:
                time.sleep(0.1)
        loop = time.thread_time() - loop
        ledger.close()
        everything = time.process_time() - everything
        assert ledger.lost == 0
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
    n = len(decisions)
    return {
        "loop, us": 1e6 * loop / n,
        "writer, us": 1e6 * (everything - loop) / n,
        "together, us": 1e6 * everything / n,
        "bytes": size / n,
    }


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


if __name__ == "__main__":
    main()

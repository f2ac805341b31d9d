"""The Hamming index beside the README it follows and its peers: time and bytes a fingerprint.

    python benchmarks/index.py [--n 1000000] [--queries 200000] [--json FILE] [--skip-peers]

One core (the process pins itself to one), process CPU time, median of three where a run is
short. Above a million fingerprints only frozen tables are measured. Queries: half are stored
fingerprints with 0 to 3 bits flipped, half are new. "skew" is a model of templated sites, see
skewed(). Peers that are not installed (benchmarks/requirements.txt) are reported so.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from sorted_tables import SortedTables

import scrapy_neardup.kernels as kernels
from scrapy_neardup.index.permuted import PermutedIndex

PRINTED_2011 = {"insert": 2.534, "find first": 4.795, "find all": 7.415, "removal": 3.346}
SINGLE_CALLS = 20_000


def uniform(n: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


def skewed(n: int, seed: int = 1) -> Any:
    """Signs of a site's boilerplate plus a page's content, bit by bit.

    20,000 sites of Zipf-distributed sizes (exponent 1.1), 15 to 90 % of the variance boilerplate:
    a look-up with 4 blocks compares about 1,260 of a million entries on average, not 61.
    """
    rng = np.random.default_rng(seed)
    sizes = 1 / np.arange(1, 20_001) ** 1.1
    sites = rng.choice(len(sizes), n, p=sizes / sizes.sum())
    model = np.random.default_rng(0)
    template = model.standard_normal((len(sizes), 64))
    boilerplate = model.uniform(0.15, 0.9, len(sizes))
    out = np.zeros(n, dtype=np.uint64)
    for start in range(0, n, 1 << 17):
        own = sites[start : start + (1 << 17)]
        share = boilerplate[own, None]
        content = rng.standard_normal((len(own), 64))
        pages = np.sqrt(share) * template[own] + np.sqrt(1 - share) * content
        out[start : start + len(own)] = np.packbits(pages > 0, axis=1, bitorder="little").view(
            "<u8"
        )[:, 0]
    return out


def queries_for(stored: Any, n: int, fresh: Any) -> Any:
    """Half of them near something stored."""
    rng = np.random.default_rng(2)
    queries = stored[rng.integers(0, len(stored), n)]
    for k in range(1, 4):
        some = rng.permutation(n)[: n * (4 - k) // 4]
        queries[some] ^= np.uint64(1) << rng.integers(0, 64, len(some), dtype=np.uint64)
    queries[::2] = fresh[: len(queries[::2])]
    return queries


def cpu(work: Callable[[], Any], repeat: int = 1) -> float:
    """Median CPU seconds."""
    took = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        took.append(time.process_time() - start)
    return statistics.median(took)


class Report:
    """Rows as the issue wants them, printed as they come."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def row(
        self, kernel: str, value: float, unit: str, target: float | None = None, **peers: Any
    ) -> None:
        met = None if target is None else value <= target
        self.rows.append(
            {
                "kernel": kernel,
                "value": round(value, 4),
                "unit": unit,
                "target": target,
                "met": met,
                "peers": {name: round(v, 3) for name, v in peers.items()},
            }
        )
        goal = "" if target is None else f"  target <= {target:g} {'met' if met else 'MISSED'}"
        others = "".join(f"  {name} {v:.3g}" for name, v in peers.items())
        print(f"{kernel:52} {value:10.3f} {unit:14}{goal}{others}", flush=True)


def filled(stored: Any, blocks: int = 4) -> PermutedIndex:
    index = PermutedIndex(blocks=blocks)
    index.add_many(stored, np.arange(len(stored)))
    index.compact()
    return index


def single_calls(index: PermutedIndex, queries: Any) -> float:
    some = queries[:SINGLE_CALLS].tolist()
    return cpu(lambda: [index.first_within(q, 3) for q in some], 3) / len(some) * 1e6


def bulk(look_up: Callable[..., Any], queries: Any) -> float:
    return cpu(lambda: look_up(queries, 3), 3) / len(queries) * 1e6


def permuted(report: Report, n: int, n_queries: int, peers: dict[str, Any]) -> None:
    """The row "permuted index, k = 3" of the kernels' table."""
    for_uniform, for_skew, for_call = (0.5, 2.5, 1.5) if n <= 1_000_000 else (3, None, None)
    index, queries = look_ups(report, "uniform", uniform, for_uniform, n, n_queries, peers)
    report.row("first_within a call", single_calls(index, queries), "us", for_call)
    report.row("frozen", index.nbytes / n, "bytes", 37)
    look_ups(report, "skew", skewed, for_skew, n, n_queries, peers)


def look_ups(
    report: Report,
    name: str,
    make: Callable[..., Any],
    target: float | None,
    n: int,
    n_queries: int,
    peers: dict[str, Any],
) -> tuple[PermutedIndex, Any]:
    stored, index = make(n), PermutedIndex()
    queries = queries_for(stored, n_queries, make(n_queries, 3))
    insert = cpu(lambda: index.add_many(stored, np.arange(n)))
    report.row(f"insert in bulk, {name}", insert / n * 1e9, "ns", 250)
    index.compact()
    others = peers["range"](stored, queries) if "range" in peers else {}
    first = bulk(index.first_within_many, queries)
    report.row(f"first_within in bulk, {name}", first, "us", target, **others)
    for peer, took in others.items():
        report.row(f"  times faster than {peer} (15 wanted)", took / first, "x")
    report.row(f"all_within in bulk, {name}", bulk(index.all_within_many, queries), "us")
    report.row(f"largest bucket, {name}", index.largest_bucket, "entries")
    return index, queries


def live(report: Report, n: int, n_queries: int) -> None:
    """A live tier that holds everything, and inserts one by one with background compaction."""
    stored = uniform(n)
    queries = queries_for(stored, n_queries, uniform(n_queries, 3))
    index = PermutedIndex()
    layout = index.layout
    tier = kernels.hamming.Live(index._tables, n, layout.directory_bits(n))
    insert = cpu(lambda: tier.add_many(stored[:, None], np.arange(n, dtype=np.uint32)))
    report.row("live tier: insert in bulk", insert / n * 1e9, "ns", 250)
    report.row("live tier: bytes", tier.nbytes / n, "bytes", 64)
    look_up = bulk(lambda q, d: kernels.hamming.first_many([tier], q[:, None], d, 2**62), queries)
    report.row("live tier: first_within in bulk", look_up, "us")
    some = stored.tolist()

    def add_all() -> None:
        for id, fp in enumerate(some):
            index.add(fp, id)

    report.row("add a call, compaction included", cpu(add_all) / n * 1e9, "ns")
    report.row("bytes after adding one by one", index.nbytes / n, "bytes", 64)
    remove = cpu(lambda: index.remove_many(stored, np.arange(n)))
    report.row("remove in bulk", remove / n * 1e9, "ns")


def twin(report: Report, n: int, n_queries: int) -> None:
    """The same index on NumPy alone."""
    from scrapy_neardup.kernels.numpy_twin import hamming as twin_kernels

    compiled, kernels.hamming = kernels.hamming, twin_kernels
    stored = uniform(n)
    queries = queries_for(stored, n_queries, uniform(n_queries, 3))
    report.row("NumPy: insert in bulk", cpu(lambda: filled(stored)) / n * 1e9, "ns")
    index = filled(stored)
    report.row("NumPy: first_within in bulk", bulk(index.first_within_many, queries), "us", 10)
    report.row("NumPy: first_within a call", single_calls(index, queries[:2000]), "us")
    kernels.hamming = compiled


def by_the_book(report: Report, n: int, n_queries: int) -> None:
    stored = uniform(n)
    queries = queries_for(stored, n_queries, uniform(n_queries, 3))
    for blocks in (4, 6):
        tables = SortedTables(blocks, 3, stored, np.arange(n))
        took = bulk(tables.all_within_many, queries)
        report.row(f"sorted tables (NumPy), {blocks} blocks: all_within in bulk", took, "us")


def readme(report: Report, n: int, blocks: int, peers: dict[str, Any]) -> None:
    """simhash-py's own benchmark: bench.py --random N --blocks B --bits 3, in seconds."""
    hashes, queries = uniform(n, 5), uniform(n, 6)
    ids, index = np.arange(n), PermutedIndex(blocks=blocks)
    took = {"insert": cpu(lambda: index.add_many(hashes, ids))}
    took["find first"] = cpu(lambda: index.first_within_many(queries, 3))
    took["find all"] = cpu(lambda: index.all_within_many(queries, 3))
    took["removal"] = cpu(lambda: index.remove_many(hashes, ids))
    for step, seconds in took.items():
        printed = {"printed in 2011": PRINTED_2011[step]} if blocks == 5 else {}
        report.row(f"README, blocks={blocks}: bulk {step}", seconds, "s", **printed)
    if "join" in peers:
        both = set(hashes.tolist()) | set(queries.tolist())
        seconds = cpu(lambda: peers["join"](both, blocks))
        report.row(f"simhash-pybind find_all, blocks={blocks}, both sets", seconds, "s")


def faiss_multihash(faiss: Any) -> Callable[..., dict[str, float]]:
    def measure(stored: Any, queries: Any) -> dict[str, float]:
        faiss.omp_set_num_threads(1)
        index = faiss.IndexBinaryMultiHash(64, 4, 16)
        index.add(stored.view(np.uint8).reshape(-1, 8))
        some = queries[:20_000].view(np.uint8).reshape(-1, 8)
        # Its range is strict: radius 4 finds what differs in up to 3 bits.
        took = cpu(lambda: index.range_search(some, 4)) / len(some) * 1e6
        return {"FAISS MultiHash 4x16": took}

    return measure


def available_peers() -> dict[str, Any]:
    peers: dict[str, Any] = {}
    try:
        peers["range"] = faiss_multihash(import_module("faiss"))
    except ImportError:
        print("faiss is not installed: not measured")
    try:
        find_all = import_module("simhash").find_all
        peers["join"] = lambda hashes, blocks: find_all(hashes, blocks, 3)
    except (ImportError, AttributeError):
        print("simhash-pybind is not installed: not measured")
    print("seomoz Corpus (simhash-py 0.1): no release builds on this Python; not measured")
    return peers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=200_000)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--skip-peers", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    machine = f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}"
    level = getattr(kernels.hamming, "simd", lambda: "none")()
    print(f"{options.n} fingerprints, kernels {kernels.hamming.__name__}, SIMD {level}, {machine}")
    report, peers = Report(), {} if options.skip_peers else available_peers()
    permuted(report, options.n, options.queries, peers)
    if options.n <= 1_000_000:
        live(report, options.n, options.queries)
        twin(report, options.n, options.queries)
        by_the_book(report, options.n, options.queries)
        for blocks in (5, 6):
            readme(report, options.n, blocks, peers)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report.rows, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())

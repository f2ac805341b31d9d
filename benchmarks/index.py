"""The Hamming index beside the README it follows and its peers: time and bytes a fingerprint.

Above a million fingerprints only frozen tables are measured. Queries: half are stored
fingerprints with 0 to 3 bits flipped, half are new. "skew" is a model of templated sites, see
skewed().
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

import scrapy_neardup.kernels as kernels
from benchmarks import index_readme
from benchmarks.peers import peer
from benchmarks.rows import Part, Row, Yardstick, cpu_seconds, once, one_core
from benchmarks.sorted_tables import SortedTables
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.kernels.cores import cores

MILLION = 1_000_000
LOOK_UPS = 200_000
SINGLE_CALLS = 20_000
FOR_PEERS = 20_000
FOR_TABLES = 2_000
FAISS = "FAISS MultiHash 4x16"

Work = Callable[[], object]


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


def seconds(work: Work, rounds: int = 3) -> float:
    return cpu_seconds({"": work}, rounds)[""] or 0.0


def in_calls(index: PermutedIndex, queries: Any) -> float:
    """Microseconds a call from Python."""
    some, distance = queries[:SINGLE_CALLS].tolist(), index.max_distance
    return seconds(lambda: [index.first_within(q, distance) for q in some]) / len(some) * 1e6


def in_bulk(look_up: Callable[..., Any], queries: Any, distance: int = 3) -> float:
    """Microseconds a query."""
    return seconds(lambda: look_up(queries, distance)) / len(queries) * 1e6


def frozen_rows(n: int) -> Iterator[Row]:
    """The row "permuted index, k = 3" of the kernels' table."""
    size = f"{n // MILLION} M"
    for name, make in (("uniform", uniform), ("skew", skewed)):
        stored, index = make(n), PermutedIndex()
        queries = queries_for(stored, LOOK_UPS, make(LOOK_UPS, 3))
        ids = np.arange(n)
        insert = once(partial(index.add_many, stored, ids))
        index.compact()
        yield insert_row(f"insert, {size} {name}", insert, stored)
        took, theirs = in_bulk(index.first_within_many, queries), faiss_us(stored, queries)
        tables = Yardstick("sorted tables", sorted_tables_us(stored, queries))
        what = f"first_within in bulk, {size} {name}"
        yield Row(what, took, "us", 0.25, True, {FAISS: theirs}, tables)
        if theirs:
            yield Row(f"times faster than FAISS, {size} {name}", theirs / took, "x", 15)
        yield Row(
            f"all_within in bulk, {size} {name}", in_bulk(index.all_within_many, queries), "us"
        )
        yield Row(f"largest bucket, {size} {name}", index.largest_bucket, "entries")
        if name == "uniform":
            yield Row(f"frozen, {size}", index.nbytes / n, "bytes", 37, at_most=True)
            took, goal = in_calls(index, queries), 20 if n == MILLION else None
            call = Yardstick("divmod", empty_call_us(queries))
            yield Row(f"first_within a call, {size}", took, "us", goal, True, yardstick=call)


def insert_row(name: str, seconds: float, stored: Any) -> Row:
    """Held to the least that permuted tables by the book take: sorting each."""
    sorts = 4 * once(lambda: np.argsort(stored))
    yardstick = Yardstick("argsort a table", sorts / len(stored) * 1e9)
    return Row(name, seconds / len(stored) * 1e9, "ns", 1, True, yardstick=yardstick)


def sorted_tables_us(stored: Any, queries: Any, blocks: int = 4) -> float:
    """Microseconds a query of binary search in sorted tables, in NumPy."""
    tables = SortedTables(blocks, 3, stored, np.arange(len(stored)))
    some = queries[:FOR_TABLES]  # each is compared with all that share a block with it
    return once(lambda: tables.all_within_many(some, 3)) / len(some) * 1e6


def empty_call_us(queries: Any) -> float:
    """Microseconds of a call from Python that does next to nothing."""
    some = queries[:SINGLE_CALLS].tolist()
    return seconds(lambda: [divmod(query, 3) for query in some]) / len(some) * 1e6


def distance_6_rows(n: int) -> Iterator[Row]:
    """What a crawl asks by default, NEARDUP_DISTANCE = 6, with 7 blocks and with 8."""
    size = f"{n // MILLION} M"
    for blocks in (7, 8):
        for name, make in (("uniform", uniform), ("skew", skewed)):
            stored, index = make(n), PermutedIndex(blocks, 6)
            queries = queries_for(stored, LOOK_UPS // 10, make(LOOK_UPS, 3))
            ids = np.arange(n)
            insert = once(partial(index.add_many, stored, ids))
            index.compact()
            what = f"distance 6, {blocks} blocks, {size} {name}"
            yield Row(f"{what}: insert", insert / n * 1e9, "ns")
            yield Row(f"{what}: in bulk", in_bulk(index.first_within_many, queries, 6), "us")
            yield Row(f"{what}: a call", in_calls(index, queries[:2000]), "us")
            yield Row(f"{what}: frozen", index.nbytes / n, "bytes")


def all_cores_rows() -> Iterator[Row]:
    """Wall-clock time of bulk calls on one core over that on all; needs a quiet machine."""
    stored, ids = uniform(MILLION), np.arange(MILLION)
    queries = queries_for(stored, MILLION, uniform(MILLION, 3))
    index = PermutedIndex()
    index.add_many(stored, ids)
    works: dict[str, Work] = {
        "first_within_many": lambda: index.first_within_many(queries, 3),
        "all_within_many": lambda: index.all_within_many(queries, 3),
        "add_many, 4 blocks": lambda: PermutedIndex().add_many(stored, ids),
        "add_many, 7 blocks": lambda: PermutedIndex(7, 6).add_many(stored, ids),
    }
    for name, work in works.items():
        with one_core():
            one = wall(work)
        yield Row(f"{name}: times faster on {cores()} cores", one / wall(work), "x")


def wall(work: Work, rounds: int = 7) -> float:
    """The shortest of some wall-clock times, in seconds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def faiss_us(stored: Any, queries: Any) -> float | None:
    """Microseconds a query of FAISS's multi-index hashing with the same four tables."""
    faiss = peer("faiss")
    if not faiss:
        return None
    faiss.omp_set_num_threads(1)
    index = faiss.IndexBinaryMultiHash(64, 4, 16)
    index.add(stored.view(np.uint8).reshape(-1, 8))
    some = queries[:FOR_PEERS].view(np.uint8).reshape(-1, 8)
    # Its range is strict: radius 4 finds what differs in up to 3 bits.
    return once(lambda: index.range_search(some, 4)) / len(some) * 1e6


def live_rows() -> Iterator[Row]:
    """A memtable that holds everything, and inserts one by one with background compaction."""
    n, stored, index = MILLION, uniform(MILLION), PermutedIndex()
    queries = queries_for(stored, LOOK_UPS, uniform(LOOK_UPS, 3))[:, None]
    memtable = kernels.hamming.Memtable(
        index.layout.kernel_tables, n, index.layout.directory_bits(n)
    )
    ids = np.arange(n, dtype=np.uint32)
    insert = once(lambda: memtable.add_many(stored[:, None], ids))
    yield insert_row("memtable: insert", insert, stored)
    yield Row("memtable: size", memtable.nbytes / n, "bytes", 64, at_most=True)
    took = in_bulk(lambda q, d: kernels.hamming.first_many([memtable], q, d, 2**62), queries)
    yield Row("memtable: first_within in bulk", took, "us")
    some = stored.tolist()
    adding = once(lambda: [index.add(fp, id) for id, fp in enumerate(some)])
    yield Row("add a call, compaction included", adding / n * 1e9, "ns")
    yield Row("size after adding one by one", index.nbytes / n, "bytes", 64, at_most=True)
    yield Row("remove", once(lambda: index.remove_many(stored, ids)) / n * 1e9, "ns")


def numpy_rows() -> Iterator[Row]:
    """The same index on NumPy alone."""
    chosen = kernels.hamming
    kernels.hamming = import_module(f"{kernels.PACKAGES['numpy']}.hamming")
    stored = uniform(MILLION)
    queries = queries_for(stored, LOOK_UPS, uniform(LOOK_UPS, 3))
    index = PermutedIndex()
    insert = once(lambda: index.add_many(stored, np.arange(MILLION)))
    yield Row("NumPy: insert", insert / MILLION * 1e9, "ns")
    took = in_bulk(index.first_within_many, queries)
    tables = Yardstick("sorted tables", sorted_tables_us(stored, queries))
    yield Row("NumPy: first_within in bulk", took, "us", 1, True, yardstick=tables)
    yield Row("NumPy: first_within a call", in_calls(index, queries[:2000]), "us")
    kernels.hamming = chosen


def textbook_rows() -> Iterator[Row]:
    """Sorted tables and binary search, in NumPy."""
    stored = uniform(MILLION)
    queries = queries_for(stored, LOOK_UPS, uniform(LOOK_UPS, 3))
    for blocks in (4, 6):
        took = sorted_tables_us(stored, queries, blocks)
        yield Row(f"sorted tables in NumPy, {blocks} blocks", took, "us")


PARTS = (  # ns, us or s; bytes; ratios to the peers
    Part("frozen, 1 M", lambda: frozen_rows(MILLION), 0.3),
    Part("distance 6, 1 M", lambda: distance_6_rows(MILLION), 0.3),
    Part("memtable", live_rows, 0.1),
    Part("NumPy", numpy_rows, 0.2),
    Part("sorted tables", textbook_rows, 0.1),
    Part("README", lambda: index_readme.rows(uniform(MILLION, 5), uniform(MILLION, 6)), 1.5),
    Part("frozen, 10 M", lambda: frozen_rows(10 * MILLION), 1.5),
    Part("distance 6, 10 M", lambda: distance_6_rows(10 * MILLION), 2),
    Part("all cores", all_cores_rows, 0.3, all_cores=True),
)

"""URL filters beside their peers: time, bits a URL, measured error rate, forgotten URLs.

URLs: the real ones of ../shared/data/urls/gov_stream.txt.gz, and beyond their 359,511 keys the
same paths on made mirror hosts. Times are of single Python calls on keys not hashed before.
"""

import gzip
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import mmh3
import numpy as np
from scrapy import Request
from scrapy.dupefilters import RFPDupeFilter

from benchmarks.peers import peer
from benchmarks.rows import SHARED_DATA, Part, Row, Yardstick
from scrapy_neardup.urls.filters.exact import ExactUrlFilter
from scrapy_neardup.urls.filters.layered import BloomFilter, LayeredBloomFilter
from scrapy_neardup.urls.key import url_key

MILLION = 1_000_000
SINGLE_CALLS = 200_000
SLOW_CALLS = 20_000
RATE = 1e-6
REOPEN = """
import sys, numpy as np
from scrapy_neardup.urls.filters import load_filter
from benchmarks.bloom import stream
files = dict(np.load(sys.argv[1]))
known = load_filter(sys.argv[2]).from_arrays(files)
print(sum(key not in known for key in stream(int(sys.argv[3]))))
"""


class Contender(NamedTuple):
    """Something that knows URLs: check-and-add, check, and its size in bits if it says so."""

    add: Callable[[Any], object]
    has: Callable[[Any], bool]
    bits: Callable[[], float | None]
    as_text: bool = False  # takes str keys
    slow: bool = False


@lru_cache(maxsize=1)
def real_keys() -> list[bytes]:
    with gzip.open(SHARED_DATA / "urls" / "gov_stream.txt.gz", "rt", encoding="utf-8") as lines:
        return list(dict.fromkeys(url_key(line.strip()) for line in lines))


def stream(n: int) -> Iterator[bytes]:
    """n different keys: the real ones, then their paths on mirrors."""
    real = real_keys()
    made = (b"m%d.%s" % (i, key) for i in itertools.count(1) for key in real)
    return itertools.islice(itertools.chain(real, made), n)


def contenders(n: int) -> dict[str, Callable[[], Contender | None]]:
    """Ours first; each is made empty for n URLs at an error rate of 1e-6."""
    return {
        "layered": lambda: ours(LayeredBloomFilter(n, RATE, seed=1)),
        "bloom": lambda: ours(BloomFilter(n, RATE, seed=1)),
        "exact": lambda: ours(ExactUrlFilter(n, seed=1)),
        "rbloom": lambda: of_rbloom(n, hash),
        "rbloom+mmh3": lambda: of_rbloom(n, lambda key: mmh3.hash128(key, signed=True)),
        "fastbloom-rs": lambda: of_fastbloom(n),
        "pybloomfiltermmap3": lambda: of_pybloomfilter(n),
        "pybloom-live": lambda: of_pybloom_live(n),
        "set of 16-byte digests": of_set,
        "RFPDupeFilter with Request": of_scrapy,
    }


def ours(known: Any) -> Contender:
    return Contender(known.add, known.__contains__, lambda: 8.0 * known.nbytes)


def of_rbloom(n: int, hashed: Callable[[Any], int]) -> Contender | None:
    """Its add returns nothing, so that a crawl needs two calls."""
    module = peer("rbloom")
    if module is None:
        return None
    known = module.Bloom(n, RATE) if hashed is hash else module.Bloom(n, RATE, hashed)
    return Contender(check_and_add(known), known.__contains__, lambda: known.size_in_bits)


def of_fastbloom(n: int) -> Contender | None:
    module = peer("fastbloom_rs")
    if module is None:
        return None
    known = module.FilterBuilder(n, RATE).build_bloom_filter()
    bits = 8.0 * len(known.get_bytes())
    return Contender(known.add_if_not_contains, known.contains_bytes, lambda: bits)


def of_pybloomfilter(n: int) -> Contender | None:
    module = peer("pybloomfilter")
    if module is None:
        return None
    known = module.BloomFilter(n, RATE)
    return Contender(known.add, known.__contains__, lambda: float(known.num_bits))


def of_pybloom_live(n: int) -> Contender | None:
    module = peer("pybloom_live")
    if module is None:
        return None
    known = module.BloomFilter(n + 1, RATE)
    return Contender(known.add, known.__contains__, lambda: float(known.num_bits), slow=True)


def of_set() -> Contender:
    known: set[bytes] = set()

    def add(key: bytes) -> bool:
        digest = mmh3.mmh3_x64_128_digest(key)
        if digest in known:
            return True
        known.add(digest)
        return False

    def bits() -> float:
        return 8.0 * (sys.getsizeof(known) + sum(map(sys.getsizeof, known)))

    return Contender(add, lambda key: mmh3.mmh3_x64_128_digest(key) in known, bits)


def of_scrapy() -> Contender:
    known = RFPDupeFilter()

    def add(url: str) -> bool:
        return known.request_seen(Request(url))

    def bits() -> float:
        seen = known.fingerprints
        return 8.0 * (sys.getsizeof(seen) + sum(map(sys.getsizeof, seen)))

    return Contender(add, add, bits, as_text=True, slow=True)


def check_and_add(known: Any) -> Callable[[bytes], bool]:
    def add(key: bytes) -> bool:
        if key in known:
            return True
        known.add(key)
        return False

    return add


def speed_rows(n: int, names: Sequence[str]) -> Iterator[Row]:
    """With n URLs: add, look-up of known and of new ones; bits a URL."""
    figures: dict[str, dict[str, float | None]] = {}
    for name in names:
        contender = contenders(n)[name]()
        for what, value in (measured(contender, n) if contender else {}).items():
            figures.setdefault(what, {})[name] = value
    for what, by_name in figures.items():
        peers = {name: by_name.get(name) for name in names}
        label, mine = f"URL filter, {n // MILLION} M URLs, {what}", peers.pop("layered") or 0.0
        if what == "bits":
            yield Row(label, mine, "bits", peers=peers)
        else:
            rbloom = Yardstick("rbloom", peers["rbloom"])
            yield Row(label, mine, "ns", 1.2, True, peers, rbloom)


def measured(contender: Contender, n: int) -> dict[str, float | None]:
    """ns a call, bits a URL."""
    n = SLOW_CALLS if contender.slow else n
    calls = min(n, SINGLE_CALLS)
    as_key = (lambda key: f"https://{key.decode()}") if contender.as_text else bytes
    known, last, new = (
        [as_key(key) for key in itertools.islice(stream(stop), stop - calls, None)]
        for stop in (calls, n, n + calls)
    )
    siblings = [as_key(sibling(key, i)) for i, key in enumerate(stream(calls))]
    for key in itertools.islice(stream(n), n - calls):
        contender.add(as_key(key))
    add, bits = per_call(contender.add, last), contender.bits()
    return {
        "check and add": add,
        "known": per_call(contender.has, known),
        "new in a known directory": per_call(contender.has, siblings),
        "new on a new host": per_call(contender.has, new),
        "bits": bits and bits / n,
    }


def sibling(key: bytes, number: int) -> bytes:
    """The key of another URL of the same directory."""
    return key.partition(b"?")[0].rpartition(b"/")[0] + b"/sibling-%d" % number


def per_call(call: Callable[[Any], object], keys: Sequence[Any]) -> float:
    """ns a call, the loop taken off, on copies of the keys whose hash Python has not kept."""
    fresh = [key[:-1] + key[-1:] for key in keys]
    start = time.process_time()
    for key in fresh:
        call(key)
    middle = time.process_time()
    for _ in fresh:
        pass
    return (2 * middle - start - time.process_time()) / len(keys) * 1e9


def size_rows() -> Iterator[Row]:
    """At 3 million URLs."""
    n = 3 * MILLION
    for label, known, target in (
        ("1e-3", LayeredBloomFilter(n, 1e-3, seed=1), 17),
        ("1e-6", LayeredBloomFilter(n, 1e-6, seed=1), 31),
        ("1e-6, grown from 100,000", LayeredBloomFilter(100_000, 1e-6, seed=1), 39),
        ("exact", ExactUrlFilter(n, seed=1), 160),
    ):
        for batch in batches(stream(n), 10_000):
            known.add_many(batch)
        name = f"URL filter, bits a URL, {label}, 3 M URLs"
        yield Row(name, 8 * known.nbytes / n, "bits", target, True)


def batches(keys: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    keys = iter(keys)
    while batch := list(itertools.islice(keys, size)):
        yield batch


def rate_rows() -> Iterator[Row]:
    """Rates at 3 million URLs, of unseen URLs and of the worst case; and what was forgotten."""
    n = 3 * MILLION
    for rate, capacity in ((1e-3, n), (1e-6, n), (1e-6, 100_000)):
        known = LayeredBloomFilter(capacity, rate, seed=2)
        for batch in batches(stream(n), 10_000):
            known.add_many(batch)
        label = f"URL filter at {rate:g}, from {capacity:,}"
        unseen = [b"new%d." % i + key for i in range(4) for key in real_keys()]
        worst = list(worst_cases(n))
        for what, queries in (("unseen URLs", unseen), ("worst case", worst)):
            false = int((known.find_many(queries) == 0).sum())
            limit = rate * (1 + 3 / (rate * len(queries)) ** 0.5)
            name = f"{label}, error rate, {what} ({false} of {len(queries):,})"
            yield Row(name, false / len(queries), "rate", limit, True)
        lost = sum(int((known.find_many(batch) != 0).sum()) for batch in batches(stream(n), 10_000))
        yield Row(f"{label}, forgotten", lost, "URLs", 0, True)


def worst_cases(n: int) -> Iterator[bytes]:
    """Known directories with known last segments of the same host that were never together."""
    mirrors = n // len(real_keys())
    pairs = zip(real_keys(), real_keys()[1:], strict=False)
    known = set(real_keys())
    for one, other in pairs:
        path, _, query = one.partition(b"?")
        directory, last = path.rpartition(b"/")[0], other.partition(b"?")[0].rpartition(b"/")[2]
        crossed = directory + b"/" + last
        same_host = one.partition(b"/")[0] == other.partition(b"/")[0]
        if same_host and not query and crossed not in known:
            yield crossed
            yield from (b"m%d." % i + crossed for i in range(1, mirrors))


def reopen_rows() -> Iterator[Row]:
    """What another process, with another PYTHONHASHSEED, does not find again."""
    n = 100_000
    for name, known in (
        ("layered", LayeredBloomFilter(n, RATE)),
        ("exact", ExactUrlFilter(n)),
    ):
        known.add_many(list(stream(n)))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "filter.npz"
            np.savez(file, **known.arrays())
            command = [sys.executable, "-c", REOPEN, str(file), name, str(n)]
            run = subprocess.run(command, capture_output=True, check=True, text=True)
        yield Row(
            f"URL filter {name}, forgotten in another process", int(run.stdout), "URLs", 0, True
        )


PARTS = (  # ns, bits a URL, rates
    Part("a million URLs beside peers", lambda: speed_rows(MILLION, list(contenders(1))), 0.3),
    Part("sizes", size_rows, 0.1),
    Part("error rates", rate_rows, 0.2),
    Part("10 million URLs", lambda: speed_rows(10 * MILLION, ("layered", "exact", "rbloom")), 0.8),
    Part("another process", reopen_rows, 0.1),
)

"""Words → fingerprints: every SIMD level and NumPy beside the peers, on real pages, one core."""

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import blake2b
from importlib import import_module
from types import ModuleType
from typing import Any

from lxml import html

from benchmarks.peers import peer
from benchmarks.rows import Part, Row, Yardstick, cpu_seconds, html_pages, one_core, rates
from scrapy_neardup.detect.text import normalise
from scrapy_neardup.engines import FINGERPRINT, PAPER, SKETCH, FingerprintSpec
from scrapy_neardup.kernels import PACKAGES, native_is_built

GB = 1e9
FOR_PEERS = 150  # pages that slow peers get
TARGETS = {"avx512": 1.2, "avx2": 0.7, "portable": 0.5}  # times blake2b

Run = Callable[[], object]


@cache
def words() -> list[bytes]:
    """Of the real pages."""
    return [normalise(html.document_fromstring(page).text_content()) for page in html_pages()]


def of_native(rows: Callable[[ModuleType, list[bytes]], list[Row]]) -> Callable[[], list[Row]]:
    """The rows of the compiled kernel; none where there is none."""

    def made() -> list[Row]:
        if not native_is_built():
            return []
        return rows(import_module(f"{PACKAGES['native']}.fingerprint"), words())

    return made


def many(kernel: ModuleType, texts: Sequence[bytes], spec: FingerprintSpec) -> Run:
    return partial(kernel.fingerprint_many, texts, *spec.arguments)


def level_rows(kernel: ModuleType, texts: list[bytes]) -> list[Row]:
    best, made = kernel.simd(), []
    for level in reversed(kernel.SIMD_LEVELS):
        kernel.use_simd(level)
        run = many(kernel, texts, PAPER)
        made.append(beside_blake2b(f"fingerprint, paper, {level}", run, texts, TARGETS[level]))
    kernel.use_simd(best)
    return made


def beside_blake2b(kernel: str, run: Run, texts: list[bytes], target: float) -> Row:
    """GB of text a second, held to those of a hash that no processor has instructions for."""
    seconds = cpu_seconds({"ours": run, "blake2b": partial(_each, blake2b, texts)})
    speeds = rates(total(texts) / GB, seconds)
    ours = speeds["ours"] or 0.0
    return Row(kernel, ours, "GB/s", target, yardstick=Yardstick("blake2b", speeds["blake2b"]))


def spec_rows(kernel: ModuleType, texts: list[bytes]) -> list[Row]:
    both = FINGERPRINT.arguments, SKETCH.arguments

    def signatures() -> None:
        for text in texts:
            kernel.signatures(text, *both)

    mixed, name = many(kernel, texts, FINGERPRINT), f"fingerprint, default, {kernel.simd()}"
    return [
        beside_blake2b(name, mixed, texts, 1.0),
        beside_blake2b("fingerprint and sketch, default", signatures, texts, 0.25),
    ]


def numpy_rows(texts: list[bytes]) -> list[Row]:
    kernel, some = import_module(f"{PACKAGES['numpy']}.fingerprint"), texts[:FOR_PEERS]
    return [beside_blake2b("fingerprint, paper, NumPy", many(kernel, some, PAPER), some, 0.05)]


def peer_rows(kernel: ModuleType, texts: list[bytes]) -> list[Row]:
    """Ours beside theirs, which take turns; slow as they are, they get fewer pages."""
    some = texts[:FOR_PEERS]
    readable = [text.decode() for text in some]
    repeated = texts * 4  # long enough to be timed after peers that took the caches
    runs: dict[str, Run | None] = {"ours": many(kernel, repeated, PAPER)}
    for name, recipe in recipes().items():
        runs[name] = recipe and partial(_each, recipe, readable)
    seconds = cpu_seconds(runs, 3)
    ours = total(repeated) / 1e6 / (seconds.pop("ours") or 1.0)
    speeds = rates(total(some) / 1e6, seconds)
    made = [Row("fingerprint, paper, beside peers", ours, "MB/s", peers=speeds)]
    for name, least in (("gaoya", 20.0), ("simhash", 250.0)):
        theirs = speeds[name]
        if theirs:
            made.append(Row(f"fingerprint, paper, over {name}", ours / theirs, "times", least))
    return made


def core_rows(kernel: ModuleType, texts: list[bytes]) -> list[Row]:
    """How much faster all cores are than one, by the clock on the wall."""
    if kernel.cores() < 2:
        return []
    run = many(kernel, texts * 20, FINGERPRINT)
    with one_core():
        alone = min(wall_seconds(run) for _ in range(5))
    together = min(wall_seconds(run) for _ in range(5))
    target = 1.8 if kernel.cores() == 2 else None
    name = f"fingerprint_many, {kernel.cores()} cores over one"
    return [Row(name, alone / together, "times", target)]


def recipes() -> dict[str, Callable[[str], object] | None]:
    """For each peer, the fingerprint of a text's words by its fastest documented way."""
    gaoya, simhash = peer("gaoya.simhash"), peer("simhash", "simhash")
    pybind, rust = peer("simhash", "simhash-pybind"), peer("simhash", "python-simhash")
    xxhash, datasketch, rensa = peer("xxhash"), peer("datasketch"), peer("rensa")
    trafilatura = peer("trafilatura.deduplication")
    return {
        # Its Python interface gives no fingerprint; asking an empty index makes one.
        "gaoya": gaoya and gaoya.SimHashStringIndex(64, 6, 3, analyzer="word").query,
        "simhash": simhash and (lambda text: simhash.Simhash(text.split())),
        "simhash-pybind + xxhash": pybind
        and xxhash
        and (
            lambda text: pybind.compute([xxhash.xxh64_intdigest(w) for w in text.encode().split()])
        ),
        "python-simhash": rust and (lambda text: rust.simhash(text.split())),
        "trafilatura": trafilatura and trafilatura.Simhash,
        "datasketch MinHash": datasketch
        and (lambda text: datasketch.MinHash.bulk([[w.encode() for w in text.split()]])),
        "rensa RMinHash": rensa
        and (lambda text: rensa.RMinHash(num_perm=128, seed=1).update(text.split())),
    }


def _each(recipe: Callable[[Any], object], texts: Sequence[Any]) -> None:
    for text in texts:
        recipe(text)


def total(texts: Sequence[bytes]) -> int:
    return sum(map(len, texts))


def wall_seconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


PARTS = (  # GB/s of text; ratios to the peers
    Part("SIMD levels", of_native(level_rows), 0.1),
    Part("default", of_native(spec_rows), 0.05),
    Part("NumPy", lambda: numpy_rows(words()), 0.05),
    Part("beside peers", of_native(peer_rows), 0.1),
    Part("all cores", of_native(core_rows), 0.1, all_cores=True),
)

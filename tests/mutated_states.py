"""Opens altered snapshots with valid checksums: `python -m tests.mutated_states [N] [--seed S]`.

Takes the snapshot of a small crawl for every kind of index and URL filter, alters arrays (random
values, extremes, cycles, lengths, dtypes, shapes, arrays missing or in each other's place), writes
it with the checksums of what it holds now, opens it and looks up. Each must be refused as a
NearDupError, or answer without an exception. Prints what did not, and exits with how many.

A process under limits of time and memory does the work: what crashes or hangs ends that process.
`--kind KIND --only SEED …` runs some of one kind in this process.
"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from scrapy_neardup.crawl.pages.page_lifecycle import PageLifecycle
from scrapy_neardup.detect.item_table import KeptItem
from scrapy_neardup.errors import NearDupError
from scrapy_neardup.factory import DAY_S, make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.recovery import read_folder
from scrapy_neardup.state.snapshot import write_snapshot
from tests.mock_site import prose

Arrays = dict[str, Any]
Chance = random.Random
KEY = 7
CPU_S, MEMORY_BYTES = 5, 4 << 30  # for one altered state: hundreds of times what it takes
KINDS = {
    "permuted-layered": NearDupSettings(index="permuted", url_filter="layered", url_capacity=500),
    "slices-exact": NearDupSettings(index="slices", url_filter="exact", url_capacity=500),
    "scan-bloom": NearDupSettings(index="scan", url_filter="bloom", url_capacity=500),
    "permuted-rotating": NearDupSettings(index="permuted", url_capacity=500, ttl=8.0),
}
PAGES = [(f"http://h{n % 7}.example/{n}", prose(n, 120)) for n in range(90)]


def main() -> int:
    """How many altered states were neither refused nor served."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", nargs="?", type=int, default=1000, help="altered states of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--only", nargs="+", type=int, default=[], metavar="SEED")
    given = parser.parse_args()
    if given.only:
        open_altered(given.kind, given.only)
        return 0
    kinds = [given.kind] if given.kind else list(KINDS)
    failed = [line for kind in kinds for line in campaign(kind, given.n, given.seed)]
    print(f"{len(failed)} of {given.n * len(kinds)} failed", *failed, sep="\n")  # noqa: T201 - its output
    return min(len(failed), 100)


def campaign(kind: str, n: int, seed: int = 0) -> list[str]:
    """What became of those of n altered states that were neither refused nor served."""
    failed, seeds = [], list(range(seed * n, seed * n + n))
    while seeds:
        command = [sys.executable, "-m", __name__, "--kind", kind, "--only", *map(str, seeds)]
        if __name__ == "__main__":
            command[2] = "tests.mutated_states"
        ended = subprocess.run(command, capture_output=True, text=True)
        said = ended.stdout.splitlines()
        failed += [f"{kind} {line}" for line in said if line.startswith("failed")]
        if not ended.returncode:
            break
        n_begun = sum(line.startswith("begun") for line in said)
        last = " | ".join(ended.stderr.splitlines()[-3:])
        failed.append(f"{kind} failed {seeds[n_begun - 1]}: ended by {ended.returncode}: {last}")
        seeds = seeds[n_begun:] if n_begun else []
    return failed


def open_altered(kind: str, seeds: list[int]) -> None:
    """Open one altered state for each seed; says on stdout which it is at, and what fails."""
    with tempfile.TemporaryDirectory() as name:
        sound = sound_arrays(kind, Path(name, "sound"))
        identity = make_state_factory(KINDS[kind]).identity(KEY)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        for seed in seeds:
            limit_time()
            print("begun", seed, flush=True)  # noqa: T201 - read by campaign()
            arrays, what = altered(sound, Chance(seed))
            folder = Path(name, str(seed))
            folder.mkdir()
            write_snapshot(folder / "snapshot-1", identity, arrays, key=KEY)
            try:
                use(kind, folder)
            except NearDupError:
                pass
            except Exception as error:
                print(f"failed {seed} ({what}): {error!r}", flush=True)  # noqa: T201 - as above


def limit_time() -> None:
    """End this process by a signal if it takes CPU_S from now on."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(spent.ru_utime + spent.ru_stime) + CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def opened(kind: str, folder: Path) -> State:
    settings = KINDS[kind]
    ttl_s = None if settings.ttl is None else settings.ttl * DAY_S
    return State.open(folder, make_state_factory(settings), key=KEY, fsync="no", ttl_s=ttl_s)


def sound_arrays(kind: str, folder: Path) -> Arrays:
    """The snapshot of a crawl of PAGES, with items, pages frozen and not, forgotten, under way."""
    state, lifecycle = opened(kind, folder), PageLifecycle()
    state.begin("spider")
    for number, (url, text) in enumerate(PAGES):
        lifecycle.answered(url.encode(), None)
        state.url_done(url.encode())
        page_id = state.decide(state.detector.read(url, text))[0].page_id
        if page_id is not None and number % 9:
            state.keep(page_id)
            state.keep_item(item_of(state, page_id, number))
        if number == 60 and hasattr(state.detector.index, "compact"):
            state.detector.index.compact()
    state.detector.forget(20)
    state.close(lifecycle.arrays())
    return dict(read_folder(folder).arrays)


def item_of(state: State, page_id: int, number: int) -> KeptItem:
    sketch = np.arange(state.detector.engine.sketch_spec.n_words, dtype=np.uint64)
    return KeptItem(
        state.detector.pages.name(page_id), number, number % 2, sketch if number % 2 else None
    )


def use(kind: str, folder: Path) -> None:
    """Do everything with a state that a crawl does."""
    state = opened(kind, folder)
    try:
        state.begin("spider")
        if state.under_way is not None:
            lifecycle = PageLifecycle()
            lifecycle.restore(state.under_way)
            for id in state.under_way["ids"].tolist():
                lifecycle.request_ended(id)
            lifecycle.arrays()
        for number, (url, text) in enumerate(PAGES[::6]):
            state.url_done(url.encode())
            state.url_done(b"new" + url.encode())
            look_up(state, f"{url}/copy", text, number)
            look_up(state, url, f"{text} and more of it", number)
        state.detector.index.discard(state.detector.pages.n_rows, 5)
        state.expire()
        state.detector.forget_before(1.0)
        state.close()
        assert not state.store or not state.store.errors
    finally:
        state.release()


def look_up(state: State, url: str, text: str, number: int) -> None:
    decision, remembered = state.decide(state.detector.read(url, text))
    if decision.page_id is None:
        return
    item = item_of(state, decision.page_id, number)
    state.items.has_near(item, 10)
    if remembered and number % 2:
        state.keep(decision.page_id)
        state.keep_item(item)
    elif remembered:
        state.drop(decision.page_id)


# --- ways to alter arrays


def altered(arrays: Arrays, chance: Chance) -> tuple[Arrays, str]:
    """The arrays with one to three altered, and what was done to which."""
    arrays, said = dict(arrays), []
    for _ in range(chance.choice((1, 1, 2, 3))):
        name, way = chance.choice(sorted(arrays)), chance.choice(WAYS)
        try:
            arrays[name] = way(arrays[name], chance)
        except (IndexError, ValueError, OverflowError):  # not every way fits every array
            continue
        said.append(f"{way.__name__} of {name}")
    if chance.random() < 0.1:
        one, other = chance.sample(sorted(arrays), 2)
        arrays[one], arrays[other] = arrays[other], arrays[one]
        said.append(f"exchange of {one} and {other}")
    if chance.random() < 0.05:
        gone = chance.choice(sorted(arrays))
        del arrays[gone]
        said.append(f"loss of {gone}")
    return arrays, ", ".join(said)


def extremes(array: Any) -> list[Any]:
    if array.dtype.kind == "f":
        return [0.0, -1.0, 1e308, -np.inf, np.inf, np.nan]
    if array.dtype.kind not in "iu":
        return []
    info, n = np.iinfo(array.dtype), len(array.reshape(-1))
    near = [0, 1, 2, n - 1, n, n + 1, 2**31, 2**32 - 2, 2**32 - 1, 2**63, -1, info.min, info.max]
    return [value for value in near if info.min <= value <= info.max]


def one_value(array: Any, chance: Chance) -> Any:
    """One number becomes an extreme one."""
    flat = array.copy().reshape(-1)
    flat[chance.randrange(len(flat))] = chance.choice(extremes(array))
    return flat.reshape(array.shape)


def one_bit(array: Any, chance: Chance) -> Any:
    flat = array.copy().reshape(-1)
    data = flat.view(np.uint8)
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return flat.reshape(array.shape)


def every_value(array: Any, chance: Chance) -> Any:
    """All become one extreme number."""
    return np.full_like(array, chance.choice(extremes(array)))


def noise(array: Any, chance: Chance) -> Any:
    return np.frombuffer(chance.randbytes(array.nbytes), array.dtype).reshape(array.shape)


def small_noise(array: Any, chance: Chance) -> Any:
    """Numbers that could be places in the array."""
    generator, n = np.random.default_rng(chance.randrange(2**32)), max(array.size, 1)
    return generator.integers(0, n + 1, array.shape).astype(array.dtype)


def order(array: Any, chance: Chance) -> Any:
    return (
        np.random.default_rng(chance.randrange(2**32))
        .permutation(array.reshape(-1))
        .reshape(array.shape)
    )


def reverse(array: Any, chance: Chance) -> Any:
    return array[::-1].copy()


def cut(array: Any, chance: Chance) -> Any:
    return array[: chance.randrange(len(array))]


def repeat(array: Any, chance: Chance) -> Any:
    return np.concatenate([array] * chance.choice((2, 3)))


def one_longer(array: Any, chance: Chance) -> Any:
    return np.concatenate([array, array[:1]])


def other_type(array: Any, chance: Chance) -> Any:
    """The same bytes, taken for something else."""
    kinds = (
        "u1",
        "i1",
        "<u2",
        "<i4",
        "<u4",
        "<i8",
        "<u8",
        ">u4",
        ">u8",
        "<f4",
        "<f8",
        "S4",
        "<U2",
        "?",
    )
    return array.reshape(-1).view(chance.choice(kinds))


def other_values(array: Any, chance: Chance) -> Any:
    """The same numbers in another type."""
    with np.errstate(invalid="ignore"):
        return array.astype(chance.choice(("u1", "<u4", "<i8", "<u8", ">u8", "<f8", "<U20")))


def other_shape(array: Any, chance: Chance) -> Any:
    shapes = [(-1,), (1, -1), (-1, 1), (-1, 2), (0,), (0, 4), ()]
    shape = chance.choice(shapes)
    return (
        array.reshape(-1)[:1].reshape(())
        if shape == ()
        else array[: -1 if 0 not in shape else 0].reshape(shape)
    )


WAYS: tuple[Callable[[Any, Chance], Any], ...] = (
    *(one_value, one_value, one_value, one_bit, every_value, noise, small_noise, small_noise),
    *(order, reverse, cut, repeat, one_longer, other_type, other_values, other_shape),
)

if __name__ == "__main__":
    sys.exit(main())

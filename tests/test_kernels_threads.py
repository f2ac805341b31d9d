"""What several threads may do with kernels at once, also under `tests.sanitizers thread`."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TypeVar

import numpy as np
import pytest
from kernel_levels import native
from lxml import html

from scrapy_neardup.engines import FINGERPRINT, SKETCH
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.index.slices import SliceIndex

N_THREADS = 4
T = TypeVar("T")


def at_once(work: Callable[[int], T]) -> list[T]:
    """What each of N_THREADS gets, all beginning together."""
    barrier = threading.Barrier(N_THREADS)

    def begin(number: int) -> T:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(begin, range(N_THREADS)))


def test_threads_make_the_tables_of_characters_together() -> None:
    kernel, ascii_first = native("words"), "plain words for a while " * 2_000

    def work(number: int) -> bool:
        chance = Random(number)
        for _ in range(100):
            rare = "".join(chr(chance.randrange(0x300, 0xD000)) for _ in range(40))
            if not kernel.normalise(ascii_first + rare).startswith(b"plain words"):
                return False
        return True

    assert all(at_once(work))


def test_threads_fingerprint_and_sketch_at_once() -> None:
    kernel, words = native("fingerprint"), " ".join(map(str, range(20_000))).encode()
    arguments = FINGERPRINT.arguments, SKETCH.arguments

    def work(number: int) -> list[list[int]]:
        first, second, n = kernel.signatures(words, *arguments)
        return [[n], first.tolist(), second.tolist(), kernel.odd_rows(words, 8, 5, 7).tolist()]

    assert len({str(found) for found in at_once(work)}) == 1


def test_threads_share_many_texts() -> None:
    kernel = native("fingerprint")
    texts = [" ".join(map(str, range(n, n + 3_000))).encode() for n in range(200)]
    found = at_once(lambda _: kernel.fingerprint_many(texts, *SKETCH.arguments))
    assert all(np.array_equal(found[0], other) for other in found)


def test_threads_read_trees_of_their_own() -> None:
    kernel = native("markup")
    page = "<p>a<b>b</b><ul><li>c<li>d</ul>" * 2_000
    found = at_once(lambda _: kernel.visible_text(html.document_fromstring(page)))
    assert len(set(found)) == 1


@pytest.mark.parametrize("index", [PermutedIndex, SliceIndex])
def test_threads_look_up_while_another_adds(index: type[PermutedIndex | SliceIndex]) -> None:
    native("hamming")
    known, n = index(), 12_000
    # Half in one bucket of each table, so that its chain grows while it is read.
    rows = np.random.default_rng(1).integers(0, 2**63, n).astype(np.uint64)
    rows[::2] &= np.uint64(7)
    known.add_many(rows[:100], np.arange(100))
    done = threading.Event()

    def work(number: int) -> bool:
        if number == 0:
            for i in range(100, n):
                known.add(int(rows[i]), i)
            done.set()
            return True
        right = True
        while right and not done.is_set():
            first = known.first_within_many(rows[:100], 0)
            right = (first >= 0).all() and (rows[first] == rows[:100]).all()
            right = right and 1 in known.all_within(int(rows[1]), 3).ids
        return bool(right)

    assert all(at_once(work))

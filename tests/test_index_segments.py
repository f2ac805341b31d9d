"""scrapy_neardup/index/segments.py: no pair is lost or comes back while segments are frozen."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from threading import Event

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scrapy_neardup import kernels
from scrapy_neardup.errors import BrokenInvariant, SpecError
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.index.segments import SegmentStore, pairs_of
from scrapy_neardup.index.slices import SliceIndex
from scrapy_neardup.stored_arrays import Joined, grown_with, is_frozen, whole

N_IN_A_MEMTABLE = 4


class SmallMemtables(PermutedIndex):
    """Rotates after a few pairs; a freezing thread waits where `gate` is closed."""

    def __init__(self) -> None:
        self.gate = Event()
        self.gate.set()
        self.has_memory = True
        super().__init__(blocks=2, distance=1)

    def _start(self, segment) -> None:
        def freeze(*args):
            self.gate.wait()
            if not self.has_memory:
                raise MemoryError("no memory to freeze pairs")
            return self._freeze(*args)

        self._store = SegmentStore(kernels.hamming, segment, freeze, self._make_memtable)

    def _make_memtable(self, n_frozen: int):
        tables, bits = self.layout.kernel_tables, self.layout.directory_bits(N_IN_A_MEMTABLE)
        return kernels.hamming.Memtable(tables, N_IN_A_MEMTABLE, bits)


def pairs_in(index) -> Counter[tuple[int, int]]:
    rows, ids = index.pairs()
    return Counter(zip(rows[:, 0].tolist(), ids.tolist(), strict=True))


def array(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.uint64)


@pytest.fixture
def freezing():
    """An index whose first memtable is being frozen, and stays so until the test opens the gate."""
    index = SmallMemtables()
    index.gate.clear()
    for number in range(N_IN_A_MEMTABLE + 1):
        index.add(number, number)
    yield index
    index.gate.set()


def test_pairs_are_found_while_a_thread_freezes_them(freezing):
    assert len(freezing._store.all) == 3, "segment, immutable memtable and memtable"
    assert [freezing.first_within(n, 0) for n in range(5)] == [0, 1, 2, 3, 4]
    freezing.check()


def test_a_pair_removed_while_it_is_frozen_does_not_come_back(freezing):
    assert freezing.discard_many(array(1, 4), np.array([1, 4])) == 2
    freezing.gate.set()
    freezing._store._adopt(wait=True)
    assert pairs_in(freezing) == Counter({(n, n): 1 for n in (0, 2, 3)})
    freezing.check()


def test_what_expired_while_it_was_frozen_does_not_come_back(freezing):
    assert freezing.expire(3) == 3
    freezing.gate.set()
    freezing._store._adopt(wait=True)
    assert pairs_in(freezing) == Counter({(3, 3): 1, (4, 4): 1})
    freezing.check()


def test_memtables_that_could_not_be_frozen_are_frozen_later(freezing):
    freezing.has_memory = False
    freezing.gate.set()
    n_failures = 0
    for number in range(N_IN_A_MEMTABLE + 1, 3 * N_IN_A_MEMTABLE):
        try:
            freezing.add(number, number)
        except MemoryError:
            n_failures += 1
            freezing.add(number, number)
    freezing.remove(0, 0)
    freezing.has_memory = True
    expected = range(1, 3 * N_IN_A_MEMTABLE)
    assert n_failures > 0
    assert pairs_in(freezing) == Counter({(n, n): 1 for n in expected})
    freezing.check()
    freezing.compact()
    assert [freezing.first_within(n, 0) for n in expected] == list(expected)
    assert len(freezing._store.all) == 2
    freezing.add(99, 99)
    freezing.check()


def test_a_frozen_segment_is_adopted_by_the_next_change(freezing):
    freezing.gate.set()
    frozen: Future | None = freezing._store._freezing
    assert frozen is not None
    frozen.result()
    freezing.add(9, 9)
    assert len(freezing._store.all) == 2
    assert len(freezing._store.segment) == N_IN_A_MEMTABLE


def test_a_query_goes_on_with_the_segments_it_took(freezing):
    before = freezing._store.all
    freezing.gate.set()
    freezing.compact()
    assert sorted(pairs_of(before).ids.tolist()) == [0, 1, 2, 3, 4]
    assert freezing._store.all is not before


def test_a_full_memtable_of_many_pairs_is_frozen_at_once():
    index = SmallMemtables()
    index.add_many(array(*range(10)), np.arange(10))
    assert len(index._store.segment) == 10
    assert len(index.arrays()["live_ids"]) == 0


def test_only_tombstones_have_to_be_copied_for_a_file():
    index = SmallMemtables()
    index.add_many(array(*range(10)), np.arange(10))
    index.add(10, 10)
    changing = {name for name, found in index.arrays().items() if not is_frozen(found)}
    assert changing == {"layout", "removed", "live_removed"}


def test_pairs_that_were_removed_before_they_were_frozen_do_not_come_back(freezing):
    freezing.remove(4, 4)
    again = PermutedIndex.from_arrays(freezing.arrays())
    assert sorted(again.pairs()[1].tolist()) == [0, 1, 2, 3]
    freezing.gate.set()


def test_indexes_of_different_layouts_do_not_merge():
    with pytest.raises(SpecError, match="merge"):
        PermutedIndex(blocks=4, distance=3).merge(PermutedIndex(blocks=5, distance=3))


def test_a_wrong_count_is_noticed():
    index = SmallMemtables()
    index.add(1, 1)
    index._store._n = 2
    with pytest.raises(BrokenInvariant, match="1 pairs, counted as 2"):
        index.check()


@pytest.mark.parametrize("make", [lambda: PermutedIndex(4, 3), SliceIndex])
def test_arrays_bring_back_every_pair(make: Callable):
    index = make()
    rows = np.random.default_rng(1).integers(0, 2**64, 3_000, dtype=np.uint64)
    index.add_many(rows, np.arange(3_000))
    index.discard_many(rows[:7], np.arange(7))
    again = type(index).from_arrays(index.arrays())
    again.check()
    assert pairs_in(again) == pairs_in(index)


@pytest.mark.parametrize("make", [lambda: PermutedIndex(4, 3), SliceIndex])
def test_what_a_file_holds_of_an_index_need_not_be_written_again(make: Callable):
    index = make()
    rows = np.random.default_rng(1).integers(0, 2**64, 3_000, dtype=np.uint64)
    index.add_many(rows[:-2], np.arange(2_998))
    index.add(int(rows[-2]), 2_998)
    stored = index.arrays()
    again = type(index).from_arrays(stored)
    again.add(int(rows[-1]), 2_999)
    now = again.arrays()
    assert grown_with(now) is grown_with(stored)
    for name, array in stored.items():
        if isinstance(array, Joined):
            assert (whole(now[name])[: len(array)] == whole(array)).all()


def test_an_index_that_leaves_out_what_was_removed_is_written_again():
    index = PermutedIndex(4, 3)
    index.add(1, 1)
    index.add(2, 2)
    index.discard(1, 1)
    stored = index.arrays()
    again = PermutedIndex.from_arrays(stored)
    assert grown_with(again.arrays()) is not grown_with(stored)


@pytest.fixture
def relaid():
    """An index of 2 blocks that a thread is laying anew in 4, until the test opens the gate."""
    index = SmallMemtables()
    index.add_many(array(*range(10)), np.arange(10))
    index.gate.clear()
    index.re_lay(4)
    index.add(10, 10)
    yield index
    index.gate.set()


def test_an_index_answers_exactly_while_it_is_laid_anew(relaid):
    relaid.discard_many(array(3, 10), np.array([3, 10]))
    relaid.add(11, 11)
    for adopted in (False, True):
        near = [id for id in (*range(3), *range(4, 10), 11) if (id ^ 2).bit_count() <= 1]
        assert relaid.all_within(2, 1).ids.tolist() == near
        assert [relaid.first_within(n, 0) for n in (3, 10, 11)] == [None, None, 11]
        relaid.check()
        if not adopted:
            relaid.gate.set()
            relaid._store._adopt(wait=True)
    assert len(relaid._store.segment.tables.masks) == 4


def test_what_is_written_while_an_index_is_laid_anew_is_of_the_layout_it_had(relaid):
    again = PermutedIndex.from_arrays(relaid.arrays())
    assert again.layout.blocks == 2
    assert pairs_in(again) == Counter({(n, n): 1 for n in range(11)})
    again.check()


class Segments(RuleBasedStateMachine):
    """A store whose freezing threads are held up and let go, against a plain multiset."""

    numbers = st.integers(0, 12)

    @initialize()
    def start(self) -> None:
        self.index, self.model = SmallMemtables(), Counter()

    @rule(number=numbers)
    def add(self, number: int) -> None:
        # A rotation waits for the thread before it: with the gate closed nobody would let it go.
        store = self.index._store
        if len(store.memtable) == N_IN_A_MEMTABLE or store._is_outdated:
            self.index.gate.set()
        self.index.add(number, number)
        self.model[number, number] += 1

    @rule(numbers=st.lists(numbers, max_size=6))
    def add_many(self, numbers: list[int]) -> None:
        self.index.gate.set()
        self.index.add_many(array(*numbers), np.array(numbers, dtype=np.int64))
        self.model.update((n, n) for n in numbers)

    @rule(number=numbers)
    def discard(self, number: int) -> None:
        assert self.index.discard_many(array(number), np.array([number])) == self.model.pop(
            (number, number), 0
        )

    @rule(before=numbers)
    def expire(self, before: int) -> None:
        gone = [pair for pair in self.model if pair[1] < before]
        assert self.index.expire(before) == sum(self.model.pop(pair) for pair in gone)

    @rule()
    def hold_up_the_next_freeze(self) -> None:
        self.index.gate.clear()

    @rule()
    def let_it_go_on(self) -> None:
        self.index.gate.set()

    @rule(blocks=st.integers(2, 5))
    def re_lay(self, blocks: int) -> None:
        self.index.re_lay(blocks)

    @rule(number=numbers)
    def look_up(self, number: int) -> None:
        near = [id for n, id in self.model if (n ^ number).bit_count() <= 1]
        assert self.index.all_within(number, 1).ids.tolist() == sorted(set(near))

    @rule()
    def compact(self) -> None:
        self.index.gate.set()
        self.index.compact()

    @invariant()
    def every_pair_is_there_once(self) -> None:
        if hasattr(self, "index"):
            assert pairs_in(self.index) == self.model
            self.index.check()

    def teardown(self) -> None:
        if hasattr(self, "index"):
            self.index.gate.set()


TestSegments = Segments.TestCase
TestSegments.settings = settings(max_examples=60, stateful_step_count=40)

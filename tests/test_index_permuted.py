"""scrapy_neardup/index/permuted.py: the oracle's answers; test_index_recall.py has every layout."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sorted_tables import SortedTables

import scrapy_neardup.kernels as kernels
from scrapy_neardup.errors import (
    BrokenInvariant,
    DistanceTooLarge,
    IdError,
    NotStored,
    ScanLimitReached,
    SignatureError,
    SnapshotError,
    SpecError,
)
from scrapy_neardup.index import index_class, load_index
from scrapy_neardup.index.layout import Layout
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.index.scan import ScanIndex

README_QUERY = 0b0100101110111011011000101111101110011100001010011100100110110101
README_STORED = 0b0100101110111011001000101111101110111100001010011101100110110101


def random_rows(n: int, bits: int = 64, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2**64, (n, bits // 64), dtype=np.uint64)


def skewed_rows(n: int, bits: int = 64, seed: int = 0) -> np.ndarray:
    """Few originals; the rest equal one of them or differ in one to three bits."""
    rows = random_rows(max(1, n // 50), bits, seed)
    rng = np.random.default_rng(seed)
    return flipped(rows[rng.integers(0, len(rows), n)], rng.integers(0, 4, n), seed)


def flipped(rows: np.ndarray, n_flips: np.ndarray, seed: int = 0) -> np.ndarray:
    """The rows with n_flips[i] different bits of row i flipped."""
    rng = np.random.default_rng(seed)
    rows = rows.copy()
    where = rng.permuted(np.tile(np.arange(rows.shape[1] * 64), (len(rows), 1)), axis=1)
    for i in range(n_flips.max(initial=0)):
        some = np.flatnonzero(n_flips > i)
        bit = where[some, i]
        rows[some, bit // 64] ^= np.uint64(1) << (bit % 64).astype(np.uint64)
    return rows


def assert_same_answers(index, oracle, queries, distance, name=""):
    expected = oracle.all_within_many(queries, distance)
    found = index.all_within_many(queries, distance)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want, name)
    first = [
        int(expected.ids[start]) if start < end else -1
        for start, end in zip(expected.offsets, expected.offsets[1:], strict=False)
    ]
    np.testing.assert_array_equal(index.first_within_many(queries, distance), first, name)


def test_readme_example_is_found_by_the_table_that_leads_with_a_c_f():
    index = PermutedIndex(blocks=6, distance=3)
    differing = README_QUERY ^ README_STORED
    equal = [b for b in range(6) if not differing & index.layout.mask(b)]
    assert ["ABCDEF"[b] for b in equal] == ["A", "C", "F"]
    assert (0, 2, 5, 1, 3, 4) in index.layout.permutations
    index.add(README_STORED, 7)
    assert index.first_within(README_QUERY, 3) == 7
    assert index.all_within(README_QUERY, 3).distances.tolist() == [3]
    assert index.first_within(README_QUERY, 2) is None


@pytest.mark.parametrize("bits", [64, 128, 256])
@pytest.mark.parametrize("rows", [random_rows, skewed_rows])
def test_answers_are_the_oracles_before_and_after_freezing(bits, rows):
    stored = rows(3000, bits)
    ids = np.random.default_rng(1).permutation(6000)[:3000]
    index, oracle = PermutedIndex(blocks=5, distance=3, bits=bits), ScanIndex(bits)
    index.add_many(stored, ids)
    oracle.add_many(stored, ids)
    queries = np.concatenate([flipped(stored[:300], np.arange(300) % 6), random_rows(100, bits, 9)])
    assert_same_answers(index, oracle, queries, 3)
    index.compact()
    index.check()
    assert_same_answers(index, oracle, queries, 3)


@pytest.mark.parametrize("blocks", [3, 4, 6])
def test_textbook_tables_give_the_same_matches(blocks):
    stored = skewed_rows(5000)[:, 0]
    index = PermutedIndex(blocks, 2)
    index.add_many(stored, np.arange(5000))
    textbook = SortedTables(blocks, 2, stored, np.arange(5000))
    found = index.all_within_many(stored[:300], 2)
    for got, want in zip(found, textbook.all_within_many(stored[:300], 2), strict=True):
        np.testing.assert_array_equal(got, want)


def test_one_signature_under_several_ids_gives_them_all_in_order():
    index = PermutedIndex()
    for id in (9, 4, 2**32 - 2, 0):
        index.add(5, id)
    index.add(4, 4)
    assert index.all_within(5, 3).ids.tolist() == [0, 4, 9, 2**32 - 2]
    assert index.all_within(4, 3).distances.tolist() == [1, 0, 1, 1]
    assert index.first_within(5, 0) == 0
    index.remove(5, 0)
    assert index.first_within(5, 0) == 4


@pytest.mark.parametrize("name", ["permuted", "slices", "scan"])
def test_what_is_not_there_is_removed_with_an_error_and_discarded_without(name):
    index = load_index(name)
    index.add_many(np.array([5, 5, 6], dtype=np.uint64), np.array([0, 0, 1]))
    with pytest.raises(NotStored, match="signature 0x5 is not stored under id 1; 1 of 1 pairs"):
        index.remove(5, 1)
    pairs = np.array([6, 5, 7], dtype=np.uint64), np.array([1, 0, 0])
    with pytest.raises(NotStored, match=r"0x7 .* 1 of 3 .* the first at 2: nothing was removed"):
        index.remove_many(*pairs)
    assert len(index) == 3
    assert index.holds_many(*pairs).tolist() == [True, True, False]
    assert not index.discard(5, 1)
    assert index.remove_many(pairs[0][:1], pairs[1][:1]) == 1
    assert index.discard_many(*pairs) == 2
    with pytest.raises(NotStored, match="0x5 is not stored under id 0"):
        index.remove(5, 0)
    assert len(index) == 0


def test_expired_ids_are_gone():
    index = PermutedIndex()
    index.add_many(random_rows(100), np.arange(100))
    assert index.expire(40) == 40
    assert len(index) == 60
    assert index.first_within_many(random_rows(100), 0).tolist() == [-1] * 40 + list(range(40, 100))


def test_merged_index_holds_the_pairs_of_both():
    one, other = PermutedIndex(), PermutedIndex()
    one.add_many(random_rows(50), np.arange(50))
    other.add_many(random_rows(50, seed=2), np.arange(50, 100))
    one.merge(other)
    assert len(one) == 100
    assert one.first_within_many(random_rows(50, seed=2), 0).tolist() == list(range(50, 100))
    with pytest.raises(SpecError, match="blocks=5"):
        one.merge(PermutedIndex(blocks=5))


def test_reopened_read_only_index_answers_and_takes_changes():
    index = PermutedIndex()
    stored = random_rows(1000)
    index.add_many(stored[:900], np.arange(900))
    index.compact()
    index.add_many(stored[900:], np.arange(900, 1000))
    index.remove(int(stored[3, 0]), 3)
    arrays = {name: np.array(array) for name, array in index.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    again = PermutedIndex.from_arrays(arrays)
    again.check()
    assert len(again) == 999
    again.remove(int(stored[5, 0]), 5)
    again.add(77, 1000)
    expected = [-1 if i in (3, 5) else i for i in range(1000)]
    assert again.first_within_many(stored, 0).tolist() == expected
    assert again.first_within(77, 1) == 1000


def test_snapshot_with_arrays_of_another_shape_is_refused():
    arrays = PermutedIndex().arrays()
    with pytest.raises(SnapshotError, match="array ids"):
        PermutedIndex.from_arrays({**arrays, "ids": np.zeros(0, dtype=np.int64)})
    with pytest.raises(SnapshotError, match="version 0"):
        PermutedIndex.from_arrays({**arrays, "layout": arrays["layout"] * 0})


def of_an_earlier_release(index):
    """Its arrays as releases wrote them whose directories held leading bits only."""
    rows, ids = index.pairs()
    tables, bits = index.layout.kernel_tables, index.layout.leading_bits(0)
    built = kernels.hamming.build(tables, rows, ids, bits)
    return {**index.arrays(), **built._asdict()}


def test_narrow_directories_of_an_earlier_release_are_used_and_then_replaced():
    stored, oracle = skewed_rows(60_000), ScanIndex()
    index = PermutedIndex(blocks=13, distance=12)
    index.add_many(stored, np.arange(60_000))
    oracle.add_many(stored, np.arange(60_000))
    index.compact()
    again = PermutedIndex.from_arrays(of_an_earlier_release(index))
    queries = flipped(stored[::3000], np.arange(20) % 14)
    assert again._store.segment.bits < index._store.segment.bits
    assert_same_answers(again, oracle, queries, 12)
    again.add(1, 60_000)
    oracle.add(1, 60_000)
    assert_same_answers(again, oracle, queries, 12)
    again._store._adopt(wait=True)
    assert again._store.segment.bits == index._store.segment.bits
    assert_same_answers(again, oracle, queries, 12)
    again.check()


def test_directories_of_more_bits_than_a_layout_has_are_refused():
    index = PermutedIndex(blocks=8, distance=6)
    index.add_many(random_rows(100), np.arange(100))
    index.compact()
    arrays = index.arrays()
    offsets = np.zeros((28, 2**17 + 1), dtype=np.uint32)
    with pytest.raises(SnapshotError, match="directories of 17 bits, not of 1 to 16"):
        PermutedIndex.from_arrays({**arrays, "offsets": offsets})


def test_buckets_shrink_as_pages_are_added():
    layout = Layout(7, 6)
    assert layout.directory_bits(10**6) < layout.directory_bits(10**8)
    assert layout.scanned(10**8) < 10 * layout.scanned(10**6)
    assert layout.lookup_ns(10**8) < 10 * layout.lookup_ns(10**6)
    assert layout.nbytes(10**8) < 63 * 10**8


def test_damaged_tables_are_noticed():
    index = PermutedIndex()
    index.add_many(random_rows(5000), np.arange(5000))
    index.compact()
    arrays = {name: np.array(array) for name, array in index.arrays().items()}
    arrays["windows"][1, 17] ^= 1
    with pytest.raises(BrokenInvariant, match="table 2: windows"):
        PermutedIndex.from_arrays(arrays).check()


def test_scan_limit_stops_a_look_up_that_would_compare_more():
    index = PermutedIndex(scan_limit=20)
    for id in range(5):
        index.add(1, id)
    assert len(index.all_within(1, 3).ids) == 5
    index.add(1, 5)
    with pytest.raises(ScanLimitReached, match="scan_limit=20"):
        index.all_within(1, 3)
    with pytest.raises(ScanLimitReached):
        index.first_within_many(np.array([1], dtype=np.uint64), 3)
    assert index.largest_bucket == 6
    assert index.first_within(2**63 - 1, 0) is None


def test_largest_bucket_has_what_was_added_since_it_was_asked_for_last():
    index = PermutedIndex()
    for n in range(1, 5):
        index.add(1, n)
        assert index.largest_bucket == n
    index.compact()
    assert index.largest_bucket == 4
    index.add_many(np.full(9, 7, np.uint64), np.arange(9))
    assert index.largest_bucket == index.largest_bucket == 9


def test_a_bucket_of_a_hundred_thousand_costs_a_look_up_no_more_than_the_limit():
    """Pages whose fingerprints share all but the last 16 bits, as a site can forge them."""
    index, n = PermutedIndex(scan_limit=1000), 100_000
    fps = np.uint64(0xABCD << 48) | np.arange(n, dtype=np.uint64) % np.uint64(1 << 16)
    index.add_many(fps, np.arange(n))
    for id in range(n, n + 1000):
        fp = 0xABCD << 48 | 1 << 40 | id
        with pytest.raises(ScanLimitReached):
            index.first_within(fp, 3)
        index.add(fp, id)
    assert len(index) == n + 1000
    assert index.first_within(0x1234_5678_9ABC << 16 | 0xFFFF_0000, 3) is None


@pytest.mark.parametrize("name", ["permuted", "scan"])
def test_bad_input_is_named_with_its_limit(name):
    index = load_index(name)
    with pytest.raises(
        DistanceTooLarge, match=f"distance=65: exact from 0 to {index.max_distance}"
    ):
        index.first_within(1, 65)
    with pytest.raises(DistanceTooLarge, match="distance=-1"):
        index.all_within_many(random_rows(1), -1)
    with pytest.raises(IdError, match="4294967295: take 0 to 4294967294"):
        index.add(1, 2**32 - 1)
    with pytest.raises(IdError, match="id -1"):
        index.add_many(random_rows(2), np.array([0, -1]))
    with pytest.raises(IdError, match="dtype float64"):
        index.add_many(random_rows(2), np.array([0.0, 1.0]))
    with pytest.raises(IdError, match="shape"):
        index.add_many(random_rows(2), np.array([1]))
    with pytest.raises(SignatureError, match=r"2\*\*64 - 1"):
        index.add(2**64, 0)
    with pytest.raises(SignatureError, match="int64"):
        index.first_within_many(np.array([1]), 0)
    with pytest.raises(SignatureError, match=r"shape \(1, 2\)"):
        index.first_within_many(random_rows(1, 128), 0)
    assert len(index) == 0


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"blocks": 3}, "blocks=3: take more than the distance, 3"),
        ({"blocks": 65}, "at most 64"),
        ({"blocks": 40}, "9880 tables"),
        ({"bits": 100}, "bits=100"),
        ({"distance": -1}, "distance=-1"),
    ],
)
def test_impossible_layout_is_refused(arguments, what):
    with pytest.raises(SpecError, match=what):
        PermutedIndex(**arguments)


def test_lookup_takes_names_paths_and_classes():
    assert index_class("permuted") is PermutedIndex
    assert index_class("scrapy_neardup.index.scan.ScanIndex") is ScanIndex
    assert load_index(PermutedIndex, blocks=6).layout.blocks == 6
    with pytest.raises(SpecError, match="permuted, scan, slices"):
        load_index("fast")


def test_pages_added_one_by_one_survive_every_compaction(monkeypatch):
    monkeypatch.setattr(kernels.hamming, "memtable_capacity", lambda n_frozen: 50)
    index, stored = PermutedIndex(), random_rows(1000)
    for id, row in enumerate(stored[:, 0].tolist()):
        index.add(row, id)
        if id % 7 == 0:
            index.remove(row, id)
    index.check()
    expected = [-1 if id % 7 == 0 else id for id in range(1000)]
    assert index.first_within_many(stored, 3).tolist() == expected


class Against(RuleBasedStateMachine):
    """A permuted index and the pairs it should hold, through every change."""

    fps = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 7), st.integers(2**64 - 8, 2**64 - 1))
    ids = st.integers(0, 20)

    @initialize(blocks=st.integers(3, 6))
    def start(self, blocks):
        self.index = PermutedIndex(blocks, 2)
        self.pairs = []

    @rule(fp=fps, id=ids)
    def add(self, fp, id):
        self.index.add(fp, id)
        self.pairs.append((fp, id))

    @rule(pairs=st.lists(st.tuples(fps, ids), max_size=20))
    def add_many(self, pairs):
        fps = np.array([fp for fp, _ in pairs], dtype=np.uint64)
        self.index.add_many(fps, np.array([id for _, id in pairs], dtype=np.int64))
        self.pairs += pairs

    @precondition(lambda self: self.pairs)
    @rule(data=st.data())
    def remove(self, data):
        pair = data.draw(st.sampled_from(self.pairs))
        self.index.remove(*pair)
        self.pairs = [p for p in self.pairs if p != pair]

    @rule(pairs=st.lists(st.tuples(fps, ids), max_size=5))
    def discard_many(self, pairs):
        fps = np.array([fp for fp, _ in pairs], dtype=np.uint64)
        n = self.index.discard_many(fps, np.array([id for _, id in pairs], dtype=np.int64))
        assert n == sum(p in pairs for p in self.pairs)
        self.pairs = [p for p in self.pairs if p not in pairs]

    @rule(fp=fps, id=ids)
    def remove_what_is_not_there(self, fp, id):
        if (fp, id) not in self.pairs:
            with pytest.raises(NotStored):
                self.index.remove(fp, id)

    @rule(before=ids)
    def expire(self, before):
        assert self.index.expire(before) == sum(id < before for _, id in self.pairs)
        self.pairs = [p for p in self.pairs if p[1] >= before]

    @rule()
    def compact(self):
        self.index.compact()

    @rule(blocks=st.integers(3, 6))
    def re_lay(self, blocks):
        self.index.re_lay(blocks)

    @rule()
    def reopen(self):
        self.index = PermutedIndex.from_arrays(self.index.arrays())

    @rule(fp=fps, distance=st.integers(0, 2))
    def look_up(self, fp, distance):
        near = {}
        for stored, id in self.pairs:
            bits = (stored ^ fp).bit_count()
            if bits <= distance:
                near[id] = min(bits, near.get(id, 64))
        found = self.index.all_within(fp, distance)
        assert dict(zip(found.ids.tolist(), found.distances.tolist(), strict=True)) == near
        assert found.ids.tolist() == sorted(near)
        assert self.index.first_within(fp, distance) == min(near, default=None)

    @invariant()
    def holds(self):
        if hasattr(self, "index"):
            self.index.check()
            assert len(self.index) == len(self.pairs)


class TestAgainst(Against.TestCase):
    settings = settings(max_examples=40, stateful_step_count=30, deadline=None)

    @pytest.fixture(autouse=True)
    def seal_often(self, monkeypatch):
        monkeypatch.setattr(kernels.hamming, "memtable_capacity", lambda n_frozen: 8)

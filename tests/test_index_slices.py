"""scrapy_neardup/index/slices.py: what it promises, held to exhaustive search."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import scrapy_neardup.kernels as kernels
from scrapy_neardup.errors import DistanceTooLarge, ScanLimitReached, SnapshotError, SpecError
from scrapy_neardup.index.scan import ScanIndex
from scrapy_neardup.index.slices import SliceIndex, SliceLayout, width_for


def random_rows(n, bits, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, (n, bits // 64), dtype=np.uint64)


def flipped(rows, n_flips, seed=0):
    """The rows with n_flips different bits of each flipped."""
    rng, rows = np.random.default_rng(seed), rows.copy()
    where = rng.permuted(np.tile(np.arange(rows.shape[1] * 64), (len(rows), 1)), axis=1)
    for i in range(n_flips):
        bit = where[:, i]
        rows[np.arange(len(rows)), bit // 64] ^= np.uint64(1) << (bit % 64).astype(np.uint64)
    return rows


def as_int(row):
    return int.from_bytes(row.tobytes(), "little")


@pytest.mark.parametrize(
    ("bits", "width", "widths"),
    [
        (64, 16, {16: 4}),
        (1024, 26, {26: 24, 25: 16}),
        (128, 13, {13: 8, 12: 2}),
        (256, 16, {16: 16}),
    ],
)
def test_slices_cover_the_signature_with_widths_w_and_w_minus_1(bits, width, widths):
    found = SliceLayout(bits, width).widths
    assert sum(found) == bits
    assert {w: found.count(w) for w in found} == widths


def test_width_grows_by_one_bit_with_each_doubling():
    assert width_for(10**6) == 16
    assert [width_for(2**i) for i in range(12, 30)] == [*range(9, 26), 26]


@pytest.mark.parametrize(
    ("bits", "width", "expand"), [(64, 16, 0), (64, 16, 1), (256, 16, 0), (128, 11, 1)]
)
def test_range_search_within_the_pigeonhole_distance_misses_nothing(bits, width, expand):
    stored = random_rows(4000, bits)
    stored[2000:] = flipped(stored[:2000], 5)
    index, oracle = SliceIndex(bits, width, expand), ScanIndex(bits)
    index.add_many(stored, np.arange(4000))
    oracle.add_many(stored, np.arange(4000))
    queries = flipped(stored[::40], index.max_distance)
    for distance in (0, 3, index.max_distance):
        expected = oracle.all_within_many(queries, distance)
        for got, want in zip(index.all_within_many(queries, distance), expected, strict=True):
            np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(
            index.first_within_many(queries, distance), oracle.first_within_many(queries, distance)
        )


def test_within_says_whether_it_was_exact():
    index = SliceIndex(256, 16)
    row = random_rows(1, 256)
    index.add_many(row, [7])
    close, far = as_int(flipped(row, 15)[0]), as_int(flipped(row, 30)[0])
    assert index.within(close, 15).exact
    assert index.within(close, 15).ids.tolist() == [7]
    assert not index.within(far, 30).exact
    assert index.within(far, 31, expand=1).exact
    assert index.within(far, 31, expand=1).distances.tolist() == [30]
    with pytest.raises(DistanceTooLarge, match="exact from 0 to 15 bits"):
        index.all_within(close, 16)


def test_nearest_without_j_equals_exhaustive_search_of_the_candidates():
    stored = random_rows(500, 128)
    index, oracle = SliceIndex(128, 8), ScanIndex(128)
    index.add_many(stored, np.arange(500))
    oracle.add_many(stored, np.arange(500))
    queries = flipped(stored[:20], 10)
    exact = index.scan_nearest_many(queries, 10)
    for i, query in enumerate(queries):
        expected = oracle.nearest(as_int(query), 10)
        assert exact.ids[i].tolist() == expected.ids.tolist()
        assert exact.distances[i].tolist() == expected.distances.tolist()
    everything = index.nearest_many(queries, 10, expand=8)
    np.testing.assert_array_equal(everything.ids, exact.ids)
    bounded = index.nearest_many(queries, 10, expand=2, verify="bounds")
    np.testing.assert_array_equal(bounded.ids, index.nearest_many(queries, 10, expand=2).ids)
    by_score = index.nearest_many(queries, 10, expand=2, admit=1, verify="score")
    assert (by_score.ids[:, 0] == np.arange(20)).all()


def test_candidates_first_seen_beyond_j_are_left_out():
    index = SliceIndex(64, 8)
    index.add(0, 1)  # every slice equal but for one bit in each
    index.add(0x0101010101010101 ^ 0x01, 2)  # one slice equal
    query = 0x0101010101010101
    assert index.nearest(query, 5, expand=1, admit=1).ids.tolist() == [2, 1]
    assert index.nearest(query, 5, expand=1, admit=0).ids.tolist() == [2]


def test_fewer_neighbours_than_asked_for_are_marked():
    index = SliceIndex(64, 8)
    found = index.nearest_many(random_rows(2, 64), 3)
    assert found.ids.tolist() == [[-1] * 3] * 2
    index.add(5, 9)
    index.add(4, 9)
    assert index.nearest(5, 3).ids.tolist() == [9]
    assert index.nearest(5, 3).distances.tolist() == [0]


@pytest.mark.parametrize(("distance", "expand"), [(17, 0), (40, 0), (60, 1)])
def test_expected_recall_holds_within_three_percent(distance, expand):
    index = SliceIndex(256, 16)
    stored = random_rows(3000, 256)
    index.add_many(stored, np.arange(3000))
    queries = flipped(stored, distance)
    found = index._within_many(queries, distance, expand)
    recall = len(np.unique(found.ids)) / 3000
    assert abs(recall - index.expected_recall(distance, expand)) < 0.03


def test_expected_recall_of_fewer_slices_is_lower_and_still_holds():
    index = SliceIndex(256, 16, slices=4)
    stored = random_rows(3000, 256)
    index.add_many(stored, np.arange(3000))
    found = index._within_many(flipped(stored, 20), 20, 0)
    recall = len(np.unique(found.ids)) / 3000
    assert abs(recall - index.expected_recall(20)) < 0.03
    assert index.expected_recall(20) < SliceIndex(256, 16).expected_recall(20)
    assert index.expected_recall(3) == 1


def test_reopened_read_only_index_answers_and_takes_changes():
    index = SliceIndex(128, 9)
    stored = random_rows(300, 128)
    index.add_many(stored[:250], np.arange(250))
    index.compact()
    index.add_many(stored[250:], np.arange(250, 300))
    index.remove(as_int(stored[3]), 3)
    arrays = {name: np.array(array) for name, array in index.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    again = SliceIndex.from_arrays(arrays)
    again.check()
    again.add(77, 300)
    again.remove(as_int(stored[5]), 5)
    expected = [-1 if i in (3, 5) else i for i in range(300)]
    assert again.first_within_many(stored, 0).tolist() == expected
    assert len(again) == 299
    with pytest.raises(SnapshotError, match="array postings"):
        SliceIndex.from_arrays({**arrays, "postings": arrays["postings"][:3]})


def test_merged_index_holds_the_pairs_of_both():
    one, other = SliceIndex(128, 9), SliceIndex(128, 9)
    one.add(5, 0)
    other.add(6, 1)
    one.merge(other)
    assert one.all_within(5, 2).ids.tolist() == [0, 1]
    with pytest.raises(SpecError, match="slice_width=10"):
        one.merge(SliceIndex(128, 10))


def test_scan_limit_stops_a_look_up_that_would_read_more():
    index = SliceIndex(64, 16, scan_limit=8)
    for id in range(2):
        index.add(1, id)
    assert len(index.all_within(1, 0).ids) == 2
    index.add(1, 2)
    with pytest.raises(ScanLimitReached, match=r"scan_limit=8 .*longest list: 3"):
        index.all_within(1, 0)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"slice_width": 27}, "slice_width=27: take 1 to 26"),
        ({"bits": 1024, "slice_width": 4}, "slice_width=4: take 5"),
        ({"slices": 5}, "slices=5: take 1 to 4"),
        ({"expand": 9}, "expand=9"),
        ({"bits": 65}, "bits=65"),
    ],
)
def test_impossible_layout_is_refused(arguments, what):
    with pytest.raises(SpecError, match=what):
        SliceIndex(**arguments)


def test_impossible_search_is_refused():
    index = SliceIndex(64, 16)
    with pytest.raises(SpecError, match="expand=1, admit=2"):
        index.nearest(1, 3, expand=1, admit=2)
    with pytest.raises(SpecError, match="n=0"):
        index.nearest(1, 0)


class Against(RuleBasedStateMachine):
    """A slice index and the pairs it should hold, through every change."""

    fps = st.one_of(st.integers(0, 2**128 - 1), st.integers(0, 7), st.sampled_from([1 << 127, 9]))
    ids = st.integers(0, 20)

    @initialize(width=st.integers(5, 9))
    def start(self, width):
        self.index = SliceIndex(128, width)
        self.pairs = []

    @rule(pairs=st.lists(st.tuples(fps, ids), max_size=12))
    def add(self, pairs):
        for fp, id in pairs:
            self.index.add(fp, id)
        self.pairs += pairs

    @rule(fp=fps, id=ids)
    def discard(self, fp, id):
        assert self.index.discard(fp, id) == ((fp, id) in self.pairs)
        self.pairs = [pair for pair in self.pairs if pair != (fp, id)]

    @rule(before=ids)
    def expire(self, before):
        assert self.index.expire(before) == sum(id < before for _, id in self.pairs)
        self.pairs = [pair for pair in self.pairs if pair[1] >= before]

    @rule()
    def reopen(self):
        self.index = SliceIndex.from_arrays(self.index.arrays())

    @rule(fp=fps, distance=st.integers(0, 13))
    def look_up(self, fp, distance):
        near = {}
        for stored, id in self.pairs:
            bits = (stored ^ fp).bit_count()
            if bits <= distance:
                near[id] = min(bits, near.get(id, 128))
        found = self.index.all_within(fp, distance)
        assert dict(zip(found.ids.tolist(), found.distances.tolist(), strict=True)) == near
        assert found.ids.tolist() == sorted(near)

    @invariant()
    def holds(self):
        if hasattr(self, "index"):
            self.index.check()
            assert len(self.index) == len(self.pairs)


class TestAgainst(Against.TestCase):
    settings = settings(max_examples=25, stateful_step_count=20, deadline=None)

    @pytest.fixture(autouse=True)
    def seal_often(self, monkeypatch):
        monkeypatch.setattr(kernels.slices, "memtable_capacity", lambda n_frozen: 8)

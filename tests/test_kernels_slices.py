"""kernels/*/slices: the compiled kernels give what their NumPy twins give, at every SIMD level."""

import kernel_levels
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.index.slices import SliceLayout
from scrapy_neardup.kernels.numpy_twin import slices as twin

NO_LIMIT = 2**62


@pytest.fixture(scope="module")
def native():
    return kernel_levels.native("slices")


@pytest.fixture(params=["portable", "avx2", "avx512"])
def level(native, request):
    yield from kernel_levels.at_level(native, request.param)


def near_rows(n, words, seed, flips=12):
    """Clusters of rows some bits apart."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2**64, (n // 8 + 1, words), dtype=np.uint64)
    rows = rows[rng.integers(0, len(rows), n)]
    for _ in range(flips):
        word, bit = rng.integers(0, words, n), rng.integers(0, 64, n)
        rows[np.arange(n), word] ^= np.uint64(1) << bit.astype(np.uint64)
    return rows


def segments_of(slices, layout, rows, ids, n_frozen):
    """The first rows in a frozen segment, the rest in a memtable; some pairs removed of both."""
    cut = layout.cut
    frozen = slices.Segment(cut, slices.build(cut, rows[:n_frozen], ids[:n_frozen]))
    memtable = slices.Memtable(cut, len(rows) + 1, rows.shape[1])
    memtable.add_many(rows[n_frozen:], ids[n_frozen:])
    memtable.add(rows[0].tobytes(), 12345)
    segments = [frozen, memtable]
    n_copies = slices.count_many(segments, rows[::5].copy(), ids[::5].copy())
    n_removed = slices.remove_many(segments, rows[::5].copy(), ids[::5].copy())
    n_expired = [slices.expire(segment, 3) for segment in segments]
    for segment in segments:
        slices.check(segment)
    return segments, (*n_copies, n_removed, *n_expired)


def answers(slices, segments, queries, distance, expand, admit, limit):
    columns = list(slices.within_many(segments, queries, distance, expand, limit))
    columns += slices.scan_nearest_many(segments, queries, 7)
    for verify in (twin.ALL, twin.BOUNDS, twin.SCORE):
        columns += slices.nearest_many(segments, queries, 5, expand, admit, verify)
    return [column.tolist() for column in columns]


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 200),
    n_frozen=st.integers(0, 200),
    words=st.integers(1, 4),
    width=st.integers(5, 12),
    expand=st.integers(0, 3),
    admit=st.integers(0, 3),
    distance=st.integers(0, 60),
    limit=st.one_of(st.just(NO_LIMIT), st.integers(0, 2000)),
    seed=st.integers(0, 1000),
)
def test_segments_answer_like_their_twins(
    native, n, n_frozen, words, width, expand, admit, distance, limit, seed
):
    layout, rows = SliceLayout(64 * words, width), near_rows(n, words, seed)
    ids = np.random.default_rng(seed).permutation(2 * n)[:n].astype(np.uint32)
    ids[n // 2 :: 4] = ids[0]
    queries = np.concatenate([rows[:5], near_rows(3, words, seed + 1)])
    made = {}
    for slices in (native, twin):
        segments, removed = segments_of(slices, layout, rows, ids, n_frozen)
        rules = distance, expand, min(admit, expand), limit
        made[slices] = removed, answers(slices, segments, queries, *rules)
    assert made[native] == made[twin]


@pytest.mark.parametrize("words", [1, 3, 16])
def test_every_simd_level_finds_the_same(native, level, words):
    layout, rows = SliceLayout(64 * words, 10), near_rows(800, words, 1)
    ids = np.arange(800, dtype=np.uint32)
    made = {}
    for slices in (native, twin):
        segments, _ = segments_of(slices, layout, rows, ids, 500)
        made[slices] = answers(slices, segments, rows[:8], 30, 1, 1, NO_LIMIT)
    assert made[native] == made[twin]


@pytest.mark.parametrize(("bits", "width"), [(64, 16), (128, 18), (1024, 17), (192, 7)])
def test_built_arrays_and_sizes_are_identical(native, bits, width):
    cut, rows = SliceLayout(bits, width).cut, near_rows(300, bits // 64, 2)
    ids = np.arange(300, dtype=np.uint32)
    one, other = native.build(cut, rows, ids), twin.build(cut, rows, ids)
    for name in twin.SegmentArrays._fields:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    memtables = [slices.Memtable(cut, 300, bits // 64) for slices in (native, twin)]
    for memtable in memtables:
        memtable.add_many(rows, ids)
    assert memtables[0].largest_bucket == memtables[1].largest_bucket
    assert native.Segment(cut, one).largest_bucket == memtables[0].largest_bucket


def test_a_full_memtable_refuses_more(native):
    memtable = native.Memtable(SliceLayout(64, 8).cut, 2, 1)
    memtable.add_many(near_rows(2, 1, 0), np.arange(2, dtype=np.uint32))
    with pytest.raises(MemoryError, match="memtable of 2 pairs"):
        memtable.add(bytes(8), 2)
    assert len(memtable) == 2


def test_damage_is_noticed(native):
    cut = SliceLayout(64, 8).cut
    arrays = native.build(cut, near_rows(100, 1, 0), np.arange(100, dtype=np.uint32))
    arrays.postings[3, 0] = arrays.postings[3, 1]
    with pytest.raises(BrokenInvariant, match="slice 3: slots"):
        native.check(native.Segment(cut, arrays))

"""kernels/*/hamming: the compiled kernels give what their NumPy twins give, at every SIMD level."""

import kernel_levels
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.index.layout import Layout
from scrapy_neardup.kernels.numpy_twin import hamming as twin

NO_LIMIT = 2**62


@pytest.fixture(scope="module")
def native():
    return kernel_levels.native("hamming")


@pytest.fixture(params=["portable", "avx2", "avx512"])
def level(native, request):
    yield from kernel_levels.at_level(native, request.param)


def tables_of(layout):
    return layout.kernel_tables


def near_rows(n, words, seed):
    """Clusters of rows a few bits apart, and equal ones."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2**64, (n // 8 + 1, words), dtype=np.uint64)
    rows = rows[rng.integers(0, len(rows), n)]
    for _ in range(3):
        word, bit = rng.integers(0, words, n), rng.integers(0, 70, n)
        flip = np.where(bit < 64, np.uint64(1) << (bit % 64).astype(np.uint64), np.uint64(0))
        rows[np.arange(n), word] ^= flip
    return rows


def segments_of(hamming, layout, rows, ids, n_frozen, bits):
    """The first rows in a frozen segment, the rest in a memtable; some pairs removed of both."""
    tables = tables_of(layout)
    arrays = hamming.build(tables, rows[:n_frozen], ids[:n_frozen], bits)
    frozen = hamming.Segment(tables, arrays)
    memtable = hamming.Memtable(tables, len(rows) + 1, bits)
    memtable.add_many(rows[n_frozen:], ids[n_frozen:])
    memtable.add(rows[0].tobytes(), 12345)
    segments = [frozen, memtable]
    n_copies = hamming.count_many(segments, rows[::5].copy(), ids[::5].copy())
    n_removed = hamming.remove_many(segments, rows[::5].copy(), ids[::5].copy())
    n_expired = [hamming.expire(segment, 3) for segment in segments]
    for segment in segments:
        hamming.check(segment)
    return segments, (*n_copies, n_removed, *n_expired)


def answers(hamming, segments, queries, distance, limit):
    columns = [hamming.first_many(segments, queries, distance, limit)]
    columns += hamming.all_many(segments, queries, distance, limit)
    for query in queries[:3]:
        columns.append([hamming.first_one(segments, query.tobytes(), distance, limit)])
        columns += hamming.all_one(segments, query.tobytes(), distance, limit) or [[-2]]
    return [list(column) for column in columns]


def answers_of(hamming, layout, n, n_frozen, bits, limit, seed):
    """What segments of n rows answer to queries near them, and how many pairs they have removed."""
    words = layout.bits // 64
    rows = near_rows(n, words, seed)
    ids = np.random.default_rng(seed).integers(0, 50, n).astype(np.uint32)
    queries = np.concatenate([rows[::3], near_rows(5, words, seed + 1)])
    segments, removed = segments_of(hamming, layout, rows, ids, n_frozen, bits)
    return removed, answers(hamming, segments, queries, layout.distance, limit)


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 300),
    n_frozen=st.integers(0, 300),
    words=st.integers(1, 4),
    blocks=st.integers(4, 6),
    bits=st.integers(1, 8),
    limit=st.one_of(st.just(NO_LIMIT), st.integers(0, 100)),
    seed=st.integers(0, 1000),
)
def test_segments_answer_like_their_twins(native, n, n_frozen, words, blocks, bits, limit, seed):
    layout = Layout(blocks, 3, 64 * words)
    made = [
        answers_of(hamming, layout, n, n_frozen, bits, limit, seed) for hamming in (native, twin)
    ]
    assert made[0] == made[1]


def in_a_circle(distance):
    """A layout whose directories can be wider than a block."""
    return Layout(distance + 1, distance)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 300),
    n_frozen=st.integers(0, 300),
    distance=st.integers(0, 9),
    bits=st.integers(1, 16),
    limit=st.one_of(st.just(NO_LIMIT), st.integers(0, 100)),
    seed=st.integers(0, 1000),
)
def test_directories_wider_than_a_block_answer_like_their_twins(
    native, n, n_frozen, distance, bits, limit, seed
):
    layout = in_a_circle(distance)
    made = [
        answers_of(hamming, layout, n, n_frozen, bits, limit, seed) for hamming in (native, twin)
    ]
    assert made[0] == made[1]


@settings(max_examples=40, deadline=None)
@given(distance=st.integers(0, 20), bits=st.integers(1, 20), seed=st.integers(0, 1000))
def test_directories_wider_than_a_block_miss_nothing(native, distance, bits, seed):
    rng = np.random.default_rng(seed)
    layout, rows = in_a_circle(distance), rng.integers(0, 2**64, (100, 1), dtype=np.uint64)
    queries, ids = rows.copy(), np.arange(100, dtype=np.uint32)
    for query in queries:
        places = rng.choice(64, rng.integers(0, distance + 1), replace=False).astype(np.uint64)
        query ^= np.bitwise_or.reduce(np.uint64(1) << places, initial=np.uint64(0))
    memtable = native.Memtable(layout.kernel_tables, 100, bits)
    memtable.add_many(rows, ids)
    frozen = native.Segment(
        layout.kernel_tables, native.build(layout.kernel_tables, rows, ids, bits)
    )
    for segment in (memtable, frozen):
        counts, found, _ = native.all_many([segment], queries, distance, NO_LIMIT)
        owners = np.repeat(ids, counts)
        expected = np.bitwise_count(queries ^ rows.T) <= distance
        assert {*zip(owners.tolist(), found.tolist(), strict=True)} == {
            *zip(*(axis.tolist() for axis in np.nonzero(expected)), strict=True)
        }


@pytest.mark.parametrize("distance", [0, 1, 3, 6, 12])
def test_the_buckets_asked_are_all_that_are_in_reach(distance):
    layout = in_a_circle(distance)
    for bits in (1, 9, 12, 15):
        every, n = np.arange(1 << bits), 0
        for table in range(distance + 1):
            asked = twin.probes(layout.kernel_tables, table, bits)
            reached = twin.in_reach(layout.kernel_tables, table, every, bits)
            assert sorted(asked.tolist()) == np.flatnonzero(reached).tolist()
            n += len(asked)
        assert n == layout.n_buckets_asked(bits)


def test_segments_of_different_layouts_answer_together(native):
    rows, ids = near_rows(600, 1, 5), np.arange(600, dtype=np.uint32)
    found = {}
    for hamming in (native, twin):
        segments = []
        for layout, bits, part in (
            (Layout(7, 6), 12, slice(0, 200)),
            (Layout(8, 6), 5, slice(200, 400)),
            (Layout(7, 6), 4, slice(400, 600)),
        ):
            tables = layout.kernel_tables
            arrays = hamming.build(tables, rows[part], ids[part], bits)
            segments.append(hamming.Segment(tables, arrays))
        found[hamming] = answers(hamming, segments, rows[::5].copy(), 6, NO_LIMIT)
    assert found[native] == found[twin]
    near = np.bitwise_count(rows[::5] ^ rows.T) <= 6
    assert found[native][1] == near.sum(axis=1).tolist()


@pytest.mark.parametrize("words", [1, 2])
def test_every_simd_level_finds_the_same(native, level, words):
    layout, rows = Layout(4, 3, 64 * words), near_rows(3000, words, 1)
    rows[:700] = rows[0]  # a bucket longer than any vector or piece
    ids = np.arange(3000, dtype=np.uint32)
    queries = rows[::7].copy()
    made = {}
    for hamming in (native, twin):
        segments, _ = segments_of(hamming, layout, rows, ids, 1500, 4)
        made[hamming] = [answers(hamming, segments, queries, d, NO_LIMIT) for d in range(4)]
    assert made[native] == made[twin]


def test_built_arrays_are_identical(native):
    for blocks, words in ((4, 1), (6, 1), (5, 3)):
        tables = tables_of(Layout(blocks, 3, 64 * words))
        rows, ids = near_rows(5000, words, 2), np.arange(5000, dtype=np.uint32)
        for bits in (1, 7, 17):
            one, other = native.build(tables, rows, ids, bits), twin.build(tables, rows, ids, bits)
            for name in twin.SegmentArrays._fields:
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_buckets_and_bytes_are_counted(native):
    layout, rows = Layout(4, 3), near_rows(2000, 1, 3)
    ids = np.arange(2000, dtype=np.uint32)
    largest = {}
    for hamming in (native, twin):
        segments, _ = segments_of(hamming, layout, rows, ids, 1000, 6)
        largest[hamming] = [segment.largest_bucket for segment in segments]
        assert all(segment.nbytes > 20 * len(segment) for segment in segments)
    assert largest[native] == largest[twin]


def test_chains_in_many_blocks_of_memory_hold_every_pair(native):
    n = 60_000  # 16,384 lines are a block: about 8 of them for random pairs, and long chains
    rng, layout = np.random.default_rng(4), Layout(4, 3)
    rows = rng.integers(0, 2**64, (n, 1), dtype=np.uint64)
    rows[rng.random(n) < 0.3] = rows[0]
    memtable = native.Memtable(tables_of(layout), n, 16)
    memtable.add_many(rows, np.arange(n, dtype=np.uint32))
    for table in range(len(layout.masks)):
        bucket, _, slot = memtable.entries(table)
        np.testing.assert_array_equal(np.sort(slot), np.arange(n))
        own = twin.buckets(tables_of(layout), table, rows, 16)
        np.testing.assert_array_equal(bucket, own[slot])
    first = native.first_many([memtable], rows, 0, NO_LIMIT)
    np.testing.assert_array_equal(rows[first], rows)


def test_a_full_memtable_refuses_more(native):
    memtable = native.Memtable(tables_of(Layout(4, 3)), 2, 4)
    memtable.add_many(near_rows(2, 1, 0), np.arange(2, dtype=np.uint32))
    with pytest.raises(MemoryError, match="memtable of 2 pairs"):
        memtable.add(bytes(8), 2)
    with pytest.raises(MemoryError, match="memtable of 2 pairs"):
        memtable.add_many(near_rows(1, 1, 0), np.arange(1, dtype=np.uint32))
    assert len(memtable) == 2


def test_damage_is_noticed(native):
    tables = tables_of(Layout(4, 3))
    arrays = native.build(tables, near_rows(100, 1, 0), np.arange(100, dtype=np.uint32), 3)
    arrays.slots[0, 0] = arrays.slots[0, 1]
    with pytest.raises(BrokenInvariant, match="table 1: slots"):
        native.check(native.Segment(tables, arrays))

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


def tiers_of(hamming, layout, rows, ids, n_frozen, bits):
    """The first rows in a frozen tier, the rest in a live one; some pairs removed from both."""
    tables = tables_of(layout)
    parts = hamming.build(tables, rows[:n_frozen], ids[:n_frozen], bits)
    frozen = hamming.Frozen(tables, parts)
    live = hamming.Live(tables, len(rows) + 1, bits)
    live.add_many(rows[n_frozen:], ids[n_frozen:])
    live.add(rows[0].tobytes(), 12345)
    tiers = [frozen, live]
    n_copies = hamming.count_many(tiers, rows[::5].copy(), ids[::5].copy())
    n_removed = hamming.remove_many(tiers, rows[::5].copy(), ids[::5].copy())
    n_expired = [hamming.expire(tier, 3) for tier in tiers]
    for tier in tiers:
        hamming.check(tier)
    return tiers, (*n_copies, n_removed, *n_expired)


def answers(hamming, tiers, queries, distance, limit):
    columns = [hamming.first_many(tiers, queries, distance, limit)]
    columns += hamming.all_many(tiers, queries, distance, limit)
    for query in queries[:3]:
        columns.append([hamming.first_one(tiers, query.tobytes(), distance, limit)])
        columns += hamming.all_one(tiers, query.tobytes(), distance, limit) or [[-2]]
    return [list(column) for column in columns]


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
def test_tiers_answer_like_their_twins(native, n, n_frozen, words, blocks, bits, limit, seed):
    layout, rows = Layout(blocks, 3, 64 * words), near_rows(n, words, seed)
    ids = np.random.default_rng(seed).integers(0, 50, n).astype(np.uint32)
    queries = np.concatenate([rows[::3], near_rows(5, words, seed + 1)])
    made = {}
    for hamming in (native, twin):
        tiers, removed = tiers_of(hamming, layout, rows, ids, n_frozen, bits)
        made[hamming] = removed, answers(hamming, tiers, queries, 3, limit)
    assert made[native] == made[twin]


@pytest.mark.parametrize("words", [1, 2])
def test_every_simd_level_finds_the_same(native, level, words):
    layout, rows = Layout(4, 3, 64 * words), near_rows(3000, words, 1)
    rows[:700] = rows[0]  # a bucket longer than any vector or piece
    ids = np.arange(3000, dtype=np.uint32)
    queries = rows[::7].copy()
    made = {}
    for hamming in (native, twin):
        tiers, _ = tiers_of(hamming, layout, rows, ids, 1500, 4)
        made[hamming] = [answers(hamming, tiers, queries, d, NO_LIMIT) for d in range(4)]
    assert made[native] == made[twin]


def test_built_arrays_are_identical(native):
    for blocks, words in ((4, 1), (6, 1), (5, 3)):
        tables = tables_of(Layout(blocks, 3, 64 * words))
        rows, ids = near_rows(5000, words, 2), np.arange(5000, dtype=np.uint32)
        for bits in (1, 7, 17):
            one, other = native.build(tables, rows, ids, bits), twin.build(tables, rows, ids, bits)
            for name in twin.Parts._fields:
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_buckets_and_bytes_are_counted(native):
    layout, rows = Layout(4, 3), near_rows(2000, 1, 3)
    ids = np.arange(2000, dtype=np.uint32)
    largest = {}
    for hamming in (native, twin):
        tiers, _ = tiers_of(hamming, layout, rows, ids, 1000, 6)
        largest[hamming] = [tier.largest_bucket for tier in tiers]
        assert all(tier.nbytes > 20 * len(tier) for tier in tiers)
    assert largest[native] == largest[twin]


def test_a_full_live_tier_refuses_more(native):
    live = native.Live(tables_of(Layout(4, 3)), 2, 4)
    live.add_many(near_rows(2, 1, 0), np.arange(2, dtype=np.uint32))
    with pytest.raises(MemoryError, match="2 live pairs"):
        live.add(bytes(8), 2)
    with pytest.raises(MemoryError, match="2 live pairs"):
        live.add_many(near_rows(1, 1, 0), np.arange(1, dtype=np.uint32))
    assert len(live) == 2


def test_damage_is_noticed(native):
    tables = tables_of(Layout(4, 3))
    parts = native.build(tables, near_rows(100, 1, 0), np.arange(100, dtype=np.uint32), 3)
    parts.slots[0, 0] = parts.slots[0, 1]
    with pytest.raises(BrokenInvariant, match="slots of table 1"):
        native.check(native.Frozen(tables, parts))

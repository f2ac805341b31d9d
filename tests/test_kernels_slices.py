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


def tiers_of(slices, layout, rows, ids, n_frozen):
    """The first rows in a frozen tier, the rest in a live one; some pairs removed from both."""
    shape = layout.shape
    frozen = slices.Frozen(shape, slices.build(shape, rows[:n_frozen], ids[:n_frozen]))
    live = slices.Live(shape, len(rows) + 1, rows.shape[1])
    live.add_many(rows[n_frozen:], ids[n_frozen:])
    live.add(rows[0].tobytes(), 12345)
    tiers = [frozen, live]
    n_copies = slices.count_many(tiers, rows[::5].copy(), ids[::5].copy())
    n_removed = slices.remove_many(tiers, rows[::5].copy(), ids[::5].copy())
    n_expired = [slices.expire(tier, 3) for tier in tiers]
    for tier in tiers:
        slices.check(tier)
    return tiers, (*n_copies, n_removed, *n_expired)


def answers(slices, tiers, queries, distance, expand, admit, limit):
    columns = list(slices.within_many(tiers, queries, distance, expand, limit))
    columns += slices.scan_nearest_many(tiers, queries, 7)
    for verify in (twin.ALL, twin.BOUNDS, twin.SCORE):
        columns += slices.nearest_many(tiers, queries, 5, expand, admit, verify)
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
def test_tiers_answer_like_their_twins(
    native, n, n_frozen, words, width, expand, admit, distance, limit, seed
):
    layout, rows = SliceLayout(64 * words, width), near_rows(n, words, seed)
    ids = np.random.default_rng(seed).permutation(2 * n)[:n].astype(np.uint32)
    ids[n // 2 :: 4] = ids[0]
    queries = np.concatenate([rows[:5], near_rows(3, words, seed + 1)])
    made = {}
    for slices in (native, twin):
        tiers, removed = tiers_of(slices, layout, rows, ids, n_frozen)
        rules = distance, expand, min(admit, expand), limit
        made[slices] = removed, answers(slices, tiers, queries, *rules)
    assert made[native] == made[twin]


@pytest.mark.parametrize("words", [1, 3, 16])
def test_every_simd_level_finds_the_same(native, level, words):
    layout, rows = SliceLayout(64 * words, 10), near_rows(800, words, 1)
    ids = np.arange(800, dtype=np.uint32)
    made = {}
    for slices in (native, twin):
        tiers, _ = tiers_of(slices, layout, rows, ids, 500)
        made[slices] = answers(slices, tiers, rows[:8], 30, 1, 1, NO_LIMIT)
    assert made[native] == made[twin]


@pytest.mark.parametrize(("bits", "width"), [(64, 16), (128, 18), (1024, 17), (192, 7)])
def test_built_arrays_and_sizes_are_identical(native, bits, width):
    shape, rows = SliceLayout(bits, width).shape, near_rows(300, bits // 64, 2)
    ids = np.arange(300, dtype=np.uint32)
    one, other = native.build(shape, rows, ids), twin.build(shape, rows, ids)
    for name in twin.Parts._fields:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    lives = [slices.Live(shape, 300, bits // 64) for slices in (native, twin)]
    for live in lives:
        live.add_many(rows, ids)
    assert lives[0].largest_bucket == lives[1].largest_bucket
    assert native.Frozen(shape, one).largest_bucket == lives[0].largest_bucket


def test_a_full_live_tier_refuses_more(native):
    live = native.Live(SliceLayout(64, 8).shape, 2, 1)
    live.add_many(near_rows(2, 1, 0), np.arange(2, dtype=np.uint32))
    with pytest.raises(MemoryError, match="2 live pairs"):
        live.add(bytes(8), 2)
    assert len(live) == 2


def test_damage_is_noticed(native):
    shape = SliceLayout(64, 8).shape
    parts = native.build(shape, near_rows(100, 1, 0), np.arange(100, dtype=np.uint32))
    parts.postings[3, 0] = parts.postings[3, 1]
    with pytest.raises(BrokenInvariant, match="postings of slice 3"):
        native.check(native.Frozen(shape, parts))

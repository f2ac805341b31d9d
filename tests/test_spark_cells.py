"""Cells bring every near pair together once, however they are cut; no Spark needed."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")

from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array  # noqa: E402
from scrapy_neardup.spark import cells  # noqa: E402
from scrapy_neardup.spark.cells import ENTRY, CellPlan  # noqa: E402

DISTANCE = 6
NONE = np.zeros(0, np.int64)


def fingerprints(n: int, n_equal: int) -> U64Array:
    """Random ones, then as many near one of a few, then many that are all equal."""
    rng = np.random.default_rng(3)
    found = rng.integers(0, 2**64, 2 * n, dtype=np.uint64)
    for i in range(n, 2 * n):
        found[i] = found[rng.integers(0, 40)]
        for bit in rng.integers(0, 64, rng.integers(0, DISTANCE + 2)).tolist():
            found[i] ^= np.uint64(1 << bit)
    return np.concatenate([found, np.full(n_equal, found[0])])


def batch_of(fps: U64Array, sites: I64Array, checks: U64Array | None = None) -> pa.RecordBatch:
    checks = np.zeros((len(fps), cells.CHECK_WORDS), np.uint64) if checks is None else checks
    return pa.record_batch(
        {
            "n": np.arange(len(fps)),
            "site": sites,
            "fingerprint": fps.view(np.int64),
            "check": pa.array([row.tobytes() for row in checks], pa.binary()),
        }
    )


def with_hot_cells(plan: CellPlan, batch: pa.RecordBatch, cell_rows: int) -> CellPlan:
    """The plan with every cell cut that has more rows."""
    sizes: Counter[int] = Counter()
    for counts in cells.counted(iter([batch]), plan):
        sizes.update(dict(zip(*(column.to_pylist() for column in counts.columns), strict=True)))
    hot = sorted(cell % 2**64 for cell, n in sizes.items() if n > cell_rows)
    keys = np.array(hot, np.uint64)
    parts = np.array([sizes[int(k)] // cell_rows + 1 for k in keys.view(np.int64)], np.int64)
    return replace(plan, hot=keys, parts=parts)


def tasks(plan: CellPlan, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """What a shuffle makes of the packed rows."""
    sent = pa.Table.from_batches(cells.packed(iter([batch]), plan)).sort_by("task")
    return list(sent.to_batches(max_chunksize=2))


def pairs(
    plan: CellPlan, batch: pa.RecordBatch, confirm_distance: int = 44
) -> list[tuple[int, ...]]:
    found = cells.candidates(iter(tasks(plan, batch)), plan.distance, confirm_distance)
    return [tuple(row.values()) for part in found for row in part.to_pylist()]


@pytest.mark.parametrize("cell_rows", [10**6, 30], ids=["whole", "in parts"])
@pytest.mark.parametrize("cut", [0, 1, 2, 3])
def test_each_near_pair_of_a_site_is_found_once(cut: int, cell_rows: int) -> None:
    fps = fingerprints(250, n_equal=100)
    sites = np.arange(len(fps)) % 2
    distances = np.bitwise_count(fps[:, None] ^ fps)
    near = np.argwhere((distances <= DISTANCE) & (sites[:, None] == sites))
    expected = [(i, j, int(distances[i, j])) for i, j in near.tolist() if j < i]
    plan = CellPlan(DISTANCE, 3, np.array([1], np.uint64), np.array([cut]), NONE.view("u8"), NONE)
    plan = with_hot_cells(plan, batch_of(fps, sites), cell_rows)
    assert len(plan.hot) == 0 or cell_rows == 30
    assert sorted(pairs(plan, batch_of(fps, sites))) == sorted(expected)


def test_parts_of_a_hot_cell_are_small() -> None:
    fps = np.full(5_000, 7, np.uint64)
    batch = batch_of(fps, np.zeros(len(fps), np.int64))
    plan = CellPlan(DISTANCE, 1, np.zeros(1, np.uint64), np.array([1]), NONE.view("u8"), NONE)
    whole, cut = (
        max(Counter(np.concatenate(list(cells.unpacked(iter(tasks(p, batch)))))["key"]).values())
        for p in (plan, with_hot_cells(plan, batch, cell_rows=500))
    )
    assert whole == 5_000
    assert cut < 2 * 600


def test_a_pair_whose_sketches_begin_too_differently_goes_no_further() -> None:
    checks = np.array([[0, 0], [2**44 - 1, 0], [2**44 - 1, 1]], np.uint64)
    batch = batch_of(np.full(3, 9, np.uint64), np.zeros(3, np.int64), checks)
    plan = CellPlan.of_sites(DISTANCE, 100, NONE.view("u8"), NONE, np.zeros(0, np.uint64))
    assert sorted(pairs(plan, batch)) == [(1, 0, 0), (2, 1, 0)]


def test_more_rows_are_cut_into_more_blocks() -> None:
    sample = np.random.default_rng(1).integers(0, 2**64, 2_000, dtype=np.uint64)
    sizes = np.array([1_000, 10**6, 10**9, 10**11])
    plan = CellPlan.of_sites(DISTANCE, 20_000, np.arange(4, dtype=np.uint64), sizes, sample)
    assert plan.sites.tolist() == [1, 2, 3]
    assert plan.cuts.tolist() == sorted(set(plan.cuts.tolist()))


def test_entries_are_as_many_bytes_as_the_documents_say() -> None:
    assert ENTRY.itemsize == 40


def crowd(n: int) -> tuple[U64Array, U64Array]:
    """Fingerprints and checks of pages that all are near each other, behind as many random ones."""
    rng = np.random.default_rng(5)
    random = rng.integers(0, 2**64, (n, 3), dtype=np.uint64)
    near = np.tile(rng.integers(0, 2**64, 3, dtype=np.uint64), (n, 1))
    near[:, :1] ^= np.uint64(1) << rng.integers(60, 64, (n, 1), dtype=np.uint64)
    near[:, 1:] ^= np.uint64(1) << rng.integers(0, 64, (n, 2), dtype=np.uint64)
    rows = np.concatenate([random, near])
    return rows[:, 0].copy(), rows[:, 1:]


@pytest.mark.parametrize("cell_rows", [10**6, 500], ids=["whole", "in parts"])
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_crowd_is_linked_by_few_pairs_that_are_not_all(cut: int, cell_rows: int) -> None:
    fps, checks = crowd(2_000)
    sites, n = np.zeros(len(fps), np.int64), 2_000
    plan = CellPlan(DISTANCE, 3, np.zeros(1, np.uint64), np.array([cut]), NONE.view("u8"), NONE)
    batch = batch_of(fps, sites, checks)
    plan = with_hot_cells(plan, batch, cell_rows)
    found = pairs(plan, batch)
    incomplete = {later for later, earlier, _ in found if later == earlier}
    assert {*range(n, 2 * n)} <= incomplete
    linked = [(later, earlier) for later, earlier, _ in found if later != earlier]
    assert len(linked) == len(set(linked))
    assert {later for later, _ in linked} == {*range(n + 1, 2 * n)}
    assert len(linked) < 100 * n


def test_each_turn_compares_a_crowd_in_another_order() -> None:
    fps, checks = crowd(1_000)
    batch = batch_of(fps, np.zeros(len(fps), np.int64), checks)
    plan = CellPlan(DISTANCE, 1, NONE.view("u8"), NONE, NONE.view("u8"), NONE)
    one, other = (
        {
            tuple(row.values())[:2]
            for part in cells.candidates(iter(tasks(plan, batch)), DISTANCE, 44, turn)
            for row in part.to_pylist()
        }
        for turn in (0, 1)
    )
    assert len(one - other) > 500
    assert len(other - one) > 500

"""scrapy_neardup/index/layout.py: what tables cost and hold, before anything is built."""

from math import comb

import numpy as np
import pytest

from scrapy_neardup.errors import SpecError
from scrapy_neardup.index.layout import Layout, propose_blocks
from scrapy_neardup.index.permuted import PermutedIndex


def test_blocks_are_those_of_the_readme_picture():
    assert Layout(6, 3).edges == (64, 53, 42, 32, 21, 10, 0)
    assert Layout(5, 3).edges == (64, 51, 38, 25, 12, 0)


@pytest.mark.parametrize(("blocks", "distance"), [(4, 3), (5, 3), (6, 3), (6, 2), (8, 6), (20, 2)])
def test_tables_are_all_choices_of_leading_blocks(blocks, distance):
    layout = Layout(blocks, distance)
    assert len(layout.tables) == comb(blocks, distance)
    assert all(sorted(order) == list(range(blocks)) for order in layout.permutations)
    assert len(set(layout.permutations)) == len(layout.permutations)
    assert sum(layout.mask(block) for block in range(blocks)) == 2**64 - 1


@pytest.mark.parametrize(("blocks", "bits", "n"), [(4, 64, 10_000), (6, 64, 70_000), (5, 256, 9)])
def test_memory_is_known_before_building(blocks, bits, n):
    index = PermutedIndex(blocks, 3, bits)
    rows = np.random.default_rng(0).integers(0, 2**64, (n, bits // 64), dtype=np.uint64)
    index.add_many(rows, np.arange(n))
    index.compact()
    segment = index._store.segment
    assert segment.nbytes == index.layout.nbytes(n)


def test_a_million_fingerprints_take_at_most_37_bytes_each():
    assert Layout(4, 3).nbytes(10**6) <= 37 * 10**6


def test_entries_repeat_bits_that_do_not_lead():
    layout = Layout(4, 3)
    for mask, (word, turn) in zip(layout.leading_masks, layout.windows.tolist(), strict=True):
        window = sum(1 << (turn + i) % 64 for i in range(32))
        assert word == 0
        assert not window & mask


def test_more_memory_buys_more_blocks_only_when_they_pay():
    assert propose_blocks(10**6, 3, 10**9).blocks == 4
    ample = propose_blocks(10**9, 3, 10**12)
    assert ample.blocks > 4
    scarce = propose_blocks(10**9, 3, 40 * 10**9)
    assert scarce.blocks == 4
    assert "4 tables" in scarce.reason
    assert scarce.nbytes == Layout(4, 3).nbytes(10**9)
    with pytest.raises(SpecError, match=r"memory_bytes=1000: .* need at least"):
        propose_blocks(10**6, 3, 1000)

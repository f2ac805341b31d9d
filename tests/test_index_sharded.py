"""scrapy_neardup/index/sharded.py: shards answer together like the index they were cut from."""

import numpy as np
import pytest

from scrapy_neardup.errors import BrokenInvariant, DistanceTooLarge, NotStored, SpecError
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.index.sharded import Shard, ShardedIndex, concerns


def near_rows(n, words=1, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2**64, (n // 4 + 1, words), dtype=np.uint64)
    rows = rows[rng.integers(0, len(rows), n)]
    for _ in range(3):
        bit = rng.integers(0, 100, n)
        flip = np.where(bit < 64, np.uint64(1) << (bit % 64).astype(np.uint64), np.uint64(0))
        rows[np.arange(n), rng.integers(0, words, n)] ^= flip
    return rows


def index_of(rows, blocks):
    index = PermutedIndex(blocks, 3, rows.shape[1] * 64)
    index.add_many(rows, np.arange(len(rows)))
    return index


def assert_same_answers(sharded, index, queries):
    for distance in (0, 2, 3):
        expected = index.all_within_many(queries, distance)
        for got, want in zip(sharded.all_within_many(queries, distance), expected, strict=True):
            np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(
            sharded.first_within_many(queries, distance),
            index.first_within_many(queries, distance),
        )


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize(("blocks", "words"), [(4, 1), (5, 1), (4, 2)])
def test_shards_answer_like_one_index_through_changes(n, blocks, words):
    rows = near_rows(2000, words)
    index = index_of(rows[:1500], blocks)
    sharded = ShardedIndex(index.shards(n))
    assert len(sharded.shards) == n
    assert len(sharded) == 1500
    assert_same_answers(sharded, index, rows)
    for each in (index, sharded):
        each.add_many(rows[1500:], np.arange(1500, 2000))
        assert each.remove_many(rows[::3], np.arange(0, 2000, 3)) == 667
        assert each.discard_many(rows[::3], np.arange(0, 2000, 3)) == 0
        with pytest.raises(NotStored, match="1 of 2 pairs to remove are not there, the first at 1"):
            each.remove_many(rows[[1, 3]], np.array([1, 3]))
    assert len(sharded) == len(index) == 1333
    sharded.check()
    assert_same_answers(sharded, index, rows)


def test_a_query_asks_one_shard_a_table_at_most():
    rows = near_rows(4000)
    asked = np.sum([concerns(shard, rows) for shard in index_of(rows, 4).shards(40)], axis=0)
    assert asked.max() == 4


def test_shards_are_about_equally_large_even_where_leading_bits_are_skewed():
    rows = near_rows(8000)
    rows &= np.uint64(0x00FFFFFFFFFFFFFF)  # the first block has 8 bits left
    sizes = [len(shard) for shard in index_of(rows, 4).shards(8)]
    assert max(sizes) < 1.3 * min(sizes)


def test_shards_of_equal_fingerprints_are_fewer():
    index = index_of(np.full((500, 1), 7, dtype=np.uint64), 4)
    shards = index.shards(30)
    assert len(shards) < 30
    assert_same_answers(ShardedIndex(shards), index, near_rows(10))


def test_single_signatures_are_added_found_and_removed():
    sharded = ShardedIndex(PermutedIndex().shards(3))
    sharded.add(2**64 - 1, 9)
    assert sharded.first_within(2**64 - 2, 3) == 9
    assert sharded.all_within(2**64 - 2, 3).distances.tolist() == [1]
    sharded.remove(2**64 - 1, 9)
    assert sharded.first_within(2**64 - 1, 3) is None


def test_reopened_shards_go_on():
    rows = near_rows(500)
    index = index_of(rows, 4)
    again = [Shard.from_arrays(shard.arrays()) for shard in index.shards(5)]
    assert_same_answers(ShardedIndex(again), index, rows)


def test_shards_that_do_not_belong_together_are_refused():
    shards = PermutedIndex().shards(4)
    with pytest.raises(SpecError, match="one ends at"):
        ShardedIndex([shards[0], shards[2], shards[3]])
    with pytest.raises(SpecError, match="shards end at"):
        ShardedIndex(shards[:3])
    with pytest.raises(SpecError, match="2 layouts"):
        ShardedIndex([*shards[:3], PermutedIndex(blocks=5).shards(1)[0]])
    with pytest.raises(SpecError, match="n=0"):
        PermutedIndex().shards(0)
    with pytest.raises(DistanceTooLarge, match="exact from 0 to 3"):
        ShardedIndex(shards).first_within(1, 4)


def test_lost_pairs_are_noticed():
    sharded = ShardedIndex(PermutedIndex().shards(2))
    sharded.add(5, 1)
    for shard in sharded.shards:
        shard.remove(5, 1)
    with pytest.raises(BrokenInvariant, match="hold 0 pairs, counted as 1"):
        sharded.check()

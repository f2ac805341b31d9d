"""scrapy_neardup/index/pairs.py: every near pair once, in memory or on disk, and clusters."""

import numpy as np
import pytest

from scrapy_neardup.errors import SpecError
from scrapy_neardup.index.pairs import all_pairs, clusters

SMALL = np.array([0, 1, 3, 7, 15, 2**63, 2**63 | 1, 0, 2**64 - 1], dtype=np.uint64)


def near_rows(n, words=1, seed=0):
    """Clusters of rows up to three bits from their centre, some equal."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 2**64, (n // 4 + 1, words), dtype=np.uint64)
    rows = rows[rng.integers(0, len(rows), n)]
    for _ in range(3):
        bit = rng.integers(0, 100, n)
        flip = np.where(bit < 64, np.uint64(1) << (bit % 64).astype(np.uint64), np.uint64(0))
        rows[np.arange(n), rng.integers(0, words, n)] ^= flip
    return rows


def by_brute_force(rows, distance):
    found = {}
    for i, row in enumerate(rows):
        bits = np.bitwise_count(rows[i + 1 :] ^ row).sum(axis=1)
        found |= {(i, int(i + 1 + j)): int(bits[j]) for j in np.flatnonzero(bits <= distance)}
    return found


def collected(pairs):
    found = {}
    for left, right, bits in pairs:
        for pair in zip(left.tolist(), right.tolist(), bits.tolist(), strict=True):
            assert pair[:2] not in found, "a pair came twice"
            found[pair[:2]] = pair[2]
    return found


@pytest.mark.parametrize("words", [1, 3])
@pytest.mark.parametrize(("blocks", "distance"), [(4, 3), (6, 3), (None, 3), (3, 0), (8, 6)])
@pytest.mark.parametrize("memory_bytes", [1 << 28, 20_000])
def test_every_pair_is_found_once(words, blocks, distance, memory_bytes, tmp_path):
    rows = near_rows(1200, words)
    rows[600:640] = rows[0]
    found = all_pairs(rows, distance, blocks, memory_bytes, folder=tmp_path)
    assert collected(found) == by_brute_force(rows, distance)
    assert list(tmp_path.iterdir()) == []


def test_small_values_give_the_pairs_one_can_count():
    near = collected(all_pairs(SMALL, 1))
    assert near == {
        (0, 1): 1, (0, 5): 1, (0, 7): 0, (1, 2): 1, (1, 6): 1, (1, 7): 1, (2, 3): 1, (3, 4): 1,
        (5, 6): 1, (5, 7): 1,
    }  # fmt: skip


def test_a_mapped_file_is_read_in_pieces(tmp_path):
    rows = near_rows(3000)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    found = collected(all_pairs(mapped, 3, memory_bytes=30_000, progress=True))
    assert found == by_brute_force(rows, 3)


def test_an_empty_collection_has_no_pairs():
    assert list(all_pairs(np.zeros(0, dtype=np.uint64), 3)) == []
    assert clusters(np.zeros(0, dtype=np.uint64), 3).tolist() == []


def test_clusters_are_named_by_their_smallest_row():
    assert clusters(SMALL, 1).tolist() == [0, 0, 0, 0, 0, 0, 0, 0, 8]
    assert clusters(SMALL, 0).tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 8]


def test_clusters_are_the_components_of_all_pairs():
    rows = near_rows(2000)
    labels = clusters(rows, 3)
    neighbours = {i: {i} for i in range(len(rows))}
    for i, j in by_brute_force(rows, 3):
        merged = neighbours[i] | neighbours[j]
        for member in merged:
            neighbours[member] = merged
    assert labels.tolist() == [min(neighbours[i]) for i in range(len(rows))]


def test_a_chain_of_near_rows_is_one_cluster():
    chain = np.array([(1 << i) - 1 for i in range(64)], dtype=np.uint64)
    chain = chain[np.random.default_rng(0).permutation(64)]
    assert clusters(chain, 1).tolist() == [0] * 64


def test_impossible_blocks_are_refused():
    with pytest.raises(SpecError, match="blocks=3"):
        list(all_pairs(SMALL, 3, blocks=3))


def test_progress_is_shown_up_to_the_last_row_of_the_last_table(capsys):
    rows = np.arange(100, dtype=np.uint64)
    assert sum(len(pairs.left) for pairs in all_pairs(rows, 1, blocks=2, progress=True)) > 0
    assert "near pairs: 100%" in capsys.readouterr().err

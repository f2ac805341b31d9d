"""scrapy_neardup/index/scan.py: the oracle, held to plain Python integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.errors import ScanLimitReached, SnapshotError
from scrapy_neardup.index.scan import ScanIndex

PAIRS = st.lists(st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 9)), max_size=30)


@given(pairs=PAIRS, query=st.integers(0, 2**128 - 1), distance=st.integers(0, 128))
def test_answers_are_those_of_plain_integers(pairs, query, distance):
    index = ScanIndex(bits=128)
    for fp, id in pairs:
        index.add(fp, id)
    near = {}
    for fp, id in pairs:
        bits = (fp ^ query).bit_count()
        if bits <= distance:
            near[id] = min(bits, near.get(id, 128))
    found = index.all_within(query, distance)
    assert found.ids.tolist() == sorted(near)
    assert found.distances.tolist() == [near[id] for id in sorted(near)]
    assert index.first_within(query, distance) == min(near, default=None)
    index.check()


def test_removed_and_expired_pairs_are_gone():
    index = ScanIndex()
    index.add_many(np.array([1, 1, 2, 3], dtype=np.uint64), np.array([0, 0, 1, 2]))
    assert index.discard_many(np.array([1, 9], dtype=np.uint64), np.array([0, 0])) == 2
    assert index.expire(2) == 1
    assert index.all_within(3, 64).ids.tolist() == [2]


def test_reopened_read_only_index_takes_changes():
    index = ScanIndex()
    index.add(1, 5)
    arrays = {name: np.array(array) for name, array in index.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    again = ScanIndex.from_arrays(arrays)
    again.add(2, 6)
    assert again.all_within(3, 1).ids.tolist() == [5, 6]
    with pytest.raises(SnapshotError, match="int64"):
        ScanIndex.from_arrays({**arrays, "rows": np.zeros((1, 1), dtype=np.int64)})


def test_scan_limit_stops_a_scan_of_more():
    index = ScanIndex(scan_limit=1)
    index.add(1, 0)
    assert index.first_within(1, 0) == 0
    index.add(2, 1)
    with pytest.raises(ScanLimitReached, match="scan_limit=1"):
        index.first_within(1, 0)

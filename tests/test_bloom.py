"""bloom/: filters that never forget a URL and keep their error rate."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from scrapy_neardup.bloom.layered import BloomFilter, LayeredBloomFilter
from scrapy_neardup.errors import BrokenInvariant, SettingsError


def urls(n: int, seed: int = 0) -> Iterator[bytes]:
    chance = random.Random(seed)
    for i in range(n):
        host, directory = chance.randrange(50), chance.randrange(20)
        yield f"h{host}.example/d{directory}/{seed}-{i}".encode()


def test_a_filter_never_forgets_while_it_grows() -> None:
    known = LayeredBloomFilter(500, 1e-3, seed=1)
    keys = list(urls(5_000))
    known.add_many(keys)
    assert all(key in known for key in keys)
    assert known.expected_error_rate <= 1e-3
    known.check()


def test_the_first_unseen_layer_is_reported() -> None:
    known = LayeredBloomFilter(1000, seed=1)
    assert known.add_reporting(b"a.example/x/1") == 1
    assert known.add_reporting(b"a.example/y/1") == 2
    assert known.add_reporting(b"a.example/y/2") == 3
    assert known.add_reporting(b"a.example/y/2") == 0
    assert known.add_reporting(b"a.example/") == 3


def test_a_full_filter_that_may_not_grow_calls_new_what_is_new() -> None:
    known = BloomFilter(1000, 1e-3, seed=1, max_bytes=1)
    keys = list(urls(1_000))
    known.add_many(keys)
    assert known.saturated
    assert known.at_risk
    late = list(urls(200, seed=2))
    assert not any(known.add(key) for key in late)
    assert not any(known.add(key) for key in late)
    assert known.n_refused == 400
    assert all(key in known for key in keys)
    known.check()


def test_a_reopened_filter_on_read_only_arrays_still_knows_its_urls() -> None:
    known = LayeredBloomFilter(1000, 1e-3, seed=1)
    keys = list(urls(3_000))
    known.add_many(keys)
    arrays = known.arrays()
    for array in arrays.values():
        array.flags.writeable = False
    reopened = LayeredBloomFilter.from_arrays(arrays)
    assert all(key in reopened for key in keys)
    assert not reopened.add(b"late.example/")
    assert reopened.add(b"late.example/")
    assert b"late.example/" not in known
    reopened.check()


def test_check_notices_a_flipped_bit() -> None:
    known = BloomFilter(1000, seed=1)
    known.add_many(list(urls(100)))
    known.arrays()["words0"][7] ^= np.uint64(1)
    with pytest.raises(BrokenInvariant, match="bits are set"):
        known.check()


@pytest.mark.parametrize("wrong", [{"capacity": 0}, {"error_rate": 0}, {"layers": 9}])
def test_impossible_sizes_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        LayeredBloomFilter(**{"capacity": 10, **wrong})

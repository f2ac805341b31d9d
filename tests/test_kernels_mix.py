"""kernels/numpy_twin/mix.py: one finaliser for single numbers and for arrays."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.kernels.numpy_twin.mix import fmix64


def test_the_finaliser_is_murmurhash3s() -> None:
    assert [fmix64(x) for x in (0, 1, 2)] == [0, 0xB456BCFC34C2CB2C, 0x3ABF2A20650683E7]


@given(numbers=st.lists(st.integers(0, 2**64 - 1)))
def test_arrays_and_numbers_are_mixed_alike(numbers: list[int]) -> None:
    array = np.array(numbers, dtype=np.uint64)
    before = array.copy()
    mixed = fmix64(array)
    assert mixed.dtype == np.uint64
    assert mixed.tolist() == [fmix64(x) for x in numbers]
    assert np.array_equal(array, before)

"""MurmurHash3's 64-bit finaliser, and the step that visits every 64-bit number."""

from __future__ import annotations

from typing import Any, overload

from scrapy_neardup.kernels.numpy_twin import U64Array

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, odd


@overload
def fmix64(x: int) -> int: ...
@overload
def fmix64(x: U64Array) -> U64Array: ...
def fmix64(x: Any) -> Any:
    """A bijection of 64-bit numbers; every bit of the result depends on all bits of x.

    x: an int from 0 to 2**64 - 1, or an array, of which a fresh one is made.
    """
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCD & MASK  # the mask changes nothing in an array
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53 & MASK
    return x ^ (x >> 33)

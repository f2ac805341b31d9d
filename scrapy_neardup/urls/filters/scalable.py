"""A Bloom filter that grows: each slice has twice the keys and a share of the error rate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.kernels.numpy_twin import U64Array
from scrapy_neardup.urls.filters.sizing import BloomShape, shape_for

# Of the error rate, what the first slice takes, and each of the next ones; then they take half of
# what is left. Halves from the first on would be smallest where most keys are: a filter grown to
# 500 times its capacity would take 43 bits a key at 1e-6, and not 37.
FIRST_SHARE = 0.76
EQUAL_SHARES, EQUAL_SHARE = 8, 1 / 36


def share_of(n: int) -> float:
    """The share of the error rate that slice n of a chain takes, from 0; all together below 1."""
    if n == 0:
        return FIRST_SHARE
    left = 1 - FIRST_SHARE - EQUAL_SHARES * EQUAL_SHARE
    return EQUAL_SHARE if n <= EQUAL_SHARES else left / 2.0 ** (n - EQUAL_SHARES)


@dataclass(slots=True)
class Slice:
    """One Bloom filter of a chain."""

    capacity: int
    shape: BloomShape
    counts: U64Array  # shape (2,): keys and bits set
    words: U64Array

    @property
    def n_keys(self) -> int:
        return int(self.counts[0])

    @property
    def n_set(self) -> int:
        return int(self.counts[1])

    def copy(self) -> Slice:
        """A slice with arrays of its own."""
        return Slice(self.capacity, self.shape, self.counts.copy(), self.words.copy())

    def has_room_for(self, other: Slice) -> bool:
        """Whether another slice's bits mean the same here, and its keys fit in."""
        same = (self.capacity, self.shape) == (other.capacity, other.shape)
        return same and self.n_keys + other.n_keys <= self.capacity

    def unite(self, other: Slice) -> None:
        """Set the bits of another slice, too. Keys in both count twice, so rates are bounds."""
        self.words = self.words | other.words  # a new array: the old one may be read-only
        n_set = int(np.bitwise_count(self.words).sum())
        # A key sets a bit or more, so where many were in both the bits bound their number.
        n_keys = min(self.n_keys + other.n_keys, n_set)
        self.counts = np.array([n_keys, n_set], np.uint64)

    def check(self) -> None:
        """Raises BrokenInvariant where counts and bits disagree."""
        n_set = int(np.bitwise_count(self.words).sum())
        if n_set != self.n_set:
            raise BrokenInvariant(f"{n_set} bits are set, {self.n_set} were counted")
        if not self.n_keys <= n_set <= self.n_keys * self.shape.n_hashes:
            raise BrokenInvariant(f"{self.n_keys} keys cannot have set {n_set} bits")


class Chain:
    """The slices of one layer; only the last, the newest, is written to.

    Slice n has room for capacity << n keys. The slices of merged chains stand before the
    chain's own, so that a size may occur twice.
    """

    def __init__(self, capacity: int, error_rate: float, slices: Iterable[Slice] = ()) -> None:
        self.capacity = capacity
        self.error_rate = error_rate
        self.slices = list(slices)

    @property
    def newest(self) -> Slice:
        return self.slices[-1]

    @property
    def next_number(self) -> int:
        """Which slice is opened next; by size, since merging makes the chain longer."""
        largest = max((one.capacity for one in self.slices), default=0)
        return (largest // self.capacity).bit_length()

    @property
    def next_capacity(self) -> int:
        return self.capacity << self.next_number

    def next_shape(self) -> BloomShape:
        """With the next share of the error rate: however long the chain, the sum is below it."""
        return shape_for(self.next_capacity, self.error_rate * share_of(self.next_number))

    def grow(self) -> None:
        """Open a new slice. Raises MemoryError."""
        shape = self.next_shape()
        words = np.zeros(shape.size_bits // 64, np.uint64)
        self.slices.append(Slice(self.next_capacity, shape, np.zeros(2, np.uint64), words))

    def merge(self, other: Chain) -> None:
        """Take in the keys of another chain of the same capacity and error rate.

        The newest slices become one if their keys fit in one; all others are kept side by side,
        and their error rates add up. Older slices come first, for expected_lost.
        """
        older = other.slices
        if self.newest.has_room_for(other.newest):
            self.newest.unite(other.newest)
            older = older[:-1]
        self.slices[:0] = [one.copy() for one in older]

    def __len__(self) -> int:
        return sum(one.n_keys for one in self.slices)

    @property
    def nbytes(self) -> int:
        return sum(one.words.nbytes + one.counts.nbytes for one in self.slices)

    @property
    def expected_error_rate(self) -> float:
        """The share of unknown keys that some slice claims, at most."""
        return sum(one.shape.error_rate(one.n_keys) for one in self.slices)

    @property
    def expected_lost(self) -> float:
        """The error rate summed over all keys as they came, by Simpson's rule per slice."""
        lost, older = 0.0, 0.0
        for one in self.slices:
            n, rate = one.n_keys, one.shape.error_rate
            steps = [rate(n * i / 8) for i in range(9)]
            mean = (steps[0] + steps[8] + 4 * sum(steps[1:8:2]) + 2 * sum(steps[2:8:2])) / 24
            lost += n * (older + mean)
            older += steps[8]
        return lost

    def check(self) -> None:
        for one in self.slices:
            one.check()

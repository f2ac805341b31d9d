"""LayeredBloomFilter: Bloom filters over host, directory and URL that keep their error rate."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from secrets import randbits
from typing import Any, Self

import numpy as np

import scrapy_neardup.kernels as kernels
from scrapy_neardup.errors import BrokenInvariant, SettingsError
from scrapy_neardup.kernels.numpy_twin import U64Array
from scrapy_neardup.stored_arrays import check_arrays
from scrapy_neardup.urls.filters.growing import GrowingFilter
from scrapy_neardup.urls.filters.scalable import Chain, Slice
from scrapy_neardup.urls.filters.sizing import MAX_HASHES, MIN_BITS, BloomShape

NO_LIMIT = 2**63
MAX_LAYERS = 8
STORED = {
    "seed": (np.uint64, (2,)),
    "error_rate": (np.float64, (1,)),
    "sizes": (np.uint64, (3,)),
    "slices": (np.uint64, (None, 6)),
}
MIN_RATE = 1e-15

# A directory wrongly taken for known costs nothing but a wrong count of new ones.
DIRECTORY_RATE = 0.01
MIN_DIRECTORIES = 256


class LayeredBloomFilter(GrowingFilter):
    """A Bloom filter over whole URLs under small ones over their directories. A UrlFilter.

    capacity    keys at which the filter first grows
    error_rate  the promise: at most this share of new keys is taken for known, at any size and
                whatever their segments; 1e-15 or more, below 0.5
    layers      directories on top: 1 host, 2 host and first directory, …; 0 is a plain filter
    seed        secret of 128 bits, drawn by default: without it nobody can craft keys that
                collide or fill the filter
    max_bytes   the filter does not grow beyond it; None: as far as memory goes

    No false negative, ever. A key whose directory was never seen is new at once. The layer of
    whole URLs alone keeps the error rate; the others can only lower it. A full layer opens a
    slice of twice the size with a share of the error rate (scalable.py), so that the sum stays
    below the promise. add: O(segments + slices). Not for two threads at once.

    After a merge the promise is the sum of both filters' error rates.

    Source: Cen, Xu, Sun, A Multi-Layer Bloom Filter for Duplicated URL Detection, and
    docs/url-filter.md for where and why this departs from it. Raises SettingsError.
    """

    def __init__(
        self,
        capacity: int,
        error_rate: float = 1e-6,
        layers: int = 2,
        seed: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        check_settings(capacity, error_rate, layers)
        secret = randbits(128) if seed is None else seed
        self._seed = np.array([secret & (2**64 - 1), secret >> 64 & (2**64 - 1)], np.uint64)
        self._open(capacity, error_rate, layers, max_bytes)
        for layer in self._chains:
            layer.grow()
        self._bind()

    def merge(self, other: Self) -> None:
        """Add every key of another filter, which stays as it is; O(bits of both).

        Both must be of one class, capacity, error rate, layers and seed: SpecError names what
        differs. Where the keys of both newest slices fit in one, their bits are united. All
        other slices are kept side by side: a look-up asks each of them, and their error rates
        add up, see expected_error_rate. max_bytes may be exceeded; nothing is forgotten.
        """
        self._check_alike(other)
        if other is not self:
            for layer, others in zip(self._chains, other._chains, strict=True):
                layer.merge(others)
            self.n_refused += other.n_refused
            self._bind()

    def _parameters(self) -> str:
        return f"capacity={self.capacity}, error_rate={self.error_rate}, layers={self.layers}, "

    def _open(self, capacity: int, error_rate: float, layers: int, max_bytes: int | None) -> None:
        self.capacity = capacity
        self.error_rate = error_rate
        self.layers = layers
        self.max_bytes = max_bytes
        self.n_refused = 0
        # On real sitemaps hosts are a thousandth of the URLs, first directories 3 to 8 %.
        directories = [max(MIN_DIRECTORIES, capacity >> max(4, 8 - 4 * i)) for i in range(layers)]
        self._chains = [Chain(n, DIRECTORY_RATE) for n in directories]
        self._chains.append(Chain(capacity, error_rate))

    def __len__(self) -> int:
        """Keys added, without repeats and without those wrongly taken for known.

        After a merge at most: keys of both filters count twice.
        """
        return len(self._urls)

    @property
    def _urls(self) -> Chain:
        return self._chains[-1]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(layer.nbytes for layer in self._chains)

    @property
    def expected_error_rate(self) -> float:
        """At most this share of keys never added is claimed to be there, as of now.

        That of the URL layer: what the layers above reject lowers it further.
        """
        return self._urls.expected_error_rate

    @property
    def expected_lost(self) -> float:
        """At most this many keys, on average, were taken for known when they were new."""
        return self._urls.expected_lost

    @property
    def at_risk(self) -> bool:
        """Whether the URL layer is nine tenths full and max_bytes lets it grow no more."""
        newest = self._urls.newest
        return newest.n_keys >= 0.9 * newest.capacity and not self._may_grow(self._urls)

    @property
    def saturated(self) -> bool:
        """Whether new keys are no longer remembered; they are still reported as new."""
        newest = self._urls.newest
        return newest.n_keys >= newest.capacity and not self._may_grow(self._urls)

    def _may_grow(self, layer: Chain) -> bool:
        more = layer.next_shape().size_bits // 8
        return self.max_bytes is None or self.nbytes + more <= self.max_bytes

    def _make_room(self) -> bool:
        """Let each layer that cannot take a key take one; whether the URL layer can now."""
        for layer in self._chains:
            newest = layer.newest
            if not (newest.words.flags.writeable and newest.counts.flags.writeable):
                newest.words, newest.counts = newest.words.copy(), newest.counts.copy()
            if newest.n_keys >= newest.capacity and self._may_grow(layer):
                self._grow(layer)
        self._bind()
        return self._urls.newest.n_keys < self._urls.newest.capacity

    def _grow(self, layer: Chain) -> None:
        try:
            layer.grow()
        except MemoryError:
            self.max_bytes = self.nbytes

    def _bind(self) -> None:
        """Hand the arrays to the kernel."""
        rows = [
            (number, one.shape.n_hashes, one.shape.blocked, self._limit(layer, one))
            for number, layer in enumerate(self._chains, start=1)
            for one in layer.slices
        ]
        slices = self._slices()
        self._bits = kernels.bloom.LayeredBits(
            self._seed,
            np.array(rows, np.uint64),
            [one.counts for one in slices],
            [one.words for one in slices],
        )

    def _limit(self, layer: Chain, one: Slice) -> int:
        if not (one.words.flags.writeable and one.counts.flags.writeable):
            return 0
        # A directory layer that may not grow is overfilled: it only rejects less.
        if layer is not self._urls and one.n_keys >= one.capacity and not self._may_grow(layer):
            return NO_LIMIT
        return one.capacity

    def _slices(self) -> list[Slice]:
        return list(chain.from_iterable(layer.slices for layer in self._chains))

    def check(self) -> None:
        """Every invariant, O(bits). Raises BrokenInvariant."""
        for layer in self._chains:
            layer.check()
        for one in self._urls.slices:
            if one.n_keys > one.capacity:
                raise BrokenInvariant(f"{one.n_keys} keys in a slice for {one.capacity}")

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays; the bits are views, read-only where nothing is added any more.

        Holds the secret seed.
        """
        rows = [
            (number, one.capacity, one.shape.n_hashes, one.shape.blocked, one.n_keys, one.n_set)
            for number, layer in enumerate(self._chains, start=1)
            for one in layer.slices
        ]
        sizes = [self.capacity, self.layers, self.max_bytes or 0]
        return {
            "seed": self._seed,
            "error_rate": np.array([self.error_rate]),
            "sizes": np.array(sizes, np.uint64),
            "slices": np.array(rows, np.uint64),
        } | {f"words{i}": words for i, words in enumerate(self._words())}

    def _words(self) -> Iterator[U64Array]:
        for layer in self._chains:
            for one in layer.slices:
                words = one.words[:]
                words.flags.writeable &= one is layer.newest
                yield words

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """The filter that arrays() described.

        Takes read-only and memory-mapped words as they are; the newest slice of each layer
        is copied when the first key is added. Raises BrokenInvariant.
        """
        check_arrays("URL filter", arrays, STORED)
        capacity, layers, max_bytes = arrays["sizes"].tolist()
        error_rate = float(arrays["error_rate"][0])
        try:
            check_settings(capacity, error_rate, layers)
        except SettingsError as error:
            raise BrokenInvariant(f"a URL filter with {error}") from error
        filter_ = cls.__new__(cls)
        filter_._seed = np.array(arrays["seed"], np.uint64)
        filter_._open(capacity, error_rate, layers, max_bytes or None)
        for i, row in enumerate(arrays["slices"].tolist()):
            if not 1 <= row[0] <= layers + 1:
                raise BrokenInvariant(f"a slice of layer {row[0]}, but there are {layers + 1}")
            layer = filter_._chains[row[0] - 1]
            layer.slices.append(read_slice(row, arrays[f"words{i}"], layer.capacity))
        if not all(layer.slices for layer in filter_._chains):
            raise BrokenInvariant(f"a layer of {layers + 1} has no bits")
        filter_._bind()
        return filter_


class BloomFilter(LayeredBloomFilter):
    """The same without layers: the whole URL only. A UrlFilter."""

    def __init__(
        self,
        capacity: int,
        error_rate: float = 1e-6,
        seed: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__(capacity, error_rate, 0, seed, max_bytes)


def check_settings(capacity: int, error_rate: float, layers: int) -> None:
    """Raises SettingsError."""
    if not capacity >= 1:
        raise SettingsError(f"capacity={capacity}: take 1 URL or more")
    if not MIN_RATE <= error_rate < 0.5:
        raise SettingsError(f"error_rate={error_rate}: take {MIN_RATE} or more, below 0.5")
    if not 0 <= layers <= MAX_LAYERS:
        raise SettingsError(f"layers={layers}: take 0 to {MAX_LAYERS}")


def read_slice(row: list[int], words: U64Array, least: int) -> Slice:
    """A slice from its row in arrays(), for `least` keys or more. Raises BrokenInvariant."""
    _, capacity, n_hashes, blocked, n_keys, n_set = row
    if words.dtype != np.uint64 or words.ndim != 1 or not words.flags.c_contiguous:
        raise BrokenInvariant(f"bits of type {words.dtype} and shape {words.shape}")
    if len(words) * 64 < MIN_BITS or not 1 <= n_hashes <= MAX_HASHES:
        raise BrokenInvariant(f"a slice of {len(words)} words and {n_hashes} hashes")
    # A key takes more than a bit; the next slice will be as much larger as the capacity says.
    if not least <= capacity <= len(words) * 64 or not n_set <= len(words) * 64:
        raise BrokenInvariant(
            f"a slice for {capacity} keys with {n_set} bits set of {len(words)} words"
        )
    shape = BloomShape(len(words) * 64, n_hashes, bool(blocked))
    return Slice(capacity, shape, np.array([n_keys, n_set], np.uint64), words)

"""ExactUrlFilter: a table of 64-bit key fingerprints, 10 to 20 bytes a URL."""

from __future__ import annotations

from secrets import randbits
from typing import Any, Self

import numpy as np

import scrapy_neardup.kernels as kernels
from scrapy_neardup.errors import BrokenInvariant, SettingsError
from scrapy_neardup.kernels.numpy_twin import U64Array
from scrapy_neardup.stored_arrays import check_arrays
from scrapy_neardup.urls.filters.growing import GrowingFilter

MAX_LOAD = 0.8
MIN_PLACES = 1024
BEST_RATE = 2.0**-32
STORED = {
    "seed": (np.uint64, (2,)),
    "error_rate": (np.float64, (1,)),
    "limits": (np.uint64, (1,)),
    "n_keys": (np.uint64, (1,)),
    "places": (np.uint64, (None,)),
}


class ExactUrlFilter(GrowingFilter):
    """A set of keys kept as 64-bit fingerprints under open addressing. A UrlFilter.

    capacity    keys for which the table has room at the start; it doubles when it is full
    error_rate  the promise, 2**-32 or more; whatever it is, the table keeps 2**-32, up to 2**32
                keys, 64 GB
    seed        secret of 128 bits, drawn by default
    max_bytes   growth beyond it is refused; None: as far as memory goes

    Two of n keys collide with a chance of n * n / 2**65: 4e-7 at 4 million, 1e-4 at 60
    million. Doubling moves every fingerprint once. There are no layers, so a new key is reported
    as layer 1. Not for two threads at once. Raises SettingsError.
    """

    layers = 0
    error_rate = BEST_RATE

    def __init__(
        self,
        capacity: int,
        error_rate: float = BEST_RATE,
        seed: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        if not capacity >= 1:
            raise SettingsError(f"capacity={capacity}: take 1 URL or more")
        if not BEST_RATE <= error_rate < 0.5:
            raise SettingsError(f"error_rate={error_rate}: take {BEST_RATE} or more, below 0.5")
        secret = randbits(128) if seed is None else seed
        self.max_bytes = max_bytes
        self.n_refused = 0
        self._seed = np.array([secret & (2**64 - 1), secret >> 64 & (2**64 - 1)], np.uint64)
        self._n_keys = np.zeros(1, np.uint64)
        size = max(MIN_PLACES, 1 << int(np.ceil(capacity / MAX_LOAD)).bit_length())
        self._bind(np.zeros(size, np.uint64))

    def merge(self, other: Self) -> None:
        """Add every key of another filter, which stays as it is; O(n log n) in all keys.

        Both must have the same seed: SpecError names them. Keys of both count once. max_bytes
        may be exceeded; nothing is forgotten.
        """
        self._check_alike(other)
        known = np.union1d(self._places, other._places)
        known = known[known != 0]
        size = max(len(self._places), len(other._places))
        while len(known) > size * MAX_LOAD:
            size *= 2
        self.n_refused += other.n_refused if other is not self else 0
        self._n_keys = np.array([len(known)], np.uint64)
        self._bind(np.zeros(size, np.uint64))
        self._bits.refill(known)

    def _parameters(self) -> str:
        return ""  # capacity and error rate do not change what a place means

    def _bind(self, places: U64Array) -> None:
        """Hand the arrays to the kernel; with no room in what must not be written to."""
        self._places = places
        limit = self._limit if places.flags.writeable else 0
        self._bits = kernels.bloom.TableBits(self._seed, places, self._n_keys, limit)

    @property
    def _limit(self) -> int:
        return int(len(self._places) * MAX_LOAD)

    def __len__(self) -> int:
        return int(self._n_keys[0])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._places.nbytes + self._n_keys.nbytes

    @property
    def expected_error_rate(self) -> float:
        """The share of keys never added whose fingerprint is taken, as of now."""
        return len(self) / 2**64

    @property
    def expected_lost(self) -> float:
        """How many keys, on average, were taken for known when they were new."""
        return len(self) ** 2 / 2**65

    @property
    def at_risk(self) -> bool:
        """Whether the table is nine tenths full and max_bytes lets it grow no more."""
        return len(self) >= 0.9 * self._limit and not self._may_grow

    @property
    def saturated(self) -> bool:
        """Whether new keys are no longer remembered; they are still reported as new."""
        return len(self) >= self._limit and not self._may_grow

    @property
    def _may_grow(self) -> bool:
        return self.max_bytes is None or 2 * self._places.nbytes <= self.max_bytes

    def _make_room(self) -> bool:
        """Make the table writable, or twice as large; whether it can take a key now."""
        if not self._places.flags.writeable:
            self._bind(self._places.copy())
        elif self._may_grow:
            self._double()
        return len(self) < self._limit

    def _double(self) -> None:
        try:
            larger = np.zeros(2 * len(self._places), np.uint64)
        except MemoryError:
            self.max_bytes = self.nbytes
            return
        places = self._places
        self._bind(larger)
        self._bits.refill(places)

    def check(self) -> None:
        """Every invariant, O(places). Raises BrokenInvariant."""
        known = self._places[self._places != 0]
        if len(known) != len(self):
            raise BrokenInvariant(f"{len(known)} places are taken, {len(self)} were counted")
        if len(np.unique(known)) != len(known):
            raise BrokenInvariant("a fingerprint stands twice")
        self._check_reachable()

    def _check_reachable(self) -> None:
        """No free place between a fingerprint's home and where it stands."""
        size = len(self._places)
        shift = np.uint64(65 - size.bit_length())
        taken = np.flatnonzero(self._places)
        homes = (self._places[taken] >> shift).astype(np.int64)
        n_taken = np.concatenate([[0], np.cumsum(self._places != 0)])
        past = np.where(taken >= homes, taken, taken + size)
        between = n_taken[np.minimum(past, size)] - n_taken[homes]
        between += np.where(taken >= homes, 0, n_taken[np.maximum(past - size, 0)])
        if (between != past - homes).any():
            raise BrokenInvariant("a fingerprint stands where no look-up would find it")

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays; the table is a view. Holds the secret seed."""
        limits = np.array([self.max_bytes or 0], np.uint64)
        return {
            "seed": self._seed,
            "error_rate": np.array([self.error_rate]),
            "limits": limits,
            "n_keys": self._n_keys,
            "places": self._places,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """The filter that arrays() described.

        Takes a read-only and memory-mapped table as it is; it is copied when the first key
        is added. Raises BrokenInvariant.
        """
        check_arrays("URL filter", arrays, STORED)
        places = arrays["places"]
        size = len(places)
        if size < MIN_PLACES or size & (size - 1):
            raise BrokenInvariant(
                f"a table of {size} places: not a power of two, {MIN_PLACES} or more"
            )
        filter_ = cls.__new__(cls)
        filter_.max_bytes = int(arrays["limits"][0]) or None
        filter_.n_refused = 0
        filter_._seed = np.array(arrays["seed"], np.uint64)
        filter_._n_keys = np.array(arrays["n_keys"], np.uint64)
        # Without a free place, a look-up of an unknown key would not end.
        n_taken = int(np.count_nonzero(places))
        if n_taken != len(filter_) or n_taken > size * MAX_LOAD:
            raise BrokenInvariant(f"{n_taken} of {size} places taken, {len(filter_)} counted")
        filter_._bind(places)
        return filter_

"""URL filters: sets of keys that forget none; loaded by name, dotted path or class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from scrapy_neardup.named_classes import load_class

if TYPE_CHECKING:
    from scrapy_neardup.kernels.numpy_twin import I64Array


class UrlFilter(Protocol):
    """A set of keys (key.py) that never forgets one and may, rarely, claim one too many.

    A key is bytes, or a str, which stands for its UTF-8.
    """

    layers: int
    error_rate: float
    max_bytes: int | None  # beyond which it does not grow; may be set at any time
    n_refused: int  # new keys that were not added, because the filter may not grow

    def __init__(
        self, capacity: int, error_rate: float, *, max_bytes: int | None = None
    ) -> None: ...

    def add(self, key: str | bytes) -> bool:
        """Add a key; whether it was there already."""

    def add_reporting(self, key: str | bytes) -> int:
        """Add a key; 0 if it was there already, else the first layer that had not seen it.

        Layer 1 is the host, 2 host and first directory, …; `layers + 1` says that only the
        URL as a whole is new.
        """

    def add_many(self, keys: Sequence[str | bytes]) -> I64Array:
        """add_reporting for each key in turn; shape (n,)."""

    def __contains__(self, key: str | bytes) -> bool: ...

    def __len__(self) -> int:
        """Keys added, without repeats."""

    def merge(self, other: Self) -> None:
        """Add every key of another filter, which stays as it is.

        Raises SpecError unless both are of one class, made with the same parameters and seed.
        """

    def copy(self) -> Self:
        """A filter of its own with the same keys."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""

    @property
    def expected_error_rate(self) -> float:
        """At most this share of keys never added is claimed to be there, as of now."""

    @property
    def expected_lost(self) -> float:
        """At most this many added keys, on average, were taken for known when they were new."""

    @property
    def at_risk(self) -> bool:
        """Whether the filter is about to fill up and may not grow."""

    @property
    def saturated(self) -> bool:
        """Whether the filter is full and may not grow: new keys stay new, none is lost."""

    def check(self) -> None:
        """Every invariant, at any cost. Raises BrokenInvariant."""

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, for a snapshot; views, not copies. Holds the secret seed."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """The filter that arrays() described; takes read-only, memory-mapped arrays as they are."""


NAMES = {
    "layered": "scrapy_neardup.urls.filters.layered.LayeredBloomFilter",
    "exact": "scrapy_neardup.urls.filters.exact.ExactUrlFilter",
    "bloom": "scrapy_neardup.urls.filters.layered.BloomFilter",
}


def load_filter(name: str | type[UrlFilter]) -> type[UrlFilter]:
    """The class of a short name, a dotted path or itself. Raises SpecError for none of these."""
    if not isinstance(name, str):
        return name
    found: type[UrlFilter] = load_class("URL filter", name, NAMES)
    return found

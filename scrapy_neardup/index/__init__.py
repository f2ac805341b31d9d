"""Indexes: fingerprints → those within a distance; found by name, dotted path or class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from scrapy_neardup.named_classes import load_class

if TYPE_CHECKING:
    from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U64Array


class Matches(NamedTuple):
    """Ids ascending, without repeats, and how many bits each differs from the query."""

    ids: I64Array  # shape (n,)
    distances: I64Array  # shape (n,), bits


class BulkMatches(NamedTuple):
    """Matches of many queries: those of query i are [offsets[i] : offsets[i + 1]]."""

    offsets: I64Array  # shape (queries + 1,)
    ids: I64Array
    distances: I64Array


class Index(Protocol):
    """Which stored signatures differ from a query in at most `distance` bits (inclusive).

    Exact for every distance <= max_distance; DistanceTooLarge, naming the limit, above it.
    A signature of 64 bits is an int or a uint64; wider ones are ints, or rows of uint64
    words, least significant first. Ids are whole numbers from 0 to 2**32 - 2, given by the
    caller; one signature may be stored under several ids.
    """

    bits: int
    max_distance: int

    def add(self, fp: int, id: int) -> None:
        """Store a signature under an id."""

    def add_many(self, fps: U64Array, ids: I64Array) -> None:
        """Store many; shapes (n,) or (n, words), and (n,)."""

    def remove(self, fp: int, id: int) -> None:
        """Forget a signature stored under an id. Raises NotStored if it is not."""

    def remove_many(self, fps: U64Array, ids: I64Array) -> int:
        """Forget many; how many copies. Raises NotStored, naming the first that is not there,
        and then removes none."""

    def discard(self, fp: int, id: int) -> bool:
        """Forget a signature stored under an id if it is; whether it was."""

    def discard_many(self, fps: U64Array, ids: I64Array) -> int:
        """Forget those of many that are there; how many copies."""

    def holds_many(self, fps: U64Array, ids: I64Array) -> BoolArray:
        """Whether each signature is stored under its id; shape (n,)."""

    def first_within(self, fp: int, distance: int) -> int | None:
        """The smallest id within the distance, None where there is none."""

    def first_within_many(self, fps: U64Array, distance: int) -> I64Array:
        """The smallest id for each query, -1 where there is none; shape (n,)."""

    def all_within(self, fp: int, distance: int) -> Matches:
        """Every id within the distance. May raise ScanLimitReached."""

    def all_within_many(self, fps: U64Array, distance: int) -> BulkMatches:
        """Every id within the distance, for each query."""

    def __len__(self) -> int: ...

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""

    @property
    def largest_bucket(self) -> int:
        """The most entries that one step of a look-up compares."""

    def check(self) -> None:
        """Every invariant, at any cost. Raises BrokenInvariant."""

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, for a snapshot; views, not copies.

        One that is read-only will never change; the others are copied before the next change.
        """

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """The index that arrays() described; takes read-only, memory-mapped arrays as they are."""


NAMES = {
    "permuted": "scrapy_neardup.index.permuted.PermutedIndex",
    "slices": "scrapy_neardup.index.slices.SliceIndex",
    "scan": "scrapy_neardup.index.scan.ScanIndex",
}


def index_class(name: str | type[Index]) -> type[Index]:
    """The class of a short name, a dotted path or a class. Raises SpecError for none of these."""
    if not isinstance(name, str):
        return name
    found: type[Index] = load_class("index", name, NAMES)
    return found


def load_index(name: str | type[Index], **options: Any) -> Index:
    """An empty index of a short name, a dotted path or a class.

    options: what its class takes, such as blocks, distance and bits for "permuted".
    """
    return index_class(name)(**options)

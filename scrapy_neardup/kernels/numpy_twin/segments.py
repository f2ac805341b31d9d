"""What the two indexes have in common: signatures with ids, tombstones, and posting lists.

An index is a list of *segments*, as in a log-structured merge tree: one frozen `Segment`, whose
arrays never move, and memtables, which grow by appending. `hamming` and `slices` derive both
and say which lists a signature is in. Kernel functions take such a list as `segments`, memtables
included. A pair that is removed stays as a tombstone until the segments are frozen together.

A segment is used by one thread at a time for changes, by any number for queries.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.kernels.numpy_twin import I64Array, U8Array, U32Array, U64Array

NONE, LIMIT = -1, -2  # what stands for an id where none is near, where the scan limit is reached

Deal = Callable[[Callable[[int], None], Iterable[int]], None]  # does work on each of many items


def in_turn(work: Callable[[int], None], items: Iterable[int]) -> None:
    """Do work on each item, one after the other."""
    for item in items:
        work(item)


class Rows:
    """Signatures, their ids, and which of them are removed."""

    rows: U64Array  # shape (n, words)
    ids: U32Array  # shape (n,)
    tombstones: U8Array | None  # shape (n,) or longer, 1 where a pair is removed; None: nowhere

    def __len__(self) -> int:
        """Pairs, removed ones included."""
        n: int = self.ids.shape[0]
        return n

    def bury(self, slots: I64Array) -> int:
        """Put tombstones on slots, given without repeats; how many had none."""
        tombstones = self._writable()
        n = int(np.count_nonzero(tombstones[slots] == 0))
        tombstones[slots] = 1
        return n

    def _writable(self) -> U8Array:
        """The tombstones, copied first where they are a read-only map."""
        if self.tombstones is None:
            self.tombstones = np.zeros(len(self), dtype=np.uint8)
        elif not self.tombstones.flags.writeable:
            self.tombstones = self.tombstones.copy()
        return self.tombstones

    def there(self, slots: I64Array) -> I64Array:
        """Those of the slots that are not removed."""
        return slots if self.tombstones is None else slots[self.tombstones[slots] == 0]

    @abstractmethod
    def equal(self, rows: U64Array) -> Iterator[tuple[I64Array, I64Array]]:
        """(query, slot) of pairs that are there and have the signatures, each once, in pieces."""


class Frozen(Rows):
    """Arrays that never move, perhaps read-only maps: what the segments of both kinds share."""

    def __init__(self, arrays: Any) -> None:
        """arrays: a NamedTuple with at least rows and ids."""
        self.arrays, self.rows, self.ids = arrays, arrays.rows, arrays.ids
        self.tombstones = None

    @property
    def nbytes(self) -> int:
        tombstones = 0 if self.tombstones is None else self.tombstones.nbytes
        return tombstones + sum(int(array.nbytes) for array in self.arrays)


class Growing(Rows):
    """Room for `capacity` pairs, filled by appending: what the memtables of both kinds share.

    Instead of posting lists it keeps, for each pair, the number of its list in every table or
    slice: a look-up compares them all, so NumPy memtables are small.
    """

    def __init__(self, capacity: int, n_words: int, n_lists: int) -> None:
        self.capacity = capacity
        self._rows: U64Array = np.zeros((capacity, n_words), dtype=np.uint64)
        self._ids: U32Array = np.zeros(capacity, dtype=np.uint32)
        self._lists: U32Array = np.zeros((n_lists, capacity), dtype=np.uint32)
        self.tombstones = np.zeros(capacity, dtype=np.uint8)
        self._n = 0

    @abstractmethod
    def list_of(self, i: int, rows: U64Array) -> Any:
        """The list that each row is in, in table or slice i."""

    def add(self, signature: bytes, id: int) -> None:
        """Append one pair; there must be room."""
        self.add_many(row_of(signature), np.array([id], dtype=np.uint32))

    def add_many(self, rows: U64Array, ids: U32Array) -> None:
        """Append pairs; there must be room for all."""
        end = self._n + len(rows)
        self._rows[self._n : end] = rows
        self._ids[self._n : end] = ids
        for i in range(len(self._lists)):
            self._lists[i, self._n : end] = self.list_of(i, rows)
        self._n = end

    def __len__(self) -> int:
        """Pairs, removed ones included."""
        return self._n

    @property
    def rows(self) -> U64Array:  # type: ignore[override]
        return self._rows[: self._n]

    @property
    def ids(self) -> U32Array:  # type: ignore[override]
        return self._ids[: self._n]

    @property
    def lists(self) -> U32Array:
        """Of each table or slice, the list of every pair; shape (tables or slices, n)."""
        return self._lists[:, : self._n]

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        pair = 8 * self._rows.shape[1] + 4 + 1 + 4 * len(self._lists)
        return int(self._n * pair)

    @property
    def largest_bucket(self) -> int:
        """Pairs in the longest list."""
        if not self._n:
            return 0
        return max(int(np.bincount(own).max()) for own in self.lists)


def row_of(signature: bytes) -> U64Array:
    """A signature of little-endian bytes as rows, shape (1, words)."""
    return np.frombuffer(signature, dtype="<u8").reshape(1, -1)


def sorted_into(offsets: U32Array, lists: Any, n_bits: int) -> I64Array:
    """The order of rows by list, of 2**n_bits; fills in where each list starts, and the last ends.

    offsets: shape (2**n_bits + 1,), its first number 0.
    """
    np.cumsum(np.bincount(lists, minlength=1 << n_bits), out=offsets[1:])
    # NumPy sorts 16-bit keys by radix, wider ones by merging: five times slower.
    return np.argsort(lists.astype(np.uint16) if n_bits <= 16 else lists, kind="stable")


def ranges(starts: I64Array, lengths: I64Array) -> tuple[I64Array, I64Array]:
    """Every number of many ranges, and which range it belongs to."""
    owner = np.repeat(np.arange(len(starts)), lengths)
    ends = np.cumsum(lengths)
    return np.arange(len(owner)) + (starts - ends + lengths)[owner], owner


def smallest_each(ids: I64Array, distances: I64Array) -> tuple[I64Array, I64Array]:
    """Each id once, ascending, with its smallest distance."""
    order = np.lexsort((distances, ids))
    ids, distances = ids[order], distances[order]
    first = np.ones(len(ids), dtype=bool)
    first[1:] = ids[1:] != ids[:-1]
    return ids[first], distances[first]


def count_many(segments: Sequence[Rows], rows: U64Array, ids: U32Array) -> I64Array:
    """How many copies there are of each pair. O(list) each."""
    counts = np.zeros(len(rows), dtype=np.int64)
    for segment in segments:
        for query, slot in segment.equal(rows):
            np.add.at(counts, query[segment.ids[slot] == ids[query]], 1)
    return counts


def remove_many(segments: Sequence[Rows], rows: U64Array, ids: U32Array) -> int:
    """Remove every copy of the pairs; how many there were. O(list) each."""
    n = 0
    for segment in segments:
        equal = segment.equal(rows)
        found = [slot[segment.ids[slot] == ids[query]] for query, slot in equal]
        if found:
            n += segment.bury(np.unique(np.concatenate(found)))
    return n


def expire(segment: Rows, before: int) -> int:
    """Remove every id below `before`; how many pairs there were. O(n)."""
    return segment.bury(np.flatnonzero(segment.ids < before))


def demand(holds: Any, what: str) -> None:
    """Raise BrokenInvariant, saying what does not fit the rows, unless it holds."""
    if not holds:
        raise BrokenInvariant(f"{what} do not fit the rows")


def check_lists(offsets: U32Array, slots: I64Array, own: Any, n: int, what: str) -> None:
    """Every slot from 0 to n - 1 is in the list it belongs to. Raises BrokenInvariant.

    offsets: where each list starts in `slots`, and the last one ends; own: the list that each
    of `slots` belongs to.
    """
    starts = offsets.astype(np.int64)
    lengths = np.diff(starts)
    demand(np.array_equal(np.sort(slots), np.arange(n)), f"{what}: slots")
    demand(starts[0] == 0 and starts[-1] == n and (lengths >= 0).all(), f"{what}: offsets")
    demand(np.array_equal(own, np.repeat(np.arange(len(lengths)), lengths)), f"{what}: lists")

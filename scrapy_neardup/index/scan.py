"""Exact brute force: every stored signature is compared; the oracle of all other indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from scrapy_neardup.errors import BrokenInvariant, ScanLimitReached
from scrapy_neardup.index import BulkMatches, Matches
from scrapy_neardup.index.inputs import (
    MAX_ID,
    check_bits,
    check_distance,
    checked_id,
    ids_of,
    rows_of,
)
from scrapy_neardup.index.removal import Removal
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U32Array, U64Array
from scrapy_neardup.stored_arrays import check_arrays, check_below


class ScanIndex(Removal):
    """Compares the query with everything; exact at every distance.

    add is O(1), everything else O(n): about 1 ms for a million signatures of 64 bits.
    scan_limit: how many signatures a query may be compared with, None for any number;
    ScanLimitReached beyond. Plain NumPy on purpose, so that it shares no code with the
    structures it is the oracle of.
    """

    def __init__(self, bits: int = 64, scan_limit: int | None = None) -> None:
        check_bits(bits)
        self.bits = bits
        self.max_distance = bits
        self.scan_limit = scan_limit
        self._rows: U64Array = np.zeros((0, bits // 64), dtype=np.uint64)
        self._ids: U32Array = np.zeros(0, dtype=np.uint32)
        self._n = 0

    def add(self, fp: int, id: int) -> None:
        self._append(self._row(fp), np.array([checked_id(id)], dtype=np.uint32))

    def add_many(self, fps: U64Array, ids: I64Array) -> None:
        rows = rows_of(fps, self.bits)
        self._append(rows, ids_of(ids, len(rows)))

    def holds_many(self, fps: U64Array, ids: I64Array) -> BoolArray:
        return np.array([own.any() for own in self._copies(fps, ids)], dtype=bool)

    def discard_many(self, fps: U64Array, ids: I64Array) -> int:
        before = self._n
        for own in self._copies(fps, ids):
            self._keep(~own)
        return before - self._n

    def _copies(self, fps: U64Array, ids: I64Array) -> Iterator[BoolArray]:
        """Where each of many pairs is stored."""
        rows = rows_of(fps, self.bits)
        for row, id in zip(rows, ids_of(ids, len(rows)), strict=True):
            yield (self.ids == id) & (self.rows == row).all(axis=1)

    def expire(self, before: int) -> int:
        """Forget every id below `before`; how many pairs there were."""
        n = self._n
        self._keep(self.ids >= before)
        return n - self._n

    def first_within(self, fp: int, distance: int) -> int | None:
        ids = self.all_within(fp, distance).ids
        return int(ids[0]) if len(ids) else None

    def first_within_many(self, fps: U64Array, distance: int) -> I64Array:
        found = [self._matches(row, distance).ids for row in rows_of(fps, self.bits)]
        return np.array([ids[0] if len(ids) else -1 for ids in found], dtype=np.int64)

    def all_within(self, fp: int, distance: int) -> Matches:
        return self._matches(self._row(fp)[0], distance)

    def nearest(self, signature: int, n: int) -> Matches:
        """The n nearest ids, nearest first, then by id."""
        ids, distances = self.all_within(signature, self.bits)
        order = np.lexsort((ids, distances))[:n]
        return Matches(ids[order], distances[order])

    def all_within_many(self, fps: U64Array, distance: int) -> BulkMatches:
        found = [self._matches(row, distance) for row in rows_of(fps, self.bits)]
        none = Matches(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        offsets = np.cumsum([0, *(len(m.ids) for m in found)], dtype=np.int64)
        ids, distances = (np.concatenate(columns) for columns in zip(none, *found, strict=True))
        return BulkMatches(offsets, ids, distances)

    def _matches(self, row: U64Array, distance: int) -> Matches:
        check_distance(distance, self.max_distance, "lower the distance")
        if self.scan_limit is not None and self._n > self.scan_limit:
            raise ScanLimitReached(
                f"{self._n} signatures to compare, scan_limit={self.scan_limit}: raise the limit "
                "or take the permuted index"
            )
        bits = np.bitwise_count(self.rows ^ row).sum(axis=1, dtype=np.int64)
        near = np.flatnonzero(bits <= distance)
        ids, bits = self.ids[near].astype(np.int64), bits[near]
        order = np.lexsort((bits, ids))
        ids, bits = ids[order], bits[order]
        first = np.ones(len(ids), dtype=bool)
        first[1:] = ids[1:] != ids[:-1]
        return Matches(ids[first], bits[first])

    @property
    def rows(self) -> U64Array:
        """What is stored, shape (len, words); a view."""
        return self._rows[: self._n]

    @property
    def ids(self) -> U32Array:
        """The id of each row; a view."""
        return self._ids[: self._n]

    def _append(self, rows: U64Array, ids: U32Array) -> None:
        end = self._n + len(rows)
        if end > len(self._ids) or not self._rows.flags.writeable:
            room = max(end, 2 * self._n, 64)
            self._rows = np.resize(self.rows, (room, self.bits // 64))
            self._ids = np.resize(self.ids, room)
        self._rows[self._n : end] = rows
        self._ids[self._n : end] = ids
        self._n = end

    def _keep(self, kept: Any) -> None:
        self._rows, self._ids = self.rows[kept], self.ids[kept]
        self._n = len(self._ids)

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._ids.nbytes

    @property
    def largest_bucket(self) -> int:
        """The most signatures that one look-up compares in one go: all of them."""
        return self._n

    def check(self) -> None:
        if self._rows.shape != (len(self._ids), self.bits // 64) or self._n > len(self._ids):
            raise BrokenInvariant(
                f"scan index: {self._n} pairs in rows {self._rows.shape}, ids {self._ids.shape}"
            )

    def arrays(self) -> dict[str, Any]:
        return {"rows": self.rows, "ids": self.ids}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        check_arrays("scan index", arrays, {"rows": (np.uint64, (None, None))})
        rows, ids = arrays["rows"], arrays["ids"]
        check_arrays("scan index", arrays, {"ids": (np.uint32, (len(rows),))})
        check_below("scan index, ids", ids, MAX_ID + 1)
        index = cls(bits=64 * rows.shape[1])
        index._rows, index._ids, index._n = rows, ids, len(ids)
        return index

"""What the indexes over tiers have in common: every change, what they hold, how they are kept."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np

from scrapy_neardup.errors import BrokenInvariant, SpecError
from scrapy_neardup.index.inputs import checked_id, ids_of, rows_of, signature_bytes
from scrapy_neardup.index.removal import Removal
from scrapy_neardup.index.tiers import Tiers
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U32Array, U64Array


class TieredIndex(Removal, Protocol):
    """An index whose pairs are in tiers; how they are looked up is its own affair."""

    layout: Any
    _tiers: Tiers

    def _identity(self) -> I64Array: ...

    def add(self, fp: int, id: int) -> None:
        self._tiers.add(signature_bytes(fp, self.bits), checked_id(id))

    def add_many(self, fps: U64Array, ids: I64Array) -> None:
        rows = rows_of(fps, self.bits)
        self._tiers.add_many(rows, ids_of(ids, len(rows)))

    def holds_many(self, fps: U64Array, ids: I64Array) -> BoolArray:
        rows = rows_of(fps, self.bits)
        return self._tiers.hold_many(rows, ids_of(ids, len(rows)))

    def discard_many(self, fps: U64Array, ids: I64Array) -> int:
        rows = rows_of(fps, self.bits)
        return self._tiers.remove_many(rows, ids_of(ids, len(rows)))

    def expire(self, before: int) -> int:
        """Forget every id below `before`; how many pairs there were. O(n)."""
        return self._tiers.expire(before)

    def merge(self, other: Self) -> None:
        """Take in every pair of another index. Raises SpecError unless the layouts are equal."""
        if self.layout != other.layout:
            raise SpecError(f"merge: {other.layout} is not {self.layout}")
        self._tiers.add_many(*other._tiers.pairs())

    def compact(self) -> None:
        """Freeze everything now, dropping what was removed; O(n) for each table or slice."""
        self._tiers.compact()

    def pairs(self) -> tuple[U64Array, U32Array]:
        """Every signature, shape (n, words), and its id; fresh arrays, order unspecified."""
        return self._tiers.pairs()

    def __len__(self) -> int:
        return len(self._tiers)

    @property
    def nbytes(self) -> int:
        return self._tiers.nbytes

    @property
    def largest_bucket(self) -> int:
        """Entries of the fullest bucket, or the longest list, of any tier."""
        return self._tiers.largest_bucket

    def check(self) -> None:
        tiers = self._tiers
        for tier in tiers.all:
            tiers.area.check(tier)
        if len(tiers.pairs().ids) != len(tiers):
            raise BrokenInvariant(f"{len(tiers.pairs().ids)} pairs, counted as {len(tiers)}")

    def arrays(self) -> dict[str, Any]:
        frozen, unfrozen = self._tiers.frozen, self._tiers.unfrozen()
        nothing = np.zeros(0, dtype=np.uint8)
        return {
            "layout": self._identity(),
            "removed": nothing if frozen.removed is None else frozen.removed,
            "live_rows": unfrozen.rows,
            "live_ids": unfrozen.ids,
            **self._tiers.frozen_parts(),
        }

    def _open(self, frozen: Any, arrays: dict[str, Any]) -> None:
        """Start from the frozen tier and what else arrays() described."""
        if len(arrays["removed"]):
            frozen.removed = arrays["removed"]
        self._start(frozen)
        self._tiers.add_many(arrays["live_rows"], arrays["live_ids"])

    def _start(self, frozen: Any) -> None: ...

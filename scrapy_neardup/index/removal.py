"""Removing pairs from an index: all of them or none, or whatever is there; as in sets."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from scrapy_neardup.errors import NotStored
from scrapy_neardup.index.inputs import checked_id, rows_of, signature_bytes
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U64Array


class Removal(Protocol):
    """What an index inherits that can say which pairs it holds and discard pairs."""

    bits: int

    def holds_many(self, fps: U64Array, ids: I64Array) -> BoolArray: ...
    def discard_many(self, fps: U64Array, ids: I64Array) -> int: ...

    def remove(self, fp: int, id: int) -> None:
        self.remove_many(self._row(fp), np.array([checked_id(id)]))

    def remove_many(self, fps: U64Array, ids: I64Array) -> int:
        held = self.holds_many(fps, ids)
        if not held.all():
            self._refuse(fps, ids, held)
        return self.discard_many(fps, ids)

    def discard(self, fp: int, id: int) -> bool:
        return self.discard_many(self._row(fp), np.array([checked_id(id)])) > 0

    def _refuse(self, fps: U64Array, ids: I64Array, held: BoolArray) -> None:
        missing = np.flatnonzero(~held)
        row = rows_of(fps, self.bits)[missing[0]]
        signature = int.from_bytes(row.tobytes(), "little")
        raise NotStored(
            f"signature {signature:#x} is not stored under id {np.asarray(ids)[missing[0]]}; "
            f"{len(missing)} of {len(held)} pairs to remove are not there, the first at "
            f"{missing[0]}: nothing was removed; discard_many passes over what is not there"
        )

    def _row(self, fp: int) -> U64Array:
        return np.frombuffer(signature_bytes(fp, self.bits), dtype="<u8").reshape(1, -1)

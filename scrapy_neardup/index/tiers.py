"""Frozen, sealed and live: where an index's pairs are, and how they move without stopping it.

New pairs go to the live tier. When that is full it is sealed, a new one starts, and a thread
freezes frozen and sealed together; the caller's next change adopts the result. Queries ask all
tiers, so they see the same pairs before, during and after.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.index.parallel import on_all_cores
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U32Array, U64Array

Freeze = Callable[..., Any]  # of rows and ids, and perhaps of how to run work on many items
MakeLive = Callable[[int], Any]


class Pairs(NamedTuple):
    """Signatures and the id of each."""

    rows: U64Array  # shape (n, words)
    ids: U32Array  # shape (n,)


class Tiers:
    """One frozen tier, at most one sealed, one live; changed by one thread at a time."""

    def __init__(self, area: Any, frozen: Any, freeze: Freeze, make_live: MakeLive) -> None:
        """area: the kernels that the tiers belong to, kernels.hamming or kernels.slices."""
        self.area, self._freeze, self._make_live = area, freeze, make_live
        self._freezing: Future[Any] | None = None
        self._changes: list[Callable[[Any], int]] = []  # made to frozen and sealed meanwhile
        self._start(frozen)

    def _start(self, frozen: Any) -> None:
        self.frozen, self.sealed = frozen, None
        self.live = self._make_live(len(frozen))
        self._n = alive_in(frozen)
        self.all = [self.frozen, self.live]

    def add(self, signature: bytes, id: int) -> None:
        """Append one pair; O(tables), now and then the start of a thread."""
        if self._freezing:
            self._adopt()
        if len(self.live) == self.live.capacity:
            self._seal()
        self.live.add(signature, id)
        self._n += 1

    def add_many(self, rows: U64Array, ids: U32Array) -> None:
        """Append pairs; as many as a live tier holds are frozen at once, before it returns."""
        if len(rows) >= self.live.capacity:
            here = self.pairs()
            pairs = Pairs(np.concatenate([here.rows, rows]), np.concatenate([here.ids, ids]))
            self._abandon()
            self._start(self._freeze(*pairs, on_all_cores))
            return
        self._adopt()
        room = self.live.capacity - len(self.live)
        self.live.add_many(rows[:room], ids[:room])
        if room < len(rows):
            self._seal()
            self.live.add_many(rows[room:], ids[room:])
        self._n += len(rows)

    def hold_many(self, rows: U64Array, ids: U32Array) -> BoolArray:
        """Whether each pair is there."""
        held: BoolArray = self.area.count_many(self.all, rows, ids) > 0
        return held

    def remove_many(self, rows: U64Array, ids: U32Array) -> int:
        """Forget every copy of the pairs; how many there were."""
        self._adopt()
        return self._change(lambda tier: self.area.remove_many([tier], rows, ids))

    def expire(self, before: int) -> int:
        """Forget every id below `before`; how many pairs there were. O(n)."""
        self._adopt()
        return self._change(lambda tier: self.area.expire(tier, before))

    def _change(self, change: Callable[[Any], int]) -> int:
        if self._freezing:
            self._changes.append(change)
        n = sum(change(tier) for tier in self.all)
        self._n -= n
        return n

    def _seal(self) -> None:
        self._adopt(wait=True)
        self.sealed = self.live
        old = [self.frozen, self.sealed]
        self.live = self._make_live(sum(len(tier) for tier in old))
        self.all = [*old, self.live]
        thread = ThreadPoolExecutor(1, thread_name_prefix="neardup-index")
        self._freezing = thread.submit(lambda: self._freeze(*pairs_of(old)))
        thread.shutdown(wait=False)

    def _adopt(self, wait: bool = False) -> None:
        if not self._freezing or not (wait or self._freezing.done()):
            return
        self.frozen, self.sealed, self._freezing = self._freezing.result(), None, None
        for change in self._changes:
            change(self.frozen)
        self._changes = []
        self.all = [self.frozen, self.live]

    def _abandon(self) -> None:
        """Let a running freeze end, and forget its result."""
        if self._freezing:
            self._freezing.result()
        self._freezing, self._changes = None, []

    def compact(self) -> None:
        """Freeze everything now, dropping what was removed; O(tables x n)."""
        pairs = self.pairs()
        self._abandon()
        self._start(self._freeze(*pairs, on_all_cores))

    def pairs(self) -> Pairs:
        """Every pair that is there; fresh arrays, order unspecified."""
        return pairs_of(self.all)

    def unfrozen(self) -> Pairs:
        """The pairs that no frozen tier holds yet; fresh arrays."""
        return pairs_of(self.all[1:])

    def frozen_parts(self) -> dict[str, Any]:
        """The frozen tier's arrays but for `removed`, read-only: nobody will write to them."""
        parts = {name: part[:] for name, part in self.frozen.parts._asdict().items()}
        for part in parts.values():
            part.flags.writeable = False
        return parts

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        return sum(int(tier.nbytes) for tier in self.all)

    @property
    def largest_bucket(self) -> int:
        return max(int(tier.largest_bucket) for tier in self.all)


def alive(tier: Any) -> I64Array:
    """The slots of pairs that were not removed."""
    if tier.removed is None:
        return np.arange(len(tier))
    return np.flatnonzero(tier.removed[: len(tier)] == 0)


def alive_in(tier: Any) -> int:
    """How many pairs of a tier were not removed."""
    gone = 0 if tier.removed is None else int(np.count_nonzero(tier.removed[: len(tier)]))
    return len(tier) - gone


def pairs_of(tiers: list[Any]) -> Pairs:
    """Every pair of some tiers that was not removed."""
    kept = [(tier, alive(tier)) for tier in tiers]
    rows = np.concatenate([tier.rows[slots] for tier, slots in kept])
    return Pairs(rows, np.concatenate([tier.ids[slots] for tier, slots in kept]))

"""Where an index's pairs are, and how they move without stopping it: a log-structured merge tree.

New pairs go to the memtable. When it is full it becomes the immutable memtable, a new one
starts, and a thread freezes the segment and the immutable memtable into a new segment; the
caller's next change adopts the result. Queries ask all of them, so they see the same pairs
before, during and after. A removed pair stays as a tombstone until it would be frozen again.

    add ─▶ memtable ─ full ─▶ immutable memtable ─┐
                                        segment ──┴─ frozen by a thread ─▶ segment
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from scrapy_neardup.errors import BrokenInvariant, SpecError
from scrapy_neardup.index.inputs import checked_id, ids_of, rows_of, signature_bytes
from scrapy_neardup.index.parallel import on_all_cores
from scrapy_neardup.index.removal import Removal
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U32Array, U64Array
from scrapy_neardup.stored_arrays import Joined, grown_with, whole

Freeze = Callable[..., Any]  # of rows and ids, and perhaps of how to deal out work
MakeMemtable = Callable[[int], Any]  # of how many pairs are frozen


class Stored(NamedTuple):
    """Signatures and the id of each."""

    rows: U64Array  # shape (n, words)
    ids: U32Array  # shape (n,)


class Bucket(NamedTuple):
    """The fullest bucket of a segment when it held so many pairs."""

    segment: Any
    n_pairs: int
    n_entries: int


class SegmentStore:
    """One segment, at most one immutable memtable, one memtable; changed by one thread at a time.

    A memtable that could not be frozen, as there was no memory for it, stays beside them until the
    next one is.

    `all` is the list that queries ask. It is replaced, never changed: a query in another thread
    goes on with the list it took.
    """

    def __init__(
        self, kernel: Any, segment: Any, freeze: Freeze, make_memtable: MakeMemtable
    ) -> None:
        """kernel: where the segments come from, kernels.hamming or kernels.slices."""
        self.kernel, self._freeze, self._make_memtable = kernel, freeze, make_memtable
        self._freezing: Future[Any] | None = None
        self._removals: list[Callable[[Any], int]] = []  # made while a thread was freezing
        self._is_outdated = False  # the next change is to start a thread that freezes
        self._start(segment)

    def _start(self, segment: Any) -> None:
        self.segment = segment
        self._version = object()  # of the segment
        self._buckets: list[Bucket] = []  # as last asked for; refers to no segment that has gone
        self.memtable = self._make_memtable(len(segment))
        self._n = n_there(segment)
        self.all = [self.segment, self.memtable]

    def add(self, signature: bytes, id: int) -> None:
        """Append one pair; O(tables), now and then the start of a thread."""
        if self._freezing:
            self._adopt()
        if self._is_outdated or len(self.memtable) == self.memtable.capacity:
            self._rotate()
        self.memtable.add(signature, id)
        self._n += 1

    def add_many(self, rows: U64Array, ids: U32Array) -> None:
        """Append pairs; as many as a memtable holds are frozen at once, before it returns."""
        if len(rows) >= self.memtable.capacity:
            here = self.pairs()
            self._restart(np.concatenate([here.rows, rows]), np.concatenate([here.ids, ids]))
            return
        self._adopt()
        if self._is_outdated:
            self._rotate()
        room = self.memtable.capacity - len(self.memtable)
        self.memtable.add_many(rows[:room], ids[:room])
        if room < len(rows):
            self._rotate()
            self.memtable.add_many(rows[room:], ids[room:])
        self._n += len(rows)

    def hold_many(self, rows: U64Array, ids: U32Array) -> BoolArray:
        """Whether each pair is there."""
        held: BoolArray = self.kernel.count_many(self.all, rows, ids) > 0
        return held

    def remove_many(self, rows: U64Array, ids: U32Array) -> int:
        """Remove every copy of the pairs; how many there were."""
        self._adopt()
        return self._remove(lambda segment: self.kernel.remove_many([segment], rows, ids))

    def expire(self, before: int) -> int:
        """Remove every id below `before`; how many pairs there were. O(n)."""
        self._adopt()
        return self._remove(lambda segment: self.kernel.expire(segment, before))

    def _remove(self, removal: Callable[[Any], int]) -> int:
        # The thread copied the pairs it freezes before this: what it makes has to be told.
        if self._freezing:
            self._removals.append(removal)
        n = sum(removal(segment) for segment in self.all)
        self._n -= n
        return n

    def freeze_soon(self) -> None:
        """Freeze everything anew at the next change, in a thread, however few pairs are new."""
        self._is_outdated = True

    def _rotate(self) -> None:
        """Start a new memtable, and a thread that freezes the full one."""
        self._adopt(wait=True)  # so that there is one immutable memtable at most
        self._is_outdated = False
        old = self.all  # with the memtables that could not be frozen
        self.memtable = self._make_memtable(sum(len(segment) for segment in old))
        self.all = [*old, self.memtable]
        thread = ThreadPoolExecutor(1, thread_name_prefix="neardup-index")
        self._freezing = thread.submit(lambda: self._freeze(*pairs_of(old)))
        thread.shutdown(wait=False)

    def _adopt(self, wait: bool = False) -> None:
        """Take over what a thread has frozen, if it is done.

        Raises what the thread raised, MemoryError for one, once. Then all pairs stay where they
        are, and the next full memtable is frozen with them.
        """
        if not self._freezing or not (wait or self._freezing.done()):
            return
        freezing, removals = self._freezing, self._removals
        self._freezing, self._removals = None, []
        self.segment = freezing.result()
        self._version, self._buckets = object(), []
        for removal in removals:
            removal(self.segment)
        self.all = [self.segment, self.memtable]

    def _restart(self, rows: U64Array, ids: U32Array) -> None:
        """Freeze these pairs, which are all there are, in place of what is held."""
        if self._freezing:
            self._freezing.exception()  # let it end; its result is not needed
        self._freezing, self._removals, self._is_outdated = None, [], False
        self._start(self._freeze(rows, ids, on_all_cores))

    def compact(self) -> None:
        """Freeze everything now, dropping what was removed; O(tables x n)."""
        self._restart(*self.pairs())

    def pairs(self) -> Stored:
        """Every pair that is there; fresh arrays, order unspecified."""
        return pairs_of(self.all)

    def grows_with(self, told: object) -> None:
        """The segment is that of a file, of whose arrays `told` tells; see Joined."""
        self._version = told

    def arrays(self) -> dict[str, Any]:
        """Everything, for a file; without a copy but of tombstones.

        What is Joined grows with the segment: its own arrays, and memtables, to which pairs are
        only added until they are frozen, too.
        """
        parts = {name: (array,) for name, array in self.segment.arrays._asdict().items()}
        memtables = self.all[1:]
        parts["live_rows"] = tuple(memtable.rows for memtable in memtables)
        parts["live_ids"] = tuple(memtable.ids for memtable in memtables)
        removed = [memtable.tombstones[: len(memtable)] for memtable in memtables]
        tombstones = self.segment.tombstones
        return {
            "removed": np.zeros(0, dtype=np.uint8) if tombstones is None else tombstones,
            "live_removed": np.concatenate(removed),
            **{name: Joined(found, self._version) for name, found in parts.items()},
        }

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        return sum(int(segment.nbytes) for segment in self.all)

    @property
    def largest_bucket(self) -> int:
        # A memtable goes through all its pairs for it: once for each number of pairs, not for
        # each look-up that exceeds the scan limit.
        self._buckets = [self._fullest(segment) for segment in self.all]
        return max(bucket.n_entries for bucket in self._buckets)

    def _fullest(self, segment: Any) -> Bucket:
        n_pairs = len(segment)
        for known in self._buckets:
            if known.segment is segment and known.n_pairs == n_pairs:
                return known
        return Bucket(segment, n_pairs, int(segment.largest_bucket))


def slots_there(segment: Any) -> I64Array:
    """The slots of pairs that were not removed."""
    if segment.tombstones is None:
        return np.arange(len(segment))
    return np.flatnonzero(segment.tombstones[: len(segment)] == 0)


def n_there(segment: Any) -> int:
    """How many pairs were not removed."""
    tombstones = segment.tombstones
    gone = 0 if tombstones is None else int(np.count_nonzero(tombstones[: len(segment)]))
    return len(segment) - gone


def pairs_of(segments: list[Any]) -> Stored:
    """Every pair of some segments that was not removed."""
    kept = [(segment, slots_there(segment)) for segment in segments]
    rows = np.concatenate([segment.rows[slots] for segment, slots in kept])
    return Stored(rows, np.concatenate([segment.ids[slots] for segment, slots in kept]))


class SegmentedIndex(Removal, Protocol):
    """An index whose pairs are in segments; how they are looked up is its own affair."""

    layout: Any
    _store: SegmentStore

    def _identity(self) -> I64Array: ...

    def add(self, fp: int, id: int) -> None:
        self._store.add(signature_bytes(fp, self.bits), checked_id(id))

    def add_many(self, fps: U64Array, ids: I64Array) -> None:
        rows = rows_of(fps, self.bits)
        self._store.add_many(rows, ids_of(ids, len(rows)))

    def holds_many(self, fps: U64Array, ids: I64Array) -> BoolArray:
        rows = rows_of(fps, self.bits)
        return self._store.hold_many(rows, ids_of(ids, len(rows)))

    def discard_many(self, fps: U64Array, ids: I64Array) -> int:
        rows = rows_of(fps, self.bits)
        return self._store.remove_many(rows, ids_of(ids, len(rows)))

    def expire(self, before: int) -> int:
        """Forget every id below `before`; how many pairs there were. O(n)."""
        return self._store.expire(before)

    def merge(self, other: Self) -> None:
        """Take in every pair of another index. Raises SpecError unless the layouts are equal."""
        if self.layout != other.layout:
            raise SpecError(f"merge: {other.layout} is not {self.layout}")
        self._store.add_many(*other._store.pairs())

    def compact(self) -> None:
        """Freeze everything now, dropping what was removed; O(n) for each table or slice."""
        self._store.compact()

    def pairs(self) -> tuple[U64Array, U32Array]:
        """Every signature, shape (n, words), and its id; fresh arrays, order unspecified."""
        return self._store.pairs()

    def __len__(self) -> int:
        return len(self._store)

    @property
    def nbytes(self) -> int:
        return self._store.nbytes

    @property
    def largest_bucket(self) -> int:
        """Entries of the fullest bucket, or the longest list, of any segment."""
        return self._store.largest_bucket

    def check(self) -> None:
        for segment in self._store.all:
            self._store.kernel.check(segment)
        found = len(self._store.pairs().ids)
        if found != len(self):
            raise BrokenInvariant(f"{found} pairs, counted as {len(self)}")

    def arrays(self) -> dict[str, Any]:
        # The names are those of the first snapshots: `removed` are tombstones, `live_…` the
        # pairs of memtables.
        return {"layout": self._identity(), **self._store.arrays()}

    def _open(self, segment: Any, arrays: dict[str, Any]) -> None:
        """Start from the segment and what else arrays() described."""
        if len(arrays["removed"]):
            segment.tombstones = arrays["removed"]
        self._start(segment)
        kept = arrays["live_removed"] == 0
        if kept.all():  # all pairs stand where they stood: what a file holds of them is as it was
            self._store.grows_with(grown_with(arrays))
        self._store.add_many(whole(arrays["live_rows"])[kept], whole(arrays["live_ids"])[kept])

    def _start(self, segment: Any) -> None: ...

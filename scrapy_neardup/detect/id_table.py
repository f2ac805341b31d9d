"""64-bit keys → ids: a hash table that grows without moving what is in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from scrapy_neardup.errors import SnapshotError
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.stored_arrays import Joined, check_arrays, check_below, span, whole

FIRST_SLOTS, GROWTH, MAX_SLOTS = 1 << 10, 4, 1 << 20  # of a part; how much larger the next one is
LOWER_HALF = 2**32 - 1
WHOLE_ARRAYS = {"full": "<u4", "older": "<u4", "entries": "<u8", "heads": "<u4"}


class Part(NamedTuple):
    """A hash table with room for as many entries as it has slots, in chains.

    Entries are numbered from 1 in the order in which they came; 0 is none.

    heads    of each slot, the low bits of a key: its newest entry; shape (slots,)
    older    of each entry: the one before it in the same slot; shape (slots,)
    entries  the upper half of the key and the id in the lower; shape (slots,)
    """

    heads: Any
    older: Any
    entries: Any

    @classmethod
    def of_slots(cls, n: int) -> Self:
        """One without entries."""
        return cls(np.zeros(n, "<u4"), np.zeros(n, "<u4"), np.zeros(n, "<u8"))


class IdTable:
    """64-bit keys → 32-bit ids, in parts of which only the last one takes more.

    A part that is full is never changed again, and no part has more than MAX_SLOTS slots. So adding
    never moves anything, saving copies the heads of one part, and a look-up asks each part:
    six at a million ids, 15 at ten million. 16 bytes an id. Of a key its low bits and its upper
    half are compared: the caller compares the rest of what it stands for.
    """

    def __init__(self) -> None:
        self._parts = [Part.of_slots(FIRST_SLOTS)]
        self._n = 0  # entries of the last part

    def candidates(self, key: int) -> Iterator[int]:
        """Every id that was put under the key, the newest first, and hardly ever others."""
        upper = key >> 32
        for heads, older, entries in reversed(self._parts):
            number = heads.item(key & (len(heads) - 1))
            while number:
                entry = entries.item(number - 1)
                if entry >> 32 == upper:
                    yield entry & LOWER_HALF
                number = older.item(number - 1)

    def put(self, key: int, id: int) -> None:
        """Store an id under a key. O(1)."""
        n, n_slots = self._n, len(self._parts[-1].heads)
        if n == n_slots:
            self._begin_part()
            n, n_slots = 0, len(self._parts[-1].heads)
        heads, older, entries = self._parts[-1]
        slot = key & (n_slots - 1)
        older[n] = heads[slot]
        entries[n] = key & ~LOWER_HALF | id
        self._n = heads[slot] = n + 1

    def _begin_part(self) -> None:
        n_slots = len(self._parts[-1].heads)
        self._parts.append(Part.of_slots(min(GROWTH * n_slots, MAX_SLOTS)))
        self._n = 0

    def put_many(self, keys: U64Array, ids: I64Array) -> None:
        """Store ids under keys; shape (n,) each."""
        while len(keys):
            if self._n == len(self._parts[-1].heads):
                self._begin_part()
            room = len(self._parts[-1].heads) - self._n
            self._put_in_part(keys[:room], ids[:room])
            keys, ids = keys[room:], ids[room:]

    def _put_in_part(self, keys: U64Array, ids: I64Array) -> None:
        heads, older, entries = self._parts[-1]
        numbers = np.arange(self._n, self._n + len(keys), dtype=np.uint32) + 1
        slots = (keys & np.uint64(len(heads) - 1)).astype(np.int64)
        entries[self._n : self._n + len(keys)] = keys & ~np.uint64(LOWER_HALF) | ids.astype("<u8")
        # In the order of slots, each entry stands behind the older one of its slot.
        order = np.argsort(slots, kind="stable")
        before = np.zeros(len(keys), np.uint32)
        before[1:] = numbers[order[:-1]]
        first = np.ones(len(keys), bool)
        first[1:] = slots[order[1:]] != slots[order[:-1]]
        before[first] = heads[slots[order[first]]]
        older[numbers[order] - 1] = before
        heads[slots] = numbers  # of several for one slot, the last stays
        self._n += len(keys)

    def remove(self, key: int, id: int) -> None:
        """Take an id out if it came last to its slot, so that one that comes and goes leaves none.

        Any other stays: the caller knows which ids count.
        """
        heads, older, entries = self._parts[-1]
        slot = key & (len(heads) - 1)
        number = heads.item(slot)
        if number and entries.item(number - 1) == key & ~LOWER_HALF | id:
            heads[slot] = older[number - 1]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, spare room included."""
        return sum(array.nbytes for part in self._parts for array in part)

    def arrays(self, name: str, grows: object) -> dict[str, Any]:
        """The table as arrays whose names begin with `name`; see Joined for `grows`.

        full  heads of the parts that are full, one behind the other
        heads of the last one
        """
        *full, last = self._parts
        nothing = np.zeros(0, "<u4")
        found = {
            "full": Joined((nothing, *(part.heads for part in full)), grows),
            "older": Joined((*(part.older for part in full), last.older[: self._n]), grows),
            "entries": Joined((*(part.entries for part in full), last.entries[: self._n]), grows),
            "heads": last.heads,
        }
        return {f"{name}.{which}": array for which, array in found.items()}

    @classmethod
    def stored(cls, what: str, arrays: Mapping[str, Any], name: str, n: int) -> Self:
        """The table that arrays() described, of ids below n. Never writes to the arrays.

        O(table): after this no look-up leaves it or goes on for ever. Raises SnapshotError.
        """
        kinds = {f"{name}.{which}": (dtype, (None,)) for which, dtype in WHOLE_ARRAYS.items()}
        check_arrays(what, arrays, kinds)
        full, older, entries, heads = (arrays[key] for key in kinds)
        table = cls()
        table._parts, start, size = [], 0, FIRST_SLOTS
        while start + size < len(entries):
            ends = start, start + size
            part = Part(span(full, *ends), span(older, *ends), span(entries, *ends))
            _check(f"{what}, {name}", part, size, n)
            table._parts.append(part)
            start, size = start + size, min(GROWTH * size, MAX_SLOTS)
        if (len(full), len(older), len(heads)) != (start, len(entries), size):
            raise SnapshotError(f"{what}: {name} is no table of {len(entries)} entries")
        table._n = len(entries) - start
        table._parts.append(Part.of_slots(size))
        for own, found in zip(
            table._parts[-1], (whole(heads), span(older, start), span(entries, start)), strict=True
        ):
            own[: len(found)] = found
        _check(f"{what}, {name}", table._parts[-1], table._n, n)
        return table


def _check(what: str, part: Part, n_entries: int, n: int) -> None:
    """Raises SnapshotError unless chains are of entries there are, and end, and ids are below n."""
    if not len(part.heads) == len(part.older) == len(part.entries):
        raise SnapshotError(f"{what}: parts of different lengths")
    check_below(what, part.heads, n_entries + 1)
    check_below(what, part.entries[:n_entries] & np.uint64(LOWER_HALF), n)
    # Each entry's older one came before it: number 1 has none, number 2 that or 1, and so on.
    if (part.older[:n_entries] > np.arange(n_entries)).any():
        raise SnapshotError(f"{what}: an entry is older than itself")

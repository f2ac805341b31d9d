"""Arrays from a file, checked before anything relies on them: a checksum tells damage, not intent.

Each check is one pass over an array. Kernels do not look at bounds, so whatever they are given
has been through here: after these checks no look-up reads past an array or goes on for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scrapy_neardup.errors import SnapshotError

Shape = tuple[int | None, ...]  # None: of any length


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Arrays of one dtype, one behind the other: an array for a file, without a copy of it.

    parts  at least one; nobody writes to them
    grows  an object for several arrays together: while they come with the same one, rows were added
           to the end of each, and nothing else has changed. None: that is not known
    """

    parts: tuple[Any, ...]
    grows: object = None

    @property
    def dtype(self) -> Any:
        return self.parts[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.parts[0].shape[1:])

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.concatenate(self.parts).astype(dtype or self.dtype, copy=False)

    def behind(self, row: int) -> Joined:
        """The rows from one on."""
        left = []
        for part in self.parts:
            left.append(part[row:])
            row = max(0, row - len(part))
        return Joined(tuple(part for part in left if len(part)) or (left[-1],), self.grows)


def parts_of(array: Any) -> tuple[Any, ...]:
    """The arrays of which one consists."""
    return array.parts if isinstance(array, Joined) else (array,)


def is_frozen(array: Any) -> bool:
    """Whether nobody will write to an array that some arrays() gave."""
    return isinstance(array, Joined) or not array.flags.writeable


def whole(array: Any) -> Any:
    """An array in one piece; a copy if it is in several."""
    parts = parts_of(array)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def span(array: Any, start: int, end: int | None = None) -> Any:
    """Rows start to end (exclusive) in one piece; a copy if they straddle two parts."""
    end = len(array) if end is None else end
    found, at = [], 0
    for part in parts_of(array):
        if at + len(part) > start and at < end:
            found.append(part[max(0, start - at) : end - at])
        at += len(part)
    if not found:
        return parts_of(array)[0][:0]
    return found[0] if len(found) == 1 else np.concatenate(found)


def grown_with(arrays: Mapping[str, Any]) -> object:
    """What some arrays grow with; a new object where they do not say."""
    told = (a.grows for a in arrays.values() if isinstance(a, Joined) and a.grows is not None)
    return next(told, object())


def check_arrays(
    what: str, arrays: Mapping[str, Any], expected: Mapping[str, tuple[Any, Shape]]
) -> None:
    """Raises SnapshotError unless each array is there and has its dtype and shape."""
    for name, (dtype, shape) in expected.items():
        if name not in arrays:
            raise SnapshotError(f"{what}: array {name} is missing")
        found = arrays[name]
        parts = parts_of(found)
        fits = len(shape) == len(found.shape) and all(
            wanted in (None, n) for wanted, n in zip(shape, found.shape, strict=True)
        )
        fits = fits and all(
            part.dtype == np.dtype(dtype)
            and part.shape[1:] == found.shape[1:]
            and part.flags.c_contiguous
            for part in parts
        )
        if not fits:
            raise SnapshotError(
                f"{what}: array {name} is {found.dtype}{found.shape}, not {np.dtype(dtype)}{shape}"
            )


def check_below(what: str, numbers: Any, limit: int) -> None:
    """Raises SnapshotError unless whole numbers are from 0 to below the limit."""
    if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < limit:
        raise SnapshotError(
            f"{what}: numbers from {numbers.min()} to {numbers.max()}, not from 0 to below {limit}"
        )


def check_starts(what: str, starts: Any, end: int) -> None:
    """Raises SnapshotError unless where lists start begins with 0, ascends and ends with `end`.

    starts: whole numbers, shape (lists + 1,), or that of several tables, shape (tables, lists + 1).
    """
    begin_and_end = starts[..., :1] == 0, starts[..., -1:] == end
    if not starts.shape[-1] or not all(where.all() for where in begin_and_end):
        raise SnapshotError(f"{what}: lists do not reach from 0 to {end}")
    if (starts[..., 1:] < starts[..., :-1]).any():
        raise SnapshotError(f"{what}: a list ends before it starts")


def under(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays whose names begin with a prefix, without it."""
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}

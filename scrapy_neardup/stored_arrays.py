"""Arrays from a file, checked before anything relies on them: a checksum tells damage, not intent.

Each check is one pass over an array. Kernels do not look at bounds, so whatever they are given
has been through here: after these checks no look-up reads past an array or goes on for ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.errors import SnapshotError

Shape = tuple[int | None, ...]  # None: of any length


class Joined(NamedTuple):
    """Arrays of one dtype, one behind the other: an array for a file, without a copy of it."""

    parts: tuple[Any, ...]  # nobody writes to them

    @property
    def dtype(self) -> Any:
        return self.parts[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(len(part) for part in self.parts), *self.parts[0].shape[1:])


def is_frozen(array: Any) -> bool:
    """Whether nobody will write to an array that some arrays() gave."""
    return isinstance(array, Joined) or not array.flags.writeable


def whole(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays with those made that are in parts."""
    return {n: np.concatenate(a.parts) if isinstance(a, Joined) else a for n, a in arrays.items()}


def check_arrays(
    what: str, arrays: Mapping[str, Any], expected: Mapping[str, tuple[Any, Shape]]
) -> None:
    """Raises SnapshotError unless each array is there and has its dtype and shape."""
    for name, (dtype, shape) in expected.items():
        if name not in arrays:
            raise SnapshotError(f"{what}: array {name} is missing")
        found = arrays[name]
        fits = len(shape) == found.ndim and all(
            wanted in (None, n) for wanted, n in zip(shape, found.shape, strict=True)
        )
        if found.dtype != np.dtype(dtype) or not fits or not found.flags.c_contiguous:
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

"""What callers hand to an index, checked: signatures, ids, distances, a snapshot's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scrapy_neardup.errors import (
    DistanceTooLarge,
    IdError,
    SignatureError,
    SpecError,
)
from scrapy_neardup.kernels.numpy_twin import U32Array, U64Array
from scrapy_neardup.stored_arrays import check_arrays, check_below, whole

MAX_BITS = 1024
MAX_ID = 2**32 - 2


def check_bits(bits: int) -> None:
    """Raises SpecError unless bits is a width that rows of uint64 can hold."""
    if bits % 64 or not 64 <= bits <= MAX_BITS:
        raise SpecError(f"bits={bits}: take a multiple of 64 from 64 to {MAX_BITS}")


def check_distance(distance: int, limit: int, remedy: str) -> None:
    """Raises DistanceTooLarge unless 0 <= distance <= limit."""
    if not 0 <= distance <= limit:
        raise DistanceTooLarge(f"distance={distance}: exact from 0 to {limit} bits; {remedy}")


def signature_bytes(fp: Any, bits: int) -> bytes:
    """One signature, an int or a row of uint64 words, as little-endian bytes."""
    try:
        return fp.to_bytes(bits // 8, "little")  # type: ignore[no-any-return]
    except OverflowError:
        raise SignatureError(f"signature {fp}: take 0 to 2**{bits} - 1") from None
    except AttributeError:
        return rows_of(np.asarray(fp)[None], bits).tobytes()


def rows_of(fps: Any, bits: int) -> U64Array:
    """Signatures of shape (n,) or (n, words) as contiguous rows; copied only if they must be."""
    rows = np.asarray(fps)
    if not rows.size and rows.ndim <= 1:
        return np.zeros((0, bits // 64), dtype=np.uint64)
    if rows.dtype != np.uint64:
        raise SignatureError(f"signatures of dtype {rows.dtype}: take uint64")
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.shape[1] * 64 != bits:
        raise SignatureError(
            f"signatures of shape {np.shape(fps)}: this index takes {bits} bits, "
            f"shape (n, {bits // 64})"
        )
    return np.ascontiguousarray(rows)


def checked_id(id: int) -> int:
    """The id. Raises IdError unless it is a whole number from 0 to 2**32 - 2."""
    if not 0 <= id <= MAX_ID:
        raise IdError(f"id {id}: take 0 to {MAX_ID}")
    return id


def ids_of(ids: Any, n: int) -> U32Array:
    """One id for each of n signatures as uint32. Raises IdError."""
    wide = np.asarray(ids)
    if wide.shape != (n,):
        raise IdError(f"ids of shape {wide.shape} for {n} signatures: take one for each")
    if not n:
        return np.zeros(0, dtype=np.uint32)
    if wide.dtype.kind not in "iu":
        raise IdError(f"ids of dtype {wide.dtype}: take whole numbers")
    for id in (wide.min(), wide.max()):
        checked_id(int(id))
    return wide.astype(np.uint32)


def n_stored(what: str, arrays: Mapping[str, Any], n_words: int) -> int:
    """How many pairs a frozen segment in a snapshot holds; the rest of it has as many.

    Raises SnapshotError unless its rows, ids and tombstones, and the pairs of memtables, have
    their dtypes and shapes, and ids are below the largest.
    """
    pair = {"rows": (np.uint64, (None, n_words)), "ids": (np.uint32, (None,))}
    check_arrays(what, arrays, pair | {f"live_{name}": each for name, each in pair.items()})
    for rows, ids in (("rows", "ids"), ("live_rows", "live_ids")):
        check_arrays(what, arrays, {ids: (np.uint32, (len(arrays[rows]),))})
        check_below(f"{what}, {ids}", whole(arrays[ids]), MAX_ID + 1)
    check_arrays(what, arrays, {"live_removed": (np.uint8, (len(arrays["live_ids"]),))})
    n = len(arrays["ids"])
    n_marks = n if len(arrays["removed"].reshape(-1)) else 0  # none at all: nothing is removed
    check_arrays(what, arrays, {"removed": (np.uint8, (n_marks,))})
    return n

"""A snapshot: named arrays in one file, opened by mmap without a copy.

File: header (header.py) whose JSON lists each array's name, dtype, shape and digest, then the
arrays, each at a multiple of 64 bytes and filled up with zeros that its digest covers. The digest
is SHA-256, for which processors have instructions; the header's MAC makes it speak for the writer.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.errors import DamagedFile, SnapshotError
from scrapy_neardup.state.files import write_atomically
from scrapy_neardup.state.header import ALIGNMENT, Identity, damaged, pack_header, read_header
from scrapy_neardup.stored_arrays import Joined

Array = np.ndarray[Any, np.dtype[Any]]

MAGIC = b"NEARDUPS"
PLAIN_KINDS = "biufSU"  # No objects: their bytes would have to be run to be read.
PLAIN_DTYPE = re.compile(f"[<>|=][{PLAIN_KINDS}][1-9][0-9]{{0,5}}")
MAX_DIMENSIONS, MAX_LENGTH = 8, 2**48


class Snapshot(NamedTuple):
    """What a snapshot holds."""

    state: int  # the id of the state it is of
    identity: Identity
    arrays: dict[str, Array]


def write_snapshot(
    path: Path,
    identity: Identity,
    arrays: Mapping[str, Array | Joined],
    state: int = 0,
    key: int = 0,
) -> None:
    """Write arrays to a file, which appears whole or not at all; O(bytes).

    state: the id of the state that they are of. key: the folder's secret. Raises OSError where
    it cannot be written, TypeError for arrays of objects.
    """
    parts = {name: _parts(array) for name, array in arrays.items()}
    entries = [_entry(name, arrays[name].shape, plain) for name, plain in parts.items()]
    header = pack_header(MAGIC, identity, key, state=state, arrays=entries)
    write_atomically(path, _chunks(header, parts.values()))


def _parts(array: Array | Joined) -> list[Array]:
    parts = array.parts if isinstance(array, Joined) else [array]
    return [np.ascontiguousarray(part) for part in parts]


def _entry(name: str, shape: tuple[int, ...], parts: list[Array]) -> dict[str, Any]:
    dtype = parts[0].dtype
    if dtype.kind not in PLAIN_KINDS:
        raise TypeError(f"array {name!r} of dtype {dtype}: only plain numbers and text")
    digest = sha256()
    for chunk in _filled_up(parts):
        digest.update(chunk)
    return {"name": name, "dtype": dtype.str, "shape": shape, "sha256": digest.hexdigest()}


def _chunks(header: bytes, arrays: Iterable[list[Array]]) -> Iterator[bytes | memoryview]:
    yield header
    for parts in arrays:
        yield from _filled_up(parts)


def _filled_up(parts: list[Array]) -> Iterator[bytes | memoryview]:
    for part in parts:
        # Through uint8: text arrays offer no buffer of their own.
        yield part.reshape(-1).view(np.uint8).data
    yield bytes(-sum(part.nbytes for part in parts) % ALIGNMENT)


def open_snapshot(path: Path, identity: Identity | None, key: int | None = 0) -> Snapshot:
    """The arrays of a file, mapped copy-on-write: writable, never written back.

    Reads every byte once to verify it and copies none. identity, key: None accepts any. Raises
    DamagedFile; SnapshotError for another version, identity or key; OSError if it cannot be read.
    """
    with path.open("rb") as file:
        if not file.seek(0, 2):
            raise DamagedFile(damaged(path, 0, "no bytes", "a header"))
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    data = memoryview(mapped)
    fields, at = read_header(data, MAGIC, identity, path, SnapshotError, key)
    entries, arrays = fields.get("arrays"), {}
    if not isinstance(entries, list) or not all(map(_is_sound, entries)):
        raise DamagedFile(damaged(path, 0, ascii(entries)[:80], "a list of arrays"))
    for entry in entries:
        arrays[entry["name"]], at = _open_array(entry, data, at, path)
    if at != len(data):
        raise DamagedFile(damaged(path, at, f"{len(data)} bytes", f"{at} bytes"))
    return Snapshot(fields["state"], fields["identity"], arrays)


def _is_sound(entry: Any) -> bool:
    """Whether an entry names an array of plain numbers or text, of any length."""
    try:
        name, text, shape, digest = (entry[k] for k in ("name", "dtype", "shape", "sha256"))
        # Not the whole language of dtypes, in which a name of a few letters takes no bytes or all.
        dtype = np.dtype(text) if PLAIN_DTYPE.fullmatch(text) else None
        whole = all(type(number) is int and 0 <= number < MAX_LENGTH for number in shape)
    except (KeyError, TypeError, ValueError):
        return False
    texts = isinstance(name, str) and isinstance(digest, str)
    return texts and dtype is not None and whole and len(shape) <= MAX_DIMENSIONS


def _open_array(entry: dict[str, Any], data: memoryview, at: int, path: Path) -> tuple[Array, int]:
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    n_bytes = dtype.itemsize * prod(shape)
    end = at + n_bytes + -n_bytes % ALIGNMENT
    if end > len(data):
        raise DamagedFile(damaged(path, at, f"{len(data)} bytes", f"{end} or more"))
    found, expected = sha256(data[at:end]).hexdigest(), entry["sha256"]
    if found != expected:
        what = f"digest {found[:16]} of array {entry['name']!r}"
        raise DamagedFile(damaged(path, at, what, ascii(expected[:16])))
    return np.ndarray(shape, dtype, buffer=data, offset=at), end

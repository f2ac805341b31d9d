"""A snapshot: named arrays in one file, opened by mmap without a copy.

File: header (header.py) whose JSON lists each array's name, dtype, shape and digest, then the
arrays, each at a multiple of 64 bytes and filled up with zeros that its digest covers. The digest
is SHA-256, for which processors have instructions; the header's MAC makes it speak for the writer.

Rows to which only others are added stand in files of their own (row_files.py), of the same format,
which the header names by the MACs of theirs. The snapshot holds the rows behind them.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.errors import DamagedFile, DamagedRows, SnapshotError, StateError
from scrapy_neardup.kernels.cores import cores
from scrapy_neardup.state.files import write_atomically
from scrapy_neardup.state.header import ALIGNMENT, Identity, damaged, pack_header, read_header
from scrapy_neardup.state.mac import MAC_BYTES
from scrapy_neardup.stored_arrays import Joined, parts_of

Array = np.ndarray[Any, np.dtype[Any]]

MAGIC = b"NEARDUPS"
PLAIN_KINDS = "biufSU"  # No objects: their bytes would have to be run to be read.
PLAIN_DTYPE = re.compile(f"[<>|=][{PLAIN_KINDS}][1-9][0-9]{{0,5}}")
MAX_DIMENSIONS, MAX_LENGTH = 8, 2**48
ROW_FILE = re.compile("rows-[0-9]{1,18}-[0-9]{1,4}")


class RowFile(NamedTuple):
    """A file of rows that snapshots share."""

    name: str
    mac: str  # of its header, in hexadecimal digits
    n_bytes: int  # of its arrays
    n_rows: dict[str, int]  # of each array


RowFiles = dict[object, list[RowFile]]  # what arrays grow with (Joined) → where their rows are


class Snapshot(NamedTuple):
    """What a snapshot holds."""

    state: int  # the id of the state it is of
    identity: Identity
    arrays: dict[str, Any]  # each an Array or Joined
    rows: RowFiles


def write_snapshot(
    path: Path,
    identity: Identity,
    arrays: Mapping[str, Array | Joined],
    state: int = 0,
    key: int = 0,
    rows: Iterable[list[RowFile]] = (),
) -> str:
    """Write arrays to a file, which appears whole or not at all; O(bytes). The header's MAC.

    state: the id of the state that they are of. key: the folder's secret. rows: the files of the
    same folder that hold what comes before the arrays' rows, by what grows together. Raises
    OSError where it cannot be written, TypeError for arrays of objects.
    """
    parts = {name: _parts(array) for name, array in arrays.items()}
    entries = [_entry(name, arrays[name].shape, plain) for name, plain in parts.items()]
    named = [[(file.name, file.mac) for file in files] for files in rows]
    header = pack_header(MAGIC, identity, key, state=state, arrays=entries, rows=named)
    write_atomically(path, _chunks(header, parts.values()))
    return header[-MAC_BYTES:].hex()


def _parts(array: Array | Joined) -> list[Array]:
    return [np.ascontiguousarray(part) for part in parts_of(array)]


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

    Reads every byte once to verify it and copies none; arrays with rows in other files are Joined.
    identity, key: None accepts any. Raises DamagedFile; SnapshotError for another version, identity
    or key; OSError if it cannot be read.
    """
    fields, own, _ = _open(path, identity, key)
    rows: RowFiles = {}
    arrays: dict[str, Any] = dict(own)
    for named in _named(fields, path):
        grows = object()
        opened = [
            _open_rows(path, *name_and_mac, fields["identity"], key) for name_and_mac in named
        ]
        rows[grows] = [file for file, _ in opened]
        for name in {name for file in rows[grows] for name in file.n_rows}:
            parts = [found[name] for _, found in opened if name in found]
            parts += [own[name]] if name in own else []
            arrays[name] = Joined(tuple(part for part in parts if len(part)) or (parts[0],), grows)
    return Snapshot(fields["state"], fields["identity"], arrays, rows)


def map_rows(path: Path, identity: Identity, key: int) -> dict[str, Array]:
    """The arrays of a file of rows, mapped and verified; none of its pages is in memory yet.

    Raises DamagedFile and OSError.
    """
    data = _mapped(path)
    _, arrays, _ = _read(data, path, identity, key)
    if isinstance(data.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.obj.madvise(mmap.MADV_DONTNEED)  # what verifying has read
    return arrays


def row_files(folder: Path) -> list[Path]:
    """The files of rows in a folder, whether a snapshot needs them or not."""
    return [path for path in folder.glob("rows-*") if ROW_FILE.fullmatch(path.name)]


def named_rows(path: Path) -> set[str]:
    """The files of rows that a snapshot needs; none of one that cannot be read."""
    try:
        fields, _ = read_header(_mapped(path), MAGIC, None, path, SnapshotError, None)
        return {name for files in _named(fields, path) for name, _ in files}
    except (StateError, OSError):
        return set()


def _named(fields: dict[str, Any], path: Path) -> list[list[tuple[str, str]]]:
    """The files of rows that a header names, with their MACs. Raises DamagedFile."""
    named = fields.get("rows")
    try:
        sound = all(
            ROW_FILE.fullmatch(name) and isinstance(mac, str)
            for files in named  # type: ignore[union-attr]
            for name, mac in files
        )
    except (TypeError, ValueError):
        sound = False
    if not sound or not isinstance(named, list):
        raise DamagedFile(damaged(path, 0, ascii(named)[:80], "a list of files of rows"))
    return named


def _open_rows(
    snapshot: Path, name: str, mac: str, identity: Identity, key: int | None
) -> tuple[RowFile, dict[str, Array]]:
    path = snapshot.with_name(name)
    try:
        _, arrays, found = _open(path, identity, key)
    except FileNotFoundError as error:
        if not snapshot.exists():  # its owner has replaced it by a newer one
            raise
        raise DamagedRows(path, f"{path}, which {snapshot.name} needs, is missing") from error
    except DamagedFile as error:
        raise DamagedRows(path, f"{error}; {snapshot.name} needs it") from error
    if found != mac:
        raise DamagedRows(path, f"{path} is not the file of that name that {snapshot.name} needs")
    n_bytes = sum(array.nbytes for array in arrays.values())
    return RowFile(name, mac, n_bytes, {n: len(a) for n, a in arrays.items()}), arrays


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        if not file.seek(0, 2):
            raise DamagedFile(damaged(path, 0, "no bytes", "a header"))
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


def _open(
    path: Path, identity: Identity | None, key: int | None
) -> tuple[dict[str, Any], dict[str, Array], str]:
    """The header's fields, the arrays, and the header's MAC."""
    return _read(_mapped(path), path, identity, key)


def _read(
    data: memoryview, path: Path, identity: Identity | None, key: int | None
) -> tuple[dict[str, Any], dict[str, Array], str]:
    fields, at = read_header(data, MAGIC, identity, path, SnapshotError, key)
    mac = data[at - MAC_BYTES : at].hex()
    entries, arrays = fields.get("arrays"), {}
    if not isinstance(entries, list) or not all(map(_is_sound, entries)):
        raise DamagedFile(damaged(path, 0, ascii(entries)[:80], "a list of arrays"))
    starts = list(accumulate(map(_padded, entries), initial=at))
    if starts[-1] != len(data):
        raise DamagedFile(damaged(path, len(data), f"{len(data)} bytes", f"{starts[-1]} bytes"))
    # SHA-256 lets go of the interpreter's lock, and is nearly all of what opening takes.
    with ThreadPoolExecutor(cores()) as threads:
        found = threads.map(lambda start, end: sha256(data[start:end]), starts, starts[1:])
        for entry, start, digest in zip(entries, starts, found, strict=False):
            _check_digest(entry, digest.hexdigest(), path, start)
            shape, dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
            arrays[entry["name"]] = np.ndarray(shape, dtype, buffer=data, offset=start)
    return fields, arrays, mac


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


def _padded(entry: dict[str, Any]) -> int:
    """The bytes that an array takes in the file."""
    n_bytes = int(np.dtype(entry["dtype"]).itemsize * prod(entry["shape"]))
    return n_bytes + -n_bytes % ALIGNMENT


def _check_digest(entry: dict[str, Any], found: str, path: Path, at: int) -> None:
    if found != entry["sha256"]:
        what = f"digest {found[:16]} of array {entry['name']!r}"
        raise DamagedFile(damaged(path, at, what, ascii(entry["sha256"][:16])))

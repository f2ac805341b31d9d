"""How each state file begins: magic, version, and as checked JSON what it holds for whom."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from scrapy_neardup.errors import DamagedFile, StateError

# What two crawls must have in common to share a state: the specs, the key's id.
Identity = Mapping[str, "int | float | str | bool"]

# 2: whether a crawl ended cleanly is in the journal, the state's id in each header.
# 3: a page's row has its own part's fingerprint first, the names of its data, wider odd sketches.
VERSION = 3
ALIGNMENT = 64
MAX_FIELDS_BYTES = 1 << 24
_FIXED = struct.Struct("<8sII")  # magic, version, bytes of JSON
_CRC = struct.Struct("<I")  # of the fixed part and the JSON
_PREFIX_BYTES = _FIXED.size + _CRC.size


def pack_header(magic: bytes, identity: Identity, **fields: Any) -> bytes:
    """The header's bytes; spaces after the JSON fill it up to a multiple of 64."""
    text = json.dumps(fields | {"identity": dict(identity)}, separators=(",", ":")).encode()
    text += b" " * (-(_PREFIX_BYTES + len(text)) % ALIGNMENT)
    fixed = _FIXED.pack(magic, VERSION, len(text))
    return fixed + _CRC.pack(crc32(text, crc32(fixed))) + text


def read_header(
    data: memoryview, magic: bytes, identity: Identity | None, path: Path, error: type[StateError]
) -> tuple[dict[str, Any], int]:
    """The header's fields and its size in bytes. identity: None accepts any.

    Raises DamagedFile, naming found and expected, and `error` for a sound header of another
    version or identity. The layout is the same in all versions, so that damage to the version
    is told from another version.
    """
    if len(data) < _PREFIX_BYTES:
        raise DamagedFile(damaged(path, 0, f"{len(data)} bytes", f"at least {_PREFIX_BYTES}"))
    found, version, n_bytes = _FIXED.unpack_from(data)
    if found != magic:
        raise DamagedFile(damaged(path, 0, f"magic {found!r}", repr(magic)))
    fields = _read_fields(data, n_bytes, path)
    if version != VERSION:
        raise error(
            f"{path}: format version {version} found, {VERSION} expected: use the release that "
            f"wrote it, or delete the folder {path.parent} to start afresh"
        )
    if identity is not None:
        _require_same_identity(fields, identity, path, error)
    return fields, _PREFIX_BYTES + n_bytes


def _read_fields(data: memoryview, n_bytes: int, path: Path) -> dict[str, Any]:
    end = _PREFIX_BYTES + n_bytes
    if n_bytes > MAX_FIELDS_BYTES or end > len(data):
        raise DamagedFile(damaged(path, 12, f"a header of {end} bytes", f"at most {len(data)}"))
    text = bytes(data[_PREFIX_BYTES:end])
    found = crc32(text, crc32(data[: _FIXED.size]))
    (expected,) = _CRC.unpack_from(data, _FIXED.size)
    if found != expected:
        raise DamagedFile(damaged(path, _FIXED.size, f"CRC {found:08x}", f"{expected:08x}"))
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not _are_sound(fields):
        raise DamagedFile(damaged(path, _PREFIX_BYTES, ascii(text[:40]), "a header's fields"))
    return fields  # type: ignore[no-any-return]


def _are_sound(fields: Any) -> bool:
    """Whether there is what every header has: a right checksum does not say who made it."""
    if not isinstance(fields, dict) or not isinstance(fields.get("identity"), dict):
        return False
    return type(fields.get("state")) is int and 0 <= fields["state"] < 2**63


def damaged(path: Path, offset: int, found: str, expected: str) -> str:
    """What is damaged: file, offset, found and expected."""
    return f"{path} is damaged at offset {offset}: found {found}, expected {expected}"


def _require_same_identity(
    fields: dict[str, Any], identity: Identity, path: Path, error: type[StateError]
) -> None:
    found = fields["identity"]
    names = sorted(found.keys() | identity.keys())
    differences = [
        f"{name} is {found.get(name)!r} there and {identity.get(name)!r} here"
        for name in names
        if found.get(name) != identity.get(name)
    ]
    if differences:
        raise error(
            f"{path} was made under another specification: {', '.join(differences)}. Restore "
            f"the settings it was made with, set another NEARDUP_STATE_DIR or JOBDIR, or delete "
            f"the folder {path.parent} to start afresh"
        )

"""How each state file begins: magic, version, as checked JSON what it holds for whom, and a MAC."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from scrapy_neardup.errors import DamagedFile, StateError
from scrapy_neardup.state.mac import HEADER, MAC_BYTES, foreign, is_mac, mac_of

# What two crawls must have in common to share a state: the specs, the key's id.
Identity = Mapping[str, "int | float | str | bool"]

# 2: whether a crawl ended cleanly is in the journal, the state's id in each header.
# 3: a page's row has its own part's fingerprint first, the names of its data, wider odd sketches.
# 4: headers and records have a MAC under the folder's key, arrays a digest instead of a CRC.
# 5: id tables are in parts, forgotten pages marked; rows that grow are in files of their own.
# 6: a page's facts end with how many words it has and how they are spelt.
# 7: they end with what the words in its short lines are, those of templates included.
VERSION = 7
NO_LONGER = frozenset({"blocks"})  # in identities of earlier releases; states may differ in it
ALIGNMENT = 64
RESTORE = "Restore the settings it was made with"
MAX_FIELDS_BYTES = 1 << 24
_FIXED = struct.Struct("<8sII")  # magic, version, bytes of JSON
_CRC = struct.Struct("<I")  # of all else
_PREFIX_BYTES = _FIXED.size + _CRC.size


def pack_header(magic: bytes, identity: Identity, key: int = 0, **fields: Any) -> bytes:
    """The header's bytes; spaces between JSON and MAC fill it up to a multiple of 64.

    key: the folder's secret.
    """
    text = json.dumps(fields | {"identity": dict(identity)}, separators=(",", ":")).encode()
    text += b" " * (-(_PREFIX_BYTES + len(text) + MAC_BYTES) % ALIGNMENT)
    fixed = _FIXED.pack(magic, VERSION, len(text) + MAC_BYTES)
    text += mac_of(key, HEADER, fixed, text)
    return fixed + _CRC.pack(crc32(text, crc32(fixed))) + text


def read_header(
    data: memoryview,
    magic: bytes,
    identity: Identity | None,
    path: Path,
    error: type[StateError],
    key: int | None = 0,
) -> tuple[dict[str, Any], int]:
    """The header's fields and its size in bytes. identity, key: None accepts any.

    Raises DamagedFile, naming found and expected, and `error` for a sound header of another
    version or identity, or under another key. Up to the CRC the layout is the same in all
    versions, so that damage to the version is told from another version.
    """
    if len(data) < _PREFIX_BYTES:
        raise DamagedFile(damaged(path, 0, f"{len(data)} bytes", f"at least {_PREFIX_BYTES}"))
    found, version, n_bytes = _FIXED.unpack_from(data)
    if found != magic:
        raise DamagedFile(damaged(path, 0, f"magic {found!r}", repr(magic)))
    text = _read_text(data, n_bytes, path)
    if version != VERSION:
        raise error(
            f"{path}: format version {version} found, {VERSION} expected: use the release that "
            f"wrote it, or delete the folder {path.parent} to start afresh"
        )
    fields = _fields_of(text[:-MAC_BYTES], path)
    if identity is not None:
        _require_same_identity(fields, identity, path, error)
    signed = data[: _FIXED.size], text[:-MAC_BYTES]
    if key is not None and not is_mac(text[-MAC_BYTES:], key, HEADER, *signed):
        raise error(foreign(path, "its header"))
    return fields, _PREFIX_BYTES + n_bytes


def _read_text(data: memoryview, n_bytes: int, path: Path) -> bytes:
    """What is behind the CRC."""
    end = _PREFIX_BYTES + n_bytes
    if n_bytes > MAX_FIELDS_BYTES or end > len(data):
        raise DamagedFile(damaged(path, 12, f"a header of {end} bytes", f"at most {len(data)}"))
    text = bytes(data[_PREFIX_BYTES:end])
    found = crc32(text, crc32(data[: _FIXED.size]))
    (expected,) = _CRC.unpack_from(data, _FIXED.size)
    if found != expected:
        raise DamagedFile(damaged(path, _FIXED.size, f"CRC {found:08x}", f"{expected:08x}"))
    return text


def _fields_of(text: bytes, path: Path) -> dict[str, Any]:
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
    names = sorted((found.keys() | identity.keys()) - NO_LONGER)
    differences = [
        f"{name} is {found.get(name)!r} there and {identity.get(name)!r} here"
        for name in names
        if found.get(name) != identity.get(name)
    ]
    if differences:
        raise error(
            f"{path} was made under another specification: {', '.join(differences)}. {RESTORE}, "
            f"set another NEARDUP_STATE_DIR or JOBDIR, or delete "
            f"the folder {path.parent} to start afresh"
        )

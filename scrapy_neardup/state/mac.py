"""Codes that tell what a crawl wrote from what somebody else did: a checksum tells only damage.

Whoever can read the folder's key can make them. They do not tell an old file of the same folder
that was put back.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path

MAC_BYTES = 8  # as many as the key's: to guess either takes 2^64 attempts
# What is signed.
HEADER, RECORD, REQUEST = b"neardup-header", b"neardup-record", b"neardup-request"
RULES, SKIPPED, VISIT = b"neardup-rules", b"neardup-skipped", b"neardup-visit"
COMMIT, QUEUE = b"neardup-commit", b"neardup-queue"
_MEMBER, _END = b', "mac": "', b'"}'


def mac_of(key: int, kind: bytes, *parts: bytes | memoryview) -> bytes:
    """The code of some bytes under a folder's secret; BLAKE2b. kind: what they are."""
    hashed = blake2b(key=key.to_bytes(8, "little"), digest_size=MAC_BYTES, person=kind)
    for part in parts:
        hashed.update(part)
    return hashed.digest()


def is_mac(found: bytes | memoryview, key: int, kind: bytes, *parts: bytes | memoryview) -> bool:
    """Whether this is the code of some bytes."""
    return compare_digest(found, mac_of(key, kind, *parts))


def signed_json(key: int, kind: bytes, entry: bytes) -> bytes:
    """A JSON object that is not empty, with its code as the last member."""
    return entry[:-1] + _MEMBER + mac_of(key, kind, entry).hex().encode() + _END


def own_json(key: int | None, kind: bytes, signed: bytes) -> bytes | None:
    """What signed_json() was given; None unless it was under this key. key: None for any."""
    body, name, code = signed.rpartition(_MEMBER)
    entry = body + b"}"
    if not name or len(code) != 2 * MAC_BYTES + len(_END):
        return None
    expected = code if key is None else mac_of(key, kind, entry).hex().encode() + _END
    return entry if compare_digest(code, expected) else None


def foreign(path: Path, what: str) -> str:
    """What is said of bytes that are sound and that nobody with the folder's key wrote."""
    return (
        f"{path}: {what} was not written under this folder's key, so by somebody else, or for "
        f"another folder. Move the file away, or delete the folder {path.parent} to start afresh"
    )

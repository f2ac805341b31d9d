"""The file of `fleet export`: every key with its dump, and at the end a digest of them all."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO, NamedTuple

from scrapy_neardup.errors import FleetError
from scrapy_neardup.state.files import write_atomically

MAGIC = b"neardup fleet 3\n"
LENGTHS = struct.Struct("<IIQ")  # of a key's name and its dump; milliseconds that it has to live
END = LENGTHS.pack(0, 0, 0)  # no key has such lengths; behind it stands the digest
DIGEST_BYTES = 16


class Key(NamedTuple):
    """A key of a server, as DUMP and PTTL give it and RESTORE takes it."""

    name: bytes
    dump: bytes
    rest_ms: int  # 0: for ever


def write(path: Path, keys: Iterable[Key]) -> int:
    """Write a file of keys, whole or not at all; how many they are.

    Raises OSError, and FleetError if there is such a file.
    """
    if path.exists():
        raise FleetError(f"{path} is there already: name another file")
    n, digest = 0, blake2b(digest_size=DIGEST_BYTES)

    def chunks() -> Iterator[bytes]:
        nonlocal n
        yield MAGIC
        for key in keys:
            chunk = _packed(key)
            digest.update(chunk)
            yield chunk
            n += 1
        yield END + digest.digest()

    write_atomically(path, chunks())
    return n


def read(path: Path) -> Iterator[Key]:
    """The keys of a file, one by one. Raises OSError, and FleetError where it is not whole.

    That it is, is known at its end only.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise FleetError(f"{path} was not written by this version's `fleet export`")
        n, digest = 0, blake2b(digest_size=DIGEST_BYTES)
        while key := _next_key(file):
            yield key
            digest.update(_packed(key))
            n += 1
        if file.read(DIGEST_BYTES + 1) != digest.digest():
            raise FleetError(
                f"{path} is not whole: it is damaged behind {n:,} keys, or in one. Export again"
            )


def _packed(key: Key) -> bytes:
    return LENGTHS.pack(len(key.name), len(key.dump), key.rest_ms) + key.name + key.dump


def _next_key(file: BinaryIO) -> Key | None:
    """The next key; None at the end, and where there is no whole one."""
    head = file.read(LENGTHS.size)
    if len(head) < LENGTHS.size or head == END:
        return None
    n_name, n_dump, rest_ms = LENGTHS.unpack(head)
    key = Key(file.read(n_name), file.read(n_dump), rest_ms)
    return key if _packed(key)[: LENGTHS.size] == head else None

"""The file of `fleet export`: every key with its dump, and at the end how many they are."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from scrapy_neardup.errors import FleetError
from scrapy_neardup.state.files import write_atomically

MAGIC = b"neardup fleet 2\n"
LENGTHS = struct.Struct("<IIQ")  # of a key's name and its dump; milliseconds that it has to live
END = (0, 0)  # lengths that no key has: the number behind them is that of all keys


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
    n = 0

    def chunks() -> Iterator[bytes]:
        nonlocal n
        yield MAGIC
        for key in keys:
            yield LENGTHS.pack(len(key.name), len(key.dump), key.rest_ms) + key.name + key.dump
            n += 1
        yield LENGTHS.pack(*END, n)

    write_atomically(path, chunks())
    return n


def read(path: Path) -> Iterator[Key]:
    """The keys of a file, one by one. Raises OSError, and FleetError where it is not whole."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise FleetError(f"{path} was not written by this version's `fleet export`")
        n = 0
        while key := _next_key(file, path, n):
            yield key
            n += 1


def _next_key(file: BinaryIO, path: Path, n: int) -> Key | None:
    """The key behind n others; None at the end."""
    head = file.read(LENGTHS.size)
    if len(head) == LENGTHS.size:
        n_name, n_dump, number = LENGTHS.unpack(head)
        if (n_name, n_dump, number) == (*END, n) and not file.read(1):
            return None
        name, dump = file.read(n_name), file.read(n_dump)
        if name and len(name) == n_name and len(dump) == n_dump:
            return Key(name, dump, number)
    raise FleetError(f"{path} is not whole: it is damaged behind {n:,} keys. Export again")

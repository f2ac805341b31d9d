"""Compressed files → bytes, and bytes → members of compressed files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup.record import InputLimits

FREE_BYTES = 2**30  # an input may unpack to so much, whatever its size
GZIP_LEVEL = 6
STORED_BYTES = 2**14  # read at once
ZSTANDARD_BYTES = 2**10  # read at once: they unpack to 34 MB at most
MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}


class Bomb(ValueError):
    """An input unpacks to far more than its size."""


class Unpacked(io.RawIOBase):
    """A file, unpacked: all members, up to the limit. Reading raises OSError, EOFError, Bomb."""

    def __init__(self, path: Path, packing: str, limits: InputLimits) -> None:
        self._stored = path.open("rb")
        self._stream = _unpacker(self._stored, packing, path)
        self._is_packed = bool(packing)
        self._limits = limits
        self._n_bytes = 0
        self._end: int | None = None

    @property
    def done(self) -> int:
        """Bytes of the stored file that were read."""
        return self._stored.tell()

    def readable(self) -> bool:
        return True

    def go_to(self, begin: int, end: int) -> None:
        """Read the bytes from begin to end, and no others, of a file that is not packed."""
        self._stored.seek(begin)
        self._end = end

    def block(self, n_bytes: int) -> bytes:
        """The next bytes, at most so many; none at the end. No error loses what came before."""
        if self._end is not None:
            n_bytes = min(n_bytes, self._end - self.done)
        block = self._unpacked(n_bytes)
        self._n_bytes += len(block)
        if self._is_packed and self._n_bytes > max(FREE_BYTES, self._limits.ratio * self.done):
            raise Bomb(
                f"{self.done:,} bytes unpack to more than {self._n_bytes:,}: taken for a bomb; "
                f"raise --max-ratio if they are not"
            )
        return block

    def _unpacked(self, n_bytes: int) -> bytes:
        try:
            block: bytes = self._stream.read1(n_bytes)
        except (OSError, EOFError):
            raise
        except Exception as error:  # zlib's, lzma's and Zstandard's have no class in common
            raise OSError(f"it cannot be unpacked: {error}") from error
        return block

    def readinto(self, buffer: Any) -> int:
        block = self.block(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def close(self) -> None:
        self._stored.close()
        super().close()


class MemberUnpacker(Protocol):
    """What unpacks one member of a compressed file, as Python's own decompressors do."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Members:
    """The members of a compressed file, one behind the other, with zeros between them or not.

    Python's own readers of .bz2 and .xz, and Zstandard's, take what they cannot read behind a
    member for the end of the file: the records in it would be lost in silence.
    """

    def __init__(
        self, stored: IO[bytes], begin: Callable[[], MemberUnpacker], at_once: int
    ) -> None:
        self._stored, self._begin, self._at_once = stored, begin, at_once
        self._member: MemberUnpacker | None = None

    def read1(self, n_bytes: int) -> bytes:
        """The next bytes, at most so many; none at the end. Raises EOFError in a member that has
        no end, and whatever its decompressor does."""
        while True:
            if self._member is None or self._member.eof:
                data = self._next()
                if not data:
                    return b""
                self._member = self._begin()
            elif self._member.needs_input:
                data = self._stored.read(self._at_once)
                if not data:
                    raise EOFError("the file ends inside a compressed member")
            else:
                data = b""
            if unpacked := self._member.decompress(data, n_bytes):
                return unpacked

    def _next(self) -> bytes:
        """What stands behind a member and the zeros after it."""
        data = b"" if self._member is None else self._member.unused_data.lstrip(b"\0")
        while not data and (block := self._stored.read(self._at_once)):
            data = block.lstrip(b"\0")
        return data


class ZstandardFrame:
    """A Member of Zstandard."""

    def __init__(self, module: Any) -> None:
        self._frame = module.ZstdDecompressor().decompressobj()
        self._rest = b""  # unpacked, and not asked for yet

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof) and not self._rest

    @property
    def needs_input(self) -> bool:
        return not self._rest

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        unpacked = self._rest + (self._frame.decompress(data) if data else b"")
        self._rest = unpacked[max_length:]
        return unpacked[:max_length]


def _unpacker(stored: IO[bytes], packing: str, path: Path) -> Any:
    if packing == ".gz":
        return gzip.GzipFile(fileobj=stored)
    if packing == ".bz2":
        return Members(stored, bz2.BZ2Decompressor, STORED_BYTES)
    if packing == ".xz":
        return Members(stored, lzma.LZMADecompressor, STORED_BYTES)
    if packing == ".zst":
        return Members(stored, partial(ZstandardFrame, zstandard(path)), ZSTANDARD_BYTES)
    return stored


def zstandard(path: Path) -> Any:
    """The module. Raises InputError where it is not installed."""
    try:
        import zstandard
    except ImportError as error:
        raise InputError(f"{path}: {needs('zstandard', error)}") from error
    return zstandard


def needs(what: str, error: ImportError) -> str:
    """How to get a library that is not there."""
    return f"needs {what}: pip install 'scrapy-neardup[dedup]' ({error})"


def packed(data: bytes, packing: str) -> bytes:
    """Bytes as a member of a compressed file; the same bytes each time."""
    if packing == ".gz":
        return gzip.compress(data, GZIP_LEVEL, mtime=0)
    if packing == ".bz2":
        return bz2.compress(data)
    if packing == ".xz":
        return lzma.compress(data)
    if packing == ".zst":
        import zstandard

        return zstandard.ZstdCompressor(write_checksum=True).compress(data)
    return data


def packing_of(head: bytes) -> str:
    """The compression that a file begins with, "" for none."""
    return next((packing for magic, packing in MAGIC.items() if head.startswith(magic)), "")

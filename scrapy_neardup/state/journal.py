"""The journal: an append-only file of records that a crash can shorten but not corrupt.

File: header (header.py), then records: payload bytes u32, CRC-32 u32 of everything else in
the record, kind u8, payload; little-endian.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple
from zlib import crc32

from scrapy_neardup.errors import JournalError
from scrapy_neardup.state.files import O_BINARY, write_atomically
from scrapy_neardup.state.header import Identity, damaged, pack_header, read_header

Fsync = Literal["always", "everysec", "no"]

MAGIC = b"NEARDUPJ"
MAX_PAYLOAD_BYTES = 1 << 20
SYNC_INTERVAL_S = 1.0
_LENGTH = struct.Struct("<I")
_HEAD = struct.Struct("<IIB")  # payload bytes, CRC, kind
_sync_data = getattr(os, "fdatasync", os.fsync)


class Record(NamedTuple):
    """One entry: what kind it is, and its bytes."""

    kind: int
    payload: bytes


class Journal:
    """Appends records to one file.

    Each append reaches the operating system before it returns, so the end of this process,
    however it comes, loses nothing. `fsync` says what a power cut may lose: "always": no
    record; "everysec": those of about the last second, written out by a thread so that
    append() does not wait for the disk; "no": what the operating system still holds.
    """

    def __init__(self, path: Path, fsync: Fsync = "everysec") -> None:
        """Open for appending a file that create() or read_journal() has found sound."""
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | O_BINARY)
        self._end = os.fstat(self._fd).st_size
        self._fsync = fsync
        self._dirty = False
        self._failure: OSError | None = None
        self._closing = threading.Event()
        self._syncer: threading.Thread | None = None
        if fsync == "everysec":
            self._syncer = threading.Thread(target=self._keep_synced, daemon=True)
            self._syncer.start()

    @classmethod
    def create(cls, path: Path, identity: Identity, fsync: Fsync = "everysec") -> Journal:
        """A new journal without records; it appears whole or not at all. Raises OSError."""
        write_atomically(path, [pack_header(MAGIC, identity)])
        return cls(path, fsync)

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self._end

    def append(self, kind: int, payload: bytes) -> None:
        """Add a record; kind 0 to 255, payload at most 1 MiB.

        Raises OSError where it cannot be written, or an earlier record did not reach the
        disk; the file then ends with the last whole record.
        """
        if self._failure is not None:
            raise self._failure
        record = pack_record(kind, payload)
        self._write(record)
        self._end += len(record)
        self._dirty = True
        if self._fsync == "always":
            self.sync()

    def _write(self, record: bytes) -> None:
        rest = memoryview(record)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            self._failure = error
            os.ftruncate(self._fd, self._end)
            raise

    def sync(self) -> None:
        """Return when all records so far are on the disk. Raises OSError."""
        self._dirty = False
        _sync_data(self._fd)

    def _keep_synced(self) -> None:
        while not self._closing.wait(SYNC_INTERVAL_S):
            try:
                if self._dirty:
                    self.sync()
            except OSError as error:  # After a failed fsync nothing is known: see append().
                self._failure = error
                return

    def close(self) -> None:
        """Sync (unless the policy is "no") and close. Raises OSError."""
        self._closing.set()
        if self._syncer is not None:
            self._syncer.join()
        try:
            if self._fsync != "no" and self._failure is None:
                self.sync()
        finally:
            os.close(self._fd)


def pack_record(kind: int, payload: bytes) -> bytes:
    """A record's bytes. Raises ValueError for a payload above 1 MiB."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a record of {len(payload)} bytes: at most {MAX_PAYLOAD_BYTES}")
    crc = crc32(payload, crc32(bytes([kind]), crc32(_LENGTH.pack(len(payload)))))
    return _HEAD.pack(len(payload), crc, kind) + payload


class JournalContent(NamedTuple):
    """What a journal holds."""

    data: memoryview
    start: int  # offset of the first record
    end: int  # offset after the last whole record
    torn: int  # bytes after it: the record that a crash interrupted

    def records(self) -> Iterator[Record]:
        """The records in the order of their appending."""
        at = self.start
        while at < self.end:
            length, _, kind = _HEAD.unpack_from(self.data, at)
            at += _HEAD.size
            yield Record(kind, bytes(self.data[at : at + length]))
            at += length


def read_journal(path: Path, identity: Identity) -> JournalContent:
    """Read and verify a whole journal; O(file).

    An unreadable end is reported as torn. Raises JournalError where a whole record follows
    something unreadable (that is damage, not a crash), or the header is damaged, of another
    version or another identity; OSError where the file cannot be read.
    """
    data = memoryview(path.read_bytes())
    _, start = read_header(data, MAGIC, identity, path, JournalError)
    end = start
    while (after := _record_end(data, end)) is not None:
        end = after
    if any(_record_end(data, at) is not None for at in range(end + 1, len(data))):
        found = "an unreadable record with whole ones after it"
        raise JournalError(damaged(path, end, found, "a whole record"))
    return JournalContent(data, start, end, len(data) - end)


def _record_end(data: memoryview, at: int) -> int | None:
    """Where the whole record that begins at an offset ends; None where none begins."""
    body = at + _HEAD.size
    if body > len(data):
        return None
    length, crc, kind = _HEAD.unpack_from(data, at)
    end = body + int(length)
    if length > MAX_PAYLOAD_BYTES or end > len(data):
        return None
    found = crc32(data[body:end], crc32(bytes([kind]), crc32(data[at : at + _LENGTH.size])))
    return end if found == crc else None


def cut_torn_end(path: Path, content: JournalContent) -> None:
    """Shorten the file to its last whole record. Raises OSError."""
    if content.torn:
        os.truncate(path, content.end)

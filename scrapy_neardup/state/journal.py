"""The journal: an append-only file of records that a crash can shorten but not corrupt.

File: header (header.py), then records: payload bytes u32, CRC-32 u32 of everything else in
the record, kind u8, MAC of length, kind and payload (mac.py), payload; little-endian.

A journal whose last record is CLOSED was closed cleanly. Reopening it cuts that record off, so
that its absence means a crash: nothing has to be written, and a full disk cannot hide one.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple
from zlib import crc32

from scrapy_neardup.errors import JournalError
from scrapy_neardup.own_files import O_NOFOLLOW, refuse_links
from scrapy_neardup.state.files import O_BINARY, write_all, write_atomically
from scrapy_neardup.state.header import Identity, pack_header, read_header
from scrapy_neardup.state.lock import try_lock
from scrapy_neardup.state.mac import MAC_BYTES, RECORD, foreign, is_mac, mac_of

Fsync = Literal["always", "everysec", "no"]

MAGIC = b"NEARDUPJ"
MAX_PAYLOAD_BYTES = 1 << 20
SYNC_INTERVAL_S = 1.0
_LENGTH = struct.Struct("<I")
_HEAD = struct.Struct(f"<IIB{MAC_BYTES}s")  # payload bytes, CRC, kind, MAC
_KIND, _MAC = 8, 9  # offsets in a record
CLOSED = 0  # the kind of the last record of a journal that was closed cleanly


class JournalRecord(NamedTuple):
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

    def __init__(self, path: Path, end: int, fsync: Fsync = "everysec", key: int = 0) -> None:
        """Open a file for appending at `end`, cutting off and syncing what is behind it.

        end: where read_journal() found the last record to end. key: the folder's secret. Raises
        OSError.
        """
        self.path = path
        refuse_links(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | O_BINARY | O_NOFOLLOW)
        self._end = end
        self._key = key
        if os.fstat(self._fd).st_size > end:
            os.ftruncate(self._fd, end)
            os.fsync(self._fd)
        self._fsync = fsync
        self._dirty = False
        self._failure: OSError | None = None
        self._closing = threading.Event()
        self._syncer: threading.Thread | None = None
        if fsync == "everysec":
            self._syncer = threading.Thread(target=self._keep_synced, daemon=True)
            self._syncer.start()

    @classmethod
    def create(
        cls, path: Path, identity: Identity, fsync: Fsync = "everysec", state: int = 0, key: int = 0
    ) -> Journal:
        """A new journal without records; it appears whole or not at all. Raises OSError.

        state: the id of the state that it belongs to. key: the folder's secret.
        """
        header = pack_header(MAGIC, identity, key, state=state)
        write_atomically(path, [header])
        return cls(path, len(header), fsync, key)

    def lock(self) -> bool:
        """Lock the file until close(), or the end of the process; False if another has it."""
        return try_lock(self._fd)

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self._end

    def append(self, kind: int, payload: bytes) -> None:
        """Add a record; kind 1 to 255, payload at most 1 MiB.

        Raises OSError where it cannot be written, or an earlier record did not reach the
        disk; the file then ends with the last whole record.
        """
        self.extend([JournalRecord(kind, payload)])

    def extend(self, added: Iterable[JournalRecord]) -> None:
        """Add records in one write, all of them or none. Raises OSError, as append()."""
        if self._failure is not None:
            raise self._failure
        records = b"".join(pack_record(*record, self._key) for record in added)
        self._write(records)
        self._end += len(records)
        self._dirty = True
        if self._fsync == "always":
            self.sync()

    def _write(self, records: bytes) -> None:
        try:
            write_all(self._fd, records)
        except OSError as error:
            self._failure = error
            os.ftruncate(self._fd, self._end)
            raise

    def sync(self) -> None:
        """Return when all records so far are on the disk. Raises OSError."""
        self._dirty = False
        getattr(os, "fdatasync", os.fsync)(self._fd)

    def _keep_synced(self) -> None:
        while not self._closing.wait(SYNC_INTERVAL_S):
            try:
                if self._dirty:
                    self.sync()
            except OSError as error:  # After a failed fsync nothing is known: see append().
                self._failure = error
                return

    def close(self, cleanly: bool = False) -> None:
        """Sync (unless the policy is "no") and close. Raises OSError.

        cleanly: mark the journal as the end of a crawl that did not crash.
        """
        self._closing.set()
        if self._syncer is not None:
            self._syncer.join()
        try:
            if cleanly and self._failure is None:
                self._write(pack_record(CLOSED, b"", self._key))
            if self._fsync != "no" and self._failure is None:
                self.sync()
        finally:
            os.close(self._fd)


def pack_record(kind: int, payload: bytes, key: int = 0) -> bytes:
    """A record's bytes. Raises ValueError for a payload above 1 MiB."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a record of {len(payload)} bytes: at most {MAX_PAYLOAD_BYTES}")
    length, kind_byte = _LENGTH.pack(len(payload)), bytes([kind])
    signed = kind_byte + mac_of(key, RECORD, length, kind_byte, payload) + payload
    return length + _LENGTH.pack(crc32(signed, crc32(length))) + signed


class JournalContent(NamedTuple):
    """What a journal holds."""

    state: int  # the id of the state that it belongs to
    identity: Identity
    data: memoryview
    start: int  # offset of the first record
    end: int  # offset after the last sound record other than CLOSED: to append from here
    closed: bool  # whether CLOSED follows, and nothing else
    bad: int  # offset after the last sound record: what is behind cannot be read

    def records(self) -> Iterator[JournalRecord]:
        """The records in the order of their appending."""
        at = self.start
        while at < self.end:
            length, _, kind, _ = _HEAD.unpack_from(self.data, at)
            at += _HEAD.size
            if kind != CLOSED:
                yield JournalRecord(kind, bytes(self.data[at : at + length]))
            at += length

    @property
    def rest(self) -> memoryview:
        """What is behind the last sound record: torn by a crash, or damaged."""
        return self.data[self.bad :]

    @property
    def is_torn(self) -> bool:
        """Whether all that is behind the last sound record is the beginning of one, as a kill
        leaves it; no damage to what was recorded."""
        rest = self.rest
        if not len(rest) or _length_of(rest) + _HEAD.size <= len(rest):
            return False
        # Damage to a record's length looks the same, but whole records follow.
        return all(_record_end(rest, at) is None for at in range(len(rest)))


def read_journal(path: Path, identity: Identity | None, key: int | None = 0) -> JournalContent:
    """Read a journal up to the first record that is not sound; O(file).

    identity, key: None accepts any. Raises DamagedFile for a damaged header; JournalError for
    another version or identity, and for a sound record that was written under another key;
    OSError if the file cannot be read.
    """
    data = memoryview(path.read_bytes())
    fields, start = read_header(data, MAGIC, identity, path, JournalError, key)
    end = bad = start
    closed = False
    while (after := _record_end(data, bad)) is not None:
        if key is not None:
            _require_own(data[bad:after], key, path, bad)
        closed = data[bad + _KIND] == CLOSED
        end, bad = bad if closed else after, after
    closed = closed and bad == len(data)
    return JournalContent(fields["state"], fields["identity"], data, start, end, closed, bad)


def journal_records(
    path: Path, identity: Identity | None, key: int | None, begin: int = 0
) -> Iterator[tuple[int, JournalRecord]]:
    """The sound records with the offsets behind them, in constant memory; for long journals.

    begin: where one of them begins; 0 for the first. Raises as read_journal().
    """
    with path.open("rb") as file:
        end = begin or _header_end(file, path, identity, key)
        file.seek(end)
        while record := _next_record(file):
            if key is not None:
                _require_own(record, key, path, end)
            end += len(record)
            yield end, JournalRecord(record[_KIND], bytes(record[_HEAD.size :]))


def journal_end(path: Path, identity: Identity | None, key: int | None) -> int:
    """Where the last sound record ends, or the header; in constant memory. Raises as
    read_journal()."""
    with path.open("rb") as file:
        end = _header_end(file, path, identity, key)
    for end, _ in journal_records(path, identity, key):  # noqa: B007
        pass
    return end


def _header_end(file: BinaryIO, path: Path, identity: Identity | None, key: int | None) -> int:
    head = memoryview(file.read(MAX_PAYLOAD_BYTES))
    return read_header(head, MAGIC, identity, path, JournalError, key)[1]


def _next_record(file: BinaryIO) -> memoryview:
    """The bytes of the next sound record; none where there is none."""
    head = file.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return memoryview(b"")
    length = min(_HEAD.unpack(head)[0], MAX_PAYLOAD_BYTES)
    record = memoryview(head + file.read(length))
    return record if _record_end(record, 0) is not None else memoryview(b"")


def _require_own(record: memoryview, key: int, path: Path, at: int) -> None:
    """Raise JournalError for a sound record that was written under another key."""
    signed = record[: _LENGTH.size], record[_KIND:_MAC], record[_HEAD.size :]
    if not is_mac(record[_MAC : _HEAD.size], key, RECORD, *signed):
        raise JournalError(foreign(path, f"the record at offset {at}"))


def _length_of(record: memoryview) -> int:
    """Bytes of the payload that a record says it has; of a part of its head, the most it may."""
    if len(record) < _HEAD.size:
        return MAX_PAYLOAD_BYTES
    length = int(_HEAD.unpack_from(record)[0])
    return length if length <= MAX_PAYLOAD_BYTES else 0


def _record_end(data: memoryview, at: int) -> int | None:
    """Where the whole record that begins at an offset ends; None where none begins."""
    body = at + _HEAD.size
    if body > len(data):
        return None
    length, crc, _, _ = _HEAD.unpack_from(data, at)
    end = body + int(length)
    if length > MAX_PAYLOAD_BYTES or end > len(data):
        return None
    found = crc32(data[at + _KIND : end], crc32(data[at : at + _LENGTH.size]))
    return end if found == crc else None

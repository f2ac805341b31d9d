"""The journal keeps every record before the first bad one, and knows a clean end from a crash."""

import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.errors import DamagedFile, JournalError
from scrapy_neardup.state import journal as journal_module
from scrapy_neardup.state.header import VERSION
from scrapy_neardup.state.journal import (
    CLOSED,
    MAX_PAYLOAD_BYTES,
    Journal,
    JournalRecord,
    pack_record,
    read_journal,
)

IDENTITY = {"fingerprint.bits": 64, "key": "abc"}
RECORDS = [
    JournalRecord(1, b"example.com/a"),
    JournalRecord(2, bytes(range(40))),
    JournalRecord(3, b""),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    journal = Journal.create(tmp_path / "journal", IDENTITY)
    for record in RECORDS:
        journal.append(*record)
    journal.close()
    return tmp_path / "journal"


def whole_ends(path: Path) -> list[int]:
    """The offsets at which the file may end without a torn record."""
    ends = [read_journal(path, IDENTITY).start]
    for record in RECORDS:
        ends.append(ends[-1] + len(pack_record(*record)))
    return ends


@pytest.mark.parametrize("fsync", ["always", "everysec", "no"])
def test_appended_records_come_back_in_order(tmp_path: Path, fsync: str) -> None:
    journal = Journal.create(tmp_path / "journal", IDENTITY, fsync)  # type: ignore[arg-type]
    for record in RECORDS:
        journal.append(*record)
    content = read_journal(journal.path, IDENTITY)  # Before close(): as after a kill.
    journal.close()
    assert list(content.records()) == RECORDS
    assert not content.rest


def reopened(path: Path) -> Journal:
    return Journal(path, read_journal(path, IDENTITY).end)


def test_reopened_journal_goes_on_after_its_last_record(path: Path) -> None:
    journal = reopened(path)
    journal.append(9, b"more")
    journal.close()
    assert list(read_journal(path, IDENTITY).records()) == [*RECORDS, JournalRecord(9, b"more")]


def test_every_truncation_leaves_the_whole_records_or_a_damaged_header(path: Path) -> None:
    data, ends = path.read_bytes(), whole_ends(path)
    for length in range(len(data)):
        path.write_bytes(data[:length])
        if length < ends[0]:
            with pytest.raises(DamagedFile, match="damaged"):
                read_journal(path, IDENTITY)
            continue
        content = read_journal(path, IDENTITY)
        n_whole = sum(end <= length for end in ends) - 1
        assert list(content.records()) == RECORDS[:n_whole]
        assert len(content.rest) == length - ends[n_whole]


def test_every_flipped_byte_leaves_the_records_before_it_or_a_damaged_header(path: Path) -> None:
    data, ends = bytearray(path.read_bytes()), whole_ends(path)
    for at in range(len(data)):
        data[at] ^= 0x41
        path.write_bytes(data)
        data[at] ^= 0x41
        if at < ends[0]:
            with pytest.raises(DamagedFile, match=str(path)):
                read_journal(path, IDENTITY)
            continue
        content = read_journal(path, IDENTITY)
        n_before = sum(end <= at for end in ends) - 1
        assert list(content.records()) == RECORDS[:n_before]
        assert len(content.rest) == ends[-1] - ends[n_before]


@given(garbage=st.binary(max_size=300))
def test_any_bytes_are_read_or_damaged(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage"
    path.write_bytes(garbage)
    with pytest.raises(DamagedFile, match=str(path)):
        read_journal(path, IDENTITY)


def test_a_torn_end_is_cut_off_and_appending_goes_on(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)
    journal = reopened(path)
    journal.append(7, b"after the crash")
    journal.close()
    content = read_journal(path, IDENTITY)
    assert list(content.records()) == [*RECORDS[:-1], JournalRecord(7, b"after the crash")]
    assert not content.rest


def test_a_bad_end_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its bytes could begin a record as long as the rest: reading them all is quadratic."""
    end = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\xff\xff\x07\0" * 2**18)
    summed = 0

    def crc32(data: bytes, value: int = 0) -> int:
        nonlocal summed
        summed += len(data)
        return zlib.crc32(data, value)

    monkeypatch.setattr(journal_module, "crc32", crc32)
    assert read_journal(path, IDENTITY).bad == end
    assert summed <= path.stat().st_size


def test_only_a_journal_closed_cleanly_and_not_reopened_says_so(path: Path) -> None:
    assert not read_journal(path, IDENTITY).closed
    reopened(path).close(cleanly=True)
    content = read_journal(path, IDENTITY)
    assert content.closed
    assert list(content.records()) == RECORDS
    journal = reopened(path)
    assert not read_journal(path, IDENTITY).closed
    journal.append(9, b"more")
    journal.close(cleanly=True)
    assert list(read_journal(path, IDENTITY).records()) == [*RECORDS, JournalRecord(9, b"more")]


@pytest.mark.parametrize("end", [b"\0", pack_record(CLOSED, b"")[:-1], bytes(4096)])
def test_a_torn_clean_end_is_none(path: Path, end: bytes) -> None:
    reopened(path).close(cleanly=True)
    with path.open("ab") as file:
        file.write(end)
    assert not read_journal(path, IDENTITY).closed


def test_another_identity_is_refused_with_both_named(path: Path) -> None:
    with pytest.raises(JournalError, match=r"fingerprint.bits is 64 there and 128 here"):
        read_journal(path, IDENTITY | {"fingerprint.bits": 128})


def test_another_version_is_refused_with_both_named(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8] = VERSION - 1
    size = int.from_bytes(data[12:16], "little")
    data[16:20] = zlib.crc32(data[20 : 20 + size], zlib.crc32(data[:16])).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(JournalError, match=f"version {VERSION - 1} found, {VERSION} expected"):
        read_journal(path, IDENTITY)


def test_too_long_a_payload_is_refused_by_name(path: Path) -> None:
    with pytest.raises(ValueError, match=f"{MAX_PAYLOAD_BYTES + 1} bytes: at most"):
        pack_record(1, bytes(MAX_PAYLOAD_BYTES + 1))


def test_a_journal_that_a_kill_cut_off_is_torn_and_a_damaged_one_is_not(path: Path) -> None:
    data, ends = path.read_bytes(), whole_ends(path)
    for length in range(ends[0], len(data)):
        path.write_bytes(data[:length])
        assert read_journal(path, IDENTITY).is_torn is (length not in ends)
    for at in range(ends[0], ends[2]):  # whole records follow
        flipped = bytearray(data)
        flipped[at] ^= 0x41
        path.write_bytes(flipped)
        assert not read_journal(path, IDENTITY).is_torn

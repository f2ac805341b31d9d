"""The journal keeps every whole record, cuts a torn end, refuses damage before it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.errors import JournalError
from scrapy_neardup.state.journal import (
    MAX_PAYLOAD_BYTES,
    Journal,
    Record,
    cut_torn_end,
    pack_record,
    read_journal,
)

IDENTITY = {"fingerprint.bits": 64, "key": "abc"}
RECORDS = [Record(1, b"example.com/a"), Record(2, bytes(range(40))), Record(3, b"")]


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
    assert content.torn == 0


def test_reopened_journal_goes_on_after_its_last_record(path: Path) -> None:
    journal = Journal(path)
    journal.append(9, b"more")
    journal.close()
    assert list(read_journal(path, IDENTITY).records()) == [*RECORDS, Record(9, b"more")]


def test_every_truncation_leaves_the_whole_records_or_is_refused(path: Path) -> None:
    data, ends = path.read_bytes(), whole_ends(path)
    for length in range(len(data)):
        path.write_bytes(data[:length])
        if length < ends[0]:
            with pytest.raises(JournalError, match="damaged"):
                read_journal(path, IDENTITY)
            continue
        content = read_journal(path, IDENTITY)
        n_whole = sum(end <= length for end in ends) - 1
        assert list(content.records()) == RECORDS[:n_whole]
        assert content.torn == length - ends[n_whole]


def test_every_flipped_byte_is_refused_or_in_the_last_record_cut_off(path: Path) -> None:
    data, ends = bytearray(path.read_bytes()), whole_ends(path)
    for at in range(len(data)):
        data[at] ^= 0x41
        path.write_bytes(data)
        data[at] ^= 0x41
        if at < ends[-2]:
            with pytest.raises(JournalError, match=str(path)):
                read_journal(path, IDENTITY)
            continue
        content = read_journal(path, IDENTITY)
        assert list(content.records()) == RECORDS[:-1]
        assert content.torn == ends[-1] - ends[-2]


@given(garbage=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage"
    path.write_bytes(garbage)
    with pytest.raises(JournalError, match=str(path)):
        read_journal(path, IDENTITY)


def test_a_torn_end_is_cut_off_and_appending_goes_on(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)
    cut_torn_end(path, read_journal(path, IDENTITY))
    journal = Journal(path)
    journal.append(7, b"after the crash")
    journal.close()
    content = read_journal(path, IDENTITY)
    assert list(content.records()) == [*RECORDS[:-1], Record(7, b"after the crash")]
    assert content.torn == 0


def test_damage_names_file_offset_found_expected_and_the_way_out(path: Path) -> None:
    data = bytearray(path.read_bytes())
    first = whole_ends(path)[0]
    data[first + 12] ^= 1
    path.write_bytes(data)
    with pytest.raises(JournalError) as error:
        read_journal(path, IDENTITY)
    message = str(error.value)
    for part in (str(path), f"offset {first}", "found", "expected", "delete it"):
        assert part in message


def test_another_identity_is_refused_with_both_named(path: Path) -> None:
    with pytest.raises(JournalError, match=r"fingerprint.bits is 64 there and 128 here"):
        read_journal(path, IDENTITY | {"fingerprint.bits": 128})


def test_another_version_is_refused_with_both_named(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8] = 2
    path.write_bytes(data)
    with pytest.raises(JournalError, match="version 2 found, 1 expected"):
        read_journal(path, IDENTITY)


def test_too_long_a_payload_is_refused_by_name(path: Path) -> None:
    with pytest.raises(ValueError, match=f"{MAX_PAYLOAD_BYTES + 1} bytes: at most"):
        pack_record(1, bytes(MAX_PAYLOAD_BYTES + 1))

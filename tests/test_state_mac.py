"""Files that somebody without the folder's key wrote into it are refused, damaged ones are not."""

import random
from pathlib import Path

import numpy as np
import pytest

from scrapy_neardup.errors import JournalError, NearDupError, SnapshotError, StateError, StateLocked
from scrapy_neardup.state.guest import GuestStore
from scrapy_neardup.state.header import ALIGNMENT
from scrapy_neardup.state.journal import Journal, JournalRecord, journal_records, pack_record
from scrapy_neardup.state.mac import HEADER, RECORD, is_mac, mac_of
from scrapy_neardup.state.recovery import read_folder
from scrapy_neardup.state.snapshot import write_snapshot
from scrapy_neardup.state.store import Store

IDENTITY = {"spec": 1}  # anyone can copy it from a header
OURS, THEIRS = 2**64 - 3, 5
SAID = JournalRecord(1, b"http://a.example/")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state folder with a snapshot and a record since."""
    store = Store(tmp_path / "state", fsync="no")
    store.load(IDENTITY, OURS)
    store.append(1, b"before")
    number = store.rotate()
    assert number
    assert store.write(number, {"bits": np.arange(9)})
    store.append(*SAID)
    store.close(cleanly=True)
    return tmp_path / "state"


def test_what_the_key_s_owner_wrote_is_read(folder: Path) -> None:
    found = read_folder(folder, IDENTITY, OURS)
    assert found.arrays["bits"].tolist() == list(range(9))
    assert list(found.records()) == [SAID]
    assert not found.damage


def refused(folder: Path, error: type[StateError], what: str) -> None:
    message = f"{what} was not written under this folder's key.*Move the file away"
    with pytest.raises(error, match=message):
        Store(folder).load(IDENTITY, OURS)
    read_folder(folder, IDENTITY)  # sound: it is refused for who wrote it


def test_a_snapshot_that_somebody_else_wrote_is_refused(folder: Path) -> None:
    write_snapshot(folder / "snapshot-7", IDENTITY, {"bits": np.zeros(9)}, key=THEIRS)
    refused(folder, SnapshotError, "snapshot-7: its header")


def test_a_journal_that_somebody_else_wrote_is_refused(folder: Path) -> None:
    Journal.create(folder / "journal-7", IDENTITY, "no", key=THEIRS).close(cleanly=True)
    refused(folder, JournalError, "journal-7: its header")


def test_a_record_that_somebody_else_appended_is_refused(folder: Path) -> None:
    with (folder / "journal-1").open("ab") as file:
        file.write(pack_record(1, b"http://victim.example/", THEIRS))
    refused(folder, JournalError, r"journal-1: the record at offset \d+")
    with pytest.raises(JournalError, match="the record at offset"):
        list(journal_records(folder / "journal-1", IDENTITY, OURS))


def test_a_guest_s_journal_that_somebody_else_wrote_is_set_aside(folder: Path) -> None:
    journal = Journal.create(folder / "guest-00ff", IDENTITY, "no", key=THEIRS)
    journal.append(1, b"http://victim.example/")
    journal.close()
    store = Store(folder)
    store.load(IDENTITY, OURS)
    store.close()
    assert (folder / "guest-00ff.damaged").exists()


def test_an_array_that_was_exchanged_is_damage(folder: Path) -> None:
    """The digest in the header is the writer's: an array cannot be altered to fit it."""
    path = folder / "snapshot-1"
    data = bytearray(path.read_bytes())
    data[-ALIGNMENT] ^= 1
    path.write_bytes(data)
    store = Store(folder)
    arrays, _ = store.load(IDENTITY, OURS)
    assert not arrays
    assert store.torn_bytes == len(data)
    store.close()


def test_flipped_bits_are_damage_and_never_taken_for_somebody_s(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "journal-0", IDENTITY, "no", key=OURS)
    journal.append(*SAID)
    journal.close()
    data = bytearray(journal.path.read_bytes())
    for at in range(len(data)):
        data[at] ^= 1 << random.Random(at).randrange(8)
        journal.path.write_bytes(data)
        assert read_folder(tmp_path, IDENTITY, OURS).damage
        data[:] = journal.path.read_bytes()
        data[at] ^= 1 << random.Random(at).randrange(8)


def test_a_code_is_for_one_kind_of_thing_and_one_key() -> None:
    code = mac_of(OURS, RECORD, b"ab", b"c")
    assert is_mac(code, OURS, RECORD, b"a", b"bc")
    assert not is_mac(code, OURS, HEADER, b"abc")
    assert not is_mac(code, OURS ^ 1, RECORD, b"abc")
    assert not is_mac(code[:-1], OURS, RECORD, b"abc")


def test_a_guest_takes_no_folder_that_any_user_may_write_to(folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(NearDupError, match="chmod o-w"):
        GuestStore(folder, StateLocked("in use"))

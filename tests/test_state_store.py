"""The folder of a state: whatever ends a crawl, snapshot and journals give back what was said."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scrapy_neardup.errors import JournalError, SnapshotError, StateLocked
from scrapy_neardup.state.journal import MAX_PAYLOAD_BYTES, pack_record
from scrapy_neardup.state.store import Store

IDENTITY = {"spec": 1}


def opened(folder: Path) -> tuple[Store, list[int]]:
    """A store of numbers: the snapshot's in an array, the journal's one a record."""
    store = Store(folder, fsync="no")
    arrays, records = store.load(IDENTITY)
    numbers = arrays["numbers"].tolist() if arrays else []
    return store, numbers + [int(record.payload) for record in records]


def say(store: Store, number: int) -> None:
    store.append(1, b"%d" % number)


def snapshot(store: Store, numbers: list[int]) -> None:
    number = store.rotate()
    assert number is not None
    assert store.write(number, {"numbers": np.array(numbers, np.int64)})


class CrashingStore(RuleBasedStateMachine):
    """Numbers are said; the crawl is closed, killed, cut off at any byte; none said is lost."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.n_folders = 0
        self.said: list[int] = []
        self.unsaved = 0  # of the last ones: how many are in the newest journal
        self.store, _ = opened(self.root / "0")

    @rule(number=st.integers(0, 10**9))
    def say(self, number: int) -> None:
        say(self.store, number)
        self.said.append(number)
        self.unsaved += 1

    @rule()
    def snapshot(self) -> None:
        snapshot(self.store, self.said)
        self.unsaved = 0

    @rule()
    def snapshot_that_is_never_written(self) -> None:
        self.store.rotate()
        self.unsaved = 0

    @rule(data=st.data())
    def snapshot_that_is_cut_off(self, data: st.DataObject) -> None:
        number = self.store.rotate()
        self.unsaved = 0
        whole = np.array(self.said, np.int64).tobytes()
        part = whole[: data.draw(st.integers(0, len(whole)))]
        (self.store.folder / f"snapshot-{number}.tmp").write_bytes(part)

    @rule()
    def close(self) -> None:
        self.store.close()
        self.reopen(self.store.folder)

    @rule(cut=st.integers(0, 60))
    def crash(self, cut: int) -> None:
        """A copy of the folder as it is, without the last bytes of the newest journal."""
        self.n_folders += 1
        copy = self.root / str(self.n_folders)
        shutil.copytree(self.store.folder, copy)
        self.store.close()
        newest = max(copy.glob("journal-*"), key=lambda path: int(path.name[8:]))
        lost = 0
        while lost < self.unsaved and cut > 0:
            size = len(pack_record(1, b"%d" % self.said.pop()))
            os.truncate(newest, newest.stat().st_size - min(cut, size))
            cut -= size
            lost += 1
        self.unsaved -= lost
        self.reopen(copy)

    def reopen(self, folder: Path) -> None:
        self.store, found = opened(folder)
        assert found == self.said
        assert opened_again_is_locked(folder)

    @invariant()
    def nothing_failed(self) -> None:
        assert self.store.errors == 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.root)


def opened_again_is_locked(folder: Path) -> bool:
    try:
        Store(folder)
    except StateLocked:
        return True
    return False


CrashingStore.TestCase.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
TestCrashingStore = CrashingStore.TestCase


def test_a_torn_end_is_counted_and_what_came_before_it_stays(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    say(store, 1)
    say(store, 2)
    store.close()
    journal = tmp_path / "journal-0"
    os.truncate(journal, journal.stat().st_size - 1)
    store, found = opened(tmp_path)
    assert found == [1]
    assert store.torn_bytes == len(pack_record(1, b"2")) - 1
    say(store, 3)
    store.close()
    store, found = opened(tmp_path)
    assert found == [1, 3]
    assert store.torn_bytes == 0
    store.close()


def test_a_snapshot_replaces_the_files_before_it(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    say(store, 1)
    snapshot(store, [1])
    snapshot(store, [1])
    store.close()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"lock", "snapshot-2", "journal-2"}


def test_what_an_interrupted_write_left_is_removed_at_the_next_opening(tmp_path: Path) -> None:
    (tmp_path / "snapshot-1.tmp").write_bytes(b"a part")
    store, _ = opened(tmp_path)
    store.close()
    assert not (tmp_path / "snapshot-1.tmp").exists()


def test_a_record_of_monstrous_length_is_counted_and_left_out(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    store.append(1, b"1" * (MAX_PAYLOAD_BYTES + 1))
    say(store, 2)
    assert store.errors == 1
    store.close()
    store, found = opened(tmp_path)
    store.close()
    assert found == [2]


def test_damage_is_refused_and_the_folder_given_back(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    snapshot(store, [1])
    store.close()
    snapshot_path = tmp_path / "snapshot-1"
    data = bytearray(snapshot_path.read_bytes())
    data[-1] ^= 1
    snapshot_path.write_bytes(data)
    store = Store(tmp_path)
    with pytest.raises(SnapshotError, match="snapshot-1 is damaged at offset"):
        store.load(IDENTITY)
    store.close()


def test_another_identity_is_refused(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    store.close()
    store = Store(tmp_path)
    with pytest.raises(JournalError, match="spec is 1 there and 2 here"):
        store.load({"spec": 2})
    store.close()


def test_a_folder_that_cannot_be_made_is_said_once_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "state")
    key = store.key()
    arrays, records = store.load(IDENTITY)
    say(store, 1)
    assert store.rotate() is None
    store.close()
    assert key
    assert arrays == {}
    assert list(records) == []
    assert store.errors >= 1
    said = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 1
    assert "loses no page" in said[0].getMessage()


FILL = """
import resource, sys
from pathlib import Path
from tests.test_state_store import opened, say, snapshot
store, _ = opened(Path(sys.argv[1]))
limit = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
for number in range(1000):
    say(store, number)
assert store.errors == 1, store.errors
assert not store.write(store.rotate(), {"numbers": __import__("numpy").arange(1000)})
assert store.errors == 2, store.errors
resource.setrlimit(resource.RLIMIT_FSIZE, limit)
if sys.argv[2] == "disk freed":
    snapshot(store, list(range(1000)))
store.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on file sizes there")
@pytest.mark.parametrize("then", ["disk freed", "disk stays full"])
def test_a_full_disk_keeps_whole_records_and_a_later_snapshot_saves_all(
    tmp_path: Path, then: str
) -> None:
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", FILL, str(tmp_path), then]
    subprocess.run(command, check=True, cwd=root)
    store, found = opened(tmp_path)
    assert store.torn_bytes == 0
    assert found == list(range(1000 if then == "disk freed" else len(found)))
    assert found
    store.close()

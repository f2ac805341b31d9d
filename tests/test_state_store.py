"""The folder of a state: whatever ends a crawl, snapshot and journals give back what was said."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from stat import S_IFSOCK

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scrapy_neardup.errors import JournalError, StateError, StateLocked
from scrapy_neardup.own_files import require_own
from scrapy_neardup.state.journal import MAX_PAYLOAD_BYTES, pack_record
from scrapy_neardup.state.recovery import numbers
from scrapy_neardup.state.secret import kept_key
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
        newest = copy / f"journal-{numbers(copy, 'journal')[-1]}"
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


def test_a_snapshot_replaces_the_files_before_the_last_one(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    say(store, 1)
    for _ in range(3):
        snapshot(store, [1])
    store.close()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"lock", "snapshot-2", "journal-2", "snapshot-3", "journal-3"}


def test_what_an_interrupted_write_left_is_removed_at_the_next_opening(tmp_path: Path) -> None:
    (tmp_path / "snapshot-1.tmp").write_bytes(b"a part")
    store, _ = opened(tmp_path)
    store.close()
    assert not (tmp_path / "snapshot-1.tmp").exists()


def test_a_store_tells_whether_what_it_recorded_is_on_the_disk(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    say(store, 1)
    assert store.sync()
    store.close()
    assert not store.sync()


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
@pytest.mark.parametrize("name", ["lock", "key.tmp", "journal-0.tmp", "snapshot-1.tmp"])
def test_a_link_in_the_folder_is_never_followed(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("of somebody else")
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / name).symlink_to(victim)
    kept_key(folder)
    store, _ = opened(folder)
    if (number := store.rotate()) is not None:
        store.write(number, {})
    store.close()
    assert victim.read_text() == "of somebody else"
    assert store.errors == (name == "lock")  # without its lock the folder is not written to


def test_a_record_of_monstrous_length_is_counted_and_left_out(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    store.append(1, b"1" * (MAX_PAYLOAD_BYTES + 1))
    say(store, 2)
    assert store.errors == 1
    store.close()
    store, found = opened(tmp_path)
    store.close()
    assert found == [2]


def copied(store: Store, tmp_path: Path) -> Path:
    """The folder as a kill at this moment leaves it."""
    copy = tmp_path / "killed"
    shutil.copytree(store.folder, copy)
    store.close()
    return copy


@pytest.mark.parametrize("n_snapshots", [0, 1, 2])
def test_a_kill_right_after_a_snapshot_is_a_crash(tmp_path: Path, n_snapshots: int) -> None:
    store, _ = opened(tmp_path / "state")
    assert not store.crashed
    for _ in range(n_snapshots):
        snapshot(store, [])
    store, _ = opened(copied(store, tmp_path))
    assert store.crashed
    store.close()


def test_a_clean_end_is_no_crash_until_the_folder_is_opened_again(tmp_path: Path) -> None:
    store, _ = opened(tmp_path / "state")
    snapshot(store, [1])
    store.close(cleanly=True)
    store, _ = opened(tmp_path / "state")
    assert not store.crashed
    store, _ = opened(copied(store, tmp_path))
    assert store.crashed
    store.close()


def test_a_clean_end_whose_last_snapshot_is_lost_is_a_crash(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    snapshot(store, [1])
    snapshot(store, [1])
    store.close(cleanly=True)
    (tmp_path / "snapshot-2").unlink()
    store, found = opened(tmp_path)
    assert store.crashed
    assert found == [1]
    store.close()


def test_the_state_keeps_its_id(tmp_path: Path) -> None:
    ids = set()
    for _ in range(3):
        store, _ = opened(tmp_path)
        ids.add(store.id)
        snapshot(store, [])
        store.close()
    assert len(ids) == 1


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x41
    path.write_bytes(data)


def test_a_damaged_snapshot_is_set_aside_for_the_one_before_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, _ = opened(tmp_path)
    for number in range(1, 7):
        say(store, number)
        if number % 2:
            snapshot(store, list(range(1, number + 1)))
    store.close()
    flip(tmp_path / "snapshot-3", -1)
    store, found = opened(tmp_path)
    assert found == [1, 2, 3, 4, 5, 6]
    assert store.crashed
    assert store.torn_bytes == (tmp_path / "snapshot-3.damaged").stat().st_size
    assert "snapshot-3 is damaged at offset" in caplog.text
    snapshot(store, found)
    store.close()
    store, found = opened(tmp_path)
    assert found == [1, 2, 3, 4, 5, 6]
    assert store.torn_bytes == 0
    store.close()


def test_the_first_snapshot_falls_back_to_the_journals(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    say(store, 1)
    snapshot(store, [1])
    say(store, 2)
    store.close()
    flip(tmp_path / "snapshot-1", 30)
    store, found = opened(tmp_path)
    assert found == [1, 2]
    store.close()


def test_any_flipped_byte_of_a_journal_costs_only_what_is_behind_it(tmp_path: Path) -> None:
    store, _ = opened(tmp_path / "state")
    for number in range(20):
        say(store, number)
    store.close()
    size = (tmp_path / "state" / "journal-0").stat().st_size
    n_refound = 0
    for at in range(size):
        copy = tmp_path / f"{at}"
        shutil.copytree(tmp_path / "state", copy)
        flip(copy / "journal-0", at)
        store, found = opened(copy)
        assert found == list(range(len(found)))
        aside = (copy / "journal-0.damaged").stat().st_size
        assert store.torn_bytes == aside == size - (copy / "journal-0").stat().st_size or not found
        n_refound += len(found)
        say(store, 99)
        store.close()
        store, again = opened(copy)
        assert again == [*found, 99]
        assert store.torn_bytes == 0
        store.close()
    assert n_refound


def test_a_page_of_zeros_in_a_journal_costs_only_what_is_behind_it(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    for number in range(2_000):
        say(store, number)
    store.close()
    journal = tmp_path / "journal-0"
    data = bytearray(journal.read_bytes())
    data[-8192:-4096] = bytes(4096)
    journal.write_bytes(data)
    store, found = opened(tmp_path)
    assert found == list(range(len(found)))
    assert len(found) > 1_000
    assert (tmp_path / "journal-0.damaged").read_bytes() == data[-store.torn_bytes :]
    store.close()


def test_what_is_set_aside_twice_is_kept_twice(tmp_path: Path) -> None:
    for garbage in (b"first", b"second"):
        store, _ = opened(tmp_path)
        say(store, 1)
        store.close()
        with (tmp_path / "journal-0").open("ab") as file:
            file.write(garbage)
    opened(tmp_path)[0].close()
    asides = [(tmp_path / f"journal-0.damaged{suffix}").read_bytes() for suffix in ("", "-1")]
    assert asides == [b"first", b"second"]


def test_a_state_of_a_release_whose_identity_named_the_blocks_opens(tmp_path: Path) -> None:
    store = Store(tmp_path, fsync="no")
    store.load(IDENTITY | {"blocks": 8})
    say(store, 7)
    store.close()
    store, numbers = opened(tmp_path)
    store.close()
    assert numbers == [7]


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


def test_a_folder_that_cannot_be_read_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    say(store, 1)
    store.close()
    journal = tmp_path / "journal-0"
    journal.rename(tmp_path / "kept")
    os.mknod(journal, S_IFSOCK)  # whoever opens it gets an OSError, as from a broken disk
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StateError, match=r"cannot be read .*No such device"):
        opened(tmp_path)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(sys.platform == "win32", reason="folders inherit their rights")
def test_a_folder_that_any_user_may_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StateError, match="chmod o-w"):
        Store(tmp_path)
    for mode in (0o1777, 0o775, 0o700):  # sticky as /tmp, shared with a group, one's own
        tmp_path.chmod(mode)
        Store(tmp_path).close()


@pytest.mark.skipif(sys.platform == "win32", reason="folders inherit their rights")
def test_a_folder_of_another_user_is_refused_but_for_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    os.chown(tmp_path, 1234, -1)
    for user in (0, 1234):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        require_own(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1235)
    with pytest.raises(StateError, match="chown it"):
        require_own(tmp_path)

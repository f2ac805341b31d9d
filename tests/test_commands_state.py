"""check says what is damaged in a state folder, and repair leaves one that is sound."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from ledgers import page, write

from scrapy_neardup.commands import NOTHING_FOUND, WRONG_USE, main
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.frontier import Frontier
from scrapy_neardup.state.frontier_file import NAME
from scrapy_neardup.state.secret import kept_key
from scrapy_neardup.state.store import Store
from tests.mock_site import prose

SETTINGS = NearDupSettings(index="scan", engine="numpy", url_capacity=100)


def opened(folder: Path, as_guest: bool = False, settings: NearDupSettings = SETTINGS) -> State:
    factory = make_state_factory(settings)
    return State.open(folder, factory, key=settings.key, fsync="no", as_guest=as_guest)


def see(state: State, key: bytes) -> None:
    state.url_done(key)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two snapshots with journals, left by a crash, and a ledger."""
    folder = tmp_path / "state"
    for name in (b"a", b"b", b"c"):
        state = opened(folder)
        see(state, name)
        page_id = state.decide(state.detector.read("http://a.example/", prose(1)))[0].page_id
        if page_id is not None:
            state.keep(page_id)
        state.close()
    state = opened(folder)
    see(state, b"d")
    assert state.store is not None
    state.store.close()
    return write(folder, [page("http://a.example/")])


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("lock", "-wal", "-shm"))
    }


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x41
    path.write_bytes(data)


def test_a_sound_folder_is_sound_and_stays_as_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(folder)
    assert main(["check", str(folder)]) == 0
    output = capsys.readouterr().out
    assert "6 files, 0 damaged" in output
    assert "did not end cleanly" in output
    assert main(["repair", str(folder)]) == 0
    assert "nothing is damaged" in capsys.readouterr().out
    assert files(folder) == before


def test_a_clean_end_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened(folder).close()
    assert main(["check", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ended_cleanly"]


@pytest.mark.parametrize("n_flips", [1, 4])
def test_whatever_is_damaged_is_named_and_repaired(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], n_flips: int
) -> None:
    rng = Random(n_flips)
    names = [name for name in files(folder) if name.startswith(("snapshot", "journal"))]
    for number in range(30):
        copy = tmp_path / f"{number}"
        shutil.copytree(folder, copy)
        for name in rng.sample(names, n_flips):
            flip(copy / name, rng.randrange((copy / name).stat().st_size))
        assert main(["check", str(copy), "--json"]) == NOTHING_FOUND
        told = json.loads(capsys.readouterr().out)["files"]
        assert sum(file["verdict"] != "sound" for file in told) == n_flips
        assert main(["repair", str(copy), "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["moved"]) == n_flips
        assert main(["check", str(copy)]) == 0
        capsys.readouterr()
        state = opened(copy)
        assert state.store is not None
        assert state.store.torn_bytes == 0
        state.check()
        state.store.close()


def test_a_damaged_ledger_is_set_aside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = folder / "ledger" / "000001.sqlite"
    ledger.write_bytes(b"not a database" * 1_000)
    assert main(["check", str(folder)]) == NOTHING_FOUND
    assert "000001.sqlite: cannot be read" in capsys.readouterr().out
    assert main(["repair", str(folder)]) == 0
    assert "bytes are now in ledger/000001.sqlite.damaged" in capsys.readouterr().out
    assert main(["check", str(folder)]) == 0


def test_a_folder_in_use_or_of_something_else_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = opened(folder)
    for command in ("check", "repair"):
        assert main([command, str(folder)]) == WRONG_USE
        assert "is in use by process" in capsys.readouterr().err
        assert main([command, str(tmp_path)]) == WRONG_USE
        assert "holds no state" in capsys.readouterr().err
        assert main([command, str(tmp_path / "nowhere")]) == WRONG_USE
    state.close()
    assert not (tmp_path / "lock").exists()


def test_a_state_of_another_version_is_refused_not_repaired(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = opened(tmp_path / "other")
    other.close()
    shutil.copy(tmp_path / "other" / "journal-1", folder / "journal-9")
    before = files(folder)
    for command in ("check", "repair"):
        assert main([command, str(folder)]) == WRONG_USE
        assert "another specification" in capsys.readouterr().err
    assert files(folder) == before


def release(state: State) -> None:
    """As a crash would."""
    assert state.store is not None
    state.store.close()


def checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    main(["check", str(folder), "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def verdict(found: dict[str, Any], name: str) -> str:
    (said,) = [file["verdict"] for file in found["files"] if file["file"].startswith(name)]
    assert isinstance(said, str)
    return said


def with_frontier(folder: Path) -> Path:
    frontier = Frontier(folder / NAME, kept_key(folder))
    queue = frontier.queue("0", newest_first=True)
    for number in range(300):
        queue.push(b"a request of some length, number %d" % number, "")
    frontier.close()
    return folder / NAME


def test_the_requests_that_wait_are_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_frontier(folder)
    assert main(["check", str(folder)]) == 0
    output = capsys.readouterr().out
    assert "7 files, 0 damaged" in output
    assert "300 requests wait for the next crawl" in output
    assert checked(folder, capsys)["requests_waiting"] == 300


def test_a_frontier_left_by_a_kill_is_read_with_its_log(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = Frontier(folder.parent / NAME, kept_key(folder))
    killed.queue("0", newest_first=True).push(b"a request", "")
    killed.flush()
    for path in folder.parent.glob(NAME + "*"):
        shutil.copy(path, folder)
    killed.release()
    assert checked(folder, capsys)["requests_waiting"] == 1


def test_a_frontier_that_was_only_begun_is_sound(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / NAME).touch()
    assert verdict(checked(folder, capsys), NAME) == "sound"


@pytest.mark.parametrize("damage", ["a request", "a page", "the header", "cut off"])
def test_a_damaged_frontier_is_set_aside_and_all_urls_forgotten(
    folder: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    path = with_frontier(folder)
    data = path.read_bytes()
    at = data.index(b"number 150")
    page = at // 4096 * 4096
    changed = {
        "a request": data[:at] + b"N" + data[at + 1 :],
        "a page": data[:page] + bytes(4096) + data[page + 4096 :],
        "the header": bytes(100) + data[100:],
        "cut off": data[: len(data) // 2],
    }
    path.write_bytes(changed[damage])
    assert "frontier.sqlite" in verdict(checked(folder, capsys), NAME)
    assert main(["repair", str(folder)]) == 0
    output = capsys.readouterr().out
    assert "bytes are now in frontier.sqlite.damaged" in output
    assert "reads all pages again" in output
    assert main(["check", str(folder)]) == 0
    for _ in range(2):  # replayed twice
        state = opened(folder)
        assert state.crashed
        assert not len(state.urls)
        assert len(state.detector.pages) == 1
        release(state)
    state = opened(folder)
    see(state, b"e")
    state.close()
    state = opened(folder)
    assert b"e" in state.urls
    assert b"a" not in state.urls
    state.close()


@pytest.mark.parametrize("left", ["an older file", "an empty file", "no file"])
def test_a_frontier_that_lacks_commits_is_set_aside_and_all_urls_forgotten(
    folder: Path, capsys: pytest.CaptureFixture[str], left: str
) -> None:
    path = with_frontier(folder)
    for is_snapshotted in (True, False):  # in a snapshot, then in a journal after it
        state = opened(folder)
        state.frontier_committed(1 if is_snapshotted else 2)
        state.close() if is_snapshotted else release(state)
        assert (verdict(checked(folder, capsys), NAME) == "sound") is is_snapshotted
    if left == "an empty file":
        path.write_bytes(b"")
    elif left == "no file":
        path.unlink()
    assert "because of its commit 2" in verdict(checked(folder, capsys), NAME)
    assert main(["repair", str(folder)]) == 0
    output = capsys.readouterr().out
    assert "bytes are now in frontier.sqlite.damaged" in output
    assert "reads all pages again" in output
    assert main(["check", str(folder)]) == 0
    state = opened(folder)
    assert not len(state.urls)
    assert state.frontier_commit == 0
    release(state)


def test_a_frontier_of_another_version_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(with_frontier(folder))) as db:
        db.execute("PRAGMA user_version = 9")
    for command in ("check", "repair"):
        assert main([command, str(folder)]) == WRONG_USE
        assert "format version 9 found" in capsys.readouterr().err


def test_journals_of_guests_that_wait_are_counted_and_torn_ones_repaired(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = opened(folder)
    guests = [opened(folder, as_guest=True) for _ in range(3)]
    for number, guest in enumerate(guests):
        see(guest, b"by guest %d" % number)
    for ended in guests[:2]:
        ended.close()
    release(owner)
    found = checked(folder, capsys)
    assert (found["guests_ended"], found["guests_living"]) == (2, 1)
    assert main(["check", str(folder)]) == 0
    output = capsys.readouterr().out
    assert "2 journals of guests wait to be merged" in output
    assert "1 guests are still crawling" in output
    assert guests[0].store is not None
    torn = [path for path in sorted(folder.glob("guest-*")) if b"guest 0" in path.read_bytes()]
    torn[0].write_bytes(torn[0].read_bytes() + b"torn")
    assert "4 bytes behind its last sound record" in verdict(checked(folder, capsys), torn[0].name)
    assert main(["repair", str(folder)]) == 0
    capsys.readouterr()
    assert checked(folder, capsys)["guests_ended"] == 2
    guests[2].close()
    state = opened(folder)
    assert all(b"by guest %d" % number in state.urls for number in range(3))
    state.close()


@pytest.mark.parametrize("repairs", [True, False])
def test_a_guest_of_another_specification_is_set_aside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], repairs: bool
) -> None:
    """It came when the folder was empty, so that nobody could compare."""
    folder = tmp_path / "state"
    first = Store(folder)
    guest = opened(folder, as_guest=True, settings=NearDupSettings(key=8, engine="numpy"))
    see(guest, b"by the other")
    guest.close()
    first.close()
    state = opened(folder)  # its own guest's, so far: nothing else tells whose the folder is
    assert b"by the other" not in state.urls
    see(state, b"own")
    state.close()
    (journal,) = folder.glob("guest-*")
    if repairs and not journal.suffix:
        assert "another specification" in verdict(checked(folder, capsys), journal.name)
        assert main(["repair", str(folder)]) == 0
    state = opened(folder)
    assert b"own" in state.urls
    state.close()
    assert [path.suffix for path in folder.glob("guest-*")] == [".damaged"]


def test_a_damaged_key_is_named_and_cannot_be_repaired(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verdict(checked(folder, capsys), "key") == "sound"
    (folder / "key").write_text("no key\n")
    assert "is damaged" in verdict(checked(folder, capsys), "key")
    assert main(["repair", str(folder)]) == WRONG_USE
    assert "Restore it from a copy" in capsys.readouterr().err

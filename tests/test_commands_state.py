"""check says what is damaged in a state folder, and repair leaves one that is sound."""

import json
import shutil
from pathlib import Path
from random import Random

import pytest
from ledgers import page, write

from scrapy_neardup.commands import NOTHING_FOUND, WRONG_USE, main
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from tests.mock_site import prose

SETTINGS = NearDupSettings(index="scan", engine="numpy", url_capacity=100)


def opened(folder: Path) -> State:
    return State.open(folder, make_state_factory(SETTINGS), key=SETTINGS.key, fsync="no")


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
    assert "5 files, 0 damaged" in output
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

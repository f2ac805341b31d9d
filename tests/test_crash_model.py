"""A state opens after every crash of a modelled file system and keeps its promises."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests import faults
from tests.crash_model import KILL, POLICIES, Crash, Recording, build, left_by, live, replay

ROOT = Path(__file__).resolve().parents[1]
NOTHING_UNSYNCED = Crash("power", 0, 0)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_state_opens_after_every_crash_and_keeps_its_promises(policy: str) -> None:
    assert replay(seed=1, policy=policy, stride=10).total() > 100


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_kill_after_the_last_call_leaves_the_folder_itself(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "life")
    recording.root.mkdir()
    with recording.running():
        live(recording, "always", random.Random(1))
    (tmp_path / "left").mkdir()
    calls = left_by(recording.calls, KILL, random.Random(1))
    build(calls, recording.folders, tmp_path / "left")
    assert contents(tmp_path / "left") == contents(recording.root)


def test_a_loss_of_power_leaves_nothing_of_what_was_never_synced(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "life")
    recording.root.mkdir()
    with recording.running():
        fd = os.open(recording.root / "file", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"data")
        os.close(fd)
    (tmp_path / "left").mkdir()
    calls = left_by(recording.calls, NOTHING_UNSYNCED, random.Random(1))
    build(calls, recording.folders, tmp_path / "left")
    assert contents(tmp_path / "left") == {}


@pytest.mark.skipif(not faults.IS_POSSIBLE, reason="needs Linux and a C compiler")
def test_a_frontier_opens_after_every_crash_and_holds_what_a_commit_left() -> None:
    command = [sys.executable, "-m", "tests.frontier_model", "--lives", "2", "--stride", "9"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every commit kept" in done.stdout

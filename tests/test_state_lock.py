"""One process at a time: the second is told which folder and who holds it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scrapy_neardup.errors import StateLocked
from scrapy_neardup.state.lock import FolderLock

HOLD = """
import sys, pathlib
from scrapy_neardup.state.lock import FolderLock
lock = FolderLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_second_lock_names_folder_and_process(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    with pytest.raises(StateLocked, match=f"{tmp_path} is in use by process {os.getpid()}"):
        FolderLock(tmp_path)
    lock.close()


def test_lock_can_be_taken_again_after_close(tmp_path: Path) -> None:
    FolderLock(tmp_path).close()
    FolderLock(tmp_path).close()


def test_killed_process_gives_its_lock_back(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StateLocked, match=f"process {holder.pid}"):
            FolderLock(tmp_path)
        holder.kill()
    FolderLock(tmp_path).close()

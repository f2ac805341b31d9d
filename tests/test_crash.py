"""A crawl of the demo site is ended many times before its time, and loses nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = 15
ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")
def test_a_crawl_that_is_killed_and_resumed_loses_no_page() -> None:
    command = [sys.executable, "-m", "tests.crash", "--rounds", str(ROUNDS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no page lost" in done.stdout


def test_diaries_of_two_crawls_at_once_are_read_by_time() -> None:
    from tests.crash_pairs import in_order  # which loads what only a crash run needs

    killed = ["fetched 15 /15 1.0", "copy /18 /15 1.2"]  # before /15 itself was kept
    finished = ["fetched 1 /1 0.5", "seen 1", "copy /15 /18 3.5", "kept /18 3.6"]
    words = [" ".join(line.split()[:2]) for line in in_order(finished, killed)]
    assert words == ["fetched 1", "seen 1", "fetched 15", "copy /18", "copy /15", "kept /18"]

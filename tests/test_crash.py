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

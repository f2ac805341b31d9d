"""Workers and server of a fleet are killed many times, and nothing is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fleets import PROGRAM

pytest.importorskip("redis", reason="the extra `redis` is not installed")

KILLS = 8
ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork and all of 127.0.0.0/8")
@pytest.mark.skipif(
    PROGRAM is None and not os.environ.get("NEARDUP_REQUIRE_REDIS"),
    reason="neither valkey-server nor redis-server is installed",
)
@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--recrawl"],
        ["--scheduler", "redis-spider"],
        ["--scheduler", "redis-spider-fifo"],
        ["--scheduler", "redis-spider-alone"],
    ],
    ids=" ".join,
)
def test_workers_that_are_killed_lose_no_page(more: list[str]) -> None:
    if "redis-spider" in "".join(more):
        pytest.importorskip("scrapy_redis", reason="scrapy-redis is not installed")
    command = [sys.executable, "-m", "tests.fleet_crash", "--kills", str(KILLS), *more]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "'lost': 0" in done.stdout

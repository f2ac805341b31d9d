"""A state on file systems that are full, read-only or in memory: what a crawl can still do.

Each test runs in a mount namespace of its own, where it may mount what it needs.
"""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from scrapy_neardup.errors import StateError
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.frontier import Frontier
from scrapy_neardup.state.frontier_file import NAME
from tests.crash_model import keep, knows, opened

ROOT = Path(__file__).resolve().parents[1]
IN_NAMESPACE = ["unshare", "--mount", "--map-root-user"]


def may_mount() -> bool:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    command = [*IN_NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(command, capture_output=True).returncode == 0


needs_mounts = pytest.mark.skipif(not may_mount(), reason="needs unshare and mount")


def run_mounted(mount: str, what: str, folder: Path) -> None:
    """Run a function of this module on a folder, after a command that mounts there."""
    program = f"from tests.test_state_places import {what}; from pathlib import Path; import sys; "
    program += f"{what}(Path(sys.argv[1]))"
    script = f'{mount} && exec "$0" -c "$2" "$1"'
    command = [*IN_NAMESPACE, "sh", "-c", script, sys.executable, str(folder), program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=dict(os.environ))
    assert done.returncode == 0, done.stderr


def remember_until_full(folder: Path) -> None:
    ballast = folder / "ballast"
    state = opened(folder / "state", "always")
    ballast.write_bytes(bytes(700_000))
    assert state.store is not None
    number = 0
    while not state.store.errors:
        keep(state, number)
        number += 1
        assert number < 3_000, "the disk is not full"
    for _ in range(5):
        keep(state, number)
        number += 1
    state.snapshot()  # fails as well, and the crawl goes on
    assert state._writing is None or not state._writing.result()
    assert all(knows(state, n) for n in range(number))
    ballast.unlink()
    state.close()
    again = opened(folder / "state", "always")
    assert not again.crashed
    assert all(knows(again, n) for n in range(number))
    again.close()


@needs_mounts
def test_what_a_full_disk_could_not_hold_is_saved_when_there_is_room(tmp_path: Path) -> None:
    run_mounted('mount -t tmpfs -o size=1m none "$1"', "remember_until_full", tmp_path)


def crawl_read_only(folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    state = opened(folder, "always")
    assert state.store is not None
    assert state.store.errors
    assert all(knows(state, n) for n in range(3))
    keep(state, 3)
    assert knows(state, 3)
    state.snapshot()
    state.close()
    assert sorted(path.name for path in folder.iterdir()) == before


@needs_mounts
def test_a_read_only_file_system_is_read_and_the_crawl_goes_on_in_memory(tmp_path: Path) -> None:
    state = opened(tmp_path, "always")
    for number in range(3):
        keep(state, number)
    state.close()
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"'
    run_mounted(mount, "crawl_read_only", tmp_path)
    again = opened(tmp_path, "always")
    assert [number for number in range(4) if knows(again, number)] == [0, 1, 2]
    again.close()


def begin_a_job_on_a_full_disk(folder: Path) -> None:
    for room in (0, 16_384, 40_960):  # for no page, no shared memory, not the whole file
        job = folder / f"{room}"
        job.mkdir()
        with (folder / "ballast").open("wb", buffering=0) as ballast:
            with suppress(OSError):
                while True:
                    ballast.write(bytes(4096))
            ballast.truncate(ballast.tell() - room)
            with pytest.raises(StateError, match=r"cannot be opened .*\. Free the disk"):
                Frontier(job / NAME)
        shutil.rmtree(job)


@needs_mounts
def test_a_queue_that_a_full_disk_has_no_room_for_is_refused_with_that(tmp_path: Path) -> None:
    run_mounted('mount -t tmpfs -o size=600k none "$1"', "begin_a_job_on_a_full_disk", tmp_path)


def draw_a_key_on_a_full_disk(folder: Path) -> None:
    factory = make_state_factory(NearDupSettings(index="scan", engine="numpy", url_capacity=100))
    (folder / "state").mkdir()
    with (folder / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while True:
            ballast.write(bytes(4096))
    state = State.open(folder / "state", factory)
    state.url_done(b"a page")
    (folder / "ballast").unlink()
    state.close()
    again = State.open(folder / "state", factory)
    assert b"a page" in again.urls
    again.close()


@needs_mounts
def test_a_key_that_found_no_room_is_written_before_what_it_is_for(tmp_path: Path) -> None:
    run_mounted('mount -t tmpfs -o size=3m none "$1"', "draw_a_key_on_a_full_disk", tmp_path)

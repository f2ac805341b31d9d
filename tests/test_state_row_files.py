"""Files of rows: written once, shared by snapshots, found damaged, and removed when not needed."""

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scrapy_neardup.detect import page_table
from scrapy_neardup.errors import DamagedFile
from scrapy_neardup.state import State, row_files
from scrapy_neardup.state.recovery import read_fallback, read_folder
from scrapy_neardup.state.snapshot import RowFile, named_rows, open_snapshot, write_snapshot
from scrapy_neardup.stored_arrays import Joined, whole
from tests.crash_model import keep, knows, opened

ONE_PAGE = 700  # bytes, about


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if rows of ten pages were 64 MB."""
    monkeypatch.setattr(row_files, "MIN_BYTES", 10 * ONE_PAGE)


def add(state: State, first: int, n: int) -> None:
    """Keep n pages, and save them."""
    for number in range(first, first + n):
        keep(state, number)
    state.snapshot()
    assert state._writing is not None
    assert state._writing.result()


def give_up(state: State) -> None:
    """As a crash would."""
    assert state.store is not None
    state.store.close()


def inodes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in folder.glob("rows-*")}


def test_a_snapshot_writes_the_rows_that_are_new(tmp_path: Path) -> None:
    state = opened(tmp_path, "no")
    add(state, 0, 40)
    before = inodes(tmp_path)
    assert before
    add(state, 40, 3)
    assert inodes(tmp_path) == before
    add(state, 43, 12)
    assert inodes(tmp_path).items() > before.items()
    give_up(state)
    again = opened(tmp_path, "no")
    assert all(knows(again, number) for number in range(55))
    again.check()
    give_up(again)


def is_mapped(array: Any) -> bool:
    """Whether an array's numbers are in a file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def test_rows_leave_memory_once_a_file_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = 64  # rows
    monkeypatch.setattr(page_table, "CHUNK_BYTES", 1)
    state, n = opened(tmp_path, "no"), 0
    for more in (70, 3, 200, 70):
        add(state, n, more)
        n += more
    add(state, n, 1)
    parts = state.detector.pages.sketches._parts()
    assert sum(len(part) for part in parts if is_mapped(part)) >= n - 2 * chunk
    assert sum(len(part) for part in parts) == n + 1
    assert all(knows(state, number) for number in range(0, n, 20))
    state.check()
    state.close()
    again = opened(tmp_path, "no")
    assert not again.crashed
    assert all(knows(again, number) for number in range(0, n, 20))
    again.check()
    give_up(again)


def test_a_file_of_rows_that_does_not_hold_what_was_written_makes_no_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = opened(tmp_path, "no")
    add(state, 0, 12)
    assert state.store is not None
    write_rows = state.store._write_rows

    def torn(name: str, arrays: Any) -> str:
        mac = write_rows(name, arrays)
        path = tmp_path / name
        data = bytearray(path.read_bytes())
        data[-100] ^= 1
        path.write_bytes(data)
        return mac

    monkeypatch.setattr(state.store, "_write_rows", torn)
    for number in range(12, 40):
        keep(state, number)
    state.snapshot()
    assert state._writing is not None
    assert not state._writing.result()
    assert state.store.errors == 1
    give_up(state)
    again = opened(tmp_path, "no")
    assert all(knows(again, number) for number in range(40))
    give_up(again)


def test_the_next_crawl_goes_on_with_the_files_of_this_one(tmp_path: Path) -> None:
    state = opened(tmp_path, "no")
    add(state, 0, 40)
    state.close()
    before = inodes(tmp_path)
    again = opened(tmp_path, "no")
    add(again, 40, 1)
    assert inodes(tmp_path) == before
    add(again, 41, 12)
    assert inodes(tmp_path).items() > before.items()
    again.close()
    last = opened(tmp_path, "no")
    assert all(knows(last, number) for number in range(53))
    last.close()


def test_small_files_are_merged_and_those_that_nothing_needs_are_removed(tmp_path: Path) -> None:
    state = opened(tmp_path, "no")
    for n in range(12):
        add(state, 12 * n, 12)
    newest, fallback = (named_rows(tmp_path / f"snapshot-{n}") for n in (12, 11))
    assert set(inodes(tmp_path)) == newest | fallback
    assert len(newest) <= 5
    give_up(state)
    again = opened(tmp_path, "no")
    assert all(knows(again, number) for number in range(144))
    give_up(again)


def test_forgotten_pages_stay_forgotten(tmp_path: Path) -> None:
    state = opened(tmp_path, "no")
    add(state, 0, 30)
    state.detector.forget(3)
    add(state, 30, 1)
    give_up(state)
    again = opened(tmp_path, "no")
    assert [number for number in range(31) if not knows(again, number)] == [3]
    give_up(again)


@pytest.mark.parametrize("how", ["flipped", "missing", "cut off", "of another snapshot"])
def test_without_a_file_of_rows_a_crawl_goes_on_with_what_the_fallback_holds(
    tmp_path: Path, how: str
) -> None:
    state = opened(tmp_path, "no")
    add(state, 0, 60)
    add(state, 60, 20)
    keep(state, 80)
    give_up(state)
    path = max(tmp_path.glob("rows-2-*"))
    data = bytearray(path.read_bytes())
    if how == "missing":
        path.unlink()
    elif how == "of another snapshot":
        path.write_bytes(next(tmp_path.glob("rows-1-*")).read_bytes())
    else:
        data[-100] ^= 1
        path.write_bytes(data if how == "flipped" else data[:-100])
    again = opened(tmp_path, "no")
    assert again.crashed
    assert all(knows(again, number) for number in range(81))
    assert (tmp_path / f"{path.name}.damaged").exists() == (how != "missing")
    add(again, 81, 30)
    give_up(again)


def test_damage_to_what_both_snapshots_need_costs_what_it_held(tmp_path: Path) -> None:
    state = opened(tmp_path, "no")
    add(state, 0, 30)
    add(state, 30, 1)
    keep(state, 31)
    give_up(state)
    path = next(tmp_path.glob("rows-1-*"))
    path.write_bytes(path.read_bytes()[:-1])
    content = read_folder(tmp_path)
    damaged = {one.path.name for one in (*content.damage, *read_fallback(tmp_path, content))}
    assert damaged == {path.name, "snapshot-1", "snapshot-2"}
    again = opened(tmp_path, "no")
    assert [number for number in range(32) if knows(again, number)] == [30, 31]
    give_up(again)


def test_a_snapshot_names_no_file_outside_its_folder(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "snapshot-1", {}, {}, rows=[[RowFile("../rows-1-0", "", 0, {})]])
    with pytest.raises(DamagedFile, match="list of files"):
        open_snapshot(tmp_path / "snapshot-1", {})


def test_arrays_in_parts_are_the_same_as_in_one_piece() -> None:
    rows = np.arange(20).reshape(10, 2)
    joined = Joined((rows[:3], rows[3:3], rows[3:]))
    for start in range(11):
        np.testing.assert_array_equal(whole(joined.behind(start)), rows[start:])
    assert (len(joined), joined.shape, joined.nbytes) == (10, (10, 2), rows.nbytes)

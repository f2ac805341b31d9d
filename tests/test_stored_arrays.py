"""Whatever a state folder holds, opening it is refused or serves; nothing crashes or hangs."""

import struct
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from scrapy_neardup.errors import DamagedFile, JournalError, SnapshotError
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.index.slices import SliceIndex
from scrapy_neardup.state import State, records
from scrapy_neardup.state.header import VERSION, pack_header
from scrapy_neardup.state.journal import Journal
from scrapy_neardup.state.mac import MAC_BYTES
from scrapy_neardup.state.snapshot import MAGIC, open_snapshot
from scrapy_neardup.stored_arrays import check_arrays, check_below, check_starts
from scrapy_neardup.urls.filters.exact import ExactUrlFilter
from tests import mutated_states
from tests.mutated_states import KEY, KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_altered_states_are_refused_or_served(kind: str) -> None:
    assert mutated_states.campaign(kind, 40) == []


def test_an_array_of_another_type_shape_or_order_is_refused() -> None:
    for found in (
        np.zeros((2, 3)),
        np.zeros((3, 2), int),
        np.zeros((2, 3), int).T,
        np.zeros(2, int),
    ):
        with pytest.raises(SnapshotError, match="array a is"):
            check_arrays("it", {"a": found}, {"a": (int, (2, None))})
    with pytest.raises(SnapshotError, match="array a is missing"):
        check_arrays("it", {}, {"a": (int, (None,))})
    check_arrays("it", {"a": np.zeros((2, 3), int)}, {"a": (int, (2, None))})


@pytest.mark.parametrize("numbers", [[3], [0, -1], [2**62]])
def test_numbers_beyond_a_limit_are_refused(numbers: list[int]) -> None:
    with pytest.raises(SnapshotError, match="not from 0 to below 3"):
        check_below("it", np.array(numbers), 3)
    check_below("it", np.array([0, 2]), 3)
    check_below("it", np.array([], int), 0)


@pytest.mark.parametrize("starts", [[], [1, 4], [0, 3], [0, 5, 4], [[0, 4], [0, 3]]])
def test_lists_that_do_not_fit_their_entries_are_refused(starts: list[int]) -> None:
    with pytest.raises(SnapshotError, match=r"do not reach|before it starts"):
        check_starts("it", np.array(starts, np.uint32), 4)
    check_starts("it", np.array([[0, 2, 4], [0, 0, 4]], np.uint32), 4)


def test_a_layout_of_wide_slices_is_refused_before_their_lists_are_made() -> None:
    arrays = SliceIndex(1024, 9).arrays()
    arrays["layout"] = np.array([1, 1024, 26, 40, 0])  # 10 GB of lists
    with pytest.raises(SnapshotError, match="array offsets"):
        SliceIndex.from_arrays(arrays)


def test_a_table_of_urls_without_a_free_place_is_refused() -> None:
    arrays = ExactUrlFilter(100, seed=1).arrays()
    arrays["places"] = np.arange(1, len(arrays["places"]) + 1, dtype=np.uint64)
    with pytest.raises(Exception, match="places taken, 0 counted"):
        ExactUrlFilter.from_arrays(arrays)


def entry(**changed: object) -> dict[str, object]:
    return {"name": "a", "dtype": "<u8", "shape": [0], "sha256": ""} | changed


@pytest.mark.parametrize(
    "entries",
    [
        None,
        {},
        [1],
        [{}],
        [entry(name=3)],
        [entry(dtype="O")],
        [entry(dtype="S0", shape=[2**60])],
        [entry(dtype="u8,O")],
        [entry(dtype="<u8", shape=[-1])],
        [entry(shape=[2**32, 2**32])],
        [entry(shape=[2**70, 0])],
        [entry(shape=[True])],
        [entry(shape=3)],
        [entry(shape=[0] * 99)],
        [entry(sha256=None)],
    ],
)
def test_a_header_that_names_no_plain_arrays_is_damaged(tmp_path: Path, entries: object) -> None:
    path = tmp_path / "snapshot-1"
    path.write_bytes(pack_header(MAGIC, {}, 0, state=1, arrays=entries))
    with pytest.raises(DamagedFile):
        open_snapshot(path, {})


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b"{", b"1", b'{"state":-1}', b'{"state":1,"identity":[]}', b"\xff"]
)
def test_a_header_of_other_json_is_damaged(tmp_path: Path, text: bytes) -> None:
    text += bytes(MAC_BYTES)
    fixed = struct.pack("<8sII", MAGIC, VERSION, len(text))
    path = tmp_path / "snapshot-1"
    path.write_bytes(fixed + struct.pack("<I", crc32(text, crc32(fixed))) + text)
    with pytest.raises(DamagedFile):
        open_snapshot(path, None)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (records.URL, b""),
        (records.PAGE, b"\xff" * 20),
        (records.PAGE, b"\xff" * 60),  # fewer words of a sketch than it says
        (records.PAGE, b"\0" * 42 + b"http://a.example/"),  # a sketch of none
        (records.ITEM, b"\0" * 20),
        (records.ITEM, b"\0" * 32),  # a sketch of one word
        (9, b""),
    ],
)
def test_a_journal_with_records_that_nobody_writes_is_refused(
    tmp_path: Path, kind: int, payload: bytes
) -> None:
    factory = make_state_factory(KINDS["scan-bloom"])
    journal = Journal.create(tmp_path / "journal-0", factory.identity(KEY), "no", key=KEY)
    journal.append(kind, payload)
    journal.close(cleanly=True)
    with pytest.raises(JournalError, match="delete the folder"):
        State.open(tmp_path, factory, key=KEY)

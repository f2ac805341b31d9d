"""A snapshot gives its arrays back by mmap, and refuses itself when one byte is wrong."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from scrapy_neardup.errors import DamagedFile, SnapshotError
from scrapy_neardup.factory import make_identity
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.snapshot import open_snapshot, write_snapshot
from scrapy_neardup.stored_arrays import Joined

IDENTITY = {"fingerprint.bits": 64, "key": "abc"}
ARRAYS = {
    "bits": np.arange(5, dtype=np.uint64),
    "rows": np.arange(6, dtype=np.int32).reshape(2, 3),
    "scalar": np.array(0.5),
    "none": np.empty((0, 4), np.uint64),
    "text": np.array(["one", "more"]),
    "flags": np.array([True, False]),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_snapshot(tmp_path / "snapshot", IDENTITY, ARRAYS)
    return tmp_path / "snapshot"


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_arrays_come_back_as_they_were(path: Path) -> None:
    assert_same(open_snapshot(path, IDENTITY).arrays, ARRAYS)


@given(
    st.dictionaries(
        st.text(max_size=5),
        npst.arrays(
            st.one_of(npst.integer_dtypes(), npst.floating_dtypes(), npst.unicode_string_dtypes()),
            npst.array_shapes(min_dims=0, max_dims=3, min_side=0),
        ),
        max_size=4,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_any_plain_arrays_come_back(tmp_path: Path, arrays: dict[str, np.ndarray]) -> None:
    write_snapshot(tmp_path / "any", IDENTITY, arrays)
    assert_same(open_snapshot(tmp_path / "any", IDENTITY).arrays, arrays)


def test_arrays_are_aligned_and_share_the_mapped_file(path: Path) -> None:
    for array in open_snapshot(path, IDENTITY).arrays.values():
        assert array.ctypes.data % 64 == 0
        assert not array.flags.owndata


def test_writing_to_an_opened_array_leaves_the_file_alone(path: Path) -> None:
    before = path.read_bytes()
    open_snapshot(path, IDENTITY).arrays["bits"][:] = 7
    assert path.read_bytes() == before


def test_every_flipped_byte_is_refused(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(len(data)):
        data[at] ^= 0x41
        path.write_bytes(data)
        data[at] ^= 0x41
        with pytest.raises(DamagedFile, match=str(path)):
            open_snapshot(path, IDENTITY)


def test_every_truncation_and_any_addition_is_refused(path: Path) -> None:
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(DamagedFile, match="damaged at offset"):
            open_snapshot(path, IDENTITY)
    path.write_bytes(data + b"\0")
    with pytest.raises(DamagedFile, match="damaged at offset"):
        open_snapshot(path, IDENTITY)


def test_another_identity_is_refused_with_both_named(path: Path) -> None:
    with pytest.raises(SnapshotError, match="key is 'abc' there and 'xyz' here"):
        open_snapshot(path, IDENTITY | {"key": "xyz"})


def test_sketches_from_before_they_were_keyed_are_refused_with_the_remedy(tmp_path: Path) -> None:
    identity = make_identity(NearDupSettings(), key=5)
    before = {name: value for name, value in identity.items() if not name.endswith(".hash")}
    write_snapshot(tmp_path / "snapshot", before, ARRAYS)
    message = "sketch.hash is None there and 'siphash' here.*delete the folder"
    with pytest.raises(SnapshotError, match=message):
        open_snapshot(tmp_path / "snapshot", identity)


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'things' of dtype object"):
        write_snapshot(tmp_path / "snapshot", {}, {"things": np.array([object()])})


def test_a_failed_write_leaves_the_old_snapshot(path: Path) -> None:
    before = path.read_bytes()
    os.mkdir(path.with_name("snapshot.tmp"))
    with pytest.raises(OSError, match=r"snapshot\.tmp"):
        write_snapshot(path, IDENTITY, {})
    assert path.read_bytes() == before


def test_joined_arrays_are_written_as_one_and_never_made(tmp_path: Path) -> None:
    rows = np.arange(21, dtype="<u4").reshape(7, 3)
    joined = Joined((rows[:2], rows[2:2], rows[2:]))
    write_snapshot(tmp_path / "parts", IDENTITY, {"rows": joined, "after": rows})
    write_snapshot(tmp_path / "whole", IDENTITY, {"rows": rows, "after": rows})
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert_same(open_snapshot(tmp_path / "parts", IDENTITY).arrays, {"rows": rows, "after": rows})

"""The secret of a state stays the same, is its owner's, and is never silently replaced."""

import os
from pathlib import Path

import pytest

from scrapy_neardup.errors import StateError
from scrapy_neardup.state.secret import MAX_KEY, kept_key, new_key


def test_a_folder_keeps_its_key(tmp_path: Path) -> None:
    key = kept_key(tmp_path)
    assert 0 < key <= MAX_KEY
    assert kept_key(tmp_path) == key


def test_two_keys_differ() -> None:
    assert new_key() != new_key()


@pytest.mark.parametrize("name", ["journal-9", "snapshot-9"])
def test_a_folder_called_like_a_file_of_ours_is_no_reason_to_miss_a_key(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    assert kept_key(tmp_path) == kept_key(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_the_owner_may_read_the_key(tmp_path: Path) -> None:
    kept_key(tmp_path)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", [b"", b"12", b"g" * 16 + b"\n", b"0" * 17, b"\xff" * 17])
def test_a_damaged_key_is_refused_by_name(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "key").write_bytes(text)
    with pytest.raises(StateError, match="key is damaged: found"):
        kept_key(tmp_path)


@pytest.mark.parametrize("name", ["snapshot-1", "journal-0"])
def test_no_key_is_drawn_where_one_is_missing(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.damaged").touch()
    kept_key(tmp_path)
    (tmp_path / name).touch()
    (tmp_path / "key").unlink()
    with pytest.raises(StateError, match=r"key is missing.* set NEARDUP_KEY"):
        kept_key(tmp_path)
    assert not (tmp_path / "key").exists()

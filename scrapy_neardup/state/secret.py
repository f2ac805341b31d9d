"""The secret of a state: it keys the fingerprints, so that nobody outside can craft collisions."""

from __future__ import annotations

import secrets
from pathlib import Path

from scrapy_neardup.errors import StateError
from scrapy_neardup.state.files import write_atomically

MAX_KEY = 2**64 - 1
_DIGITS = 16


def new_key() -> int:
    """A random key of 64 bits, never 0 (0 means none)."""
    return secrets.randbelow(MAX_KEY) + 1


def keep_key(folder: Path, key: int) -> None:
    """Make a key that of a folder, which is to have none. Raises OSError."""
    write_atomically(folder / "key", [f"{key:0{_DIGITS}x}\n".encode()], mode=0o600)


def kept_key(folder: Path) -> int:
    """The key of a state folder, made at the first call; readable by its owner only.

    Raises StateError for a damaged file, and for one that is missing beside what was written under
    it; OSError where it cannot be read or made.
    """
    if not (folder / "key").exists():
        from scrapy_neardup.state.recovery import numbers  # brings NumPy, which commands do without

        if numbers(folder, "snapshot") or numbers(folder, "journal"):
            raise StateError(missing_key(folder))
        keep_key(folder, new_key())
    return key_in(folder)


def missing_key(folder: Path) -> str:
    """What is said of a folder whose key nobody has."""
    return (
        f"{folder / 'key'} is missing, so that nobody can tell whether {folder}'s own crawls wrote "
        f"what is there. Put the file back, or set NEARDUP_KEY to what that crawl was given; "
        f"without either, begin anew in an empty folder"
    )


def key_in(folder: Path) -> int:
    """The key that a folder keeps. Raises StateError for a damaged file; OSError."""
    path = folder / "key"
    text = path.read_bytes().decode("ascii", "replace")
    if len(text) != _DIGITS + 1 or text[-1] != "\n" or set(text[:-1]) - set("0123456789abcdef"):
        raise StateError(
            f"{path} is damaged: found {len(text)} characters, expected {_DIGITS} hexadecimal "
            f"digits and a line end. Restore it from a copy, set NEARDUP_KEY, or delete the "
            f"folder {folder} to start afresh"
        )
    return int(text, 16)

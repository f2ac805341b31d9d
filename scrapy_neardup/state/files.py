"""Writing files so that a crash leaves the old one or the new one, never a part."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

TEMPORARY = ".tmp"
O_BINARY: int = getattr(os, "O_BINARY", 0)  # Windows would write \r\n for each \n


def write_atomically(path: Path, chunks: Iterable[bytes | memoryview], mode: int = 0o600) -> None:
    """Write a whole file: temporary file, fsync, rename, fsync of the folder. Raises OSError."""
    temporary = path.with_name(path.name + TEMPORARY)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | O_BINARY, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder durable; nothing on Windows, which has no way."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

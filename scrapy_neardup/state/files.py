"""Writing files so that a crash leaves the old one or the new one, never a part.

Every write goes through `os`, unbuffered: tests/crash_model.py records these calls.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from scrapy_neardup.own_files import sync_folder

TEMPORARY = ".tmp"
O_BINARY: int = getattr(os, "O_BINARY", 0)  # Windows would write \r\n for each \n


def write_atomically(path: Path, chunks: Iterable[bytes | memoryview], mode: int = 0o600) -> None:
    """Write a whole file: temporary file, fsync, rename, fsync of the folder. Raises OSError."""
    temporary = path.with_name(path.name + TEMPORARY)
    temporary.unlink(missing_ok=True)
    # Exclusively: a link of that name would have us write to where it leads.
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY, mode)
    try:
        try:
            for chunk in chunks:
                write_all(fd, chunk)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except BaseException:  # also what makes the chunks may fail, or a person stop it
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte, in as many calls as it takes. Raises OSError, with a part written."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]

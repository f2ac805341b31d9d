"""One crawl at a time: the lock on a state folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from scrapy_neardup.errors import StateLocked
from scrapy_neardup.own_files import O_NOFOLLOW, refuse_links

# Past any content: on Windows a locked byte cannot be read, and others must read the pid.
_LOCKED_BYTE = 1 << 30
STATE_ADVICE = (
    "A state serves one crawl at a time: wait for that crawl, stop it, or set another "
    "NEARDUP_STATE_DIR or JOBDIR"
)


def _lock(fd: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def try_lock(fd: int) -> bool:
    """Lock an open file until it is closed, or the process ends; False if another has it."""
    try:
        _lock(fd)
    except (BlockingIOError, PermissionError):
        return False
    return True


class FolderLock:
    """The folder is this process's own until close() or the end of the process, however it ends.

    Raises StateLocked, naming the folder and the process that holds it, and OSError where
    the folder cannot be written. The file stays: removing it would let two processes lock
    two files of one name.
    """

    def __init__(self, folder: Path, advice: str = STATE_ADVICE) -> None:
        path = folder / "lock"
        refuse_links(path)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | O_NOFOLLOW, 0o600)
        if not try_lock(self._fd):
            os.close(self._fd)
            raise StateLocked(f"{folder} is in use by process {_holder(path)}. {advice}")
        self._write_pid()

    def _write_pid(self) -> None:
        os.lseek(self._fd, 0, os.SEEK_SET)
        os.ftruncate(self._fd, 0)
        try:
            os.write(self._fd, str(os.getpid()).encode())
        except OSError:  # Disk full: the lock holds all the same, only nameless.
            os.ftruncate(self._fd, 0)

    def close(self) -> None:
        """Give the folder back; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _holder(path: Path) -> str:
    text = path.read_bytes()[:20].decode("ascii", "replace").strip()
    return text if text.isdigit() else "unknown"

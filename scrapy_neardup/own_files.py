"""Files and folders that we write to: whose they are, how one is made, and how one is set aside."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from shutil import copymode

from scrapy_neardup.errors import StateError

DAMAGED = ".damaged"
O_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)


class NotOurFile(OSError):
    """What has the name of a file of ours leads elsewhere, or is no file."""


def refuse_links(path: Path, *suffixes: str) -> None:
    """Raise NotOurFile where a name is a symbolic link, one of several of a file, or of no file.

    suffixes: of the files that are written beside it. Names that are free are good. Files that
    are replaced by renaming need no such look.
    """
    for suffix in ("", *suffixes):
        name = path.with_name(path.name + suffix)
        try:
            found = name.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            continue
        what = "is a link" if stat.S_ISLNK(found.st_mode) else "is no file of its own"
        remedy = "what we write there would be written elsewhere. Move it away"
        raise NotOurFile(errno.ELOOP, f"{what}: {remedy}", str(name))


def refuse_links_below(folder: Path) -> None:
    """Raise NotOurFile where anything in a folder is a link, or no file or folder."""
    for parent, folders, files in os.walk(folder):
        for name in folders:
            if (Path(parent) / name).is_symlink():
                refuse_links(Path(parent) / name)
        for name in files:
            refuse_links(Path(parent) / name)


def require_own(folder: Path) -> None:
    """Raise StateError if the folder is another user's, or any user may write to it.

    Root may open any user's, as in a container with a folder of the host; a group may share one.
    On Windows, where folders inherit rights, nothing is asked. Raises OSError.
    """
    if sys.platform == "win32":
        return
    found, own = folder.stat(), os.geteuid()
    if own and found.st_uid not in (own, 0):
        raise StateError(
            f"{folder} belongs to user {found.st_uid}, not to you ({own}), who could make a crawl "
            f"skip what it has not seen: chown it, or name another folder"
        )
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise StateError(
            f"any user may write to {folder}, and could make a crawl skip what it has not seen: "
            f"chmod o-w {folder}"
        )


def make_folder(folder: Path) -> None:
    """Make a folder, and its parents, so that a loss of power leaves it. Raises OSError.

    Whatever the umask, a group may share it at most: require_own() refuses what any user may write
    to, as under `umask 000` in a container.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o775, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def set_aside(path: Path, *suffixes: str) -> Path:
    """Rename a file to a free name ending in .damaged, for a person to look at; that name.

    suffixes: of what is written beside it, and goes with it; first, because SQLite would apply a
    -wal that stays behind to the file that takes the name. Raises OSError.
    """
    aside = aside_name(path)
    for suffix in (*suffixes, ""):
        beside = path.with_name(path.name + suffix)
        if not suffix or beside.exists():
            os.replace(beside, aside.with_name(aside.name + suffix))
    sync_folder(path.parent)
    return aside


def aside_name(path: Path) -> Path:
    """A free name for what cannot be used of a file: "journal-3.damaged", "…damaged-1", …"""
    aside, number = path.with_name(path.name + DAMAGED), 0
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}{DAMAGED}-{number}")
    return aside


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The name of a new file to write, which takes the place of one when the context ends well.

    Else that stays as it was, and the new one goes. What is there and is no file, such as a pipe,
    is to be written to itself. Raises OSError.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    target = path.resolve()  # a link stays one
    part = target.with_name(f"{target.name}.{token_hex(4)}.tmp")
    try:
        part.touch(exist_ok=False)
        if target.exists():
            copymode(target, part)
        yield part
        sync_file(part)
        os.replace(part, target)
    except OSError as error:
        if str(error.filename) == str(part):
            error.filename = str(path)
        raise
    finally:
        part.unlink(missing_ok=True)
    sync_folder(target.parent)


def sync_file(path: Path) -> None:
    """What a file holds is on the disk when this returns. Raises OSError."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_new_files(paths: Iterable[Path], below: Path) -> None:
    """Files and the folders they are in, that of `below` included, are on the disk with their names
    when this returns. Raises OSError.

    below: the folder that was there before, or was made for them.
    """
    folders = set[Path]()
    for path in paths:
        sync_file(path)
        folders |= {folder for folder in path.parents if folder.is_relative_to(below)}
    for folder in folders:
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder durable; nothing on Windows, which has no way."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

"""Which state folder a subcommand works on."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_neardup.commands.paths import local_path
from scrapy_neardup.errors import StateError

if TYPE_CHECKING:
    from scrapy_neardup.settings import NearDupSettings

FILES = ("snapshot-", "journal-", "guest-")  # how the names of a state's files begin
STATE_HELP = "state folder of a crawl, or the JOBDIR that it is in"


def add_state(parser: argparse.ArgumentParser, or_server: bool = False) -> None:
    """Take the state folder as the first argument; or_server: or a URL, both as text."""
    if or_server:
        parser.add_argument("state", metavar="STATE|URL", help=f"{STATE_HELP}; or a fleet's server")
    else:
        parser.add_argument("state", metavar="STATE", type=local_path, help=STATE_HELP)


def add_state_option(parser: argparse.ArgumentParser) -> None:
    """Take the state folder as an option, where the first argument is a URL."""
    parser.add_argument("--state", metavar="STATE", type=local_path, required=True, help=STATE_HELP)


def state_folder(named: Path) -> Path:
    """The folder that holds the state: the one named, or `neardup` in it if that exists."""
    inside = named / "neardup"
    return inside if inside.is_dir() else named


def known_key(folder: Path, options: argparse.Namespace) -> int | None:
    """The secret that a state folder keeps, or NEARDUP_KEY; None where neither is there."""
    from scrapy_neardup.state.secret import key_in

    if (folder / "key").exists():
        try:
            return key_in(folder)
        except StateError:  # damaged, of which `check` speaks
            return None
    settings = _of_project(options)
    return None if settings is None else settings.key


def is_of_fleet(options: argparse.Namespace) -> bool:
    """Whether the project's crawls are workers, which have their key from the fleet's server."""
    settings = _of_project(options)
    return settings is not None and settings.backend is not None


def _of_project(options: argparse.Namespace) -> NearDupSettings | None:
    from scrapy_neardup.settings import NearDupSettings

    settings = getattr(options, "scrapy_settings", None)
    return None if settings is None else NearDupSettings.from_settings(settings)


def require_state(folder: Path) -> None:
    """Raises StateError for a folder that holds no state, OSError for one that cannot be read."""
    try:
        names = [path.name for path in folder.iterdir()]  # glob() would say that there are none
    except (FileNotFoundError, NotADirectoryError):
        names = []
    if not any(name.startswith(FILES) or name == "ledger" for name in names):
        raise StateError(f"{folder}: holds no state; name JOBDIR or NEARDUP_STATE_DIR")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep crawls out of a state folder. Raises StateError if it holds no state, or is in use."""
    from scrapy_neardup.state.lock import FolderLock

    require_state(folder)
    lock = FolderLock(folder)
    try:
        yield
    finally:
        lock.close()

"""Repair a state folder: set damaged files aside, so that the rest is sound.

The next crawl would do the same. It fetches and keeps again what only the damaged files held.
They stay in the folder under names that end in .damaged. Sound lines of
skipped.jsonl and overrides.jsonl stay in them. Refused while a crawl uses the folder.

Requests that waited in a damaged frontier can only be found again. Nobody knows on which pages, so
the next crawl of the job reads all of them again. A damaged or missing key cannot be repaired.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from scrapy_neardup.commands.check import inspect
from scrapy_neardup.commands.state_folder import add_state, known_key, locked, state_folder
from scrapy_neardup.commands.terminal import say, say_json

EXAMPLES = """\
  scrapy neardup repair crawls/shop
  scrapy neardup repair crawls/shop --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """State folder and form."""
    add_state(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Set aside what is damaged and say where it is."""
    from scrapy_neardup.state.frontier_file import NAME

    folder = state_folder(options.state)
    with locked(folder):
        key = known_key(folder, options)
        moved = repair(folder, key)
    if options.json:
        say_json({"moved": moved})
        return 0
    for name, n_bytes in moved.items():
        say(f"{n_bytes:,} bytes are now in {name}")
        if name.startswith(NAME):
            say("The next crawl reads all pages again, to find the requests that waited there")
    say(f"{len(moved)} damaged files repaired" if moved else "nothing is damaged")
    if key is None:
        say("The key is neither in the folder nor in the settings: codes were not verified")
    return 0


def repair(folder: Path, key: int | None = None) -> dict[str, int]:
    """Set aside what is damaged; bytes of each file that was made.

    key: the folder's secret, where it is known. Raises StateError, OSError.
    """
    from scrapy_neardup.errors import StateError
    from scrapy_neardup.own_files import set_aside
    from scrapy_neardup.sqlite_files import WRITTEN_BESIDE
    from scrapy_neardup.state.recovery import forget_urls, recover

    report = inspect(folder, key)
    if report.bad_key is not None:
        raise StateError(report.bad_key)
    asides = [recover(damage) for damage in report.damage]
    asides += [set_aside(path, *WRITTEN_BESIDE) for path in report.bad_ledgers]
    asides += [_beside_set_aside(path, key) for path in report.bad_beside]
    if report.bad_frontier is not None:
        forget_urls(
            folder, key
        )  # first: without the frontier, nobody could tell that this is missing
        if not os.path.lexists(report.bad_frontier):
            report.bad_frontier.touch()  # so that there is something to set aside
        asides.append(set_aside(report.bad_frontier, *WRITTEN_BESIDE))
    return {str(aside.relative_to(folder)): aside.stat().st_size for aside in asides}


def _beside_set_aside(path: Path, key: int | None) -> Path:
    from scrapy_neardup.ledger import undo
    from scrapy_neardup.own_files import set_aside
    from scrapy_neardup.sqlite_files import WRITTEN_BESIDE
    from scrapy_neardup.state import skipped

    if path.name == undo.FILE:
        return _overrides_set_aside(path)
    if path.name == skipped.FILE:
        return skipped.repair(path.parent, key)
    return set_aside(path, *WRITTEN_BESIDE)


def _overrides_set_aside(path: Path) -> Path:
    """Leave a list's entries in it; where its damaged lines are now. Raises OSError."""
    from scrapy_neardup.ledger import undo
    from scrapy_neardup.own_files import aside_name
    from scrapy_neardup.state.files import write_atomically

    damaged, aside = undo.damaged_lines(path.parent), aside_name(path)
    # First the copy: a crash before they are blank leaves a copy too many.
    write_atomically(aside, [line for _, line in damaged])
    undo.blank_out(path.parent, damaged)
    return aside

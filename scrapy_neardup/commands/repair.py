"""Repair a state folder: set damaged files aside, so that the rest is sound.

The next crawl would do the same. It fetches and keeps again what only the damaged files held.
They stay in the folder under names that end in .damaged. Refused while a crawl uses the folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from scrapy_neardup.commands.check import inspect
from scrapy_neardup.commands.state_folder import add_state, locked, state_folder
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
    folder = state_folder(options)
    with locked(folder):
        moved = repair(folder)
    if options.json:
        say_json({"moved": moved})
        return 0
    for name, n_bytes in moved.items():
        say(f"{n_bytes:,} bytes are now in {name}")
    say(f"{len(moved)} damaged files repaired" if moved else "nothing is damaged")
    return 0


def repair(folder: Path) -> dict[str, int]:
    """Set aside what is damaged; bytes of each file that was made. Raises StateError, OSError."""
    from scrapy_neardup.ledger.writer import set_aside
    from scrapy_neardup.state.recovery import recover

    report = inspect(folder)
    asides = [recover(damage) for damage in report.damage]
    asides += [set_aside(path) for path in report.bad_ledgers]
    return {str(aside.relative_to(folder)): aside.stat().st_size for aside in asides}

"""Which state folder a subcommand works on."""

from __future__ import annotations

import argparse
from pathlib import Path

STATE_HELP = "state folder of a crawl, or the JOBDIR that it is in"


def add_state(parser: argparse.ArgumentParser) -> None:
    """Take the state folder as the first argument."""
    parser.add_argument("state", metavar="STATE", type=Path, help=STATE_HELP)


def add_state_option(parser: argparse.ArgumentParser) -> None:
    """Take the state folder as an option, where the first argument is a URL."""
    parser.add_argument("--state", metavar="STATE", type=Path, required=True, help=STATE_HELP)


def state_folder(options: argparse.Namespace) -> Path:
    """The folder that holds the state: the one named, or `neardup` in it if that exists."""
    named: Path = options.state
    inside = named / "neardup"
    return inside if inside.is_dir() else named

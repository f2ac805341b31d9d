"""Check a state folder: read every byte, and list sound and damaged files.

Changes nothing. Exit code 1 means damage; the next crawl repairs it, or `repair` does so now.
Refused while a crawl uses the folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy_neardup.commands.state_folder import add_state, locked, state_folder
from scrapy_neardup.commands.terminal import clean, say, say_json, say_table

if TYPE_CHECKING:
    from scrapy_neardup.state.recovery import Damage

EXAMPLES = """\
  scrapy neardup check crawls/shop
  scrapy neardup check crawls/shop --json
"""

SOUND = "sound"


class Finding(NamedTuple):
    """One file of a state folder."""

    file: str  # below the folder
    n_bytes: int
    verdict: str  # SOUND, or what is wrong


class Report(NamedTuple):
    """What a check found."""

    ended_cleanly: bool  # whether the last crawl did
    files: list[Finding]
    damage: list[Damage]  # to the files of the state
    bad_ledgers: list[Path]  # files of the ledger that cannot be read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """State folder and form."""
    add_state(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def run(options: argparse.Namespace) -> int:
    """Tell what was found; exit code 1 if anything is damaged."""
    folder = state_folder(options)
    with locked(folder):
        report = inspect(folder)
    tell(report, options.json)
    return 1 if report.damage or report.bad_ledgers else 0


def inspect(folder: Path) -> Report:
    """Read every file. Raises StateError where another version or specification is among them."""
    from scrapy_neardup.state.recovery import numbers, read_fallback, read_folder

    content = read_folder(folder)
    damage = [*content.damage, *read_fallback(folder, content)]
    wrong = {d.path: d.reason for d in damage}
    paths = [
        folder / f"{kind}-{n}" for kind in ("snapshot", "journal") for n in numbers(folder, kind)
    ]
    ledgers, bad = _ledgers(folder)
    files = [_finding(folder, path, wrong.get(path, SOUND)) for path in paths]
    return Report(content.closed, files + ledgers, damage, bad)


def _ledgers(folder: Path) -> tuple[list[Finding], list[Path]]:
    from scrapy_neardup.errors import LedgerError
    from scrapy_neardup.ledger.reader import verify
    from scrapy_neardup.ledger.schema import ledger_files

    found, bad = [], []
    for path in ledger_files(folder / "ledger"):
        verdict = SOUND
        try:
            verify(path)
        except LedgerError as error:
            verdict = str(error)
            bad.append(path)
        found.append(_finding(folder, path, verdict))
    return found, bad


def _finding(folder: Path, path: Path, verdict: str) -> Finding:
    return Finding(str(path.relative_to(folder)), path.stat().st_size, verdict)


def tell(report: Report, as_json: bool) -> None:
    """Print what was found."""
    if as_json:
        files = [finding._asdict() for finding in report.files]
        say_json({"ended_cleanly": report.ended_cleanly, "files": files})
        return
    say_table(("file", "bytes"), [(f.file, f"{f.n_bytes:,}") for f in report.files])
    say()
    for finding in report.files:
        if finding.verdict != SOUND:
            say(clean(finding.verdict))
    n_damaged = sum(finding.verdict != SOUND for finding in report.files)
    say(f"{len(report.files)} files, {n_damaged} damaged")
    say("The last crawl " + ("ended cleanly" if report.ended_cleanly else "did not end cleanly"))

"""Check a state folder: read every byte, and list sound and damaged files.

Changes nothing. Exit code 1 means damage. The next crawl repairs it, or `repair` does so now; a
damaged or missing frontier or key stops the next crawl. Refused while a crawl uses the folder.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scrapy_neardup.commands import NOTHING_FOUND
from scrapy_neardup.commands.state_folder import (
    add_state,
    is_of_fleet,
    known_key,
    locked,
    state_folder,
)
from scrapy_neardup.commands.terminal import say, say_json, say_table
from scrapy_neardup.harmless import clean

if TYPE_CHECKING:
    from scrapy_neardup.state.header import Identity
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
    bad_frontier: Path | None
    bad_beside: list[Path]  # learnt rules, skipped requests, visits, overrides
    bad_key: str | None  # what is wrong with the key
    n_waiting: int  # requests in the frontier
    n_guests: int  # journals that the next crawl merges
    n_living_guests: int

    @property
    def n_damaged(self) -> int:
        """How many files are."""
        return sum(finding.verdict != SOUND for finding in self.files)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """State folder and form."""
    add_state(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def run(options: argparse.Namespace) -> int:
    """Tell what was found; exit code 1 if anything is damaged."""
    folder = state_folder(options.state)
    with locked(folder):
        report = inspect(folder, known_key(folder, options), is_of_fleet(options))
    tell(report, options.json)
    return NOTHING_FOUND if report.n_damaged else 0


def inspect(folder: Path, key: int | None, of_fleet: bool = False) -> Report:
    """Read every file. key: the folder's secret, where it is known.

    of_fleet: whether a fleet's server has it.

    Raises StateError where another version, specification or key is among them.
    """
    from scrapy_neardup.state.recovery import (
        ended_guests,
        guest_journals,
        numbers,
        read_fallback,
        read_folder,
    )
    from scrapy_neardup.state.secret import missing_key
    from scrapy_neardup.state.snapshot import row_files

    content = read_folder(folder, key=key)
    damage = [*content.damage, *read_fallback(folder, content, key)]
    guests = guest_journals(folder)
    with ended_guests(folder, content.identity, key, damage) as ended:
        n_ended, n_sound = len(ended), sum(guest.is_ours for guest in ended)
    wrong = {d.path: d.reason for d in damage}
    paths = [
        folder / f"{kind}-{n}" for kind in ("snapshot", "journal") for n in numbers(folder, kind)
    ]
    paths += sorted(row_files(folder))
    files = [_finding(folder, path, wrong.get(path, SOUND)) for path in [*paths, *guests]]
    bad_key = _key(folder, files)
    if bad_key is None and key is None and not of_fleet and _has_key(content.identity):
        files.append(Finding("key", 0, f"{missing_key(folder)}. Codes were not verified"))
    n_waiting, bad_frontier = _frontier(folder, files, key, content.frontier_commit)
    bad_beside = _beside(folder, files, key)
    ledgers, bad_ledgers = _ledgers(folder)
    return Report(
        ended_cleanly=content.closed,
        files=files + ledgers,
        damage=damage,
        bad_ledgers=bad_ledgers,
        bad_frontier=bad_frontier,
        bad_beside=bad_beside,
        bad_key=bad_key,
        n_waiting=n_waiting,
        n_guests=n_sound,
        n_living_guests=len(guests) - n_ended,
    )


def _has_key(identity: Identity | None) -> bool:
    """Whether files of an identity were written under a key; NEARDUP_KEY = 0 is none."""
    from scrapy_neardup.engines import key_id

    return identity is not None and identity.get("sketch.key") != key_id(0)


def _key(folder: Path, files: list[Finding]) -> str | None:
    """What is wrong with the key; adds the file, if there is one, to those read."""
    from scrapy_neardup.errors import StateError
    from scrapy_neardup.state.secret import key_in

    path, verdict = folder / "key", SOUND
    if not path.exists():  # the crawl's settings have it
        return None
    try:
        key_in(folder)
    except StateError as error:
        verdict = str(error)
    files.append(_finding(folder, path, verdict))
    return None if verdict == SOUND else verdict


def _frontier(
    folder: Path, files: list[Finding], key: int | None, commit: int
) -> tuple[int, Path | None]:
    """Requests that wait, and the file if it is damaged or missing; adds it to those read.

    commit: the newest of its commits that pages count on.
    """
    from scrapy_neardup.state.frontier_file import NAME, examine

    path = folder / NAME
    n_requests, damage = examine(path, key, commit)
    if path.exists():
        files.append(_finding(folder, path, damage or SOUND))
    elif damage is not None:
        files.append(Finding(NAME, 0, damage))
    return n_requests, None if damage is None else path


def _beside(folder: Path, files: list[Finding], key: int | None) -> list[Path]:
    """Of the files that not every crawl has, those that are damaged; adds them to those read."""
    from scrapy_neardup.learn import stored_rules
    from scrapy_neardup.ledger import undo
    from scrapy_neardup.state import learnt_rules, skipped, visit_file, visits

    bad = []
    for name, examine in (
        (stored_rules.FILE, learnt_rules.examine),
        (skipped.FILE, skipped.examine),
        (visit_file.FILE, visits.examine),
        (undo.FILE, lambda folder, _key: undo.examine(folder)),
    ):
        if not (folder / name).exists():
            continue
        damage = examine(folder, key)
        files.append(_finding(folder, folder / name, damage or SOUND))
        if damage is not None:
            bad.append(folder / name)
    return bad


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
        numbers = {
            "requests_waiting": report.n_waiting,
            "guests_ended": report.n_guests,
            "guests_living": report.n_living_guests,
        }
        files = [finding._asdict() for finding in report.files]
        say_json({"ended_cleanly": report.ended_cleanly, **numbers, "files": files})
        return
    say_table(("file", "bytes"), [(f.file, f"{f.n_bytes:,}") for f in report.files])
    say()
    for finding in report.files:
        if finding.verdict != SOUND:
            say(clean(finding.verdict))
    say(f"{len(report.files)} files, {report.n_damaged} damaged")
    say("The last crawl " + ("ended cleanly" if report.ended_cleanly else "did not end cleanly"))
    if report.n_waiting:
        say(f"{report.n_waiting:,} requests wait for the next crawl of the job")
    if report.n_guests:
        say(f"{report.n_guests} journals of guests wait to be merged by the next crawl")
    if report.n_living_guests:
        say(f"{report.n_living_guests} guests are still crawling")

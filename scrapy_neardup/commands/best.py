"""List for each cluster of duplicates in a crawl which URL to keep, and why.

The choice is that of `scrapy neardup dedup --keep best`: https, then the shorter URL, then more
words, then the newer copy; of equal ones the first. A ledger that `dedup --report` wrote does not
know how old its records are. It changes nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from scrapy_neardup.commands import NOTHING_FOUND
from scrapy_neardup.commands.state_folder import add_state, state_folder
from scrapy_neardup.commands.terminal import ProgressLine, complain, say, say_json
from scrapy_neardup.harmless import clean
from scrapy_neardup.ledger.reader import LedgerReader
from scrapy_neardup.ledger.schema import NOT_READ

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_neardup.ledger.schema import Decided

EXAMPLES = """\
  scrapy neardup best crawls/shop
  scrapy neardup best crawls/shop --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """State folder and form."""
    add_state(parser)
    parser.add_argument("--json", action="store_true", help="one JSON list instead of lines")


def run(options: argparse.Namespace) -> int:
    """Tell; exit code 1 if there is no cluster."""
    from scrapy_neardup.offline.dedup.progress import is_run

    folder = state_folder(options.state)
    reader = LedgerReader(folder, ProgressLine("reading the ledger"))
    has_dates = not is_run(folder)  # else they say when a record was read
    found = [choice(cluster, has_dates) for cluster in clusters(reader)]
    if options.json:
        say_json(found)
    elif not found:
        complain("no page of this crawl repeats another")
    for row in [] if options.json else found:
        other = "" if row["keep"] == row["kept"] else f"; the crawl kept {clean(row['kept'])}"
        say(f"{clean(row['keep'])}  ({row['why']}{other})")
        for url in row["copies"]:
            say(f"    {clean(url)}")
    return 0 if found else NOTHING_FOUND


def clusters(reader: LedgerReader) -> Iterator[list[Decided]]:
    """What was decided last of each URL of a cluster, the original first."""
    copies: dict[str, dict[str, Decided]] = {}
    for decided in reader.decisions():
        if decided.original is not None and decided.kind in ("exact", "near"):
            copies.setdefault(decided.original, {})[decided.url] = decided
    for original, others in copies.items():
        others.pop(original, None)
        read = [decided for decided in reader.of_url(original) if decided.kind not in NOT_READ]
        if read and others:
            yield [read[-1], *others.values()]


def choice(cluster: list[Decided], has_dates: bool) -> dict[str, Any]:
    """The URL of a cluster to keep, and why. has_dates: its times are those of the copies."""
    from scrapy_neardup.offline.dedup.copies import Member, chosen, why_best
    from scrapy_neardup.offline.dedup.deciding import RecordPlace
    from scrapy_neardup.offline.dedup.traits import Traits

    members = []
    for at, decided in enumerate(cluster):
        date = decided.time if has_dates else None
        traits = Traits(decided.words or 0, date, None, None)
        members.append(Member(RecordPlace(0, 0, at), decided.url, traits))
    best = chosen(members, "best")
    return {
        "keep": best.url,
        "why": why_best(best, members),
        "kept": members[0].url,
        "copies": [member.url for member in members if member is not best],
    }

"""List for each cluster of duplicates in a crawl which URL to keep, and why.

The choice is that of `scrapy neardup dedup --keep best`: https, then the shorter URL, then more
words, then the newer copy; of equal ones the first. It changes nothing.
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
    found = [
        choice(cluster)
        for cluster in clusters(
            LedgerReader(state_folder(options.state), ProgressLine("reading the ledger"))
        )
    ]
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


def choice(cluster: list[Decided]) -> dict[str, Any]:
    """The URL of a cluster to keep, and why."""
    from scrapy_neardup.offline.dedup.copies import Member, chosen, why_best
    from scrapy_neardup.offline.dedup.deciding import RecordPlace
    from scrapy_neardup.offline.dedup.traits import Traits

    members = [
        Member(
            RecordPlace(0, 0, at), decided.url, Traits(decided.words or 0, decided.time, None, None)
        )
        for at, decided in enumerate(cluster)
    ]
    best = chosen(members, "best")
    return {
        "keep": best.url,
        "why": why_best(best, members),
        "kept": members[0].url,
        "copies": [member.url for member in members if member is not best],
    }

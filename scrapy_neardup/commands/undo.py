"""Undo decisions: the next run fetches the URLs again and keeps their pages.

In PATTERN, * matches any characters; it is compared with the URLs of recorded drops. A URL
without * is undone whether or not its drop was recorded.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_neardup.commands import NOTHING_FOUND
from scrapy_neardup.commands.state_folder import (
    add_state_option,
    known_key,
    require_state,
    state_folder,
)
from scrapy_neardup.commands.terminal import ProgressLine, complain, say, say_json
from scrapy_neardup.errors import InputError, LedgerError
from scrapy_neardup.harmless import clean
from scrapy_neardup.ledger.reader import LedgerReader
from scrapy_neardup.ledger.schema import DUPLICATE_KINDS

if TYPE_CHECKING:
    from scrapy_neardup.ledger.undo import Override

EXAMPLES = """\
  scrapy neardup undo 'https://shop.example/item?id=7' --state crawls/shop
  scrapy neardup undo 'https://shop.example/manuals/*' --state crawls/shop --dry-run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """URL or pattern, state folder, form."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "pattern", metavar="URL|PATTERN", nargs="?", help="what to undo; * matches anything"
    )
    what.add_argument(
        "--deferred",
        action="store_true",
        help="all requests that were put off because URLs like theirs brought nothing new",
    )
    add_state_option(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be undone")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Add the URLs to the state's overrides; exit code 1 if there are none."""
    from scrapy_neardup.ledger.undo import undo

    state = state_folder(options.state)
    require_state(state)
    refuse_files(state)
    if not options.deferred:
        require_url(options.pattern)
    overrides = (
        deferred(state, known_key(state, options))
        if options.deferred
        else found(state, options.pattern)
    )
    if not overrides:
        complain(
            f"{state}: no request waits"
            if options.deferred
            else f"{options.pattern}: matches no recorded drop"
        )
        return NOTHING_FOUND
    if not options.dry_run:
        undo(state, overrides)
    tell([url for url, _ in overrides], options)
    return 0


def refuse_files(state: Path) -> None:
    """Raise InputError for the output of `dedup`: nothing is fetched by its next run."""
    from scrapy_neardup.offline.dedup.progress import is_run

    if is_run(state):
        raise InputError(
            f"{state}: is the output of `dedup`, which fetches nothing. What it dropped is "
            f"named in duplicates.jsonl and stands in its inputs; name the folder of a crawl"
        )


def require_url(pattern: str) -> None:
    """Raise InputError for what is neither a pattern nor a URL that a crawl could fetch."""
    if "*" not in pattern and not pattern.lower().startswith(("http://", "https://")):
        raise InputError(
            f"{pattern!r}: is no URL that is fetched, which begins with http:// or https://, and "
            f"no pattern with *"
        )


def found(state: Path, pattern: str) -> list[Override]:
    """Overrides for what a pattern matches; a URL matches itself, on record or not."""
    from scrapy_neardup.ledger.undo import Override

    if "*" in pattern:
        return dropped(LedgerReader(state, ProgressLine("reading the ledger")), pattern)
    try:
        decisions = LedgerReader(state).of_url(pattern)
    except LedgerError:  # NEARDUP_LEDGER="off"
        decisions = []
    return [Override(pattern, decisions[-1].callback if decisions else None)]


def deferred(state: Path, key: int | None) -> list[Override]:
    """Overrides for the requests that wait."""
    from scrapy_neardup.ledger.undo import Override
    from scrapy_neardup.state.skipped import DEFERRED, FILE, SkippedRequests

    if not (state / FILE).exists():
        return []
    requests = SkippedRequests(state, key)
    try:
        waiting = [one for one in requests.to_make(()) if one.rules[0].startswith(DEFERRED)]
    finally:
        requests.close()
    return [Override(one.url, one.request.get("callback")) for one in waiting]


def dropped(reader: LedgerReader, pattern: str) -> list[Override]:
    """Overrides for the recorded drops that match, each URL once, oldest first."""
    from scrapy_neardup.ledger.undo import Override
    from scrapy_neardup.urls.url_patterns import Glob

    matching = Glob(tuple(pattern.split("*")), True)
    callbacks = {
        decided.url: decided.callback
        for decided in reader.decisions()
        if decided.kind in DUPLICATE_KINDS
        and decided.action == "dropped"
        and matching.matches(decided.url)
    }
    return [Override(url, callback) for url, callback in callbacks.items()]


def tell(urls: list[str], options: argparse.Namespace) -> None:
    """Print what was undone."""
    if options.json:
        say_json({"undone": urls, "dry_run": options.dry_run})
        return
    for url in urls:
        say(clean(url))
    verb = "would be" if options.dry_run else "will be"
    say(f"{len(urls):,} URL{'s' * (len(urls) != 1)} {verb} fetched and kept by the next run")

"""Propose limits for a site from a crawl's own pages.

Compares likely pairs of the pages exactly, and proposes the limits that separate near from
distinct pairs best, with the precision and recall to expect.
"""

from __future__ import annotations

import argparse
from typing import Any

from scrapy_neardup.commands.evaluate import PAGES_HELP, interval, share, tell_sweep
from scrapy_neardup.commands.numbers import at_least
from scrapy_neardup.commands.paths import local_path
from scrapy_neardup.commands.terminal import say, say_json

EXAMPLES = """\
  scrapy neardup calibrate pages.jsonl
  scrapy neardup calibrate pages.jsonl.gz --pages 5000 --pairs 5000 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """File, sizes and form."""
    parser.add_argument("file", metavar="PAGES", type=local_path, help=PAGES_HELP)
    parser.add_argument(
        "--pages",
        type=at_least(2),
        default=3_000,
        help="read at most so many pages (default: 3,000)",
    )
    parser.add_argument(
        "--pairs",
        type=at_least(1),
        default=2_000,
        help="compare about so many pairs (default: 2,000)",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")


def run(options: argparse.Namespace) -> int:
    """Read, compare, propose."""
    from scrapy_neardup.offline.calibration import calibrate

    report = calibrate(options.file, options.pages, options.pairs, options.seed)
    if options.json:
        say_json(report)
    else:
        tell(report)
    return 0


def tell(report: dict[str, Any]) -> None:
    """Print the proposal and the table behind it."""
    say(
        f"{report['pages']:,} pages with different words, {report['likely_pairs']:,} likely pairs; "
        f"{report['compared']:,} compared: {report['near']:,} near, {report['distinct']:,} distinct"
    )
    say()
    if report["near"]:
        say(f"NEARDUP_DISTANCE = {report['proposal']['distance']}")
        say(f"NEARDUP_CONFIRM_DISTANCE = {report['proposal']['confirm_distance']}")
    else:
        say("No pair is near: keep the defaults.")
    for name in ("precision", "recall"):
        value, limits = share(report[name]), interval(report[f"{name}_interval"])
        say(f"expected {name} {value} (95 %: {limits})")
    say()
    tell_sweep(report["sweep"])

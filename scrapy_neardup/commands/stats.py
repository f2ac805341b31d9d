"""Totals of a crawl's decisions."""

import argparse
from collections import Counter

from scrapy_neardup.commands.state_folder import add_state, state_folder
from scrapy_neardup.commands.terminal import say_json, say_table
from scrapy_neardup.ledger import KINDS, LedgerReader

EXAMPLES = """\
  scrapy neardup stats crawls/shop
  scrapy neardup stats crawls/shop --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """State folder and form."""
    add_state(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")


def run(options: argparse.Namespace) -> int:
    """Print the totals."""
    kinds = Counter(d.kind for d in LedgerReader(state_folder(options)).decisions())
    if options.json:
        say_json({"kinds": kinds})
    else:
        say_table(("decision", "number"), [(kind, kinds[kind]) for kind in KINDS])
    return 0

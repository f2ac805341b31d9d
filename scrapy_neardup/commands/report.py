"""Write a report for the browser: one file, self-contained, that loads nothing.

Totals count every decision; the newest --rows of them are listed and searchable. With
NEARDUP_KEEP_TEXT the pairs of the most doubtful clusters are shown side by side.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from scrapy_neardup.commands.numbers import at_least
from scrapy_neardup.commands.paths import local_path
from scrapy_neardup.commands.state_folder import add_state, state_folder
from scrapy_neardup.commands.terminal import ProgressLine, say, say_json
from scrapy_neardup.report.data import ROWS
from scrapy_neardup.report.page import write_report

EXAMPLES = """\
  scrapy neardup report crawls/shop -o report.html
  scrapy neardup report crawls/shop -o report.html --rows 1000000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """State folder, file, length and form."""
    add_state(parser)
    parser.add_argument(
        "-o", "--output", type=local_path, default=Path("report.html"), help="default: report.html"
    )
    parser.add_argument(
        "--rows", type=at_least(0), default=ROWS, help=f"decisions to list (default: {ROWS:,})"
    )
    parser.add_argument("--json", action="store_true", help="report as a JSON object")


def run(options: argparse.Namespace) -> int:
    """Write the report and say where."""
    tell = ProgressLine("reading the ledger")
    written = write_report(state_folder(options.state), options.output, options.rows, tell)
    if options.json:
        say_json({"file": str(options.output), "bytes": written})
    else:
        say(f"{options.output}: {written / 1e6:,.1f} MB; open it in a browser")
    return 0

"""How long a report of many decisions takes to make and to open, in headless Chromium.

    python -m benchmarks.report_open [--decisions 100000 1000000] [--json FILE]

Target: 100,000 decisions open in less than 2 s. Opening ends when the table of decisions is drawn
and the browser has painted it; each time in a browser context of its own. A ledger is made by
rule: items of a shop with session copies, printer versions and repeated URLs, texts kept of the
first clusters. Needs pip install 'scrapy-neardup[browser]' and Debian's chromium.
"""

import argparse
import json
import statistics
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from scrapy_neardup.ledger.schema import Entry
from scrapy_neardup.ledger.writer import MAX_WAITING, LedgerWriter
from scrapy_neardup.report.page import write_report
from tests.browser import chromium
from tests.ledgers import RULES, shop

OPENINGS = 5
TEXT_OF_EVERY = 50


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report_open", description=__doc__)
    parser.add_argument("--decisions", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON, too")
    options = parser.parse_args()
    rows = {}
    for n in options.decisions:
        with tempfile.TemporaryDirectory() as folder:
            rows[n] = measured(Path(folder), n)
        told = "  ".join(f"{name} {value}" for name, value in rows[n].items())
        print(f"{n:>9,} decisions  {told}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")


def measured(folder: Path, n: int) -> dict[str, Any]:
    """Make a ledger, the report of it, and open that."""
    fill(folder, n)
    began = time.perf_counter()
    size = write_report(folder, folder / "report.html")
    made_s = time.perf_counter() - began
    with chromium() as browser:
        seconds = [opened(browser, (folder / "report.html").as_uri()) for _ in range(OPENINGS)]
    return {
        "made in, s": round(made_s, 1),
        "MB": round(size / 1e6, 1),
        "opened in, s": round(statistics.median(seconds), 2),
        "worst, s": round(max(seconds), 2),
    }


def fill(state: Path, n: int) -> None:
    """A ledger of so many decisions, in crawls of no more than may wait to be written."""
    decisions = enumerate(shop(n))
    while part := list(islice(decisions, MAX_WAITING)):
        ledger = LedgerWriter(state / "ledger", "all", rules=RULES, keep_text=True)
        for i, entry in part:
            ledger.record(entry if i % TEXT_OF_EVERY else with_text(entry, i))
        ledger.close()
        assert not ledger.lost


def with_text(entry: Entry, seed: int) -> Entry:
    lines = (f"Line {line} of the page about item {line * seed % 997}" for line in range(60))
    return entry._replace(text="\n".join(lines))


def opened(browser: Any, url: str) -> float:
    """Seconds until the page is drawn."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    began = time.perf_counter()
    page.goto(url)
    page.wait_for_selector("#table-rows .row", state="attached")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    seconds = time.perf_counter() - began
    context.close()
    return seconds


if __name__ == "__main__":
    main()

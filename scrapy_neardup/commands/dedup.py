"""Deduplicate files of pages: JSONL, CSV, WARC, Parquet, folders of HTML.

Uses the crawl's detector and the project's NEARDUP_* settings. To resume an interrupted run, run
the same command again. Needs the extra:
pip install 'scrapy-neardup[dedup]'.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_neardup.commands.columns import add_columns
from scrapy_neardup.commands.numbers import at_least
from scrapy_neardup.commands.terminal import complain, say, say_json

if TYPE_CHECKING:
    from scrapy_neardup.offline.dedup import DedupJob, Watcher

EXAMPLES = """\
  scrapy neardup dedup crawl.jsonl.gz --out deduped
  scrapy neardup dedup warcs/ --out deduped --jobs 8
  scrapy neardup dedup pages.parquet --url metadata.url --html source --out deduped
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Inputs, output, columns and form."""
    parser.add_argument("inputs", metavar="INPUT", type=Path, nargs="+", help="file or folder")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder to write")
    add_columns(parser)
    parser.add_argument(
        "--jobs", type=at_least(1), help="processes that read pages (default: all cores)"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(options: argparse.Namespace) -> int:
    """Deduplicate and print the summary."""
    from scrapy.utils.project import get_project_settings

    from scrapy_neardup.kernels.cores import cores
    from scrapy_neardup.offline.dedup import DedupJob, dedup
    from scrapy_neardup.offline.dedup.columns import Fields
    from scrapy_neardup.offline.dedup.inputs import find_inputs
    from scrapy_neardup.settings import NearDupSettings

    settings = NearDupSettings.from_settings(
        getattr(options, "scrapy_settings", None) or get_project_settings()
    )
    fields = Fields(options.url, options.text, options.html, not options.no_url)
    jobs = max(1, options.jobs or cores())
    job = DedupJob(find_inputs(options.inputs), options.out, settings, fields, jobs)
    try:
        with progress_bar(job) as watch:
            summary = dedup(job, watch)
    except (KeyboardInterrupt, OSError):
        complain("stopped; run the same command to resume, at most a minute back")
        raise
    tell(summary, options.json)
    return 0


@contextmanager
def progress_bar(job: DedupJob) -> Iterator[Watcher]:
    """A bar with rate and time left on a terminal; nothing elsewhere, or without tqdm."""
    try:
        from tqdm import tqdm
    except ImportError:
        yield lambda n_bytes, counts: None
        return
    total = sum(source.n_bytes for source in job.inputs)
    with tqdm(total=total, unit="B", unit_scale=True, disable=None, file=sys.stderr) as bar:

        def watch(n_bytes: int, counts: dict[str, int]) -> None:
            if n_bytes > bar.n:
                bar.set_postfix(kept=counts["kept"], damaged=counts["damaged"], refresh=False)
                bar.update(n_bytes - bar.n)

        yield watch


def tell(summary: dict[str, Any], as_json: bool) -> None:
    """Print the summary."""
    if as_json:
        say_json(summary)
        return
    say(
        f"{summary['records']:,} records: {summary['kept']:,} kept, {summary['exact']:,} exact and "
        f"{summary['near']:,} near duplicates, {summary['damaged']:,} damaged"
    )
    say(f"{summary['bytes'] / 1e6:,.1f} MB in {summary['seconds']:,.1f} s; see {summary['out']}")
    if summary["others"]:
        say(f"also counted: {json.dumps(summary['others'])}")

"""Deduplicate files of pages: JSON lines and arrays, CSV, WARC, WACZ, Parquet, folders of HTML.

Uses the crawl's detector and the project's NEARDUP_* settings. To resume an interrupted run, run
the same command again. Needs the extra: pip install 'scrapy-neardup[dedup]'.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_neardup.commands.columns import add_columns
from scrapy_neardup.commands.numbers import at_least
from scrapy_neardup.commands.paths import local_path
from scrapy_neardup.commands.terminal import complain, say, say_json
from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.file_systems import place

if TYPE_CHECKING:
    from scrapy_neardup.offline.dedup.inputs import Input
    from scrapy_neardup.offline.dedup.job import DedupJob
    from scrapy_neardup.offline.dedup.run import Taker, Watcher

PIPE = Path("-")
BOM = b"\xef\xbb\xbf"
MAX_TOLD = 10  # damaged records
WORKERS = "scrapy_neardup.offline.dedup.workers"
EXAMPLES = """\
  scrapy neardup dedup crawl.jsonl.gz --out deduped
  scrapy neardup dedup warcs/ --out deduped --jobs 8
  scrapy neardup dedup pages.parquet --url metadata.url --html source --out deduped
  zcat crawl.jl.gz | scrapy neardup dedup - --out - > deduped.jl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Inputs, output, columns, limits and form."""
    parser.add_argument(
        "inputs",
        metavar="INPUT",
        type=local_path,
        nargs="+",
        help="file or folder; - is standard input",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=local_path,
        required=True,
        help="folder to write; - writes what is kept to standard output",
    )
    add_columns(parser)
    parser.add_argument(
        "--jobs", type=at_least(1), help="processes that read pages (default: all cores)"
    )
    parser.add_argument(
        "--max-record-mb",
        type=at_least(1),
        default=64,
        metavar="N",
        help="longer records count as damaged; of WARC they are kept (default: 64)",
    )
    parser.add_argument(
        "--max-ratio",
        type=at_least(1),
        default=1000,
        metavar="N",
        help="give up a file that unpacks to N times its size, from 1 GB on (default: 1000)",
    )
    parser.add_argument(
        "--keep",
        choices=("first", "longest", "newest", "canonical", "best"),
        default="first",
        help="which copy of a cluster (default: first)",
    )
    before = parser.add_mutually_exclusive_group()
    before.add_argument(
        "--against",
        metavar="STATE|DIR|INDEX",
        type=place,
        help="drop what a crawl's state, an earlier run's output folder or an index has",
    )
    before.add_argument(
        "--index",
        metavar="DIR|URL",
        type=place,
        help="drop what earlier runs stored there, on Spark or not, and add what is kept",
    )
    parser.add_argument(
        "--clusters", metavar="FILE", type=table, help="write the clusters as .csv or .parquet"
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        type=local_path,
        help="write a report for the browser, and the ledger that it shows to the output folder",
    )
    parser.add_argument(
        "--contains-any",
        metavar="FILE",
        type=local_path,
        help="list records that contain passages of a file, such as an evaluation set",
    )
    parser.add_argument(
        "--paragraphs",
        choices=("list", "remove"),
        help="list paragraphs that kept records share, or remove them from all but the first",
    )
    parser.add_argument(
        "--ngram",
        type=at_least(4),
        default=13,
        metavar="N",
        help="words in a row that a record and a passage share (default: 13)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")


def table(name: str) -> Path:
    """A file name with the suffix of a table."""
    path = local_path(name)
    if path.suffix not in (".csv", ".parquet"):
        raise argparse.ArgumentTypeError(f"{name}: takes a name that ends in .csv or .parquet")
    return path


def run(options: argparse.Namespace) -> int:
    """Deduplicate and print the summary."""
    from scrapy_neardup.offline.dedup.progress import is_done, is_run

    start_fork_server()
    if options.out != PIPE:
        job = job_of(options, options.out)
        is_over = is_run(options.out) and is_done(options.out)
        try:
            summary = deduplicated(job, options.report)
        except (KeyboardInterrupt, OSError):
            complain("stopped; run the same command to resume")
            raise
        if is_over:
            complain(f"{options.out}: this run was already done, and nothing is done again")
        if summary["damaged"]:
            complain(
                f"{summary['damaged']:,} damaged: they are in kept/ only where their whole file "
                f"is; {options.out / 'damaged.jsonl'} says where each of them is, and why"
            )
        tell(summary, options.json)
        return 0
    with tempfile.TemporaryDirectory(prefix="neardup-") as folder:
        out = Path(folder) / "out"
        job = job_of(options, out)
        is_lines = kind_of_all(job.inputs) == "jsonl"
        summary = deduplicated(job, options.report, lambda kept: write_joined(kept, is_lines))
        tell_damage(out)
    complain(line_of(summary))
    return 0


def kind_of_all(inputs: list[Input]) -> str:
    """The kind of inputs that can be written one behind the other. Raises InputError for others."""
    first = inputs[0]
    is_one = len(inputs) == 1 and first.kind != "html"
    is_joinable = first.kind in ("warc", "wet") or (first.kind == "jsonl" and not first.packing)
    if is_one or (is_joinable and {one[1:3] for one in inputs} == {first[1:3]}):
        return first.kind
    raise InputError(
        f"--out - writes one file, or several of JSON lines that are not compressed, or of WARC; "
        f"not {len(inputs)} inputs such as {first.label}: name a folder with --out"
    )


def write_joined(folder: Path, is_lines: bool) -> None:
    """Write a folder's files to standard output, one behind the other. Raises OSError."""
    paths = sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda path: path.name)
    is_behind_line = False  # one that does not end, as the last of a file may
    for number, path in enumerate(path for path in paths if path.stat().st_size):
        with path.open("rb") as file:
            if is_behind_line:
                sys.stdout.buffer.write(b"\n")
            if is_lines and number:
                file.seek(len(BOM) if file.read(len(BOM)) == BOM else 0)
            shutil.copyfileobj(file, sys.stdout.buffer)
            file.seek(-1, os.SEEK_END)
            is_behind_line = is_lines and file.read() != b"\n"
    sys.stdout.buffer.flush()  # an index that is told next must not know what nobody got


def tell_damage(out: Path) -> None:
    """Say where damaged records are: without the folder, nothing else does."""
    with (out / "damaged.jsonl").open("rb") as lines:
        for line in islice(lines, MAX_TOLD):
            entry = json.loads(line)
            end = "; kept as it came" if entry["kept"] else ""
            complain(f"{entry['file']}: record {entry['record']} is damaged: {entry['error']}{end}")
        if n_more := sum(1 for _ in lines):
            complain(f"and {n_more:,} more; name a folder with --out to have all in a file")


def start_fork_server() -> None:
    """Start the process that workers are forked from: it imports what they need meanwhile."""
    if os.name != "nt":  # where there is none
        from multiprocessing import forkserver

        forkserver.set_forkserver_preload([WORKERS])
        # It would ignore Ctrl-C only after its imports, and print a traceback before.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            forkserver.ensure_running()
        finally:
            signal.signal(signal.SIGINT, before)


def deduplicated(
    job: DedupJob, report: Path | None, take: Taker = lambda kept: None
) -> dict[str, Any]:
    """The summary of a run, with its report if a file for it is named."""
    from scrapy_neardup.offline.dedup.run import dedup
    from scrapy_neardup.report.page import write_report

    with progress_bar(job) as watch:
        summary = dedup(job, watch, take)
    if report is not None:
        write_report(job.out, report)
    return summary


def job_of(options: argparse.Namespace, out: Path) -> DedupJob:
    """What is to be done, as the options and the project's settings say. Raises InputError."""
    from scrapy.utils.project import get_project_settings

    from scrapy_neardup.kernels.cores import cores
    from scrapy_neardup.offline.dedup.columns import Fields
    from scrapy_neardup.offline.dedup.inputs import (
        find_inputs,
        not_read,
        refuse_as_output,
        stored_stdin,
    )
    from scrapy_neardup.offline.dedup.job import DedupJob
    from scrapy_neardup.offline.dedup.record import MIB, InputLimits
    from scrapy_neardup.settings import NearDupSettings

    settings = NearDupSettings.from_settings(
        getattr(options, "scrapy_settings", None) or get_project_settings()
    )
    paths = [stored_stdin(out) if path == PIPE else path for path in options.inputs]
    inputs = find_inputs(paths, out)
    read = chain(
        (path for one in inputs for path in one.files), filter(None, [options.contains_any])
    )
    refuse_as_output(filter(None, [options.clusters, options.report]), read)
    others, no_files = not_read(options.inputs, inputs, out)
    if others:
        complain(f"{len(others):,} files of other formats are left out, such as {others[0]}")
    if no_files:
        complain(
            f"{len(no_files):,} links to folders or to nothing, or special files, are left out, "
            f"such as {no_files[0]}; name folders that are to be read as inputs"
        )
    return DedupJob(
        inputs,
        out,
        settings,
        Fields(options.url, options.text, options.html, not options.no_url),
        max(1, options.jobs or cores()),
        InputLimits(options.max_record_mb * MIB, options.max_ratio),
        options.keep,
        options.against,
        options.index,
        options.clusters,
        options.contains_any,
        options.paragraphs,
        options.ngram,
        options.report is not None,
    )


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
    say(line_of(summary))
    say(f"{summary['bytes'] / 1e6:,.1f} MB in {summary['seconds']:,.1f} s; see {summary['out']}")
    if summary["others"]:
        say(f"also counted: {json.dumps(summary['others'])}")


def line_of(summary: dict[str, Any]) -> str:
    """The totals in a line."""
    return (
        f"{summary['records']:,} records: {summary['kept']:,} kept, {summary['exact']:,} exact and "
        f"{summary['near']:,} near duplicates, {summary['damaged']:,} damaged"
    )

"""Write every decision as CSV, JSONL or Parquet.

Fingerprints made with different keys cannot be compared; the column key_id tells which have the
same key, without revealing it. Parquet needs pyarrow: pip install 'scrapy-neardup[dedup]'.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_neardup.commands.paths import local_path
from scrapy_neardup.commands.state_folder import add_state, state_folder
from scrapy_neardup.commands.terminal import Output, ProgressLine, say, say_json
from scrapy_neardup.errors import NearDupError
from scrapy_neardup.harmless import harmless_cell
from scrapy_neardup.ledger.reader import LedgerReader
from scrapy_neardup.own_files import replacing

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

EXAMPLES = """\
  scrapy neardup export crawls/shop > decisions.jsonl
  scrapy neardup export crawls/shop -o decisions.csv
  scrapy neardup export crawls/shop -o decisions.parquet
"""

Row = dict[str, object]
FORMATS = ("jsonl", "csv", "parquet")
PARQUET_BATCH = 10_000
COLUMNS = {
    "time": "string",
    "run": "int32",
    "kind": "string",
    "action": "string",
    "url": "string",
    "original": "string",
    "elsewhere": "string",
    "fingerprint": "string",  # 16 hexadecimal digits: JSON readers round whole numbers of 64 bits
    "key_id": "string",
    "distance": "int32",
    "sketch_distance": "int32",
    "similarity": "float32",
    "words": "int64",
    "size_bytes": "int64",
    "latency_ms": "int64",
    "title_differs": "bool_",
    "data_differ": "string",
    "differs": "string",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """State folder, file and format."""
    add_state(parser)
    parser.add_argument(
        "-o", "--output", type=local_path, help="file to write; default: standard output"
    )
    parser.add_argument("--format", choices=FORMATS, help="default: by the file's name, or jsonl")
    parser.add_argument("--json", action="store_true", help="with -o, report as a JSON object")


def run(options: argparse.Namespace) -> int:
    """Write the file and say how many decisions it holds."""
    # Lines on a terminal say enough.
    tell = None if options.output is None else ProgressLine("exporting decisions")
    rows = exported(LedgerReader(state_folder(options.state), tell))
    form = options.format or (options.output.suffix[1:] if options.output else "jsonl")
    if form not in FORMATS:
        raise NearDupError(f"{options.output}: give --format, one of {', '.join(FORMATS)}")
    with _written_to(options.output) as path:
        if form == "parquet":
            written = write_parquet(rows, path)
        else:
            with _opened(path) as file:
                written = {"jsonl": write_jsonl, "csv": write_csv}[form](rows, file)
    if options.output and options.json:
        say_json({"file": str(options.output), "decisions": written})
    elif options.output:
        say(f"{written:,} decisions in {options.output}")
    return 0


def exported(reader: LedgerReader) -> Iterator[Row]:
    """Decisions as rows of COLUMNS, oldest first."""
    key_ids = {run.position: _key_id(run.rules) for run in reader.runs()}
    for decided in reader.decisions():
        row: Row = decided._asdict()
        row["key_id"] = key_ids.get((decided.position[0], decided.run), "")
        row["time"] = datetime.fromtimestamp(decided.time, UTC).isoformat(timespec="milliseconds")
        if decided.fingerprint is not None:
            row["fingerprint"] = f"{decided.fingerprint:016x}"
        yield {name: row[name] for name in COLUMNS}


def _key_id(rules: dict[str, object]) -> object:
    spec = rules.get("spec")
    return spec.get("key", "") if isinstance(spec, dict) else ""


def _written_to(output: Path | None) -> AbstractContextManager[Path | None]:
    return nullcontext() if output is None else replacing(output)


def _opened(path: Path | None) -> AbstractContextManager[SupportsWrite[str]]:
    if path is None:
        return nullcontext(Output())
    return path.open("w", encoding="utf-8", newline="")


def write_jsonl(rows: Iterator[Row], file: SupportsWrite[str]) -> int:
    """One JSON object in ASCII a line; how many."""
    written = 0
    for written, row in enumerate(rows, 1):  # noqa: B007 - the count is the answer
        file.write(json.dumps(row) + "\n")
    return written


def write_csv(rows: Iterator[Row], file: SupportsWrite[str]) -> int:
    """A header and a line a decision, for people and spreadsheets; how many.

    Cells are cleaned of control characters, and none begins a formula; JSONL has them exact.
    """
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    written = 0
    for written, row in enumerate(rows, 1):  # noqa: B007 - the count is the answer
        writer.writerow([harmless_cell(cell) for cell in row.values()])
    return written


def write_parquet(rows: Iterator[Row], path: Path | None) -> int:
    """A Parquet file, in batches; how many rows. Raises NearDupError without pyarrow or file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise NearDupError(
            f"Parquet needs pyarrow: pip install 'scrapy-neardup[dedup]' ({error})"
        ) from error
    if path is None:
        raise NearDupError("Parquet cannot go to standard output: name a file with -o")
    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in COLUMNS.items()])
    written = 0
    with pq.ParquetWriter(path, schema) as writer:
        while batch := list(islice(rows, PARQUET_BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
            written += len(batch)
    return written

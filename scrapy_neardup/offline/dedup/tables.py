"""What a run says about its records: duplicates.jsonl, damaged.jsonl, contains.jsonl, clusters."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from scrapy_neardup.harmless import harmless_cell
from scrapy_neardup.offline.dedup.deciding import RecordPlace, place_of
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.journal import KEPT, DecidedChunk
from scrapy_neardup.offline.file_systems import shown
from scrapy_neardup.own_files import replacing
from scrapy_neardup.state.files import write_atomically

TOTALS = ("records", "kept", "exact", "near", "damaged")


class Records:
    """Numbers of records in their files, by their places."""

    def __init__(self, inputs: list[Input], token: str, against: Path | str | None = None) -> None:
        self.inputs = inputs
        self.against = None if against is None else shown(against)
        self.token = token
        self._firsts: list[list[int]] = [[0] for _ in inputs]  # of each chunk, and the next

    def add(self, number: int, n_records: int) -> None:
        """Another chunk of an input."""
        firsts = self._firsts[number]
        firsts.append(firsts[-1] + n_records)

    def where(self, place: RecordPlace) -> dict[str, Any]:
        """File and record of a place."""
        first = self._firsts[place.number][place.chunk]
        return {"file": self.inputs[place.number].label, "record": first + place.record}

    def named(self, name: str) -> dict[str, Any]:
        """File, record and URL of a name; a page that is not of this run has no file."""
        url, place = place_of(name, self.token)
        return {
            **({"file": self.against, "record": None} if place is None else self.where(place)),
            "url": url,
        }


def write_duplicates(out: Path, groups: Iterable[DecidedChunk], records: Records) -> None:
    """Write duplicates.jsonl."""
    write_atomically(
        out / "duplicates.jsonl",
        (as_line(duplicate_of(e, records)) for group in groups for e in group.duplicates),
        mode=0o644,
    )


def write_damaged(out: Path, groups: Iterable[DecidedChunk], records: Records) -> None:
    """Write damaged.jsonl. In constant memory: all records of an input may be damaged."""
    write_atomically(
        out / "damaged.jsonl",
        (as_line(damage_of(group, e, records)) for group in groups for e in group.damaged),
        mode=0o644,
    )


def write_contained(out: Path, groups: Iterable[DecidedChunk], records: Records) -> None:
    """Write contains.jsonl: a line for each record and passage of which it has an n-gram."""
    write_atomically(
        out / "contains.jsonl",
        (as_line(contained_of(group, e, records)) for group in groups for e in group.contained),
        mode=0o644,
    )


def contained_of(group: DecidedChunk, entry: dict[str, Any], records: Records) -> dict[str, Any]:
    """A line of contains.jsonl."""
    place = RecordPlace(*group.place, entry["index"])
    told = {name: entry[name] for name in ("url", "passage", "shared", "ngrams", "text")}
    share = round(entry["shared"] / entry["ngrams"], 4)
    is_kept = bool(group.verdicts[place.record])
    return {**records.where(place), **told, "share": share, "kept": is_kept}


def damage_of(group: DecidedChunk, entry: dict[str, Any], records: Records) -> dict[str, Any]:
    """A line of damaged.jsonl."""
    place = RecordPlace(*group.place, entry.pop("index"))
    return {**records.where(place), **entry, "kept": group.verdicts[place.record] == KEPT}


def duplicate_of(entry: dict[str, Any], records: Records) -> dict[str, Any]:
    """A line of duplicates.jsonl."""
    entry = {key: value for key, value in entry.items() if key != "index"}
    line = records.named(entry.pop("name"))
    if "compared_with" in entry:
        entry["compared_with"] = records.named(entry.pop("compared_with"))
    return {**line, "original": records.named(entry.pop("original")), **entry}


def as_line(entry: dict[str, Any]) -> bytes:
    """A JSON line."""
    return json.dumps(entry).encode() + b"\n"


CLUSTER_COLUMNS = (
    *("cluster", "size", "kept", "file", "record", "url", "kind", "similarity"),
    "difference",
)
Differences = Callable[[Iterable[tuple[str, str]]], Iterable[str | None]]
ROWS_AT_ONCE = 1_000


def write_clusters(
    path: Path, groups: Iterable[DecidedChunk], records: Records, differences: Differences
) -> None:
    """Write a row for each record of a cluster, as CSV or Parquet by the name of the file.

    Memory: names of the records in clusters. differences: what differs in each pair of names, of
    the record that is kept and a near one.
    """
    rows = cluster_rows(groups, records, differences)
    write_parquet(path, rows) if path.suffix == ".parquet" else write_csv(path, rows)


def cluster_rows(
    groups: Iterable[DecidedChunk], records: Records, differences: Differences
) -> Iterator[dict[str, Any]]:
    """Rows of CLUSTER_COLUMNS, those of a cluster together, the kept record first."""
    clusters: dict[str, list[tuple[str, str, float | None]]] = {}
    for group in groups:
        for entry in group.duplicates:
            copy = entry["name"], entry["kind"], entry["similarity"]
            clusters.setdefault(entry["original"], []).append(copy)
    near = (
        (original, name)
        for original, copies in clusters.items()
        for name, kind, _ in copies
        if kind == "near"
    )
    found = iter(differences(near))
    for number, (original, copies) in enumerate(clusters.items(), 1):
        cluster = {"cluster": number, "size": len(copies) + 1}
        yield cluster | told_of(records, original, kept=True)
        for name, kind, similarity in copies:
            difference = next(found) if kind == "near" else None
            why = {"kind": kind, "similarity": similarity, "difference": difference}
            yield cluster | told_of(records, name, kept=False) | why


def told_of(records: Records, name: str, kept: bool) -> dict[str, Any]:
    """A row's columns that say which record it is; the others empty."""
    return {**dict.fromkeys(CLUSTER_COLUMNS[6:]), "kept": kept, **records.named(name)}


def write_csv(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows of CLUSTER_COLUMNS, all or none."""
    header = dict(zip(CLUSTER_COLUMNS, CLUSTER_COLUMNS, strict=True))
    write_atomically(path, map(as_csv, chain([header], rows)), mode=0o644)


def as_csv(row: dict[str, Any]) -> bytes:
    """A line of CSV that does nothing in a spreadsheet or on a terminal."""
    text = io.StringIO(newline="")
    csv.writer(text).writerow([harmless_cell(row[name]) for name in CLUSTER_COLUMNS])
    return text.getvalue().encode("utf-8", "replace")


def write_parquet(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    """Write rows of CLUSTER_COLUMNS, all or none, ROWS_AT_ONCE of them a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    number, text = pa.int64(), pa.string()
    types = (number, number, pa.bool_(), text, number, text, text, pa.float64(), text)
    schema = pa.schema(list(zip(CLUSTER_COLUMNS, types, strict=True)))
    with replacing(path) as part, pq.ParquetWriter(part, schema) as writer:
        while some := list(map(encodable, islice(rows, ROWS_AT_ONCE))):
            writer.write_table(pa.Table.from_pylist(some, schema=schema))


def encodable(row: dict[str, Any]) -> dict[str, Any]:
    """A row with a question mark for each lone surrogate, which UTF-8 cannot say."""
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in row.items()
    }

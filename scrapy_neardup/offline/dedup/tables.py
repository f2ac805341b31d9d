"""What a run says about its records: duplicates.jsonl, damaged.jsonl, contains.jsonl, clusters."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from scrapy_neardup.offline.dedup.deciding import Place, place_of
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.journal import Decided
from scrapy_neardup.state.files import write_atomically

TOTALS = ("records", "kept", "exact", "near", "damaged")


class Records:
    """Numbers of records in their files, by their places."""

    def __init__(self, inputs: list[Input], token: str, against: Path | None = None) -> None:
        self.inputs = inputs
        self.against = None if against is None else str(against)
        self.token = token
        self._firsts: list[list[int]] = [[0] for _ in inputs]  # of each chunk, and the next

    def add(self, number: int, n_records: int) -> None:
        """Another chunk of an input."""
        firsts = self._firsts[number]
        firsts.append(firsts[-1] + n_records)

    def where(self, place: Place) -> dict[str, Any]:
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


def write_tables(out: Path, groups: Iterable[Decided], records: Records) -> None:
    """Write duplicates.jsonl and damaged.jsonl, each whole or not at all."""
    damaged: list[bytes] = []

    def duplicates() -> Iterator[bytes]:
        for group in groups:
            damaged.extend(as_line(damage_of(group, e, records)) for e in group.damaged)
            yield from (as_line(duplicate_of(group, e, records)) for e in group.duplicates)

    write_atomically(out / "duplicates.jsonl", duplicates(), mode=0o644)
    write_atomically(out / "damaged.jsonl", damaged, mode=0o644)


def write_contained(out: Path, groups: Iterable[Decided], records: Records) -> None:
    """Write contains.jsonl: a line for each record and passage of which it has an n-gram."""
    write_atomically(
        out / "contains.jsonl",
        (as_line(contained_of(group, e, records)) for group in groups for e in group.contained),
        mode=0o644,
    )


def contained_of(group: Decided, entry: dict[str, Any], records: Records) -> dict[str, Any]:
    """A line of contains.jsonl."""
    place = Place(*group.place, entry["index"])
    told = {name: entry[name] for name in ("url", "passage", "shared", "ngrams", "text")}
    share = round(entry["shared"] / entry["ngrams"], 4)
    is_kept = bool(group.verdicts[place.record])
    return {**records.where(place), **told, "share": share, "kept": is_kept}


def damage_of(group: Decided, entry: dict[str, Any], records: Records) -> dict[str, Any]:
    """A line of damaged.jsonl."""
    where = records.where(Place(*group.place, entry.pop("index")))
    return {**where, **entry}


def duplicate_of(group: Decided, entry: dict[str, Any], records: Records) -> dict[str, Any]:
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
Differences = Callable[[list[tuple[str, str]]], Iterable[str | None]]


def write_clusters(
    path: Path, groups: Iterable[Decided], records: Records, differences: Differences
) -> None:
    """Write a row for each record of a cluster, as CSV or Parquet by the name of the file.

    cluster  number of the cluster, from 1, in the order of its first duplicate
    size     of its records
    kept     whether this one is kept
    kind, similarity  how a duplicate was compared; empty for what is kept
    difference  words in which a near duplicate differs from what is kept; empty where a text is
                not there

    differences: is told pairs of names, of what is kept and its copy; what to say of each.
    """
    clusters: dict[str, list[dict[str, Any]]] = {}
    for group in groups:
        for entry in group.duplicates:
            told = {name: entry[name] for name in ("name", "kind", "similarity")}
            clusters.setdefault(entry["original"], []).append({**told, "kept": False})
    rows = []
    for number, (original, copies) in enumerate(clusters.items(), 1):
        kept = {"name": original, "kind": None, "similarity": None, "kept": True}
        members = {"cluster": number, "size": len(copies) + 1, "original": original}
        rows += [
            {**row, **records.named(row["name"]), **members, "difference": None}
            for row in (kept, *copies)
        ]
    near = [row for row in rows if row["kind"] == "near"]
    pairs = [(row["original"], row["name"]) for row in near]
    for row, difference in zip(near, differences(pairs), strict=True):
        row["difference"] = difference
    write_rows(path, [{name: row[name] for name in CLUSTER_COLUMNS} for row in rows])


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Rows of CLUSTER_COLUMNS as CSV or Parquet."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        number, text = pa.int64(), pa.string()
        types = (number, number, pa.bool_(), text, number, text, text, pa.float64(), text)
        schema = pa.schema(list(zip(CLUSTER_COLUMNS, types, strict=True)))
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        return
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, CLUSTER_COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, [text.getvalue().encode("utf-8", "replace")], mode=0o644)

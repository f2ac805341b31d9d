"""What a run says about its records: duplicates.jsonl, damaged.jsonl, summary.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scrapy_neardup.offline.dedup.deciding import Place, place_of
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.journal import Decided
from scrapy_neardup.state.files import write_atomically

TOTALS = ("records", "kept", "exact", "near", "damaged")


class Records:
    """Numbers of records in their files, by their places."""

    def __init__(self, inputs: list[Input], token: str) -> None:
        self.inputs = inputs
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
            **({"file": None, "record": None} if place is None else self.where(place)),
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


def damage_of(group: Decided, entry: dict[str, Any], records: Records) -> dict[str, Any]:
    """A line of damaged.jsonl."""
    where = records.where(Place(*group.place, entry.pop("index")))
    return {**where, **entry}


def duplicate_of(group: Decided, entry: dict[str, Any], records: Records) -> dict[str, Any]:
    """A line of duplicates.jsonl."""
    del entry["index"]
    line = records.named(entry.pop("name"))
    return {**line, "original": records.named(entry.pop("original")), **entry}


def as_line(entry: dict[str, Any]) -> bytes:
    """A JSON line."""
    return json.dumps(entry).encode() + b"\n"

"""A ledger of a run, so that `report`, `explain`, `best`, `stats` and `export` read its folder."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scrapy_neardup.ledger.schema import Entry
from scrapy_neardup.ledger.writer import BATCH, LedgerWriter
from scrapy_neardup.offline.dedup.deciding import RecordPlace, place_of
from scrapy_neardup.offline.dedup.journal import KEPT, DecidedChunk
from scrapy_neardup.offline.dedup.tables import Records
from scrapy_neardup.offline.dedup.texts import ClusterTexts

COMPARED = ("original", "distance", "sketch_distance", "similarity")


def write_ledger(
    out: Path,
    groups: Iterable[DecidedChunk],
    records: Records,
    texts: ClusterTexts,
    rules: Mapping[str, object],
) -> None:
    """Write out/ledger anew: every record that was compared. Raises OSError, LedgerError."""
    shutil.rmtree(out / "ledger", ignore_errors=True)  # of a run that was stopped here
    no_limits = {"rotate_s": float("inf"), "keep_files": 1_000_000}
    writer = LedgerWriter(out / "ledger", "all", rules=rules, keep_text=True, **no_limits)  # type: ignore[arg-type]
    try:
        for n_written, entry in enumerate(entries(groups, records, texts), 1):
            writer.record(entry)
            if not n_written % BATCH:
                writer.wait_until_written()
    finally:
        writer.close()
    if writer.lost:
        raise OSError(errno.EIO, f"{out / 'ledger'}: {writer.lost:,} records could not be written")


def entries(
    groups: Iterable[DecidedChunk], records: Records, texts: ClusterTexts
) -> Iterator[Entry]:
    """What was decided about each record that was compared, in the order of the input."""
    for group in groups:
        duplicates = {entry["index"]: entry for entry in group.duplicates}
        for judged in group.judged:
            place = RecordPlace(*group.place, judged["index"])
            copy = duplicates.get(place.record)
            text = texts.of(place) or ""
            if copy is not None:
                yield entry_of({**judged, **copy}, "dropped", records, text)
            elif group.verdicts[place.record] == KEPT:
                # A copy that was chosen in place of the first of its cluster repeats nothing.
                is_chosen = judged["kind"] in ("exact", "near")
                told = {**judged, "kind": "new", "original": None} if is_chosen else judged
                yield entry_of(told, "kept", records, text)


def entry_of(told: dict[str, Any], action: Any, records: Records, text: str) -> Entry:
    """A record as a ledger has it."""
    url = url_of(told["name"], records)
    original = told.get("original")
    first = None if original is None else url_of(original, records)
    if first == url:  # two records of one URL
        url = f"{url} ({label(told['name'], records)})"
    figures = {name: told.get(name) for name in COMPARED if name != "original"} if first else {}
    return Entry(
        url,
        told["kind"],
        action,
        original=first,
        words=told["words"],
        differs=told.get("differs"),
        text=text,
        **figures,
    )


def url_of(name: str, records: Records) -> str:
    """A record's URL, or its file and number where it has none."""
    url, _ = place_of(name, records.token)
    return url or label(name, records)


def label(name: str, records: Records) -> str:
    """File and number of a record."""
    where = records.named(name)
    return f"{where['file']}, record {where['record']}"

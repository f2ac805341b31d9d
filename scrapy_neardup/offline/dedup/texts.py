"""The texts of records in clusters, on disk in SQLite while a run lasts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from scrapy_neardup.ledger.schema import compressed, decompressed
from scrapy_neardup.offline.dedup.copies import clusters_of
from scrapy_neardup.offline.dedup.deciding import RecordPlace
from scrapy_neardup.offline.dedup.journal import DecidedChunk
from scrapy_neardup.sqlite_files import disk_errors

FILE = "texts.sqlite"
Chunk = tuple[int, int]  # number of the input, of the chunk in it


class ClusterTexts:
    """Texts by the places of their records, each cut at what a ledger keeps of one."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)  # of a run that was stopped
        self._path = path
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
            "CREATE TABLE text (input INTEGER, chunk INTEGER, record INTEGER, body BLOB,"
            " PRIMARY KEY (input, chunk, record)) WITHOUT ROWID"
        )

    def fill(self, found: Iterable[tuple[Chunk, list[tuple[int, str]]]]) -> None:
        """Take the texts of chunks. Raises OSError for a full disk."""
        with disk_errors(FILE):
            self._connection.execute("BEGIN")
            for chunk, texts in found:
                rows = [(*chunk, record, compressed(text)) for record, text in texts]
                self._connection.executemany("INSERT INTO text VALUES (?, ?, ?, ?)", rows)
            self._connection.execute("COMMIT")

    def of(self, place: RecordPlace | None) -> str | None:
        """A record's text; None if there is none."""
        query = "SELECT body FROM text WHERE (input, chunk, record) = (?, ?, ?)"
        with disk_errors(FILE):
            row = self._connection.execute(query, place).fetchone() if place else None
        return decompressed(row[0]) if row else None

    def close(self) -> None:
        """Remove the file."""
        self._connection.close()
        self._path.unlink(missing_ok=True)


@contextmanager
def cluster_texts(out: Path) -> Iterator[ClusterTexts]:
    """An empty table in a run's folder, which is gone with the context."""
    texts = ClusterTexts(out / FILE)
    try:
        yield texts
    finally:
        texts.close()


def members(groups: Iterable[DecidedChunk], token: str) -> dict[Chunk, set[int]]:
    """The records of clusters, by their chunks; of this run only."""
    found: dict[Chunk, set[int]] = {}
    for first, copies in clusters_of(groups, token).items():
        for place in (first, *(place for place, _ in copies)):
            found.setdefault(place[:2], set()).add(place.record)
    return found

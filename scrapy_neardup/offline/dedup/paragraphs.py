"""Paragraphs that documents share, on disk in SQLite: lines of text, equal but for spacing.

The first document that has a paragraph keeps it, so that every paragraph stays somewhere. Documents
are those that are kept: a dropped copy repeats nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from scrapy_neardup.offline.dedup.deciding import RecordPlace
from scrapy_neardup.offline.dedup.lines import Document
from scrapy_neardup.offline.dedup.tables import Records, as_line
from scrapy_neardup.sqlite_files import disk_errors
from scrapy_neardup.state.files import write_atomically

Paragraphs = Literal["list", "remove"]
FILE, LISTED, SITES, REMOVED = (
    *("paragraphs.sqlite", "paragraphs.jsonl", "paragraph_sites.jsonl"),
    "removed_paragraphs.jsonl",
)

SCHEMA = """
CREATE TABLE document (
    id INTEGER PRIMARY KEY, input INTEGER, chunk INTEGER, record INTEGER, url TEXT, site TEXT,
    chars INTEGER
);
CREATE TABLE paragraph (
    document INTEGER, line INTEGER, digest BLOB, site TEXT, chars INTEGER, text TEXT,
    may_go INTEGER
);
"""
# Once all documents are in: which paragraphs are in several, of all sites and of one.
COUNT = """
CREATE INDEX by_digest ON paragraph (digest, document);
CREATE TABLE repeated AS
    SELECT digest, min(document) AS first, count(DISTINCT document) AS documents,
           count(DISTINCT site) AS sites, max(chars) AS chars, count(*) AS times
    FROM paragraph GROUP BY digest HAVING min(document) < max(document);
CREATE UNIQUE INDEX repeated_digest ON repeated (digest);
CREATE TABLE repeated_on_site AS
    SELECT digest, site, min(document) AS first, count(DISTINCT document) AS documents
    FROM paragraph WHERE digest IN (SELECT digest FROM repeated)
    GROUP BY digest, site HAVING min(document) < max(document);
CREATE UNIQUE INDEX repeated_digest_site ON repeated_on_site (digest, site);
CREATE TABLE surplus (document INTEGER, line INTEGER, first INTEGER);
"""
# What removing takes away, by the scope in which pages are compared.
SURPLUS = {
    "all": """
INSERT INTO surplus SELECT document, line, first FROM paragraph JOIN repeated USING (digest)
WHERE document > first AND may_go""",
    "site": """
INSERT INTO surplus SELECT document, line, first FROM paragraph
JOIN repeated_on_site USING (digest, site) WHERE document > first AND may_go""",
}
INDEX = """
CREATE UNIQUE INDEX by_document ON surplus (document, line);
CREATE UNIQUE INDEX by_place ON document (input, chunk, record);
"""


class ParagraphTable:
    """The paragraphs of a run. Raises OSError for a full disk."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE"
        )

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def fill(self, chunks: Iterable[tuple[int, int, list[Document]]], scope: str) -> None:
        """Take the documents of chunks, in their order, and find what repeats. O(n log n)."""
        with disk_errors(FILE):
            self._connection.executescript(SCHEMA)
            self._connection.execute("BEGIN")
            for number, chunk, documents in chunks:
                for document in documents:
                    self._add(number, chunk, document)
            self._connection.execute("COMMIT")
            self._connection.executescript(COUNT + SURPLUS[scope] + ";" + INDEX)

    def _add(self, number: int, chunk: int, document: Document) -> None:
        place = number, chunk, document.record
        url, site = (part.encode("utf-8", "replace") for part in (document.url, document.site))
        added = self._connection.execute(
            "INSERT INTO document VALUES (NULL, ?, ?, ?, ?, ?, ?)",
            (*place, url.decode(), site.decode(), document.chars),
        )
        self._connection.executemany(
            "INSERT INTO paragraph VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    *(added.lastrowid, line.number, line.digest, site.decode(), line.chars),
                    *(line.text.encode("utf-8", "replace").decode(), document.may_go),
                )
                for line in document.lines
            ),
        )

    def rows(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """The rows of a query."""
        with disk_errors(FILE):
            yield from self._connection.execute(query, values)

    def surplus(self, number: int, chunk: int) -> dict[int, list[int]]:
        """Of a chunk the records that lose paragraphs, and which lines."""
        found: dict[int, list[int]] = {}
        query = """SELECT record, line FROM document JOIN surplus ON document = document.id
                   WHERE input = ? AND chunk = ? ORDER BY record, line"""
        for record, line in self.rows(query, number, chunk):
            found.setdefault(record, []).append(line)
        return found

    def totals(self, mode: Paragraphs) -> dict[str, int]:
        """How much repeats, in characters, on one site and over all."""
        found = {
            "chars": "SELECT total(chars) FROM document",
            "repeated": "SELECT count(*) FROM repeated",
            "repeated_chars": """SELECT total(chars * 1) FROM paragraph
                WHERE EXISTS (SELECT 1 FROM repeated r WHERE r.digest = paragraph.digest
                              AND r.first < document)""",
            "repeated_chars_on_a_site": """SELECT total(chars) FROM paragraph
                WHERE EXISTS (SELECT 1 FROM repeated_on_site r WHERE r.digest = paragraph.digest
                              AND r.site = paragraph.site AND r.first < document)""",
        }
        if mode == "remove":
            found["removed"] = "SELECT count(*) FROM surplus"
            found["removed_chars"] = """SELECT total(chars) FROM surplus
                JOIN paragraph USING (document, line)"""
        values = {name: next(self.rows(query))[0] for name, query in found.items()}
        return {f"paragraphs/{name}": int(value) for name, value in values.items()}


def write_paragraphs(out: Path, table: ParagraphTable, mode: Paragraphs, records: Records) -> None:
    """Write paragraphs.jsonl, most repeated text first, paragraph_sites.jsonl and, where they are
    removed, removed_paragraphs.jsonl."""
    written = {LISTED: listed(table, records), SITES: sites(table)}
    if mode == "remove":
        written[REMOVED] = removed(table, records)
    for name, rows in written.items():
        write_atomically(out / name, map(as_line, rows), mode=0o644)


def listed(table: ParagraphTable, records: Records) -> Iterator[dict[str, Any]]:
    """A row for each paragraph that several documents have."""
    query = """
        SELECT text, documents, sites, times, repeated.chars, input, chunk, record, url, line,
               (SELECT json_group_object(site, documents) FROM repeated_on_site s
                WHERE s.digest = repeated.digest)
        FROM repeated JOIN document ON document.id = first
        JOIN paragraph ON paragraph.document = first AND paragraph.digest = repeated.digest
        GROUP BY repeated.digest HAVING line = min(line)
        ORDER BY (documents - 1) * repeated.chars DESC, document.id, line"""
    for text, documents, n_sites, times, chars, *place, url, line, on_sites in table.rows(query):
        yield {
            "text": text,
            "documents": documents,
            "sites": n_sites,
            "times": times,
            "chars": chars,
            "documents_on_site": json.loads(on_sites),
            "first": {**records.where(RecordPlace(*place)), "url": url, "line": line},
        }


def sites(table: ParagraphTable) -> Iterator[dict[str, Any]]:
    """A row for each site: how much of its text repeats what an earlier document of it has."""
    query = """
        SELECT document.site, count(*), sum(chars), coalesce(repeats, 0)
        FROM document LEFT JOIN (
            SELECT paragraph.site AS site, sum(chars) AS repeats FROM paragraph
            JOIN repeated_on_site USING (digest, site) WHERE document > first GROUP BY 1
        ) USING (site) GROUP BY document.site ORDER BY 4 DESC, 1"""
    for site, documents, chars, repeats in table.rows(query):
        share = round(repeats / max(1, chars), 4)
        yield {
            "site": site,
            "documents": documents,
            "chars": chars,
            "repeated_chars": repeats,
            "share": share,
        }


def removed(table: ParagraphTable, records: Records) -> Iterator[dict[str, Any]]:
    """A row for each line that is removed, with the document that keeps it."""
    query = """
        SELECT own.input, own.chunk, own.record, own.url, line, text,
               other.input, other.chunk, other.record, other.url
        FROM surplus JOIN paragraph USING (document, line)
        JOIN document own ON own.id = document JOIN document other ON other.id = first
        ORDER BY document, line"""
    for *place, url, line, text, number, chunk, record, first_url in table.rows(query):
        first = {**records.where(RecordPlace(number, chunk, record)), "url": first_url}
        told = {"url": url, "line": line, "text": text, "kept_in": first}
        yield {**records.where(RecordPlace(*place)), **told}


def opened(out: Path) -> closing[ParagraphTable]:
    """The finished table of a run."""
    return closing(ParagraphTable(out / FILE))

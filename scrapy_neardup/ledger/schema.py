"""What a decision is, and the SQLite tables that a ledger file keeps decisions in."""

from __future__ import annotations

import sqlite3
import zlib
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple

from scrapy_neardup.errors import LedgerError
from scrapy_neardup.sqlite_files import ForeignSchema, require_schema

Policy = Literal["all", "duplicates", "off"]
PageKind = Literal[
    "seen", "new", "exact", "near", "too-short", "undecided", "near-but-differs", "contains"
]
UrlKind = Literal["deferred", "soft-404", "claimed"]
RevisitKind = Literal["unchanged", "minor", "changed", "gone", "moved"]  # of pages read again
EntryKind = PageKind | UrlKind | RevisitKind
Action = Literal["kept", "dropped", "tagged", "counted"]

KINDS: tuple[EntryKind, ...] = (
    *("seen", "new", "exact", "near", "too-short", "undecided"),
    *("near-but-differs", "contains"),
    *("unchanged", "minor", "changed", "gone", "moved"),
    *("deferred", "soft-404", "claimed"),
)
ACTIONS: tuple[Action, ...] = ("kept", "dropped", "tagged", "counted")
DUPLICATE_KINDS: frozenset[EntryKind] = frozenset({"seen", "exact", "near", "soft-404", "claimed"})
NOT_READ: frozenset[EntryKind] = frozenset({"seen", "deferred"})  # requests that were not made

APPLICATION_ID = 0x6E656172  # "near"
FORMAT = 6
# 3 does not say in which fact a page differs, 4 knows no kinds of pages read again, 5 neither
# deferred requests nor soft 404s nor claims.
READABLE = frozenset({3, 4, 5, FORMAT})
DIFFERS_SINCE = 4
MAX_TEXT_CHARS = 200_000
MAX_URL_CHARS = 4_096
MAX_FIELDS_CHARS = 200

SCHEMA = """
CREATE TABLE run (id INTEGER PRIMARY KEY, started REAL NOT NULL, rules TEXT NOT NULL);
CREATE TABLE kind (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE action (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE callback (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE original (id INTEGER PRIMARY KEY, url TEXT NOT NULL);
CREATE TABLE page_text (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE decision (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    action INTEGER NOT NULL,
    url_hash INTEGER NOT NULL,
    url TEXT NOT NULL,
    original INTEGER,
    elsewhere INTEGER,
    fingerprint INTEGER,
    distance INTEGER,
    sketch_distance INTEGER,
    per_mille INTEGER,
    words INTEGER,
    size_bytes INTEGER,
    latency_ms INTEGER,
    callback INTEGER,
    title INTEGER,
    data_differ TEXT,
    differs TEXT
);
CREATE INDEX decision_url ON decision (url_hash);
CREATE INDEX decision_original ON decision (original) WHERE original IS NOT NULL;
CREATE VIEW decisions AS
    SELECT decision.id AS id, decision.run AS run, decision.time_ms / 1000.0 AS time,
           kind.name AS kind, action.name AS action, CAST(decision.url AS TEXT) AS url,
           CAST(coalesce(own.url, original.url) AS TEXT) AS original,
           CAST(other.url AS TEXT) AS elsewhere,
           CAST(decision.fingerprint AS INTEGER) AS fingerprint,
           CAST(decision.distance AS INTEGER) AS distance,
           CAST(decision.sketch_distance AS INTEGER) AS sketch_distance,
           decision.per_mille / 1000.0 AS similarity,
           CAST(decision.words AS INTEGER) AS words,
           CAST(decision.size_bytes AS INTEGER) AS size_bytes,
           CAST(decision.latency_ms AS INTEGER) AS latency_ms,
           callback.name AS callback, decision.title <> own.title AS title_differs,
           CAST(decision.data_differ AS TEXT) AS data_differ,
           CAST(decision.differs AS TEXT) AS differs, decision.url_hash AS url_hash,
           decision.original AS original_id
    FROM decision JOIN kind ON kind.id = decision.kind JOIN action ON action.id = decision.action
    LEFT JOIN decision AS own ON own.id = -decision.original
    LEFT JOIN original ON original.id = decision.original
    LEFT JOIN original AS other ON other.id = decision.elsewhere
    LEFT JOIN callback ON callback.id = decision.callback;
"""


# Format 3.
OLD_SCHEMA = SCHEMA.replace(",\n    differs TEXT", "").replace(
    "\n           CAST(decision.differs AS TEXT) AS differs,", ""
)
MAX_CELL_BYTES = 1 << 24  # of the longest text, twice over


class Entry(NamedTuple):
    """One decision as the crawl enters it; None where a value does not apply."""

    url: str
    kind: EntryKind
    action: Action
    original: str | None = None  # URL of the page that it repeats
    elsewhere: str | None = None  # URL of a page of another site that it repeats
    fingerprint: int | None = None  # 64 bits, unsigned
    distance: int | None = None  # bits
    sketch_distance: int | None = None  # bits
    similarity: float | None = None  # estimated share of common shingles, 0 to 1
    words: int | None = None
    size_bytes: int | None = None  # of the response's body
    latency_ms: int | None = None  # of the download
    callback: str | None = None  # spider method that handled the page, or would have
    title: int | None = None  # hash of the page's title, below 2**31
    data_differ: str | None = None  # see Decided
    differs: str | None = None  # see Decided
    text: str = ""  # visible text; stored where texts are kept


class Decided(NamedTuple):
    """One decision as it is read back; `position` orders decisions across a ledger's files."""

    position: tuple[int, int]  # file number, row
    run: int
    time: float  # seconds since 1970, UTC
    kind: EntryKind
    action: Action
    url: str
    original: str | None
    elsewhere: str | None
    fingerprint: int | None
    distance: int | None
    sketch_distance: int | None
    similarity: float | None
    words: int | None
    size_bytes: int | None
    latency_ms: int | None
    callback: str | None
    # Whether the title is another than the original's; None if one of the two is not in the file.
    title_differs: bool | None
    # Fields by which items were kept although their page repeats another, "" if it is not known
    # which; None if no item was kept by its data.
    data_differ: str | None
    # In what a page that is "near-but-differs" differs from its original; None where that is not
    # on record.
    differs: str | None


class CrawlRun(NamedTuple):
    """One crawl that wrote to a ledger, and the rules it decided by."""

    position: tuple[int, int]
    started: float
    rules: dict[str, object]


def url_id(url: str) -> int:
    """A URL's id in a ledger: 63 bits of its BLAKE2b digest, so that SQLite can store it signed."""
    digest = blake2b(url.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def earlier_id(url: str) -> int:
    """By which the text that a page had before it changed is stored, beside its newest one."""
    return url_id(f"earlier {url}")


def url_hash(url: str) -> int:
    """31 bits of the id: an index half the size. Queries compare the URL as well."""
    return url_id(url) & 0x7FFF_FFFF


def storable(url: str) -> str:
    """A URL as SQLite takes it: lone surrogates replaced, cut at MAX_URL_CHARS."""
    return url[:MAX_URL_CHARS].encode("utf-8", "replace").decode("utf-8")


def compressed(text: str) -> bytes:
    """A text as the ledger stores it: cut at MAX_TEXT_CHARS, compressed."""
    return zlib.compress(text[:MAX_TEXT_CHARS].encode("utf-8", "replace"))


def decompressed(body: bytes) -> str | None:
    """The text that was stored; None if it is damaged, or longer than any that is stored."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(body, 4 * MAX_TEXT_CHARS)
        return text.decode("utf-8") if unpacker.eof else None
    except (zlib.error, ValueError, TypeError):
        return None


def ledger_files(folder: Path) -> list[Path]:
    """The files of a ledger, oldest first. Raises OSError for a folder that cannot be read."""
    try:
        paths = list(folder.iterdir())  # of such a folder, glob() says that it is empty
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(path for path in paths if path.suffix == ".sqlite" and path.stem.isdecimal())


def check_format(connection: sqlite3.Connection, path: Path) -> int:
    """The format of a ledger's file. Raises LedgerError unless it can be read."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID or found not in READABLE:
        raise LedgerError(
            f"{path}: a file of format {found}, application {application:#x}; this version reads "
            f"decision ledgers of format {min(READABLE)} to {FORMAT}. Move the folder away to "
            "begin a new one"
        )
    schema = SCHEMA if found >= DIFFERS_SINCE else OLD_SCHEMA
    try:
        require_schema(connection, schema, max_cell_bytes=MAX_CELL_BYTES)
    except ForeignSchema as error:
        raise LedgerError(f"{path}: no crawl made this ledger: {error}. Move it away") from error
    return int(found)

"""Pages that changed since an earlier crawl, newest first, with both texts where they were kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from scrapy_neardup.errors import StateError
from scrapy_neardup.ledger.reader import LedgerReader

PAGES = 200
PAGES_WITH_TEXT = 50  # texts make a report large
TEXT_CHARS = 20_000


def changed_pages(state: Path, reader: LedgerReader) -> dict[str, object]:
    """How many changes are on record, and the newest of them, each page once."""
    n, found = _newest(state)
    urls = [str(page["url"]) for page in found[:PAGES_WITH_TEXT]]
    now = reader.texts(urls)
    before = reader.earlier_texts(now)
    for page in found:
        url = str(page["url"])
        if url in before:
            page |= {"before": before[url][:TEXT_CHARS], "now": now[url][:TEXT_CHARS]}
    return {"n": n, "pages": found}


def _newest(state: Path) -> tuple[int, list[dict[str, object]]]:
    # Imported here: `scrapy neardup --help` reads this module.
    from scrapy_neardup.sqlite_files import connect_to_read
    from scrapy_neardup.state.visit_file import FILE, check_file, newest_changes

    path = state / FILE
    if not path.exists():
        return 0, []
    try:
        with closing(connect_to_read(path)) as db:
            check_file(db, path)
            n, changes = newest_changes(db, PAGES)
    except (sqlite3.Error, StateError):  # damaged: of that, `check` speaks
        return 0, []
    pages: dict[str, dict[str, object]] = {}
    for one in changes:
        told = {name: one.told.get(name) for name in ("fields", "added", "removed")}
        pages.setdefault(one.url, {"url": one.url, "time": one.time, **told})
    return n, [*pages.values()]

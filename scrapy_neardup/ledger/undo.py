"""Overrides: decisions that a person has undone. Their URLs are fetched again and kept.

A Bloom filter cannot forget a URL, so overrides are a list beside it: `overrides.jsonl`, one
JSON object a line, append-only. A person's `undo` adds `{"undo": URL, "callback": NAME}`; the
crawl answers `{"fetched": URL}`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from scrapy_neardup.own_files import refuse_links, sync_file, sync_new_files
from scrapy_neardup.urls.key import DEFAULT_RULES, UrlKeyRules, url_key

FILE = "overrides.jsonl"


class Override(NamedTuple):
    """A URL to fetch again, and the spider method that gets its response."""

    url: str
    callback: str | None = None  # None: the default, parse()


def undo(state: Path, overrides: Iterable[Override]) -> None:
    """Have the next run fetch these URLs and keep their pages; on disk when this returns."""
    append(state / FILE, [{"undo": url, "callback": callback} for url, callback in overrides])


def read(state: Path) -> Iterator[dict[str, str | None]]:
    """Every entry, oldest first, without lines that a crash tore or that are not ours."""
    return filter(None, (_entry(line) for _, line in _lines(state)))


def damaged_lines(state: Path) -> list[tuple[int, bytes]]:
    """The lines that are no entries, each with where it begins, in bytes.

    A last line that a kill cut off is none of them: whoever wrote it was not told that it is there.
    """
    return [
        (start, line)
        for start, line in _lines(state)
        if _entry(line) is None and (line.endswith(b"\n") or b"}" in line)
    ]


def examine(state: Path) -> str | None:
    """What is wrong with the list of a folder. Raises OSError."""
    n_damaged = len(damaged_lines(state))
    if not n_damaged:
        return None
    return (
        f"{state / FILE}: {n_damaged} lines are damaged, and nobody knows any more which URLs were "
        f"undone there. `scrapy neardup repair {state}` sets them aside: `undo` those URLs again"
    )


def blank_out(state: Path, lines: Iterable[tuple[int, bytes]]) -> None:
    """Put spaces where these lines are; on disk when this returns. Raises OSError.

    In place, so that an `undo` that appends meanwhile is not lost.
    """
    path = state / FILE
    refuse_links(path)
    with path.open("rb+") as file:
        for start, line in lines:
            file.seek(start)
            file.write(b" " * len(line.rstrip(b"\n")))
    sync_file(path)


def _lines(state: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, each with where it begins and with its end."""
    try:
        lines = (state / FILE).read_bytes().splitlines(keepends=True)
    except (FileNotFoundError, NotADirectoryError):
        return
    start = 0
    for line in lines:
        if line.strip():
            yield start, line
        start += len(line)


def _entry(line: bytes) -> dict[str, str | None] | None:
    try:
        entry = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not all(isinstance(v, str | None) for v in entry.values()):
        return None
    is_ours = entry.keys() in ({"undo"}, {"undo", "callback"}, {"fetched"})
    return entry if is_ours else None


def append(path: Path, entries: list[dict[str, str | None]]) -> None:
    """Append lines and sync the file. Raises OSError, also for a file that is a link."""
    refuse_links(path)
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    with path.open("a", encoding="utf-8") as file:
        # Keep a torn last line apart from what follows.
        file.write(lines if _ends_a_line(path) else "\n" + lines)
    sync_new_files([path], path.parent)


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read() in (b"", b"\n")


class Overrides:
    """The overrides that one run honours; URLs are compared by their keys under `rules`.

    Read once: an `undo` during a crawl takes effect in the next run.
    """

    def __init__(self, state: Path, rules: UrlKeyRules = DEFAULT_RULES) -> None:
        self._path = state / FILE
        self._rules = rules
        self._kept: set[bytes] = set()
        self._to_fetch: dict[bytes, Override] = {}
        for entry in read(state):
            if url := entry.get("undo"):
                key = url_key(url, rules)
                self._kept.add(key)
                self._to_fetch[key] = Override(url, entry.get("callback"))
            elif url := entry.get("fetched"):
                self._to_fetch.pop(url_key(url, rules), None)

    def __len__(self) -> int:
        """URLs whose pages are kept."""
        return len(self._kept)

    def keeps(self, url: str) -> bool:
        """Whether the page at a URL is kept whatever it repeats."""
        return bool(self._kept) and url_key(url, self._rules) in self._kept

    @property
    def to_fetch(self) -> list[Override]:
        """Overrides that no run has fetched yet."""
        return list(self._to_fetch.values())

    def wants(self, url: str) -> bool:
        """Whether a URL is to be fetched although it was seen."""
        return bool(self._to_fetch) and url_key(url, self._rules) in self._to_fetch

    def fetched(self, url: str) -> None:
        """Note that a URL was fetched and handled: it counts as seen again. Raises OSError."""
        if self.wants(url):
            append(self._path, [{"fetched": url}])
            del self._to_fetch[url_key(url, self._rules)]

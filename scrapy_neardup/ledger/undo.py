"""URLs whose decisions a person has undone: fetched once more, and their pages kept.

A Bloom filter cannot forget, so what is to be forgotten is a list of exceptions beside it:
`undone.jsonl`, one JSON object a line, appended only. `{"undo": URL, "callback": NAME}` is a
person's word, `{"fetched": URL}` the crawl's answer to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from scrapy_neardup.urls.key import DEFAULT_RULES, UrlKeyRules, url_key

FILE = "undone.jsonl"


class Wanted(NamedTuple):
    """A URL that is to be fetched again, and the method of the spider that is to get it."""

    url: str
    callback: str | None = None  # None: the spider's default


def undo(state: Path, wanted: Iterable[Wanted]) -> None:
    """Ask the next run to fetch these URLs and keep their pages; on disk when this returns."""
    append(state / FILE, [{"undo": url, "callback": callback} for url, callback in wanted])


def read(state: Path) -> Iterator[dict[str, str]]:
    """Every line, oldest first; one torn by a crash is passed over."""
    try:
        lines = (state / FILE).read_text("utf-8", "replace").split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def append(path: Path, entries: list[dict[str, str | None]]) -> None:
    """Append lines and wait until the disk has them."""
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    with path.open("a", encoding="utf-8") as file:
        # After a torn line: begin a new one.
        file.write(lines if _ends_a_line(path) else "\n" + lines)
        file.flush()
        os.fsync(file.fileno())


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read() in (b"", b"\n")


class Undone:
    """The exceptions as one run knows them. URLs are compared by their keys under `rules`.

    Read once: what is undone while a crawl runs counts from the next run on.
    """

    def __init__(self, state: Path, rules: UrlKeyRules = DEFAULT_RULES) -> None:
        self._path = state / FILE
        self._rules = rules
        self._kept: set[bytes] = set()
        self._to_fetch: dict[bytes, Wanted] = {}
        for entry in read(state):
            if url := entry.get("undo"):
                key = url_key(url, rules)
                self._kept.add(key)
                self._to_fetch[key] = Wanted(url, entry.get("callback"))
            elif url := entry.get("fetched"):
                self._to_fetch.pop(url_key(url, rules), None)

    def __len__(self) -> int:
        """URLs whose pages are to be kept."""
        return len(self._kept)

    def keeps(self, url: str) -> bool:
        """Whether the page at a URL is to be kept whatever it repeats."""
        return bool(self._kept) and url_key(url, self._rules) in self._kept

    @property
    def to_fetch(self) -> list[Wanted]:
        """What is to be fetched though it was seen."""
        return list(self._to_fetch.values())

    def wants(self, url: str) -> bool:
        """Whether a URL is to be fetched though it was seen."""
        return bool(self._to_fetch) and url_key(url, self._rules) in self._to_fetch

    def fetched(self, url: str) -> None:
        """Note that a URL was fetched and handled: from now on it counts as seen again."""
        if self.wants(url):
            append(self._path, [{"fetched": url}])
            del self._to_fetch[url_key(url, self._rules)]

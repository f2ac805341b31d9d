"""Requests that learnt rules skipped, by name: so that each can be made if its rule was wrong.

`skipped.jsonl`, one JSON object a line, append-only: `{"skipped": …}` is a request with its URL,
its twin and the rules; `{"fetched": URL}` says that it was made after all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from scrapy_neardup.state.files import O_BINARY, O_NOFOLLOW

FILE = "skipped.jsonl"
DEFERRED = "dry "  # before the kind of URLs of a request that waits; in the place of a rule


class SkippedRequest(NamedTuple):
    """A request that was not made.

    twin     URL of the page that it would repeat; "" where it only waits
    rules    the names of those that say so, or why it waits
    request  its fields, as JSON has them
    """

    url: str
    twin: str
    rules: list[str]
    request: dict[str, Any]


class SkippedRequests:
    """The skipped requests of a state folder; without one, of a crawl."""

    def __init__(self, folder: Path | None) -> None:
        """Raises OSError, also for a file that is a link."""
        self._file: IO[bytes] = TemporaryFile() if folder is None else _opened(folder / FILE)  # noqa: SIM115
        self._is_stored = folder is not None
        if self._file.tell() and not self._ends_a_line():
            self._append(b"\n")  # a crash tore the last line

    def _ends_a_line(self) -> bool:
        self._file.seek(-1, os.SEEK_END)
        return self._file.read() == b"\n"

    def __bool__(self) -> bool:
        """Whether anything was ever skipped."""
        return self._file.seek(0, os.SEEK_END) > 0

    def add(self, skipped: SkippedRequest) -> None:
        """Outlives the process when this returns, a loss of power after sync(). Raises OSError."""
        self._append(json.dumps({"skipped": skipped}).encode() + b"\n")

    def fetched(self, url: str) -> None:
        """The request was made after all, and its page is done. Raises OSError."""
        self._append(json.dumps({"fetched": url}).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        self._file.seek(0, os.SEEK_END)
        self._file.write(line)
        self._file.flush()

    def sync(self) -> None:
        """Outlive a loss of power. Raises OSError."""
        if self._is_stored:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def to_make(self, acting: Collection[str]) -> Iterator[SkippedRequest]:
        """The requests that were skipped by a rule that acts no more, oldest first.

        acting: names of the rules that do. Lines that cannot be read are left out.
        """
        waiting: dict[str, int] = {}
        for start, entry in self._entries():
            if "skipped" in entry:
                waiting.setdefault(entry["skipped"][0], start)
            elif "fetched" in entry:
                waiting.pop(entry["fetched"], None)
        for start in waiting.values():
            self._file.seek(start)
            skipped = SkippedRequest(*json.loads(self._file.readline())["skipped"])
            if not all(rule in acting for rule in skipped.rules):
                yield skipped

    def _entries(self) -> Iterator[tuple[int, dict[str, Any]]]:
        self._file.seek(0)
        start = 0
        for line in self._file:
            try:
                entry = json.loads(line)
            except ValueError:
                entry = None
            if isinstance(entry, dict):
                yield start, entry
            start += len(line)


def _opened(path: Path) -> IO[bytes]:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | O_BINARY | O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "a+b")

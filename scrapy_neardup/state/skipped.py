"""Requests that learnt rules skipped, by name: so that each can be made if its rule was wrong.

`skipped.jsonl`, one JSON object a line, append-only: `{"skipped": …}` is a request with its URL,
its twin and the rules, and `"was"` beside it for what reason it was kept until then;
`{"fetched": URL}` says that it was made after all. Each line has a MAC
(mac.py): who could write one would have the crawl make any request, or none.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from scrapy_neardup.learn.dry_kinds import group_of
from scrapy_neardup.learn.url_parts import split
from scrapy_neardup.own_files import O_NOFOLLOW, aside_name, refuse_links, sync_folder
from scrapy_neardup.state.files import O_BINARY, write_atomically
from scrapy_neardup.state.mac import SKIPPED, own_json, signed_json

logger = logging.getLogger(__name__)

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


class WaitingPlace(NamedTuple):
    """Where a request stands; the order is from those nearest to the start.

    depth  links from the start, as Scrapy counts them
    line   where its line begins in the file
    """

    depth: int
    line: int


@dataclass(slots=True)
class Group:
    """Requests that were skipped for one reason, and whose URLs are alike.

    places     of each, by the hash of its URL; in the order in which they were skipped
    n_new      how many were skipped since one of them was made
    n_checked  how many were skipped when some were checked, in this run
    """

    places: dict[int, WaitingPlace] = field(default_factory=dict)
    n_new: int = 0
    n_checked: int = 0

    @property
    def is_to_check(self) -> bool:
        """Whether some are to be made before the crawl ends: again when they have doubled.

        Pages that are made lead to more of them where links have a new session id each time.
        """
        return bool(self.places) and self.n_new >= max(1, self.n_checked)

    def checked(self) -> None:
        """Some are being made."""
        self.n_checked += self.n_new
        self.n_new = 0


Reasons = dict[tuple[str, ...], dict[str, Group]]  # rules, or why it waits → groups by name


class SkippedRequests:
    """The skipped requests of a state folder; without one, of a crawl.

    n_foreign  lines that are damaged, or were not written under the folder's key; so far
    """

    def __init__(self, folder: Path | None, key: int | None) -> None:
        """key: the folder's secret; None, where it is not known, for reading only.

        Raises OSError, also for a file that is a link.
        """
        self._key = key
        self.n_foreign = 0
        self._file: IO[bytes] = TemporaryFile() if folder is None else _opened(folder / FILE)  # noqa: SIM115
        self._is_stored = folder is not None
        self._reasons: Reasons = {}
        self._read_to = 0
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
        self._append_entry({"skipped": skipped})

    def replace(self, known: SkippedRequest, now: SkippedRequest) -> bool:
        """A request that is kept already is skipped for another reason; True. Raises OSError."""
        self._append_entry({"skipped": now, "was": known.rules})
        return True

    def fetched(self, url: str) -> None:
        """The request was made after all, and its page is done. Raises OSError."""
        self._append_entry({"fetched": url})

    def _append_entry(self, entry: dict[str, Any]) -> None:
        assert self._key is not None
        self._append(signed_json(self._key, SKIPPED, json.dumps(entry).encode()) + b"\n")

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

        acting: names of the rules that do. Lines that are not the folder's own are left out.
        """
        lines = [
            place.line
            for reason, groups in self.reasons().items()
            if not all(rule in acting for rule in reason)
            for group in groups.values()
            for place in group.places.values()
        ]
        yield from filter(None, map(self.at, sorted(lines)))

    def at(self, line: int) -> SkippedRequest | None:
        """The request whose line begins there; None where somebody else has changed it."""
        self._file.seek(line)
        entry = self._entry(self._file.readline())
        return SkippedRequest(*entry["skipped"]) if entry else None

    def of_url(self, url: str) -> SkippedRequest | None:
        """The request for a URL that was skipped and not made since; None where there is none."""
        name = group_of_url(url)
        for groups in self.reasons().values():
            place = groups.get(name, Group()).places.get(hash(url))
            if place is not None:
                return self.at(place.line)
        return None

    def taken(self, skipped: SkippedRequest) -> None:
        """The request is about to be made. The file has it until its page is done."""
        groups = self._reasons.get(tuple(skipped.rules), {})
        group = groups.get(group_of_url(skipped.url))
        if group is not None:
            group.places.pop(hash(skipped.url), None)
            group.n_new = 0

    def reasons(self) -> Reasons:
        """The requests that were skipped and not made since, by reason. Not to be changed."""
        self._file.seek(self._read_to)
        n_foreign = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            if (entry := self._entry(line)) is None:
                n_foreign += 1
            else:
                self._index(entry, self._read_to)
            self._read_to += len(line)
        if n_foreign:
            self._tell_foreign(n_foreign)
        return self._reasons

    def _index(self, entry: dict[str, Any], line: int) -> None:
        if "skipped" in entry:
            url, _, reason, request = entry["skipped"]
            groups = self._reasons.setdefault(tuple(reason), {})
            group = groups.setdefault(group_of_url(url), Group())
            group.places.setdefault(hash(url), WaitingPlace(depth_of(request), line))
            group.n_new += 1
            if was := entry.get("was"):
                groups = self._reasons.get(tuple(was), {})
                groups.get(group_of_url(url), Group()).places.pop(hash(url), None)
        elif url := entry.get("fetched"):
            name = group_of_url(url)
            for groups in self._reasons.values():
                if name in groups and groups[name].places.pop(hash(url), None) is not None:
                    groups[name].n_new = 0

    def _tell_foreign(self, n_foreign: int) -> None:
        self.n_foreign += n_foreign
        logger.warning(
            "%s: %d lines are damaged, or were not written under this folder's key, and are "
            "left out. `scrapy neardup repair` removes them",
            FILE,
            self.n_foreign,
        )

    def _entry(self, line: bytes) -> dict[str, Any] | None:
        """What a line says; None unless this folder's crawls wrote it."""
        return own_entry(self._key, line)


def depth_of(request: Mapping[str, Any]) -> int:
    """How many links lead to a request from the start; 0 where it does not say."""
    meta = request.get("meta")
    depth = meta.get("depth") if isinstance(meta, dict) else None
    return depth if isinstance(depth, int) else 0


def group_of_url(url: str) -> str:
    """The name of a URL's group among those that are skipped for one reason."""
    parts = split(url.partition("#")[0].partition("://")[2].encode("utf-8", "surrogatepass"))
    return "" if parts is None else group_of(parts)


def own_entry(key: int | None, line: bytes) -> dict[str, Any] | None:
    """What a line says; None for one that no crawl wrote under the key. key: None for any."""
    signed = own_json(key, SKIPPED, line.rstrip(b"\n"))
    try:
        entry = None if signed is None else json.loads(signed)
    except (ValueError, RecursionError):
        return None
    return entry if is_sound(entry) else None


def is_sound(entry: object) -> bool:
    """Whether an entry is as this module writes it: a stranger's folder has a key of its own."""
    if not isinstance(entry, dict):
        return False
    if "skipped" not in entry:
        return isinstance(entry.get("fetched"), str)
    match entry["skipped"], entry.get("was", [""]):
        case [str(), str(), [*rules], dict()], [*was]:
            return bool(rules) and all(isinstance(rule, str) for rule in (*rules, *was))
    return False


def examine(folder: Path, key: int | None) -> str | None:
    """What is wrong with the file of a folder that has one. Raises OSError."""
    path = folder / FILE
    with path.open("rb") as file:
        n_foreign = sum(own_entry(key, line) is None for line in file)
    if not n_foreign:
        return None
    return f"{path}: {n_foreign} lines are damaged, or were not written under this folder's key"


def repair(folder: Path, key: int | None) -> Path:
    """Leave a folder's own lines in its file; where all that it held is now. Raises OSError."""
    path = folder / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    aside = aside_name(path)
    # First the copy: a crash before the file is replaced leaves a copy too many.
    write_atomically(aside, lines)
    write_atomically(path, [line for line in lines if own_entry(key, line) is not None])
    return aside


def _opened(path: Path) -> IO[bytes]:
    refuse_links(path)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | O_BINARY | O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    sync_folder(path.parent)
    return os.fdopen(fd, "a+b")

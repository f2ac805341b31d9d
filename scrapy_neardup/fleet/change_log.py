"""What changed in a fleet's runs, as all workers told its server: for people, it decides nothing.

    {PREFIX}:run:SPIDER:RUN        worker → '' while it takes part, else how it ended
    {PREFIX:u:N}:c:SPIDER:RUN      in the slot of a site's URLs: status and URL → JSON

Both expire.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote

from scrapy_neardup.detect.sites import site_of
from scrapy_neardup.fleet import visit_scripts as scripts
from scrapy_neardup.fleet.protocol import Call, shard_of_site, shards_of
from scrapy_neardup.sqlite_files import is_time
from scrapy_neardup.state.visit_file import Change, Run, Status

MAX_WHAT = 2_000  # bytes that say in what a page changed
REVERTED = "reverted "  # before how a worker ended that took back what it had found


def run_key(prefix: str, spider: str) -> str:
    """The run of a spider; those who took part in a run are at the same, a colon and the run."""
    return f"{{{prefix}}}:run:{quote(spider, safe='')}"


def log_key(shard: str, spider: str, run: int) -> str:
    """What changed in a run on the sites of a shard of URLs."""
    return f"{shard}:c:{quote(spider, safe='')}:{run}"


class ChangeLog:
    """Tells the server what one worker finds in a run."""

    def __init__(self, tell: Callable[[Call], None], prefix: str, spider: str, run: int) -> None:
        self._tell = tell
        self._prefix, self._spider, self._run = prefix, spider, run

    def add(self, site: str, change: Change) -> None:
        """Something happened to a page of a site. Of what happens twice the last one stands."""
        self._send(site, *self._entry(change))

    def take_back(self, site: str, status: Status, url: str) -> None:
        """It did not happen."""
        self._send(site, _name(status, url), "")

    def _entry(self, change: Change) -> tuple[bytes, str]:
        """What the server is told of a change: its name, and the rest."""
        told = json.dumps([change.time, change.target, _shortened(change.what)])
        return _name(change.status, change.url), told

    def arguments(self, change: Change) -> tuple[str, int, bytes, str]:
        """For a script that adds a change: where, for how many milliseconds, its name, the rest."""
        name, told = self._entry(change)
        return self._key(site_of(change.url)), scripts.LOG_MS, name, told

    def _key(self, site: str) -> str:
        """Where on the server the changes of a site are."""
        return log_key(shard_of_site(self._prefix, site), self._spider, self._run)

    def _send(self, site: str, name: bytes, told: str) -> None:
        self._tell(Call(scripts.LOG, self._key(site), (name, told), bool, merges=True))


def _name(status: Status, url: str) -> bytes:
    return b"%d" % status + url.encode("utf-8", "replace")


def _shortened(what: str | None) -> str | None:
    """In what a page changed, with less of it where that is long."""
    for left_out in ("added", "fields"):
        if what is None or len(what) <= MAX_WHAT:
            return what
        what = json.dumps({k: v for k, v in json.loads(what).items() if k != left_out})
    return what


def runs(client: Any, prefix: str, names: Iterable[bytes]) -> list[Run]:
    """The runs of a fleet that its server still has, oldest first. names: of their keys."""
    found = []
    for name in names:
        told = name[len(f"{{{prefix}}}:run:".encode()) :].decode("utf-8", "replace")
        spider, _, number = told.partition(":")
        if number.isdecimal() and len(number) < 16 and is_time(int(number) / 1000):
            ends = [end.decode("utf-8", "replace") for end in client.hgetall(name).values()]
            found.append(_run(int(number), unquote(spider), ends))
    return sorted(found)


def _run(id: int, spider: str, ends: list[str]) -> Run:
    """A run. Its reason is how all workers ended; None where one has not."""
    reverted = any(one.startswith(REVERTED) for one in ends)
    reasons = {one.removeprefix(REVERTED) for one in ends}
    reason = None if "" in reasons or not reasons else ", ".join(sorted(reasons))
    return Run(id, spider, id / 1000, None, reason, reverted)


def changes(client: Any, prefix: str, known: Iterable[Run]) -> Iterator[Change]:
    """What happened to pages in runs, in their order; those of one run are in memory."""
    for run in known:
        found = []
        for shard in shards_of(prefix):
            for name, told in client.hscan_iter(log_key(shard, run.spider, run.id)):
                if (change := _change(run.id, name, told)) is not None:
                    found.append(change)
        yield from sorted(found, key=lambda one: (one.status, one.url))


def _change(run: int, name: bytes, told: bytes) -> Change | None:
    """One that a worker told; None for what none did."""
    try:
        at, target, what = json.loads(told)
        status = Status(int(name[:1]))
    except (ValueError, TypeError, RecursionError):
        return None
    are_texts = all(one is None or isinstance(one, str) for one in (target, what))
    if not are_texts or not is_time(at):
        return None
    return Change(run, at, status, name[1:].decode("utf-8", "replace"), target, what)

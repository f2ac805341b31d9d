"""Which known pages stand no longer at their URL when a run ends, and where they have gone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from scrapy_neardup.state.visit import Departure
from scrapy_neardup.state.visit_file import Status


class Departures:
    """Those that a run of a spider finds in the file of visits, which has all of the run."""

    def __init__(self, db: sqlite3.Connection, spider: int, run: int) -> None:
        self._db, self._spider, self._run = db, spider, run

    def left(self) -> list[Departure]:
        """The pages whose URLs answered that they are gone, or led to another one."""
        values = self._spider, self._run, Status.GONE
        return [self._departure(*row) for row in self._db.execute(_LEFT, values)]

    def unlinked(
        self, began_alike: Callable[[int], bool], gone: set[bytes], depth_limit: int
    ) -> list[Departure]:
        """The pages that no page links any more.

        began_alike: whether this run began with all URLs with which one did that found a link.
        gone: keys of those that left. depth_limit: as Visits.departures() has it.
        """
        values = {"spider": self._spider, "run": self._run, "gone": Status.GONE}
        rows = self._db.execute(_UNLINKED, values).fetchall()  # one of each callback
        are_alike = {run: began_alike(run) for run in {row[-1] for row in rows}}
        rows = [row[:-1] for row in rows if are_alike[row[-1]]]
        unlinked = {row[0]: row for row in rows}
        if depth_limit:
            self._keep_told(unlinked, gone, depth_limit)
        return [self._departure(*row[:-1]) for row in rows if row[0] in unlinked]

    def _keep_told(
        self, unlinked: dict[bytes, tuple[Any, ...]], gone: set[bytes], depth_limit: int
    ) -> None:
        """Of pages that nothing links, keep those whose own page was read, or is gone as well."""
        untold = {
            key: row[-1]
            for key, row in unlinked.items()
            if self._db.execute(_READ_ABOVE, (row[-1], self._run, depth_limit)).fetchone() is None
        }
        n_before = None
        while n_before != len(untold):  # one round for each level of links
            n_before = len(untold)
            untold = {
                key: parent
                for key, parent in untold.items()
                if parent not in gone and (parent not in unlinked or parent in untold)
            }
        for key in untold:
            del unlinked[key]

    def _departure(
        self,
        key: bytes,
        callback: str,
        url: str,
        text: bytes,
        target: str | None = None,
        at: bytes | None = None,
    ) -> Departure:
        """Where a page that left has gone: to the page it leads to, or that says the same."""
        values = {"text": text, "key": key, "run": self._run}
        heir = self._db.execute(_HEIR, values).fetchone()
        if heir is not None:
            return Departure(key, callback, url, *heir)
        same = self._db.execute(_SAME, values).fetchone()
        if same is not None:
            target = same[0]
        elif target is not None and not self._is_new_home(at):
            target = None
        return Departure(key, callback, url, target)

    def _is_new_home(self, key: bytes | None) -> bool:
        """Whether a URL that a known page leads to is new, and nothing else leads there."""
        (n_sources,) = self._db.execute(_SOURCES, (key, self._run)).fetchone()
        (first,) = self._db.execute(_NEW_AT, (key,)).fetchone()
        return bool(first == self._run and n_sources == 1)


# A page of a status below GONE stands at its URL.
_LEFT = (
    "SELECT page.key, callback, url, text, leaving.target, leaving.target_key FROM page "
    "JOIN leaving USING (key) "
    "WHERE spider = ? AND leaving.run = ? AND status < ? AND page.run < leaving.run "
    "AND (target_key IS NULL OR EXISTS (SELECT 1 FROM page AS home WHERE home.key = target_key "
    "AND max(home.run, home.passed) = leaving.run) OR EXISTS (SELECT 1 FROM leaving AS home "
    "WHERE home.key = target_key AND home.run = leaving.run))"
)
_UNLINKED = (
    "SELECT key, callback, url, text, found_on, linked FROM page "
    "WHERE spider = :spider AND run < :run AND linked < :run AND status < :gone "
    "AND key NOT IN (SELECT key FROM leaving WHERE run = :run)"
)
_READ_ABOVE = "SELECT 1 FROM page WHERE key = ? AND max(run, passed) = ? AND depth < ? LIMIT 1"
_HEIR = (
    "SELECT url, key FROM page WHERE copy_of = :key AND repeats <> x'' "
    "AND max(run, passed) = :run AND key <> :key LIMIT 1"
)
_SAME = (  # only where it is new: an older page has items of its own
    "SELECT url FROM page WHERE text = :text AND (lines IS NULL OR lines <> x'') "
    "AND first = :run AND run = :run AND key <> :key LIMIT 1"
)
_SOURCES = "SELECT count(*) FROM leaving WHERE target_key = ? AND run = ?"
_NEW_AT = "SELECT min(first) FROM page WHERE key = ?"

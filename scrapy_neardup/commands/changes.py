"""What became of pages that were crawled again: new, changed, gone, moved.

One line a page and run, oldest first, for crawls under NEARDUP_RECRAWL. Pages that are gone or
moved are what is to be deleted, or renamed, where the items were loaded. Each page is listed as
new only in the latest run in which it was new. The URL of a fleet's server, as in NEARDUP_BACKEND,
lists what all its workers found in the last 30 days; a run's number is there the time when it
began.
"""

from __future__ import annotations

import argparse
import csv
import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_neardup.commands import NOTHING_FOUND
from scrapy_neardup.commands.state_folder import add_state, state_folder
from scrapy_neardup.commands.terminal import Output, complain, say
from scrapy_neardup.errors import NearDupError
from scrapy_neardup.harmless import clean, harmless_cell
from scrapy_neardup.sqlite_files import connect_to_read, unread_log

if TYPE_CHECKING:
    from scrapy_neardup.state.visit_file import Change, Due, Run

EXAMPLES = """\
  scrapy neardup changes crawls/shop
  scrapy neardup changes crawls/shop --since 7 --json
  scrapy neardup changes crawls/shop --since 2026-05-01 --csv > changes.csv
  scrapy neardup changes crawls/shop --tombstones --csv > to-delete.csv
  scrapy neardup changes crawls/shop --due
  scrapy neardup changes redis://cache.internal:6379/0 --json
"""

DUE_COLUMNS = ("url", "visited", "due", "visits", "changes", "passed_over_in_run")
COLUMNS = ("run", "time", "status", "url", "moved_to", "fields", "added", "removed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """State folder or server, first run and form."""
    add_state(parser, or_server=True)
    parser.add_argument("--prefix", default="neardup", help="of a fleet: NEARDUP_BACKEND_PREFIX")
    parser.add_argument(
        "--since",
        metavar="RUN|DATE",
        help="first run by its number, or by the day (UTC) when it began; default: the last run",
    )
    parser.add_argument(
        "--due",
        action="store_true",
        help="instead, all known pages by the time when they are due (NEARDUP_REVISIT)",
    )
    parser.add_argument(
        "--tombstones", action="store_true", help="only pages that are gone or moved"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object a line")
    form.add_argument("--csv", action="store_true", help="a header, and a line a page")


def run(options: argparse.Namespace) -> int:
    """Tell what changed; exit code 1 if there was no run."""
    if "://" in options.state:
        return _of_fleet(options)
    from scrapy_neardup.state.visit_file import FILE, changes, due, runs

    path = state_folder(Path(options.state)) / FILE
    with closing(_read_only(path)) as db:
        try:
            if options.due:
                _tell_due(due(db), options)
                return 0
            known = runs(db)
            since = _since(str(path), known, options)
            if since is None:
                return NOTHING_FOUND
            _tell(known, changes(db, since), since, options)
        except sqlite3.Error as error:
            raise NearDupError(f"{path}: cannot be read: {error}") from error
    return 0


def _of_fleet(options: argparse.Namespace) -> int:
    from scrapy_neardup.fleet.operations import Operator
    from scrapy_neardup.settings.readers import backend, prefix

    if options.due:
        raise NearDupError("--due: a worker of a fleet lists what it knows; name its state folder")
    operator = Operator(backend("BACKEND", options.state), prefix("BACKEND_PREFIX", options.prefix))
    with closing(operator):
        known = operator.runs()
        since = _since("the fleet", known, options)
        if since is None:
            return NOTHING_FOUND
        found = operator.changes([one for one in known if one.id >= since])
        _tell(known, found, since, options)
    return 0


def _since(name: str, known: list[Run], options: argparse.Namespace) -> int | None:
    """The first run that is asked for; None, said, if there is none. Raises NearDupError."""
    since = first_of(known, options.since)
    if since is None:
        complain(f"{name}: no run since {options.since or 'ever'}")
    return since


def _read_only(path: Path) -> sqlite3.Connection:
    from scrapy_neardup.state.visit_file import check_file

    if not path.exists():
        raise NearDupError(f"{path}: no such file: no crawl had NEARDUP_RECRAWL='changed' or 'all'")
    if (unread := unread_log(path)) is not None:
        raise NearDupError(unread)
    with ExitStack() as opened:
        try:
            db = opened.enter_context(closing(connect_to_read(path)))
            check_file(db, path)
        except sqlite3.Error as error:
            raise NearDupError(f"{path}: cannot be read: {error}") from error
        opened.pop_all()
    return db


def first_of(known: list[Run], since: str | None) -> int | None:
    """The first run that is asked for; None if there is none. Raises NearDupError."""
    if since is None:
        return known[-1].id if known else None
    if since.isdecimal() and len(since) != len("20260501"):
        return next((one.id for one in known if one.id >= int(since)), None)
    try:
        day = datetime.fromisoformat(since)
    except ValueError as error:
        raise NearDupError(
            f"--since {since}: takes a run's number, or a day as 2026-05-01"
        ) from error
    moment = (day if day.tzinfo else day.replace(tzinfo=UTC)).timestamp()
    return next((one.id for one in known if one.started >= moment), None)


def _tell(
    known: list[Run], found: Iterator[Change], since: int, options: argparse.Namespace
) -> None:
    from scrapy_neardup.state.visit_file import Status

    if options.tombstones:
        found = (one for one in found if one.status >= Status.GONE)
    rows = map(as_row, found)
    if options.json:
        for row in rows:
            say(json.dumps(row))
    elif options.csv:
        writer = csv.writer(Output(), lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in rows:
            writer.writerow([harmless_cell(_cell(row[name])) for name in COLUMNS])
    else:
        names = {one.id: one for one in known}
        last = None
        for row in rows:
            if row["run"] != last:
                last = row["run"]
                say(_title(names.get(int(str(last)))))
            say(_line(row))
        if last is None:
            say(_title(names[since]))
            say("  nothing changed")


def _tell_due(found: Iterator[Due], options: argparse.Namespace) -> None:
    """One line a page."""
    writer = csv.writer(Output(), lineterminator="\n")
    if options.csv:
        writer.writerow(DUE_COLUMNS)
    for one in found:
        row = dict(zip(DUE_COLUMNS, (one.url, _moment(one.visited), *_schedule(one)), strict=True))
        if options.json:
            say(json.dumps(row))
        elif options.csv:
            writer.writerow([harmless_cell(_cell(value)) for value in row.values()])
        else:
            say(clean(f"  {row['due'] or 'at the next crawl':<25} {one.url}"))


def _schedule(one: Due) -> tuple[str | None, int, int, int | None]:
    due_at = _moment(one.due) if one.due else None
    return due_at, one.n_visits, one.n_changes, one.passed if one.passed > 0 else None


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


def as_row(change: Change) -> dict[str, object]:
    """A change as it is written out."""
    what = change.told
    told = (change.run, _moment(change.time), change.status.word, change.url, change.target)
    rest = (what.get("fields"), what.get("added"), what.get("removed"))
    return dict(zip(COLUMNS, (*told, *rest), strict=True))


def _cell(value: object) -> object:
    return "; ".join(map(str, value)) if isinstance(value, list) else value


def _title(run: Run | None) -> str:
    if run is None:
        return "a run that is not on record"
    at = datetime.fromtimestamp(run.started, UTC).strftime("%Y-%m-%d %H:%M")
    ended = clean(run.reason or "not ended")
    note = "; the site seemed out of order: nothing counts as changed or gone" * run.reverted
    return f"run {run.id}, {clean(run.spider)}, {at} UTC: {ended}{note}"


def _line(row: dict[str, object]) -> str:
    fields = row["fields"]
    more = f" -> {row['moved_to']}" if row["moved_to"] else ""
    if isinstance(fields, list) and any(fields):
        more = f" ({', '.join(map(str, fields))})"
    return clean(f"  {row['status']:<8} {row['url']}{more}")

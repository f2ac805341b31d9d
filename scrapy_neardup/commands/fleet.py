"""Look at a fleet on its server, save and load it, forget a site, draw another secret.

status  workers that live, requests that wait, memory; exit code 1 if there is no such fleet
check   what could lose its data; exit code 1 if anything could
export  every key of the fleet into a file, best while no worker runs
import  such a file into a server that has nothing of the fleet
forget  the pages of a site, so that they are kept again; its URLs stay seen
rotate-key  forget the secret with all URLs and pages, which are hashed with it
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from scrapy_neardup.commands import NOTHING_FOUND
from scrapy_neardup.commands.paths import local_path
from scrapy_neardup.commands.terminal import complain, say, say_json, say_table
from scrapy_neardup.harmless import clean

if TYPE_CHECKING:
    from scrapy_neardup.fleet.operations import FleetStatus, Operator

EXAMPLES = """\
  scrapy neardup fleet status redis://cache.internal:6379/0
  scrapy neardup fleet check redis://cache.internal:6379/0 --json
  scrapy neardup fleet export redis://cache.internal:6379/0 --file fleet.dump
  scrapy neardup fleet forget redis://cache.internal:6379/0 --site shop.example
  scrapy neardup fleet rotate-key redis://cache.internal:6379/0
"""

ACTIONS = ("status", "check", "export", "import", "forget", "rotate-key")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, where."""
    parser.add_argument("action", choices=ACTIONS, help="what to do, see above")
    parser.add_argument("url", metavar="URL", help="of the server, as in NEARDUP_BACKEND")
    parser.add_argument("--prefix", default="neardup", help="NEARDUP_BACKEND_PREFIX")
    parser.add_argument("--file", type=local_path, help="to export to, or to import from")
    parser.add_argument("--site", help="to forget: a host or a URL of the site")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Carry out the action."""
    from scrapy_neardup.errors import SettingsError
    from scrapy_neardup.fleet.operations import Operator
    from scrapy_neardup.settings.readers import backend, prefix

    needed = {"export": "file", "import": "file", "forget": "site"}.get(options.action)
    if needed and not getattr(options, needed):
        raise SettingsError(f"fleet {options.action} needs --{needed}")
    operator = Operator(backend("BACKEND", options.url), prefix("BACKEND_PREFIX", options.prefix))
    try:
        return act(operator, options)
    finally:
        operator.close()


def act(operator: Operator, options: argparse.Namespace) -> int:
    """The exit code."""
    from scrapy_neardup.fleet.operations import NO_FLEET

    if options.action in ("export", "rotate-key") and not operator.has_data():
        complain(NO_FLEET)
        return NOTHING_FOUND
    if options.action == "export":
        return exported(options, operator)
    if options.action == "import":
        return tell(options, "imported", operator.load(options.file), "keys")
    if options.action == "forget":
        return forgotten(options, operator.forget(options.site))
    if options.action == "rotate-key":
        return tell(options, "forgotten", operator.rotate_key(), "keys of the server")
    return show(operator.status(), options)


def exported(options: argparse.Namespace, operator: Operator) -> int:
    """How many keys a file has; with a warning if workers may have changed some meanwhile."""
    n_keys, n_workers = operator.save(options.file), operator.status().workers
    if n_workers:
        complain(
            f"{n_workers} workers live, or did four seconds ago: what they changed meanwhile may "
            f"be missing in part, and a crawl from {options.file} may not come to an end. Stop "
            f"them, wait four seconds, and export to another file"
        )
    return tell(options, "exported", n_keys, "keys")


def forgotten(options: argparse.Namespace, n_pages: int) -> int:
    """How many pages of a site are forgotten; 1, not 0, where none was known."""
    tell(options, "forgotten", n_pages, "pages")
    if not n_pages:
        complain(
            f"no page of {options.site!r} was known: name the site as its URLs do. Under "
            "NEARDUP_SCOPE = 'all' pages are not kept by site, and cannot be forgotten so"
        )
    return 0 if n_pages else NOTHING_FOUND


def tell(options: argparse.Namespace, what: str, n: int, of: str) -> int:
    """How many were dealt with."""
    if options.json:
        say_json({what: n})
    else:
        say(f"{n:,} {of} {what}")
    return 0


def show(status: FleetStatus, options: argparse.Namespace) -> int:
    """Status, or what is wrong."""
    from scrapy_neardup.fleet.operations import troubles

    found = troubles(status)
    if options.json:
        queues = [queue._asdict() for queue in status.queues]
        memory = [info["used_memory"] for info in status.servers]
        say_json(
            {
                "is_there": status.is_there,
                "workers": status.workers,
                "queues": queues,
                "used_memory": memory,
                "troubles": found,
            }
        )
    elif options.action == "check":
        for sentence in found or ["nothing is wrong"]:
            say(clean(sentence))
    else:
        say_status(status)
    is_wrong = found if options.action == "check" else not status.is_there
    return NOTHING_FOUND if is_wrong else 0


def say_status(status: FleetStatus) -> None:
    """Status as text."""
    from scrapy_neardup.fleet.operations import NO_FLEET
    from scrapy_neardup.fleet.protocol import MAX_SLICES

    if not status.is_there:
        say(NO_FLEET)
    used = sum(info["used_memory"] for info in status.servers)
    say(f"{status.workers:,} workers live; the server uses {used / 1e6:,.1f} MB")
    say(f"the fullest shard of URLs has {status.fullest_shard} of {MAX_SLICES} slices")
    if status.queues:
        say_table(status.queues[0]._fields, status.queues)

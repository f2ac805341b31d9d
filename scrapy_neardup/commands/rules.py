"""Rules for URLs that a crawl has learnt: evidence, predictions, and what they save.

Each rule has a number, by which --forget and --pin take it. A rule that is forgotten has to be
learnt anew; one that is pinned is trusted, whatever speaks against it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from scrapy_neardup.commands import NOTHING_FOUND
from scrapy_neardup.commands.numbers import at_least
from scrapy_neardup.commands.paths import local_path
from scrapy_neardup.commands.state_folder import (
    add_state,
    known_key,
    locked,
    require_state,
    state_folder,
)
from scrapy_neardup.commands.terminal import ProgressLine, colour, complain, say, say_json
from scrapy_neardup.errors import StateError
from scrapy_neardup.harmless import clean

if TYPE_CHECKING:
    from scrapy_neardup.learn.dry_kinds import DryKind
    from scrapy_neardup.learn.learner import Judged
    from scrapy_neardup.learn.rule import Rule
    from scrapy_neardup.ledger.schema import Decided
    from scrapy_neardup.urls.key import UrlKeyRules

EXAMPLES = """\
  scrapy neardup rules crawls/shop
  scrapy neardup rules crawls/shop --forget 3
  scrapy neardup rules crawls/shop --export rules.json
  scrapy neardup rules crawls/shop --learn-from crawls/last-year
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """State folder, what to do, and form."""
    add_state(parser)
    do = parser.add_mutually_exclusive_group()
    do.add_argument("--forget", metavar="N", type=at_least(1), help="learn rule N anew")
    do.add_argument("--pin", metavar="N", type=at_least(1), help="trust rule N for good")
    do.add_argument(
        "--export",
        metavar="FILE",
        type=local_path,
        help="write trusted rules as duplicate-url-discarder's JSON, for NEARDUP_URL_SITE_RULES",
    )
    do.add_argument(
        "--learn-from",
        metavar="STATE",
        type=local_path,
        help="learn from the ledger of a crawl, its own or another's, or from the output folder of "
        "`dedup --report`, before showing the rules",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Read, change, tell; exit code 1 if there is no such rule."""
    folder = state_folder(options.state)
    require_state(folder)
    key = known_key(folder, options)
    rules, dry = stored(folder, key)
    if options.learn_from is not None:
        rules = learnt(rules, state_folder(options.learn_from))
        keep(folder, rules, dry, key)
    if number := options.forget or options.pin:
        if number > len(rules):
            complain(f"{folder}: there are {len(rules)} learnt rules, and none has number {number}")
            return NOTHING_FOUND
        change(rules, number, options)
        keep(folder, rules, dry, key)
        return 0
    if options.export is not None:
        return export(rules, options.export)
    tell(rules, dry, options)
    return 0


def stored(folder: Path, key: int | None) -> tuple[list[Rule], dict[str, DryKind]]:
    """The rules of a state folder, and its dry kinds. Raises StateError, OSError."""
    from scrapy_neardup.state.learnt_rules import load_rules

    try:
        return load_rules(folder, key)
    except FileNotFoundError:
        return [], {}


def keep(folder: Path, rules: list[Rule], dry: Mapping[str, DryKind], key: int | None) -> None:
    """Write the rules back. Raises StateError where a crawl is using the folder, and OSError."""
    from scrapy_neardup.state.learnt_rules import save_rules

    if key is None:
        raise StateError(
            f"{folder}: rules are written under the folder's key only, which is NEARDUP_KEY: run "
            f"this in the project that has this setting"
        )
    with locked(folder):
        save_rules(folder, rules, dry, key)


def change(rules: list[Rule], number: int, options: argparse.Namespace) -> None:
    """Forget or pin a rule, and say so."""
    from scrapy_neardup.learn.changes import told

    rule = rules[number - 1]
    if options.forget:
        rules.remove(rule)
    else:
        rule.pinned = True
    done = "forgotten" if options.forget else "pinned"
    say(f"{done}: on {clean(rule.shape)}, {clean(told(rule.change))}")


def export(rules: list[Rule], path: Path) -> int:
    """Write what can be said as site rules; exit code 1 if that is nothing."""
    from scrapy_neardup.learn.exported_rules import exported
    from scrapy_neardup.own_files import replacing
    from scrapy_neardup.urls.site_rules import SiteRules, write_rules

    trusted = [rule for rule in rules if rule.acts]
    made = [one for one in map(exported, trusted) if one is not None]
    if made:
        with replacing(path) as part:
            part.write_text(write_rules(SiteRules(tuple(dict.fromkeys(made)))) + "\n", "utf-8")
    left = len(trusted) - len(made)
    where = f"written to {path}" if made else f"can be written, so there is no {path}"
    say(f"{len(made)} of {len(trusted)} trusted rules {where}")
    if left:
        say(f"{left} left out: they are about the path or the host, which site rules cannot say")
    if made:
        say("site rules hold for every URL of a host and directory: check them with")
        say(f"  scrapy neardup -s {quote(f'NEARDUP_URL_SITE_RULES={path}')} urls FILE")
    return 0 if made else NOTHING_FOUND


def tell(rules: list[Rule], dry: Mapping[str, DryKind], options: argparse.Namespace) -> None:
    """Print the rules, with their evidence, and the dry kinds."""
    if options.json:
        from scrapy_neardup.learn.stored_rules import as_records

        say_json({"rules": [as_json(rule) for rule in rules], **as_records(dry)})
        return
    for number, rule in enumerate(rules, 1):
        for line in lines_of(number, rule):
            say(line)
    from scrapy_neardup.learn.dry_kinds import how_dry

    for kind, known in dry.items():
        say(f"     {colour(clean(kind), 'bold')}  {how_dry(*known)}")
    n_trusted = sum(rule.acts for rule in rules)
    say(f"{n_trusted} of {len(rules)} learnt rules are trusted")


def as_json(rule: Rule) -> dict[str, Any]:
    """A rule with what a program may ask of it."""
    from scrapy_neardup.learn.changes import told
    from scrapy_neardup.learn.stored_rules import as_record

    record = as_record(rule)
    del record["originals"], record["values"]
    return record | {"words": told(rule.change), "error_bound": rule.error_bound}


def lines_of(number: int, rule: Rule) -> Iterator[str]:
    """A rule for a person."""
    from scrapy_neardup.learn.changes import told

    standing = "pinned" if rule.pinned else rule.standing.value
    yield f"{number:>3}  {colour(clean(rule.shape), 'bold')}  {standing}"
    yield f"     {clean(told(rule.change))}"
    bound = f"{rule.right:,} predictions right, each of another original"
    if rule.acts and not rule.pinned:
        bound += f": wrong in less than {rule.error_bound:.1%}, by 95 %"
    yield f"     {bound}"
    if rule.saved:
        yield f"     saved, or would have: {rule.saved:,} downloads, {rule.saved_bytes:,} bytes"
    for url, twin in rule.examples:
        yield f"       {clean(url)}\n     = {clean(twin)}"
    if rule.contradiction:
        url, twin = rule.contradiction
        yield f"     contradicted by\n       {clean(url)}\n     ≠ {clean(twin)}"


def learnt(rules: list[Rule], folder: Path) -> list[Rule]:
    """The rules, and what the decisions on record add to them. Raises LedgerError, StateError."""
    from scrapy.utils.project import get_project_settings

    from scrapy_neardup.factory import make_rules
    from scrapy_neardup.learn.learner import Learner
    from scrapy_neardup.ledger.reader import LedgerReader
    from scrapy_neardup.settings import NearDupSettings

    settings = NearDupSettings.from_settings(get_project_settings())
    reader = LedgerReader(folder, ProgressLine("learning from the ledger"))
    if any(run.rules.get("NEARDUP_LEDGER") == "duplicates" for run in reader.runs()):
        raise StateError(
            f"{folder}: its ledger holds duplicates only, which nothing could contradict; crawl "
            "with NEARDUP_LEDGER='all'"
        )
    learner, url_rules = Learner(settings.learn_error), make_rules(settings)
    learner.restore(rules)
    for judged in evidence(reader.decisions(), url_rules, settings.min_words):
        learner.observe(judged)
    return learner.rules()


def evidence(
    decisions: Iterable[Decided], url_rules: UrlKeyRules, min_words: int
) -> Iterator[Judged]:
    """Decisions as the learner takes them; none of pages of which too little is on record."""
    from scrapy_neardup.learn.learner import NO_EVIDENCE, Judged
    from scrapy_neardup.ledger.schema import NOT_READ
    from scrapy_neardup.urls.key import url_key

    for decided in decisions:
        if decided.kind in (*NOT_READ, *NO_EVIDENCE):
            continue
        repeats = decided.kind in ("exact", "near") and decided.data_differ is None
        if repeats and (decided.action == "kept" or decided.original is None):
            continue  # whether it says anything new is not on record
        original = url_key(decided.original or "", url_rules) if repeats else None
        tells = (decided.words or 0) >= min_words
        key = url_key(decided.url, url_rules)
        yield Judged(decided.url, key, original, tells, decided.size_bytes or 0)

"""Learnt rules ↔ JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from scrapy_neardup.errors import StateError
from scrapy_neardup.learn.changes import UrlChange
from scrapy_neardup.learn.dry_kinds import DryKind
from scrapy_neardup.learn.rule import Rule, SamePair, Standing

FILE = "rules.json"
# What reading any JSON may raise: OverflowError for a number without end.
MADE_UP = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)
FORMAT = 2  # a state folder has them with a MAC (state/learnt_rules.py)


def write_rules(rules: Iterable[Rule], dry: Mapping[str, DryKind]) -> str:
    """Rules with all their evidence, one a line; and dry kinds of URLs."""
    lines = ",\n".join(json.dumps(as_record(rule), sort_keys=True) for rule in rules)
    kinds = json.dumps(as_records(dry)).removeprefix("{").removesuffix("}")
    return f'{{"format": {FORMAT}, {kinds}, "rules": [\n{lines}\n]}}\n'


def as_records(dry: Mapping[str, DryKind]) -> dict[str, Any]:
    """Dry kinds of URLs: how many pages were read since they were not, and which have ended."""
    since = {kind: list(known.since) for kind, known in dry.items()}
    return {"dry": since, "ended": [kind for kind, known in dry.items() if known.has_ended]}


def as_record(rule: Rule) -> dict[str, Any]:
    return {
        "shape": rule.shape,
        "change": rule.change,
        "standing": rule.standing.value,
        "originals": sorted(rule.originals),
        "right": rule.right,
        "saved": rule.saved,
        "saved_bytes": rule.saved_bytes,
        "values": {place: sorted(values) for place, values in rule.values.items()},
        "examples": rule.examples,
        "contradiction": rule.contradiction,
        "pinned": rule.pinned,
    }


def read_rules(text: str) -> tuple[list[Rule], dict[str, DryKind]]:
    """What write_rules was given. Raises StateError."""
    try:
        stored = json.loads(text)
        if stored["format"] != FORMAT:
            raise StateError(f"{FILE} is of format {stored['format']}; this version reads {FORMAT}")
        ended = set(stored.get("ended", ()))  # earlier versions wrote none
        dry = {
            str(kind): DryKind(list(map(int, since)), kind in ended)
            for kind, since in stored["dry"].items()
        }
        if any(n < 0 for known in dry.values() for n in known.since):
            raise ValueError("a kind of URLs had fewer pages than none")
        return [as_rule(record) for record in stored["rules"]], dry
    except MADE_UP as error:
        raise StateError(f"{FILE} holds no learnt rules ({error!r}): delete it") from error


def as_rule(record: dict[str, Any]) -> Rule:
    contradiction = record["contradiction"]
    return Rule(
        str(record["shape"]),
        UrlChange(*map(str, record["change"])),
        Standing(record["standing"]),
        set(map(int, record["originals"])),
        int(record["right"]),
        int(record["saved"]),
        int(record["saved_bytes"]),
        {place: set(map(str, values)) for place, values in record["values"].items()},
        [SamePair(*map(str, pair)) for pair in record["examples"]],
        SamePair(*map(str, contradiction)) if contradiction else None,
        bool(record["pinned"]),
    )

"""Rules that the workers of a fleet have learnt: told to the server, and heard from it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from scrapy_neardup.fleet import scripts
from scrapy_neardup.fleet.protocol import Call, rules_key
from scrapy_neardup.learn.rule import Rule, Standing
from scrapy_neardup.learn.stored_rules import as_record, as_rule

WITHDRAWN = 10**9  # more than any number of right predictions: a contradiction is the last word


class SharedRules:
    """One worker's view."""

    def __init__(self, prefix: str) -> None:
        self._key = rules_key(prefix)
        self._told: dict[str, int] = {}  # by name, how sure
        self._revision = 0
        # What the server said last; popped and replaced in one step each, by two threads.
        self._heard: deque[list[bytes]] = deque(maxlen=1)

    def tell(self, rules: Iterable[Rule]) -> Call:
        """Tell the server of rules, trusted or withdrawn, and ask it for those of others."""
        told: list[str | int] = []
        for rule in rules:
            if (sure := how_sure(rule)) > self._told.get(rule.name, 0):
                self._told[rule.name] = sure
                told += [rule.name, sure, json.dumps(as_record(rule) | {"pinned": False})]
        return Call(scripts.RULES, self._key, (self._revision, *told), self._hear)

    def heard(self) -> list[Rule]:
        """All rules that the workers know, where that has changed since this was asked."""
        heard = self._heard.pop() if self._heard else []
        return [rule for one in heard if (rule := read(one)) is not None]

    def _hear(self, answer: list[Any]) -> None:
        """The server has answered; on the link's thread."""
        revision, rules = answer
        if revision < self._revision:  # it lost its data: everything is told again
            self._told = {}
        if revision != self._revision:
            self._heard.append(rules)
        self._revision = revision


def how_sure(rule: Rule) -> int:
    """By how many predictions a rule is trusted; 0 for one that others need not hear of."""
    if rule.standing is Standing.WITHDRAWN:
        return WITHDRAWN
    return rule.right if rule.standing is Standing.TRUSTED else 0


def read(stored: bytes) -> Rule | None:
    """A rule as the server has it; None for what is none."""
    with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return as_rule(json.loads(stored.partition(b" ")[2]))
    return None

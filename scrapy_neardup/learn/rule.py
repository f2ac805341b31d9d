"""One learnt rule: that a change of URLs of one shape does not matter, and what speaks for it.

    PROPOSED ── 5 originals ──▶ WATCHED ── the bound is reached ──▶ TRUSTED
        └──────────────── one page that differs ──┴────────────────────┴──▶ WITHDRAWN

What proposed a rule does not count for it: only predictions do, which are made from then on. After
n right predictions and no wrong one the chance of a wrong one is below 1 - 0.05^(1/n) with a
confidence of 95 % (Clopper and Pearson 1934, for 0 of n).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from typing import NamedTuple

from scrapy_neardup.learn.changes import UrlChange
from scrapy_neardup.learn.url_parts import CLASSES, KeyParts

PROPOSE_AFTER = 5  # originals
CONFIDENCE = 0.95
# A rule holds for values with which it was confirmed. With so many different ones, for all.
MANY_VALUES = 20
MANY_REMOVED = 5  # the same for what is taken out, where values are no words
MAX_PLACES = 64  # of which values are remembered: a rule does not hold where there are others
MAX_NAMES = 1024  # that are remembered: a rule does not hold where there is another
MAX_EXAMPLES = 3
MAX_VALUE = 40  # characters that are remembered of a value as they are
REMOVED = ""  # the place of what is taken out
NAMES = "//"  # the place of words that may say whose page it is, wherever they stand


class Standing(Enum):
    """What a rule may do."""

    PROPOSED = "proposed"  # too little evidence: nothing is made of it
    WATCHED = "watched"  # its predictions are compared with what is downloaded
    TRUSTED = "trusted"  # its bound is low enough: it acts where rules may
    WITHDRAWN = "withdrawn"  # a page contradicted it: it never acts again


class SamePair(NamedTuple):
    """Two URLs that a rule takes for the same."""

    url: str
    twin: str


def error_bound(n: int) -> float:
    """Below what share wrong predictions are, by 95 %, after n right ones and no wrong one."""
    return float(1 - (1 - CONFIDENCE) ** (1 / n)) if n else 1.0


def predictions_for(error: float) -> int:
    """How many right predictions bring the bound down to an error."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - error))


@dataclass(slots=True)
class Rule:
    """What is known of one change of the URLs of one shape.

    originals  contents that confirmed it, each counted once: one page under many URLs is one
    right      predictions that were right, each of another original
    saved      downloads that it saved, or would have saved, since it is trusted
    values     what confirmed it, by place: values, and what was taken out
    pinned     whether a person wants it to act, whatever speaks against it
    """

    shape: str
    change: UrlChange
    standing: Standing = Standing.PROPOSED
    originals: set[int] = field(default_factory=set)
    right: int = 0
    saved: int = 0
    saved_bytes: int = 0
    values: dict[str, set[str]] = field(default_factory=dict)
    examples: list[SamePair] = field(default_factory=list)
    contradiction: SamePair | None = None
    pinned: bool = False

    @property
    def name(self) -> str:
        """What no other rule is called."""
        return " ".join((self.shape, *self.change))

    @property
    def acts(self) -> bool:
        """Whether it is sure enough, or a person is."""
        return self.pinned or self.standing is Standing.TRUSTED

    @property
    def error_bound(self) -> float:
        """What its share of wrong predictions is below, with a confidence of 95 %."""
        return 1.0 if self.contradiction else error_bound(self.right)

    @property
    def is_open(self) -> bool:
        """Whether evidence still counts."""
        return self.pinned or self.standing is not Standing.WITHDRAWN

    def confirmed(
        self, pair: SamePair, original: str, rest: KeyParts, removed: str, needed: int
    ) -> None:
        """Two URLs that it takes for the same showed the same.

        original: what they showed. removed: what the one has and the other has not.
        needed: right predictions after which the rule is trusted.
        """
        self.also_holds_for(rest, removed)
        number = int.from_bytes(blake2b(original.encode(), digest_size=6).digest(), "big")
        if number in self.originals or self.right > needed:
            return
        self.originals.add(number)
        self.right += self.standing is not Standing.PROPOSED
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(pair)
        if self.standing is Standing.PROPOSED and len(self.originals) >= PROPOSE_AFTER:
            self.standing = Standing.WATCHED
        elif self.standing is Standing.WATCHED and self.right >= needed:
            self.standing = Standing.TRUSTED

    def contradicted(self, pair: SamePair) -> None:
        """Two URLs that it takes for the same showed something different."""
        self.contradiction = pair
        if not self.pinned:
            if self.standing is Standing.PROPOSED:
                self.examples.clear()  # nothing was made of it: nobody needs to see it
            self.standing = Standing.WITHDRAWN
            self.originals.clear()
            self.values.clear()

    def also_holds_for(self, rest: KeyParts, removed: str) -> None:
        """A page confirmed it for URLs like this one."""
        names = ((NAMES, name) for name in rest.names())
        for place, value in (*rest.values(), (REMOVED, removed), *names):
            if place not in self.values and len(self.values) >= MAX_PLACES:
                continue
            seen = self.values.setdefault(place, set())
            if len(seen) < (MAX_NAMES if place == NAMES else MANY_VALUES + len(CLASSES)):
                seen.add(short(value))

    def holds_for(self, rest: KeyParts) -> bool:
        """Whether it was confirmed for URLs like this one.

        It was where each value was among those that confirmed it, or where there were many. So
        what holds of one user's pages, category or language decides nothing about another's. A
        name has to be among them, however many there were: an author may have many accounts.
        """
        if self.pinned:
            return True
        known = self.values
        if self.change.value.startswith("{") and len(known.get(REMOVED, ())) < MANY_REMOVED:
            return False
        if not known.get(NAMES, set()).issuperset(map(short, rest.names())):
            return False
        return all(
            are_many(seen := known.get(place, set())) or short(value) in seen
            for place, value in rest.values()
        )


def are_many(values: set[str]) -> bool:
    """Whether there are MANY_VALUES; what stands for the values of a class is none."""
    return len(values) >= MANY_VALUES and len(values - CLASSES) >= MANY_VALUES


def short(value: str) -> str:
    """A value, or its digest where it is long."""
    if len(value) <= MAX_VALUE:
        return value
    return blake2b(value.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

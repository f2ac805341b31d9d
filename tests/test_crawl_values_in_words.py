"""Values of a spider's attributes, told alike in every process and otherwise when they differ."""

import collections
import datetime
import decimal
import enum
import fractions
import functools
import io
import os
import pathlib
import re
import subprocess
import sys
import types
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import Rule

from scrapy_neardup.crawl.recrawl.values_in_words import told


@dataclass
class Rates:
    rate: Any


class Row(NamedTuple):
    rate: int


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


class Shop:
    def __init__(self, rate: Any) -> None:
        self.rate = rate

    def price(self) -> Any:
        return self.rate


class Slotted:
    __slots__ = ("rate",)

    def __init__(self, rate: int) -> None:
        self.rate = rate


class Table(dict[str, int]):
    pass


MAKERS: dict[str, Callable[[int], Any]] = {
    "a number": float,
    "text": str,
    "a lone surrogate": lambda n: chr(0xD800 + n),
    "a set": lambda n: {f"a{n}", "b", "c"},
    "a frozenset": lambda n: frozenset([n]),
    "a decimal": decimal.Decimal,
    "a fraction": fractions.Fraction,
    "a date": lambda n: datetime.date(2026, 1, n),
    "a moment": lambda n: datetime.datetime(2026, 1, 1, n, tzinfo=datetime.UTC),
    "a span": datetime.timedelta,
    "a pattern": lambda n: re.compile("a" * 500 + str(n)),
    "flags of a pattern": lambda n: re.compile("a", (re.IGNORECASE, re.DOTALL)[n - 1]),
    "a path": lambda n: pathlib.Path(f"/x/{n}"),
    "an id": lambda n: uuid.UUID(int=n),
    "a range": range,
    "a dataclass": Rates,
    "a named tuple": Row,
    "an enum": lambda n: list(Size)[n - 1],
    "a counter": lambda n: collections.Counter({"a": n}),
    "a defaultdict": lambda n: collections.defaultdict(int, {"a": n}),
    "a deque": lambda n: collections.deque([n]),
    "a class of a dict": lambda n: Table(a=n),
    "a namespace": lambda n: types.SimpleNamespace(rate=n),
    "an object": Shop,
    "an object with slots": Slotted,
    "a method": lambda n: Shop(n).price,
    "a closure": lambda n: lambda: n,
    "a default": lambda n: lambda rate=n: rate,
    "a partial": lambda n: functools.partial(max, n),
    "a class": lambda n: (Shop, Rates)[n - 1],
    "keys that are no text": lambda n: {n: 1, (n, None): {n}},
    "what is nested": lambda n: {"a": [Rates({"b": frozenset([n])})]},
    "a rule": lambda n: Rule(LinkExtractor(allow=f"/p/{n}")),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_values_are_told_apart_at_any_depth_and_equal_ones_are_not(
    make: Callable[[int], Any],
) -> None:
    first, again, other = (told({"it": make(n)}) for n in (1, 1, 2))
    assert first == again
    assert first.words != other.words
    assert not first.unknown


def test_a_set_is_told_alike_by_processes_that_hash_otherwise() -> None:
    program = (
        "from scrapy_neardup.crawl.recrawl.values_in_words import told\n"
        "print(told({'it': [set('abcdefgh'), {'x': 1, 'y': {frozenset('ab'), 'z'}}]}))"
    )
    answers = {
        subprocess.check_output(
            [sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed}
        )
        for seed in "123"
    }
    assert len(answers) == 1


def test_objects_of_which_nothing_can_be_told_are_named() -> None:
    values = {"file": io.BytesIO(), "of_ours": Shop([io.StringIO()]), "rate": 1}
    assert told(values).unknown == {"file": {"_io.BytesIO"}, "of_ours": {"_io.StringIO"}}


def test_what_holds_itself_is_told_and_what_is_nested_without_end_is_named() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    found = told({"ring": ring, "deep": deep})
    assert found.unknown == {"deep": {"builtins.list"}}
    assert found.words == told({"ring": ring}).words

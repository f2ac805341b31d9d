"""The lines of a document that are long enough to be paragraphs; a text without some of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

# Shorter lines, such as "}" or "Yes.", are part of what a document says, wherever else they stand.
MIN_BYTES = 16
Surplus = dict[int, list[int]]  # records, by their places, and the lines that they lose
AFTER_LINE_END = re.compile("(?<=\n)")


class Line(NamedTuple):
    """A line of a document that is long enough to be a paragraph."""

    number: int
    digest: bytes
    chars: int
    text: str  # with single spaces


class Document(NamedTuple):
    """A record's lines. record: its place in its chunk. may_go: whether they can be removed."""

    record: int
    url: str
    site: str
    chars: int
    lines: list[Line]
    may_go: bool


def lines_of(text: str) -> list[Line]:
    """The paragraphs of a text."""
    found = []
    for number, line in enumerate(text.split("\n")):
        words = " ".join(line.split())
        raw = words.encode("utf-8", "surrogatepass")
        if len(raw) >= MIN_BYTES:
            found.append(Line(number, blake2b(raw, digest_size=16).digest(), len(words), words))
    return found


def without(pieces: Iterable[str], lines: Iterable[int]) -> str:
    """What is left of a text, given as lines with their ends, without some of them."""
    gone = set(lines)
    return "".join(piece for number, piece in enumerate(pieces) if number not in gone)


def with_ends(text: str) -> list[str]:
    """The lines of a text with their ends, as lines_of() counts them."""
    return AFTER_LINE_END.split(text)

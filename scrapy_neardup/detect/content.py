"""What a page says, as the detector reads it: text, headings, data."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

DOCUMENT = "document"  # path of the one data line of a page that is data as a whole


def no_lines() -> list[str]:
    """Nothing said by attributes."""
    return []


class PageContent(NamedTuple):
    """A page as it was extracted.

    text          what a reader sees, one line a block
    heads         title and h1 headings
    data          "path value" lines of what markup and scripts say besides
    details       strings and numbers in what else its scripts say, attributes that say something
                  by themselves and hidden text, each with its name
    attributes    lines of what its attributes say, asked for only where few words are its own
    unread_chars  characters of inline scripts that may hold data nobody could read
    """

    text: str
    heads: list[str] = []  # noqa: RUF012 - never written to
    data: list[str] = []  # noqa: RUF012
    details: list[str] = []  # noqa: RUF012
    attributes: Callable[[], list[str]] = no_lines
    unread_chars: int = 0

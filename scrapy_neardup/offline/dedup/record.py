"""What the readers of all formats yield: records, or damage in their place."""

from __future__ import annotations

from typing import Any, NamedTuple


class PageRecord(NamedTuple):
    """One record of an input. One without text and body is kept without being compared."""

    position: int  # number of the record in its file, from 0
    url: str
    text: str | None = None
    body: bytes | None = None
    content_type: str = ""
    has_site: bool = True  # False: nobody can say with whose pages to compare it
    raw: Any = None  # as the output of its format writes it


class Damage(NamedTuple):
    """A record, or the rest of a file, that cannot be read."""

    position: int
    error: str

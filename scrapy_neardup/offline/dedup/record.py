"""What the readers of all formats give: records, and damage in their place."""

from __future__ import annotations

from typing import Any, NamedTuple


class PageRecord(NamedTuple):
    """One record. Without text and body it is not a page to compare."""

    position: int  # in its file, from 0
    url: str
    text: str | None = None
    body: bytes | None = None
    content_type: str = ""
    raw: Any = None  # as the output of its format takes it


class Damage(NamedTuple):
    """A record, or the rest of a file, that cannot be read."""

    position: int
    error: str

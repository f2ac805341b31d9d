"""A page of the demo site, and what is true about it by construction."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from html import escape


class Kind(StrEnum):
    """Why a page is on the site; the value is its name in the table."""

    OWN = "articles, products, manual"
    LISTING = "listings and indexes"
    TEMPLATE = "one template, own content"
    TINY = "tiny pages"
    ASIAN = "Chinese, Japanese articles"
    COPY = "exact copies"
    SESSION = "session-id URLs"
    TRACKING = "tracking URLs"
    MISSING = "soft 404"
    MIRROR = "mirror, other header"
    PRINTER = "printer versions"
    EDITED = "edited articles"
    MONTH = "calendar (endless)"

    @property
    def repeats(self) -> bool:
        """Whether a page is there to show what another page shows."""
        return self in EXACT or self in SIMILAR


# Pages that show what another page shows: word for word, or in a few other words or another frame.
EXACT = frozenset({Kind.COPY, Kind.SESSION, Kind.TRACKING, Kind.MISSING})
SIMILAR = frozenset({Kind.MIRROR, Kind.PRINTER, Kind.EDITED, Kind.MONTH})


@dataclass(frozen=True, slots=True)
class Page:
    """One URL of the site.

    path     with its query, as links name it
    content  what the page shows: pages of equal content are duplicates of one another, and
             each content has to be kept once. Written down where the page is made, never measured
    """

    path: str
    content: str
    kind: Kind
    html: str

    def also_at(self, path: str, kind: Kind) -> "Page":
        """The same bytes under another URL."""
        return replace(self, path=path, kind=kind)


def slug(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def link(path: str, text: str) -> str:
    return f'<a href="{escape(path)}">{escape(text)}</a>'


def links(entries: Iterable[tuple[str, str]]) -> str:
    """A list of links from (path, text) pairs."""
    return "<ul>" + "".join(f"<li>{link(*entry)}</li>" for entry in entries) + "</ul>"


def prose(paragraphs: Iterable[str]) -> str:
    return "".join(f"<p>{escape(text)}</p>" for text in paragraphs)

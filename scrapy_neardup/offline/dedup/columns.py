"""Which columns of a record hold its URL, its text and its HTML; paths lead into nested ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from scrapy_neardup.errors import InputError

# Scrapy and most feeds; exports of browsers and forums; WARC, WAT, OSCAR and Common Crawl;
# datatrove, Dolma and RedPajama. The first that is there counts.
URL_NAMES = (
    *("url", "page_url", "link", "source_url", "uri"),
    *("WARC-Target-URI", "warc_target_uri", "target_uri", "warc_headers.warc-target-uri"),
    *("Envelope.WARC-Header-Metadata.WARC-Target-URI", "metadata.WARC-Target-URI"),
    *("metadata.url", "meta.url", "metadata.source_url", "source.url"),
)
TEXT_NAMES = ("text", "content", "raw_content")
HTML_NAMES = ("html", "body", "raw_html")
MAX_NAMES_TOLD = 30
MAX_NAME_TOLD = 60  # characters
MAX_DEPTH = 6  # of nested columns that are told by name


class Fields(NamedTuple):
    """Columns as the user names them, paths such as `metadata.url` into nested ones.

    None: the first usual name that is there. has_url: False takes all records for one site's.
    """

    url: str | None = None
    text: str | None = None
    html: str | None = None
    has_url: bool = True


class Columns(NamedTuple):
    """Columns as an input spells them.

    url: None takes all records for one site's. are_usual: text and HTML were found by the usual
    names, none was named.
    """

    url: str | None
    text: tuple[str, ...]
    html: tuple[str, ...]
    are_usual: bool = False

    def of(self, row: Mapping[str, Any]) -> Columns:
        """The columns of a row whose names are its own: it may have others of the usual ones than
        the rows before it."""
        if not self.are_usual:
            return self
        return Columns(self.url, *text_and_html_in(tuple(row)), are_usual=True)


def columns_among(names: Iterable[str], fields: Fields, where: object) -> Columns:
    """The columns to read, of those that are there. Raises InputError, also where two columns have
    the name of one that is to be read: only the last would be compared.

    names: dotted names of all columns. where: the input, for the message.
    """
    counts = Counter(names)
    there = list(counts)
    text = _found(there, fields.text, () if fields.html else TEXT_NAMES)
    html = _found(there, fields.html, () if fields.text else HTML_NAMES)
    wanted = [("--text", fields.text, text), ("--html", fields.html, html)]
    for option, name, found in wanted:
        if name and not found:
            raise InputError(f"{where}: has no column {name!r} ({option}); {told(there)}")
    if not text and not html:
        raise InputError(
            f"{where}: no column holds text or HTML; {told(there)}. Name one with --text or --html"
        )
    url = _url_among(there, fields, where)
    if twice := next((name for name in (url, *text, *html) if name and counts[name] > 1), None):
        raise InputError(
            f"{where}: has {counts[twice]} columns {twice!r}; rename all but one, or name others "
            f"with --url, --text or --html"
        )
    return Columns(url, text, html, are_usual=not (fields.text or fields.html))


def _url_among(there: list[str], fields: Fields, where: object) -> str | None:
    if not fields.has_url:
        return None
    found = _found(there, fields.url, URL_NAMES)
    if not found:
        what = "no column holds URLs" if fields.url is None else f"has no column {fields.url!r}"
        raise InputError(
            f"{where}: {what}; {told(there)}. Name it with --url: only pages of one site are "
            f"compared. --no-url takes all records for pages of one site"
        )
    return found[0]


def _found(there: list[str], name: str | None, usual: tuple[str, ...]) -> tuple[str, ...]:
    """The named column, or the usual ones that are there."""
    if name is not None:
        steps = (step for step in name.split(".") if not step.isdecimal())
        return (name,) if name in there or ".".join(steps) in there else ()
    return _usual_in(there, usual)


@lru_cache(maxsize=64)  # most records of a file have the same names
def text_and_html_in(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """All that are usual names of text and of HTML, whatever their case."""
    return _usual_in(names, TEXT_NAMES), _usual_in(names, HTML_NAMES)


def _usual_in(there: Sequence[str], usual: tuple[str, ...]) -> tuple[str, ...]:
    """The usual names that are there, as they are spelled there, in the order of the usual ones.

    Spaces around them do not count: some write `url, text` as the header of CSV.
    """
    folded = [(name, name.strip().casefold()) for name in there]
    return tuple(name for one in usual for name, plain in folded if plain == one.casefold())


def told(names: list[str]) -> str:
    """The columns that are there, in words."""
    shown = ", ".join(name[:MAX_NAME_TOLD] for name in names[:MAX_NAMES_TOLD]) or "none"
    more = len(names) - MAX_NAMES_TOLD
    return f"its columns are: {shown}{f' and {more} more' if more > 0 else ''}"


def names_in(row: Mapping[str, Any], prefix: str = "", depth: int = MAX_DEPTH) -> Iterator[str]:
    """Dotted names of a row's columns, nested ones after those that hold them; of a list, those
    in its first object."""
    for name, value in row.items():
        yield f"{prefix}{name}"
        if isinstance(value, list):
            value = next((one for one in value if isinstance(one, Mapping)), None)
        if isinstance(value, Mapping) and depth:
            yield from names_in(value, f"{prefix}{name}.", depth - 1)


def value_at(row: Any, path: str) -> Any:
    """The value under a name, or at a path of names and list places; None where there is none.

    Where a path names no place in a list of objects, the values of all of them, in a list.
    """
    if isinstance(row, Mapping) and path in row:
        return row[path]
    value = row
    for step in path.split("."):
        value = _value_in(value, step)
    return value


def _value_in(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step)
    if not isinstance(value, list):
        return None
    if step.isdecimal():
        return value[int(step)] if int(step) < len(value) else None
    if not all(isinstance(one, Mapping) for one in value):
        return None
    return [one[step] for one in value if one.get(step) is not None] or None

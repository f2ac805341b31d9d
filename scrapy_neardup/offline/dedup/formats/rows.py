"""Rows of named columns → pages."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from lxml.html import defs

from scrapy_neardup.detect.sites import host_of
from scrapy_neardup.offline.dedup.columns import Columns, value_at
from scrapy_neardup.offline.dedup.record import TEXT_OF_A_PAGE, Page

SURROGATES = re.compile("[\ud800-\udfff]")
PRIVATE_USE = 0xF0000 - 0xD800
MAX_URL_CHARS = 2**16
# `shop.example/item`: how some tools write URLs.
WITHOUT_SCHEME = re.compile(r"([\w-]+\.)+[a-z]{2,}(:\d+)?/", re.IGNORECASE)
# What HTML and XML have and hardly any plain text: not `<ann@a.example>`, `map<string>` or a
# `<title>` alone. NUL stands for UTF-16 and for what is no text.
ELEMENTS = "|".join(sorted(defs.tags))
MARKUP = re.compile(
    rf"\0|<(?:!doctype\b|\?xml\b|(?:html|p|br|hr|li)\s*+/?>|/(?:{ELEMENTS})\s*+>"
    rf"|(?:{ELEMENTS})\s++[\w:-]++\s*+=)",
    re.IGNORECASE | re.ASCII,
)


def page_of(row: dict[str, Any], columns: Columns) -> Page:
    """The page of a row: its text or, where it has none, its HTML.

    Item loaders make a list of each value: one URL in it is the URL, and strings are one text, of
    which no lines can be removed. So are texts of several columns, whatever their types: nobody can
    say which of them, such as `text` and `content`, is the page's and which a teaser of many pages.
    So is HTML of several columns. Which of a text and HTML is the page's is told by what they say
    (said.py), unless a column was named.
    """
    url = "" if columns.url is None else url_of(value_at(row, columns.url))
    has_site = columns.url is None or bool(host_of(url))
    text = _first(row, columns.text)
    if len(texts := texts_in(row, columns.text)) > 1:
        text = texts
    page = Page(url, has_site=has_site, row=row)
    if text is None:
        return with_html(page, html_in(row, columns), columns)
    beside = with_html(page, html_in(row, columns), columns) if columns.are_usual else page
    page = with_text(page, text)
    return page._replace(beside=beside) if beside.body else page


def with_text(page: Page, text: Any) -> Page:
    """A page with a text; as it was where that is of another type."""
    if isinstance(text, str):
        return page._replace(text=distinct(text))
    return with_body(page, one_text(text, "\n"), TEXT_OF_A_PAGE)


def with_html(page: Page, value: Any, columns: Columns) -> Page:
    """A page with HTML; as it was where that is of another type.

    Under a usual name, such as `body`, mails and source code may stand, too: read as HTML, they
    would lose what is in `<` and `>`.
    """
    said = one_text(value, "")
    if columns.are_usual and said is not None and not MARKUP.search(said):
        return with_body(page, said, TEXT_OF_A_PAGE)
    if isinstance(value, bytes):
        return page._replace(body=value, content_type="text/html")
    return with_body(page, said, "text/html; charset=utf-8")


def with_body(page: Page, text: str | None, content_type: str) -> Page:
    """A page with a text as its body, of which no lines can be removed; as it was without one."""
    if text is None:
        return page
    return page._replace(body=distinct(text).encode("utf-8"), content_type=content_type)


def one_text(value: Any, between: str) -> str | None:
    """A text, its bytes or a list of strings as one text; None for anything else."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if strings := strings_in(value):
        return between.join(strings)
    return value if isinstance(value, str) else None


def html_in(row: dict[str, Any], columns: Columns) -> Any:
    """The HTML of a row, in a list where it is in several columns, plain text as HTML has it."""
    said = texts_in(row, columns.html)
    if len(said) < 2:
        return _first(row, columns.html)
    return [one if MARKUP.search(one) else html.escape(one) for one in said]


def texts_in(row: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    """The texts in columns of a row, one of each that says anything, those that are equal once."""
    said = (said_in(value_at(row, name)) for name in names)
    return list(dict.fromkeys("\n".join(pieces) for pieces in said if pieces))


def said_in(value: Any) -> list[str]:
    """What a value says, whatever its type: what a list or an object holds, in order.

    Without recursion, since a record may be nested deeper than Python's calls.
    """
    said: list[str] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += reversed([*one.values()])
        elif isinstance(one, (list, tuple)):
            waiting += reversed(one)
        elif isinstance(one, bytes):
            said.append(one.decode("utf-8", "surrogateescape"))
        elif one is not None:
            said.append(str(one))
    return said


def strings_in(value: Any) -> list[str]:
    """The strings of a list that holds nothing else; none of anything else."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return value
    return []


def text_column(row: dict[str, Any], columns: Columns) -> str:
    """The name or path of the column that holds a row's text."""
    return next(name for name in columns.text if value_at(row, name) is not None)


def distinct(text: str) -> str:
    """A text without lone surrogates, such as stand for bytes that are not UTF-8: each becomes a
    character of its own, so that texts that differ in them still differ."""
    return SURROGATES.sub(lambda found: chr(ord(found[0]) + PRIVATE_USE), text)


def url_of(value: Any) -> str:
    """A URL with its scheme, "" where there is none or where there are several."""
    if len(strings := strings_in(value)) == 1:
        value = strings[0]
    if isinstance(value, bytes):  # as some writers of Parquet have strings
        value = value.decode("utf-8", "replace")
    if not isinstance(value, str) or len(value) > MAX_URL_CHARS:
        return ""
    url = value.strip().removeprefix("<").removesuffix(">")
    return f"http://{url}" if WITHOUT_SCHEME.match(url) else url


def _first(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    values = (value_at(row, name) for name in names)
    return next((value for value in values if value is not None), None)

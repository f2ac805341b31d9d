"""Rows of named columns → pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scrapy_neardup.detect.sites import host_of
from scrapy_neardup.offline.dedup.columns import Columns, value_at
from scrapy_neardup.offline.dedup.record import TEXT_OF_A_PAGE, Page

SURROGATES = re.compile("[\ud800-\udfff]")
PRIVATE_USE = 0xF0000 - 0xD800
MAX_URL_CHARS = 2**16
# `shop.example/item`: how some tools write URLs.
WITHOUT_SCHEME = re.compile(r"([\w-]+\.)+[a-z]{2,}(:\d+)?/", re.IGNORECASE)


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
    if text is None:
        return page_of_html(html_in(row, columns), url, has_site, row)
    beside = page_of_html(html_in(row, columns), url) if columns.are_usual else None
    if isinstance(text, str):
        page = Page(url, distinct(text), has_site=has_site, row=row)
    elif strings := strings_in(text):
        body = distinct("\n".join(strings)).encode("utf-8")
        page = Page(url, None, body, TEXT_OF_A_PAGE, has_site, row)
    else:
        page = page_of_html(text, url, has_site, row)
    return page._replace(beside=beside) if beside and beside.body else page


def page_of_html(html: Any, url: str, has_site: bool = True, row: Any = None) -> Page:
    """The page of HTML in a column; one without a body where that is of another type."""
    if strings := strings_in(html):
        html = "".join(strings)
    if isinstance(html, str):
        body = distinct(html).encode("utf-8")
        return Page(url, None, body, "text/html; charset=utf-8", has_site, row)
    return Page(url, None, html if isinstance(html, bytes) else None, "text/html", has_site, row)


def html_in(row: dict[str, Any], columns: Columns) -> Any:
    """The HTML of a row, in a list where it is in several columns."""
    parts = texts_in(row, columns.html)
    return parts if len(parts) > 1 else _first(row, columns.html)


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

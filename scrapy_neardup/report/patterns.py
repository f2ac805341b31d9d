"""URL → its pattern: numbers, dates and ids collapsed, so that similar URLs count together."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import parse_qsl, urlsplit

DATE = re.compile(r"(?:19|20)\d\d-?(?:0[1-9]|1[0-2])(?:-?(?:0[1-9]|[12]\d|3[01]))?")
YEAR_PATH = re.compile(r"/(?:19|20)\d\d/(?:0?[1-9]|1[0-2])(?:/(?:0?[1-9]|[12]\d|3[01]))?(?=/|$)")
NUMBER = re.compile(r"\d+")
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
HEX = re.compile(r"(?=.*\d)[0-9a-fA-F]{8,}")
TOKEN = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[0-9A-Za-z_]{12,}")
SLUG = re.compile(r"[^-_]+(?:[-_][^-_]+){3,}")

MIN_NEAR = 20  # near-duplicates of a pattern, below which it is nothing unusual
MAX_WORD_CHARS = 24
MAX_PATTERN_CHARS = 160
MAX_URL_CHARS = 8192  # of a longer URL, only these are looked at


def url_pattern(url: str) -> str:
    """The pattern of a URL: `shop.example/item/{n}?colour=red&id={n}`.

    Scheme and fragment are left out; query arguments are sorted. {n} is a number, also inside
    a word, {date} a date, {id} a hexadecimal or mixed token, {slug} a title of four words or
    more, {text} anything else that is long. A URL that cannot be split is its own pattern.
    """
    try:
        parts = urlsplit(url[:MAX_URL_CHARS])
    except ValueError:  # "http://[": shown as it is
        return url[:MAX_PATTERN_CHARS]
    path = "/".join(_collapsed(segment) for segment in _dated(parts.path).split("/"))
    query = _sorted(parts.query) if parts.query else ""
    return f"{parts.netloc}{path}{'?' if query else ''}{query}"[:MAX_PATTERN_CHARS]


def is_wholesale(n_near: int, n_pages: int) -> bool:
    """Whether more than half of a pattern's pages, and MIN_NEAR or more, are near-duplicates."""
    return n_near >= MIN_NEAR and 2 * n_near > n_pages


def _sorted(query: str) -> str:
    arguments = sorted(parse_qsl(query, keep_blank_values=True))[:20]
    return "&".join(f"{name}={_collapsed(value)}" for name, value in arguments)


def _dated(path: str) -> str:
    return YEAR_PATH.sub("/{date}", path)


@lru_cache(maxsize=65_536)
def _collapsed(part: str) -> str:
    stem, dot, extension = part.rpartition(".") if "." in part[1:] else (part, "", "")
    if extension.isdigit() or len(extension) > 5:
        stem, dot, extension = part, "", ""
    return f"{_collapsed_word(stem)}{dot}{extension}"


def _collapsed_word(word: str) -> str:
    if DATE.fullmatch(word):
        return "{date}"
    if UUID.fullmatch(word) or (HEX.fullmatch(word) and not word.isdigit()):
        return "{id}"
    if TOKEN.fullmatch(word):
        return "{id}"
    if SLUG.fullmatch(word):
        return "{slug}"
    numbered = NUMBER.sub("{n}", word)
    return numbered if len(numbered) <= MAX_WORD_CHARS else "{text}"

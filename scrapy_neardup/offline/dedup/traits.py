"""What a copy of a page is chosen by: its words, date, status and canonical URL."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urljoin

from scrapy_neardup.offline.dedup.columns import value_at
from scrapy_neardup.offline.dedup.formats.rows import MAX_URL_CHARS
from scrapy_neardup.offline.dedup.record import Page

DATES = ("date", "WARC-Date", "timestamp", "crawl_date", "fetched", "fetch_time", "last_modified")
DATES_NESTED = ("metadata.date", "metadata.WARC-Date", "meta.date", "meta.timestamp")
STATUSES = ("status", "fetch_status", "http_status", "metadata.status")
CANONICALS = ("canonical", "canonical_url")
# `<link rel=canonical href=…>` with its attributes in either order, in the head of a page.
LINK = re.compile(rb"<link\b[^<>]{0,4096}+>", re.IGNORECASE)
REL = re.compile(rb"\brel\s*+=\s*+(?:[\"']\s*+)?canonical\b", re.IGNORECASE)
HREF = re.compile(rb"\bhref\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
HEAD_BYTES = 2**17
STATUS = re.compile(r"([1-9][0-9]{2})(?:\.0)?")
SLASHED = re.compile(r"(\d{4})/(\d\d)/(\d\d)")
NUMBER = re.compile(r"\d{9,20}(?:\.\d{0,9})?")
LATEST_S = 1e11  # the year 5138; in milliseconds, 1973
LATIN_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)?(\d\d)?(\d\d)?")


class Traits(NamedTuple):
    """What a copy is chosen by."""

    words: int
    date: float | None  # seconds since 1970
    status: int | None
    canonical: str | None  # the URL that it says is the page's own, cut at the longest we take


def traits_of(page: Page, words: int) -> Traits:
    """The traits of a page, by the usual columns, WARC headers and its HTML."""
    row = page.row if isinstance(page.row, dict) else {}
    canonical = _first(row, CANONICALS) or canonical_in(page.body or b"", page.url)
    return Traits(
        words,
        seconds_of(_first(row, DATES + DATES_NESTED)),
        status_of(_first(row, STATUSES)),
        str(canonical)[:MAX_URL_CHARS] if canonical else None,
    )


def _first(row: dict[str, Any], names: tuple[str, ...]) -> Any:
    values = (value_at(row, name) for name in names)
    return next((value for value in values if value not in (None, "")), None)


def status_of(value: Any) -> int | None:
    """A status, also one that a table with gaps has as 200.0; None if it is none."""
    found = STATUS.fullmatch(str(value))
    return int(found[1]) if found else None


def canonical_in(body: bytes, url: str) -> str | None:
    """The URL that a page's head names as its own."""
    for link in LINK.findall(body[:HEAD_BYTES]):
        href = HREF.search(link)
        if href and REL.search(link):
            named = next(group for group in href.groups() if group is not None)
            try:
                return str(urljoin(url, named.decode("utf-8", "replace").strip()))
            except ValueError:
                return None
    return None


def seconds_of(value: Any) -> float | None:
    """A date as seconds since 1970; None if it is none.

    It may be written by ISO 8601, also with slashes, as in the headers of HTTP and mail, or as
    20261101120000; or it is such a number, or counts seconds, milliseconds or less since 1970.
    """
    if isinstance(value, datetime):
        return _of_zone(value).timestamp()
    text = str(value or "").strip()
    digits = LATIN_DATE.fullmatch(text)
    if digits and (len(text) != len("1732000000") or text >= "1990"):
        return _at(digits)
    if NUMBER.fullmatch(text):
        return _since_1970(float(text))
    try:
        return _of_zone(datetime.fromisoformat(SLASHED.sub(r"\1-\2-\3", text))).timestamp()
    except ValueError:
        return _as_in_mail(text)


def _of_zone(date: datetime) -> datetime:
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _since_1970(count: float) -> float:
    """Seconds of a count that is of milliseconds, microseconds or nanoseconds where it is large."""
    while count >= LATEST_S:
        count /= 1000
    return count


def _as_in_mail(text: str) -> float | None:
    try:
        return _of_zone(parsedate_to_datetime(text)).timestamp()
    except (ValueError, OverflowError):
        return None


def _at(digits: re.Match[str]) -> float | None:
    try:
        return datetime(*(int(group or 0) for group in digits.groups()), tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]
    except ValueError:
        return None

"""Lines that tell of the visit and not of the page: a clock, a counter of visits, a drawn token.

What such a line shows is no fact: two copies show another time. But a price may change between two
visits, too. So a line counts only if its host was seen to move it on, and each kind has its proof:

    moment  a date or a time of day: it is that of the visit, as it is read
    count   a whole number: STEP higher at most than at a visit within NEAR_S before
    token   hexadecimal digits: others than at a visit within NEAR_S before

A host moves a line on if in CRAWLS crawls it did so on PAGES pages, read again with the same items,
and on none showed another time, or the same count or token again. Where it does so later, the line
tells of the page from then on. A moment that is not that of the visit is always a fact.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, Literal, NamedTuple, Self
from zlib import crc32

import mmh3
import numpy as np

from scrapy_neardup.stored_arrays import check_arrays, whole

WHAT = "lines that tell of the visit"
CRAWLS, PAGES = 2, 5
NEAR_S = 3600.0
STEP = 100
SLACK_MIN = 2  # minutes that a server's clock may be wrong
ZONE_MIN = 30  # time zones differ by multiples of it
DAY_S, EPOCH = 86_400, date(1970, 1, 1).toordinal()
LONGEST, MAX_LINES = 160, 4096  # characters of a line, lines of a page
LONGEST_DATE, MAX_YEARS = 40, 100  # characters, times that a page names a year
MAX_KEYS, MAX_OF_A_HOST = 20_000, 64  # lines that are known, or may be
STOOD_BITS = 1 << 23  # one megabyte while a crawl compares pages; a collision only forgets a line

_MONTHS = (
    "january januar janvier enero gennaio januari janeiro jan",
    "february februar février febrero febbraio februari fevereiro feb",
    "march märz mars marzo maart março mar",
    "april avril abril aprile apr",
    "may mai mayo maggio mei maio",
    "june juni juin junio giugno junho jun",
    "july juli juillet julio luglio julho jul",
    "august août agosto augustus aug",
    "september septembre septiembre settembre setembro sept sep",
    "october oktober octobre octubre ottobre outubro oct",
    "november novembre noviembre novembro nov",
    "december dezember décembre diciembre dicembre dezembro dec",
)
_DAYS = (
    "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri "
    "sat sun montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag lundi mardi "
    "mercredi jeudi vendredi samedi dimanche lunes martes miércoles jueves viernes sábado domingo "
    "lunedì martedì mercoledì giovedì venerdì sabato domenica maandag dinsdag woensdag donderdag "
    "vrijdag zaterdag zondag"
)
MONTHS = {name: n for n, names in enumerate(_MONTHS, 1) for name in names.split()}


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_MONTH = rf"(?:{_any_of(MONTHS)})\b"
DATE = re.compile(
    rf"(?:\b(?:{_any_of(_DAYS.split())})\b[.,]*\s(?:the |den |le |el )?)?(?<![\w./-])(?:"
    r"(?P<y1>\d{4})(?P<s1>[-/.])(?P<m1>\d\d?)(?P=s1)(?P<d1>\d\d?)|"
    r"(?P<a>\d\d?)(?P<s2>[-/.])\s?(?P<b>\d\d?)(?P=s2)\s?(?P<y2>\d{4})|"
    rf"(?P<d3>\d\d?)(?:st|nd|rd|th|\.)?(?: de| of)? (?P<m3>{_MONTH})\.?(?: de|,)? (?P<y3>\d{{4}})|"
    rf"(?P<m4>{_MONTH})\.? (?P<d4>\d\d?)(?:st|nd|rd|th)?,? (?P<y4>\d{{4}})"
    r")(?!\d)",
    re.IGNORECASE,
)
TIME = re.compile(
    r"(?<![\d.,])(?<!\d:)(?:[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::[0-5]\d(?:\.\d+)?)?(?![\d:])"
    r"(?:\s?[ap]\.?m\b\.?)?(?:\s?[+-]\d\d:?\d\d\b)?",
    re.IGNORECASE,
)
COUNT = re.compile(
    r"(?<![\w.,:/–—−-])(?:\d{1,3}(?:([,.' ’\u202f\xa0])\d{3}(?:\1\d{3})*)?|\d+)"
    r"(?![\w.,:/-]*\d|[.,]?[–—−-])"
)
TOKEN = re.compile(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[a-f])[0-9a-f-]{16,}(?![\w-])")
DIGIT, DIGITS = re.compile(r"\d"), re.compile(r"\d+")
WORD = re.compile(r"[^\W\d_]{2,}")
# Beside a count: signs of currencies and units, codes such as EUR, words for money and for what
# tells things apart: such a number is hardly ever a counter, however it moves.
MEASURE = re.compile(
    r"[^\w\s.,;:!?'\"()…·•–—|-]|\b[A-Z]{3}\b|"
    r"(?i:\b(?:euros?|dollars?|pounds?|cents?|kr|zł|kč|ft|lei|руб\w*|yen|yuan|元|円|"
    r"\w*pri[cx]e?s?|\w*preis\w*|precio|prezzo|preço|prijs|cena|fiyat|цена|costs?|bids?|"
    r"docket|case|lot|sku|isbn|stock)\b)"
)

Kind = Literal["moment", "count", "token"]


class Echo(NamedTuple):
    """A line that may tell of the visit.

    line    its place among the lines that were given
    key     64-bit hash of its kind and of the line without what it shows, numbers apart
    parts   the line, cut around a count or a token
    left    the line without what it shows
    days    the date, as ordinals: 3/4/2026 is either of two; empty without a date
    minute  of the hour; None without a time
    """

    line: int
    key: int
    kind: Kind
    parts: tuple[str, str, str]
    left: str
    days: tuple[int, ...] = ()
    minute: int | None = None

    def says(self, at: float) -> int | None:
        """The day that it says, if that and its time are those of a visit, in some time zone.

        Of a time without a date, the day of the visit. at: seconds since the epoch.
        """
        today = int(at // DAY_S) + EPOCH
        if self.minute is not None:
            apart = (self.minute - int(at // 60)) % ZONE_MIN
            if min(apart, ZONE_MIN - apart) > SLACK_MIN:
                return None
        days = self.days or (today,)
        return next((day for day in days if abs(day - today) <= 1), None)

    def was_lower(self, before: int) -> bool:
        """Whether a line of this CRC is this one with a count up to STEP lower."""
        start, shown, end = self.parts
        number = int("".join(DIGITS.findall(shown)))
        separator = shown.strip("0123456789")[:1]
        for n in range(number - 1, max(-1, number - 1 - STEP), -1):
            text = f"{n:,}".replace(",", separator) if separator else str(n)
            if shown[0] == "0":
                text = text.zfill(len(shown))
            if crc32(f"{start}{text}{end}".encode("utf-8", "surrogatepass")) == before:
                return True
        return False


def echoes_of(lines: Iterable[str]) -> list[Echo]:
    """Lines of a page that may tell of the visit, whitespace squeezed, each alone in its form."""
    found = [echo for at, line in enumerate(lines) if (echo := _echo(at, line)) is not None]
    times = Counter(echo.key for echo in found)
    return [echo for echo in found if times[echo.key] == 1]


def _echo(at: int, line: str) -> Echo | None:
    if not DIGIT.search(line):
        return None
    line = " ".join(line.split())
    if len(line) > LONGEST:
        return None
    return _moment(at, line) or _single(at, line, "token", TOKEN) or _count(at, line)


def _moment(at: int, line: str) -> Echo | None:
    dates, times = [*DATE.finditer(line)], [*TIME.finditer(line)]
    if len(dates) > 1 or len(times) > 1 or not (dates or times):
        return None
    days = _days(dates[0]) if dates else ()
    if dates and not days:
        return None
    minute = int(times[0]["minute"]) if times else None
    form = left = line
    for place, mark in sorted(
        [*((d.span(), "\0d") for d in dates), *((t.span(), "\0t") for t in times)]
    )[::-1]:
        form = form[: place[0]] + mark + form[place[1] :]
        left = left[: place[0]] + " " + left[place[1] :]
    key = _key("moment", DIGITS.sub("#", form))
    return Echo(at, key, "moment", (line, "", ""), left, days, minute)


def names_day(text: str, day: date) -> bool:
    """Whether a text names a day; True, too, where it names the year more than MAX_YEARS times."""
    year = str(day.year)
    if text.count(year) > MAX_YEARS:
        return True
    around = (text[max(0, at - LONGEST_DATE) : at + LONGEST_DATE] for at in _places(year, text))
    named = (found for part in around for found in DATE.finditer(part))
    return any(day.toordinal() in _days(found) for found in named)


def _places(part: str, text: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _days(found: re.Match[str]) -> tuple[int, ...]:
    """The days that a date may be, as ordinals."""
    if found["y1"]:
        ways = [(found["y1"], found["m1"], found["d1"])]
    elif found["y2"]:
        ways = [(found["y2"], found["b"], found["a"]), (found["y2"], found["a"], found["b"])]
    else:
        n = "3" if found["y3"] else "4"
        ways = [(found["y" + n], str(MONTHS[found["m" + n].lower()]), found["d" + n])]
    days = []
    for year, month, day in ways:
        try:
            days.append(date(int(year), int(month), int(day)).toordinal())
        except ValueError:  # no such day
            continue
    return tuple(days)


def _count(at: int, line: str) -> Echo | None:
    echo = _single(at, line, "count", COUNT)
    return None if echo is None or MEASURE.search(echo.left) else echo


def _single(at: int, line: str, kind: Kind, pattern: re.Pattern[str]) -> Echo | None:
    """A line with words and one number, which is all that has digits on it."""
    found = pattern.search(line)
    if found is None:
        return None
    start, end = line[: found.start()], line[found.end() :]
    if DIGIT.search(start + end) or not WORD.search(start + " " + end):
        return None
    parts = start, found[0], end
    return Echo(at, _key(kind, f"{start}\0{end}"), kind, parts, f"{start} {end}")


def _key(kind: Kind, form: str) -> int:
    return mmh3.hash64(f"{kind} {form}".encode("utf-8", "surrogatepass"), signed=False)[0]


class VisitEchoes:
    """Which lines of each host are known to tell of the visit, and what may show it."""

    def __init__(self) -> None:
        self._crawls: dict[int, dict[int, int]] = {}  # host → key → crawls that moved it on
        self._known: dict[int, frozenset[int]] = {}  # host → keys of CRAWLS crawls
        self._moved: dict[tuple[int, int], set[bytes]] = {}  # of this crawl: pages
        self._latest: dict[tuple[int, int], int] = {}  # of this crawl: the last day that was shown
        self._stood: bytearray | None = None  # bits of keys that did not move on

    def __len__(self) -> int:
        """Lines known, of all hosts."""
        return sum(map(len, self._known.values()))

    def left_out(self, host: int, text: str, at: float) -> tuple[str, int]:
        """A page's text without what lines that tell of the visit show; of which lines, as a tag.

        Of 32 bits, and 0 where there are none. at: when the page was read, in seconds since the
        epoch. Safe in any thread.
        """
        known = self._known.get(host)
        if known is None or text.count("\n") >= MAX_LINES:
            return text, 0
        lines = text.split("\n")
        told = [echo for echo in echoes_of(lines) if echo.key in known]
        told = [echo for echo in told if echo.kind != "moment" or echo.says(at) is not None]
        for echo in told:
            lines[echo.line] = echo.left
        keys = b"".join(sorted(echo.key.to_bytes(8, "little") for echo in told))
        return "\n".join(lines), (crc32(keys) or 1) if keys else 0

    # --- learning

    def read(self, host: int, echoes: Iterable[Echo], at: float) -> None:
        """A page was read: a moment that is another than the visit's is its own.

        Where a day goes back, pages may be of yesterday and tomorrow, or two came at midnight: then
        this crawl proves nothing.
        """
        for echo in echoes:
            if echo.kind != "moment":
                continue
            day, one = echo.says(at), (host, echo.key)
            if day is None:
                self._stands(*one)
            elif day < self._latest.get(one, day):
                self._proves_nothing(*one)
            elif len(self._latest) < MAX_KEYS or one in self._latest:
                self._latest[one] = day

    def compared(
        self, host: int, page: bytes, echo: Echo, was: int, now: int, elapsed_s: float | None
    ) -> None:
        """A line was read again, on a page whose items are the same.

        page: its URL's key. was, now: CRC of the line then and now. elapsed_s: since then, None
        where that is not known. After read().
        """
        is_recent = elapsed_s is not None and 0 <= elapsed_s <= NEAR_S
        if was == now:
            if echo.kind != "moment":
                self._stands(host, echo.key)
        elif echo.kind == "moment" or (is_recent and (echo.kind == "token" or echo.was_lower(was))):
            self._moves(host, echo.key, page)
        elif is_recent:
            self._stands(host, echo.key)

    def _moves(self, host: int, key: int, page: bytes) -> None:
        pages = self._moved.get((host, key))
        if pages is None and len(self._moved) < MAX_KEYS and not self._has_stood(host, key):
            pages = self._moved[host, key] = set()
        if pages is not None and len(pages) < PAGES:
            pages.add(page)

    def _stands(self, host: int, key: int) -> None:
        self._proves_nothing(host, key)
        if self._crawls.get(host, {}).pop(key, None) is not None:
            self._tell(host)

    def _proves_nothing(self, host: int, key: int) -> None:
        if self._stood is None:
            self._stood = bytearray(STOOD_BITS // 8)
        bit = (host ^ key) % STOOD_BITS
        self._stood[bit // 8] |= 1 << bit % 8
        self._moved.pop((host, key), None)

    def _has_stood(self, host: int, key: int) -> bool:
        bit = (host ^ key) % STOOD_BITS
        return self._stood is not None and bool(self._stood[bit // 8] >> bit % 8 & 1)

    def conclude(self) -> None:
        """The crawl is over, and what it found is to be believed."""
        for (host, key), pages in self._moved.items():
            if len(pages) < PAGES:
                continue
            crawls = self._crawls.setdefault(host, {})
            if key in crawls or (len(crawls) < MAX_OF_A_HOST and self._n_keys < MAX_KEYS):
                crawls[key] = min(CRAWLS, crawls.get(key, 0) + 1)
                self._tell(host)
        self.forget_crawl()

    def forget_crawl(self) -> None:
        """The crawl is over; what moved in it is evidence no longer."""
        self._moved, self._latest, self._stood = {}, {}, None

    @property
    def _n_keys(self) -> int:
        return sum(map(len, self._crawls.values()))

    def _tell(self, host: int) -> None:
        """Let pages be read by what is known of a host now."""
        known = frozenset(key for key, n in self._crawls[host].items() if n >= CRAWLS)
        if known:
            self._known[host] = known
        else:
            self._known.pop(host, None)

    # --- stored

    def arrays(self) -> dict[str, Any]:
        """What is known as named arrays, one row a line."""
        rows = [(host, key, n) for host, keys in self._crawls.items() for key, n in keys.items()]
        hosts, keys, crawls = zip(*rows, strict=True) if rows else ((), (), ())
        return {
            "hosts": np.array(hosts, np.uint64),
            "keys": np.array(keys, np.uint64),
            "crawls": np.array(crawls, np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """What arrays() described; nothing where there are none. Raises SnapshotError."""
        echoes = cls()
        if not arrays:  # of a state from before there were any
            return echoes
        rows = whole(arrays.get("hosts", np.empty(0, np.uint64))).shape
        kinds = {"hosts": np.uint64, "keys": np.uint64, "crawls": np.uint8}
        check_arrays(WHAT, arrays, {name: (kind, rows) for name, kind in kinds.items()})
        columns = (whole(arrays[name]).tolist() for name in kinds)
        for host, key, n in zip(*columns, strict=True):
            echoes._crawls.setdefault(host, {})[key] = n
        for host in echoes._crawls:
            echoes._tell(host)
        return echoes

"""What of an item is its own data: short values as one digest, long text as text.

An item of a page that repeats another is dropped only if its data repeat, too. Data is
whatever the fields hold, nested values included, without what merely echoes the visit: the
URL that was asked for, the page itself, the time of the crawl.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from types import FunctionType
from typing import Any, NamedTuple
from uuid import UUID

from scrapy.http import HtmlResponse, Response, TextResponse, XmlResponse

from scrapy_neardup.crawl.items.item_fields import has_names, named_values
from scrapy_neardup.crawl.pages.extract import text_and_markup_of_html
from scrapy_neardup.crawl.pages.page_data import script_sources
from scrapy_neardup.detect.echoes import names_day
from scrapy_neardup.detect.facts import exact_text_and_facts
from scrapy_neardup.detect.sites import site_of
from scrapy_neardup.detect.text import exact_text
from scrapy_neardup.errors import ItemTooLarge, ItemUnreadable
from scrapy_neardup.kernels.numpy_twin.fact_words import (
    NEGATIONS,
    NUMBER_WORDS,
    ROMAN_NUMERALS,
    VALUE_WORDS,
)
from scrapy_neardup.kernels.numpy_twin.facts import MARKS, SYMBOL_CATEGORIES
from scrapy_neardup.urls.key import UrlKeyRules, url_key

LONG_CHARS = 1000  # a longer string may be compared as text, a shorter one has to be equal
MIN_PAGE_CHARS = 200  # a shorter string is never taken for the page as a whole
MAX_VALUES = 10_000  # of one item; more are not looked at: the item is kept
MAX_DEPTH = 32  # also ends values that hold themselves
MAX_CHARS = 1 << 20  # of an item's strings
# An item of more characters may take more than 50 ms: it is read in a thread. A value takes as long
# as so many of them, because it may be a URL.
LOOP_CHARS, VALUE_CHARS = 1 << 15, 50
CLOCK_SLACK_S = 2.0  # a spider's clock may round to seconds

UNSPACED_NEGATION = re.compile(
    "ない|ません|不|没|沒|无|無|未|勿|ไม่|มิได้|อย่า|ห้าม|ไร้|ปราศจาก"
)  # between words without spaces
UNSPACED_NUMBER = re.compile(
    "[〇零一二三四五六七八九十百千万萬億亿兆壱弐参兩两廿卅壹贰貳叁參肆伍陆陸柒捌玖拾佰仟]+"
)
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)  # Thai to Khmer, kana, Han
AMONG_UNSPACED = re.compile(r"[!-~]++|\d++")  # a model, a price, an address
# Of these, str() says all that they hold.
PLAIN = frozenset({Decimal, Fraction, complex, time, timedelta, UUID})
MAX_TIME = 10**15  # milliseconds since the epoch; a larger number is no time
# A URL and nothing else: not a text that begins with one, nor a list of them.
ADDRESS = re.compile(r"(?:https?:)?//(?:(?![,;|](?:https?:)?//)\S)+")
MARKUP = re.compile(r"<[a-zA-Z!/?]")
# Names of fields that say when the visit was, whatever the page says, and of fields with links of
# which the arguments that only track visitors are what counts.
OF_THE_VISIT = re.compile(
    r"scrape|crawl|fetch|retriev|visit|harvest|extract|download|access|spider|now|today",
    re.IGNORECASE,
)
TRACKING = re.compile(r"affiliat|referr|partner|deep_?link|track|campaign|utm", re.IGNORECASE)
# What joins the parts of an address, a path or a name in a program.
JOINT = re.compile(r"[@/\\_=&+#~$%^*<>|()\[\]{}\"]|\w[.:]+\w")
HYPHENS = re.compile("[-'’]")
MAX_WORD = 30  # letters; a longer one is a code
EDGES = ".,;:!?'\"()[]{}<>|…—"
BRACKETED = re.compile(r"\([^\w\s()]*+\d[\d.,]*+[^\w\s()]*+\)")

# What stands for a value that echoes the visit. No encoded value begins with these bytes. Behind
# that of a page stands what of it is compared only where an item holds it.
SAME_URL, SAME_PAGE, SAME_TIME = b"=url", b"=page", b"=time"


class ItemData(NamedTuple):
    """An item's own data.

    values  64-bit digest of all that has to be equal, and where it stands
    fields  a hash of each top-level field, long text included; to name what differs
    text    the long strings of the field with the longest text, a line each; "" where none has any
    holds_page  whether one of its values is the whole page, as it came, or leads a pipeline there
    """

    values: int
    fields: dict[str, int]
    text: str
    holds_page: bool = False


@dataclass
class Provenance:
    """What an item may echo: the URLs by which a page was reached, its body, the times of both.

    addresses  the request's and the response's URL and those of all redirects between them; none
               where they may tell of what the item is: of an interface's answer that says so little
               as `{"stock": 1}`, and of one of several items of a near page, rows of a list
    rules      for the keys of URLs
    page       the response: an item may hold its body or its text as a whole
    began      when the crawl began, in seconds since the epoch
    since      when the page was asked for
    until      now
    media      names of fields whose URLs a media pipeline downloads: the page's own is the page
    is_held    whether a value of an item that was read is the whole page
    """

    addresses: frozenset[str]
    rules: UrlKeyRules
    page: Response
    began: float
    since: float
    until: float
    media: AbstractSet[str] = frozenset()
    is_held: bool = False
    _named: dict[date, bool] = field(
        default_factory=dict, init=False
    )  # days, whether the page names them

    @classmethod
    def of(
        cls,
        response: Response,
        rules: UrlKeyRules,
        began: float,
        since: float,
        media: AbstractSet[str] = frozenset(),
        names_items: bool = False,
    ) -> Provenance:
        """The visit that ended in a response. names_items: whether its URL says whose they are."""
        if names_items:
            return cls(frozenset(), rules, response, began, since, since)
        urls = {response.url, *response.meta.get("redirect_urls", ())}
        if response.request is not None:
            urls.add(response.request.url)
        return cls(frozenset(urls), rules, response, began, since, since, media)

    @property
    def is_markup(self) -> bool:
        """Whether the page is laid out by spaces and lines that say nothing."""
        return isinstance(self.page, (HtmlResponse, XmlResponse))

    @cached_property
    def urls(self) -> frozenset[bytes]:
        """The keys of the addresses."""
        return frozenset(url_key(url, self.rules) for url in self.addresses)

    @cached_property
    def sources(self) -> bytes:
        """Where the page's scripts are loaded from: an embed may be all in which two pages differ.

        Of all pages that would keep the copies that a site's next release has other scripts on.
        """
        if not isinstance(self.page, TextResponse):
            return b""
        return _joined([_raw(url) for url in script_sources(self.page.text, self.page.url)])

    def is_now(self, seconds: float) -> bool:
        """Whether a time is that of the visit, or that at which the crawl began."""
        if abs(seconds - self.began) <= CLOCK_SLACK_S:
            return True
        return self.since - CLOCK_SLACK_S <= seconds <= self.until + CLOCK_SLACK_S

    def says(self, text: str) -> bool:
        """Whether a text stands on the page as it came."""
        return isinstance(self.page, TextResponse) and text in self.page.text

    def names(self, day: date) -> bool:
        """Whether the page names a day."""
        if day not in self._named:
            is_text = isinstance(self.page, TextResponse)
            self._named[day] = is_text and names_day(self.page.text, day)
        return self._named[day]

    def is_today(self, day: date) -> bool:
        """Whether a day is that of the visit, or that on which the crawl began."""
        began, since, until = map(date.fromtimestamp, (self.began, self.since, self.until))
        return day == began or since <= day <= until

    def is_page(self, value: str | bytes) -> bool:
        """Whether a value is the whole page, of which only what is shown or read counts.

        In texts that are not HTML anything may say something: spaces, the order of lines.
        """
        if isinstance(self.page, TextResponse) and not isinstance(self.page, HtmlResponse):
            return False
        if isinstance(value, bytes):
            is_page = bool(value) and value == self.page.body
        else:
            is_page = isinstance(self.page, TextResponse) and value == self.page.text
        self.is_held |= is_page
        return is_page


def item_data(
    item: Any,
    provenance: Provenance | None,
    rules: UrlKeyRules,
    ignored: AbstractSet[str] = frozenset(),
    key: bytes = b"",
    stable: bool = False,
) -> ItemData:
    """The data of an item.

    stable: whether the hashes of fields are to be the same in another process, which takes longer.
    provenance: None where the item came from no page. ignored: names of fields, at any depth.
    key: keys the digests, at most 64 bytes, so that nobody can craft two items that share one.
    Raises ItemTooLarge for an item of more than MAX_VALUES values, MAX_DEPTH levels or MAX_CHARS
    characters, ItemUnreadable for a value that cannot be looked into or two fields of one name.
    """
    reader = _Reader(provenance, rules, ignored)
    named = [*named_values(item, ignored)]
    encoded = {name: reader.field(name, value) for name, value in named}
    if len(encoded) < len(named):
        raise ItemUnreadable("two fields of an item are of one name, as 1 and '1' are")
    in_order = sorted(encoded.items())
    whole = {name: field.whole for name, field in in_order}
    longest = max(in_order, key=lambda pair: sum(map(len, pair[1].texts)), default=("", None))[0]
    # A short text beside a long one would hardly count: so one field's text alone is compared.
    parts = [
        part
        for name, field in in_order
        for part in (_text(name), field.values if name == longest else whole[name])
    ]
    values = _kind_of(item) + _joined(parts)
    fields = {name: _digest(field, key) if stable else hash(field) for name, field in whole.items()}
    text = "\n".join(encoded[longest].texts) if encoded else ""
    return ItemData(_digest(values, key), fields, text, reader.holds_page)


def is_long(item: Any) -> bool:
    """Whether reading an item may take longer than anything may hold the loop. O(LOOP_CHARS)."""
    left, values = LOOP_CHARS, [item]
    while values and left >= 0:
        value = values.pop()
        left -= VALUE_CHARS
        if isinstance(value, (str, bytes, bytearray)):
            left -= len(value)
        elif isinstance(value, (list, tuple, AbstractSet)):
            values.extend(value)
        elif type(value) is dict:  # most items
            values.extend(value.values())
        elif has_names(value):
            with suppress(ItemUnreadable):  # whoever reads it hears of that
                some = islice(named_values(value), LOOP_CHARS // VALUE_CHARS + 1)
                values.extend(held for _, held in some)
    return left < 0


class _Field(NamedTuple):
    values: bytes  # what has to be equal
    texts: list[str]

    @property
    def whole(self) -> bytes:
        """All of the field, its long texts included."""
        return _joined([self.values, *(_raw(without_layout(text)) for text in self.texts)])


def _kind_of(item: Any) -> bytes:
    """What class an item is of: by it pipelines choose where it is stored."""
    kind = type(item)
    return b"" if kind is dict else _text(f"{kind.__module__} {kind.__qualname__}") + b"\t"


class _Reader:
    """Encodes one item's values; each kind of value begins with a letter of its own."""

    def __init__(
        self, provenance: Provenance | None, rules: UrlKeyRules, ignored: AbstractSet[str]
    ) -> None:
        self._provenance = provenance
        self._rules = rules
        self._ignored = ignored
        self._n_values = self._n_chars = 0
        self._texts: list[str] = []
        self._name = ""  # of the field that is read
        self.holds_page = False

    def field(self, name: str, value: Any) -> _Field:
        """A top-level field: what must be equal, and what is compared as text."""
        self._texts, self._name = [], name
        return _Field(self._encoded(value, 1), self._texts)

    def _encoded(self, value: Any, depth: int) -> bytes:
        self._n_values += 1
        if self._n_values > MAX_VALUES or depth > MAX_DEPTH:
            raise _too_large()
        if isinstance(value, str):
            return self._string(value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return self._bytes(bytes(value))
        if value is None or (isinstance(value, (int, float)) and not _has_more(value)):
            return self._number(value)
        if isinstance(value, date):
            return self._date(value)
        if has_names(value):
            return self._mapping(value, depth)
        if isinstance(value, AbstractSet):
            return b"S" + _joined(sorted(self._encoded(part, depth + 1) for part in value))
        if isinstance(value, (list, tuple)):
            return b"L" + _joined([self._encoded(part, depth + 1) for part in value])
        if type(value) in PLAIN:
            return b"O" + _text(f"{type(value).__qualname__} {value}")
        return self._object(value, depth)

    def _object(self, value: Any, depth: int) -> bytes:
        """Any other object: by what pickle would write of it. What str() says may be less."""
        if isinstance(value, (type, FunctionType)) and "<" not in value.__qualname__:
            return b"C" + _text(f"{value.__module__} {value.__qualname__}")
        try:
            if isinstance(value, FunctionType):
                raise TypeError("a lambda or an inner function may hold values of its own")
            reduced = value.__reduce_ex__(4)
        except Exception as error:
            raise ItemUnreadable(f"a {type(value).__qualname__} cannot be looked into") from error
        if isinstance(reduced, str):
            return b"C" + _text(f"{type(value).__module__} {reduced}")
        parts = [list(p) if isinstance(p, Iterator) else p for p in reduced]
        return b"P" + _joined([self._encoded(part, depth + 1) for part in parts])

    def _mapping(self, value: Any, depth: int) -> bytes:
        """A mapping or an item within another, in its own order: a table of ranks, by names."""
        parts, outer = [], self._name
        for name, part in named_values(value, self._ignored):
            self._name = name
            parts.append(_text(name) + b"\t" + self._encoded(part, depth + 1))
        self._name = outer
        return b"D" + _kind_of(value) + _joined(parts)

    def _number(self, value: float | None) -> bytes:
        if isinstance(value, int) and abs(value) > MAX_TIME:
            return b"N" + hex(value).encode()  # str() refuses thousands of digits
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            # Milliseconds are as common as seconds.
            is_now = self._is_now(float(value)) or self._is_now(value / 1000)
            if is_now and not self._is_said(str(int(value))):
                return SAME_TIME
            if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_TIME:
                value = int(value)
        return b"N" + str(value).encode()

    def _date(self, value: date) -> bytes:
        if isinstance(value, datetime):
            if self._is_of_visit(value) and not self._is_said(_clock(value)):
                return SAME_TIME
        elif self._is_day_of_visit(value):
            return SAME_TIME
        return b"T" + value.isoformat().encode()

    def _is_day_of_visit(self, day: date) -> bool:
        provenance = self._provenance
        if provenance is None or not provenance.is_today(day):
            return False
        return OF_THE_VISIT.search(self._name) is not None or not provenance.names(day)

    def _is_of_visit(self, moment: datetime) -> bool:
        # A naive time is UTC's or the machine's: a spider may write either.
        if self._provenance is None:
            return False
        candidates = [moment] if moment.tzinfo else [moment.replace(tzinfo=UTC), moment]
        return any(self._is_moment_of_visit(candidate) for candidate in candidates)

    def _is_moment_of_visit(self, moment: datetime) -> bool:
        try:
            return self._is_now(moment.timestamp())
        except (ValueError, OverflowError, OSError):  # no second of this machine's calendar
            return False

    def _is_said(self, time: str) -> bool:
        """Whether a time is the page's: one of a feed's newest entry may be that of the visit."""
        if self._provenance is None or OF_THE_VISIT.search(self._name):
            return False
        return self._provenance.says(time)

    def _is_now(self, seconds: float) -> bool:
        return self._provenance is not None and self._provenance.is_now(seconds)

    def _bytes(self, value: bytes) -> bytes:
        return self._page(value) or b"B" + blake2b(value, digest_size=16).digest()

    def _string(self, value: str) -> bytes:
        provenance = self._provenance
        if len(value) > MIN_PAGE_CHARS and (page := self._page(value)):
            return page
        self._n_chars += len(value)
        if self._n_chars > MAX_CHARS:
            raise _too_large()
        if provenance is not None and value in provenance.addresses:
            return self._same_url()
        if ADDRESS.fullmatch(value):
            return self._url(value)
        if len(value) > LONG_CHARS and not value.startswith("data:"):
            return self._long_text(value)
        moment = _moment(value)
        if moment and self._is_of_visit(moment) and not self._is_said(_clock(moment)):
            return SAME_TIME
        is_laid_out = provenance is None or provenance.is_markup
        return b"U" + _text(without_layout(value) if is_laid_out else value)

    def _page(self, value: str | bytes) -> bytes:
        """What stands for a value that is the whole page; empty for any other."""
        if self._provenance is None or not self._provenance.is_page(value):
            return b""
        self.holds_page = True
        return SAME_PAGE + self._provenance.sources

    def _long_text(self, value: str) -> bytes:
        """Leave a text for comparison; what must be equal are its facts."""
        markup: list[str] = []
        if MARKUP.search(value):
            value, markup = text_and_markup_of_html(value)
        self._texts.append(value)
        return b"W" + _joined([_raw(fact) for fact in [*markup, *facts_of(value)]])

    def _url(self, url: str) -> bytes:
        key, fragment = url_key(url, self._rules), _raw(url.partition("#")[2])
        same = self._provenance is not None and key in self._provenance.urls
        if not same and (rules := self._rules_of_link(url)) is not self._rules:
            key = url_key(url, rules)
        return (self._same_url() if same else b"K" + key) + (fragment and b"#" + fragment)

    def _rules_of_link(self, url: str) -> UrlKeyRules:
        """Of a link to another site a session counts: it was not drawn by this visit."""
        if self._provenance is not None and site_of(url) != site_of(self._provenance.page.url):
            return replace(self._rules, drop_tracking=False, drop_sessions=False)
        if TRACKING.search(self._name):
            return replace(self._rules, drop_tracking=False)
        return self._rules

    def _same_url(self) -> bytes:
        """What stands for the page's own URL, by which a pipeline may store the page."""
        if self._provenance is not None and self._name in self._provenance.media:
            self._provenance.is_held = self.holds_page = True
        return SAME_URL


def _has_more(number: float) -> bool:
    """Whether a number is of a class of its own and holds more, such as a currency."""
    return bool(getattr(number, "__dict__", None))


def _too_large() -> ItemTooLarge:
    return ItemTooLarge(
        f"an item of more than {MAX_VALUES} values, {MAX_DEPTH} levels or {MAX_CHARS} characters "
        f"is kept without a look at its data; name large fields in NEARDUP_IGNORE_FIELDS"
    )


def facts_of(text: str) -> list[str]:
    """The words of a text that are facts, in order: those with a digit or a symbol.

    Prices, dates, identifiers, `C++`, `-5`, `★★★`: texts that differ in one of them are not copies.
    Nor are those of which one says "not", or whose numbers in words or Roman numerals, days,
    months, codes (`aB`), addresses, paths and capitals differ, or numbers in brackets: a loss of
    500 is written as (500).
    """
    words = map(_without_edges, text.replace("–", "-").split())  # –5 is -5
    facts = [word for word in words if word and _is_fact(word)] + BRACKETED.findall(text)
    if text.isascii():
        return facts
    return facts + UNSPACED_NEGATION.findall(text) + UNSPACED_NUMBER.findall(text)


def _without_edges(word: str) -> str:
    """A word but for the punctuation around it; one of MARKS in front of it is left: .5, ./run."""
    core = word.strip(EDGES)
    if not core or word[0] == core[0]:
        return core
    before = word[: word.index(core)]
    is_marked = before[-1] in MARKS and before[-2:-1] not in MARKS
    return before[-1] + core if is_marked else core


def stated(text: str, key: bytes) -> int:
    """A digest of what a page's text says, by which items that hold the page are compared.

    Of a text of at most LONG_CHARS all counts but its layout, as in an item that holds the text. Of
    a longer one its facts do, with the words of the sentences in which a number, symbol or negation
    stands: it may have moved there from another one. In text without spaces only negations, numbers
    and what is in ASCII count.
    """
    if len(text) <= LONG_CHARS:
        return _digest(exact_text(text), key)
    parts: list[str] = []
    for fact in facts_of(text[:MAX_CHARS]):
        is_unspaced = len(fact) > MAX_WORD and UNSPACED.search(fact)
        parts += AMONG_UNSPACED.findall(fact) if is_unspaced else [fact]
    encoded = [_raw(part) for part in parts]
    if not UNSPACED.search(text):
        facts = exact_text_and_facts(text[:MAX_CHARS])[1]
        encoded += facts.masks.tobytes(), facts.values.tobytes()
    return _digest(_joined(encoded), key)


def _is_fact(word: str) -> bool:
    if len(word) > MAX_WORD:  # of a script without spaces, whose letters may be marks
        return True
    if word.isalpha():  # most words, told without a look at each character
        folded = word.casefold()
        if folded in NEGATIONS or folded in VALUE_WORDS:
            return True
        return word in ROMAN_NUMERALS or _has_inner_capitals(word)  # "(iii)", "part xi"
    if word.endswith(("n't", "n’t")):
        return True
    if "-" in word and not NUMBER_WORDS.isdisjoint(word.casefold().split("-")):  # twenty-one
        return True
    if not (word[0].isalpha() and word[-1].isalpha()) or any(map(str.isdigit, word)):
        return True
    if _is_code(word) or JOINT.search(word):
        return True
    return not word.isascii() and _has_symbol(word)


def _is_code(word: str) -> bool:
    """Whether a part of a word is written as a code is: `FRA-MUC`, `USB's`, `Hep-A`."""
    is_hyphened = "-" in word
    return any(
        _has_inner_capitals(part) or (is_hyphened and len(part) == 1 and part.isupper())
        for part in HYPHENS.split(word)
    )


def _has_symbol(word: str) -> bool:
    return any(unicodedata.category(char) in SYMBOL_CATEGORIES for char in word)


def _has_inner_capitals(word: str) -> bool:
    """Whether a word is written as no word of a sentence is: `USB`, `iPhone`, `aB`."""
    return not (word.islower() or word.istitle()) and word.lower() != word.upper()


def _moment(value: str) -> datetime | None:
    """The point in time that a string says in ISO 8601; None for a day alone or anything else."""
    if not (16 <= len(value) <= 40 and value[:4].isdigit() and value[4] == "-"):
        return None
    try:
        return datetime.fromisoformat(value.strip())
    except ValueError:
        return None


def _clock(moment: datetime) -> str:
    """How a page writes a time within its hour, in any time zone of whole hours.

    One of half or quarter hours has other minutes: its times count as not said by the page.
    """
    is_of_a_minute = not (moment.second or moment.microsecond)
    return f":{moment.minute:02}" if is_of_a_minute else f":{moment.minute:02}:{moment.second:02}"


def _text(value: str) -> bytes:
    """A short text, Unicode form apart; a longer one as it is."""
    if len(value) > LONG_CHARS:  # normalize() is quadratic in runs of combining marks
        return _raw(value)
    return _raw(unicodedata.normalize("NFC", value))


def without_layout(value: str) -> str:
    """A text without the spaces and lines around it that are markup's layout.

    Within it they count: they are the columns of a record, the seats of a row, the verses of a
    poem. Around it they do where no line ends in it, and so does the indentation of its first line
    where no line ends before that: a line of source code.
    """
    if "\n" not in value:
        return value
    text = value.lstrip()
    is_below = "\n" in value[: len(value) - len(text)]
    return (text if is_below else value).rstrip() or value


def _raw(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _joined(parts: list[bytes]) -> bytes:
    # Lengths first: no value can imitate a border between two.
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _digest(data: bytes, key: bytes) -> int:
    digest = blake2b(data, digest_size=8, key=key, person=b"neardup-item").digest()
    return int.from_bytes(digest, "little")


def fields_apart(one: dict[str, int], other: dict[str, int]) -> list[str]:
    """The names of the fields in which two items differ."""
    return [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]

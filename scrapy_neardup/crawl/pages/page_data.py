"""What a page says outside its visible text: JSON in scripts, microdata, meta tags, attributes.

Scripts are searched for JSON values, never executed. Each value becomes a line: the path to it,
a space, the value.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from heapq import merge
from itertools import islice
from math import inf
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from lxml import etree

import scrapy_neardup.kernels as kernels
from scrapy_neardup.crawl.pages.literals import literals
from scrapy_neardup.errors import OverBudget
from scrapy_neardup.urls.key import HEXADECIMAL, TURNS, up_to_a_turn

# Where JSON may begin in a script, by its first two characters: an attempt to decode what is code
# takes longer. Later arguments of a function are not searched: of those, a page could make the same
# characters be read again and again.
_JSON = r"""(?=\{\s*+(?:["}]|\Z)|\[\s*+(?:["{\[\]tfnIN\d-]|\Z))"""
JSON_BEGINS = re.compile(rf"""(?:\A|[=(])\s*{_JSON}|(?:=\s*)?\bJSON\.parse\(\s*(?=["'])""")
# The same of a script that neither begins with JSON nor names JSON.parse; four times as fast.
VALUE_BEGINS = re.compile(rf"[=(]\s*{_JSON}")
# A string of a script. From however many places it is tried, no text is searched more than twice
# in vain: the place itself has the quote that would end the string before.
STRING = re.compile(r""""((?:[^"\\]|\\.)*+)"|'((?:[^'\\]|\\.)*+)'""", re.DOTALL)
ESCAPE = re.compile(
    r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|u\{([0-9a-f]{1,6})\}|(.))", re.DOTALL | re.IGNORECASE
)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
GIVEN_NAME = re.compile(r"\s*+([\w$.]*+)")  # backwards, from the value on
MAX_NAME = 64  # characters
MAX_PATH = 200  # characters, the last ones: a page could repeat a long key in front of each value
# Characters of paths in front of all values, for each byte of the page, and what is always allowed:
# a page writes a path once, and a value in two characters.
PATHS_GROWTH, PATHS_FREE = 16, 1 << 16
MAX_KEY = 256  # characters; a longer one is none of the names below
# For each error the json module counts the lines before it. Characters so counted in a script,
# about 50 ms; what comes after them is not read.
MAX_RESCANNED = 1 << 27
# What one call reads, holding Python's lock: about 50 ms of JSON. Its values are counted by their
# commas and brackets: Python's collector looks at each list in lists several times.
MAX_SCRIPT, MAX_VALUES, MAX_HEAD = 1 << 21, 100_000, 1 << 16
# Lines of what a page says, of data and of details each: they are freed in one go with its tree.
MAX_SAID = 150_000
# A script is remembered, as most are the same on every page, up to so many characters, and lines
# and characters of what it says: however hostile, all that are take at most some 70 MB.
MAX_REMEMBERED, MAX_LINES, MAX_CHARS = 1 << 14, 1 << 9, 1 << 15
AT_ONCE = 1 << 17  # characters that a pattern is searched in, or that are split
KEYS_AT_ONCE = 1 << 14  # keys sorted in one call
MAX_TOKEN = 1 << 20  # characters; longer values are what the page says, whatever they look like
MAX_BEGIN = 1 << 12  # characters between a name and its JSON
JSON_TYPE = re.compile(r"json\b", re.IGNORECASE)
# Code, also where a cache has it wait. What has another type is read by it.
SCRIPT_TYPE = re.compile(r"(?:module|text/(?:babel|jsx)|.*script\b.*+)?", re.IGNORECASE)
# As which consent banners have code wait, and pages have prose and Markdown; how code begins.
WAITING_TYPE = "text/plain"
CODE_BEGINS = re.compile(
    r"\s*+(?:<!--|//|/\*|[\"']use strict|[!(;+~]*+(?:(?:async\s++)?function\b|\)\s*+=>)|"
    r"(?:var|let|const)\s++(?:[\w$]++\s*+[=;]|[{\[])|(?:if|for|try|while)\s*+[({]|import\s*+[({*\"']|"
    r"[\w$.]++(?:\(|\s*+=|\[[^\]]*+\]\s*+[=(.]))"
)
RULES_OF_BROWSERS = frozenset({"importmap", "speculationrules"})
# Meta tags that say how to show or index a page, or when it was made; not what it says.
TECHNICAL = re.compile(
    r"viewport|charset|generator|robots|googlebot|bingbot|referrer|theme-color|color-scheme|"
    r"format-detection|handheldfriendly|mobileoptimized|x-ua-compatible|"
    r"date|dc\.date|(?:csrf|msapplication|apple|mobile|fb|google|yandex)\b(?!-(?:itunes|play)-app).*|"
    r".*verification",
    re.IGNORECASE,
)
# Names of what is made anew for each visit or release; only if the value looks drawn, too.
VOLATILE = re.compile(
    r".*token|__viewstate|__eventvalidation|(?:session|request|trace|span|visitor|build)[-_]?id|sid|etag",
    re.IGNORECASE,
)
# What says only when a page was last made; only if the value is a date or time: whether a plant is
# genetically modified is no date.
MADE = re.compile(r".*(?:date_?modified|modified_?(?:time|date)?|updated_time)", re.IGNORECASE)
# Drawn are letters and digits that take turns as in no words, or are hexadecimal: what urls/key.py
# calls a token. But not where a coin has its contract, which has one of these forms.
_TURN = up_to_a_turn(r"\w+/=.:-")
_CONTRACT = r"0x[0-9a-fA-F]{40}|T[1-9A-HJ-NP-Za-km-z]{33}|[1-9A-HJ-NP-Za-km-z]{43,44}"
DRAWN = re.compile(
    rf"(?!(?:{_CONTRACT})\Z)(?:(?=(?:{_TURN}){{{TURNS}}})[\w+/=.:-]{{16,}}|"
    rf"(?=[0-9a-fA-F]{{16}})(?i:{HEXADECIMAL.pattern}))"
)
CLOCK = re.compile(
    r"\d{10}|\d{13}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
)
MAX_CLOCK = 64  # characters, more than any of these has
DATED = re.compile(
    rf"{CLOCK.pattern}|\d{{4}}-\d\d-\d\d|"
    r"(?:[A-Z][a-z]{2}, )?\d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d(?::\d\d)? (?:[A-Z]{1,3}|[+-]\d{4})"
)
# A page may be that old in a cache, and clocks may differ that much.
AN_HOUR_S, A_MINUTE_S = 3600.0, 60.0

# What is made anew for each visit even if it is short.
SECRET = re.compile(r".*(?:nonce|csrf|xsrf)(?:[-_]?(?:token|middlewaretoken))?", re.IGNORECASE)
SHORT_DRAWN = re.compile(rf"(?={_TURN})[\w+/=.:-]{{8,}}")
UNSHOWN = frozenset({"style", "link", "meta", "base", "head"})
# Attributes by which elements find each other: often drawn, and they say nothing.
NAMING = frozenset(
    (
        *("id", "for", "nonce", "integrity", "headers", "list", "form", "aria-controls"),
        *("aria-owns", "aria-labelledby", "aria-describedby", "aria-activedescendant"),
    )
)
# Classes of entries of a menu that say where the reader is.
WHERE_YOU_ARE = re.compile(
    r"(?:.*[-_])?(?:active|current|here|trail|open(?:ed)?|expanded)(?:[-_]\w+)*|(?:menu|nav)[-_].*",
    re.IGNORECASE,
)
# Arguments that only keep a file from being taken out of a cache; of a program's address, as in
# `/watch?v=` and `/thumb.php?t=`, they may say what is asked for.
CACHED_FILE = re.compile(
    r"\.(?:avif|bmp|css|gif|ico|jpe?g|m?js|json|mp[34]|otf|png|svg|ttf|webm|webp|woff2?)\?\S++",
    re.IGNORECASE,
)
# Names that arguments have for nothing else, also in a program's address: scripts against robots
# have one on each page.
DRAWN_NAMES = r"_|rnd|rand|random|cb|cache_?bust(?:er)?"
DRAWN_ARGUMENT = re.compile(rf"(?<=[?&;])(?:{DRAWN_NAMES})=[^&#]*&?", re.IGNORECASE)
UNCACHED = re.compile(rf"(?<=[?&;])(?:v|ver|t|ts|{DRAWN_NAMES})=[^&#]*&?", re.IGNORECASE)
# The tag of a script, and in it where that is loaded from, quoted values skipped. Linear: of each
# kind of quote one at most is never closed.
SCRIPT_TAG = re.compile(
    r"<script(?=[\s/])((?:[^>\"']++|\"[^\"]*+\"|'[^']*+'|[\"'])*+)", re.IGNORECASE
)
SOURCE = re.compile(
    r"(?<=[\s/\"'])src\s*+=\s*+(?:\"([^\"]*+)\"?|'([^']*+)'?|([^\s>]++))|\"[^\"]*+\"|'[^']*+'",
    re.IGNORECASE,
)

# What says no more where its spaces are kept.
IN_ONE_LINE = re.compile(r"(?:\S++ ?)*+")

# What a key may have that stands between keys in a path, or between path and value.
JOINING = re.compile(r"[.\[\s\"]")
BORDER = object()
# How values are written that would look like others: strings that look like none.
WRITTEN: dict[Any, str] = {
    BORDER: ",",
    **{
        word: f'"{word}"'
        for word in ("true", "false", "null", "NaN", "Infinity", "-Infinity", "{}", "[]", ",")
    },
}

_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)


class PageData(NamedTuple):
    """What a page says outside its text.

    heads         its title and its h1 headings; without an h1, what its markup calls the title
    lines         "path value", one for each value of JSON and markup, in the order of the page
    details       "name value", one for each string or number of what else scripts say, for each
                  attribute that says something by itself, for hidden text and for text of
                  which the spaces and line breaks are shown
    unread_chars  characters of its scripts in which no JSON was found
    """

    heads: list[str]
    lines: list[str]
    details: list[str]
    unread_chars: int


def page_data(root: etree._Element, url: str, body: bytes) -> PageData:
    """The data of a page: its tree, its URL, and the page as it came. O(nodes + characters).

    Raises OverBudget for JSON in a script of more than MAX_SCRIPT characters or MAX_VALUES values,
    for a title or heading of more than MAX_HEAD, for paths of many times the page's bytes, and for
    more than MAX_SAID values.
    """
    heads: list[str] = []
    visit, room = _Visit(url), PATHS_FREE + PATHS_GROWTH * len(body)
    lines, details = _Lines(visit, room), _Lines(visit, room)
    unread_chars, has_h1 = 0, False
    for tag, text, name, id in kernels.markup.said(root):
        match tag:
            case "script":
                unread_chars += _add_script(lines, details, text, name, id)
            case "meta":
                if id.lower() == "refresh":
                    if target := text.partition("=")[2].strip(" \t\"'"):
                        details.add("meta.refresh", id, target)
                elif name and not _is_technical(name):
                    lines.add(f"meta.{name}", name, text)
            case "itemprop":
                lines.add(f"itemprop.{name}", name, text)
            case "h1":
                has_h1 = True
                heads.append(_head(tag, text))
            case "title" if name == "head":
                heads.append(_head(tag, text))
            case "div":
                if not has_h1:
                    heads.append(_head(tag, text))
            case "pre":
                shown = text.replace("\r\n", "\n").removeprefix("\n").rstrip()
                if not IN_ONE_LINE.fullmatch(shown):
                    details.extend((f"pre {shown}",), len("pre"))
            case "style":
                details.found.append(f"style {text or None}")
            case _:
                details.add(tag, tag, text)
    _add_details(details, visit, body)
    return PageData(heads, lines.found, details.found, unread_chars)


def _add_details(details: _Lines, visit: _Visit, body: bytes) -> None:
    """The attributes by which pages of any length are told apart."""
    for lines, n_of_names, unsure in kernels.markup.details(body, visit.urls, lasting_classes):
        if lines:
            details.extend(lines, n_of_names)
        if unsure:
            element, name, value = unsure
            if name == "onclick":  # code, which names the page as it is: to print, to share it
                value = value.replace(visit.urls[0], "*")
            details.add(f"{element}.{name}", name, visit.unshared(_lasting_url(value)))


def _lasting_url(value: str) -> str:
    """A value without the arguments by which a file passes by a cache."""
    if "=" in value and len(value) <= AT_ONCE:
        return CACHED_FILE.sub(lambda file: UNCACHED.sub("", file[0]), value)
    return value


def script_sources(html: str, url: str) -> list[str]:
    """Where the scripts of a page are loaded from, in order, whatever the visit. O(len(html))."""
    visit = _Visit(url)
    return [
        _lasting_source(source[source.lastindex], visit)
        for tag in SCRIPT_TAG.finditer(html)
        for source in SOURCE.finditer(tag[1])
        if source.lastindex
    ]


def _lasting_source(source: str, visit: _Visit) -> str:
    lasting = _lasting_url(source)
    if "=" in lasting and len(lasting) <= AT_ONCE:
        lasting = DRAWN_ARGUMENT.sub("", lasting)
    return visit.unshared(lasting)


def attribute_lines(root: etree._Element, url: str) -> list[str]:
    """The attributes of a page's elements, but for NAMING; of scripts where they are loaded from.

    O(nodes).
    """
    visit = _Visit(url)
    lines = _Lines(visit)
    for element in root.iter(etree.Element):
        tag = element.tag
        if tag in UNSHOWN:
            continue
        if tag == "script":
            if source := element.get("src"):
                lines.add("script.src", "src", _lasting_source(source, visit))
            continue
        tag = tag[-MAX_PATH:]
        for name, value in element.attrib.items():
            if name not in NAMING:
                key = element.get("name", name) if name == "value" else name
                lines.add(f"{tag}.{name}", key, visit.unshared(value))
    return lines.found


def _head(tag: str, text: str) -> str:
    if len(text) > MAX_HEAD:
        raise OverBudget(f"a {tag} of {len(text)} characters, at most {MAX_HEAD}")
    return squeezed(text)


class _Visit:
    """What tells of a visit that is under way: the page's URL and the time."""

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self.urls = _bare(url), path.rstrip("/")  # the page's, and the path in it, without a slash

    @cached_property
    def _quoted(self) -> str:
        return quote(self._url, safe="")

    def unshared(self, value: str) -> str:
        """A value without the page's URL, which buttons to share the page have quoted."""
        return value.replace(self._quoted, "*") if "%" in value else value

    def echoes(self, text: str) -> bool:
        """Whether a text, which is unsure, is the page's URL or the time."""
        if "/" in text:  # which no time has
            return _bare(text) in self.urls
        return may_be_a_time(text) and self._is_now(text)

    def _is_now(self, text: str) -> bool:
        try:
            if text.isdigit():
                said = int(text) / (1000 if len(text) == 13 else 1)
            else:
                moment = datetime.fromisoformat(text)
                said = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return False
        return -AN_HOUR_S <= said - time.time() <= A_MINUTE_S


class _Lines:
    """Collects lines, without what echoes the visit: the page's URL, times, drawn tokens."""

    def __init__(self, visit: _Visit, room: float = inf) -> None:
        """room: characters that the paths of all lines may have. Beyond it, OverBudget."""
        self.found: list[str] = []
        self._visit = visit
        self._room = room

    def add(self, path: str, key: str, value: Any) -> None:
        """Add a value; key: the name by which it may be known as one of the visit."""
        text = lasting_text(key, value)
        if text is not None and not (is_unsure(text) and self._visit.echoes(text)):
            self.extend((f"{path} {text}",), len(path))

    def extend(self, lines: Sequence[str], n_of_paths: int) -> None:
        """Add lines as they are, whose paths have so many characters."""
        self._room -= n_of_paths
        if self._room < 0:
            raise OverBudget("names in front of values have many times the bytes of the page")
        self.found += lines
        if len(self.found) > MAX_SAID:
            raise OverBudget(f"more than {MAX_SAID} values in markup or scripts")

    def add_kept(self, kept: _Kept) -> None:
        """Add the lines of a script that was read before."""
        if echoing := {n for n, text in kept.unsure if self._visit.echoes(text)}:
            lines = [line for n, line in enumerate(kept.lines) if n not in echoing]
            self.extend(lines, kept.n_of_paths)
        else:
            self.extend(kept.lines, kept.n_of_paths)


class _Kept:
    """Lines as _Lines collects them, whatever the visit; written to while a script is read."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.n_of_paths = 0
        self.unsure: list[tuple[int, str]] = []  # which lines may echo the visit, and their values

    def add(self, path: str, key: str, value: Any) -> None:
        """See _Lines."""
        text = lasting_text(key, value)
        if text is not None:
            if is_unsure(text):
                self.unsure.append((len(self.lines), text))
            self.lines.append(f"{path} {text}")
            self.n_of_paths += len(path)


def lasting_text(key: str, value: Any) -> str | None:
    """A value as it stands in a line; None if it was made anew for the visit, by name and looks."""
    text = squeezed(value) if isinstance(value, str) else json.dumps(value)
    if len(text) <= MAX_TOKEN and len(key) <= MAX_KEY:
        is_made_anew = names_of_the_visit(key)
        if is_made_anew and is_made_anew(text):
            return None
    return text


def is_unsure(text: str) -> bool:
    """Whether a value may be the page's URL or the time."""
    return "/" in text or (text[:1].isdigit() and may_be_a_time(text))


def may_be_a_time(text: str) -> bool:
    return len(text) <= MAX_CLOCK and CLOCK.fullmatch(text) is not None


@lru_cache(maxsize=1024)  # a site has the same ones on each page
def _is_technical(name: str) -> bool:
    return len(name) <= MAX_KEY and TECHNICAL.fullmatch(name) is not None


@lru_cache(maxsize=1024)  # the entries of a list have the same ones
def lasting_classes(names: str) -> str:
    """The classes of an entry of a list, without those that say where in a menu the reader is."""
    return " ".join(name for name in names.split() if not WHERE_YOU_ARE.fullmatch(name))


@lru_cache(maxsize=4096)  # a list has one name for all its values
def names_of_the_visit(key: str) -> Callable[[str], object] | None:
    """What tells a value of this name that is made anew for each visit; None for other names."""
    if MADE.fullmatch(key):
        return DATED.fullmatch
    if SECRET.fullmatch(key):
        return SHORT_DRAWN.fullmatch
    return DRAWN.fullmatch if VOLATILE.fullmatch(key) else None


def _bare(url: str) -> str:
    """A URL without scheme, fragment and final slash."""
    bare = url.partition("#")[0] if "#" in url else url
    return bare.partition("://")[2].rstrip("/") if "://" in bare else bare.rstrip("/")


def squeezed(text: str) -> str:
    """A text with one space for each run of whitespace, and none at its ends."""
    if len(text) <= AT_ONCE:
        return " ".join(text.split())
    found: list[str] = []
    is_apart = False
    for at in range(0, len(text), AT_ONCE):
        piece = text[at : at + AT_ONCE]
        is_apart = is_apart or piece[0].isspace()
        if words := " ".join(piece.split()):
            found += [" ", words] if found and is_apart else [words]
            is_apart = piece[-1].isspace()
    return "".join(found)


def _add_script(lines: _Lines, code: _Lines, text: str, kind: str, id: str) -> int:
    """The JSON of a script, and the literals of the rest; how many characters hold no JSON."""
    kind = kind[:MAX_KEY]
    known = _remembered(text, kind, id) if len(text) + len(id) <= MAX_REMEMBERED else None
    if known is None:
        return _read_script(lines.add, code.add, text, kind, id)
    lines.add_kept(known[0])
    code.add_kept(known[1])
    return known[2]


@lru_cache(maxsize=256)
def _remembered(text: str, kind: str, id: str) -> tuple[_Kept, _Kept, int] | None:
    """What _add_script adds and returns; None where it is too much to be remembered."""
    data, code = _Kept(), _Kept()
    unread_chars = _read_script(data.add, code.add, text, kind, id)
    said = data.lines + code.lines
    if len(said) > MAX_LINES or sum(map(len, said)) > MAX_CHARS:
        return None
    return data, code, unread_chars


Add = Callable[[str, str, Any], None]  # of path, key and value


def _read_script(add_data: Add, add_code: Add, text: str, kind: str, id: str) -> int:
    """Tell what a script says; how many of its characters hold no JSON."""
    is_code = _is_code(kind.strip(), text)
    is_json = JSON_TYPE.search(kind) is not None or (
        not is_code and text.lstrip()[:1] in ("{", "[")
    )
    if kind.strip().lower() in RULES_OF_BROWSERS:
        return 0
    if not (is_json or is_code):  # a template, a formula: whatever reads it may read all of it
        add_code("script", kind, text)
        return 0
    at, rest = 0, []
    for name, value, start, end in _json_values(text):
        for path, key, leaf in _leaves(value, name or id or kind):
            add_data(path, key, leaf)
        rest.append(text[at:start])
        at = end
    unread = "".join([*rest, text[at:]]).strip()
    for name, literal in literals(unread):
        add_code(name, name, literal)
    return 0 if is_json else len(unread)


def _is_code(kind: str, text: str) -> bool:
    """Whether a script of a type is one that browsers run, now or later."""
    if kind.lower() == WAITING_TYPE:
        return CODE_BEGINS.match(text) is not None
    return SCRIPT_TYPE.fullmatch(kind) is not None


def _json_values(script: str) -> Iterator[tuple[str, Any, int, int]]:
    """JSON values of a script, each with the name it is given, its start and its end."""
    at = rescanned = 0
    pattern = JSON_BEGINS
    if "JSON.parse" not in script and script.lstrip()[:1] not in ("[", "{"):
        pattern = VALUE_BEGINS
    readable = _readable_from(script)
    while rescanned < MAX_RESCANNED and (begins := _searched(pattern, script, at)):
        start = begins.end()
        if start < readable:
            raise OverBudget(
                f"JSON of {len(script) - start} characters, at most {MAX_SCRIPT} and {MAX_VALUES} "
                f"values"
            )
        try:
            value, at = _decoded(script, start)
        except (ValueError, RecursionError):
            at = start + 1
            rescanned += at
        else:
            before = script[max(0, begins.start() - MAX_NAME) : begins.start()]
            name = GIVEN_NAME.match(before[::-1])
            yield name[1][::-1] if name else "", value, start, at


def _readable_from(script: str) -> int:
    """From where on nothing in a script can be JSON of too many characters or values. O(n)."""
    at, n_values = len(script), 0
    if at <= MAX_VALUES:
        return 0
    while at > 0 and len(script) - at < MAX_SCRIPT:
        begin = max(0, at - AT_ONCE // 16)
        n_values += sum(script.count(mark, begin, at) for mark in ",[{")
        if n_values > MAX_VALUES:
            break
        at = begin
    return at


def _searched(pattern: re.Pattern[str], script: str, at: int) -> re.Match[str] | None:
    """Where JSON may begin, looked for in one part of the script after the other."""
    for start in range(at, len(script), AT_ONCE):
        if found := pattern.search(script, start, start + AT_ONCE + MAX_BEGIN):
            return found
    return None


def _decoded(script: str, start: int) -> tuple[Any, int]:
    """The JSON that begins at a place, or is in the string that does; and where that ends.

    Raises ValueError, RecursionError.
    """
    if script[start] in "[{":
        return _DECODER.raw_decode(script, start)
    string = STRING.match(script, start)
    if string is None:
        raise ValueError("a string without an end")
    text = ESCAPE.sub(_unescaped, string[1] or string[2] or "")
    return _DECODER.decode(text), string.end()


def _unescaped(escape: re.Match[str]) -> str:
    """What an escape in a script's string stands for."""
    code = escape[1] or escape[2] or escape[3]
    return chr(int(code, 16)) if code else ESCAPED.get(escape[4], escape[4])


def _leaves(value: Any, name: str) -> Iterable[tuple[str, str, Any]]:
    """Path, last key and value of each leaf, as which empty lists and objects count, and a border
    between lists or objects that follow each other in a list; none of a value that is empty.

    Keys in order, whatever order they are sent in.
    """
    left = [] if value in ([], {}) else [(name, name, value)]
    while left:
        path, key, value = left.pop()
        if isinstance(value, dict):
            if not value:
                yield path, key, "{}"
            left += (
                (f"{path}.{json.dumps(k) if JOINING.search(k) else k}"[-MAX_PATH:], k, value[k])
                for k in _backwards(value)
            )
        elif isinstance(value, list):
            if not value:
                yield path, key, "[]"
            left += _elements(f"{path}[]"[-MAX_PATH:], key, value)
        else:
            yield path, key, WRITTEN.get(value, value)


def _elements(path: str, key: str, values: list[Any]) -> Iterator[tuple[str, str, Any]]:
    """The elements of a list backwards, with borders, see _leaves()."""
    was_nested = False
    for value in reversed(values):
        is_nested = isinstance(value, (dict, list))
        if is_nested and was_nested:
            yield path, key, BORDER
        was_nested = is_nested
        yield path, key, value


def _backwards(keys: Iterable[str]) -> Iterable[str]:
    """Keys sorted backwards: of very many a part at a time."""
    parts = [sorted(part, reverse=True) for part in _batched(keys, KEYS_AT_ONCE)]
    return parts[0] if len(parts) == 1 else merge(*parts, reverse=True)


def _batched(keys: Iterable[str], n: int) -> Iterator[list[str]]:
    left = iter(keys)
    while part := list(islice(left, n)):
        yield part

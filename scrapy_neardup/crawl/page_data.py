"""What a page says outside its visible text: JSON in scripts, microdata, meta tags, attributes.

Scripts are searched for JSON values, never executed. Each value becomes a line: the path to it,
a space, the value.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from heapq import merge
from itertools import islice
from math import inf
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from lxml import etree

import scrapy_neardup.kernels as kernels
from scrapy_neardup.crawl.literals import literals
from scrapy_neardup.errors import OverBudget

# Where JSON may begin in a script. Later arguments of a function are not searched: of those, a
# page could make the same characters be read again and again.
JSON_BEGINS = re.compile(r"""(?:\A|[=(])\s*(?=[\[{])|(?:=\s*)?\bJSON\.parse\(\s*(?=["'])""")
# The same of a script that neither begins with JSON nor names JSON.parse; four times as fast.
VALUE_BEGINS = re.compile(r"[=(]\s*(?=[\[{])")
# A string of a script. From however many places it is tried, no text is searched more than twice
# in vain: the place itself has the quote that would end the string before.
STRING = re.compile(r""""((?:[^"\\]|\\.)*+)"|'((?:[^'\\]|\\.)*+)'""", re.DOTALL)
ESCAPE = re.compile(
    r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|u\{([0-9a-f]{1,6})\}|(.))", re.DOTALL | re.IGNORECASE
)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}
GIVEN_NAME = re.compile(r"([\w$.]*)\s*\Z")
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
MAX_ITEMPROPS = 50_000  # found in one call
# Lines of what a page says, of data and of details each: they are freed in one go with its tree.
MAX_SAID = 150_000
AT_ONCE = 1 << 17  # characters that a pattern is searched in, or that are split
KEYS_AT_ONCE = 1 << 14  # keys sorted in one call
MAX_TOKEN = 1 << 20  # characters; longer values are what the page says, whatever they look like
MAX_BEGIN = 1 << 12  # characters between a name and its JSON
JSON_TYPE = re.compile(r"json\b", re.IGNORECASE)
# Code, also where a consent banner or a cache has it wait. What has another type is read by it.
SCRIPT_TYPE = re.compile(r"(?:module|text/(?:plain|babel|jsx)|.*script\b.*+)?", re.IGNORECASE)
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
# What says only when a page was last made.
MADE = re.compile(r".*(?:date_?modified|modified_?(?:time|date)?|updated_time)", re.IGNORECASE)
DRAWN = re.compile(r"(?!0x[0-9a-fA-F]{40}\Z)[\w+/=.:-]{16,}")  # not where a coin has its contract
CLOCK = re.compile(
    r"\d{10}|\d{13}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
)
# A page may be that old in a cache, and clocks may differ that much.
AN_HOUR_S, A_MINUTE_S = 3600.0, 60.0

# What is made anew for each visit even if it is short.
SECRET = re.compile(r".*(?:nonce|csrf|xsrf)(?:[-_]?(?:token|middlewaretoken))?", re.IGNORECASE)
SHORT_DRAWN = re.compile(r"[\w+/=.:-]{8,}")
ANYTHING = re.compile(".*+", re.DOTALL)
VALUES_OF_ITEMPROP = ("content", "datetime", "href", "src", "value")
UNSHOWN = frozenset({"script", "style", "link", "meta", "base", "head"})
# Attributes by which elements find each other: often drawn, and they say nothing.
NAMING = frozenset(
    (
        *("id", "for", "nonce", "integrity", "headers", "list", "form", "aria-controls"),
        *("aria-owns", "aria-labelledby", "aria-describedby", "aria-activedescendant"),
    )
)
# Of these no text is seen.
HIDDEN = frozenset(
    {"noscript", "template", "style", "text", "tspan", "desc", "foreignobject", "foreignObject"}
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
UNCACHED = re.compile(
    r"(?<=[?&;])(?:v|ver|_|t|ts|rnd|rand|random|cb|cache_?bust(?:er)?)=[^&#]*&?", re.IGNORECASE
)

# What says no more where its spaces are kept.
IN_ONE_LINE = re.compile(r"(?:\S++ ?)*+")

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
    more than MAX_SAID values or MAX_ITEMPROPS elements of microdata.
    """
    heads: list[str] = []
    room = PATHS_FREE + PATHS_GROWTH * len(body)
    lines, details = _Lines(url, room), _Lines(url, room)
    nested: set[etree._Element] = set()
    unread_chars, has_h1 = 0, False
    for element in root.iter("script", "meta", "title", "h1", "pre", *HIDDEN):
        match element.tag:
            case "script":
                unread_chars += _add_script(lines, details, element)
            case "meta":
                _add_meta(lines, details, element)
            case "h1":
                has_h1 = True
                if element not in nested:  # else its text is that of the one around it, too
                    for inner in element.iterdescendants("h1"):
                        nested.add(inner)
                    heads.append(_head(element))
            case "pre":
                shown = text_in(element).strip().replace("\r\n", "\n")
                if not IN_ONE_LINE.fullmatch(shown):
                    details.append(f"pre {shown}", len("pre"))
            case "style":
                details.found.append(f"style {element.text}")
            case tag if tag in HIDDEN:
                if element not in nested:  # else it was read with the one around it
                    # Not set(): in one call over all of them it would hold Python's lock.
                    for inner in element.iterdescendants(*HIDDEN):
                        nested.add(inner)
                    details.add(tag, tag, text_in(element))
            case _ if element.getparent() is not None and element.getparent().tag == "head":
                heads.append(_head(element))
            case _ if element not in nested:  # of an image
                for inner in element.iterdescendants("title"):
                    nested.add(inner)
                details.add("title", "title", text_in(element))
    if not has_h1:
        heads += map(_head, _called_title(root))
    n_itemprops = body.count(b"itemprop")
    if n_itemprops > MAX_ITEMPROPS:
        raise OverBudget(f"{n_itemprops} times itemprop, at most {MAX_ITEMPROPS}")
    for element in _with_itemprop(root) if n_itemprops else ():
        _add_itemprop(lines, element)
    _add_details(details, body)
    return PageData(heads, lines.found, details.found, unread_chars)


def _add_details(details: _Lines, body: bytes) -> None:
    """The attributes by which pages of any length are told apart."""
    for said in kernels.markup.details(body):
        if isinstance(said, str):
            details.append(said, said.index(" "))
            continue
        element, name, value = said
        path = f"{element}.{name}"
        if element == "li" and name == "class":
            if lasting := lasting_classes(value):
                details.append(f"{path} {lasting}", len(path))
        else:
            if "=" in value and len(value) <= AT_ONCE:
                value = CACHED_FILE.sub(lambda file: UNCACHED.sub("", file[0]), value)
            details.add(path, name, details.unshared(value))


def attribute_lines(root: etree._Element, url: str) -> list[str]:
    """The attributes of a page's elements, but for NAMING. O(nodes)."""
    lines = _Lines(url)
    for element in root.iter(etree.Element):
        tag = element.tag
        if tag in UNSHOWN:
            continue
        tag = tag[-MAX_PATH:]
        for name, value in element.attrib.items():
            if name not in NAMING:
                key = element.get("name", name) if name == "value" else name
                lines.add(f"{tag}.{name}", key, lines.unshared(value))
    return lines.found


def _head(element: etree._Element) -> str:
    text = text_in(element)
    if len(text) > MAX_HEAD:
        raise OverBudget(f"a {element.tag} of {len(text)} characters, at most {MAX_HEAD}")
    return squeezed(text)


def text_in(element: etree._Element) -> str:
    """All text in an element. Of very many nodes, itertext() would hold Python's lock."""
    text: str = etree.tostring(element, method="text", encoding="unicode", with_tail=False)
    return text


_with_itemprop = etree.XPath("//*[@itemprop]")
# Doxygen names what a page is about there, and nowhere else: <title> is the same on all lists of
# members.
_called_title = etree.XPath("/descendant::div[@class='title'][1]")


class _Lines:
    """Collects lines, without what echoes the visit: the page's URL, times, drawn tokens."""

    def __init__(self, url: str, room: float = inf) -> None:
        """room: characters that the paths of all lines may have. Beyond it, OverBudget."""
        self.found: list[str] = []
        self._url = url
        self._room = room
        self._now = time.time()

    @cached_property
    def _echoes(self) -> set[str]:
        parts = urlsplit(self._url)
        path = parts.path + (parts.query and f"?{parts.query}")
        return {_bare(self._url), path.rstrip("/")}

    @cached_property
    def _quoted(self) -> str:
        return quote(self._url, safe="")

    def unshared(self, value: str) -> str:
        """A value without the page's URL, which buttons to share the page have quoted."""
        return value.replace(self._quoted, "*") if "%" in value else value

    def add(self, path: str, key: str, value: Any) -> None:
        """Add a value; key: the name by which it may be known as one of the visit."""
        text = squeezed(value) if isinstance(value, str) else json.dumps(value)
        if not self._is_of_the_visit(key, text):
            self.append(f"{path} {text}", len(path))

    def append(self, line: str, n_of_path: int) -> None:
        """Add a line as it is, whose path has so many characters."""
        self._room -= n_of_path
        if self._room < 0:
            raise OverBudget("names in front of values have many times the bytes of the page")
        if len(self.found) >= MAX_SAID:
            raise OverBudget(f"more than {MAX_SAID} values in markup or scripts")
        self.found.append(line)

    def _is_of_the_visit(self, key: str, text: str) -> bool:
        if "/" in text and _bare(text) in self._echoes:
            return True
        if len(text) > MAX_TOKEN:
            return False
        if len(key) <= MAX_KEY and (drawn := names_of_the_visit(key)) and drawn.fullmatch(text):
            return True
        return CLOCK.fullmatch(text) is not None and self._is_now(text)

    def _is_now(self, text: str) -> bool:
        try:
            if text.isdigit():
                said = int(text) / (1000 if len(text) == 13 else 1)
            else:
                moment = datetime.fromisoformat(text)
                said = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return False
        return self._now - AN_HOUR_S <= said <= self._now + A_MINUTE_S


@lru_cache(maxsize=1024)  # the entries of a list have the same ones
def lasting_classes(names: str) -> str:
    """The classes of an entry of a list, without those that say where in a menu the reader is."""
    return " ".join(name for name in names.split() if not WHERE_YOU_ARE.fullmatch(name))


@lru_cache(maxsize=4096)  # a list has one name for all its values
def names_of_the_visit(key: str) -> re.Pattern[str] | None:
    """How a value of this name looks that is made anew for each visit; None for other names."""
    if MADE.fullmatch(key):
        return ANYTHING
    if SECRET.fullmatch(key):
        return SHORT_DRAWN
    return DRAWN if VOLATILE.fullmatch(key) else None


def _bare(url: str) -> str:
    """A URL without scheme, fragment and final slash."""
    bare = url.partition("#")[0]
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


def _add_script(lines: _Lines, code: _Lines, element: etree._Element) -> int:
    """The JSON of a script, and the literals of the rest; how many characters hold no JSON."""
    text, kind = element.text or "", element.get("type", "")[:MAX_KEY]
    is_code = SCRIPT_TYPE.fullmatch(kind.strip()) is not None
    is_json = JSON_TYPE.search(kind) is not None or (
        not is_code and text.lstrip()[:1] in ("{", "[")
    )
    if not text or kind.strip().lower() in RULES_OF_BROWSERS:
        return 0
    if not (is_json or is_code):  # a template, a formula: whatever reads it may read all of it
        code.add("script", kind, text)
        return 0
    at, rest = 0, []
    for name, value, start, end in _json_values(text):
        for path, key, leaf in _leaves(value, name or element.get("id", "") or kind):
            lines.add(path, key, leaf)
        rest.append(text[at:start])
        at = end
    unread = "".join([*rest, text[at:]]).strip()
    for name, literal in literals(unread):
        code.add(name, name, literal)
    return 0 if is_json else len(unread)


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
            name = GIVEN_NAME.search(before)
            yield name[1] if name else "", value, start, at


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
    """Path, last key and value of each leaf; keys in order, whatever order they are sent in."""
    left = [(name, name, value)]
    while left:
        path, key, value = left.pop()
        if isinstance(value, dict):
            left += ((f"{path}.{k}"[-MAX_PATH:], k, value[k]) for k in _backwards(value))
        elif isinstance(value, list):
            inside = f"{path}[]"[-MAX_PATH:]
            left += ((inside, key, one) for one in reversed(value))
        else:
            yield path, key, value


def _backwards(keys: Iterable[str]) -> Iterable[str]:
    """Keys sorted backwards: of very many a part at a time."""
    parts = [sorted(part, reverse=True) for part in _batched(keys, KEYS_AT_ONCE)]
    return parts[0] if len(parts) == 1 else merge(*parts, reverse=True)


def _batched(keys: Iterable[str], n: int) -> Iterator[list[str]]:
    left = iter(keys)
    while part := list(islice(left, n)):
        yield part


def _add_meta(lines: _Lines, details: _Lines, element: etree._Element) -> None:
    name = element.get("property") or element.get("name")
    content = element.get("content")
    if content and element.get("http-equiv", "").lower() == "refresh":
        name, content = "refresh", content.partition("=")[2].strip(" \t\"'")
        lines = details
    if name and content and (len(name) > MAX_KEY or not TECHNICAL.fullmatch(name)):
        lines.add(f"meta.{name}", name, content)


def _add_itemprop(lines: _Lines, element: etree._Element) -> None:
    name = element.get("itemprop")
    for attribute in VALUES_OF_ITEMPROP:
        if value := element.get(attribute):
            lines.add(f"itemprop.{name}", name, value)

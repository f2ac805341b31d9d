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
from functools import cached_property
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
# For each error the json module counts the lines before it. Characters so counted in a script,
# about 50 ms; what comes after them is not read.
MAX_RESCANNED = 1 << 27
# Characters that one call looks at, holding Python's lock: about 50 ms of JSON.
MAX_SCRIPT, MAX_HEAD = 1 << 21, 1 << 16
JSON_TYPE = re.compile(r"json\b", re.IGNORECASE)
SCRIPT_TYPE = re.compile(r"(?:module|(?:text|application)/(?:java|ecma)script\b.*+)?")
# Meta tags that say how to show or index a page, or when it was made; not what it says.
TECHNICAL = re.compile(
    r"viewport|charset|generator|robots|googlebot|bingbot|referrer|theme-color|color-scheme|"
    r"format-detection|handheldfriendly|mobileoptimized|x-ua-compatible|"
    r"date|dc\.date|(?:csrf|msapplication|apple|mobile|fb|google|yandex)\b.*|.*verification",
    re.IGNORECASE,
)
# Names of what is made anew for each visit or release; only if the value looks drawn, too.
VOLATILE = re.compile(
    r".*token|__viewstate|__eventvalidation|(?:session|request|trace|span|visitor|build)[-_]?id|sid|etag",
    re.IGNORECASE,
)
# What says only when a page was last made.
MADE = re.compile(r".*(?:date_?modified|modified_?(?:time|date)?|updated_time)", re.IGNORECASE)
DRAWN = re.compile(r"[\w+/=.:-]{16,}")
CLOCK = re.compile(
    r"\d{10}|\d{13}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
)
# A page may be that old in a cache, and clocks may differ that much.
AN_HOUR_S, A_MINUTE_S = 3600.0, 60.0

# What is made anew for each visit even if it is short.
SECRET = re.compile(r".*(?:nonce|csrf|xsrf)(?:[-_]?(?:token|middlewaretoken))?", re.IGNORECASE)
SHORT_DRAWN = re.compile(r"[\w+/=.:-]{8,}")
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
HIDDEN = frozenset({"noscript", "template", "style", "text", "tspan", "desc"})
# Attributes that say nothing of the visit, but for URLs in them; most have one of these names.
LASTING = frozenset(
    (
        *("", "alt", "aria-label", "checked", "class", "coords", "d", "href", "lang", "points"),
        *("poster", "selected", "src", "srcset", "style", "title", "transform"),
    )
)
# Arguments that only keep a file from being taken out of a cache.
UNCACHED = re.compile(
    r"(?<=[?&;])(?:v|ver|_|t|ts|rnd|rand|random|cb|cache_?bust(?:er)?)=[^&#]*&?", re.IGNORECASE
)

_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, strict=False)


class PageData(NamedTuple):
    """What a page says outside its text.

    heads         its title and its h1 headings
    lines         "path value", one for each value of JSON and markup, in the order of the page
    details       "name value", one for each string or number of what else scripts say, for each
                  attribute that says something by itself, and for hidden text
    unread_chars  characters of its scripts in which no JSON was found
    """

    heads: list[str]
    lines: list[str]
    details: list[str]
    unread_chars: int


def page_data(root: etree._Element, url: str, body: bytes) -> PageData:
    """The data of a page: its tree, its URL, and the page as it came. O(nodes + characters).

    Raises OverBudget for JSON in a script of more than MAX_SCRIPT characters, and for a title or
    heading of more than MAX_HEAD.
    """
    heads: list[str] = []
    lines, details = _Lines(url), _Lines(url)
    nested: set[etree._Element] = set()
    unread_chars = 0
    for element in root.iter("script", "meta", "title", "h1", *HIDDEN):
        match element.tag:
            case "script":
                unread_chars += _add_script(lines, details, element)
            case "meta":
                _add_meta(lines, element)
            case "h1":
                heads.append(_head(element))
            case "style":
                details.found.append(f"style {element.text}")
            case tag if tag in HIDDEN:
                if element not in nested:  # else it was read with the one around it
                    nested.update(element.iterdescendants(*HIDDEN))
                    details.add(tag, tag, "".join(element.itertext()))
            case _ if element.getparent() is not None and element.getparent().tag == "head":
                heads.append(_head(element))
    for element in _with_itemprop(root) if b"itemprop" in body else ():
        _add_itemprop(lines, element)
    _add_details(details, body, url)
    return PageData(heads, lines.found, details.found, unread_chars)


def _add_details(details: _Lines, body: bytes, url: str) -> None:
    """The attributes by which pages of any length are told apart."""
    here = quote(url, safe="")
    for element, name, value in kernels.markup.details(body):
        if name in LASTING and "/" not in value:
            details.found.append(f"{element}.{name} {value}")
        else:
            said = UNCACHED.sub("", value).replace(here, "*")  # to share the page
            details.add(f"{element}.{name}", name, said)


def attribute_lines(root: etree._Element, url: str) -> list[str]:
    """The attributes of a page's elements, but for NAMING. O(nodes)."""
    lines, here = _Lines(url), quote(url, safe="")
    for element in root.iter(etree.Element):
        tag = element.tag
        if tag in UNSHOWN:
            continue
        for name, value in element.attrib.items():
            if name not in NAMING:
                key = element.get("name", name) if name == "value" else name
                lines.add(f"{tag}.{name}", key, value.replace(here, "*"))  # to share the page
    return lines.found


def _head(element: etree._Element) -> str:
    text = "".join(element.itertext())
    if len(text) > MAX_HEAD:
        raise OverBudget(f"a {element.tag} of {len(text)} characters, at most {MAX_HEAD}")
    return _squeezed(text)


_with_itemprop = etree.XPath("//*[@itemprop]")


class _Lines:
    """Collects lines, without what echoes the visit: the page's URL, times, drawn tokens."""

    def __init__(self, url: str) -> None:
        self.found: list[str] = []
        self._url = url
        self._now = time.time()

    @cached_property
    def _echoes(self) -> set[str]:
        parts = urlsplit(self._url)
        path = parts.path + (parts.query and f"?{parts.query}")
        return {_bare(self._url), path.rstrip("/")}

    def add(self, path: str, key: str, value: Any) -> None:
        """Add a value; key: the name by which it may be known as one of the visit."""
        text = _squeezed(value) if isinstance(value, str) else json.dumps(value)
        if not self._is_of_the_visit(key, text):
            self.found.append(f"{path} {text}")

    def _is_of_the_visit(self, key: str, text: str) -> bool:
        if "/" in text and _bare(text) in self._echoes:
            return True
        if MADE.fullmatch(key) or (VOLATILE.fullmatch(key) and DRAWN.fullmatch(text)):
            return True
        if SECRET.fullmatch(key) and SHORT_DRAWN.fullmatch(text):
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


def _bare(url: str) -> str:
    """A URL without scheme, fragment and final slash."""
    bare = url.partition("#")[0]
    return bare.partition("://")[2].rstrip("/") if "://" in bare else bare.rstrip("/")


def _squeezed(text: str) -> str:
    return " ".join(text.split())


def _add_script(lines: _Lines, code: _Lines, element: etree._Element) -> int:
    """The JSON of a script, and the literals of the rest; how many characters hold no JSON."""
    text, kind = element.text or "", element.get("type", "")
    is_json = JSON_TYPE.search(kind) is not None
    if not text or not (is_json or SCRIPT_TYPE.fullmatch(kind.strip())):
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
    while rescanned < MAX_RESCANNED and (begins := pattern.search(script, at)):
        start = begins.end()
        if len(script) - start > MAX_SCRIPT:
            raise OverBudget(f"JSON of {len(script) - start} characters, at most {MAX_SCRIPT}")
        try:
            value, at = _decoded(script, start)
        except (ValueError, RecursionError):
            at = start + 1
            rescanned += at
        else:
            before = script[max(0, begins.start() - MAX_NAME) : begins.start()]
            name = GIVEN_NAME.search(before)
            yield name[1] if name else "", value, start, at


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
            keys = sorted(value, reverse=True)
            left += ((f"{path}.{k}"[-MAX_PATH:], k, value[k]) for k in keys)
        elif isinstance(value, list):
            inside = f"{path}[]"[-MAX_PATH:]
            left += ((inside, key, one) for one in reversed(value))
        else:
            yield path, key, value


def _add_meta(lines: _Lines, element: etree._Element) -> None:
    name = element.get("property") or element.get("name")
    content = element.get("content")
    if name and content and not TECHNICAL.fullmatch(name):
        lines.add(f"meta.{name}", name, content)


def _add_itemprop(lines: _Lines, element: etree._Element) -> None:
    name = element.get("itemprop")
    for attribute in VALUES_OF_ITEMPROP:
        if value := element.get(attribute):
            lines.add(f"itemprop.{name}", name, value)

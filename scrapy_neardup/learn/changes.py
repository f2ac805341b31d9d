"""Changes of a URL that may not matter: what can be taken out of it, and what it then says."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from scrapy_neardup.learn.url_parts import KeyParts, value_class
from scrapy_neardup.urls.profiles import MOBILE_LABELS, desktop

INDEX = re.compile(r"(?:index|default)\.[a-z]{3,5}", re.IGNORECASE)
ABSENT = ""  # as the twin's value: it has none


class UrlChange(NamedTuple):
    """One way in which two URLs differ.

    what   "argument", "matrix", "segment", "repeated", "order", "case", "slash", "index" or "host"
    where  the name of the argument or matrix parameter, the segment's place; "" for others
    value  what the page's URL has there, as value_class() has it
    twin   what its twin's URL has there; ABSENT: nothing
    """

    what: str
    where: str
    value: str
    twin: str = ABSENT


class Variant:
    """A URL, and what is left of it without one of its parts.

    what, where, kind  as in Change; kind is the class of the value
    value              what was taken out
    text               of the rest
    place              by which URLs are remembered that have anything in the place of the value
    """

    __slots__ = ("_rest", "kind", "place", "text", "value", "what", "where")

    def __init__(
        self,
        what: str,
        where: str,
        value: str,
        text: str,
        rest: tuple[str, tuple[str, ...], tuple[str, ...]],
    ) -> None:
        """Made for each part of each URL: what is rarely needed is computed when it is."""
        self.what = what
        self.where = where
        self.kind = value_class(value)
        self.value = value
        self.text = text
        self.place = place_of(text, what, where)
        self._rest = rest

    @property
    def rest(self) -> KeyParts:
        """The parts that are left."""
        return KeyParts(*self._rest)

    @property
    def can_differ(self) -> bool:
        """Whether a twin may have another value in its place; a word as a segment is a name."""
        is_named = self.what in ("argument", "matrix")
        return is_named or (self.what == "segment" and self.kind[:1] == "{")

    def change(self, twin: str = ABSENT) -> UrlChange:
        """From what the twin has to what the URL has."""
        return UrlChange(self.what, self.where, self.kind, twin)


def place_of(rest: str, what: str, where: str) -> str:
    """What a place in URLs is called that are otherwise the same; rest: their text without it."""
    return f"{rest} {what} {where}"


@lru_cache(maxsize=16)  # a page's URL is looked at several times, and then no more
def variants(url: KeyParts) -> list[Variant]:
    """Everything that can be taken out of a URL, one thing at a time; not to be changed."""
    path = f"{url.host}/{'/'.join(url.segments)}"
    query = f"?{'&'.join(url.arguments)}" if url.arguments else ""
    found = _without_argument(url, path) if query else []
    if ";" in path:
        found += _without_matrix(url, query)
    return found + _without_segment(url, query) + _spelt_otherwise(url, query)


def _without_argument(url: KeyParts, path: str) -> list[Variant]:
    host, segments, arguments = url
    found, names = [], [argument.partition("=")[0] for argument in arguments]
    for i, name in enumerate(names):
        left = arguments[:i] + arguments[i + 1 :]
        text = f"{path}?{'&'.join(left)}" if left else path
        value, rest = arguments[i][len(name) + 1 :], (host, segments, left)
        if names.count(name) == 1:
            found.append(Variant("argument", name, value, text, rest))
        elif name in names[:i]:
            found.append(Variant("repeated", name, "", text, rest))
    if names != sorted(names):
        ordered = tuple(sorted(arguments))
        text = f"{path}?{'&'.join(ordered)}"
        found.append(Variant("order", "", "", text, (host, segments, ordered)))
    return found


def _without_matrix(url: KeyParts, query: str) -> list[Variant]:
    """Without one of the parameters in the path, `;name=value`."""
    host, segments, arguments = url
    found = []
    for place, segment in enumerate(segments):
        name, *parameters = segment.split(";")
        for i, parameter in enumerate(parameters):
            where, equals, value = parameter.partition("=")
            if equals:
                left = ";".join([name, *parameters[:i], *parameters[i + 1 :]])
                rest = (*segments[:place], left, *segments[place + 1 :])
                text = f"{host}/{'/'.join(rest)}{query}"
                found.append(Variant("matrix", where, value, text, (host, rest, arguments)))
    return found


def _without_segment(url: KeyParts, query: str) -> list[Variant]:
    host, segments, arguments = url
    if len(segments) < 2 + (not segments[-1]):  # what is left would be the home page
        return []
    found = []
    for place, segment in enumerate(segments):
        if segment:
            left = segments[:place] + segments[place + 1 :]
            text = f"{host}/{'/'.join(left)}{query}"
            found.append(Variant("segment", str(place), segment, text, (host, left, arguments)))
    return found


def _spelt_otherwise(url: KeyParts, query: str) -> list[Variant]:
    host, segments, arguments = url
    *folders, last = segments
    found = []

    def add(what: str, value: str, host: str, segments: tuple[str, ...]) -> None:
        text = f"{host}/{'/'.join(segments)}{query}"
        found.append(Variant(what, "", value, text, (host, segments, arguments)))

    path = "/".join(segments)
    if path != (lower := path.lower()):
        add("case", "", host, tuple(lower.split("/")))
    if not last and folders:
        add("slash", "", host, tuple(folders))
    if INDEX.fullmatch(last):
        add("index", last, host, (*folders, ""))
    if (bare := bare_host(host)) != host:
        add("host", host[: -len(bare) - 1], bare, segments)
    return found


@lru_cache(maxsize=4096)
def bare_host(host: str) -> str:
    """A host without `www.`, `m.`, `mobile.`, `amp.`, where its suffix says that both are one's."""
    return desktop(host, (*MOBILE_LABELS, "amp"))


def told(change: UrlChange) -> str:
    """A change in words."""
    what, where, value, twin = change
    if what in ("argument", "matrix"):
        name = f";{where}" if what == "matrix" else where
        if twin == ABSENT:
            return f"{name}={value} shows what the URL without it shows"
        if twin == value:
            return f"the value of {name}={value} does not matter"
        return f"{name}={value} shows what {name}={twin} shows"
    if what == "segment":
        if twin == ABSENT:
            return f"/{value} as segment {int(where) + 1} shows what the URL without it shows"
        return f"/{value} as segment {int(where) + 1} does not matter"
    return {
        "repeated": f"only the first of several {where}= matters",
        "order": "the order of arguments does not matter",
        "case": "upper and lower case do not matter",
        "slash": "a slash at the end does not matter",
        "index": f"{value} is the folder",
        "host": f"{value}. in front of the host does not matter",
    }[what]

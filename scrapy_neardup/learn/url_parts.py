"""A URL's key, cut into its parts, and the shape that it shares with URLs of the same kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

MAX_SEGMENTS, MAX_ARGUMENTS = 12, 16  # URLs with more are not learnt from: traps have them
MAX_KEY = 500  # bytes of a URL's key
MAX_WORD = 12  # letters in a row; more of them may be a token without digits
WORD = re.compile(rf"[^\W\d_]{{0,{MAX_WORD}}}(?:[-_.~+][^\W\d_]{{1,{MAX_WORD}}}){{0,2}}|\d")
EXTENSION = re.compile(r"\.[a-z]{2,5}$")


class UrlParts(NamedTuple):
    """The parts of a key `host/path?query`.

    segments   of the path; the last is "" where the path ends in a slash
    arguments  `name=value`, in the order of the key
    """

    host: str
    segments: tuple[str, ...]
    arguments: tuple[str, ...]

    @property
    def text(self) -> str:
        """The key again."""
        path = f"{self.host}/{'/'.join(self.segments)}"
        return f"{path}?{'&'.join(self.arguments)}" if self.arguments else path

    @property
    def shape(self) -> str:
        """Host, first directory, depth and extension: `a.example/shop/*.html`.

        A first directory that is a word is part of the shape: on many hosts it is somebody's own.
        """
        segments = ["*"] * len(self.segments)
        last = len(segments) - 1
        if not self.segments[last]:
            segments[last] = ""
        elif found := EXTENSION.search(self.segments[last]):
            segments[last] += found[0]
        if last > (not self.segments[last]) and value_class(self.segments[0]) == self.segments[0]:
            segments[0] = self.segments[0]
        return f"{self.host}/{'/'.join(segments)}"

    def values(self) -> Iterator[tuple[str, str]]:
        """What tells URLs of a shape apart: place or name, and value; `?` for all names."""
        names = []
        for place, segment in enumerate(self.segments):
            if segment:
                yield f"/{place}", segment
        for argument in self.arguments:
            name, _, value = argument.partition("=")
            names.append(name)
            yield name, value
        yield "?", "&".join(names)


def cut(key: bytes) -> UrlParts | None:
    """The parts of a URL's key; None for one that is more than a URL, or has very many parts."""
    if len(key) > MAX_KEY:
        return None
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if " " in text or "#" in text:  # a method, a body, a key of the spider's, a fragment
        return None
    rest, _, query = text.partition("?")
    host, slash, path = rest.partition("/")
    segments = tuple(path.split("/"))
    arguments = tuple(query.split("&")) if query else ()
    if not slash or len(segments) > MAX_SEGMENTS or len(arguments) > MAX_ARGUMENTS:
        return None
    return UrlParts(host, segments, arguments)


@lru_cache(maxsize=4096)
def value_class(value: str) -> str:
    """A value by itself if it is a word or a digit; else `{n}`, `{id}` or `{text}`.

    Words name something, as in `lang=de`: what holds of one does not hold of another. Of what
    is numbered or drawn at random, one value stands for the others.
    """
    if WORD.fullmatch(value) or value.startswith("{"):  # a class already: no key has a brace
        return value
    if value.isdigit():
        return "{n}"
    return "{id}" if any(map(str.isdigit, value)) else "{text}"

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
CLASSES = frozenset({"{n}", "{id}", "{text}"})
EXTENSION = re.compile(r"\.[a-z]{2,5}$")


class KeyParts(NamedTuple):
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
        return shape_of_url(self)

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

    def names(self) -> Iterator[str]:
        """Words that may say whose page it is: `/1=alice` or `user=alice`.

        They stand in folders and arguments. The last segment is the page's own name, and so is an
        argument without others.
        """
        folders = [f"/{place}={folder}" for place, folder in enumerate(self.segments) if folder]
        places = folders[:-1] + list(self.arguments if len(self.arguments) > 1 else ())
        return (place for place in places if is_name(place.partition("=")[2]))


@lru_cache(maxsize=64)  # of one page, and of what is left of it, it is asked several times
def shape_of_url(url: KeyParts) -> str:
    """The shape of a URL."""
    first, last = url.segments[0], url.segments[-1]
    found = EXTENSION.search(last)
    end = f"*{found[0]}" if found else "*" if last else ""
    return shape_of(url.host, first, len(url.segments) - 1, end)


@lru_cache(maxsize=4096)
def shape_of(host: str, first: str, n_folders: int, end: str) -> str:
    """The shape of URLs of so many folders, the first of which is this, and of an end."""
    folders = ["*"] * n_folders
    if n_folders > (not end) and value_class(first) == first:
        folders[0] = first
    return f"{host}/{'/'.join([*folders, end])}"


def cut(key: bytes) -> KeyParts | None:
    """The parts of a URL's key; None for one that is more than a URL, or has very many parts."""
    url = split(key) if len(key) <= MAX_KEY else None
    if url is None or len(url.segments) > MAX_SEGMENTS or len(url.arguments) > MAX_ARGUMENTS:
        return None
    return url


def split(key: bytes) -> KeyParts | None:
    """The parts of a URL's key, however many; None for one that is more than a URL."""
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if " " in text or "#" in text:  # a method, a body, a key of the spider's, a fragment
        return None
    rest, _, query = text.partition("?")
    host, slash, path = rest.partition("/")
    if not slash:
        return None
    return KeyParts(host, tuple(path.split("/")), tuple(query.split("&")) if query else ())


def is_name(value: str) -> bool:
    """Whether a value is a word, of which each names something else."""
    return value_class(value) == value and not value.startswith("{") and not value.isdigit()


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

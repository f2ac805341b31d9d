"""Soft 404s: what a site answers with status 200 to paths that do not exist.

Known by a probe, a path that cannot exist, or by a page that is found under many unrelated URLs.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field

from scrapy_neardup.detect.text import without_numbers
from scrapy_neardup.learn.url_parts import EXTENSION, KeyParts

MIN_URLS, MIN_SHAPES = 5, 3
MAX_URLS = 15  # after which a content whose URLs have something in common is taken for a page
MAX_CONTENTS = 4096
MAX_WORDS_BYTES, MAX_URL_CHARS = 1 << 17, 8192
TOKEN = re.compile(r"[^\W_]+")


def tokens_of(url: KeyParts) -> frozenset[str]:
    """What a URL is about: what its segments and values consist of, the first directory aside."""
    *folders, last = url.segments
    named = [*folders[1:], EXTENSION.sub("", last)]
    values = [argument.partition("=")[2] for argument in url.arguments]
    return frozenset(TOKEN.findall(" ".join([*named, *values]).lower()))


def outline(words: bytes, url: str) -> int | None:
    """What a page says, without numbers and without what it repeats of its own URL; a hash.

    None for a page of more than MAX_WORDS_BYTES: no site says so much of what it has not.
    """
    if len(words) > MAX_WORDS_BYTES:
        return None
    echoed = set(TOKEN.findall(url[:MAX_URL_CHARS].lower()))
    return hash(tuple(word for word in without_numbers(words) if word not in echoed))


@dataclass(slots=True)
class Found:
    """Where one content was found."""

    n_urls: int = 0
    shapes: set[str] = field(default_factory=set)
    common: frozenset[str] = frozenset()  # tokens that all its URLs have

    def came(self, url: KeyParts) -> None:
        tokens = tokens_of(url)
        self.common = self.common & tokens if self.n_urls else tokens
        self.n_urls += 1
        if len(self.shapes) < MIN_SHAPES:
            self.shapes.add(url.shape)

    @property
    def is_unrelated(self) -> bool:
        """Whether its URLs have nothing in common: copies of a page share its number or name."""
        return self.n_urls >= MIN_URLS and len(self.shapes) >= MIN_SHAPES and not self.common


class UnrelatedUrls:
    """Contents, and under what URLs each was found. The oldest are forgotten."""

    def __init__(self) -> None:
        self._found: OrderedDict[str, Found] = OrderedDict()

    def came(self, content: str, url: KeyParts) -> bool | None:
        """A URL shows a content; whether its URLs have nothing in common. None: too few yet."""
        found = self._found.get(content)
        if found is None:
            found = self._found[content] = Found()
        found.came(url)
        if len(self._found) > MAX_CONTENTS:
            self._found.popitem(last=False)
        if found.is_unrelated:
            return True
        return False if found.n_urls >= MAX_URLS else None

"""WARC.gz files of any size with planted duplicates and damage, made of real pages by a seed.

Pages are the long ones of ../shared/data/pairs in which every third word is another, so that no
two "new" pages say the same. A record's URL tells what it is: `/new/7`, `/exact/8`, `/near/9`.
"""

import gzip
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from benchmarks.rows import html_pages

MARKUP = re.compile(r"(<script.*?</script>|<style.*?</style>|<[^>]*>|[A-Za-z]{3,})", re.DOTALL)
MIN_WORDS = 400  # of so many, two may be others in a near-duplicate
SHARE = {"new": 0.7, "exact": 0.15, "near": 0.15}
RECENT = 200  # pages that a copy may repeat
SITES = 200
DAMAGE_EVERY = 1_000
HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"


class Model(NamedTuple):
    """A real page, cut so that its words can be replaced."""

    parts: list[str]
    words: list[int]  # places of words in it


class Maker:
    """Makes pages one after the other."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        models = [model_of(page) for page in html_pages()]
        self.models = [model for model in models if len(model.words) >= MIN_WORDS]
        self.vocabulary = sorted({m.parts[i] for m in self.models[::5] for i in m.words})
        self.recent: list[tuple[int, Model]] = []  # with the site

    def pages(self) -> Iterator[tuple[str, str, str]]:
        """(kind, URL, HTML) without end."""
        kinds, weights = list(SHARE), list(SHARE.values())
        for i in range(2**31):
            kind = self.chance.choices(kinds, weights)[0] if self.recent else "new"
            site, page = self._new() if kind == "new" else self.chance.choice(self.recent)
            if kind == "near":
                page = self._with_other_words(page, 2)
            yield kind, f"http://site{site}.example/{kind}/{self.seed}-{i}", "".join(page.parts)

    def _new(self) -> tuple[int, Model]:
        model = self.chance.choice(self.models)
        page = self._with_other_words(model, len(model.words) // 3)
        self.recent.append((self.chance.randrange(SITES), page))
        del self.recent[:-RECENT]
        return self.recent[-1]

    def _with_other_words(self, model: Model, n: int) -> Model:
        parts = model.parts.copy()
        words = self.chance.choices(self.vocabulary, k=n)
        for place, word in zip(self.chance.sample(model.words, n), words, strict=True):
            parts[place] = word
        return Model(parts, model.words)


def model_of(page: str) -> Model:
    """A page cut at its words; those of markup and of the head stay."""
    parts = MARKUP.split(page)
    body = next((i for i, part in enumerate(parts) if part.startswith("<body")), 0)
    return Model(parts, [i for i in range(body, len(parts)) if part_is_word(parts[i])])


def part_is_word(part: str) -> bool:
    return part.isalpha() and part.isascii() and len(part) >= 3


def make_warc(path: Path, page_bytes: int, seed: int) -> Counter[str]:
    """Write a file of so many bytes of HTML; records by kind, "damaged", and "bytes" of HTML.

    Of every DAMAGE_EVERY records one is damaged, in turn: zeros in it, its second half gone.
    """
    made: Counter[str] = Counter()
    with path.open("wb") as file:
        for number, (kind, url, html) in enumerate(Maker(seed).pages(), 1):
            body = html.encode()
            damage = number // DAMAGE_EVERY if number % DAMAGE_EVERY == 0 else 0
            write(file, record(url, body), damage)
            made["damaged" if damage else kind] += 1
            made["bytes"] += len(body)
            if made["bytes"] >= page_bytes:
                return made
    raise AssertionError("pages have no end")


def record(url: str, body: bytes) -> bytes:
    """A response as a WARC record, packed by itself."""
    head = (
        f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\n"
        "WARC-Date: 2026-11-01T00:00:00Z\r\nWARC-Record-ID: <urn:made:page>\r\n"
        f"Content-Type: application/http\r\nContent-Length: {len(HTTP) + len(body)}\r\n\r\n"
    )
    return gzip.compress(head.encode() + HTTP + body + b"\r\n\r\n", 1, mtime=0)


def write(file: BinaryIO, packed: bytes, damage: int) -> None:
    """Write a record, whole or damaged."""
    middle = len(packed) // 2
    if damage % 2:
        packed = packed[:middle] + bytes(100) + packed[middle + 100 :]
    elif damage:
        packed = packed[:middle]
    file.write(packed)

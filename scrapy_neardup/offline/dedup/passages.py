"""Which records contain passages of given texts, such as evaluation sets: shared word n-grams.

Words are those that pages are compared by: case and punctuation do not count. An n-gram is looked
up by a hash and then compared word by word. A passage of fewer than `ngram` words is one n-gram.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.detect.text import normalise
from scrapy_neardup.errors import InputError
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.offline.dedup.columns import Columns, Fields
from scrapy_neardup.offline.dedup.formats import columns_of, format_of
from scrapy_neardup.offline.dedup.inputs import PACKINGS, find_inputs
from scrapy_neardup.offline.dedup.packing import Unpacked
from scrapy_neardup.offline.dedup.record import InputLimits

NGRAM = 13  # words, as Brown et al. 2020 (GPT-3, appendix C) took
MIN_WORDS = 4  # shorter passages are found everywhere: they are passed over, and counted
FACTOR = 0x9E3779B97F4A7C15  # odd, so that its powers can be divided by
SPACE = 0x20


class Passage(NamedTuple):
    """A text to be found. number: of its record, from 0."""

    number: int
    words: bytes


class PassageHits(NamedTuple):
    """What a record has of a passage: n-grams of it, of how many, and the first of them."""

    passage: int  # number of its record
    shared: int
    ngrams: int
    text: str


class Passages:
    """The n-grams of passages, to be looked up in records."""

    def __init__(self, passages: list[Passage], ngram: int = NGRAM) -> None:
        self.passages = [p for p in passages if n_words(p.words) >= MIN_WORDS]
        self.n_too_short = len(passages) - len(self.passages)
        self.sizes = sorted({min(ngram, n_words(p.words)) for p in self.passages})
        parts = [self._grams(place, ngram) for place in range(len(self.passages))]
        columns = zip(*(parts or [(_NO_HASHES, _NONE, _NONE, _NONE)]), strict=True)
        hashes, *rest = (np.concatenate(column) for column in columns)
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        self._owners, self._begins, self._ends = (column[order] for column in rest)
        self._n_ngrams = Counter(self._owners.tolist())

    def _grams(self, place: int, ngram: int) -> tuple[Any, ...]:
        """The different n-grams of a passage: hash, passage, place."""
        words = self.passages[place].words
        hashes, begins, ends = ngrams(words, min(ngram, n_words(words)))
        _, first = np.unique(hashes, return_index=True)
        return hashes[first], np.full(len(first), place), begins[first], ends[first]

    def found_in(self, words: bytes) -> list[PassageHits]:
        """The passages of which a record has an n-gram. O(len(words)) for each size of n-gram."""
        shared: dict[int, dict[bytes, None]] = {}  # in the order of the record
        for size in self.sizes:
            hashes, begins, ends = ngrams(words, size)
            low = self._hashes.searchsorted(hashes)
            high = self._hashes.searchsorted(hashes, "right")
            for at in np.flatnonzero(high > low).tolist():
                gram = words[begins[at] : ends[at]]
                for place in range(low[at], high[at]):
                    if gram == self._gram(place):
                        shared.setdefault(int(self._owners[place]), {}).setdefault(gram)
        return [self._found(owner, list(grams)) for owner, grams in sorted(shared.items())]

    def _gram(self, place: int) -> bytes:
        words: bytes = self.passages[self._owners[place]].words
        return words[self._begins[place] : self._ends[place]]

    def _found(self, owner: int, grams: list[bytes]) -> PassageHits:
        number, text = self.passages[owner].number, grams[0].decode("utf-8", "replace")
        return PassageHits(number, len(grams), self._n_ngrams[owner], text)


def n_words(words: bytes) -> int:
    """How many words there are."""
    return words.count(b" ") + 1 if words else 0


def ngrams(words: bytes, size: int) -> tuple[U64Array, I64Array, I64Array]:
    """Hash, begin and end of each n-gram of `size` words, in order; shape (n,) each.

    A polynomial of the bytes modulo 2**64: all of a text take one pass.
    """
    chars = np.frombuffer(words, np.uint8)
    spaces = np.flatnonzero(chars == SPACE)
    begins = np.append(0, spaces + 1)[: max(0, len(spaces) + 2 - size)]
    ends = np.append(spaces, len(chars))[size - 1 :]
    if not words or not len(ends):
        return _NO_HASHES, _NONE, _NONE
    powers = np.full(len(chars), FACTOR, dtype=np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    sums = np.append(np.uint64(0), np.add.accumulate((chars + np.uint64(1)) * powers))
    # Divided by the power that a text there begins with: as if it began the page.
    return (sums[ends] - sums[begins]) * inverse(powers[begins]), begins, ends


def inverse(odd: U64Array) -> U64Array:
    """The numbers by which odd numbers multiply to 1 modulo 2**64 (Newton's iteration)."""
    found = odd.copy()  # right in the lowest three bits; each step doubles that
    for _ in range(5):
        found *= np.uint64(2) - odd * found
    return found


def read_passages(path: Path) -> list[Passage]:
    """The passages of a file: lines of `.txt`, or records of any format that is known.

    A record's passage is its text; where it has no column of a known name, all of its strings.
    Raises InputError.
    """
    packing = path.suffix.lower() if path.suffix.lower() in PACKINGS else ""
    is_text = Path(path.stem if packing else path).suffix.lower() == ".txt"
    texts = lines_of(path, packing) if is_text else texts_of(path)
    passages = [Passage(number, normalise(text)) for number, text in enumerate(texts)]
    if not any(passage.words for passage in passages):
        raise InputError(f"{path}: holds no text; --contains-any takes a file with passages")
    return passages


def lines_of(path: Path, packing: str) -> Iterator[str]:
    """The lines of a text file. A form feed, such as PDFs leave, ends none."""
    try:
        with Unpacked(path, packing, InputLimits()) as stream:
            text = stream.readall().decode("utf-8-sig", "replace")
    except (OSError, EOFError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    yield from io.StringIO(text, newline=None)


def texts_of(path: Path) -> Iterator[str]:
    """The texts of records. Raises InputError for a damaged one: its passages would be missed."""
    from scrapy_neardup.offline.dedup.said import text_of
    from scrapy_neardup.offline.page_files import sound_records

    for source in find_inputs([path]):
        try:
            columns = columns_of(source, Fields(has_url=False), InputLimits())
            has_text = True
        except InputError:
            names = format_of(source, Columns(None, (), ()), InputLimits()).names() or []
            columns, has_text = Columns(None, tuple(names), ()), False
        for page in sound_records(source, columns):
            yield (text_of(page) or "") if has_text else " ".join(strings_in(page.row))


def strings_in(value: Any) -> Iterator[str]:
    """All strings in a row, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings_in(inner)


_NO_HASHES, _NONE = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)

"""A page's row in the page table: what is stored of it, besides its fingerprint.

    words              what
    1                  fingerprint of its own part; that of the page where there is no other
    1                  digest of its data
    1                  names of its data, as bits
    1                  details: their hash, and in the upper half that of its attributes
    n_sketch           sketch of the page
    ROW_WORDS          odd sketch of the page
    ROW_WORDS          odd sketch of its own part; that of the page where there is no other
    FACT_WORDS         facts

A page's own part is what its host's templates leave of it, as they were known when it was read.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple, Self

import numpy as np

from scrapy_neardup.detect.content import DOCUMENT
from scrapy_neardup.detect.odd_sketch import ROW_WORDS
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.facts import FACT_WORDS, ONE_SIDED, TABLE_WORDS

BEFORE_SKETCH = 4  # words
DATA_WORDS = BEFORE_SKETCH - 1
TITLE = -(FACT_WORDS - TABLE_WORDS)  # the word of facts, and of a row, that is of the title
LONGEST_PATH = 200  # characters of a data line's path; what a longer one begins with is not known
MARKUP = ("meta.", "itemprop.")  # what paths begin with that are names as they are
EVERY_NAME = 2**64 - 1
WHOLE = np.uint64(EVERY_NAME - 1)  # names of a document that is data as a whole
NO_ATTRIBUTES = 1 << 63  # attribute_bits of none
LOWER_HALF, HALF = 2**32 - 1, np.uint64(32)


class PageRows(NamedTuple):
    """The rows of n pages, part by part."""

    own_fingerprints: U64Array  # shape (n,)
    data: U64Array  # (n, DATA_WORDS): digest, names, details
    whole: U64Array  # (n, n_sketch + ROW_WORDS): what odd_sketch.compare takes
    own: U64Array  # (n, ROW_WORDS), the same of their own parts
    facts: U64Array  # (n, FACT_WORDS)

    @classmethod
    def of(cls, stored: U64Array) -> Self:
        """The parts of rows, shape (n, words)."""
        own = stored.shape[1] - FACT_WORDS - ROW_WORDS
        return cls(
            stored[:, 0],
            stored[:, 1:BEFORE_SKETCH],
            stored[:, BEFORE_SKETCH:own],
            stored[:, own:-FACT_WORDS],
            stored[:, -FACT_WORDS:],
        )

    def where(self, wanted: BoolArray | I64Array) -> PageRows:
        """Those of the pages that are wanted."""
        return PageRows(*(part[wanted] for part in self))

    @property
    def have_no_own_part(self) -> BoolArray:
        """Which pages were read when none of their lines was known as a template's."""
        whole: BoolArray = (self.own == self.whole[:, -ROW_WORDS:]).all(axis=1)
        return whole


def width(n_sketch: int) -> int:
    """Words of a row."""
    return BEFORE_SKETCH + n_sketch + 2 * ROW_WORDS + FACT_WORDS


def data_row(lines: list[str], details: list[str], key: int) -> U64Array:
    """Data lines ("path value") as they are stored; shape (DATA_WORDS,).

    A keyed digest, and their names as bits, both 0 where there are none. A name is what a path
    begins with: a variable, a kind of script, a meta tag. Bits that two pages share are a name
    that they share, or seem to. Those of a document are WHOLE. Then a keyed hash of the details, of
    32 bits: attribute_bits() are added to it where attributes count.
    """
    row = np.zeros(DATA_WORDS, dtype=np.uint64)
    if details:
        row[-1] = _hash("\n".join(details), key, b"neardup-details") & LOWER_HALF
    if lines:
        row[0] = _hash("\n".join(lines), key, b"neardup-data")
        row[1] = _name_bits({name_of(line) for line in lines}, key)
    return row


def _name_bits(names: set[str], key: int) -> np.uint64:
    if names == {DOCUMENT}:
        return WHOLE
    bits = 0
    for name in names:
        bits |= 1 << _hash(name, key, b"neardup-name") % 64 if name else EVERY_NAME
    return np.uint64(bits)


def attribute_bits(lines: list[str], key: int) -> int:
    """Lines of attributes as they are stored: the upper half of a word, never 0."""
    if not lines:
        return NO_ATTRIBUTES
    return _hash("\n".join(lines), key, b"neardup-attribs") & ~LOWER_HALF | NO_ATTRIBUTES


def attributes_count(row: U64Array) -> bool:
    """Whether the page of a stored row is told apart by its attributes, too."""
    return bool(row[BEFORE_SKETCH - 1] >> HALF)


def say_the_same(row: U64Array, rows: U64Array, n_differing: F64Array) -> BoolArray:
    """Which pages have the data of a page, or data of other names only; shape (n,).

    Data of other names are those of another version of a site's software; of a document they are
    all that it says. Where the texts are all but equal, templates included, they are a difference
    too; and so are details, of which the attributes are compared where they count for both pages.
    row: shape (DATA_WORDS,), as data_row() makes it; rows: (n, DATA_WORDS). n_differing: shingles
    that one of the two pages has and the other has not, shape (n,).
    """
    digest, names, details = row
    nearly_equal = n_differing <= ONE_SIDED  # False where similarity was not measured: far apart
    change = rows[:, 2] ^ details
    both_count = (rows[:, 2] >> HALF != 0) & (details >> HALF != 0)
    same_markup = ~other_markup(row, rows) & ((change >> HALF == 0) | ~both_count)
    apart = ((rows[:, 1] & names) == 0) & (rows[:, 1] != WHOLE) & (names != WHOLE)
    said: BoolArray = same_markup | (((rows[:, 0] == digest) | apart) & ~nearly_equal)
    return said


def other_markup(row: U64Array, rows: U64Array) -> BoolArray:
    """Which pages have other data or other details than a page; see say_the_same()."""
    other: BoolArray = (rows[:, 0] != row[0]) | (
        ((rows[:, 2] ^ row[2]) & np.uint64(LOWER_HALF)) != 0
    )
    return other


def markup_of(row: U64Array) -> int:
    """What tells a page's data and details from those of others: 64 bits."""
    return row.item(0) ^ (row.item(2) & LOWER_HALF)


def name_of(line: str) -> str:
    """The name of a data line; empty where it cannot be told."""
    path = line.partition(" ")[0]
    if len(path) >= LONGEST_PATH:
        return ""
    return path if path.startswith(MARKUP) else path.partition(".")[0].partition("[")[0]


def _hash(text: str, key: int, person: bytes) -> int:
    secret = key.to_bytes(16, "little")
    encoded = text.encode("utf-8", "surrogatepass")
    digest = blake2b(encoded, digest_size=8, key=secret, person=person).digest()
    return int.from_bytes(digest, "little")

"""A page's row in the page table: what is stored of it, besides its fingerprint.

    words              what
    1                  fingerprint of its own part; that of the page where there is no other
    1                  digest of its data
    1                  names of its data, as bits
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

from scrapy_neardup.detect.facts import FACT_WORDS, TABLE_WORDS
from scrapy_neardup.detect.odd_sketch import ROW_WORDS
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U64Array

BEFORE_SKETCH = 3  # words
TITLE = -(FACT_WORDS - TABLE_WORDS)  # the word of facts, and of a row, that is of the title
LONGEST_PATH = 200  # characters of a data line's path; what a longer one begins with is not known
MARKUP = ("meta.", "itemprop.")  # what paths begin with that are names as they are
EVERY_NAME = 2**64 - 1


class PageRows(NamedTuple):
    """The rows of n pages, part by part."""

    own_fingerprints: U64Array  # shape (n,)
    data: U64Array  # (n, 2): digest, names
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


def data_row(lines: list[str], key: int) -> U64Array:
    """Data lines ("path value") as they are stored: a keyed digest, and their names as bits.

    Both are 0 where there are none. A name is what a path begins with: a variable, a kind of
    script, a meta tag. Bits that two pages share are a name that they share, or seem to.
    """
    row = np.zeros(2, dtype=np.uint64)
    if lines:
        row[0] = _hash("\n".join(lines), key, b"neardup-data")
        for name in {name_of(line) for line in lines}:
            bits = 1 << _hash(name, key, b"neardup-name") % 64 if name else EVERY_NAME
            row[1] |= np.uint64(bits)
    return row


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

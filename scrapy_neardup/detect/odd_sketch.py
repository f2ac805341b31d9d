"""How much of two pages is the same: odd sketches of their shingles → Jaccard, with its error."""

from __future__ import annotations

from functools import cache
from math import ldexp, sqrt
from typing import NamedTuple

import numpy as np

import scrapy_neardup.kernels as kernels
from scrapy_neardup.engines import siphash_key
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array, U64Array

SHINGLE = 5  # words
SKETCH_WORDS = 16
BITS = 64 * SKETCH_WORDS
ROW_WORDS = 1 + SKETCH_WORDS  # level and size, then the sketch
ANY_DISTANCE = 2**31 - 1
MAX_LEVEL = 63  # of a page that is sampled
LEVELS_NEAR = 2
CONFIDENCE = 3.0  # standard errors of a sample
# Of what differs, at most, by how much pages differ in size that have text in each other's place. A
# print version has the text of its article, and a line of its own for the menu and the footer.
EXCHANGED = 0.4
MAX_TAKEN = 2048  # shingles, about; a longer page is sampled, or its differences fill the sketch

_HALF = np.uint64(32)
_SIZE = np.uint64(2**32 - 1)


class Estimate(NamedTuple):
    """A Jaccard similarity and its standard error, both 0 to 1."""

    similarity: float
    error: float


def odd_row(words: bytes, level: int, key: int) -> U64Array:
    """A page's odd sketch as a row: level << 32 | shingles taken, then BITS bits.

    key: 64 secret bits, which key the hash of each word, so that nobody else can make two
    shingles fall on one place, or tell on which.
    """
    row: U64Array = odd_rows(words, level, 1, key)[0]
    return row


def odd_rows(words: bytes, level: int, n_levels: int, key: int) -> U64Array:
    """The same at each of n_levels levels from one on, in one pass; shape (n_levels, ROW_WORDS)."""
    secret = siphash_key(key)
    return kernels.fingerprint.odd_rows(words, SKETCH_WORDS, SHINGLE, secret, level, n_levels)


class OddRows:
    """The odd sketches of one text, at any level; each is made once."""

    def __init__(self, words: bytes) -> None:
        self._words = words
        self._known: dict[int, U64Array] = {}
        self._is_made = False

    def at(self, level: int, key: int) -> U64Array | None:
        """odd_row() of the text; None for a level that make() has left out."""
        if level not in self._known and not self._is_made:
            self._known[level] = odd_row(self._words, level, key)
        return self._known.get(level)

    def own(self, n_words: int, key: int) -> U64Array:
        """odd_row() of the text, which has so many words, at its level."""
        level = level_of(n_words)
        made = self._known.get(level)
        return odd_row(self._words, level, key) if made is None else made

    def make(self, level: int, key: int) -> None:
        """Make those of a long text ahead, in any thread: at the levels near its own and no others.

        A text of another level is more than four times as long, or less than a quarter.
        """
        if self._is_made:
            return
        first = max(0, level - LEVELS_NEAR)
        rows = odd_rows(self._words, first, level + LEVELS_NEAR + 1 - first, key)
        self._known = dict(enumerate(rows, first))
        self._is_made = True


def level_of(n_words: int) -> int:
    """How often a page of so many words is halved until it has at most MAX_TAKEN shingles."""
    return max(0, (n_words - 1) // MAX_TAKEN).bit_length()


def levels_of(rows: U64Array) -> I64Array:
    """The levels of rows that end as odd_row() makes them; shape (n,)."""
    return (rows[:, -ROW_WORDS] >> _HALF).astype(np.int64)


def n_differing(rows: U64Array, row: U64Array, similar: F64Array) -> F64Array:
    """How many shingles one page has and the other has not, by their similarity; shape (n,).

    rows: as compare() takes them, shape (n, words); row: the page's odd_row(). Without end where
    the similarity is below 0, which means that it is not known.
    """
    known = np.maximum(similar, 0)
    differing: F64Array = (sizes_of(rows) + size_of(row)) * (1 - known) / (1 + known)
    differing[similar < 0] = np.inf
    return differing


def least_differing(differing: F64Array, rows: U64Array) -> F64Array:
    """The fewest differing shingles of which samples may have so many: n_differing() of rows.

    A page of 45,000 words is sampled one in 32: of the ten shingles that another word changes it
    may have one, which stands for 32. The bound is Wilson's, for a binomial number of CONFIDENCE
    standard errors at most. The same array where no page is sampled. O(n).
    """
    sampled = (rows[:, -ROW_WORDS] > _SIZE) & np.isfinite(differing)
    if True not in sampled:
        return differing
    least, levels = differing.copy(), levels_of(rows)[sampled]
    taken = np.ldexp(differing[sampled], -levels)
    spread = (1 - np.ldexp(1.0, -levels)) * CONFIDENCE**2
    fewest = taken + spread / 2 - np.sqrt(spread * (taken + spread / 4))
    least[sampled] = np.ldexp(fewest, levels)
    return least


def exchange(rows: U64Array, row: U64Array, differing: F64Array) -> BoolArray:
    """Which pages have other text in the place of one page's, not only more or less; shape (n,).

    In doubt they do: where samples may err by so much, within CONFIDENCE standard errors, or are of
    other levels. Not where it is unknown how much differs. rows, row: as n_differing() takes them,
    which gave `differing`. O(n).
    """
    levels, is_known = levels_of(rows), np.isfinite(differing)
    known = np.where(is_known, differing, 0.0)
    more = np.abs(sizes_of(rows) - size_of(row))
    error = CONFIDENCE * np.sqrt(known * (np.ldexp(1.0, levels) - 1))
    in_place = (more <= EXCHANGED * known + error) | (levels != row.item(-ROW_WORDS) >> 32)
    found: BoolArray = in_place & is_known
    return found


def sizes_of(rows: U64Array) -> F64Array:
    """About how many shingles pages have, by rows that end as odd_row() makes them; shape (n,)."""
    sizes: F64Array = np.ldexp(rows[:, -ROW_WORDS] & _SIZE, levels_of(rows))
    return sizes


def size_of(row: U64Array) -> float:
    """The same of one row."""
    word = row.item(-ROW_WORDS)
    return ldexp(word & 0xFFFFFFFF, word >> 32)


def held(rows: U64Array, row: U64Array, similar: F64Array) -> F64Array:
    """How much of other pages a page holds, at least: 0 to 1, less twice the standard error; (n,).

    rows, row, similar: see n_differing. O(n).
    """
    sizes, levels = sizes_of(rows), levels_of(rows)
    differing = n_differing(rows, row, similar)
    shared = (sizes + size_of(row) - differing) / 2
    error = _error(differing, levels) / 2
    least = (np.minimum(shared, sizes) - 2 * error) / np.maximum(sizes, 1)
    share: F64Array = np.where(sizes > 0, least, 0.0).clip(0, 1)
    return share


def n_lacking(
    rows: U64Array, page: tuple[U64Array, F64Array], rest: tuple[U64Array, F64Array]
) -> F64Array:
    """How many shingles of a part of a page others lack, less the standard error; shape (n,).

    page, rest: row and similarities, as n_differing() takes them, of the page and of what is left
    without that part, both rows of one level. O(n).
    """
    size, rest_size = size_of(page[0]), size_of(rest[0])
    differing = n_differing(rows, *page)
    error = _error(differing, levels_of(rows))
    # Without the part, its shingles that the others have differ as well, and the rest of it do not.
    told_apart = (size - rest_size + differing - n_differing(rows, *rest)) / 2 - error
    # Where so much differs that both sketches are full: what the rest has no room for.
    without_room = (differing - error + size - sizes_of(rows)) / 2 - rest_size
    lacking: F64Array = np.maximum(told_apart, without_room)
    return lacking


def _error(differing: F64Array, levels: I64Array) -> F64Array:
    """The standard error of n_differing(), that of a sample apart; shape (n,)."""
    error: F64Array = np.ldexp(_deviation(np.ldexp(differing, -levels)), levels)
    return error


def _deviation(differing: F64Array) -> F64Array:
    """The standard error of how many shingles differ, that of a sample's apart; shape (n,)."""
    # Above, a sketch is full and tells nothing; 10 keeps exp() from under- and overflow.
    filled = np.minimum(4 * differing / BITS, 10.0)
    stays = np.exp(-filled)
    spread = np.maximum(BITS / 4 * (1 - stays) - filled * BITS / 4 * stays, 0)
    deviation: F64Array = np.sqrt(spread / stays)
    return deviation


@cache
def told() -> F64Array:
    """How many shingles one page has and the other has not, where d places differ; d 0 to BITS.

    A place where the sketches differ has an odd number of them. With n bits, of which d
    differ, -n/2 ln(1 - 2d/n) shingles differ (Mitzenmacher, Pagh, Pham 2014, section 3); a
    full sketch, d >= n/2, is taken for the most that can be told.
    """
    places = np.minimum(2 * np.arange(BITS + 1), BITS - 1)
    shingles: F64Array = -BITS / 2 * np.log1p(-places / BITS)
    return shingles


def compare(
    own: U64Array, rows: U64Array, share: float = 1.0, within: int | None = None
) -> tuple[I64Array, F64Array, int]:
    """How far pages' sketches are apart in bits, and how similar the pages are; shape (n,).

    own: one page's row, shape (words,), or one for each of `rows`, shape (n, words): the last
    ROW_WORDS of them as odd_row() makes them, what is before them a sketch.
    share: how much of the page is its own; the rest, which the others are supposed to have
    too, is left out of both. A difference is the same with and without what is shared, so
    the sketches need not know what will be left out.
    within: bits, None for any number. Pages whose sketches are farther apart are not looked at: -1.

    Similarity is Jaccard's, estimated; shingles that differ are at least the difference in
    size. It is NaN for rows that were sampled at another level, which are counted.
    """
    n_sketch = rows.shape[1] - ROW_WORDS
    within = ANY_DISTANCE if within is None else within
    return kernels.fingerprint.compare(own, rows, n_sketch, told(), share, within)


def estimate(row: U64Array, other: U64Array) -> Estimate:
    """The similarity of two pages of one level, and its standard error.

    The error is that of the sketch (the variance of balls falling an odd number of times
    into bins) and of the sample that a level above 0 is; places are taken as independent.
    """
    sizes = int(row[0] & _SIZE), int(other[0] & _SIZE)
    both = float(sum(sizes))
    if not both:
        return Estimate(0.0, 0.0)
    similarity = float(compare(row, other.reshape(1, -1))[1][0])
    places = int(np.bitwise_count(row[1:] ^ other[1:]).sum())
    differing = max(float(told()[places]), abs(sizes[0] - sizes[1]))
    deviation = float(_deviation(np.array([differing]))[0])
    sketch = deviation * 2 * both / (both + differing) ** 2
    level = int(row[0]) >> 32
    union = (both + differing) / 2
    sample = similarity * (1 - similarity) / union * (1 - 2.0**-level)
    return Estimate(similarity, sqrt(sketch**2 + sample))

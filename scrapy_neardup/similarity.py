"""How much of two pages is the same: odd sketches of their shingles → Jaccard, with its error."""

from __future__ import annotations

from math import exp, sqrt
from typing import NamedTuple

import numpy as np

import scrapy_neardup.kernels as kernels
from scrapy_neardup.kernels.numpy_twin import F64Array, I64Array, U64Array

SHINGLE = 5  # words
SKETCH_WORDS = 8
BITS = 64 * SKETCH_WORDS
ROW_WORDS = 1 + SKETCH_WORDS  # level and size, then the sketch
MAX_TAKEN = 2048  # shingles, about; a longer page is sampled, or its differences fill the sketch

_HALF = np.uint64(32)
_SIZE = np.uint64(2**32 - 1)


class Estimate(NamedTuple):
    """A Jaccard similarity and its standard error, both 0 to 1."""

    similarity: float
    error: float


def odd_row(words: bytes, level: int, key: int) -> U64Array:
    """A page's odd sketch as a row: level << 32 | shingles taken, then 512 bits.

    key: 64 secret bits, so that nobody can aim at the places of a victim's shingles.
    """
    sketch, n_taken = kernels.fingerprint.odd_sketch(words, SKETCH_WORDS, SHINGLE, key, level)
    row = np.empty(ROW_WORDS, dtype=np.uint64)
    row[0] = level << 32 | n_taken
    row[1:] = sketch
    return row


def level_of(n_words: int) -> int:
    """How often a page of so many words is halved until it has at most MAX_TAKEN shingles."""
    return max(0, (n_words - 1) // MAX_TAKEN).bit_length()


def levels_of(rows: U64Array) -> I64Array:
    """The levels of rows, shape (n, ROW_WORDS)."""
    return (rows[:, 0] >> _HALF).astype(np.int64)


def sizes_of(rows: U64Array) -> F64Array:
    """How many shingles were taken for rows; shape of `rows` without its last axis."""
    sizes: F64Array = (rows[..., 0] & _SIZE).astype(np.float64)
    return sizes


def differences(row: U64Array, rows: U64Array) -> F64Array:
    """How many shingles one page has and the other has not, estimated, for rows of its level.

    A place where the sketches differ has an odd number of them. With n bits, of which d
    differ, -n/2 ln(1 - 2d/n) shingles differ (Mitzenmacher, Pagh, Pham 2014, section 3); a
    full sketch, d >= n/2, is taken for the most that can be told. At least the difference in
    size.
    """
    bits = np.bitwise_count(rows[:, 1:] ^ row[..., 1:]).sum(axis=1, dtype=np.int64)
    told = -BITS / 2 * np.log1p(-np.minimum(2 * bits, BITS - 1) / BITS)
    unequal: F64Array = np.abs(sizes_of(rows) - sizes_of(row))
    differing: F64Array = np.maximum(told, unequal)
    return differing


def jaccard(row: U64Array, rows: U64Array, share: float = 1.0) -> F64Array:
    """Estimated Jaccard similarity of a page and others of its level; shape (n,).

    row: one page's, shape (ROW_WORDS,), or one for each of `rows`.
    share: how much of the page is its own; the rest, which the others are supposed to have
    too, is left out of both. A difference is the same with and without what is shared, so
    the sketches need not know what will be left out.
    """
    size, sizes = sizes_of(row), sizes_of(rows)
    both = np.maximum(sizes + size - 2 * (1 - share) * size, 0)
    differing = differences(row, rows)
    similar: F64Array = np.maximum(both - differing, 0) / np.maximum(both + differing, 1)
    return similar


def estimate(row: U64Array, other: U64Array) -> Estimate:
    """The similarity of two pages of one level, and its standard error.

    The error is that of the sketch (the variance of balls falling an odd number of times
    into bins) and of the sample that a level above 0 is; places are taken as independent.
    """
    others = other.reshape(1, -1)
    similarity = float(jaccard(row, others)[0])
    differing = float(differences(row, others)[0])
    both = float(sizes_of(row) + sizes_of(other))
    if not both:
        return Estimate(0.0, 0.0)
    stays = exp(-4 * differing / BITS)
    deviation = sqrt(max(BITS / 4 * (1 - stays) - differing * stays, 0)) / sqrt(stays)
    sketch = deviation * 2 * both / (both + differing) ** 2
    level = int(row[0]) >> 32
    union = (both + differing) / 2
    sample = similarity * (1 - similarity) / union * (1 - 2.0**-level)
    return Estimate(similarity, sqrt(sketch**2 + sample))

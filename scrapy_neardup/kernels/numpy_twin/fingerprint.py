"""Words → fingerprints with whole-array arithmetic: no loop over words or bytes in Python."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from scrapy_neardup.kernels.numpy_twin import F64Array, I64Array, U8Array, U64Array
from scrapy_neardup.kernels.numpy_twin.mix import GOLDEN, fmix64

Arguments = tuple[int, int, bool, bool, bool, int]

SPACE = 32
BLOCK = 1 << 15  # bytes of text whose arrays stay in the second-level cache
PART = 255 << 6  # voters counted together: what unpacks to a megabyte
BASE = 65599  # sdbm: (h << 6) + (h << 16) - h = 65599 h
INVERSE_BASE = pow(BASE, -1, 2**64)
_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


@cache
def powers(base: int) -> U64Array:
    """base**0 … base**BLOCK modulo 2**64; shared, so never written to."""
    steps = np.full(BLOCK + 1, base, dtype=np.uint64)
    steps[0] = 1
    return np.multiply.accumulate(steps)


def word_bounds(text: U8Array) -> tuple[I64Array, I64Array]:
    """Start and end (exclusive) of each run of bytes that are not spaces."""
    spaces = np.flatnonzero(text == SPACE)
    starts = np.concatenate(([0], spaces + 1))
    ends = np.append(spaces, len(text))
    inside = ends > starts
    return starts[inside], ends[inside]


def sdbm_block(block: U8Array) -> tuple[U64Array, I64Array]:
    """sdbm and length of every word in at most BLOCK bytes, in order; fresh arrays.

    A word is a polynomial in BASE; with prefix sums S of c[i] * BASE**-i it is
    BASE**(end - 1) * (S[end] - S[start]), exact modulo 2**64 because BASE is odd.
    """
    starts, ends = word_bounds(block)
    sums = np.zeros(len(block) + 1, dtype=np.uint64)
    np.cumsum(block * powers(INVERSE_BASE)[: len(block)], out=sums[1:])
    return powers(BASE)[ends - 1] * (sums[ends] - sums[starts]), ends - starts


def sdbm_words(words: bytes) -> U64Array:
    """sdbm of every word, in order; a word that reaches into another block is put together."""
    text = np.frombuffer(words, dtype=np.uint8)
    done = [np.zeros(0, dtype=np.uint64)]
    for start in range(0, len(text), BLOCK):
        hashes, lengths = sdbm_block(text[start : start + BLOCK])
        if start and text[start - 1] != SPACE and text[start] != SPACE:
            hashes[:1] += done[-1][-1:] * powers(BASE)[lengths[:1]]
            done[-1] = done[-1][:-1]
        done.append(hashes)
    return np.concatenate(done)


def features(hashes: U64Array, shingle: int, mix: bool, distinct: bool, key: int) -> U64Array:
    """The features that vote, as engines/reference.py defines them, of words' sdbm."""
    singles = fmix64(hashes ^ np.uint64(key)) if mix else hashes
    size = min(shingle, len(singles))
    if size > 1:
        rolled = np.zeros(len(singles) - size + 1, dtype=np.uint64)
        for i in range(size):
            rolled = rolled * np.uint64(GOLDEN) + singles[i : i + len(rolled)]
        singles = fmix64(rolled)
    return np.unique(singles) if distinct else singles


def count_bits(voters: U64Array) -> I64Array:
    """How many voters have bit i set, for each i; bytes count up to 255 of them."""
    rows = np.zeros((-(-len(voters) // 255), 255), dtype="<u8")
    rows.ravel()[: len(voters)] = voters
    bits = np.unpackbits(rows.view(np.uint8), bitorder="little").reshape(-1, 255, 64)
    ones: I64Array = bits.sum(axis=1, dtype=np.uint8).sum(axis=0, dtype=np.int64)
    return ones


def majority(voters: U64Array, tie_ge: bool) -> np.uint64:
    """Bit i is set where more than half (at least half, with tie_ge) of the voters set it."""
    twice = 2 * sum(count_bits(voters[i : i + PART]) for i in range(0, len(voters), PART))
    bits = twice >= len(voters) if tie_ge else twice > len(voters)
    return np.uint64(np.packbits(bits, bitorder="little").view("<u8")[0])


def vote(
    hashes: U64Array, n_words: int, shingle: int, mix: bool, distinct: bool, tie_ge: bool, key: int
) -> U64Array:
    """The fingerprint of a text whose words have these sdbm."""
    out = np.zeros(n_words, dtype=np.uint64)
    voters = features(hashes, shingle, mix, distinct, key)
    if len(voters):
        out[0] = majority(voters, tie_ge)
        for i in range(1, n_words):
            out[i] = majority(fmix64(voters + np.uint64(i * GOLDEN % 2**64)), tie_ge)
    return out


def fingerprint(
    words: bytes,
    n_words: int = 1,
    shingle: int = 1,
    mix: bool = True,
    distinct: bool = False,
    tie_ge: bool = False,
    key: int = 0,
) -> U64Array:
    """The fingerprint of one text, shape (n_words,), least significant word first.

    words: any bytes; only 0x20 separates. Zeros for a text without words. O(len(words)).
    """
    return vote(sdbm_words(words), n_words, shingle, mix, distinct, tie_ge, key)


def signatures(
    words: bytes, fingerprint: Arguments, sketch: Arguments
) -> tuple[U64Array, U64Array, int]:
    """The fingerprints of one text under two specs, and its number of words, in one pass.

    fingerprint, sketch: the arguments of fingerprint() after the words, all six.
    """
    hashes = sdbm_words(words)
    return vote(hashes, *fingerprint), vote(hashes, *sketch), len(hashes)


def fingerprint_many(
    texts: Sequence[bytes],
    n_words: int = 1,
    shingle: int = 1,
    mix: bool = True,
    distinct: bool = False,
    tie_ge: bool = False,
    key: int = 0,
) -> U64Array:
    """Fingerprints of many texts, shape (len(texts), n_words)."""
    out = np.zeros((len(texts), n_words), dtype=np.uint64)
    for row, text in zip(out, texts, strict=True):
        row[:] = fingerprint(text, n_words, shingle, mix, distinct, tie_ge, key)
    return out


def odd_row(words: bytes, n_words: int, shingle: int, key: int = 0, level: int = 0) -> U64Array:
    """level << 32 | shingles taken; then bit i says if an odd number of distinct ones fall on it.

    A shingle's place is its feature modulo 64 * n_words, a power of two; under level l only the
    shingles whose top l bits are 0 are taken. Shape (1 + n_words,), least significant word first.
    Source: Mitzenmacher, Pagh, Pham 2014, section 3, over the shingles themselves.
    """
    taken = features(sdbm_words(words), shingle, True, True, key)
    if level:
        taken = taken[taken >> np.uint64(64 - level) == 0]
    places = (taken % np.uint64(64 * n_words)).astype(np.int64)
    odd = np.bincount(places, minlength=64 * n_words) & 1
    sketch = np.packbits(odd.astype(np.uint8), bitorder="little").view("<u8")
    return np.concatenate([np.array([level << 32 | len(taken)], dtype=np.uint64), sketch])


def compare(
    own: U64Array, rows: U64Array, n_sketch: int, told: F64Array, share: float, within: int
) -> tuple[I64Array, F64Array, int]:
    """Sketch bits that differ, similarity by odd sketches, and how many rows are of another level.

    A row is a sketch of n_sketch words, then level << 32 | shingles taken, then the odd sketch;
    `own` is one, or one for each of `rows`. told: how many shingles differ where so many places
    of an odd sketch do. share, within: see similarity.compare. The similarity of rows of another
    level is NaN, where more than `within` bits differ it is -1. All of shape (n,).
    """
    bits = np.bitwise_count(rows[:, :n_sketch] ^ own[..., :n_sketch]).sum(axis=1, dtype=np.int64)
    odd = np.bitwise_count(rows[:, n_sketch + 1 :] ^ own[..., n_sketch + 1 :])
    page, others = own[..., n_sketch], rows[:, n_sketch]
    size, sizes = (page & _LOW).astype(np.float64), (others & _LOW).astype(np.float64)
    both = np.maximum(sizes + size - 2 * (1 - share) * size, 0)
    differing = np.maximum(told[odd.sum(axis=1, dtype=np.int64)], np.abs(sizes - size))
    similar = np.maximum(both - differing, 0) / np.maximum(both + differing, 1)
    unlike = (others >> _HALF != page >> _HALF) & (bits <= within)
    similar[bits > within] = -1
    similar[unlike] = np.nan
    return bits, similar, int(unlike.sum())


def count_words(words: bytes) -> int:
    """How many words a text has."""
    return len(word_bounds(np.frombuffer(words, dtype=np.uint8))[0])

"""Words → fingerprints with whole-array arithmetic: no loop over words or bytes in Python."""

from collections.abc import Sequence

import numpy as np

from scrapy_neardup.kernels.numpy_twin import I64Array, U8Array, U64Array

SPACE = 32
BASE = 65599  # sdbm: (h << 6) + (h << 16) - h = 65599 h
INVERSE_BASE = pow(BASE, -1, 2**64)
GOLDEN = 0x9E3779B97F4A7C15
_C1 = np.uint64(0xFF51AFD7ED558CCD)
_C2 = np.uint64(0xC4CEB9FE1A85EC53)
_33 = np.uint64(33)


def fmix64(h: U64Array) -> U64Array:
    """MurmurHash3's 64-bit finaliser of each element; a fresh array."""
    h = (h ^ (h >> _33)) * _C1
    h = (h ^ (h >> _33)) * _C2
    return h ^ (h >> _33)


def powers(base: int, n: int) -> U64Array:
    """base**0 … base**(n - 1) modulo 2**64."""
    steps = np.full(n, base % 2**64, dtype=np.uint64)
    if n:
        steps[0] = 1
    return np.multiply.accumulate(steps)


def word_bounds(text: U8Array) -> tuple[I64Array, I64Array]:
    """Start and end (exclusive) of each run of bytes that are not spaces."""
    inside = np.zeros(len(text) + 2, dtype=np.int8)
    inside[1:-1] = text != SPACE
    edges = np.diff(inside)
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)


def sdbm_words(words: bytes) -> U64Array:
    """sdbm of every word, in order.

    A word is a polynomial in BASE; with prefix sums S of c[i] * BASE**-i it is
    BASE**(end - 1) * (S[end] - S[start]), exact modulo 2**64 because BASE is odd.
    """
    text = np.frombuffer(words, dtype=np.uint8)
    starts, ends = word_bounds(text)
    if not len(starts):
        return np.zeros(0, dtype=np.uint64)
    sums = np.zeros(len(text) + 1, dtype=np.uint64)
    np.cumsum(text * powers(INVERSE_BASE, len(text)), out=sums[1:])
    return powers(BASE, len(text))[ends - 1] * (sums[ends] - sums[starts])


def features(words: bytes, shingle: int, mix: bool, distinct: bool, key: int) -> U64Array:
    """The features that vote, as engines/reference.py defines them."""
    singles = sdbm_words(words)
    if mix:
        singles = fmix64(singles ^ np.uint64(key))
    size = min(shingle, len(singles))
    if size > 1:
        rolled = np.zeros(len(singles) - size + 1, dtype=np.uint64)
        for i in range(size):
            rolled = rolled * np.uint64(GOLDEN) + singles[i : i + len(rolled)]
        singles = fmix64(rolled)
    return np.unique(singles) if distinct else singles


def majority(voters: U64Array, tie_ge: bool) -> np.uint64:
    """Bit i is set where more than half (at least half, with tie_ge) of the voters set it."""
    ones = np.unpackbits(voters.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1).sum(axis=0)
    balance = 2 * ones.astype(np.int64) - len(voters)
    bits = balance >= 0 if tie_ge else balance > 0
    return np.uint64(np.packbits(bits).view("<u8")[0])


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
    out = np.zeros(n_words, dtype=np.uint64)
    voters = features(words, shingle, mix, distinct, key)
    if len(voters):
        out[0] = majority(voters, tie_ge)
        for i in range(1, n_words):
            out[i] = majority(fmix64(voters + np.uint64(i * GOLDEN % 2**64)), tie_ge)
    return out


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


def count_words(words: bytes) -> int:
    """How many words a text has."""
    return len(word_bounds(np.frombuffer(words, dtype=np.uint8))[0])

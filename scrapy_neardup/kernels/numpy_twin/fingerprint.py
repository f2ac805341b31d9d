"""Words → fingerprints with whole-array arithmetic: no loop over words or bytes in Python."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array, U8Array, U64Array
from scrapy_neardup.kernels.numpy_twin.bloom import sip_round
from scrapy_neardup.kernels.numpy_twin.mix import GOLDEN, MASK, fmix64

# n_words, shingle, hash, distinct, tie_ge, key: see fingerprint().
Arguments = tuple[int, int, int, bool, bool, int]

FEW = 16  # words that are hashed one by one: Python is faster then than NumPy
PLAIN, MIXED, SIPHASH = range(3)
SPACE = 32
BLOCK = 1 << 15  # bytes of text whose arrays stay in the second-level cache
PART = 255 << 6  # voters counted together: what unpacks to a megabyte
BASE = 65599  # sdbm: (h << 6) + (h << 16) - h = 65599 h
INVERSE_BASE = pow(BASE, -1, 2**64)
_32 = np.uint64(32)
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


def sip_words(words: bytes, key: int) -> U64Array:
    """SipHash-1-3 of every word under a key of 128 bits, in order.

    One block of all words at a time, while there are many that have one. O(len(words)).
    """
    text = np.frombuffer(words + bytes(8), dtype=np.uint8)
    starts, ends = word_bounds(text[: len(words)])
    lengths, out = ends - starts, np.zeros(len(starts), dtype=np.uint64)
    left, v = np.arange(len(starts)), np.repeat(_sip_start(key), len(starts), axis=1)
    n_blocks = 0
    while len(left) > FEW:
        v, is_last = _sip_block(text, starts[left] + 8 * n_blocks, lengths[left], n_blocks, v)
        out[left[is_last]] = _sip_end(v[:, is_last])
        left, v, n_blocks = left[~is_last], v[:, ~is_last], n_blocks + 1
    for i, state in zip(left.tolist(), v.T.tolist(), strict=True):
        rest = words[starts[i] + 8 * n_blocks : ends[i]]
        out[i] = _sip_rest(state, rest + bytes(7 - len(rest) % 8) + bytes([lengths[i] % 256]))
    return out


def _sip_start(key: int) -> U64Array:
    k0, k1 = key & MASK, key >> 64
    constants = 0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573
    states = [[k ^ c] for k, c in zip((k0, k1, k0, k1), constants, strict=True)]
    return np.array(states, dtype=np.uint64)


def _sip_block(
    text: U8Array, places: I64Array, lengths: I64Array, number: int, v: U64Array
) -> tuple[U64Array, BoolArray]:
    """The states of words after their block of this number, and whether it was their last."""
    blocks = np.lib.stride_tricks.sliding_window_view(text, 8)[places].view("<u8")[:, 0]
    is_last = lengths // 8 == number
    n_bits = (8 * (lengths[is_last] % 8)).astype(np.uint64)
    ends = blocks[is_last] & (np.uint64(1) << n_bits) - np.uint64(1)
    blocks[is_last] = ends | (lengths[is_last].astype(np.uint64) << np.uint64(56))
    v[3] ^= blocks
    v = _sip_round(v)
    v[0] ^= blocks
    return v, is_last


def _sip_end(v: U64Array) -> U64Array:
    v[2] ^= np.uint64(0xFF)
    v0, v1, v2, v3 = _sip_round(_sip_round(_sip_round(v)))
    hashes: U64Array = v0 ^ v1 ^ v2 ^ v3
    return hashes


def _sip_round(v: U64Array) -> U64Array:
    """sip_round() of bloom.py for many states, shape (4, n)."""
    v0, v1, v2, v3 = v
    v0 = v0 + v1
    v1 = _rotated(v1, 13) ^ v0
    v2 = v2 + v3
    v3 = _rotated(v3, 16) ^ v2
    v0 = _rotated(v0, 32) + v3
    v3 = _rotated(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _rotated(v1, 17) ^ v2
    return np.array([v0, v1, _rotated(v2, 32), v3])


def _rotated(x: U64Array, bits: int) -> U64Array:
    return x << np.uint64(bits) | x >> np.uint64(64 - bits)


def _sip_rest(state: Sequence[int], padded: bytes) -> int:
    """SipHash of a word from its state before these blocks, the last of which has its length."""
    v0, v1, v2, v3 = state
    for i in range(0, len(padded), 8):
        block = int.from_bytes(padded[i : i + 8], "little")
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3 ^ block)
        v0 ^= block
    v2 ^= 0xFF
    for _ in range(3):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def word_features(words: bytes, hash: int, key: int) -> U64Array:
    """The feature of every word, as engines/reference.py defines it, in order."""
    if hash == SIPHASH:
        return sip_words(words, key)
    hashes = sdbm_words(words)
    return fmix64(hashes ^ np.uint64(key)) if hash == MIXED else hashes


def features(words: bytes, shingle: int, hash: int, distinct: bool, key: int) -> U64Array:
    """The features that vote, as engines/reference.py defines them; and in its order."""
    singles = word_features(words, hash, key)
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


def widened(voters: U64Array, word: int, hash: int) -> U64Array:
    """The uint64 word of this number, from 1 on, of each feature."""
    step = np.array([word * GOLDEN & MASK], dtype=np.uint64)
    if hash != SIPHASH:
        return fmix64(voters + step)
    spread: U64Array = (voters ^ voters >> _32) * (fmix64(step) | np.uint64(1))
    return spread ^ spread >> _32


def fingerprint(
    words: bytes,
    n_words: int = 1,
    shingle: int = 1,
    hash: int = MIXED,
    distinct: bool = False,
    tie_ge: bool = False,
    key: int = 0,
) -> U64Array:
    """The fingerprint of one text, shape (n_words,), least significant word first.

    words: any bytes; only 0x20 separates. hash: PLAIN (sdbm), MIXED (sdbm, then fmix64 under a
    key of 64 bits) or SIPHASH (under one of 128). Zeros for a text without words. O(len(words)).
    """
    out = np.zeros(n_words, dtype=np.uint64)
    voters = features(words, shingle, hash, distinct, key)
    if len(voters):
        out[0] = majority(voters, tie_ge)
        for i in range(1, n_words):
            out[i] = majority(widened(voters, i, hash), tie_ge)
    return out


def signatures(words: bytes, first: Arguments, second: Arguments) -> tuple[U64Array, U64Array, int]:
    """The fingerprints of one text under two specs, and its number of words.

    first, second: the arguments of fingerprint() after the words, all six.
    """
    return fingerprint(words, *first), fingerprint(words, *second), count_words(words)


def fingerprint_many(
    texts: Sequence[bytes],
    n_words: int = 1,
    shingle: int = 1,
    hash: int = MIXED,
    distinct: bool = False,
    tie_ge: bool = False,
    key: int = 0,
) -> U64Array:
    """Fingerprints of many texts, shape (len(texts), n_words)."""
    out = np.zeros((len(texts), n_words), dtype=np.uint64)
    for row, text in zip(out, texts, strict=True):
        row[:] = fingerprint(text, n_words, shingle, hash, distinct, tie_ge, key)
    return out


def odd_rows(
    words: bytes, n_words: int, shingle: int, key: int = 0, level: int = 0, n_levels: int = 1
) -> U64Array:
    """level << 32 | shingles taken; then bit i says if an odd number of distinct ones fall on it.

    A row for each of n_levels levels from the first on; shape (n_levels, 1 + n_words), least
    significant word first. key: 128 bits, of SipHash. A shingle's place is its feature modulo
    64 * n_words, a power of two; under level l only the shingles whose top l bits are 0 are taken.
    Source: Mitzenmacher, Pagh, Pham 2014, section 3, over the shingles themselves.
    """
    taken, levels = features(words, shingle, SIPHASH, True, key), range(level, level + n_levels)
    return np.stack([_odd_row(taken, n_words, each) for each in levels])


def _odd_row(taken: U64Array, n_words: int, level: int) -> U64Array:
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
    unlike = (others >> _32 != page >> _32) & (bits <= within)
    similar[bits > within] = -1
    similar[unlike] = np.nan
    return bits, similar, int(unlike.sum())


def count_words(words: bytes) -> int:
    """How many words a text has."""
    return len(word_bounds(np.frombuffer(words, dtype=np.uint8))[0])

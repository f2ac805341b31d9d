"""The reference engine: plain Python, slow and obvious, the oracle of all others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec, Signatures, siphash_key
from scrapy_neardup.kernels.numpy_twin import U64Array
from scrapy_neardup.kernels.numpy_twin.mix import GOLDEN, MASK, fmix64


def sdbm(word: bytes) -> int:
    """The paper's term hash (equation 1): h = c + (h << 6) + (h << 16) - h, modulo 2**64."""
    h = 0
    for c in word:
        h = (c + (h << 6) + (h << 16) - h) & MASK
    return h


def siphash(word: bytes, key: int) -> int:
    """SipHash-1-3 under a key of 128 bits (Aumasson and Bernstein 2012, section 2)."""
    k0, k1 = key & MASK, key >> 64
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    padded = word + bytes(7 - len(word) % 8) + bytes([len(word) % 256])
    for i in range(0, len(padded), 8):
        block = int.from_bytes(padded[i : i + 8], "little")
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3 ^ block)
        v0 ^= block
    v2 ^= 0xFF
    for _ in range(3):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & MASK
    v1 = rotated(v1, 13) ^ v0
    v0 = rotated(v0, 32)
    v2 = (v2 + v3) & MASK
    v3 = rotated(v3, 16) ^ v2
    v0 = (v0 + v3) & MASK
    v3 = rotated(v3, 21) ^ v0
    v2 = (v2 + v1) & MASK
    v1 = rotated(v1, 17) ^ v2
    return v0, v1, rotated(v2, 32), v3


def rotated(x: int, bits: int) -> int:
    return (x << bits | x >> (64 - bits)) & MASK


def word_feature(word: bytes, spec: FingerprintSpec) -> int:
    """The 64-bit feature of a word: SipHash, or sdbm and the keyed mix if the spec has it."""
    if spec.hash == "siphash":
        return siphash(word, siphash_key(spec.key))
    h = sdbm(word)
    return fmix64(h ^ spec.key) if spec.mix else h


def shingle_feature(features: Sequence[int]) -> int:
    """One feature of consecutive words' features; a single word's stays as it is.

    A polynomial in GOLDEN, so that order matters, then mixed. Where the words' features are
    independent, as SipHash's, two different shingles agree with a probability below 2**-59.
    """
    if len(features) == 1:
        return features[0]
    h = 0
    for f in features:
        h = (h * GOLDEN + f) & MASK
    return fmix64(h)


def widen(feature: int, spec: FingerprintSpec) -> int:
    """A feature of spec.bits bits whose lowest 64 are the feature itself.

    SipHash's are random by themselves, so that less needs to be done.
    """
    wide = feature
    for i in range(1, spec.n_words):
        step = i * GOLDEN & MASK
        if spec.hash == "siphash":
            h = (feature ^ feature >> 32) * (fmix64(step) | 1) & MASK
            h ^= h >> 32
        else:
            h = fmix64((feature + step) & MASK)
        wide |= h << 64 * i
    return wide


def features(words: bytes, spec: FingerprintSpec) -> Iterable[int]:
    """The features that vote: of every word or shingle, each once under weighting "set"."""
    singles = [word_feature(w, spec) for w in words.split(b" ") if w]
    size = min(spec.shingle, len(singles))
    shingles = [
        shingle_feature(singles[i : i + size]) for i in range(len(singles) - size + 1) if size
    ]
    return set(shingles) if spec.weighting == "set" else shingles


def votes(words: bytes, spec: FingerprintSpec) -> list[int]:
    """The paper's vector V: V[i] = weight of features with bit i set, less that of the rest."""
    v = [0] * spec.bits
    for feature in features(words, spec):
        wide = widen(feature, spec)
        for i in range(spec.bits):
            v[i] += 1 if wide >> i & 1 else -1
    return v


def fingerprint(words: bytes, spec: FingerprintSpec) -> int:
    """Bitwise weighted majority of the features; 0 for a text without words."""
    if not words.strip(b" "):
        return 0
    v = votes(words, spec)
    threshold = 0 if spec.tie == "ge" else 1
    return sum(1 << i for i, weight in enumerate(v) if weight >= threshold)


def odd_sketch(words: bytes, spec: FingerprintSpec, level: int) -> tuple[int, int]:
    """Bit i: whether an odd number of distinct features are i modulo spec.bits; and of how many.

    Taken are the features whose top `level` bits are 0. Source: Mitzenmacher, Pagh, Pham 2014,
    section 3; departure: of the features themselves, not of a sample of their minima.
    """
    taken = [f for f in set(features(words, spec)) if f >> (64 - level) == 0]
    sketch = 0
    for feature in taken:
        sketch ^= 1 << feature % spec.bits
    return sketch, len(taken)


class ReferenceEngine:
    """Fingerprints by the definitions above, one word and one bit at a time."""

    def __init__(
        self, spec: FingerprintSpec = FINGERPRINT, sketch_spec: FingerprintSpec = SKETCH
    ) -> None:
        self.spec = spec
        self.sketch_spec = sketch_spec

    def fingerprint(self, words: bytes) -> int:
        return fingerprint(words, self.spec)

    def fingerprint_many(self, texts: Sequence[bytes]) -> U64Array:
        rows = [as_words(self.fingerprint(t), self.spec.n_words) for t in texts]
        return np.array(rows, dtype=np.uint64).reshape(len(texts), self.spec.n_words)

    def signatures(self, words: bytes) -> Signatures:
        sketch = as_words(fingerprint(words, self.sketch_spec), self.sketch_spec.n_words)
        return Signatures(self.fingerprint(words), sketch, count_words(words))


def as_words(value: int, n_words: int) -> U64Array:
    """An integer as uint64 words, least significant first; a fresh array."""
    return np.frombuffer(value.to_bytes(8 * n_words, "little"), dtype="<u8").astype(np.uint64)


def count_words(words: bytes) -> int:
    """How many words a text has; only the space separates."""
    return sum(1 for w in words.split(b" ") if w)

"""The reference engine: plain Python, slow and obvious, the oracle of all others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec, Signatures
from scrapy_neardup.kernels.numpy_twin import U64Array
from scrapy_neardup.kernels.numpy_twin.mix import GOLDEN, MASK, fmix64


def sdbm(word: bytes) -> int:
    """The paper's term hash (equation 1): h = c + (h << 6) + (h << 16) - h, modulo 2**64."""
    h = 0
    for c in word:
        h = (c + (h << 6) + (h << 16) - h) & MASK
    return h


def word_feature(word: bytes, spec: FingerprintSpec) -> int:
    """The 64-bit feature of a word: sdbm, then the keyed mix if the spec has it."""
    h = sdbm(word)
    return fmix64(h ^ spec.key) if spec.mix else h


def shingle_feature(features: Sequence[int]) -> int:
    """One feature of consecutive words' features; a single word's stays as it is.

    A polynomial in GOLDEN, so that order matters and a window can be rolled, then mixed.
    """
    if len(features) == 1:
        return features[0]
    h = 0
    for f in features:
        h = (h * GOLDEN + f) & MASK
    return fmix64(h)


def widen(feature: int, n_words: int) -> int:
    """A feature of n_words * 64 bits whose lowest 64 are the feature itself."""
    wide = feature
    for i in range(1, n_words):
        wide |= fmix64((feature + i * GOLDEN) & MASK) << 64 * i
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
        wide = widen(feature, spec.n_words)
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

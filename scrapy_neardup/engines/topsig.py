"""TopSig: wide signatures; a word weighs by its excess over the collection (Geva 2011)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from scrapy_neardup.errors import SnapshotError, SpecError
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.fingerprint import sdbm_words
from scrapy_neardup.kernels.numpy_twin.mix import GOLDEN, fmix64

MAX_BITS = 1024

Floats = npt.NDArray[np.float64]


def term_features(words: bytes) -> tuple[U64Array, I64Array]:
    """The 64-bit feature of each different word of a text, ascending, and how often it occurs."""
    features, counts = np.unique(fmix64(sdbm_words(words)), return_counts=True)
    return features, counts.astype(np.int64)


class TermTable:
    """How often each word occurs in a collection; frozen, so that signatures never drift.

    Words are known by their features. One that the collection lacks counts as seen once.
    """

    def __init__(self, features: U64Array, counts: I64Array) -> None:
        self.features, self.counts = features, counts  # ascending; shape (terms,) both
        self.total = max(1, int(counts.sum()))

    @classmethod
    def of_texts(cls, texts: Iterable[bytes]) -> Self:
        """Count the words of normalised texts."""
        counted = [term_features(words) for words in texts]
        features = np.concatenate([np.zeros(0, dtype=np.uint64), *(f for f, _ in counted)])
        counts = np.concatenate([np.zeros(0, dtype=np.int64), *(c for _, c in counted)])
        terms, places = np.unique(features, return_inverse=True)
        totals = np.zeros(len(terms), dtype=np.int64)
        np.add.at(totals, places, counts)
        return cls(terms, totals)

    def shares(self, features: U64Array) -> Floats:
        """The share of the collection's words that each feature has; above 0."""
        counts = np.ones(len(features))
        if len(self.features):
            places = np.minimum(np.searchsorted(self.features, features), len(self.features) - 1)
            known = self.features[places] == features
            counts[known] = self.counts[places[known]]
        return counts / self.total

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays; views."""
        return {"features": self.features, "counts": self.counts}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """The table that arrays() described. Raises SnapshotError."""
        features, counts = arrays["features"], arrays["counts"]
        ascending = features.dtype == np.uint64 and (features[1:] > features[:-1]).all()
        if not ascending or counts.dtype != np.int64 or counts.shape != features.shape:
            raise SnapshotError(
                f"term table: features {features.dtype}{features.shape} must ascend, with one "
                f"int64 count each, not {counts.dtype}{counts.shape}"
            )
        return cls(features, counts)


class TopSig:
    """Sparse random indexing: each word adds its weight to a few random bits, with random signs.

    bits: a multiple of 64 up to 1,024. density: a word touches one of so many bits, 21 in the
    authors' configuration. terms: frequencies of a collection like the pages to come.

    A word that occurs c times among n weighs (c - 0.5) ln((c / n) / its share of the collection);
    bit i is 1 where the weights of the words that touch it sum to more than 0. Source: Geva, De
    Vries, TopSig: topology preserving document signatures, CIKM 2011, as its published code does
    it. Departures: words no more frequent than in the collection are left out instead of weighing
    their count; a word touches one bit of every `density` neighbours, with signs by chance
    instead of half of each; no stemming or stop words, for text.py defines the words. Raises
    SpecError.
    """

    def __init__(self, terms: TermTable, bits: int = 1024, density: int = 21) -> None:
        if bits % 64 or not 64 <= bits <= MAX_BITS:
            raise SpecError(f"bits={bits}: take a multiple of 64 from 64 to {MAX_BITS}")
        if not 1 <= density <= bits:
            raise SpecError(f"density={density}: take 1 to {bits}, the bits")
        self.terms, self.bits, self.density = terms, bits, density
        self._strata = np.arange(0, bits, density)

    def signature(self, words: bytes) -> int:
        """The signature of one normalised text; 0 if no word exceeds its share."""
        return int.from_bytes(self.signature_many([words]).tobytes(), "little")

    def signature_many(self, texts: Sequence[bytes]) -> U64Array:
        """Signatures, shape (len(texts), bits // 64), least significant word first."""
        out = np.zeros((len(texts), self.bits // 64), dtype=np.uint64)
        for row, words in zip(out, texts, strict=True):
            row[:] = self.signature_of_counts(*term_features(words))
        return out

    def signature_of_counts(self, features: U64Array, counts: I64Array) -> U64Array:
        """The signature, shape (bits // 64,), of a text given by its words' features."""
        bits = self._sums(features, counts) > 0
        return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)

    def _sums(self, features: U64Array, counts: I64Array) -> Floats:
        information = np.log(counts / max(1, counts.sum()) / self.terms.shares(features))
        telling = information > 0
        weights = (counts[telling] - 0.5) * information[telling]
        places, signs = self._touched(features[telling])
        signed = (signs * weights[:, None]).ravel()
        sums: Floats = np.bincount(places.ravel(), signed, minlength=self.bits).astype(np.float64)
        return sums

    def _touched(self, features: U64Array) -> tuple[I64Array, Floats]:
        """Each word's bits, one in each stratum, and their signs."""
        steps = np.arange(1, len(self._strata) + 1, dtype=np.uint64) * np.uint64(GOLDEN)
        random = fmix64(features[:, None] + steps)
        widths = np.minimum(self.density, self.bits - self._strata)
        places = self._strata + ((random >> np.uint64(1)) % widths.astype(np.uint64)).astype(
            np.int64
        )
        return places, np.where(random & np.uint64(1), 1.0, -1.0)

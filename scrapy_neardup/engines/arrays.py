"""The NumPy engine: whole-array arithmetic, always available."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

import scrapy_neardup.kernels.numpy_twin.fingerprint as numpy_kernel
from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec, Signatures
from scrapy_neardup.kernels.numpy_twin import U64Array

LITTLE = np.dtype("<u8")


class ArraysEngine:
    """Fingerprints by the NumPy kernels, whichever kernels the rest of the package uses."""

    kernel: ModuleType = numpy_kernel

    def __init__(
        self, spec: FingerprintSpec = FINGERPRINT, sketch_spec: FingerprintSpec = SKETCH
    ) -> None:
        self.spec = spec
        self.sketch_spec = sketch_spec
        self._arguments = spec.arguments
        self._sketch_arguments = sketch_spec.arguments

    def fingerprint(self, words: bytes) -> int:
        return as_int(self.kernel.fingerprint(words, *self._arguments))

    def fingerprint_many(self, texts: Sequence[bytes]) -> U64Array:
        many: U64Array = self.kernel.fingerprint_many(texts, *self._arguments)
        return many

    def signatures(self, words: bytes) -> Signatures:
        fp, sketch, n_words = self.kernel.signatures(words, self._arguments, self._sketch_arguments)
        return Signatures(as_int(fp), sketch, n_words)


def as_int(words: U64Array) -> int:
    """uint64 words, least significant first, as one integer."""
    return int.from_bytes(words.astype(LITTLE, copy=False).tobytes(), "little")

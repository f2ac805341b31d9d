"""The NumPy engine: whole-array arithmetic, always available."""

from collections.abc import Sequence

from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec, Signatures
from scrapy_neardup.kernels.numpy_twin import U64Array
from scrapy_neardup.kernels.numpy_twin import fingerprint as kernel


class ArraysEngine:
    """Fingerprints by the NumPy kernels, whichever kernels the rest of the package runs on."""

    def __init__(
        self, spec: FingerprintSpec = FINGERPRINT, sketch_spec: FingerprintSpec = SKETCH
    ) -> None:
        self.spec = spec
        self.sketch_spec = sketch_spec

    def fingerprint(self, words: bytes) -> int:
        return int.from_bytes(kernel.fingerprint(words, *self.spec.arguments).tobytes(), "little")

    def fingerprint_many(self, texts: Sequence[bytes]) -> U64Array:
        return kernel.fingerprint_many(texts, *self.spec.arguments)

    def signatures(self, words: bytes) -> Signatures:
        sketch = kernel.fingerprint(words, *self.sketch_spec.arguments)
        return Signatures(self.fingerprint(words), sketch, kernel.count_words(words))

"""The native engine: compiled kernels, one pass over the words."""

from __future__ import annotations

from importlib import import_module

from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec
from scrapy_neardup.engines.arrays import ArraysEngine
from scrapy_neardup.errors import EngineUnavailable
from scrapy_neardup.kernels import PACKAGES, native_is_built


class NativeEngine(ArraysEngine):
    """Fingerprints by the compiled kernels, whatever NEARDUP_KERNELS says.

    Raises EngineUnavailable where nothing is compiled.
    """

    def __init__(
        self, spec: FingerprintSpec = FINGERPRINT, sketch_spec: FingerprintSpec = SKETCH
    ) -> None:
        if not native_is_built():
            raise EngineUnavailable(
                "engine 'native': this installation has no compiled kernels; reinstall where "
                "a C compiler is found, or take engine 'numpy'"
            )
        super().__init__(spec, sketch_spec)
        self.kernel = import_module(f"{PACKAGES['native']}.fingerprint")

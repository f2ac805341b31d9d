"""An area's kernels in NumPy and compiled, the latter at each SIMD level of this machine."""

import os
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from scrapy_neardup.kernels import PACKAGES, native_is_built

VARIANTS = ("numpy", "portable", "avx2", "avx512")


def kernels_of(area: str, variants: tuple[str, ...] = VARIANTS) -> Any:
    """A fixture over the area's variants; name it and take it as an argument.

    A compiled variant is skipped where nothing is compiled, unless NEARDUP_REQUIRE_NATIVE is
    set, and where the processor lacks its level.
    """

    @pytest.fixture(scope="module", params=variants)
    def kernel(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
        if request.param == "numpy":
            yield import_module(f"{PACKAGES['numpy']}.{area}")
        else:
            yield from at_level(native(area), request.param)

    return kernel


def native(area: str) -> ModuleType:
    """The compiled kernels of an area; skips, or fails where CI requires them, without."""
    if not native_is_built() and not os.environ.get("NEARDUP_REQUIRE_NATIVE"):
        pytest.skip(f"kernels.native.{area} is not compiled")
    return import_module(f"{PACKAGES['native']}.{area}")


def at_level(kernel: ModuleType, level: str) -> Iterator[ModuleType]:
    """The module run at a SIMD level, and as before afterwards."""
    if level not in kernel.SIMD_LEVELS:
        pytest.skip(f"this processor has no {level}")
    usual = kernel.simd()
    kernel.use_simd(level)
    yield kernel
    kernel.use_simd(usual)

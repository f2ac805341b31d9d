"""Picks the compiled kernels or their NumPy twins, once, and says which in `implementation`.

Each area is a module with the same functions in both: `kernels.bloom`, `kernels.facts`,
`kernels.fingerprint`, `kernels.hamming`, `kernels.markup`, `kernels.slices`, `kernels.templates`,
`kernels.words`, loaded when first used.
NEARDUP_KERNELS=numpy|native in the environment forces one; KernelsUnavailable if it is not there.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from scrapy_neardup.errors import KernelsUnavailable

if TYPE_CHECKING:
    from scrapy_neardup.kernels.numpy_twin import (
        bloom,
        facts,
        fingerprint,
        hamming,
        markup,
        slices,
        templates,
        words,
    )

    implementation: str

__all__ = [
    "bloom",
    "facts",
    "fingerprint",
    "hamming",
    "implementation",
    "markup",
    "slices",
    "templates",
    "words",
]

AREAS = ("bloom", "facts", "fingerprint", "hamming", "markup", "slices", "templates", "words")
PACKAGES = {
    "native": "scrapy_neardup.kernels.native",
    "numpy": "scrapy_neardup.kernels.numpy_twin",
}


def native_is_built() -> bool:
    """Whether the compiled kernels are installed beside this file: all areas, or none."""
    return find_spec(f"{PACKAGES['native']}.{AREAS[0]}") is not None


def choose() -> str:
    """The implementation to use, "native" or "numpy". Raises KernelsUnavailable."""
    forced = os.environ.get("NEARDUP_KERNELS", "")
    if forced not in ("", "numpy", "native"):
        raise KernelsUnavailable(f"NEARDUP_KERNELS={forced!r}: take 'numpy' or 'native'")
    if forced == "native" and not native_is_built():
        raise KernelsUnavailable(
            "NEARDUP_KERNELS='native', but this installation has no compiled kernels: "
            "reinstall where a C compiler is found, or unset it to run on NumPy"
        )
    return forced or ("native" if native_is_built() else "numpy")


def __getattr__(name: str) -> Any:
    if name == "implementation":
        value: Any = choose()
    elif name in AREAS:
        value = import_module(f"{PACKAGES[__getattr__('implementation')]}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value

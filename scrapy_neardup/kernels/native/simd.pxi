# Which SIMD level a module runs at: the best of this machine, or less by NEARDUP_SIMD.
# Include it and hand `simd_level` to the C functions that dispatch.

import os

from scrapy_neardup.errors import KernelsUnavailable

cdef extern from "simd.h":
    int simd_best() noexcept nogil

SIMD_LEVELS = ("portable", "avx2", "avx512")[: simd_best() + 1]

cdef int simd_level = simd_best()


def simd() -> str:
    """The SIMD level in use: one of SIMD_LEVELS, what this machine can run, lowest first."""
    return SIMD_LEVELS[simd_level]


def use_simd(name: str) -> None:
    """Run at the named level from now on. Raises KernelsUnavailable."""
    global simd_level
    if name not in SIMD_LEVELS:
        can = ", ".join(SIMD_LEVELS)
        raise KernelsUnavailable(f"NEARDUP_SIMD={name!r}: this machine can run {can}")
    simd_level = SIMD_LEVELS.index(name)


use_simd(os.environ.get("NEARDUP_SIMD") or SIMD_LEVELS[simd_best()])

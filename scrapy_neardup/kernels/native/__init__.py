"""The compiled kernels; empty where the package was built without a compiler.

Each area is a module NAME.pyx with the functions, arguments and results of
kernels/numpy_twin/NAME.py, built for the limited API of Python 3.11. Its C code stands beside
it in NAME*.h; what several areas need is in simd.h (levels and how to build for them).
`_cyutility` is Cython's own code for arrays, compiled once for all areas.

To add an area: write NAME.pyx, name it in AREAS of CMakeLists.txt and of kernels/__init__.py.
If it has code for several SIMD levels, `include "simd.pxi"` and pass `simd_level` to C, which
switches on SIMD_PORTABLE, SIMD_AVX2 and SIMD_AVX512. `NEARDUP_REQUIRE_NATIVE=1 pip install -e .`
builds it and fails if that fails. NEARDUP_SIMD=portable|avx2|avx512 in the environment forces a
lower level; tests/kernel_levels.py runs tests at every level.
"""

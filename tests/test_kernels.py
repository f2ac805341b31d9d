"""Which kernels are used: the compiled ones where they are, those that are forced otherwise."""

import os
import subprocess
import sys

import pytest
from kernel_levels import native

from scrapy_neardup import kernels
from scrapy_neardup.errors import KernelsUnavailable


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NEARDUP_")}
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**kept, **environment},
        capture_output=True,
        text=True,
    )


def test_compiled_kernels_are_used_where_they_are() -> None:
    done = run("from scrapy_neardup import kernels; print(kernels.implementation)")
    assert done.stdout.strip() == ("native" if kernels.native_is_built() else "numpy")


def test_numpy_can_be_forced() -> None:
    code = "from scrapy_neardup import kernels as k; print(k.implementation, k.fingerprint)"
    implementation, _, module = run(code, NEARDUP_KERNELS="numpy").stdout.partition(" ")
    assert implementation == "numpy"
    assert "numpy_twin" in module


def test_any_other_implementation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARDUP_KERNELS", "cuda")
    with pytest.raises(
        KernelsUnavailable, match="NEARDUP_KERNELS='cuda': take 'numpy' or 'native'"
    ):
        kernels.choose()


def test_an_unknown_area_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'gpu'"):
        _ = kernels.gpu


def test_a_simd_level_can_be_forced() -> None:
    native("fingerprint")
    code = "import scrapy_neardup.kernels.native.fingerprint as f; print(f.simd(), f.SIMD_LEVELS)"
    assert run(code, NEARDUP_SIMD="portable").stdout.startswith("portable ('portable'")


def test_a_simd_level_that_is_not_there_is_refused() -> None:
    kernel = native("fingerprint")
    with pytest.raises(KernelsUnavailable, match="NEARDUP_SIMD='sse9': this machine can run port"):
        kernel.use_simd("sse9")
    assert kernel.simd() in kernel.SIMD_LEVELS

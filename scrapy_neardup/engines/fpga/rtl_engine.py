"""RtlEngine: the core in Verilog, simulated by Verilator and held to the model at every text."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec
from scrapy_neardup.engines.fpga.design import Design, check_text
from scrapy_neardup.engines.fpga.engine import ComparedEngine
from scrapy_neardup.engines.fpga.fingerprint_engine import Dispatch, Result
from scrapy_neardup.engines.fpga.rtl_build import library
from scrapy_neardup.engines.fpga.scheduler import schedule
from scrapy_neardup.errors import EngineUnavailable, HardwareMismatch

OVERFLOW = -2  # what neardup_run returns, see rtl/harness.cpp

logger = logging.getLogger(__name__)


def log_progress(line: str) -> None:
    """A build within a crawl is seen in the crawl's log."""
    logger.info("neardup: engine 'rtl' is not built yet: %s", line)


class Verilated:
    """A fingerprint engine of one design, compiled from the Verilog by Verilator.

    Built on first use, some 10 s, unless `scrapy neardup rtl --build` has done so, and kept
    under $XDG_CACHE_HOME/scrapy_neardup (by default ~/.cache/scrapy_neardup) for each version
    of the sources, the design, Verilator and compiler, and each kind of processor. Raises
    EngineUnavailable where Verilator, make or a C++ compiler is missing.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self._run = load(library(design, log_progress))

    def run(self, texts: Sequence[bytes], dispatch: Dispatch = "queue") -> list[Result | None]:
        """The result of every text, by text, from cycle 0 with all texts resident.

        None for a text whose fingerprint never came. Raises SpecError for a NUL in a text,
        HardwareMismatch if a fingerprint came for which no text was waiting, or if all came
        and the engine says that one was lost.
        """
        for text in texts:
            check_text(text)
        offsets = np.zeros(len(texts) + 1, dtype=np.uint64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        fingerprints = np.zeros(len(texts), dtype=np.uint64)
        lanes = np.zeros(len(texts), dtype=np.uint8)
        cycles = np.full(len(texts), -1, dtype=np.int64)
        ended = self._run(
            b"".join(texts), offsets.ctypes.data, len(texts), self.design.key,
            self.design.n_cores, dispatch == "static",
            fingerprints.ctypes.data, lanes.ctypes.data, cycles.ctypes.data,
        )  # fmt: skip
        if ended >= 0:
            raise HardwareMismatch(
                f"the Verilog gave a fingerprint in cycle {ended} for which no text was waiting"
            )
        if ended == OVERFLOW and cycles.min() >= 0:
            raise HardwareMismatch("the Verilog raised `overflow`, though no fingerprint was lost")
        rows = zip(cycles.tolist(), lanes.tolist(), fingerprints.tolist(), strict=True)
        return [Result(*row) if row[0] >= 0 else None for row in rows]


class RtlEngine(ComparedEngine):
    """FpgaEngine that also simulates the Verilog, one batch a call, and compares the two.

    Each text's fingerprint has to be the kernels', its lane and cycle the scheduler's. A text
    in which one differs is counted as a mismatch and its call raises HardwareMismatch; in a
    crawl its page is kept. The calls that follow are compared like those before.

    For checking the hardware against a crawl: about a hundredth of the kernels' speed, and
    a call with a single text keeps one of the eight cores busy. Sketches are the kernels'.
    """

    def __init__(
        self, spec: FingerprintSpec = FINGERPRINT, sketch_spec: FingerprintSpec = SKETCH
    ) -> None:
        super().__init__(spec, sketch_spec)
        self._verilated = Verilated(self.board.design)

    def _check(self, texts: Sequence[bytes], fingerprints: list[int]) -> None:
        """Simulate the texts that the core's counters can count, and compare."""
        fitting = [i for i, text in enumerate(texts) if self.board.design.exact_for(len(text))]
        emissions = schedule([len(texts[i]) for i in fitting], self.board.design)
        expected = [
            Result(emission.cycle, emission.lane, fingerprints[i])
            for i, emission in zip(fitting, emissions, strict=True)
        ]
        try:
            results = self._verilated.run([texts[i] for i in fitting])
        except HardwareMismatch:
            self._count_checked(len(fitting), 1)
            raise
        different = [n for n, result in enumerate(results) if result != expected[n]]
        self._count_checked(len(fitting), len(different))
        if different:
            n = different[0]
            raise HardwareMismatch(difference(fitting[n], texts, expected[n], results[n]))


def difference(i: int, texts: Sequence[bytes], expected: Result, result: Result | None) -> str:
    """What differs, for the person who looks for the fault: text, lane, cycle, fingerprint."""
    text = texts[i]
    shown = repr(text if len(text) <= 60 else text[:60] + b"...")
    return (
        f"the Verilog differs from the model at text {i + 1} of {len(texts)} "
        f"({len(text)} bytes, {shown}): {described(result)} instead of {described(expected)}"
    )


def described(result: Result | None) -> str:
    if result is None:
        return "no fingerprint"
    return f"0x{result.fingerprint:016x} from lane {result.lane} in cycle {result.cycle}"


@cache
def load(path: Path) -> ctypes._FuncPointer:
    """The harness's function in a library that `library` built. Raises EngineUnavailable."""
    try:
        run = ctypes.CDLL(str(path)).neardup_run
    except (OSError, AttributeError) as error:  # AttributeError: it has no such function
        raise EngineUnavailable(
            f"engine 'rtl': {path} is damaged, or lies where nothing may be run ({error}): remove "
            f"it, or set XDG_CACHE_HOME to another folder, and run `scrapy neardup rtl --build`"
        ) from error
    run.restype = ctypes.c_int64
    run.argtypes = [
        ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64,
        ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    return run

"""The core in Verilog: written to a folder for users, and simulated by Verilator."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec, Signatures
from scrapy_neardup.engines.fpga.design import Design, Mixer, Output, check_text, pack
from scrapy_neardup.engines.fpga.engine import FpgaEngine
from scrapy_neardup.engines.fpga.fingerprint_engine import Dispatch, Result, simulate
from scrapy_neardup.errors import BrokenInvariant, EngineUnavailable
from scrapy_neardup.kernels.numpy_twin import U64Array

SOURCES = Path(__file__).parent / "rtl"
TOP = "fingerprint_engine"
MIXER_CODES: dict[Mixer, int] = {"none": 0, "light": 1, "fmix64": 2}
OUTPUT_CODES: dict[Output, int] = {"latched": 0, "slots": 1}
SAMPLE = (b"school school students teachers", b"", b"a", b"sixteen letters ", b"one  two three")
THIS_PROCESSOR = "-march=native"  # a library is built where it runs
BUILD_S = 600  # a build takes some 10 s; one that hangs must not hang the crawl


def parameters(design: Design) -> dict[str, int]:
    """A design as parameters of the Verilog module fingerprint_engine."""
    return {
        "N": design.n_cores,
        "CW": design.counter_bits,
        "BYTES": design.bytes_per_cycle,
        "TIE_GE": int(design.tie == "ge"),
        "MIXER": MIXER_CODES[design.mixer],
        "SLOTS": OUTPUT_CODES[design.output],
    }


def modules() -> list[Path]:
    """The synthesisable Verilog files."""
    return sorted(set(SOURCES.glob("*.v")) - {SOURCES / "testbench.v"})


def write_rtl(out_dir: str | Path) -> list[Path]:
    """Write the Verilog, its test bench and harness, and a sample with its expected trace.

    Creates the folder; overwrites files of these names. README.md there says how to run
    them. Returns the paths written.
    """
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    written = [Path(shutil.copy(source, out)) for source in sorted(SOURCES.iterdir())]
    words, trace = out / "sample_words.hex", out / "sample_trace.txt"
    words.write_text(words_hex(SAMPLE))
    trace.write_text(trace_text(simulate(SAMPLE, Design())))
    return [*written, words, trace]


def words_hex(texts: Sequence[bytes]) -> str:
    """Documents as the test bench reads them: a 64-bit word in hexadecimal a line."""
    return "".join(f"{word:016x}\n" for text in texts for word in pack(text))


def trace_text(lanes: list[list[Result]]) -> str:
    """Results as the test bench prints them: cycle, lane, fingerprint; by cycle."""
    results = sorted(result for lane in lanes for result in lane)
    return "".join(f"{r.cycle} {r.lane} {r.fingerprint:016x}\n" for r in results)


class Verilated:
    """A fingerprint engine of one design, compiled from the Verilog by Verilator.

    Built on first use, some 10 s, and kept under $XDG_CACHE_HOME/scrapy_neardup (by
    default ~/.cache/scrapy_neardup) for each version of the sources, the design, Verilator
    and compiler, and each kind of processor. Raises EngineUnavailable where Verilator, make
    or a C++ compiler is missing.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self._run = load(library(design))

    def run(self, texts: Sequence[bytes], dispatch: Dispatch = "queue") -> list[Result]:
        """The result of every text, by text, from cycle 0 with all texts resident.

        Raises SpecError for a NUL in a text, BrokenInvariant if a fingerprint was lost.
        """
        for text in texts:
            check_text(text)
        offsets = np.zeros(len(texts) + 1, dtype=np.uint64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        fingerprints = np.zeros(len(texts), dtype=np.uint64)
        lanes = np.zeros(len(texts), dtype=np.uint8)
        cycles = np.zeros(len(texts), dtype=np.int64)
        taken = self._run(
            b"".join(texts), offsets.ctypes.data, len(texts), self.design.key,
            self.design.n_cores, dispatch == "static",
            fingerprints.ctypes.data, lanes.ctypes.data, cycles.ctypes.data,
        )  # fmt: skip
        if taken < 0:
            raise BrokenInvariant(f"the Verilated engine lost a fingerprint of {len(texts)} texts")
        rows = zip(cycles.tolist(), lanes.tolist(), fingerprints.tolist(), strict=True)
        return [Result(*row) for row in rows]


class RtlEngine(FpgaEngine):
    """FpgaEngine whose fingerprints come out of the simulated Verilog, one batch a call.

    For checking the hardware against a crawl: about a fiftieth of the kernels' speed, and
    a call with a single text keeps one of the eight cores busy. Sketches are the kernels'.
    """

    def __init__(
        self, spec: FingerprintSpec = FINGERPRINT, sketch_spec: FingerprintSpec = SKETCH
    ) -> None:
        super().__init__(spec, sketch_spec)
        self._verilated = Verilated(self.board.design)

    def fingerprint(self, words: bytes) -> int:
        return int(self.fingerprint_many([words])[0, 0])

    def fingerprint_many(self, texts: Sequence[bytes]) -> U64Array:
        values = super().fingerprint_many(texts)
        fitting = [i for i, text in enumerate(texts) if self.board.design.exact_for(len(text))]
        results = self._verilated.run([texts[i] for i in fitting])
        values[fitting, 0] = [result.fingerprint for result in results]
        return values

    def signatures(self, words: bytes) -> Signatures:
        values = self._values.signatures(words)
        return values._replace(fingerprint=self.fingerprint(words))


@cache
def load(path: Path) -> ctypes._FuncPointer:
    """The harness's function in a library that `library` built."""
    run = ctypes.CDLL(str(path)).neardup_run
    run.restype = ctypes.c_int64
    run.argtypes = [
        ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64,
        ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    return run


def library(design: Design) -> Path:
    """The shared library of a design, built if the cache does not have it."""
    folder = cache_folder()
    require_private(folder)
    path = folder / f"rtl-{name_of_build(design)}.so"
    if path.exists():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with TemporaryDirectory(dir=folder) as scratch:
            os.replace(build(design, Path(scratch)), path)
    except OSError as error:
        raise EngineUnavailable(
            f"engine 'rtl' keeps what it builds in {folder}, which failed ({error}): "
            "set XDG_CACHE_HOME to a folder that can be written to"
        ) from error
    return path


def cache_folder() -> Path:
    """Where built libraries are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scrapy_neardup"


def require_private(folder: Path) -> None:
    """Raise EngineUnavailable if anybody else may have put code, which is run, into a folder."""
    if sys.platform == "win32" or not folder.exists():
        return
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise EngineUnavailable(
            f"engine 'rtl' runs what it built and kept in {folder}, which others may write to: "
            f"remove the folder, or set XDG_CACHE_HOME to another one"
        )


def name_of_build(design: Design) -> str:
    """A name for everything that a built library depends on, compiler and processor too."""
    digest = blake2b(Path(__file__).read_bytes(), digest_size=12)
    compiler = run_tool("g++", THIS_PROCESSOR, "-dM", "-E", "-x", "c++", os.devnull)
    values = repr(sorted(parameters(design).items()))
    for part in (run_tool("verilator", "--version"), compiler, values):
        digest.update(part.encode())
    for source in [*modules(), SOURCES / "harness.cpp"]:
        digest.update(source.read_bytes())
    return digest.hexdigest()


def build(design: Design, folder: Path) -> Path:
    """Translate and compile the engine with its harness; the shared library's path."""
    find_tool("make")
    run_tool(
        "verilator", "--cc", "--exe", "--build", "-O3", "--x-assign", "fast",
        "--x-initial", "fast", "--noassert", "--top-module", TOP,
        *(f"-G{name}={value}" for name, value in parameters(design).items()),
        "-CFLAGS", f"-fPIC {THIS_PROCESSOR}", "-LDFLAGS", "-shared",
        "-MAKEFLAGS", "OPT_FAST=-O2",  # Verilator's own makefile says -Os, which halves the speed
        "--Mdir", str(folder), "-o", "engine.so",
        *map(str, modules()), str(SOURCES / "harness.cpp"),
    )  # fmt: skip
    return folder / "engine.so"


def find_tool(name: str) -> str:
    """The path of a program. Raises EngineUnavailable with the remedy."""
    path = shutil.which(name)
    if path is None:
        raise EngineUnavailable(
            f"engine 'rtl' simulates Verilog and needs {name}, which is not on PATH: install "
            "verilator, make and g++ (Debian: apt-get install verilator g++ make), or set "
            "NEARDUP_ENGINE='fpga' for the same fingerprints and cycles without them"
        )
    return path


def run_tool(name: str, *arguments: str) -> str:
    """The output of a program. Raises EngineUnavailable if it is missing or fails."""
    command = [find_tool(name), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S)  # noqa: S603 - no shell; the arguments are ours
    except subprocess.TimeoutExpired as error:
        raise EngineUnavailable(f"engine 'rtl': {name} took over {BUILD_S} s") from error
    if done.returncode:
        raise EngineUnavailable(
            f"engine 'rtl': {name} ended with {done.returncode}: {done.stderr.strip()[-2000:]}"
        )
    return done.stdout

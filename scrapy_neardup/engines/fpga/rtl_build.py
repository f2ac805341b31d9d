"""The Verilog compiled by Verilator to a shared library: built once, then taken from a cache."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from scrapy_neardup.engines.fpga.design import Design
from scrapy_neardup.engines.fpga.verilog import compiled, parameters
from scrapy_neardup.errors import EngineUnavailable
from scrapy_neardup.own_files import sync_file

TOP = "fingerprint_engine"
THIS_PROCESSOR = "-march=native"  # a library is built where it runs
PROGRESS_S = 10  # a build takes some 10 s; one that takes longer says so each time these pass

Progress = Callable[[str], None]


def library(design: Design, progress: Progress) -> Path:
    """The shared library of a design, built if the cache does not have it.

    progress: called with a line when a build begins a step, every PROGRESS_S while a step
    lasts, and when it is done; not called for a library that the cache has. Raises
    EngineUnavailable where Verilator, make or a C++ compiler is missing or fails.
    """
    folder = cache_folder()
    require_private(folder)
    path = folder / f"rtl-{name_of_build(design)}.so"
    if path.exists():
        return path
    start = time.monotonic()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Built elsewhere: Verilator's makefile takes no path with a space, and what a killed build
        # leaves behind is the system's to clear away.
        with TemporaryDirectory() as scratch:
            keep(build(design, Path(scratch), progress), path)
    except OSError as error:
        raise EngineUnavailable(
            f"engine 'rtl' keeps what it builds in {folder}, which failed ({error}): "
            "set XDG_CACHE_HOME to a folder that can be written to"
        ) from error
    progress(f"built in {time.monotonic() - start:.0f} s, kept as {path}")
    return path


def keep(built: Path, path: Path) -> None:
    """Put a library into the cache, whole or not at all, also after a loss of power."""
    with TemporaryDirectory(dir=path.parent) as scratch:
        copied = Path(shutil.copy(built, scratch))
        sync_file(copied)
        os.replace(copied, path)


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
    for source in compiled():
        digest.update(source.read_bytes())
    return digest.hexdigest()


def build(design: Design, folder: Path, progress: Progress) -> Path:
    """Translate and compile the engine with its harness; the shared library's path."""
    find_tool("make")
    # Copied, for their own path may have a space.
    sources = [str(shutil.copy(source, folder)) for source in compiled()]
    progress(f"translating {len(sources) - 1} Verilog files with Verilator")
    run_tool(
        "verilator", "--cc", "--exe", "-O3", "--x-assign", "fast", "--x-initial", "fast",
        "--noassert", "--top-module", TOP,
        *(f"-G{name}={value}" for name, value in parameters(design).items()),
        "-CFLAGS", f"-fPIC {THIS_PROCESSOR}", "-LDFLAGS", "-shared",
        "--Mdir", str(folder), "-o", "engine.so", *sources,
        progress=progress,
    )  # fmt: skip
    progress(f"compiling {len(list(folder.glob('*.cpp')))} C++ files with g++")
    # Verilator's own makefile says -Os, which halves the speed.
    run_tool("make", "-C", str(folder), "-f", f"V{TOP}.mk", "OPT_FAST=-O2", progress=progress)
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


def run_tool(name: str, *arguments: str, progress: Progress | None = None) -> str:
    """The output of a program. Raises EngineUnavailable if it is missing or fails."""
    command = [find_tool(name), *arguments]
    start = time.monotonic()
    with subprocess.Popen(  # noqa: S603 - no shell; the arguments are ours
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        try:
            while True:
                try:
                    output, errors = process.communicate(timeout=PROGRESS_S)
                    break
                except subprocess.TimeoutExpired:
                    if progress is not None:
                        progress(f"{name} is at work for {time.monotonic() - start:.0f} s")
        except BaseException:  # Ctrl-C, or a `progress` that fails: no orphan goes on compiling
            stop(process)
            raise
    if process.returncode:
        raise EngineUnavailable(
            f"engine 'rtl': {name} ended with {process.returncode}: {errors.strip()[-2000:]}"
        )
    return output


def stop(process: subprocess.Popen[str]) -> None:
    """End a program and what it started: make's compilers outlive make."""
    if sys.platform == "win32":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)

"""The kernels' tests under sanitizers: `python -m tests.sanitizers [KIND …] [--areas AREA …]`.

Kinds are `address` (with undefined behaviour) and `thread`; without one, both. Needs GCC, CMake,
Ninja and Cython. Builds into a folder of its own and leaves the kernels of the checkout alone.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NATIVE = Path("scrapy_neardup") / "kernels" / "native"
KINDS = {"address": ("asan", "ubsan"), "thread": ("tsan",)}
AREAS = (
    *("bloom", "facts", "fingerprint", "hamming", "markup", "slices", "templates", "words"),
    *("first_call", "threads"),
)
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's own, at its end
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1 report_signal_unsafe=0",
    "PYTHONMALLOC": "malloc",  # or the sanitizer sees one large block
    "NEARDUP_REQUIRE_NATIVE": "1",
    "OPENBLAS_NUM_THREADS": "1",  # its threads are not built for the sanitizer
}


def main() -> int:
    """How many kinds failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=[], metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--areas", nargs="+", default=AREAS, choices=AREAS)
    chosen = parser.parse_args()
    if unknown := set(chosen.kinds) - set(KINDS):
        parser.error(f"{', '.join(sorted(unknown))}: take {', '.join(KINDS)}")
    return sum(run(kind, chosen.areas) != 0 for kind in chosen.kinds or KINDS)


def run(kind: str, areas: list[str]) -> int:
    """Build, test; pytest's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "checkout")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "*.so", "__pycache__"))
        build(kind, copy, Path(folder, "build"))
        tests = [f"tests/test_kernels_{area}.py" for area in areas]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--capture=sys",
            "-k",
            "not numpy",  # nothing of which is built for the sanitizer
            *tests,
        ]
        return subprocess.run(command, cwd=copy, env=environment(kind, copy)).returncode


def build(kind: str, copy: Path, folder: Path) -> None:
    """Compile the kernels of a copy of the checkout, and put them beside their sources."""
    defined = (f"NEARDUP_SANITIZE={kind}", "CMAKE_BUILD_TYPE=Debug")
    definitions = [f"-D{each}" for each in (*defined, f"Python_EXECUTABLE={sys.executable}")]
    configure = ["cmake", "-S", copy / NATIVE, "-B", folder, "-G", "Ninja", *definitions]
    for command in (configure, ["cmake", "--build", folder]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for library in folder.glob("*.so"):
        shutil.copy(library, copy / NATIVE)


def environment(kind: str, copy: Path) -> dict[str, str]:
    """The sanitizer must be there before the interpreter, which is not built with it."""
    libraries = [runtime(name) for name in KINDS[kind]]
    return os.environ | OPTIONS | {"LD_PRELOAD": " ".join(libraries), "PYTHONPATH": str(copy)}


def runtime(name: str) -> str:
    command = ["gcc", f"-print-file-name=lib{name}.so"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())

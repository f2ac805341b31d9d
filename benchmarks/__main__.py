"""Every kernel's figure beside its target and its peers.

python -m benchmarks [AREA …] [--only TEXT] [--list] [--json FILE]
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import numpy as np

from benchmarks.rows import Part, Row, one_core
from scrapy_neardup import kernels

AREAS = ("fingerprints", "extraction", "index", "slices", "bloom", "urlkeys")
FALLBACK = (
    "There are no compiled kernels here, only NumPy's. Install the package where a C compiler is "
    "found, or set NEARDUP_KERNELS=numpy to measure the fallback."
)


def main() -> None:
    options = parsed()
    parts = {
        f"{area}: {part.name}": part
        for area in options.areas
        for part in import_module(f"benchmarks.{area}").PARTS
        if options.only.casefold() in f"{area}: {part.name}".casefold()
    }
    if not parts:
        sys.exit(f"no part has {options.only!r} in its name: see --list")
    if options.list:
        print("\n".join(parts))
        return
    if kernels.implementation == "numpy" and not os.environ.get("NEARDUP_KERNELS"):
        sys.exit(FALLBACK)
    print(machine(), end="\n\n", flush=True)
    rows = list(measured(parts))
    if options.json:
        records = json.dumps([row.as_json() for row in rows], indent=1)
        Path(options.json).write_text(records, encoding="utf-8")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("areas", nargs="*", default=AREAS, help=f"of {', '.join(AREAS)}; all")
    parser.add_argument("--only", metavar="TEXT", default="", help="parts with this in their name")
    parser.add_argument("--list", action="store_true", help="name the parts, and measure nothing")
    parser.add_argument("--json", metavar="FILE", help="write the rows as JSON, too")
    return parser.parse_args()


def measured(parts: dict[str, Part]) -> Iterator[Row]:
    """The rows of the parts, each printed as soon as it is there; progress goes to stderr."""
    start, done, left = time.monotonic(), 0.0, sum(part.minutes for part in parts.values())
    for number, (name, part) in enumerate(parts.items(), start=1):
        so_far = (time.monotonic() - start) / 60
        estimate = left * (so_far / done if done else 1)
        times = f"{so_far:.1f} min, about {estimate:.1f} left"
        print(f"[{number} of {len(parts)}, {times}] {name}", file=sys.stderr, flush=True)
        with nullcontext() if part.all_cores else one_core():
            for row in part.rows():
                print(as_line(row), flush=True)
                yield row
        done, left = done + part.minutes, left - part.minutes


def machine() -> str:
    """What is measured, and what the figures hold for."""
    parts = [f"kernels {kernels.implementation} of {Path(kernels.__file__).parent}", processor()]
    parts += [f"{os.cpu_count()} cores", platform.platform(terse=True)]
    return ", ".join([*parts, f"Python {platform.python_version()}", f"NumPy {np.__version__}"])


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(": ")[2]
    return platform.processor() or platform.machine()


def as_line(row: Row) -> str:
    peers = "; ".join(
        f"{name} {'not installed' if value is None else f'{value:.3g}'}"
        for name, value in row.peers.items()
    )
    return f"{row.kernel:<44} {row.value:>9.3g} {row.unit:<8} {verdict(row):<44} {peers}".rstrip()


def verdict(row: Row) -> str:
    """The target, and whether it is met."""
    if row.target is None:
        return ""
    limit = f"{'<=' if row.at_most else '>='} {row.target:g}"
    if row.yardstick is not None:
        ratio = "" if row.held is None else f"{row.held:.2g} "
        limit = f"{ratio}{limit} x {row.yardstick.name}"
    met = {True: "met", False: "MISSED", None: "not measured: not installed"}[row.met]
    return f"{limit}: {met}"


main()

"""Every kernel's figure beside its target and its peers: python -m benchmarks [--json FILE]."""

import argparse
import json
import os
import platform
from importlib import import_module
from pathlib import Path

import numpy as np

from benchmarks.rows import Row
from scrapy_neardup import kernels

# Modules with rows() -> list[Row].
AREAS = ("fingerprints", "extraction", "index", "slices", "bloom", "urlkeys")


def main() -> None:
    options = parsed()
    rows: list[Row] = []
    print(machine(), end="\n\n")
    for area in options.areas:
        made = import_module(f"benchmarks.{area}").rows()
        rows += made
        print("\n".join(map(as_line, made)), flush=True)
    if options.json:
        records = json.dumps([row.as_json() for row in rows], indent=1)
        Path(options.json).write_text(records, encoding="utf-8")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("areas", nargs="*", default=AREAS, help=f"of {', '.join(AREAS)}; all")
    parser.add_argument("--json", metavar="FILE", help="write the rows as JSON, too")
    return parser.parse_args()


def machine() -> str:
    """What the figures hold for."""
    parts = [processor(), f"{os.cpu_count()} cores", platform.platform(terse=True)]
    parts += [f"Python {platform.python_version()}", f"NumPy {np.__version__}"]
    return ", ".join([*parts, f"kernels {kernels.implementation}"])


def processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(": ")[2]
    return platform.processor() or platform.machine()


def as_line(row: Row) -> str:
    target = "" if row.target is None else f"{'<=' if row.at_most else '>='} {row.target:g}"
    met = {True: "met", False: "MISSED", None: ""}[row.met]
    peers = "; ".join(
        f"{name} {'not installed' if value is None else f'{value:.3g}'}"
        for name, value in row.peers.items()
    )
    return f"{row.kernel:<44} {row.value:>9.3g} {row.unit:<8} {target:<9} {met:<7} {peers}".rstrip()


main()

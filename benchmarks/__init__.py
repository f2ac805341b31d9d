"""Benchmarks of the package as it is installed.

Run from a clone, Python would import the source tree beside this folder. If that has no compiled
kernels and another installation has, the other one is meant.
"""

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "scrapy_neardup" / "kernels" / "native"


def prefer_installed() -> None:
    """Search the source tree last here, for `tests`, and not at all in processes begun here."""
    if any(NATIVE.glob("*.so")) or any(NATIVE.glob("*.pyd")) or "scrapy_neardup" in sys.modules:
        return
    before = sys.path[:]
    sys.path[:] = [path for path in before if Path(path or ".").resolve() != ROOT]
    if importlib.util.find_spec("scrapy_neardup") is None:
        sys.path[:] = before
    else:
        sys.path.append(str(ROOT))
        os.environ["PYTHONSAFEPATH"] = "1"


prefer_installed()

"""Faults aimed at single calls of the operating system: fault_shim.c, compiled and preloaded.

A process that is to suffer them has to be started anew with preloaded(); arm() in it, or in what
it forks, then says what happens at which call below a folder.
"""

import ctypes
import errno
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

COMPILER = shutil.which("cc") or shutil.which("gcc")
IS_POSSIBLE = sys.platform == "linux" and COMPILER is not None
LOADED = "NEARDUP_FAULTS"  # set in processes that have the shim
YEAR_S = 365 * 86400


class Fault(NamedTuple):
    """What happens at the nth write, sync, cut, rename or removal."""

    name: str
    action: int  # as in fault_shim.c
    error: int = 0
    n_failing: int = 0
    seconds: int = 0


KILLS = (
    Fault("killed before a call", 1),
    Fault("killed after a call", 2),
    Fault("killed in a write", 3),
)
OTHERS = (
    Fault("EIO once", 4, errno.EIO, 1),
    Fault("EIO for a while", 4, errno.EIO, 40),
    Fault("disk full for a while", 4, errno.ENOSPC, 40),
    Fault("disk full for good", 4, errno.ENOSPC, 10**9),
    Fault("clock 10 years ahead", 5, seconds=10 * YEAR_S),
    Fault("clock 10 years back", 5, seconds=-10 * YEAR_S),
    Fault("clock an hour back", 5, seconds=-3600),
)


def preloaded() -> dict[str, str]:
    """An environment for processes that have the shim, which is compiled first."""
    library = Path(tempfile.mkdtemp(prefix="neardup-faults-")) / "shim.so"
    source = Path(__file__).with_name("fault_shim.c")
    command = [str(COMPILER), "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True)
    return os.environ | {"LD_PRELOAD": str(library), LOADED: "1"}


def arm(folder: Path, fault: Fault, at: int) -> None:
    """Let a fault happen at the `at`th call below a folder, counted from 1, in this process."""
    shim = ctypes.CDLL(None)
    longs = ctypes.c_long(at), ctypes.c_int(fault.action), ctypes.c_int(fault.error)
    rest = ctypes.c_long(fault.n_failing), ctypes.c_long(fault.seconds)
    shim.fault_arm(os.fsencode(folder), *longs, *rest)


def chosen(rng: random.Random) -> tuple[Fault, int]:
    """A fault and a call, early and late ones alike: three in four are kills."""
    fault = rng.choice(KILLS if rng.random() < 0.75 else OTHERS)
    return fault, int(2 ** rng.uniform(0, 10))

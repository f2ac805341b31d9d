"""A fresh interpreter, for tests of what it loads; without coverage.py, which loads more."""

import os
import subprocess
import sys


def run_fresh(program: str) -> subprocess.CompletedProcess[str]:
    """What became of the program, its output as text."""
    usual = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, env=usual, check=False)

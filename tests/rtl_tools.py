"""Simulators and provers of hardware: which tests need them, and how they are run.

NEARDUP_REQUIRE_RTL=1 in the environment turns the skips for missing tools into failures.
"""

import os
import shutil
import subprocess

import pytest


def needs(*tools: str) -> None:
    """Skip the test where a tool is missing; fail where it was promised."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing and os.environ.get("NEARDUP_REQUIRE_RTL") == "1":
        pytest.fail(f"NEARDUP_REQUIRE_RTL=1, but {', '.join(missing)} not on PATH")
    if missing:
        pytest.skip(f"{', '.join(missing)} not on PATH")


def needs_verilator() -> None:
    needs("verilator", "make", "g++")


def run(*command: str) -> str:
    """What a program prints; its failure is the test's."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

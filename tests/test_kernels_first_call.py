"""Kernels called for the first time in a process, also under `tests.sanitizers`."""

import os
import subprocess
import sys

import first_calls
import pytest
from kernel_levels import native


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_the_first_call_in_a_process_may_be_of_anything() -> None:
    """What kernels make when they first need it is there, whatever needs it first."""
    native("words")
    command = [sys.executable, first_calls.__file__, "600"]
    single = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # a process with threads is not forked
    done = subprocess.run(command, capture_output=True, text=True, env=single, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr

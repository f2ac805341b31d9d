"""A plugin for pytest: which tests were skipped goes to the file $SKIPPED, for `pytest @file`."""

import os
import re
from pathlib import Path
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One test, or file, a line; without the group that pytest-xdist writes behind its name."""
    skipped = terminalreporter.stats.get("skipped", [])
    names = {re.sub(r"@\w+$", "", report.nodeid) for report in skipped}
    Path(os.environ["SKIPPED"]).write_text("".join(f"{n}\n" for n in sorted(names)), "utf-8")

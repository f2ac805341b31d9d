"""A pytest plugin that lists what was skipped, an argument for pytest a line.

PYTHONPATH=.ci pytest -p skipped_tests --skipped FILE
pytest @FILE
"""

import re
from pathlib import Path

import pytest

GROUP = re.compile(r"@[\w-]+$")  # xdist names a test's group behind it


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--skipped", type=Path, metavar="FILE", help="list skipped tests there")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # workers of xdist report to the main process
        config.pluginmanager.register(SkippedTests(config.getoption("skipped")))


class SkippedTests:
    """Node ids of tests, and of modules that were skipped as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped:
            self._names.add(GROUP.sub("", report.nodeid))

    def pytest_sessionfinish(self) -> None:
        self._path.write_text("".join(f"{name}\n" for name in sorted(self._names)))

"""Imports inside the package go downwards only, and importing it stays cheap."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import scrapy_neardup

PACKAGE = Path(scrapy_neardup.__file__).parent
# Highest first. A room may import from its own layer and from those below it.
LAYERS = (
    ("addon", "commands", "spark"),
    ("middleware", "spidermiddleware", "pipeline", "dupefilter"),
    ("memory",),
    ("witness", "dedup"),
    ("peers",),
    ("parts", "trail", "visits", "jobs", "closing", "live", "waiting"),
    ("copies", "requestfingerprint", "calibration"),
    ("evaluation",),
    ("page_files",),
    ("settings", "extract", "stats", "report"),
    ("fleet",),
    ("detector", "state", "ledger", "undone"),
    (
        "engines",
        "index",
        "bloom",
        "urlkey",
        "urlrules",
        "text",
        "pages",
        "similarity",
        "boilerplate",
    ),
    ("kernels",),
    ("errors",),
)
SCRAPY_ROOMS = {
    *("addon", "middleware", "spidermiddleware", "pipeline", "dupefilter", "memory", "trail"),
    *("visits", "copies", "requestfingerprint", "jobs", "peers", "waiting"),
    "witness",
    "dedup",
    *("settings", "extract", "urlkey", "commands"),
}
RANK = {room: rank for rank, layer in enumerate(LAYERS) for room in layer}


def modules() -> Iterator[tuple[str, Path]]:
    """Room (first part of the module's name) and path of every module but the root."""
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room not in ("__init__", "__main__"):
            yield room, path


def imported(path: Path) -> Iterator[str]:
    """Dotted names that a module imports, TYPE_CHECKING blocks and functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            if node.module == "scrapy_neardup":
                yield from (f"scrapy_neardup.{alias.name}" for alias in node.names)
            elif node.module:
                yield node.module


@pytest.mark.parametrize(
    ("room", "path"), [pytest.param(*m, id=str(m[1].relative_to(PACKAGE))) for m in modules()]
)
def test_imports_go_downwards(room: str, path: Path) -> None:
    assert room in RANK, f"{room} has no place in the layers: add it here and in the docs"
    for name in imported(path):
        if name.startswith("scrapy_neardup"):
            _, _, target = name.partition(".")
            assert target, f"{path} imports the package root"
            assert RANK[room] <= RANK[target.split(".")[0]], (
                f"{path} imports {name}, which is above it"
            )


@pytest.mark.parametrize(
    ("room", "path"), [pytest.param(*m, id=str(m[1].relative_to(PACKAGE))) for m in modules()]
)
def test_only_scrapys_neighbours_import_scrapy(room: str, path: Path) -> None:
    uses_scrapy = any(name.split(".")[0] == "scrapy" for name in imported(path))
    assert not uses_scrapy or room in SCRAPY_ROOMS


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "numpy scrapy twisted lxml mmh3 publicsuffixlist"
    code = f"import sys, scrapy_neardup; print([m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_loaded() -> None:
    for name in scrapy_neardup.__all__:
        assert getattr(scrapy_neardup, name).__name__ == name

"""Imports inside the package go downwards only, in no circle, and importing it stays cheap."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from fresh import run_fresh

import scrapy_neardup
from scrapy_neardup import index
from scrapy_neardup.urls import filters

PACKAGE = Path(scrapy_neardup.__file__).parent
# Highest first. A folder, or a module of the root, imports from its own rank and those below.
RANKS = (
    {"addon", "commands"},
    {
        "downloadermiddleware",
        "spidermiddleware",
        "pipeline",
        "dupefilter",
        "squeues",
        "scheduler",
        "extension",
    }
    | {"offline", "spark"},
    {"crawl"},
    {"fleet"},
    {"factory"},
    {"state", "report"},
    {"detect", "urls", "learn", "ledger", "settings"},
    {"engines", "index"},
    {"kernels"},
    {
        "errors",
        "harmless",
        "named_classes",
        "own_files",
        "stats",
        "signals",
        "sqlite_files",
        "stored_arrays",
    },
)
RANK = {room: rank for rank, rooms in enumerate(RANKS) for room in rooms}
# The front of the package, the crawl and what reads a request; the rest runs without Scrapy.
IMPORTS_SCRAPY = {
    *("addon", "downloadermiddleware", "spidermiddleware", "pipeline", "dupefilter", "squeues"),
    *("scheduler", "extension", "settings"),
    *(
        "crawl",
        "commands.scrapy_command",
        "commands.dedup",
        "commands.rules",
        "commands.urls",
        "offline.dedup.said",
    ),
    *("fleet.futures", "fleet.shared_pages", "fleet.worker"),
    *("urls.key", "urls.request_fingerprinter"),
}


def name_of(path: Path) -> str:
    """The name of a module below the package: "urls.key" for urls/key.py, "urls" for its root."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {
    name_of(path): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.parent != PACKAGE or not path.stem.startswith("__")
}
each_module = pytest.mark.parametrize("module", MODULES)


def imported(path: Path, nodes: Iterator[ast.AST] | None = None) -> Iterator[str]:
    """Dotted names that a module imports, TYPE_CHECKING blocks and functions included."""
    for node in nodes or ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def of_the_package(names: Iterator[str]) -> Iterator[str]:
    """Modules below the package among imported names."""
    for name in names:
        below = name.removeprefix("scrapy_neardup.")
        if below != name:
            parent = below.rpartition(".")[0]
            yield below if below in MODULES else parent


@each_module
def test_imports_go_downwards(module: str) -> None:
    room = module.split(".")[0]
    assert room in RANK, f"{room} has no rank: give it one here and in docs/architecture.md"
    for name in of_the_package(imported(MODULES[module])):
        assert name, f"{module} imports the package's root"
        assert RANK[room] <= RANK[name.split(".")[0]], f"{module} imports {name}, which is above it"


def test_no_circle_of_imports() -> None:
    graph = {}
    for module, path in MODULES.items():
        loaded = iter(ast.parse(path.read_text(encoding="utf-8")).body)
        graph[module] = {name for name in of_the_package(imported(path, loaded)) if name != module}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the modules


@each_module
def test_only_scrapys_neighbours_import_scrapy(module: str) -> None:
    uses_scrapy = any(name.split(".")[0] == "scrapy" for name in imported(MODULES[module]))
    assert not uses_scrapy or {module, module.split(".")[0]} & IMPORTS_SCRAPY


@pytest.mark.parametrize("module", ["scrapy_neardup", "scrapy_neardup.offline.dedup.record"])
def test_importing_the_package_loads_nothing_heavy(module: str) -> None:
    heavy = "numpy scrapy twisted lxml mmh3 publicsuffixlist"
    code = f"import sys, {module}; print([m for m in '{heavy}'.split() if m in sys.modules])"
    assert run_fresh(code).stdout.strip() == "[]"


def test_every_public_name_can_be_loaded() -> None:
    for name in scrapy_neardup.__all__:
        assert getattr(scrapy_neardup, name).__name__ == name
        assert name in dir(scrapy_neardup)


def test_public_names_are_the_same_for_python_and_for_type_checkers() -> None:
    root = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (checked,) = (node for node in root.body if isinstance(node, ast.If))
    for_checkers = set(imported(PACKAGE / "__init__.py", ast.walk(checked)))
    modules = scrapy_neardup._MODULES.items()
    assert for_checkers == {f"scrapy_neardup.{module}.{name}" for name, module in modules}
    assert scrapy_neardup.__all__ == sorted(scrapy_neardup._MODULES)


def test_every_filter_and_index_with_a_short_name_is_public() -> None:
    for path in (*filters.NAMES.values(), *index.NAMES.values()):
        assert path.rpartition(".")[2] in scrapy_neardup.__all__

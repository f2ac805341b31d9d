"""Regular expressions take time linear in any text: found in the package, tried on pumped texts."""

import ast
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from regex_work import worst_growth

import scrapy_neardup
from scrapy_neardup.kernels.numpy_twin import words

PACKAGE = Path(scrapy_neardup.__file__).parent
# Steps grow fourfold where a text does; a quadratic pattern's grow sixteenfold.
LINEAR = 6.0
# Not linear, but tried on texts of so many characters at most.
BOUNDED = {
    "crawl.pages.literals.DRAWN": "LONGEST_RUN, 256",
}
MATCHED = {
    *(f"offline.dedup.formats.csv_rows.{name}" for name in ("WHOLE", "CONTINUED")),
    *(f"spark.session.{name}" for name in ("RAISED", "CAUSED")),
}
# Modules that make patterns while they run: of the names of two tags, of Unicode, of our Verilog.
MADE = {"kernels.numpy_twin.markup", "kernels.numpy_twin.words", "engines.fpga.verilog"}


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Every pattern that a module of the package holds, and its name."""
    for module in pkgutil.walk_packages([str(PACKAGE)], "scrapy_neardup."):
        if module.name.endswith("__main__"):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("scrapy_neardup"):
                raise
            continue  # of an extra that is not installed
        for name, value in vars(loaded).items():
            yield from named(f"{module.name}.{name}".removeprefix("scrapy_neardup."), value)
    yield "kernels.numpy_twin.words._long_run()", words._long_run()
    yield "kernels.numpy_twin.words._boundary()", words._boundary()


def named(name: str, value: Any) -> Iterator[tuple[str, re.Pattern[Any]]]:
    if isinstance(value, re.Pattern):
        yield name, value
    elif type(value) in (tuple, list):
        for n, one in enumerate(value):
            yield from named(f"{name}[{n}]", one)
    elif type(value) is dict and not name.endswith("__"):
        for key, one in value.items():
            yield from named(f"{name}[{key!r}]", one)


def calls() -> Iterator[tuple[str, ast.Call]]:
    """The calls of functions of `re` that are made while the package runs, and their modules."""
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        tree = ast.parse(path.read_text("utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for call in {node for function in functions for node in ast.walk(function)}:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                of = call.func.value
                if isinstance(of, ast.Name) and of.id == "re" and call.func.attr != "escape":
                    yield name, call


def direct() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """The patterns that are written in such calls."""
    for name, call in calls():
        if isinstance(call.args[0], ast.Constant):
            yield f"{name}:{call.lineno} re.{call.func.attr}", re.compile(call.args[0].value)


FOUND = {p.pattern: (name, p) for name, p in (*patterns(), *direct())}


def is_anchored(name: str) -> bool:
    """Whether a pattern is only ever tried at one place: by match() or fullmatch()."""
    path, _, rest = name.partition("[")[0].rpartition(".")
    source = PACKAGE.joinpath(*path.split(".")).with_suffix(".py")
    if ":" in name:
        return name.endswith("match")
    if not source.exists():
        source = PACKAGE.joinpath(*path.split("."), "__init__.py")
    uses = re.compile(rf"\b{rest}\.(\w+)").findall(source.read_text("utf-8"))
    return name.partition("[")[0] in MATCHED or (bool(uses) and {*uses} <= {"match", "fullmatch"})


@pytest.fixture(autouse=True)
def deep() -> Iterator[None]:
    """A repetition of several characters is one call deeper for each."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.parametrize("name", sorted(name for name, _ in FOUND.values()))
def test_a_pattern_is_linear_in_any_text(name: str) -> None:
    pattern = next(pattern for found, pattern in FOUND.values() if found == name)
    growth, text = worst_growth(pattern, is_anchored(name))
    assert (growth < LINEAR) != (name in BOUNDED), f"{name}: {growth:.1f} times for {text!r}"


def test_no_pattern_is_made_of_what_others_write() -> None:
    made = {name for name, call in calls() if not isinstance(call.args[0], ast.Constant)}
    assert made == MADE


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+b",
        r"\s+-\s+",
        r"<title[^>]*>(.*?)</title",
        r"\s*(?:x)?\s*\Z",
        r"(a|a)*b",
        r".*a.*b.*c",
    ],
)
def test_a_pattern_that_is_not_linear_is_found(pattern: str) -> None:
    assert worst_growth(re.compile(pattern, re.DOTALL), anchored=False)[0] >= LINEAR

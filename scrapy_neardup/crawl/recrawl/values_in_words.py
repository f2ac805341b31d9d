"""Values in words that are the same in every process: whether one is another in this crawl."""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from operator import attrgetter, itemgetter, methodcaller
from pathlib import Path, PurePath
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, NamedTuple
from uuid import UUID

from scrapy import Spider

OUR_FOLDER = f"{Path(__file__).parents[2]}{os.sep}"
OF_LIBRARIES = ("site-packages", "dist-packages", os.path.dirname(os.__file__), OUR_FOLDER)
# What repr() says all of; a subclass's own may not. A datetime is a date.
SAID_BY_REPR: tuple[Any, ...] = (
    *(str, bytes, bytearray, int, float, complex, type(None), range),
    *(datetime, date, time, timedelta, Decimal, Fraction, PurePath, UUID),
    *(attrgetter, itemgetter, methodcaller),
)
# Modules of objects by which no callback knows what to do.
WITHOUT_DATA = (
    *("scrapy.core.", "scrapy.crawler.", "scrapy.extensions.", "scrapy.settings."),
    *("scrapy.signalmanager.", "scrapy.statscollectors.", "logging.", "asyncio.", "_thread."),
)
OF_RULES = ("scrapy.spiders.crawl", "scrapy.linkextractors")


class Told(NamedTuple):
    """Values of some names.

    words    one text a value: equal ones for equal values
    unknown  by name, types of objects in its value of which only the type is told
    """

    words: list[str]
    unknown: dict[str, set[str]]


def told(values: Mapping[str, Any]) -> Told:
    """Each value with its name. Neither the order of a dict nor that of a set is told."""
    words, unknown = [], {}
    for name, value in sorted(values.items()):
        kinds: set[str] = set()
        try:
            words.append(f"{name} {_in_words(value, kinds, frozenset())}")
        except RecursionError:
            kinds.add(_name_of(type(value)))
        if kinds:
            unknown[name] = kinds
    return Told(words, unknown)


def is_of_libraries(path: str) -> bool:
    """Whether a file is of Python, of something installed or of this plugin: no project's own."""
    return any(name in path for name in OF_LIBRARIES)


def _in_words(value: Any, unknown: set[str], around: frozenset[int]) -> str:
    """around: ids of what the value is a part of, as it may hold that again."""
    kind = type(value)
    name = _name_of(kind)
    for one in SAID_BY_REPR:
        if issubclass(kind, one):
            return f"{name} {one.__repr__(value)}"
    if id(value) in around:
        return name
    around |= {id(value)}
    parts = _parts(value)
    if parts is None:
        if not (issubclass(kind, Spider) or name.startswith(WITHOUT_DATA)):
            unknown.add(name)
        return name
    words = [_in_words(part, unknown, around) for part in parts]
    if issubclass(kind, (dict, set, frozenset)):
        words.sort()
    return f"{name}({', '.join(words)})"


def _parts(value: Any) -> list[Any] | None:
    """All that a value holds; None where that is not known."""
    kind = type(value)
    if issubclass(kind, dict):
        return list(value.items())
    if issubclass(kind, (list, tuple, set, frozenset, deque)):
        return list(value)
    if kind is re.Pattern:
        return [value.pattern, value.flags]
    if issubclass(kind, Enum):
        return [value.name, value.value]
    if issubclass(kind, type):
        return [_name_of(value)]
    if kind is ModuleType:
        return [value.__name__]
    return _parts_of_code(value) if callable(value) else _state(value)


def _parts_of_code(value: Any) -> list[Any] | None:
    """What a function has around it; its code is told with its module's."""
    kind = type(value)
    if kind is FunctionType:
        defaults = [value.__defaults__, value.__kwdefaults__]
        return [value.__qualname__, *defaults, *_contents(value.__closure__ or ())]
    if kind is MethodType:
        return [value.__func__, value.__self__]
    if kind is BuiltinFunctionType:
        return [value.__qualname__]
    if kind is partial:
        return [value.func, value.args, value.keywords]
    return _state(value)


def _contents(cells: tuple[CellType, ...]) -> Iterator[Any]:
    for cell in cells:
        with suppress(ValueError):  # its variable has no value
            yield cell.cell_contents


def _state(value: Any) -> list[Any] | None:
    """Attributes of an object whose class says what it has, or is the project's own."""
    kind = type(value)
    is_plain = is_dataclass(kind) or hasattr(kind, "__attrs_attrs__") or kind is SimpleNamespace
    if not (is_plain or kind.__module__.startswith(OF_RULES) or _is_of_project(kind.__module__)):
        return None
    return None if issubclass(kind, Spider) else [object.__getstate__(value)]


def _is_of_project(module: str) -> bool:
    path = getattr(sys.modules.get(module), "__file__", None)
    return path is not None and not is_of_libraries(path)


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"

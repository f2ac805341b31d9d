"""Classes as settings name them: by a short name or a dotted path."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from scrapy_neardup.errors import SpecError


def load_class(what: str, name: str, known: Mapping[str, str]) -> Any:
    """The class of a name, imported now. known: dotted paths by short name.

    Raises SpecError for a name that is neither known nor dotted, ImportError and AttributeError for
    a path that leads nowhere.
    """
    module, _, attribute = known.get(name, name).rpartition(".")
    if not module:
        names = ", ".join(sorted(known))
        raise SpecError(f"{what} {name!r}: take {names}, or the dotted path of a class")
    return getattr(import_module(module), attribute)


def require_method(made: object, name: str) -> None:
    """Raises TypeError for an object without a method, which is of another kind."""
    if not callable(getattr(made, name, None)):
        raise TypeError(f"{type(made).__name__} has no method {name}()")

"""Classes as settings name them: by a short name or a dotted path."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def load_class(what: str, name: str, known: Mapping[str, str], error: type[Exception]) -> Any:
    """The class of a name, imported now. known: dotted paths by short name.

    Raises `error` for a name that is neither known nor dotted, ImportError and AttributeError for
    a path that leads nowhere.
    """
    module, _, attribute = known.get(name, name).rpartition(".")
    if not module:
        names = ", ".join(sorted(known))
        raise error(f"{what} {name!r}: take {names}, or the dotted path of a class")
    return getattr(import_module(module), attribute)

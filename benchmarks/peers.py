"""Peer libraries by name, each imported when asked for; None for one that is not installed."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

# simhash, simhash-pybind and python-simhash all install a package named simhash, one over the
# other: each has a folder of its own here, as requirements.txt says.
FOLDERS = Path(__file__).resolve().parents[1] / "build" / "peers"


def peer(module: str, distribution: str = "") -> ModuleType | None:
    """A module, of the distribution in its own folder if one is named."""
    try:
        with _folder_first(distribution, module):
            return importlib.import_module(module)
    except ImportError:
        return None


@contextmanager
def _folder_first(distribution: str, module: str) -> Iterator[None]:
    if not distribution:
        yield
        return
    if not (FOLDERS / distribution).is_dir():
        raise ImportError(f"{distribution} is not in {FOLDERS}")
    _forget(module)
    sys.path.insert(0, str(FOLDERS / distribution))
    try:
        yield
    finally:
        sys.path.pop(0)
        _forget(module)


def _forget(module: str) -> None:
    for name in [n for n in sys.modules if n == module or n.startswith(f"{module}.")]:
        del sys.modules[name]

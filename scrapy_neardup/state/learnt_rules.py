"""The file of learnt rules in a state folder, with a MAC under the folder's key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from scrapy_neardup.errors import StateError
from scrapy_neardup.learn.dry_kinds import DryKind
from scrapy_neardup.learn.rule import Rule
from scrapy_neardup.learn.stored_rules import FILE, read_rules, write_rules
from scrapy_neardup.state.files import write_atomically
from scrapy_neardup.state.mac import RULES, foreign, own_json, signed_json


def load_rules(folder: Path, key: int | None) -> tuple[list[Rule], dict[str, DryKind]]:
    """The rules of a folder, and its dry kinds.

    key: the folder's secret; None where it is not known, and no MAC can be checked. Raises
    StateError for what is damaged, or of another version or key; OSError.
    """
    path = folder / FILE
    stored = path.read_bytes().rstrip(b"\n")
    found = read_rules(stored.decode("utf-8", "replace"))
    if own_json(key, RULES, stored) is None:
        raise StateError(foreign(path, "it"))
    return found


def save_rules(folder: Path, rules: Iterable[Rule], dry: Mapping[str, DryKind], key: int) -> None:
    """Replace the file. Raises OSError."""
    entry = write_rules(rules, dry).rstrip("\n").encode("utf-8", "replace")
    write_atomically(folder / FILE, [signed_json(key, RULES, entry) + b"\n"])


def examine(folder: Path, key: int | None) -> str | None:
    """What is wrong with the file of a folder that has one. Raises OSError."""
    try:
        load_rules(folder, key)
    except StateError as error:
        return str(error)
    return None

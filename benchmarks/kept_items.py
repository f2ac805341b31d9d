"""What a kept item takes: in memory, in the journal, in the folder; with and without long text.

    python benchmarks/kept_items.py [ITEMS …]

Bytes an item, of a state that holds nothing else. Tables have spare room after growing: it counts
in memory and in the folder of a crawl that has ended, where the last journal is, too; "in use" is
without.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scrapy.settings import Settings

from scrapy_neardup.detect.item_table import KeptItem
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State

SIZES = (1_000, 10_000, 100_000)
SKETCH_WORDS = 4
ID_BYTES = 16  # of an entry of a hash table by which items are found: long text is in two


def kept_items(n: int, has_text: bool) -> Iterator[KeptItem]:
    """Items of pages of their own."""
    rng = np.random.default_rng(1)
    sketches = rng.integers(1, 2**63, (n, SKETCH_WORDS), np.uint64) if has_text else None
    for i, (page, values, text) in enumerate(rng.integers(1, 2**63, (n, 3)).tolist()):
        if sketches is None:
            yield KeptItem(page, values)
        else:
            yield KeptItem(page, values, text, sketches[i])


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def filled(folder: Path, n: int, has_text: bool) -> tuple[int, int, int]:
    """A state of so many items: bytes in memory, of those in use, in the journal."""
    state = State.open(folder, make_state_factory(NearDupSettings.from_settings(Settings())))
    state.begin()
    assert state.store is not None
    before = state.store.journal_bytes
    for item in kept_items(n, has_text):
        state.keep_item(item)
    in_use = ID_BYTES * n * (1 + has_text) + sum(
        c.rows().nbytes for c in state.items._columns().values()
    )
    sizes = state.items.nbytes, in_use, state.store.journal_bytes - before
    state.close()
    return sizes


def measured(n: int, has_text: bool) -> tuple[float, ...]:
    """Bytes an item: in memory, of those in use, in the journal, in the folder when closed."""
    with tempfile.TemporaryDirectory() as name:
        empty, full = Path(name, "empty"), Path(name, "full")
        filled(empty, 0, has_text)
        sizes = (*filled(full, n, has_text), size_of(full) - size_of(empty))
    return tuple(size / n for size in sizes)


def main() -> None:
    sys.stdout.write("| items | long text | in memory | in use | journal | folder |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for n in map(int, sys.argv[1:] or SIZES):
        for has_text in (False, True):
            cells = " | ".join(f"{number:.0f}" for number in measured(n, has_text))
            sys.stdout.write(f"| {n:,} | {'yes' if has_text else 'no'} | {cells} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()

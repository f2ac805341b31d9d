"""Bulk calls on all cores: queries cut into contiguous slices, tables dealt out, to threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from scrapy_neardup.kernels.cores import cores
from scrapy_neardup.kernels.numpy_twin import U64Array

Result = TypeVar("Result")

WORTH_A_THREAD = 4096  # look-ups: some milliseconds of work, ten times what a thread costs


def on_all_cores(work: Callable[[int], None], items: Iterable[int]) -> None:
    """Do work on each item, in a thread a core. work must release the GIL to gain."""
    with ThreadPoolExecutor(cores()) as threads:
        deque(threads.map(work, items), maxlen=0)


def in_parallel(
    work: Callable[[U64Array], Result], rows: U64Array, worth: int = WORTH_A_THREAD
) -> list[Result]:
    """The results of work on slices of the rows, in order. work must release the GIL to gain.

    worth: how many rows make a thread worth while.
    """
    n_slices = max(1, min(cores(), len(rows) // worth))
    size = -(-len(rows) // n_slices)
    slices = [rows[i * size : (i + 1) * size] for i in range(n_slices)]
    if n_slices == 1:
        return [work(rows)]
    with ThreadPoolExecutor(n_slices) as threads:
        return list(threads.map(work, slices))

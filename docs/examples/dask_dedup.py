"""Near-duplicate pairs of a corpus on Dask, with the same functions as on Spark.

    pip install '.[spark]' dask
    python docs/examples/dask_dedup.py PAGES.parquet ...

PAGES have the columns url and text. Prints pairs of near pages: the later page, the earlier one,
their similarity. Of a crowd, more than a hundred pages that are near each other, only some pairs
are found, and its pages are counted on the error stream.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import dask
from near_pairs import print_pairs


def run(function: Callable[..., Any], arguments: Iterable[Any], same: Any) -> Iterable[Any]:
    """The results of a function for each argument."""
    rest = () if same is None else (dask.delayed(same),)
    results: tuple[Any, ...] = dask.compute(*(dask.delayed(function)(a, *rest) for a in arguments))
    return results


if __name__ == "__main__":
    print_pairs(sys.argv[1:], run)

"""Near-duplicate pairs of a corpus on Ray, with the same functions as on Spark.

    pip install '.[spark]' ray
    python docs/examples/ray_dedup.py PAGES.parquet ...

PAGES have the columns url and text. Prints pairs of near pages: the later page, the earlier one,
their similarity. Of a crowd, more than a hundred pages that are near each other, only some pairs
are found, and its pages are counted on the error stream.

Without a cluster (RAY_ADDRESS) Ray starts on this machine.
"""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import ray
from near_pairs import print_pairs


def run(function: Callable[..., Any], arguments: Iterable[Any], same: Any) -> Iterable[Any]:
    """The results of a function for each argument."""
    rest = () if same is None else (ray.put(same),)  # sent to each machine once
    task = ray.remote(function)
    results: list[Any] = ray.get([task.remote(argument, *rest) for argument in arguments])
    return results


if __name__ == "__main__":
    ray.init()
    print_pairs(sys.argv[1:], run)
    ray.shutdown()

"""What Python's garbage collector need not look at: all that is there when a crawl begins."""

from __future__ import annotations

import gc
from functools import cache


@cache
def freeze() -> bool:
    """Have the collector leave alone what there is now, until gc.unfreeze(); once in a process.

    It looks again and again at every object that may be part of a cycle. Scrapy and the plugin
    begin with a hundred thousand of them, which takes a fifth of the time of a crawl of short
    pages. A later crawl of the process does not freeze what an earlier one has left. False where
    somebody froze objects before: they are not ours to unfreeze.
    """
    if gc.get_freeze_count():
        return False
    gc.freeze()
    return True


def unfreeze() -> None:
    """Let the collector look at everything again, where freeze() has stopped it."""
    if _is_ours():
        gc.unfreeze()


def collect_frozen() -> None:
    """Free what is left of a crawl that was cancelled, of which no signal came to unfreeze()."""
    if _is_ours() and gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()


def _is_ours() -> bool:
    return freeze.cache_info().currsize > 0 and freeze()

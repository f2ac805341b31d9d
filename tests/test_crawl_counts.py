"""What threads count is added by the loop, and none is lost."""

import asyncio
import threading
from collections import Counter

from scrapy_neardup.crawl.counts import Counts


def test_what_a_thread_counts_is_added_on_the_loop_s_thread() -> None:
    stats: Counter[str] = Counter()
    adders = set()

    def add(key: str, count: int) -> None:
        adders.add(threading.current_thread())
        stats[key] += count

    counts = Counts(add)

    def action() -> str:
        counts("pages", 2)
        counts("pages")
        return threading.current_thread().name

    async def crawl() -> list[str]:
        counts("pages")
        return await asyncio.gather(*(counts.in_thread(action) for _ in range(5)))

    names = asyncio.run(crawl())
    assert threading.main_thread().name not in names
    assert adders == {threading.main_thread()}
    assert stats == {"pages": 16}


def test_a_thread_counts_directly_when_its_action_is_over() -> None:
    stats: Counter[str] = Counter()

    def add(key: str, count: int) -> None:
        stats[key] += count

    counts = Counts(add)
    _, counted = counts.collected(lambda: counts("a"))
    counts("b", 3)
    assert counted == [("a", 1)]
    assert stats == {"b": 3}

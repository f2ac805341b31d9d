"""Items that were let through and have not left the pipelines, found by what they say."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from scrapy_neardup.detect.item_table import MAX_COMPARED, KeptItem, says_the_same

# An item, and the row of its page, by id() of the item: several may be equal.
ById = dict[int, tuple[int, KeptItem]]


class Offers:
    """Items under way. Each comes and goes in O(1), however many say the same.

    A new one is compared with at most MAX_COMPARED that may be near, as in the item table.
    """

    def __init__(self) -> None:
        self._equal: defaultdict[tuple[int, ...], ById] = defaultdict(dict)  # page, values, text
        self._near: defaultdict[tuple[int, ...], ById] = defaultdict(dict)  # page, values: sketched

    def add(self, row: int, item: KeptItem) -> None:
        """An item was let through."""
        self._equal[item[:3]][id(item)] = row, item
        if item.sketch is not None:
            self._near[item[:2]][id(item)] = row, item

    def remove(self, item: KeptItem) -> None:
        """It has left the pipelines: this one, not one that is equal to it."""
        equal = self._equal[item[:3]]
        del equal[id(item)]
        if not equal:
            del self._equal[item[:3]]
        if item.sketch is not None:
            self._remove_near(item)

    def _remove_near(self, item: KeptItem) -> None:
        near = self._near[item[:2]]
        del near[id(item)]
        if not near:
            del self._near[item[:2]]

    def row_of(self, item: KeptItem, within: int) -> int | None:
        """The row of the page of one that says the same; see says_the_same."""
        equal = self._equal.get(item[:3])
        if equal:
            return next(iter(equal.values()))[0]
        if within < 0:
            return None
        compared = islice(self._near.get(item[:2], {}).values(), MAX_COMPARED)
        return next((row for row, one in compared if says_the_same(one, item, within)), None)

    def are_many(self, item: KeptItem, within: int) -> bool:
        """Whether more may be near than are compared."""
        is_compared = item.sketch is not None and within >= 0
        return is_compared and len(self._near.get(item[:2], ())) > MAX_COMPARED

"""Title and site → the pages that have them, the newest first."""

from __future__ import annotations

from itertools import islice
from typing import Any, Self

import numpy as np

from scrapy_neardup.detect.id_table import IdTable
from scrapy_neardup.detect.page_row import TITLE
from scrapy_neardup.detect.page_table import PageRow, PageTable
from scrapy_neardup.kernels.numpy_twin import I64Array
from scrapy_neardup.stored_arrays import grown_with

MAX_FOUND = 32  # pages of one title
MAX_ENTRIES = 4 * MAX_FOUND  # that are looked at, forgotten pages included
NO_IDS = np.empty(0, dtype=np.int64)


class TitleIndex:
    """Finds pages by title and site. A page without a title is never found."""

    def __init__(self) -> None:
        self._ids = IdTable()
        self._grows: object = object()  # see Joined

    def add(self, page: PageRow, id: int) -> None:
        """Let a page of the page table be found. O(1)."""
        if page.sketch[TITLE]:
            self._ids.put(_key(page), id)

    def remove(self, page: PageRow, id: int) -> None:
        """Let a page be found no longer."""
        self._ids.remove(_key(page), id)

    def newest(self, pages: PageTable, title: int, site: int) -> I64Array:
        """The newest pages of a title and a site, at most MAX_FOUND; ascending.

        title: as in the row of a page (page_row.TITLE), 0 for none.
        """
        if not title:
            return NO_IDS
        entries = islice(self._ids.candidates(title ^ site), MAX_ENTRIES)
        found = [*islice(filter(pages.is_known, entries), MAX_FOUND)]
        if not found:
            return NO_IDS
        ids = np.array(found[::-1], dtype=np.int64)
        titles = pages.sketches.take(ids)[:, TITLE] == np.uint64(title)
        same: I64Array = ids[titles & (pages.sites.take(ids) == np.uint64(site))]
        return same

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._ids.nbytes

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, for a snapshot."""
        return self._ids.arrays("by_title", self._grows)

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], n_rows: int) -> Self:
        """What arrays() described, of a page table of so many rows. Raises SnapshotError."""
        titles = cls()
        titles._ids = IdTable.stored("titles", arrays, "by_title", n_rows)
        titles._grows = grown_with(arrays)
        return titles


def _key(page: PageRow) -> int:
    return int(page.sketch[TITLE]) ^ page.site

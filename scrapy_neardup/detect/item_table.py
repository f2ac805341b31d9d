"""The item table: what was kept of each page's items, so that only repeats are dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np

from scrapy_neardup.detect.id_table import IdTable
from scrapy_neardup.detect.page_table import Column, map_columns
from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.stored_arrays import check_arrays, check_below, grown_with, whole

NO_TEXT = -1
MAX_COMPARED = 1024  # items of a page with equal values whose long text is compared with another


class KeptItem(NamedTuple):
    """The data of one kept item.

    page    64-bit name of the page that the item belongs to (PageTable.name)
    values  digest of its short values
    text    digest of its long text, 0 where it has none
    sketch  of its long text, shape (sketch words,); None where it has none
    """

    page: int
    values: int
    text: int = 0
    sketch: U64Array | None = None


def says_the_same(one: KeptItem, other: KeptItem, within: int) -> bool:
    """Whether two items have equal values, and long text that is equal or `within` bits or nearer.

    One with long text never says the same as one without.
    """
    if one[:2] != other[:2]:
        return False
    if one.text == other.text or one.sketch is None or other.sketch is None:
        return one.text == other.text
    return int(np.bitwise_count(one.sketch ^ other.sketch).sum()) <= within


class ItemTable:
    """Data of kept items by page: one row an item, and a sketch for long text.

    44 bytes an item in use, 92 with long text: indexes are 16 of them, or 32. Spare room for growth
    may double that: 93 and 190 at 100,000 items (benchmarks/kept_items.py).

    Rows are never changed. Those of pages that were forgotten stay until keep_pages().
    """

    def __init__(self, sketch_words: int) -> None:
        self._pages = Column("<u8")
        self._values = Column("<u8")
        self._texts = Column("<u8")
        self._sketch_rows = Column("<i4")
        self._sketches = Column("<u8", sketch_words)
        self._by_key = IdTable()  # every item, by all its data
        self._by_values = IdTable()  # those with a sketch, by what a near one shares
        self._grows: object = object()  # see Joined

    @property
    def sketch_words(self) -> int:
        """Words of a sketch of long text."""
        (n_words,) = self._sketches.shape
        return n_words

    def __len__(self) -> int:
        """Items remembered."""
        return len(self._pages)

    def add(self, item: KeptItem) -> bool:
        """Remember an item; False where an equal one is there already.

        Where that fails, the table is what it was.
        """
        if self.has(item):
            return False
        id, n_sketches = len(self), len(self._sketches)
        try:
            self._append(item, id)
        except BaseException:
            for name, column in self._columns().items():
                column.cut(n_sketches if name == "sketches" else id)
            self._by_values.remove(_values_key(item), id)
            raise
        return True

    def _append(self, item: KeptItem, id: int) -> None:
        row = NO_TEXT
        if item.sketch is not None:
            row = len(self._sketches)
            self._sketches.append(item.sketch)
        self._pages.append(item.page)
        self._values.append(item.values)
        self._texts.append(item.text)
        self._sketch_rows.append(row)
        if item.sketch is not None:
            self._by_values.put(_values_key(item), id)
        self._by_key.put(_key(item), id)

    def items(self) -> Iterator[KeptItem]:
        """All items, in the order in which they came."""
        return map(self._item, range(len(self)))

    def has(self, item: KeptItem) -> bool:
        """Whether an item with exactly these data was kept of the page."""
        return any(
            int(self._texts[id]) == item.text
            and int(self._values[id]) == item.values
            and int(self._pages[id]) == item.page
            for id in self._by_key.candidates(_key(item))
        )

    def has_near(self, item: KeptItem, within: int) -> bool | None:
        """Whether an item that says the same was kept of the page; see says_the_same.

        None for a doubt: of the last MAX_COMPARED none does, and there are more. A page may give
        any number of them, and looking at all for each would be quadratic.
        """
        if self.has(item):
            return True
        if item.sketch is None or within < 0:
            return False
        found = self._by_values.candidates(_values_key(item))
        ids = np.fromiter(islice(found, MAX_COMPARED + 1), np.int64)
        if self._is_one_near(ids[:MAX_COMPARED], item, within):
            return True
        return None if len(ids) > MAX_COMPARED else False

    def _is_one_near(self, ids: I64Array, item: KeptItem, within: int) -> bool:
        rows = self._sketch_rows.take(ids)
        is_of_page = (self._pages.take(ids) == item.page) & (self._values.take(ids) == item.values)
        sketches = self._sketches.take(rows[is_of_page & (rows != NO_TEXT)])
        return bool((np.bitwise_count(sketches ^ item.sketch).sum(axis=1) <= within).any())

    def _item(self, id: int) -> KeptItem:
        row = int(self._sketch_rows[id])
        return KeptItem(
            int(self._pages[id]),
            int(self._values[id]),
            int(self._texts[id]),
            None if row == NO_TEXT else self._sketches[row],
        )

    def rest_on(self, grows: object, name: str, start: int, rows: Any) -> None:
        """Rows of a column of arrays() are in a file now; see PageTable."""
        if grows is self._grows and name in self._columns():
            self._columns()[name].rest_on(start, rows)

    def _columns(self) -> dict[str, Column]:
        return {
            "pages": self._pages,
            "values": self._values,
            "texts": self._texts,
            "sketch_rows": self._sketch_rows,
            "sketches": self._sketches,
        }

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, spare room included."""
        indexes = self._by_key.nbytes + self._by_values.nbytes
        return sum(c.nbytes for c in self._columns().values()) + indexes

    def keep_pages(self, names: U64Array) -> None:
        """Forget the items of all pages but the named ones; O(items)."""
        kept = np.flatnonzero(np.isin(self._pages.rows(), names))
        if len(kept) == len(self):
            return
        columns = {name: c.take(kept) for name, c in self._columns().items() if name != "sketches"}
        has_text = columns["sketch_rows"] != NO_TEXT
        columns["sketches"] = self._sketches.take(columns["sketch_rows"][has_text])
        columns["sketch_rows"][has_text] = np.arange(int(has_text.sum()))
        for name, column in self._columns().items():
            column.map(columns[name])
        self._index(columns)

    def _index(self, columns: Mapping[str, U64Array]) -> None:
        """Make the indexes anew, of columns in one piece: no file goes on with what they were."""
        self._by_key, self._by_values, self._grows = IdTable(), IdTable(), object()
        keys = columns["pages"] ^ columns["values"]
        has_sketch = columns["sketch_rows"] != NO_TEXT
        self._by_values.put_many(keys[has_sketch], np.flatnonzero(has_sketch))
        self._by_key.put_many(keys ^ columns["texts"], np.arange(len(keys)))

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, as PageTable.arrays()."""
        arrays = {name: column.stored(self._grows) for name, column in self._columns().items()}
        arrays |= self._by_values.arrays("by_values", self._grows)
        return arrays | self._by_key.arrays("by_key", self._grows)

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """The table that arrays() described; maps read-only arrays and never writes to them.

        O(items): places are checked. Raises SnapshotError.
        """
        what = "item table"
        check_arrays(what, arrays, {"sketches": (np.uint64, (None, None))})
        table = cls(arrays["sketches"].shape[1])
        n = map_columns(what, table._columns(), arrays, apart="sketches")
        places = whole(arrays["sketch_rows"]).astype(np.int64) - NO_TEXT
        check_below(f"{what}, sketch_rows", places, len(arrays["sketches"]) - NO_TEXT)
        if "by_values.heads" not in arrays:  # as written before: by_key was without the texts
            table._index({name: whole(arrays[name]) for name in table._columns()})
            return table
        table._by_key = IdTable.stored(what, arrays, "by_key", n)
        table._by_values = IdTable.stored(what, arrays, "by_values", n)
        table._grows = grown_with(arrays)
        return table

    def check(self) -> None:
        """Every item is found by its key; O(items). Raises BrokenInvariant."""
        lengths = {n: len(c) for n, c in self._columns().items() if n != "sketches"}
        if len(set(lengths.values())) != 1:
            raise BrokenInvariant(f"the item table's columns differ in length: {lengths}")
        rows = self._sketch_rows.rows()
        if np.any(rows < NO_TEXT) or np.any(rows >= len(self._sketches)):
            raise BrokenInvariant("the item table names sketches that are not there")
        keys = self._pages.rows() ^ self._values.rows()
        has_sketch = np.flatnonzero(rows != NO_TEXT)
        _check_found(self._by_values, keys[has_sketch], has_sketch, "values")
        _check_found(self._by_key, keys ^ self._texts.rows(), np.arange(len(self)), "key")


def _check_found(index: IdTable, keys: U64Array, ids: I64Array, by: str) -> None:
    if not len(keys):  # of nothing, np.split() makes one part
        return
    # One walk for all ids of a key: a page may give any number of items with equal values.
    order = np.argsort(keys, kind="stable")
    distinct, starts = np.unique(keys[order], return_index=True)
    for key, expected in zip(distinct.tolist(), np.split(ids[order], starts[1:]), strict=True):
        if missing := set(expected.tolist()) - set(index.candidates(key)):
            raise BrokenInvariant(f"item {min(missing)} is not found by its {by}")


def _values_key(item: KeptItem) -> int:
    return item.page ^ item.values


def _key(item: KeptItem) -> int:
    return item.page ^ item.values ^ item.text

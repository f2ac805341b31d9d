"""scrapy_neardup/detect/item_table.py: kept items by page, held to a plain set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.detect.item_table import ItemTable, KeptItem

numbers = st.integers(0, 3) | st.integers(0, 2**64 - 1)


@st.composite
def items(draw: st.DrawFn) -> KeptItem:
    """Few different ones, so that pages, values and texts meet in every combination."""
    page, values, text = draw(numbers), draw(numbers), draw(numbers)
    sketch = np.array([text, 0], dtype=np.uint64) if text else None
    return KeptItem(page, values, text, sketch)


def plain(item: KeptItem) -> tuple[int, int, int]:
    return item.page, item.values, item.text


def table_of(kept: list[KeptItem]) -> ItemTable:
    table = ItemTable(2)
    for item in kept:
        table.add(item)
    return table


@given(st.lists(items(), max_size=200), st.lists(items(), max_size=50))
def test_it_has_what_was_added_and_nothing_else(
    kept: list[KeptItem], others: list[KeptItem]
) -> None:
    table, known = table_of(kept), {plain(item) for item in kept}
    table.check()
    assert len(table) == len(known)
    for item in kept + others:
        assert table.has(item) == (plain(item) in known)


def test_an_item_that_cannot_be_stored_leaves_the_table_as_it_was() -> None:
    table = table_of([KeptItem(1, 2, 3, np.zeros(2, dtype=np.uint64))])
    with pytest.raises(OverflowError):
        table.add(KeptItem(4, -1, 6, np.zeros(2, dtype=np.uint64)))
    after = KeptItem(7, 8, 9, np.ones(2, dtype=np.uint64))
    assert table.add(after)
    table.check()
    assert table.has_near(after, 0)
    assert len(table) == 2


@given(st.lists(items(), max_size=100))
def test_it_comes_back_from_a_snapshot(kept: list[KeptItem]) -> None:
    table = table_of(kept)
    restored = ItemTable.from_arrays({name: np.array(a) for name, a in table.arrays().items()})
    restored.check()
    assert all(restored.has(item) for item in kept)
    assert not restored.add(kept[0]) if kept else True


@given(st.lists(items(), max_size=100), st.sets(numbers))
def test_only_the_items_of_kept_pages_stay(kept: list[KeptItem], pages: set[int]) -> None:
    table = table_of(kept)
    table.keep_pages(np.array(sorted(pages), dtype=np.uint64))
    table.check()
    for item in kept:
        assert table.has(item) == (item.page in pages)


def text_item(text: int, sketch: int) -> KeptItem:
    return KeptItem(1, 2, text, np.array([sketch, 0], dtype=np.uint64))


def test_long_text_is_near_up_to_the_limit() -> None:
    table = table_of([text_item(5, 0b0)])
    assert table.has_near(text_item(6, 0b111), 3)
    assert not table.has_near(text_item(6, 0b1111), 3)
    assert table.has_near(text_item(5, 0b1111), 3)  # the same text


def test_an_item_without_long_text_is_near_to_none_that_has_some() -> None:
    table = table_of([text_item(5, 0)])
    assert not table.has_near(KeptItem(1, 2), 64)
    assert not table_of([KeptItem(1, 2)]).has_near(text_item(5, 0), 64)


def test_other_values_are_not_near() -> None:
    table = table_of([text_item(5, 0)])
    assert not table.has_near(text_item(5, 0)._replace(values=3), 64)
    assert not table.has_near(text_item(5, 0)._replace(page=2), 64)


def test_a_kept_item_takes_at_most_64_bytes() -> None:
    table = ItemTable(4)
    for n in range(2**14):
        table.add(KeptItem(n, n << 32, n + 1, np.zeros(4, dtype=np.uint64)))
    used = sum(a.nbytes for name, a in table.arrays().items() if "by_key" not in name)
    assert used <= 64 * len(table)

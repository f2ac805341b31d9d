"""scrapy_neardup/detect/item_table.py: kept items by page, held to a plain set."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.detect import item_table
from scrapy_neardup.detect.id_table import IdTable
from scrapy_neardup.detect.item_table import ItemTable, KeptItem, says_the_same
from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.stored_arrays import Joined

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


@pytest.mark.parametrize("lost", ["by_key.heads", "by_values.heads"])
def test_items_that_an_index_does_not_find_are_named(lost: str) -> None:
    """Many with equal values, each of which is looked up in one walk over them all."""
    sketches = np.arange(20_000, dtype=np.uint64).reshape(-1, 2)
    table = table_of([KeptItem(1, 2, n + 1, sketch) for n, sketch in enumerate(sketches)])
    table.check()
    arrays = {name: np.array(array) for name, array in table.arrays().items()}
    arrays[lost][:] = 0
    with pytest.raises(BrokenInvariant, match=r"^item \d+ is not found by its (key|values)$"):
        ItemTable.from_arrays(arrays).check()


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


@given(st.lists(items(), max_size=100), st.lists(items(), max_size=50), st.integers(-1, 3))
def test_near_is_what_says_the_same_as_one_that_was_kept(
    kept: list[KeptItem], others: list[KeptItem], within: int
) -> None:
    table = table_of(kept)
    for item in kept + others:
        is_near = any(says_the_same(one, item, within) for one in kept)
        assert table.has_near(item, within) == is_near


def test_items_that_share_all_but_their_long_text_are_not_looked_at_for_each_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[int] = []
    candidates = IdTable.candidates

    def counted(table: IdTable, key: int) -> Iterator[int]:
        for id in candidates(table, key):
            looked_at.append(id)
            yield id

    monkeypatch.setattr(IdTable, "candidates", counted)
    table = table_of([text_item(n + 1, n) for n in range(500)])
    assert len(table) == 500
    assert len(looked_at) < 500
    assert not table.has_near(text_item(9999, 0), -1)
    assert len(looked_at) < 500


def test_beyond_a_bound_it_is_in_doubt_whether_a_long_text_is_near(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(item_table, "MAX_COMPARED", 3)
    sketches = [0b1111 << 4 * n for n in range(4)]
    three = table_of([text_item(sketch, sketch) for sketch in sketches[:3]])
    assert three.has_near(text_item(5, 0b111), 1) is True
    assert three.has_near(text_item(5, 0b1), 1) is False
    four = table_of([text_item(sketch, sketch) for sketch in sketches])
    assert four.has_near(text_item(5, 0b111 << 12), 1) is True  # the last ones are compared
    assert four.has_near(text_item(5, 0b111), 1) is None
    assert four.has_near(text_item(sketches[0], sketches[0]), 1) is True  # the same text
    assert four.has_near(KeptItem(1, 2), 1) is False


@given(st.lists(items(), max_size=100))
def test_a_state_that_finds_items_by_all_but_their_text_still_opens(kept: list[KeptItem]) -> None:
    table = table_of(kept)
    arrays = {n: a for n, a in table.arrays().items() if not n.startswith("by_")}
    by_key, grows = IdTable(), arrays["pages"].grows
    for id, item in enumerate(table.items()):
        by_key.put(item.page ^ item.values, id)
    restored = ItemTable.from_arrays(arrays | by_key.arrays("by_key", grows))
    restored.check()
    assert [restored.add(item) for item in kept] == [False] * len(kept)
    assert all(restored.has_near(item, 0) for item in kept)
    stored = restored.arrays().values()
    assert grows not in [array.grows for array in stored if isinstance(array, Joined)]


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
    used = sum(a.nbytes for name, a in table.arrays().items() if not name.startswith("by_"))
    assert used <= 64 * len(table)

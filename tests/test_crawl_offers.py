"""Items under way are found by what they say, and come and go in the time of one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.crawl.items import offers as offers_module
from scrapy_neardup.crawl.items.offers import Offers
from scrapy_neardup.detect.item_table import KeptItem, says_the_same


def item(values: int, text: int) -> KeptItem:
    """Of a text of few words, which is odd, or with a sketch."""
    sketch = np.array([text], dtype=np.uint64) if text and text % 2 == 0 else None
    return KeptItem(1, values, text, sketch)


items = st.builds(item, st.integers(0, 1), st.integers(0, 8))


@given(st.lists(items, max_size=30), st.data(), items, st.integers(-1, 3))
def test_an_item_repeats_what_is_under_way_and_nothing_that_has_left(
    came: list[KeptItem], data: st.DataObject, new: KeptItem, within: int
) -> None:
    offers, under_way = Offers(), dict(enumerate(came))
    for row, one in under_way.items():
        offers.add(row, one)
    for row in data.draw(st.sets(st.sampled_from(range(len(came) or 1)))):
        if row in under_way:
            offers.remove(under_way.pop(row))
    rows = {row for row, one in under_way.items() if says_the_same(one, new, within)}
    found = offers.row_of(new, within)
    assert found in rows if rows else found is None


def test_beyond_a_bound_no_more_are_compared_with_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offers_module, "MAX_COMPARED", 2)
    offers = Offers()
    for row, text in enumerate([0b110, 0b110000, 0b11000000]):
        offers.add(row, item(0, text))
    assert offers.row_of(item(0, 0b100000), 1) == 1
    assert offers.row_of(item(0, 0b10000000), 1) is None
    assert offers.row_of(item(0, 0b11000000), 1) == 2  # the same text
    assert offers.are_many(item(0, 0b10000000), 1)
    assert not offers.are_many(item(0, 0b10000000), -1)
    assert not offers.are_many(item(0, 0), 1)

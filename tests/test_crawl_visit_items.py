"""What is remembered of a page's items, when it is equal."""

import zlib

import pytest

from scrapy_neardup.crawl.recrawl.visit_items import (
    EXACTLY,
    MAX_FIELDS_BYTES,
    MAX_ITEMS,
    SAME_TEXT,
    differing,
    packed_fields,
    unpacked_fields,
)


def test_a_page_of_very_many_items_is_compared_as_a_whole() -> None:
    fields = [{"n": number} for number in range(MAX_ITEMS + 1)]
    earlier = unpacked_fields(packed_fields(fields))
    assert not differing(earlier, fields[::-1])
    assert differing(earlier, [*fields[1:], {"n": -1}])
    assert differing(earlier, fields[:3])


def test_fields_that_unpack_to_more_than_is_stored_are_not_unpacked() -> None:
    fields = [{f"{'long name ' * 500}{number}": number} for number in range(MAX_ITEMS)]
    many = [one | {"x" * 10_000: 1} for one in fields]
    assert not differing(unpacked_fields(packed_fields(fields)), fields)
    assert not differing(unpacked_fields(packed_fields(many)), many[::-1])
    assert differing(unpacked_fields(packed_fields(many)), many[1:])
    with pytest.raises(ValueError, match="more than"):
        unpacked_fields(zlib.compress(b"[" + b" " * MAX_FIELDS_BYTES + b"]"))


def test_what_a_field_holds_of_a_text_counts_while_the_text_is_the_same() -> None:
    before, now = ([{"body": SAME_TEXT, f"{EXACTLY}body": digest}] for digest in (1, 2))
    assert differing(before, now) is None
    assert differing(before, now, has_same_text=True) == ["body"]
    assert differing(before, before, has_same_text=True) is None


def test_what_fields_hold_of_a_text_counts_for_nothing_among_very_many_items() -> None:
    before, now = (
        [{"n": n, "body": SAME_TEXT, f"{EXACTLY}body": n + more} for n in range(MAX_ITEMS + 1)]
        for more in (0, 1)
    )
    for has_same_text in (True, False):
        assert not differing(unpacked_fields(packed_fields(before)), now, has_same_text)

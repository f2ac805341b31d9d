"""scrapy_neardup/crawl/visit_items.py: what is remembered of a page's items, when it is equal."""

import zlib

import pytest

from scrapy_neardup.crawl.visit_items import (
    MAX_FIELDS_BYTES,
    MAX_ITEMS,
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

"""Fields of items, whatever their type."""

import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest
from scrapy import Field, Item

from scrapy_neardup.crawl.items.item_fields import fields_of, is_item


@dataclass
class Product:
    name: str


class Book(Item):
    name = Field()


@pytest.mark.parametrize(
    "item", [{"name": "x"}, OrderedDict(name="x"), Product("x"), Book(name="x")]
)
def test_fields_are_read_and_written_whatever_the_type(item: Any) -> None:
    assert is_item(item)
    fields = fields_of(item)
    assert dict(fields) == {"name": "x"}
    fields["name"] = "y"
    assert dict(fields_of(item)) == {"name": "y"}


@pytest.mark.parametrize("value", ["name", b"", 1, 1.5, None, True, ["x"], ("x",), {"x"}, object()])
def test_a_value_is_no_item(value: Any) -> None:
    assert not is_item(value)
    with pytest.raises(TypeError):
        fields_of(value)


def test_items_that_are_dicts_load_no_adapter() -> None:
    code = (
        "import sys; from scrapy_neardup.crawl.items.item_fields import fields_of, is_item; "
        "fields_of({'a': [1]}); is_item([1]); sys.exit('itemadapter' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0

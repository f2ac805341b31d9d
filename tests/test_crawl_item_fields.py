"""Fields of items, whatever their type."""

import subprocess
import sys
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest
from scrapy import Field, Item

from scrapy_neardup.crawl.items.item_fields import fields_of, is_item, named_values


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


def test_what_an_object_holds_in_no_field_is_read_with_its_fields() -> None:
    item = Product("x")
    item.maker = "Anna"  # type: ignore[attr-defined]
    assert dict(named_values(item)) == {"name": "x", "maker": "Anna"}
    assert dict(named_values(item, {"maker"})) == {"name": "x"}


def test_so_is_what_pydantic_has_beside_fields() -> None:
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")

    class Lamp(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        model_config = pydantic.ConfigDict(extra="allow")
        name: str
        _maker: str = pydantic.PrivateAttr("")

    lamp = Lamp(name="x", colour="red")
    lamp._maker = "Anna"
    assert dict(named_values(lamp)) == {"name": "x", "colour": "red", "_maker": "Anna"}


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

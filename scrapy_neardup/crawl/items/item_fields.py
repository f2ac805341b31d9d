"""What items, and mappings within them, hold by name; a dict's without itemadapter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from collections.abc import Set as AbstractSet
from typing import Any

from scrapy.settings import BaseSettings

from scrapy_neardup.errors import ItemUnreadable

# Neither items nor wrapped in any: they need no adapter to tell.
PLAIN = frozenset({str, bytes, int, float, bool, type(None), list, tuple, set, frozenset})
# Where objects hold what is in no field; the latter two are pydantic's.
ATTRIBUTES = "__dict__", "__pydantic_extra__", "__pydantic_private__"
# How settings end that say where media pipelines find URLs, and what they say by default.
URLS_FIELDS = "FILES_URLS_FIELD", "IMAGES_URLS_FIELD"
DEFAULT_FIELDS = "file_urls", "image_urls"


def media_fields(settings: BaseSettings) -> frozenset[str]:
    """Names of fields whose URLs a media pipeline may download, one of the project's included."""
    named = (settings[name] for name in settings if name.endswith(URLS_FIELDS))
    return frozenset({*DEFAULT_FIELDS, *filter(None, named)})


def fields_of(item: Any) -> MutableMapping[str, Any]:
    """The fields of an item, by name; a change is a change of the item. Raises TypeError."""
    if type(item) is dict:
        return item
    return _adapter()(item)  # type: ignore[no-any-return]


def is_item(value: Any) -> bool:
    """Whether fields_of() takes a value."""
    kind = type(value)
    return kind is dict or (kind not in PLAIN and bool(_adapter().is_item(value)))


def has_names(value: Any) -> bool:
    """Whether named_values() takes a value: an item, or any other mapping, such as a ChainMap."""
    return isinstance(value, Mapping) or is_item(value)


def named_values(value: Any, ignored: AbstractSet[str] = frozenset()) -> Iterator[tuple[str, Any]]:
    """What an item or a mapping holds, in its order, but for what has an ignored name.

    Of an object also what is in no field: Scrapy exports none of that, but a pipeline may store it.
    Raises ItemUnreadable where code of its class does, at any of the values.
    """
    try:
        for name, held in _held(value):
            if name not in ignored:
                yield str(name), held
    except Exception as error:
        raise ItemUnreadable(f"a {type(value).__qualname__} cannot be read") from error


def _held(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
        return
    fields = fields_of(value)
    yield from fields.items()
    for place in ATTRIBUTES:
        attributes = getattr(value, place, None) or {}
        yield from ((name, attributes[name]) for name in attributes if name not in fields)


def _adapter() -> Any:
    # Imported for the first item that is no dict: where pydantic is installed, it is loaded, too,
    # both versions of it, in 0.1 s, and a crawl's garbage collector visits all its objects.
    from itemadapter.adapter import ItemAdapter

    return ItemAdapter

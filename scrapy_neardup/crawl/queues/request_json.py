"""Requests ↔ JSON, for queues that others can write to: unlike a pickle, it cannot run anything."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from lxml.etree import _ElementUnicodeResult
from scrapy import Spider
from scrapy.http import Request
from scrapy.utils.misc import load_object
from scrapy.utils.request import request_from_dict

from scrapy_neardup.crawl.requests.request_tracker import stored_fields

# What JSON lacks is an object of one such key. It begins as no user's key does; a dict that has a
# key like it is written as pairs.
MARK = "\0"
BYTES, TUPLE, PAIRS = MARK + "bytes", MARK + "tuple", MARK + "pairs"
AS_TEXT = {date: MARK + "date", datetime: MARK + "datetime", Decimal: MARK + "decimal"}
PLAIN = (str, int, float, bool, type(None))


def fields_for_json(request: Request, spider: Spider | None) -> dict[str, Any]:
    """stored_fields() of a request that comes back from them as it was.

    Raises ValueError for others: of a class of the project's own, Request.to_dict() leaves out
    attributes that the class does not list, and the class may change the arguments that it gets.
    """
    fields = stored_fields(request, spider)
    is_scrapys = type(request).__module__.startswith("scrapy.")
    if not (is_scrapys or _comes_back(request, fields, spider)):
        raise ValueError(f"a {type(request).__qualname__} comes back as another request")
    return fields


def _comes_back(request: Request, fields: dict[str, Any], spider: Spider | None) -> bool:
    data = request_to_json(fields)
    try:
        again = request_from_json(data, spider)
        return (
            type(again) is type(request)
            and again.to_dict(spider=spider) == fields
            and own_attributes(again) == own_attributes(request)
        )
    except Exception as error:  # whatever a constructor of the project's, or a comparison, raises
        raise ValueError(f"a {type(request).__qualname__} cannot be made again: {error}") from error


def own_attributes(request: Request) -> dict[str, Any]:
    """What a request holds beside what to_dict() gives, in slots or not."""
    state: Any = object.__getstate__(request)
    parts = state if isinstance(state, tuple) else (state,)
    return {
        name: value
        for part in filter(None, parts)
        for name, value in part.items()
        if name.lstrip("_") not in request.attributes
    }


def request_to_json(fields: dict[str, Any]) -> bytes:
    """What Request.to_dict() gave, as JSON. Raises ValueError as plain() does."""
    return json.dumps(plain(fields), separators=(",", ":")).encode("ascii")


def plain(fields: dict[str, Any]) -> dict[str, Any]:
    """What Request.to_dict() gave, of types that JSON has, sharing nothing that can change.

    Bytes, tuples, dates, times and Decimals are written so that they come back. Raises ValueError
    for what does not: other objects, subclasses of these types, values that hold themselves. A
    string of lxml, as which a CrawlSpider hands on what a link says, becomes a plain one.
    """
    try:
        found: dict[str, Any] = _to_json(fields)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return found


def request_from_json(data: bytes, spider: Spider | None) -> Request:
    """The request. Raises ValueError, AttributeError where the spider has no such callback."""
    return request_from_plain(json.loads(data), spider)


def request_from_plain(fields: dict[str, Any], spider: Spider | None) -> Request:
    """The request of which plain() gave the fields. Raises ValueError, AttributeError."""
    fields = from_plain(fields)
    name = fields.get("_class")
    if name is not None:
        kind = load_object(name)
        if not (isinstance(kind, type) and issubclass(kind, Request)):
            raise ValueError(f"{name} is no Request")
    return request_from_dict(fields, spider=spider)


def _to_json(value: Any) -> Any:
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is _ElementUnicodeResult:
        return str(value)
    if kind is bytes:
        return {BYTES: value.decode("latin-1")}
    if kind in AS_TEXT:
        text = {AS_TEXT[kind]: str(value)}
        if repr(from_plain(text)) == repr(value):  # it leaves out the name of a time zone, and fold
            return text
    if kind is list:
        return [_to_json(one) for one in value]
    if kind is tuple:
        return {TUPLE: [_to_json(one) for one in value]}
    if kind is dict:
        if all(type(key) is str and not key.startswith(MARK) for key in value):
            return {key: _to_json(one) for key, one in value.items()}
        return {PAIRS: [[_to_json(key), _to_json(one)] for key, one in value.items()]}
    raise ValueError(f"a {kind.__qualname__} cannot be written as JSON")


def from_plain(value: Any) -> Any:
    """The value that plain() was given."""
    if isinstance(value, list):
        return [from_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"\0bytes": text}:
            return text.encode("latin-1")
        case {"\0tuple": parts}:
            return tuple(map(from_plain, parts))
        case {"\0pairs": pairs}:
            return {from_plain(key): from_plain(one) for key, one in pairs}
        case {"\0date": text}:
            return date.fromisoformat(text)
        case {"\0datetime": text}:
            return datetime.fromisoformat(text)
        case {"\0decimal": text}:
            return _decimal(text)
    return {key: from_plain(one) for key, one in value.items()}


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:  # which is no ValueError
        raise ValueError(f"no number: {text!r}") from error

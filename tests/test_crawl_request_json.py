"""Requests survive JSON unchanged, and what would not is refused."""

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request, Spider
from scrapy.http import FormRequest, HtmlResponse, JsonRequest
from scrapy.linkextractors import LinkExtractor

from scrapy_neardup.crawl.queues.request_json import (
    request_from_json,
    request_from_plain,
    request_to_json,
)


class Pages(Spider):
    name = "pages"

    def parse(self, response: Any) -> None: ...
    def failed(self, failure: Any) -> None: ...


def again(request: Request) -> Request:
    spider = Pages()
    return request_from_json(request_to_json(request.to_dict(spider=spider)), spider)


ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
LEAVES |= st.text(st.characters(codec=None)) | st.binary() | st.dates() | st.decimals()
LEAVES |= st.datetimes(timezones=st.none() | ZONES).map(lambda at: at.replace(fold=0))
KEYS = st.text() | st.sampled_from(("\0bytes", "\0tuple", "\0pairs", "\0date", "\0"))
KEYS |= st.binary() | st.dates()
VALUES = st.recursive(
    LEAVES,
    lambda parts: (
        st.lists(parts)
        | st.lists(parts).map(tuple)
        | st.dictionaries(KEYS | st.integers() | st.tuples(st.integers(), st.booleans()), parts)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_whatever_is_written_comes_back_as_it_was(value: Any) -> None:
    back = again(Request("https://a.example/", meta={"value": value}))
    assert repr(back.meta["value"]) == repr(value)


def test_all_of_a_request_comes_back() -> None:
    spider = Pages()
    request = FormRequest(
        "https://a.example/ä?q=1",
        callback=spider.parse,
        errback=spider.failed,
        formdata={"name": "Zoë"},
        headers={"X-Twice": ["1", b"\xff"]},
        cookies={"a": "b"},
        cb_kwargs={"page": (1, 2)},
        priority=-3,
        dont_filter=True,
        flags=["seen"],
    )
    data = request_to_json(request.to_dict(spider=spider))
    back = request_from_json(data, spider)
    assert type(back) is FormRequest
    assert back.to_dict(spider=spider) == request.to_dict(spider=spider)
    assert back.callback == spider.parse
    assert back.errback == spider.failed


def test_a_subclass_comes_back_as_such() -> None:
    back = again(JsonRequest("https://a.example/", data={"a": 1}))
    assert type(back) is JsonRequest
    assert back.body == b'{"a": 1}'


def test_the_text_of_a_link_comes_back_as_a_string() -> None:
    page = HtmlResponse("https://a.example/", body=b"<a href=/b>Next</a>", encoding="utf-8")
    (link,) = LinkExtractor().extract_links(page)
    back = again(Request(link.url, meta={"link_text": link.text}))
    assert back.meta == {"link_text": "Next"}


class Name(str):
    """Not what JSON would give back."""

    __slots__ = ()


class Price(Decimal):
    """The same."""


OTHERS = [
    *(object(), {1, 2}, Name("a"), [lambda: None], {"a": Name("b")}, Price(1)),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1), "CET")),
    datetime(2024, 10, 27, 2, fold=1),
]


@pytest.mark.parametrize("value", OTHERS)
def test_what_would_come_back_as_something_else_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        again(Request("https://a.example/", meta={"value": value}))


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ValueError, match="nested too deeply"):
        again(Request("https://a.example/", meta={"value": value}))


def test_a_record_can_name_no_class_but_a_request() -> None:
    fields = Request("https://a.example/").to_dict() | {"_class": "subprocess.Popen"}
    with pytest.raises(ValueError, match="no Request"):
        request_from_json(request_to_json(fields), Pages())


@pytest.mark.parametrize("kind", ["date", "datetime", "decimal"])
def test_a_text_that_no_such_value_has_is_refused(kind: str) -> None:
    fields = Request("https://a.example/").to_dict() | {"meta": {"at": {f"\0{kind}": "soon"}}}
    with pytest.raises(ValueError, match="soon"):
        request_from_plain(fields, Pages())

"""What of an item is data, and what only echoes the visit."""

import array
import dataclasses
import threading
from collections import ChainMap, UserDict, deque
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType, SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
import scrapy
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request, Selector
from scrapy.http import Headers, HtmlResponse, TextResponse
from scrapy.settings import Settings

from scrapy_neardup.crawl.items.item_data import (
    LONG_CHARS,
    MAX_CHARS,
    MAX_VALUES,
    ItemData,
    Provenance,
    is_long,
    item_data,
)
from scrapy_neardup.crawl.pages.extract import text_and_markup_of_html
from scrapy_neardup.errors import ItemTooLarge, ItemUnreadable
from scrapy_neardup.urls.key import DEFAULT_RULES

DAY = 86_400
NOW = datetime(2026, 5, 4, 12, 30, tzinfo=UTC).timestamp()
HTML = "<p>" + "some words of a page " * 40


def visit(url: str = "http://a.example/p", body: str = HTML, **meta: Any) -> Provenance:
    request = Request(url, meta=meta)
    response = HtmlResponse(url, body=body.encode(), encoding="utf-8", request=request)
    return dataclasses.replace(
        Provenance.of(response, DEFAULT_RULES, NOW - DAY, NOW - 60), until=NOW
    )


def data(item: Any, at: Provenance | None = None, **options: Any) -> ItemData:
    return item_data(item, at or visit(), DEFAULT_RULES, **options)


def test_the_url_of_the_visit_is_an_echo() -> None:
    one = data({"url": "http://a.example/p", "n": 1})
    other = data({"url": "http://a.example/q", "n": 1}, visit("http://a.example/q"))
    assert one.values == other.values


def test_a_tracking_parameter_makes_no_other_url() -> None:
    at = visit("http://a.example/p?utm_source=mail")
    assert data({"url": "https://a.example/p"}, at).values == data({"url": at_url(at)}, at).values


def at_url(at: Provenance) -> str:
    return "http://" + next(iter(at.urls)).decode()


def test_urls_that_a_redirect_came_through_are_echoes() -> None:
    at = visit("http://a.example/new", redirect_urls=["http://a.example/old"])
    old, new = (data({"url": f"http://a.example/{name}"}, at) for name in ("old", "new"))
    assert old.values == new.values


def test_another_url_is_data() -> None:
    one, other = (data({"file": f"http://a.example/{n}.pdf"}) for n in (1, 2))
    assert one.values != other.values


@pytest.mark.parametrize("make", [dict, list, lambda pairs: [dict(pairs)]])
def test_nested_values_are_data(make: Any) -> None:
    one, other = (data({"offer": make([("price", price)])}) for price in (5, 7))
    assert one.values != other.values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("C++", "C"),
        ("-5", "5"),
        ("€ 500", "$ 500"),
        ("★★", "★★★"),
        ("    total += 1\n", "        total += 1\n"),
        ("\ta:\n\t\tb\n", "a:\n\t\tb\n"),
        (5, 7),
        (5, "5"),
        (True, 1),
        (Decimal("1.10"), Decimal("1.11")),
        (b"one", b"two"),
        ("", None),
        ([1, 2], [2, 1]),
        (["a", "b"], ["ab"]),
        (date(2020, 1, 1), date(2020, 1, 2)),
        (datetime(2020, 1, 1, 10), datetime(2020, 1, 1, 11)),
    ],
)
def test_short_values_have_to_be_equal(one: Any, other: Any) -> None:
    assert data({"value": one}).values != data({"value": other}).values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a b\n ", "a b"),
        ("\n  a b \n ", "a b"),
        ("é", "e\u0301"),
        (5, 5.0),
        ({1, 2, 3}, {3, 2, 1}),
        ([1, 2], (1, 2)),
    ],
)
def test_values_that_say_the_same_are_equal(one: Any, other: Any) -> None:
    assert data({"value": one}).values == data({"value": other}).values


def test_indentation_below_an_empty_line_counts_where_no_markup_lays_it_out() -> None:
    request = Request("http://a.example/book.ipynb")
    response = TextResponse(request.url, body=b"[]", encoding="utf-8", request=request)
    at = Provenance.of(response, DEFAULT_RULES, NOW - DAY, NOW - 60)
    one, other = (data({"source": [f"\n{' ' * n}total += 1\n"]}, at) for n in (4, 8))
    assert one.values != other.values


@pytest.mark.parametrize(
    "value",
    [
        datetime.fromtimestamp(NOW - 5, UTC),
        datetime.fromtimestamp(NOW - 5, UTC).isoformat(),
        datetime.fromtimestamp(NOW - 5, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        datetime.fromtimestamp(NOW - 5),
        NOW - 5,
        int(NOW),
        int(NOW * 1000),
        date.fromtimestamp(NOW),
        NOW - DAY + 1,
        date.fromtimestamp(NOW - DAY),
    ],
    ids=repr,
)
def test_times_of_the_visit_and_of_the_beginning_are_echoes(value: Any) -> None:
    assert data({"at": value}).values == data({"at": NOW - 10}).values


@pytest.mark.parametrize("days", [-400, 400, -0.5])
def test_other_times_are_data(days: float) -> None:
    then = datetime.fromtimestamp(NOW, UTC) + timedelta(days=days)
    assert data({"at": then}).values != data({"at": NOW}).values


@pytest.mark.parametrize("moment", [datetime.min, datetime.max])
def test_a_time_at_the_end_of_the_calendar_is_data(moment: datetime) -> None:
    """As that which .NET writes for none; read as local time it is in the year 0."""
    for value in (moment, moment.isoformat()):
        assert data({"at": value}).values != data({"at": NOW}).values


def test_the_page_itself_is_an_echo() -> None:
    whole = data({"html": HTML, "body": HTML.encode()})
    assert whole.text == ""
    assert (
        whole.values
        == data({"html": HTML, "body": HTML.encode()}, visit("http://b.example/")).values
    )


def test_long_text_is_left_for_comparison() -> None:
    text = "a description of something " * 50
    one, other = data({"n": 1, "text": text}), data({"n": 1, "text": text + "more"})
    assert one.values == other.values
    assert one.text == text
    assert one.fields["text"] != other.fields["text"]


def test_indentation_of_the_first_line_of_a_long_text_counts() -> None:
    one, other = (data({"code": " " * n + "a line\n" * 200}) for n in (2, 4))
    assert one.fields != other.fields


def test_of_two_long_texts_only_the_longer_one_is_compared_as_text() -> None:
    long, short = "the terms of the shop " * 500, "a description of something " * 50
    one, other = (data({"terms": long, "about": short + end}) for end in ("", "more"))
    assert one.text == other.text == long
    assert one.values != other.values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("is waterproof", "is not waterproof"),
        ("does", "doesn’t"),
        ("有货", "没有货"),
        ("5", "-5"),
        ("a net income of 500.", "a net income of (500)."),
        ("$1,200", "($1,200)"),
        ("within three days", "within seven days"),
        ("innerhalb von drei Tagen", "innerhalb von fünf Tagen"),
        ("each Monday in May", "each Tuesday in May"),
        ("take .5 mg", "take 5 mg"),
        ("fly FRA-MUC", "fly MUC-FRA"),
        ("ask for Hep-A", "ask for Hep-B"),
        ("by the USB’s port", "by the HDMI’s port"),
        ("run ./bin/run", "run /bin/run"),
        ("for .NET", "for NET"),
        ("if a != b", "if a = b"),
        ("应当在 三日内 缴纳", "应当在 五日内 缴纳"),
        ("FC🏴\U000e0067\U000e0065\U000e007f", "FC🏴\U000e0067\U000e0077\U000e007f"),  # flags
    ],
)
def test_long_texts_that_differ_in_a_fact_are_not_the_same(one: str, other: str) -> None:
    text = "many words around it " * 100
    assert data({"text": text + one}).values != data({"text": text + other}).values


class Rows(Mapping[str, Any]):
    """A mapping that neither is a dict nor an item; of another's rows, which may be gone."""

    def __init__(self, rows: dict[str, Any] | None) -> None:
        self.rows = rows

    def __getitem__(self, name: str) -> Any:
        return self._open()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._open())

    def __len__(self) -> int:
        return len(self._open())

    def _open(self) -> dict[str, Any]:
        if self.rows is None:
            raise OSError("the rows are closed")
        return self.rows


MAPPINGS = [MappingProxyType, ChainMap, UserDict, Settings, Rows]


@pytest.mark.parametrize("make", MAPPINGS)
def test_a_mapping_of_any_class_is_compared_by_what_it_holds(make: Any) -> None:
    held = ({"b": {"c": n}, "id": other} for n, other in ((2, 1), (2, 2), (3, 1)))
    one, same, another = (data({"value": make(a)}, ignored={"id"}).values for a in held)
    assert one == same
    assert one != another
    others = [dict, *MAPPINGS]
    others.remove(make)
    assert all(data({"value": other({"b": {"c": 2}})}).values != one for other in others)


def test_of_headers_every_value_counts() -> None:
    one, other = (Headers({"Set-Cookie": [f"id={n}", "seen=1"]}) for n in (1, 2))
    assert data({"headers": one}).values != data({"headers": other}).values


@pytest.mark.parametrize("make", [dict, *MAPPINGS])
def test_what_a_mapping_holds_may_make_an_item_long(make: Any) -> None:
    assert not is_long({"value": make({"text": "short"})})
    assert is_long({"value": make({"text": "long " * 10_000})})
    assert is_long({"value": make(dict.fromkeys(map(str, range(1000))))})


def test_a_mapping_that_cannot_be_read_makes_no_item_long() -> None:
    assert not is_long({"value": Rows(None)})


@pytest.mark.parametrize(
    "value",
    [
        (n for n in ()),
        lambda: 5,
        Selector(text="<p>words</p>").css("p"),
        threading.Lock(),
        Rows(None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_cannot_be_looked_into_is_refused(value: Any) -> None:
    with pytest.raises(ItemUnreadable):
        data({"nested": [value]})


@pytest.mark.parametrize(
    "make",
    [
        deque,
        np.array,
        lambda values: array.array("i", values),
        lambda values: SimpleNamespace(values=values),
    ],
)
def test_objects_are_compared_by_what_they_hold(make: Any) -> None:
    one, same, other = (data({"value": make([1, n])}).values for n in (2, 2, 3))
    assert one == same
    assert one != other


def test_an_item_with_two_fields_of_one_name_is_refused() -> None:
    with pytest.raises(ItemUnreadable, match="of one name"):
        data({1: "the first", "1": "the second"})


def test_ignored_fields_say_nothing_at_any_depth() -> None:
    one, other = (
        data({"id": n, "offers": [{"id": n, "price": 3}]}, ignored={"id"}) for n in (1, 2)
    )
    assert one.values == other.values


@dataclasses.dataclass
class Plain:
    name: str
    price: int


@attrs.define
class Attrs:
    name: str
    price: int


class Declared(scrapy.Item):
    name = scrapy.Field()
    price = scrapy.Field()


@pytest.mark.parametrize("make", [Plain, Attrs, Declared])
def test_items_of_every_type_have_the_same_fields(make: Any) -> None:
    assert data(make(name="x", price=3)).fields == data({"price": 3, "name": "x"}).fields


@pytest.mark.parametrize("make", [dict, Plain, Attrs, Declared])
def test_items_of_one_class_only_have_the_same_data(make: Any) -> None:
    found = data(make(name="x", price=3)).values
    assert found == data(make(price=3, name="x")).values
    others = {dict, Plain, Attrs, Declared} - {make}
    assert all(data(other(name="x", price=3)).values != found for other in others)
    assert data({"of": make(name="x", price=3)}).values != found


def test_an_item_that_holds_itself_is_refused() -> None:
    item: dict[str, Any] = {}
    item["self"] = item
    with pytest.raises(ItemTooLarge):
        data(item)


def test_an_item_of_too_many_values_is_refused() -> None:
    data({"values": list(range(MAX_VALUES - 1))})
    with pytest.raises(ItemTooLarge):
        data({"values": list(range(MAX_VALUES))})


def test_an_item_of_too_many_characters_is_refused() -> None:
    long = "word " * (MAX_CHARS // 10)
    data({"a": long, "b": [long]})
    with pytest.raises(ItemTooLarge, match="characters"):
        data({"a": long, "b": [long, "too long"]})


def test_text_in_nested_elements_that_nobody_sees_is_taken_once() -> None:
    """Not once for each element around it: that is quadratic in their depth."""

    def taken(depth: int) -> int:
        return sum(map(len, text_and_markup_of_html("<svg>text" * depth)[1]))

    assert taken(1_000) <= 10 * taken(100)
    _, markup = text_and_markup_of_html("<svg>a<g>b</g>c</svg>d<script>e</script>f")
    assert [line for line in markup if "<" not in line] == ["a", "b", "c", "e"]


LONG = "a description of something " * 50


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<!-- in stock -->", "<!-- sold -->"),
        ("<del>old</del>", "<ins>old</ins>"),
        ("<td></td><td>x</td>", "<td>x</td><td></td>"),
        ("<img src=a.png>", "<img src=b.png>"),
        ("a <b and nothing more", "a <c and nothing more"),
        ("<!-- never closed, a", "<!-- never closed, b"),
        ("write to ann@x.example", "write to bob@x.example"),
        ("see //x.example/red", "see //x.example/blue"),
        ("code aB", "code AB"),
        ("at –5 degrees", "at 5 degrees"),
        ("so it is", "so it is not"),
        ("x" * 40 + "y", "x" * 40 + "z"),
        ("holds A♠K now", "holds A♥K now"),
        ("Berlin→Paris", "Berlin←Paris"),
    ],
)
def test_long_texts_differ_in_what_similarity_does_not_tell(one: str, other: str) -> None:
    first, second = (data({"text": LONG + part}) for part in (one, other))
    assert first.values != second.values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the red one", "the blue one"),
        ("Red ones", "red ones"),
        ("他们今天开放", "他们明天开放"),
        ("den Ämtern", "den Äxten"),
        ("it's well-known", "it's best-known"),
    ],
)
def test_words_of_long_texts_are_left_to_similarity(one: str, other: str) -> None:
    first, second = (data({"text": LONG + part}) for part in (one, other))
    assert first.values == second.values


def test_unclosed_comments_are_read_once() -> None:
    text, markup = text_and_markup_of_html("<!--" * 50_000)
    assert text == ""
    assert len(markup) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://a.example/#1", "https://a.example/#2"),
        ("http://a.example/p#1", "http://a.example/p#2"),
        ("https://a.example/ #1", "https://a.example/ #2"),
        ("https://a.example/?utm_id=1,https://a.example/1", "https://a.example/?utm_id=1"),
        ("Rome\t\t7", "Rome\t7\t"),
        ("X  X X", "X X  X"),
        (" XX", "XX "),
        ("if a:\n    b()\nc()", "if a:\n    b()\n    c()"),
        ("red\nand blue", "red and\nblue"),
        ("2020-05-01T10:00:00.1234567Z", "2020-05-01T10:00:00.1234568Z"),
    ],
)
def test_short_texts_that_differ_are_different(one: str, other: str) -> None:
    assert data({"value": one}).values != data({"value": other}).values


def test_an_item_without_a_page_has_data() -> None:
    assert item_data({"n": 1}, None, DEFAULT_RULES).values == data({"n": 1}).values


def test_a_key_changes_every_digest() -> None:
    one, other = (data({"n": 1}, key=key, stable=True) for key in (b"one", b"other"))
    assert one.values != other.values
    assert one.fields != other.fields


leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.binary()
    | st.text()
    | st.dates()
    | st.datetimes()
    | st.decimals(allow_nan=False)
)
values = st.recursive(
    leaves, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(), v, max_size=4)
)


@given(st.dictionaries(st.text(min_size=1), values, max_size=5), st.data())
def test_any_item_has_data_that_its_field_order_does_not_change(
    item: dict[str, Any], drawn: st.DataObject
) -> None:
    names = drawn.draw(st.permutations(list(item)))
    assert data(item).values == data({name: item[name] for name in names}).values


@given(st.text(max_size=LONG_CHARS), st.text(max_size=LONG_CHARS))
def test_two_texts_are_equal_only_if_they_are(one: str, other: str) -> None:
    same = data({"t": one}).values == data({"t": other}).values
    if same:
        import unicodedata

        forms = [unicodedata.normalize("NFC", text.strip() or text) for text in (one, other)]
        assert forms[0] == forms[1] or one.startswith(("http", "//"))


SECOND = datetime.fromtimestamp(NOW - 5, UTC)


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("<time datetime=2026-05-04T12:29:55Z>", SECOND.isoformat()),
        ("at 12:29:55", SECOND),
        ("um 14:29:55 Uhr", SECOND.strftime("%Y-%m-%d %H:%M:%S")),
        ('{"at": 1777897795}', int(NOW - 5)),
        ('{"at": 1777897795}', NOW - 5),
        ('{"at": 1777897795123}', int(1000 * NOW - 4877)),
        ("at 12:30", datetime.fromtimestamp(NOW, UTC)),
        ("on 4 May 2026", SECOND.date()),
        ("2026-05-04", SECOND.date()),
    ],
)
def test_a_time_that_the_page_says_is_data_though_it_is_that_of_the_visit(
    said: str, value: Any
) -> None:
    item = {"published": value}
    assert data(item, visit(body=HTML + said)).values != data(item).values


@pytest.mark.parametrize("name", ["scraped_at", "crawl_time", "fetched", "timestamp_of_visit"])
def test_a_field_whose_name_says_so_holds_the_time_of_the_visit(name: str) -> None:
    at = visit(body=f"{HTML} at 12:29:55 on 4 May 2026")
    assert data({name: SECOND}, at).values == data({name: SECOND}).values


def test_tracking_arguments_are_data_where_a_field_is_of_tracking_links() -> None:
    links = [f"http://a.example/?p=1&utm_source={name}" for name in ("a", "b")]
    for name, is_data in (("link", False), ("affiliate_link", True), ("deeplink", True)):
        one, other = (data({"offers": [{name: link}]}).values for link in links)
        assert (one != other) == is_data


@pytest.mark.parametrize("ends", ["?utm_content=%d", "?sessionid=%032x", ";jsessionid=%032x"])
def test_links_to_other_sites_are_told_apart_by_all_that_they_say(ends: str) -> None:
    for host, is_data in (("a.example", False), ("meet.example", True)):
        one, other = (data({"join": f"https://{host}/j{ends % n}"}).values for n in (10**9, 10**8))
        assert (one != other) == is_data


def test_a_style_sheet_within_a_piece_of_html_is_data() -> None:
    text = "<p>" + "some words " * 150
    one, other = (f"{text}<style>.a {{background: url({n}.jpg)}}</style>" for n in "ab")
    assert data({"html": one}).values != data({"html": other}).values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{}<b>red</b> or blue", "{}red or <b>blue</b>"),
        ("{}2<sup>31</sup> is", "{}2<sup>3</sup>1 is"),
        ("{}ask<br>me again", "{}ask me<br>again"),
        ("{}C<i class=chord>G</i>at sat", "{}Cat <i class=chord>G</i>sat"),
        ("{}</html>a shell, and 19", "{}</html>a shell, and 21"),
        ("{}<p data-c='<b>x</b> 19'>", "{}<p data-c='<b>x</b> 21'>"),
        ("{}<iframe>shown by the old</iframe>", "{}<iframe>shown by the ancient</iframe>"),
        ("{}<noframes>shown by the old</noframes>", "{}<noframes>shown by ancient</noframes>"),
    ],
)
def test_pieces_of_html_differ_in_where_their_tags_stand_and_in_what_is_not_shown(
    one: str, other: str
) -> None:
    text = "<div>" + "some words " * 150
    first, second = (data({"html": piece.format(text)}) for piece in (one, other))
    assert (first.values, first.text) != (second.values, second.text)


def test_a_word_before_a_line_ends_moves_no_tag() -> None:
    text = "<div><p>a <b>bold</b> {} word</p>" + "<p>some words</p>" * 150
    one, other = (data({"html": text.format(word)}) for word in ("new", "recent"))
    assert one.values == other.values


def test_the_order_of_an_items_fields_says_nothing_and_that_of_a_mapping_within_does() -> None:
    ranks, others = {"Ann": "red", "Bob": "blue"}, {"Bob": "blue", "Ann": "red"}
    assert data({"cup": 1, "ranks": ranks}).values == data({"ranks": ranks, "cup": 1}).values
    assert data({"ranks": ranks}).values != data({"ranks": others}).values

"""Literals of scripts, without what was drawn for the visit."""

import json
import re
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.crawl.pages import literals
from scrapy_neardup.crawl.pages.literals import DRAWN, LONGEST_RUN


@given(st.text("abfgAG019-_ .é", max_size=LONGEST_RUN))
def test_ids_are_found_as_the_pattern_says(text: str) -> None:
    assert literals._undrawn(text) == DRAWN.sub("*", text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("summer-sale-in-berlin-2026", "summer-sale-in-berlin-2026"),
        ("2026-05-12_10-30_hall-north", "2026-05-12_10-30_hall-north"),
        ("1790001234567890123456", "1790001234567890123456"),
        ("q7Rk0ujsswThIGTUYm2K8F", "*"),
        ("x-550e8400-e29b-41d4-a716-446655440000", "*"),
        ("keynote-in-the-hall-5e42718136", "keynote-in-the-hall-*"),
    ],
)
def test_words_and_dates_in_a_row_are_no_id(text: str, left: str) -> None:
    assert list(literals.literals(f"go('{text}')")) == [("", left)]


def test_a_long_run_is_an_id_if_it_has_a_digit() -> None:
    words = "a-" * 10_000
    found = literals.literals(f"x = '{words}'; y = ['0{words}', '{words}']")
    assert list(found) == [("x", words), ("", "*"), ("", words)]


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ({"name": "lamp", "stock": 19}, True),
        ([{"sku": "A-1", "price": 19.9}], True),
        ([["a", 1], ["b", 2], ["c", 3]], True),
        ({"alg": "HS256", "typ": "JWT", "x": 12}, False),
        ({"user": 17, "iat": 1767225600, "exp": 1767229200}, False),
    ],
)
def test_json_in_base64_is_data_but_for_tokens(said: object, counts: bool) -> None:
    encoded = urlsafe_b64encode(json.dumps(said).encode()).decode()
    assert (encoded in {value for _, value in literals.literals(f"load('{encoded}')")}) == counts


def test_what_only_begins_like_json_in_base64_is_read_as_any_text() -> None:
    assert list(literals.literals("load('eyJé-lampe-rouge')")) == [("", "eyJé-lampe-rouge")]


def test_no_run_is_too_short_for_what_is_looked_for_in_it() -> None:
    shortest = min(int(n) for n in re.findall(r"\{(\d+),\}", DRAWN.pattern))
    assert f"{{{shortest},}}" in literals.RUN.pattern

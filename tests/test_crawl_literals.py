"""scrapy_neardup/crawl/literals.py: literals of scripts, without what was drawn for the visit."""

import re

from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.crawl import literals
from scrapy_neardup.crawl.literals import DRAWN, LONGEST_RUN


@given(st.text("abfg019-_ .é", max_size=LONGEST_RUN))
def test_ids_are_found_as_the_pattern_says(text: str) -> None:
    assert literals._undrawn(text) == DRAWN.sub("*", text)


def test_a_long_run_is_an_id_if_it_has_a_digit() -> None:
    words = "a-" * 10_000
    found = literals.literals(f"x = '{words}'; y = ['0{words}', '{words}']")
    assert list(found) == [("x", words), ("", "*"), ("", words)]


def test_no_run_is_too_short_for_what_is_looked_for_in_it() -> None:
    shortest = min(int(n) for n in re.findall(r"\{(\d+),\}", DRAWN.pattern))
    assert f"{{{shortest},}}" in literals.RUN.pattern

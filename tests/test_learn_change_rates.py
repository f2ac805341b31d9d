"""How often pages change, and when they are due."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.learn.change_rates import CHANGES_AT_MIN, History, change_rate, interval

DAY = 86_400.0


def test_nothing_is_said_of_a_page_of_which_nothing_is_known() -> None:
    assert change_rate(History(), History()) is None
    assert change_rate(History(), History(3, 1, 0.0)) is None


def test_with_many_visits_the_estimate_is_that_of_cho_and_garcia_molina() -> None:
    page = History(1000, 300, 1000 * DAY)
    expected = -math.log((700 + 0.5) / (1000 + 0.5)) / DAY
    assert change_rate(page, page) == pytest.approx(expected, rel=0.01)


def test_a_page_that_changed_at_each_visit_has_no_endless_rate() -> None:
    page = History(10, 10, 10 * DAY)
    rate = change_rate(page, page)
    assert rate is not None
    assert 1 < rate * DAY < 4


def test_pages_alike_speak_for_one_that_was_visited_once() -> None:
    still, lively = History(500, 1, 500 * DAY), History(500, 400, 500 * DAY)
    page = History(1, 0, DAY)
    rates = [change_rate(page, alike) for alike in (still, lively)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[1] > 50 * rates[0]


def test_visits_gain_the_same_wherever_they_go() -> None:
    """The gain is 1 - (1 + r) e^-r changes a change."""
    for per_day in (0.001, 0.01, 0.1, 0.4):
        rate = per_day / DAY
        changes = rate * interval(rate, DAY, 10_000 * DAY)
        gain = (1 - (1 + changes) * math.exp(-changes)) / rate / DAY
        at_min = (1 - (1 + CHANGES_AT_MIN) * math.exp(-CHANGES_AT_MIN)) / CHANGES_AT_MIN
        assert gain == pytest.approx(at_min, rel=0.01)


@given(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0.01, 10), st.floats(10, 1e4))
def test_a_page_that_changes_more_often_is_due_no_later(
    one: float, other: float, low: float, high: float
) -> None:
    slow, fast = sorted((one / DAY, other / DAY))
    first, second = (interval(rate, low * DAY, high * DAY) for rate in (fast, slow))
    assert low * DAY <= first <= second * 1.01 <= high * DAY * 1.01

"""urls/filters/rotating.py: keys are forgotten by age, together with those of their time."""

from collections.abc import Callable

from scrapy_neardup.urls.filters.exact import ExactUrlFilter
from scrapy_neardup.urls.filters.rotating import RotatingUrlFilter


def rotating(ttl_s: float | None, clock: Callable[[], float]) -> RotatingUrlFilter:
    return RotatingUrlFilter(lambda: ExactUrlFilter(100, seed=1), ttl_s, clock)


def reopened(known: RotatingUrlFilter, ttl_s: float | None) -> RotatingUrlFilter:
    """What a snapshot of a filter gives back, under another time to live."""
    again = rotating(ttl_s, known._clock)
    again.restore(known.arrays(), ExactUrlFilter.from_arrays)
    return again


def test_keys_added_without_a_time_to_live_are_as_old_as_the_last_of_them() -> None:
    now = [10_000.0]
    known = rotating(None, lambda: now[0])
    known.add(b"first")
    now[0] += 1000
    known.add(b"last")
    now[0] += 60
    aging = reopened(known, ttl_s=80)
    assert b"first" in aging
    assert b"last" in aging
    now[0] += 20
    assert b"first" not in aging
    assert b"last" not in aging


def test_a_look_up_without_a_time_to_live_makes_no_key_younger() -> None:
    now = [10_000.0]
    known = rotating(None, lambda: now[0])
    known.add(b"key")
    now[0] += 80
    again = reopened(known, ttl_s=None)
    again.add_at([], [])
    assert b"key" in again
    assert b"key" not in reopened(again, ttl_s=80)


def test_keys_of_earlier_times_without_a_time_to_live_are_as_old_as_the_last_of_them() -> None:
    known = rotating(None, lambda: 10_000.0)
    known.add_at([b"a", b"b"], [9_000.0, 9_950.0])
    known.add_at([b"c"], [9_900.0])  # of a crawl that was a guest
    assert all(key in reopened(known, ttl_s=51) for key in (b"a", b"b", b"c"))
    assert not any(key in reopened(known, ttl_s=50) for key in (b"a", b"b", b"c"))


def test_a_time_to_live_that_is_taken_away_for_a_while_leaves_older_keys_their_age() -> None:
    now = [10_000.0]
    known = rotating(80, lambda: now[0])
    known.add(b"old")
    now[0] += 40
    known.add(b"young")
    forgets_nothing = reopened(known, ttl_s=None)
    now[0] += 100
    forgets_nothing.add(b"new")
    assert all(key in forgets_nothing for key in (b"old", b"young", b"new"))
    now[0] += 60
    again = reopened(forgets_nothing, ttl_s=80)
    assert b"new" in again
    assert b"old" not in again
    now[0] += 20
    assert b"new" not in again
    assert b"young" not in again


def test_a_clock_that_was_ahead_without_a_time_to_live_makes_no_key_immortal() -> None:
    now = [1e9]
    known = rotating(None, lambda: now[0])
    known.add(b"key")
    now[0] = 10_000.0
    aging = reopened(known, ttl_s=80)
    assert b"key" in aging
    now[0] += 80
    assert b"key" not in aging

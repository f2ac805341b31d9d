"""urls/filters/rotating.py: keys are forgotten by age, together with those of their time."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

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


def test_a_key_of_an_earlier_time_is_forgotten_when_it_is_as_old_as_the_time_to_live() -> None:
    """As those that a guest recorded, and the next crawl merges."""
    now = [5_000.0]
    known = rotating(700, lambda: now[0])
    known.add(b"own")
    now[0] = 5_100.0
    known.add_at([b"gone", b"guest"], [4_400.0, 4_500.0])
    assert b"gone" not in known
    for now[0] in (5_110.0, 5_199.0):
        assert b"guest" in known
    now[0] = 5_200.0
    assert b"guest" not in known
    assert b"own" in known


def test_a_key_of_a_time_between_two_others_is_remembered_as_long_as_one_of_its_time() -> None:
    now = [1_000.0]
    known = rotating(800, lambda: now[0])
    known.add(b"first")
    now[0] = 1_500.0
    known.add(b"last")
    known.add_at([b"between"], [1_400.0])
    now[0] = 2_090.0
    assert b"between" in known, "for seven eighths of the time to live at least"
    now[0] = 2_200.0
    assert b"between" not in known
    assert b"last" in known


@given(
    st.lists(
        st.tuples(
            st.floats(0, 300),  # by how much the clock goes on
            st.lists(st.floats(0, 900), max_size=5),  # ages of what is added then
        ),
        max_size=8,
    )
)
def test_a_key_added_as_of_any_time_lives_as_long_as_it_is_said(
    steps: list[tuple[float, list[float]]],
) -> None:
    now = [10_000.0]
    known = rotating(800, lambda: now[0])
    added: dict[bytes, float] = {}
    for passed, ages in steps:
        now[0] += passed
        keys = [b"%d" % (len(added) + i) for i in range(len(ages))]
        times = [now[0] - age for age in ages]
        known.add_at(keys, times)
        added |= zip(keys, times, strict=True)
        for key, time_ in added.items():
            age = now[0] - time_
            assert (key in known) == (age < 800) or 699 < age < 801
        starts = [generation.start for generation in known._generations]
        assert starts == sorted(starts)

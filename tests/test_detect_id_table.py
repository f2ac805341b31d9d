"""The id table: every id is found by its key, however the table has grown."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_neardup.detect import id_table
from scrapy_neardup.detect.id_table import IdTable
from scrapy_neardup.errors import SnapshotError
from scrapy_neardup.stored_arrays import Joined, whole


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 4, 8, 16, 16, … slots."""
    monkeypatch.setattr(id_table, "FIRST_SLOTS", 4)
    monkeypatch.setattr(id_table, "GROWTH", 2)
    monkeypatch.setattr(id_table, "MAX_SLOTS", 16)


def table_of(keys):
    table = IdTable()
    for id, key in enumerate(keys):
        table.put(key, id)
    return table


def reopened(table, n):
    arrays = {name: whole(array).copy() for name, array in table.arrays("by_key", None).items()}
    for array in arrays.values():
        array.flags.writeable = False
    return IdTable.stored("a test", arrays, "by_key", n)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("n", [0, 1, 4, 5, 12, 13, 100])
def test_ids_are_found_by_their_keys_the_newest_first(n):
    keys = [(number % 7) << 40 | number % 3 for number in range(n)]
    for table in (table_of(keys), reopened(table_of(keys), n)):
        for key in set(keys):
            assert list(table.candidates(key)) == [i for i in reversed(range(n)) if keys[i] == key]
        assert list(table.candidates(9 << 40)) == []


@pytest.mark.usefixtures("small_parts")
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=60), st.integers(0, 60))
def test_ids_that_came_together_are_found_like_those_that_came_one_by_one(pairs, n_first):
    keys = [upper << 32 | lower for upper, lower in pairs]
    table = table_of(keys[:n_first])
    rest = np.array(keys[n_first:], np.uint64)
    table.put_many(rest, np.arange(len(keys) - len(rest), len(keys)))
    for key in set(keys):
        assert [*table.candidates(key)] == [*table_of(keys).candidates(key)]


@pytest.mark.usefixtures("small_parts")
def test_a_reopened_table_takes_more_ids_and_leaves_the_arrays_as_they_are():
    keys = [number << 33 for number in range(30)]
    table = reopened(table_of(keys[:20]), 20)
    for id in range(20, 30):
        table.put(keys[id], id)
    assert [next(table.candidates(key)) for key in keys] == list(range(30))


def test_ids_that_come_and_go_leave_no_chain():
    table, key = IdTable(), 5 << 32
    for id in range(100):
        table.put(key, id)
        table.remove(key, id)
    assert list(table.candidates(key)) == []


@pytest.mark.usefixtures("small_parts")
def test_what_is_saved_of_a_full_part_stays_as_it_is():
    table = table_of(number << 33 for number in range(20))
    before = table.arrays("by_key", None)
    copies = {name: whole(array).copy() for name, array in before.items()}
    for id in range(20, 90):
        table.put(id << 33, id)
    for name, array in before.items():
        if isinstance(array, Joined):
            np.testing.assert_array_equal(whole(array), copies[name])
            after = whole(table.arrays("by_key", None)[name])
            np.testing.assert_array_equal(after[: len(copies[name])], copies[name])


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["full", "older", "entries", "heads"])
@pytest.mark.parametrize("value", [7, 2**32 - 1])
@pytest.mark.parametrize("place", [0, -1])
def test_made_up_tables_are_refused_or_end(name, value, place):
    table = table_of(number << 33 for number in range(8))
    arrays = {key: whole(array).copy() for key, array in table.arrays("t", None).items()}
    arrays[f"t.{name}"][place] = value
    try:
        made_up = IdTable.stored("a test", arrays, "t", 8)
    except SnapshotError:
        return
    for number in range(8):
        assert all(id < 8 for id in made_up.candidates(number << 33))


@pytest.mark.parametrize("name", ["full", "older", "entries", "heads"])
def test_tables_of_other_lengths_are_refused(name):
    table = table_of(number << 33 for number in range(1500))
    arrays = {key: whole(array).copy() for key, array in table.arrays("t", None).items()}
    arrays[f"t.{name}"] = arrays[f"t.{name}"][:-1]
    with pytest.raises(SnapshotError):
        IdTable.stored("a test", arrays, "t", 1500)

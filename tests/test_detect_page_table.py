"""The page table against a plain dictionary, and what it promises of snapshots."""

import weakref

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scrapy_neardup.detect.id_table import IdTable
from scrapy_neardup.detect.page_table import (
    Column,
    PageRow,
    PageTable,
    digest_of,
    site_number,
)
from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.stored_arrays import whole


def page(url: str, words: bytes = b"some words", site: int = 7) -> PageRow:
    sketch = np.arange(4, dtype=np.uint64) + np.uint64(len(words))
    return PageRow(len(words), sketch, digest_of(words), site, url, 1.5)


def read_only(arrays):
    copies = {name: whole(array).copy() for name, array in arrays.items()}
    for array in copies.values():
        array.flags.writeable = False
    return copies


def test_a_row_comes_back_as_it_was_stored():
    table = PageTable(4)
    stored = page("http://a.example/ü", b"words", 2**64 - 1)
    row = table.page(table.add(stored))
    assert row.sketch.tolist() == stored.sketch.tolist()
    assert row._replace(sketch=None) == stored._replace(sketch=None)


def test_a_digest_is_found_on_its_own_site_only():
    table = PageTable(4)
    first = table.add(page("http://a.example/", b"same", site_number("a.example")))
    second = table.add(page("http://b.example/", b"same", site_number("b.example")))
    assert table.with_digest(digest_of(b"same"), site_number("a.example")) == first
    assert table.with_digest(digest_of(b"same"), site_number("b.example")) == second
    assert table.with_digest(digest_of(b"same"), site_number("c.example")) is None


def test_the_copies_of_a_page_are_looked_through_once(monkeypatch):
    looked_at, candidates = [], IdTable.candidates

    def seen(table, key):
        for id in candidates(table, key):
            looked_at.append(id)
            yield id

    monkeypatch.setattr(IdTable, "candidates", seen)
    table = PageTable(4)
    for n in range(200):
        table.add(page(f"http://a.example/{n}", b"same"))
        assert table.with_digest(digest_of(b"same"), 7) == 0
    assert len(looked_at) < 10
    table.forget(0)
    assert [table.with_digest(digest_of(b"same"), 7) for _ in range(3)] == [1, 1, 1]
    assert len(looked_at) < 210


def test_a_lone_surrogate_in_a_url_is_kept():
    table = PageTable(4)
    url = "http://a.example/\ud800"
    assert table.url(table.add(page(url))) == url


@pytest.mark.parametrize("n_before", [0, 1, 64])
def test_a_page_that_cannot_be_stored_leaves_the_table_as_it_was(n_before):
    table = PageTable(4)
    for n in range(n_before):
        table.add(page(f"http://a.example/{n}", b"words %d" % n))
    with pytest.raises(ValueError, match="buffer size"):
        table.add(page("http://a.example/broken")._replace(digest=b"too short"))
    after = table.add(page("http://a.example/after", b"after"))
    table.check()
    assert after == n_before
    assert table.url(after) == "http://a.example/after"
    assert table.page(after).digest == digest_of(b"after")


def test_no_row_comes_twice_where_there_is_no_memory_for_the_next_part(monkeypatch):
    monkeypatch.setattr("scrapy_neardup.detect.page_table.CHUNK_BYTES", 1)  # 64 rows a chunk
    column = Column("<u8")
    column.extend(np.arange(64, dtype=np.uint64))
    with pytest.raises(MemoryError):
        column.extend(np.broadcast_to(np.uint64(7), 2**55))
    column.append(64)
    np.testing.assert_array_equal(column.rows(), np.arange(65))


def test_check_finds_the_page_of_a_url_with_a_lone_surrogate():
    table = PageTable(4)
    table.add(page("http://a.example/\ud800"))
    table.check()


def test_forgetting_twice_or_an_unknown_id_says_no():
    table = PageTable(4)
    id = table.add(page("http://a.example/"))
    assert [table.forget(id), table.forget(id), table.forget(99), table.forget(-1)] == [
        True,
        False,
        False,
        False,
    ]
    assert table.with_url("http://a.example/") is None


def test_a_table_from_read_only_arrays_grows_without_writing_to_them():
    table = PageTable(4)
    ids = [table.add(page(f"http://a.example/{i}", b"w%d" % i)) for i in range(100)]
    arrays = read_only(table.arrays())
    reopened = PageTable.from_arrays(arrays)
    reopened.forget(ids[3])
    more = [reopened.add(page(f"http://b.example/{i}", b"v%d" % i)) for i in range(100)]
    reopened.check()
    assert len(reopened) == 199
    assert reopened.with_url("http://a.example/3") is None
    assert reopened.with_url("http://a.example/99") == ids[99]
    assert reopened.with_url("http://b.example/99") == more[99]
    assert reopened.sketches.take(np.array([0, 150])).shape == (2, 4)
    again = PageTable.from_arrays(read_only(reopened.arrays()))
    again.check()
    assert again.with_digest(digest_of(b"v7"), 7) == more[7]


def test_rows_that_are_mapped_and_rows_that_came_later_are_not_copied_for_a_snapshot():
    table = PageTable(4)
    table.add(page("http://a.example/1"))
    table = PageTable.from_arrays(read_only(table.arrays()))
    table.add(page("http://a.example/2"))
    stored = table.arrays()["sketches"]
    assert stored.shape == (2, 4)
    for part, own in zip(stored.parts, table.sketches._parts(), strict=True):
        assert np.shares_memory(part, own)
        assert not part.flags.writeable
    again = PageTable.from_arrays(table.arrays())
    assert [again.url(id) for id in (0, 1)] == ["http://a.example/1", "http://a.example/2"]


@pytest.mark.parametrize("n_mapped", [0, 1, 100])
def test_a_column_of_many_chunks_is_one_array(monkeypatch, n_mapped):
    monkeypatch.setattr("scrapy_neardup.detect.page_table.CHUNK_BYTES", 1)  # 64 rows a chunk
    rows = np.arange(3 * 1000).reshape(1000, 3).astype("<u8")
    rng = np.random.default_rng(1)
    column = Column("<u8", 3)
    column.map(rows[:n_mapped])
    n = n_mapped
    while n < len(rows):
        more = min(int(rng.integers(0, 40)), len(rows) - n)
        column.extend(rows[n : n + more])
        n += more
        if n < len(rows):
            column.append(rows[n])
            n += 1
        assert len(column) == n
        np.testing.assert_array_equal(column.rows(), rows[:n])
    assert 4 < len(column._parts()) < 10
    for size in (0, 1, 20, 500):
        ids = rng.integers(0, len(rows), size)
        np.testing.assert_array_equal(column.take(ids), rows[ids])
    for start, end in rng.integers(0, len(rows), (50, 2)).tolist():
        np.testing.assert_array_equal(
            column.span(start, max(start, end)), rows[start : max(start, end)]
        )
        np.testing.assert_array_equal(column[start], rows[start])
    before = column.stored(None)
    column.limit(1500)
    np.testing.assert_array_equal(column.rows(), np.minimum(rows, 1500))
    np.testing.assert_array_equal(np.concatenate(before.parts), rows)


def test_check_names_a_page_that_cannot_be_found():
    table = PageTable(4)
    table.add(page("http://a.example/"))
    arrays = table.arrays()
    arrays["by_digest.heads"] = np.zeros_like(arrays["by_digest.heads"])
    with pytest.raises(BrokenInvariant, match="digest"):
        PageTable.from_arrays(arrays).check()


class PageTableMachine(RuleBasedStateMachine):
    """Pages come, go and return; a dictionary knows the right answers."""

    def __init__(self):
        super().__init__()
        self.table = PageTable(4)
        self.known = {}

    @rule(url=st.integers(0, 40), words=st.integers(0, 9), site=st.integers(0, 2))
    def add(self, url, words, site):
        url, words = f"http://{site}.example/{url}", b"words %d" % words
        if url not in {u for u, _, _ in self.known.values()}:
            id = self.table.add(page(url, words, site))
            self.known[id] = (url, words, site)

    @rule(choice=st.integers(0, 200))
    def forget(self, choice):
        assert self.table.forget(choice) == (choice in self.known)
        self.known.pop(choice, None)

    @rule(limit=st.integers(0, 50))
    def forget_many(self, limit):
        old = [id for id in self.known if id < limit]
        self.table.forget_many(np.array(old, dtype=np.int64))
        for id in old:
            del self.known[id]

    @rule()
    def reopen(self):
        self.table = PageTable.from_arrays(read_only(self.table.arrays()))

    @invariant()
    def agrees(self):
        self.table.check()
        assert len(self.table) == len(self.known)
        firsts = {}
        for id in sorted(self.known):
            url, words, site = self.known[id]
            assert self.table.with_url(url) == id
            firsts.setdefault((words, site), id)
        for (words, site), id in firsts.items():
            assert self.table.with_digest(digest_of(words), site) == id


TestPageTable = PageTableMachine.TestCase
TestPageTable.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


def test_rows_that_a_file_holds_leave_memory_and_stay_what_they_are(monkeypatch):
    monkeypatch.setattr("scrapy_neardup.detect.page_table.CHUNK_BYTES", 1)  # 64 rows a chunk
    monkeypatch.setattr("scrapy_neardup.detect.page_table.PART_BYTES", 2400)  # 100 rows
    rows = np.arange(3 * 2000).reshape(2000, 3).astype("<u8")
    rng, column, n_saved = np.random.default_rng(1), Column("<u8", 3), 0
    for n in (10, 150, 151, 500, 1400, 1999):
        column.extend(rows[len(column) : n])
        column.stored(None)
        file = rows[n_saved:n].copy()
        column.append(rows[n])  # while the file was written
        column.rest_on(n_saved, file)
        if n - n_saved >= 64:
            assert any(np.shares_memory(part, file) for part in column._parts())
        in_memory = [p for p in column._parts() if not np.shares_memory(p, file)]
        a_part_before, not_yet_one = 100, 64
        assert sum(map(len, in_memory)) <= n_saved + a_part_before + not_yet_one + 1
        n_saved = n if rng.integers(2) else n_saved  # else the next file replaces this one
        np.testing.assert_array_equal(column.rows(), rows[: n + 1])
        for id in rng.integers(0, n + 1, 20).tolist():
            np.testing.assert_array_equal(column[id], rows[id])
        ids = rng.integers(0, n + 1, 50)
        np.testing.assert_array_equal(column.take(ids), rows[ids])


def test_each_row_that_comes_frees_one_part_that_a_file_replaced(monkeypatch):
    monkeypatch.setattr("scrapy_neardup.detect.page_table.CHUNK_BYTES", 1)  # 64 rows a chunk
    monkeypatch.setattr("scrapy_neardup.detect.page_table.PART_BYTES", 512)  # 64 rows
    column = Column("<u8")
    for rows in np.arange(1000, dtype="<u8").reshape(20, 50):
        column.extend(rows)
    freed: list[int] = []
    for n, part in enumerate(column._parts()[:10]):
        weakref.finalize(part.base, freed.append, n)
    del part
    column.rest_on(0, np.arange(1000, dtype="<u8"))
    for n in range(1, 11):
        column.append(0)
        assert len(freed) <= n
    column.extend(np.zeros(20, "<u8"))
    for _ in range(20):
        column.append(0)
    assert sorted(freed) == list(range(10))


def test_rows_of_a_file_that_is_out_of_date_are_not_taken():
    table = PageTable(4)
    for number in range(70_000):
        table.times.append(float(number))
    stored = table.arrays()["times"]
    table.limit_times(10.0)
    table.rest_on(stored.grows, "times", 0, np.array(stored))
    assert table.times[69_999] == 10.0

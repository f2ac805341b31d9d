"""scrapy_neardup/detect/titles.py: pages by title and site, the newest first."""

import numpy as np

from scrapy_neardup.detect.page_row import TITLE, width
from scrapy_neardup.detect.page_table import PageRow, PageTable
from scrapy_neardup.detect.titles import MAX_ENTRIES, MAX_FOUND, TitleIndex
from scrapy_neardup.stored_arrays import whole

WORDS = width(4)


def page(n: int, title: int, site: int = 1) -> PageRow:
    row = np.zeros(WORDS, np.uint64)
    row[TITLE] = title
    return PageRow(n, row, n.to_bytes(16, "little"), site, f"http://a.example/{n}", 0.0)


def filled(*pages: PageRow) -> tuple[PageTable, TitleIndex]:
    table, titles = PageTable(WORDS), TitleIndex()
    for one in pages:
        titles.add(one, table.add(one))
    return table, titles


def test_only_pages_of_the_title_and_the_site_are_found() -> None:
    # 5 ^ 1 == 4 ^ 0: two titles on two sites that share a key.
    table, titles = filled(page(0, 5), page(1, 5, site=2), page(2, 6), page(3, 5), page(4, 4, 0))
    assert titles.newest(table, 5, 1).tolist() == [0, 3]
    assert titles.newest(table, 5, 2).tolist() == [1]
    assert titles.newest(table, 7, 1).tolist() == []


def test_a_page_without_a_title_is_not_found() -> None:
    table, titles = filled(page(0, 0), page(1, 0))
    assert titles.newest(table, 0, 1).tolist() == []


def test_the_newest_pages_that_are_known_are_found() -> None:
    table, titles = filled(*(page(n, 5) for n in range(MAX_FOUND + 10)))
    table.forget(MAX_FOUND + 9)
    found = titles.newest(table, 5, 1).tolist()
    assert found == list(range(9, MAX_FOUND + 9))


def test_forgotten_pages_do_not_make_a_look_up_long() -> None:
    table, titles = filled(*(page(n, 5) for n in range(MAX_ENTRIES + 1)))
    for id in range(1, MAX_ENTRIES + 1):
        table.forget(id)
    assert titles.newest(table, 5, 1).tolist() == []


def test_a_stored_index_finds_what_it_found() -> None:
    table, titles = filled(page(0, 5), page(1, 6), page(2, 5))
    stored = {name: whole(array) for name, array in titles.arrays().items()}
    again = TitleIndex.from_arrays(stored, table.n_rows)
    assert again.newest(table, 5, 1).tolist() == [0, 2]

"""What a person undoes is fetched once more and kept, whatever a crash does to the list."""

from pathlib import Path

import pytest

from scrapy_neardup.ledger.undo import FILE, Undone, Wanted, undo

PAGE = "https://shop.example/item?id=7"


def test_an_undone_page_is_fetched_and_kept(tmp_path: Path) -> None:
    undo(tmp_path, [Wanted(PAGE, "parse_item")])
    undone = Undone(tmp_path)
    assert undone.wants(PAGE)
    assert undone.to_fetch == [Wanted(PAGE, "parse_item")]
    assert undone.keeps(PAGE)
    assert not undone.wants("https://shop.example/item?id=8")
    assert not undone.keeps("https://shop.example/item?id=8")


def test_it_is_fetched_once_and_kept_for_ever(tmp_path: Path) -> None:
    undo(tmp_path, [Wanted(PAGE, "parse_item")])
    first = Undone(tmp_path)
    first.fetched(PAGE)
    for undone in (first, Undone(tmp_path)):
        assert not undone.wants(PAGE)
        assert undone.keeps(PAGE)


def test_undoing_it_again_fetches_it_again(tmp_path: Path) -> None:
    undo(tmp_path, [Wanted(PAGE, "parse_item")])
    Undone(tmp_path).fetched(PAGE)
    undo(tmp_path, [Wanted(PAGE, "parse_item")])
    assert Undone(tmp_path).wants(PAGE)


def test_urls_that_are_the_same_to_the_crawl_are_undone_together(tmp_path: Path) -> None:
    undo(tmp_path, [Wanted(PAGE, "parse_item")])
    assert Undone(tmp_path).wants("http://shop.example/item?utm_source=x&id=7")


def test_fetching_what_nobody_undid_writes_nothing(tmp_path: Path) -> None:
    Undone(tmp_path).fetched(PAGE)
    assert not list(tmp_path.iterdir())
    assert len(Undone(tmp_path)) == 0


@pytest.mark.parametrize("torn", [b'{"un', b"\xff\xfe", b"[1]", b"7", b"\n\n"])
def test_a_torn_line_costs_only_itself(tmp_path: Path, torn: bytes) -> None:
    undo(tmp_path, [Wanted(PAGE, "parse_item")])
    with (tmp_path / FILE).open("ab") as file:
        file.write(torn)
    undo(tmp_path, [Wanted("https://shop.example/other")])
    undone = Undone(tmp_path)
    assert len(undone) == 2
    assert undone.wants("https://shop.example/other")


def test_hostile_urls_stay_one_line(tmp_path: Path) -> None:
    undo(tmp_path, [Wanted('http://a.example/\n{"fetched": "x"}\u2028')])
    assert len((tmp_path / FILE).read_bytes().splitlines()) == 1

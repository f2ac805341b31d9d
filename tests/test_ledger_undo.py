"""What a person undoes is fetched once more and kept, whatever a crash does to the list."""

from pathlib import Path

import pytest

from scrapy_neardup.ledger.undo import FILE, Override, Overrides, damaged_lines, undo

PAGE = "https://shop.example/item?id=7"


def test_an_undone_page_is_fetched_and_kept(tmp_path: Path) -> None:
    undo(tmp_path, [Override(PAGE, "parse_item")])
    overrides = Overrides(tmp_path)
    assert overrides.wants(PAGE)
    assert overrides.to_fetch == [Override(PAGE, "parse_item")]
    assert overrides.keeps(PAGE)
    assert not overrides.wants("https://shop.example/item?id=8")
    assert not overrides.keeps("https://shop.example/item?id=8")


def test_it_is_fetched_once_and_kept_for_ever(tmp_path: Path) -> None:
    undo(tmp_path, [Override(PAGE, "parse_item")])
    first = Overrides(tmp_path)
    first.fetched(PAGE)
    for overrides in (first, Overrides(tmp_path)):
        assert not overrides.wants(PAGE)
        assert overrides.keeps(PAGE)


def test_undoing_it_again_fetches_it_again(tmp_path: Path) -> None:
    undo(tmp_path, [Override(PAGE, "parse_item")])
    Overrides(tmp_path).fetched(PAGE)
    undo(tmp_path, [Override(PAGE, "parse_item")])
    assert Overrides(tmp_path).wants(PAGE)


def test_urls_that_are_the_same_to_the_crawl_are_undone_together(tmp_path: Path) -> None:
    undo(tmp_path, [Override(PAGE, "parse_item")])
    assert Overrides(tmp_path).wants("http://shop.example/item?utm_source=x&id=7")


def test_fetching_what_nobody_undid_writes_nothing(tmp_path: Path) -> None:
    Overrides(tmp_path).fetched(PAGE)
    assert not list(tmp_path.iterdir())
    assert len(Overrides(tmp_path)) == 0


@pytest.mark.parametrize(
    "torn",
    [
        *(b'{"un', b"\xff\xfe", b"[1]", b"7", b"\n\n", b"[" * 100_000, b"1" * 5_000),
        *(b'{"undo": 5}', b'{"undo": ["x"]}', b'{"fetched": {"a": 1}}'),
        b'{"undo": "http://other.example/", "callback": 5}',
    ],
    ids=range(11),
)
def test_a_torn_line_costs_only_itself(tmp_path: Path, torn: bytes) -> None:
    undo(tmp_path, [Override(PAGE, "parse_item")])
    with (tmp_path / FILE).open("ab") as file:
        file.write(torn)
    undo(tmp_path, [Override("https://shop.example/other")])
    overrides = Overrides(tmp_path)
    assert len(overrides) == 2
    assert overrides.wants("https://shop.example/other")


def test_lines_that_are_no_entries_are_damaged_but_for_a_last_one_cut_off(tmp_path: Path) -> None:
    undo(tmp_path, [Override(PAGE, "parse_item")])
    sound = (tmp_path / FILE).read_bytes()
    names = [i for i in range(len(sound)) if sound[i : i + 4] in (b"undo", b"call")]
    for at in (*range(6), *names, len(sound) - 2, len(sound) - 1):
        flipped = bytearray(sound)
        flipped[at] ^= 1
        (tmp_path / FILE).write_bytes(flipped)
        assert damaged_lines(tmp_path) == [(0, bytes(flipped))], at
    for length in range(len(sound) - 1):
        (tmp_path / FILE).write_bytes(sound + sound[:length])
        assert damaged_lines(tmp_path) == []


def test_hostile_urls_stay_one_line(tmp_path: Path) -> None:
    undo(tmp_path, [Override('http://a.example/\n{"fetched": "x"}\u2028')])
    assert len((tmp_path / FILE).read_bytes().splitlines()) == 1

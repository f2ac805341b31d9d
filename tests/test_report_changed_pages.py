"""The report shows what changed since an earlier crawl, with both texts where they were kept."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ledgers import page, write

from scrapy_neardup.ledger.reader import LedgerReader
from scrapy_neardup.report.changed_pages import changed_pages
from scrapy_neardup.report.page import write_report
from scrapy_neardup.state.visit_file import FILE
from tests.mock_site import MockSite
from tests.test_crawl_recrawl import add_shop, product, recrawl


def shown(state: Path) -> list[dict[str, Any]]:
    """The changed pages of a report."""
    output = state / "report.html"
    write_report(state, output)
    data = re.search(r'id="data">(.*?)</script>', output.read_text("utf-8"), re.DOTALL)
    assert data is not None
    pages: list[dict[str, Any]] = json.loads(data[1])["changed"]["pages"]
    return pages


def test_a_changed_page_is_shown_with_its_text_before_and_after(
    mock_site: MockSite, tmp_path: Path
) -> None:
    settings = {"NEARDUP_KEEP_TEXT": True}
    add_shop(mock_site, 3)
    recrawl(mock_site, tmp_path, **settings)
    assert shown(tmp_path) == []
    mock_site.add("/p/1", product(1, "11.00"))
    recrawl(mock_site, tmp_path, **settings)
    recrawl(mock_site, tmp_path, **settings)  # unchanged, and its text recorded once more
    (changed,) = shown(tmp_path)
    assert changed["url"] == mock_site.url("/p/1")
    assert changed["fields"] == ["price"]
    assert "12.50" in changed["before"]
    assert "11.00" in changed["now"]
    mock_site.add("/p/1", product(1, "10.00"))
    recrawl(mock_site, tmp_path, **settings)
    (changed,) = shown(tmp_path)
    assert ("11.00" in changed["before"], "10.00" in changed["now"]) == (True, True)
    assert changed_pages(tmp_path, LedgerReader(tmp_path))["n"] == 2


@pytest.mark.parametrize("rotate_bytes", [1, 10**6], ids=["a file each", "one file"])
def test_an_earlier_text_is_found_in_whatever_file_it_is(tmp_path: Path, rotate_bytes: int) -> None:
    url = "http://a.example/"
    for kind, text in (("new", "one"), ("changed", "two"), ("unchanged", "two"), ("minor", "two")):
        entry = page(url, kind=kind, text=text)
        write(tmp_path, [entry], keep_text=True, rotate_bytes=rotate_bytes)
    reader = LedgerReader(tmp_path)
    assert reader.earlier_texts(reader.texts([url])) == {url: "one"}
    write(tmp_path, [page(url, kind="changed", text="three")], keep_text=True)
    reader = LedgerReader(tmp_path)
    assert reader.earlier_texts(reader.texts([url])) == {url: "two"}
    assert reader.earlier_texts({"http://b.example/": "none"}) == {}


def test_without_texts_what_is_on_record_is_shown(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site, 2)
    recrawl(mock_site, tmp_path)
    mock_site.add("/p/1", product(1, "11.00"))
    recrawl(mock_site, tmp_path)
    (changed,) = shown(tmp_path)
    assert changed["added"] == ["11.00"]
    assert "before" not in changed


@pytest.mark.parametrize("what", ["'['", "'[1]'", '\'{"url": "x", "before": "y"}\'', "x'ff'"])
def test_a_stranger_s_changes_do_no_harm(mock_site: MockSite, tmp_path: Path, what: str) -> None:
    add_shop(mock_site, 1)
    recrawl(mock_site, tmp_path)
    mock_site.add("/p/0", product(0, "1.00"))
    recrawl(mock_site, tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute(f"UPDATE change SET what = {what}")  # noqa: S608
    assert {page["url"] for page in shown(tmp_path)} <= {mock_site.url("/p/0")}
    assert not any("before" in page for page in shown(tmp_path))

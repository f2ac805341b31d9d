"""What a run says of its clusters: a table with the words that differ, a ledger, a report."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mock_site import prose

from scrapy_neardup.commands import WRONG_USE, main
from scrapy_neardup.ledger.reader import LedgerReader
from scrapy_neardup.ledger.schema import Decided
from scrapy_neardup.report.text_diff import MAX_CHARS, difference_line

URL = "http://a.example/"


@pytest.fixture(autouse=True)
def every_word_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a host's first pages none is near another where templates are learnt."""
    settings = 'NEARDUP_BOILERPLATE = "keep"\nNEARDUP_KEY = 5\n'
    (tmp_path / "settings_of_the_test.py").write_text(settings, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "settings_of_the_test", raising=False)
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "settings_of_the_test")


def other_words(text: str, *places: int) -> str:
    words = text.split()
    for place in places:
        words[place] = f"another{place}"
    return " ".join(words)


ROWS = [
    {"url": URL + "0", "text": prose(0)},
    {"url": URL + "copy", "text": other_words(prose(0), 30)},
    {"url": URL + "1", "text": prose(1)},
    {"url": URL + "1", "text": other_words(prose(1), 10)},  # another page of the same URL
    {"url": URL + "exact", "text": prose(0)},
]


def run(folder: Path, rows: list[dict[str, Any]], *args: object) -> Path:
    source = folder / "pages.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    out = folder / "out"
    assert main(["dedup", str(source), "--out", str(out), "--jobs", "1", *map(str, args)]) == 0
    return out


def by_url(out: Path) -> dict[str, Decided]:
    return {decided.url: decided for decided in LedgerReader(out).decisions()}


def test_the_table_says_in_which_words_a_copy_differs(tmp_path: Path) -> None:
    run(tmp_path, ROWS, "--clusters", tmp_path / "clusters.csv")
    with (tmp_path / "clusters.csv").open(newline="") as file:
        told = {(row["url"], row["record"]): row["difference"] for row in csv.DictReader(file)}
    was = prose(0).split()[30], prose(1).split()[10]
    assert told == {
        (URL + "0", "0"): "",
        (URL + "copy", "1"): f"[-{was[0]}-]{{+another30+}}",
        (URL + "exact", "4"): "",
        (URL + "1", "2"): "",
        (URL + "1", "3"): f"[-{was[1]}-]{{+another10+}}",
    }


def test_with_another_copy_kept_the_table_compares_with_that(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="the extra [dedup] is not installed")
    rows = [ROWS[0], {"url": URL + "copy", "text": other_words(prose(0), 30) + " and more"}]
    run(tmp_path, rows, "--clusters", tmp_path / "clusters.parquet", "--keep", "longest")
    kept, dropped = pq.read_table(tmp_path / "clusters.parquet").to_pylist()
    was = prose(0).split()[30]
    assert (kept["url"], dropped["url"]) == (URL + "copy", URL + "0")
    assert dropped["difference"] == f"[-another30-]{{+{was}+}}; [-and more-]"


def test_a_ledger_has_every_record_that_was_compared(tmp_path: Path) -> None:
    out = run(tmp_path, ROWS, "--report", tmp_path / "report.html")
    found = by_url(out)
    again = f"{URL}1 ({tmp_path / 'pages.jsonl'}, record 3)"
    assert {url: (d.kind, d.action, d.original) for url, d in found.items()} == {
        URL + "0": ("new", "kept", None),
        URL + "copy": ("near", "dropped", URL + "0"),
        URL + "1": ("new", "kept", None),
        again: ("near", "dropped", URL + "1"),
        URL + "exact": ("exact", "dropped", URL + "0"),
    }
    assert LedgerReader(out).text(again) == ROWS[3]["text"]
    report = (tmp_path / "report.html").read_text("utf-8")
    assert "another10" in report
    assert not (out / "texts.sqlite").exists()


def test_the_ledger_of_other_copies_says_what_was_kept(tmp_path: Path) -> None:
    rows = [ROWS[0], {"url": URL + "copy", "text": other_words(prose(0), 30) + " and more"}]
    out = run(tmp_path, rows, "--keep", "longest", "--report", tmp_path / "report.html")
    kinds = {url: (d.kind, d.action, d.original) for url, d in by_url(out).items()}
    assert kinds[URL + "0"] == ("near", "dropped", URL + "copy")
    assert kinds[URL + "copy"] == ("new", "kept", None)


def test_records_without_urls_go_by_file_and_number(tmp_path: Path) -> None:
    rows = [{"text": row["text"]} for row in ROWS]
    out = run(tmp_path, rows, "--no-url", "--report", tmp_path / "report.html")
    first, second = (f"{tmp_path / 'pages.jsonl'}, record {number}" for number in range(2))
    assert by_url(out)[second].original == first


def test_a_run_without_a_ledger_is_not_resumed_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, ROWS)
    args = ["dedup", str(tmp_path / "pages.jsonl"), "--out", str(out), "--jobs", "1"]
    assert main([*args, "--report", str(tmp_path / "report.html")]) != 0
    assert "a run with another --report" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_and_reports_take_any_url(tmp_path: Path, kind: str) -> None:
    """A lone surrogate, as JSON may have it, is no character of UTF-8."""
    if kind == "parquet":
        pytest.importorskip("pyarrow.parquet", reason="the extra [dedup] is not installed")
    rows = [row | {"url": row["url"] + "\ud800<script>\x00\n"} for row in ROWS]
    table, report = tmp_path / f"clusters.{kind}", tmp_path / "report.html"
    out = run(tmp_path, rows, "--clusters", table, "--report", report)
    assert len((out / "duplicates.jsonl").read_text().splitlines()) == 3
    assert len(list(LedgerReader(out).decisions())) == len(ROWS)
    assert table.stat().st_size
    assert URL.encode() in report.read_bytes()
    assert b"<script>\\u0000" not in report.read_bytes()


def test_a_line_of_differences_is_cut_between_two_of_them() -> None:
    words = [f"w{i}" for i in range(600)]
    others = [f"x{i}" if i % 2 else word for i, word in enumerate(words)]
    said = difference_line(" ".join(words), " ".join(others))
    assert len(said) <= MAX_CHARS + 3
    assert said.startswith("[-w1-]{+x1+}; [-w3-]{+x3+}; ")
    assert said.endswith("}; …")


def test_of_records_of_files_none_is_the_newer_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their ledger says when they were read, which is in the order of the file."""
    rows = [
        {"url": f"{URL}{n:04}", "text": prose(0)} for n in range(2_000)
    ]  # for some milliseconds
    out = run(tmp_path, rows, "--keep", "best", "--report", tmp_path / "report.html")
    capsys.readouterr()
    assert main(["best", str(out), "--json"]) == 0
    (cluster,) = json.loads(capsys.readouterr().out)
    (kept,) = map(json.loads, next((out / "kept").iterdir()).read_text().splitlines())
    assert cluster["keep"] == kept["url"] == f"{URL}0000"
    assert "newer" not in cluster["why"]


def test_undo_refuses_the_output_of_dedup_which_fetches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = run(tmp_path, ROWS, "--report", tmp_path / "report.html")
    capsys.readouterr()
    assert main(["undo", URL + "copy", "--state", str(out)]) == WRONG_USE
    said = capsys.readouterr()
    assert "duplicates.jsonl" in said.err
    assert "will be fetched" not in said.out
    assert not (out / "overrides.jsonl").exists()

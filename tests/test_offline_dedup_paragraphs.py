"""Paragraphs that documents share are listed or removed, and every one of them stays somewhere."""

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mock_site import prose

from scrapy_neardup.commands import WRONG_USE, main
from scrapy_neardup.offline.dedup.columns import Columns
from scrapy_neardup.offline.dedup.formats.csv_rows import CsvRows, cells_of
from scrapy_neardup.offline.dedup.formats.jsonl import without_lines
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.lines import with_ends, without
from scrapy_neardup.offline.dedup.progress import Progress
from scrapy_neardup.offline.dedup.record import Chunk, Frame, InputLimits

warcio = pytest.importorskip("warcio", reason="the extra [dedup] is not installed")
pa = pytest.importorskip("pyarrow", reason="the extra [dedup] is not installed")

pytestmark = pytest.mark.usefixtures("one_key")

FOOTER = "Copyright 2026 by the shop, all rights reserved."
NOTICE = "We value your privacy and use cookies."
# The first four have a site of their own; the notice stands on both.
TEXTS = [
    f"{prose(0)}\n{FOOTER}\n{NOTICE}",
    f"{prose(1)}\r\n}}\r\n  {FOOTER} \r\n{prose(2)}",
    f"{NOTICE}\n{prose(3)}\n}}\n{FOOTER}\n{FOOTER}",
    f"{prose(4)}\n{FOOTER.upper()}",
    f"{prose(5)}\n{NOTICE}",
    f"{FOOTER}",
]
LEFT = [
    TEXTS[0],
    f"{prose(1)}\r\n}}\r\n{prose(2)}",
    f"{prose(3)}\n}}\n",
    TEXTS[3],
    TEXTS[4],
    TEXTS[5],
]


def test_paragraphs_are_on_the_disk_before_what_is_kept_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, sync, save = set[int](), os.fsync, Progress.save

    def noted_sync(file: int) -> None:
        synced.add(os.fstat(file).st_ino)
        sync(file)

    def checked_save(progress: Progress, out: Path) -> None:
        if progress.stage == "writing":
            stages.append((out / "paragraphs.sqlite").stat().st_ino in synced)
        save(progress, out)

    stages: list[bool] = []
    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Progress, "save", checked_save)
    pages = tmp_path / "pages.jsonl"
    pages.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    run(pages, "remove")
    assert stages
    assert all(stages)


def url(number: int) -> str:
    return f"http://{'ab'[number >= 4]}.example/{number}"


def rows() -> list[dict[str, Any]]:
    return [{"n": i, "url": url(i), "text": text} for i, text in enumerate(TEXTS)]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def run(pages: Path, mode: str, *options: str) -> Path:
    out = pages.parent / f"out-{mode}"
    command = ["dedup", str(pages), "--out", str(out), "--jobs", "1", "--paragraphs", mode]
    assert main([*command, *options]) == 0
    return out


def kept(out: Path) -> bytes:
    (path,) = (out / "kept").iterdir()
    return path.read_bytes()


def test_paragraphs_are_listed_by_site_and_over_all(tmp_path: Path) -> None:
    pages = tmp_path / "pages.jsonl"
    pages.write_text("".join(json.dumps(row) + "\n" for row in rows()), "utf-8")
    out = run(pages, "list")
    assert kept(out) == pages.read_bytes()
    footer, notice = lines(out / "paragraphs.jsonl")
    assert (footer["text"], notice["text"]) == (FOOTER, NOTICE)
    assert (footer["documents"], footer["sites"], footer["times"]) == (4, 2, 5)
    assert (notice["documents"], notice["sites"]) == (3, 2)
    assert footer["documents_on_site"] == {"a.example": 3}
    assert notice["documents_on_site"] == {"a.example": 2}
    first = {"file": str(pages), "record": 0, "url": url(0), "line": 1}
    assert footer["first"] == first
    a, b = lines(out / "paragraph_sites.jsonl")
    assert (a["site"], a["documents"], a["repeated_chars"]) == (
        "a.example",
        4,
        3 * len(FOOTER) + len(NOTICE),
    )
    assert (b["site"], b["documents"], b["repeated_chars"]) == ("b.example", 2, 0)
    told = json.loads((out / "summary.json").read_text("utf-8"))["others"]
    assert told["paragraphs/chars"] == sum(map(len, TEXTS))
    assert told["paragraphs/repeated"] == 2
    assert told["paragraphs/repeated_chars"] == 4 * len(FOOTER) + 2 * len(NOTICE)
    assert told["paragraphs/repeated_chars_on_a_site"] == 3 * len(FOOTER) + len(NOTICE)


def test_removed_paragraphs_stay_in_the_first_document_and_are_listed(tmp_path: Path) -> None:
    pages = tmp_path / "pages.jsonl"
    pages.write_text("".join(json.dumps(row) + "\n" for row in rows()), "utf-8")
    out = run(pages, "remove")
    expected = [{**row, "text": left} for row, left in zip(rows(), LEFT, strict=True)]
    assert kept(out) == "".join(json.dumps(row) + "\n" for row in expected).encode()
    removed = lines(out / "removed_paragraphs.jsonl")
    assert [(row["record"], row["line"], row["text"]) for row in removed] == [
        (1, 2, FOOTER),
        (2, 0, NOTICE),
        (2, 3, FOOTER),
        (2, 4, FOOTER),
    ]
    assert {row["kept_in"]["record"] for row in removed} == {0}
    told = json.loads((out / "summary.json").read_text("utf-8"))["others"]
    assert told["paragraphs/removed"] == 4


def test_removing_leaves_every_other_byte_of_csv_arrays_and_parquet(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    expected = [{**row, "text": left} for row, left in zip(rows(), LEFT, strict=True)]
    array = tmp_path / "pages.json"
    array.write_text("[ " + " ,\n".join(map(json.dumps, rows())) + "]\n", "utf-8")
    made = "[ " + " ,\n".join(map(json.dumps, expected)) + "]\n"
    assert kept(run(array, "remove")) == made.encode()

    table = tmp_path / "csv" / "pages.csv"
    table.parent.mkdir()
    table.write_bytes(as_csv(rows()))
    assert kept(run(table, "remove")) == as_csv(expected)

    types = [("n", pa.int64()), ("url", pa.string()), ("text", pa.large_string())]
    schema = pa.schema(types, metadata={"made": "by hand"})
    columns = tmp_path / "parquet" / "pages.parquet"
    columns.parent.mkdir()
    pq.write_table(pa.Table.from_pylist(rows(), schema), columns, row_group_size=2)
    run(columns, "remove")
    (path,) = (columns.parent / "out-remove" / "kept").iterdir()
    assert pq.read_table(path).equals(pa.Table.from_pylist(expected, schema), check_metadata=True)
    assert pq.ParquetFile(path).num_row_groups == 3


def as_csv(table: list[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ["n", "url", "text"])
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue().encode()


def test_html_is_listed_and_not_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = tmp_path / "pages.jsonl"
    bodies = [f"<p>{prose(i)}</p><p>{NOTICE}</p>" for i in range(2)]
    made = ({"url": url(i), "html": body} for i, body in enumerate(bodies))
    pages.write_text("".join(json.dumps(row) + "\n" for row in made), "utf-8")
    assert lines(run(pages, "list") / "paragraphs.jsonl")[0]["text"] == NOTICE
    command = ["dedup", str(pages), "--out", str(tmp_path / "no"), "--paragraphs", "remove"]
    assert main(command) == WRONG_USE
    assert "use --paragraphs list" in capsys.readouterr().err


texts = st.text(st.sampled_from('ab \n\r\\"é\ud800\u2028\t'), max_size=20)
chosen = st.sets(st.integers(0, 5))


@given(texts, texts, chosen, st.booleans(), st.sampled_from([None, 1]))
def test_any_lines_of_any_string_in_json_can_go(
    text: str, other: str, gone: set[int], is_ascii: bool, indent: int | None
) -> None:
    columns = Columns(None, ("page.0.text",), ())
    row = {"a": other, "page": [{other: 1, "text": text}, other], "z": [other]}
    raw = json.dumps(row, ensure_ascii=is_ascii, indent=indent).replace("a", "\\u0061")
    raw = raw.replace("\\n", "\\u000A") if len(other) % 2 else raw
    if "\\u0061" in raw and "\\\\u0061" in raw:
        return  # a backslash of the text, and then an a
    changed = without_lines(raw.encode("utf-8", "surrogatepass"), columns, sorted(gone))
    expected = without(with_ends(text), gone)
    found = json.loads(changed.decode("utf-8", "surrogatepass"))
    assert found == {**row, "page": [{other: 1, "text": expected}, other]} or other == "text"
    if not gone:
        assert changed == raw.encode("utf-8", "surrogatepass")


@given(texts, texts, chosen, st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_any_lines_of_any_cell_can_go(text: str, other: str, gone: set[int], quoting: Any) -> None:
    text, other = (cell.replace("\ud800", "").replace("\r", "") for cell in (text, other))
    out = io.StringIO(newline="")
    csv.writer(out, quoting=quoting).writerow([other, text, other])
    form = CsvRows(Input(Path("x.csv"), "csv"), Columns(None, ("text",), ()), InputLimits())
    chunk = Chunk(0, 0, 0, head=b"a,text,z\r\n")
    changed = form.cut(Frame(0, out.getvalue().encode()), chunk, sorted(gone)).decode()
    assert cells_of(changed, ",") == [other, without(with_ends(text), gone), other]

"""Records of files become batches that Arrow takes, whatever their size; no Spark needed."""

import json
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")

from scrapy_neardup.offline.dedup.columns import Fields  # noqa: E402
from scrapy_neardup.spark import records  # noqa: E402


@pytest.mark.parametrize("column", ["text", "html"])
def test_a_batch_ends_where_its_strings_are_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    monkeypatch.setattr(records, "BATCH_CHARS", 1_000)
    path = tmp_path / "a.jsonl"
    rows = [{"url": f"http://a.example/{n}", column: "word " * 80} for n in range(7)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = {
        "store": "",
        "path": bytes(path),
        "kind": "jsonl",
        "packing": "",
        "name": path.name.encode(),
    }
    files = pa.RecordBatch.from_pylist([file | {"start": 0, "size": None}])
    batches = [*records.pages_of(iter([files]), Fields(), "site")]
    assert [batch.num_rows for batch in batches] == [3, 3, 1]
    urls = [url for batch in batches for url in batch["url"].to_pylist()]
    assert urls == [row["url"] for row in rows]


def test_columns_whose_names_differ_in_case_are_all_compared(tmp_path: Path) -> None:
    """Spark's own readers take them for one."""
    path = tmp_path / "a.csv"
    rows = "".join(f"http://a.example/{said},Read more,{said}\n" for said in ("one", "two"))
    path.write_text(f"url,text,Text\n{rows}")
    file = {
        "store": "",
        "path": bytes(path),
        "kind": "csv",
        "packing": "",
        "name": path.name.encode(),
    }
    files = pa.RecordBatch.from_pylist([file | {"start": 0, "size": None}])
    (batch,) = records.pages_of(iter([files]), Fields(), "site")
    assert batch["text"].to_pylist() == ["Read more\none", "Read more\ntwo"]


def test_strings_beside_the_text_count() -> None:
    markup = {"heads": ["abc"], "data": [], "details": ["d", "e"], "attributes": [], "unread": 9}
    assert records.n_chars(("http://a.example/", "text", markup, None, "a#0")) == 4 + 3 + 2

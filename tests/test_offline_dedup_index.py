"""Records are compared with an index that a run on Spark kept; no Spark is needed."""

import json
from pathlib import Path

import pytest
from mock_site import prose

pa = pytest.importorskip("pyarrow", reason="the extra `dedup` is not installed")

import pyarrow.parquet as pq  # noqa: E402

from scrapy_neardup.commands import main  # noqa: E402
from scrapy_neardup.engines import FINGERPRINT, SKETCH  # noqa: E402
from scrapy_neardup.offline.dedup.signature_index import about  # noqa: E402
from scrapy_neardup.spark.signatures import signer  # noqa: E402


def stored(folder: Path, texts: dict[str, str], scope: str = "site") -> Path:
    """An index with one complete version, and one that is not."""
    rows = {"id": [*texts], "rank": [0] * len(texts), "text": [*texts.values()]}
    signed = signer("site", FINGERPRINT, SKETCH)(iter([pa.RecordBatch.from_pydict(rows)]))
    table = pa.Table.from_batches(signed).drop_columns(["rank", "beside"])
    for name, success in (("0", str(len(texts))), ("1", "")):
        (folder / name).mkdir(parents=True)
        pq.write_table(table.slice(0 if success else 1), folder / name / "part-00000.parquet")
        (folder / name / "_SUCCESS").write_text(success)
    (folder / "about.json").write_text(json.dumps(about(scope, FINGERPRINT, SKETCH)))
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    texts = {"copy": prose(1), "near": prose(2) + " more", "new": prose(3)}
    rows = [{"url": f"https://a.example/{name}", "text": text} for name, text in texts.items()]
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_what_the_index_has_is_dropped(
    tmp_path: Path,
    source: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = {f"https://a.example/{n}": prose(n) for n in (1, 2)}
    index = stored(tmp_path / "index", texts)
    command = ["dedup", str(source), "--out", str(tmp_path / "out"), "--against", str(index)]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["exact"] == 1
    assert told["kept"] + told["near"] == 2


def test_an_index_under_another_scope_is_refused(
    tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = stored(tmp_path / "index", {"https://a.example/1": prose(1)}, scope="all")
    command = ["dedup", str(source), "--out", str(tmp_path / "out"), "--against", str(index)]
    assert main(command) == 2
    assert "of another specification" in capsys.readouterr().err

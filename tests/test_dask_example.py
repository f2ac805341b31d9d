"""The example for Dask finds the near pairs of its files."""

import importlib.util
from pathlib import Path

import pytest
from mock_site import prose

pytest.importorskip("dask", reason="dask is not installed")
pa = pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")

import pyarrow.parquet as pq  # noqa: E402

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "dask_dedup.py"


def test_the_example_prints_near_pairs_of_all_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location("dask_dedup", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    paths = [str(tmp_path / f"{n}.parquet") for n in range(2)]
    for n, path in enumerate(paths):
        urls = [f"https://a.example/{i}/{n}" for i in range(3)]
        texts = [f"{prose(str(i))} {'more' * n}" for i in range(3)]
        pq.write_table(pa.table({"url": urls, "text": texts}), path)
    example.main(paths)
    found = [line.split("\t")[:2] for line in capsys.readouterr().out.splitlines()]
    assert sorted(found) == [
        [f"https://a.example/{i}/1", f"https://a.example/{i}/0"] for i in range(3)
    ]

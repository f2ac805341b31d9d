"""The examples for Dask and Ray find the near pairs of their files."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from mock_site import prose

pa = pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")

import pyarrow.parquet as pq  # noqa: E402

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
sys.path.append(str(EXAMPLES))

from near_pairs import print_pairs  # noqa: E402

SAID = "150 pages, in crowds, were not compared with all others\n"
TIMEOUT_S = 600  # Ray starts a dozen processes


def one_by_one(function: Callable[..., Any], arguments: Iterable[Any], same: Any) -> list[Any]:
    rest = () if same is None else (same,)
    return [function(one, *rest) for one in arguments]


def test_near_pairs_are_found_beside_files_without_rows_and_with_other_strings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = pa.table({"url": ["https://a.example/0"], "text": [prose("0")]})
    later = pa.table({"url": ["https://a.example/1"], "text": [f"{prose('0')} more"]})
    encoded = pa.table([column.dictionary_encode() for column in later.columns], later.column_names)
    paths = [str(tmp_path / f"{n}.parquet") for n in range(3)]
    for path, table in zip(paths, [pages.slice(0, 0), pages, encoded], strict=True):
        pq.write_table(table, path)
    print_pairs(paths, one_by_one)
    found = capsys.readouterr().out
    assert found.split("\t")[:2] == ["https://a.example/1", "https://a.example/0"]
    print_pairs(paths[:1], one_by_one)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("n_pages", [100, 150])
def test_pages_of_a_crowd_are_counted_where_not_all_pairs_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], n_pages: int
) -> None:
    urls = [f"https://a.example/{n:03}" for n in range(n_pages)]
    path = str(tmp_path / "pages.parquet")
    pq.write_table(pa.table({"url": urls, "text": [prose("0")] * n_pages}), path)
    print_pairs([path], one_by_one)
    captured = capsys.readouterr()
    has_all = len(captured.out.splitlines()) == n_pages * (n_pages - 1) // 2
    assert has_all == (n_pages == 100)
    assert captured.err == ("" if has_all else SAID)


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_the_example_prints_near_pairs_of_all_files(tmp_path: Path, name: str) -> None:
    pytest.importorskip(name, reason=f"{name} is not installed")
    paths = [str(tmp_path / f"{n}.parquet") for n in range(2)]
    for n, path in enumerate(paths):
        urls = [f"https://a.example/{i}/{n}" for i in range(3)]
        texts = [f"{prose(str(i))} {'more' * n}" for i in range(3)]
        pq.write_table(pa.table({"url": urls, "text": texts}), path)
    found = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}_dedup.py", *paths],
        env=os.environ
        | {
            "HOME": str(tmp_path),  # where Ray keeps its token
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # Ray is on loopback then
            "RAY_USAGE_STATS_ENABLED": "0",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    assert sorted(line.split("\t")[:2] for line in found.stdout.splitlines()) == [
        [f"https://a.example/{i}/1", f"https://a.example/{i}/0"] for i in range(3)
    ]

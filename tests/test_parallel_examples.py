"""The examples for Dask and Ray find the near pairs of their files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mock_site import prose

pa = pytest.importorskip("pyarrow", reason="the extra `spark` is not installed")

import pyarrow.parquet as pq  # noqa: E402

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
TIMEOUT_S = 600  # Ray starts a dozen processes


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

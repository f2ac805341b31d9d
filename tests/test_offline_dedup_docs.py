"""docs/dedup.md's commands run as they are printed."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from crawls import crawl_requests
from mock_site import MockSite, page, prose
from test_offline_dedup import jsonl, rows, warc

pytest.importorskip("warcio", reason="the extra [dedup] is not installed")

pytestmark = pytest.mark.usefixtures("one_key")

DOCS = Path(__file__).parents[1] / "docs" / "dedup.md"
COMMANDS = re.findall(r"^    (.*scrapy neardup .*)$", DOCS.read_text("utf-8"), re.MULTILINE)


@pytest.mark.skipif(sys.platform == "win32", reason="the commands are for a shell")
def test_the_commands_run_as_they_are_printed(
    tmp_path: Path, mock_site: MockSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(COMMANDS) == 10
    (tmp_path / "bin").mkdir()
    scrapy = tmp_path / "bin" / "scrapy"
    scrapy.write_text(f'#!/bin/sh\nshift\nexec "{sys.executable}" -m scrapy_neardup "$@"\n')
    scrapy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{scrapy.parent}{os.pathsep}{os.environ['PATH']}")
    prepare(tmp_path, mock_site)
    for command in COMMANDS:
        for out in re.findall(r"--out ([\w-]+)", command):
            if out in ("deduped", "new-deduped", "cleaned"):
                shutil.rmtree(tmp_path / out, ignore_errors=True)
        done = subprocess.run(
            ["/bin/sh", "-c", command], check=False, capture_output=True, cwd=tmp_path
        )
        assert done.returncode == 0, (command, done.stderr)
    assert (tmp_path / "deduped.jl").read_bytes().count(b"\n") == 5
    assert (tmp_path / "cleaned" / "removed_paragraphs.jsonl").exists()
    (found,) = (tmp_path / "deduped" / "contains.jsonl").read_text("utf-8").splitlines()
    assert json.loads(found)["record"] == 2


def prepare(folder: Path, site: MockSite) -> None:
    """The files that the commands name."""
    (folder / "warcs").mkdir()
    (folder / "warcs" / "a.warc.gz").write_bytes(warc(gzip.compress))
    (folder / "new").mkdir()
    (folder / "new" / "a.jsonl").write_bytes(jsonl())
    (folder / "crawl.jl.gz").write_bytes(gzip.compress(jsonl()))
    (folder / "crawl.jsonl").write_bytes(jsonl())
    passage = " ".join(rows()[2]["text"].split()[20:60])
    (folder / "benchmark.jsonl").write_text(json.dumps({"question": passage}) + "\n", "utf-8")
    site.add("/crawled", page(prose(0)))
    own = {"NEARDUP_KEY": 5, "NEARDUP_BOILERPLATE": "learn"}
    crawl_requests(site, "/crawled", settings={**own, "JOBDIR": str(folder / "crawls" / "shop")})

"""scrapy neardup rtl writes the Verilog, and says which files."""

import json
from pathlib import Path

import pytest

from scrapy_neardup.commands import DONE, WRONG_USE, main


def test_core_is_written_with_its_readme(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "core"
    assert main(["rtl", "--out", str(out), "--json"]) == DONE
    files = json.loads(capsys.readouterr().out)["files"]
    assert sorted(files) == sorted(map(str, out.iterdir()))
    assert {"README.md", "simhash_core.v", "testbench.v"} <= {Path(file).name for file in files}


def test_folder_that_is_a_file_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "core"
    out.write_text("")
    assert main(["rtl", "--out", str(out)]) == WRONG_USE
    assert f"--out {out}: cannot be written to" in capsys.readouterr().err

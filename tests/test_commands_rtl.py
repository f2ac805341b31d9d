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


def test_nothing_is_written_where_the_folder_has_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert main(["rtl", "--out", ""]) == WRONG_USE
    assert "name a folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_parameters_are_those_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    asked = ["--lanes", "3", "--bytes", "2", "--mixer", "light", "--tie", "ge"]
    assert main(["rtl", "--out", str(tmp_path), *asked]) == DONE
    engine = (tmp_path / "fingerprint_engine.v").read_text()
    for line in ("N = 3,", "BYTES = 2,", "MIXER = 1,", "TIE_GE = 1,"):
        assert f"parameter {line}" in engine


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        (["--lanes", "9"], "n_cores=9"),
        (["--lanes", "0"], "n_cores=0"),
        (["--lanes", "8", "--bytes", "2"], "n_cores=8: 4 cores of 2 bytes"),
        (["--lanes", "5", "--bytes", "2", "--mixer", "fmix64"], "n_cores=5"),
    ],
)
def test_parameters_that_do_not_work_are_refused(
    asked: list[str], refusal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["rtl", "--out", str(tmp_path / "core"), *asked]) == WRONG_USE
    assert refusal in capsys.readouterr().err
    assert not (tmp_path / "core").exists()


def test_shared_counters_are_written_and_refused_where_they_do_not_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["rtl", "--out", str(tmp_path), "--counters", "shared"]) == DONE
    assert "parameter SHARED = 1" in (tmp_path / "fingerprint_engine.v").read_text()
    assert (tmp_path / "shared_counters.v").exists()
    refused = tmp_path / "refused"
    assert main(["rtl", "--out", str(refused), "--counters", "shared", "--bytes", "2"]) == WRONG_USE
    assert "bytes_per_cycle=1, not 2" in capsys.readouterr().err
    assert not refused.exists()


def test_nothing_asked_for_is_wrong_use(capsys: pytest.CaptureFixture[str]):
    assert main(["rtl"]) == WRONG_USE
    assert "--out DIR" in capsys.readouterr().err

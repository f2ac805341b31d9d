"""The command's frame: help, exit codes, errors in one line, clean output, both fronts."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from fresh import run_fresh
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup import commands
from scrapy_neardup.harmless import clean
from scrapy_neardup.ledger.schema import Entry
from scrapy_neardup.ledger.writer import LedgerWriter

HOSTILE = "http://a.example/\x1b[2J\x1b]0;owned\x07\u202egpj.exe\ud800"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with one decision about a hostile URL."""
    ledger = LedgerWriter(tmp_path / "ledger", "all", rules={})
    ledger.record(Entry(HOSTILE, "near", "dropped", original="http://a.example/", distance=2))
    ledger.close()
    return tmp_path


def run(*arguments: str, front: tuple[str, ...] = ("scrapy_neardup",)) -> tuple[int, str, str]:
    """Exit code, output and errors of the command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", *front, *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("front", [("scrapy_neardup",), ("scrapy.cmdline", "neardup")])
def test_both_fronts_give_the_same_answer(front: tuple[str, ...], state: Path) -> None:
    exit_code, output, _ = run("stats", str(state), "--json", front=front)
    assert exit_code == 0
    assert json.loads(output)["total"]["kinds"]["near"] == 1


@pytest.mark.parametrize("front", [("scrapy_neardup",), ("scrapy.cmdline", "neardup")])
def test_wrong_use_has_its_own_exit_code(front: tuple[str, ...], tmp_path: Path) -> None:
    assert run("stats", str(tmp_path), front=front)[0] == commands.WRONG_USE
    exit_code, _, errors = run("stats", str(tmp_path), "--nonsense", front=front)
    assert exit_code == commands.WRONG_USE
    assert "--nonsense" in errors


@pytest.mark.parametrize("name", commands.SUBCOMMANDS)
def test_every_subcommand_has_help_with_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        commands.main([name, "--help"])
    assert exit.value.code == 0
    help = capsys.readouterr().out
    assert f"scrapy neardup {name}" in help.partition("examples:")[2]
    assert "--json" in help


def test_help_lists_every_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        commands.main(["--help"])
    help = capsys.readouterr().out
    assert all(f"\n    {name}" in help for name in commands.SUBCOMMANDS)


def test_an_error_is_one_line_that_names_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["stats", str(tmp_path)]) == commands.WRONG_USE
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert str(tmp_path) in errors
    assert "NEARDUP_LEDGER" in errors


def test_the_command_loads_nothing_heavy_before_it_is_used() -> None:
    program = (
        "import sys; from scrapy_neardup.commands.scrapy_command import NearDupCommand;"
        "sys.exit(bool({'numpy', 'sqlite3', 'scrapy_neardup.commands.stats'} & set(sys.modules)))"
    )
    assert run_fresh(program).returncode == 0


@pytest.mark.parametrize("damage", ["rules", "text", "url", "middle"])
@pytest.mark.parametrize("name", ["stats", "export", "report", "explain"])
def test_a_damaged_ledger_is_read_as_far_as_it_goes_or_refused_in_one_line(
    state: Path, damage: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ledger" / "000001.sqlite"
    with closing(sqlite3.connect(file)) as ledger, ledger:
        if damage == "rules":
            ledger.execute("UPDATE run SET rules = '{'")
        elif damage == "text":
            ledger.execute("INSERT OR REPLACE INTO page_text SELECT id, x'00ff' FROM original")
        elif damage == "url":
            ledger.execute("UPDATE decision SET url = x'ff00', distance = 'far'")
    if damage == "middle":
        with file.open("r+b") as bytes_of_it:
            bytes_of_it.seek(4_096 * 3)
            bytes_of_it.write(b"\xff" * 4_096 * 4)
    arguments = {"explain": [HOSTILE, "--state", str(tmp_path)]}.get(name, [str(tmp_path)])
    options = ["-o", str(tmp_path / "r.html")] if name == "report" else []
    assert commands.main([name, *arguments, *options]) in (0, 1, commands.WRONG_USE)
    assert capsys.readouterr().err.count("\n") <= 1


def test_help_of_every_subcommand_loads_nothing_heavy() -> None:
    program = (
        "import sys; from scrapy_neardup import commands\n"
        "try: commands.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scrapy', 'twisted', 'lxml', 'w3lib', 'mmh3', 'publicsuffixlist',"
        " 'pyarrow', 'warcio', 'tqdm', 'pyspark', 'redis'} & set(sys.modules)\n"
        "sys.exit(' '.join(heavy) or 0)"
    )
    done = run_fresh(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_cannot_be_written_is_one_line(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["report", str(state), "-o"], ["export", str(state), "-o"]):
        assert commands.main([*arguments, str(tmp_path / "no" / "x.csv")]) == commands.WRONG_USE
        errors = capsys.readouterr().err
        assert errors.count("\n") == 1
        assert "No such file" in errors


def test_ctrl_c_is_one_line_and_an_exit_code_of_its_own(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("scrapy_neardup.commands.stats.summarise", interrupt)
    assert commands.main(["stats", str(state)]) == commands.INTERRUPTED
    assert capsys.readouterr().err == "scrapy neardup: interrupted\n"


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "arguments",
    [
        ("stats", "x", "--top", "-1"),
        ("report", "x", "--rows", "-1"),
        ("dedup", "x", "--out", "y", "--jobs", "0"),
        ("calibrate", "x", "--pages", "1"),
        ("stats", "x", "--top", "many"),
    ],
)
def test_a_number_out_of_range_is_wrong_use(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        commands.main(list(arguments))
    assert exit.value.code == commands.WRONG_USE
    assert arguments[-2] in capsys.readouterr().err


def test_help_names_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        commands.main(["--help"])
    help = capsys.readouterr().out.partition("exit codes:")[2]
    for code in (commands.DONE, commands.NOTHING_FOUND, commands.WRONG_USE, commands.INTERRUPTED):
        assert f"\n  {code}  " in help
    docs = (Path(__file__).parents[1] / "docs" / "commands.md").read_text("utf-8")
    assert f"{commands.INTERRUPTED}, interrupted" in docs


def test_a_jobdir_is_taken_for_the_state_folder_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LedgerWriter(tmp_path / "neardup" / "ledger", "all", rules={}).close()
    assert commands.main(["stats", str(tmp_path)]) == 0
    assert "near" in capsys.readouterr().out


def test_a_reader_that_stops_early_is_no_error(state: Path) -> None:
    command = f"'{sys.executable}' -m scrapy_neardup stats '{state}' --json | true"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@given(st.text())
def test_cleaned_text_has_no_character_that_acts_on_a_terminal(text: str) -> None:
    cleaned = clean(text)
    assert len(cleaned) == len(text)
    assert not set(cleaned) & set(map(chr, [*range(32), *range(127, 160), 0x202E, 0x2028]))
    cleaned.encode("utf-8")


def test_cleaned_text_keeps_letters_of_every_script() -> None:
    assert clean("Grüße, 漢字 और עברית") == "Grüße, 漢字 और עברית"


@pytest.mark.parametrize(
    "arguments",
    [
        ("dedup", "s3://b/in", "--out", "o"),
        ("dedup", "a.jsonl", "--out", "gs://u:secret@b/out"),
        ("dedup", "a.jsonl", "--out", "o", "--clusters", "s3://b/c.csv"),
        ("dedup", "a.jsonl", "--out", "o", "--report", "file:///r.html"),
        ("dedup", "a.jsonl", "--out", "o", "--contains-any", "hdfs://h/eval.jsonl"),
        ("export", "state", "-o", "s3://b/ledger.jsonl"),
        ("rtl", "--out", "s3://b/rtl"),
    ],
)
def test_a_url_is_no_folder_of_this_machine(
    arguments: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit:
        commands.main([*arguments])
    assert exit.value.code == commands.WRONG_USE
    said = capsys.readouterr().err
    assert "spark-dedup" in said
    assert "secret" not in said
    assert not list(tmp_path.iterdir())

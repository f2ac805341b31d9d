"""scrapy_neardup/commands/terminal.py: how far a command has come, on a terminal."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scrapy_neardup.commands import WRONG_USE
from scrapy_neardup.commands.terminal import SHOWN_AFTER_S, ProgressLine
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.ledger.reader import TOLD_EVERY, LedgerReader
from scrapy_neardup.ledger.schema import Entry
from scrapy_neardup.ledger.writer import LedgerWriter
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def closed(stream: int, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose standard stream of that number the caller has closed."""
    program = "import os, sys; os.close(int(sys.argv[1])); os.execv(sys.executable, sys.argv[2:])"
    arguments = [sys.executable, "-m", "scrapy_neardup", *command]
    return subprocess.run(
        [sys.executable, "-c", program, str(stream), *arguments],
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(os.name == "nt", reason="closes a file descriptor of another program")
@pytest.mark.parametrize("command", ["stats", "check"])
def test_a_closed_output_is_told_in_one_line(tmp_path: Path, command: str) -> None:
    State.open(tmp_path, make_state_factory(NearDupSettings(key=0)), key=0).close()
    LedgerWriter.open(tmp_path, "all", rules="").close()
    done = closed(1, command, str(tmp_path))
    assert done.returncode == WRONG_USE
    assert done.stderr.splitlines() == ["scrapy neardup: standard output: not writable"]


@pytest.mark.skipif(os.name == "nt", reason="closes a file descriptor of another program")
def test_a_closed_error_stream_and_input_change_no_exit_code(tmp_path: Path) -> None:
    assert closed(2, "stats", str(tmp_path / "nowhere")).returncode == WRONG_USE
    done = closed(0, "urls", "-")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_what_takes_long_says_how_far_it_is_and_then_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, clock = Terminal(), Clock()
    monkeypatch.setattr("sys.stderr", terminal)
    progress = ProgressLine("reading", clock)
    progress(10, 100)
    assert not terminal.getvalue()
    clock.now = 2 * SHOWN_AFTER_S
    progress(25, 100)
    assert terminal.getvalue() == "\r\x1b[Kreading: 25 of 100 (25%, 12 s left)"
    progress(26, 100)
    assert "26" not in terminal.getvalue()
    progress(100, 100)
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_nothing_is_said_where_no_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    file, clock = io.StringIO(), Clock()
    monkeypatch.setattr("sys.stderr", file)
    progress = ProgressLine("reading", clock)
    clock.now = 2 * SHOWN_AFTER_S
    progress(25, 100)
    progress(100, 100)
    assert not file.getvalue()


def test_a_ledger_tells_how_much_of_it_was_read_also_if_the_rest_is_not_wanted(
    tmp_path: Path,
) -> None:
    ledger = LedgerWriter.open(tmp_path, "all", rules={})
    assert ledger is not None
    n = TOLD_EVERY + 5
    for number in range(n):
        ledger.record(Entry(f"http://a.example/{number}", "new", "kept"))
    ledger.close()
    told: list[tuple[int, int]] = []
    reader = LedgerReader(tmp_path, lambda done, total: told.append((done, total)))
    assert reader.n_decisions == len(list(reader.decisions())) == n
    assert told == [(0, n), (TOLD_EVERY, n), (n, n)]
    del told[:]
    urls = reader.pages_read()
    assert next(urls) == "http://a.example/0"
    del urls
    assert told == [(0, n), (n, n)]

"""scrapy_neardup/commands/terminal.py: how far a command has come, on a terminal."""

import io
from pathlib import Path

import pytest

from scrapy_neardup.commands.terminal import SHOWN_AFTER_S, Progress
from scrapy_neardup.ledger.reader import TOLD_EVERY, LedgerReader
from scrapy_neardup.ledger.schema import Entry
from scrapy_neardup.ledger.writer import LedgerWriter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_takes_long_says_how_far_it_is_and_then_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, clock = Terminal(), Clock()
    monkeypatch.setattr("sys.stderr", terminal)
    progress = Progress("reading", clock)
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
    progress = Progress("reading", clock)
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

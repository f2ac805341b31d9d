"""Output of commands: no control sequences from pages, colours only on a terminal."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from scrapy_neardup.harmless import clean

SHOWN_AFTER_S, SHOWN_EVERY_S = 2.0, 0.25
COLOURS = {"red": 31, "green": 32, "yellow": 33, "bold": 1, "dim": 2}


class Output:
    """Standard output; characters that its encoding lacks become question marks."""

    def write(self, text: str) -> None:
        """Write text, as it is otherwise."""
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def say(line: str = "") -> None:
    """Write one line; every control sequence but our own colours is removed."""
    Output().write(line + "\n")


def complain(message: str) -> None:
    """Write an error, cleaned, to the error stream. Where that cannot be, the exit code tells."""
    with suppress(OSError):
        sys.stderr.write(f"scrapy neardup: {clean(message)}\n")
        sys.stderr.flush()


def replace_closed_streams() -> None:
    """Put something in the place of standard streams that the caller has closed: None in Python.

    Writing to the output raises OSError then, as it does on a full disk.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - as long as the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - only to be read
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


class ProgressLine:
    """How far a command has come: a line on the error stream, if that is a terminal.

    It appears if the command takes longer than SHOWN_AFTER_S, and goes when that ends.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._began, self._due = clock(), clock() + SHOWN_AFTER_S
        self._is_shown = False

    def __call__(self, done: int, total: int) -> None:
        """So much is done of the total; the line goes when all of it is."""
        if done >= total:
            if self._is_shown:
                sys.stderr.write("\r\x1b[K")
            self._is_shown = False
        elif self._clock() >= self._due and sys.stderr.isatty():
            self._show(done, total)

    def _show(self, done: int, total: int) -> None:
        now = self._clock()
        left = f", {(now - self._began) * (total - done) / done:,.0f} s left" if done else ""
        sys.stderr.write(f"\r\x1b[K{self._what}: {done:,} of {total:,} ({done / total:.0%}{left})")
        sys.stderr.flush()
        self._due, self._is_shown = now + SHOWN_EVERY_S, True


def say_json(value: object) -> None:
    """Write a value as JSON in ASCII, so that nothing in it can act on a terminal."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def colour(text: str, name: str) -> str:
    """The text in a colour on a terminal; unchanged elsewhere and under NO_COLOR."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{COLOURS[name]}m{text}\x1b[0m"


def say_table(header: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> None:
    """Write a table; the first `left` columns are aligned left, the others right."""
    lines = [tuple(header), *(tuple(clean(str(cell)) for cell in row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    for number, line in enumerate(lines):
        cells = [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text = "  ".join(cells).rstrip()
        say(colour(text, "bold") if number == 0 else text)

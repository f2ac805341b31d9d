"""The model of crashes (crash_model.py) for the frontier: calls of SQLite, recorded and replayed.

A frontier lives for a few crawls while fault_shim.c records what SQLite asks of the operating
system: every write with its offset, every cut, sync, new and removed name. After any of these calls
a crash may leave what the model of a file system allows. Each such folder has to open, and to hold
exactly what one commit left: the last one that was said to have succeeded, or one begun after it.

    python -m tests.frontier_model --lives 20

Needs Linux and a C compiler. Not modelled: SQLite's -shm, which is memory shared by processes; the
first connection after a crash makes it anew. No sector is damaged by a write beside it.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from scrapy_neardup.state.frontier import Frontier, RowQueue
from scrapy_neardup.state.frontier_file import NAME, examine
from tests import faults
from tests.crash_model import KILL, POWER, Call, Recording, build, left_by

N_CRAWLS, N_STEPS = 4, 9  # of a life: crawls, and what happens in each
KEY = 7
MAX_PUSHES = 12  # in a step
MAX_BYTES = 6_000  # of a request: more than a page of SQLite's

Rows = dict[int, bytes]


@dataclass
class Life:
    """A frontier that lives, and what it held at each commit."""

    folder: Path
    rng: random.Random
    rows: Rows = field(default_factory=dict)
    commits: list[Rows] = field(default_factory=lambda: [{}])  # what each one left
    # What a state has on record when each one has ended: see Frontier's commit.
    numbers: list[int] = field(default_factory=lambda: [0])

    def live(self) -> None:
        """A few crawls, of which some crash."""
        for _ in range(N_CRAWLS):
            frontier = Frontier(self.folder / NAME, KEY, self.numbers[-1])
            queue = frontier.queue("0", newest_first=self.rng.random() < 0.5)
            for _ in range(N_STEPS):
                self.step(frontier, queue)
            if self.rng.random() < 0.5:
                queue.close()
                self.commit(frontier, frontier.close)
                if not self.rows:
                    self.on_record(0)
                    frontier.remove()
            else:
                frontier.release()
                self.rows = dict(self.commits[-1])

    def step(self, frontier: Frontier, queue: RowQueue) -> None:
        """Push, or take and be done with, a few requests; or commit."""
        what = self.rng.choice(("push", "done", "commit", "commit"))
        if what == "push":
            for _ in range(self.rng.randrange(MAX_PUSHES)):
                request = self.rng.randbytes(self.rng.randrange(MAX_BYTES))
                queue.push(request, "")
                self.rows[frontier._last] = request
        elif what == "done":
            for _ in range(self.rng.randrange(MAX_PUSHES)):
                if (row := queue.pop()) is not None:
                    frontier.done(row.id)
                    del self.rows[row.id]
        else:
            self.commit(frontier, frontier.flush)

    def commit(self, frontier: Frontier, action: Callable[[], object]) -> None:
        """Let what is there now be committed, by flush() or close()."""
        mark(f"begun {len(self.commits)}")
        self.commits.append(dict(self.rows))
        action()
        self.numbers.append(frontier.batch - 1)
        mark(f"ended {len(self.commits) - 1}")

    def on_record(self, number: int) -> None:
        """The state says on which commit pages count, and nothing else happens."""
        self.commits.append(dict(self.rows))
        self.numbers.append(number)
        mark(f"ended {len(self.commits) - 1}")


def mark(text: str) -> None:
    """Enter something into the record."""
    ctypes.CDLL(None).fault_mark(text.encode())


def recorded(life: Life, log: Path) -> Recording:
    """Live a life and record it; events are marks, numbered by their commits."""
    shim = ctypes.CDLL(None)
    shim.fault_record(os.fsencode(life.folder), os.fsencode(log))
    try:
        life.live()
    finally:
        shim.fault_stop_recording()
    recording = Recording(life.folder)
    data = log.read_bytes()
    while data:
        line, _, data = data.partition(b"\n")
        what, path, at, n = line.decode().split("\t")
        enter(recording, what, path, int(at), data[: int(n)])
        data = data[int(n) :]
    return recording


def enter(recording: Recording, what: str, path: str, at: int, data: bytes) -> None:
    """Enter one line of the shim's record."""
    if what == "mark":
        kind, number = path.split(" ")
        recording.mark(kind, int(number))
    elif what == "link":
        recording.made(path, is_folder=False)
    elif what == "unlink":
        recording.unlinked(path)
    else:
        node = recording.node(path)
        assert node is not None, path
        assert what in ("write", "truncate", "sync"), what
        recording.calls.append(Call(what, node=node, offset=at, data=data))  # type: ignore[arg-type]


def check(folder: Path, allowed: list[Rows], commit: int) -> None:
    """The frontier opens and holds what one of some commits left. Raises AssertionError."""
    path, found = folder / NAME, {}
    assert examine(path, KEY, commit).damage is None
    if path.exists():
        frontier = Frontier(path, KEY, commit)
        queue = frontier.queue("0", newest_first=False)
        while (row := queue.pop()) is not None:
            found[row.id] = row.request
        frontier.release()
    assert found in allowed, f"{len(found)} requests, not {[len(rows) for rows in allowed]}"


def replay(seed: int, stride: int = 1) -> Counter[str]:
    """Live one life and crash it after every `stride`-th call; how many folders were checked.

    Raises AssertionError, with a note on which crash it was.
    """
    counts: Counter[str] = Counter()
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="neardup-frontier-") as temporary:
        root = Path(temporary)
        (root / "life").mkdir()
        life = Life(root / "life", rng)
        recording = recorded(life, root / "calls")
        n_calls = len(recording.calls)
        for n in range(rng.randrange(stride), n_calls + 1, stride):
            reached = [event for event in recording.events if event.n_calls <= n]
            last = max((event.number for event in reached if event.kind == "ended"), default=0)
            begun = max((event.number for event in reached), default=0)
            for crash in (KILL, *POWER):
                left = root / f"{n}-{counts.total()}"
                left.mkdir()
                build(left_by(recording.calls[:n], crash, rng), recording.folders, left)
                try:
                    check(left, life.commits[last : begun + 1], life.numbers[last])
                except BaseException as error:
                    error.add_note(f"seed {seed}, after call {n} of {n_calls}: {crash}")
                    raise
                shutil.rmtree(left)
                counts[crash.kind] += 1
    return counts


def run(n_lives: int, seed: int, stride: int = 1) -> Counter[str]:
    """Many lives; how many folders were checked. Raises AssertionError."""
    counts: Counter[str] = Counter()
    for life in range(n_lives):
        counts += replay(seed + life, stride)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.frontier_model", description=__doc__)
    parser.add_argument("--lives", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stride", type=int, default=1, help="crash after each so many calls")
    options = parser.parse_args()
    if faults.LOADED not in os.environ:
        command = [sys.executable, "-m", "tests.frontier_model", *sys.argv[1:]]
        os.execve(sys.executable, command, faults.preloaded())  # noqa: S606  # no shell wanted
    counts = run(options.lives, options.seed, options.stride)
    print(f"every commit kept: {dict(counts)} crashes")  # noqa: T201  # a command's output


if __name__ == "__main__":
    main()

"""What a benchmark gives, and how anything is timed: rows of one table, medians of CPU time."""

import gzip
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
ROUNDS = 7


class Yardstick(NamedTuple):
    """What a figure is held to: a peer, or work that every machine can do, in the same run.

    value  in the figure's unit; None where the peer is not installed
    """

    name: str
    value: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of ours.

    target     None for a figure that is only reported
    at_most    whether the target is the most it may be (a time) or the least (a rate)
    peers      name → the peer's figure in the same run and unit; None if it is not there
    yardstick  the target is a ratio to it, so that it holds on slow and fast machines alike;
               None where the figure is a ratio or a size itself
    """

    kernel: str
    value: float
    unit: str
    target: float | None = None
    at_most: bool = False
    peers: Mapping[str, float | None] = field(default_factory=dict)
    yardstick: Yardstick | None = None

    @property
    def held(self) -> float | None:
        """What the target is about: a ratio, or a size; None without anything to compare with."""
        if self.yardstick is None:
            return self.value
        return self.value / self.yardstick.value if self.yardstick.value else None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one, or without its yardstick."""
        if self.target is None or self.held is None:
            return None
        return self.held <= self.target if self.at_most else self.held >= self.target

    def as_json(self) -> dict[str, Any]:
        """kernel, value, unit, yardstick, held, target, met, peers."""
        fields = {name: getattr(self, name) for name in ("kernel", "value", "unit", "target")}
        yardstick = self.yardstick and self.yardstick._asdict()
        judged = {"yardstick": yardstick, "held": self.held, "met": self.met}
        return fields | judged | {"peers": dict(self.peers)}


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that are measured together. A module of benchmarks has `PARTS`.

    name       what `--only` looks for
    rows       measures them
    minutes    about what they take, by which the time left is estimated
    all_cores  whether it may use more than one core
    """

    name: str
    rows: Callable[[], Iterable[Row]]
    minutes: float
    all_cores: bool = False


def cpu_seconds(
    candidates: Mapping[str, Callable[[], object] | None], rounds: int = ROUNDS
) -> dict[str, float | None]:
    """Median CPU time of this process for each candidate, None for None.

    They take turns, so that whatever disturbs the machine disturbs them alike; one turn
    before warms up and does not count.
    """
    times: dict[str, list[float]] = {name: [] for name, run in candidates.items() if run}
    for _ in range(rounds + 1):
        for name, run in candidates.items():
            if run:
                start = time.process_time()
                run()
                times[name].append(time.process_time() - start)
    return {
        name: statistics.median(times[name][1:]) if run else None
        for name, run in candidates.items()
    }


def once(work: Callable[[], object]) -> float:
    """CPU seconds of work that cannot be repeated."""
    start = time.process_time()
    work()
    return time.process_time() - start


def rates(amount: float, seconds: Mapping[str, float | None]) -> dict[str, float | None]:
    """amount per second for each time."""
    return {name: amount / s if s else None for name, s in seconds.items()}


@contextmanager
def one_core() -> Iterator[None]:
    """Keeps this process on one core where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def html_pages() -> list[str]:
    """The real pages of ../shared/data/pairs."""
    with gzip.open(SHARED_DATA / "pairs" / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line)["html"] for line in lines]

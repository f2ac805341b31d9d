"""The progress of a run of dedup, on disk: an interrupted run resumes from it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.state.files import write_atomically

FILE = "progress.json"


@dataclass(slots=True)
class Progress:
    """How far a run has come: everything before one record of one input, and its output."""

    inputs: list[list[Any]]  # path and size of each: a run resumes only with the same files
    number: int = 0  # of the input
    position: int = 0  # of the next record in it
    part: int = 0  # next part of its output
    duplicates_bytes: int = 0
    damaged_bytes: int = 0
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    snapshot: int = 0  # number of the detector's snapshot
    done: bool = False


def begun(out: Path, inputs: list[Input]) -> Progress:
    """The progress in an output folder, new in an empty one.

    Raises InputError if the folder holds anything else, or a run over other files.
    """
    names = [[str(source.path), source.n_bytes] for source in inputs]
    path = out / FILE
    if not path.exists():
        if out.exists() and any(path.name != "lock" for path in out.iterdir()):
            raise InputError(
                f"{out}: is not empty and holds no run of dedup; name a new folder with --out"
            )
        return Progress(names)
    try:
        stored = json.loads(path.read_text("utf-8"))
        progress = Progress(**{**stored, "counts": Counter(stored["counts"])})
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: is damaged ({error}); name a new folder with --out") from error
    if progress.inputs != names:
        raise InputError(f"{out}: holds a run over other files; name a new folder with --out")
    return progress


def save(out: Path, progress: Progress) -> None:
    """Replace the stored progress, atomically; on disk when this returns."""
    # Not asdict(): it makes another Counter of a Counter's pairs.
    values = {f.name: getattr(progress, f.name) for f in fields(progress)}
    write_atomically(out / FILE, [json.dumps(values).encode()], mode=0o644)


def drop_later_output(out: Path, progress: Progress) -> None:
    """Remove output written after the checkpoint: its records will be read again."""
    for path in (out / "kept").glob("*"):
        number, *_, part = path.name.split(".")[0].split("-")
        if (int(number), int(part)) >= (progress.number, progress.part):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    sizes = {"duplicates": progress.duplicates_bytes, "damaged": progress.damaged_bytes}
    for name, size in sizes.items():
        with (out / f"{name}.jsonl").open("ab") as file:
            file.truncate(size)
    for path in out.glob("detector-*.snapshot"):
        if path != snapshot_path(out, progress.snapshot):
            path.unlink()


def snapshot_path(out: Path, number: int) -> Path:
    """The path of the detector's snapshot with this number."""
    return out / f"detector-{number}.snapshot"

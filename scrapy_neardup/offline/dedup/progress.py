"""How far a run has come, in a file of its output folder; what kind of run it is."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from scrapy_neardup.errors import InputError
from scrapy_neardup.settings import PREFIX
from scrapy_neardup.state.files import write_atomically

FILE = "progress.json"
OURS = ("lock", FILE, f"{FILE}.tmp")  # what a folder may hold before a run has begun; and stdin.*

Stage = Literal["reading", "writing", "done"]


@dataclass(slots=True)
class Progress:
    """The journal says how far reading has come, this file how far writing has.

    inputs   Input.version of each: a run resumes only with the same files
    options  what else decides about the result
    token    with which the run names pages
    written  input, chunk of it, and bytes of its output: what is behind them is written again
    kept_whole  inputs so far that could not be written again, and are there as they came
    """

    inputs: list[list[Any]]
    options: dict[str, Any]
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    stage: Stage = "reading"
    written: list[int] = field(default_factory=lambda: [0, 0, 0])
    kept_whole: list[int] = field(default_factory=list)
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)  # so far, for whoever looks

    def save(self, out: Path) -> None:
        """Replace the stored progress, atomically; on disk when this returns."""
        write_atomically(out / FILE, [json.dumps(asdict(self)).encode()], mode=0o644)


def begun(out: Path, inputs: list[list[Any]], options: dict[str, Any]) -> Progress:
    """The progress in an output folder, new in an empty one.

    Raises InputError if the folder holds anything else, or a run over other files.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is no folder; name a new one with --out")
    path = out / FILE
    if not path.exists():
        others = [p for p in (out.iterdir() if out.exists() else ()) if p.name not in OURS]
        if any(not p.name.startswith("stdin") for p in others):
            raise InputError(
                f"{out}: is not empty and holds no run of dedup; name a new folder with --out"
            )
        return Progress(inputs, options)
    try:
        progress = Progress(**json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError, OSError) as error:
        raise InputError(f"{path}: is damaged ({error}); name a new folder with --out") from error
    if progress.inputs != inputs:
        raise InputError(
            f"{out}: holds a run over other files, or over these before one of them was changed; "
            f"name a new folder with --out"
        )
    require_same_options(progress.options, options, out)
    return progress


def require_same_options(there: dict[str, Any], here: dict[str, Any], out: Path) -> None:
    """Raise InputError where a run began with other options or settings.

    Earlier releases noted no settings; of those nothing is asked.
    """
    changed = [
        f"another {name}"
        for name in here
        if not name.startswith(PREFIX) and there.get(name) != here[name]
    ]
    changed += [
        f"{name}={there[name]!r}, not {value!r},"
        for name, value in here.items()
        if name.startswith(PREFIX) and there.get(name, value) != value
    ]
    if changed:
        raise InputError(
            f"{out}: holds a run with {' and '.join(changed).rstrip(',')}; go on with what it "
            f"began with, or name a new folder with --out"
        )


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run, which may have ended."""
    return (folder / FILE).exists()


def is_done(folder: Path) -> bool:
    """Whether no run is left to be resumed in a folder."""
    return not is_run(folder) or b'"stage": "done"' in (folder / FILE).read_bytes()

"""Which fleet's queue holds requests found on pages that a state folder calls seen.

Under FleetScheduler a page is done once what it links waits on the server. If that queue is lost,
or on another server, the folder would hide those pages, and with them all that only they link.

So it is if the server is put back to an older state while no worker lives. To see that, the folder
has a name and a number, which the server notes before the folder does: when a crawl begins and
ends, and every NOTE_INTERVAL_S between. A server that has a lower one forgot what was queued since.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from secrets import token_hex

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.sqlite_files import is_count
from scrapy_neardup.state.files import write_atomically

NAME = "fleet_queue"  # in the folder
LOST = "lost"  # instead of an epoch: that queue lost requests
FOLDER_BYTES = 8
NOTE_INTERVAL_S = 10.0
OTHER = "The pages behind them would never be fetched. Set another NEARDUP_STATE_DIR, or none"

Note = Callable[[str, int], int]  # SharedFrontier.note(), and waits for the answer


@dataclass(slots=True)
class Noted:
    """What a mark says.

    epochs  spider → epoch of the fleet whose queue it left requests in
    folder  by what name the server knows this folder
    number  the highest that the server has noted of it, as far as the folder knows
    """

    epochs: dict[str, str] = field(default_factory=dict)
    folder: str = field(default_factory=lambda: token_hex(FOLDER_BYTES))
    number: int = 0


class QueueMark:
    """The mark in one folder."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self._path = folder / NAME
        self._noted = _read(self._path) if self._path.exists() else Noted()

    def check(self, epoch: bytes | None, is_alone: bool = False) -> None:
        """Raise SettingsError unless the queue is that of a fleet; None: its server is silent.

        is_alone: whether the crawl takes part in none.
        """
        for spider, marked in self._noted.epochs.items():
            if epoch is None or marked != epoch.hex():
                self._refuse(spider, _where(marked, is_alone, epoch is None))

    def check_number(self, note: Note) -> None:
        """Raise SettingsError if requests are left on a server that has gone back since.

        Under a name that is new with every start: a copy of the folder may have the old one. Raises
        FleetError if the server does not answer, OSError.
        """
        number = self._noted.number + 1
        if self._noted.number and note(self._noted.folder, number) + 1 < number:
            for spider in self._noted.epochs:
                self._refuse(spider, f"the server has gone back to an older state since. {OTHER}")
        fresh = Noted(self._noted.epochs)
        if note(fresh.folder, 1) == 1:
            self._write(replace(fresh, number=1))

    def _refuse(self, spider: str, why: str) -> None:
        raise SettingsError(
            f"{self._path.parent} calls pages seen whose links waited in the queue of "
            f"a fleet, where spider {spider!r} left them, and {why}"
        )

    @property
    def next(self) -> tuple[str, int]:
        """What the server is to note: the folder's name there and its next number."""
        return self._noted.folder, self._noted.number + 1

    def agree(self, number: int, on_server: int) -> None:
        """Note a number if the server has noted it. Raises OSError."""
        if self._noted.number < number <= on_server:
            self._noted.number = number
            self._write(self._noted)

    def begin(self, spider: str, epoch: bytes) -> None:
        """A spider may leave requests in the queue of a fleet from now on. Raises OSError."""
        if spider not in self._noted.epochs:
            self._mark(spider, epoch.hex())

    def lost(self, spider: str) -> None:
        """The queue has lost requests of a spider. Raises OSError."""
        self._mark(spider, LOST)

    def _mark(self, spider: str, where: str) -> None:
        self._noted.epochs[spider] = where
        self._write(self._noted)

    def remove(self, spider: str) -> None:
        """All that a spider queued was made. Raises OSError."""
        if self._noted.epochs.pop(spider, None) is not None:
            self._write(self._noted)

    def _write(self, noted: Noted) -> None:
        self._noted = noted
        write_atomically(self._path, [json.dumps(asdict(noted)).encode()])


def _read(path: Path) -> Noted:
    """What a mark says; of one that cannot be read, that requests are lost. Raises OSError."""
    try:
        noted = Noted(**json.loads(path.read_bytes()))
        if not is_count(noted.number):
            raise ValueError(f"number {noted.number!r}")
        return Noted(dict(noted.epochs), str(noted.folder), noted.number)
    except (ValueError, TypeError, RecursionError):
        return Noted({"?": LOST})


def _where(marked: str, is_alone: bool, is_silent: bool) -> str:
    if marked == LOST:
        return f"that queue has lost requests. {OTHER}"
    if is_alone:
        return f"this crawl does not take part in that fleet (NEARDUP_BACKEND, SCHEDULER). {OTHER}"
    if is_silent:
        return "the server of NEARDUP_BACKEND does not answer. Start the crawl when it does"
    return f"the server and prefix of NEARDUP_BACKEND do not have it, or not any more. {OTHER}"

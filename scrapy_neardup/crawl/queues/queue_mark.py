"""Which fleet's queue holds requests found on pages that a state folder calls seen.

Under FleetScheduler a page is done once what it links waits on the server. If that queue is lost,
or on another server, the folder would hide those pages, and with them all that only they link.
"""

from __future__ import annotations

import json
from pathlib import Path

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.state.files import write_atomically

NAME = "fleet_queue"  # in the folder: spider → epoch of the fleet whose queue it left requests in
LOST = "lost"  # instead of an epoch: that queue lost requests


class QueueMark:
    """The mark in one folder."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self._path = folder / NAME
        self._epochs: dict[str, str] = {}
        if self._path.exists():
            self._epochs = _read(self._path)

    def check(self, epoch: bytes | None) -> None:
        """Raise SettingsError unless the queue is that of a fleet; None: the crawl has none."""
        for spider, marked in self._epochs.items():
            if epoch is None or marked != epoch.hex():
                raise SettingsError(
                    f"{self._path.parent} calls pages seen whose links waited in the queue of "
                    f"a fleet, where spider {spider!r} left them, and "
                    f"{_where(marked, epoch is None)}. The pages behind them would never be "
                    f"fetched. Set another NEARDUP_STATE_DIR, or none"
                )

    def set(self, spider: str, epoch: bytes | None) -> None:
        """A spider leaves requests in the queue of a fleet; None: that has lost some of them.

        Raises OSError.
        """
        self._write({**self._epochs, spider: LOST if epoch is None else epoch.hex()})

    def remove(self, spider: str) -> None:
        """All that a spider queued was made. Raises OSError."""
        self._write({name: epoch for name, epoch in self._epochs.items() if name != spider})

    def _write(self, epochs: dict[str, str]) -> None:
        if epochs != self._epochs:
            self._epochs = epochs
            write_atomically(self._path, [json.dumps(epochs).encode()])


def _read(path: Path) -> dict[str, str]:
    """What a mark says; of one that cannot be read, that requests are lost. Raises OSError."""
    try:
        return dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError, RecursionError):
        return {"?": LOST}


def _where(marked: str, is_alone: bool) -> str:
    if marked == LOST:
        return "that queue has lost requests"
    if is_alone:
        return "this crawl does not take part in that fleet (NEARDUP_BACKEND, SCHEDULER)"
    return "the server and prefix of NEARDUP_BACKEND do not have it, or not any more"

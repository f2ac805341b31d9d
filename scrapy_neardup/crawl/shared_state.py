"""A state folder's state, which crawls of one process have in common."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path

from scrapy_neardup.learn.learner import Learner
from scrapy_neardup.ledger.writer import LedgerWriter
from scrapy_neardup.state import Arrays, State


@dataclass(eq=False)
class _Shared:
    state: State
    like: Hashable  # what crawls have to have in common
    ledger: LedgerWriter | None = None
    learner: Learner | None = None
    n_holds: int = 0
    cleanly: bool = True  # whether all that have left ended cleanly


_shared: dict[Path, _Shared] = {}  # by folder; for the thread of the crawls' loop


@dataclass(eq=False)
class StateHold:
    """One crawl's part in a state; close() or release() gives it back, once."""

    shared: _Shared
    folder: Path | None
    is_held: bool = field(default=True, init=False)

    @property
    def state(self) -> State:
        """The state, to be used until it is given back."""
        return self.shared.state

    def is_shared(self) -> bool:
        """Whether another crawl has a part in it."""
        return self.shared.n_holds > 1

    def close(self, under_way: Arrays | None, cleanly: bool) -> None:
        """The crawl ended. The last one saves and closes the state, see State.close()."""
        self.shared.cleanly &= cleanly
        if self._give_back():
            try:
                self._close_ledger()
                self.state.close(under_way, self.shared.cleanly)
            finally:
                self.state.release()  # where the former failed

    def release(self) -> None:
        """The crawl did not end as it should have, unless it has given the state back."""
        self.shared.cleanly &= not self.is_held
        if self._give_back():
            self._close_ledger()
            self.state.release()

    def _close_ledger(self) -> None:
        if self.shared.ledger is not None:
            self.shared.ledger.close()

    def _give_back(self) -> bool:
        """Whether nobody holds the state any more."""
        if not self.is_held:
            return False
        self.is_held = False
        self.shared.n_holds -= 1
        if self.shared.n_holds:
            return False
        if self.folder is not None and _shared.get(self.folder) is self.shared:
            del _shared[self.folder]
        return True


def hold_state(folder: Path | None, like: Hashable, opened: Callable[[], State]) -> StateHold:
    """The state of a folder: that of another crawl of this process, if both are alike.

    opened: opens it where it is not. Raises what that raises.
    """
    folder = folder and folder.resolve()
    shared = None if folder is None else _shared.get(folder)
    if shared is None or shared.like != like:
        shared = _Shared(opened(), like)
        if folder is not None and folder not in _shared:
            _shared[folder] = shared
    shared.n_holds += 1
    return StateHold(shared, folder)

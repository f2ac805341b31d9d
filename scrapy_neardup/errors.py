"""The exception tree: everything this package raises on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class NearDupError(Exception):
    """The root: catch it to catch whatever scrapy_neardup refuses."""


class SettingsError(NearDupError, ValueError):
    """A NEARDUP_* setting has a value that cannot be honoured."""


class SpecError(NearDupError, ValueError):
    """A fingerprint specification is impossible, or two that must agree differ."""


class DistanceTooLarge(NearDupError, ValueError):
    """A query asks for a distance at which the index is not exact."""


class SignatureError(NearDupError, ValueError):
    """A signature has the wrong type or width for an index."""


class IdError(NearDupError, ValueError):
    """An id is not a whole number that an index can hold."""


class NotStored(NearDupError, LookupError):
    """A signature that is to be removed is not stored under the id."""


class ScanLimitReached(NearDupError):
    """A bucket is too full to be scanned; the caller keeps the page and counts it."""


class ItemTooLarge(NearDupError, ValueError):
    """An item holds more values, or nests deeper, than is looked at; the caller keeps it."""


class ItemUnreadable(NearDupError, TypeError):
    """An item holds a value that cannot be looked into, such as a generator; it is kept."""


class OverBudget(NearDupError, ValueError):
    """A page takes more time or memory than any page may; the caller keeps it and counts it."""


class InputError(NearDupError, ValueError):
    """A file or folder given to a command is missing, or not what the command takes."""


class SparkFailed(NearDupError):
    """Spark does not start, or gave up what it was asked for; the cause is its error."""


class EngineUnavailable(NearDupError, ImportError):
    """An engine was asked for by name and cannot run here."""


class EngineFailed(NearDupError):
    """An engine raised while it made a page's signatures; what it raised is the cause."""


class HardwareMismatch(NearDupError):
    """The simulated Verilog gave another fingerprint, lane or cycle than the model."""


class BoardFailed(NearDupError):
    """A board with the FPGA core did not answer, or not what it was asked."""


class KernelsUnavailable(NearDupError, ImportError):
    """NEARDUP_KERNELS forces an implementation that is not installed."""


class BrokenInvariant(NearDupError):
    """A structure's check() found it damaged: a defect of ours or of its file."""


class StateError(NearDupError):
    """The state folder cannot be used as it is."""


class DamagedFile(StateError):
    """A state file, or a part of it, does not hold what was written."""


class DamagedRows(DamagedFile):
    """A file of rows that a snapshot needs is damaged, missing, or not the one that it means."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


class SnapshotError(StateError):
    """A snapshot is of another version or specification, or makes no sense."""


class JournalError(StateError):
    """A journal is of another version or specification, or holds records nobody writes."""


class StateLocked(StateError):
    """Another crawl holds the state folder."""


class LedgerError(StateError):
    """The decision ledger is absent, damaged, of another version, or cannot be written."""


class FleetError(NearDupError):
    """The workers' shared server cannot be used as it is, or not by this worker."""

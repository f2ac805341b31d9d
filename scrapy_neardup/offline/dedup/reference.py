"""What a run is compared with besides its own inputs: a crawl's state, an earlier run, an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.errors import DamagedFile, InputError, StateError
from scrapy_neardup.factory import make_detector, make_identity, restored_detector
from scrapy_neardup.offline.dedup.index_folder import ABOUT, IndexFolder
from scrapy_neardup.offline.dedup.progress import is_done
from scrapy_neardup.offline.dedup.signature_index import KEY, indexed_detector
from scrapy_neardup.offline.file_systems import shown
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import records
from scrapy_neardup.state.header import RESTORE
from scrapy_neardup.state.recovery import FolderContent, read_folder
from scrapy_neardup.state.secret import kept_key
from scrapy_neardup.state.snapshot import Array, open_snapshot
from scrapy_neardup.stored_arrays import under

SNAPSHOT = "detector.snapshot"


def reference_folder(named: Path | str) -> Path | str:
    """A finished run's folder, a crawl's state folder, or an index, also by its URL.

    Raises InputError, OSError.
    """
    if is_index(named):
        return named
    for folder in (named, named / "neardup") if isinstance(named, Path) else ():
        if (folder / SNAPSHOT).exists() or any(folder.glob("journal-*")):
            if not is_done(folder):
                raise InputError(
                    f"{folder}: holds a run that was stopped; run its command again first"
                )
            return folder
    raise InputError(
        f"{shown(named)}: holds neither a finished run of dedup, nor the state of a crawl, nor an "
        f"index of Spark's"
    )


def is_index(folder: Path | str) -> bool:
    """Whether a folder is an index."""
    return IndexFolder(folder).exists if isinstance(folder, str) else (folder / ABOUT).exists()


def reference_key(folder: Path | str, settings: NearDupSettings) -> int:
    """The secret by which its pages can be compared. Raises InputError, StateError."""
    if settings.key is not None:
        return settings.key
    if isinstance(folder, str) or is_index(folder):
        return KEY
    if not (folder / "key").exists():
        raise InputError(f"{folder}: its key is missing; set NEARDUP_KEY to the one it was made by")
    return kept_key(folder)


@contextmanager
def naming_remedy(remedy: str) -> Iterator[None]:
    """For the block, that settings differ is an InputError with a remedy that dedup has: a crawl's
    is to set another state folder, or to delete this one."""
    try:
        yield
    except StateError as error:
        found, differ, _ = str(error).partition(RESTORE)
        if not differ:
            raise
        raise InputError(f"{found}{RESTORE}, or {remedy}") from error


def reference_detector(folder: Path | str, settings: NearDupSettings, key: int) -> Detector:
    """A detector that remembers its pages. Changes nothing in the folder.

    Raises StateError for damage, InputError where settings differ from those that it was made by.
    """
    with naming_remedy("name another folder with --against"):
        return _detector(folder, settings, key)


def _detector(folder: Path | str, settings: NearDupSettings, key: int) -> Detector:
    if isinstance(folder, str) or is_index(folder):
        return indexed_detector(folder, settings, key)
    identity = make_identity(settings, key)
    if (folder / SNAPSHOT).exists():
        arrays = open_snapshot(folder / SNAPSHOT, identity, key).arrays
        return restored_detector(settings, key, arrays)
    content = read_folder(folder, identity, key)
    _require_sound(content)
    detector = _of_snapshot(content.arrays, settings, key)
    for record in content.records():
        if record.kind == records.PAGE:
            kept = records.unpack_page(record.payload)
            detector.restore(kept.page, kept.indexed)
    return detector


def _require_sound(content: FolderContent) -> None:
    """Raise DamagedFile unless all that was recorded can be read; what a kill tore never was."""
    written = [n for n, journal in content.journals.items() if len(journal.data) > journal.start]
    is_torn = bool(written) and content.journals[written[-1]].is_torn
    torn = f"journal-{written[-1]}" if is_torn else None
    for damage in content.damage:
        if damage.path.name != torn:
            raise DamagedFile(
                f"{damage.reason}. Records like those that only it held would be kept as new: put "
                f"the file back, or run `scrapy neardup repair {damage.path.parent}` to do without"
            )


def _of_snapshot(arrays: dict[str, Array], settings: NearDupSettings, key: int) -> Detector:
    if not arrays:
        return make_detector(settings, key)
    detector = restored_detector(settings, key, under("detector.", arrays))
    for page_id in arrays["unkept"].tolist():
        detector.forget(page_id)
    return detector

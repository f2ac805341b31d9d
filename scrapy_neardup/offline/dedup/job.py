"""What to deduplicate, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from scrapy_neardup.errors import InputError
from scrapy_neardup.factory import deciding_settings
from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.offline.dedup.copies import Keep
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.paragraphs import Paragraphs
from scrapy_neardup.offline.dedup.passages import NGRAM
from scrapy_neardup.offline.dedup.record import InputLimits
from scrapy_neardup.offline.file_systems import shown
from scrapy_neardup.settings import NearDupSettings


class DedupJob(NamedTuple):
    """What to deduplicate, with which settings, and the output folder."""

    inputs: list[Input]
    out: Path
    settings: NearDupSettings
    fields: Fields
    jobs: int
    limits: InputLimits = InputLimits()
    keep: Keep = "first"
    against: Path | str | None = None
    adds_to: Path | str | None = None  # an index: like against, and what is kept is added
    clusters: Path | None = None  # table to write: .csv or .parquet
    contains_any: Path | None = None  # file with passages to be found
    paragraphs: Paragraphs | None = None  # what to do with those that kept records share
    ngram: int = NGRAM  # words of a passage that a record must have in a row
    with_ledger: bool = False  # of every record that is compared, for `report` and `explain`

    @property
    def options(self) -> dict[str, Any]:
        """What decides about the result, besides inputs, by names of options and settings."""
        against, index = (
            p if p is None else shown(p.resolve() if isinstance(p, Path) else p)
            for p in (self.against, self.adds_to)
        )
        return {
            "--url, --text or --html": list(self.fields),
            "limit": list(self.limits),
            "--keep": self.keep,
            "--against": against,
            "--index": index,
            "--clusters": None if self.clusters is None else shown(self.clusters.resolve()),
            "--contains-any": version_of(self.contains_any),
            "--ngram": self.ngram,
            "--paragraphs": self.paragraphs,
            "--report": self.with_ledger,
            **deciding_settings(self.settings),
        }


def version_of(path: Path | None) -> list[Any] | None:
    """What tells one version of a file from another. Raises InputError."""
    if path is None:
        return None
    try:
        status = path.stat()
        return [str(path.resolve()), status.st_size, status.st_mtime_ns]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from error

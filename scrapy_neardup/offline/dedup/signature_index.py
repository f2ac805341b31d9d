"""The index of signatures that runs on Spark keep (spark/stored_index.py), read by one process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.page_table import Page
from scrapy_neardup.engines import FingerprintSpec
from scrapy_neardup.errors import InputError
from scrapy_neardup.factory import make_detector
from scrapy_neardup.settings import NearDupSettings

FORMAT = 1
ABOUT = "about.json"
KEY = 0  # of the signatures that Spark makes
COLUMNS = ("id", "site", "digest", "fingerprint", "sketch", "words", "odd_row", "data", "facts")


def about(scope: str, spec: FingerprintSpec, sketch_spec: FingerprintSpec) -> dict[str, Any]:
    """What an index says of itself: signatures of another specification cannot be compared."""
    described = {
        name: {key: str(value) for key, value in one.describe().items()}
        for name, one in (("fingerprint", spec), ("sketch", sketch_spec))
    }
    return {"format": FORMAT, "scope": scope, **described}


def check_about(where: str, stored: bytes, expected: dict[str, Any]) -> None:
    """Raise InputError if an index is of another specification."""
    if json.loads(stored) != expected:
        raise InputError(
            f"{where}: its signatures are of another specification: {stored.decode()}, not "
            f"{json.dumps(expected)}. Name another folder, or set what differs"
        )


def indexed_detector(folder: Path, settings: NearDupSettings, key: int) -> Detector:
    """A detector that remembers the pages of an index. Raises InputError."""
    detector = make_detector(settings, key)
    engine = detector.engine
    expected = about(settings.scope, engine.spec, engine.sketch_spec)
    check_about(str(folder), (folder / ABOUT).read_bytes(), expected)
    for row in _rows(folder):
        is_indexed = row["words"] >= settings.min_words and not row["mostly_script"]
        detector.restore(_page(row), is_indexed)
    return detector


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows of complete versions."""
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(f"{folder}: pip install 'scrapy-neardup[dedup]' ({error})") from error
    for success in sorted(folder.glob("*/_SUCCESS")):
        for part in sorted(success.parent.glob("*.parquet")) if success.stat().st_size else ():
            with pq.ParquetFile(part) as file:
                for batch in file.iter_batches(columns=[*COLUMNS, "mostly_script"]):
                    yield from batch.to_pylist()


def _page(row: dict[str, Any]) -> Page:
    """A page as it was read on Spark, where every word is its own."""
    fingerprint, site = (row[name] % 2**64 for name in ("fingerprint", "site"))
    parts = (row[name] for name in ("data", "sketch", "odd_row", "odd_row", "facts"))
    words = np.frombuffer(fingerprint.to_bytes(8, "little") + b"".join(parts), "<u8")
    return Page(fingerprint, words, row["digest"], site, row["id"], time.time())

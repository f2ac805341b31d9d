"""The index of signatures that runs on Spark keep (spark/stored_index.py), for one process.

A run reads what complete versions hold, and writes a version of its own at its end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import count, islice
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.odd_sketch import ROW_WORDS, levels_of
from scrapy_neardup.detect.page_row import PageRows
from scrapy_neardup.detect.page_table import PageRow
from scrapy_neardup.engines import FingerprintSpec
from scrapy_neardup.errors import InputError
from scrapy_neardup.factory import make_detector
from scrapy_neardup.offline.dedup.copies import Keep
from scrapy_neardup.offline.dedup.deciding import RecordPlace, name_of, place_of
from scrapy_neardup.offline.dedup.index_folder import IndexFolder, refusing_damage
from scrapy_neardup.offline.dedup.journal import KEPT, DecidedChunk
from scrapy_neardup.offline.file_systems import naming, sync
from scrapy_neardup.settings import NearDupSettings

FORMAT = 2
KEY = 0  # of the signatures that Spark makes
TOKEN = "0" * 8  # with which its pages are named, so that two of one URL are two pages
INDEX = (  # its columns, as Spark writes types
    "n long, id string, site long, digest binary, fingerprint long, sketch binary, words long, "
    "level int, odd_row binary, data binary, facts binary, mostly_script boolean"
)
COLUMNS = dict(column.split() for column in INDEX.split(", "))
ARROW = {"long": "int64", "int": "int32", "boolean": "bool_"}  # where it has another name
PART_ROWS = 100_000  # of a file, 60 MB, which are sorted in memory


def about(scope: str, spec: FingerprintSpec, sketch_spec: FingerprintSpec) -> dict[str, Any]:
    """What an index says of itself: signatures of another specification cannot be compared."""
    described = {
        name: {key: str(value) for key, value in one.describe().items()}
        for name, one in (("fingerprint", spec), ("sketch", sketch_spec))
    }
    return {"format": FORMAT, "scope": scope, **described}


def check_index(place: Path | str, settings: NearDupSettings, keep: Keep) -> None:
    """Raise InputError where a run cannot add to a folder, or OSError."""
    folder = IndexFolder(place)
    if keep != "first":
        raise InputError(f"--index stores the first of several copies: leave out --keep {keep}")
    if settings.boilerplate != "keep" or settings.facts != "compare":
        raise InputError(
            f"{folder}: an index has pages whole and with their facts, so it takes "
            f"NEARDUP_BOILERPLATE='keep' and NEARDUP_FACTS='compare', not "
            f"{settings.boilerplate!r} and {settings.facts!r}; set them, or with "
            f"'scrapy neardup -s NAME=VALUE dedup'"
        )
    if not folder.exists and not folder.is_empty:
        raise InputError(f"{folder}: is not empty and holds no index; name another folder")


def begin_version(place: Path | str, settings: NearDupSettings, name: str) -> None:
    """Prepare an index, which may be new, for a version that is to be written. Raises OSError."""
    key = KEY if settings.key is None else settings.key
    IndexFolder(place).prepare(name, about_of(settings, key))


def about_of(settings: NearDupSettings, key: int) -> dict[str, Any]:
    """What an index of a run with these settings says of itself."""
    engine = make_detector(settings, key).engine
    return about(settings.scope, engine.spec, engine.sketch_spec)


def indexed_detector(place: Path | str, settings: NearDupSettings, key: int) -> Detector:
    """A detector that remembers the pages of an index. Raises InputError, OSError."""
    folder = IndexFolder(place)
    folder.check(about_of(settings, key))
    detector = make_detector(settings, key)
    for version in folder.versions():
        for part in folder.parts(version):
            with refusing_damage(f"{folder}/{version}/{PurePosixPath(part).name}"):
                _restore(detector, _rows(folder, part), settings.min_words)
    return detector


def _restore(detector: Detector, rows: Iterable[dict[str, Any]], min_words: int) -> None:
    for row in rows:
        is_indexed = row["words"] >= min_words and not row["mostly_script"]
        detector.restore(_page(row), is_indexed)


def write_version(
    place: Path | str, name: str, groups: Iterable[DecidedChunk], detector: Detector, token: str
) -> None:
    """Write what a run kept as a version of an index. Raises InputError, OSError.

    groups: with every record as it was JUDGED. detector: the run's, which remembers the pages.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = IndexFolder(place)
    begin = end = max(folder.versions().values(), default=0)
    folder.create(name)
    rows = _kept(groups, detector, token)
    types = (getattr(pa, ARROW.get(type, type))() for type in COLUMNS.values())
    schema = pa.schema(list(zip(COLUMNS, types, strict=True)))
    for number in count():
        part = [{"n": n, **row} for n, row in enumerate(islice(rows, PART_ROWS), end)]
        if not part:
            break
        end += len(part)
        part.sort(key=itemgetter("site"))  # so that a site's rows are found without reading all
        table = pa.Table.from_pylist(part, schema)
        with naming(place):
            file = folder.part(name, number)
            pq.write_table(table, file, filesystem=folder.files, write_page_checksum=True)
            sync(folder.files, file)
    folder.complete(name, range(begin, end), number)


def _kept(
    groups: Iterable[DecidedChunk], detector: Detector, token: str
) -> Iterator[dict[str, Any]]:
    """Rows of INDEX, but their places, of pages that were kept and are remembered."""
    pages = detector.pages
    for group in groups:
        for judged in group.judged:
            id = pages.with_url(judged["name"])
            if id is not None and judged["words"] and group.verdicts[judged["index"]] == KEPT:
                url, _ = place_of(judged["name"], token)
                yield _row(pages.page(id), url, judged["words"])


def _row(page: PageRow, url: str, words: int) -> dict[str, Any]:
    """A page as spark/signatures.py describes it."""
    stored = PageRows.of(page.sketch.reshape(1, -1))
    sketch, odd_row = np.split(stored.whole[0], [-ROW_WORDS])
    return {
        "id": url.encode("utf-8", "replace").decode(),
        "site": _signed(page.site),
        "digest": page.digest,
        "fingerprint": _signed(page.fingerprint),
        "sketch": sketch.tobytes(),
        "words": words,
        "level": levels_of(stored.whole).item(),
        "odd_row": odd_row.tobytes(),
        "data": stored.data.tobytes(),
        "facts": stored.facts.tobytes(),
        "mostly_script": False,  # such pages are not remembered
    }


def _signed(number: int) -> int:
    """64 bits as the signed number that Parquet has."""
    return number - (number >> 63 << 64)


def _rows(folder: IndexFolder, part: str) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(part, filesystem=folder.files, page_checksum_verification=True) as file:
        for batch in file.iter_batches(columns=list(COLUMNS)):
            yield from batch.to_pylist()


def _page(row: dict[str, Any]) -> PageRow:
    """A page as it was read on Spark, where every word is its own."""
    fingerprint, site = (row[name] % 2**64 for name in ("fingerprint", "site"))
    parts = (row[name] for name in ("data", "sketch", "odd_row", "odd_row", "facts"))
    words = np.frombuffer(fingerprint.to_bytes(8, "little") + b"".join(parts), "<u8")
    name = name_of(TOKEN, row["id"], RecordPlace(0, 0, row["n"]))
    return PageRow(fingerprint, words, row["digest"], site, name, time.time())

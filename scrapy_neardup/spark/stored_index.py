"""Signatures of kept pages on storage, for later runs: a folder of versions, one for each run.

    about.json          format and specification
    NAME/part-*.parquet rows of INDEX, in the order of their sites
    NAME/_SUCCESS       written last: the first place n that no row of NAME or earlier ones has

A version without _SUCCESS does not count, and the run of its name writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet

from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec
from scrapy_neardup.offline.dedup.signature_index import (
    ABOUT,
    COLUMNS,
    INDEX,
    SUCCESS,
    about,
    check_about,
)
from scrapy_neardup.spark.columns import Batches
from scrapy_neardup.spark.storage import file_system, shown, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_SITES = 100_000  # by which rows are chosen while they are read


class StoredIndex:
    """What earlier runs kept. A run compares with it, and adds what it keeps itself."""

    def __init__(
        self,
        place: Path | str,
        scope: str = "site",
        spec: FingerprintSpec = FINGERPRINT,
        sketch_spec: FingerprintSpec = SKETCH,
    ) -> None:
        """place: a folder or its URL. Raises InputError if it was made by another specification."""
        self._url = place.resolve().as_uri() if isinstance(place, Path) else place
        self._files, self._path = file_system(self._url)
        self._about = about(scope, spec, sketch_spec)
        stored = self._read(f"{self._path}/{ABOUT}")
        if stored is not None:
            check_about(shown(self._url), stored, self._about)

    def versions(self, but: str | None = None) -> dict[str, int]:
        """Names of complete versions → the first place that none of their rows has."""
        selector = pyarrow.fs.FileSelector(self._path, allow_not_found=True)
        names = (one.base_name for one in self._files.get_file_info(selector))
        said = {name: self._read(f"{self._path}/{name}/{SUCCESS}") for name in sorted(names)}
        return {name: int(end) for name, end in said.items() if end and name != but}

    def next_name(self) -> str:
        """A name for the next version: they are numbered."""
        return f"{len(self.versions()):08}"

    def rows(
        self, spark: SparkSession, versions: Sequence[str], sites: Sequence[int] | None
    ) -> DataFrame:
        """INDEX of some versions: of these sites; None for all."""
        files = [(self._url, path) for name in versions for path in self._parts(name)]
        spread = spark.createDataFrame(files, "store string, path string")
        wanted = None if sites is None else [("site", "in", list(sites))]
        return spread.repartition(max(1, len(files))).mapInArrow(
            lambda batches: _rows_of(batches, wanted), INDEX
        )

    def add(self, name: str, rows: DataFrame, end: int) -> None:
        """Write a version, over one of its name. rows: INDEX; end: beyond all places so far."""
        if self._read(f"{self._path}/{ABOUT}") is None:
            self._files.create_dir(self._path)
            with self._files.open_output_stream(f"{self._path}/{ABOUT}") as file:
                file.write(json.dumps(self._about).encode())
        folder = f"{self._path}/{name}"
        if self._files.get_file_info(folder).type == pyarrow.fs.FileType.Directory:
            self._files.delete_dir(folder)
        url, mark, query = self._url.partition("?")
        in_order = rows.select(*COLUMNS).sortWithinPartitions("site")
        write(in_order, f"{url.rstrip('/')}/{name}{mark}{query}", str(end).encode())

    def _parts(self, name: str) -> list[str]:
        found = self._files.get_file_info(pyarrow.fs.FileSelector(f"{self._path}/{name}"))
        return sorted(one.path for one in found if one.base_name.endswith(".parquet"))

    def _read(self, path: str) -> bytes | None:
        if not self._files.get_file_info(path).is_file:
            return None
        with self._files.open_input_stream(path) as file:
            said: bytes = file.read()
        return said


def _rows_of(batches: Batches, wanted: list[Any] | None) -> Iterator[pa.RecordBatch]:
    """Batches of files → their rows."""
    for batch in batches:
        for one in batch.to_pylist():
            files, _ = file_system(one["store"])
            table = pyarrow.parquet.read_table(one["path"], filesystem=files, filters=wanted)
            yield from table.select(list(COLUMNS)).to_batches()

"""Signatures of kept pages on storage, for later runs: see offline/dedup/index_folder.py."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet

from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec
from scrapy_neardup.offline.dedup.index_folder import IndexFolder, refusing_damage
from scrapy_neardup.offline.dedup.inputs import find_inputs
from scrapy_neardup.offline.dedup.signature_index import COLUMNS, INDEX, about
from scrapy_neardup.offline.file_systems import file_system, shown
from scrapy_neardup.spark.columns import Batches
from scrapy_neardup.spark.storage import versions_at, write_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_SITES = 100_000  # by which rows are chosen while they are read


def run_name(inputs: Iterable[Path | str], out: Path | str) -> str:
    """The name of a run's version: another one for other files, changed ones, or another OUT.

    A run that is repeated has it again, and so is not compared with what it had stored itself
    before it was cut off. Raises InputError, OSError.
    """
    where = str(out.absolute()) if isinstance(out, Path) else shown(out)
    return f"spark-{_hashed([*map(_versions_of, inputs)])}-{_hashed(where)}"


def _versions_of(path: Path | str) -> list[list[Any]]:
    """Input.version of the files of records in a folder, wherever it is named from."""
    if isinstance(path, Path):
        return [source.version for source in find_inputs([path.absolute()])]
    return versions_at(path)


def _hashed(value: object) -> str:
    return blake2b(json.dumps(value).encode(), digest_size=8).hexdigest()


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
        self._folder = IndexFolder(place)
        self._about = about(scope, spec, sketch_spec)
        self._folder.check(self._about)

    def __str__(self) -> str:
        return str(self._folder)

    def versions(self, but: str | None = None) -> dict[str, int]:
        """Names of complete versions → the first place that none of their rows has."""
        return self._folder.versions(but)

    def of_other_runs(self, name: str) -> list[str]:
        """Versions that runs over the same files stored which wrote into another OUT (run_name)."""
        files, _, _ = name.rpartition("-")
        return [one for one in self.versions(but=name) if one.startswith(f"{files}-")]

    def rows(
        self, spark: SparkSession, versions: Sequence[str], sites: Sequence[int] | None
    ) -> DataFrame:
        """INDEX of some versions: of these sites; None for all."""
        folder = self._folder
        files = [(folder.url, path) for name in versions for path in folder.parts(name)]
        spread = spark.createDataFrame(files, "store string, path string")
        wanted = None if sites is None else [("site", "in", list(sites))]
        return spread.repartition(max(1, len(files))).mapInArrow(
            lambda batches: _rows_of(batches, wanted), INDEX
        )

    def add(self, name: str, rows: DataFrame, places: range) -> None:
        """Write a version, over one of its name. rows: INDEX; places: theirs, beyond all others."""
        self._folder.prepare(name, self._about)
        in_order = rows.select(*COLUMNS).sortWithinPartitions("site")
        n_files = write_parts(in_order, self._folder.url_of(name))
        self._folder.complete(name, places, n_files)


def _rows_of(batches: Batches, wanted: list[Any] | None) -> Iterator[pa.RecordBatch]:
    """Batches of files → their rows."""
    for batch in batches:
        for one in batch.to_pylist():
            files, _ = file_system(one["store"])
            with refusing_damage(one["path"]):
                table = pyarrow.parquet.read_table(
                    one["path"],
                    filesystem=files,
                    filters=wanted,
                    page_checksum_verification=True,
                )
            yield from table.select(list(COLUMNS)).to_batches()

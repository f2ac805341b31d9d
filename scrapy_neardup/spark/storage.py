"""Object storage and HDFS by pyarrow's file systems: listed by the driver, copied by the tasks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup.inputs import HTML_SUFFIXES, Input, known, of_file
from scrapy_neardup.offline.file_systems import file_system, naming, shown, sync
from scrapy_neardup.spark.columns import Batches
from scrapy_neardup.spark.file_parts import copy_part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COPIED_AT_ONCE = 1 << 20  # bytes
ON_DISKS_ONLY = (".wacz", *HTML_SUFFIXES)  # are read in several places, or are many small files


def inputs_at(url: str) -> list[Input]:
    """The files of records at a URL or in a folder there, with paths on it. Raises InputError,
    OSError."""
    with naming(url):
        paths = list(_files_at(url))
    for path in paths:
        if PurePosixPath(path).suffix.lower() in ON_DISKS_ONLY:
            raise InputError(
                f"{shown(url)}: {path} is read from disks only. Copy it there, or name the others"
            )
    found = [one for path in paths for one in of_file(Path(path))]
    if not found:
        raise InputError(f"{shown(url)}: no file of a known format: {known()}")
    return found


def versions_at(url: str) -> list[list[Any]]:
    """Input.version of each file of records at a URL. Raises InputError, OSError."""
    files, _ = file_system(url)
    paths = [str(source.path) for source in inputs_at(url)]
    with naming(url):
        found = files.get_file_info(paths)
    return [[f"{shown(url)} {one.path}", one.size, one.mtime_ns] for one in found]


def _files_at(url: str) -> Iterator[str]:
    files, path = file_system(url)
    info = files.get_file_info(path)
    if info.is_file:
        yield path
    elif info.type == pyarrow.fs.FileType.Directory:
        inside = files.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
        yield from sorted(one.path for one in inside if one.is_file)


@contextmanager
def local_copy(url: str, source: Input) -> Iterator[Path]:
    """A file at a URL as one on this machine's disk, for the block. Raises OSError.

    Of a part of it, the rest of the copy is a hole.
    """
    files, _ = file_system(url)
    with TemporaryDirectory(prefix="neardup-") as folder:
        path = Path(folder) / source.path.name
        with files.open_input_file(str(source.path)) as file, path.open("wb") as target:
            if source.size is None:
                shutil.copyfileobj(file, target, COPIED_AT_ONCE)
            else:
                copy_part(source, file, target)
        yield path


def refuse_existing(place: Path | str, remedy: str = "Name another folder") -> None:
    """Raise InputError if there is anything, OSError if nobody can say."""
    url = place.absolute().as_uri() if isinstance(place, Path) else place
    files, path = file_system(url)
    with naming(place):
        if files.get_file_info(path).type != pyarrow.fs.FileType.NotFound:
            raise InputError(f"{shown(place)} is there already. {remedy}")


def write(df: DataFrame, url: str) -> None:
    """Write Parquet to a folder, one file for each partition, and _SUCCESS when all are there.

    Raises InputError if there is anything already, OSError.
    """
    write_parts(df, url)
    files, path = file_system(url)
    with naming(url), files.open_output_stream(f"{path}/_SUCCESS"):
        pass


def write_parts(df: DataFrame, url: str) -> int:
    """Write Parquet to a folder, one file for each partition that has rows; how many files.

    A task that is carried out twice writes the same file twice. Raises InputError if there is
    anything already, OSError.
    """
    refuse_existing(url)
    files, path = file_system(url)
    n_files = df.mapInArrow(partial(_written, url=url), "name string").count()
    with naming(url):
        files.create_dir(path)  # of no partition a file was written
    return n_files


def _written(batches: Batches, url: str) -> Batches:
    """Write a file of all batches, and yield its name; nothing if there is no batch."""
    from pyspark import TaskContext

    files, path = file_system(url)
    context, first = TaskContext.get(), next(batches, None)
    assert context is not None
    if first is None:
        return
    files.create_dir(path)
    name = f"{path}/part-{context.partitionId():05}.parquet"
    with (
        files.open_output_stream(name, compression=None) as stream,
        pyarrow.parquet.ParquetWriter(stream, first.schema, write_page_checksum=True) as file,
    ):
        for batch in (first, *batches):
            file.write_batch(batch)
    sync(files, name)
    yield pa.RecordBatch.from_pydict({"name": [name]})

"""An index of signatures on a disk, object storage or HDFS: a folder of versions, one for each run.

    about.json          format and specification
    NAME/part-*.parquet rows of signature_index.INDEX, in the order of their sites
    NAME/_SUCCESS       written last: the first place n that no row of NAME or earlier ones has

A version without _SUCCESS does not count, and the run of its name writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.file_systems import file_system, shown
from scrapy_neardup.state.files import write_atomically

ABOUT, SUCCESS = "about.json", "_SUCCESS"
MOST_DIGITS = 18  # of a place, which has 63 bits


def damaged(file: str, why: object) -> InputError:
    """The error for a file of an index that cannot be read."""
    return InputError(
        f"{file}: is damaged: {why}. Restore it; or remove its folder, and what it has is new again"
    )


class IndexFolder:
    """The files of an index.

    url    of the folder, also of one on a disk
    files  pyarrow's file system of it
    """

    def __init__(self, place: Path | str) -> None:
        """place: a folder or its URL. Raises InputError."""
        self._place = place
        self.url = place.resolve().as_uri() if isinstance(place, Path) else place
        self.files, self._path = file_system(self.url)

    def __str__(self) -> str:
        return shown(self._place)

    @property
    def exists(self) -> bool:
        """Whether there is an index. Raises OSError, as all methods do."""
        return self._read(ABOUT) is not None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing, of an index or else."""
        return not self._names()

    def check(self, about: dict[str, Any]) -> None:
        """Raise InputError if there is an index, and it is of another specification."""
        stored = self._read(ABOUT)
        try:
            said = about if stored is None else json.loads(stored)
        except ValueError as error:
            raise damaged(f"{self}/{ABOUT}", error) from error
        if said != about:
            raise InputError(
                f"{self}: its signatures are of another specification: {json.dumps(said)}, not "
                f"{json.dumps(about)}. Name another folder, or set what differs"
            )

    def versions(self, but: str | None = None) -> dict[str, int]:
        """Names of complete versions → the first place that none of their rows has.

        Raises InputError.
        """
        said = {name: self._read(f"{name}/{SUCCESS}") for name in self._names()}
        return {name: self._end(name, end) for name, end in said.items() if end and name != but}

    def parts(self, version: str) -> list[str]:
        """The paths of its files of rows, on the file system."""
        return [
            self._at(f"{version}/{name}")
            for name in self._names(version)
            if name.endswith(".parquet")
        ]

    def part(self, version: str, number: int) -> str:
        """The path of one that is to be written."""
        return self._at(f"{version}/part-{number:05}.parquet")

    def url_of(self, version: str) -> str:
        """The URL of a version's folder."""
        url, mark, query = self.url.partition("?")
        return f"{url.rstrip('/')}/{version}{mark}{query}"

    def prepare(self, version: str, about: dict[str, Any]) -> None:
        """Make room for a version: what a run that was stopped left of it is removed."""
        if not self.exists:
            self.files.create_dir(self._path)
            self._write(ABOUT, json.dumps(about).encode())
        if self._names(version):
            self.files.delete_dir(self._at(version))

    def create(self, version: str) -> None:
        """Make the folder of a version."""
        self.files.create_dir(self._at(version))

    def complete(self, version: str, end: int) -> None:
        """The version counts from now on. end: beyond all places so far."""
        self._write(f"{version}/{SUCCESS}", str(end).encode())

    def _end(self, version: str, said: bytes) -> int:
        if not said.isdigit() or len(said) > MOST_DIGITS:
            raise damaged(f"{self}/{version}/{SUCCESS}", f"{said[:MOST_DIGITS]!r} is no place")
        return int(said)

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    def _names(self, folder: str = "") -> list[str]:
        from pyarrow.fs import FileSelector

        path = self._at(folder) if folder else self._path
        found = self.files.get_file_info(FileSelector(path, allow_not_found=True))
        return sorted(one.base_name for one in found)

    def _read(self, name: str) -> bytes | None:
        if not self.files.get_file_info(self._at(name)).is_file:
            return None
        with self.files.open_input_stream(self._at(name), compression=None) as file:
            said: bytes = file.read()
        return said

    def _write(self, name: str, data: bytes) -> None:
        if isinstance(self._place, Path):
            write_atomically(self._place / name, [data], mode=0o644)
            return
        with self.files.open_output_stream(self._at(name), compression=None) as file:
            file.write(data)

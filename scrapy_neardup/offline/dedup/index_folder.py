"""An index of signatures on a disk, object storage or HDFS: a folder of versions, one for each run.

    about.json          format and specification
    NAME/part-*.parquet rows of signature_index.INDEX, in the order of their sites
    NAME/_SUCCESS       written last: the first place n that no row of NAME or earlier ones has,
                        how many files of rows there are, and the first place that is NAME's

No two versions have the same places. A version without _SUCCESS does not count, and the run of its
name writes it anew. Folders are told by the files in them: of one that was copied to object storage
there is nothing else.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.file_systems import file_system, naming, shown
from scrapy_neardup.state.files import write_atomically

ABOUT, SUCCESS = "about.json", "_SUCCESS"
MOST_DIGITS = 18  # of a place, which has 63 bits
BAD_PAGE = "checksum verification failed"  # as Arrow says it, in an OSError like those of storage


def damaged(file: str, why: object) -> InputError:
    """The error for a file of an index that cannot be read."""
    return InputError(
        f"{file}: is damaged: {why}. Restore it; or remove its folder, and what it has is new again"
    )


@contextmanager
def refusing_damage(file: str) -> Iterator[None]:
    """For the block, which reads a file of rows, InputError if it is damaged. Raises OSError."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, LookupError, TypeError, ValueError) as error:
        raise damaged(file, error) from error
    except OSError as error:
        if BAD_PAGE not in str(error):
            raise
        raise damaged(file, error) from error


def is_part(path: str) -> bool:
    """Whether a path in a version's folder is that of a file of rows."""
    return path.endswith(".parquet") and "/" not in path


def share(places: range, others: range) -> bool:
    """Whether some places are the same."""
    return max(places.start, others.start) < min(places.stop, others.stop)


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
        return not self._inside()

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

        Raises InputError, also if two of them have the same places.
        """
        found = self._complete(but)
        taken = sorted((n for n in found if found[n]), key=lambda name: found[name].start)
        for one, other in pairwise(taken):
            if share(found[one], found[other]):
                raise InputError(
                    f"{self}/{one} and {self}/{other} were added at once, and have the same places "
                    f"{found[other].start:,} to {min(found[one].stop, found[other].stop) - 1:,}. "
                    f"Remove the folder of one, and what it has is new again"
                )
        return {name: places.stop for name, places in found.items()}

    def parts(self, version: str) -> list[str]:
        """The paths of its files of rows, on the file system."""
        return [
            self._at(f"{version}/{path}")
            for path in map(str, self._inside(version))
            if is_part(path)
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
            with naming(self._place):
                self.files.create_dir(self._path)
            self._write(ABOUT, json.dumps(about).encode())
        from pyarrow.fs import FileType

        with naming(self._place):
            if self._inside(version):  # also where no object stands for the folder itself
                self.files.delete_dir_contents(self._at(version))
            if self.files.get_file_info(self._at(version)).type != FileType.NotFound:
                self.files.delete_dir(self._at(version))

    def create(self, version: str) -> None:
        """Make the folder of a version."""
        with naming(self._place):
            self.files.create_dir(self._at(version))

    def complete(self, version: str, places: range, n_parts: int) -> None:
        """The version counts from now on. places: of its rows, beyond all others.

        Raises InputError, and it does not count, if another run has taken such places meanwhile.
        """
        said = f"{places.stop} {n_parts} {places.start}"
        self._write(f"{version}/{SUCCESS}", said.encode())
        # Looked at after writing: of two that do this at once, one at least sees the other.
        for other, taken in self._complete(but=version).items():
            if share(places, taken):
                with naming(self._place):
                    self.files.delete_file(self._at(f"{version}/{SUCCESS}"))
                raise InputError(
                    f"{self}: {other} was added at the same time, so {version} was not. Run the "
                    f"same command again"
                )

    def _complete(self, but: str | None) -> dict[str, range]:
        """Names of complete versions → the places that their rows may have."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for path in self._inside():
            found[path.parts[0]].add("/".join(path.parts[1:]))
        complete = [name for name in sorted(found) if SUCCESS in found[name] and name != but]
        return {
            name: places
            for name in complete
            if (places := self._places(name, sum(map(is_part, found[name])))) is not None
        }

    def _places(self, version: str, n_parts: int) -> range | None:
        """What _SUCCESS says of a version that has so many files of rows; None if nothing.

        Where it does not say where they begin, no place is known to be its own.
        """
        name = f"{self}/{version}/{SUCCESS}"
        said = (self._read(f"{version}/{SUCCESS}") or b"").split()
        if not all(word.isdigit() and len(word) <= MOST_DIGITS for word in said) or len(said) > 3:
            raise damaged(name, f"{b' '.join(said)[:MOST_DIGITS]!r} are no places and files")
        if len(said) > 1 and n_parts != int(said[1]):
            raise damaged(f"{self}/{version}", f"{n_parts} of its {int(said[1])} files are there")
        return range(int((said[2:] or said)[0]), int(said[0])) if said else None

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    def _inside(self, folder: str = "") -> list[PurePosixPath]:
        """All that is in a folder and in those inside it, as paths in it."""
        from pyarrow.fs import FileSelector

        path = self._at(folder) if folder else self._path
        chosen = FileSelector(path, allow_not_found=True, recursive=True)
        with naming(self._place):
            found = self.files.get_file_info(chosen)
        return sorted(PurePosixPath(one.path).relative_to(path) for one in found)

    def _read(self, name: str) -> bytes | None:
        with naming(self._place):
            if not self.files.get_file_info(self._at(name)).is_file:
                return None
            with self.files.open_input_stream(self._at(name), compression=None) as file:
                said: bytes = file.read()
        return said

    def _write(self, name: str, data: bytes) -> None:
        if isinstance(self._place, Path):
            write_atomically(self._place / name, [data], mode=0o644)
            return
        with (
            naming(self._place),
            self.files.open_output_stream(self._at(name), compression=None) as file,
        ):
            file.write(data)

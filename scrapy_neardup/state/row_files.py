"""Files of rows to which only others are added, so that a snapshot writes what is new.

rows-N-M    rows that snapshot N wrote, of the Mth group of arrays that grow together

A snapshot names the files that its arrays begin with and holds the rows behind them itself, until
these are MIN_BYTES: then they become a file. One that is not much larger than what comes behind it
is written again together with it. So there are few files, a row is written again a few times only,
and no file is ever changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from scrapy_neardup.state.snapshot import RowFile, RowFiles
from scrapy_neardup.stored_arrays import Joined

MIN_BYTES = 64 << 20  # of a group's rows that come with each snapshot
MERGED = 2  # a file of less than so many times the bytes behind it is written again with them

Arrays = dict[str, Any]
Write = Callable[[str, Arrays], str]  # a file's name, its arrays → the MAC of its header


def save_rows(
    number: int, arrays: Mapping[str, Any], known: RowFiles, write: Write
) -> tuple[Arrays, RowFiles]:
    """Write the files that a snapshot needs and that are not there; what is left for itself.

    known: the files that the snapshot before this one needed. Returns the snapshot's own arrays,
    and its files. Raises OSError.
    """
    left, files = dict(arrays), {}
    for place, (grows, group) in enumerate(_groups(arrays).items()):
        name = f"rows-{number}-{place}"
        files[grows] = _group_files(name, group, known.get(grows, []), write)
        left |= {n: a.behind(_n_saved(n, files[grows])) for n, a in group.items()}
    return left, {grows: found for grows, found in files.items() if found}


def _groups(arrays: Mapping[str, Any]) -> dict[object, dict[str, Joined]]:
    groups: defaultdict[object, dict[str, Joined]] = defaultdict(dict)
    for name, array in arrays.items():
        if isinstance(array, Joined) and array.grows is not None:
            groups[array.grows][name] = array
    return groups


def _group_files(
    name: str, group: dict[str, Joined], known: list[RowFile], write: Write
) -> list[RowFile]:
    """The files with the rows of arrays that grow together, a new one among them if it is due."""
    files = list(known)
    if _n_bytes_behind(files, group) < MIN_BYTES:
        return files
    while files and files[-1].n_bytes < MERGED * _n_bytes_behind(files, group):
        files.pop()
    rows = {n: array.behind(_n_saved(n, files)) for n, array in group.items()}
    n_bytes = sum(array.nbytes for array in rows.values())
    mac = write(name, rows)
    return [*files, RowFile(name, mac, n_bytes, {n: len(array) for n, array in rows.items()})]


def _n_saved(name: str, files: list[RowFile]) -> int:
    return sum(file.n_rows.get(name, 0) for file in files)


def _n_bytes_behind(files: list[RowFile], group: dict[str, Joined]) -> int:
    return sum(array.behind(_n_saved(n, files)).nbytes for n, array in group.items())

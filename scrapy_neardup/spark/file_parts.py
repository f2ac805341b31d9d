"""Big files → parts of them, a task each: lines of JSON, row groups of Parquet.

Of other formats, and of packed files, nobody can say where a record begins without reading all that
is before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet

from scrapy_neardup.offline.dedup.formats.jsonl import PROBED_BYTES
from scrapy_neardup.offline.dedup.formats.parquet import group_begins
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.record import MIB

PART_BYTES = 128 * MIB  # as Spark has it
AT_ONCE = MIB  # bytes


def parts(source: Input, files: Any, part_bytes: int) -> Iterator[Input]:
    """An input as parts of about so many bytes, each record in one of them, or as it is.

    files: the file system of its path. The name of a part says where it begins.
    """
    begins = begins_of(source, files, part_bytes)
    if len(begins) < 2:
        yield source
        return
    ends = [*begins[1:], files.get_file_info(str(source.path)).size]
    for begin, end in zip(begins, ends, strict=True):
        yield source._replace(name=str(begin), start=begin, size=end - begin)


def begins_of(source: Input, files: Any, part_bytes: int) -> list[int]:
    """Where parts of a file begin; nowhere in one that cannot be read, which its task will say."""
    if source.packing or source.kind not in BEGINS:
        return []
    try:
        with files.open_input_file(str(source.path)) as file:
            return BEGINS[source.kind](file, part_bytes)
    except (pa.ArrowException, OSError, ValueError):
        return []


def of_lines(file: Any, part_bytes: int) -> list[int]:
    """Places in a file of lines, so many bytes apart."""
    return [*range(0, file.size(), part_bytes)]


def of_row_groups(file: Any, part_bytes: int) -> list[int]:
    """Where row groups begin, at least so many bytes apart."""
    groups = group_begins(pyarrow.parquet.read_metadata(file))
    if any(end <= begin for begin, end in pairwise(groups)):  # no writer's file
        return []
    begins = groups[:1]
    for group in groups:
        if group - begins[-1] >= part_bytes:
            begins.append(group)
    return begins


BEGINS = {"jsonl": of_lines, "parquet": of_row_groups}


def copy_part(source: Input, file: Any, target: BinaryIO) -> None:
    """Write the bytes of a file that are needed to read a part of it to their places.

    Of a line that is longer than parts are, only the part in which it begins needs the rest.
    Raises OSError.
    """
    size, end = file.size(), source.start + (source.size or 0)
    target.truncate(size)
    if source.kind == "parquet":
        n_footer = int.from_bytes(file.read_at(4, size - 8), "little")
        copy(file, target, source.start, end)
        copy(file, target, max(0, size - 8 - n_footer), size)
        return
    copy(file, target, 0, min(PROBED_BYTES, size))  # of which the columns are told
    n_lines = copy(file, target, max(0, source.start - 1), end)
    for at in range(end, size, AT_ONCE) if n_lines or source.start == 0 else ():
        if copy(file, target, at, min(at + AT_ONCE, size)):
            break


def copy(file: Any, target: BinaryIO, begin: int, end: int) -> int:
    """Write some bytes of a file to their places; how many lines end there. Raises OSError."""
    n_lines = 0
    target.seek(begin)
    for at in range(begin, end, AT_ONCE):
        block = file.read_at(min(AT_ONCE, end - at), at)
        if len(block) < min(AT_ONCE, end - at):
            raise OSError(f"the file ends at {at + len(block):,}, before {end:,}")
        target.write(block)
        n_lines += block.count(b"\n")
    return n_lines

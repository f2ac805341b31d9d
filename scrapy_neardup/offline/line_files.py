"""Lines of a file that may be gzipped, read one after the other, none longer than a limit."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import IO

from scrapy_neardup.errors import InputError

GZIP = b"\x1f\x8b"


def lines_in(file: IO[bytes], name: str, max_bytes: int) -> Iterator[bytes]:
    """The lines of a buffered file, with what ends them. In the memory of one line.

    Raises InputError, with the file's name, for a line of more than max_bytes and for a file that
    cannot be read or unpacked.
    """
    number = 0
    try:
        is_packed = file.peek(len(GZIP)).startswith(GZIP)  # type: ignore[attr-defined]
        lines = gzip.GzipFile(fileobj=file) if is_packed else file
        while line := lines.readline(max_bytes + 1):
            number += 1
            if len(line) > max_bytes:
                raise InputError(f"{name}, line {number}: has more than {max_bytes:,} bytes")
            yield line
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name} cannot be read: {error}") from error

"""What passes between the reader of an input, the workers and the writer of its output."""

from __future__ import annotations

from typing import Any, NamedTuple

MIB = 2**20
CHUNK_BYTES = 2 * MIB  # of unpacked records: small enough to wait in numbers, large enough to pay


Ranges = list[tuple[int, int]]  # (begin, end) of bytes of an input, as it is stored


class InputLimits(NamedTuple):
    """Where hostile or broken input is given up.

    record_bytes: longer records are damage. ratio: an input that unpacks to more than so many
    times its size is a bomb, once it has unpacked to a gigabyte.
    """

    record_bytes: int = 64 * MIB
    ratio: int = 1_000


class Frame(NamedTuple):
    """A record's place among the bytes of its input, or what stands between records.

    begin    offset in the file, unpacked; of WARC as it is stored
    raw      as the output of its format is to have it
    filler   no record, such as a blank line or a header: it is always kept
    damage   why there is no record
    """

    begin: int
    raw: Any = None
    filler: bool = False
    damage: str = ""


class Chunk(NamedTuple):
    """Consecutive records of an input. Where chunks begin depends on the input alone, so that
    what is decided and written does not depend on the number of processes, or on kills.

    number   of the chunk in its input
    begin    offset of its first byte, unpacked
    done     bytes of the file, as stored, that were read by then
    data     its bytes; None where workers read the file themselves
    sizes    bytes of each frame in data, where the reader of the input had to find them
    frames   its frames, where there is no data
    head     what the format needs besides: header of CSV, opening of a JSON array
    """

    number: int
    begin: int
    done: int
    data: bytes | None = None
    sizes: list[int] | None = None
    frames: list[Frame] | None = None
    head: bytes = b""


# The type of a text that was taken from a page, whatever its URL says that the page was.
TEXT_OF_A_PAGE = "text/markdown; charset=utf-8"


class Page(NamedTuple):
    """One record. One without text and body is kept without being compared.

    row: its columns, for the choice of a copy; headers of WARC. beside: the page of the HTML that
    it has besides its text.
    """

    url: str
    text: str | None = None
    body: bytes | None = None
    content_type: str = ""
    has_site: bool = True  # False: nobody can say with whose pages to compare it
    row: Any = None
    beside: Page | None = None


class DamagedRecord(NamedTuple):
    """A record, or the rest of a file, that cannot be read.

    begin: offset in the file, as Frame.begin. is_whole: whether nobody doubts which bytes it is,
    nor that they harm no record behind it: it is kept as it came.
    """

    error: str
    begin: int = 0
    is_whole: bool = False

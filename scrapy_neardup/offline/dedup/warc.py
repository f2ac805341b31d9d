"""WARC files → records, each located and checked here, so that damage costs one record only.

warcio parses records but does not locate them: in damaged gzip it goes on with the bytes it has,
and would pass a truncated page off as a whole one.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path
from typing import IO, Any, NamedTuple

from scrapy_neardup.detect.detector import host_of
from scrapy_neardup.offline.dedup.record import Damage, PageRecord

# Longer records (films, archives) are kept without being compared.
MAX_RECORD_BYTES = 64 * 2**20
MAX_HEAD_BYTES = 2**16
BLOCK_BYTES = 2**16
GZIP_MARK = b"\x1f\x8b\x08"
WARC_MARK = b"WARC/1."
HEAD_END = re.compile(rb"\r?\n\r?\n")
LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
LINE_ENDS = b"\r\n"
RECORD_END = b"\r\n\r\n"


class BrokenRecord(ValueError):
    """The bytes at this place of a file are no WARC record, or only part of one."""


class Frame(NamedTuple):
    """A record's place in the file, and its bytes, unpacked."""

    begin: int
    end: int
    content: bytes | None  # None: longer than MAX_RECORD_BYTES


def warc_records(
    path: Path, packed: bool, progress: Callable[[int], None]
) -> Iterator[PageRecord | Damage]:
    """Records of a file, in order; after a damaged one, reading resumes at the next record.

    In a gzipped file each record must be a gzip member of its own, as the standard says.
    Raises ImportError without warcio.
    """
    from warcio.archiveiterator import ArchiveIterator

    find, mark = (packed_frame, GZIP_MARK) if packed else (plain_frame, WARC_MARK)
    with path.open("rb", buffering=2**20) as file:
        start: int | None = 0
        size = file.seek(0, io.SEEK_END)
        while start is not None and start < size:
            try:
                frame = find(file, start, size)
            except (BrokenRecord, zlib.error) as error:
                yield Damage(0, f"record at byte {start:,}: {error}")
                start = next_mark(file, start + 1, mark)
                continue
            yield parsed(frame, ArchiveIterator)._replace(raw=(path, frame.begin, frame.end))
            start = frame.end
            progress(start)


def packed_frame(file: IO[bytes], begin: int, size: int) -> Frame:
    """The record in the gzip member at a place; its checksum is verified."""
    file.seek(begin)
    unpacker, content, n_bytes = zlib.decompressobj(wbits=31), bytearray(), 0
    while not unpacker.eof:
        block = file.read(BLOCK_BYTES)
        if not block:
            raise BrokenRecord("the file ends inside it")
        chunk = unpacker.decompress(block)
        n_bytes += len(chunk)
        content += chunk[: MAX_RECORD_BYTES - len(content)]
    head, length = head_of(bytes(content[:MAX_HEAD_BYTES]))
    if n_bytes < head + length:
        raise BrokenRecord(f"{head + length - n_bytes:,} bytes of it are missing")
    if n_bytes <= MAX_RECORD_BYTES and content[head + length :].strip(LINE_ENDS):
        raise BrokenRecord(
            "its gzip member holds more than one record; compress the file again: "
            "warcio recompress OLD NEW"
        )
    end = file.tell() - len(unpacker.unused_data)
    return Frame(begin, end, bytes(content) if n_bytes <= MAX_RECORD_BYTES else None)


def plain_frame(file: IO[bytes], begin: int, size: int) -> Frame:
    """The record at a place of an uncompressed file, with the line ends after it."""
    file.seek(begin)
    head, length = head_of(file.read(MAX_HEAD_BYTES))
    end = begin + head + length
    if end > size:
        raise BrokenRecord(f"{end - size:,} bytes of it are missing")
    file.seek(end)
    behind = file.read(64)
    rest = behind.lstrip(LINE_ENDS)
    if rest and not behind.startswith(RECORD_END) and not rest.startswith(b"WARC/"):
        raise BrokenRecord("it does not end where its Content-Length says")
    content = None
    if head + length <= MAX_RECORD_BYTES:
        file.seek(begin)
        content = file.read(head + length)
    return Frame(begin, end + len(behind) - len(rest), content)


def head_of(content: bytes) -> tuple[int, int]:
    """(bytes of a record's head, bytes of the block behind it). Raises BrokenRecord."""
    end, length = HEAD_END.search(content), LENGTH.search(content)
    if not content.startswith(b"WARC/"):
        raise BrokenRecord("not a WARC record")
    if end is None or length is None or length.start() > end.start():
        raise BrokenRecord("its head has no end, or no Content-Length")
    return end.end(), int(length[1])


def parsed(frame: Frame, archive_iterator: Any) -> PageRecord:
    """The record of a frame. If warcio cannot parse it, it is kept without being compared."""
    if frame.content is None:
        return PageRecord(0, "")
    # warcio prints errors in a body's encoding to the error stream, block by block.
    with redirect_stderr(io.StringIO()):
        try:
            return page_of(next(archive_iterator(io.BytesIO(frame.content))))
        except Exception:
            return PageRecord(0, "")


def page_of(record: Any) -> PageRecord:
    """A response of status 2xx is a page; everything else is not compared."""
    url = record.rec_headers.get_header("WARC-Target-URI") or ""
    status = record.http_headers.get_statuscode() if record.http_headers else ""
    if record.rec_type != "response" or not status.startswith("2"):
        return PageRecord(0, url)
    kind = record.http_headers.get_header("Content-Type") or ""
    body = record.content_stream().read(MAX_RECORD_BYTES + 1)
    return PageRecord(
        0, url, None, body if len(body) <= MAX_RECORD_BYTES else None, kind, bool(host_of(url))
    )


def next_mark(file: IO[bytes], start: int, mark: bytes) -> int | None:
    """The next place with bytes that look like the beginning of a record; None if there is none."""
    file.seek(start)
    carried = b""
    while block := file.read(2**20):
        found = (carried + block).find(mark)
        if found >= 0:
            return start - len(carried) + found
        start += len(block)
        carried = block[-len(mark) + 1 :]
    return None

"""WARC: `.warc`, `.warc.gz`, `.warc.zst`, those inside WACZ, and `.wet`. Records are located and
checked here, so that damage costs one record only.

warcio parses records but does not locate them: in damaged gzip it goes on with the bytes it has,
and would pass a truncated page off as a whole one.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr
from pathlib import Path
from typing import IO, Any, NamedTuple

from scrapy_neardup.detect.sites import host_of
from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup.columns import Columns
from scrapy_neardup.offline.dedup.formats.http_body import body_of
from scrapy_neardup.offline.dedup.formats.rows import url_of
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.packing import FREE_BYTES, needs, zstandard
from scrapy_neardup.offline.dedup.record import (
    CHUNK_BYTES,
    TEXT_OF_A_PAGE,
    Chunk,
    DamagedRecord,
    Frame,
    InputLimits,
    Page,
    Ranges,
)

MAX_HEAD_BYTES = 2**16
# Bytes that may be read in vain, for each of the file, and in any case: damaged records overlap,
# and each seems to begin one at many places.
IN_VAIN_GROWTH, IN_VAIN_FREE = 16, 2**26
TOO_DAMAGED = "so much before it is damaged that it is not searched for records"
# Read at once: 16 KiB of gzip unpack to 17 MB at most, 1 KiB of Zstandard to 34 MB.
GZIP_BLOCK_BYTES, ZSTANDARD_BLOCK_BYTES = 2**14, 2**10
MARKS = {"": b"WARC/1.", ".gz": b"\x1f\x8b\x08", ".zst": b"\x28\xb5\x2f\xfd"}
SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")  # of Zstandard; the first may be a dictionary
DICTIONARY = b"\x5d\x2a\x4d\x18"
MAX_DICTIONARY_BYTES = 64 * 2**20
HEAD_END = re.compile(rb"\r?\n\r?\n")
LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,18})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
LINE_ENDS = b"\r\n"
RECORD_END = b"\r\n\r\n"


class BrokenRecord(ValueError):
    """The bytes at this place of a file are no WARC record, or only part of one."""


class RecordSpan(NamedTuple):
    """Where a record ends in the file, and its bytes, unpacked."""

    end: int
    content: bytes | None  # None: longer than a record may be; kept without being compared


class Warc:
    """A record of WARC a record; kept records are copied as they are stored."""

    def __init__(self, source: Input, columns: Columns, limits: InputLimits) -> None:
        self.source, self.limits = source, limits
        self._dictionary: Any = None
        self._find = {"": self._plain, ".gz": self._gzipped, ".zst": self._zstandard}[
            source.packing
        ]
        try:
            from warcio.archiveiterator import ArchiveIterator
        except ImportError as error:
            raise InputError(f"{source.path}: {needs('warcio', error)}") from error
        self._archive_iterator = ArchiveIterator

    def names(self) -> None:
        """WARC has no columns."""

    def chunks(self) -> Iterator[Chunk]:
        """The places of records. After a damaged one, reading resumes at the next record."""
        with self.source.path.open("rb", buffering=2**20) as file:
            yield from self._chunked(self._located(file))

    def _chunked(self, located: Iterator[Frame]) -> Iterator[Chunk]:
        frames: list[Frame] = []
        number, chunk_begin = 0, self.source.start
        for frame in located:
            frames.append(frame)
            end = frame.raw[1] if frame.raw else frame.begin
            if end - chunk_begin >= CHUNK_BYTES // 2:
                yield Chunk(number, chunk_begin, end - self.source.start, frames=frames)
                number, chunk_begin, frames = number + 1, end, []
        if frames:
            yield Chunk(number, chunk_begin, self.source.n_bytes, frames=frames)

    def _located(self, file: IO[bytes]) -> Iterator[Frame]:
        size = self._end(file)
        start: int | None = self.source.start
        left = IN_VAIN_FREE + IN_VAIN_GROWTH * (size - self.source.start)
        if self.source.packing == ".zst":
            start = self._read_dictionary(file)
            if start > self.source.start:
                yield Frame(self.source.start, (self.source.start, start), filler=True)
        while start is not None and start < size:
            try:
                end = self._find(file, start, size).end
            except Exception as error:
                # zlib.error, ZstdError and our own: each is damage at this place.
                left -= file.tell() - start
                yield Frame(start, damage=f"record at byte {start:,}: {error}")
                start = self._next_mark(file, start + 1, size)
                if start is not None and left < 0:
                    yield Frame(start, damage=f"all from byte {start:,} on: {TOO_DAMAGED}")
                    return
                continue
            yield Frame(start, (start, end))
            start = end

    def _end(self, file: IO[bytes]) -> int:
        size = file.seek(0, io.SEEK_END)
        return size if self.source.size is None else min(size, self.source.start + self.source.size)

    def frames(self, chunk: Chunk) -> Iterator[Frame]:
        """The records of a chunk."""
        yield from chunk.frames or ()

    def page(self, frame: Frame, chunk: Chunk) -> Page | DamagedRecord:
        """The record of a place. If warcio cannot parse it, it is kept without being compared."""
        with self.source.path.open("rb") as file:
            if self.source.packing == ".zst" and self._dictionary is None:
                self._read_dictionary(file)
            content = self._find(file, frame.raw[0], self._end(file)).content
        if content is None:
            return Page("")
        # warcio prints errors in a body's encoding to the error stream, block by block.
        with redirect_stderr(io.StringIO()):
            try:
                return self._page_of(next(self._archive_iterator(io.BytesIO(content))))
            except Exception:
                return Page("")

    def _page_of(self, record: Any) -> Page:
        """The page of a record. One in segments says more in other records: it is not compared."""
        url = url_of(record.rec_headers.get_header("WARC-Target-URI") or "")
        if record.rec_headers.get_header("WARC-Segment-Number"):
            return Page(url)
        return self._compared(record, url)

    def _compared(self, record: Any, url: str) -> Page:
        """A response of status 2xx is a page; everything else is not compared."""
        status = record.http_headers.get_statuscode() if record.http_headers else ""
        if record.rec_type != "response" or not status.startswith("2"):
            return Page(url)
        kind = record.http_headers.get_header("Content-Type") or ""
        limit = self.limits.record_bytes
        body = body_of(record, limit + 1)
        row = {"date": record.rec_headers.get_header("WARC-Date"), "status": status}
        return Page(url, None, body if len(body) <= limit else None, kind, bool(host_of(url)), row)

    def write(self, chunk: Chunk, kept: Iterable[bool], is_first: bool, out: Path) -> Ranges:
        """The places of the kept records in the file; those side by side as one."""
        ranges: list[tuple[int, int]] = []
        verdicts = iter(kept)
        for frame in self.frames(chunk):
            if frame.filler or (next(verdicts) and not frame.damage):
                begin, end = frame.raw
                if ranges and ranges[-1][1] == begin:
                    begin = ranges.pop()[0]
                ranges.append((begin, end))
        return ranges

    def _gzipped(self, file: IO[bytes], begin: int, size: int) -> RecordSpan:
        """The record in the gzip member at a place; its checksum is verified."""
        unpacker = zlib.decompressobj(wbits=31)
        return self._member(file, begin, size, unpacker, GZIP_BLOCK_BYTES)

    def _zstandard(self, file: IO[bytes], begin: int, size: int) -> RecordSpan:
        """The record in the frame at a place."""
        file.seek(begin)
        head = file.read(8)
        if SKIPPABLE.match(head):
            raise BrokenRecord("a frame without a record")
        zstd = zstandard(self.source.path)
        unpacker = zstd.ZstdDecompressor(dict_data=self._dictionary).decompressobj()
        return self._member(file, begin, size, unpacker, ZSTANDARD_BLOCK_BYTES)

    def _read_dictionary(self, file: IO[bytes]) -> int:
        """The dictionary that a file may begin with; where the records begin."""
        start = self.source.start
        file.seek(start)
        head = file.read(8)
        n_bytes = int.from_bytes(head[4:8], "little")
        if not head.startswith(DICTIONARY) or n_bytes > MAX_DICTIONARY_BYTES:
            return start
        zstd, content = zstandard(self.source.path), file.read(n_bytes)
        if content.startswith(MARKS[".zst"]):
            content = zstd.ZstdDecompressor().decompress(content, MAX_DICTIONARY_BYTES)
        self._dictionary = zstd.ZstdCompressionDict(content)
        return start + 8 + n_bytes

    def _member(
        self, file: IO[bytes], begin: int, size: int, unpacker: Any, block_bytes: int
    ) -> RecordSpan:
        file.seek(begin)
        content, n_bytes, limit, at = bytearray(), 0, self.limits.record_bytes, begin
        while not unpacker.eof:
            block = file.read(min(block_bytes, size - at))
            at += len(block)
            if not block:
                raise BrokenRecord("the file ends inside it")
            chunk = unpacker.decompress(block)
            n_bytes += len(chunk)
            content += chunk[: max(0, limit - len(content))]
            self._refuse_bomb(n_bytes, at - begin)
        head, length = head_of(bytes(content[:MAX_HEAD_BYTES]))
        if n_bytes < head + length:
            raise BrokenRecord(f"{head + length - n_bytes:,} bytes of it are missing")
        if n_bytes <= limit and content[head + length :].strip(LINE_ENDS):
            raise BrokenRecord(
                "its compressed member holds more than one record; compress the file again: "
                "warcio recompress OLD NEW"
            )
        return RecordSpan(
            at - len(unpacker.unused_data), bytes(content) if n_bytes <= limit else None
        )

    def _refuse_bomb(self, n_bytes: int, n_stored: int) -> None:
        if n_bytes > max(FREE_BYTES, self.limits.ratio * n_stored):
            raise BrokenRecord(
                f"{n_stored:,} bytes unpack to more than {n_bytes:,}: taken for a bomb; raise "
                f"--max-ratio if they are not"
            )

    def _plain(self, file: IO[bytes], begin: int, size: int) -> RecordSpan:
        """The record at a place of an uncompressed file, with the line ends after it."""
        file.seek(begin)
        head, length = head_of(file.read(min(MAX_HEAD_BYTES, size - begin)))
        end = begin + head + length
        if end > size:
            raise BrokenRecord(f"{end - size:,} bytes of it are missing")
        file.seek(end)
        behind = file.read(min(64, size - end))
        rest = behind.lstrip(LINE_ENDS)
        if rest and not behind.startswith(RECORD_END) and not rest.startswith(b"WARC/"):
            raise BrokenRecord("it does not end where its Content-Length says")
        content = None
        if head + length <= self.limits.record_bytes:
            file.seek(begin)
            content = file.read(head + length)
        return RecordSpan(end + len(behind) - len(rest), content)

    def _next_mark(self, file: IO[bytes], start: int, size: int) -> int | None:
        """The next place that looks like the beginning of a record; None if there is none."""
        mark = MARKS[self.source.packing]
        file.seek(start)
        carried = b""
        while start < size and (block := file.read(min(2**20, size - start))):
            found = (carried + block).find(mark)
            if found >= 0:
                return start - len(carried) + found
            start += len(block)
            carried = block[-len(mark) + 1 :]
        return None


class Wet(Warc):
    """WARC with the texts of pages, as Common Crawl's `.wet` files have them."""

    def _compared(self, record: Any, url: str) -> Page:
        """A conversion into plain text is a page; everything else is not compared."""
        kind = record.rec_headers.get_header("Content-Type") or ""
        if record.rec_type != "conversion" or not kind.lower().startswith("text/plain"):
            return Page(url)
        row = {"date": record.rec_headers.get_header("WARC-Date")}
        body, has_site = record.content_stream().read(), bool(host_of(url))
        return Page(url, None, body, TEXT_OF_A_PAGE, has_site, row)


def head_of(content: bytes) -> tuple[int, int]:
    """(bytes of a record's head, bytes of the block behind it). Raises BrokenRecord."""
    end, length = HEAD_END.search(content), LENGTH.search(content)
    if not content.startswith(b"WARC/"):
        raise BrokenRecord("not a WARC record")
    if end is None or length is None or length.start() > end.start():
        raise BrokenRecord("its head has no end, or no Content-Length")
    return end.end(), int(length[1])

"""What the formats of text share: a stream that is cut between records and packed again."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from scrapy_neardup.offline.dedup.columns import Columns
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.lines import Surplus
from scrapy_neardup.offline.dedup.packing import Unpacked, packed, packing_of
from scrapy_neardup.offline.dedup.record import CHUNK_BYTES, MIB, Chunk, Frame, InputLimits

# Beginnings, with a byte-order mark or without: the zeros among the first four bytes.
WIDE = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
UNMARKED = {
    "a0a0": "UTF-16LE",
    "0a0a": "UTF-16BE",
    "a000": "UTF-32LE",
    "000a": "UTF-32BE",
}


class TextStream:
    """A file of records, read once from its beginning to its end."""

    def __init__(self, source: Input, columns: Columns, limits: InputLimits) -> None:
        self.source, self.columns, self.limits = source, columns, limits

    def opened(self) -> Unpacked:
        """The file, unpacked."""
        return Unpacked(self.source.path, self.source.packing, self.limits)

    def remedy(self) -> str:
        """What to do with a file that is no text of bytes, by its beginning, which is ASCII in all
        formats of text: one in characters of two bytes or four, or packed. "" for any other."""
        with self.opened() as stream:
            head = stream.block(8)
        zeros = "".join("0" if byte == 0 else "a" for byte in head[:4])
        coding = WIDE.get(head[:4]) or WIDE.get(head[:2]) or UNMARKED.get(zeros, "")
        if coding:
            return f"is in {coding}; convert it first: iconv -f {coding} -t UTF-8"
        packing = packing_of(head)
        return f"is packed; name it {self.source.name}{packing}" if packing else ""

    def frames(self, chunk: Chunk) -> Iterator[Frame]:
        """The frames of a chunk, cut where the reader found them to end."""
        if chunk.frames is not None:
            yield from chunk.frames
            return
        assert chunk.data is not None
        at = 0
        for size in chunk.sizes or ():
            yield self.frame(chunk, at, chunk.data[at : at + size])
            at += size

    def frame(self, chunk: Chunk, at: int, raw: bytes) -> Frame:
        """The frame of some bytes of a chunk: a record, unless they are blank."""
        return Frame(chunk.begin + at, raw, filler=not raw.strip())

    def without(self, chunk: Chunk, surplus: Surplus) -> Chunk:
        """The chunk without some lines of the texts of records; every other byte stays."""
        if chunk.data is None:
            return chunk
        raws: list[bytes] = []
        number = 0
        for frame in self.frames(chunk):
            is_cut = not frame.filler and not frame.damage and number in surplus
            raws += self.pieces(self.cut(frame, chunk, surplus[number]) if is_cut else frame.raw)
            number += not frame.filler
        return chunk._replace(data=b"".join(raws), sizes=[len(raw) for raw in raws])

    def pieces(self, raw: Any) -> list[bytes]:
        """The bytes that Chunk.sizes counts of a frame."""
        return [raw]

    def cut(self, frame: Frame, chunk: Chunk, lines: list[int]) -> Any:
        """What Frame.raw is without some lines of its text."""
        raise NotImplementedError

    def write(self, chunk: Chunk, kept: Iterable[bool], is_first: bool, out: Path) -> bytes:
        """The kept records and all that stands between records, as they came, packed."""
        data = b"".join(kept_raws(self.frames(chunk), kept))
        return packed(data, self.source.packing) if data else b""


def kept_raws(frames: Iterable[Frame], kept: Iterable[bool]) -> Iterator[bytes]:
    """The bytes of what is to be kept."""
    verdicts = iter(kept)
    for frame in frames:
        if frame.filler or (next(verdicts) and not frame.damage):
            yield frame.raw


class Cutter:
    """Gathers records into chunks of about CHUNK_BYTES."""

    def __init__(self, stream: Unpacked, head: bytes = b"", begin: int = 0) -> None:
        self.stream = stream
        self.head = head
        self.number = 0
        self.begin = begin  # of the chunk under way
        self.data = bytearray()
        self.sizes: list[int] = []

    def add(self, raw: bytes) -> Iterator[Chunk]:
        """A frame; the chunk that is full with it, if one is."""
        self.data += raw
        self.sizes.append(len(raw))
        if len(self.data) >= CHUNK_BYTES:
            yield from self.cut()

    def cut(self) -> Iterator[Chunk]:
        """What was gathered."""
        if self.data:
            done, data = self.stream.done, bytes(self.data)
            yield Chunk(self.number, self.begin, done, data, self.sizes, head=self.head)
            self.number += 1
            self.begin += len(data)
            self.data, self.sizes = bytearray(), []

    def damaged(self, n_bytes: int, why: str) -> Iterator[Chunk]:
        """Damage in place of some bytes, which are left out."""
        yield from self.cut()
        frame = Frame(self.begin, damage=why)
        yield Chunk(self.number, self.begin, self.stream.done, frames=[frame], head=self.head)
        self.number += 1
        self.begin += n_bytes


def rest_lost(error: Exception) -> str:
    """What is said of an input that cannot be read further."""
    return f"the rest of the file: {type(error).__name__}: {error}"


def blocks(stream: Unpacked) -> Iterator[bytes]:
    """A stream in blocks, to its end."""
    return iter(lambda: stream.block(MIB), b"")


def first_lines(stream: Unpacked, n_lines: int, n_bytes: int) -> Iterator[bytes]:
    """Lines from the beginning, so many and of so many bytes at most."""
    head, n_read = bytearray(), 0
    try:
        for block in blocks(stream):
            head += block
            n_read += block.count(b"\n")
            if n_read >= n_lines or len(head) >= n_bytes:
                break
    except Exception:  # noqa: S110 - the lines before it count; the run will list the damage
        pass
    yield from chain(bytes(head).split(b"\n")[:n_lines])

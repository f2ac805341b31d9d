"""JSON lines: `.jsonl`, `.ndjson`, `.jl`."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterator
from typing import Any

from scrapy_neardup.offline.dedup.columns import names_in
from scrapy_neardup.offline.dedup.formats.rows import page_of
from scrapy_neardup.offline.dedup.formats.stream import (
    Cutter,
    TextStream,
    blocks,
    first_lines,
    rest_lost,
)
from scrapy_neardup.offline.dedup.record import CHUNK_BYTES, Chunk, Damage, Frame, Page

PROBED_LINES, PROBED_BYTES = 1_000, 4 * CHUNK_BYTES


class JsonLines(TextStream):
    """An object a line."""

    def names(self) -> list[str]:
        """The names in the first lines."""
        with self.opened() as stream:
            rows = [object_of(line) for line in first_lines(stream, PROBED_LINES, PROBED_BYTES)]
        return list(
            dict.fromkeys(name for row in rows if isinstance(row, dict) for name in names_in(row))
        )

    def chunks(self) -> Iterator[Chunk]:
        """Whole lines. A line that is too long is passed over, never held."""
        with self.opened() as stream:
            cutter = Cutter(stream)
            skipped = 0  # bytes of a line that is too long
            try:
                for block in blocks(stream):
                    end = block.rfind(b"\n") + 1
                    if skipped:
                        end = block.find(b"\n") + 1
                        skipped += end or len(block)
                        if not end:
                            continue
                        yield from cutter.damaged(skipped, self._too_long())
                        skipped, block = 0, block[end:]
                        end = block.rfind(b"\n") + 1
                    if end:
                        yield from self._cut(cutter, block[:end])
                    cutter.data += block[end:]
                    if len(cutter.data) > self.limits.record_bytes + CHUNK_BYTES:
                        skipped = len(cutter.data)
                        cutter.data = bytearray()
            except Exception as error:
                yield from cutter.damaged(0, rest_lost(error))
                return
            if skipped:
                yield from cutter.damaged(skipped, self._too_long())
            yield from cutter.cut()

    def _cut(self, cutter: Cutter, lines: bytes) -> Iterator[Chunk]:
        cutter.data += lines
        if len(cutter.data) >= CHUNK_BYTES:
            yield from cutter.cut()

    def frames(self, chunk: Chunk) -> Iterator[Frame]:
        """Lines; those of spaces alone are fillers."""
        if chunk.data is None:
            yield from chunk.frames or ()
            return
        at = chunk.begin
        for line in io.BytesIO(chunk.data):
            damage = self._too_long() if len(line) > self.limits.record_bytes else ""
            yield Frame(at, line, not line.strip(), damage)
            at += len(line)

    def _too_long(self) -> str:
        return f"a line of more than {self.limits.record_bytes:,} bytes; see --max-record-mb"

    def page(self, frame: Frame, chunk: Chunk) -> Page | Damage:
        """The record of a line."""
        row = object_of(frame.raw)
        if isinstance(row, Damage):
            return row._replace(begin=frame.begin)
        return page_of(row, self.columns)


def object_of(raw: bytes) -> dict[str, Any] | Damage:
    """A JSON object. Bytes that are not UTF-8 become lone surrogates: they stay distinct."""
    try:
        row = json.loads(raw.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        return Damage(f"not JSON: {error}")
    return row if isinstance(row, dict) else Damage(f"a JSON {type(row).__name__}, not an object")

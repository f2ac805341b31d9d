"""A folder of HTML files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from scrapy_neardup.offline.dedup.columns import Columns
from scrapy_neardup.offline.dedup.inputs import Input, html_files
from scrapy_neardup.offline.dedup.record import (
    CHUNK_BYTES,
    Chunk,
    DamagedRecord,
    Frame,
    InputLimits,
    Page,
)
from scrapy_neardup.own_files import sync_new_files

# What wget and HTTrack call the folder of a host.
HOST = re.compile(r"([a-z0-9-]+\.)+[a-z]{2,}(:\d+)?", re.IGNORECASE)


class HtmlFolder:
    """A file a record. The folder is one site; in a mirror, each host's folder is one."""

    def __init__(self, source: Input, columns: Columns, limits: InputLimits) -> None:
        self.source, self.limits = source, limits

    def names(self) -> None:
        """HTML has no columns."""

    def chunks(self) -> Iterator[Chunk]:
        """The files by their names."""
        frames: list[Frame] = []
        number = n_bytes = done = 0
        for path in html_files(self.source.path, self.source.without):
            size = path.stat().st_size
            too_long = size > self.limits.record_bytes
            why = f"{path}: more than {self.limits.record_bytes:,} bytes; see --max-record-mb"
            frames.append(
                Frame(
                    0, path.relative_to(self.source.path).as_posix(), damage=why if too_long else ""
                )
            )
            n_bytes, done = n_bytes + size, done + size
            if n_bytes >= CHUNK_BYTES:
                yield Chunk(number, 0, done, frames=frames)
                number, n_bytes, frames = number + 1, 0, []
        if frames:
            yield Chunk(number, 0, done, frames=frames)

    def frames(self, chunk: Chunk) -> Iterator[Frame]:
        """The files of a chunk."""
        yield from chunk.frames or ()

    def page(self, frame: Frame, chunk: Chunk) -> Page | DamagedRecord:
        """A file's page; its URL is its path in the folder."""
        try:
            body = (self.source.path / frame.raw).read_bytes()
        except OSError as error:
            return DamagedRecord(f"{frame.raw}: {error}")
        is_mirror = HOST.fullmatch(frame.raw.partition("/")[0]) and "/" in frame.raw
        url = f"http://{frame.raw}" if is_mirror else frame.raw
        return Page(url, None, body, "text/html", row={"path": str(self.source.path / frame.raw)})

    def write(self, chunk: Chunk, kept: Iterable[bool], is_first: bool, out: Path) -> bytes:
        """Copies the kept files into a folder of that name, under their own names."""
        copies = []
        for frame, is_kept in zip(self.frames(chunk), kept, strict=True):
            if is_kept:
                path = out / frame.raw
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.source.path / frame.raw, path)
                copies.append(path)
        sync_new_files(copies, out.parent)  # the writer knows the folder only
        return b""

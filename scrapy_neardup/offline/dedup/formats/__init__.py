"""Formats of files: each reads records and writes those that are kept; found by an input's kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Protocol

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup.columns import Columns, Fields, columns_among
from scrapy_neardup.offline.dedup.formats.jsonl import JsonLines
from scrapy_neardup.offline.dedup.formats.stream import TextStream
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.record import (
    Chunk,
    DamagedRecord,
    Frame,
    InputLimits,
    Page,
    Ranges,
)


class Format(Protocol):
    """A format, for one input. Any method may raise what its library raises."""

    def names(self) -> list[str] | None:
        """Dotted names of the columns at the beginning of the file; None if it has no columns."""

    def chunks(self) -> Iterator[Chunk]:
        """The input, cut at records; always in the same way. Damage is a frame in its place."""

    def frames(self, chunk: Chunk) -> Iterator[Frame]:
        """The frames of a chunk, in order."""

    def page(self, frame: Frame, chunk: Chunk) -> Page | DamagedRecord:
        """The record of a frame."""

    def write(
        self, chunk: Chunk, kept: Iterable[bool], is_first: bool, out: Path
    ) -> bytes | Ranges:
        """What a chunk adds to the file of kept records: bytes, or places in the input. A
        format that writes files of their own writes them at `out` and adds nothing.

        kept: of each frame that is no filler. is_first: whether nothing was kept before.
        """


FORMATS = {
    "jsonl": "jsonl.JsonLines",
    "json": "json_array.JsonArray",
    "csv": "csv_rows.CsvRows",
    "warc": "warc.Warc",
    "wet": "warc.Wet",
    "parquet": "parquet.Parquet",
    "html": "html.HtmlFolder",
}


def format_of(source: Input, columns: Columns, limits: InputLimits) -> Format:
    """The format of an input, to read the columns. Raises InputError for a missing library."""
    module, _, name = FORMATS[source.kind].rpartition(".")
    found = import_module(f"scrapy_neardup.offline.dedup.formats.{module}")
    made: Format = getattr(found, name)(source, columns, limits)
    return made


def records(
    source: Input, fields: Fields, limits: InputLimits | None = None
) -> Iterator[Page | DamagedRecord]:
    """Everything in an input, in order, in constant memory. Raises InputError where a column is
    missing."""
    limits = limits or InputLimits()
    form = format_of(source, columns_of(source, fields, limits), limits)
    for chunk in form.chunks():
        for frame in form.frames(chunk):
            if not frame.filler:
                is_damaged = bool(frame.damage)
                yield (
                    DamagedRecord(frame.damage, frame.begin)
                    if is_damaged
                    else form.page(frame, chunk)
                )


def columns_of(source: Input, fields: Fields, limits: InputLimits) -> Columns:
    """The columns of an input. Raises InputError where one is missing, for text in wide characters
    and for a packed file under another name. Of a file that cannot be read there are none: it will
    be listed as damaged."""
    nothing = Columns(None, (), ())
    form = format_of(source, nothing, limits)
    try:
        remedy = form.remedy() if isinstance(form, TextStream) else ""
        names = None if remedy else form.names()
    except (OSError, ValueError, EOFError, RuntimeError):
        return nothing
    if remedy:
        raise InputError(f"{source.label}: {remedy}")
    if isinstance(form, JsonLines):
        names = enough_names(form, names or [], fields)
    return columns_among(names, fields, source.label) if names else nothing


def enough_names(form: JsonLines, first: list[str], fields: Fields) -> list[str]:
    """The names in so many of the first objects that no column is missing; of all, if one is.

    Objects have names of their own. first: those in the first objects.
    """
    names = first
    for names in chain([first], form.names_so_far()):
        with suppress(InputError):
            columns_among(names, fields, form.source.label)
            break
    return names

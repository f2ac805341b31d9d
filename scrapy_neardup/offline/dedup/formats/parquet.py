"""Parquet: rows of columns, HTML in binary columns included."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup.columns import Columns
from scrapy_neardup.offline.dedup.formats.rows import page_of
from scrapy_neardup.offline.dedup.formats.stream import rest_lost
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.lines import Surplus, with_ends, without
from scrapy_neardup.offline.dedup.packing import needs
from scrapy_neardup.offline.dedup.record import Chunk, DamagedRecord, Frame, InputLimits, Page
from scrapy_neardup.offline.dedup.traits import CANONICALS, DATES, DATES_NESTED, STATUSES

ROWS = 500  # of a chunk
SPREAD_BYTES = 2**28  # that rows of a chunk may take together
NESTED = tuple(name.partition(".")[0] for name in DATES_NESTED)
# Text that is no UTF-8, a time beyond Python's, a time zone that nobody knows.
UNREADABLE = (ValueError, OverflowError, LookupError, MemoryError)
TOLD_BY = frozenset(("id", *DATES, *STATUSES, *CANONICALS, *NESTED))


class Parquet:
    """A row a record. Only the columns that are compared are read; all are written."""

    def __init__(self, source: Input, columns: Columns, limits: InputLimits) -> None:
        self.source, self.columns, self.limits = source, columns, limits
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise InputError(f"{source.path}: {needs('pyarrow', error)}") from error
        self._parquet = pyarrow.parquet

    def _opened(self) -> Any:
        # In nanoseconds, as INT96 is read else, a time after 2262 is one before 1816.
        return self._parquet.ParquetFile(self.source.path, coerce_int96_timestamp_unit="us")

    def names(self) -> list[str]:
        """Names of the columns and paths of nested ones."""
        with self._opened() as file:
            roots = file.schema_arrow.names
            paths = (column.path.replace(".list.element", "") for column in file.schema)
            return [*roots, *(path for path in dict.fromkeys(paths) if path not in roots)]

    def chunks(self) -> Iterator[Chunk]:
        """ROWS rows a time, as Arrow streams of the columns that are compared."""
        number = begin = 0
        try:
            with self._opened() as file:
                total, n_bytes = max(1, file.metadata.num_rows), self.source.n_bytes
                roots, groups = self._roots(file.schema_arrow.names), self._groups(file.metadata)
                begin = rows_before(file.metadata, groups)
                for batch in file.iter_batches(ROWS, groups, roots):
                    done = n_bytes * (begin + batch.num_rows) // total
                    yield Chunk(number, begin, done, as_stream(batch), [batch.num_rows])
                    number, begin = number + 1, begin + batch.num_rows
        except Exception as error:
            yield Chunk(number, begin, 0, frames=[Frame(begin, damage=rest_lost(error))])

    def _groups(self, metadata: Any) -> list[int] | None:
        """The row groups that begin in the input's part of the file; None for the whole of it."""
        first, size = self.source.start, self.source.size
        if size is None:
            return None
        begins = enumerate(group_begins(metadata))
        return [group for group, begin in begins if first <= begin < first + size]

    def _roots(self, names: list[str]) -> list[str]:
        """The columns in which those lie that are compared, or by which copies are told apart."""
        compared = (self.columns.url, *self.columns.text, *self.columns.html)
        told_by = (name for name in names if name in TOLD_BY)
        paths = dict.fromkeys([*filter(None, compared), *told_by])
        return [path if path in names else path.partition(".")[0] for path in paths]

    def frames(self, chunk: Chunk) -> Iterator[Frame]:
        """The rows of a chunk; `begin` is the row's number in the file."""
        if chunk.data is None:
            yield from chunk.frames or ()
            return
        import pyarrow as pa

        with pa.ipc.open_stream(chunk.data) as stream:
            rows = (row for batch in stream for row in rows_of(batch))
            for at, row in enumerate(rows):
                damage = row if isinstance(row, str) else ""
                yield Frame(chunk.begin + at, row, damage=damage)

    def page(self, frame: Frame, chunk: Chunk) -> Page | DamagedRecord:
        """The record of a row."""
        return page_of(frame.raw, self.columns)

    def write(self, chunk: Chunk, kept: Iterable[bool], is_first: bool, out: Path) -> bytes:
        """Nothing: see write_whole."""
        return b""

    def write_whole(
        self, kept: Iterable[bool], n_rows: int, out: Path, surplus: Surplus | None = None
    ) -> None:
        """The kept of the first rows, with the file's schema, metadata, codecs and row groups.

        surplus: lines that rows lose of their text, which is in a column of its own. Raises
        TypeError for times that would not come out as they are.
        """
        begin = 0
        has_int96 = self._has_int96()
        verdicts = iter(kept)
        with self._opened() as file:
            codecs = codecs_of(file.metadata)
            with self._parquet.ParquetWriter(
                out,
                schema_of(file),
                compression=codecs,
                use_deprecated_int96_timestamps=has_int96,
            ) as writer:
                for group in range(file.metadata.num_row_groups):
                    n_here = min(n_rows, file.metadata.row_group(group).num_rows)
                    n_rows -= n_here
                    mask = list(islice(verdicts, n_here))
                    if any(mask):
                        table = file.read_row_group(group).slice(0, n_here)
                        table = self._without(table, begin, surplus or {})
                        writer.write_table(filtered(table, mask), row_group_size=max(1, n_here))
                    begin += n_here

    def _has_int96(self) -> bool:
        """Whether the file's times are INT96, as Spark writes them.

        Raises TypeError where only some are, or some are not whole microseconds.
        """
        with self._opened() as file, self._parquet.ParquetFile(self.source.path) as exact:
            times = [one for one in file.schema if is_time(one)]
            if not any(one.physical_type == "INT96" for one in times):
                return False
            if any(one.physical_type != "INT96" or "." in one.path for one in times):
                raise TypeError("times of two kinds, or nested ones, cannot be written again")
            names = [one.path for one in times]
            for group in range(file.metadata.num_row_groups):
                tables = (one.read_row_group(group, names) for one in (file, exact))
                if any(map(loses_digits, *tables)):
                    raise TypeError("times in nanoseconds cannot be written again")
        return True

    def _without(self, table: Any, begin: int, surplus: Surplus) -> Any:
        """Rows from a place on without some lines of their texts."""
        here = {row - begin: surplus[row] for row in surplus if 0 <= row - begin < len(table)}
        columns = [
            table[name].to_pylist() if name in table.column_names else []
            for name in self.columns.text
        ]
        for row, lines in here.items():
            texts = next(column for column in columns if column and column[row] is not None)
            texts[row] = without(with_ends(texts[row]), lines)
        for name, texts in zip(self.columns.text, columns, strict=True):
            if here and texts:
                table = replaced(table, name, texts)
        return table


def is_time(column: Any) -> bool:
    """Whether a column of a file's schema has times."""
    return bool(column.physical_type == "INT96" or column.logical_type.type == "TIMESTAMP")


def loses_digits(times: Any, exact: Any) -> bool:
    """Whether times in microseconds are not what they are in nanoseconds, as far as those reach."""
    micros, nanos = (
        column.drop_null().cast("int64").to_numpy(zero_copy_only=False) for column in (times, exact)
    )
    return bool(((nanos % 1000 != 0) & (nanos // 1000 == micros)).any())


def group_begins(metadata: Any) -> list[int]:
    """Where each row group of a file begins."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return [min(map(column_begin, columns_in(group))) for group in groups]


def columns_in(group: Any) -> Iterator[Any]:
    """The columns of a row group."""
    return map(group.column, range(group.num_columns))


def column_begin(column: Any) -> int:
    """Where the pages of a column of a row group begin."""
    begins = column.data_page_offset, column.dictionary_page_offset
    return int(min(begin for begin in begins if begin))


def rows_before(metadata: Any, groups: list[int] | None) -> int:
    """The rows of a file before some of its row groups; None for all of them."""
    return sum(metadata.row_group(group).num_rows for group in range(groups[0] if groups else 0))


def filtered(table: Any, mask: list[bool]) -> Any:
    """The rows of a table that a mask has. Arrow filters no views: as plain columns they are."""
    import pyarrow as pa

    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    if plain.keys().isdisjoint(table.schema.types):
        return table.filter(mask)
    fields = (field.with_type(plain.get(field.type, field.type)) for field in table.schema)
    schema = pa.schema(fields, metadata=table.schema.metadata)
    return table.cast(schema).filter(mask).cast(table.schema)


def replaced(table: Any, name: str, texts: list[str | None]) -> Any:
    """A table with other texts in a column, of the same type."""
    import pyarrow as pa

    place = table.column_names.index(name)
    field = table.schema.field(place)
    is_encoded = pa.types.is_dictionary(field.type)
    made = pa.array(texts, type=field.type.value_type if is_encoded else field.type)
    return table.set_column(place, field, made.dictionary_encode() if is_encoded else made)


def rows_of(batch: Any) -> Iterator[dict[str, Any] | str]:
    """The rows of a batch; what is wrong with a row instead of one that cannot be read."""
    try:
        # Where a dictionary repeats long values, one row after the other.
        rows = [] if spread(batch) > SPREAD_BYTES else batch.to_pylist()
    except UNREADABLE:
        rows = [single(batch)] if batch.num_rows == 1 else []
    if rows:
        yield from rows
        return
    for at in range(batch.num_rows):
        yield from rows_of(batch.slice(at, 1))


def single(batch: Any) -> dict[str, Any] | str:
    """The only row of a batch, without what cannot be read of TOLD_BY; what is wrong with it."""
    row = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            row[name] = column[0].as_py()
        except UNREADABLE as error:
            if name not in TOLD_BY:
                return f"{type(error).__name__}: {error}"
    return row


def spread(batch: Any) -> int:
    """Bytes that the rows of a batch may take beyond its own; 0 for a single row."""
    import pyarrow.compute as pc
    import pyarrow.types as types

    if batch.num_rows < 2:
        return 0
    values = [column.dictionary for column in batch.columns if types.is_dictionary(column.type)]
    texts = [one for one in values if types.is_large_string(one.type) or types.is_string(one.type)]
    longest = [int(pc.max(pc.binary_length(one)).as_py() or 0) for one in texts]
    return int(batch.num_rows) * sum(longest)


def as_stream(batch: Any) -> bytes:
    """A batch as an Arrow stream."""
    import pyarrow as pa

    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, batch.schema) as stream:
        stream.write_batch(batch)
    return buffer.getvalue()


def schema_of(file: Any) -> Any:
    """The file's schema, with all of its key-value metadata."""
    stored = file.metadata.metadata or {}
    return file.schema_arrow.with_metadata(
        {key: value for key, value in stored.items() if key != b"ARROW:schema"} or None
    )


def codecs_of(metadata: Any) -> Any:
    """The codec of each column, by its path, as the writer calls them."""
    if not metadata.num_row_groups:
        return "snappy"
    group = metadata.row_group(0)
    columns = (group.column(i) for i in range(metadata.num_columns))
    return {
        column.path_in_schema: column.compression.replace("UNCOMPRESSED", "NONE")
        for column in columns
    }

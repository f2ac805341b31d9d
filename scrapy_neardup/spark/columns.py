"""Columns of Arrow tables → arrays. No Spark here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array

Batches = Iterator[pa.RecordBatch]


def numbers_of(table: pa.Table | pa.RecordBatch, name: str) -> I64Array:
    """A column of whole numbers."""
    numbers: I64Array = table.column(name).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def fingerprints_of(table: pa.Table | pa.RecordBatch) -> U64Array:
    """The fingerprints of rows."""
    return numbers_of(table, "fingerprint").view(np.uint64)


def words_of(table: pa.Table | pa.RecordBatch, name: str, *shape: int) -> U64Array:
    """A column of bytes as words; rows of this shape. No rows have no words."""
    if not table.num_rows:
        return np.zeros((0, *(max(0, size) for size in shape)), np.uint64)
    words = np.frombuffer(b"".join(table.column(name).to_pylist()), np.uint64)
    return words.reshape(table.num_rows, *shape)

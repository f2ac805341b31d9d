"""Permuted tables by the book: sorted arrays and binary search in them (Manku et al. 2007).

What the package's buckets are compared with, and checked against in tests.
"""

from typing import Any

import numpy as np

from scrapy_neardup.index.layout import Layout
from scrapy_neardup.kernels.numpy_twin.hamming import ranges
from scrapy_neardup.kernels.numpy_twin.slices import bits_of, smallest_each


class SortedTables:
    """Sorted permuted fingerprints of 64 bits and their ids, a pair of arrays a table."""

    def __init__(self, blocks: int, distance: int, fps: Any, ids: Any) -> None:
        self.layout = Layout(blocks, distance)
        self.tables = []
        for order in self.layout.permutations:
            permuted = self.permuted(fps, order)
            places = np.argsort(permuted)
            self.tables.append((permuted[places], np.asarray(ids)[places]))

    def permuted(self, fps: Any, order: tuple[int, ...]) -> Any:
        """Fingerprints with their blocks in another order, the first most significant."""
        rows, out = np.asarray(fps, dtype=np.uint64)[:, None], np.zeros(len(fps), dtype=np.uint64)
        for block in order:
            high, low = self.layout.edges[block], self.layout.edges[block + 1]
            for top in range(high, low, -32):
                width = min(32, top - low)
                out = out << np.uint64(width) | bits_of(rows, top - width, width)
        return out

    def all_within_many(self, fps: Any, distance: int) -> tuple[Any, Any, Any]:
        """offsets, ids and distances, as Index.all_within_many gives them."""
        found = [np.zeros((3, 0), dtype=np.int64)]
        for table, order in enumerate(self.layout.permutations):
            stored, ids = self.tables[table]
            queries, free = self.permuted(fps, order), 64 - self.layout.leading_bits(table)
            first = queries >> np.uint64(free) << np.uint64(free) if free < 64 else queries * 0
            starts = np.searchsorted(stored, first)
            ends = np.searchsorted(stored, first | np.uint64((1 << free) - 1), side="right")
            places, query = ranges(starts, ends - starts)
            bits = np.bitwise_count(stored[places] ^ queries[query]).astype(np.int64)
            near = bits <= distance
            found.append(np.stack([query[near], ids[places[near]], bits[near]]))
        query, ids, bits = np.concatenate(found, axis=1)
        keys, bits = smallest_each(query << 32 | ids, bits)
        offsets = np.searchsorted(keys, np.arange(len(fps) + 1) << 32)
        return offsets, keys & (2**32 - 1), bits

    @property
    def nbytes(self) -> int:
        return sum(stored.nbytes + ids.nbytes for stored, ids in self.tables)

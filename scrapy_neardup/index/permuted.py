"""Permuted tables: exact within a few bits, one bucket a table (Manku et al. 2007)."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Self

import numpy as np

import scrapy_neardup.kernels as kernels
from scrapy_neardup.errors import ScanLimitReached, SnapshotError
from scrapy_neardup.index import BulkMatches, Matches
from scrapy_neardup.index.inputs import check_distance, n_stored, rows_of, signature_bytes
from scrapy_neardup.index.layout import Layout
from scrapy_neardup.index.parallel import in_parallel
from scrapy_neardup.index.segments import SegmentedIndex, SegmentStore
from scrapy_neardup.kernels.numpy_twin import I64Array, U32Array, U64Array
from scrapy_neardup.kernels.numpy_twin.hamming import SegmentArrays
from scrapy_neardup.kernels.numpy_twin.segments import LIMIT, Deal, in_turn
from scrapy_neardup.stored_arrays import check_arrays, check_below, check_starts, whole

if TYPE_CHECKING:
    from scrapy_neardup.index.sharded import Shard

VERSION = 1
WHAT = "permuted index"
NO_LIMIT = 2**62


class PermutedIndex(SegmentedIndex):
    """Finds every signature that differs in at most `distance` bits by equal leading blocks.

    blocks, distance, bits: see Layout, which also says tables, permutations and bytes before
    anything is built. scan_limit: entries that one look-up may be compared with, None for any
    number; ScanLimitReached beyond, so that a crawl of near-identical pages stays fast. A pair
    stored twice counts twice, is found once and removed at once.

    add is O(tables); a look-up O(tables x bucket). Frozen pairs take Layout.nbytes, those of a
    memtable about twice that. Source: Manku, Jain, Das Sarma 2007, section 3; departure: buckets
    behind a direct directory of the leading blocks instead of sorted tables and search in them;
    with distance + 1 blocks, the directory grows with the number of pairs (see Layout).
    """

    def __init__(
        self, blocks: int = 4, distance: int = 3, bits: int = 64, scan_limit: int | None = None
    ) -> None:
        self._assume(Layout(blocks, distance, bits), scan_limit)
        nothing = np.zeros((0, self.layout.bits // 64), dtype=np.uint64)
        self._start(self._freeze(nothing, np.zeros(0, dtype=np.uint32)))

    @classmethod
    def of_layout(cls, layout: Layout) -> Self:
        """An empty index of a layout, which may choose some of the tables only."""
        index = cls.__new__(cls)
        index._assume(layout, None)
        nothing = np.zeros((0, layout.bits // 64), dtype=np.uint64)
        index._start(index._freeze(nothing, np.zeros(0, dtype=np.uint32)))
        return index

    def _assume(self, layout: Layout, scan_limit: int | None) -> None:
        self.layout = layout
        self._layouts = [layout]  # that of the segment is among them
        self.bits, self.max_distance = layout.bits, layout.distance
        self.scan_limit = scan_limit
        self._remedy = (
            f"lower it, or build with a distance above {layout.distance} (and more blocks)"
        )

    def _start(self, segment: Any) -> None:
        self._store = SegmentStore(kernels.hamming, segment, self._freeze, self._make_memtable)

    def _freeze(self, rows: U64Array, ids: U32Array, deal: Deal = in_turn) -> Any:
        layout = self.layout  # once: a thread freezes, and re_lay() may come meanwhile
        tables, bits = layout.kernel_tables, layout.directory_bits(len(rows))
        return kernels.hamming.Segment(tables, kernels.hamming.build(tables, rows, ids, bits, deal))

    def _make_memtable(self, n_frozen: int) -> Any:
        capacity = kernels.hamming.memtable_capacity(n_frozen)
        bits = self.layout.directory_bits(capacity)
        return kernels.hamming.Memtable(self.layout.kernel_tables, capacity, bits)

    def re_lay(self, blocks: int) -> None:
        """Cut signatures into so many blocks from now on.

        The next change starts a thread that freezes what is there anew; until a later change
        adopts the result, look-ups ask the tables as they are. Raises SpecError.
        """
        layout = Layout(blocks, self.max_distance, self.bits)
        if layout != self.layout:
            self.layout = layout
            self._layouts.append(layout)
            self._store.freeze_soon()

    def shards(self, n: int) -> list[Shard]:
        """The pairs as n shards, which can live in n processes under a ShardedIndex.

        Raises SpecError for n below 1.
        """
        from scrapy_neardup.index.sharded import cut

        return cut(self, n)

    def first_within(self, fp: int, distance: int) -> int | None:
        check_distance(distance, self.max_distance, self._remedy)
        query = signature_bytes(fp, self.bits)
        id = kernels.hamming.first_one(self._store.all, query, distance, self._limit)
        if id == LIMIT:
            raise self._too_many()
        return None if id < 0 else id

    def first_within_many(self, fps: U64Array, distance: int) -> I64Array:
        check_distance(distance, self.max_distance, self._remedy)
        segments, limit = self._store.all, self._limit
        found = in_parallel(
            lambda rows: kernels.hamming.first_many(segments, rows, distance, limit),
            rows_of(fps, self.bits),
        )
        first: I64Array = np.concatenate(found)
        if (first == LIMIT).any():
            raise self._too_many()
        return first

    def all_within(self, fp: int, distance: int) -> Matches:
        check_distance(distance, self.max_distance, self._remedy)
        query = signature_bytes(fp, self.bits)
        found = kernels.hamming.all_one(self._store.all, query, distance, self._limit)
        if found is None:
            raise self._too_many()
        return Matches(*found)

    def all_within_many(self, fps: U64Array, distance: int) -> BulkMatches:
        check_distance(distance, self.max_distance, self._remedy)
        segments, limit = self._store.all, self._limit
        found = in_parallel(
            lambda rows: kernels.hamming.all_many(segments, rows, distance, limit),
            rows_of(fps, self.bits),
        )
        counts, ids, distances = (np.concatenate(c) for c in zip(*found, strict=True))
        if (counts == LIMIT).any():
            raise self._too_many()
        return BulkMatches(np.concatenate([[0], np.cumsum(counts)]), ids, distances)

    @property
    def _limit(self) -> int:
        return NO_LIMIT if self.scan_limit is None else self.scan_limit

    def _too_many(self) -> ScanLimitReached:
        return ScanLimitReached(
            f"more than scan_limit={self.scan_limit} entries share a look-up's leading blocks "
            f"(fullest bucket: {self.largest_bucket}): raise the limit"
        )

    def _identity(self) -> I64Array:
        tables = self._store.segment.tables
        layout = next(layout for layout in self._layouts if layout.kernel_tables is tables)
        blocks = [block for leading in layout.tables for block in leading]
        return np.array([VERSION, layout.bits, layout.blocks, layout.distance, *blocks])

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """The index that arrays() described. O(n): places are checked. Raises SnapshotError."""
        check_arrays(WHAT, arrays, {"layout": (np.int64, (None,))})
        index = cls.of_layout(_layout_of(arrays["layout"]))
        bits = index._check(arrays)
        own = SegmentArrays(*(whole(arrays[name]) for name in SegmentArrays._fields))
        index._open(kernels.hamming.Segment(index.layout.kernel_tables, own), arrays)
        if bits != index.layout.directory_bits(len(own.ids)):
            index._store.freeze_soon()
        return index

    def _check(self, arrays: dict[str, Any]) -> int:
        """The bits of the directories, of which earlier releases chose fewer."""
        n_tables, n_words = self.layout.masks.shape
        n, bits = n_stored(WHAT, arrays, n_words), _directory_bits(arrays)
        if not 0 < bits <= self.layout.most_directory_bits:
            raise SnapshotError(
                f"{WHAT}: directories of {bits} bits, not of 1 to {self.layout.most_directory_bits}"
            )
        expected = {
            "offsets": (np.uint32, (n_tables, 2**bits + 1)),
            "windows": (np.uint32, (n_tables - 1, n)),
            "slots": (np.uint32, (n_tables - 1, n)),
        }
        check_arrays(WHAT, arrays, expected)
        check_starts(f"{WHAT}, offsets", whole(arrays["offsets"]), n)
        check_below(f"{WHAT}, slots", whole(arrays["slots"]), n)
        return bits


def _directory_bits(arrays: dict[str, Any]) -> int:
    check_arrays(WHAT, arrays, {"offsets": (np.uint32, (None, None))})
    return int(arrays["offsets"].shape[1] - 1).bit_length() - 1


def _layout_of(identity: I64Array) -> Layout:
    if len(identity) < 4:
        raise SnapshotError(f"{WHAT}: a layout of {len(identity)} numbers")
    version, bits, blocks, distance, *leading = identity.tolist()
    if version != VERSION:
        raise SnapshotError(f"{WHAT} of version {version}: this one reads {VERSION}")
    each = max(1, blocks - distance)
    tables = tuple(tuple(leading[i : i + each]) for i in range(0, len(leading), each))
    layout = Layout(blocks, distance, bits, tables)  # without tables: all choices
    possible = set(combinations(range(blocks), each))
    if not tables or len(tables) > len(possible) or not possible.issuperset(tables):
        raise SnapshotError(f"{WHAT}: tables of other blocks than a choice of {each} of {blocks}")
    return layout

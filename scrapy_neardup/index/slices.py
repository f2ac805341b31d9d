"""Inverted signature slice lists: nearest neighbours among wide signatures (Chappell 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import comb
from typing import Any, Literal, NamedTuple, Self

import numpy as np

import scrapy_neardup.kernels as kernels
from scrapy_neardup.errors import ScanLimitReached, SnapshotError, SpecError
from scrapy_neardup.index import BulkMatches, Matches
from scrapy_neardup.index.inputs import check_bits, check_distance, n_stored, rows_of
from scrapy_neardup.index.parallel import in_parallel
from scrapy_neardup.index.permuted import NO_LIMIT
from scrapy_neardup.index.segments import SegmentedIndex, SegmentStore
from scrapy_neardup.kernels.numpy_twin import I64Array, U32Array, U64Array
from scrapy_neardup.kernels.numpy_twin.segments import LIMIT, Deal, in_turn
from scrapy_neardup.kernels.numpy_twin.slices import ALL, BOUNDS, SCORE, SegmentArrays, Slices
from scrapy_neardup.stored_arrays import check_arrays, check_below, check_starts, whole

VERSION = 1
WHAT = "slice index"
MAX_WIDTH = 26
MAX_SLICES = 255  # a candidate's account of slices seen is a byte
MAX_EXPAND = 8

Verify = Literal["all", "bounds", "score"]
VERIFY = {"all": ALL, "bounds": BOUNDS, "score": SCORE}


class Within(NamedTuple):
    """Matches, and whether they are certainly all."""

    ids: I64Array
    distances: I64Array
    exact: bool


class Nearest(NamedTuple):
    """Neighbours of each query, nearest first, then by id; shape (queries, n), -1 for none."""

    ids: I64Array
    distances: I64Array


@dataclass(frozen=True)
class SliceLayout:
    """`bits` cut into as few slices of at most `slice_width` bits as it takes.

    Where the width does not divide the bits, some slices are a bit narrower (the paper's w and
    w - 1). slices: how many of them get lists, None for all; fewer save memory and lose recall.
    Raises SpecError.
    """

    bits: int
    slice_width: int
    slices: int | None = None

    def __post_init__(self) -> None:
        check_bits(self.bits)
        narrowest = -(-self.bits // MAX_SLICES)
        if not narrowest <= self.slice_width <= MAX_WIDTH:
            raise SpecError(
                f"slice_width={self.slice_width}: take {narrowest} to {MAX_WIDTH} bits, about "
                "log2 of the collection's size less 4 (width_for)"
            )
        if self.slices is None:
            object.__setattr__(self, "slices", self.n_all)
        if not 1 <= self.n_slices <= self.n_all:
            raise SpecError(f"slices={self.slices}: take 1 to {self.n_all}")

    @property
    def n_all(self) -> int:
        """Slices in a signature."""
        return -(-self.bits // self.slice_width)

    @property
    def n_slices(self) -> int:
        """Slices that have lists."""
        return self.slices or 0

    @cached_property
    def edges(self) -> list[int]:
        """Where slices start, from the least significant bit, and where the last one ends."""
        return [self.bits * i // self.n_all for i in range(self.n_slices + 1)]

    @cached_property
    def widths(self) -> list[int]:
        """Bits of each slice."""
        return [b - a for a, b in zip(self.edges, self.edges[1:], strict=False)]

    @cached_property
    def cut(self) -> Slices:
        """What kernels need to know."""
        sizes = [(1 << width) + 1 for width in self.widths]
        return Slices(
            np.array(self.edges[:-1], dtype=np.int64),
            np.array(self.widths, dtype=np.int64),
            np.cumsum([0, *sizes], dtype=np.int64),
        )

    def nbytes(self, n: int) -> int:
        """Bytes of the frozen lists and rows of n signatures; exact."""
        return n * (self.bits // 8 + 4 + 4 * self.n_slices) + 4 * int(self.cut.bases[-1])

    def exact_up_to(self, expand: int) -> int:
        """The largest distance at which nothing is missed: one slice must differ in <= expand."""
        return self.n_slices * (expand + 1) - 1

    def expected_recall(self, distance: int, expand: int = 0) -> float:
        """The share of signatures at exactly this distance that share a list, on average.

        For differing bits placed at random, exactly: 1 less the share of placements that put
        more than `expand` bits into every slice. 1.0 where the pigeonhole principle holds.
        """
        check_distance(distance, self.bits, "no two signatures differ in more bits")
        ways = [1] + [0] * distance  # ways[d]: placements of d bits that miss, slice by slice
        for width in self.widths:
            missed = {d: comb(width, d) for d in range(expand + 1, min(width, distance) + 1)}
            ways = [
                sum(ways[total - d] * n for d, n in missed.items() if d <= total)
                for total in range(distance + 1)
            ]
        rest = self.bits - sum(self.widths)
        misses = sum(ways[distance - d] * comb(rest, d) for d in range(min(rest, distance) + 1))
        return 1 - misses / comb(self.bits, distance)


def width_for(n: int) -> int:
    """The slice width that suits n signatures: lists of about 16.

    The paper's rule is one bit more for each doubling; its 16 bits at a million and 26 at 500
    million fix the constant.
    """
    return min(max(n.bit_length() - 4, 4), MAX_WIDTH)


class SliceIndex(SegmentedIndex):
    """k-nearest-neighbour and range search through lists of equal slices.

    bits, slice_width, slices: see SliceLayout. expand: bits by which a slice may differ in
    first_within and all_within, which are exact up to max_distance = slices x (expand + 1) - 1
    and refuse more; `within` takes any distance and says whether it was exact; `nearest` is
    approximate: its candidates are what shares a list, scan_nearest_many compares everything.
    scan_limit: list entries that a range look-up may read; ScanLimitReached beyond.

    add is O(slices). A look-up reads slices x (binomial sum of width over 0 to expand) lists.
    Source: Chappell, Geva, Zuccon 2015, sections 5 and 6.2. Departure: by default the true
    distance of every candidate is computed, which population counts made cheaper than
    estimating it; verify="score" is the paper's way, "bounds" its optimistic and pessimistic
    bounds without loss among the candidates.
    """

    def __init__(
        self,
        bits: int = 64,
        slice_width: int = 16,
        expand: int = 0,
        slices: int | None = None,
        scan_limit: int | None = None,
    ) -> None:
        self.layout = SliceLayout(bits, slice_width, slices)
        if not 0 <= expand <= MAX_EXPAND:
            raise SpecError(f"expand={expand}: take 0 to {MAX_EXPAND} bits")
        self.bits, self.expand, self.scan_limit = bits, expand, scan_limit
        self.max_distance = min(self.layout.exact_up_to(expand), bits)
        nothing = np.zeros((0, bits // 64), dtype=np.uint64)
        self._start(self._freeze(nothing, np.zeros(0, dtype=np.uint32)))

    def _start(self, segment: Any) -> None:
        self._store = SegmentStore(kernels.slices, segment, self._freeze, self._make_memtable)

    def _freeze(self, rows: U64Array, ids: U32Array, deal: Deal = in_turn) -> Any:
        cut = self.layout.cut
        return kernels.slices.Segment(cut, kernels.slices.build(cut, rows, ids, deal))

    def _make_memtable(self, n_frozen: int) -> Any:
        capacity = kernels.slices.memtable_capacity(n_frozen)
        return kernels.slices.Memtable(self.layout.cut, capacity, self.bits // 64)

    def nearest(
        self,
        signature: int,
        n: int,
        expand: int = 1,
        admit: int | None = None,
        verify: Verify = "all",
    ) -> Matches:
        """The n nearest candidates, nearest first, then by id; see nearest_many."""
        ids, distances = self.nearest_many(self._row(signature), n, expand, admit, verify)
        found = ids[0] >= 0
        return Matches(ids[0][found], distances[0][found])

    def nearest_many(
        self,
        signatures: U64Array,
        n: int,
        expand: int = 1,
        admit: int | None = None,
        verify: Verify = "all",
    ) -> Nearest:
        """The n nearest of each query's candidates, with true distances.

        expand: lists up to so many bits away are read (the paper's i). admit: only those up to
        so many bits away bring new candidates (its j), None for expand. verify: which
        candidates get their true distance: "all"; "bounds", those whose optimistic distance is
        at most the n-th best pessimistic one; "score", the n best by the paper's score.
        """
        admit = expand if admit is None else admit
        self._check_search(n, expand, admit)
        segments, way = self._store.all, VERIFY[verify]
        found = in_parallel(
            lambda rows: kernels.slices.nearest_many(segments, rows, n, expand, admit, way),
            rows_of(signatures, self.bits),
            worth=64,
        )
        return Nearest(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

    def scan_nearest_many(self, signatures: U64Array, n: int) -> Nearest:
        """The n nearest of everything, by comparing with everything: exact.

        Many queries share each pass over memory: at a million signatures of 1,024 bits this is
        as fast as expand=2 and better.
        """
        self._check_search(n, 0, 0)
        segments = self._store.all
        found = in_parallel(
            lambda rows: kernels.slices.scan_nearest_many(segments, rows, n),
            rows_of(signatures, self.bits),
            worth=16,
        )
        return Nearest(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

    def _check_search(self, n: int, expand: int, admit: int) -> None:
        if n < 1:
            raise SpecError(f"n={n}: take 1 or more neighbours")
        if not 0 <= admit <= expand <= MAX_EXPAND:
            raise SpecError(
                f"expand={expand}, admit={admit}: take 0 <= admit <= expand <= {MAX_EXPAND}"
            )

    def within(self, signature: int, distance: int, expand: int | None = None) -> Within:
        """Ids within the distance that share a list, and whether that is certainly all.

        expand: bits by which a slice may differ; None for what makes it exact, up to self.expand.
        """
        check_distance(distance, self.bits, "no two signatures differ in more bits")
        if expand is None:
            expand = min(distance // self.layout.n_slices, self.expand)
        self._check_search(1, expand, expand)
        found = self._within_many(self._row(signature), distance, expand)
        return Within(found.ids, found.distances, distance <= self.layout.exact_up_to(expand))

    def all_within(self, fp: int, distance: int) -> Matches:
        found = self.all_within_many(self._row(fp), distance)
        return Matches(found.ids, found.distances)

    def all_within_many(self, fps: U64Array, distance: int) -> BulkMatches:
        check_distance(distance, self.max_distance, "lower it, or raise expand, or ask within()")
        return self._within_many(fps, distance, distance // self.layout.n_slices)

    def first_within(self, fp: int, distance: int) -> int | None:
        ids = self.all_within(fp, distance).ids
        return int(ids[0]) if len(ids) else None

    def first_within_many(self, fps: U64Array, distance: int) -> I64Array:
        offsets, ids, _ = self.all_within_many(fps, distance)
        first = np.full(len(offsets) - 1, -1, dtype=np.int64)
        some = offsets[1:] > offsets[:-1]
        first[some] = ids[offsets[:-1][some]]
        return first

    def _within_many(self, fps: U64Array, distance: int, expand: int) -> BulkMatches:
        segments = self._store.all
        limit = NO_LIMIT if self.scan_limit is None else self.scan_limit
        found = in_parallel(
            lambda rows: kernels.slices.within_many(segments, rows, distance, expand, limit),
            rows_of(fps, self.bits),
            worth=256,
        )
        counts, ids, distances = (np.concatenate(c) for c in zip(*found, strict=True))
        if (counts == LIMIT).any():
            raise ScanLimitReached(
                f"a look-up would read more than scan_limit={self.scan_limit} list entries "
                f"(longest list: {self.largest_bucket}): raise the limit or widen the slices"
            )
        return BulkMatches(np.concatenate([[0], np.cumsum(counts)]), ids, distances)

    def expected_recall(self, distance: int, expand: int = 0) -> float:
        """See SliceLayout.expected_recall."""
        return self.layout.expected_recall(distance, expand)

    def _identity(self) -> I64Array:
        layout = self.layout
        identity = [VERSION, layout.bits, layout.slice_width, layout.n_slices, self.expand]
        return np.array(identity, dtype=np.int64)

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """The index that arrays() described. O(n): places are checked. Raises SnapshotError."""
        check_arrays(WHAT, arrays, {"layout": (np.int64, (5,))})
        version, bits, slice_width, slices, expand = arrays["layout"].tolist()
        if version != VERSION:
            raise SnapshotError(f"{WHAT} of version {version}: this one reads {VERSION}")
        # Before anything is made: the lists of wide slices take gigabytes.
        _check(SliceLayout(bits, slice_width, slices), arrays)
        index = cls(bits, slice_width, expand, slices)
        own = SegmentArrays(*(whole(arrays[name]) for name in SegmentArrays._fields))
        index._open(kernels.slices.Segment(index.layout.cut, own), arrays)
        return index


def _check(layout: SliceLayout, arrays: dict[str, Any]) -> None:
    n = n_stored(WHAT, arrays, layout.bits // 64)
    expected = {
        "offsets": (np.uint32, (int(layout.cut.bases[-1]),)),
        "postings": (np.uint32, (layout.n_slices, n)),
    }
    check_arrays(WHAT, arrays, expected)
    for start, end in pairwise(layout.cut.bases.tolist()):
        check_starts(f"{WHAT}, offsets", whole(arrays["offsets"])[start:end], n)
    check_below(f"{WHAT}, postings", whole(arrays["postings"]), n)

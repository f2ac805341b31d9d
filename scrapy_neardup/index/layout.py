"""How permuted tables cut a signature into blocks, and what the tables cost; holds no data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from scrapy_neardup.errors import SpecError
from scrapy_neardup.index.inputs import check_bits
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.hamming import Tables
from scrapy_neardup.kernels.numpy_twin.mix import GOLDEN

MAX_TABLES = 1024
MAX_DIRECTORY_BITS = 26
BUCKET_NS, ENTRY_NS = 50, 0.9  # a look-up's time for each bucket and for each of its entries
WINDOW = 32  # bits of a signature that a table entry repeats
BUCKET_BITS = 4  # a directory is sized for buckets of 16 to 32 entries: one or two vectors


@dataclass(frozen=True)
class Layout:
    """`bits` cut into `blocks`, and a table for every choice of blocks - distance of them.

    Two signatures that differ in at most `distance` bits agree in at least blocks - distance
    blocks, so they share the leading blocks of at least one table (Manku, Jain, Das Sarma 2007,
    section 3). Block 0 holds the most significant bits. Widths differ by at
    most one bit where `blocks` does not divide `bits`.

    The bits of one leading block index the directory themselves; several leading blocks are
    hashed, because only their equality matters.

    With distance + 1 blocks, each leading one table, a directory can be wider than the leading
    block: it goes on with the bits of the blocks that follow, in a circle. At most `distance`
    bits differ in distance + 1 blocks, so there is a block from which on the first block has none
    of them, the first two have one at most, the first three two, and so on (the cycle lemma;
    Dvoretzky, Motzkin 1947). A look-up asks, in each table, the buckets that differ from its own
    by so few bits. So the tables keep their size while the buckets shrink as n grows. Raises
    SpecError.
    """

    blocks: int
    distance: int
    bits: int = 64
    tables: tuple[tuple[int, ...], ...] = ()  # leading blocks of each table; () means all choices

    def __post_init__(self) -> None:
        check_bits(self.bits)
        if self.distance < 0:
            raise SpecError(f"distance={self.distance}: take 0 or more")
        if not self.distance < self.blocks <= self.bits:
            raise SpecError(
                f"blocks={self.blocks}: take more than the distance, {self.distance}, "
                f"and at most {self.bits}, the bits"
            )
        n_tables = comb(self.blocks, self.distance)
        if n_tables > MAX_TABLES:
            raise SpecError(
                f"blocks={self.blocks} with distance={self.distance} needs {n_tables} tables, "
                f"more than {MAX_TABLES}: take fewer blocks"
            )
        if not self.tables:
            choices = combinations(range(self.blocks), self.blocks - self.distance)
            object.__setattr__(self, "tables", tuple(choices))

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """The borders of the blocks, as bits from the least significant, highest first."""
        return tuple(self.bits * i // self.blocks for i in range(self.blocks, -1, -1))

    def mask(self, block: int) -> int:
        """The bits of a block."""
        high, low = self.edges[block], self.edges[block + 1]
        return (1 << high) - (1 << low)

    @property
    def permutations(self) -> tuple[tuple[int, ...], ...]:
        """The order of blocks in each table: the leading ones, then the rest."""
        everything = range(self.blocks)
        return tuple(
            (*leading, *(b for b in everything if b not in leading)) for leading in self.tables
        )

    @cached_property
    def leading_masks(self) -> tuple[int, ...]:
        """The leading bits of each table, as a mask."""
        return tuple(sum(self.mask(block) for block in leading) for leading in self.tables)

    def leading_bits(self, table: int) -> int:
        """The number of leading bits of a table."""
        return self.leading_masks[table].bit_count()

    @cached_property
    def masks(self) -> U64Array:
        """leading_masks as rows of words, shape (tables, words)."""
        rows = [
            np.frombuffer(m.to_bytes(self.bits // 8, "little"), "<u8") for m in self.leading_masks
        ]
        return np.array(rows, dtype=np.uint64)

    @cached_property
    def multipliers(self) -> U64Array:
        """Factors of the masked words; the high bits of the products' sum number the bucket.

        A single block within one word is shifted to the top, so its value is the bucket. Otherwise
        odd numbers spread the leading bits (Fibonacci hashing). Shape (tables, words).
        """
        spread = [(GOLDEN * (2 * word + 1)) % 2**64 for word in range(self.bits // 64)]
        rows = np.array([spread] * len(self.tables), dtype=np.uint64)
        for table, leading in enumerate(self.tables):
            high, low = self.edges[leading[0]] - 1, self.edges[leading[-1] + 1]
            if len(leading) == 1 and high // 64 == low // 64:
                rows[table] = 1 << (63 - high % 64)
        return rows

    @cached_property
    def windows(self) -> I64Array:
        """Where each table's entries take their 32 bits: (word, rotation to the right).

        The window with the fewest leading bits, because leading bits are equal within a bucket
        and tell nothing; of several, the first above the leading block. Shape (tables, 2).
        """
        return np.array([self._window(mask) for mask in self.leading_masks], dtype=np.int64)

    def _window(self, mask: int) -> tuple[int, int]:
        start = mask.bit_length()
        places = [(start + step) % self.bits for step in range(self.bits)]
        return min(
            ((place // 64, place % 64) for place in places),
            key=lambda place: _rotated(mask >> 64 * place[0], place[1]).bit_count(),
        )

    @cached_property
    def widths(self) -> I64Array:
        """Bits of each block from a table's leading one on, in a circle; shape (tables, blocks).

        Shape (tables, 0) where a directory holds leading bits only.
        """
        if self.blocks != self.distance + 1 or self.bits != 64:
            return np.zeros((len(self.tables), 0), dtype=np.int64)
        own = -np.diff(self.edges)
        return np.array([np.roll(own, -leading) for (leading,) in self.tables], dtype=np.int64)

    @cached_property
    def kernel_tables(self) -> Tables:
        """The masks, multipliers, windows and widths, as the kernels take them."""
        return Tables(self.masks, self.multipliers, self.windows, self.widths)

    @cached_property
    def most_directory_bits(self) -> int:
        """Bits that a directory can have."""
        return min(MAX_DIRECTORY_BITS, self.bits if self.widths.size else self._narrowest)

    @cached_property
    def _narrowest(self) -> int:
        return min(self.leading_bits(table) for table in range(len(self.tables)))

    def directory_bits(self, n: int) -> int:
        """Bits of a table's directory for n signatures: those of the fastest look-up."""
        wanted = max(1, n.bit_length() - 1 - BUCKET_BITS)
        most = min(wanted, self.most_directory_bits)
        return min(
            range(min(most, self._narrowest), most + 1), key=lambda bits: self._lookup_ns(n, bits)
        )

    def n_buckets_asked(self, bits: int) -> int:
        """Buckets that a look-up asks in directories of so many bits."""
        return sum(_n_within(widths, bits) for widths in self.widths.tolist())

    def nbytes(self, n: int) -> int:
        """Bytes of the frozen tables of n signatures; exact."""
        n_tables, n_words = len(self.tables), self.bits // 64
        directory = 4 * ((1 << self.directory_bits(n)) + 1)
        return n * (8 * n_words + 4) + 8 * n * (n_tables - 1) + n_tables * directory

    def scanned(self, n: int) -> float:
        """Average number of entries that a query compares among n random fingerprints."""
        bits = self.directory_bits(n)
        return self.n_buckets_asked(bits) * n / (1 << bits)

    def lookup_ns(self, n: int) -> float:
        """Time of a look-up among n random fingerprints, by what buckets and entries take."""
        return self._lookup_ns(n, self.directory_bits(n))

    def _lookup_ns(self, n: int, bits: int) -> float:
        return self.n_buckets_asked(bits) * (BUCKET_NS + ENTRY_NS * n / (1 << bits))


def _n_within(widths: list[int], bits: int) -> int:
    """How many numbers of so many bits have at most k set in their first k + 1 blocks, all k."""
    counts = [1]  # by how many bits are set
    for k, width in enumerate(widths):
        own = min(width, bits)
        bits -= own
        counts = [
            sum(n * comb(own, total - before) for before, n in enumerate(counts[: total + 1]))
            for total in range(k + 1)
        ]
        if not bits:
            break
    return sum(counts)


class Proposal(NamedTuple):
    """A number of blocks, its cost, and the reason for it."""

    blocks: int
    tables: int
    nbytes: int
    reason: str


def propose_blocks(n: int, distance: int, memory_bytes: int, bits: int = 64) -> Proposal:
    """The blocks that answer fastest for n random fingerprints and fit in memory.

    A look-up costs one cache miss a table and one comparison an entry of its buckets. More
    blocks mean more tables with fewer entries a bucket. Raises SpecError if nothing fits.
    """
    layouts = [Layout(blocks, distance, bits) for blocks in _possible(distance, bits)]
    fitting = [layout for layout in layouts if layout.nbytes(n) <= memory_bytes]
    if not fitting:
        least = min(layouts, key=lambda layout: layout.nbytes(n))
        raise SpecError(
            f"memory_bytes={memory_bytes}: {n} fingerprints within {distance} bits need at least "
            f"{least.nbytes(n)}, with {least.blocks} blocks; shard them, or lower the distance"
        )
    best = min(fitting, key=lambda layout: layout.lookup_ns(n))
    reason = (
        f"{best.blocks} blocks: {len(best.tables)} tables, {best.nbytes(n)} bytes for {n} "
        f"fingerprints, about {best.scanned(n):.0f} of them compared in a look-up; the fastest "
        f"of {len(fitting)} choices that fit in {memory_bytes} bytes ({len(layouts)} considered)"
    )
    return Proposal(best.blocks, len(best.tables), best.nbytes(n), reason)


def _possible(distance: int, bits: int) -> list[int]:
    """The numbers of blocks above the distance that take at most MAX_TABLES tables."""
    return [
        blocks
        for blocks in range(distance + 1, min(bits, distance + 16) + 1)
        if comb(blocks, distance) <= MAX_TABLES
    ]


def _rotated(word: int, places: int) -> int:
    """The low 32 bits of a word of 64 bits rotated to the right."""
    word &= 2**64 - 1
    return (word >> places | word << (64 - places)) & ((1 << WINDOW) - 1)

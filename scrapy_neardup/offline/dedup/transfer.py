"""What the records of a chunk say → a few large objects, which pass between processes, and back.

Pickled one by one, the small arrays of a page take as long as to read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.detect.content import no_lines
from scrapy_neardup.detect.facts import Facts
from scrapy_neardup.detect.odd_sketch import ROW_WORDS
from scrapy_neardup.detect.page_reading import PageReading, lazy
from scrapy_neardup.detect.page_row import BEFORE_SKETCH
from scrapy_neardup.detect.text import Blocks
from scrapy_neardup.engines import Signatures
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.facts import FACT_WORDS
from scrapy_neardup.offline.dedup.record import DamagedRecord

Scalars = tuple[str, int, int, bytes, bytes, bool, int, int, int]
N_ARRAYS = 13  # of arrays_of()


class UncomparedRecord(NamedTuple):
    """A record that is not compared, and why: "without_text", "without_url", "too_long",
    "over_budget" or "failed"."""

    reason: str


Read = PageReading | UncomparedRecord | DamagedRecord


class Packed(NamedTuple):
    """The records of a chunk in their order.

    pages    what of a page is no array; of other records, the record itself
    sizes    numbers in each array of each page; shape (pages, N_ARRAYS)
    numbers  of all arrays, one behind the other
    """

    pages: list[Scalars | UncomparedRecord | DamagedRecord]
    sizes: I64Array
    numbers: U64Array


def pack(found: list[Read]) -> Packed:
    """The records of a chunk, each page with its signatures."""
    pages: list[Scalars | UncomparedRecord | DamagedRecord] = []
    arrays: list[U64Array] = []
    for read in found:
        if not isinstance(read, PageReading):
            pages.append(read)
            continue
        arrays += arrays_of(read)
        head = (read.url, read.site, read.host, read.words, read.digest, read.is_mostly_script)
        pages.append((*head, read.n_words, read.signatures.fingerprint, read.attribute_bits))
    sizes = np.array([len(array) for array in arrays], dtype=np.int64)
    numbers = np.concatenate([a.view(np.uint64) for a in arrays]) if arrays else _NOTHING
    return Packed(pages, sizes, numbers)


def arrays_of(page: PageReading) -> tuple[Any, ...]:
    """All arrays of a page, of 64-bit numbers each; what every decision needs comes first."""
    hashes, *blocks = page.blocks
    *facts, titles, headings = page.facts
    return page.row, page.learnt, hashes, titles, headings, *blocks, *facts


class UnpackedPage(PageReading):
    """A page whose arrays are views of a chunk's numbers; it has no engine.

    Blocks and facts are made when they are first asked for: most decisions do without.
    """

    numbers: U64Array  # of all of its arrays
    ends: list[int]  # of each of them

    def _array(self, number: int) -> U64Array:
        return self.numbers[self.ends[number - 1] : self.ends[number]]

    @lazy
    def blocks_and_heads(self) -> U64Array:
        return self.numbers[self.ends[1] : self.ends[4]]

    @lazy
    def blocks(self) -> Blocks:
        return Blocks(self._array(2), *(self._array(n).view(np.int64) for n in (5, 6, 7)))

    @lazy
    def facts(self) -> Facts:
        lines, masks, values, at, negations = map(self._array, range(8, N_ARRAYS))
        heads = self._array(3), self._array(4)
        return Facts(lines.view(np.int64), masks, values, at.view(np.int64), negations, *heads)


def unpack(packed: Packed) -> Iterator[Read]:
    """The records that pack() was given."""
    ends = np.cumsum(packed.sizes.reshape(-1, N_ARRAYS), axis=1).tolist()
    begin, at = 0, 0
    for page in packed.pages:
        if isinstance(page, (UncomparedRecord, DamagedRecord)):
            yield page
            continue
        end = begin + ends[at][-1]
        yield page_of(page, packed.numbers[begin:end], ends[at])
        begin, at = end, at + 1


def page_of(scalars: Scalars, numbers: U64Array, ends: list[int]) -> UnpackedPage:
    """A page of its parts."""
    url, site, host, words, digest, is_mostly_script, n_words, fingerprint, attribute_bits = scalars
    row = numbers[: ends[0]]
    whole = row[BEFORE_SKETCH : -FACT_WORDS - ROW_WORDS]
    page = UnpackedPage.__new__(UnpackedPage)
    page.__dict__.update(
        numbers=numbers,
        ends=ends,
        url=url,
        site=site,
        host=host,
        words=words,
        digest=digest,
        data=row[1:BEFORE_SKETCH],
        attributes=no_lines,
        is_mostly_script=is_mostly_script,
        engine=None,
        n_words=n_words,
        attribute_bits=attribute_bits,
        signatures=Signatures(fingerprint, whole[:-ROW_WORDS], n_words),
        row=row,
        whole=whole,
        odd_row=whole[-ROW_WORDS:],
        all_facts=row[-FACT_WORDS:],
        learnt=numbers[ends[0] : ends[1]],
    )
    return page


_NOTHING = np.empty(0, dtype=np.uint64)

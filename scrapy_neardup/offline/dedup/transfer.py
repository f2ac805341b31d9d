"""What the records of a chunk say → a few large objects, which pass between processes, and back.

Pickled one by one, the small arrays of a page take as long as to read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.detect.content import no_lines
from scrapy_neardup.detect.facts import Facts
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.detect.text import Blocks
from scrapy_neardup.engines import Signatures
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.offline.dedup.record import Damage

Scalars = tuple[str, int, int, bytes, bytes, bool, int, int, int]
# Which arrays of a page hold signed numbers, in the order of arrays_of().
IS_SIGNED = (*(False, True, True, True), *(True, False, False, True), *(False,) * 6)


class Unread(NamedTuple):
    """A record that is not compared, and why: "without_text", "without_url", "too_long",
    "over_budget" or "failed"."""

    reason: str


Read = PageReading | Unread | Damage


class Packed(NamedTuple):
    """The records of a chunk in their order.

    pages    what of a page is no array; of other records, the record itself
    sizes    numbers in each array of each page; shape (pages, len(IS_SIGNED))
    numbers  of all arrays, one behind the other
    """

    pages: list[Scalars | Unread | Damage]
    sizes: I64Array
    numbers: U64Array


def pack(found: list[Read]) -> Packed:
    """The records of a chunk, each page with its signatures."""
    pages: list[Scalars | Unread | Damage] = []
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
    """All arrays of a page, of 64-bit numbers each."""
    return (*page.blocks, *page.facts, page.data, page.signatures.sketch, page.odd_row)


def unpack(packed: Packed) -> Iterator[Read]:
    """The records that pack() was given. A page's arrays are views; it has no engine."""
    unsigned, signed = packed.numbers, packed.numbers.view(np.int64)
    ends = np.cumsum(packed.sizes).tolist()
    begin, at = 0, 0
    for page in packed.pages:
        if isinstance(page, (Unread, Damage)):
            yield page
            continue
        arrays: list[Any] = []
        for is_signed in IS_SIGNED:
            end = ends[at]
            arrays.append((signed if is_signed else unsigned)[begin:end])
            begin, at = end, at + 1
        yield page_of(page, arrays)


def page_of(scalars: Scalars, arrays: list[Any]) -> PageReading:
    """A page of its parts."""
    url, site, host, words, digest, is_mostly_script, n_words, fingerprint, attribute_bits = scalars
    blocks, facts, (data, sketch, odd_row) = Blocks(*arrays[:4]), Facts(*arrays[4:11]), arrays[11:]
    said = words, blocks, digest, data, no_lines, is_mostly_script
    page = PageReading(url, site, host, *said, None, facts)
    made = {"n_words": n_words, "odd_row": odd_row, "attribute_bits": attribute_bits}
    page.__dict__.update(made, signatures=Signatures(fingerprint, sketch, n_words))
    return page


_NOTHING = np.empty(0, dtype=np.uint64)

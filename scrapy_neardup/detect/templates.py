"""What a site repeats on its pages: navigation, notices and footers, learnt block by block."""

from __future__ import annotations

from collections import OrderedDict
from math import ceil, sqrt
from typing import Any, NamedTuple, Self

import numpy as np

from scrapy_neardup.detect.text import Blocks
from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U32Array, U64Array

MAX_BLOCKS = 2**21  # of all sites
MAX_BLOCKS_OF_A_SITE = 2048
WARM = 3  # pages of a site from which on its templates are trusted
ALL_OF = 64  # pages of a site that are all learnt from; of later ones, one in ONE_IN
ONE_IN = 8


class Site(NamedTuple):
    """What is known of a site: on how many of its pages each block stood."""

    n_pages: int
    hashes: U64Array  # ascending
    counts: U32Array

    @property
    def threshold(self) -> int:
        """Pages that a block must stand on to be a template's.

        All of the first five, 8 of 16, 20 of 100, 200 of 10,000: a page in several versions
        is on fewer, the navigation of one of many sections on more.
        """
        return min(self.n_pages, max(WARM, ceil(2 * sqrt(self.n_pages))))

    def with_page(self, hashes: U64Array) -> Site:
        """The site after one more page, whose blocks come once and ascend.

        Of too many blocks the rarest are forgotten.
        """
        places, known = located(hashes, self.hashes)
        counts, new = self.counts.copy(), ~known
        counts[places[known]] += np.uint32(1)
        merged = np.insert(self.hashes, places[new], hashes[new])
        counts = np.insert(counts, places[new], 1)
        if len(merged) > MAX_BLOCKS_OF_A_SITE:
            kept = np.sort(np.argsort(counts, kind="stable")[-MAX_BLOCKS_OF_A_SITE // 2 :])
            merged, counts = merged[kept], counts[kept]
        return Site(self.n_pages + 1, merged, counts)

    def pack(self) -> bytes:
        """All of it, for another worker."""
        numbers = np.uint32(self.n_pages), self.hashes.astype("<u8"), self.counts.astype("<u4")
        return b"".join(part.tobytes() for part in numbers)

    @classmethod
    def unpack(cls, packed: bytes) -> Site:
        """What pack() described. Raises BrokenInvariant."""
        n_blocks, rest = divmod(len(packed) - 4, 12)
        if rest or n_blocks < 0:
            raise BrokenInvariant(f"templates of {len(packed)} bytes are not whole")
        n_pages = int(np.frombuffer(packed, "<u4", 1)[0])
        hashes = np.frombuffer(packed, "<u8", n_blocks, 4).astype(np.uint64)
        site = cls(n_pages, hashes, np.frombuffer(packed, "<u4", n_blocks, 4 + 8 * n_blocks))
        site.check()
        return site

    def check(self) -> None:
        """Blocks ascend, counts are within the pages. Raises BrokenInvariant."""
        ascending = bool(np.all(self.hashes[1:] > self.hashes[:-1]))
        counted = bool(np.all((self.counts >= 1) & (self.counts <= self.n_pages)))
        whole = len(self.hashes) == len(self.counts) <= MAX_BLOCKS_OF_A_SITE
        if not (ascending and counted and whole):
            raise BrokenInvariant("the templates of a site are damaged")

    def template(self, hashes: U64Array) -> BoolArray:
        """Which of some blocks belong to a template."""
        return located(hashes, self.hashes[self.counts >= self.threshold])[1]


def located(hashes: U64Array, known: U64Array) -> tuple[I64Array, BoolArray]:
    """Where each hash stands among the known ones, which ascend, or would; and whether it does."""
    places = known.searchsorted(hashes)
    found: BoolArray = places < len(known)
    found[found] = known[places[found]] == hashes[found]
    return places, found


def each_once(hashes: U64Array) -> U64Array:
    """Some hashes, ascending, without repetition."""
    # Not np.unique(): asked for nothing else, it imports numpy.ma, in the middle of a crawl.
    ascending = np.sort(hashes)
    repeats: BoolArray = ascending[1:] == ascending[:-1]
    return np.delete(ascending, np.flatnonzero(repeats))


NOTHING = Site(0, np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32))


class SiteTemplates:
    """Learns the template blocks of every site from the pages that are kept, one at a time.

    Bounded: MAX_BLOCKS_OF_A_SITE and MAX_BLOCKS in all, 25 MB; the site that was unused longest
    is forgotten first. A block that appears late, as after a new design, becomes a template's
    once it has stood on enough pages; nothing is ever re-read.
    """

    def __init__(self) -> None:
        self._sites: OrderedDict[int, Site] = OrderedDict()
        self._n_blocks = 0

    def wants(self, site: int, digest: bytes) -> bool:
        """Whether a page, known by its digest, is to be learnt from.

        Each of the first ALL_OF pages of a site, then a sample: it tells as much, for less.
        """
        known = self._sites.get(site)
        return known is None or known.n_pages < ALL_OF or digest[0] % ONE_IN == 0

    def learn(self, site: int, blocks: Blocks) -> None:
        """Count the blocks of a page that is kept, each once."""
        self.adopt(site, self._sites.get(site, NOTHING).with_page(each_once(blocks.hashes)))

    def known(self, site: int) -> Site | None:
        """What is known of a site."""
        return self._sites.get(site)

    def adopt(self, site: int, learnt: Site) -> None:
        """Take what was learnt of a site, here or elsewhere, for all that is known of it."""
        known = self._sites.pop(site, NOTHING)
        self._sites[site] = learnt
        self._n_blocks += len(learnt.hashes) - len(known.hashes)
        while self._n_blocks > MAX_BLOCKS:
            _, forgotten = self._sites.popitem(last=False)
            self._n_blocks -= len(forgotten.hashes)

    def own_words(self, site: int, blocks: Blocks) -> int:
        """How many words of a page stand outside the templates of its site."""
        known = self._sites.get(site)
        if known is None:
            return int(blocks.n_words.sum())
        self._sites.move_to_end(site)
        return int(blocks.n_words[~known.template(blocks.hashes)].sum())

    def __contains__(self, site: int) -> bool:
        """Whether any page of a site was learnt from and is not forgotten."""
        return site in self._sites

    def is_warm(self, site: int) -> bool:
        """Whether enough pages of a site were read to know its templates."""
        return site in self._sites and self._sites[site].n_pages >= WARM

    def __len__(self) -> int:
        """Sites known."""
        return len(self._sites)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(site.hashes.nbytes + site.counts.nbytes for site in self._sites.values())

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, sites in the order of their last use; fresh arrays."""
        sites = list(self._sites.values())
        return {
            "sites": np.array(list(self._sites), dtype=np.uint64),
            "n_pages": np.array([site.n_pages for site in sites], dtype=np.int64),
            "ends": np.cumsum([len(site.hashes) for site in sites], dtype=np.int64),
            "hashes": _joined([site.hashes for site in sites], np.uint64),
            "counts": _joined([site.counts for site in sites], np.uint32),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """What arrays() described; keeps views of the arrays and never writes to them."""
        templates, start = cls(), 0
        columns = (arrays[name].tolist() for name in ("sites", "n_pages", "ends"))
        for number, n_pages, end in zip(*columns, strict=True):
            hashes, counts = arrays["hashes"][start:end], arrays["counts"][start:end]
            templates._sites[number] = Site(n_pages, hashes, counts)
            start = templates._n_blocks = end
        return templates

    def check(self) -> None:
        """Blocks ascend, counts are within the pages, bounds are held. Raises BrokenInvariant."""
        for site in self._sites.values():
            site.check()
        n_blocks = sum(len(site.hashes) for site in self._sites.values())
        if n_blocks != self._n_blocks or n_blocks > MAX_BLOCKS:
            raise BrokenInvariant(f"{n_blocks} template blocks, counted as {self._n_blocks}")


def _joined(arrays: list[Any], dtype: Any) -> Any:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=dtype)

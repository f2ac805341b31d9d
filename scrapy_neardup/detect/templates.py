"""What a host repeats on its pages: navigation, notices and footers, learnt block by block."""

from __future__ import annotations

from collections import OrderedDict
from math import ceil, sqrt
from typing import Any, NamedTuple, Self

import numpy as np

from scrapy_neardup.detect.text import Blocks
from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U32Array, U64Array

MAX_BLOCKS = 2**21  # of all hosts
MAX_BLOCKS_OF_A_HOST = 2048
WARM = 4  # pages of a host from which on its templates are trusted


class Host(NamedTuple):
    """What is known of a host: on how many of its pages each block stood."""

    n_pages: int
    hashes: U64Array  # ascending
    counts: U32Array

    @property
    def threshold(self) -> int:
        """Pages that a block must stand on to be a template's.

        All of the first five, 8 of 16, 20 of 100, 200 of 10,000: a page in several versions
        is on fewer, the navigation of one of many sections on more.
        """
        return min(self.n_pages, ceil(2 * sqrt(self.n_pages)))

    def with_page(self, hashes: U64Array) -> Host:
        """The host after one more page, whose blocks come once and ascend.

        Of too many blocks the rarest are forgotten.
        """
        places, known = located(hashes, self.hashes)
        counts, new = self.counts.copy(), ~known
        counts[places[known]] += np.uint32(1)
        merged = np.insert(self.hashes, places[new], hashes[new])
        counts = np.insert(counts, places[new], 1)
        if len(merged) > MAX_BLOCKS_OF_A_HOST:
            kept = np.sort(np.argsort(counts, kind="stable")[-MAX_BLOCKS_OF_A_HOST // 2 :])
            merged, counts = merged[kept], counts[kept]
        return Host(self.n_pages + 1, merged, counts)

    def pack(self) -> bytes:
        """All of it, for another worker."""
        numbers = np.uint32(self.n_pages), self.hashes.astype("<u8"), self.counts.astype("<u4")
        return b"".join(part.tobytes() for part in numbers)

    @classmethod
    def unpack(cls, packed: bytes) -> Host:
        """What pack() described. Raises BrokenInvariant."""
        n_blocks, rest = divmod(len(packed) - 4, 12)
        if rest or n_blocks < 0:
            raise BrokenInvariant(f"templates of {len(packed)} bytes are not whole")
        n_pages = int(np.frombuffer(packed, "<u4", 1)[0])
        hashes = np.frombuffer(packed, "<u8", n_blocks, 4).astype(np.uint64)
        host = cls(n_pages, hashes, np.frombuffer(packed, "<u4", n_blocks, 4 + 8 * n_blocks))
        host.check()
        return host

    def check(self) -> None:
        """Blocks ascend, counts are within the pages. Raises BrokenInvariant."""
        ascending = bool(np.all(self.hashes[1:] > self.hashes[:-1]))
        counted = bool(np.all((self.counts >= 1) & (self.counts <= self.n_pages)))
        whole = len(self.hashes) == len(self.counts) <= MAX_BLOCKS_OF_A_HOST
        if not (ascending and counted and whole):
            raise BrokenInvariant("the templates of a host are damaged")

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


NOTHING = Host(0, np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32))


class HostTemplates:
    """Learns the template blocks of every host from the pages that are read, one at a time.

    Bounded: MAX_BLOCKS_OF_A_HOST and MAX_BLOCKS in all, 25 MB; the host that was unused longest
    is forgotten first. A block that appears late, as after a new design, becomes a template's
    once it has stood on enough pages; nothing is ever re-read.
    """

    def __init__(self) -> None:
        self._hosts: OrderedDict[int, Host] = OrderedDict()
        self._n_blocks = 0

    def learn(self, host: int, blocks: Blocks) -> None:
        """Count the blocks of a page, each once."""
        self.adopt(host, self._hosts.get(host, NOTHING).with_page(each_once(blocks.hashes)))

    def known(self, host: int) -> Host | None:
        """What is known of a host."""
        return self._hosts.get(host)

    def adopt(self, host: int, learnt: Host) -> None:
        """Take what was learnt of a host, here or elsewhere, for all that is known of it."""
        known = self._hosts.pop(host, NOTHING)
        self._hosts[host] = learnt
        self._n_blocks += len(learnt.hashes) - len(known.hashes)
        while self._n_blocks > MAX_BLOCKS:
            _, forgotten = self._hosts.popitem(last=False)
            self._n_blocks -= len(forgotten.hashes)

    def own_words(self, host: int, blocks: Blocks) -> int:
        """How many words of a page stand outside the templates of its host."""
        known = self._hosts.get(host)
        if known is None:
            return int(blocks.n_words.sum())
        self._hosts.move_to_end(host)
        return int(blocks.n_words[~known.template(blocks.hashes)].sum())

    def __contains__(self, host: int) -> bool:
        """Whether any page of a host was learnt from and is not forgotten."""
        return host in self._hosts

    def is_warm(self, host: int) -> bool:
        """Whether enough pages of a host were read to know its templates."""
        return host in self._hosts and self._hosts[host].n_pages >= WARM

    def __len__(self) -> int:
        """Hosts known."""
        return len(self._hosts)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(host.hashes.nbytes + host.counts.nbytes for host in self._hosts.values())

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, hosts in the order of their last use; fresh arrays."""
        hosts = list(self._hosts.values())
        return {
            "hosts": np.array(list(self._hosts), dtype=np.uint64),
            "n_pages": np.array([host.n_pages for host in hosts], dtype=np.int64),
            "ends": np.cumsum([len(host.hashes) for host in hosts], dtype=np.int64),
            "hashes": _joined([host.hashes for host in hosts], np.uint64),
            "counts": _joined([host.counts for host in hosts], np.uint32),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """What arrays() described; keeps views of the arrays and never writes to them."""
        templates, start = cls(), 0
        columns = (arrays[name].tolist() for name in ("hosts", "n_pages", "ends"))
        for number, n_pages, end in zip(*columns, strict=True):
            hashes, counts = arrays["hashes"][start:end], arrays["counts"][start:end]
            templates._hosts[number] = Host(n_pages, hashes, counts)
            start = templates._n_blocks = end
        return templates

    def check(self) -> None:
        """Blocks ascend, counts are within the pages, bounds are held. Raises BrokenInvariant."""
        for host in self._hosts.values():
            host.check()
        n_blocks = sum(len(host.hashes) for host in self._hosts.values())
        if n_blocks != self._n_blocks or n_blocks > MAX_BLOCKS:
            raise BrokenInvariant(f"{n_blocks} template blocks, counted as {self._n_blocks}")


def _joined(arrays: list[Any], dtype: Any) -> Any:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=dtype)

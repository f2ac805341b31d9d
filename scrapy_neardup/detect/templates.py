"""What a host repeats on its pages: navigation, notices and footers, learnt block by block."""

from __future__ import annotations

from collections import OrderedDict
from math import ceil, sqrt
from typing import Any, NamedTuple, Self

import numpy as np

import scrapy_neardup.kernels as kernels
from scrapy_neardup.errors import BrokenInvariant, SnapshotError
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U32Array, U64Array
from scrapy_neardup.stored_arrays import (
    Joined,
    check_arrays,
    check_below,
    check_starts,
    whole,
)

WHAT = "templates"
MAX_PAGES = 2**31  # of a host: counts have 32 bits
TEMPLATE_BYTES = 25_000_000  # of all hosts
MAX_BLOCKS_OF_A_HOST = 2048
WARM = 4  # pages of a host from which on its templates are trusted
BYTES_OF_A_BLOCK, BYTES_OF_A_HOST = 12, 512  # a hash and a count; two arrays and their places
UNUSED_PAGES = 100_000  # read since a host's last page: then it gives way to another host
PATIENCE = 1000  # pages until dropping blocks is tried again, where it made little room


Integers = U64Array | I64Array


class HostBlocks(NamedTuple):
    """What is known of a host: on how many of its pages each block stood.

    A count is too low by one for each time that blocks were dropped after they were seen once.
    """

    n_pages: int
    hashes: U64Array  # ascending
    counts: U32Array
    trimmed_at: int = 0  # how many pages were known when blocks seen once were dropped last
    used_at: int = 0  # how many pages of all hosts had been read when the last of these was

    @property
    def threshold(self) -> int:
        """Pages that a block must stand on to be a template's.

        All of the first five, 8 of 16, 20 of 100, 200 of 10,000: a page in several versions
        is on fewer, the navigation of one of many sections on more.
        """
        return min(self.n_pages, ceil(2 * sqrt(self.n_pages)))

    @property
    def is_warm(self) -> bool:
        """Whether enough pages were read to know its templates."""
        return self.n_pages >= WARM

    def with_page(self, hashes: U64Array) -> HostBlocks:
        """The host after one more page, whose blocks ascend, each counting once; after MAX_PAGES
        none."""
        if self.n_pages >= MAX_PAGES:
            return self
        counted = kernels.templates.counted(self.hashes, self.counts, hashes)
        return HostBlocks(self.n_pages + 1, *counted, self.trimmed_at, self.used_at)

    @property
    def is_too_large(self) -> bool:
        """Whether it has more blocks than are kept of one host."""
        return len(self.hashes) > MAX_BLOCKS_OF_A_HOST

    def bounded(self) -> HostBlocks:
        """The host without its rarest blocks if it has too many; never without a template's.

        One whose templates are too many is as if its pages had not been read.
        """
        if not self.is_too_large:
            return self
        n_templates = int((self.counts >= self.threshold).sum())
        if n_templates > MAX_BLOCKS_OF_A_HOST and self.n_pages >= WARM:
            return NOTHING
        n_kept = max(n_templates, MAX_BLOCKS_OF_A_HOST // 2)
        return self._only(np.sort(np.argsort(self.counts, kind="stable")[-n_kept:]))

    @property
    def may_be_trimmed(self) -> bool:
        """Whether its pages have doubled since it was trimmed.

        So counts are too low by log2(n_pages) at most, where a template's are 2 sqrt(n_pages).
        """
        return self.n_pages >= max(WARM, 2 * self.trimmed_at)

    def trimmed(self) -> HostBlocks:
        """The host without blocks seen once, most of which no other page will have."""
        kept = self._only(np.flatnonzero(self.counts > 1))
        return kept._replace(trimmed_at=self.n_pages)

    def _only(self, kept: I64Array) -> HostBlocks:
        return self._replace(hashes=self.hashes[kept], counts=self.counts[kept])

    @property
    def nbytes(self) -> int:
        """Bytes in memory, about."""
        return BYTES_OF_A_HOST + BYTES_OF_A_BLOCK * len(self.hashes)

    def pack(self) -> bytes:
        """All of it, for another worker."""
        numbers = np.uint32(self.n_pages), self.hashes.astype("<u8"), self.counts.astype("<u4")
        return b"".join(part.tobytes() for part in numbers)

    @classmethod
    def unpack(cls, packed: bytes) -> HostBlocks:
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
        whole = len(self.hashes) == len(self.counts)
        bounded = self.n_pages < WARM or not self.is_too_large
        bounded = bounded and self.n_pages <= MAX_PAGES
        if not (ascending and counted and whole and bounded):
            raise BrokenInvariant("the templates of a host are damaged")

    def template(self, hashes: U64Array) -> BoolArray:
        """Which of some blocks belong to a template."""
        found: BoolArray = kernels.templates.frequent(
            hashes, self.hashes, self.counts, self.threshold
        )
        return found


def located(numbers: Integers, known: Integers) -> tuple[I64Array, BoolArray]:
    """Where each number stands among the known ones, which ascend, or would; whether it does."""
    places = known.searchsorted(numbers)
    found: BoolArray = places < len(known)
    found[found] = known[places[found]] == numbers[found]
    return places, found


def each_once(hashes: U64Array) -> U64Array:
    """Some hashes, ascending, without repetition."""
    # Not np.unique(): asked for nothing else, it imports numpy.ma, in the middle of a crawl.
    ascending = np.sort(hashes)
    first = np.ones(len(ascending), dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return ascending[first]


NOTHING = HostBlocks(0, np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32))


class HostTemplates:
    """Learns the template blocks of every host from the pages that are read, one at a time.

    Bounded by max_bytes, and fair: no host makes another one forget. Where memory is short,
    blocks seen once are dropped, those of the largest hosts first; then a host that is not known
    yet is refused, and one that has no room to grow is forgotten itself. Only hosts of which none
    of the last UNUSED_PAGES pages was give way. A host that was refused or forgotten is not warm.

    A block that appears late, as after a new design, becomes a template's once it has stood on
    enough pages; nothing is ever re-read.
    """

    def __init__(self, max_bytes: int = TEMPLATE_BYTES) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self.n_without_room = 0  # pages whose host was refused or forgotten
        self._n_read = 0
        self._trim_from = 0  # pages read
        self._hosts: OrderedDict[int, HostBlocks] = OrderedDict()  # in the order of their last use

    def learn(self, host: int, hashes: U64Array) -> None:
        """Count the blocks of a page, each once."""
        self._n_read += 1
        self.adopt(host, self._hosts.get(host, NOTHING).with_page(np.sort(hashes)))

    def known(self, host: int) -> HostBlocks | None:
        """What is known of a host."""
        return self._hosts.get(host)

    def hosts(self) -> list[tuple[int, HostBlocks]]:
        """All hosts, and what is known of each."""
        return list(self._hosts.items())

    @property
    def has_room(self) -> bool:
        """Whether a host that is not known yet would be taken in."""
        return self._has_room(BYTES_OF_A_HOST, is_known=False)

    def adopt(self, host: int, learnt: HostBlocks) -> None:
        """Take what was learnt of a host, here or elsewhere, for all that is known of it."""
        is_known = host in self._hosts
        self.forget(host)
        learnt = learnt.bounded()
        if learnt.n_pages and self._has_room(learnt.nbytes, is_known):
            self._hosts[host] = HostBlocks(*learnt[:4], self._n_read)
            self.nbytes += learnt.nbytes
        else:
            self.n_without_room += 1

    def forget(self, host: int) -> None:
        """Forget what is known of a host."""
        known = self._hosts.pop(host, None)
        self.nbytes -= known.nbytes if known is not None else 0

    def _has_room(self, n_bytes: int, is_known: bool) -> bool:
        """Whether so many bytes more are within the bounds; makes room.

        The last eighth is for hosts that are known.
        """
        room = (self.max_bytes if is_known else self.max_bytes // 8 * 7) - n_bytes
        if self.nbytes > room:
            self._forget_unused(room)
        if self.nbytes > room and self._n_read >= self._trim_from:
            self._trim()
        return self.nbytes <= room

    def _forget_unused(self, room: int) -> None:
        while self._hosts and self.nbytes > room:
            host, known = next(iter(self._hosts.items()))
            if known.used_at > self._n_read - UNUSED_PAGES:
                return
            self.forget(host)

    def _trim(self) -> None:
        """Drop blocks seen once, of the largest hosts first, until a quarter is free."""
        before = self.nbytes
        for host, known in sorted(self._hosts.items(), key=lambda pair: -len(pair[1].hashes)):
            if self.nbytes <= self.max_bytes // 4 * 3:
                break
            if known.may_be_trimmed:
                self._hosts[host] = trimmed = known.trimmed()
                self.nbytes -= known.nbytes - trimmed.nbytes
        if before - self.nbytes < self.max_bytes // 16:
            self._trim_from = self._n_read + PATIENCE

    def __contains__(self, host: int) -> bool:
        """Whether any page of a host was learnt from and is not forgotten."""
        return host in self._hosts

    def is_warm(self, host: int) -> bool:
        """Whether enough pages of a host were read to know its templates; safe in any thread."""
        known = self._hosts.get(host)
        return known is not None and known.is_warm

    def __len__(self) -> int:
        """Hosts known."""
        return len(self._hosts)

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, hosts in the order of their last use."""
        hosts = list(self._hosts.values())
        return {
            "n_read": np.array([self._n_read], dtype=np.int64),
            "hosts": np.array(list(self._hosts), dtype=np.uint64),
            "n_pages": np.array([host.n_pages for host in hosts], dtype=np.int64),
            "trimmed_at": np.array([host.trimmed_at for host in hosts], dtype=np.int64),
            "used_at": np.array([host.used_at for host in hosts], dtype=np.int64),
            "ends": np.cumsum([len(host.hashes) for host in hosts], dtype=np.int64),
            # A host's arrays are never changed: with the next page it gets others.
            "hashes": Joined((np.empty(0, np.uint64), *(host.hashes for host in hosts))),
            "counts": Joined((np.empty(0, np.uint32), *(host.counts for host in hosts))),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], max_bytes: int = TEMPLATE_BYTES) -> Self:
        """What arrays() described; keeps views of the arrays and never writes to them.

        If it takes more than max_bytes, room is made when the next page is learnt from.
        O(blocks): all are checked. Raises SnapshotError.
        """
        arrays = {name: whole(array) for name, array in arrays.items()}
        _check(arrays)
        templates, start = cls(max_bytes), 0
        templates._n_read = int(arrays["n_read"][0])
        names = "hosts", "n_pages", "ends", "trimmed_at", "used_at"
        columns = (arrays[name].tolist() for name in names)
        for number, n_pages, end, trimmed_at, used_at in zip(*columns, strict=True):
            hashes, counts = arrays["hashes"][start:end], arrays["counts"][start:end]
            host = HostBlocks(n_pages, hashes, counts, trimmed_at, used_at)
            templates._hosts[number] = host
            templates.nbytes += host.nbytes
            start = end
        return templates

    def check(self) -> None:
        """Blocks ascend, counts are within the pages, bytes are counted. Raises BrokenInvariant."""
        for host in self._hosts.values():
            host.check()
        nbytes = sum(host.nbytes for host in self._hosts.values())
        if nbytes != self.nbytes:
            raise BrokenInvariant(f"templates of {nbytes} bytes, counted as {self.nbytes}")


def _check(arrays: dict[str, Any]) -> None:
    """Raises SnapshotError where Host.check() would raise; of all hosts at once."""
    some = (None,)
    check_arrays(WHAT, arrays, {"n_read": (np.int64, (1,)), "hosts": (np.uint64, some)})
    check_arrays(WHAT, arrays, {"hashes": (np.uint64, some), "counts": (np.uint32, some)})
    hosts, hashes, counts = arrays["hosts"], arrays["hashes"], arrays["counts"]
    of_hosts = dict.fromkeys(("n_pages", "ends", "trimmed_at", "used_at"), (np.int64, hosts.shape))
    check_arrays(WHAT, arrays, of_hosts | {"counts": (np.uint32, hashes.shape)})
    for name in ("n_read", "n_pages", "trimmed_at", "used_at"):
        check_below(f"{WHAT}, {name}", arrays[name], MAX_PAGES)
    starts = np.concatenate([np.zeros(1, np.int64), arrays["ends"]])
    check_starts(f"{WHAT}, ends", starts, len(hashes))
    host_of = np.repeat(np.arange(len(hosts)), np.diff(starts))
    n_pages, falls = arrays["n_pages"][host_of], hashes[1:] <= hashes[:-1]
    if (falls & (host_of[1:] == host_of[:-1])).any() or (counts - 1 >= n_pages).any():
        raise SnapshotError(f"{WHAT}: blocks of a host do not ascend, or stand on 0 pages or all")

"""The questions and messages of a fleet, as calls of scripts; each touches one shard."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from scrapy_neardup.detect.item_table import KeptItem
from scrapy_neardup.detect.page_table import site_number
from scrapy_neardup.detect.sites import site_of
from scrapy_neardup.detect.templates import HostBlocks
from scrapy_neardup.errors import FleetError
from scrapy_neardup.fleet import scripts
from scrapy_neardup.state.records import (
    KeptPage,
    pack_item,
    pack_page,
    unpack_item,
    unpack_page,
)
from scrapy_neardup.urls.filters.rotating import N_GENERATIONS
from scrapy_neardup.urls.filters.scalable import share_of
from scrapy_neardup.urls.filters.sizing import classic_bits

# Of what scripts and records leave on the server; to be raised with every change of it, so that
# workers of two versions do not misread each other.
LAYOUT = 6
N_SHARDS = 16  # of the URLs, each a slot of a cluster
# Of a site's pages in one shard, and so one slot: 4 to 6 GB. What comes then goes to the next one.
SHARD_PAGES = 4_000_000
MAX_SLICE_BITS = 2**32 - 8  # a value on the server is at most 512 MB
MAX_SLICES = 24
WORKER_BYTES = 4
LEASE_S = 4.0  # for which a heartbeat counts
SINCE_MS = 30 * 86_400_000  # for which it is known since when a worker has held its lease
_SECRET_BYTES = 8


class Call(NamedTuple):
    """One question or message. Idempotent: Link may send it twice."""

    script: str
    key: str
    arguments: tuple[Any, ...]
    read: Callable[[Any], Any]  # the server's answer → ours
    merges: bool = False  # with others of its script and key into one call
    # Whether it holds only while the server has all requests that it had, which it cannot check.
    needs_queue: bool = False
    # Of all that has its key, what it is about: messages about the same come in order.
    subject: bytes = b""


class LastAnswered(NamedTuple):
    """The last of a worker's calls for requests that the server answered.

    A server that has forgotten it has gone back, and may have lost requests.

    key     where the server keeps the numbers
    worker  empty where no requests wait there
    number  of that call
    """

    key: str
    worker: bytes
    number: int


NO_QUEUE = LastAnswered("", b"", 0)


class FilterSlice(NamedTuple):
    """One slice of a shard's Bloom filter."""

    size_bits: int
    n_hashes: int
    capacity: int


@dataclass(frozen=True, slots=True)
class SharedPage:
    """A page as the server knows it.

    stamp  of the worker that brought it and the page, WORKER_BYTES each: a URL's page may be
           brought by several workers, or again with other words
    shard  of its site's pages; a small site has one
    """

    stamp: bytes
    kept: KeptPage
    is_kept: bool = False  # whether one of its items left the pipelines
    shard: int = 0

    @property
    def worker(self) -> bytes:
        """Who brought it."""
        return self.stamp[:WORKER_BYTES]


class IndexOptions(NamedTuple):
    """The options of the server's page index: those of the local one."""

    distance: int
    blocks: int
    scan_limit: int  # entries that one look-up may compare
    ttl_ms: int = 0  # after which pages are forgotten; 0: never
    shard_pages: int = SHARD_PAGES


class TooManyEntries(FleetError):
    """Scan limit exceeded: the page was kept without being compared."""


class ShardSealed(FleetError):
    """A shard of a site's pages is full: the page was not admitted there.

    is_complete: whether all that is near it was looked at.
    """

    def __init__(self, is_complete: bool) -> None:
        super().__init__("a shard of a site's pages is full, and this page is in none")
        self.is_complete = is_complete


class ShardOpen(FleetError):
    """A shard that was sealed is not, or not any more: its server lost its data."""


class CallForgotten(FleetError):
    """A URL was not marked: the server has forgotten a call of the worker that it had answered."""


class FilterFull(FleetError):
    """A URL was not marked: every slice that its shard of the filter may have is full."""


def filter_slices(capacity: int, error_rate: float) -> list[FilterSlice]:
    """The slices of one shard, each with twice the keys and half the error rate left.

    Their rates add up to less than error_rate. No slice exceeds 512 MB; those that would have
    room for fewer keys.
    """
    made: list[FilterSlice] = []
    for n in range(MAX_SLICES):
        bits, n_hashes = classic_bits(error_rate * share_of(n))
        if n_hashes > 64:
            break
        n_keys = min(capacity << n, int(MAX_SLICE_BITS / bits))
        is_capped = n_keys < capacity << n
        size_bits = MAX_SLICE_BITS if is_capped else max(4096, int(bits * n_keys) + 1)
        made.append(FilterSlice(size_bits, n_hashes, n_keys))
    return made


class Questions:
    """URL filter and page index as calls, each atomic on the server.

    Keys begin with `{prefix:`, and what one call touches has one hash tag, so that a cluster
    can spread sites over its nodes.
    """

    def __init__(
        self, prefix: str, key: int, *, capacity: int, error_rate: float, index: IndexOptions
    ) -> None:
        """key: the fleet's secret, without which nobody can craft URLs that collide.

        capacity: URLs before the first growth, in all shards together; with a time to live those
        of an eighth of it, as is the error rate.
        """
        self._prefix = prefix
        self._secret = key.to_bytes(_SECRET_BYTES, "little")
        self._index = index
        slices = filter_slices(max(1, -(-capacity // N_SHARDS)), error_rate)
        listed = ",".join(f"{{{s.size_bits},{s.n_hashes},{s.capacity}}}" for s in slices)
        part_ms = -(-index.ttl_ms // N_GENERATIONS)
        self._seen, self._mark = scripts.SEEN % (listed, part_ms), scripts.MARK % (listed, part_ms)
        self._look, self._admit = scripts.LOOK % index, scripts.ADMIT % index
        self._keep = scripts.KEEP % index
        self._forget, self._status = scripts.FORGET % index, scripts.STATUS % index
        self._keep_item = scripts.KEEP_ITEM % index.ttl_ms

    def seen(self, key: bytes) -> Call:
        """Whether any worker marked a URL; a false yes at most at the error rate."""
        return Call(self._seen, self._shard(key), self._hashes(key), bool, merges=True)

    def mark(self, key: bytes, last: LastAnswered = NO_QUEUE) -> Call:
        """Mark a URL as seen; whether it was not marked before. Raises FilterFull, CallForgotten.

        last: what the server has to know, or the URL is not marked.
        """
        arguments = (*self._hashes(key), *last)
        return Call(self._mark, self._shard(key), arguments, _marked, merges=True)

    def admit(self, page: SharedPage, compared: Sequence[bytes] = ()) -> Call:
        """Remember a page and answer [], or answer the pages to compare it with first.

        If two workers bring near pages at the same moment, the later one is given the earlier
        page. The page replaces an earlier one of its URL that is among `compared`.

        compared: stamps of pages not to return again. Raises TooManyEntries, ShardSealed.
        """
        return self._find(self._admit, page, compared)

    def look(self, page: SharedPage, compared: Sequence[bytes] = ()) -> Call:
        """The pages of a sealed shard to compare a page with. Raises TooManyEntries, ShardOpen."""
        return self._find(self._look, page, compared)

    def _find(self, script: str, page: SharedPage, compared: Sequence[bytes]) -> Call:
        record = b"u" + page.stamp + pack_page(page.kept)
        id = self._id(page)
        read = partial(self._to_compare, page.shard)
        return Call(script, self._site(page), (id, record, *compared), read, subject=id)

    def keep(self, page: SharedPage) -> Call:
        """An item of the page was kept: pages that repeat it may be dropped from now on."""
        return self._about(self._keep, page, bool)

    def forget(self, page: SharedPage) -> Call:
        """Forget the page: nothing counts as its repeat any more."""
        return self._about(self._forget, page, bool)

    def status(self, page: SharedPage) -> Call:
        """ "kept", "undecided", or None where the page was forgotten."""
        return self._about(self._status, page, _status)

    def is_alive(self, worker: bytes) -> Call:
        """Whether a worker's lease has not expired."""
        return Call(scripts.IS_ALIVE, _worker(self._prefix, worker), (), bool)

    def templates(self, host: int) -> Call:
        """What was learnt of a host's templates; None if nothing was."""
        return Call(scripts.TEMPLATES, self._templates(host), (), _host)

    def teach(self, host: int, packed: bytes) -> Call:
        """Let others know what was learnt of a host, if it comes of more pages."""
        return Call(scripts.TEACH, self._templates(host), (packed,), bool)

    def keep_item(self, item: KeptItem) -> Call:
        """An item was kept: items with the same data may be dropped from now on."""
        key = items_key(self._prefix, item.page)
        return Call(self._keep_item, key, (pack_item(item),), bool)

    def items(self, page: int) -> Call:
        """What was kept of the items of a page, by its name, and of its copies."""
        return Call(scripts.ITEMS, items_key(self._prefix, page), (), _unpacked_items)

    def _templates(self, host: int) -> str:
        return f"{{{self._prefix}:t:{host:016x}}}"

    def _about(self, script: str, page: SharedPage, read: Callable[[Any], Any]) -> Call:
        id = self._id(page)
        return Call(script, self._site(page), (id, page.stamp), read, subject=id)

    def _to_compare(self, shard: int, answer: list[Any]) -> list[SharedPage]:
        if answer[0] == 2:
            limit = self._index.scan_limit
            raise TooManyEntries(f"more than {limit:,} fingerprints in the buckets of one page")
        if answer[0] == 3:
            raise ShardOpen("a shard of a site's pages that was sealed is open")
        if answer[0] in (4, 5):
            raise ShardSealed(is_complete=answer[0] == 4)
        return [unpack_shared(page, shard) for page in answer[1:]]

    def _shard(self, key: bytes) -> str:
        host = key.partition(b"/")[0].decode("utf-8", "replace")
        return shard_of_site(self._prefix, site_of(f"http://{host}"))

    def _site(self, page: SharedPage) -> str:
        """Each shard of a site's pages is a slot of its own."""
        shard = f":{page.shard}" if page.shard else ""
        return f"{{{self._prefix}:p:{page.kept.page.site:016x}{shard}}}"

    def _id(self, page: SharedPage) -> bytes:
        """Six bytes of a URL's digest. URLs of a site with the same six count as one page."""
        url = page.kept.page.url.encode("utf-8", "surrogatepass")
        return blake2b(url, digest_size=6, key=self._secret, person=b"neardup-page").digest()

    def _hashes(self, key: bytes) -> tuple[int, int]:
        """Two numbers of 44 bits: Lua's numbers are doubles, in which their sums are exact."""
        digest = blake2b(key, digest_size=16, key=self._secret, person=b"neardup-fleet").digest()
        low, high = struct.unpack("<QQ", digest)
        return low >> 20, high >> 20 | 1


def fleet(prefix: str) -> Call:
    """The fleet's secret, specification and epoch; None if nobody has joined yet."""
    return Call(scripts.FLEET, _fleet(prefix), (), _as_it_is)


def join(
    prefix: str, secret: str, identity: str, epoch: bytes, read: Callable[[bytes, bytes], Any]
) -> Call:
    """Be the first of a fleet, or find out whose it is: `read` gets its epoch and identity."""
    arguments = (secret, identity, epoch)
    return Call(scripts.JOIN, _fleet(prefix), arguments, lambda found: read(found[2], found[1]))


def beat(prefix: str, worker: bytes, epoch: bytes, read: Callable[[bytes, bytes], Any]) -> Call:
    """A heartbeat: renews the worker's lease of LEASE_S, and reads the fleet's epoch.

    epoch: how it is to begin. `read` gets the epoch, empty if there is none, and the identity if
    the epoch begins otherwise.
    """
    lease_ms = int(1000 * LEASE_S)
    since = f"{{{prefix}}}:since:{worker.hex()}", SINCE_MS
    arguments = (lease_ms, _fleet(prefix), epoch, frontier_key(prefix) + ":workers", worker, *since)
    return Call(scripts.BEAT, _worker(prefix, worker), arguments, lambda found: read(*found))


def _fleet(prefix: str) -> str:
    return f"{{{prefix}}}:fleet"


def frontier_key(prefix: str) -> str:
    """How the keys of the fleet's shared frontier begin; in the slot of the fleet."""
    return f"{{{prefix}}}:q"


def items_key(prefix: str, page: int) -> str:
    """Where it is what was kept of the items of a page, by its name."""
    return f"{{{prefix}:i:{page:016x}}}"


def rules_key(prefix: str) -> str:
    """Where learnt rules are; in the slot of the fleet."""
    return f"{{{prefix}}}:rules"


def visits_key(prefix: str, site: str) -> str:
    """How the keys of a site's visits begin; in the slot of its URLs."""
    return f"{shard_of_site(prefix, site)}:v:{site_number(site):016x}"


def shard_of_site(prefix: str, site: str) -> str:
    """How the keys begin of what is known of a site's URLs."""
    digest = blake2b(site.encode(), digest_size=1).digest()
    return _shard(prefix, digest[0] % N_SHARDS)


def shards_of(prefix: str) -> list[str]:
    """How the keys begin of what is known of URLs."""
    return [_shard(prefix, n) for n in range(N_SHARDS)]


def _shard(prefix: str, n: int) -> str:
    return f"{{{prefix}:u:{n}}}"


def _worker(prefix: str, worker: bytes) -> str:
    """In the slot of the fleet, so that a heartbeat can read both."""
    return f"{{{prefix}}}:w:{worker.hex()}"


def unpack_shared(page: bytes, shard: int = 0) -> SharedPage:
    """A page as the server has it."""
    return SharedPage(page[1:9], unpack_page(page[9:]), page[:1] == b"k", shard)


def _unpacked_items(answer: list[bytes]) -> list[KeptItem]:
    return [unpack_item(item) for item in answer]


def _host(answer: bytes | None) -> HostBlocks | None:
    return None if answer is None else HostBlocks.unpack(answer)


def _as_it_is(answer: Any) -> Any:
    return answer


def _marked(answer: int) -> bool:
    if answer == 2:
        raise FilterFull(
            f"a shard of the URL filter is full at {MAX_SLICES} slices. Give the fleet another "
            f"NEARDUP_BACKEND_PREFIX, or raise NEARDUP_URL_CAPACITY"
        )
    if answer == 3:
        raise CallForgotten("a URL was not marked: the server has forgotten a call of this worker")
    return answer == 0


def _status(answer: bytes | None) -> str | None:
    return None if answer is None else {b"k": "kept", b"u": "undecided"}[answer]


def pairs_of(answer: list[bytes]) -> dict[bytes, bytes]:
    """The fields of a hash, as a script gives them: each name with its value behind it."""
    return dict(zip(answer[::2], answer[1::2], strict=True))

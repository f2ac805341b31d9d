"""The server's questions and answers: URLs and pages, each one round trip. Blocks; for threads."""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha1
from itertools import pairwise
from typing import Any, NamedTuple

from scrapy_neardup.bloom.chain import FIRST_SHARE
from scrapy_neardup.bloom.sizing import classic_bits
from scrapy_neardup.detector import site_of
from scrapy_neardup.errors import FleetError
from scrapy_neardup.fleet import scripts
from scrapy_neardup.state.records import KeptPage, pack_page, unpack_page
from scrapy_neardup.state.secret import new_key

N_SHARDS = 16  # of the URLs, each a slot of a cluster
MAX_SLICE_BITS = 2**32 - 8  # a value on the server is at most 512 MB
MAX_SLICES = 24
CONNECT_S, ANSWER_S = 1.0, 2.0
_SECRET_BYTES = 8


class Shape(NamedTuple):
    """One slice of a shard's Bloom filter."""

    size_bits: int
    n_hashes: int
    capacity: int


@dataclass(frozen=True, slots=True)
class SharedPage:
    """A page as the server knows it. id: 8 random bytes, chosen by the worker that brought it."""

    id: bytes
    kept: KeptPage
    is_kept: bool = False  # whether an item of it left the pipelines


class Rules(NamedTuple):
    """How pages are found on the server, as in the local index."""

    distance: int
    blocks: int
    limit: int  # entries that one look-up may compare


class TooManyEntries(FleetError):
    """A page's buckets hold more entries than one look-up may compare."""


def shapes(capacity: int, error_rate: float) -> list[Shape]:
    """The slices of one shard, each with twice the keys and half the error rate left.

    Their rates add up to less than error_rate. Ends where a slice would exceed 512 MB.
    """
    made: list[Shape] = []
    for n in range(MAX_SLICES):
        rate = error_rate * (FIRST_SHARE if n == 0 else (1 - FIRST_SHARE) / 2**n)
        bits, n_hashes = classic_bits(rate)
        size_bits = max(4096, int(bits * (capacity << n)) + 1)
        if size_bits > MAX_SLICE_BITS or n_hashes > 64:
            break
        made.append(Shape(size_bits, n_hashes, capacity << n))
    return made


def connect(url: str) -> Any:
    """A client of redis-py for a URL, TLS and cluster included; connects when first used.

    Raises FleetError where redis-py is missing.
    """
    try:
        import redis
    except ImportError as error:
        raise FleetError(
            "NEARDUP_BACKEND needs redis-py: pip install 'scrapy-neardup[redis]'"
        ) from error
    options: dict[str, Any] = {
        "socket_connect_timeout": CONNECT_S,
        "socket_timeout": ANSWER_S,
    }
    scheme, _, rest = url.partition("://")
    if scheme.endswith("+cluster"):
        plain = f"{scheme.removesuffix('+cluster')}://{rest}"
        return redis.cluster.RedisCluster.from_url(plain, **options)
    return redis.Redis.from_url(url, **options)


class Server:
    """URL filter and page index on a Valkey or Redis server, for many workers at once.

    Every method is atomic on the server and raises what redis-py raises where it cannot be
    reached. Keys begin with `{prefix:`, and what one call touches has one hash tag, so that a
    cluster can spread sites over its nodes.
    """

    def __init__(
        self, url: str, prefix: str, *, capacity: int, error_rate: float, rules: Rules
    ) -> None:
        """capacity: URLs before the first growth, in all shards together."""
        self._client = connect(url)
        self._prefix = prefix
        self._rules = rules
        self._secret = b""
        slices = shapes(max(1, -(-capacity // N_SHARDS)), error_rate)
        listed = ",".join(f"{{{s.size_bits},{s.n_hashes},{s.capacity}}}" for s in slices)
        self._seen, self._mark = scripts.SEEN % listed, scripts.MARK % listed

    def shared_key(self, wanted: int | None) -> int:
        """The fleet's secret: the one given, else the server's, drawn by whoever comes first."""
        if wanted is None:
            name = f"{{{self._prefix}}}:key"
            self._client.set(name, f"{new_key():016x}", nx=True)
            wanted = int(self._client.get(name), 16)
        self.use_key(wanted)
        return wanted

    def use_key(self, key: int) -> None:
        """Hash URLs under a secret, so that nobody outside can craft collisions."""
        self._secret = key.to_bytes(_SECRET_BYTES, "little")

    def agree(self, identity: Mapping[str, Any]) -> None:
        """Hold every worker to the same specification. Raises FleetError."""
        name = f"{{{self._prefix}}}:identity"
        ours = json.dumps(dict(identity), sort_keys=True)
        self._client.set(name, ours, nx=True)
        theirs = json.loads(self._client.get(name))
        differences = [
            f"{part} is {theirs.get(part)!r} there and {value!r} here"
            for part, value in identity.items()
            if theirs.get(part) != value
        ]
        if differences:
            raise FleetError(
                f"the fleet under NEARDUP_BACKEND_PREFIX={self._prefix!r} has another "
                f"specification: {', '.join(differences)}. Give all workers the same settings, "
                f"or another prefix"
            )

    def seen(self, key: bytes) -> bool:
        """Whether a URL was marked by any worker; wrongly so at the error rate at most."""
        return bool(self._run(self._seen, self._shard(key), *self._hashes(key))[0])

    def mark(self, key: bytes) -> None:
        """Mark a URL as seen, if the filter has room for it."""
        self._run(self._mark, self._shard(key), *self._hashes(key))

    def admit(self, page: SharedPage, compared: Sequence[bytes] = ()) -> list[SharedPage]:
        """Remember a page, unless there are pages to compare it with first; then these.

        Atomic: of two workers that bring twins at the same moment, the later one is given the
        earlier one's. compared: ids that need not be given again. Raises TooManyEntries.
        """
        rules, row = self._rules, page.kept.page
        blocks = self._blocks(page.kept)
        answer = self._run(
            scripts.ADMIT,
            self._site(row.site),
            page.id,
            *self._names(page.kept),
            pack_page(page.kept),
            struct.pack(">Q", row.fingerprint),
            rules.distance,
            rules.limit,
            len(blocks),
            *blocks,
            *compared,
        )
        if answer[0] == 2:
            raise TooManyEntries(f"more than {rules.limit:,} fingerprints share bits with a page")
        return [_unpacked(*pair) for pair in zip(answer[1::2], answer[2::2], strict=True)]

    def keep(self, page: SharedPage) -> None:
        """An item of the page was kept: from now on others may be dropped for it."""
        self._run(scripts.KEEP, self._site(page.kept.page.site), page.id)

    def forget(self, page: SharedPage) -> None:
        """Nothing shall count as the page's repeat any more."""
        blocks = self._blocks(page.kept)
        names = self._names(page.kept)
        self._run(scripts.FORGET, self._site(page.kept.page.site), page.id, *names, *blocks)

    def status(self, page: SharedPage) -> str | None:
        """ "kept", "undecided", or None where the page was forgotten."""
        status = self._run(scripts.STATUS, self._site(page.kept.page.site), page.id)
        return None if status is None else {b"k": "kept", b"u": "undecided"}[status]

    def close(self) -> None:
        """Close every connection."""
        self._client.close()

    def _run(self, script: str, key: str, *arguments: Any) -> Any:
        from redis.exceptions import NoScriptError

        name = sha1(script.encode(), usedforsecurity=False).hexdigest()
        try:
            return self._client.evalsha(name, 1, key, *arguments)
        except NoScriptError:  # the first call, or a server that was restarted
            return self._client.eval(script, 1, key, *arguments)

    def _shard(self, key: bytes) -> str:
        host = key.partition(b"/")[0].decode("utf-8", "replace")
        digest = blake2b(site_of(f"http://{host}").encode(), digest_size=1).digest()
        return f"{{{self._prefix}:u:{digest[0] % N_SHARDS}}}"

    def _site(self, site: int) -> str:
        return f"{{{self._prefix}:p:{site:016x}}}"

    def _hashes(self, key: bytes) -> tuple[int, int]:
        """Two hashes of 44 bits: with up to 64 steps their sums are exact in a double."""
        digest = blake2b(key, digest_size=16, key=self._secret, person=b"neardup-fleet").digest()
        low, high = struct.unpack("<QQ", digest)
        return low >> 20, high >> 20 | 1

    def _blocks(self, kept: KeptPage) -> list[int]:
        """The fingerprint cut into blocks; none for a page that is only compared exactly."""
        if not kept.indexed:
            return []
        cuts = [64 * n // self._rules.blocks for n in range(self._rules.blocks + 1)]
        fingerprint = kept.page.fingerprint
        return [fingerprint >> low & (1 << high - low) - 1 for low, high in pairwise(cuts)]

    def _names(self, kept: KeptPage) -> tuple[bytes, bytes]:
        url = kept.page.url.encode("utf-8", "surrogatepass")
        return kept.page.digest, blake2b(url, digest_size=16).digest()


def _unpacked(id: bytes, record: bytes) -> SharedPage:
    return SharedPage(id, KeptPage(*unpack_page(record[1:])), record[:1] == b"k")

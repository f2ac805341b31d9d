"""The bits of URL filters in plain Python over uint64 words: fallback and oracle.

Digest of a segment: SipHash-1-3 with 128 bits over the number of its layer (8 bytes, least
significant first) and its bytes, under a secret key. The running XOR of the digests is the
digest of each prefix, at the end of the whole URL; fmix64, taking in how many segments
there are, turns it into two words h1, h2.

Bits of a key, n_hashes of them: classic, the upper word of (h1 + i * h2) * size_bits; blocked,
9-bit slices of the stream h2, fmix64(h2 + GOLDEN), … inside the block of 512 bits that the
upper word of h1 * n_blocks names. Fresh slices, because double hashing inside a block has an
error floor of 4e-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.mix import GOLDEN, MASK, fmix64

FULL = -1

BLOCK_BITS = 512
SLICE_BITS = 9
SLICES_IN_WORD = 7


def sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    """One round of SipHash (Aumasson and Bernstein 2012, section 2)."""
    v0 = (v0 + v1) & MASK
    v1 = ((v1 << 13) & MASK | v1 >> 51) ^ v0
    v0 = (v0 << 32) & MASK | v0 >> 32
    v2 = (v2 + v3) & MASK
    v3 = ((v3 << 16) & MASK | v3 >> 48) ^ v2
    v0 = (v0 + v3) & MASK
    v3 = ((v3 << 21) & MASK | v3 >> 43) ^ v0
    v2 = (v2 + v1) & MASK
    v1 = ((v1 << 17) & MASK | v1 >> 47) ^ v2
    v2 = (v2 << 32) & MASK | v2 >> 32
    return v0, v1, v2, v3


@lru_cache(maxsize=2**14)
def digest(k0: int, k1: int, layer: int, segment: bytes) -> tuple[int, int]:
    """SipHash-1-3-128 of a segment in its layer, as two 64-bit words.

    Cached, because hosts and directories come again and again.
    """
    data = layer.to_bytes(8, "little") + segment
    tail = len(data) % 8
    last = int.from_bytes(data[len(data) - tail :], "little") | (len(data) & 0xFF) << 56
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    for at in range(0, len(data) - tail, 8):
        word = int.from_bytes(data[at : at + 8], "little")
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3 ^ word)
        v0 ^= word
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3 ^ last)
    v0, v2 = v0 ^ last, v2 ^ 0xEE
    for _ in range(3):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for _ in range(3):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


def split(key: str | bytes) -> list[bytes]:
    """The segments of a key: cut at `/`, up to the first `?`. A str is taken as UTF-8."""
    if isinstance(key, str):
        key = key.encode()
    path, mark, query = key.partition(b"?")
    segments = path.split(b"/")
    segments[-1] += mark + query
    return segments


def prefixes(seed: tuple[int, int], key: str | bytes, layers: int) -> list[tuple[int, int, int]]:
    """(layer, h1, h2) of each directory above the page, `layers` at most, then of the URL.

    The URL is layer `layers + 1` at any depth.
    """
    segments = split(key)
    depth, low, high = len(segments), 0, 0
    found = []
    for n, segment in enumerate(segments, start=1):
        a, b = digest(*seed, n, segment)
        low, high = low ^ a, high ^ b
        if n == depth or n <= layers:
            layer = layers + 1 if n == depth else n
            found.append((layer, fmix64(low ^ n), fmix64(high ^ n)))
    return found


def classic_positions(h1: int, h2: int, size_bits: int, n_hashes: int) -> list[int]:
    """Double hashing (Kirsch and Mitzenmacher 2006) over any number of bits."""
    step = h2 | 1
    return [((h1 + i * step) & MASK) * size_bits >> 64 for i in range(n_hashes)]


def blocked_positions(h1: int, h2: int, size_bits: int, n_hashes: int) -> list[int]:
    """Independent bits inside one block of 512, a cache line."""
    start = (h1 * (size_bits // BLOCK_BITS) >> 64) * BLOCK_BITS
    positions = []
    for i in range(n_hashes):
        if i and i % SLICES_IN_WORD == 0:
            h2 = fmix64((h2 + GOLDEN) & MASK)
        positions.append(start + (h2 >> SLICE_BITS * (i % SLICES_IN_WORD) & (BLOCK_BITS - 1)))
    return positions


class LayeredBits:
    """The bit arrays of a layered Bloom filter, bound once for calls with single keys.

    seed    two secret words
    layout  uint64, shape (slices, 4): layer, n_hashes, blocked, limit; by layer, then age.
            The layers are 1, 2, … and the last one holds whole URLs.
    counts  of each slice uint64, shape (2,): keys and bits set
    words   of each slice its bits; counts and words of a layer's newest slice are written to

    Not for two threads at once.
    """

    def __init__(
        self,
        seed: U64Array,
        layout: U64Array,
        counts: Sequence[U64Array],
        words: Sequence[U64Array],
    ) -> None:
        self.seed = (int(seed[0]), int(seed[1]))
        self.layers = int(layout[-1, 0]) - 1
        self.counts = counts
        self.slices: list[list[tuple[int, memoryview, int, bool, int]]] = [
            [] for _ in range(self.layers + 2)
        ]
        for number, (layer, n_hashes, blocked, limit) in enumerate(layout.tolist()):
            view = words[number].data
            self.slices[layer].append((number, view, n_hashes, bool(blocked), limit))

    def find(self, key: str | bytes) -> int:
        """0 if the key may have been added, else the first layer that has not seen it."""
        for layer, h1, h2 in prefixes(self.seed, key, self.layers):
            if not self.holds(layer, h1, h2):
                return layer
        return 0

    def __contains__(self, key: str | bytes) -> bool:
        """Whether the key may have been added."""
        return self.find(key) == 0

    def add(self, key: str | bytes) -> int:
        """Like find, and adds the key.

        FULL, and nothing is changed, where the newest slice of a layer has reached its limit.
        """
        if any(self.is_full(layer) for layer in range(1, self.layers + 2)):
            return FULL
        first = 0
        for layer, h1, h2 in prefixes(self.seed, key, self.layers):
            if self.put(layer, h1, h2) and not first:
                first = layer
        return first

    def find_many(self, keys: Sequence[str | bytes]) -> I64Array:
        """find for each key."""
        return find_each(self, keys)

    def add_many(self, keys: Sequence[str | bytes]) -> I64Array:
        """add for each key in turn; from the first FULL on, all are FULL."""
        return add_each(self, keys)

    def is_full(self, layer: int) -> bool:
        number, _, _, _, limit = self.slices[layer][-1]
        return int(self.counts[number][0]) >= limit

    def holds(self, layer: int, h1: int, h2: int) -> bool:
        return any(
            all(view[at >> 6] >> (at & 63) & 1 for at in positions(h1, h2, view, n_hashes, blocked))
            for _, view, n_hashes, blocked, _ in reversed(self.slices[layer])
        )

    def put(self, layer: int, h1: int, h2: int) -> bool:
        """Add to the newest slice what no slice holds; whether it was new."""
        if self.holds(layer, h1, h2):
            return False
        number, view, n_hashes, blocked, _ = self.slices[layer][-1]
        n_set = 0
        for at in positions(h1, h2, view, n_hashes, blocked):
            n_set += not view[at >> 6] >> (at & 63) & 1
            view[at >> 6] |= 1 << (at & 63)
        self.counts[number][:] += np.array([1, n_set], np.uint64)
        return True


def positions(h1: int, h2: int, view: memoryview, n_hashes: int, blocked: bool) -> list[int]:
    place = blocked_positions if blocked else classic_positions
    return place(h1, h2, len(view) * 64, n_hashes)


class TableBits:
    """64-bit fingerprints of keys by linear probing, bound once for calls with single keys.

    seed    two secret words
    places  uint64, shape (a power of two,), written to: fingerprints, 0 where free
    n_keys  uint64, shape (1,), written to
    limit   keys at which add refuses; below len(places)

    A fingerprint is h1 of the key, 1 where that is 0; its home is what its upper bits say.
    In which order fingerprints stand is no promise. Not for two threads at once.
    """

    def __init__(self, seed: U64Array, places: U64Array, n_keys: U64Array, limit: int) -> None:
        self.seed = (int(seed[0]), int(seed[1]))
        self.places = places.data
        self.n_keys = n_keys
        self.limit = limit
        self.mask = len(places) - 1
        self.shift = 65 - len(places).bit_length()

    def fingerprint(self, key: str | bytes) -> int:
        return prefixes(self.seed, key, 0)[0][1] or 1

    def place(self, fingerprint: int) -> int:
        """Where a fingerprint is, or would go."""
        at = fingerprint >> self.shift
        while self.places[at] not in (0, fingerprint):
            at = (at + 1) & self.mask
        return at

    def find(self, key: str | bytes) -> int:
        """0 if the key may have been added, else 1."""
        return int(not self.places[self.place(self.fingerprint(key))])

    def __contains__(self, key: str | bytes) -> bool:
        """Whether the key may have been added."""
        return self.find(key) == 0

    def add(self, key: str | bytes) -> int:
        """Like find, and adds the key. FULL, and nothing is changed, at the limit."""
        if int(self.n_keys[0]) >= self.limit:
            return FULL
        fingerprint = self.fingerprint(key)
        at = self.place(fingerprint)
        if self.places[at]:
            return 0
        self.places[at] = fingerprint
        self.n_keys += np.uint64(1)
        return 1

    def find_many(self, keys: Sequence[str | bytes]) -> I64Array:
        """find for each key."""
        return find_each(self, keys)

    def add_many(self, keys: Sequence[str | bytes]) -> I64Array:
        """add for each key in turn; from the first FULL on, all are FULL."""
        return add_each(self, keys)

    def refill(self, places: U64Array) -> None:
        """Take in all of another table's fingerprints; this one is empty. n_keys is kept.

        In ascending order each stands at its home or after the one before, so that all
        places are one running maximum.
        """
        known = np.sort(places[places != 0])
        if not len(known):
            return
        order = np.arange(len(known))
        homes = (known >> np.uint64(self.shift)).astype(np.int64)
        at = np.maximum.accumulate(homes - order) + order
        inside = at <= self.mask
        np.asarray(self.places)[at[inside]] = known[inside]
        for fingerprint in known[~inside].tolist():
            self.places[self.place(fingerprint)] = fingerprint


def find_each(bits: LayeredBits | TableBits, keys: Sequence[str | bytes]) -> I64Array:
    return np.fromiter(map(bits.find, keys), np.int64, len(keys))


def add_each(bits: LayeredBits | TableBits, keys: Sequence[str | bytes]) -> I64Array:
    answers = np.full(len(keys), FULL, np.int64)
    for i, key in enumerate(keys):
        answers[i] = bits.add(key)
        if answers[i] == FULL:
            break
    return answers

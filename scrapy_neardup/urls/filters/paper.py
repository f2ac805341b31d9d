"""The filters of the multi-layer paper to the letter, for comparison only: they lose pages."""

from __future__ import annotations

import mmh3

from scrapy_neardup.kernels.numpy_twin.bloom import split


class PaperBloomFilter:
    """The classic filter of the paper's section III, over whole URLs; add and look-up O(k).

    size_bits   m
    n_hashes    k, murmur3_x64_128 under the seeds 0 to k - 1
    """

    def __init__(self, size_bits: int, n_hashes: int = 3) -> None:
        self.size_bits = size_bits
        self.n_hashes = n_hashes
        self._bits = bytearray(size_bits // 8 + 1)

    @property
    def nbytes(self) -> int:
        return len(self._bits)

    def add(self, key: bytes) -> None:
        for at in addresses(key, self.n_hashes, self.size_bits):
            self._bits[at >> 3] |= 1 << (at & 7)

    def __contains__(self, key: bytes) -> bool:
        where = addresses(key, self.n_hashes, self.size_bits)
        return all(self._bits[at >> 3] >> (at & 7) & 1 for at in where)


class PaperLayeredBloomFilter:
    """The multi-layer filter of the paper's section IV, Algorithms 1 and 2. Do not crawl with it.

    size_bits   m, of each of layers + 1 arrays
    n_hashes    k
    layers      L; what is left of a longer URL is one segment of layer L, the kindest reading

    Its defects, all kept: one set of hashes for all layers, so that the XOR of addresses
    commutes and cancels: /a/b hides /b/a, /x/x hides /y/y. The XOR leaves an array whose
    size is no power of two; so that nothing is written out of bounds, layer L + 1 has the next
    power of two here. The product of the layers' error rates that it claims takes segments
    as independent; where host and directories are known, the last layer's rate is all there is.
    Two slips of its print are not kept: Algorithm 2 updates LAddr behind `return false`, and
    the text gives layer L + 1 `k bits`.

    Source: Cen, Xu, Sun, A Multi-Layer Bloom Filter for Duplicated URL Detection.
    """

    def __init__(self, size_bits: int, n_hashes: int = 3, layers: int = 4) -> None:
        self.size_bits = size_bits
        self.n_hashes = n_hashes
        self.layers = layers
        self._segments = [bytearray(size_bits // 8 + 1) for _ in range(layers)]
        self._whole = bytearray(1 << max(0, (size_bits - 1).bit_length() - 3))

    @property
    def nbytes(self) -> int:
        return sum(map(len, self._segments)) + len(self._whole)

    def add(self, key: bytes) -> None:
        """Algorithm 1."""
        whole = [0] * self.n_hashes
        for bits, segment in zip(self._segments, self._split(key), strict=False):
            for j, at in enumerate(addresses(segment, self.n_hashes, self.size_bits)):
                bits[at >> 3] |= 1 << (at & 7)
                whole[j] ^= at
        for at in whole:
            self._whole[at >> 3] |= 1 << (at & 7)

    def __contains__(self, key: bytes) -> bool:
        """Algorithm 2."""
        whole = [0] * self.n_hashes
        for bits, segment in zip(self._segments, self._split(key), strict=False):
            for j, at in enumerate(addresses(segment, self.n_hashes, self.size_bits)):
                if not bits[at >> 3] >> (at & 7) & 1:
                    return False
                whole[j] ^= at
        return all(self._whole[at >> 3] >> (at & 7) & 1 for at in whole)

    def _split(self, key: bytes) -> list[bytes]:
        segments = split(key)
        rest = b"/".join(segments[self.layers - 1 :])
        return [*segments[: self.layers - 1], rest] if len(segments) > self.layers else segments


def addresses(data: bytes, n_hashes: int, size_bits: int) -> list[int]:
    """Hash_1 … Hash_k of the paper."""
    return [mmh3.hash128(data, seed) % size_bits for seed in range(n_hashes)]

"""SimHashCore: the paper's SHC (Figures 7 and 8), one character at a time."""

from __future__ import annotations

from collections.abc import Callable

from scrapy_neardup.engines.fpga.design import NUL, SPACE, Design, Mixer
from scrapy_neardup.kernels.numpy_twin.mix import MASK, fmix64

N_BITS = 64


def plain(word_hash: int) -> int:
    """The paper's: sdbm without a mix."""
    return word_hash


def light(h: int) -> int:
    """A bijection of 64 bits for 190 LUTs: exclusive-or, half an addition, exclusive-or.

    Rotations chosen by what they do to a vocabulary, see docs/fpga.md.
    """
    h ^= rotated(h, 17) ^ rotated(h, 41)
    h = (h + (h << 32)) & MASK
    return h ^ rotated(h, 27) ^ rotated(h, 15)


def rotated(h: int, bits: int) -> int:
    """A rotation of 64 bits to the left."""
    return (h << bits | h >> 64 - bits) & MASK


MIXERS: dict[Mixer, Callable[[int], int]] = {"none": plain, "light": light, "fmix64": fmix64}


class SimHashCore:
    """Letters update the hash, a space updates the counters, NUL gives the fingerprint.

    Departures from Figure 8, whose code cannot run as printed (its first condition is true
    of every character): the hash restarts after a word, the word before NUL counts, a space
    that ends no word counts nothing, and a document without words has fingerprint 0.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self._half = 1 << design.counter_bits - 1
        self._restart()

    def _restart(self) -> None:
        self.hash = 0
        self.in_word = False
        self.any_word = False
        # Counts zeros up and ones down, as Figure 8 does: V[i] > 0 is then just the sign bit.
        self.counters = [0] * N_BITS

    def consume(self, char: int) -> int | None:
        """Take one character; the fingerprint if it was the NUL, else None."""
        if char not in (SPACE, NUL):
            self.hash = (char + (self.hash << 6) + (self.hash << 16) - self.hash) & MASK
            self.in_word = True
            return None
        if self.in_word:
            self._count(self._mixed(self.hash))
        self.hash, self.in_word = 0, False
        return self._finish() if char == NUL else None

    def _mixed(self, word_hash: int) -> int:
        return MIXERS[self.design.mixer](word_hash ^ self.design.key)

    def _count(self, feature: int) -> None:
        self.any_word = True
        for i in range(N_BITS):
            self.counters[i] = self._wrapped(self.counters[i] + (-1 if feature >> i & 1 else 1))

    def _wrapped(self, value: int) -> int:
        return (value + self._half) % (2 * self._half) - self._half

    def _finish(self) -> int:
        highest = 0 if self.design.tie == "ge" and self.any_word else -1
        fingerprint = sum(1 << i for i, u in enumerate(self.counters) if u <= highest)
        self._restart()
        return fingerprint

"""How many bits a Bloom filter takes for an error rate, and what rate it has when half full."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, expm1, inf, log, log1p, log2

BLOCK_BITS = 512
# Below it a blocked filter costs over 14 % more bits than a classic one.
BLOCKED_FROM = 1e-4
# Of 20 cache lines at 1e-6, 4 are saved by 1.6 % more bits, at any rate a fifth by 2 %.
SPARE = 0.02
# The formulas take bits as independent, which a few hundred bits are not.
MIN_BITS = 4096
# What the kernels make room for; 1e-15 halved 60 times takes 110.
MAX_HASHES = 128


@dataclass(frozen=True, slots=True)
class BloomShape:
    """The layout of one Bloom filter."""

    size_bits: int
    n_hashes: int
    blocked: bool

    def error_rate(self, n_keys: float) -> float:
        """Share of other keys that it claims to hold after n_keys were added."""
        if not n_keys:
            return 0.0
        rate = blocked_rate if self.blocked else classic_rate
        return rate(self.size_bits / n_keys, self.n_hashes)


def shape_for(capacity: int, error_rate: float) -> BloomShape:
    """The smallest layout that keeps the rate up to `capacity` keys.

    Blocked at 1e-4 and above, where a look-up in one cache line costs at most 14 % more
    bits; classic below.
    """
    blocked = error_rate >= BLOCKED_FROM
    bits, n_hashes = blocked_bits(error_rate) if blocked else classic_bits(error_rate, SPARE)
    unit = BLOCK_BITS if blocked else 64
    size_bits = max(MIN_BITS, ceil(capacity * bits / unit) * unit)
    return BloomShape(size_bits, n_hashes, blocked)


def classic_rate(bits_per_key: float, n_hashes: int) -> float:
    """(1 - e^(-k n / m))^k, the paper's formula (1)."""
    return float((-expm1(-n_hashes / bits_per_key)) ** n_hashes)


def classic_bits(error_rate: float, spare: float = 0.0) -> tuple[float, int]:
    """Bits a key and number of hashes of a classic filter.

    spare: by how much the bits may exceed the fewest possible, for the sake of fewer hashes.
    """
    best = max(1, round(log2(1 / error_rate)))
    ways = [(-k / log1p(-(error_rate ** (1 / k))), k) for k in range(1, best + 2)]
    enough = (1 + spare) * min(ways)[0]
    return next(way for way in ways if way[0] <= enough)


def blocked_rate(bits_per_key: float, n_hashes: int) -> float:
    """The mean rate over blocks, whose loads are Poisson (Putze, Sanders, Singler 2007).

    Inside a block the k-th power of the fill is averaged to second order: the number of
    bits set varies, and a power of a varying fill is above the power of its mean.
    """
    mean = BLOCK_BITS / bits_per_key
    total, load, weight = 0.0, 0, exp(-mean)
    while load <= mean or weight > 1e-18:
        total += weight * block_rate(load * n_hashes, n_hashes)
        load += 1
        weight *= mean / load
    return total


@lru_cache(maxsize=2**14)
def block_rate(draws: int, n_hashes: int) -> float:
    """The rate of one block into which `draws` bits were thrown."""
    m = BLOCK_BITS
    empty, pairs = (1 - 1 / m) ** draws, (1 - 2 / m) ** draws
    fill = 1 - empty
    variance = max(0.0, pairs * (1 - 1 / m) + empty / m - empty**2)
    bend = n_hashes * (n_hashes - 1) / 2 * fill ** (n_hashes - 2) if fill else 0.0
    return float(fill**n_hashes + bend * variance)


@lru_cache(maxsize=256)
def blocked_bits(error_rate: float) -> tuple[float, int]:
    """Bits a key and number of hashes of a blocked filter."""
    guess = max(2, round(log2(1 / error_rate)))
    best = (inf, 0)
    for n_hashes in range(max(2, guess - 2), guess + 3):
        low, high = 1.0, 4 * log(1 / error_rate) + 8
        while high - low > 0.005:
            middle = (low + high) / 2
            low, high = (
                (low, middle) if blocked_rate(middle, n_hashes) <= error_rate else (middle, high)
            )
        best = min(best, (high, n_hashes))
    return best

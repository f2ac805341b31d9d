"""Sketch bits that differ → Jaccard similarity of the shingle sets, with its error."""

from math import cos, pi, sqrt
from typing import NamedTuple


class Estimate(NamedTuple):
    """A Jaccard similarity and its standard error, both 0 to 1."""

    similarity: float
    error: float


def jaccard(differing: int, bits: int) -> Estimate:
    """What a number of differing sketch bits says about two sets of shingles.

    A bit differs with probability angle / pi (Charikar 2002, section 3), and two sets of
    one size have cos(angle) = 2J / (1 + J), so J = c / (2 - c). The error is one standard
    deviation of the binomial count carried through the formula. Sets of unlike sizes are
    estimated too high: at sizes 1 : 2, at most 0.03. Orthogonal or beyond: 0.
    """
    if 2 * differing >= bits:
        return Estimate(0.0, 0.0)
    share = differing / bits
    cosine = cos(pi * share)
    slope = 2 * pi * sqrt(1 - cosine * cosine) / (2 - cosine) ** 2
    return Estimate(cosine / (2 - cosine), slope * sqrt(share * (1 - share) / bits))

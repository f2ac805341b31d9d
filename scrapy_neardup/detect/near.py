"""The decision rule: which candidates a page is near, and which of them it repeats.

The detector, `evaluate` and Spark all call near() and name originals in ORDER; nobody else
compares a measure with a limit. Pure: arrays in, arrays out, any number of pages at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array

DISTANCE = 6
CONFIRM_DISTANCE = 44
SIMILARITY = 0.88
MIN_WORDS = 20
FEW_WORDS = 50  # a page of fewer words of its own may say the rest by links and pictures

# Which of several originals is named: the first by these columns, ascending. A smaller id is an
# older page.
ORDER = ("sketch_distance", "distance", "id")


@dataclass(frozen=True, slots=True)
class NearLimits:
    """How far apart two pages may be and still be near; every bound is inclusive.

    distance          fingerprint bits that may differ
    confirm_distance  sketch bits that may differ; None: the fingerprint alone decides
    similarity        Jaccard similarity of the 5-word shingles that is required
    min_words         words that both pages must have; shorter ones are only compared exactly
    """

    distance: int = DISTANCE
    confirm_distance: int | None = CONFIRM_DISTANCE
    similarity: float = SIMILARITY
    min_words: int = MIN_WORDS


class Measured(NamedTuple):
    """What was measured between a page and each candidate; all of shape (n,).

    Beyond confirm_distance, similarity is never looked at and may be anything.
    """

    distances: I64Array  # fingerprint bits, between the pages or between their own parts
    sketch_distances: I64Array  # sketch bits
    similarity: F64Array
    # Of their own parts; -1 where one of them is too little, or the rest is other paragraphs.
    own_similarity: F64Array

    @classmethod
    def of_wholes(
        cls, distances: I64Array, sketch_distances: I64Array, similarity: F64Array
    ) -> Self:
        """What was measured where every word counts."""
        return cls(distances, sketch_distances, similarity, np.full(len(similarity), -1.0))

    def where(self, wanted: BoolArray) -> Measured:
        """What was measured of those candidates that are wanted."""
        distances, bits, similarity, own = self
        return Measured(distances[wanted], bits[wanted], similarity[wanted], own[wanted])


# Places of candidates that are near as a whole -> which of them are also near without templates.
TemplateRule = Callable[[I64Array], BoolArray]


def near(
    measured: Measured,
    limits: NearLimits,
    template_rule: TemplateRule | None = None,
) -> BoolArray:
    """Which candidates are near, as a whole or in their own parts; shape (n,).

    An own part is what a page had left when it was read, without the templates known then. That
    own parts agree suffices, whatever menus are around them: see Comparison.measure().
    template_rule: asked only about candidates that are near as a whole, and only where sketches
    confirm. Without it every word counts. O(n).
    """
    candidates: BoolArray = measured.distances <= limits.distance
    if limits.confirm_distance is None:
        return candidates
    found: BoolArray = candidates & (measured.sketch_distances <= limits.confirm_distance)
    found &= measured.similarity >= limits.similarity
    if template_rule is not None and found.any():
        places = np.flatnonzero(found)
        found[places] = template_rule(places)
    found |= candidates & (measured.own_similarity >= limits.similarity)
    return found


def in_order(ids: I64Array, measured: Measured) -> I64Array:
    """Places of candidates of one page, the original that is to be named first (ORDER)."""
    return np.lexsort((ids, measured.distances, measured.sketch_distances))


def own_parts_agree(own_words: I64Array, similarity: F64Array, limits: NearLimits) -> BoolArray:
    """Which pages are also near in what is left without their host's templates; shape (n,).

    own_words: those of the page outside templates; fewer than min_words are too little to judge
    by. similarity: of what is left, which must be as high as that of whole pages.
    """
    agree: BoolArray = (own_words >= limits.min_words) & (similarity >= limits.similarity)
    return agree

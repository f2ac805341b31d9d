"""How good the detector is on labelled pairs: recall, precision, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from math import nan, sqrt
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from scrapy_neardup.detect.detector import Detector, FactRule, PageReading
from scrapy_neardup.detect.near import Limits, Measured, near, own_parts_agree
from scrapy_neardup.engines import load_engine
from scrapy_neardup.errors import InputError
from scrapy_neardup.index import load_index
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array
from scrapy_neardup.offline.page_files import Pair, read_pages, read_pairs

Z95 = 1.959964  # standard deviations that hold 95 % of a normal distribution

DISTANCES = range(3, 9)
CONFIRM_DISTANCES = (28, 32, 36, 40, 44, 48, 52, None)


class Interval(NamedTuple):
    """A share and its 95 % confidence interval (Wilson 1927); None where nothing was counted."""

    value: float | None
    low: float
    high: float

    @classmethod
    def of(cls, successes: float, trials: float) -> Self:
        """The share of successes. O(1)."""
        if not trials:
            return cls(None, 0.0, 1.0)
        share, spread = successes / trials, Z95**2 / trials
        middle = (share + spread / 2) / (1 + spread)
        half = Z95 / (1 + spread) * sqrt(share * (1 - share) / trials + spread / (4 * trials))
        return cls(share, max(0.0, middle - half), min(1.0, middle + half))


class Score(NamedTuple):
    """Pairs by label and answer; weights instead of numbers where pairs were sampled."""

    found: float  # near, and taken for duplicates
    missed: float  # near, and not
    wrong: float  # distinct, and taken for duplicates
    kept: float  # distinct, and not

    @classmethod
    def of(cls, duplicates: BoolArray, near: BoolArray, weights: F64Array | None = None) -> Self:
        """Answers against labels; all of shape (n,)."""
        counts = (duplicates & near, ~duplicates & near, duplicates & ~near, ~duplicates & ~near)
        if weights is None:
            return cls(*(int(count.sum()) for count in counts))
        return cls(*(float(weights[count].sum()) for count in counts))

    @property
    def precision(self) -> Interval:
        """Of the pairs taken for duplicates, the share that is near."""
        return Interval.of(self.found, self.found + self.wrong)

    @property
    def recall(self) -> Interval:
        """Of the near pairs, the share that was found."""
        return Interval.of(self.found, self.found + self.missed)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall; None where there is nothing to find."""
        both = 2 * self.found + self.wrong + self.missed
        return 2 * self.found / both if both else None

    def as_dict(self) -> dict[str, object]:
        """Everything as plain values."""
        return {
            "precision": self.precision.value,
            "recall": self.recall.value,
            "f1": self.f1,
            "precision_interval": list(self.precision[1:]),
            "recall_interval": list(self.recall[1:]),
            **self._asdict(),
        }


class MeasuredPairs(NamedTuple):
    """What the detector would see of each pair; all of shape (n,)."""

    exact: BoolArray  # the same words, and any
    n_words: I64Array  # of the shorter page
    own_words: I64Array  # of the second page, outside its host's templates
    own_similarity: F64Array  # of what they leave; NaN where templates are not known
    own_parts: F64Array  # similarity of what each page had left, -1 where too little
    differs: BoolArray  # in a fact
    measured: Measured

    def duplicates(self, limits: Limits) -> BoolArray:
        """Which pairs the detector takes for duplicates, each as if alone in the world.

        Where templates are not known, every word counts.
        """
        own = self.own_words, self.own_similarity
        agree = own_parts_agree(*own, limits) | np.isnan(self.own_similarity)
        found = near(self.measured, limits, lambda places: agree[places], self.own_parts)
        return found & ~self.differs & (self.n_words >= limits.min_words) | self.exact

    def where(self, wanted: BoolArray) -> MeasuredPairs:
        """Those of the pairs that are wanted."""
        return MeasuredPairs(
            self.exact[wanted],
            self.n_words[wanted],
            self.own_words[wanted],
            self.own_similarity[wanted],
            self.own_parts[wanted],
            self.differs[wanted],
            self.measured.where(wanted),
        )


def measure(detector: Detector, pairs: Iterable[tuple[PageReading, PageReading]]) -> MeasuredPairs:
    """What a detector sees when the second page of each pair comes after the first."""
    rows = [_measure(detector, first, second) for first, second in pairs]
    columns = zip(*rows, strict=True) if rows else ((),) * 9
    exact, n_words, own_words, own, own_parts, differs, distances, bits, similar = columns
    measured = Measured(
        np.array(distances, dtype=np.int64),
        np.array(bits, dtype=np.int64),
        np.array(similar, dtype=np.float64),
    )
    return MeasuredPairs(
        np.array(exact, dtype=bool),
        np.array(n_words, dtype=np.int64),
        np.array(own_words, dtype=np.int64),
        np.array(own, dtype=np.float64),
        np.array(own_parts, dtype=np.float64),
        np.array(differs, dtype=bool),
        measured,
    )


def _measure(
    detector: Detector, first: PageReading, second: PageReading
) -> tuple[bool, int, int, float, float, bool, int, int, float]:
    one, other = first.signatures, second.signatures
    row, own_words, own = first.sketch.reshape(1, -1), second.n_words, nan
    if not detector.is_cold(second):
        own_words, left = detector.compare_own(second, row)
        own = float(left[0])
    similar = detector.compare(second, row)[1]
    stored = detector.stored_row(first).reshape(1, -1)
    own_parts = detector.compare_own_parts(second, stored)
    differs = bool(detector.compare_facts(second, stored, similar, own_parts)[0])
    return (
        first.digest == second.digest and one.n_words > 0,
        min(one.n_words, other.n_words),
        own_words,
        own,
        float(own_parts[0]),
        differs,
        (one.fingerprint ^ other.fingerprint).bit_count(),
        int(np.bitwise_count(one.sketch ^ other.sketch).sum()),
        float(similar[0]),
    )


class Sweep(NamedTuple):
    """The score under other limits."""

    limits: Limits
    score: Score


def sweep(
    pairs: MeasuredPairs, labels: BoolArray, limits: Limits, weights: F64Array | None = None
) -> list[Sweep]:
    """Scores for every k of DISTANCES and b of CONFIRM_DISTANCES."""
    tried = (
        replace(limits, distance=k, confirm_distance=b)
        for k in DISTANCES
        for b in CONFIRM_DISTANCES
    )
    return [Sweep(other, Score.of(pairs.duplicates(other), labels, weights)) for other in tried]


def evaluate(
    pages: Path,
    pairs: Path,
    limits: Limits,
    templates: bool = False,
    facts: FactRule = "compare",
) -> dict[str, Any]:
    """The score of files of pages and labelled pairs, of each stratum, and of other limits.

    templates: learn them first, from all pages of the file; else every word counts. facts: see
    Detector.

    Plain values: precision, recall and f1 under `limits` at the top, then the rest. Raises
    InputError.
    """
    labelled = read_pairs(pairs)
    measured = _measured(pages, labelled, templates, facts)
    labels = np.array([pair.near for pair in labelled], dtype=bool)
    strata = np.array([pair.stratum for pair in labelled], dtype=object)
    found = measured.duplicates(limits)
    return {
        **Score.of(found, labels).as_dict(),
        "pairs": len(labelled),
        "settings": asdict(limits),
        "strata": {
            stratum: Score.of(found[strata == stratum], labels[strata == stratum]).as_dict()
            for stratum in sorted(set(strata))
        },
        "sweep": [
            {**asdict(other), **score.as_dict()} for other, score in sweep(measured, labels, limits)
        ],
    }


def _measured(pages: Path, labelled: list[Pair], templates: bool, facts: FactRule) -> MeasuredPairs:
    detector = Detector(load_engine("auto"), load_index("scan"), facts=facts)
    wanted = {id for pair in labelled for id in (pair.first, pair.second)}
    readings = read_pages(pages, detector, None if templates else wanted)
    for reading in readings.values() if templates else ():
        detector.learn(reading)
    missing = sorted(wanted - readings.keys())
    if missing:
        raise InputError(
            f"{pages} has no page {missing[0]!r}; {len(missing)} of the pairs' are missing"
        )
    return measure(detector, ((readings[pair.first], readings[pair.second]) for pair in labelled))

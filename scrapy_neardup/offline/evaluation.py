"""How good the detector is on labelled pairs: recall, precision, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from math import nan, sqrt
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Self

import numpy as np

from scrapy_neardup.detect.detector import Detector, FactRule, Scope
from scrapy_neardup.detect.near import Measured, NearLimits, near, own_parts_agree
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.detect.page_row import PageRows, say_the_same
from scrapy_neardup.engines import FINGERPRINT, SKETCH, load_engine
from scrapy_neardup.errors import InputError
from scrapy_neardup.index import load_index
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array
from scrapy_neardup.offline.page_files import SCORED, LabelledPair, read_pages, read_pairs

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

    exact: BoolArray  # the same text, and not empty
    in_scope: BoolArray  # of one site, or the scope is all
    n_words: I64Array  # of the shorter page
    own_words: I64Array  # of the second page, outside its host's templates
    rest: F64Array  # similarity outside the templates; NaN if templates are not known
    differs: BoolArray  # in data or in a fact
    measured: Measured

    def duplicates(self, limits: NearLimits) -> BoolArray:
        """Which pairs the detector takes for duplicates, each pair judged by itself.

        Without templates, every word counts.
        """
        agree = own_parts_agree(self.own_words, self.rest, limits) | np.isnan(self.rest)
        found = near(self.measured, limits, lambda places: agree[places])
        found &= ~self.differs & (self.n_words >= limits.min_words)
        return (found | self.exact) & self.in_scope

    def where(self, wanted: BoolArray) -> MeasuredPairs:
        """The pairs for which `wanted`, shape (n,), is True."""
        return MeasuredPairs(
            self.exact[wanted],
            self.in_scope[wanted],
            self.n_words[wanted],
            self.own_words[wanted],
            self.rest[wanted],
            self.differs[wanted],
            self.measured.where(wanted),
        )


def measure(detector: Detector, pairs: Iterable[tuple[PageReading, PageReading]]) -> MeasuredPairs:
    """What a detector sees when the second page of each pair comes after the first."""
    rows = [_measure(detector, first, second) for first, second in pairs]
    columns = zip(*rows, strict=True) if rows else ((),) * 10
    exact, in_scope, n_words, own_words, rest, differs, distances, bits, similar, own = columns
    return MeasuredPairs(
        np.array(exact, dtype=bool),
        np.array(in_scope, dtype=bool),
        np.array(n_words, dtype=np.int64),
        np.array(own_words, dtype=np.int64),
        np.array(rest, dtype=np.float64),
        np.array(differs, dtype=bool),
        Measured(
            np.array(distances, dtype=np.int64),
            np.array(bits, dtype=np.int64),
            np.array(similar, dtype=np.float64),
            np.array(own, dtype=np.float64),
        ),
    )


def _measure(
    detector: Detector, first: PageReading, second: PageReading
) -> tuple[bool | int | float, ...]:
    detector.count_attributes(first)
    detector.count_attributes(second)
    page, rows = detector.own_part(second), PageRows.of(detector.own_part(first).row[None])
    fingerprints = np.array([first.signatures.fingerprint], dtype=np.uint64)
    measured = detector.comparison.measure(page, fingerprints, rows)
    known = not page.is_all_that_counts
    n_differing = detector.comparison.n_differing(page, rows, measured)
    same_data = say_the_same(second.data, rows.data, n_differing)
    differ = detector.comparison.differing_facts(page, rows, measured, n_differing)
    return (
        first.digest == second.digest and first.n_words > 0,
        detector.scope == "all" or first.site == second.site,
        min(first.n_words, second.n_words),
        page.n_words,
        float(detector.comparison.rest_similarity(page, rows.whole)[0]) if known else nan,
        not same_data[0] or bool(differ[0]),
        *(column[0] for column in measured),
    )


class Sweep(NamedTuple):
    """The score under other limits."""

    limits: NearLimits
    score: Score


def sweep(
    pairs: MeasuredPairs, labels: BoolArray, limits: NearLimits, weights: F64Array | None = None
) -> list[Sweep]:
    """Scores for every k of DISTANCES and b of CONFIRM_DISTANCES."""
    tried = (
        replace(limits, distance=k, confirm_distance=b)
        for k in DISTANCES
        for b in CONFIRM_DISTANCES
    )
    return [Sweep(other, Score.of(pairs.duplicates(other), labels, weights)) for other in tried]


class OverKeys(NamedTuple):
    """A measure's median over several keys, its lowest and its highest value."""

    median: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Self:
        """Of the values that are not None; all three None if there is none."""
        known = [value for value in values if value is not None]
        return cls(median(known), min(known), max(known)) if known else cls(None, None, None)


class Flips(NamedTuple):
    """Pairs that are duplicates under some keys and not under others.

    low, high: the lowest and highest similarity measured of them, None where there are none.
    """

    n: int
    of: int
    low: float | None
    high: float | None


def evaluate(
    pages: Path,
    pairs: Path,
    limits: NearLimits,
    templates: bool = False,
    facts: FactRule = "compare",
    *,
    whole_pages: bool = False,
    scope: Scope = "all",
    keys: int = 1,
    label: str | None = None,
) -> dict[str, Any]:
    """The score of files of pages and labelled pairs, of each stratum, and of other limits.

    templates    learn them first, from all pages of the file; else every word counts
    facts        see Detector
    whole_pages  see Detector
    scope        "site": pages of different sites are never duplicates
    keys         secrets to try, from 0 upwards: how much is chance
    label        the field of a pair that says near or distinct; see read_pairs

    Plain values: precision, recall and f1 under `limits` and the first key at the top, then the
    rest. O(keys). Raises InputError.
    """
    every = read_pairs(pairs, label, scored=False)
    scored = np.array([pair.label in SCORED for pair in every], dtype=bool)
    labels = np.array([pair.near for pair in every], dtype=bool)[scored]
    strata = np.array([pair.stratum for pair in every], dtype=object)[scored]
    rules = {"facts": facts, "whole_pages": whole_pages, "scope": scope}
    by_key = list(_measured(pages, every, templates, rules, keys))
    answers = np.array([measured.duplicates(limits) for measured in by_key])
    first, found = by_key[0].where(scored), answers[0][scored]
    scores = [Score.of(answer[scored], labels) for answer in answers]
    return {
        **scores[0].as_dict(),
        "pairs": int(scored.sum()),
        "settings": asdict(limits),
        "keys": keys,
        "recall_over_keys": OverKeys.of(score.recall.value for score in scores)._asdict(),
        "precision_over_keys": OverKeys.of(score.precision.value for score in scores)._asdict(),
        "flips": _flips(answers, by_key)._asdict(),
        "strata": {
            stratum: Score.of(found[strata == stratum], labels[strata == stratum]).as_dict()
            for stratum in sorted(set(strata))
        },
        "sweep": [
            {**asdict(other), **score.as_dict()} for other, score in sweep(first, labels, limits)
        ],
    }


def _flips(answers: BoolArray, by_key: list[MeasuredPairs]) -> Flips:
    """answers: shape (keys, pairs)."""
    flips: BoolArray = np.any(answers, axis=0) & ~np.all(answers, axis=0)
    if not flips.any():
        return Flips(0, len(flips), None, None)
    similar = np.array([pairs.measured.similarity for pairs in by_key])
    own = np.array([pairs.measured.own_similarity for pairs in by_key])
    similar = np.where(own < 0, similar, own).mean(axis=0)[flips]
    return Flips(int(flips.sum()), len(flips), float(similar.min()), float(similar.max()))


def _measured(
    pages: Path, pairs: list[LabelledPair], templates: bool, rules: dict[str, Any], keys: int
) -> Iterator[MeasuredPairs]:
    """The pairs under each key. rules: the detector's."""
    detector = Detector(load_engine("auto"), load_index("scan"), **rules)
    wanted = {id for pair in pairs for id in (pair.first, pair.second)}
    readings = read_pages(pages, detector, None if templates else wanted)
    for reading in readings.values() if templates else ():
        detector.learn(reading)
    missing = sorted(wanted - readings.keys())
    if missing:
        raise InputError(
            f"{pages} has no page {missing[0]!r}; {len(missing)} of the pairs' are missing"
        )
    for key in range(keys):
        specs = replace(FINGERPRINT, key=key), replace(SKETCH, key=key)
        detector.engine = load_engine("auto", *specs)
        signed = {id: readings[id].signed_by(detector.engine) for id in wanted}
        yield measure(detector, ((signed[pair.first], signed[pair.second]) for pair in pairs))

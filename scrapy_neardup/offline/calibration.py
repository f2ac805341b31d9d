"""Limits for a crawl's own pages: likely pairs, compared exactly, say what k and b would do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.near import NearLimits
from scrapy_neardup.detect.odd_sketch import SHINGLE
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.engines import load_engine
from scrapy_neardup.errors import InputError
from scrapy_neardup.index import load_index
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array
from scrapy_neardup.offline.evaluation import Interval, Sweep, measure, sweep
from scrapy_neardup.offline.page_files import DISTINCT, NEAR, readings_in

MAX_PAGES = 3_000
MAX_PAIRS = 2_000
LIKELY = 96  # sketch bits of 256: beyond, pages have hardly a quarter of their shingles in common
BIN = 8  # bits


class Sample(NamedTuple):
    """Some of the likely pairs; each stands for `weights` pairs of its sketch distance."""

    first: I64Array  # places of pages, shape (n,)
    second: I64Array
    weights: F64Array
    n_likely: int


def calibrate(
    pages: Path, max_pages: int = MAX_PAGES, max_pairs: int = MAX_PAIRS, seed: int = 0
) -> dict[str, Any]:
    """k and b for the pages of a file, with their expected precision and recall.

    Likely pairs are those whose sketches differ in at most LIKELY of 256 bits, whatever
    their fingerprints say; of them, about as many of each distance are compared exactly by
    their 5-word shingles: near at Jaccard 0.9 and more, distinct at 0.5 and less, in between
    neither. Plain values. O(max_pages²) comparisons of sketches. Raises InputError.
    """
    detector = Detector(load_engine("auto"), load_index("scan"), facts="ignore", scope="all")
    first = islice(readings_in(pages, detector), max_pages)
    readings = distinct([reading for _, reading in first])
    if len(readings) < 2:
        raise InputError(
            f"{pages} has fewer than two pages with different words: nothing to compare"
        )
    sample = sampled(readings, max_pairs, np.random.default_rng(seed))
    jaccard = exact_jaccard(readings, sample)
    measures = measure(
        detector,
        ((readings[a], readings[b]) for a, b in zip(sample.first, sample.second, strict=True)),
    )
    scored = (jaccard >= NEAR) | (jaccard <= DISTINCT)
    near, weights = jaccard[scored] >= NEAR, sample.weights[scored]
    seen = measures.where(scored)
    sweeps = sweep(seen, near, NearLimits(), weights)
    proposal = best(sweeps) if near.any() else NearLimits()
    return {
        "pages": len(readings),
        "likely_pairs": sample.n_likely,
        "compared": len(jaccard),
        "near": int((jaccard >= NEAR).sum()),
        "distinct": int((jaccard <= DISTINCT).sum()),
        "proposal": asdict(proposal),
        **expected(seen.duplicates(proposal), near, weights),
        "sweep": [{**asdict(limits), **score.as_dict()} for limits, score in sweeps],
    }


def distinct(readings: list[PageReading]) -> list[PageReading]:
    """One page of each text that has words: equal pages need no limits."""
    return list({r.digest: r for r in readings if r.signatures.n_words}.values())


def sampled(readings: list[PageReading], max_pairs: int, chance: np.random.Generator) -> Sample:
    """Likely pairs, about as many of each distance, max_pairs in all."""
    counts = np.zeros(LIKELY // BIN + 1, dtype=np.int64)
    for _, _, bits in _likely(readings):
        counts += np.bincount(bits // BIN, minlength=len(counts))
    wanted = max_pairs / max(1, int(np.count_nonzero(counts)))
    shares: F64Array = np.minimum(1.0, wanted / np.maximum(counts, 1))
    parts: list[tuple[I64Array, I64Array, F64Array]] = []
    for place, others, bits in _likely(readings):
        share: F64Array = shares[bits // BIN]
        taken = chance.random(len(bits)) < share
        parts.append((np.full(taken.sum(), place), others[taken], 1 / share[taken]))
    first, second, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Sample(first, second, weights, int(counts.sum()))


def _likely(readings: list[PageReading]) -> Iterator[tuple[int, I64Array, I64Array]]:
    """For each page the later pages that are likely near it, and how many bits differ."""
    sketches = np.array([reading.signatures.sketch for reading in readings])
    for place in range(len(sketches)):
        bits = np.bitwise_count(sketches[place + 1 :] ^ sketches[place]).sum(axis=1, dtype=np.int64)
        likely = np.flatnonzero(bits <= LIKELY)
        yield place, likely + place + 1, bits[likely]


def exact_jaccard(readings: list[PageReading], sample: Sample) -> F64Array:
    """The Jaccard similarity of each pair's 5-word shingles; shape (n,)."""
    needed = np.unique(np.concatenate([sample.first, sample.second])).tolist()
    sets = {place: shingles(readings[place].words) for place in needed}
    pairs = zip(sample.first.tolist(), sample.second.tolist(), strict=True)
    similar = [len(sets[a] & sets[b]) / len(sets[a] | sets[b]) for a, b in pairs]
    return np.array(similar, dtype=np.float64)


def shingles(words: bytes) -> set[tuple[bytes, ...]]:
    """The distinct shingles of a text with words; a shorter text is one."""
    known = words.split(b" ")
    size = min(SHINGLE, len(known))
    return {tuple(known[i : i + size]) for i in range(len(known) - size + 1)}


def best(sweeps: list[Sweep]) -> NearLimits:
    """The limits with the highest F1; among equals the smallest k, then the largest b.

    The largest b, because pages outside the sample may lie a little further apart, and the
    similarity still rejects what a large b lets through.
    """
    confirming = [s for s in sweeps if s.limits.confirm_distance is not None]
    return max(
        confirming,
        key=lambda s: (s.score.f1 or 0, -s.limits.distance, s.limits.confirm_distance),
    ).limits


def expected(duplicates: BoolArray, near: BoolArray, weights: F64Array) -> dict[str, Any]:
    """Precision and recall for all likely pairs, with intervals for what was sampled."""
    precision = weighted(near[duplicates], weights[duplicates])
    recall = weighted(duplicates[near], weights[near])
    return {
        "precision": precision.value,
        "recall": recall.value,
        "precision_interval": list(precision[1:]),
        "recall_interval": list(recall[1:]),
    }


def weighted(successes: BoolArray, weights: F64Array) -> Interval:
    """A weighted share, its interval by Kish's effective number of trials, (sum w)² / sum w²."""
    if not len(weights):
        return Interval.of(0, 0)
    trials = float(weights.sum() ** 2 / np.square(weights).sum())
    return Interval.of(float(weights[successes].sum() / weights.sum()) * trials, trials)

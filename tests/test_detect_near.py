"""The decision rule by itself: inclusive limits, templates, and which original is named."""

import numpy as np

from scrapy_neardup.detect.near import (
    Measured,
    NearLimits,
    in_order,
    near,
    own_parts_agree,
)
from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array

LIMITS = NearLimits(distance=6, confirm_distance=44, similarity=0.9)


def measured(*rows: tuple[int, int, float]) -> Measured:
    distances, bits, similar = zip(*rows, strict=True) if rows else ((),) * 3
    return Measured.of_wholes(
        np.array(distances, "i8"), np.array(bits, "i8"), np.array(similar, "f8")
    )


def test_every_limit_is_inclusive() -> None:
    rows = measured((6, 44, 0.9), (7, 44, 0.9), (6, 45, 0.9), (6, 44, 0.89))
    assert near(rows, LIMITS).tolist() == [True, False, False, False]


def test_own_parts_that_agree_suffice_where_the_fingerprint_finds_the_page() -> None:
    rows = measured((6, 90, -1.0), (7, 90, -1.0), (6, 90, -1.0))
    rows = rows._replace(own_similarity=np.array([0.9, 1.0, 0.89]))
    assert near(rows, LIMITS).tolist() == [True, False, False]


def test_without_a_confirm_distance_the_fingerprint_decides() -> None:
    rows = measured((6, 256, 0.0), (7, 0, 1.0))
    assert near(rows, NearLimits(6, None)).tolist() == [True, False]


def test_templates_are_asked_about_pages_that_are_near_as_a_whole_only() -> None:
    asked: list[list[int]] = []

    def only_the_last(places: I64Array) -> BoolArray:
        asked.append(places.tolist())
        return np.arange(len(places)) == len(places) - 1

    rows = measured((0, 0, 1.0), (9, 0, 1.0), (1, 1, 0.95))
    assert near(rows, LIMITS, only_the_last).tolist() == [False, False, True]
    assert not near(measured((9, 0, 1.0)), LIMITS, only_the_last).any()
    assert asked == [[0, 2]]


def test_the_original_has_the_fewest_sketch_bits_then_fingerprint_bits_then_is_oldest() -> None:
    rows = measured((0, 9, 1.0), (3, 2, 0.9), (2, 2, 0.9), (2, 2, 0.99))
    assert in_order(np.array([1, 2, 9, 4]), rows).tolist() == [3, 2, 1, 0]


def test_what_is_left_without_templates_must_suffice_and_be_as_similar() -> None:
    words, similar = np.array([19, 20, 20]), np.array([1.0, 0.9, 0.89])
    assert own_parts_agree(words, similar, NearLimits(similarity=0.9)).tolist() == [
        False,
        True,
        False,
    ]

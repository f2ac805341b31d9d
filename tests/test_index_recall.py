"""Nothing within the distance is missed: every layout of the exact indexes, held to brute force.

Three collections of 10**5 fingerprints: random, skewed, and of real pages. A usual run holds
SOME_QUERIES of them to the truth, and where there are many tables only as many fingerprints as make
SOME_ENTRIES. The whole proof, every fingerprint of each collection as a query at every layout:

    NEARDUP_TEST_RECALL=all pytest tests/test_index_recall.py      # about half an hour
"""

import gzip
import json
import os
import re
from math import comb
from typing import NamedTuple

import numpy as np
import pytest
from conftest import SHARED_DATA
from test_index_permuted import flipped, random_rows, skewed_rows

from scrapy_neardup.detect.text import normalise
from scrapy_neardup.engines import load_engine
from scrapy_neardup.index.layout import MAX_TABLES, Layout
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.index.scan import ScanIndex
from scrapy_neardup.index.slices import SliceIndex, SliceLayout

pytestmark = pytest.mark.xdist_group("recall")  # one worker builds what all tests share

ALL = os.environ.get("NEARDUP_TEST_RECALL") == "all"
N = 100_000
SOME_QUERIES = 50
SOME_ENTRIES = 600_000
DISTANCE = 6

LAYOUTS = sorted(
    (
        (blocks, distance)
        for distance in range(DISTANCE + 1)
        for blocks in range(distance + 1, 65)
        if comb(blocks, distance) <= MAX_TABLES
    ),
    key=lambda layout: comb(*layout),  # A proof that is cut short has shown the usual ones.
)
WIDTHS = {SliceLayout(64, width).n_slices: width for width in range(26, 0, -1)}


class Collection(NamedTuple):
    """Fingerprints, under their row numbers as ids, and what is near some queries."""

    stored: np.ndarray
    queries: np.ndarray
    query: np.ndarray  # of each match within DISTANCE, by query, then by id
    ids: np.ndarray
    distances: np.ndarray


def real_rows(n):
    """Fingerprints of 100 words each, every 8 words of real pages: neighbours share 92 words."""
    texts = []
    with gzip.open(SHARED_DATA / "pairs" / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            words = normalise(re.sub(r"<[^>]*>", " ", json.loads(line)["html"])).split()
            texts += [b" ".join(words[at : at + 100]) for at in range(0, len(words) - 99, 8)]
            if len(texts) >= n:
                break
    return load_engine("auto").fingerprint_many(texts[:n])


def with_truth(stored):
    """Queries 0 to DISTANCE + 1 bits from what is stored, and all that is near them."""
    some = stored if ALL else stored[:: N // SOME_QUERIES]
    queries = flipped(some, np.arange(len(some)) % (DISTANCE + 2))
    oracle = ScanIndex()
    oracle.add_many(stored, np.arange(len(stored)))
    offsets, ids, distances = oracle.all_within_many(queries, DISTANCE)
    query = np.repeat(np.arange(len(queries)), np.diff(offsets))
    return Collection(stored, queries, query, ids, distances)


@pytest.fixture(scope="module")
def collections():
    found = {"random": random_rows(N), "skewed": skewed_rows(N)}
    if SHARED_DATA.is_dir():
        found["real"] = real_rows(N)
    return {name: with_truth(stored) for name, stored in found.items()}


def assert_nothing_is_missed(index, collection, n, distance, name):
    """Among the first n fingerprints, one query for each."""
    known = (collection.ids < n) & (collection.distances <= distance)
    offsets, ids, distances = index.all_within_many(collection.queries, distance)
    query = np.repeat(np.arange(len(collection.queries)), np.diff(offsets))
    np.testing.assert_array_equal(query, collection.query[known], name)
    np.testing.assert_array_equal(ids, collection.ids[known], name)
    np.testing.assert_array_equal(distances, collection.distances[known], name)
    first = np.full(len(collection.queries), -1)
    owners, where = np.unique(query, return_index=True)
    first[owners] = ids[where]
    found = index.first_within_many(collection.queries, distance)
    np.testing.assert_array_equal(found, first, name)


def few_enough(tables):
    """How many fingerprints to store where each is in so many tables."""
    return N if ALL else min(N, SOME_ENTRIES // tables)


@pytest.mark.parametrize(("blocks", "distance"), LAYOUTS)
def test_permuted_tables_miss_nothing_within_the_distance(collections, blocks, distance):
    layout = Layout(blocks, distance)
    n = few_enough(len(layout.tables))
    for name, collection in collections.items():
        index = PermutedIndex.of_layout(layout)
        index.add_many(collection.stored[:n], np.arange(n))
        index.compact()
        assert_nothing_is_missed(index, collection, n, distance, name)


@pytest.mark.parametrize(("slices", "width"), sorted(WIDTHS.items()))
def test_slice_lists_miss_nothing_within_the_pigeonhole_distance(collections, slices, width):
    n = few_enough(slices)
    for name, collection in collections.items():
        index = SliceIndex(64, width, expand=DISTANCE // slices)
        assert index.max_distance >= DISTANCE
        index.add_many(collection.stored[:n], np.arange(n))
        index.compact()
        for distance in range(DISTANCE + 1):
            assert_nothing_is_missed(index, collection, n, distance, name)

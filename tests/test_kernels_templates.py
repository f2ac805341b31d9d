"""Kernels of templates: NumPy and compiled, bit for bit."""

from types import ModuleType

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kernel_levels import native

import scrapy_neardup.kernels.numpy_twin.templates as twin

HASHES = st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1), max_size=30)
COUNTS = st.dictionaries(st.integers(0, 9) | st.integers(0, 2**64 - 1), st.integers(1, 5))


@pytest.fixture(scope="module")
def kernel() -> ModuleType:
    return native("templates")


@given(HASHES, COUNTS)
@example([], {})
@example([2**64 - 1, 0], {2**64 - 1: 1})
def test_a_page_counts_as_the_twin_counts_it(
    kernel: ModuleType, page: list[int], known: dict[int, int]
) -> None:
    counted = dict(known)
    for hash in set(page):
        counted[hash] = counted.get(hash, 0) + 1
    hashes, counts = (
        np.array(sorted(known), np.uint64),
        np.array([known[hash] for hash in sorted(known)], np.uint32),
    )
    for each in (kernel, twin):
        found, sums = each.counted(hashes, counts, np.array(sorted(page), np.uint64))
        assert dict(zip(found.tolist(), sums.tolist(), strict=True)) == counted
        assert found.tolist() == sorted(counted)
        assert (found.dtype, sums.dtype) == (np.uint64, np.uint32)


@given(st.lists(st.tuples(st.lists(st.sampled_from(["a", "bc"]), min_size=1), st.booleans())))
def test_own_words_are_those_of_own_blocks(
    kernel: ModuleType, blocks: list[tuple[list[str], bool]]
) -> None:
    texts = [" ".join(words).encode() for words, _ in blocks]
    ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64) - 1
    n_words = np.array([len(words) for words, _ in blocks], np.int64)
    is_own = np.array([own for _, own in blocks], bool)
    kept = [words for words, own in blocks if own]
    expected = " ".join(word for words in kept for word in words).encode(), sum(map(len, kept))
    for each in (kernel, twin):
        assert each.own_words(b" ".join(texts), ends, n_words, is_own) == expected


@given(HASHES, COUNTS, st.integers(0, 6))
@example([5], {}, 0)
def test_blocks_are_frequent_where_the_twin_says_so(
    kernel: ModuleType, page: list[int], known: dict[int, int], threshold: int
) -> None:
    hashes, counts = (
        np.array(sorted(known), np.uint64),
        np.array([known[hash] for hash in sorted(known)], np.uint32),
    )
    expected = [hash in known and known[hash] >= threshold for hash in page]
    for each in (kernel, twin):
        found = each.frequent(np.array(page, np.uint64), hashes, counts, threshold)
        assert found.tolist() == expected
        assert found.dtype == np.bool_

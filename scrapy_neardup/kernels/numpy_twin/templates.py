"""Counts of blocks, by pages of a host, and what a page is without those of templates; in NumPy."""

from __future__ import annotations

import numpy as np

from scrapy_neardup.kernels.numpy_twin import BoolArray, I64Array, U32Array, U64Array


def frequent(hashes: U64Array, known: U64Array, counts: U32Array, threshold: int) -> BoolArray:
    """Which hashes are among the known ones, which ascend, with a count of threshold at least.

    counts: shape (known,). O(hashes log known).
    """
    places = known.searchsorted(hashes)
    found: BoolArray = places < len(known)
    places = places[found]
    found[found] = (known[places] == hashes[found]) & (counts[places] >= threshold)
    return found


def counted(known: U64Array, counts: U32Array, hashes: U64Array) -> tuple[U64Array, U32Array]:
    """The known hashes, which ascend, and their counts after a page; fresh arrays.

    hashes: the page's, in ascending order; each counts once. O(known + hashes).
    """
    # Not np.unique(): asked for nothing else, it imports numpy.ma, in the middle of a crawl.
    hashes = hashes[np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)]]
    merged = np.concatenate([known, hashes])
    order = np.argsort(merged, kind="stable")
    merged = merged[order]
    sums = np.concatenate([counts, np.ones(len(hashes), np.uint32)])[order]
    again = np.flatnonzero(merged[1:] == merged[:-1])
    sums[again] += np.uint32(1)
    kept = np.ones(len(merged), dtype=bool)
    kept[again + 1] = False
    return merged[kept], sums[kept]


def own_words(
    words: bytes, ends: I64Array, n_words: I64Array, is_own: BoolArray
) -> tuple[bytes, int]:
    """The words of a page's own blocks, in order, joined by single spaces; and how many.

    ends, n_words: where the words of each block end in those of the page, and how many they
    are; shape (blocks,). O(words).
    """
    starts = np.append(np.int64(0), ends + 1)[:-1]
    spans = zip(starts[is_own].tolist(), ends[is_own].tolist(), strict=True)
    return b" ".join(words[start:end] for start, end in spans), int(n_words[is_own].sum())

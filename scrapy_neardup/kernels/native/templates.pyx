# cython: boundscheck=False, wraparound=False
"""Counts of blocks, compiled: the contract is kernels/numpy_twin/templates.py."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

include "memory.pxi"

cdef extern from "templates.h":
    void find_frequent(const uint64_t *hashes, size_t n, const uint64_t *known,
                       const uint32_t *counts, size_t n_known, uint64_t threshold, uint8_t *found)
    size_t count_page(const uint64_t *known, const uint32_t *counts, size_t n_known,
                      const uint64_t *hashes, size_t n, uint64_t *out, uint32_t *sums)
    size_t copy_own(const char *words, const int64_t *ends, const int64_t *n_words,
                    const uint8_t *is_own, size_t n, char *out, int64_t *n_own) nogil

cdef object empty = np.empty
cdef object u64 = np.dtype(np.uint64), u32 = np.dtype(np.uint32), boolean = np.dtype(bool)


def frequent(hashes, known, counts, uint64_t threshold):
    """Which hashes are known with a count of threshold at least; see the twin."""
    cdef size_t n = len(hashes), n_known = len(known)
    found = empty(n, boolean)
    find_frequent(<const uint64_t *>readable(hashes), n, <const uint64_t *>readable(known),
                  <const uint32_t *>readable(counts), n_known, threshold,
                  <uint8_t *>writable(found))
    return found


def counted(known, counts, hashes):
    """The known hashes and their counts after a page; see the twin."""
    cdef size_t n = len(hashes), n_known = len(known)
    merged, sums = empty(n_known + n, u64), empty(n_known + n, u32)
    cdef size_t n_merged = count_page(
        <const uint64_t *>readable(known), <const uint32_t *>readable(counts), n_known,
        <const uint64_t *>readable(hashes), n,
        <uint64_t *>writable(merged), <uint32_t *>writable(sums))
    # Copies, so that a host keeps no more than it counts.
    return merged[:n_merged].copy(), sums[:n_merged].copy()


def own_words(bytes words, ends, n_words, is_own):
    """The words of a page's own blocks, and how many; see the twin."""
    cdef size_t length, n = len(ends)
    cdef int64_t n_own = 0
    cdef const char *text = words
    cdef const int64_t *end = <const int64_t *>readable(ends)
    cdef const int64_t *n_word = <const int64_t *>readable(n_words)
    cdef const uint8_t *own = <const uint8_t *>readable(is_own)
    cdef char *out = <char *>malloc(len(words) + 1)
    if out is NULL:
        raise MemoryError("no memory for the words of a page")
    try:
        with nogil:
            length = copy_own(text, end, n_word, own, n, out, &n_own)
        return copied(out, length), n_own
    finally:
        free(out)

# cython: boundscheck=False, wraparound=False
"""Counts of blocks, compiled: the contract is kernels/numpy_twin/templates.py."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

import numpy as np

include "memory.pxi"

cdef extern from "templates.h":
    void find_frequent(const uint64_t *hashes, size_t n, const uint64_t *known,
                       const uint32_t *counts, size_t n_known, uint64_t threshold, uint8_t *found)
    size_t count_page(const uint64_t *known, const uint32_t *counts, size_t n_known,
                      const uint64_t *hashes, size_t n, uint64_t *out, uint32_t *sums)

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

# cython: boundscheck=False, wraparound=False
"""Words → fingerprints, compiled: the contract is kernels/numpy_twin/fingerprint.py."""

from concurrent.futures import ThreadPoolExecutor
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

import numpy as np

from scrapy_neardup.kernels.cores import cores

include "memory.pxi"
include "simd.pxi"

cdef extern from "fingerprint.h":
    enum:
        MAX_FINGERPRINT
        MAX_SHINGLE

        PLAIN
        SIPHASH

    ctypedef enum Hash:
        pass

    ctypedef struct Spec:
        int n_words
        int shingle
        int distinct
        int tie_ge
        Hash hash
        uint64_t key[2]

    ctypedef struct Text:
        const uint8_t *bytes
        size_t length

    ctypedef struct Odd:
        uint64_t *rows
        uint64_t mask
        size_t width
        int level
        int n_levels

    ctypedef struct Votes:
        pass

    int64_t fingerprints(Text text, const Spec *specs, int n_specs, uint64_t multiplier,
                         int simd, Votes *votes, uint64_t **out) nogil
    int odd_sketches_of(Text text, const Spec *spec, Odd odd, uint64_t multiplier, int simd,
                          Votes *votes) nogil

cdef extern from "compare.h":
    ctypedef struct Measure:
        int width
        int n_sketch
        const double *told
        double left_out
        int64_t within

    int64_t compare_rows(const Measure *by, const uint64_t *own, size_t step,
                         const uint64_t *rows, size_t rows_step, size_t n, int64_t *bits,
                         double *similar) nogil

MASK = 2**64 - 1
PART = 1 << 20  # bytes of text that are worth a thread's attention

cdef object empty = np.empty, u64 = np.dtype(np.uint64)
cdef object i64 = np.dtype(np.int64), f64 = np.dtype(np.float64)
cdef uint64_t multiplier = int.from_bytes(os.urandom(8), "little") | 1


def fingerprint(bytes words, int n_words=1, int shingle=1, int hash=1, bint distinct=False,
                bint tie_ge=False, key=0):
    """The fingerprint of one text, shape (n_words,), least significant word first."""
    cdef Spec spec = as_spec(n_words, shingle, hash, distinct, tie_ge, key)
    out = empty(n_words, u64)
    cdef uint64_t *row = <uint64_t *>writable(out)
    one_pass(words, &spec, 1, &row)
    return out


def signatures(bytes words, tuple first, tuple second):
    """The fingerprints of one text under two specs, and its number of words, in one pass."""
    cdef Spec specs[2]
    cdef uint64_t *rows[2]
    specs[0], specs[1] = unpacked(first), unpacked(second)
    out, other = empty(specs[0].n_words, u64), empty(specs[1].n_words, u64)
    rows[0], rows[1] = <uint64_t *>writable(out), <uint64_t *>writable(other)
    return out, other, one_pass(words, specs, 2, rows)


def fingerprint_many(texts, int n_words=1, int shingle=1, int hash=1, bint distinct=False,
                     bint tie_ge=False, key=0):
    """Fingerprints of many texts, shape (len(texts), n_words); on all cores if it is worth it."""
    cdef Spec spec = as_spec(n_words, shingle, hash, distinct, tie_ge, key)
    cdef list kept = list(texts)  # so that nobody takes a text away from the threads
    out = empty((len(kept), n_words), u64)
    parts = cut(kept)
    left = iter(parts)  # what a thread takes from as soon as it is free

    def work(_):
        for part in left:
            fill(kept, part, out, spec)

    if len(parts) <= 1:
        work(0)
        return out
    with ThreadPoolExecutor(cores()) as pool:
        for _ in pool.map(work, range(cores())):
            pass
    return out


def odd_rows(bytes words, int n_words, int shingle, key=0, int level=0, int n_levels=1):
    """How many shingles each level takes, and their parity at each place; see the twin."""
    if n_words & (n_words - 1):
        raise ValueError(f"n_words={n_words}: take a power of two")
    if level < 0 or not 1 <= n_levels <= 64 - level:
        raise ValueError(f"level={level}, n_levels={n_levels}: take levels of 0 to 63")
    cdef Spec spec = as_spec(n_words, shingle, SIPHASH, True, False, key)
    cdef Text text = Text(words, len(words))
    cdef size_t width = 1 + n_words
    out = empty((n_levels, width), u64)
    cdef uint64_t *rows = <uint64_t *>writable(out)
    cdef Odd odd = Odd(rows, 64 * n_words - 1, width, level, n_levels)
    cdef Votes *votes = <Votes *>malloc(sizeof(Votes))
    cdef int failed = -1, i
    spec.n_words = 0  # nothing is voted on
    memset(rows, 0, n_levels * width * sizeof(uint64_t))
    for i in range(n_levels):
        rows[i * width] = <uint64_t>(level + i) << 32
    if votes is not NULL:
        with nogil:
            failed = odd_sketches_of(text, &spec, odd, multiplier, simd_level, votes)
            free(votes)
    if failed:
        raise MemoryError("no memory to sketch a text")
    return out


def compare(own, rows, int n_sketch, told, double share, int64_t within):
    """Sketch bits that differ, similarity by odd sketches, rows of another level; see the twin."""
    cdef size_t n = len(rows), step = 0, rows_step
    cdef Measure by = Measure(rows.shape[1], n_sketch, NULL, 2 * (1 - share), within)
    if own.shape != (rows.shape if own.ndim == 2 else rows.shape[1:]):
        raise ValueError(f"a page of shape {own.shape} and rows of {rows.shape}")
    if len(told) != 64 * (by.width - n_sketch - 1) + 1:
        raise ValueError(f"{len(told)} values for odd sketches in rows of {by.width} words")
    bits, similar = empty(n, i64), empty(n, f64)
    by.told = <const double *>readable(told)
    cdef const uint64_t *page
    if own.ndim == 2:
        page = <const uint64_t *>readable_rows(own, &step)
    else:
        page = <const uint64_t *>readable(own)
    cdef const uint64_t *others = <const uint64_t *>readable_rows(rows, &rows_step)
    cdef int64_t *to_bits = <int64_t *>writable(bits)
    cdef double *to_similar = <double *>writable(similar)
    cdef int64_t unlike
    with nogil:
        unlike = compare_rows(&by, page, step, others, rows_step, n, to_bits, to_similar)
    return bits, similar, unlike


def count_words(bytes words):
    """How many words a text has."""
    return one_pass(words, NULL, 0, NULL)


cdef Spec as_spec(int n_words, int shingle, int hash, bint distinct, bint tie_ge,
                  key) except *:
    cdef Spec spec
    if not 1 <= n_words <= MAX_FINGERPRINT:
        raise ValueError(f"n_words={n_words}: take 1 to {MAX_FINGERPRINT}")
    if not 1 <= shingle <= MAX_SHINGLE:
        raise ValueError(f"shingle={shingle}: take 1 to {MAX_SHINGLE}")
    if not PLAIN <= hash <= SIPHASH:
        raise ValueError(f"hash={hash}: take {PLAIN} to {SIPHASH}")
    spec.n_words, spec.shingle, spec.hash = n_words, shingle, <Hash>hash
    spec.distinct, spec.tie_ge = distinct, tie_ge
    spec.key[0], spec.key[1] = key & MASK, key >> 64
    return spec


cdef Spec unpacked(tuple arguments) except *:
    n_words, shingle, hash, distinct, tie_ge, key = arguments
    return as_spec(n_words, shingle, hash, distinct, tie_ge, key)


cdef int64_t one_pass(bytes words, const Spec *specs, int n_specs, uint64_t **out) except -1:
    cdef Text text = Text(words, len(words))
    cdef Votes *votes = <Votes *>malloc((n_specs or 1) * sizeof(Votes))
    cdef int64_t n = -1
    if votes is not NULL:
        with nogil:
            n = fingerprints(text, specs, n_specs, multiplier, simd_level, votes, out)
            free(votes)
    if n < 0:
        raise MemoryError("no memory to fingerprint a text")
    return n


def cut(list texts) -> list[range]:
    """Consecutive texts in parts of about PART bytes, so that threads end together."""
    parts, start, size = [], 0, 0
    for i, text in enumerate(texts):
        size += len(text)
        if size >= PART or i == len(texts) - 1:
            parts.append(range(start, i + 1))
            start, size = i + 1, 0
    return parts


cdef fill(list texts, part, out, Spec spec):
    """Fingerprints of one part of the texts into their rows; gives the GIL away once."""
    cdef size_t i, start = part.start, n = len(part)
    cdef uint64_t *row = <uint64_t *>writable(out) + start * spec.n_words
    cdef Text *views = <Text *>malloc(n * sizeof(Text))
    cdef Votes *votes = <Votes *>malloc(sizeof(Votes))
    cdef bint failed = views is NULL or votes is NULL
    try:
        for i in range(0 if failed else n):
            views[i] = Text(<bytes?>texts[start + i], len(texts[start + i]))
        with nogil:
            for i in range(0 if failed else n):
                failed |= fingerprints(views[i], &spec, 1, multiplier, simd_level, votes, &row) < 0
                row += spec.n_words
    finally:
        free(views)
        free(votes)
    if failed:
        raise MemoryError("no memory to fingerprint texts")

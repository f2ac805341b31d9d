# cython: language_level=3, boundscheck=False, wraparound=False, binding=False
"""The bits of URL filters, compiled; ../numpy_twin/bloom.py says what each of them is.

Not bound, as Cython's functions are by default: Python calls a plain method in less time.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

import numpy as np

cdef extern from "Python.h":
    int PyBytes_AsStringAndSize(object key, char **bytes, Py_ssize_t *length) except -1
    const char *PyUnicode_AsUTF8AndSize(object key, Py_ssize_t *length) except NULL

cdef extern from "bloom.h" nogil:
    enum: FILTER_FULL, MAX_LAYERS
    ctypedef struct Slice:
        uint64_t *words
        uint64_t *counts
        uint64_t size_bits
        uint64_t limit
        uint32_t n_hashes
        uint32_t blocked
    ctypedef struct Filter:
        uint64_t seed[2]
        Slice *slices
        size_t *start
        int layers
    ctypedef struct Prefix:
        pass
    int prefixes_of(const Filter *f, const uint8_t *key, size_t n, Prefix *found)
    int holds_key(const Filter *f, const uint8_t *key, size_t n)
    int add_prefixes(Filter *f, const Prefix *found, int n)
    ctypedef struct Table:
        Filter hash
        uint64_t *places
        uint64_t *n_keys
        uint64_t mask
        uint64_t limit
        int shift
    uint64_t key_fingerprint(const Table *t, const uint8_t *key, size_t n)
    int table_find(const Table *t, uint64_t fingerprint)
    int table_add(Table *t, uint64_t fingerprint)
    size_t table_many(Table *t, int adds, const uint8_t **keys, const size_t *lengths,
                         size_t n, int64_t *answers)
    void table_refill(Table *t, const uint64_t *places, size_t n)
    size_t filter_many(Filter *f, int adds, const uint8_t **keys, const size_t *lengths,
                   size_t n, int64_t *answers)

FULL = FILTER_FULL


cdef uint64_t *pointer(const uint64_t[::1] array) noexcept:
    return <uint64_t *> &array[0]


cdef inline int see(object key, const uint8_t **start, Py_ssize_t *length) except -1:
    """Where a key's bytes are, as long as the key lives; of a str, its UTF-8."""
    cdef char *data
    if isinstance(key, str):
        start[0] = <const uint8_t *> PyUnicode_AsUTF8AndSize(key, length)
    else:
        PyBytes_AsStringAndSize(key, &data, length)
        start[0] = <const uint8_t *> data
    return 0


cdef class Keys:
    """Where the bytes of many keys are, and room for their answers."""
    cdef tuple held
    cdef const uint8_t **starts
    cdef size_t *lengths
    cdef size_t n
    cdef int64_t[::1] answers

    def __cinit__(self, keys):
        cdef Py_ssize_t length
        cdef size_t i
        self.held = tuple(keys)
        self.n = len(self.held)
        self.starts = <const uint8_t **> malloc((self.n + 1) * sizeof(uint8_t *))
        self.lengths = <size_t *> malloc((self.n + 1) * sizeof(size_t))
        self.answers = np.full(self.n + 1, FILTER_FULL, np.int64)
        if not self.starts or not self.lengths:
            raise MemoryError
        for i in range(self.n):
            see(self.held[i], &self.starts[i], &length)
            self.lengths[i] = <size_t> length

    def __dealloc__(self):
        free(self.starts)
        free(self.lengths)

    cdef object result(self):
        return np.asarray(self.answers)[: self.n]


cdef class LayeredBits:
    cdef Filter filter
    cdef object kept  # the arrays whose memory the filter points to

    def __cinit__(self, seed, layout, counts, words):
        cdef const uint64_t[:, ::1] rows = layout
        cdef size_t i, n = rows.shape[0], layer = 0
        self.kept = (list(counts), list(words))
        self.filter.seed[0], self.filter.seed[1] = int(seed[0]), int(seed[1])
        self.filter.slices = <Slice *> malloc(n * sizeof(Slice))
        if not self.filter.slices:
            raise MemoryError
        for i in range(n):
            while layer < rows[i, 0]:
                self.filter.start[layer] = i
                layer += 1
            self.filter.slices[i].n_hashes = <uint32_t> rows[i, 1]
            self.filter.slices[i].blocked = <uint32_t> rows[i, 2]
            self.filter.slices[i].limit = rows[i, 3]
            self.filter.slices[i].counts = pointer(counts[i])
            self.filter.slices[i].words = pointer(words[i])
            self.filter.slices[i].size_bits = 64 * <uint64_t> len(words[i])
        self.filter.start[layer] = n
        self.filter.layers = <int> layer - 1

    def __dealloc__(self):
        free(self.filter.slices)

    def __contains__(self, key):
        cdef const uint8_t *start
        cdef Py_ssize_t length
        see(key, &start, &length)
        return holds_key(&self.filter, start, length)

    def add(self, key):
        cdef Prefix found[MAX_LAYERS]
        cdef const uint8_t *start
        cdef Py_ssize_t length
        see(key, &start, &length)
        return add_prefixes(
            &self.filter, found, prefixes_of(&self.filter, start, length, found)
        )

    def find_many(self, keys):
        cdef Keys held = Keys(keys)
        with nogil:
            filter_many(&self.filter, 0, held.starts, held.lengths, held.n, &held.answers[0])
        return held.result()

    def add_many(self, keys):
        cdef Keys held = Keys(keys)
        with nogil:
            filter_many(&self.filter, 1, held.starts, held.lengths, held.n, &held.answers[0])
        return held.result()


cdef class TableBits:
    cdef Table table
    cdef object kept

    def __cinit__(self, seed, places, n_keys, limit):
        self.kept = (places, n_keys)
        self.table.hash.seed[0], self.table.hash.seed[1] = int(seed[0]), int(seed[1])
        self.table.places, self.table.n_keys = pointer(places), pointer(n_keys)
        self.table.mask = <uint64_t> len(places) - 1
        self.table.shift = 65 - <int> len(places).bit_length()
        self.table.limit = limit

    def __contains__(self, key):
        cdef const uint8_t *start
        cdef Py_ssize_t length
        see(key, &start, &length)
        return not table_find(
            &self.table, key_fingerprint(&self.table, start, length)
        )

    def add(self, key):
        cdef const uint8_t *start
        cdef Py_ssize_t length
        see(key, &start, &length)
        return table_add(&self.table, key_fingerprint(&self.table, start, length))

    def find_many(self, keys):
        cdef Keys held = Keys(keys)
        with nogil:
            table_many(&self.table, 0, held.starts, held.lengths, held.n, &held.answers[0])
        return held.result()

    def add_many(self, keys):
        cdef Keys held = Keys(keys)
        with nogil:
            table_many(&self.table, 1, held.starts, held.lengths, held.n, &held.answers[0])
        return held.result()

    def refill(self, places):
        cdef const uint64_t[::1] old = places
        with nogil:
            table_refill(&self.table, &old[0], old.shape[0])

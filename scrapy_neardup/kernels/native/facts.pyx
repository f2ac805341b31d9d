# cython: boundscheck=False, wraparound=False
"""Visible text → what exact copies share, and the sentences that state facts, compiled: the
contract is kernels/numpy_twin/facts.py."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc

import numpy as np

from scrapy_neardup.kernels.numpy_twin import facts as twin

include "memory.pxi"
include "utf8.pxi"

cdef extern from "facts.h":
    enum:
        CELLS
        PAGE
        SPARE

    ctypedef enum Status:
        DONE
        NEEDS_PAGE
        NEEDS_PYTHON
        NEEDS_ROOM

    ctypedef struct Sentence:
        int64_t line
        uint64_t mask
        uint64_t value

    ctypedef struct Negation:
        int64_t line
        uint64_t hash

    ctypedef struct Reader:
        const uint8_t *text
        size_t length
        int is_canonical
        int64_t max_lines
        uint8_t *exact
        size_t n_exact
        Sentence *sentences
        size_t n
        size_t room
        Negation *negations
        size_t n_negations
        size_t negation_room
        size_t needed
        uint32_t page

    void add_negation(uint64_t hash)
    void add_page(int number, uint32_t *page)
    Status read_until(Reader *reader) nogil
    uint64_t four_of(const uint64_t *hashes, size_t n)
    void fill_table(const int64_t *lines, const uint64_t *masks, const uint64_t *values,
                    size_t n, const int64_t *own, size_t n_own, uint64_t *row) nogil
    uint64_t sum_of_own(const int64_t *lines, const uint64_t *hashes, size_t n,
                        const int64_t *own, size_t n_own) nogil
    uint64_t spelling_of_some(const uint8_t *words, const int64_t *ends, const uint8_t *is_wanted,
                              size_t n)

cdef extern from "string.h":
    void *memset(void *memory, int byte, size_t n)

cdef object empty = np.empty, zeros = np.zeros
cdef object u64 = np.dtype(np.uint64), i64 = np.dtype(np.int64)


def read(str text, int64_t max_lines):
    """What exact copies share, sentences that state facts, negations; see the twin."""
    # A lone surrogate takes three bytes, as any other character of its plane.
    found = read_utf8(encodable(text, "surrogatepass"), max_lines, False)
    return found or read_utf8(encodable(twin.canonical(text), "surrogatepass"), max_lines, True)


cdef read_utf8(owner, int64_t max_lines, bint is_canonical):
    """The same; None where the text has to be in canonical form first."""
    cdef Reader reader
    cdef Py_ssize_t length
    memset(&reader, 0, sizeof(Reader))
    reader.text = utf8_of(owner, &length)
    reader.length, reader.max_lines, reader.is_canonical = length, max_lines, is_canonical
    reader.exact = <uint8_t *>malloc(length + SPARE)
    try:
        if reader.exact is NULL:
            raise MemoryError("no memory for the text of a page")
        if not finish(&reader):
            return None
        return (copied(reader.exact, reader.n_exact), *columns(&reader))
    finally:
        free(reader.exact)
        free(reader.sentences)
        free(reader.negations)


cdef bint finish(Reader *reader) except -1:
    """Read to the end; False where that needs the canonical form."""
    cdef Status status = NEEDS_ROOM
    while True:
        with nogil:
            status = read_until(reader)
        if status == DONE or status == NEEDS_PYTHON:
            return status == DONE
        if status == NEEDS_PAGE:
            make_page(reader.page)
        else:
            make_room(reader)


cdef make_room(Reader *reader):
    cdef size_t room
    if reader.n == reader.room:
        room = 2 * reader.room + 64
        sentences = <Sentence *>realloc(reader.sentences, room * sizeof(Sentence))
        if sentences is NULL:
            raise MemoryError("no memory for the facts of a page")
        reader.sentences, reader.room = sentences, room
    if reader.negation_room - reader.n_negations < reader.needed:
        room = 2 * reader.negation_room + reader.needed + 64
        negations = <Negation *>realloc(reader.negations, room * sizeof(Negation))
        if negations is NULL:
            raise MemoryError("no memory for the facts of a page")
        reader.negations, reader.negation_room = negations, room


cdef tuple columns(Reader *reader):
    """The sentences and negations as arrays."""
    cdef size_t i
    n, n_negations = reader.n, reader.n_negations
    lines, masks, values = empty(n, i64), empty(n, u64), empty(n, u64)
    negation_lines, negations = empty(n_negations, i64), empty(n_negations, u64)
    cdef int64_t *line = <int64_t *>writable(lines)
    cdef uint64_t *mask = <uint64_t *>writable(masks)
    cdef uint64_t *value = <uint64_t *>writable(values)
    with nogil:  # a long page has millions
        for i in range(reader.n):
            line[i] = reader.sentences[i].line
            mask[i] = reader.sentences[i].mask
            value[i] = reader.sentences[i].value
    line, value = <int64_t *>writable(negation_lines), <uint64_t *>writable(negations)
    with nogil:
        for i in range(reader.n_negations):
            line[i] = reader.negations[i].line
            value[i] = reader.negations[i].hash
    return lines, masks, values, negation_lines, negations


def table(lines, masks, values, negation_lines, negations, titles, headings, own_lines):
    """Facts as a page stores them; see the twin."""
    cdef const int64_t *line = <const int64_t *>readable(lines)
    cdef const uint64_t *mask = <const uint64_t *>readable(masks)
    cdef const uint64_t *value = <const uint64_t *>readable(values)
    cdef const int64_t *own = <const int64_t *>readable(own_lines)
    cdef size_t n = len(lines), n_negations = len(negations), n_own = len(own_lines)
    row = zeros(CELLS // 4 + 4, u64)
    cdef uint64_t *words = <uint64_t *>writable(row)
    words[CELLS // 4] = four_of(<const uint64_t *>readable(titles), len(titles))
    words[CELLS // 4 + 1] = four_of(<const uint64_t *>readable(headings), len(headings))
    if n_own:
        with nogil:
            fill_table(line, mask, value, n, own, n_own, words)
        line = <const int64_t *>readable(negation_lines)
        value = <const uint64_t *>readable(negations)
        with nogil:
            words[CELLS // 4 + 3] = sum_of_own(line, value, n_negations, own, n_own)
    return row


def spelling(bytes words, ends, is_wanted):
    """How the words of some blocks are spelt; see the twin."""
    return spelling_of_some(<const uint8_t *><const char *>words, <const int64_t *>readable(ends),
                            <const uint8_t *>readable(is_wanted), len(ends))


cdef make_page(uint32_t number):
    """Publishes what each of PAGE characters is."""
    cdef uint32_t *page
    entries = [twin.entry(chr(code)) for code in range(number * PAGE, (number + 1) * PAGE)]
    page = <uint32_t *>malloc(PAGE * sizeof(uint32_t))
    if page is NULL:
        raise MemoryError("no memory for a table of characters")
    for i, entry in enumerate(entries):
        page[i] = entry
    add_page(number, page)


for hash in twin.negation_hashes().tolist():
    add_negation(hash)

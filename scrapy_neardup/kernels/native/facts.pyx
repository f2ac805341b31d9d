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
        COUNT
        IS_VALUE
        NEGATES
        PAGE
        ROW
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

    void add_known(uint64_t hash, int says)
    void note_known(const uint8_t *word)
    void add_page(int number, uint32_t *page)
    Status read_until(Reader *reader) nogil
    ctypedef struct Stated:
        const int64_t *lines
        const uint64_t *masks
        const uint64_t *values
        size_t n
        const int64_t *negation_lines
        const uint64_t *negations
        size_t n_negations
        const uint64_t *titles
        const uint64_t *headings
        size_t n_titles
        size_t n_headings

    ctypedef struct Blocks:
        const uint8_t *words
        const uint64_t *hashes
        const int64_t *ends
        const int64_t *lines
        const int64_t *n_words
        size_t n

    void pack(const Blocks *blocks, const Stated *stated, const uint8_t *are_own, int64_t *own,
              uint64_t *row) nogil
    int difference(const uint64_t *row, const uint64_t *other, double n_differing,
                   double n_own) nogil
    int rewording(const uint64_t *row, const uint64_t *other, double n_differing) nogil

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


def packed(bytes words, hashes, ends, block_lines, n_words, are_own, lines, masks, values,
           negation_lines, negations, titles, headings, uint64_t tag):
    """Facts as a page stores them; see the twin."""
    cdef Blocks blocks
    cdef Stated stated
    cdef int64_t *own
    cdef const uint8_t *of_no_template = <const uint8_t *>readable(are_own)
    blocks.words, blocks.n = <const uint8_t *><const char *>words, len(ends)
    blocks.hashes = <const uint64_t *>readable(hashes)
    blocks.ends = <const int64_t *>readable(ends)
    blocks.lines = <const int64_t *>readable(block_lines)
    blocks.n_words = <const int64_t *>readable(n_words)
    stated.lines, stated.n = <const int64_t *>readable(lines), len(lines)
    stated.masks = <const uint64_t *>readable(masks)
    stated.values = <const uint64_t *>readable(values)
    stated.negation_lines = <const int64_t *>readable(negation_lines)
    stated.negations = <const uint64_t *>readable(negations)
    stated.n_negations = len(negations)
    stated.titles, stated.n_titles = <const uint64_t *>readable(titles), len(titles)
    stated.headings, stated.n_headings = <const uint64_t *>readable(headings), len(headings)
    if len(hashes) != len(ends):
        raise ValueError(f"{len(hashes)} hashes of {len(ends)} blocks")
    if <size_t>len(are_own) != blocks.n + stated.n_titles + stated.n_headings:
        raise ValueError(
            f"are_own is of {len(are_own)}: {blocks.n} blocks, {stated.n_titles} parts of the "
            f"title and {stated.n_headings} of headings are needed")
    row = zeros(ROW, u64)
    cdef uint64_t *facts = <uint64_t *>writable(row)
    own = <int64_t *>malloc((blocks.n + stated.n + 1) * sizeof(int64_t))
    if own is NULL:
        raise MemoryError("no memory for the facts of a page")
    with nogil:
        pack(&blocks, &stated, of_no_template, own, facts)
        free(own)
    facts[COUNT] |= tag << 32
    return row


def differences(row, rows, n_differing, n_own):
    """In what a page differs from others; see the twin."""
    cdef size_t i, step, n = len(rows)
    check_rows(row, rows, n_differing, n_own)
    cdef const uint64_t *facts = <const uint64_t *>readable(row)
    cdef const uint64_t *others = <const uint64_t *>readable_rows(rows, &step)
    cdef const double *differing = <const double *>readable(n_differing)
    cdef const double *own = <const double *>readable(n_own)
    found = empty(n, i64)
    cdef int64_t *to = <int64_t *>writable(found)
    with nogil:
        for i in range(n):
            to[i] = difference(facts, others + i * step, differing[i], own[i])
    return found


def reworded(row, rows, n_differing):
    """What pages say else in brief lines; see the twin."""
    cdef size_t i, step, n = len(rows)
    check_rows(row, rows, n_differing, n_differing)
    cdef const uint64_t *facts = <const uint64_t *>readable(row)
    cdef const uint64_t *others = <const uint64_t *>readable_rows(rows, &step)
    cdef const double *differing = <const double *>readable(n_differing)
    found = empty(n, i64)
    cdef int64_t *to = <int64_t *>writable(found)
    with nogil:
        for i in range(n):
            to[i] = rewording(facts, others + i * step, differing[i])
    return found


cdef check_rows(row, rows, n_differing, n_own):
    if len(row) != ROW or rows.shape[1] != ROW or not len(n_differing) == len(n_own) == len(rows):
        raise ValueError(f"facts of {len(row)} and of {rows.shape} words: {ROW} are needed")


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
    add_known(hash, NEGATES)
for hash in twin.value_hashes().tolist():
    add_known(hash, IS_VALUE)
for word in twin.NEGATIONS | twin.VALUES:
    note_known(word.encode().ljust(SPARE))

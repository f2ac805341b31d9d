# cython: boundscheck=False, wraparound=False
"""Visible text → normalised words, compiled: the contract is kernels/numpy_twin/words.py."""

import unicodedata
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc

import numpy as np

from scrapy_neardup.kernels.numpy_twin.words import (
    UNSPACED_RUN,
    WORD_CATEGORIES,
    composing,
    normal_pieces,
)

include "memory.pxi"
include "simd.pxi"
include "utf8.pxi"

cdef extern from "words.h":
    enum:
        CONTEXT
        MAX_EXPANSION
        PAGE
        SEPARATOR
        SLACK
        SPACE
        SPACED
        STRING
        UNSPACED

    ctypedef enum Status:
        DONE
        NEEDS_PAGE
        NEEDS_PYTHON
        NEEDS_ROOM

    ctypedef struct Words:
        const uint8_t *text
        size_t length
        size_t at
        uint8_t *out
        size_t n
        size_t room
        size_t run
        size_t run_n
        size_t ascii
        uint32_t order
        uint32_t marks
        int is_normal
        uint32_t unspaced
        uint32_t page
        int simd

    ctypedef struct Blocks:
        size_t end
        size_t max_lines
        size_t start
        int64_t line
        size_t n
        uint64_t *hashes
        int64_t *n_words
        int64_t *lines
        int64_t *ends

    size_t lines_at_most(const uint8_t *text, size_t length, size_t max_lines) nogil
    size_t run_end(const Words *words, size_t at_least)
    void add_page(int number, uint32_t *page)
    Status words_until(Words *words) nogil
    Status blocks_until(Words *words, Blocks *blocks) nogil

cdef object empty = np.empty, u64 = np.dtype(np.uint64), i64 = np.dtype(np.int64)

MAX_SHARE = 1 << 14  # bytes
# Lone surrogates become question marks: both separate, and to decode surrogates takes a
# microsecond each.
SURROGATES = "replace"


def normalise(str text):
    """The words of a text, in order, joined by single spaces, as UTF-8."""
    cdef Blocks one
    cdef Py_ssize_t length
    owner = encodable(text, SURROGATES)
    one.max_lines, one.hashes = 0, NULL
    cdef const uint8_t *utf8 = utf8_of(owner, &length)
    return words_of(utf8, length, &one)


def blocks(str text, size_t max_lines):
    """The same words, and of each line that has any what the twin says."""
    cdef Py_ssize_t length
    cdef Blocks found
    owner = encodable(text, SURROGATES)
    cdef const uint8_t *utf8 = utf8_of(owner, &length)
    cdef size_t n_lines = lines_at_most(utf8, length, max_lines)
    hashes, (n_words, at, ends) = empty(n_lines, u64), empty((3, n_lines), i64)
    found.max_lines = max_lines
    found.hashes, found.n_words = <uint64_t *>writable(hashes), <int64_t *>writable(n_words)
    found.lines, found.ends = <int64_t *>writable(at), <int64_t *>writable(ends)
    words = words_of(utf8, length, &found)
    n = found.n
    return words, hashes[:n], n_words[:n], at[:n], ends[:n]


cdef bytes words_of(const uint8_t *utf8, size_t length, Blocks *blocks):
    """The words of a text in UTF-8, and its blocks."""
    cdef Words w
    w.text, w.length, w.at = utf8, 0, 0
    w.out, w.room, w.n, w.run, w.run_n = NULL, 0, 1, 0, 1
    w.ascii = w.order = w.marks = w.is_normal = w.unspaced = 0
    w.simd = simd_level
    blocks.end, blocks.start, blocks.line, blocks.n = length, 1, 0, 0
    make_room(&w, blocks.end + SLACK)
    try:
        w.out[0] = SPACE
        finish(&w, blocks)
        w.n -= w.n > 1  # the space after the last word
        return copied(w.out + 1, w.n - 1)
    finally:
        free(w.out)


cdef finish(Words *w, Blocks *blocks):
    cdef Status status = NEEDS_ROOM
    cdef size_t end, by_python = 0, share = 0  # where Python left off, and what it is given at least
    while status != DONE:
        with nogil:
            status = blocks_until(w, blocks)
        if status == NEEDS_PYTHON:
            # Python is slow to start: where it is needed again and again, it is given more.
            share = min(2 * share + 64, MAX_SHARE) if w.run - by_python <= share + 64 else 0
            end = run_end(w, max(w.at, w.run + share))
            normalise_run(w, end)
            by_python = w.at
        else:
            provide(w, status)


cdef provide(Words *w, Status needed):
    """What words_until() needs to go on."""
    if needed == NEEDS_ROOM:
        make_room(w, w.room + w.length - w.at + SLACK)
    elif needed == NEEDS_PAGE:
        make_page(w.page)


cdef make_room(Words *w, size_t room):
    """At least so much room, and half as much again so that a text seldom needs more."""
    cdef uint8_t *out
    if w.room >= room:
        return
    out = <uint8_t *>realloc(w.out, room + room // 2)
    if out is NULL:
        raise MemoryError("no memory for the words of a text")
    w.out, w.room = out, room + room // 2


cdef normalise_run(Words *w, size_t end):
    """The words from where w's run begins to `end`, an ASCII space or the text's end."""
    cdef const uint8_t *text = w.text
    cdef size_t length = w.length
    cdef bytes run = (<const char *>text)[w.run : end]
    w.n, w.unspaced = w.run_n, 0
    try:
        for piece in normal_pieces(run.decode()):
            add_normal(w, piece.encode())
    finally:
        w.text, w.length, w.at, w.is_normal = text, length, end, 0
        w.ascii = w.run = end
        w.run_n = w.n
        w.order = w.marks = 0


cdef add_normal(Words *w, bytes piece):
    """The words of text in normal form, which may begin or end within one."""
    cdef Status status = NEEDS_ROOM
    w.text, w.length, w.at, w.ascii, w.is_normal = piece, len(piece), 0, 0, True
    while status != DONE:
        with nogil:
            status = words_until(w)
        provide(w, status)


cdef make_page(uint32_t number):
    """Publishes what becomes of each of PAGE code points."""
    cdef uint32_t *page
    entries, strings = [], []
    letters = "".join(map(chr, range(number * PAGE, (number + 1) * PAGE)))
    plain = stand_for_themselves(letters)
    found = zip(as_they_are(letters)) if plain else map(becomes, letters)
    for letter, parts in zip(letters, found):
        kind = STRING if parts else CONTEXT
        parts = parts or as_they_are(letter.casefold())
        if len(parts) == 1 and kind == STRING:
            entries.append(parts[0])
        else:
            entries.append(kind | PAGE + len(strings) << 11)
            strings += [len(parts), *parts]
    entries += strings
    page = <uint32_t *>malloc(len(entries) * sizeof(uint32_t))
    if page is NULL:
        raise MemoryError("no memory for a table of characters")
    for i, entry in enumerate(entries):
        page[i] = entry
    add_page(number, page)


def stand_for_themselves(str letters) -> bool:
    """Whether becomes() would say of each that it is what it is; whole scripts are made so."""
    return (unicodedata.is_normalized("NFKC", letters) and letters.casefold() == letters
            and not any(map(unicodedata.combining, letters)) and composing().isdisjoint(letters))


def becomes(str letter) -> list[int]:
    """The entries of words.h for what a character becomes, in any company; none if it depends.

    That is its NFKC, folded, if no canonical composition can have any part of that as its
    second character; and if nothing can change places with it, or it is alone, so that its
    combining class is looked at.
    """
    normal = unicodedata.normalize("NFKC", letter)
    order = unicodedata.combining(letter) if normal == letter else 0
    movable = normal != letter and any(map(unicodedata.combining, normal))
    folded = normal.casefold()
    if (movable or any(c in composing() for c in normal) or len(folded) > MAX_EXPANSION
            or order and len(folded) > 1):
        return []
    return [entry | order << 3 for entry in as_they_are(folded)]


cdef list as_they_are(str letters):
    """The entries of folded characters, one each."""
    unspaced = frozenset().union(*UNSPACED_RUN.findall(letters))
    entries, category = [], unicodedata.category
    for letter in letters:
        if category(letter) not in WORD_CATEGORIES:
            entries.append(SEPARATOR | ord(letter) << 11)
        else:
            entries.append((UNSPACED if letter in unspaced else SPACED) | ord(letter) << 11)
    return entries


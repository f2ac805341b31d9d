# The UTF-8 of texts, which CPython keeps in them once it was asked for.

from libc.stdint cimport uint8_t

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *length) except NULL


cdef encodable(str text, str surrogates):
    """The text, its UTF-8 now in it; bytes where it has lone surrogates, encoded as that error
    handler says."""
    cdef Py_ssize_t length
    try:
        PyUnicode_AsUTF8AndSize(text, &length)
    except UnicodeEncodeError:
        return text.encode("utf-8", surrogates)
    return text


cdef const uint8_t *utf8_of(encoded, Py_ssize_t *length) except NULL:
    """The UTF-8 of what encodable() gave, which owns it; an ASCII text is its own."""
    if isinstance(encoded, str):
        return <const uint8_t *>PyUnicode_AsUTF8AndSize(encoded, length)
    length[0] = len(encoded)
    return <const uint8_t *><const char *><bytes>encoded

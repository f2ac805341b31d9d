# The memory of arrays, which lives as long as they do; no view of it is made, which takes longer.

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_STRIDES,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)


cdef extern from "string.h" nogil:
    void *memcpy(void *to, const void *source, size_t n)

cdef size_t LONG = 1 << 20


cdef bytes copied(const void *memory, size_t n):
    """Memory as bytes. Of many, Python's lock is given up meanwhile."""
    if n < LONG:
        return PyBytes_FromStringAndSize(<const char *>memory, n)
    cdef bytes found = PyBytes_FromStringAndSize(NULL, n)
    cdef char *to = PyBytes_AsString(found)
    with nogil:
        memcpy(to, memory, n)
    return found


cdef void *writable(array) except? NULL:
    """The memory of a contiguous array that is written to."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(array, &buffer, PyBUF_WRITABLE)
    cdef void *memory = buffer.buf
    PyBuffer_Release(&buffer)
    return memory


cdef const void *readable_rows(array, size_t *step) except? NULL:
    """The memory of rows that are read, each contiguous; step: words from one to the next."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(array, &buffer, PyBUF_STRIDES)
    cdef const void *memory = buffer.buf
    cdef bint fits = buffer.ndim == 2 and buffer.itemsize == 8
    if fits:
        step[0] = buffer.strides[0] // 8
        fits = buffer.strides[1] == 8 and buffer.strides[0] >= 0 and buffer.strides[0] % 8 == 0
    PyBuffer_Release(&buffer)
    if not fits:
        raise ValueError("rows of 64-bit words, each contiguous, are needed")
    return memory


cdef const void *readable(array) except? NULL:
    """The memory of an array that is read, contiguous as rows."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(array, &buffer, PyBUF_C_CONTIGUOUS)
    cdef const void *memory = buffer.buf
    PyBuffer_Release(&buffer)
    return memory

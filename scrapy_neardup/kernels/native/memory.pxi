# The memory of arrays, which lives as long as they do; no view of it is made, which takes longer.

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)


cdef void *writable(array) except? NULL:
    """The memory of a contiguous array that is written to."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(array, &buffer, PyBUF_WRITABLE)
    cdef void *memory = buffer.buf
    PyBuffer_Release(&buffer)
    return memory


cdef const void *readable(array) except? NULL:
    """The memory of an array that is read, contiguous as rows."""
    cdef Py_buffer buffer
    PyObject_GetBuffer(array, &buffer, PyBUF_C_CONTIGUOUS)
    cdef const void *memory = buffer.buf
    PyBuffer_Release(&buffer)
    return memory

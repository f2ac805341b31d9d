# cython: language_level=3, boundscheck=False, wraparound=False
"""Parsed markup → visible text, compiled: the contract is kernels/numpy_twin/markup.py.

The tree is read where lxml keeps it: ten times faster than by a stylesheet, which calls a
function and makes a node for each piece of text. Should an lxml lay out its elements in another
way than markup.h says, the twin does it.
"""

from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdlib cimport free

from functools import cache

from lxml import etree

from scrapy_neardup.kernels.numpy_twin.markup import BLOCKS, INVISIBLE
from scrapy_neardup.kernels.numpy_twin.markup import visible_text as visible_text_by_lxml

cdef extern from "markup.h":
    enum:
        ELEMENT
        MAX_NAMES

    ctypedef enum Kind:
        IS_BLOCK
        IS_INVISIBLE

    ctypedef struct Node:
        int type
        const char *name

    ctypedef struct Element:
        const Node *node

    ctypedef struct Name:
        const char *name
        Kind kind

    ctypedef struct Text:
        char *bytes
        size_t n
        size_t room

    ctypedef struct Names:
        size_t n
        Name names[MAX_NAMES]

    int append_visible(Text *text, const Names *names, const Node *root)

PROBE = b"<a><p>b<br/></p>c<script>d</script>e<!-- f --></a>"

cdef Names NAMES


def visible_text(root) -> str:
    """The visible text below an lxml element; see the twin, whose bound on depth it has not."""
    return text_below(root) if knows_layout() else visible_text_by_lxml(root)


cdef str text_below(root):
    cdef Text text
    if not isinstance(root, etree._Element):
        raise TypeError(f"{root!r} is no element of lxml")
    text.bytes, text.n, text.room = NULL, 0, 0
    try:
        if not append_visible(&text, &NAMES, (<Element *><PyObject *>root).node):
            raise MemoryError("no memory for the visible text of a page")
        return PyUnicode_DecodeUTF8(text.bytes, text.n, NULL) if text.n else ""
    finally:
        free(text.bytes)


@cache
def knows_layout() -> bool:
    """Whether elements are laid out as markup.h says: read step by step, and compared."""
    cdef const Node *node
    probe = etree.fromstring(PROBE)
    if etree._Element.__basicsize__ < sizeof(Element):
        return False
    node = (<Element *><PyObject *>probe).node
    if node.type != ELEMENT or <bytes>node.name != b"a":
        return False
    list_names()
    return text_below(probe) == visible_text_by_lxml(probe)


cdef list_names():
    """BLOCKS and INVISIBLE, sorted, for as long as the process lives."""
    global ENCODED
    kinds = dict.fromkeys(BLOCKS, IS_BLOCK) | dict.fromkeys(INVISIBLE, IS_INVISIBLE)
    ENCODED = sorted((name.encode(), kind) for name, kind in kinds.items())
    if len(ENCODED) > MAX_NAMES:
        raise ValueError(f"{len(ENCODED)} names of elements, at most {MAX_NAMES}")
    for i, (name, kind) in enumerate(ENCODED):
        NAMES.names[i].name, NAMES.names[i].kind = name, kind
    NAMES.n = len(ENCODED)


ENCODED = []  # keeps the names alive that NAMES points to

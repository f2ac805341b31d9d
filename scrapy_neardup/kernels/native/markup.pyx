# cython: language_level=3, boundscheck=False, wraparound=False
"""Parsed markup → visible text, compiled: the contract is kernels/numpy_twin/markup.py.

The tree is read where lxml keeps it: ten times faster than by a stylesheet, which calls a
function and makes a node for each piece of text. Should an lxml lay out its elements in another
way than markup.h says, the twin does it, and a warning says so once.
"""

from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t
from libc.stdlib cimport free
from libc.string cimport memchr

import gc
import logging
from functools import cache

from lxml import etree

from scrapy_neardup.kernels.numpy_twin import markup as twin
from scrapy_neardup.kernels.numpy_twin.markup import visible_text as visible_text_by_lxml

cdef extern from "markup.h":
    enum:
        ELEMENT
        MAX_NAMES

    ctypedef enum Kind:
        IS_INLINE
        IS_BLOCK
        IS_INVISIBLE
        IS_UNSHOWN
        IS_SPAN
        IS_MARK
        IS_CELL
        IS_SILENT
        IS_LOOK
        IS_LINK

    ctypedef struct Node:
        const void *private_
        int type
        const char *name
        const Node *children
        const Node *last
        const Node *parent
        const Node *next
        const Node *previous
        const void *document
        const void *namespace_
        const char *content

    ctypedef struct Element:
        PyObject *document
        const Node *node

    ctypedef struct Text:
        char *bytes
        size_t n
        size_t room

    ctypedef struct Names:
        pass

    ctypedef struct Piece:
        const uint8_t *start
        const uint8_t *end

    ctypedef struct Tags:
        const uint8_t *at
        const uint8_t *end
        Piece name
        int closes
        const char *raw

    void add_name(Names *names, const char *name, Kind kind)
    int next_tag(Tags *tags)
    int next_attribute(Tags *tags, Piece *name, Piece *value)
    int names_piece(Piece piece, const char *name)
    Kind kind_of_piece(const Names *names, Piece piece)
    int counts(Kind element, Piece name, Piece value, const Names *attributes,
               const Names *pages)
    int is_empty(const Tags *tags)
    size_t write_line(char *line, size_t room, Piece element, Piece name, Piece value)
    int append_visible(Text *text, const Names *names, const Node *root)
    size_t n_tags_and_attributes(const uint8_t *page, size_t n) noexcept nogil
    size_t most_attributes(const uint8_t *page, size_t n, size_t *all) noexcept nogil

# Every relation between nodes that is read: first and last child, neighbours, text, namespaces.
PROBE = b"<a xmlns:x='x'><p>b<br/></p><p/><i/>c<script>d</script>e<x:y/><!-- f --></a>"

logger = logging.getLogger(__name__)

cdef Names NAMES, ELEMENTS, ATTRIBUTES, PAGE_NAMES, LASTING_NAMES
cdef frozenset LASTING = twin.LASTING


def visible_text(root) -> str:
    """The visible text below an lxml element; see the twin, whose bound on depth it has not."""
    return text_below(root) if knows_layout() else visible_text_by_lxml(root)


def tags_and_attributes(bytes page) -> int:
    """The `<` and `=` of a page; see the twin."""
    return n_tags_and_attributes(page, len(page))


def count_attributes(bytes page) -> tuple[int, int]:
    """The most attributes that a tag of a page in UTF-8 has, and those of all; see the twin."""
    cdef const uint8_t *start = page
    cdef size_t most, every, n = len(page)
    with nogil:
        most = most_attributes(start, n, &every)
    return most, every


def details(bytes page):
    """By what a page differs from others that read alike; see the twin.

    A generator, so that Python's lock can pass to another thread between two of them.
    """
    cdef Tags tags
    cdef Piece name, value
    cdef Kind kind
    cdef size_t n_cells = 0
    cdef dict names = {}
    tags.at = page
    tags.end, tags.raw = tags.at + len(page), NULL
    while next_tag(&tags):
        kind = kind_of_piece(&ELEMENTS, tags.name)
        if tags.closes or kind == IS_UNSHOWN:
            while next_attribute(&tags, &name, &value):
                pass
            continue
        is_entry = names_piece(tags.name, "li")
        own = None
        values = []
        while next_attribute(&tags, &name, &value):
            if names_piece(name, "name"):
                own = text_of(value)
            if not counts(kind, name, value, &ATTRIBUTES, &PAGE_NAMES):
                continue
            if says_nothing_of_the_visit(name, value) and not (
                is_entry and names_piece(name, "class")
            ):
                values.append(line_of(tags.name, name, value, names))
            else:
                values.append((lower_text_of(name, names), text_of(value)))
        n_cells += kind == IS_CELL
        if kind == IS_MARK:
            yield f"{lower_text_of(tags.name, names)}. "
        elif kind == IS_CELL and is_empty(&tags):
            yield f"{lower_text_of(tags.name, names)}. {n_cells}"
        for said in values:
            if isinstance(said, tuple):
                said = with_element(lower_text_of(tags.name, names), own, said)
            yield said


cdef with_element(str element, str own, tuple said):
    """A detail of an element; own: its name, which that of a `value` is."""
    cdef str key, value
    key, value = said
    if own and key == "value":
        key = own
        if key in LASTING and "/" not in value:
            return f"{element}.{key} {value}"
    return element, key, value


cdef bint says_nothing_of_the_visit(Piece name, Piece value):
    if not kind_of_piece(&LASTING_NAMES, name):
        return False
    return memchr(value.start, b"/", value.end - value.start) == NULL


cdef str line_of(Piece element, Piece name, Piece value, dict names):
    """A detail as a line. names: see lower_text_of."""
    cdef char line[512]
    cdef size_t n
    n = write_line(line, sizeof(line), element, name, value)
    if n:
        return PyUnicode_DecodeUTF8(line, n, "surrogateescape")
    return f"{lower_text_of(element, names)}.{lower_text_of(name, names)} {text_of(value)}"


cdef str text_of(Piece piece):
    return PyUnicode_DecodeUTF8(
        <const char *>piece.start, piece.end - piece.start, "surrogateescape"
    )


cdef str lower_text_of(Piece piece, dict names):
    """A name in lower case. names: those of the page, as they are written, made once each."""
    written = piece.start[: piece.end - piece.start]
    name = names.get(written)
    if name is None:
        name = names[written] = written.lower().decode("utf-8", "surrogateescape")
    return name


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
    """Whether elements are laid out as markup.h says; where not, a warning says what differs."""
    root = etree.fromstring(PROBE)
    fault = layout_fault(list(root.iter()))
    if not fault:
        fault = "" if text_below(root) == visible_text_by_lxml(root) else "the text"
    if fault:
        logger.warning(
            "lxml %s keeps %s in another way than its elements were read so far: text is taken "
            "out of pages by a stylesheet, which takes ten times as long",
            etree.__version__,
            fault,
        )
    return not fault


def layout_fault(elements) -> str:
    """What of PROBE's elements is not where markup.h says; "" where everything is.

    A pointer is followed only after its place was proved by an address that is known: no layout
    makes this crash.
    """
    cdef const Node *nodes[8]
    for i, element in enumerate(elements):
        fault = element_fault(element)
        if fault:
            return fault
        nodes[i] = (<Element *><PyObject *>element).node
    return tree_fault(nodes)


def element_fault(element) -> str:
    """What of an element is not where markup.h says; "" where everything is."""
    cdef Element *inside = <Element *><PyObject *>element
    if type(element).__basicsize__ < sizeof(Element):
        return "elements"
    referents = {id(referent) for referent in gc.get_referents(element)}
    if <size_t>inside.document not in referents:
        return "the document of an element"
    node = <size_t>inside.node
    # An object of Python, a number or flags in its place would not be a node's address.
    if node in referents or node == id(None) or node < 4096 or node % sizeof(void *):
        return "the node of an element"
    if inside.node.private_ != <PyObject *>element:
        return "the element of a node"
    return ""


cdef str tree_fault(const Node **nodes):
    """element_fault for the relations of PROBE's nodes."""
    cdef const Node *a = nodes[0]
    cdef const Node *p = nodes[1]
    cdef const Node *br = nodes[2]
    cdef const Node *second = nodes[3]
    cdef const Node *i = nodes[4]
    cdef const Node *y = nodes[6]
    cdef const Node *comment = nodes[7]
    if a.type != ELEMENT or comment.type == ELEMENT:
        return "the type of a node"
    if p.name != second.name or p.name == i.name:
        return "the name of a node"
    if a.children != p or a.last != comment or p.last != br or br.parent != p or p.parent != a:
        return "the children of a node"
    if p.next != second or second.next != i or i.previous != second or br.next != NULL:
        return "the neighbours of a node"
    if a.document == NULL or a.document != comment.document:
        return "the document of a node"
    if y.namespace_ == NULL or p.namespace_ != NULL:
        return "the namespace of a node"
    if p.children.parent != p or p.children.content == NULL or p.content != NULL:
        return "the text of a node"
    return ""


cdef list_names(Names *names, dict kinds):
    """Names and their kinds, for as long as the process lives."""
    if len(kinds) > MAX_NAMES:
        raise ValueError(f"{len(kinds)} names, at most {MAX_NAMES}")
    for name, kind in kinds.items():
        encoded = name.encode()
        add_name(names, encoded, kind)
        KEPT.append(encoded)


KEPT = []  # keeps the names alive that the tables point to
list_names(&NAMES, dict.fromkeys(twin.BLOCKS, IS_BLOCK)
           | dict.fromkeys(twin.INVISIBLE, IS_INVISIBLE))
list_names(&ELEMENTS, dict.fromkeys(twin.UNSHOWN, IS_UNSHOWN)
           | dict.fromkeys(twin.SPANS, IS_SPAN) | dict.fromkeys(twin.MARKS, IS_MARK)
           | dict.fromkeys(twin.CELLS, IS_CELL))
list_names(&ATTRIBUTES, dict.fromkeys(twin.SILENT, IS_SILENT)
           | dict.fromkeys(twin.LOOKS, IS_LOOK) | dict.fromkeys(twin.LINKS, IS_LINK))
list_names(&PAGE_NAMES, dict.fromkeys(twin.PAGES, IS_SILENT))
list_names(&LASTING_NAMES, dict.fromkeys(twin.LASTING, IS_SILENT))

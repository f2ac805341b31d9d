# cython: language_level=3, boundscheck=False, wraparound=False
"""Markup → what it says, compiled: the contract is kernels/numpy_twin/markup.py.

The tree is read where lxml keeps it: ten times faster than by a stylesheet, which calls a
function and makes a node for each piece of text. Should an lxml lay out its elements in another
way than markup.h says, the twin does it, and a warning says so once.
"""

from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t
from libc.stdlib cimport free
from libc.string cimport memchr, strlen

import gc
import logging
from functools import cache

from lxml import etree

from scrapy_neardup.kernels.numpy_twin import markup as twin
from scrapy_neardup.kernels.numpy_twin.markup import has_all_elements as has_all_elements_by_lxml
from scrapy_neardup.kernels.numpy_twin.markup import said as said_by_lxml
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
        IS_SCRIPT
        IS_META
        IS_OWN
        IS_DIV
        IS_ITEMPROP
        IS_H1
        IS_TITLE
        IS_PRE
        IS_HIDDEN

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
        const Node *properties

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
    int is_empty(Tags tags)
    Piece text_behind(Tags tags)
    Piece own_name(Tags tags)
    int is_plain(Piece value)
    int may_be_of_the_visit(Piece name)
    int may_be_a_time(Piece value)
    int ends_with(Piece url, const char *end, size_t n)
    size_t write_lower(char *lower, Piece piece)
    size_t write_line(char *line, size_t room, Piece element, Piece name, Piece value)
    int append_visible(Text *text, const Names *names, const Node *root)
    int append_said(Text *text, const Names *names, const Node *root)
    size_t n_tags_and_attributes(const uint8_t *page, size_t n) noexcept nogil
    size_t most_attributes(const uint8_t *page, size_t n, size_t *all) noexcept nogil
    size_t n_tagged(const uint8_t *page, size_t n) noexcept nogil
    size_t n_elements(const Node *root)

# Every relation between nodes that is read: first and last child, neighbours, text, namespaces,
# attributes.
PROBE = (
    b"<a xmlns:x='x'><p>b<br/></p><p itemprop='g' value='h'/><i/>c<script>d</script>e<x:y/>"
    b"<!-- f --></a>"
)
AT_ONCE = 1 << 13  # bytes of the names of lines that are made in one go

logger = logging.getLogger(__name__)

cdef Names NAMES, ELEMENTS, ATTRIBUTES, PAGE_NAMES, LASTING_NAMES, SPEAKING


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


def has_all_elements(root, bytes page) -> bool:
    """Whether a tree has as many elements as its page in markup; see the twin."""
    cdef const uint8_t *start = page
    cdef size_t n_tags, n = len(page)
    if not knows_layout():
        return has_all_elements_by_lxml(root, page)
    with nogil:
        n_tags = n_tagged(start, n)
    return n_tags == n_elements(node_of(root))


def details(bytes page, tuple echoes, lasting):
    """By what a page differs from others that read alike; see the twin.

    A generator, so that Python's lock can pass to another thread between two parts.
    """
    cdef Tags tags, opened
    cdef Piece name, value
    cdef Kind kind
    cdef size_t n_cells = 0, n_of_names = 0
    cdef list lines = []
    echoes = tuple(echo.encode("utf-8", "replace") for echo in echoes)
    tags.at = page
    tags.end, tags.raw = tags.at + len(page), NULL
    while next_tag(&tags):
        kind = kind_of_piece(&ELEMENTS, tags.name)
        if tags.closes or kind == IS_UNSHOWN:
            while next_attribute(&tags, &name, &value):
                pass
            continue
        n_cells += kind == IS_CELL
        if n_of_names >= AT_ONCE:
            yield lines, n_of_names, None
            lines, n_of_names = [], 0
        if kind == IS_MARK or (kind == IS_CELL and is_empty(tags)):
            said = f"{n_cells}" if kind == IS_CELL else text_after(tags)
            lines.append(f"{lower_text_of(tags.name)}. {said}")
            n_of_names += length(tags.name)
        element, own, text = None, None, None
        opened = tags
        while next_attribute(&tags, &name, &value):
            if not counts(kind, name, value, &ATTRIBUTES, &PAGE_NAMES):
                continue
            unsure = None
            if names_piece(name, "class") and names_piece(tags.name, "li"):
                lasts = lasting(text_of(value))
                if lasts:
                    text = text_after(opened) if text is None else text
                    lines.append(f"li.class {lasts}{text}")
            elif says_nothing_of_the_visit(name, value, echoes):
                text = text_after(opened) if text is None else text
                lines.append(line_of(tags.name, name, value) + text)
            else:
                if element is None:
                    element, own = lower_text_of(tags.name), text_of(own_name(opened))
                key = lower_text_of(name)
                unsure = element, own if own and key == "value" else key, text_of(value)
            n_of_names += length(tags.name) + length(name)
            if unsure or n_of_names >= AT_ONCE:
                yield lines, n_of_names, unsure
                lines, n_of_names = [], 0
    yield lines, n_of_names, None


cdef bint says_nothing_of_the_visit(Piece name, Piece value, tuple echoes):
    """Whether an attribute is the same whatever the visit; see the twin."""
    has_slash = memchr(value.start, b"/", length(value)) != NULL
    if kind_of_piece(&LASTING_NAMES, name):
        if not has_slash:
            return True
    elif may_be_of_the_visit(name) or may_be_a_time(value):
        return False
    if not is_plain(value):
        return False
    if has_slash:
        for echo in echoes:
            if ends_with(value, <bytes>echo, len(<bytes>echo)):
                return False
    return True


cdef str text_after(Tags tags):
    """The text behind a tag as it ends a line; see the twin."""
    cdef Piece text = text_behind(tags)
    if text.start == text.end:
        return ""
    words = (<bytes>text.start[: length(text)]).split()
    return "\t" + b" ".join(words).decode("utf-8", "ignore")


cdef size_t length(Piece piece):
    return piece.end - piece.start


cdef str line_of(Piece element, Piece name, Piece value):
    """An attribute as a line."""
    cdef char line[512]
    cdef size_t n
    n = write_line(line, sizeof(line), element, name, value)
    if n:
        return PyUnicode_DecodeUTF8(line, n, "surrogateescape")
    return f"{lower_text_of(element)}.{lower_text_of(name)} {text_of(value)}"


cdef str text_of(Piece piece):
    return PyUnicode_DecodeUTF8(<const char *>piece.start, length(piece), "surrogateescape")


cdef str lower_text_of(Piece piece):
    """A name in lower case."""
    cdef char lower[64]
    if length(piece) <= sizeof(lower):
        return PyUnicode_DecodeUTF8(lower, write_lower(lower, piece), "surrogateescape")
    return piece.start[: length(piece)].lower().decode("utf-8", "surrogateescape")


def said(root):
    """What a tree says outside its visible text; see the twin."""
    return said_below(root) if knows_layout() else said_by_lxml(root)


def said_below(root):
    """The tree is read in one go, so that nothing changes it meanwhile, and what it says is given
    piece by piece, so that Python's lock can pass to another thread between two of them.
    """
    cdef Text text
    cdef const char *at
    text.bytes, text.n, text.room = NULL, 0, 0
    try:
        if not append_said(&text, &SPEAKING, node_of(root)):
            raise MemoryError("no memory for what a page says")
        at = text.bytes
        while at < text.bytes + text.n:
            tag, at = field(at), behind(at)
            value, at = field(at), behind(at)
            name, at = field(at), behind(at)
            own, at = field(at), behind(at)
            yield tag, value, name, own
    finally:
        free(text.bytes)


cdef str field(const char *at):
    return PyUnicode_DecodeUTF8(at, strlen(at), NULL)


cdef const char *behind(const char *at):
    return at + strlen(at) + 1


cdef const Node *node_of(root) except NULL:
    if not isinstance(root, etree._Element):
        raise TypeError(f"{root!r} is no element of lxml")
    return (<Element *><PyObject *>root).node


cdef str text_below(root):
    cdef Text text
    text.bytes, text.n, text.room = NULL, 0, 0
    try:
        if not append_visible(&text, &NAMES, node_of(root)):
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
        fault = fault or ("" if [*said_below(root)] == [*said_by_lxml(root)] else "the attributes")
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
    if a.properties != NULL or p.properties != NULL or second.properties == NULL:
        return "the attributes of a node"
    if second.properties.parent != second or second.properties.children.content == NULL:
        return "the attributes of a node"
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
           | dict.fromkeys(twin.CELLS, IS_CELL) | dict.fromkeys(twin.OF_DATA, IS_SCRIPT))
list_names(&ATTRIBUTES, dict.fromkeys(twin.SILENT, IS_SILENT)
           | dict.fromkeys(twin.LOOKS, IS_LOOK) | dict.fromkeys(twin.LINKS, IS_LINK))
list_names(&PAGE_NAMES, dict.fromkeys(twin.PAGES, IS_SILENT))
list_names(&LASTING_NAMES, dict.fromkeys(twin.LASTING, IS_SILENT))
list_names(&SPEAKING, dict.fromkeys(twin.HIDDEN, IS_HIDDEN) | {
    "script": IS_SCRIPT, "meta": IS_META, "style": IS_OWN, "title": IS_TITLE, "h1": IS_H1,
    "pre": IS_PRE, "div": IS_DIV, "itemprop": IS_ITEMPROP})

"""Markup → what it says, by lxml and regular expressions: NumPy has nothing to add."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from lxml import etree

INVISIBLE = ("head", "iframe", "noscript", "script", "style", "svg", "template")
BLOCKS = (
    *("address", "article", "aside", "blockquote", "br", "button", "caption", "dd", "details"),
    *("dialog", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1"),
    *("h2", "h3", "h4", "h5", "h6", "header", "hr", "label", "legend", "li", "main", "nav", "ol"),
    *("option", "p", "pre", "section", "select", "summary", "table", "tbody", "td", "textarea"),
    *("tfoot", "th", "thead", "tr", "ul"),
)
# What tells pages apart that read alike: all attributes but SILENT ones, which name, link, size or
# script elements; of LOOKS those of the small elements SPANS, and any style with one of SHOWING; of
# LINKS those to no page and that to the symbol which `use` shows. And each of MARKS, elements that
# change what is read in them, may be open or may be chosen, and empty CELLS. Of OF_DATA count
# `data-*`: what a script is to show, what a page is about.
UNSHOWN = ("base", "head", "link", "meta", "style")
OF_DATA = ("html", "script")
ROOTS = ("html", "head", "body")
SPANS = (*("b", "dd", "dt", "em", "i", "li", "p", "rect", "small", "span", "strong", "tr", "use"),)
CELLS = ("td", "th")
MARKS = (
    *("button", "del", "details", "dialog", "ins", "input", "option", "s", "strike", "sub", "sup"),
    *("menclose", "mfrac", "mover", "mphantom", "mroot", "mrow", "msqrt", "msub", "msup", "munder"),
)
LOOKS = ("class", "height", "style", "width")
# An image, a share as of a bar or of stars, a variable such as a rating, what is hidden.
SHOWING = ("url(", "%", "--", "display")
LINKS = ("href",)
SILENT = (
    *("action", "align", "allow", "allowfullscreen", "aria-controls", "aria-describedby"),
    *("aria-expanded", "aria-hidden", "aria-labelledby", "aria-owns", "async", "autocomplete"),
    *("border", "cellpadding", "cellspacing", "charset", "cols", "crossorigin"),
    *("data-cf-beacon", "data-cf-settings", "data-url_root"),  # a request's id, a path to the root
    *("decoding", "defer", "dir", "draggable", "enctype", "fetchpriority", "fill", "focusable"),
    *("for", "form", "frameborder", "headers", "hreflang", "id", "integrity"),
    *("itemid", "itemprop", "itemscope", "list", "loading", "maxlength", "media"),
    *("method", "name", "nonce", "onload", "property", "rel", "role", "rows"),
    *("scope", "size", "sizes", "stroke", "stroke-width", "tabindex", "target"),
    *("type", "valign", "viewbox", "xmlns", "xml:space"),
)
# How names may end of what is made anew for each visit, or is code that may name the page.
OF_THE_VISIT = (
    *("modified", "modified_", "time", "date", "nonce", "csrf", "xsrf", "validation", "id", "etag"),
    *("token", "state", "value", "onclick"),
)
# Attributes that say nothing of the visit, but for URLs in them; most have one of these names.
LASTING = frozenset(
    (
        *("alt", "aria-label", "checked", "class", "coords", "d", "href", "lang", "points"),
        *("poster", "selected", "src", "srcset", "style", "title", "transform"),
    )
)
# What says something outside the visible text. Of HIDDEN no text is seen. Doxygen names what a page
# is about in a div of the class "title", and nowhere else: <title> is the same on all lists of
# members.
SPEAKING = ("script", "meta", "style", "title", "h1", "pre")
HIDDEN = ("noscript", "template", "text", "tspan", "desc", "foreignobject", "foreignObject")
VALUES = ("content", "datetime", "href", "src", "value")  # attributes, of microdata
# Of a detail's line, what tells which of several equal elements has it: so many bytes of the text
# behind the element's tag, so many tags further at most.
MAX_BEHIND, MAX_BETWEEN = 40, 4
PAGES = ("asp", "aspx", "cfm", "cgi", "do", "htm", "html", "jsp", "jspx", "php", "phtml", "shtml")
STYLESHEET = f"""
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="text"/>
  <xsl:template match="{"|".join(INVISIBLE)}|comment()|processing-instruction()"/>
  <xsl:template match="{"|".join(BLOCKS)}">
    <xsl:text>&#10;</xsl:text><xsl:apply-templates/><xsl:text>&#10;</xsl:text>
  </xsl:template>
</xsl:stylesheet>
"""


def visible_text(root: etree._Element) -> str:
    """The text of an element and all below it but INVISIBLE ones, BLOCKS on lines of their own.

    Names count where they have no namespace. Comments, processing instructions and what follows
    the element say nothing. Raises lxml.etree.XSLTApplyError for a tree nested deeper than 3,000
    elements. O(nodes).
    """
    return str(_to_text()(root))


def tags_and_attributes(page: bytes) -> int:
    """At most so many tags and attributes has a page: its `<` and `=`. O(len(page))."""
    return page.count(b"<") + page.count(b"=")


def count_attributes(page: bytes) -> tuple[int, int]:
    """The most attributes that a tag of a page has, as HTML's tokenizer tells them, and all tags'.

    Repeated ones and those of end tags count, too. O(len(page)).
    """
    most = every = 0
    for tag in _tags(page):
        n = sum(1 for _ in _ATTRIBUTE.finditer(tag["attributes"]))
        most, every = max(most, n), every + n
    return most, every


def has_all_elements(root: etree._Element, page: bytes) -> bool:
    """Whether a tree has as many elements as the tags of its page open, but for ROOTS.

    A parser makes so many, unless the page is written badly; one that has fewer was changed since.
    O(len(page)).
    """
    names = (tag["name"].lower() for tag in _tags(page) if not tag["closes"])
    n_tags = sum(1 for name in names if name.decode("latin-1") not in ROOTS)
    elements = root.iter(etree.Element)
    return n_tags == sum(1 for element in elements if element.tag not in ROOTS)


Detail = tuple[str, str, str]  # element, name, value


def details(
    page: bytes, echoes: tuple[str, ...], lasting: Callable[[str], str]
) -> Iterator[tuple[list[str], int, Detail | None]]:
    """By what a page in markup differs from others that read alike, tag by tag, in parts.

    A detail is an attribute that says something; one of MARKS; or an empty one of CELLS, which has
    its number, from 1, as value. A part has lines "element.name value" of details that are the same
    whatever the visit, at most so many bytes of their names, and then one detail of which nobody
    here knows, or None. Known are MARKS, CELLS, LASTING attributes without "/", and others whose
    names do not end as those of OF_THE_VISIT, if their values are plain, are no time and do not end
    as URLs of the visit do, which are echoes. Of an entry of a list (li) `lasting` tells
    which classes count. The name of a `value` is that of its element, where it has one.
    A line ends in a tab and the text behind its tag, where there is one, see _text_behind(): which
    of four states is hidden. O(len(page)).
    """
    for element, name, value, own, behind in _details(page):
        n_of_names = len(element) + len(name)
        if element == "li" and name == "class":
            if lasts := lasting(value):
                yield [f"li.class {lasts}{behind}"], n_of_names, None
        elif not name or _says_nothing_of_the_visit(name, value, echoes):
            yield [f"{element}.{name} {value}{behind}"], n_of_names, None
        else:
            yield [], 0, (element, own if own and name == "value" else name, value)


def _says_nothing_of_the_visit(name: str, value: str, echoes: tuple[str, ...]) -> bool:
    if name in LASTING:
        if "/" not in value:
            return True
    elif not name.isascii() or name.endswith(OF_THE_VISIT) or _TIME.match(value):
        return False
    if not _PLAIN.fullmatch(value) or _CUT.search(value):
        return False
    return "/" not in value or not value.partition("#")[0].rstrip("/").endswith(echoes)


def _details(page: bytes) -> Iterator[tuple[str, str, str, str | None, str]]:
    """Each detail, the name of its element, and the text behind its tag."""
    n_cells = 0
    for tag in _tags(page):
        name = _text(tag["name"].lower())
        if tag["closes"] or name in UNSHOWN:
            continue
        n_cells += name in CELLS
        if name in MARKS:
            yield name, "", "", None, _text_behind(page, tag)
        elif name in CELLS and _ENDS.match(page, tag.end()):
            yield name, "", str(n_cells), None, ""
        own, values = None, []
        for part in _ATTRIBUTE.finditer(tag["attributes"]):
            value = _text(next(filter(None, part.group("double", "single", "bare")), b""))
            key = _text(part["name"].lower())
            own = value if key == "name" else own
            if _counts(name, key, value):
                values.append((key, value))
        behind = _text_behind(page, tag) if values else ""
        for key, value in values:
            yield name, key, value, own, behind


def _text_behind(page: bytes, tag: re.Match[bytes]) -> str:
    """A tab and the first bytes of the text behind a tag, at most MAX_BETWEEN tags apart.

    Empty where none begins there, and where a digit is among them: it may be a clock or a counter.
    """
    text = None if tag["raw"] else _BEHIND.match(page, tag.end())
    if text is None or _DIGIT.search(text[1]):
        return ""
    return "\t" + b" ".join(text[1].split()).decode("utf-8", "ignore")


Said = tuple[str, str, str, str]  # tag, text, name, id


def said(root: etree._Element) -> Iterator[Said]:
    """What an element and all below it say outside the visible text, in order.

    Elements of SPEAKING and HIDDEN names, which count where they have no namespace:
    a script and a style: the text it begins with, and of a script, which has some, type and id.
    A meta with content: that, property or else name, and http-equiv, where it has one of these.
    h1, title, pre, one of HIDDEN: all its text, but of none that stands in another such element.
    The name of a title is "head" where it stands in one; each of those is told.
    Then the first div with the class "title": all its text. And "itemprop": one for each of
    VALUES of an element with that attribute, whose value is the name. O(nodes).
    """
    nested: set[etree._Element] = set()
    for element in root.iter(*SPEAKING, *HIDDEN):
        tag, text = element.tag, element.text or ""
        if tag == "script":
            if text:
                yield tag, text, element.get("type", ""), element.get("id", "")
        elif tag == "style":
            yield tag, text, "", ""
        elif tag == "meta":
            name, content = element.get("property") or element.get("name"), element.get("content")
            stands_for = element.get("http-equiv", "")
            if content and (name or stands_for):
                yield tag, content, name or "", stands_for
        elif tag == "title" and _is_in_head(element):
            yield tag, _text_in(element), "head", ""
        elif element not in nested:
            # Not set(): in one call over all of them it would hold Python's lock.
            for inner in element.iterdescendants(*(HIDDEN if tag in HIDDEN else (tag,))):
                nested.add(inner)
            yield tag, _text_in(element), "", ""
    yield from _said_at_the_end(root)


def _is_in_head(element: etree._Element) -> bool:
    parent = element.getparent()
    return parent is not None and parent.tag == "head"


def _said_at_the_end(root: etree._Element) -> Iterator[Said]:
    has_title = False
    for element in _titled_or_itemprop(root):
        name = element.get("itemprop")
        if not has_title and element.tag == "div" and element.get("class") == "title":
            has_title = True
            yield "div", _text_in(element), "", ""
        for attribute in VALUES if name is not None else ():
            if value := element.get(attribute):
                yield "itemprop", value, name, ""


def _text_in(element: etree._Element) -> str:
    """All text in an element. Of very many nodes, itertext() would hold Python's lock."""
    text: str = etree.tostring(element, method="text", encoding="unicode", with_tail=False)
    return text


_titled_or_itemprop = etree.XPath(
    "descendant-or-self::*[@itemprop] | (descendant-or-self::div[@class='title'])[1]"
)


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", "surrogateescape")


def _counts(element: str, name: str, value: str) -> bool:
    """Whether an attribute says something beside the text."""
    if element in OF_DATA and not name.startswith("data-"):
        return False
    if name in LOOKS:
        is_small = element in SPANS or element in MARKS or element in CELLS
        return is_small or (name == "style" and any(sign in value for sign in SHOWING))
    return element in SPANS or _leads_away(value) if name in LINKS else name not in SILENT


def _leads_away(link: str) -> bool:
    """Whether a link has a scheme or a host, or ends as the name of a file that is no page does."""
    path = re.split("[?#]", link, maxsplit=1)[0]
    kind = path.rpartition("/")[2].rpartition(".")
    n_bytes = len(kind[2].encode("utf-8", "surrogateescape"))
    is_elsewhere = ":" in path or path.startswith("//")
    return is_elsewhere or (bool(kind[1]) and 2 <= n_bytes <= 5 and kind[2].lower() not in PAGES)


def _tags(page: bytes) -> Iterator[re.Match[bytes]]:
    """The tags of a page, from the name on to what closes them."""
    at = 0
    while at := page.find(b"<", at) + 1:
        tag = _TAG.match(page, at)
        if tag is None:
            comment = _COMMENT.match(page, at)
            at = comment.end() if comment else at
            continue
        yield tag
        at = tag.end()
        if tag["raw"] and page[at - 1 : at] != b"/":
            end_tag = re.compile(rb"</%b(?:[\s/>]|\Z)" % tag["raw"], re.IGNORECASE)
            found = end_tag.search(page, at)
            at = found.start() if found else len(page)


_ATTRIBUTE = re.compile(
    rb"(?P<name>[^\s/>][^\s/>=]*+)"
    rb"(?:[\s]*+=[\s]*+(?:\"(?P<double>[^\"]*+)(?:\"|\Z)|'(?P<single>[^']*+)(?:'|\Z)"
    rb"|(?P<bare>[^\s>]*+)))?"
)
_TAG = re.compile(
    rb"(?P<closes>/?)(?P<name>(?P<raw>(?<=<)(?:script|style)(?=[\s/>]|\Z))|[a-z][^\s/>]*+)"
    rb"(?P<attributes>(?:[\s/]++|%b)*+)" % re.sub(rb"\?P<\w+>", b"?:", _ATTRIBUTE.pattern),
    re.IGNORECASE,
)
_ENDS = re.compile(rb">\s*+</")
_BEHIND = re.compile(
    rb">(?:\s*+<(?!!|(?:script|style)[\s/>])[^>]*+>){0,%d}+\s*+([^<]{1,%d})"
    % (MAX_BETWEEN, MAX_BEHIND),
    re.IGNORECASE,
)
_DIGIT = re.compile(rb"[0-9]")
_PLAIN = re.compile(r"(?:[!-~]++(?: [!-~]++)*+)?")  # ASCII with one space at a time
# A quoted URL, and an argument that may only keep a file from being taken out of a cache.
_CUT = re.compile(r"%3A|[?&;][vVtTrRcC_][^?&;=]*+=")
_TIME = re.compile(r"[0-9].{9}", re.DOTALL)
_COMMENT = re.compile(
    rb"!--(?:-?>|.*?--!?>|.*+\Z)|[!?][^>]*+>?|/(?=[^a-z])[^>]*+>?", re.DOTALL | re.IGNORECASE
)


@cache
def _to_text() -> etree.XSLT:
    # A stylesheet walks the tree in C: lxml has nothing faster, `python -m benchmarks extraction`.
    return etree.XSLT(etree.XML(STYLESHEET))

"""Parsed markup → visible text, by lxml: NumPy has nothing to add."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
# change what is read in them, may be open or may be chosen, and empty CELLS.
UNSHOWN = ("base", "head", "html", "link", "meta", "script", "style")
SPANS = (*("b", "dd", "dt", "em", "i", "li", "p", "rect", "small", "span", "strong", "tr", "use"),)
CELLS = ("td", "th")
MARKS = (
    *("button", "del", "details", "dialog", "ins", "input", "option", "s", "strike", "sub", "sup"),
    *("menclose", "mfrac", "mover", "mphantom", "mroot", "mrow", "msqrt", "msub", "msup", "munder"),
)
LOOKS = ("class", "height", "style", "width")
SHOWING = ("url(", "--", "display")  # an image, a variable such as a rating, what is hidden
LINKS = ("href",)
SILENT = (
    *("action", "align", "allow", "allowfullscreen", "aria-controls", "aria-describedby"),
    *("aria-expanded", "aria-hidden", "aria-labelledby", "aria-owns", "async", "autocomplete"),
    *("border", "cellpadding", "cellspacing", "charset", "cols", "crossorigin"),
    *("decoding", "defer", "dir", "draggable", "enctype", "fetchpriority", "fill", "focusable"),
    *("for", "form", "frameborder", "headers", "hreflang", "id", "integrity"),
    *("itemid", "itemprop", "itemscope", "itemtype", "list", "loading", "maxlength", "media"),
    *("method", "name", "nonce", "onclick", "onload", "property", "rel", "role", "rows"),
    *("scope", "size", "sizes", "stroke", "stroke-width", "summary", "tabindex", "target"),
    *("type", "typeof", "valign", "viewbox", "xmlns", "xml:space"),
)
# Attributes that say nothing of the visit, but for URLs in them; most have one of these names. The
# classes of an entry of a menu (li) are none: they may say where the reader is.
LASTING = frozenset(
    (
        *("", "alt", "aria-label", "checked", "class", "coords", "d", "href", "lang", "points"),
        *("poster", "selected", "src", "srcset", "style", "title", "transform"),
    )
)
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


def details(page: bytes) -> Iterator[str | tuple[str, str, str]]:
    """By what a page in markup differs from others that read alike, tag by tag.

    Each is (element, name, value): an attribute that says something; one of MARKS, with "" and "";
    or an empty one of CELLS, with "" and its number, from 1. The name of a `value` is that of its
    element, where it has one. Where the name is a LASTING one and the value has no "/", it is the
    line "element.name value": made here, it takes a third of the time. O(len(page)).
    """
    for element, name, value in _details(page):
        if name in LASTING and "/" not in value and (element != "li" or name != "class"):
            yield f"{element}.{name} {value}"
        else:
            yield element, name, value


def _details(page: bytes) -> Iterator[tuple[str, str, str]]:
    n_cells = 0
    for tag in _tags(page):
        name = _text(tag["name"].lower())
        if tag["closes"] or name in UNSHOWN:
            continue
        n_cells += name in CELLS
        if name in MARKS:
            yield name, "", ""
        elif name in CELLS and _ENDS.match(page, tag.end()):
            yield name, "", str(n_cells)
        own, values = None, []
        for part in _ATTRIBUTE.finditer(tag["attributes"]):
            value = _text(next(filter(None, part.group("double", "single", "bare")), b""))
            key = _text(part["name"].lower())
            own = value if key == "name" else own
            if _counts(name, key, value):
                values.append((key, value))
        for key, value in values:
            yield name, own if own and key == "value" else key, value


def _text(piece: bytes) -> str:
    return piece.decode("utf-8", "surrogateescape")


def _counts(element: str, name: str, value: str) -> bool:
    """Whether an attribute says something beside the text."""
    if name in LOOKS:
        is_small = element in SPANS or element in MARKS or element in CELLS
        return is_small or (name == "style" and any(sign in value for sign in SHOWING))
    return element in SPANS or _leads_away(value) if name in LINKS else name not in SILENT


def _leads_away(link: str) -> bool:
    """Whether a link has a scheme, or its path ends as the name of a file that is no page does."""
    path = re.split("[?#]", link, maxsplit=1)[0]
    kind = path.rpartition("/")[2].rpartition(".")
    n_bytes = len(kind[2].encode("utf-8", "surrogateescape"))
    return ":" in path or (bool(kind[1]) and 2 <= n_bytes <= 5 and kind[2].lower() not in PAGES)


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
_COMMENT = re.compile(
    rb"!--(?:-?>|.*?--!?>|.*+\Z)|[!?][^>]*+>?|/(?=[^a-z])[^>]*+>?", re.DOTALL | re.IGNORECASE
)


@cache
def _to_text() -> etree.XSLT:
    # A stylesheet walks the tree in C: lxml has nothing faster, `python -m benchmarks extraction`.
    return etree.XSLT(etree.XML(STYLESHEET))

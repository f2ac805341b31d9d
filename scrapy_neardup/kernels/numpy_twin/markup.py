"""Parsed markup → visible text, by lxml: NumPy has nothing to add."""

from __future__ import annotations

import re
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


def most_attributes(page: bytes) -> int:
    """The most attributes that a tag of a page has, as HTML's tokenizer tells them.

    Repeated ones and those of end tags count, too. O(len(page)).
    """
    most = at = 0
    while at := page.find(b"<", at) + 1:
        tag = _TAG.match(page, at)
        if tag is None:
            comment = _COMMENT.match(page, at)
            at = comment.end() if comment else at
            continue
        most = max(most, sum(1 for _ in _ATTRIBUTE.finditer(tag["attributes"])))
        at = tag.end()
        if tag["raw"] and page[at - 1 : at] != b"/":
            end_tag = re.compile(rb"</%b(?:[\s/>]|\Z)" % tag["raw"], re.IGNORECASE)
            found = end_tag.search(page, at)
            at = found.start() if found else len(page)
    return most


_ATTRIBUTE = re.compile(
    rb"[^\s/>][^\s/>=]*+(?:[\s]*+=[\s]*+(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^\s>]*+))?"
)
_TAG = re.compile(
    rb"(?:(?P<raw>script|style)(?=[\s/>]|\Z)|/?[a-z][^\s/>]*+)(?P<attributes>(?:[\s/]++|%b)*+)"
    % _ATTRIBUTE.pattern,
    re.IGNORECASE,
)
_COMMENT = re.compile(
    rb"!--(?:-?>|.*?--!?>|.*+\Z)|[!?][^>]*+>?|/(?=[^a-z])[^>]*+>?", re.DOTALL | re.IGNORECASE
)


@cache
def _to_text() -> etree.XSLT:
    # A stylesheet walks the tree in C: lxml has nothing faster, `python -m benchmarks extraction`.
    return etree.XSLT(etree.XML(STYLESHEET))

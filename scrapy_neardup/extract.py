"""Response or item → visible text, with a line break between blocks."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from itemadapter.adapter import ItemAdapter
from lxml import etree
from scrapy.http import HtmlResponse, Response, TextResponse, XmlResponse

Extractor = Callable[[Response], str | None]

INVISIBLE = "head|iframe|noscript|script|style|svg|template"
BLOCKS = (
    "address|article|aside|blockquote|br|button|caption|dd|details|dialog|div|dl|dt|fieldset"
    "|figcaption|figure|footer|form|h1|h2|h3|h4|h5|h6|header|hr|label|legend|li|main|nav|ol"
    "|option|p|pre|section|select|summary|table|tbody|td|textarea|tfoot|th|thead|tr|ul"
)
STYLESHEET = f"""
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="text"/>
  <xsl:template match="{INVISIBLE}|comment()|processing-instruction()"/>
  <xsl:template match="{BLOCKS}">
    <xsl:text>&#10;</xsl:text><xsl:apply-templates/><xsl:text>&#10;</xsl:text>
  </xsl:template>
</xsl:stylesheet>
"""


@cache
def _to_text() -> etree.XSLT:
    # A stylesheet walks the tree in C: lxml has nothing faster, `python -m benchmarks extraction`.
    return etree.XSLT(etree.XML(STYLESHEET))


def visible_text(response: Response) -> str | None:
    """What a reader of the page sees, blocks on lines of their own; None for a binary response.

    HTML: all text but that of the head, scripts, styles, templates, frames, vector images and
    noscript. XML and other text: all of it. Reuses the tree that the spider's selectors have
    parsed, and leaves none behind where they have not. Raises lxml.etree.XSLTApplyError for a
    tree nested deeper than 3,000 elements.
    """
    if not isinstance(response, TextResponse):
        return None
    if not isinstance(response, (HtmlResponse, XmlResponse)):
        return response.text
    if not response.body:
        return ""
    return str(_to_text()(_tree(response)))


def _tree(response: HtmlResponse | XmlResponse) -> etree._Element:
    """The response's tree, parsed as its selectors have parsed it or would parse it."""
    if response._cached_selector is not None or isinstance(response, XmlResponse):
        return response.selector.root
    # As parsel 1.12 does, in half the time: no selector looks for ids or a base URL here.
    body = response.text.strip().replace("\x00", "").encode() or b"<html/>"
    parser = etree.HTMLParser(recover=True, encoding="utf8", huge_tree=True, collect_ids=False)
    root = etree.fromstring(body, parser)
    return etree.fromstring(b"<html/>", parser) if root is None else root


def visible_text_of_html(html: str) -> str:
    """What a reader of the page sees, as visible_text takes it from a response."""
    body = html.encode("utf-8", "replace")
    return visible_text(HtmlResponse("about:blank", body=body, encoding="utf-8")) or ""


def fields_text(item: Any, names: Iterable[str]) -> str | None:
    """The text of the named fields, each on lines of its own; None if the item has none of them."""
    adapter = ItemAdapter(item)
    values = [adapter.get(name) for name in names if adapter.get(name) is not None]
    return "\n".join(line for value in values for line in _lines(value)) if values else None


def _lines(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, bytes):
        return (value.decode("utf-8", "replace"),)
    if isinstance(value, (list, tuple, set, frozenset)):
        return (line for element in value for line in _lines(element))
    return (str(value),)

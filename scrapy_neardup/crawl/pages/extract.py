"""Response or item → visible text, with a line break between blocks, and the page's data."""

from __future__ import annotations

import re
from codecs import lookup
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lxml import etree
from scrapy.http import HtmlResponse, JsonResponse, Response, TextResponse, XmlResponse

import scrapy_neardup.kernels as kernels
from scrapy_neardup.crawl.items.item_fields import fields_of, has_names, named_values
from scrapy_neardup.crawl.pages.page_data import attribute_lines, page_data, squeezed
from scrapy_neardup.detect.content import DOCUMENT, PageContent
from scrapy_neardup.errors import OverBudget
from scrapy_neardup.kernels.numpy_twin.markup import BLOCKS, INVISIBLE

# What a page may make reading cost. A tree is freed in one go, holding Python's lock. A tag and an
# attribute make two nodes each, and an allocator that has had other work between them needs 0.1 us
# for a node, most of it to join the pieces. libxml2 compares each attribute of a tag with those
# before it.
MAX_MARKUP, MAX_ATTRIBUTES = 90_000, 1_000

# Texts for readers, and what servers call text or files of which they know no more.
PROSE_TYPE = re.compile(rb"\s*+text/(?:x-)?markdown\s*+(?:;|\Z)", re.IGNORECASE)
UNTOLD_TYPE = re.compile(
    rb"\s*+(?:text/plain|application/octet-stream)?+\s*+(?:;|\Z)", re.IGNORECASE
)
# Then the URL's path may tell: by a suffix that is no number, as of a version.
SUFFIX = re.compile(r"\.([a-z]\w*+)\Z", re.IGNORECASE)
PROSE_SUFFIXES = frozenset({"adoc", "htm", "html", "markdown", "md", "rst", "xhtml"})
# Of any text, or of a program that may answer with any.
UNTELLING_SUFFIXES = frozenset({"asp", "aspx", "cgi", "jsp", "php", "text", "txt"})
# A line with a sign that hardly any sentence has, tabs and commas between cells included, or that
# begins with a key, a time or a log's level.
CODED_LINE = re.compile(
    r"^[^\S\n]*+(?=\S)(?:.*?(?:[{}<>=;|\\_#$@~^]|\w[,(]\w|\d:\d\d:\d|\S *+\t[^\S\n]*+\S)|"
    r"(?:[-*] )?[\w.\"'-]++:(?:\s|$)|\[?(?:\d[\d:./-]{6}|"
    r"(?:DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b)).*+",
    re.MULTILINE,
)
SENTENCE_ENDS = re.compile(r"\w['\")\]”’»]*+(?:[.!?؟।]['\")\]”’»]*+(?!\S)|[。！？])")
MAX_CODED, SENTENCE_WORDS = 0.25, 50  # share of the characters; words for each sentence's end
LOOKED_AT = 1 << 15  # characters: up to 15 ms

# How JSON begins, also where it is not to be run as a script, or only calls a function.
JSON_GUARD = re.compile(
    r"\s*+(?:\)\]\}',?|while *+\(1\);|for *+\(;;\);|(?:/\*\*/)?\s*+[\w$.]{1,99}+\()?+\s*+[\[{]"
)
# How XML begins that is no page.
XML_GUARD = re.compile(
    r"\s*+(?:<\?xml\b[^>]*+>\s*+(?:<!--.*?-->\s*+|<\?[^>]*+>\s*+)*+<(?!html\b|!doctype\s++html\b)\w|"
    r"<(?:rss|feed|urlset|sitemapindex|rdf:rdf)\b)",
    re.IGNORECASE | re.DOTALL,
)

# What stands for bytes that are no text in the encoding that a page is said to have: pages that
# look alike with it are only the same if all bytes are that may be such.
UNDECODED = "\ufffd"
ASCII = re.compile(rb"[\x00-\x7f]+")

END_TAG = re.compile(r"</html\s*+>", re.IGNORECASE)
SCRIPT = re.compile(r"<(/?)script\b", re.IGNORECASE)

MARKUP = '<a b="c">'  # what is looked for in bytes
WITH_SHIFTS = "iso2022", "hz"  # codecs of charsets whose letters, between shifts, are such bytes

Extractor = Callable[[Response], PageContent | str | None]


def page_content(response: Response) -> PageContent | str | None:
    """What a page says: its visible text and, of HTML, the data in its markup (page_data.py).

    Of other text all characters are data, be it JSON, a calendar or source code: they are equal or
    not; only Markdown and plain text that reads like prose are for readers. So is all JSON and XML
    that is said to be HTML.
    None for a binary response. As visible_text() it reuses the tree of the spider's selectors, as
    long as it has all elements of the page.
    """
    if not isinstance(response, HtmlResponse) or not response.body or _is_no_page(response):
        plain = visible_text(response)
        if not plain or not isinstance(response, TextResponse) or not _is_data(response):
            return plain
        return PageContent(plain, data=[_document(response)])
    root, url = _tree(response), response.url
    text: str = kernels.markup.visible_text(root)
    heads, lines, details, unread_chars = page_data(root, url, _ascii_body(response))
    if UNDECODED in response.text:
        lines.append(f"undecoded {ASCII.sub(b' ', response.body).decode('latin-1')}")
    lines += _behind_end(response)
    attributes = partial(attribute_lines, root, url)
    return PageContent(text, heads, lines, details, attributes, unread_chars)


def _behind_end(response: HtmlResponse) -> list[str]:
    """What HTML says behind its end tag, as data: browsers show it, libxml2 reads no further."""
    rest = _behind_first_end(response.text)
    if not rest.strip():
        return []
    body = END_TAG.sub(" ", rest).encode("utf-8", "replace")
    root = _read_to_its_end(_tree_of(body))
    heads, lines, _, _ = page_data(root, response.url, body)
    said = [kernels.markup.visible_text(root), *heads, *lines]
    return [f"behind the end {squeezed(one)}" for one in said if one.strip()]


def _behind_first_end(text: str) -> str:
    """What is behind the first end tag that is in no script."""
    at = 0
    while (end := END_TAG.search(text, at)) is not None:
        script = SCRIPT.search(text, end.end())
        if script is None or not script[1]:
            return text[end.end() :]
        at = script.end()  # of one that began before: all end tags up to here are in it
    return ""


def _ascii_body(response: HtmlResponse) -> bytes:
    """The page in its own charset if that has ASCII as it is, as most do, else in UTF-8."""
    if _has_ascii(response.encoding):
        return response.body
    return response.text.encode("utf-8", "replace")


@cache
def _has_ascii(charset: str) -> bool:
    """Whether bytes that are ASCII stand for that wherever they are."""
    if lookup(charset).name.startswith(WITH_SHIFTS):
        return False
    return MARKUP.encode(charset, "replace") == MARKUP.encode()


def _is_no_page(response: HtmlResponse) -> bool:
    """Whether a server calls HTML what is JSON or XML."""
    text = response.text
    return JSON_GUARD.match(text) is not None or XML_GUARD.match(text) is not None


def _is_data(response: TextResponse) -> bool:
    """Whether a text that is no page was written for programs, not for readers."""
    if isinstance(response, (HtmlResponse, JsonResponse, XmlResponse)):
        return True
    return JSON_GUARD.match(response.text) is not None or not _is_prose(response)


def _is_prose(response: TextResponse) -> bool:
    """Whether a text is said to be for readers, or has no other type or suffix and reads so."""
    kind = response.headers.get("Content-Type") or b""
    if UNTOLD_TYPE.match(kind) is None:
        return PROSE_TYPE.match(kind) is not None
    found = SUFFIX.search(urlsplit(response.url).path)
    suffix = found[1].lower() if found else ""
    if suffix and suffix not in UNTELLING_SUFFIXES:
        return suffix in PROSE_SUFFIXES
    return _reads_like_prose(response.text[:LOOKED_AT])


def _reads_like_prose(text: str) -> bool:
    """Whether a text is made of sentences, and few of its lines are code, tables or records."""
    coded = sum(map(len, CODED_LINE.findall(text)))
    if coded > MAX_CODED * len(text):
        return False
    return len(text.split()) <= SENTENCE_WORDS * len(SENTENCE_ENDS.findall(text))


def _document(response: TextResponse) -> str:
    """A whole response as data. Spaces are layout in JSON and XML, and elsewhere may say
    something: what a line belongs to, which column a cell is in."""
    kinds = (HtmlResponse, XmlResponse)
    is_layout = isinstance(response, kinds) or JSON_GUARD.match(response.text)
    return f"{DOCUMENT} {squeezed(response.text) if is_layout else response.text.strip()}"


def visible_text(response: Response) -> str | None:
    """What a reader of the page sees, blocks on lines of their own; None for a binary response.

    HTML: all text but that of the head, scripts, styles, templates, frames, vector images and
    noscript. XML and other text: all of it. Reuses the tree that the spider's selectors have
    parsed, and leaves none behind where they have not. Without compiled kernels it raises
    lxml.etree.XSLTApplyError for a tree nested deeper than 3,000 elements.
    """
    if not isinstance(response, TextResponse):
        return None
    if not isinstance(response, (HtmlResponse, XmlResponse)):
        return response.text
    if not response.body:
        return ""
    text: str = kernels.markup.visible_text(_tree(response))
    return text


# What stands around the text of a page; but for the first, not within a part of it: the header of
# an article has its date.
AROUND, PARTS = ("nav", "header", "footer", "aside"), ("main", "article", "section", "blockquote")
MOSTLY = 0.5  # of a page's text, which stands around nothing


def text_without_navigation(response: Response) -> str:
    """The same without what stands around a page's own text: navigation, and headers, footers and
    asides that are in none of PARTS. All of a page of which little else is left.

    Takes them out of the response's tree, so give it a copy of a response that others use.
    """
    if not isinstance(response, (HtmlResponse, XmlResponse)) or not response.body:
        return visible_text(response) or ""
    root = _tree(response)
    text: str = kernels.markup.visible_text(root)
    around = list(_around(root))
    if not around:
        return text
    for element in around:
        element.tag = AROUND[0]
    etree.strip_elements(root, AROUND[0], with_tail=False)
    own: str = kernels.markup.visible_text(root)
    return text if len(own) < MOSTLY * len(text) else own


def _around(root: etree._Element) -> Iterator[etree._Element]:
    n_parts = 0
    for event, element in etree.iterwalk(root, ("start", "end"), (*AROUND, *PARTS)):
        if element.tag in PARTS:
            n_parts += 1 if event == "start" else -1
        elif event == "start" and (element.tag == AROUND[0] or not n_parts):
            yield element


def _tree(response: HtmlResponse | XmlResponse) -> etree._Element:
    """The response's tree, parsed as its selectors have parsed it or would parse it.

    Raises OverBudget for more `<` and `=`, or tags and attributes, than MAX_MARKUP, for more than
    MAX_ATTRIBUTES in one tag, and where libxml2 stopped at elements nested too deeply (2,048): the
    rest is missing.
    """
    n_markup = kernels.markup.tags_and_attributes(response.body)
    if n_markup > MAX_MARKUP:
        raise OverBudget(f"{n_markup} tags and attributes, at most {MAX_MARKUP}")
    return _read_to_its_end(_parsed(response))


def _read_to_its_end(root: etree._Element) -> etree._Element:
    errors = root.getroottree().parser.error_log
    if errors and errors[-1].type == etree.ErrorTypes.ERR_RESOURCE_LIMIT:
        raise OverBudget(errors[-1].message)
    return root


def _parsed(response: HtmlResponse | XmlResponse) -> etree._Element:
    if isinstance(response, XmlResponse):
        return response.selector.root
    if response._cached_selector is not None:
        root = response.selector.root
        # A spider that takes out scripts, say, takes out what tells pages apart.
        if kernels.markup.has_all_elements(root, _ascii_body(response)):
            return root
    # As parsel 1.12 does, in half the time: no selector looks for ids, comments or a base URL here.
    body = response.text.strip().encode()
    if b"\x00" in body:
        body = body.translate(None, b"\x00")  # replace() takes six times as long
    return _tree_of(body or b"<html/>")


def _tree_of(body: bytes) -> etree._Element:
    """The tree of a page in UTF-8. Raises OverBudget, see _tree()."""
    n_of_one, n_attributes = kernels.markup.count_attributes(body)
    if n_of_one > MAX_ATTRIBUTES:
        raise OverBudget(f"{n_of_one} attributes in a tag, at most {MAX_ATTRIBUTES}")
    # Some attributes have no `=`. What is counted first is an upper bound, found in less time.
    if kernels.markup.tags_and_attributes(body) + n_attributes > MAX_MARKUP:
        n_markup = body.count(b"<") + n_attributes
        if n_markup > MAX_MARKUP:
            raise OverBudget(f"{n_markup} tags and attributes, at most {MAX_MARKUP}")
    parser = etree.HTMLParser(
        recover=True,
        encoding="utf8",
        huge_tree=True,
        collect_ids=False,
        remove_comments=True,
        remove_pis=True,
    )
    root = etree.fromstring(body, parser)
    return etree.fromstring(b"<html/>", parser) if root is None else root


class Shown(NamedTuple):
    """The texts of a page without whitespace: what is visible, and all that its markup has."""

    visible: str
    all: str


def shown_by(response: Response) -> Shown:
    """What is visible of a page, and the text of all its elements, titles and scripts too."""
    visible = "".join((visible_text(response) or "").split())
    if not isinstance(response, (HtmlResponse, XmlResponse)) or not response.body:
        return Shown(visible, visible)
    return Shown(visible, "".join("".join(_tree(response).itertext()).split()))


def is_whole(text: str, shown: Shown) -> bool:
    """Whether a text holds all that is visible of a page, and what else it has is the page's, too.

    Whitespace does not count.
    """
    if not shown.visible:
        return False
    before, found, behind = "".join(text.split()).partition(shown.visible)
    return bool(found) and before in shown.all and behind in shown.all


def visible_text_of_html(html: str) -> str:
    """What a reader of the page sees, as visible_text takes it from a response."""
    return visible_text(_response(html, "about:blank")) or ""


# Of these elements no reader of a page sees the text.
HIDDEN = frozenset({*INVISIBLE, "noframes", "textarea", "title"})
# A tag, a comment, or what may be one and is never closed; a quoted value may hold `>`. Linear: of
# each kind of quote one at most is never closed.
TAG = re.compile(
    r"<!--(?:.*?-->|.*+\Z)|"
    r"<(?:/?([a-zA-Z][^\s/>]*+)|[!/?])(?:[^>\"']++|\"[^\"]*+\"|'[^']*+'|[\"'])*+>?",
    re.DOTALL,
)


def text_and_markup_of_html(html: str) -> tuple[str, list[str]]:
    """What a reader sees, and what tells two pieces of HTML apart that read alike.

    The latter are all tags, attributes and comments as they are written, each with whether text
    stands before it, or how much where no line ends at the tag; the text of elements that is not
    seen; and all that stands behind the end of the page, if it is one. O(len(html)).
    """
    behind = _behind_first_end(html).strip()
    markup, at = [behind] if behind else [], 0
    for tag in TAG.finditer(html):
        n_before = len("".join(html[at : tag.start()].split()))
        ends_line = tag[1] is None or tag[1].lower() in BLOCKS
        markup.append(f"{tag[0]}{min(n_before, 1) if ends_line else n_before}")
        at = tag.end()
    root = _tree(_response(html, "about:blank"))
    markup += _hidden_text(root)
    return kernels.markup.visible_text(root), markup


def _hidden_text(root: etree._Element) -> Iterator[str]:
    """The text in elements of which none is seen, each piece once, however they are nested."""
    depth = 0  # of hidden elements
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            depth += element.tag in HIDDEN
            text = element.text
        else:
            depth -= element.tag in HIDDEN
            text = element.tail
        if depth and text:
            yield text


def content_of_html(html: str, url: str) -> PageContent | str:
    """What a page says, as page_content takes it from a response."""
    return page_content(_response(html, url)) or ""


def _response(html: str, url: str) -> HtmlResponse:
    return HtmlResponse(url, body=html.encode("utf-8", "replace"), encoding="utf-8")


def fields_text(item: Any, names: Iterable[str]) -> str | None:
    """The text of the named fields, each on lines of its own; None if the item has none of them."""
    fields = fields_of(item)
    values = [fields[name] for name in names if fields.get(name) is not None]
    return "\n".join(line for value in values for line in _lines(value)) if values else None


def _lines(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, bytes):
        return (value.decode("utf-8", "replace"),)
    if isinstance(value, (list, tuple, set, frozenset)):
        return (line for element in value for line in _lines(element))
    if has_names(value):
        return (f"{name}: {line}" for name, part in named_values(value) for line in _lines(part))
    return (str(value),)

"""What a record says: its text, or its HTML as a crawl would read it, and HTML beside a text."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice, pairwise

from scrapy.http import Headers, Response
from scrapy.responsetypes import responsetypes

from scrapy_neardup.crawl.pages.extract import page_content
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.text import normalise
from scrapy_neardup.offline.dedup.record import Page

SHORT_LINE = 30  # characters that may stand in HTML by chance
SEARCHED = 100_000_000  # bytes, at most, that lines are looked for in: a tenth of a second
TOLD_BY = 1 << 16  # pairs of words, at most, by which a text is told
# Words from which on a text may speak for its HTML. Leads have some 50, cookie notices up to 150:
# equal ones say nothing of the articles around them.
LONG_TEXT = 200


def said_by(page: Page) -> PageContent | str | None:
    """What a record says; None if it has no text.

    HTML beside a text counts, too, unless the text is long and was taken from it: else it may be a
    teaser or a notice that many pages have.
    """
    said = page.text if page.body is None else content_of(page)
    if said is None or page.beside is None:
        return said
    text = as_content(said)
    is_long = len(normalise(text.text).split()) >= LONG_TEXT
    if is_long and stands_in(text.text, page.beside.body or b""):
        return said
    html = as_content(content_of(page.beside) or "")
    return said if is_long and was_taken_from(text.text, html.text) else joined(text, html)


def as_content(said: PageContent | str) -> PageContent:
    """What a page says that may be text alone."""
    return PageContent(said) if isinstance(said, str) else said


def stands_in(text: str, html: bytes) -> bool:
    """Whether most of a text stands in HTML in whole lines; if so, that need not be read.

    Not where that would be long to find out, for each line is looked for in all of the HTML.
    """
    lines = [line.strip() for line in text.splitlines()]
    long = [line for line in lines if len(line) > SHORT_LINE]
    if len(long) * len(html) > SEARCHED:
        return False
    return 2 * sum(len(line) for line in long if line.encode() in html) > sum(map(len, lines))


def was_taken_from(text: str, html: str) -> bool:
    """Whether most pairs of neighbouring words of a text, or of its beginning, are in what HTML
    says. O(len(text) + len(html))."""
    pairs = set(islice(pairs_in(text), TOLD_BY))
    return 2 * len(pairs.intersection(pairs_in(html))) >= len(pairs)


def pairs_in(text: str) -> Iterable[tuple[bytes, ...]]:
    """The pairs of neighbouring words; of a single word, the word."""
    words = normalise(text).split()
    return pairwise(words) if len(words) > 1 else zip(words, strict=True)


def joined(one: PageContent, other: PageContent) -> PageContent:
    """All that two pages say."""
    return PageContent(
        f"{one.text}\n{other.text}",
        [*one.heads, *other.heads],
        [*one.data, *other.data],
        [*one.details, *other.details],
        lambda: [*one.attributes(), *other.attributes()],
        one.unread_chars + other.unread_chars,
    )


def text_of(page: Page) -> str | None:
    """The visible text of a record; None if it has none."""
    said = said_by(page)
    return said.text if isinstance(said, PageContent) else said


def words_of(page: Page) -> bytes:
    """The words of a record's text."""
    return normalise(text_of(page) or "")


def content_of(page: Page) -> PageContent | str | None:
    """What an HTTP body says, as a crawl would take it."""
    return page_content(response_of(page))


def response_of(page: Page) -> Response:
    """An HTTP body as a response of its declared type, or of the one it looks like."""
    assert page.body is not None
    headers = Headers({"Content-Type": page.content_type} if page.content_type else {})
    kind = responsetypes.from_args(headers=headers, url=page.url, body=page.body)
    return kind(url=page.url or "http://-/", headers=headers, body=page.body)

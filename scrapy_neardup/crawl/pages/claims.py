"""What pages say of themselves: canonical URLs, which content has to confirm, and translations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from itertools import islice
from urllib.parse import urljoin

from scrapy.http import Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.fail_open import Count
from scrapy_neardup.crawl.items.source_page import CrawledPage
from scrapy_neardup.detect.decision import Decision
from scrapy_neardup.factory import make_rules
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.urls.key import url_key

HEAD_BYTES = 65_536  # of a body, in which claims are looked for
MAX_TAG = 2000  # bytes before and behind a mark
MAX_TAGS = 200  # with one mark
MAX_CLAIMS = 4
# In the order in which they count, as text and as bytes.
MARKS = {"canonical": b"canonical", "og:url": b"og:url", "shortlink": b"shortlink"}
# A name is tried at its beginning only, and what is in angle brackets once: linear in any text.
ATTRIBUTE = re.compile(
    rb"(?<![a-z:-])([a-z:-]++)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE
)
LINK_HEADER = re.compile(r"<([^<>]*)>\s*;[^,<]*\brel\s*=\s*\"?canonical\b", re.IGNORECASE)


class Claims:
    """Weighs what pages say of themselves against what they show."""

    def __init__(self, settings: NearDupSettings, state: State, count: Count) -> None:
        self._mode = settings.canonical
        self._rules = make_rules(settings)
        self._state = state
        self._count = count

    def read(self, page: CrawledPage) -> None:
        """Find the earlier page that a page names, with which it is compared before others."""
        if self._mode != "ignore":
            page.claimed = self._claimed_row(page)

    def weigh(self, page: CrawledPage) -> None:
        """Count a page's claim, or follow it where the project trusts pages."""
        judged = page.judged
        if self._mode == "ignore" or judged is None:
            return
        if judged.is_duplicate and self._is_translation(page, judged):
            page.applied = None
            self._count(stats.CLAIMS_TRANSLATIONS)
            return
        row = page.claimed
        if row is None:
            return
        if judged.is_duplicate:
            self._count(stats.CLAIMS_CONFIRMED)
        elif self._mode == "check":
            self._count(stats.CLAIMS_CONTRADICTED)
        elif page.applied is not None:
            self._count(stats.CLAIMS_TRUSTED)
            url = self._state.detector.pages.url(row)
            page.judged = judged._replace(kind="claimed", original=url, original_id=row)
            page.applied = page.judged

    def _claimed_row(self, page: CrawledPage) -> int | None:
        """The row of an earlier page that a page names as its canonical one."""
        for url in canonical_urls(page.response):
            row = self._state.detector.pages.with_url(url)
            if row is not None and url_key(url, self._rules) != page.key(self._rules):
                return row
        return None

    def _is_translation(self, page: CrawledPage, judged: Decision) -> bool:
        """Whether page and original are two of the languages or regions that the page names.

        Copies of one of them name it, too; but then they are none of those that they name.
        """
        keys = {url_key(url, self._rules) for url in alternates(page.response)}
        if not keys or judged.original is None:
            return False
        own, original = (url_key(u, self._rules) for u in (page.response.url, judged.original))
        return own != original and {own, original} <= keys


def head_of(response: Response) -> bytes:
    """What a body begins with, in which claims are looked for."""
    body = response.body[:HEAD_BYTES]
    end = body.find(b"</head")
    return body if end < 0 else body[:end]


def tags_with(mark: bytes, head: bytes) -> Iterator[dict[str, str]]:
    """The attributes of the first tags that a mark is in: the others are not looked at."""
    at = -1
    for _ in range(MAX_TAGS):
        at = head.find(mark, at + 1)
        if at < 0:
            return
        start, end = head.rfind(b"<", at - min(at, MAX_TAG), at), head.find(b">", at, at + MAX_TAG)
        if start >= 0 and end >= 0:
            at = end  # a tag is read once, however often the mark is in it
            yield {
                name.decode("ascii").lower(): unescape(
                    (a or b or c).decode("utf-8", "replace")
                ).strip()
                for name, a, b, c in ATTRIBUTE.findall(head[start:end])
            }


def canonical_urls(response: Response) -> list[str]:
    """The URLs that a page calls its own: rel=canonical, og:url, rel=shortlink, in this order."""
    found: list[tuple[int, str]] = []
    # Not headers.get(): it would normalise the name for each page, which few have.
    header = response.headers.get("Link") if dict.__contains__(response.headers, b"Link") else b""
    if header and (named := LINK_HEADER.search(header.decode("latin-1"))):
        found.append((0, named[1]))
    head = head_of(response)
    for rank, (mark, in_bytes) in enumerate(MARKS.items()):
        if in_bytes not in head:
            continue
        for tag in islice(tags_with(in_bytes, head), MAX_CLAIMS):
            if mark in tag.get("rel", "").split():
                found.append((rank, tag.get("href", "")))
            elif tag.get("property") == mark:
                found.append((rank, tag.get("content", "")))
    if not found:
        return []
    urls = [joined(response, url) for _, url in sorted(found, key=lambda one: one[0])]
    return [url for url in dict.fromkeys(urls) if url][:MAX_CLAIMS]


def alternates(response: Response) -> list[str]:
    """The URLs of a page's translations, itself among them."""
    named = (tag for tag in tags_with(b"hreflang", head_of(response)) if "hreflang" in tag)
    return [url for tag in named if (url := joined(response, tag.get("href", "")))]


def joined(response: Response, url: str) -> str:
    """A URL as a page names it, made absolute; "" for none."""
    try:
        return urljoin(response.url, url) if url else ""
    except ValueError:
        return ""

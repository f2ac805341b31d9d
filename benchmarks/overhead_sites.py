"""Sites that crawl_overhead.py crawls besides the real one: what a page is, and who reads it.

Each is a binary tree of pages, so that every page has two links. Their spiders do as little as a
spider can: whatever the plugin costs shows.
"""

import gzip
import json
import random
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from local_site import DATA
from scrapy import Request, Spider
from scrapy.http import Response, TextResponse

N_PAGES = 600
VOCABULARY = [a + b + c for a in ("ka", "re", "mo") for b in "lnrst" for c in ("an", "e", "ing")]
LINK = re.compile(r'<a class="next" href="([^"]+)"')


class SelectorSpider(Spider):
    """Reads title and links by selectors."""

    name = "selectors"

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        yield {"url": response.url, "title": response.css("title::text").get()}
        for link in response.css("a.next::attr(href)").getall():
            yield response.follow(link)


class BareSpider(Spider):
    """Reads links by a regular expression: Scrapy makes no tree of the page."""

    name = "bare"

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        assert isinstance(response, TextResponse)
        yield {"url": response.url, "size": len(response.text)}
        for link in LINK.findall(response.text):
            yield Request(response.urljoin(link))


class JsonSpider(Spider):
    """Reads an API."""

    name = "json"

    def parse(self, response: Response, **_: Any) -> Iterator[Any]:
        assert isinstance(response, TextResponse)
        record = response.json()
        yield {"id": record["id"], "name": record["name"]}
        for link in record["next"]:
            yield response.follow(link)


def links(number: int, suffix: str) -> list[str]:
    """Where a page leads."""
    return [f"/{n}.{suffix}" for n in (2 * number + 1, 2 * number + 2) if n < N_PAGES]


def anchors(number: int) -> str:
    return "".join(f'<p><a class="next" href="{link}">on</a>' for link in links(number, "html"))


def text(number: int, n_chars: int) -> str:
    """Words of a page alone, about so many characters of them."""
    chance = random.Random(number)
    return " ".join(chance.choices(VOCABULARY, k=n_chars // 6))


def real_pages() -> Iterator[str]:
    """Real HTML, each page once, with two links more."""
    with gzip.open(DATA.parent / "pairs" / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        for number, line in enumerate(islice(lines, N_PAGES)):
            before, end, after = json.loads(line)["html"].rpartition("</body>")
            yield before + anchors(number) + end + after


def made_pages(n_chars: int) -> Iterator[str]:
    """HTML of about so many characters, in paragraphs of 200."""
    for number in range(N_PAGES):
        title = f"<html><head><title>Page {number}</title></head><body>"
        body = "".join(
            f"<p>{text(10_000 * number + i, 200)}</p>" for i in range(max(1, n_chars // 220))
        )
        yield f"{title}{body}{anchors(number)}</body></html>"


def records() -> Iterator[str]:
    """JSON of 3 KB."""
    for number in range(N_PAGES):
        record = {"id": number, "name": text(number, 30), "text": text(number + 9, 2800)}
        yield json.dumps(record | {"next": links(number, "json")})


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "few": real_pages,
    "jobdir": real_pages,
    "bare": real_pages,
    "tiny": lambda: made_pages(400),
    "large": lambda: made_pages(300_000),
    "json": records,
}
SPIDERS: dict[str, type[Spider]] = {"bare": BareSpider, "json": JsonSpider}


def write(site: str, folder: Path) -> str:
    """Write the pages of a site into a folder; the path of the first."""
    suffix = "json" if site == "json" else "html"
    for number, page in enumerate(PAGES[site]()):
        (folder / f"{number}.{suffix}").write_text(page, encoding="utf-8")
    return f"/0.{suffix}"

"""Long pages and items are read in threads: the loop's does not look at their text."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any

import pytest
from crawls import PagesSpider, crawl
from mock_site import MockSite, page, prose
from scrapy.http import Response

import scrapy_neardup
from scrapy_neardup.crawl.pages.long_bodies import LOOP_NS, NS_OF_MARKS, SHORT_BYTES
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.page_reading import OwnPart, PageReading

PACKAGE = str(Path(scrapy_neardup.__file__).parent)
# They pass texts on, look at a bounded part, or count bytes.
PASSES = {
    *("body", "decide_item", "decide_text", "entry_of", "page_judged"),
    *(
        "_lines",
        "_read_fields",
        "revision",
        "adds",
        "fields_text",
        "has_names",
        "is_item",
        "read_text",
        "takes_long",
    ),
}
LAZY = {"_words", "fingerprint", "odd_row", "facts", "all_facts", "signatures", "attribute_bits"}
LONG_SCRIPT = LOOP_NS // NS_OF_MARKS["("]
MENU = "".join(f"<p>{prose(f'menu {n}', 8)}</p>" for n in range(5))


def long_page(seed: object, more: str = "") -> bytes:
    """A page of much prose, with a script that could take long to read."""
    script = f"<script>{'f(' * LONG_SCRIPT}</script>"
    return page(f"{MENU}<p>{prose(str(seed), 20_000)}</p>{more}{script}", "/next", "/other")


class Texts(PagesSpider):
    """Items of two fields, one of which is the text of a long page."""

    name = "texts"

    def parse_seed(self, response: Response) -> Iterator[Any]:
        yield from self.parse(response)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "body": " ".join(response.css("p::text").getall())}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


class OnLoop:
    """What functions of the package got a long text on this thread, while it is entered."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def __enter__(self) -> "OnLoop":
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        given = MappingProxyType(frame.f_locals)
        names = code.co_varnames[: code.co_argcount]
        if any(self._is_long(code.co_name, given.get(name)) for name in names):
            self.found.add(f"{Path(code.co_filename).stem}.{code.co_name}")

    @staticmethod
    def _is_long(function: str, value: object) -> bool:
        if isinstance(value, (OwnPart, PageReading)):
            if function not in LAZY:
                return False
            reading = value.reading if isinstance(value, OwnPart) else value
            return len(reading.words) > SHORT_BYTES
        if isinstance(value, PageContent):
            value = value.text
        is_text = isinstance(value, (str, bytes)) and len(value) > SHORT_BYTES
        return is_text and function not in PASSES


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"NEARDUP_FOLLOW_DUPLICATES": False},
        {"NEARDUP_LEARN": "act"},
        {"NEARDUP_SOFT_404_PROBE": True, "ROBOTSTXT_OBEY": False},
        {"NEARDUP_ITEM_FIELDS": ["body"]},
        {"NEARDUP_COMPARE": "page"},
        {"NEARDUP_LEDGER": "all", "NEARDUP_KEEP_TEXT": True},
        {"NEARDUP_RECRAWL": "changed"},
    ],
    ids=lambda settings: " ".join(settings).lower().replace("neardup_", "") or "default",
)
def test_no_long_text_is_looked_at_on_the_loop_s_thread(
    mock_site: MockSite, tmp_path: Path, settings: dict[str, Any]
) -> None:
    paths = [f"/long/{n}" for n in range(9)]
    where = {"NEARDUP_STATE_DIR": str(tmp_path), "NEARDUP_BOILERPLATE": "learn"}
    short = [mock_site.add(f"/short/{n}", page(f"{MENU}{prose(n)}")) for n in range(6)]
    mock_site.add("/page/seed", page("seed", *short))  # by which templates are known
    crawl(Texts, where | settings, seed=mock_site.url("/page/seed"))
    mock_site.add("/page/seed", page("seed", *paths))
    for n, path in enumerate(paths):  # the last three: copy, near copy, contained
        more = {7: "<p>one more line of words</p>", 8: f"<p>{prose('more', 5_000)}</p>"}.get(n, "")
        mock_site.add(path, long_page(min(n, 6) if n < 6 else 0, more))
    n_read = 0
    for _ in range(2):
        with OnLoop() as loop:
            outcome = crawl(Texts, where | settings, seed=mock_site.url("/page/seed"))
        assert loop.found == set()
        n_read += outcome.stat("pages/read")
    assert n_read >= len(paths)

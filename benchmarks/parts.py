"""What a page takes, part by part: CPU time in a loop that does nothing else.

    python benchmarks/parts.py [--site few] [--rounds 5]

The pages are those that `crawl_overhead.py --site` crawls, as from one host. Each part is what the
plugin calls, on what the parts before it made; the first, the tree, is needed only where the
spider used no selector. Given is the median over the rounds of the mean over the pages.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from overhead_sites import PAGES
from scrapy.http import HtmlResponse
from scrapy.settings import Settings

import scrapy_neardup.kernels as kernels
from scrapy_neardup.crawl.pages.extract import page_content
from scrapy_neardup.crawl.pages.page_data import page_data
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.facts import exact_text_and_facts
from scrapy_neardup.detect.text import words_and_blocks
from scrapy_neardup.factory import make_detector
from scrapy_neardup.settings import NearDupSettings

KEY = 2**61 - 1
TREE, WHOLE = "HTML to tree", "tree against the page's tags, where selectors made it"
TEXT, DATA = "tree to visible text", "headings, data, attributes"
WORDS, FACTS = "text to words and blocks", "exact text and facts"
READING = "all of reading, these two included"
SIGNATURES, ODD, DECISION = "fingerprint, sketch", "odd sketch", "the rest of the decision"


class Stopwatch:
    """Adds up CPU seconds by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        begun = time.process_time_ns()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + (time.process_time_ns() - begun) / 1e9


def one_round(pages: Sequence[bytes]) -> dict[str, float]:
    """CPU microseconds a page of each part."""
    detector = make_detector(NearDupSettings.from_settings(Settings()), KEY)
    clock = Stopwatch()
    for number, body in enumerate(pages):
        url = f"http://site.example/{number}.html"
        response = HtmlResponse(url, body=body, encoding="utf-8")
        with clock(TREE):
            root = response.selector.root
        with clock(WHOLE):
            kernels.markup.has_all_elements(root, body)
        with clock(TEXT):
            text = kernels.markup.visible_text(root)
        with clock(DATA):
            data = page_data(root, url, body)
        with clock(WORDS):
            words_and_blocks(text)
        with clock(FACTS):
            exact_text_and_facts(text, data.heads)
        content = page_content(response)
        assert isinstance(content, PageContent)
        with clock(READING):
            reading = detector.read(url, content)
        with clock(SIGNATURES):
            _ = reading.signatures
        with clock(ODD):
            _ = reading.odd_row
        with clock(DECISION):
            detector.decide(reading)
    return {name: 1e6 * seconds / len(pages) for name, seconds in clock.seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    html = [site for site in PAGES if site not in ("json", "jobdir", "bare")]
    parser.add_argument("--site", choices=html, default="few", help="default few")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    options = parser.parse_args()
    pages = [page.encode() for page in PAGES[options.site]()]
    gc.freeze()
    rounds = [one_round(pages) for _ in range(options.rounds)]
    print(f"{len(pages)} pages of {sum(map(len, pages)) / len(pages):,.0f} bytes on average")
    for name in rounds[0]:
        print(f"{statistics.median(each[name] for each in rounds):8.1f} us  {name}")


if __name__ == "__main__":
    main()

"""Crawl the real site in ../shared/data in two versions under the same paths, and count changes.

    python benchmarks/recrawl.py [--noise | --labelled] [--text]

Day 1 serves the manual of httpd 2.4.68 at /, day 2 that of 2.4.71, day 3 the same once more.
--noise adds to every page, at every visit, a date, a counter, an advertisement and "related"
links. --labelled serves instead each of the labelled pages of which there are several versions
(javadoc of Kafka, documents of SQLAlchemy, the manual of httpd) at one path: day by day its next
version, and the last one twice. The truth is the title and the text below each page's <body>, read
by lxml and compared as they are in the files; a file that is in one version only is new, or gone.

--text lets each item hold its page's text, so that a line decides and nothing else does.

    found    pages that changed that were reported as changed: recall
    wrongly  pages that did not that were: share of all that did not
    unread   pages that were neither read nor, by the word of the server, unchanged
    304      pages that were not downloaded
    twice    pages that were read once more, to see what varies without a change
"""

import argparse
import asyncio
import gzip
import json
import os
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Self
from urllib.parse import urlsplit

from local_site import unpacked
from lxml import html
from scrapy import Spider, signals
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor

from scrapy_neardup.crawl.pages.extract import visible_text
from scrapy_neardup.state.visit_file import FILE, changes, opened

PAGES = Path(__file__).parents[2] / "shared/data/pairs/pages.jsonl.gz"
DAYS = ("httpd-2.4.68/en", "httpd/en", "httpd/en")
OFFERS = [f"Offer {name}: only this week" for name in ("north", "east", "south", "west", "up")]
CLICKS = count()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--noise", action="store_true")
    kind.add_argument("--labelled", action="store_true")
    parser.add_argument("--text", action="store_true")
    options = parser.parse_args()
    with labelled() if options.labelled else manual() as days, TemporaryDirectory() as state:
        texts = [text_of_pages(day) for day in days]
        print(
            "day  pages  items  changed   found     wrongly  new  gone  minor  unchanged  unread  "
            "304  twice"
        )
        for number, day in enumerate(days):
            with served(day, options.noise) as root:
                read, n_items, counts = asyncio.run(crawled(root, Path(state), options.text))
            tell(number, texts, read, n_items, counts, reported(Path(state), number + 1))


@contextmanager
def manual() -> Iterator[list[Path]]:
    """The manual of httpd, a folder a day."""
    with unpacked() as site:
        yield [site / day for day in DAYS]


@contextmanager
def labelled() -> Iterator[list[Path]]:
    """The versions of the labelled pages, a folder a day, with an index that links them."""
    pages = defaultdict(dict)
    with gzip.open(PAGES, "rt", encoding="utf-8") as file:
        for page in map(json.loads, file):
            pages[page["source"], page["group"]][page["version"]] = page["html"]
    groups = [[of[v] for v in sorted(of, key=numbers)] for of in pages.values() if len(of) > 1]
    links = "".join(f"<p><a href={n}.html>{n}</a></p>" for n in range(len(groups)))
    n_days, now = 1 + max(map(len, groups)), time.time()
    with TemporaryDirectory() as folder:
        days = [Path(folder, str(day)) for day in range(n_days)]
        for number, day in enumerate(days):
            day.mkdir()
            (day / "index.html").write_text(f"<html><body>{links}</body></html>", "utf-8")
            for n, versions in enumerate(groups):
                version = min(number, len(versions) - 1)
                path = day / f"{n}.html"
                path.write_text(versions[version], "utf-8", "surrogatepass")
                made = now - 86_400 * (n_days - version)  # Last-Modified tells them apart
                os.utime(path, (made, made))
        yield days


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", str(version))]


def text_of_pages(folder: Path) -> dict[str, str]:
    """Path → words below the body."""
    return {
        f"/{path.relative_to(folder)}": words(path.read_bytes()) for path in folder.rglob("*.html")
    }


def words(page: bytes) -> str:
    tree = html.fromstring(page)
    for script in tree.iter("script", "style"):
        script.text = ""
    texts = [tree.findtext(".//title") or "", *tree.find("body").itertext()]
    return " ".join(" ".join(texts).split())


class Handler(SimpleHTTPRequestHandler):
    """A folder's files, with noise in every page; always on one port, so that URLs stay."""

    has_noise = False

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not self.has_noise or path.suffix != ".html" or not path.exists():
            super().do_GET()
            return
        number = next(CLICKS)
        links = "".join(f"<li>See chapter {name}</li>" for name in random.sample("ABCDEFGHIJ", 3))
        noise = (
            f"<p>Made on {number % 28 + 1} May, {number % 24}:{number % 60:02}</p>"
            f"<p>{number * 37} visitors</p><h4>Offers</h4><p>{random.choice(OFFERS)}</p>"
            f"<h4>Related</h4><ul>{links}</ul><p>End of page</p></body>"
        )
        body = path.read_bytes().replace(b"</body>", noise.encode())
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


PORT = 0


@contextmanager
def served(folder: Path, noise: bool) -> Iterator[str]:
    global PORT
    handler = type("Noisy", (Handler,), {"has_noise": noise})
    server = ThreadingHTTPServer(("127.0.0.1", PORT), partial(handler, directory=str(folder)))
    PORT = server.server_port
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{PORT}"
    finally:
        server.shutdown()
        server.server_close()


class Manual(Spider):
    """One item a page with its address and title, so that the text decides."""

    name = "manual"

    def __init__(self, root: str, read: dict[str, int], text: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [f"{root}/index.html"]
        self.allowed_domains = ["127.0.0.1"]
        self.read = read
        self.text = text
        self.links = LinkExtractor()

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.came, signals.response_received)
        return spider

    def came(self, response: Response) -> None:
        if response.status == 304 or (
            response.status == 200 and isinstance(response, HtmlResponse)
        ):
            self.read[urlsplit(response.url).path] = response.status

    def parse(self, response: Response) -> Iterator[Any]:
        if isinstance(response, HtmlResponse):
            item = {"url": response.url, "title": response.css("title::text").get()}
            yield item | {"text": visible_text(response)} if self.text else item
            for link in self.links.extract_links(response):
                yield response.follow(link)


async def crawled(root: str, state: Path, text: bool) -> tuple[dict[str, int], int, dict[str, int]]:
    """Pages read, items that passed, pages by status."""
    read: dict[str, int] = {}
    settings = {
        "ADDONS": {"scrapy_neardup.NearDupAddon": 500},
        "TWISTED_REACTOR_ENABLED": False,
        "LOG_LEVEL": "ERROR",
        "NEARDUP_STATE_DIR": str(state),
        "NEARDUP_RECRAWL": "changed",
    }
    crawler = AsyncCrawlerRunner(settings).create_crawler(Manual)
    await AsyncCrawlerRunner(settings).crawl(crawler, root=root, read=read, text=text)
    assert crawler.stats is not None
    stats = crawler.stats.get_stats()
    start = "neardup/recrawl/"
    counts = {name.removeprefix(start): n for name, n in stats.items() if name.startswith(start)}
    return read, stats.get("item_scraped_count", 0), counts


def reported(state: Path, run: int) -> set[str]:
    """Paths of the pages that a run reported as changed."""
    with closing(opened(state / FILE)) as db:
        found = [one for one in changes(db, run) if one.run == run]
    return {urlsplit(one.url).path for one in found if one.status.word == "changed"}


def tell(
    number: int,
    texts: list[dict[str, str]],
    read: dict[str, int],
    n_items: int,
    counts: dict[str, int],
    found: set[str],
) -> None:
    before, now = texts[max(number - 1, 0)], texts[number]
    known = before.keys() & now.keys() & read.keys() if number else set()
    changed = {path for path in known if before[path] != now[path]}
    unread = len({path for path in now if path not in read})
    wrongly = found - changed
    share = len(wrongly) / max(1, len(known - changed))
    print(
        f"{number + 1:<4} {len(read):>5} {n_items:>6} {len(changed):>8} "
        f"{len(found & changed):>5}/{len(changed):<4} {len(wrongly):>4} {share:>5.1%} "
        f"{counts.get('new', 0):>3} {counts.get('gone', 0):>5} {counts.get('minor', 0):>6} "
        f"{counts.get('unchanged', 0):>10} {unread:>7} {counts.get('not_downloaded', 0):>4} "
        f"{counts.get('read_twice', 0):>6}"
    )
    for path in sorted(changed - found)[:10]:
        print("     missed", path)
    for path in sorted(wrongly)[:10]:
        print("     wrongly", path, json.dumps(read.get(path)))


if __name__ == "__main__":
    main()

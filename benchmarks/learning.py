"""What learnt rules and deferral save on a site of traps with known truth, and what they lose.

python -m benchmarks.learning [saved] [whole] [budgets] [cost] [watching] [adversaries]

saved        planted copies that rules save, where every page is judged rightly: the learner
             alone, depth first, without a download
whole        crawl everything over HTTP with NEARDUP_LEARN=act: planted copies that rules save,
             contents lost, and where each trap ended
budgets      contents found in 10, 25 and 50 % of the pages that a site without endless traps
             would have: plain Scrapy, a rule file written by hand, and act, each depth first
             and breadth first
cost         CPU of watching and of asking, a URL
watching     share of a crawl's CPU that watching takes, where three pages in four are copies
adversaries  authors who teach a rule on their own pages, to hide another's
"""

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.http import Response

from benchmarks.trap_site import (
    COPIES,
    N_LISTS,
    PER_LIST,
    TRAPS,
    TrapSite,
    content,
    links_to,
    token,
)
from scrapy_neardup.crawl.learning.url_learning import UrlLearning
from scrapy_neardup.learn.learner import Judged, Learner
from tests.mock_site import running_site

ADDON = {"ADDONS": {"scrapy_neardup.NearDupAddon": 500}}
ACT = ADDON | {"NEARDUP_LEARN": "act"}
# The project's own rules know the site's session ids; here, it is to learn them.
SETTINGS = {
    "TWISTED_REACTOR_ENABLED": False,
    "LOG_LEVEL": "ERROR",
    "NEARDUP_URL_DROP_SESSIONS": False,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
}
BREADTH_FIRST = {
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
}
# What somebody would write who knows the site's arguments.
BY_HAND = """[{"args": ["s", "sort", "print", "from"], "order": 1, "processor": "queryRemoval",
"urlPattern": {"include": ["127.0.0.1"]}}]"""


class EveryLink(Spider):
    """Follows everything, and makes an item of each content page."""

    name = "every-link"

    def parse(self, response: Response) -> Iterator[Any]:
        if (said := content("/" + response.url.split("/", 3)[3])) is not None:
            yield {"said": said, "text": response.css("p::text").get()}
        yield from response.follow_all(css="a")


@dataclass
class Crawl:
    """What a crawl downloaded and found."""

    n_pages: int
    kinds: Counter[str]  # pages, by first directory
    found: set[str]  # contents of which a page was downloaded
    kept: set[str]  # contents of which an item came through
    stats: dict[str, Any]


async def crawl(n_items: int, starts: Sequence[str] = ("/",), **settings: Any) -> Crawl:
    """Crawl the site from its first page, or from others."""
    kept = set()

    class Site(TrapSite):
        pass

    Site.n_items = n_items
    with running_site(Site) as site:
        runner = AsyncCrawlerRunner(SETTINGS | settings)
        crawler = runner.create_crawler(EveryLink)
        crawler.signals.connect(
            lambda item: kept.add(item["said"]), signals.item_scraped, weak=False
        )
        await runner.crawl(crawler, start_urls=list(map(site.url, starts)))
        assert crawler.stats
        kinds = Counter[str]()
        for (_, path), n in site.hits.items():
            kinds[path.lstrip("/").partition("?")[0].partition("/")[0]] += n
        found = {said for _, path in site.hits if (said := content(path))}
        return Crawl(kinds.total(), kinds, found, kept, crawler.stats.get_stats())


def saved(n_items: int) -> None:
    """A crawl without downloads: lists from the last to the first, links from the last."""
    learner, originals = Learner(0.05, acts=True), dict[str, bytes]()
    downloaded, seen, found = Counter[str](), set[str](), set[str]()
    for n in reversed(range(N_LISTS)):
        for first in range(0, n_items, PER_LIST):
            for url in reversed(TrapSite.items(n, first, n_items)):
                said, key = content(url), f"a.example{url}".encode()
                if said is None or url in seen:
                    continue
                seen.add(url)
                if learner.twin(key) is not None and not learner.is_verified(key):
                    continue
                downloaded[said.split()[0]] += 1
                found.add(said)
                original = originals.setdefault(said, key)
                learner.observe(Judged(url, key, None if original == key else original))
    copies, contents = TrapSite.planted_of(n_items)
    tell_saved(copies, contents, downloaded)
    planted = {said for said in contents if said.split()[0] in downloaded}
    print(f"contents: {len(planted)}, lost: {len(planted - found)}")


def tell_saved(copies: Counter[str], contents: set[str], downloaded: Counter[str]) -> None:
    n_saved = 0
    print("copies of     planted  saved")
    for kind in COPIES:
        n_contents = sum(said.startswith(f"{kind} ") for said in contents)
        n_saved += (of_kind := copies[kind] - (downloaded[kind] - n_contents))
        print(f"{kind:<12} {copies[kind]:>8}  {of_kind / copies[kind]:6.1%}")
    n_copies = sum(copies[kind] for kind in COPIES)
    print(f"{'all':<12} {n_copies:>8}  {n_saved / n_copies:6.1%}")


def whole(n_items: int) -> None:
    """One crawl without a budget."""
    done = asyncio.run(crawl(n_items, **ACT))
    copies, contents = TrapSite.planted_of(n_items)
    tell_saved(copies, contents, done.kinds)
    print(f"contents: {len(contents)}, lost: {len(contents - done.found)}", end=", ")
    print(f"without an item: {len(contents - done.kept)}")
    print("pages of traps:", ", ".join(f"{k} {done.kinds[k]}" for k in TRAPS))
    print(f"{done.n_pages} pages; deferred: {done.stats.get('neardup/urls/deferred', 0)}")


def budgets(n_items: int) -> None:
    """Crawls that end early."""
    copies, contents = TrapSite.planted_of(n_items)
    n_pages = sum(copies.values()) + len(contents)
    print(f"{len(contents)} contents, {n_pages} pages without traps")
    print(f"{'':<28}" + "".join(f"{share:>8.0%}" for share in BUDGETS))
    with TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.json"
        rules.write_text(BY_HAND, "utf-8")
        by_hand = ADDON | {"NEARDUP_LEARN": "off", "NEARDUP_URL_SITE_RULES": str(rules)}
        for name, settings in {"plain": {}, "rules by hand": by_hand, "act": ACT}.items():
            for order, more in {"depth first": {}, "breadth first": BREADTH_FIRST}.items():
                print(f"{name + ', ' + order:<28}", end="", flush=True)
                for share in BUDGETS:
                    budget = {"CLOSESPIDER_PAGECOUNT": round(share * n_pages)}
                    done = asyncio.run(crawl(n_items, **settings, **more, **budget))
                    print(f"{len(done.found):>8}", end="", flush=True)
                print()


BUDGETS = (0.1, 0.25, 0.5)


def cost(n_items: int) -> None:
    """CPU of a learner that is told of every page of the site, and asked for every URL."""
    urls = [link for n in range(N_LISTS) for i in range(n_items) for link in links_to(i, n)]
    originals: dict[str, bytes] = {}
    pages = []
    for url in urls:
        said, key = content(url) or "", f"a.example{url}".encode()
        first = originals.setdefault(said, key)
        pages.append(Judged(f"http://a.example{url}", key, None if first == key else first))
    learner, begun = Learner(0.05), time.process_time()
    for page in pages:
        learner.observe(page)
    watched = time.process_time() - begun
    begun = time.process_time()
    for page in pages:
        learner.twin(page.key)
    asked = time.process_time() - begun
    print(f"{len(urls)} URLs: {watched / len(urls) * 1e6:.1f} us to watch a page,", end=" ")
    print(f"{asked / len(urls) * 1e6:.1f} us to ask for a request (act mode only)")


class Stopwatch:
    """CPU of this thread that calls of some functions take."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        def call(*arguments: Any) -> Any:
            begun = time.thread_time()
            try:
                return function(*arguments)
            finally:
                self.spent_s += time.thread_time() - begun

        return call


def watching(n_items: int) -> None:
    """All lists and what they link to: the site answers in other threads, which do not count."""
    watch = Stopwatch()
    for name in ("page_settled", "catch_up", "gauges", "save"):
        setattr(UrlLearning, name, watch.timed(getattr(UrlLearning, name)))
    begun = time.thread_time()
    done = asyncio.run(crawl(n_items, [f"/list/{n}/0" for n in range(N_LISTS)], **ADDON))
    took = time.thread_time() - begun
    copies, saved = (
        done.stats[name] for name in ("neardup/pages/exact", "neardup/learn/would_save")
    )
    print(
        f"{done.n_pages} pages, {copies} copies, of which rules would have saved {saved};", end=" "
    )
    print(
        f"{took / done.n_pages * 1e3:.2f} ms each,"
        f" watching {watch.spent_s / done.n_pages * 1e6:.1f} us, {watch.spent_s / took:.2%}"
    )


def adversaries() -> None:
    """Authors who let ?v=… mean nothing on their own pages; on the victim's, it does."""
    print("accounts  pages each  place      hidden pages of 20")
    for n_accounts in (1, 5, 19, 25):
        for place, shape in PLACES.items():
            print(f"{n_accounts:>8}  {200:>10}  {place:<9}  {hidden(shape, n_accounts, 200)}")


PLACES = {
    "host": "{0}.example/p?n={1}",
    "directory": "a.example/~{0}/p?n={1}",
    "path": "a.example/blog/{0}/p?n={1}",
    "argument": "a.example/p?user={0}&n={1}",
}


def hidden(shape: str, n_accounts: int, n_pages: int) -> int:
    """How many of the victim's pages would be skipped, before one of them contradicts."""
    learner = Learner(0.05)
    for account in range(n_accounts):
        for i in range(n_pages):
            url = shape.format(f"mallory{account}", i)
            for more in ("", f"&v={token(account, i)}"):
                key = None if not more else url.encode()
                learner.observe(Judged(url + more, (url + more).encode(), key))
    n_hidden = 0
    for i in range(20):
        url = shape.format("alice", f"9{i:03}")
        learner.observe(Judged(url, url.encode()))
        other = f"{url}&v={token('alice', i)}"
        if learner.twin(other.encode()) is None:
            learner.observe(Judged(other, other.encode()))
        else:
            n_hidden += 1
    return n_hidden


MEASURES = {
    "saved": saved,
    "whole": whole,
    "budgets": budgets,
    "cost": cost,
    "watching": watching,
}
PARTS = (*MEASURES, "adversaries")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learning", description=__doc__)
    parser.add_argument("parts", nargs="*", default=PARTS, help=f"of {', '.join(PARTS)}; all")
    parser.add_argument("--items", type=int, default=150, help="contents of each kind")
    options = parser.parse_args()
    for part in options.parts:
        begun = time.process_time()
        print(f"--- {part}")
        if part == "adversaries":
            adversaries()
        else:
            MEASURES[part](options.items)
        print(f"({time.process_time() - begun:.0f} s CPU)\n")


if __name__ == "__main__":
    main()

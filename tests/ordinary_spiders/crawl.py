"""Crawl a case with or without the plugin, and tell what came of it, page by page."""

import asyncio
import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from itemadapter import ItemAdapter
from itemadapter.utils import is_item
from scrapy import signals
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.http import Response

from .cases import Case
from .site import OrdinarySite

VISIT_TIMES = {"scraped_at"}
SETTINGS: dict[str, Any] = {
    "TWISTED_REACTOR_ENABLED": False,  # any number of crawls in one process
    "LOG_LEVEL": "ERROR",
    "RETRY_ENABLED": False,
}


@dataclass
class Crawl:
    """Items by the path of their page (the first, where it was redirected), and files' digests."""

    pages: dict[str, Counter[str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)

    def of(self, page: str) -> Counter[str]:
        """What came of a page, as data() has it."""
        return self.pages.get(page, Counter())

    @property
    def n_items(self) -> int:
        return sum(items.total() for items in self.pages.values())


def run(
    case: Case, site: OrdinarySite, folder: Path, addons: dict[str, int], **settings: Any
) -> Crawl:
    """Run a case's spider to its end under Scrapy's defaults; files are stored in `folder`."""
    crawl = asyncio.run(_run(case, site, folder, settings | {"ADDONS": addons}))
    stored = (path for path in sorted(folder.rglob("*")) if path.is_file())
    crawl.files = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in stored
    }
    return crawl


async def _run(case: Case, site: OrdinarySite, folder: Path, settings: dict[str, Any]) -> Crawl:
    stores = {"FILES_STORE": str(folder), "IMAGES_STORE": str(folder)}
    runner = AsyncCrawlerRunner(SETTINGS | stores | settings)
    crawler = runner.create_crawler(case.spider)
    crawl = Crawl()

    def scraped(item: Any, response: Response | None) -> None:
        page, urls = "", set()
        if response is not None:
            urls = {response.url, *response.meta.get("redirect_urls", ())}
            first = response.meta.get("redirect_urls", [response.url])[0]
            page = f"{response.request.method} {first.removeprefix(site.root)}"
        crawl.pages.setdefault(page, Counter())[data(item, urls)] += 1

    crawler.signals.connect(scraped, signals.item_scraped)
    await runner.crawl(crawler, root=site.url(f"/{case.spider.name}"))
    assert crawler.stats
    crawl.stats = crawler.stats.get_stats()
    return crawl


def data(item: Any, urls: set[str]) -> str:
    """All that an item says, as text; the URLs and the times of the visit are masked."""
    return json.dumps(_plain(item, urls), ensure_ascii=True, sort_keys=True)


def _plain(value: Any, urls: set[str]) -> Any:
    if is_item(value):
        fields = ItemAdapter(value).items()
        return {k: "<time>" if k in VISIT_TIMES else _plain(v, urls) for k, v in fields}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(_plain(element, urls) for element in value)]
    return "<visited>" if isinstance(value, str) and value in urls else repr(value)

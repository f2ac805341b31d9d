"""All cases by name: a spider, and the function that builds the pages it crawls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scrapy import Spider

from .site import OrdinarySite

Build = Callable[[OrdinarySite, str], None]
CASES: dict[str, "Case"] = {}


@dataclass(frozen=True)
class Case:
    """A spider to be run with and without the plugin.

    build: adds the pages to a site, below the given path. needs: modules without which it is
    skipped. repeats: its site has copies of pages, whose items say the same. may_lose: share
    of the distinct items that may be dropped; 0 unless the item is the whole page and the pages
    differ in a single symbol.
    """

    spider: type[Spider]
    build: Build
    needs: tuple[str, ...] = ()
    repeats: bool = False
    may_lose: float = 0.0


def case(build: Build, **rest: Any) -> Callable[[type[Spider]], type[Spider]]:
    """Class decorator: the spider crawls the pages that `build` adds."""

    def register(spider: type[Spider]) -> type[Spider]:
        assert spider.name not in CASES, f"two spiders are called {spider.name}"
        CASES[spider.name] = Case(spider, build, **rest)
        return spider

    return register


class Local:
    """Tells a spider where its site is: `root`, the URL below which its pages are."""

    def __init__(self, *args: Any, root: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.root = root
        self.start_urls = [f"{root}/"]
        self.sitemap_urls = [f"{root}/sitemap.xml"]


# What scrapy-poet needs to make what a callback's arguments name.
POET = {
    "DOWNLOADER_MIDDLEWARES": {"scrapy_poet.InjectionMiddleware": 543},
    "SPIDER_MIDDLEWARES": {"scrapy_poet.RetryMiddleware": 275},
}


class OfCrawler:
    """A pipeline that knows its crawler."""

    @classmethod
    def from_crawler(cls, crawler):
        pipeline = cls()
        pipeline.crawler = crawler
        return pipeline


class IndexSpider(Local, Spider):
    """Opens every entry of the start page."""

    def parse(self, response):
        yield from response.follow_all(css="a.entry", callback=self.parse_page)

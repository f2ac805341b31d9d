"""At which depth pages are found: one that is found less deep later may lead to more then.

Scrapy follows no link beyond DEPTH_LIMIT, and spiders set limits of their own. What was read deep
leaves out what it links.
"""

from __future__ import annotations

from scrapy.crawler import Crawler
from scrapy.http import Request

from scrapy_neardup.crawl.recrawl.program import names_depth

MAX_DEPTH = 16  # limits beyond it are there for traps; a page is read that often, at most
MAX_PAGES = 2**16  # of which depths are remembered


class LeastDepths:
    """The least depth at which each page was asked for, up to MAX_DEPTH, of up to MAX_PAGES."""

    def __init__(self) -> None:
        self._least: dict[bytes, int] = {}  # by the keys of their URLs

    def note(self, request: Request, key: bytes) -> None:
        """A page is asked for at the depth of a request."""
        depth, least = depth_of(request), self._least
        if key in least:
            least[key] = min(depth, least[key])
        elif depth <= MAX_DEPTH and len(least) < MAX_PAGES:
            least[key] = depth

    def is_undercut(self, request: Request, key: bytes) -> bool:
        """Whether a request is less deep than any for its page; not if that is not known."""
        return depth_of(request) < self._least.get(key, 0)


def depth_of(request: Request) -> int:
    """How many links a request is away from where the spider starts, as Scrapy counts them."""
    depth = request.meta.get("depth", 0)
    return depth if isinstance(depth, int) else 0


def minds_depth(crawler: Crawler) -> bool:
    """Whether a page may lead to less where it is found deeper: by DEPTH_LIMIT, or by the spider.

    Also where the code of the spider cannot be read.
    """
    return bool(crawler.settings.getint("DEPTH_LIMIT")) or names_depth(crawler.spidercls)

"""Where a spider goes down to a depth, no page is lost because its list was found deep first."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from crawls import PagesSpider, crawl
from mock_site import MockSite, page, prose
from scrapy import Request
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.http import Response

from scrapy_neardup.dupefilter import LayeredBloomDupeFilter

PLAIN, LONGER = "/archive", "/archive?utm_source=letter"
LEAVES = [f"/leaf/{n}" for n in range(3)]


class Site(PagesSpider):
    """Follows every link; the one to `last` when all of the page at `first` is done."""

    first = last = ""

    async def start(self) -> Any:
        self.is_done = asyncio.Event()
        yield Request(self.seed, dont_filter=True)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield {"url": response.url}
        if self.goes_on(response):
            for link in response.css("a::attr(href)").getall():
                if link == self.last:
                    await self.is_done.wait()
                yield response.follow(link)
        if response.url.endswith(self.first):
            self.is_done.set()

    def goes_on(self, response: Response) -> bool:
        return True


class ReadsDepths(Site):
    """Follows links down to a depth by itself."""

    def goes_on(self, response: Response) -> bool:
        return bool(response.meta["depth"] < 3)


def add_pages(site: MockSite, near: str, far: str) -> None:
    """The start links a list of leaves by one URL, and a page two links away by another."""
    site.add("/start", page(prose("start"), "/one", near))
    site.add("/one", page(prose("one"), "/two"))
    site.add("/two", page(prose("two"), far))
    for url in (near, far):
        site.add(url, page(prose("archive"), *LEAVES))
    for leaf in LEAVES:
        site.add(leaf, page(prose(leaf)))


@pytest.mark.parametrize("dupefilter", [RFPDupeFilter, LayeredBloomDupeFilter])
@pytest.mark.parametrize(("near", "far"), [(PLAIN, LONGER), (LONGER, PLAIN)])
@pytest.mark.parametrize(("spider", "limit"), [(Site, 3), (ReadsDepths, 0)])
def test_a_page_read_deep_is_read_again_where_another_url_of_it_is_found_less_deep(
    mock_site: MockSite,
    dupefilter: type[BaseDupeFilter],
    near: str,
    far: str,
    spider: type[Site],
    limit: int,
) -> None:
    add_pages(mock_site, near, far)
    settings = {"DUPEFILTER_CLASS": dupefilter, "DEPTH_LIMIT": limit}
    outcome = crawl(spider, settings, seed=mock_site.url("/start"), first=far, last=near)
    assert {mock_site.url(leaf) for leaf in LEAVES} <= set(outcome.urls)
    assert (mock_site.gets(near), mock_site.gets(far)) == (1, 1)
    assert outcome.stat("urls/exempt/depth") == 1


@pytest.mark.parametrize("dupefilter", [RFPDupeFilter, LayeredBloomDupeFilter])
def test_a_page_read_at_its_least_depth_is_read_once(
    mock_site: MockSite, dupefilter: type[BaseDupeFilter]
) -> None:
    add_pages(mock_site, PLAIN, LONGER)
    mock_site.add("/start", page(prose("start"), PLAIN, "/one"))
    settings = {"DUPEFILTER_CLASS": dupefilter, "DEPTH_LIMIT": 4}
    outcome = crawl(Site, settings, seed=mock_site.url("/start"), first=PLAIN, last="/one")
    assert len(outcome.urls) == 4 + len(LEAVES)
    assert mock_site.gets(LONGER) == 0

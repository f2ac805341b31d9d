"""A run whose filter of queued URLs is full (NEARDUP_URL_MAX_MB) drops nothing that it would make
with more room, and ends.
"""

from collections.abc import Iterator
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Response

from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.requests.run_notes import RunNotes
from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.urls.filters import UrlFilter
from scrapy_neardup.urls.filters.rotating import RotatingUrlFilter
from tests.crawls import Outcome, PagesSpider, crawl
from tests.mock_site import MockSite, page, prose

SESSION = "/shop?PHPSESSID=abcdef0123456789abcdef0123"


class FillsFilter(PagesSpider):
    """Its seed's callback fills the filter of queued URLs, as some 130,000 pages do."""

    def parse_seed(self, response: Response) -> Iterator[Any]:
        fill(CrawlSession.of(self.crawler).urls.filters[1])
        yield from self.links(response)

    def links(self, response: Response) -> Iterator[Any]:
        raise NotImplementedError

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


def fill(urls: RotatingUrlFilter) -> None:
    names = (b"a.example/%d" % n for n in count())
    urls.add(next(names))
    while not urls.filters[-1].saturated:
        urls.filters[-1].add_many(list(islice(names, 1000)))


def crawl_full(spider: type[FillsFilter], site: MockSite, **settings: Any) -> Outcome:
    """What a crawl comes to; one that does not end is stopped at a hundred responses."""
    given = {"NEARDUP_URL_MAX_MB": 1, "CLOSESPIDER_PAGECOUNT": 100} | settings
    outcome = crawl(spider, given, seed=site.url("/page/seed"))
    assert outcome.stats["finish_reason"] == "finished"
    return outcome


class TakesItemToAuthor(FillsFilter):
    """A link leads to a book's author, and then a request in which the book is under way."""

    link, under_way = "/author?utm_source=nav", "/author"

    def links(self, response: Response) -> Iterator[Any]:
        yield response.follow(self.link, priority=50)
        yield response.follow("/page/1", callback=self.hop, cb_kwargs={"n": 1})

    def hop(self, response: Response, n: int) -> Iterator[Any]:
        if n < 20:  # until the author's page is delivered
            yield response.follow(f"/page/{n + 1}", callback=self.hop, cb_kwargs={"n": n + 1})
        else:
            yield response.follow(self.under_way, callback=self.author, cb_kwargs={"book": "B1"})

    def author(self, response: Response, book: str) -> Iterator[Any]:
        yield {"book": book, "url": response.url}


class TakesItemToLongerUrl(TakesItemToAuthor):
    """The same, with the tracking argument at the other request."""

    link, under_way = "/author", "/author?utm_source=nav"


@pytest.mark.parametrize("where", ["NEARDUP_STATE_DIR", "JOBDIR", None])
@pytest.mark.parametrize("spider", [TakesItemToAuthor, TakesItemToLongerUrl])
def test_an_item_under_way_reaches_a_page_that_was_read_by_another_url(
    mock_site: MockSite, tmp_path: Path, spider: type[FillsFilter], where: str | None
) -> None:
    for path in (TakesItemToAuthor.link, TakesItemToAuthor.under_way):
        mock_site.add(path, page(prose("author")))
    outcome = crawl_full(spider, mock_site, **({where: str(tmp_path)} if where else {}))
    assert [item["book"] for item in outcome.items if "book" in item] == ["B1"]
    assert outcome.stats["neardup/filter/refused"] > 0


class GoesThroughGate(FillsFilter):
    """Follows what is on a gate, and takes items of what is behind."""

    def links(self, response: Response) -> Iterator[Any]:
        yield response.follow("/shop", callback=self.gate)

    def gate(self, response: Response) -> Iterator[Any]:
        if response.css("i"):
            yield {"url": response.url}
        yield from response.follow_all(css="a", callback=self.gate)


@pytest.mark.parametrize("where", [[], ["JOBDIR"]])
def test_the_page_behind_a_gate_is_fetched(
    mock_site: MockSite, tmp_path: Path, where: list[str]
) -> None:
    mock_site.add("/shop", page("Are you of age?", SESSION))
    mock_site.add(SESSION, page(prose("shop") + "<i>x</i>"))
    outcome = crawl_full(GoesThroughGate, mock_site, **dict.fromkeys(where, str(tmp_path)))
    assert outcome.urls == [mock_site.url(SESSION)]
    assert outcome.stat("urls/exempt/itself") == 1


@pytest.mark.parametrize("where", [[], ["JOBDIR"]])
def test_a_gate_that_leads_to_itself_by_ever_new_sessions_ends(
    mock_site: MockSite, tmp_path: Path, where: list[str]
) -> None:
    gates = ["/shop", *(f"/shop?PHPSESSID={n:032x}" for n in range(9))]
    for path, next_path in pairwise(gates):
        mock_site.add(path, page("Are you of age?", next_path))
    crawl_full(GoesThroughGate, mock_site, **dict.fromkeys(where, str(tmp_path)))
    assert [mock_site.gets(path) for path in gates[:3]] == [1, 1, 0], "it leads on once"


class CarriesItemInCircles(FillsFilter):
    """Two pages lead to each other, with something of the spider's own."""

    def links(self, response: Response) -> Iterator[Any]:
        for path in ("/a", "/b"):
            yield response.follow(path, callback=self.both, cb_kwargs={"of": "seed"})

    def both(self, response: Response, of: str) -> Iterator[Any]:
        for path in ("/a", "/b", "/a?utm_source=x"):
            yield response.follow(path, callback=self.both, cb_kwargs={"of": response.url})


def test_pages_that_lead_to_each_other_with_an_item_under_way_end(
    mock_site: MockSite, tmp_path: Path
) -> None:
    paths = "/a", "/b", "/a?utm_source=x"
    for path in paths:
        mock_site.add(path, page(prose(path[1])))
    crawl_full(CarriesItemInCircles, mock_site, JOBDIR=str(tmp_path))
    assert all(1 <= mock_site.gets(path) < 10 for path in paths)


def test_a_filter_that_fails_may_have_any_note_but_lets_pass_once_only() -> None:
    def out_of_memory() -> UrlFilter:
        raise MemoryError

    counted: list[str] = []
    queued = RotatingUrlFilter(out_of_memory)
    notes = RunNotes(queued, None, FailOpen(counted.append))
    assert not notes.may_have(b"name"), "nothing was lost yet"
    notes.note(b"name")
    assert notes.may_have(b"name")
    assert [notes.is_first(b"gate") for _ in range(3)] == [True, False, False]
    assert notes.has(b"gate")
    assert not notes.has(b"another gate")
    assert counted == ["neardup/errors/filter"] * 2

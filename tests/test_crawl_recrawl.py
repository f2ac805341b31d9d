"""A site crawled again: which pages are new, changed, gone, moved, and nothing else."""

import asyncio
import gc
import json
import logging
import os
import re
import signal
import sqlite3
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from scrapy import Request, signals
from scrapy.exceptions import DropItem
from scrapy.http import Response

from scrapy_neardup.commands import main
from scrapy_neardup.crawl.pages.judge import PageJudge
from scrapy_neardup.crawl.recrawl.visit_comparison import MAX_TWICE
from scrapy_neardup.errors import SettingsError, StateError
from scrapy_neardup.state import visit_file, visits
from scrapy_neardup.state.visit import UNKNOWN, Visit
from scrapy_neardup.state.visit_file import FILE, Status, changes, opened, runs
from scrapy_neardup.state.visits import MAX_WAITING, Visits
from tests.crawls import Outcome, PagesSpider, crawl
from tests.mock_site import MockSite, Reply, cut_off, page, prose, redirect, running_site

LONG_TEXT = "word " * 8_000


class Shop(PagesSpider):
    """Follows every link from /start; an item of each page that has a price."""

    name = "shop"

    def parse_seed(self, response: Response) -> Iterator[Any]:
        yield from self.parse(response)

    def parse(self, response: Response) -> Iterator[Any]:
        price = response.css(".price::text").get()
        if price:
            yield {
                "url": response.url,
                "title": response.css("h1::text").get(),
                "price": price,
            }
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


def product(number: int, price: str = "12.50", noise: str = "", text: str = "") -> bytes:
    return (
        f"<html><head><title>Thing {number}</title></head><body><nav>Home\n<p>All things</p></nav>"
        f"<h1>Thing {number}</h1><p class=price>{price}</p><p>{text or prose(number, 40)}</p>"
        f"{noise}<footer>All rights reserved</footer></body></html>"
    ).encode()


def add_shop(site: MockSite, n: int = 8) -> None:
    site.add("/start", page("start", *(f"/p/{i}" for i in range(n))))
    for i in range(n):
        site.add(f"/p/{i}", product(i))


def recrawl(site: MockSite, folder: Path, spider: type = Shop, **settings: Any) -> Outcome:
    where = {"NEARDUP_STATE_DIR": str(folder), "NEARDUP_RECRAWL": "changed"} | settings
    return crawl(spider, where, seed=site.url("/start"))


def found(outcome: Outcome) -> dict[str, int]:
    words = ("new", "unchanged", "minor", "changed", "gone", "moved")
    return {word: n for word in words if (n := outcome.stat(f"recrawl/{word}"))}


class Watched(Shop):
    """Counts the responses that are in memory when all of its pages are done."""

    n_alive = -1

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.responses = []
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    def parse(self, response: Response) -> Iterator[Any]:
        self.responses.append(weakref.ref(response))
        yield from super().parse(response)

    def idle(self) -> None:
        gc.collect()
        Watched.n_alive = sum(ref() is not None for ref in self.responses)


def test_pages_do_not_stay_in_memory_until_a_feed_is_stored(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    gzip = ["scrapy.extensions.postprocessing.GzipPlugin"]
    feed = {tmp_path / "items.jl.gz": {"format": "jsonlines", "postprocessing": gzip}}
    outcome = recrawl(mock_site, tmp_path / "state", Watched, FEEDS=feed)
    assert len(outcome.items) == 8
    assert Watched.n_alive <= 1  # the last one


def test_a_defect_where_pages_are_compared_loses_no_item(
    mock_site: MockSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> Any:
        raise RuntimeError("a defect")

    add_shop(mock_site)
    monkeypatch.setattr(PageJudge, "content", fail)
    outcome = recrawl(mock_site, tmp_path, LOG_LEVEL="CRITICAL")
    assert len(outcome.items) == 8
    assert outcome.stat("errors/recrawl") > 0


def test_unchanged_pages_give_no_items_and_changed_ones_do(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    first = recrawl(mock_site, tmp_path)
    assert len(first.items) == 8
    assert found(first) == {"new": 9}
    mock_site.add("/p/3", product(3, price="11.00"))
    second = recrawl(mock_site, tmp_path)
    assert second.urls == [mock_site.url("/p/3")]
    assert second.items[0]["neardup"]["status"] == "changed"
    assert second.items[0]["neardup"]["fields"] == ["price"]
    assert second.items[0]["neardup"]["added"] == ["11.00"]
    assert found(second) == {"unchanged": 8, "changed": 1}
    assert mock_site.gets("/p/0") == 2
    third = recrawl(mock_site, tmp_path)
    assert third.items == []
    assert found(third) == {"unchanged": 9}


class LookUp:
    """A pipeline that adds what it knows."""

    stock = 0

    def process_item(self, item: Any) -> Any:
        item["stock"] = self.stock
        return item


@pytest.mark.parametrize("order", [-10, 10])
def test_an_item_that_a_pipeline_has_completed_is_kept(
    mock_site: MockSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: int
) -> None:
    add_shop(mock_site)
    monkeypatch.setattr(Shop, "custom_settings", {"ITEM_PIPELINES": {LookUp: order}}, raising=False)
    recrawl(mock_site, tmp_path)
    monkeypatch.setattr(LookUp, "stock", 7)
    second = recrawl(mock_site, tmp_path)
    n_kept = 8 if order < 0 else 0
    assert [item["stock"] for item in second.items] == [7] * n_kept
    assert second.stat("recrawl/items_completed") == n_kept
    assert second.stat("recrawl/items_unchanged") == 8 - n_kept
    assert found(second) == {"unchanged": 9}


class LongShop(Shop):
    """The same, with a text that is read off the loop's thread."""

    def parse(self, response: Response) -> Iterator[Any]:
        for found in super().parse(response):
            yield found if isinstance(found, Request) else found | {"text": LONG_TEXT}


@pytest.mark.parametrize("more", [{}, {"NEARDUP_ITEM_FIELDS": ["title"]}])
def test_a_long_item_that_a_pipeline_has_completed_is_kept(
    mock_site: MockSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    add_shop(mock_site)
    pipelines = {"ITEM_PIPELINES": {LookUp: -10}}
    monkeypatch.setattr(LongShop, "custom_settings", pipelines, raising=False)
    recrawl(mock_site, tmp_path, LongShop, **more)
    monkeypatch.setattr(LookUp, "stock", 7)
    assert [item["stock"] for item in recrawl(mock_site, tmp_path, LongShop, **more).items] == [
        7
    ] * 8


class WaitingShop(Shop):
    """The same, whose callback waits, and whose items say what the page does not."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        await asyncio.sleep(0)
        for found in super().parse(response):
            yield found if isinstance(found, Request) else found | {"shop": "elsewhere"}

    parse_seed = parse


def test_items_of_a_callback_that_waits_come_once(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    assert len(recrawl(mock_site, tmp_path, WaitingShop).items) == 8
    second = recrawl(mock_site, tmp_path, WaitingShop)
    assert second.items == []
    assert second.stat("recrawl/items_completed") == 0


class Stock(PagesSpider):
    """How many an interface says that there are."""

    name = "stock"

    def parse_seed(self, response: Response) -> Iterator[Any]:
        yield from (response.follow(f"/stock/{number}") for number in range(8))

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "stock": response.json()["stock"]}


@pytest.mark.parametrize("mode", ["changed", "all"])
def test_a_url_that_tells_whose_an_item_is_counts_at_the_first_visit(
    mock_site: MockSite, tmp_path: Path, mode: str
) -> None:
    mock_site.add("/start", page("Start", ""))
    for number in range(8):
        mock_site.add(f"/stock/{number}", b'{"stock": 1}', content_type="application/json")
    assert len(recrawl(mock_site, tmp_path, Stock, NEARDUP_RECRAWL=mode).items) == 8


class Aliases(PagesSpider):
    """What each of some addresses leads to."""

    name = "aliases"

    def parse_seed(self, response: Response) -> Iterator[Any]:
        yield from (response.follow(f"/go/{number}") for number in range(6))

    def parse(self, response: Response) -> Iterator[Any]:
        (asked,) = response.meta["redirect_urls"]
        yield {"asked": asked, "title": response.css("h1::text").get()}


def test_a_redirect_that_leads_elsewhere_is_news(mock_site: MockSite, tmp_path: Path) -> None:
    mock_site.add("/start", page("Start", ""))
    for visit in range(2):
        for number in range(6):
            mock_site.pages[f"/go/{number}"] = redirect(f"/p/{(number + visit) % 6}")
            mock_site.add(f"/p/{number}", product(number))
        assert len(recrawl(mock_site, tmp_path, Aliases).items) == 6
    assert recrawl(mock_site, tmp_path, Aliases).items == []


def noise(visit: int, number: int) -> str:
    """What differs on every page at every visit: a time, a counter, advertising, a token."""
    mix = visit * 7919 + number * 104_729
    return (
        f"<p>Made on {mix % 28 + 1} May 2026, {mix % 24}:{mix % 60:02}</p>"
        f"<p>{mix % 100_003} people were here</p>"
        f"<h2>Offers</h2><p>{prose(mix, 6)}</p>"
        f"<input type=hidden name=token value=t{mix}><p>Ask for help</p>"
    )


def test_what_varies_at_every_visit_is_no_change(mock_site: MockSite, tmp_path: Path) -> None:
    n = 60
    mock_site.add("/start", page("start", *(f"/p/{i}" for i in range(n))))

    def show(visit: int, changed: set[int]) -> None:
        for i in range(n):
            price = f"{visit}.99" if i in changed else "12.50"
            mock_site.add(f"/p/{i}", product(i, price, noise(visit, i)))

    show(1, set())
    recrawl(mock_site, tmp_path, Titles)
    show(2, {20, 40})
    second = recrawl(mock_site, tmp_path, Titles)
    assert {mock_site.url("/p/20"), mock_site.url("/p/40")} <= set(second.urls)
    assert len(second.items) == 2 + 4  # the first few pages are the evidence
    assert found(second) == {"unchanged": 1, "minor": n - 2, "changed": 2}  # as is known by the end
    assert events(tmp_path, 2, "changed").keys() == {mock_site.url(f"/p/{i}") for i in (20, 40)}
    show(3, {50})
    third = recrawl(mock_site, tmp_path, Titles)
    assert sorted(third.urls) == [mock_site.url(f"/p/{i}") for i in (20, 40, 50)]
    assert found(third) == {"unchanged": 1, "minor": n - 3, "changed": 3}


class Titles(Shop):
    """Yields no price: only the page's text says that it changed."""

    def parse(self, response: Response) -> Iterator[Any]:
        for output in super().parse(response):
            if isinstance(output, dict):
                del output["price"]
            yield output


def shop_with_prices(prices: dict[str, int]) -> type[Shop]:
    """A spider whose prices come from elsewhere, by URL: no page's text says that they changed."""

    class FromApi(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            for output in super().parse(response):
                if isinstance(output, dict):
                    output["price"] = prices.get(response.url, 10)
                yield output

    return FromApi


def test_the_item_decides_where_the_text_is_the_same(mock_site: MockSite, tmp_path: Path) -> None:
    prices: dict[str, int] = {}
    spider = shop_with_prices(prices)
    add_shop(mock_site)
    recrawl(mock_site, tmp_path, spider)
    prices[mock_site.url("/p/2")] = 11
    second = recrawl(mock_site, tmp_path, spider)
    assert second.urls == [mock_site.url("/p/2")]
    assert second.items[0]["neardup"] == {
        "status": "changed",
        "fields": ["price"],
        "added": [],
        "removed": 0,
    }


def test_pages_that_answer_404_or_are_linked_no_more_are_gone(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.add("/p/1", "gone", status=404)
    mock_site.add("/start", page("start", *(f"/p/{i}" for i in range(7))))
    second = recrawl(mock_site, tmp_path)
    assert second.items == []
    assert found(second) == {"unchanged": 6, "changed": 1, "gone": 2}
    assert found(recrawl(mock_site, tmp_path)) == {"unchanged": 7}


def test_a_page_that_comes_back_is_new(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.add("/p/1", "gone", status=410)
    recrawl(mock_site, tmp_path)
    mock_site.add("/p/1", product(1))
    third = recrawl(mock_site, tmp_path)
    assert third.urls == [mock_site.url("/p/1")]
    assert third.items[0]["neardup"] == {"status": "new"}


def test_a_page_that_moved_is_named_and_gives_no_item(
    mock_site: MockSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.pages["/p/1"] = redirect("/q/1", 301)
    mock_site.add("/q/1", product(1))
    mock_site.add("/q/2", product(2))
    links = ("/p/0", "/p/1", "/q/2", *(f"/p/{i}" for i in range(3, 8)))
    mock_site.add("/start", page("start", *links))
    second = recrawl(mock_site, tmp_path)
    assert second.items == []
    assert found(second)["moved"] == 2
    assert "gone" not in found(second)
    assert main(["changes", str(tmp_path), "--tombstones", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["status"] for one in told] == ["moved"] * 2
    assert events(tmp_path, 2, "moved") == {
        mock_site.url("/p/1"): mock_site.url("/q/1"),
        mock_site.url("/p/2"): mock_site.url("/q/2"),
    }


def test_a_page_that_leads_to_one_that_fails_is_not_gone(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.pages["/p/1"] = redirect("/p/2")
    mock_site.add("/p/2", "out of order", status=503)
    second = recrawl(mock_site, tmp_path, RETRY_TIMES=0)
    assert found(second) == {"unchanged": 7}
    mock_site.add("/p/2", product(2))
    third = recrawl(mock_site, tmp_path)
    assert found(third) == {"unchanged": 8, "gone": 1}  # what it said is nowhere
    assert third.items == []


def events(folder: Path, run: int, status: str) -> dict[str, str | None]:
    """URL → where it moved to, of what a run found of one status."""
    with closing(opened(folder / FILE)) as db:
        found = [one for one in changes(db, run) if one.run == run]
    return {one.url: one.target for one in found if one.status.word == status}


def test_a_page_that_leads_home_is_gone(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.pages["/p/1"] = redirect("/start")
    second = recrawl(mock_site, tmp_path)
    # The start page was read by parse() for the first time, too.
    assert found(second) == {"new": 1, "unchanged": 8, "gone": 1}


def test_nothing_is_gone_in_a_crawl_cut_short(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.add("/p/0", "gone", status=404)
    second = recrawl(mock_site, tmp_path, CLOSESPIDER_PAGECOUNT=3)
    assert "gone" not in found(second)
    assert found(recrawl(mock_site, tmp_path)) == {"unchanged": 8, "gone": 1}


def test_nothing_is_gone_when_a_page_of_links_failed(mock_site: MockSite, tmp_path: Path) -> None:
    mock_site.add("/start", page("start", "/hub", "/p/9"))
    mock_site.add("/hub", page("hub", *(f"/p/{i}" for i in range(3))))
    for i in (0, 1, 2, 9):
        mock_site.add(f"/p/{i}", product(i))
    recrawl(mock_site, tmp_path)
    mock_site.add("/hub", "out of order", status=503)
    second = recrawl(mock_site, tmp_path, RETRY_TIMES=0)
    assert found(second) == {"unchanged": 2}


def test_a_site_out_of_order_changes_nothing(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_shop(mock_site, 12)
    recrawl(mock_site, tmp_path)
    whole = dict(mock_site.pages)
    for i in range(12):
        mock_site.add(f"/p/{i}", f"<h1>Sorry</h1><p>We are being repaired. Call {i}</p>")
    second = recrawl(mock_site, tmp_path)
    assert second.items == []  # of these pages there are none
    assert second.stat("recrawl/reverted") == 1
    assert not {"changed", "gone", "moved"} & found(second).keys()
    assert "out of order" in caplog.text
    mock_site.pages.update(whole)
    third = recrawl(mock_site, tmp_path)
    assert third.items == []
    assert found(third) == {"unchanged": 13}


def show_canteens(site: MockSite, day: str) -> None:
    site.add("/start", page("start", *(f"/p/{i}" for i in range(8))))
    for i in range(8):
        dishes = "".join(f"<p>{prose(f'{day} {i} {n}', 4)}</p>" for n in range(5))
        site.add(f"/p/{i}", f"<h1>{prose(i, 2)}</h1><p class=price>{day}</p>{dishes}")


def test_pages_that_have_one_line_in_common_are_not_the_same(
    mock_site: MockSite, tmp_path: Path
) -> None:
    for run, day in enumerate(("Meat", "Fish", "Meat", "Meat")):
        show_canteens(mock_site, day)
        outcome = recrawl(mock_site, tmp_path)
        assert outcome.stat("recrawl/reverted") == 0
        assert len(outcome.items) == (8 if run < 3 else 0)


def test_pages_that_say_sold_out_each_of_its_own_are_not_the_same(
    mock_site: MockSite, tmp_path: Path
) -> None:
    mock_site.add("/start", page("start", *(f"/p/{i}" for i in range(8))))
    for said in ("<p class=price>Tickets<p>Buy now", "<p class=price>Sold out<p>Waiting list"):
        for i in range(8):
            mock_site.add(f"/p/{i}", f"<h1>{prose(i, 3)}</h1>{said}")
        outcome = recrawl(mock_site, tmp_path)
        assert len(outcome.items) == 8
        assert outcome.stat("recrawl/reverted") == 0


def close_shop(site: MockSite) -> None:
    """All pages are the same, and the spider takes them for things."""
    for i in range(8):
        site.add(f"/p/{i}", "<h1>Sorry</h1><p class=price>We are being repaired</p>")


def prices(outcome: Outcome) -> list[str]:
    return sorted(item["price"] for item in outcome.items)


def test_pages_that_were_the_same_do_not_become_it(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    close_shop(mock_site)
    recrawl(mock_site, tmp_path)
    for i in range(8):
        mock_site.add(f"/p/{i}", f"<h1>{i}</h1><p class=price>{10 + i}.00</p>")
    second = recrawl(mock_site, tmp_path)
    assert second.stat("recrawl/reverted") == 0
    assert prices(second) == [f"{10 + i}.00" for i in range(8)]
    assert recrawl(mock_site, tmp_path).items == []


@pytest.mark.parametrize("days", [1, 2])
def test_what_passed_while_the_site_was_out_of_order_is_put_right(
    mock_site: MockSite, tmp_path: Path, days: int
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    whole = dict(mock_site.pages)
    close_shop(mock_site)
    for _ in range(days):
        closed = recrawl(mock_site, tmp_path)
        assert closed.stat("recrawl/reverted") == 1
        assert len(closed.items) == 8
    mock_site.pages.update(whole)
    fine = recrawl(mock_site, tmp_path)
    assert prices(fine) == ["12.50"] * 8
    assert {item["neardup"]["status"] for item in fine.items} == {"changed"}
    assert recrawl(mock_site, tmp_path).items == []


def test_a_price_that_changed_while_most_pages_were_gone_is_put_right(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    whole = dict(mock_site.pages)
    for i in range(2):
        mock_site.add(f"/p/{i}", product(i, price="99"))
    for i in range(2, 7):
        mock_site.add(f"/p/{i}", "", status=404)
    second = recrawl(mock_site, tmp_path)
    assert second.stat("recrawl/reverted") == 1
    assert prices(second) == ["99", "99"]
    mock_site.pages.update(whole)
    assert sorted(recrawl(mock_site, tmp_path).urls) == [mock_site.url(f"/p/{i}") for i in range(2)]
    assert recrawl(mock_site, tmp_path).items == []


def test_a_site_whose_start_page_fails_loses_nothing(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.add("/start", "<p>We are being repaired</p>")
    second = recrawl(mock_site, tmp_path)
    assert second.stat("recrawl/reverted") == 1
    assert "gone" not in found(second)
    assert "others in every crawl" not in caplog.text


def test_a_site_with_other_urls_in_every_crawl_is_told_why_its_pages_seem_gone(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for day in "123":
        paths = [f"/api/{day}{i}" for i in range(8)]
        mock_site.add("/start", page("start", *paths))
        for i, path in enumerate(paths):
            mock_site.add(path, product(10 * int(day) + i))
        caplog.clear()
        assert len(recrawl(mock_site, tmp_path).items) == 8
    assert "URLs of this site are others in every crawl" in caplog.text


def test_a_site_that_moves_wholesale_is_moved_not_gone(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.add("/start", page("start", *(f"/new/{i}" for i in range(8))))
    for i in range(8):
        mock_site.add(f"/new/{i}", product(i))
        mock_site.pages[f"/p/{i}"] = redirect(f"/new/{i}", 301)
    second = recrawl(mock_site, tmp_path)
    assert second.items == []
    assert found(second)["moved"] == 8


def test_all_fetches_everything_and_lets_it_pass(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    second = recrawl(mock_site, tmp_path, NEARDUP_RECRAWL="all")
    assert len(second.items) == 8
    assert found(second) == {"unchanged": 9}


def test_a_damaged_table_makes_every_page_new(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    (tmp_path / FILE).write_bytes(b"no database " * 1000)
    second = recrawl(mock_site, tmp_path)
    assert len(second.items) == 8
    assert list(tmp_path.glob("*.damaged"))


def test_by_default_nothing_is_kept_of_visits(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path, NEARDUP_RECRAWL="new")
    assert not (tmp_path / FILE).exists()
    second = recrawl(mock_site, tmp_path, NEARDUP_RECRAWL="new")
    assert mock_site.gets("/p/0") == 1
    assert not any("recrawl" in name for name in second.stats)


def test_two_spiders_share_a_state_and_lose_nothing(mock_site: MockSite, tmp_path: Path) -> None:
    class Other(Shop):
        name = "other"

        def parse_seed(self, response: Response) -> Iterator[Any]:
            yield response.follow("/p/0")

    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    other = recrawl(mock_site, tmp_path, Other)
    assert found(other) == {"new": 2}
    assert found(recrawl(mock_site, tmp_path)) == {"unchanged": 9}


def test_tags_say_that_a_page_is_unchanged(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path, NEARDUP_ACTION="tag")
    second = recrawl(mock_site, tmp_path, NEARDUP_ACTION="tag")
    assert {item["neardup"]["status"] for item in second.items} == {"unchanged"}
    dry = recrawl(mock_site, tmp_path, NEARDUP_ACTION="dry-run")
    assert len(dry.items) == dry.stat("items/would_drop") == 8


def test_the_last_sentence_names_items_of_unchanged_pages_apart(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "scrapy_neardup")
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    caplog.clear()
    recrawl(mock_site, tmp_path)
    told = "0 of 8 pages repeat another, and 8 items came from unchanged pages: 8 items dropped"
    assert told in caplog.text


class Fallible(Shop):
    """Raises for /p/0 the first `n_failing` times; asks for it twice."""

    name = "shop"
    n_failing = 0

    def parse_seed(self, response: Response) -> Iterator[Any]:
        yield from super().parse_seed(response)
        yield response.follow("/p/0", dont_filter=True, priority=-1)

    def parse(self, response: Response) -> Iterator[Any]:
        if response.url.endswith("/p/0") and self.n_failing:
            self.n_failing -= 1
            raise ValueError("no price")
        yield from super().parse(response)


@pytest.mark.parametrize(
    ("n_failing", "told"), [(0, ""), (1, ""), (2, ", 1 more to be read again")]
)
def test_the_line_about_pages_ends_with_those_that_are_to_be_read_again(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture, n_failing: int, told: str
) -> None:
    caplog.set_level(logging.INFO, "scrapy_neardup")
    add_shop(mock_site)
    where = {"NEARDUP_STATE_DIR": str(tmp_path), "NEARDUP_RECRAWL": "changed"}
    crawl(Fallible, where, seed=mock_site.url("/start"), n_failing=n_failing)
    n_read = 8 if n_failing == 2 else 9
    assert f" {n_read} pages: {n_read} new," in caplog.text
    assert f" but for what varies at every visit){told}\n" in caplog.text


def test_a_callback_that_raises_leaves_its_page_to_the_next_crawl(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class Raising(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            yield from super().parse(response)
            if response.url.endswith("/p/3"):
                raise ValueError("no such field")

    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.add("/p/3", product(3, "99"))
    second = recrawl(mock_site, tmp_path, Raising)
    assert second.urls == [mock_site.url("/p/3")]
    assert recrawl(mock_site, tmp_path).urls == [mock_site.url("/p/3")]


KILLED = """
import os, signal, sys
from scrapy_neardup.crawl.session import CrawlSession
from tests.crawls import crawl
from tests.test_crawl_recrawl import Several, Shop

class Killed(Shop):
    def parse(self, response):
        if response.url.endswith("/p/5"):
            CrawlSession.of(self.crawler).recrawl.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        for output in super().parse(response):
            if isinstance(output, dict):
                print(output["url"], flush=True)
            yield output

where = {"NEARDUP_STATE_DIR": sys.argv[2], "NEARDUP_RECRAWL": "changed", "DEPTH_PRIORITY": 1,
         "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}
crawl(Killed, where, seed=sys.argv[1])
"""


def test_a_recrawl_that_was_killed_goes_on_where_it_was(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    for i in (1, 6):
        mock_site.add(f"/p/{i}", product(i, price="99"))
    start = mock_site.url("/start")
    arguments = [sys.executable, "-c", KILLED, start, str(tmp_path)]
    root = Path(__file__).resolve().parents[1]
    killed = subprocess.run(arguments, capture_output=True, text=True, cwd=root)
    assert killed.returncode == -signal.SIGKILL
    assert mock_site.url("/p/1") in killed.stdout
    asked = mock_site.gets("/p/7")
    rest = recrawl(mock_site, tmp_path)
    # An item that was on its way to the feed at the kill comes again.
    assert set(rest.urls) - {mock_site.url("/p/1")} == {mock_site.url("/p/6")}
    assert found(rest) == {"unchanged": 7, "changed": 2}
    assert mock_site.gets("/p/0") == 2  # done before the kill
    assert mock_site.gets("/p/7") == asked + 1  # it may have been on its way
    with closing(opened(tmp_path / FILE)) as db:
        assert [one.id for one in runs(db)] == [1, 2]


def test_a_row_that_somebody_else_wrote_keeps_no_item_back(
    mock_site: MockSite, tmp_path: Path
) -> None:
    """They know what the page will say, but not the folder's key."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    add_shop(mock_site)
    recrawl(mock_site, ours, NEARDUP_KEY=None)
    mock_site.add("/p/1", product(1, "3.00"))
    recrawl(mock_site, theirs, NEARDUP_KEY=None)
    assert main(["check", str(ours)]) == 0
    with closing(opened(ours / FILE)) as db:
        db.execute("ATTACH ? AS theirs", (str(theirs / FILE),))
        with db:
            db.execute("INSERT OR REPLACE INTO page SELECT * FROM theirs.page")
            db.execute("INSERT OR REPLACE INTO learnt SELECT * FROM theirs.learnt")
    assert main(["check", str(ours)]) == 1
    second = recrawl(mock_site, ours, NEARDUP_KEY=None)
    assert mock_site.url("/p/1") in second.urls
    assert found(second)["new"] == second.stat("recrawl/foreign") - 1 == 9
    assert main(["check", str(ours)]) == 0


def test_visits_of_other_tables_are_set_aside(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site, 2)
    recrawl(mock_site, tmp_path)
    with closing(opened(tmp_path / FILE)) as db, db:
        db.execute("CREATE TRIGGER t AFTER INSERT ON page BEGIN DELETE FROM page; END")
    assert main(["changes", str(tmp_path)]) == 2
    assert main(["check", str(tmp_path)]) == 1
    assert found(recrawl(mock_site, tmp_path)) == {"new": 3}
    assert (tmp_path / f"{FILE}.damaged").exists()


def test_a_file_of_visits_that_lost_all_it_had_is_named(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_shop(mock_site, 2)
    recrawl(mock_site, tmp_path)
    assert "every page counts as new" not in caplog.text
    (tmp_path / FILE).write_bytes(b"")
    assert found(recrawl(mock_site, tmp_path)) == {"new": 3}
    assert f"{tmp_path / FILE} is empty: every page counts as new" in caplog.text


STRANGE = {
    "a status that is none": "UPDATE change SET status = 99",
    "a status of text": "UPDATE change SET status = 'gone'",
    "a time of text": "UPDATE change SET time = 'soon'",
    "a time without end": "UPDATE page SET time = 9e999",
    "bytes for a URL": "UPDATE page SET url = x'ff80'",
    "a run of text": "UPDATE change SET run = 'x'",
    "JSON that is none": "UPDATE change SET what = '['",
    "JSON that nests": "UPDATE change SET what = replace(hex(zeroblob(50000)), '0', '[')",
    "JSON of another kind": "UPDATE change SET what = '[1]'",
    "bytes for JSON": "UPDATE change SET what = x'ff'",
    "fields of other types": 'UPDATE change SET what = \'{"fields": 7, "added": {}}\'',
    "a crawl that began never": "UPDATE run SET started = 'x'",
    "a reason of bytes": "UPDATE run SET reason = x'00'",
    "a view for a table": """ALTER TABLE change RENAME TO kept;
        CREATE VIEW change AS SELECT * FROM kept""",
    "a view that is huge": "DROP TABLE change; CREATE VIEW change AS SELECT randomblob(1e9) AS run",
}


@pytest.mark.parametrize("what", STRANGE)
def test_a_stranger_s_visits_are_refused_or_told(tmp_path: Path, what: str) -> None:
    visits = Visits(tmp_path, "shop", 5)
    visits.put(visit_of(visits, b"k" * 16))
    visits.changed("http://a.example/", "{}")
    visits.flush()
    visits.end("finished")
    visits.close()
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.executescript(STRANGE[what])
    for form in ([], ["--json"], ["--csv"]):
        codes = (2,) if what.startswith("a view") else (0, 1, 2)
        assert main(["changes", str(tmp_path), "--since", "1", *form]) in codes


def test_visits_are_closed_by_any_thread(tmp_path: Path) -> None:
    visits = Visits(tmp_path, "shop", 5)  # the collector may run in any
    with ThreadPoolExecutor(1) as other:
        other.submit(visits.close).result()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        visits.is_done(b"k" * 16)


def test_on_a_full_disk_the_pages_that_wait_longest_are_forgotten_and_counted(
    tmp_path: Path,
) -> None:
    visits = Visits(tmp_path, "shop", 5)
    visits._db.execute("PRAGMA max_page_count = 1")  # SQLite's own full disk
    keys = [number.to_bytes(16, "big") for number in range(MAX_WAITING + 2)]
    for key in keys:
        visits.put(visit_of(visits, key))
    forgotten = [key for key in keys if visits.visit(key, "parse") is None]
    assert forgotten == keys[: visits.n_forgotten] == keys[:3]
    assert visits.version(keys[0]) == UNKNOWN
    visits._db.execute("PRAGMA max_page_count = 100000")
    visits.flush()
    visits.close()
    again = Visits(tmp_path, "shop", 5)
    assert [key for key in keys if again.visit(key, "parse") is None] == keys[:3]


def test_visits_that_cannot_be_written_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visit_file, "BUSY_S", 0.0)
    with closing(opened(tmp_path / FILE)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError, match=rf"{FILE}: .* cannot be opened \(database is locked"):
            Visits(tmp_path, "shop", 5)


def test_a_page_counts_as_done_only_if_this_folder_s_crawl_said_so(tmp_path: Path) -> None:
    key, (code, others, strangers) = b"k" * 16, codes_of_done_pages(tmp_path)
    assert len({code, others, strangers}) == 3
    for planted in (code, others, strangers, code[::-1], b"", 1):
        with closing(opened(tmp_path / FILE)) as db, db:
            db.execute("UPDATE page SET done = ?", (planted,))
        visits = Visits(tmp_path, "shop", 5)
        assert visits.is_done(key) == (planted == code)
        visits.close()
    with closing(opened(tmp_path / FILE)) as db, db:
        db.execute("UPDATE page SET done = ?", (code,))
    Visits(tmp_path, "shop", 5).end("finished")
    assert not Visits(tmp_path, "shop", 5).is_done(key)  # but in the run before


def codes_of_done_pages(folder: Path) -> list[bytes]:
    """What says that a page is done, and another one; and the page, under another key."""
    codes = []
    for place, key in ((folder, 5), (folder / "strangers", 6)):
        place.mkdir(exist_ok=True)
        visits = Visits(place, "shop", key)
        for url in (b"k" * 16, b"o" * 16):
            visits.put(visit_of(visits, url))
            visits.done(url)
        visits.flush()
        visits.close()
        with closing(opened(place / FILE)) as db:
            codes += [done for (done,) in db.execute("SELECT done FROM page ORDER BY key")]
    return codes[:3]


def visit_of(visits: Visits, key: bytes) -> Visit:
    """A page without anything."""
    url, none = "http://a.example/", b""
    row = (key, visits.spider, "parse", 1, 1, none, 1, 0, 0.0, url, none, none, none)
    return Visit(*row, None, 0, None, None, 0)


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_page_that_gave_no_item_in_a_run_taken_back_is_what_it_was(
    tmp_path: Path, is_cut_off: bool
) -> None:
    """Unless the run was cut off: before, it may have read the page with an item."""
    key = b"k" * 16
    first = Visits(tmp_path, "shop", 5)
    first.put(visit_of(first, key)._replace(text=b"before"))
    first.flush()
    first.end("finished")
    first.close()
    visits = Visits(tmp_path, "shop", 5)
    changed = {"run": 2, "status": Status.CHANGED, "text": b"meanwhile"}
    visits.put(visit_of(visits, key)._replace(**changed))
    visits.flush()
    if is_cut_off:
        visits.close()
        visits = Visits(tmp_path, "shop", 5)
    visits.revert(lambda items: False)
    restored = visits.visit(key, "parse")
    visits.close()
    assert restored is not None
    assert restored.text == (key if is_cut_off else b"before")


class Loop:
    """The daily loop of docs/recrawl.md, with what its table has."""

    def __init__(self, site: MockSite, folder: Path) -> None:
        root = Path(__file__).resolve().parents[1]
        document = (root / "docs" / "recrawl.md").read_text(encoding="utf-8")
        code = re.search(r"<!-- load -->\n```python\n(.*?)```", document, re.DOTALL)
        assert code is not None
        self.site, self.folder, self.load = site, folder, code[1]

    def crawl(self) -> None:
        with (self.folder / "items").open("a", encoding="utf-8") as feed:
            for item in recrawl(self.site, self.folder / "state").items:
                feed.write(json.dumps(item) + "\n")

    def day(self) -> dict[str, str]:
        self.crawl()
        state, items, moves = (self.folder / name for name in ("state", "items", "changes"))
        command = [*(sys.executable, "-m", "scrapy_neardup", "changes", str(state))]
        command += ["--since", "1", "--json"]
        moves.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
        for _ in range(2):  # the second time as after a kill before the feed was removed
            files = [str(items), str(moves), str(self.folder / "db")]
            subprocess.run([sys.executable, "-c", self.load, *files], check=True)
        items.unlink()
        with closing(sqlite3.connect(self.folder / "db")) as db:
            rows = db.execute("SELECT url, item FROM page").fetchall()
        root = self.site.root
        return {url.removeprefix(root): json.loads(item)["price"] for url, item in rows}


def test_the_loop_of_the_document_keeps_a_table(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    loop = Loop(mock_site, tmp_path)
    first = {f"/p/{i}": "12.50" for i in range(8)}
    assert loop.day() == first
    mock_site.add("/p/0", "gone", status=410)
    mock_site.pages["/p/1"] = redirect("/q/1", 301)
    mock_site.add("/q/1", product(1))
    mock_site.add("/p/2", product(2, "9.00"))
    mock_site.pages["/p/3"] = redirect("/q/3", 301)
    mock_site.add("/q/3", product(3, "8.00"))  # moved, and changed on the way
    second = first | {"/q/1": "12.50", "/p/2": "9.00", "/q/3": "8.00"}
    del second["/p/0"], second["/p/1"], second["/p/3"]
    assert loop.day() == second
    assert loop.day() == second
    mock_site.add("/p/0", product(0, "7.00"))  # it is back
    third = second | {"/p/0": "7.00"}
    assert loop.day() == third
    assert loop.day() == third


def test_the_loop_of_the_document_loads_days_that_were_cut_off(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    loop = Loop(mock_site, tmp_path)
    loop.crawl()  # and no load: the table is empty
    with (tmp_path / "items").open("a", encoding="utf-8") as feed:
        feed.write('{"url": "torn\n')
    mock_site.add("/p/0", "gone", status=410)
    mock_site.pages["/p/1"] = redirect("/q/1", 301)
    mock_site.add("/q/1", product(1))
    loop.crawl()
    mock_site.add("/p/2", product(2, "9.00"))
    expected = {f"/p/{i}": "12.50" for i in range(3, 8)} | {"/q/1": "12.50", "/p/2": "9.00"}
    assert loop.day() == expected
    assert loop.day() == expected


def test_changes_are_told_by_run_and_by_day(
    mock_site: MockSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_shop(mock_site, 2)
    recrawl(mock_site, tmp_path)
    mock_site.add("/p/1", product(1, "3.00"))
    recrawl(mock_site, tmp_path)
    capsys.readouterr()
    assert main(["changes", str(tmp_path)]) == 0
    assert f"changed  {mock_site.url('/p/1')} (price)" in capsys.readouterr().out
    assert main(["changes", str(tmp_path), "--since", "1", "--csv"]) == 0
    assert [line.split(",")[2] for line in capsys.readouterr().out.splitlines()] == [
        *("status", "new", "new", "new", "changed")
    ]
    assert main(["changes", str(tmp_path), "--since", "2001-01-01", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["changes", str(tmp_path), "--since", "2999-01-01"]) == 1
    assert main(["changes", str(tmp_path), "--since", "noon"]) == 2
    assert main(["changes", str(tmp_path / "no")]) == 2


def test_comparing_needs_a_folder() -> None:
    with pytest.raises(SettingsError, match="NEARDUP_RECRAWL"):
        crawl(Shop, {"NEARDUP_RECRAWL": "changed"}, seed="http://127.0.0.1:9/")


def test_a_page_that_becomes_a_copy_of_another_is_changed_and_passes(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.add("/p/4", product(3))
    second = recrawl(mock_site, tmp_path)
    assert second.urls == [mock_site.url("/p/4")]


def test_a_copy_that_changes_with_its_original_gives_no_item(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    mock_site.add("/p/4", product(3))
    assert len(recrawl(mock_site, tmp_path).items) == 7
    for path in ("/p/3", "/p/4"):
        mock_site.add(path, product(3, "7.00"))
    second = recrawl(mock_site, tmp_path)
    assert len(second.items) == 1
    assert found(second) == {"unchanged": 7, "changed": 2}


@pytest.mark.parametrize("compare", ["item", "page"])
def test_a_copy_of_a_page_that_differs_in_noise_only_is_its_copy(
    mock_site: MockSite, tmp_path: Path, compare: str
) -> None:
    n = 60

    def show(visit: int, *more: str) -> None:
        mock_site.add("/start", page("start", *more, *(f"/p/{i}" for i in range(n))))
        for i in range(n):
            mock_site.add(f"/p/{i}", product(i, noise=noise(visit, i)))

    for visit in (1, 2):
        show(visit)
        recrawl(mock_site, tmp_path, Titles, NEARDUP_COMPARE=compare)
    show(3, "/copy")
    mock_site.add("/copy", product(20, noise=noise(3, 20)))  # asked for last
    third = recrawl(mock_site, tmp_path, Titles, NEARDUP_COMPARE=compare)
    assert found(third) == {"changed": 1, "minor": n, "new": 1}  # changed: the start page
    assert third.items == []
    assert mock_site.gets("/copy") == 1


class Refusing:
    """A pipeline that drops every item."""

    def process_item(self, item: Any) -> Any:
        raise DropItem("no")


def test_an_unchanged_page_of_which_nothing_was_kept_has_no_copies(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site, 1)
    recrawl(mock_site, tmp_path, ITEM_PIPELINES={Refusing: 900})
    mock_site.add("/start", page("start", "/copy", "/p/0"))
    mock_site.add("/copy", product(0))  # asked for last
    second = recrawl(mock_site, tmp_path)
    assert second.urls == [mock_site.url("/copy")]


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_changes_are_told_on_any_terminal(tmp_path: Path, form: list[str]) -> None:
    visits = Visits(tmp_path, "shop", 5)
    what = {"fields": ["\ud800"], "added": ["é漢 \x1b]0;x\x07", "=HYPERLINK(1)"], "removed": 1}
    visits.changed("http://a.example/", json.dumps(what))
    visits.flush()
    visits.end("finished")
    visits.close()
    program = (
        f"from scrapy_neardup.commands import main; main(['changes', {str(tmp_path)!r}, *{form}])"
    )
    env = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert "http://a.example/" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_a_page_that_two_callbacks_read_is_gone_once(mock_site: MockSite, tmp_path: Path) -> None:
    class Twice(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            yield from super().parse(response)
            if "/p/" in response.url:
                yield Request(response.url, callback=self.again, dont_filter=True)

        def again(self, response: Response) -> None:
            pass

    add_shop(mock_site)
    recrawl(mock_site, tmp_path, Twice)
    mock_site.add("/p/1", "gone", status=404)
    mock_site.add("/start", page("start", *(f"/p/{i}" for i in range(7))))
    second = recrawl(mock_site, tmp_path, Twice)
    assert found(second)["gone"] == 2
    assert len(events(tmp_path, 2, "gone")) == 2
    third = recrawl(mock_site, tmp_path, Twice)
    assert "gone" not in found(third)


def test_nothing_is_gone_when_a_page_of_links_is_not_to_be_read(
    mock_site: MockSite, tmp_path: Path
) -> None:
    mock_site.add("/start", page("start", "/hub", "/p/9"))
    mock_site.add("/hub", page("hub", *(f"/p/{i}" for i in range(3))))
    for i in (0, 1, 2, 9):
        mock_site.add(f"/p/{i}", product(i))
    recrawl(mock_site, tmp_path)
    mock_site.add("/robots.txt", "User-agent: *\nDisallow: /hub\n", content_type="text/plain")
    assert found(recrawl(mock_site, tmp_path)) == {"unchanged": 2}
    mock_site.add("/robots.txt", "", content_type="text/plain")
    third = recrawl(mock_site, tmp_path)
    assert third.items == []
    assert found(third) == {"unchanged": 6}


class Local(Shop):
    """Stays on its host, and takes pages that were cut off."""

    allowed_domains = ("127.0.0.1",)
    custom_settings: ClassVar = {"DOWNLOAD_FAIL_ON_DATALOSS": False}


HUB_LINKS = tuple(f"/p/{i}" for i in range(3))
UNREADABLE = {
    "that redirects to itself": {"/hub": redirect("/hub", **{"Set-Cookie": "a=1"})},
    "behind a gate": {"/hub": redirect("/gate"), "/gate": redirect("/hub")},
    "behind another host's login": {"/hub": redirect("http://localhost/login")},
    "that was cut off": {"/hub": cut_off(page("hub", *HUB_LINKS), 30)},
    "of which a part came": {"/hub": Reply(page("hub", *HUB_LINKS)[:30], status=206)},
}


def add_hub(site: MockSite) -> None:
    site.add("/start", page("start", "/hub", "/p/9"))
    site.add("/hub", page("hub", *HUB_LINKS))
    for i in (0, 1, 2, 9):
        site.add(f"/p/{i}", product(i))


@pytest.mark.parametrize("replies", UNREADABLE.values(), ids=UNREADABLE)
def test_nothing_is_gone_when_a_page_of_links_is_asked_for_and_not_read(
    mock_site: MockSite, tmp_path: Path, replies: dict[str, Reply]
) -> None:
    add_hub(mock_site)
    recrawl(mock_site, tmp_path, Local)
    mock_site.pages.update(replies)
    for _ in range(2):
        assert "gone" not in found(recrawl(mock_site, tmp_path, Local))
    mock_site.add("/hub", page("hub", *HUB_LINKS[:2]))
    last = recrawl(mock_site, tmp_path, Local)
    assert last.items == []
    assert found(last)["gone"] == 1


def test_a_field_that_differs_on_most_pages_is_named(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    views = count()

    class Counting(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            for output in super().parse(response):
                yield output | {"views": next(views)} if isinstance(output, dict) else output

    add_shop(mock_site, 24)
    caplog.set_level("INFO")
    recrawl(mock_site, tmp_path, Counting)
    assert len(recrawl(mock_site, tmp_path, Counting).items) == 24
    assert "NEARDUP_IGNORE_FIELDS = ['views']" in caplog.text
    ignored = {"NEARDUP_IGNORE_FIELDS": ["views"]}
    recrawl(mock_site, tmp_path, Counting, **ignored)
    assert recrawl(mock_site, tmp_path, Counting, **ignored).items == []


def test_a_jobdir_is_enough_to_crawl_again(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    job = {"NEARDUP_STATE_DIR": None, "JOBDIR": str(tmp_path)}
    assert len(recrawl(mock_site, tmp_path, **job).items) == 8
    mock_site.add("/p/2", product(2, "9.00"))
    second = recrawl(mock_site, tmp_path, **job, CLOSESPIDER_PAGECOUNT=3)
    assert "gone" not in found(second)
    rest = recrawl(mock_site, tmp_path, **job)
    assert second.urls + rest.urls == [mock_site.url("/p/2")]
    assert found(rest) == {"unchanged": 8, "changed": 1}
    assert recrawl(mock_site, tmp_path, **job).items == []


def test_a_page_that_was_read_longer_ago_than_it_is_remembered_is_new(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    forgetful = {"NEARDUP_TTL": 30}
    recrawl(mock_site, tmp_path, **forgetful)
    assert recrawl(mock_site, tmp_path, **forgetful).items == []
    with closing(opened(tmp_path / FILE)) as db, db:  # the time has no MAC
        old = "UPDATE page SET time = time - 31 * 86400 WHERE url LIKE '%/p/_'"
        db.execute(old)
    third = recrawl(mock_site, tmp_path, **forgetful)
    assert len(third.items) == 8
    assert found(third) == {"new": 8, "unchanged": 1}
    assert recrawl(mock_site, tmp_path, **forgetful).items == []


def test_a_link_that_the_depth_hid_makes_no_page_gone(mock_site: MockSite, tmp_path: Path) -> None:
    mock_site.add("/start", page("start", "/a", "/hub"))
    mock_site.add("/a", product(1, noise="<a href=/b>b</a>"))
    mock_site.add("/b", product(2, noise="<a href=/c>c</a>"))
    mock_site.add("/hub", page("hub", "/c"))
    mock_site.add("/c", product(3))
    recrawl(mock_site, tmp_path, DEPTH_LIMIT=2)
    mock_site.add("/hub", page("hub is empty"))  # now /c is three links away
    second = recrawl(mock_site, tmp_path, DEPTH_LIMIT=2)
    assert "moved" not in found(second)
    assert second.items == []
    mock_site.add("/hub", page("hub", "/c"))
    mock_site.add("/c", product(3, "1.00"))
    assert mock_site.url("/c") in recrawl(mock_site, tmp_path, DEPTH_LIMIT=2).urls


class Several(Shop):
    """Begins with each of its start URLs."""

    async def start(self) -> AsyncIterator[Any]:
        for url in self.seed.split():
            yield Request(url, dont_filter=True)


def add_sections(site: MockSite, linked: int = 4) -> None:
    """Two start pages; /a leads to some of four pages, /b to four others."""
    for name, n in (("a", linked), ("b", 4)):
        site.add(f"/{name}", page(name, *(f"/{name}/{i}" for i in range(n))))
        for i in range(4):
            site.add(f"/{name}/{i}", product(i, text=prose(ord(name) * 100 + i, 40)))


def recrawl_from(site: MockSite, folder: Path, *paths: str, **settings: Any) -> Outcome:
    where = {"NEARDUP_STATE_DIR": str(folder), "NEARDUP_RECRAWL": "changed"} | settings
    return crawl(Several, where, seed=" ".join(map(site.url, paths)))


def test_what_was_found_through_another_start_url_is_not_gone(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_sections(mock_site)
    assert found(recrawl_from(mock_site, tmp_path, "/a", "/b")) == {"new": 10}
    assert found(recrawl_from(mock_site, tmp_path, "/a")) == {"unchanged": 5}
    add_sections(mock_site, linked=3)
    third = recrawl_from(mock_site, tmp_path, "/a")  # with the start URLs of the last crawl
    assert found(third) == {"unchanged": 3, "changed": 1, "gone": 1}
    assert events(tmp_path, 3, "gone") == {mock_site.url("/a/3"): None}
    assert found(recrawl_from(mock_site, tmp_path, "/a", "/b")) == {"unchanged": 9}


def test_a_crawl_cut_short_with_fewer_start_urls_makes_no_other_page_gone(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_sections(mock_site)
    recrawl_from(mock_site, tmp_path, "/a", "/b")
    recrawl_from(mock_site, tmp_path, "/a", CLOSESPIDER_PAGECOUNT=1)
    assert found(recrawl_from(mock_site, tmp_path, "/a")) == {"unchanged": 5}
    assert found(recrawl_from(mock_site, tmp_path, "/a", "/b")) == {"unchanged": 10}


def test_start_urls_of_a_run_that_was_killed_are_remembered(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_sections(mock_site)
    both = " ".join(map(mock_site.url, ("/a", "/b")))
    root = Path(__file__).resolve().parents[1]
    program = KILLED.replace("Shop", "Several").replace("/p/5", "/b/3")
    arguments = [sys.executable, "-c", program, both, str(tmp_path)]
    killed = subprocess.run(arguments, capture_output=True, text=True, cwd=root)
    assert killed.returncode == -signal.SIGKILL
    assert mock_site.url("/b/0") in killed.stdout
    recrawl_from(mock_site, tmp_path, "/a")  # ends that run
    assert "gone" not in found(recrawl_from(mock_site, tmp_path, "/a"))


def test_of_more_start_urls_than_are_remembered_no_page_is_gone(
    mock_site: MockSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "MAX_STARTS", 1)
    add_sections(mock_site)
    recrawl_from(mock_site, tmp_path, "/a", "/b")
    assert "gone" not in found(recrawl_from(mock_site, tmp_path, "/a"))
    assert "gone" not in found(recrawl_from(mock_site, tmp_path, "/a"))


def test_a_page_of_links_that_failed_before_a_kill_makes_no_page_gone(
    mock_site: MockSite, tmp_path: Path
) -> None:
    mock_site.add("/start", page("start", "/mid", "/p/9"))
    mock_site.add("/mid", page("mid", "/hub", "/p/5"))
    mock_site.add("/hub", page("hub", *(f"/p/{i}" for i in range(2))))
    for i in (0, 1, 5, 9):
        mock_site.add(f"/p/{i}", product(i))
    assert found(recrawl(mock_site, tmp_path)) == {"new": 7}
    mock_site.add("/hub", "out of order", status=503)
    start = mock_site.url("/start")
    root = Path(__file__).resolve().parents[1]
    program = KILLED.replace('"DEPTH_PRIORITY"', '"RETRY_TIMES": 0, "DEPTH_PRIORITY"')
    arguments = [sys.executable, "-c", program, start, str(tmp_path)]
    killed = subprocess.run(arguments, capture_output=True, text=True, cwd=root)
    assert killed.returncode == -signal.SIGKILL
    rest = recrawl(mock_site, tmp_path, RETRY_TIMES=0)
    assert "gone" not in found(rest)
    assert mock_site.gets("/hub") == 3  # so it was missed in this process, too


def of_the_visit(visit: int, number: int) -> str:
    """What differs on every page at every visit: the time, later than it is, and a counter."""
    now = datetime.now(UTC) + timedelta(seconds=visit)
    return f"<p>It is {now:%H:%M:%S}</p><p>{100 * number + 3 * visit} visits</p>"


def show_shop(site: MockSite, visit: int, prices: str, line: str = "", copies: int = 0) -> None:
    """Eight things, each with the lines of the visit; then copies of some under other URLs."""
    paths = [f"/p/{i}" for i in range(8)] + [f"/q/{i}" for i in range(copies)]
    site.add("/start", page("start", *paths))
    for place, path in enumerate(paths):
        i = place % 8
        shown = line.format(i=i, visit=visit) or of_the_visit(visit, place)
        site.add(path, product(i, prices.format(i=i, visit=visit), shown, prose(i, 300)))


def test_copies_are_dropped_once_recrawls_have_taught_what_tells_of_the_visit(
    mock_site: MockSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show_shop(mock_site, 1, "12.50")
    recrawl(mock_site, tmp_path, Titles)
    for visit, n_known in ((2, 0), (3, 2), (4, 2)):  # the fourth stores pages without these lines
        show_shop(mock_site, visit, "12.50", copies=1)
        outcome = recrawl(mock_site, tmp_path, Titles)
        assert outcome.stat("visit_lines/known") == n_known
    show_shop(mock_site, 5, "12.50", copies=5)
    fifth = recrawl(mock_site, tmp_path, Titles)
    assert not {mock_site.url(f"/q/{i}") for i in range(1, 5)} & set(fifth.urls)
    assert fifth.stat("pages/near_but_for_the_visit") >= 4
    assert main(["explain", mock_site.url("/q/2"), "--state", str(tmp_path)]) == 0
    assert "lines that tell of the visit" in capsys.readouterr().out


@pytest.mark.parametrize("compare", ["item", "page"])
@pytest.mark.parametrize(
    ("prices", "line"),
    [
        ("{visit}2.50", "<p>In stock</p>"),  # all prices changed overnight, every night
        ("1{visit}", "<p>In stock</p>"),
        ("12.50", "<p>Docket 11{i}</p>"),
        ("12.50", "<p>Lot 7{i} since 3.5.2021</p>"),
    ],
)
def test_prices_and_dockets_never_tell_of_the_visit(
    mock_site: MockSite, tmp_path: Path, prices: str, line: str, compare: str
) -> None:
    for visit in (1, 2, 3):
        show_shop(mock_site, visit, prices, line)
        outcome = recrawl(mock_site, tmp_path, Titles, NEARDUP_COMPARE=compare)
    assert outcome.stat("visit_lines/known") == 0
    show_shop(mock_site, 3, prices, line, copies=8)
    for i in range(8):
        other = line.format(i=i + 500, visit=3), prices.format(i=i, visit=7)
        mock_site.add(f"/q/{i}", product(i, other[1], other[0], prose(i, 300)))
    last = recrawl(mock_site, tmp_path, Titles, NEARDUP_COMPARE=compare)
    assert len([url for url in last.urls if "/q/" in url]) == 8
    assert last.stat("pages/near_but_differs") == 8


class Texts(Shop):
    """An item of each thing, which holds its page's text."""

    def held(self, response: Response) -> str:
        return " ".join(response.xpath("//body//text()").getall())

    def parse(self, response: Response) -> Iterator[Any]:
        if "/p/" in response.url:
            yield {"url": response.url, "page": self.held(response)}
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


class Wholes(Texts):
    """An item of each thing, which holds its page."""

    def held(self, response: Response) -> str:
        return response.text


class DrawingSite(MockSite):
    """Draws noise whenever it is asked for a page of a thing."""

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        reply = super().reply(method, path, cookie, body)
        drawn = noise(self.hits.total(), 1) if "/p/" in path else ""
        return replace(reply, body=reply.body.replace(b"<footer>", f"{drawn}<footer>".encode()))


def show_things(site: MockSite, n: int, price: str, more: str = "") -> None:
    site.add("/start", page("start", *(f"/p/{i}" for i in range(n))))
    for i in range(n):
        site.add(f"/p/{i}", product(i, price.format(i=i), more.format(i=i)))


@pytest.mark.parametrize("spider", [Texts, Wholes])
def test_new_prices_of_all_pages_are_news_where_items_hold_the_page(
    mock_site: MockSite, tmp_path: Path, spider: type[Shop]
) -> None:
    show_things(mock_site, 30, "{i}.50 euros")
    recrawl(mock_site, tmp_path, spider)
    for price in ("{i}.99 euros", "{i}.50 euros"):  # a sale, and its end
        show_things(mock_site, 30, price)
        again = recrawl(mock_site, tmp_path, spider)
        assert len(again.items) == 30
    assert sum(mock_site.gets(f"/p/{i}") for i in range(30)) <= 90 + MAX_TWICE


def test_what_is_drawn_for_each_reading_is_no_news_and_a_price_beside_it_is(tmp_path: Path) -> None:
    n = 60
    with running_site(DrawingSite) as site:
        show_things(site, n, "12.50")
        recrawl(site, tmp_path, Texts)
        second = recrawl(site, tmp_path, Texts)
        assert len(second.items) <= MAX_TWICE
        assert found(second) == {"unchanged": 1, "minor": n}
        assert second.stat("recrawl/read_twice") <= MAX_TWICE
        show_things(site, n, "11.00")
        third = recrawl(site, tmp_path, Texts)
    assert len(third.items) == n
    assert found(third) == {"unchanged": 1, "changed": n}


# What a page says besides its text, then and now.
IN_MARKUP = {
    "a link": ("<a href='/a{i}.pdf'>Manual</a>", "<a href='/b{i}.pdf'>Manual</a>"),
    "an image": ("<img src='/a{i}.jpg'>", "<img src='/b{i}.jpg'>"),
    "an attribute for programs": ("<p data-stock=1>Stock</p>", "<p data-stock=2>Stock</p>"),
    "a class": ("<p class=in-stock>Lamp</p>", "<p class=sold-out>Lamp</p>"),
    "a choice": (
        "<select><option>red<option selected>green<option>blue</select>",
        "<select><option>red<option>green<option selected>blue</select>",
    ),
    "a chart": ("<svg><rect width=1 /></svg>", "<svg><rect width=2 /></svg>"),
    "a field of a form": ("<input name=size value=a{i}>", "<input name=size value=b{i}>"),
    "spaces": ("<pre>mon  x\ntue</pre>", "<pre>mon\ntue  x</pre>"),
    "a type": ("<div itemtype=/Book>a</div>", "<div itemtype=/Film>a</div>"),
    "a click": ("<p onclick=go({i})>a</p>", "<p onclick=go(9{i})>a</p>"),
    "an embed": ("<script src='/a{i}.js'></script>", "<script src='/b{i}.js'></script>"),
    "what an embed shows": ("<script data-of=a{i}></script>", "<script data-of=b{i}></script>"),
}


@pytest.mark.parametrize("kind", IN_MARKUP)
def test_markup_that_differs_is_news_where_items_hold_the_page(
    mock_site: MockSite, tmp_path: Path, kind: str
) -> None:
    for more in IN_MARKUP[kind]:
        show_things(mock_site, 12, "12.50", more)
        outcome = recrawl(mock_site, tmp_path, Wholes)
    assert len(outcome.items) == 12


def test_comments_and_names_of_elements_are_no_news_where_items_hold_the_page(
    mock_site: MockSite, tmp_path: Path
) -> None:
    more = "<!-- made by {} --><p id=x{}>Offer</p><input type=hidden name=csrf_token value=t{}8>"
    for visit in ("a1b2c3d4", "e5f6a7b8"):
        show_things(mock_site, 12, "12.50", more.format(visit, visit, visit))
        outcome = recrawl(mock_site, tmp_path, Wholes)
    assert outcome.items == []


def test_an_item_that_chooses_another_part_of_the_same_text_is_news(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class InForce(Texts):
        def held(self, response: Response) -> str:
            return " ".join(response.xpath("//body//*[not(self::s)]/text()").getall())

    for tag in ("p", "s"):
        show_things(mock_site, 4, "12.50", f"<{tag}>In stock</{tag}><p>Ask for help</p>")
        outcome = recrawl(mock_site, tmp_path, InForce)
    assert len(outcome.items) == 4


CUT_OFF = Reply(b"<p>", headers={"Content-Length": "99", "Connection": "close"})


class Watching(Shop):
    """Puts out an item of each thing that cannot be had, in a callback or an errback."""

    handle_httpstatus_list: ClassVar = [500]

    def parse(self, response: Response) -> Iterator[Any]:
        if response.status == 500:
            yield {"url": response.url, "price": "unknown"}
        for output in super().parse(response):
            yield output.replace(errback=self.failed) if isinstance(output, Request) else output

    def failed(self, failure: Any) -> Iterator[Any]:
        yield {"url": failure.request.url, "price": "down"}


@pytest.mark.parametrize("headers", [{}, {"ETag": '"1"'}])
@pytest.mark.parametrize("failing", [Reply(status=500), Reply(status=403), CUT_OFF])
def test_a_page_that_recovers_passes_if_its_failure_was_put_out(
    mock_site: MockSite, tmp_path: Path, failing: Reply, headers: dict[str, str]
) -> None:
    def show(reply: Reply) -> None:
        mock_site.pages["/p/3"] = reply

    add_shop(mock_site)
    works = Reply(product(3), headers=headers)
    show(works)
    recrawl(mock_site, tmp_path, Watching)
    show(failing)
    assert recrawl(mock_site, tmp_path, Watching, RETRY_ENABLED=False).urls == [
        mock_site.url("/p/3")
    ]
    show(works)
    third = recrawl(mock_site, tmp_path, Watching)
    assert [item["price"] for item in third.items] == ["12.50"]
    assert third.items[0]["neardup"]["status"] == "changed"
    assert recrawl(mock_site, tmp_path, Watching).items == []


def test_a_page_that_recovers_says_nothing_new_if_its_failure_was_dropped(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class Dropped:
        def process_item(self, item: Any) -> Any:
            if item["price"] in ("down", "unknown"):
                raise DropItem("not to be stored")
            return item

    pipelines = {"ITEM_PIPELINES": {Dropped: 300}}
    add_shop(mock_site)
    recrawl(mock_site, tmp_path, Watching, **pipelines)
    mock_site.add("/p/3", "", status=503)
    recrawl(mock_site, tmp_path, Watching, RETRY_ENABLED=False, **pipelines)
    mock_site.add("/p/3", product(3))
    assert recrawl(mock_site, tmp_path, Watching, **pipelines).items == []


def test_visits_that_are_a_folder_are_told_in_a_line(
    mock_site: MockSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    assert main(["changes", str(tmp_path)]) == 2
    assert f"{tmp_path / FILE}: cannot be read" in capsys.readouterr().err

"""An item is dropped only if its own data repeat, too."""

import asyncio
import threading
from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest
from crawls import Outcome, PagesSpider, crawl
from mock_site import MockSite, page, prose
from scrapy import Request, signals
from scrapy.exceptions import DropItem
from scrapy.http import Response

from scrapy_neardup.detect import item_table
from scrapy_neardup.ledger.reader import LedgerReader


class Products(PagesSpider):
    """Makes its items of what is in the request."""

    data: dict[str, Any]

    def parse(self, response: Response, **data: Any) -> Iterator[Any]:
        yield {"url": response.url, **data}


PAGE = prose("a product")
NEAR = PAGE.rpartition(" ")[0] + " edited"


def products(
    site: MockSite,
    *data: dict[str, Any],
    texts: Sequence[str] = (),
    scrapy: Mapping[str, Any] = MappingProxyType({}),
    **settings: Any,
) -> Outcome:
    """Crawl pages, one after the other; each yields its URL and one of `data`.

    texts: of the pages, PAGE for all if there are none. scrapy: settings of Scrapy's own.
    """
    for n, text in enumerate(texts or [PAGE] * len(data)):
        site.add(f"/product/{n}", page(text))
    requests = [
        Request(site.url(f"/product/{n}"), cb_kwargs=one, priority=-n) for n, one in enumerate(data)
    ]
    options = {f"NEARDUP_{name}": value for name, value in settings.items()} | dict(scrapy)
    return crawl(Products, options, seed=site.url("/page/seed"), requests=lambda: iter(requests))


def test_an_item_with_other_data_is_kept_though_its_page_repeats(mock_site: MockSite) -> None:
    outcome = products(mock_site, {"price": 1}, {"price": 2}, {"price": 3})
    assert [item["price"] for item in outcome.items] == [1, 2, 3]
    assert outcome.stat("pages/exact") == 2
    assert outcome.stat("items/kept_by_data") == 2


def test_a_page_that_shows_what_another_one_showed_in_an_earlier_crawl_is_kept(
    mock_site: MockSite, tmp_path: Path
) -> None:
    def crawl_on(*texts: str) -> list[str]:
        for n, text in enumerate(texts):
            mock_site.add(f"/product/{n}", page(prose("terms"), head=f"<title>{text}</title>"))
        urls = [mock_site.url(f"/product/{n}") for n in range(len(texts))]
        requests = [Request(url, dont_filter=True, priority=-n) for n, url in enumerate(urls)]
        settings = {"NEARDUP_STATE_DIR": str(tmp_path)}
        outcome = crawl(
            Products, settings, seed=mock_site.url("/page/seed"), requests=lambda: iter(requests)
        )
        return [url[-1] for url in outcome.urls]

    assert crawl_on("10 kr", "11 kr", "12 kr") == ["0", "1", "2"]
    assert crawl_on("12 kr", "13 kr", "14 kr") == ["0", "1", "2"]
    assert crawl_on("14 kr", "10 kr", "11 kr", "11 kr") == ["0", "1", "2"], (
        "3 was never read before"
    )


def test_an_item_with_the_data_of_the_original_is_dropped(mock_site: MockSite) -> None:
    outcome = products(mock_site, {"price": 1}, {"price": 1})
    assert [item["url"] for item in outcome.items] == [mock_site.url("/product/0")]


def test_an_item_with_the_data_of_a_kept_copy_is_dropped(mock_site: MockSite) -> None:
    outcome = products(mock_site, {"price": 1}, {"price": 2}, {"price": 2}, {"price": 1})
    assert [item["price"] for item in outcome.items] == [1, 2]
    assert outcome.stat("items/dropped") == 2


def test_compared_by_pages_alone_the_data_say_nothing(mock_site: MockSite) -> None:
    outcome = products(mock_site, {"price": 1}, {"price": 2}, COMPARE="page")
    assert [item["price"] for item in outcome.items] == [1]


def test_an_ignored_field_says_nothing_new(mock_site: MockSite) -> None:
    outcome = products(mock_site, {"rank": 1}, {"rank": 2}, IGNORE_FIELDS=["rank"])
    assert [item["rank"] for item in outcome.items] == [1]


def test_the_ledger_says_by_which_fields_items_were_kept(
    mock_site: MockSite, tmp_path: Path
) -> None:
    data = [{"price": 1, "rank": 1}, {"price": 2, "rank": 2}, {"price": 1, "rank": 1}]
    products(mock_site, *data, STATE_DIR=tmp_path)
    told = [(d.kind, d.action, d.data_differ) for d in LedgerReader(tmp_path).decisions()]
    assert told == [
        ("new", "kept", None),
        ("exact", "kept", "price, rank"),
        ("exact", "dropped", None),
    ]


TEXT = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(200))


@pytest.mark.parametrize(
    ("one", "other", "n_kept"),
    [
        (TEXT, TEXT, 1),
        (TEXT, TEXT.replace("wordbb", "another"), 2),
        (TEXT, f"{TEXT} for 19 euros", 2),
        (f"{PAGE} {TEXT}", f"{NEAR} {TEXT}", 1),
        (f"{PAGE} {TEXT}", f"wordaa\n{NEAR} {TEXT}", 1),
        (f"from a list\n{PAGE} {TEXT}", f"from a catalogue\n{NEAR} {TEXT}", 2),
        (f"{PAGE} {TEXT}", f"{NEAR} {TEXT[::-1]}", 2),
        (f"{PAGE} {TEXT}", f"{NEAR} {TEXT} for 19 euros", 2),
    ],
    ids=[
        *("a part", "a part in which a word differs", "a part and a price", "all of the pages"),
        *("all and a part of it again", "all and what another page said"),
        *("half of the page", "all and a price"),
    ],
)
def test_long_text_is_compared_as_pages_are_if_it_is_all_of_them(
    mock_site: MockSite, one: str, other: str, n_kept: int
) -> None:
    texts = [f"{one} {TEXT}" for one in (PAGE, NEAR)]
    outcome = products(mock_site, {"text": one}, {"text": other}, texts=texts)
    assert outcome.stat("pages/near") == 1
    assert len(outcome.items) == n_kept


def test_a_long_text_with_too_many_to_compare_is_kept_and_counted(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_table, "MAX_COMPARED", 0)
    texts = [f"{one} {TEXT}" for one in (PAGE, NEAR)]
    outcome = products(mock_site, *({"text": text} for text in texts), texts=texts)
    assert outcome.stat("pages/near") == 1
    assert len(outcome.items) == 2
    assert outcome.stat("items/undecided") == 1


@pytest.mark.parametrize("n_words", [0, 20_000], ids=["short pages", "pages read in a thread"])
def test_long_text_that_is_not_on_its_near_page_has_to_be_equal(
    mock_site: MockSite, n_words: int
) -> None:
    texts = [TEXT, TEXT.replace("wordbb", "another"), TEXT]
    pages = [f"{one} {prose('more', n_words)}" for one in (PAGE, NEAR, NEAR.replace("edit", "add"))]
    outcome = products(mock_site, *({"text": text} for text in texts), texts=pages)
    assert outcome.stat("pages/near") == 2
    # Pages that are read in a thread may be judged in another order.
    assert sorted(item["text"] for item in outcome.items) == sorted(texts[:2])


def test_long_text_of_pages_that_say_the_same_comes_from_elsewhere(mock_site: MockSite) -> None:
    texts = [TEXT, TEXT.replace("wordbb", "another"), TEXT.replace(" ", "\n"), TEXT]
    outcome = products(mock_site, *({"text": text} for text in texts))
    assert [item["text"] for item in outcome.items] == texts[:3]
    assert outcome.stat("pages/exact") == 3


def test_the_next_crawl_knows_the_data_of_kept_items(mock_site: MockSite, tmp_path: Path) -> None:
    state = {"STATE_DIR": tmp_path / "state"}
    products(mock_site, {"price": 1}, **state)
    mock_site.add("/product/copy", page(prose("a product")))

    def again(price: int) -> Outcome:
        request = Request(
            mock_site.url("/product/copy"), cb_kwargs={"price": price}, dont_filter=True
        )
        return crawl(
            Products,
            {"NEARDUP_STATE_DIR": tmp_path / "state"},
            seed=mock_site.url("/page/seed"),
            requests=lambda: iter([request]),
        )

    assert again(1).items == []
    assert [item["price"] for item in again(2).items] == [2]
    assert again(2).items == []


class Picky:
    """A pipeline that drops the first item it sees."""

    seen = 0

    def process_item(self, item: Any) -> Any:
        Picky.seen += 1
        if Picky.seen == 1:
            raise DropItem("the first one")
        return item


class Twins(PagesSpider):
    """Two items a page: one is dropped by a later pipeline, the other keeps the page known."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"n": 1}
        yield {"n": 2}


def test_an_item_that_a_later_pipeline_dropped_is_no_reason_to_drop_another(
    mock_site: MockSite,
) -> None:
    Picky.seen = 0
    for n in range(2):
        mock_site.add(f"/twin/{n}", page(prose("twins")))
    requests = [Request(mock_site.url(f"/twin/{n}"), priority=-n) for n in range(2)]
    outcome = crawl(
        Twins,
        {"ITEM_PIPELINES": {Picky: 500}},
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter(requests),
    )
    assert [item["n"] for item in outcome.items] == [2, 1]


class Noting:
    """A value that notes in which thread it was read."""

    threads: ClassVar[list[str]] = []

    def __reduce__(self) -> tuple[type, tuple[()]]:
        self.threads.append(threading.current_thread().name)
        return Noting, ()


def test_a_long_item_is_read_in_a_thread_and_stays_in_order(mock_site: MockSite) -> None:
    Noting.threads.clear()
    words = " ".join(f"word{n}" for n in range(50_000))
    long, short = {"text": words, "value": Noting()}, {"text": "short", "value": Noting()}
    outcome = products(mock_site, long, short, long, short)
    assert [len(item["text"]) for item in outcome.items] == [len(words), 5]
    assert [name.partition("_")[0] for name in Noting.threads[::2]] == ["neardup-items"] * 2
    assert outcome.stat("items/dropped") == 2


class LongTwins(PagesSpider):
    """A long item and a short one a page, of which each is there twice."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"text": prose(response.url.partition("-")[0], 9_000)}
        yield {"text": "short"}


@pytest.mark.parametrize("n_words", [100, 30_000], ids=["short pages", "long pages"])
def test_of_copies_under_way_at_once_one_s_items_are_kept(
    mock_site: MockSite, n_words: int
) -> None:
    paths = [f"/twin/{n}-{copy}" for n in range(6) for copy in "ab"]
    for path in paths:
        head = f"<!--{path}-->"  # other bytes: each is read
        mock_site.add(path, page(prose(path.partition("-")[0], n_words), head=head))
    outcome = crawl(
        LongTwins,
        {"CONCURRENT_REQUESTS": 12, "CONCURRENT_REQUESTS_PER_DOMAIN": 12},
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter([Request(mock_site.url(path)) for path in paths]),
    )
    assert outcome.stat("pages/exact") == 6
    assert len(outcome.items) == 12


class Articles(PagesSpider):
    """An item of what an author wrote."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"text": response.css("p.own::text").get()}


class LosesTheFirstOfTwo:
    """A pipeline behind ours: the first item of a SKU is in it until another is dropped for it."""

    is_dropped = is_first = False

    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        pipeline = cls()
        crawler.signals.connect(pipeline.item_dropped, signals.item_dropped)
        return pipeline

    def item_dropped(self) -> None:
        self.is_dropped = True

    async def process_item(self, item: Any) -> Any:
        if item["sku"] == 2 and not self.is_first:
            self.is_first = True
            while not self.is_dropped:
                await asyncio.sleep(0.01)
            raise DropItem("the warehouse is busy")
        return item


def test_a_copy_whose_item_was_dropped_for_that_of_another_copy_is_read_again_if_that_is_lost(
    mock_site: MockSite, tmp_path: Path
) -> None:
    outcome = products(
        mock_site,
        *({"sku": 1}, {"sku": 2}, {"sku": 2}),
        STATE_DIR=str(tmp_path),
        scrapy={"ITEM_PIPELINES": {LosesTheFirstOfTwo: 900}, "CONCURRENT_REQUESTS": 1},
    )
    assert sorted(item["sku"] for item in outcome.items) == [1, 2]
    assert outcome.stat("pages/read_again") == 1
    assert outcome.stat("pages/forgotten") == 0
    assert outcome.stat("state/unfinished_pages") == 0


def test_an_author_who_repeats_others_words_makes_no_item_repeat(mock_site: MockSite) -> None:
    """Two pages differ in a paragraph each, which another author has made a template."""
    shared, one, other = prose("shared", 300), "the red one is for sale", "the blue one was sold"

    def article(own: str, rest: str) -> bytes:
        return f"<body><p class=own>{own}</p><p>{rest}</p></body>".encode()

    for n in range(40):
        rest = f"{one if n % 2 else other}</p><p>{prose(n)}"
        mock_site.add(f"/author/{n}", article(one if n % 3 else other, rest))
    mock_site.add("/victim/0", article(one, shared))
    mock_site.add("/victim/1", article(other, shared))
    paths = [*(f"/author/{n}" for n in range(40)), "/victim/0", "/victim/1"]
    requests = [Request(mock_site.url(path), priority=-n) for n, path in enumerate(paths)]
    outcome = crawl(
        Articles,
        {"NEARDUP_BOILERPLATE": "learn"},
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter(requests),
    )
    assert [item["text"] for item in outcome.items[-2:]] == [one, other]
    assert outcome.stat("items/dropped") == 0


def test_an_item_with_the_mapping_of_the_original_is_dropped(mock_site: MockSite) -> None:
    held = ({"of": MappingProxyType({"price": price})} for price in (1, 2, 1))
    outcome = products(mock_site, *held)
    assert [item["of"]["price"] for item in outcome.items] == [1, 2]
    assert outcome.stat("items/dropped") == 1
    assert outcome.stat("errors/item_data") == 0


class Closed(UserDict[str, Any]):
    """A mapping whose values cannot be read any more."""

    def __getitem__(self, name: str) -> Any:
        raise OSError(f"{name} is closed")


def test_an_item_with_a_mapping_that_cannot_be_read_is_kept_and_counted(
    mock_site: MockSite,
) -> None:
    closed = {"of": Closed(price=1)}
    outcome = products(mock_site, closed, closed)
    assert len(outcome.items) == 2
    assert outcome.stat("items/unreadable") == 2
    assert outcome.stat("errors/item_data") == 0


def test_an_item_too_large_to_look_at_is_kept_and_counted(mock_site: MockSite) -> None:
    many = {"values": list(range(20_000))}
    outcome = products(mock_site, many, many)
    assert len(outcome.items) == 2
    assert outcome.stat("items/too_large") == 2

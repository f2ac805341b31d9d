"""What the log tells the person who runs a crawl."""

import logging
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from crawls import Outcome, PagesSpider, crawl
from mock_site import MockSite, Reply, page, prose
from scrapy import Request
from scrapy.http import Response

from scrapy_neardup.crawl.advice import MAX_PATTERNS, WINDOW, PatternWatch, names_in


@pytest.fixture(autouse=True)
def at_info(caplog: pytest.LogCaptureFixture) -> None:
    """The level at which crawls are run."""
    caplog.set_level(logging.INFO, "scrapy_neardup")


class Products(PagesSpider):
    """Each request brings the data of its item."""

    def parse(self, response: Response, **data: Any) -> Iterator[Any]:
        yield {"url": response.url, **data}


def products(site: MockSite, bodies: list[bytes], *data: dict[str, Any], **given: Any) -> Outcome:
    """Crawl pages one after the other; each yields its URL and one of `data`."""
    for n, body in enumerate(bodies):
        site.add(f"/product/{n}", body)
    requests = [
        Request(site.url(f"/product/{n}"), cb_kwargs=one, priority=-n) for n, one in enumerate(data)
    ]
    options = {f"NEARDUP_{name}": value for name, value in given.items()}
    return crawl(Products, options, seed=site.url("/page/seed"), requests=lambda: iter(requests))


def equal(n: int) -> list[bytes]:
    """Pages that all say the same."""
    return [page(prose("a product"))] * n


def nearly_equal(n: int) -> list[bytes]:
    """Pages that each say one word more than the first."""
    text = " ".join([prose("a product")] * 2)
    return [page(f"{text} {chr(97 + i % 26) * (i // 26 + 2)}" if i else text) for i in range(n)]


def told(caplog: pytest.LogCaptureFixture, level: int, part: str) -> list[str]:
    """What the crawl logged at a level, as far as it holds a part."""
    messages = [r.getMessage() for r in caplog.records if r.levelno == level]
    return [message for message in messages if part in message]


# --- the sentence at the end


def test_one_sentence_sums_up_the_crawl(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    products(mock_site, equal(4), {"price": 1}, {"price": 1}, {"price": 2}, {"price": 1})
    (sentence,) = told(caplog, logging.INFO, "repeat another:")
    assert sentence == (
        "neardup: 3 of 4 pages repeat another: 2 items dropped, 1 kept because their data differ"
    )


@pytest.mark.parametrize(
    ("action", "done"), [("tag", "1 item tagged"), ("dry-run", "1 item would be dropped")]
)
def test_the_sentence_says_what_was_done(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture, action: str, done: str
) -> None:
    products(mock_site, equal(2), {}, {}, ACTION=action)
    assert told(caplog, logging.INFO, f"1 of 2 pages repeat another: {done}")


def test_a_page_that_is_trusted_to_be_a_copy_repeats_another(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    original, other = (
        page("a chair"),
        page("a table", head='<link rel=canonical href="/product/0">'),
    )
    products(mock_site, [original, other], {}, {}, CANONICAL="trust")
    assert told(caplog, logging.INFO, "1 of 2 pages repeat another: 1 item dropped")


def test_a_crawl_that_compared_nothing_says_so(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    products(mock_site, [])
    assert told(caplog, logging.INFO, "neardup: no pages were compared")


def test_a_field_that_alone_keeps_many_items_is_named_with_the_setting_that_ignores_it(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    data: list[dict[str, Any]] = [{"rank": n, "name": "a chair"} for n in range(11)]
    products(mock_site, equal(11), *data, IGNORE_FIELDS=["name"])
    (hint,) = told(caplog, logging.INFO, "'rank' alone")
    assert hint.startswith("neardup: 10 items of pages that repeat another")
    assert hint.endswith("NEARDUP_IGNORE_FIELDS = ['name', 'rank']")


class Refused(PagesSpider):
    """Pages behind a list that they are linked on."""

    def parse_seed(self, response: Response) -> Iterator[Any]:
        yield response.follow("/list", self.parse_list)

    def parse_list(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="a")

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


def test_a_site_that_refuses_many_pages_is_named_with_the_crawl_that_asks_again(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [f"/p/{n}" for n in range(12)]
    mock_site.add("/list", page("list", *paths))
    for path in paths:
        mock_site.pages[path] = Reply(status=403)
    where = {"NEARDUP_STATE_DIR": str(tmp_path)}

    def read(**options: str) -> Outcome:
        return crawl(Refused, where | options, seed=mock_site.url("/page/seed"))

    read()
    (warning,) = told(caplog, logging.WARNING, "401 or 403")
    assert warning.startswith("neardup: 12 of ")
    for n, path in enumerate(paths):
        mock_site.add(path, page(prose(n)))
    assert len(read(NEARDUP_RECRAWL="changed").items) == 12


class Shelves(PagesSpider):
    """Several items a page, with what the request says of the visit."""

    def parse(self, response: Response, visit: int = 0) -> Iterator[Any]:
        for name in ("chair", "table", "lamp"):
            yield {"name": name, "visit": visit}


def test_of_pages_with_several_items_each_is_held_against_the_one_it_is_most_like(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    for n, body in enumerate(equal(5)):
        mock_site.add(f"/shelf/{n}", body)
    requests = [
        Request(mock_site.url(f"/shelf/{n}"), cb_kwargs={"visit": n}, priority=-n) for n in range(5)
    ]
    crawl(Shelves, seed=mock_site.url("/page/seed"), requests=lambda: iter(requests))
    (hint,) = told(caplog, logging.INFO, "'visit' alone")
    assert hint.startswith("neardup: 12 items of pages that repeat another")


def test_a_field_that_keeps_few_items_is_not_named(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    products(mock_site, equal(10), *({"rank": n} for n in range(10)))
    assert not told(caplog, logging.INFO, "alone")


# --- drops


def test_the_first_ten_drops_are_shown_and_then_no_more(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    products(mock_site, equal(13), *[{} for _ in range(13)])
    drops = told(caplog, logging.INFO, "dropped an item of")
    assert len(drops) == 10
    original, copy = (mock_site.url(f"/product/{n}") for n in (0, 1))
    assert drops[0] == f"neardup: dropped an item of {copy}: exact duplicate of {original}"
    assert len(told(caplog, logging.INFO, "further dropped items are logged at DEBUG")) == 1


# --- a URL pattern that is dropped wholesale


def test_a_pattern_that_loses_most_of_its_pages_is_warned_of_once(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    pages = nearly_equal(40)
    outcome = products(mock_site, pages, *[{} for _ in pages], STATE_DIR=tmp_path / "shop")
    assert outcome.stat("pages/near") >= 30
    (warning,) = told(caplog, logging.WARNING, "near-duplicates whose items are dropped")
    host = mock_site.url("").removeprefix("http://").rstrip("/")
    assert f"20 of the last 21 pages of {host}/product/{{n}}" in warning
    assert f"scrapy neardup report {tmp_path / 'shop'}" in warning
    assert "NEARDUP_SIMILARITY" in warning


def test_a_pattern_whose_items_are_kept_by_their_data_is_not_warned_of(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    pages = nearly_equal(40)
    products(mock_site, pages, *({"price": n} for n in range(40)))
    assert not told(caplog, logging.WARNING, "near-duplicates")


def test_only_the_newest_pages_of_a_pattern_count() -> None:
    watch = PatternWatch()
    assert all(watch.add("a", near=False) is None for _ in range(10_000))
    told = [found for _ in range(WINDOW) if (found := watch.add("a", near=True))]
    assert told == [(WINDOW // 2 + 1, WINDOW)]


def test_half_of_the_pages_are_not_most() -> None:
    watch = PatternWatch()
    assert not any(watch.add("a", near=n % 2 == 1) for n in range(1_000))


def test_patterns_are_forgotten_when_there_are_too_many() -> None:
    watch = PatternWatch()
    for n in range(MAX_PATTERNS + 19):
        watch.add("a", near=True)
        watch.add(str(n), near=True)
        if n == 18:  # 19 of it; the next would be told
            break
    for n in range(MAX_PATTERNS):
        watch.add(f"other {n}", near=True)
    assert watch.add("a", near=True) is None


# --- field names


@pytest.mark.parametrize("setting", ["IGNORE_FIELDS", "ITEM_FIELDS"])
def test_a_field_name_that_no_item_has_is_warned_of_with_the_closest(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture, setting: str
) -> None:
    data = [{"price": n} for n in range(25)]
    products(mock_site, equal(25), *data, **{setting: ["prize", "price"]})
    (warning,) = told(caplog, logging.WARNING, "none of the first")
    assert warning == (
        f"neardup: NEARDUP_{setting} names 'prize', which none of the first 20 items has; "
        "did you mean 'price'?"
    )


def test_a_short_crawl_warns_of_field_names_at_its_end(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    products(mock_site, equal(1), {"price": 1}, IGNORE_FIELDS=["zzz"])
    assert told(caplog, logging.WARNING, "'zzz', which none of the first 1 items has")


def test_names_are_found_at_any_depth() -> None:
    item = {"a": [{"b": 1}, ({"c": MappingProxyType({"d": 2})},)], 5: None}
    assert set(names_in(item)) == {"a", "b", "c", "d", "5"}


def test_an_item_that_holds_itself_is_read_to_an_end() -> None:
    item: dict[str, Any] = {"name": 1}
    item["again"] = [item, item]
    assert set(names_in(item)) == {"name", "again"}

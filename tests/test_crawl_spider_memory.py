"""Callbacks that leave something in their spider's attributes are called in every crawl."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from scrapy.http import Response

from scrapy_neardup.crawl.recrawl import conditional
from scrapy_neardup.crawl.recrawl.spider_memory import OF_ATTRIBUTES, digest
from scrapy_neardup.state.visit_file import FILE, opened
from tests.mock_site import MockSite, page
from tests.test_crawl_conditional import N, add, add_shop, unread
from tests.test_crawl_recrawl import Shop, product, recrawl


@pytest.fixture(autouse=True)
def read_none_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional, "READ_SHARE", 0.0)


class Named(Shop):
    """Takes a name from the list, which each of its items is to have."""

    def parse(self, response: Response) -> Iterator[Any]:
        if response.url.endswith("/list"):
            self.names = {"all": response.css("title::text").get()}
        for output in super().parse(response):
            yield output | {"of": self.names["all"]} if isinstance(output, dict) else output


class Merging(Shop):
    """Puts out one item of two pages once both are read, and keeps nothing of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parts: dict[int, list[str]] = {}

    def parse(self, response: Response) -> Iterator[Any]:
        for output in super().parse(response):
            if not isinstance(output, dict):
                yield output
                continue
            pair = int(output["url"].rpartition("/")[2]) // 2
            self.parts.setdefault(pair, []).append(output["price"])
            if len(self.parts[pair]) == 2:
                yield {"url": output["url"], "prices": self.parts.pop(pair)}


class Shared(Shop):
    """Keeps what it saw in a set of the class, as many spiders do by mistake."""

    seen: ClassVar[set[str]] = set()

    def parse(self, response: Response) -> Iterator[Any]:
        self.seen.add(response.url)
        for output in super().parse(response):
            if not isinstance(output, dict) or response.urljoin("/list") in self.seen:
                yield output


class OfClass(Shop):
    """Takes a name from the list into its class."""

    title: ClassVar[str | None] = None

    def parse(self, response: Response) -> Iterator[Any]:
        if response.url.endswith("/list"):
            type(self).title = response.css("title::text").get("")
        for output in super().parse(response):
            if not isinstance(output, dict) or self.title is not None:
                yield output


class Remembering(Shop):
    """Keeps a name from the list in a default argument."""

    def parse(self, response: Response) -> Iterator[Any]:
        for output in super().parse(response):
            if not isinstance(output, dict) or self.named(response):
                yield output
        if response.url.endswith("/list"):
            self.named(response, response.url)

    def named(self, response: Response, name: str = "", names: list[str] = []) -> bool:  # noqa: B006
        names += [name] if name else []
        return response.urljoin("/list") in names


@pytest.mark.parametrize("spider", [Named, Merging, Shared, OfClass, Remembering])
def test_a_changed_page_passes_that_needs_what_another_one_left_in_the_spider(
    mock_site: MockSite, tmp_path: Path, spider: type[Shop]
) -> None:
    def show(price: str) -> None:
        for i in range(0, N, 2):
            add(mock_site, f"/p/{i}", product(i, price))

    add_shop(mock_site)
    recrawl(mock_site, tmp_path, spider)
    for price in ("1.00", "2.00", "3.00"):
        Shared.seen.clear()
        OfClass.title = None
        Remembering.named.__defaults__[1].clear()
        show(price)
        outcome = recrawl(mock_site, tmp_path, spider)
        assert len(outcome.items) == N / 2
        assert outcome.stats.get("spider_exceptions/KeyError", 0) == 0
        assert unread(outcome) == 0


def test_pages_that_are_not_due_are_read_where_callbacks_write_attributes(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    for _ in range(3):
        outcome = recrawl(mock_site, tmp_path, Named, NEARDUP_REVISIT="adaptive")
        assert outcome.stat("recrawl/not_due") == 0
    assert mock_site.gets("/p/1") == 3


def test_the_log_names_an_attribute_once(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_shop(mock_site)
    caplog.set_level("INFO", "scrapy_neardup")
    for _ in range(3):
        recrawl(mock_site, tmp_path, Named, LOG_LEVEL="INFO")
    assert caplog.text.count("write its attribute 'names'") == 1


def test_servers_are_asked_again_once_a_whole_crawl_wrote_nothing(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class Sometimes(Shop):
        counts = True
        n = 0

        def parse(self, response: Response) -> Iterator[Any]:
            if self.counts:
                self.n += 1
            yield from super().parse(response)

    add_shop(mock_site)
    recrawl(mock_site, tmp_path, Sometimes)
    assert unread(recrawl(mock_site, tmp_path, Sometimes)) == 0
    Sometimes.counts = False
    recrawl(mock_site, tmp_path, Sometimes, CLOSESPIDER_PAGECOUNT=2)
    assert unread(recrawl(mock_site, tmp_path, Sometimes)) == 0  # all are read
    assert unread(recrawl(mock_site, tmp_path, Sometimes)) == N + 1
    Sometimes.counts = True
    add(mock_site, "/start", page("another", "/list"))  # its callback counts
    assert unread(recrawl(mock_site, tmp_path, Sometimes)) == 0


def test_a_state_of_an_older_version_is_read_in_full_once(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    db = opened(tmp_path / FILE)
    with db:
        db.execute("DELETE FROM server WHERE host = ?", (OF_ATTRIBUTES,))
    db.close()
    counts = [unread(recrawl(mock_site, tmp_path)) for _ in range(2)]
    assert counts == [0, N + 1]


def test_what_a_spider_writes_when_it_starts_or_closes_does_not_count(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class Opening(Shop):
        rows: list[str] | None = None

        async def start(self) -> Any:
            self.rows = ["of", "a", "file"]
            async for request in super().start():
                yield request

        def closed(self, reason: str) -> None:
            self.rows = None

    add_shop(mock_site)
    recrawl(mock_site, tmp_path, Opening)
    assert unread(recrawl(mock_site, tmp_path, Opening)) == N + 1


def test_a_digest_tells_of_changes_at_any_depth() -> None:
    class Table(dict[str, Any]):
        def __len__(self) -> int:
            return 7

    held: dict[str, Any] = {"a": [1, {"b": (2, deque([3]))}], "t": Table(), 5: {1, 2}}
    held["itself"] = held
    known = {digest(held)}

    def is_new() -> bool:
        before = len(known)
        known.add(digest(held))
        return len(known) > before

    assert not is_new()
    held["a"][1]["b"][1].append(4)
    assert is_new()
    held["t"]["x"] = 1
    assert is_new()
    held[5].add(3)
    assert is_new()
    held["o"] = object()
    assert is_new()
    held["o"] = object()
    assert is_new()
    assert not is_new()

"""What a response costs, in calls of functions: they are the same on every machine.

Bounds are what was counted on Python 3.11, and a few calls. Where one fails,
benchmarks/crawl_overhead.py tells what the change costs in CPU time; raise the bound only if that
is worth it.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from crawls import crawl_requests
from mock_site import MockSite, page, prose
from scrapy import Request
from scrapy.exceptions import DropItem
from scrapy.http import Response

import scrapy_neardup

PACKAGE = str(Path(scrapy_neardup.__file__).parent)
ITEMS = str(Path(PACKAGE, "crawl", "items"))
LEARN = {"NEARDUP_BOILERPLATE": "learn"}
MENU = [f"/section/{n}" for n in range(20)]


def item_and_links(response: Response) -> Iterator[Any]:
    """A callback that yields an item, and a request for each link."""
    yield {"url": response.url}
    yield from (Request(response.urljoin(url), callback=nothing) for url in MENU)


def nothing(response: Response) -> tuple[()]:
    """A callback that yields nothing."""
    return ()


CALLBACKS = {"no-items": nothing, "links": item_and_links}  # of the others: an item, nothing else


class Calls:
    """Counts the functions that the package's code calls, Python's and C's, while it is entered.

    Without the collector: what it calls for dead objects counts for whatever runs just then.
    """

    def __init__(self) -> None:
        self.n = 0
        self._ours: dict[CodeType, bool] = {}

    def __enter__(self) -> "Calls":
        gc.disable()
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _seen(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "call":
            caller = frame.f_back
            self.n += self._is_ours(frame) or (caller is not None and self._is_ours(caller))
        elif event == "c_call":
            self.n += self._is_ours(frame)

    def _is_ours(self, frame: FrameType) -> bool:
        code = frame.f_code
        if code not in self._ours:
            self._ours[code] = code.co_filename.startswith(PACKAGE)
        return self._ours[code]


def calls_a_response(site: MockSite, make: Callable[[int], Request]) -> float:
    """The calls of twenty more responses, for each: what a crawl costs as such falls away."""
    crawl_requests(site, make(0), settings=LEARN)  # imports what a crawl needs, and fills caches
    few, many = (min(calls_of(site, make, n) for _ in range(5)) for n in (10, 30))
    return (many - few) / 20


def calls_of(site: MockSite, make: Callable[[int], Request], n: int) -> int:
    """The calls of a crawl of n requests; more, if a timer comes in between."""
    requests = [make(i) for i in range(n)]
    with Calls() as calls:
        outcome = crawl_requests(site, *requests, settings=LEARN)
    assert outcome.stats["response_received_count"] > n
    return calls.n


@pytest.mark.parametrize(
    ("kind", "bound"),
    [("new", 946), ("near", 1136), ("copy", 786), ("no-items", 223), ("links", 1465)],
)
def test_a_response_takes_no_more_calls_than(mock_site: MockSite, kind: str, bound: int) -> None:
    def request(i: int) -> Request:
        text = prose("one" if kind == "near" else i if kind == "new" else "same")
        text += f" {prose(i, 1)}" if kind == "near" else ""
        body = page(text, *MENU, head=f"<title>{kind}</title>")
        return Request(mock_site.add(f"/{kind}/{i}", body), callback=CALLBACKS.get(kind))

    assert calls_a_response(mock_site, request) <= bound


class Lines:
    """Counts the lines that run in the package's code about items, each turn of a loop for one."""

    def __init__(self) -> None:
        self.n = 0

    def __enter__(self) -> "Lines":
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._seen if frame.f_code.co_filename.startswith(ITEMS) else None

    def _seen(self, frame: FrameType, event: str, _: Any) -> Any:
        self.n += event == "line"
        return self._seen


class DropsOdd:
    """A pipeline behind ours that drops every second item."""

    def process_item(self, item: Any) -> Any:
        if item.get("n", 0) % 2:
            raise DropItem("odd")
        return item


@pytest.mark.parametrize(
    "item", [lambda n: {"size": "M"}, lambda n: {"n": n}], ids=["equal", "odd"]
)
def test_an_item_costs_the_same_however_many_its_page_gives(
    mock_site: MockSite, item: Callable[[int], dict[str, Any]]
) -> None:
    def lines(n_items: int) -> int:
        def items(response: Response) -> Iterator[Any]:
            yield from map(item, range(n_items))

        request = Request(mock_site.add(f"/feed/{n_items}", page(prose(n_items))), callback=items)
        with Lines() as counted:
            crawl_requests(mock_site, request, settings={"ITEM_PIPELINES": {DropsOdd: 900}})
        return counted.n

    assert lines(600) < 2.2 * lines(300)

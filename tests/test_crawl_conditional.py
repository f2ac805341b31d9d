"""Known pages are asked for only if they changed, where no link and no change is lost by that."""

import io
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import formatdate
from hashlib import blake2b
from itertools import product as pairs
from pathlib import Path
from threading import Event
from typing import Any, ClassVar, Self

import pytest
from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

from scrapy_neardup.crawl.recrawl import conditional
from scrapy_neardup.crawl.recrawl.conditional import Validators
from scrapy_neardup.state.visit_file import FILE, opened
from scrapy_neardup.urls.key import url_key
from tests.crawls import Outcome, crawl
from tests.mock_site import MockSite, Reply, page, redirect, running_site
from tests.test_crawl_recrawl import KILLED, Shop, found, product, recrawl

N = 12


@pytest.fixture(autouse=True)
def read_none_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional, "READ_SHARE", 0.0)


def tagged(body: bytes, tag: str | None = None, **headers: str) -> Reply:
    tag = tag or f'"{blake2b(body, digest_size=8).hexdigest()}"'
    return Reply(body, headers={"ETag": tag} | headers)


def add(site: MockSite, path: str, body: bytes, **headers: str) -> None:
    site.pages[path] = tagged(body, **headers)


def add_shop(site: MockSite, n: int = N) -> None:
    """A start page, which links to a list of pages, which links to n things."""
    add(site, "/start", page("start", "/list"))
    add(site, "/list", page("list", *(f"/p/{i}" for i in range(n))))
    for i in range(n):
        add(site, f"/p/{i}", product(i))


def unread(outcome: Outcome) -> int:
    n: int = outcome.stat("recrawl/not_downloaded")
    return n


def test_an_unchanged_page_is_not_downloaded_and_its_links_are_followed(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    assert len(recrawl(mock_site, tmp_path).items) == N
    add(mock_site, "/p/3", product(3, price="11.00"))
    second = recrawl(mock_site, tmp_path)
    # The first page of the host was read in full; links below the others come from the visit.
    assert second.urls == [mock_site.url("/p/3")]
    assert found(second) == {"unchanged": N + 1, "changed": 1}
    assert unread(second) == N
    assert second.stats["downloader/response_status_count/304"] == N
    assert [mock_site.gets(f"/p/{i}") for i in range(N)] == [2] * N
    third = recrawl(mock_site, tmp_path)
    assert third.items == []
    assert found(third) == {"unchanged": N + 2}
    assert unread(third) == N + 1


class Rules(CrawlSpider):
    """Follows links as most spiders do: Scrapy hands on what each of them says."""

    name = "shop"
    seed: str
    outcome: Outcome
    rules = (Rule(LinkExtractor(), callback="parse_thing", follow=True),)

    async def start(self) -> Any:
        yield Request(self.seed)

    def parse_thing(self, response: Response, **_: Any) -> Iterator[Any]:
        if price := response.css(".price::text").get():
            yield {"url": response.url, "price": price}


def test_links_that_a_rule_found_are_followed_behind_an_unchanged_page(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    assert len(recrawl(mock_site, tmp_path, Rules).items) == N
    add(mock_site, "/p/3", product(3, price="11.00"))
    second = recrawl(mock_site, tmp_path, Rules)
    assert second.urls == [mock_site.url("/p/3")]
    # Read are the two pages that hand on what their links say, and one as the host's first.
    assert unread(second) == N - 2


def test_a_new_link_behind_an_unchanged_page_is_found(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    recrawl(mock_site, tmp_path)
    add(mock_site, "/p/5", product(5, noise="<a href=/p/new>new</a>"))
    add(mock_site, "/p/new", product(99))
    third = recrawl(mock_site, tmp_path)
    assert mock_site.url("/p/new") in third.urls
    assert "gone" not in found(third)


def test_validators_that_cannot_be_relied_on_are_not_kept(
    mock_site: MockSite, tmp_path: Path
) -> None:
    now, old = formatdate(usegmt=True), formatdate(10**9, usegmt=True)
    refused = [
        {"ETag": '"' + "x" * 60_000 + '"'},  # clients refuse longer ones
        {"ETag": "*"},
        {"ETag": '""'},
        {"ETag": "no quotes"},
        {"Last-Modified": now},
        {"Last-Modified": formatdate(4 * 10**9, usegmt=True)},
        {"Last-Modified": "yesterday"},
        {"Last-Modified": "Mon, 99 Foo 0000 99:99:99 GMT"},
    ]
    taken = [{"ETag": 'W/"a"'}, {"ETag": '"a"', "Last-Modified": now}, {"Last-Modified": old}]
    every = [*refused, *taken]
    mock_site.add("/start", page("start", *(f"/p/{i}" for i in range(len(every)))))
    for i, headers in enumerate(every):
        mock_site.pages[f"/p/{i}"] = Reply(product(i), headers=headers)
    recrawl(mock_site, tmp_path)
    db = opened(tmp_path / FILE)
    query = "SELECT url FROM page WHERE coalesce(etag, modified) IS NOT NULL ORDER BY url"
    kept = [url for (url,) in db.execute(query)]
    db.close()
    assert kept == [mock_site.url(f"/p/{i}") for i in (10, 8, 9)]


def test_a_server_that_says_304_for_a_changed_page_is_not_asked_again(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(mock_site, "/start", page("start", "/list"), tag='"same"')
    add(mock_site, "/list", page("list", *(f"/p/{i}" for i in range(N))), tag='"same"')
    for i in range(N):
        add(mock_site, f"/p/{i}", product(i), tag='"same"')
    recrawl(mock_site, tmp_path)
    for i in range(N):
        add(mock_site, f"/p/{i}", product(i, "99.00"), tag='"same"')
    conditional.READ_SHARE = 0.5
    random.seed(7)
    second = recrawl(mock_site, tmp_path)
    assert second.stat("recrawl/refuted") == 1
    assert "read by the next crawl" in caplog.text
    third = recrawl(mock_site, tmp_path)
    assert unread(third) == third.stat("recrawl/asked") == 0
    assert {*second.urls, *third.urls} == {mock_site.url(f"/p/{i}") for i in range(N)}


class AnyIsEnough(MockSite):
    """Takes a page for unchanged if its tag or its date is the same, as many scripts do."""

    def conditioned(self, reply: Reply, asked: Mapping[str, str]) -> Reply:
        ours = (reply.headers.get("ETag"), reply.headers.get("Last-Modified"))
        theirs = (asked.get("If-None-Match"), asked.get("If-Modified-Since"))
        is_same = any(one and one == other for one, other in zip(ours, theirs, strict=True))
        return Reply(status=304) if is_same else reply


def test_a_date_that_never_changes_hides_no_page_whose_tag_does(tmp_path: Path) -> None:
    fixed = {"Last-Modified": formatdate(10**9, usegmt=True)}
    with running_site(AnyIsEnough) as site:
        add_shop(site)
        for price in ("1.00", "2.00"):
            for i in range(N):
                add(site, f"/p/{i}", product(i, price), **fixed)
            outcome = recrawl(site, tmp_path)
            assert len(outcome.items) == N
        assert recrawl(site, tmp_path).items == []
        assert unread(recrawl(site, tmp_path)) == N + 1


class NeverChanged(MockSite):
    """Takes a page for unchanged whenever it is asked so, whatever its tag or date is."""

    def conditioned(self, reply: Reply, asked: Mapping[str, str]) -> Reply:
        is_asked = "If-None-Match" in asked or "If-Modified-Since" in asked
        return Reply(status=304) if is_asked and reply.status == 200 else reply


@pytest.mark.parametrize("name", ["ETag", "Last-Modified"])
def test_a_server_that_takes_every_page_for_unchanged_is_found_out_when_it_is_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """Though a page that changed has another tag or date, if it is read."""
    with running_site(NeverChanged) as site:
        for visit in range(3):
            given = {"ETag": f'"{visit}"', "Last-Modified": formatdate(10**9 + visit, usegmt=True)}
            validator = {name: given[name]}
            site.pages["/start"] = Reply(page("start", "/list"), headers=validator)
            links = page("list", *(f"/p/{i}" for i in range(N)))
            site.pages["/list"] = Reply(links, headers=validator)
            for i in range(N):
                site.pages[f"/p/{i}"] = Reply(product(i, f"{visit}.00"), headers=validator)
            outcome = recrawl(site, tmp_path)
            assert len(outcome.items) == N
            assert outcome.stat("recrawl/refuted") == (visit == 1)
    assert caplog.text.count("that it never had") == 1


def test_a_date_that_a_page_never_had_is_one_by_rfc_9110_in_whatever_zone_it_was_given() -> None:
    given = Validators(None, b"Sun, 09 Sep 2001 03:46:40 +0200")
    assert given.never_given() == Validators(None, b"Sat, 09 Sep 2000 01:46:40 GMT")


def test_an_honest_server_that_is_put_to_the_test_is_asked_on(
    mock_site: MockSite, tmp_path: Path
) -> None:
    old = {"Last-Modified": formatdate(10**9, usegmt=True)}
    mock_site.pages["/start"] = Reply(page("start", *(f"/p/{i}" for i in range(N))), headers=old)
    for i in range(N):
        mock_site.pages[f"/p/{i}"] = Reply(product(i), headers=old)
    counts = [unread(recrawl(mock_site, tmp_path)) for _ in range(4)]
    assert counts == [0, N, N, N]


@pytest.mark.parametrize("days", [-1, 1])
def test_an_answer_of_another_date_makes_the_page_be_read(
    mock_site: MockSite, tmp_path: Path, days: int
) -> None:
    old, other = (formatdate(10**9 + day * 86400, usegmt=True) for day in (0, days))
    add_shop(mock_site)
    mock_site.pages["/p/1"] = Reply(product(1), headers={"Last-Modified": old})
    recrawl(mock_site, tmp_path)
    mock_site.pages["/p/1"] = Reply(status=304, headers={"Last-Modified": other})
    assert "gone" not in found(recrawl(mock_site, tmp_path))
    assert mock_site.gets("/p/1") == 3


class Refusing(MockSite):
    """Answers its lists otherwise if they are asked for only if they changed."""

    refusal = Reply(page("refused"), 412)

    def conditioned(self, reply: Reply, asked: Mapping[str, str]) -> Reply:
        is_asked = "If-None-Match" in asked
        return self.refusal if is_asked and reply.body.startswith(LIST) else reply


LIST = page("list")[:40]
REFUSALS = {
    "412": Reply(page("refused"), 412),
    "400": Reply(page("refused"), 400),
    "500": Reply(page("refused"), 500),
    "501, which is not retried": Reply(page("refused"), 501),
    "an empty page": Reply(b"", 200),
    "no content": Reply(b"", 204),
}


def add_lists(site: MockSite, n: int, price: str) -> None:
    """A start page that links to n lists, which never change, of a thing each."""
    site.add("/start", page("start", *(f"/list/{i}" for i in range(n))))
    for i in range(n):
        add(site, f"/list/{i}", page("list", f"/p/{i}"))
        site.add(f"/p/{i}", product(i, price))


@pytest.mark.parametrize("how", REFUSALS)
def test_a_page_is_read_whose_server_fails_if_it_is_asked_whether_it_changed(
    tmp_path: Path, how: str
) -> None:
    with running_site(Refusing) as site:
        site.refusal = REFUSALS[how]
        for price in ("1.00", "2.00", "3.00"):
            add_lists(site, N, price)
            outcome = recrawl(site, tmp_path, DEFAULT_REQUEST_HEADERS={})
            assert len(outcome.items) == N


def test_a_host_is_asked_no_more_in_a_crawl_in_which_it_failed_five_times_for_that(
    tmp_path: Path,
) -> None:
    one_at_a_time = {"CONCURRENT_REQUESTS": 1}
    with running_site(Refusing) as site:
        add_lists(site, N, "1.00")
        recrawl(site, tmp_path)
        recrawl(site, tmp_path, **one_at_a_time)
        assert sum(site.gets(f"/list/{i}") for i in range(N)) == 2 * N + 5


def test_a_server_that_is_down_gets_no_more_requests_than_scrapy_makes(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_lists(mock_site, N, "1.00")
    recrawl(mock_site, tmp_path, DEFAULT_REQUEST_HEADERS={})
    for i in range(N):
        mock_site.add(f"/list/{i}", page("down"), 503)
    recrawl(mock_site, tmp_path, DEFAULT_REQUEST_HEADERS={})
    assert [mock_site.gets(f"/list/{i}") for i in range(N)] == [1 + 3] * N


def test_a_page_that_is_gone_is_not_asked_for_again(mock_site: MockSite, tmp_path: Path) -> None:
    add_lists(mock_site, N, "1.00")
    recrawl(mock_site, tmp_path)
    mock_site.add("/list/3", page("gone"), 404)
    recrawl(mock_site, tmp_path)
    assert mock_site.gets("/list/3") == 2


class InFlight(MockSite):
    """Answers /late once all things are asked for, and these once its item is there."""

    is_held = False

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.all_asked, self.is_compared = Event(), Event()

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        reply = super().reply(method, path, cookie, body)
        if all(self.gets(f"/p/{i}") == 2 for i in range(N)):
            self.all_asked.set()
        if self.is_held and path.startswith(("/late", "/p/")):
            assert (self.all_asked if path == "/late" else self.is_compared).wait(30)
        return reply


class Telling(Shop):
    """Tells of its first item."""

    has_item: Event

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.tell, signal=signals.item_scraped)
        return spider

    def tell(self) -> None:
        self.has_item.set()


def test_a_server_that_is_found_out_is_not_believed_in_answers_that_are_on_their_way(
    tmp_path: Path,
) -> None:
    with running_site(InFlight) as site:
        add(site, "/start", page("start", "/late", *(f"/p/{i}" for i in range(N))))
        for day, tag in (("12.50", '"same"'), ("99.00", 'W/"same"')):
            add(site, "/late", product(99, day), tag=tag)
            for i in range(N):
                add(site, f"/p/{i}", product(i, day), tag='"same"')
            where = {"NEARDUP_STATE_DIR": str(tmp_path), "NEARDUP_RECRAWL": "changed"}
            at_once = {"CONCURRENT_REQUESTS": N + 1, "CONCURRENT_REQUESTS_PER_DOMAIN": N + 1}
            has_item = site.is_compared
            outcome = crawl(Telling, where | at_once, seed=site.url("/start"), has_item=has_item)
            site.is_held = True
            assert len(outcome.items) == N + 1
            site.is_compared.clear()
    assert outcome.stat("recrawl/refuted") == 1
    assert unread(outcome) == 0


def test_a_server_with_a_new_tag_at_every_visit_is_not_asked_again(
    mock_site: MockSite, tmp_path: Path
) -> None:
    n = 5 * N  # more than are on their way at once

    def show(visit: int) -> None:
        body = page("start", *(f"/p/{i}" for i in range(n)))
        add(mock_site, "/start", body, tag=f'"{visit}"')
        for i in range(n):
            add(mock_site, f"/p/{i}", product(i), tag=f'"{visit}-{i}"')

    show(1)
    recrawl(mock_site, tmp_path)
    show(2)
    second = recrawl(mock_site, tmp_path)
    assert second.items == []
    assert 0 < second.stat("recrawl/asked") < n
    show(3)
    assert recrawl(mock_site, tmp_path).stat("recrawl/asked") == 0


def test_the_first_page_and_a_share_of_them_are_read_in_full(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    conditional.READ_SHARE = 1.0
    second = recrawl(mock_site, tmp_path)
    assert second.stat("recrawl/asked") == 0
    assert found(second) == {"unchanged": N + 2}


def test_a_page_is_read_after_its_server_was_taken_at_its_word_for_long(
    mock_site: MockSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditional, "MAX_TRUSTED", 2)
    add_shop(mock_site)
    counts = [unread(recrawl(mock_site, tmp_path)) for _ in range(5)]
    assert counts[:3] == [0, N + 1, N + 1]
    assert counts[3] <= 1


class Categories(Shop):
    """Tells each page's callback by what list it was found."""

    label = "first"

    def parse(self, response: Response, label: str = "") -> Iterator[Any]:
        for output in super().parse(response):
            if isinstance(output, Request):
                output.cb_kwargs["label"] = self.label
            else:
                output["label"] = label
            yield output


def test_a_callback_that_is_given_something_else_reads_the_page(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path, Categories)
    # Read are the two pages that hand on the label, and one as the host's first.
    assert unread(recrawl(mock_site, tmp_path, Categories)) == N - 1

    class Other(Categories):
        name = "shop"
        label = "second"

    third = recrawl(mock_site, tmp_path, Other)
    assert unread(third) == 0
    assert len(third.items) == N


class Priced(Request):
    """A request with an attribute of its own."""

    attributes = (*Request.attributes, "price")

    def __init__(self, *args: Any, price: str = "", **options: Any) -> None:
        self.price = price
        super().__init__(*args, **options)


HANDED_ON: dict[str, Callable[[Request, str], Request]] = {
    "flags": lambda request, price: request.replace(flags=[price]),
    "a header": lambda request, price: request.replace(headers={"X-Price": price}),
    "cookies": lambda request, price: request.replace(cookies={"price": price}),
    "a fragment": lambda request, price: request.replace(url=f"{request.url}#{price}"),
    "a campaign": lambda request, price: request.replace(url=f"{request.url}?utm_id={price}"),
    "a private name": lambda request, price: request.replace(meta={"_item": {"price": price}}),
    "a name like Scrapy's": lambda request, price: request.replace(meta={"retry_price": price}),
    "a session": lambda request, price: request.replace(meta={"cookiejar": price}),
    "an attribute": lambda request, price: request.replace(cls=Priced, price=price),
}


@pytest.mark.parametrize("how", HANDED_ON)
def test_what_a_request_hands_on_is_known_however_it_does(
    mock_site: MockSite, tmp_path: Path, how: str
) -> None:
    prices = ["1"]

    class Handing(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            for output in super().parse(response):
                is_link = isinstance(output, Request) and "/p/" in output.url
                yield HANDED_ON[how](output, prices[-1]) if is_link else output

    add_shop(mock_site)
    for i, price in pairs(range(N), "12"):
        mock_site.pages[f"/p/{i}?utm_id={price}"] = mock_site.pages[f"/p/{i}"]
    recrawl(mock_site, tmp_path, Handing)
    assert unread(recrawl(mock_site, tmp_path, Handing)) >= N - 1
    add(mock_site, "/list", page("list of today", *(f"/p/{i}" for i in range(N))))
    prices.append("2")
    assert unread(recrawl(mock_site, tmp_path, Handing)) <= 1  # the page that links to the list


def with_default(spider: Shop, price: str) -> Callable[[Response], Any]:
    def read(response: Response, price: str = price) -> Iterator[Any]:
        yield {"url": response.url, "price": price}

    return read


def with_closure(spider: Shop, price: str) -> Callable[[Response], Any]:
    def read(response: Response) -> Iterator[Any]:
        yield {"url": response.url, "price": price}

    return read


class Reader:
    """Keeps what was found on a list beside the callback."""

    def __init__(self, price: str) -> None:
        self.price = price

    def read(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "price": self.price}


@pytest.mark.parametrize(
    "callback", [with_default, with_closure, lambda _, price: Reader(price).read]
)
def test_a_price_that_a_callback_holds_itself_is_never_taken_for_an_old_one(
    mock_site: MockSite, tmp_path: Path, callback: Callable[[Shop, str], Callable[[Response], Any]]
) -> None:
    class Nested(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            for link in response.css("a::attr(href)").getall():
                is_thing = "/p/" in link
                yield response.follow(link, callback(self, prices[-1]) if is_thing else None)

    add_shop(mock_site)
    prices: list[str] = []
    for price in "123":
        prices.append(price)
        add(mock_site, "/list", page(f"list {price}", *(f"/p/{i}" for i in range(N))))
        outcome = recrawl(mock_site, tmp_path, Nested)
        assert [item["price"] for item in outcome.items] == [price] * N


def test_a_spider_with_other_arguments_reads_the_pages(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    where = {"NEARDUP_STATE_DIR": str(tmp_path), "NEARDUP_RECRAWL": "changed"}
    for depth, expected in (("1", 0), ("2", 0), ("2", N + 1)):
        outcome = crawl(Shop, where, seed=mock_site.url("/start"), pages=depth)
        assert unread(outcome) == expected


class Wanted:
    """A class of the project."""

    def __init__(self, *brands: str) -> None:
        self.brands = set(brands)
        self.file = io.StringIO()


def holding(**made: Callable[[], Any]) -> type[Shop]:
    """A spider with attributes that are made when it is."""

    class Holding(Shop):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            vars(self).update({name: make() for name, make in made.items()})

    return Holding


def test_a_spider_with_attributes_of_other_contents_reads_the_pages(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_shop(mock_site)
    caplog.set_level("INFO")
    wanted: list[Wanted] = []
    choosy = holding(wanted=lambda: wanted[-1])
    for brands, expected in (("ab", 0), ("ab", N + 1), ("ba", N + 1), ("ac", 0), ("ac", N + 1)):
        wanted.append(Wanted(*brands))
        caplog.clear()
        assert unread(recrawl(mock_site, tmp_path, choosy)) == expected
    assert "'wanted' (_io.StringIO)" in caplog.text


def test_a_spider_that_holds_the_time_of_the_crawl_is_said_to_be_why_pages_are_read(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    timed = holding(started=lambda: datetime.now(UTC))
    add_shop(mock_site)
    caplog.set_level("INFO")
    assert recrawl(mock_site, tmp_path, timed).stat("recrawl/other_program") == 0
    assert "depend on" not in caplog.text
    second = recrawl(mock_site, tmp_path, timed)
    assert unread(second) == 0
    assert second.stat("recrawl/other_program") == N + 2
    assert f"{N + 2} known pages were read in full, since what their callbacks depend on" in (
        caplog.text
    )


def test_a_spider_with_other_settings_of_its_own_reads_the_pages(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    for currency, expected in (("EUR", 0), ("USD", 0), ("USD", N + 1)):
        assert unread(recrawl(mock_site, tmp_path, CURRENCY=currency)) == expected


@pytest.mark.parametrize(
    "settings",
    [
        {"NEARDUP_ACTION": "tag"},
        {"NEARDUP_RECRAWL": "all"},
        {"HTTPERROR_ALLOWED_CODES": [304]},
        {"DEPTH_LIMIT": 7},
    ],
)
def test_servers_are_not_asked_where_the_page_is_wanted(
    mock_site: MockSite, tmp_path: Path, settings: dict[str, Any]
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    assert recrawl(mock_site, tmp_path, **settings).stat("recrawl/asked") == 0


def test_the_cache_of_scrapy_is_left_alone(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    policy = "scrapy.extensions.httpcache.RFC2616Policy"
    cache = {
        "HTTPCACHE_ENABLED": True,
        "HTTPCACHE_DIR": str(tmp_path / "cache"),
        "HTTPCACHE_POLICY": policy,
    }
    recrawl(mock_site, tmp_path / "state", **cache)
    add(mock_site, "/p/3", product(3, "1.00"))
    second = recrawl(mock_site, tmp_path / "state", **cache)
    assert second.stat("recrawl/asked") == 0
    assert second.urls == [mock_site.url("/p/3")]


def test_conditions_of_the_spider_are_its_own(mock_site: MockSite, tmp_path: Path) -> None:
    class Asking(Shop):
        handle_httpstatus_list: ClassVar = [304]
        codes: ClassVar[Counter[int]] = Counter()

        def parse(self, response: Response) -> Iterator[Any]:
            self.codes[response.status] += 1
            if response.status == 200:
                for output in super().parse(response):
                    if isinstance(output, Request) and output.url.endswith("/p/1"):
                        tag = mock_site.pages["/p/1"].headers["ETag"]
                        output.headers["If-None-Match"] = tag
                    yield output

    add_shop(mock_site)
    recrawl(mock_site, tmp_path, Asking)
    recrawl(mock_site, tmp_path, Asking)
    assert Asking.codes == {200: 2 * (N + 1), 304: 2}


def test_a_redirect_is_not_asked_by_the_validators_of_another_page(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.pages["/p/1"] = redirect("/q/1", 301)
    add(mock_site, "/q/1", product(77), tag=mock_site.pages["/p/2"].headers["ETag"])
    mock_site.pages["/q/1"] = tagged(product(77), tagged(product(1)).headers["ETag"])
    second = recrawl(mock_site, tmp_path)
    assert mock_site.url("/q/1") in second.urls


def test_an_answer_of_another_tag_makes_the_page_be_read(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.pages["/p/1"] = Reply(status=304, headers={"ETag": '"another"'})
    for _ in range(2):
        outcome = recrawl(mock_site, tmp_path)
        assert "gone" not in found(outcome)
    assert mock_site.gets("/p/1") == 5


@pytest.mark.parametrize("callback", [None, NO_CALLBACK])
def test_a_spider_that_downloads_inline_reads_its_pages(
    mock_site: MockSite, tmp_path: Path, callback: Any
) -> None:
    """NO_CALLBACK: as scrapy-poet's HttpClient does, and others that handle what they ask for."""

    class Inline(Shop):
        def parse_seed(self, response: Response) -> Iterator[Any]:
            yield from Shop.parse(self, response)

        async def parse(self, response: Response) -> Any:
            price = "0"
            if "/p/" in response.url:
                request = Request(response.urljoin("/price"), callback)
                price = (await self.crawler.engine.download_async(request)).text
            for output in Shop.parse(self, response):
                yield output if isinstance(output, Request) else output | {"price": price}

    add_shop(mock_site)
    mock_site.add("/price", "1")
    recrawl(mock_site, tmp_path, Inline)
    mock_site.add("/price", "2")
    second = recrawl(mock_site, tmp_path, Inline)
    assert len(second.items) == N
    assert second.stat("recrawl/asked") == 0


def test_media_and_robots_txt_do_not_make_a_spider_read_its_pages(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class Pictured(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            for output in Shop.parse(self, response):
                files = [response.urljoin("/moved"), response.urljoin("/picture.png")]
                yield output if isinstance(output, Request) else output | {"file_urls": files}

    add_shop(mock_site)
    mock_site.add("/picture.png", "a picture")
    options = {
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
        "FILES_STORE": str(tmp_path / "files"),
        "MEDIA_ALLOW_REDIRECTS": True,
        "ROBOTSTXT_OBEY": True,
    }
    recrawl(mock_site, tmp_path / "state", Pictured, **options)
    second = recrawl(mock_site, tmp_path / "state", Pictured, **options)
    assert mock_site.gets("/picture.png") == 1
    assert second.stat("recrawl/asked") > 0


@pytest.mark.parametrize(
    "given",
    [
        {"headers": {"Authorization": "Bearer 1"}},
        {"headers": {"x-csrf-TOKEN": "1"}},
        {"headers": {"X-ApiKey": "1"}},
        {"headers": {"Cookie": "a=1"}},
        {"cookies": {"a": "1"}},
    ],
)
def test_requests_that_carry_a_login_are_not_made_again(
    mock_site: MockSite, tmp_path: Path, given: dict[str, Any]
) -> None:
    class LoggedIn(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            for output in super().parse(response):
                is_list = response.url.endswith("/list")
                yield output.replace(**given) if is_list and isinstance(output, Request) else output

    add_shop(mock_site)
    recrawl(mock_site, tmp_path, LoggedIn)
    assert unread(recrawl(mock_site, tmp_path, LoggedIn)) == N  # all but the list


def test_requests_that_would_come_back_as_others_are_not_made_again(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class Numbered(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            for output in super().parse(response):
                is_link = isinstance(output, Request)
                number = getattr(response.request, "number", "")
                yield numbered(output) if is_link else output | {"number": number}

    def numbered(request: Request) -> Request:
        request = request.replace(cls=NumberedRequest)
        request.number = request.url.rpartition("/")[2]
        return request

    add_shop(mock_site)
    recrawl(mock_site, tmp_path, Numbered)
    add(mock_site, "/p/3", product(3, price="11.00"))
    second = recrawl(mock_site, tmp_path, Numbered)
    assert [item["number"] for item in second.items] == ["3"]
    assert unread(second) == N - 2  # all but the first of the host and the changed one


class NumberedRequest(Request):
    """Holds what Request.to_dict() does not know of."""

    number = ""


@pytest.mark.parametrize("revisit", [{}, {"NEARDUP_REVISIT": "adaptive"}])
def test_pages_are_read_whose_callback_hands_on_another_thing_in_each_crawl(
    mock_site: MockSite, tmp_path: Path, revisit: dict[str, str]
) -> None:
    days = iter(range(1, 9))

    class Dated(Shop):
        def parse_seed(self, response: Response) -> Iterator[Any]:
            yield from Shop.parse(self, response)

        def parse(self, response: Response) -> Iterator[Any]:
            for output in super().parse(response):
                if isinstance(output, dict):
                    yield output | {"day": response.meta.get("day")}
                elif output.url.endswith("/p/0"):
                    yield output.replace(meta={"day": next(days)})
                else:
                    yield output

    add_shop(mock_site)
    recrawl(mock_site, tmp_path, Dated, **revisit)
    for price, day in (("1.00", 2), ("2.00", 3)):
        add(mock_site, "/p/0", product(0, price))
        outcome = recrawl(mock_site, tmp_path, Dated, **revisit)
        assert [(item["price"], item["day"]) for item in outcome.items] == [(price, day)]


class Reviewed(Shop):
    """Hands each price on to the page of its reviews, which gives the item."""

    def parse(self, response: Response) -> Iterator[Any]:
        price = response.css(".price::text").get()
        for link in response.css("a::attr(href)").getall():
            if price is None:
                yield response.follow(link)
            else:
                yield response.follow(link, self.parse_review, cb_kwargs={"price": price})

    def parse_review(self, response: Response, price: str) -> Iterator[Any]:
        yield {"review": response.url, "price": price}


def versions(i: int, visit: int) -> int:
    """At which visit a price was last another: of some things at each one, of others at one."""
    return visit if i % 4 == 0 else min(visit, i % 4 - 1)


def test_a_price_that_is_handed_on_is_that_of_a_page_that_has_changed(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Though prices pass for a trifle on pages that never gave an item."""
    for visit in range(3):
        add_shop(mock_site, 36)
        for i in range(36):
            price = f"{10 + i % 9}.{versions(i, visit)}5"
            link = f'<a href="/r/{i}">reviews</a></body>'.encode()
            add(mock_site, f"/p/{i}", product(i, price).replace(b"</body>", link))
            add(mock_site, f"/r/{i}", page(f"Reviews of {i}", ""))
        outcome = recrawl(mock_site, tmp_path, Reviewed)
        news = {f"{10 + i % 9}.{visit}5" for i in range(36) if versions(i, visit) == visit}
        assert news <= {item["price"] for item in outcome.items}
    assert outcome.stat("recrawl/minor") > 0
    assert "in full from now on" not in caplog.text
    assert unread(outcome) > 0


class OnlyPages:
    """A downloader middleware that wants no other status than 200."""

    def process_response(self, request: Request, response: Response) -> Response:
        if response.status != 200:
            raise IgnoreRequest(f"status {response.status}")
        return response


@pytest.mark.parametrize("revisit", [{}, {"NEARDUP_REVISIT": "adaptive"}])
def test_a_middleware_that_refuses_a_304_loses_no_page(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture, revisit: dict[str, str]
) -> None:
    settings = {"DOWNLOADER_MIDDLEWARES": {OnlyPages: 543}} | revisit
    add_shop(mock_site)
    recrawl(mock_site, tmp_path, **settings)
    if not revisit:
        add(mock_site, "/p/3", product(3, price="11.00"))
        assert recrawl(mock_site, tmp_path, **settings).urls == [mock_site.url("/p/3")]
    else:
        assert found(recrawl(mock_site, tmp_path, **settings)) == {"unchanged": N + 2}
    assert caplog.text.count("IgnoreRequest('status 304')") == 1
    third = recrawl(mock_site, tmp_path, **settings)
    assert found(third) == {"unchanged": N + 2}
    assert unread(third) == third.stat("recrawl/not_due") == 0


def test_a_spider_that_no_longer_downloads_inline_is_asked_about_again(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class Sometimes(Shop):
        is_inline: ClassVar = True

        def parse_seed(self, response: Response) -> Iterator[Any]:
            yield from Shop.parse(self, response)

        async def parse(self, response: Response) -> Any:
            if self.is_inline and "/p/" in response.url:
                await self.crawler.engine.download_async(Request(response.urljoin("/price")))
            for output in Shop.parse(self, response):
                yield output

    add_shop(mock_site)
    mock_site.add("/price", "1")
    recrawl(mock_site, tmp_path, Sometimes)
    assert recrawl(mock_site, tmp_path, Sometimes).stat("recrawl/asked") == 0
    Sometimes.is_inline = False
    cut_short = recrawl(mock_site, tmp_path, Sometimes, CLOSESPIDER_PAGECOUNT=2)
    assert cut_short.stat("recrawl/asked") == 0
    assert recrawl(mock_site, tmp_path, Sometimes).stat("recrawl/asked") == 0  # all are read
    assert unread(recrawl(mock_site, tmp_path, Sometimes)) > 0
    Sometimes.is_inline = True
    mock_site.add("/p/3", product(3, "99"))
    recrawl(mock_site, tmp_path, Sometimes)
    assert recrawl(mock_site, tmp_path, Sometimes).stat("recrawl/asked") == 0


def test_validators_of_a_site_out_of_order_are_forgotten_with_its_pages(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    whole = dict(mock_site.pages)
    for i in range(N):
        add(mock_site, f"/p/{i}", b"<h1>Sorry</h1><p>We are being repaired</p>")
    second = recrawl(mock_site, tmp_path)
    assert second.stat("recrawl/reverted") == 1
    mock_site.pages.update(whole)
    third = recrawl(mock_site, tmp_path)
    assert third.items == []
    assert found(third) == {"unchanged": N + 2}


def test_a_page_whose_last_reading_failed_is_read(mock_site: MockSite, tmp_path: Path) -> None:
    class Raising(Shop):
        fails = True

        def parse(self, response: Response) -> Iterator[Any]:
            yield from super().parse(response)
            if self.fails and response.url.endswith("/p/3"):
                raise ValueError("no such field")

    add_shop(mock_site)
    recrawl(mock_site, tmp_path, Raising)
    Raising.fails = False
    assert recrawl(mock_site, tmp_path, Raising).urls == [mock_site.url("/p/3")]


def test_pages_gone_are_found_though_their_lists_are_not_downloaded(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    mock_site.add("/p/4", "gone", status=410)
    assert found(recrawl(mock_site, tmp_path)) == {"unchanged": N + 1, "gone": 1}
    assert found(recrawl(mock_site, tmp_path)) == {"unchanged": N + 1}


# Scrapy 2.15 leaves the file of an empty queue open.
@pytest.mark.filterwarnings("ignore:Exception ignored in.*FileIO")
def test_links_are_followed_from_a_queue_on_disk(mock_site: MockSite, tmp_path: Path) -> None:
    add_shop(mock_site)
    folder = tmp_path / "state"
    recrawl(mock_site, folder)
    job = {"JOBDIR": str(tmp_path / "job"), "CLOSESPIDER_PAGECOUNT": 4}
    first = recrawl(mock_site, folder, **job)
    assert first.stats["finish_reason"] == "closespider_pagecount"
    rest = recrawl(mock_site, folder, **(job | {"CLOSESPIDER_PAGECOUNT": 0}))
    assert found(rest) == {"unchanged": N + 2}
    assert rest.items == []


@pytest.mark.parametrize("name", ["ETag", "Last-Modified", "Date"])
def test_validators_of_a_megabyte_are_none(name: str) -> None:
    headers = {"Last-Modified": formatdate(10**9, usegmt=True), "Date": formatdate(usegmt=True)}
    response = Response("http://a.example/", headers=headers | {name: '"' + "x" * 2**20 + '"'})
    kept = Validators.of(response)
    assert kept == Validators(None, headers["Last-Modified"].encode() if name == "ETag" else None)


def test_a_site_that_moves_to_https_has_the_same_pages() -> None:
    assert url_key("http://a.example/p?x=1") == url_key("https://a.example/p?x=1")


def test_another_spider_of_the_state_reads_what_it_never_read(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class Other(Shop):
        name = "other"

    add_shop(mock_site)
    recrawl(mock_site, tmp_path)
    first = recrawl(mock_site, tmp_path, Other)
    assert first.stat("recrawl/asked") == 0
    assert found(first) == {"new": N + 2}
    for spider in (Shop, Other):
        assert unread(recrawl(mock_site, tmp_path, spider)) == N + 1


def test_a_recrawl_that_was_killed_goes_on_without_asking_twice(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_shop(mock_site)
    start = mock_site.url("/start")
    settings = {
        "DEPTH_PRIORITY": 1,
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    }
    recrawl(mock_site, tmp_path, **settings)
    add(mock_site, "/p/5", product(5, "99"))
    arguments = [sys.executable, "-c", KILLED, start, str(tmp_path)]
    root = Path(__file__).resolve().parents[1]
    killed = subprocess.run(arguments, capture_output=True, cwd=root, check=False)
    assert killed.returncode == -signal.SIGKILL
    asked = mock_site.gets("/p/7")
    rest = recrawl(mock_site, tmp_path, **settings)
    assert rest.urls == [mock_site.url("/p/5")]
    assert found(rest) == {"unchanged": N + 1, "changed": 1}
    assert mock_site.gets("/p/0") == 2
    assert mock_site.gets("/p/7") == asked + 1  # it may have been on its way

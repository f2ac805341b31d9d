"""The page question: near-duplicates are dropped, tagged or counted, and nothing else is."""

import asyncio
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
import scrapy
from crawls import SETTINGS, PagesSpider, crawl, crawl_requests
from mock_site import MockSite, Reply, cut_off, page, prose
from scrapy import Request
from scrapy.exceptions import DropItem, StopDownload
from scrapy.extensions.closespider import CloseSpider
from scrapy.http import Response

from scrapy_neardup import NearDuplicate
from scrapy_neardup.crawl.items.source_page import HandedItems
from scrapy_neardup.crawl.pages.crawled_pages import CrawledPages
from scrapy_neardup.crawl.pages.judge import PageJudge
from scrapy_neardup.detect.item_table import ItemTable
from scrapy_neardup.index.scan import ScanIndex


def pages(site: MockSite, spider: type[PagesSpider], *paths: str, **settings: Any) -> Any:
    requests = [Request(site.url(p), priority=-i) for i, p in enumerate(paths)]
    neardup = {f"NEARDUP_{k}": v for k, v in settings.items()}
    return crawl(spider, neardup, seed=site.url("/page/seed"), requests=lambda: iter(requests))


def test_an_exact_copy_is_dropped_and_names_its_original(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/page/1", "/copy/1", "/page/2")
    assert outcome.urls == [mock_site.url("/page/1"), mock_site.url("/page/2")]
    (item, error) = outcome.dropped[0]
    assert item == {"url": mock_site.url("/copy/1")}
    assert isinstance(error, NearDuplicate)
    assert str(error) == (f"exact duplicate of {mock_site.url('/page/1')}")
    assert outcome.stat("pages/exact") == 1
    assert outcome.stats["item_dropped_reasons_count/NearDuplicate"] == 1


def test_a_near_copy_is_dropped_with_its_distance(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/page/2", "/near/2")
    assert outcome.urls == [mock_site.url("/page/2")]
    error = outcome.dropped[0][1]
    assert isinstance(error, NearDuplicate)
    distance = error.decision.distance
    assert f"near-duplicate of {mock_site.url('/page/2')}: {distance} bits apart" in str(error)
    assert outcome.stat(f"pages/near/distance/{distance}") == 1


class Stopping(PagesSpider):
    """Wants no more of a page than its first bytes."""

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        crawler.signals.connect(cls.stop, scrapy.signals.bytes_received)
        return super().from_crawler(crawler, *args, **kwargs)

    @staticmethod
    def stop(request: Request) -> None:
        if "/part/" in request.url:
            raise StopDownload(fail=False)


# One that came whole, and two of which this came only.
BEGINNING = page(prose("menu"))
PARTS = {
    "a broken connection": cut_off(BEGINNING + b"<p>more</p>", len(BEGINNING)),
    "a spider that stops": Reply(BEGINNING),
    "a range": Reply(BEGINNING, status=206),
}


@pytest.mark.parametrize("compare", ["item", "page"])
@pytest.mark.parametrize("reply", PARTS.values(), ids=PARTS)
def test_pages_of_which_only_a_part_came_repeat_none_and_are_repeated_by_none(
    mock_site: MockSite, reply: Reply, compare: str
) -> None:
    mock_site.add("/whole", BEGINNING)
    mock_site.pages |= {"/part/1": reply, "/part/2": reply}
    paths = ("/part/1", "/part/2", "/whole")
    requests = [Request(mock_site.url(path), priority=-i) for i, path in enumerate(paths)]
    outcome = crawl(
        Stopping,
        {"DOWNLOAD_FAIL_ON_DATALOSS": False, "NEARDUP_COMPARE": compare},
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter(requests),
    )
    assert outcome.urls == [request.url for request in requests]
    assert outcome.stat("pages/cut_off") == 2
    assert outcome.stat("pages/read") == outcome.stat("pages/new") == 1


def test_tiny_pages_are_kept_unless_they_are_equal(mock_site: MockSite) -> None:
    mock_site.add("/tiny/again", mock_site.reply("GET", "/tiny/1", "", b"").body)
    outcome = crawl_requests(mock_site, "/tiny/1", "/tiny/2", "/tiny/again")
    assert outcome.urls == [mock_site.url("/tiny/1"), mock_site.url("/tiny/2")]


@pytest.mark.parametrize("limit", ["TIMEOUT_NO_ITEM", "PAGECOUNT_NO_ITEM"])
def test_a_crawl_that_is_to_end_without_items_goes_on_behind_copies(
    mock_site: MockSite, limit: str
) -> None:
    class Counting(PagesSpider):
        """The clock of the extension strikes with each page."""

        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url}

        @classmethod
        def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
            crawler.signals.connect(cls.strike, scrapy.signals.item_dropped)
            return super().from_crawler(crawler, *args, **kwargs)

        @staticmethod
        def strike(spider: Any) -> None:
            extension = spider.crawler.get_extension(CloseSpider)
            if extension.task_no_item is not None:
                extension._count_items_produced()

    copies = [Request(mock_site.url(f"/copy/1?n={n}"), priority=9 - n) for n in range(9)]
    for request in copies:
        mock_site.add(request.url.removeprefix(mock_site.root), page(prose("1")))
    outcome = crawl(
        Counting,
        # No page comes while the one before is in the pipelines.
        {f"CLOSESPIDER_{limit}": 5 if limit[0] == "P" else 100}
        | {"CONCURRENT_REQUESTS": 1, "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1},
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter([*copies, Request(mock_site.url("/page/2"))]),
    )
    assert mock_site.url("/page/2") in outcome.urls
    assert outcome.stat("items/dropped") == 8
    assert outcome.stats["finish_reason"] == "finished"


class WholePages(PagesSpider):
    """Its item is the page itself."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "html": response.text}


BLURB = prose("blurb", 200)
STATES = ("Sold out", "Available", "On order")
# Bodies that say different things in equal words.
SAID_ELSEWHERE = {
    "minus": ["<p>Now at -5 degrees", "<p>Now at 5 degrees"],
    "plus": ["<p>Compilers: C++", "<p>Compilers: C"],
    "currency": ["<p>Price: € 500", "<p>Price: $ 500"],
    "stars": ["<p>Rated ★", "<p>Rated ★★★"],
    "variable": [f"<p>Loading<script>var data = [{n}];</script>" for n in range(3)],
    "state": [
        f'<p>{BLURB}<script>window.__STATE__={{"items": [{{"id": {n}}}]}};run()</script>'
        for n in range(3)
    ],
    "next": [
        f'<p>{BLURB}<script id="__NEXT_DATA__" type="application/json">{{"sku": {n}}}</script>'
        for n in range(3)
    ],
    "json-ld": [
        f'<p>{BLURB}<script type="application/ld+json">{{"telephone": "+49 {n}"}}</script>'
        for n in range(3)
    ],
    "microdata": [
        f'<p>{BLURB}<meta itemprop="startDate" content="2026-05-{n}">' for n in (12, 13, 14)
    ],
    "meta": [
        f'<head><meta property="product:price" content="{n}"></head><p>{BLURB}' for n in range(3)
    ],
    "hidden": [
        f"<p>{BLURB}"
        + "".join(f"<p{' hidden' * (m != n)}>{state}" for m, state in enumerate(STATES))
        for n in range(3)
    ],
    "struck": [
        f"<p>{BLURB}<p>" + " ".join(s if s != t else f"<del>{s}</del>" for s in STATES)
        for t in STATES
    ],
    "gallery": [f"<p>Photo<img src=/img/{n}.png>" for n in range(3)],
    "links": [f"<p>Team <a href=mailto:{n}@x.example>Mail</a>" for n in range(3)],
    "attributes": [f"<p>Map<i data-lat={n}></i><input name=branch value=5>" for n in range(3)],
    "titles": [f"<head><title>Room {n}</title></head><p>Free" for n in range(3)],
    "script": [
        "<p>Loading<script>" + f"start({{id: {n % 2}}});" * 20 + "</script>" for n in (0, 1, 2)
    ],
}


@pytest.mark.parametrize("name", SAID_ELSEWHERE)
def test_whole_pages_that_say_other_things_in_equal_words_are_all_kept(
    mock_site: MockSite, name: str
) -> None:
    paths = [f"/said/{n}" for n in range(len(SAID_ELSEWHERE[name]))]
    for path, body in zip(paths, SAID_ELSEWHERE[name], strict=True):
        mock_site.add(path, body)
    outcome = pages(mock_site, WholePages, *paths)
    assert len(outcome.items) == len(paths)
    assert outcome.stat("pages/exact") == outcome.stat("pages/near") == 0
    assert outcome.stat("pages/mostly_script") == (3 if name == "script" else 0)


CHINESE = "".join(chr(0x4E8C + 7 * n) for n in range(200))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("AAPL rose", "MSFT rose"),
        ("of NaCl in", "of KCl in"),
        ("at http://a.example/list of", "at http://b.example/list of"),
        ("chapter IV says", "chapter VI says"),
        ("$5 million", "$5 billion"),
        ("if <math><mi>x<mo>&lt;<mi>y</math> is", "if <math><mi>x<mo>&gt;<mi>y</math> is"),
        ("part iii says", "part xiii says"),
        ("of twenty-one men", "of twenty-two men"),
        (
            "at https://pl.wikipedia.org/wiki/Łódź_Fabryczna_oak for",
            "at https://pl.wikipedia.org/wiki/Łódź_Fabryczna_ash for",
        ),
        ("…型号AX-R…", "…型号AX-Q…"),
        ("…可以…", "…不可以…"),
        ("…价格500元…", "…价格530元…"),
        ("…壹…", "…贰…"),
    ],
)
def test_of_whole_pages_facts_count_wherever_they_stand(
    mock_site: MockSite, one: str, other: str
) -> None:
    before, behind = prose("before", 120), prose("behind", 120)
    for path, fact in {"/1": one, "/2": other, "/3": other}.items():
        mock_site.add(path, page(f"{before} {fact.replace('…', CHINESE)} {behind}"))
    outcome = pages(mock_site, WholePages, "/1", "/2", "/3")
    assert [urlsplit(item["url"]).path for item in outcome.items] == ["/1", "/2"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<p>8 February 2027</p>", "<p>1 September 2027</p>"),
        ("<p>Storm, 14 °C, wind east</p>", "<p>Cloudy, 13 °C, wind west</p>"),
        ("<p>Tower 15:12 Cellar</p>", "<p>Chapel 14:11 Hall</p>"),
        ("house with 14 rooms at 1041 euro", "flat with 13 rooms at 1010 euro"),
        (
            "<article><header>8 February 2027</header>A talk.</article>",
            "<article><header>1 September 2027</header>A talk.</article>",
        ),
        ("<main><aside>cold 1041</aside></main>", "<main><aside>warm 1290</aside></main>"),
    ],
)
def test_of_whole_pages_a_fact_counts_though_other_words_differ_around_it_and_elsewhere(
    mock_site: MockSite, one: str, other: str
) -> None:
    text = prose("standing text", 800).split()
    for path, fact, word in (("/1", one, "sea"), ("/2", other, "lake")):
        words = [*text[:100], word, *text[100:400], fact, *text[400:700], word, *text[700:]]
        mock_site.add(path, page(" ".join(words)))
    assert len(pages(mock_site, WholePages, "/1", "/2").items) == 2


@pytest.mark.parametrize(("fact", "none"), [("12", "some"), ("IV", "I"), ("not", "also")])
def test_of_whole_pages_a_fact_counts_that_moves_to_another_sentence(
    mock_site: MockSite, fact: str, none: str
) -> None:
    before, behind = prose("before", 120), prose("behind", 120)
    for path, (first, second) in {"/1": (fact, none), "/2": (none, fact)}.items():
        told = f"The small one is {first} meant for them. The large one is {second} meant for them."
        mock_site.add(path, page(f"{before}. {told} {behind}"))
    assert len(pages(mock_site, WholePages, "/1", "/2").items) == 2


def test_of_whole_pages_other_words_of_a_long_line_do_not_count(mock_site: MockSite) -> None:
    before, behind = prose("before", 120), prose("behind", 120)
    for path, word in {"/1": "sea", "/2": "lake"}.items():
        mock_site.add(path, page(f"{before} {word} {behind}"))
    assert len(pages(mock_site, WholePages, "/1", "/2").items) == 1


def test_pages_whose_data_echo_the_visit_are_copies(mock_site: MockSite) -> None:
    for n in range(3):
        url = mock_site.url(f"/echo/{n}")
        state = {
            "url": url,
            "csrfToken": sha256(b"%d" % n).hexdigest(),
            "renderedAt": int(time.time()) - n,
            "id": 7,
        }
        script = f"<script>var state = {json.dumps(state)};</script>"
        mock_site.add(f"/echo/{n}", f"<p>{BLURB}{script}")
    outcome = pages(mock_site, PagesSpider, *(f"/echo/{n}" for n in range(3)))
    assert outcome.stat("pages/exact") == 2


class ThreeItems(PagesSpider):
    def parse(self, response: Response) -> Iterator[Any]:
        for n in range(3):
            yield {"url": response.url, "n": n}


def test_all_items_of_a_page_share_its_verdict(mock_site: MockSite) -> None:
    outcome = pages(mock_site, ThreeItems, "/page/1", "/copy/1")
    assert [item["n"] for item in outcome.items] == [0, 1, 2]
    assert outcome.stat("items/dropped") == 3
    assert outcome.stat("pages/read") == 2


class OneObject(PagesSpider):
    item: ClassVar[dict[str, Any]] = {}

    def parse(self, response: Response) -> Iterator[Any]:
        for n in range(3):
            self.item.update(url=response.url, n=n)
            yield self.item


def test_an_item_object_that_is_yielded_again_and_again_keeps_its_verdict(
    mock_site: MockSite,
) -> None:
    outcome = pages(mock_site, OneObject, "/page/1", "/copy/1", "/page/2")
    assert len(outcome.items) == 6
    assert outcome.stat("items/dropped") == 3
    assert outcome.stat("items/replaced_before_pipeline") == 0


def test_a_page_read_again_is_no_duplicate_of_itself(mock_site: MockSite) -> None:
    again = Request(mock_site.url("/page/1"), dont_filter=True)
    outcome = crawl_requests(mock_site, "/page/1", again)
    assert len(outcome.items) == 2


def test_tag_lets_items_pass_with_the_decision(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/page/1", "/copy/1", settings={"NEARDUP_ACTION": "tag"})
    assert "neardup" not in outcome.items[0]
    assert outcome.items[1]["neardup"]["original"] == mock_site.url("/page/1")
    assert outcome.stat("items/tagged") == 1


def test_a_page_that_holds_another_whole_is_kept_with_a_tag(mock_site: MockSite) -> None:
    head, article = "<title>On lamps</title>", prose("lamps", 300)
    mock_site.add("/article", page(article, head=head))
    mock_site.add("/article/comments", page(f"{article} {prose('comments', 100)}", head=head))
    paths = "/article", "/article/comments", "/page/1"
    outcome = crawl_requests(mock_site, *paths, settings={"NEARDUP_ACTION": "tag"})
    tagged = [item for item in outcome.items if "neardup" in item]
    assert [item["neardup"]["kind"] for item in tagged] == ["contains"]
    assert tagged[0]["neardup"]["original"] == mock_site.url("/article")
    assert (outcome.stat("items/kept"), outcome.stat("pages/contains")) == (3, 1)


def test_dry_run_only_counts(mock_site: MockSite) -> None:
    outcome = crawl_requests(
        mock_site, "/page/1", "/copy/1", settings={"NEARDUP_ACTION": "dry-run"}
    )
    assert outcome.items == [{"url": mock_site.url(p)} for p in ("/page/1", "/copy/1")]
    assert outcome.stat("items/would_drop") == 1


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    url: str


class Declared(scrapy.Item):
    url = scrapy.Field()


@dataclasses.dataclass
class Validated:
    url: str
    neardup: str = ""

    def __setattr__(self, name: str, value: object) -> None:
        if not isinstance(value, str):
            raise ValueError(f"{name} is a string, not {value!r}")
        super().__setattr__(name, value)


@pytest.mark.parametrize("make", [Frozen, Declared, Validated])
def test_items_of_every_type_are_dropped_and_those_without_room_pass_untagged(
    mock_site: MockSite, make: Any
) -> None:
    class Typed(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            yield make(url=response.url)

    assert len(pages(mock_site, Typed, "/page/1", "/copy/1").items) == 1
    tagged = pages(mock_site, Typed, "/page/1", "/copy/1", ACTION="tag")
    assert len(tagged.items) == 2
    assert tagged.stat("items/untaggable") == 1


class WithBody(PagesSpider):
    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "body": "".join(response.css("p::text").getall())}
        yield {"url": response.url, "other": "no body here"}


def test_item_fields_are_compared_instead_of_pages(mock_site: MockSite) -> None:
    outcome = pages(mock_site, WithBody, "/page/1", "/copy/1", ITEM_FIELDS=["body"])
    assert [("body" in item) for item in outcome.items] == [True, False, False]
    assert outcome.stat("items/without_fields") == 2


class StartsWithItem(PagesSpider):
    async def start(self) -> AsyncIterator[Any]:
        yield {"url": self.seed, "body": prose("1")}
        async for request in super().start():
            yield request

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "body": response.css("p::text").get()}


class RefusesTheFirst:
    n_items = 0

    def process_item(self, item: Any) -> Any:
        self.n_items += 1
        if self.n_items == 1:
            raise DropItem("the database is away")
        return item


def test_an_item_of_no_page_is_no_reason_to_drop_one_that_repeats_it(mock_site: MockSite) -> None:
    requests = [Request(mock_site.url("/page/1"))]
    settings = {"NEARDUP_ITEM_FIELDS": ["body"], "ITEM_PIPELINES": {RefusesTheFirst: 900}}
    seed = mock_site.url("/page/seed")
    outcome = crawl(StartsWithItem, settings, seed=seed, requests=lambda: iter(requests))
    assert outcome.urls == [mock_site.url("/page/1")]
    assert outcome.stat("items/without_page") == 1


class LinksOnly(PagesSpider):
    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield response.follow("/page/9", self.parse_linked)

    def parse_linked(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


def test_links_of_duplicates_are_followed_by_default(mock_site: MockSite) -> None:
    class OwnLink(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url}
            if response.url.endswith("/copy/1"):
                yield response.follow("/page/9")

    followed = pages(mock_site, OwnLink, "/page/1", "/copy/1")
    assert mock_site.url("/page/9") in followed.urls
    pruned = pages(mock_site, OwnLink, "/page/1", "/copy/1", FOLLOW_DUPLICATES=False)
    assert mock_site.url("/page/9") not in pruned.urls
    assert pruned.stat("links/pruned") == 1


@pytest.mark.parametrize(
    "more",
    [
        {"cb_kwargs": {"item": {"size": "M"}}},
        {"meta": {"size": "M"}},
        {"method": "POST", "body": "size=M"},
    ],
)
def test_requests_that_carry_something_on_are_no_links_to_prune(
    mock_site: MockSite, more: dict[str, Any]
) -> None:
    class Sizes(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            request = Request(mock_site.url("/api"), self.parse_size, dont_filter=True)
            yield request.replace(**more)

        def parse_size(self, response: Response, item: Any = None) -> Iterator[Any]:
            yield {"size": item or response.meta.get("size") or response.request.body}

    outcome = pages(mock_site, Sizes, "/page/1", "/copy/1", FOLLOW_DUPLICATES=False)
    assert outcome.stat("links/pruned") == 0
    assert mock_site.hits[more.get("method", "GET"), "/api"] == 2


def test_links_that_only_say_how_to_fetch_them_are_pruned(mock_site: MockSite) -> None:
    class Own(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            meta = {"cookiejar": 1, "download_timeout": 5, "rule": 0, "link_text": "Next"}
            yield response.follow("/page/9", meta=meta)

    outcome = pages(mock_site, Own, "/page/1", "/copy/1", FOLLOW_DUPLICATES=False)
    assert outcome.stat("links/pruned") == 1


def test_a_page_that_is_asked_for_once_more_is_no_link_to_prune(mock_site: MockSite) -> None:
    class Polls(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url}
            if response.url not in self.asked:
                self.asked.add(response.url)
                yield response.request.replace(dont_filter=True)

        asked: ClassVar[set[str]] = set()

    outcome = pages(mock_site, Polls, "/page/1", "/copy/1", FOLLOW_DUPLICATES=False)
    assert outcome.stat("links/pruned") == 0
    assert mock_site.gets("/copy/1") == 2


def test_an_endless_trap_of_equal_pages_ends_when_its_links_are_pruned(
    mock_site: MockSite,
) -> None:
    for n in range(30):
        mock_site.add(f"/trap/{n}", f"<p>{'same words every day ' * 20}</p>")

    class Trapped(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            n = int(response.url.rpartition("/")[2])
            yield Request(mock_site.url(f"/trap/{n + 1}"))

    pages(mock_site, Trapped, "/trap/0", FOLLOW_DUPLICATES=False)
    assert sum(mock_site.gets(f"/trap/{n}") for n in range(30)) == 2


class Gallery(PagesSpider):
    """Shelves of links, and an item of each page that they lead to."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="a", callback=self.parse_linked)

    def parse_linked(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


def shelf(text: str, *links: str, menu: str = "") -> bytes:
    images = "".join(f"<a href='{link}'><img src='{link}.png'></a>" for link in links)
    return f"<html><body><nav>{menu}</nav><p>{text}</p>{images}</body></html>".encode()


def one_text(n: int) -> str:
    """Forty-five words, of which the first and the last are other ones on each page."""
    return f"{prose(f'first {n}', 1)} {prose('one text', 43)} {prose(f'last {n}', 1)}"


def test_links_that_nobody_has_seen_are_followed_out_of_pages_of_few_words(
    mock_site: MockSite,
) -> None:
    for n in range(6):
        mock_site.add(f"/shelf/{n}", shelf(one_text(n), f"/page/{n}"))
    shelves = [f"/shelf/{n}" for n in range(6)]
    outcome = pages(mock_site, Gallery, *shelves, FOLLOW_DUPLICATES=False)
    assert sorted(outcome.urls) == [mock_site.url(f"/page/{n}") for n in range(6)]
    assert outcome.stat("links/pruned") == 0
    assert outcome.stat("links/spared") == 5


def test_words_of_a_template_do_not_prune_links(mock_site: MockSite) -> None:
    menu = prose("menu", 300)
    for n in range(6):
        mock_site.add(f"/intro/{n}", shelf(prose(f"intro {n}", 80), f"/story/{n}", menu=menu))
        mock_site.add(f"/shelf/{n}", shelf(one_text(n), f"/story/{n + 6}", menu=menu))
    for n in range(12):
        mock_site.add(f"/story/{n}", shelf(prose(f"story {n}", 80), menu=menu))
    paths = [f"/{kind}/{n}" for kind in ("intro", "shelf") for n in range(6)]
    settings = {"FOLLOW_DUPLICATES": False, "BOILERPLATE": "learn"}
    outcome = pages(mock_site, Gallery, *paths, **settings)
    assert len(outcome.urls) == 12
    assert outcome.stat("links/spared") == 5


class Invalid(PagesSpider):
    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "valid": "copy" in response.url}


class DropInvalid:
    def process_item(self, item: Any) -> Any:
        if not item["valid"]:
            raise scrapy.exceptions.DropItem("invalid")
        return item


class FailOnInvalid:
    def process_item(self, item: Any) -> Any:
        if not item["valid"]:
            raise ValueError("broken pipeline")
        return item


@pytest.mark.parametrize("later", [DropInvalid, FailOnInvalid])
def test_a_page_whose_item_no_pipeline_kept_is_no_original(
    mock_site: MockSite, later: type
) -> None:
    requests = [
        Request(mock_site.url(p), priority=-i) for i, p in enumerate(("/page/1", "/copy/1"))
    ]
    outcome = crawl(
        Invalid,
        {"ITEM_PIPELINES": {later: 300}, "LOG_LEVEL": "CRITICAL"},
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter(requests),
    )
    assert outcome.urls == [mock_site.url("/copy/1")]
    assert outcome.stat("pages/forgotten") == 1


class Replace:
    def process_item(self, item: Any) -> Any:
        return dict(item)


def test_items_replaced_before_the_pipeline_are_kept_and_counted(mock_site: MockSite) -> None:
    outcome = crawl_requests(
        mock_site, "/page/1", "/copy/1", settings={"ITEM_PIPELINES": {Replace: -10}}
    )
    assert len(outcome.items) == 2
    assert outcome.stat("items/replaced_before_pipeline") == 2


HOSTILE = {
    "/binary": (b"\x00\x01\xff" * 100, "application/octet-stream"),
    "/empty": (b"", "text/html"),
    "/wordless": (b"<p>!!! --- ...</p>", "text/html"),
    "/wrong-encoding": (b"<p>caf\xe9 \xff\xfe</p>", "text/html; charset=utf-8"),
    "/nested": (b"<div>" * 50_000 + b"deep", "text/html"),
    "/attributes": (b"<p " + b" ".join(b"a%d=b" % n for n in range(5_000)) + b">x", "text/html"),
    "/expanding": ("\ufdfa ".encode() * 50_000, "text/html; charset=utf-8"),
    "/long": (b"<p>" + b"word " * 10_000_000 + b"</p>", "text/html"),
}


def test_hostile_pages_are_kept_and_the_crawl_goes_on(mock_site: MockSite) -> None:
    for path, (body, content_type) in HOSTILE.items():
        mock_site.add(path, body, content_type=content_type)
        mock_site.add(path + "/copy", body + b" ", content_type=content_type)
    outcome = crawl_requests(mock_site, *HOSTILE, "/page/1", "/copy/1")
    kept = [mock_site.url(path) for path in (*HOSTILE, "/page/1")]
    assert sorted(outcome.urls) == sorted(kept)  # long ones are read in a thread
    assert outcome.stat("pages/without_text") == 1
    assert outcome.stat("pages/too_long") == 1
    assert outcome.stat("pages/over_budget") == 3
    assert not [key for key in outcome.stats if "neardup/errors" in key]


def broken_extractor(response: Response) -> str:
    raise ValueError("no idea how to read this")


def test_an_extractor_that_fails_is_counted_and_logged_once(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    outcome = pages(mock_site, PagesSpider, "/page/1", "/copy/1", EXTRACTOR=broken_extractor)
    assert len(outcome.items) == 2
    assert outcome.stat("errors/extract") == 2
    said = "neardup: extract failed (no idea how to read this); the page is kept"
    assert caplog.text.count(said) == 1


class BrokenEngine:
    def __init__(self, spec: Any, sketch_spec: Any) -> None:
        self.spec, self.sketch_spec = spec, sketch_spec

    def signatures(self, words: bytes) -> Any:
        raise MemoryError("no room")


def test_an_engine_that_fails_keeps_the_page(mock_site: MockSite) -> None:
    outcome = pages(mock_site, PagesSpider, "/page/1", "/copy/1", ENGINE=BrokenEngine)
    assert len(outcome.items) == 2
    assert outcome.stat("errors/engine") == 2


def test_the_fpga_engine_decides_alike_and_reports_the_boards_time(mock_site: MockSite) -> None:
    outcome = pages(mock_site, PagesSpider, "/page/1", "/copy/1", "/near/1", ENGINE="fpga")
    plain = pages(mock_site, PagesSpider, "/page/1", "/copy/1", "/near/1", ENGINE="reference")
    assert outcome.items == plain.items
    assert outcome.stat("fpga/documents") == 2  # the exact copy needs no fingerprint
    assert outcome.stat("fpga/assumes") == "all pages resident, as in the paper"


def test_a_callback_that_fails_midway_does_not_stop_the_crawl(mock_site: MockSite) -> None:
    class Failing(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url}
            if response.url.endswith("/page/1"):
                raise ValueError("broken callback")

    outcome = pages(mock_site, Failing, "/page/1", "/page/2")
    assert len(outcome.items) == 2


class RefusingIndex(ScanIndex):
    """An index that has no room when it is asked for the first time."""

    refusals: ClassVar[list[int]] = []

    def add(self, fp: int, id: int) -> None:
        if not self.refusals:
            self.refusals.append(id)
            raise MemoryError("no room")
        super().add(fp, id)


def test_a_page_that_the_index_refuses_is_no_reason_to_drop_its_copy(
    mock_site: MockSite,
) -> None:
    RefusingIndex.refusals.clear()
    settings = {"NEARDUP_INDEX": RefusingIndex, "LOG_LEVEL": "CRITICAL"}
    mock_site.add("/again", mock_site.reply("GET", "/page/1", "", b"").body)
    outcome = crawl_requests(mock_site, "/page/1", "/copy/1", "/again", settings=settings)
    paths = ("/page/1", "/copy/1")
    assert outcome.urls == [mock_site.url(path) for path in paths]
    assert outcome.stat("errors/index") == 1


class ItemsAndLink(PagesSpider):
    def parse(self, response: Response) -> Iterator[Any]:
        for n in range(2):
            yield {"url": response.url, "n": n, "is_copy": "copy" in response.url}
        yield response.follow("/page/9", self.parse_linked)

    def parse_linked(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}


@pytest.mark.parametrize(
    ("owner", "name", "place"),
    [
        (ItemTable, "has_near", "pipeline"),
        (PageJudge, "applied", "judge"),
        (PageJudge, "_reading", "judge"),
        (PageJudge, "own_words", "spider_output"),
        (CrawledPages, "begin", "spider_output"),
        (CrawledPages, "hand_over", "spider_output"),
        (HandedItems, "take_over", "pipeline"),
    ],
)
def test_a_defect_of_ours_loses_no_item_and_no_link(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, place: str
) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr(owner, name, fail)
    monkeypatch.setitem(SETTINGS, "LOG_LEVEL", "CRITICAL")
    outcome = pages(mock_site, ItemsAndLink, "/page/1", "/copy/1", FOLLOW_DUPLICATES=False)
    assert outcome.urls.count(mock_site.url("/page/1")) == 2
    assert outcome.urls.count(mock_site.url("/copy/1")) == 2
    assert outcome.urls.count(mock_site.url("/page/9")) == 1
    assert outcome.stat(f"errors/{place}") > 0


class Undecided:
    """A pipeline behind ours: the original's item is in it until the copies were dropped."""

    fate: ClassVar[str] = "dropped"

    def __init__(self, crawler: Any) -> None:
        self.n_dropped = self.n_items = 0
        self.spider = crawler.spider
        crawler.signals.connect(self.item_dropped, scrapy.signals.item_dropped)

    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        return cls(crawler)

    def item_dropped(self, exception: Exception) -> None:
        self.n_dropped += isinstance(exception, NearDuplicate)

    async def process_item(self, item: Any) -> Any:
        self.n_items += 1
        if self.n_items == 1:  # the original, whichever came first
            while self.n_dropped < self.spider.n_copies:
                await asyncio.sleep(0.01)
            if self.fate == "dropped":
                raise DropItem("out of stock")
            if self.fate == "failed":
                raise RuntimeError("the database is away")
        return item


class FailingUndecided(Undecided):
    fate = "failed"


class KeepingUndecided(Undecided):
    fate = "kept"


def copies_of_one_under_way(site: MockSite, pipeline: type, *paths: str, **settings: Any) -> Any:
    requests = [Request(site.url(p), priority=-i) for i, p in enumerate(("/page/1", *paths))]
    return crawl(
        PagesSpider,
        {"ITEM_PIPELINES": {pipeline: 900}, "CONCURRENT_REQUESTS": 4} | settings,
        seed=site.url("/page/seed"),
        requests=lambda: iter(requests),
        n_copies=len(paths),
    )


@pytest.mark.parametrize("compare", ["item", "page"])
@pytest.mark.parametrize("pipeline", [Undecided, FailingUndecided])
@pytest.mark.parametrize("state", [False, True])
def test_copies_are_read_again_when_the_original_they_were_dropped_for_is_lost(
    mock_site: MockSite, tmp_path: Path, pipeline: type, compare: str, state: bool
) -> None:
    mock_site.add("/copy/again", mock_site.reply("GET", "/copy/1", "", b"").body)
    settings = {"NEARDUP_COMPARE": compare, "RETRY_TIMES": 0}
    if state:
        settings["NEARDUP_STATE_DIR"] = str(tmp_path)
    outcome = copies_of_one_under_way(mock_site, pipeline, "/copy/1", "/copy/again", **settings)
    assert outcome.urls  # the other one may be a copy of that
    assert outcome.stat("pages/read_again") == 2
    paths = ("/page/1", "/copy/1", "/copy/again")
    assert sum(map(mock_site.gets, paths)) == 1 + 2 + 2 + 1  # the last is this test's own
    if state:
        # The original is tried again by the next crawl, and the page it was found on with it.
        n_unfinished = 2 if pipeline is FailingUndecided else 0
        assert outcome.stat("state/unfinished_pages") == n_unfinished


def test_copies_of_an_original_that_is_kept_are_not_read_again(mock_site: MockSite) -> None:
    outcome = copies_of_one_under_way(mock_site, KeepingUndecided, "/copy/1")
    assert len(outcome.urls) == 1
    assert outcome.stat("pages/read_again") == 0
    assert mock_site.gets("/page/1") == mock_site.gets("/copy/1") == 1


def test_a_page_is_read_again_once_whatever_becomes_of_its_originals(mock_site: MockSite) -> None:
    """Each page's item is lost while the others are dropped for it."""

    class NoneIsKept(Undecided):
        async def process_item(self, item: Any) -> Any:
            await asyncio.sleep(0.05)
            raise DropItem("none is wanted")

    paths = [f"/again/{n}" for n in range(4)]
    for path in paths:
        mock_site.add(path, mock_site.reply("GET", "/page/1", "", b"").body)
    outcome = copies_of_one_under_way(mock_site, NoneIsKept, *paths)
    assert not outcome.urls
    assert all(mock_site.gets(path) <= 2 for path in paths)

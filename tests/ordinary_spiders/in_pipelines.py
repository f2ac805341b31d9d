"""What pipelines and middlewares do to items: look up, merge, multiply and drop them."""

import asyncio
from typing import Any, ClassVar

import scrapy
from itemloaders.processors import Join, TakeFirst
from mock_site import Reply, prose
from scrapy import Request
from scrapy.exceptions import DropItem
from scrapy.http.request import NO_CALLBACK
from scrapy.loader import ItemLoader

from .cases import IndexSpider, OfCrawler, case
from .site import Ask, OrdinarySite, blurb, json_reply, template

N_PAGES = 10


def halls(site: OrdinarySite, root: str) -> None:
    """Halls in three sizes under one text; what is free in them is behind an interface."""
    for n in range(N_PAGES):
        site.pages[f"{root}/free/{n}"] = json_reply({"free": n % 4})
    site.add_all(
        root, {f"hall/{n}": template("Hall", f"<b>{n % 3}</b>{blurb(90)}") for n in range(N_PAGES)}
    )


def number(response: Any) -> int:
    return int(response.url.rpartition("/")[2])


class LookUp:
    """Asks an interface for what is free, and waits for it, before our order."""

    def __init__(self, crawler: Any) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Any) -> "LookUp":
        return cls(crawler)

    async def process_item(self, item: Any) -> Any:
        request = Request(item.pop("interface"), callback=NO_CALLBACK)
        answer = await self.crawler.engine.download_async(request)
        return item | answer.json()


@case(halls)
class LookUpSpider(IndexSpider):
    name = "looked-up-before"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {LookUp: -10}}

    def parse_page(self, response: Any):
        interface = response.url.replace("/hall/", "/free/")
        yield {"size": response.css("b::text").get(), "interface": interface}


@case(halls)
class LookUpAfterSpider(LookUpSpider):
    name = "looked-up-after"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {LookUp: 300}}


class Merge:
    """Holds the first half of a pair back, and lets the second pass with both."""

    def __init__(self) -> None:
        self.halves: dict[int, Any] = {}

    def process_item(self, item: Any) -> Any:
        if (half := self.halves.pop(item["hall"], None)) is None:
            self.halves[item["hall"]] = item
            raise DropItem("one half", log_level="DEBUG")
        return half | item


class MergeSpider(IndexSpider):
    def parse_page(self, response: Any):
        yield {"hall": number(response), "size": response.css("b::text").get()}
        free = response.url.replace("/hall/", "/free/")
        yield Request(free, self.parse_free, cb_kwargs={"hall": number(response)})

    def parse_free(self, response: Any, hall: int):
        yield {"hall": hall, **response.json()}


@case(halls)
class MergeBeforeSpider(MergeSpider):
    name = "merged-before"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {Merge: -10}}


@case(halls)
class MergeAfterSpider(MergeSpider):
    name = "merged-after"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {Merge: 300}}


class OncePerSize:
    """Drops what it has seen, as the example in Scrapy's documentation does."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def process_item(self, item: Any) -> Any:
        if item["size"] in self.seen:
            raise DropItem("seen", log_level="DEBUG")
        self.seen.add(item["size"])
        return item


@case(halls)
class OncePerSizeSpider(IndexSpider):
    name = "own-duplicates-pipeline"
    # The first hall of a size has to be the same one in every crawl.
    custom_settings: ClassVar = {
        "ITEM_PIPELINES": {OncePerSize: 300},
        "CONCURRENT_REQUESTS": 1,
        "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1,
    }

    def parse_page(self, response: Any):
        yield {"size": response.css("b::text").get(), "url": response.url}


class PerLocale:
    """A spider middleware that makes two items of each."""

    async def process_spider_output(self, response: Any, result: Any):
        async for output in result:
            if isinstance(output, Request):
                yield output
            else:
                for locale in ("de", "fr"):
                    yield {**output, "locale": locale}


@case(halls)
class PerLocaleSpider(IndexSpider):
    name = "one-item-a-locale"
    custom_settings: ClassVar = {"SPIDER_MIDDLEWARES": {PerLocale: 500}}

    def parse_page(self, response: Any):
        yield {"hall": number(response) // 2}


@case(halls)
class NothingBetweenSpider(IndexSpider):
    """Yields None where it has nothing to say."""

    name = "nothing-between-items"

    def parse_page(self, response: Any):
        yield None
        yield {"hall": number(response)}
        yield None


@case(halls)
class OneObjectSpider(IndexSpider):
    """Passes one dict on to further requests, and yields it after each."""

    name = "one-object-over-requests"

    def parse_page(self, response: Any):
        item = {"hall": number(response)}
        yield item
        yield self.ask(item, number(response))

    def ask(self, item: Any, place: int) -> Request:
        free = f"{self.root}/free/{place % N_PAGES}"
        return Request(free, self.parse_free, cb_kwargs={"item": item}, dont_filter=True)

    def parse_free(self, response: Any, item: Any):
        item["free"] = response.json()["free"]
        yield item
        if "asked" not in item:
            item["asked"] = response.url[-1]
            yield self.ask(item, number(response) + 1)


@case(halls)
class GatherSpider(IndexSpider):
    """Waits for several answers at once, and for a while."""

    name = "gathered-answers"

    async def parse_page(self, response: Any):
        n = number(response)
        urls = [f"{self.root}/free/{i}" for i in (n, (n + 1) % N_PAGES)]
        answers = await asyncio.gather(
            *(self.crawler.engine.download_async(Request(url)) for url in urls)
        )
        await asyncio.sleep(0)
        yield {"free": [answer.json()["free"] for answer in answers], "hall": n // 5}


class HallLoader(ItemLoader):
    default_item_class = dict
    size_out = TakeFirst()
    hall_out = Join("-")


@case(halls)
class NestedLoaderSpider(IndexSpider):
    name = "nested-loader"

    def parse_page(self, response: Any):
        loader = HallLoader(response=response)
        nested = loader.nested_css("main")
        nested.add_css("size", "b::text")
        loader.add_value("hall", response.url.split("/")[-2:])
        yield loader.load_item()


def batches(site: OrdinarySite, root: str) -> None:
    """Lists of an interface that says the same about different things."""

    def answer(ask: Ask) -> Reply:
        rows = [{"state": "ok", "about": prose("ok", 40)}] * 3
        return json_reply({"rows": rows})

    site.routes[f"{root}/status"] = answer


@case(batches)
class StatusSpider(scrapy.Spider):
    """Knows which machine a row is of by its place, and when by the answer's header."""

    name = "rows-by-place"

    def __init__(self, *args: Any, root: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.root = root

    async def start(self):
        for batch in range(6):
            yield Request(f"{self.root}/status?batch={batch}", cb_kwargs={"first": 3 * batch})

    def parse(self, response: Any, first: int):
        for place, row in enumerate(response.json()["rows"]):
            yield {"machine": first + place, **row}


def catalogues(site: OrdinarySite, root: str) -> None:
    """Thirty catalogues of three products each."""
    pages = {}
    for n in range(30):
        rows = "".join(f"<li>{prose(f'row {n} {k}', 2)}" for k in range(3))
        pages[f"{n}"] = template(f"Catalogue {n}", f"<p>{prose(f'c{n}', 80)}</p><ul>{rows}</ul>")
    site.add_all(root, pages)


class NoteCatalogue(OfCrawler):
    """Notes in each item of which catalogue the spider has told before."""

    def process_item(self, item):
        return item | {"catalogue": self.crawler.spider.catalogue}


@case(catalogues)
class CatalogueSpider(IndexSpider):
    """Tells its pipeline by an attribute what the items belong to."""

    name = "says-in-an-attribute-what-items-belong-to"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {NoteCatalogue: 600}}

    def parse_page(self, response):
        self.catalogue = response.css("h1::text").get()
        for row in response.css("li::text").getall():
            yield {"name": row}

"""Every type an item can have, all values a field can hold, and what pipelines do to them."""

import dataclasses
import datetime
import decimal
import enum
from typing import Any, ClassVar

import attrs
import scrapy
from itemadapter import ItemAdapter
from itemloaders.processors import MapCompose, TakeFirst
from mock_site import prose
from scrapy.exceptions import DropItem
from scrapy.loader import ItemLoader

from .cases import POET, IndexSpider, case
from .site import OrdinarySite, blurb, product, template


def goods(site: OrdinarySite, root: str) -> None:
    """Products under one long text; names and prices come back, no two products are equal."""

    def body(n: int) -> str:
        one = product(n)
        return template(
            "Lamp",
            f"<b id=sku>{one['sku']}</b><b id=price>{19 + n % 4}</b><b id=stock>{one['stock']}</b>"
            + blurb(180),
        )

    site.add_all(root, {f"lamp/{n}": body(n) for n in range(16)})


def text(response: Any, css: str) -> str:
    return response.css(f"{css}::text").get()


@case(goods)
class DictSpider(IndexSpider):
    name = "item-dict"

    def parse_page(self, response):
        yield {"sku": text(response, "#sku"), "price": text(response, "#price")}


class Lamp(scrapy.Item):
    sku = scrapy.Field()
    price = scrapy.Field(serializer=str)


@case(goods)
class ScrapyItemSpider(IndexSpider):
    name = "item-scrapy"

    def parse_page(self, response):
        return Lamp(sku=text(response, "#sku"), price=int(text(response, "#price")))


@attrs.define
class AttrsLamp:
    sku: str
    price: float
    notes: list[str] = attrs.field(factory=list)


@case(goods)
class AttrsSpider(IndexSpider):
    name = "item-attrs"

    def parse_page(self, response):
        yield AttrsLamp(text(response, "#sku"), float(text(response, "#price")))


@dataclasses.dataclass
class DataLamp:
    sku: str
    price: decimal.Decimal
    url: str | None = None


@case(goods)
class DataclassSpider(IndexSpider):
    name = "item-dataclass"

    def parse_page(self, response):
        price = decimal.Decimal(text(response, "#price"))
        yield DataLamp(text(response, "#sku"), price, response.url)


@dataclasses.dataclass(frozen=True, slots=True)
class SlottedLamp:
    sku: str
    stock: int


@case(goods)
class SlottedSpider(IndexSpider):
    name = "item-slots"

    def parse_page(self, response):
        yield SlottedLamp(text(response, "#sku"), int(text(response, "#stock")))


@case(goods, needs=("pydantic",))
class PydanticSpider(IndexSpider):
    name = "item-pydantic"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        from pydantic import BaseModel

        class PydanticLamp(BaseModel):
            sku: str
            price: decimal.Decimal
            tags: set[str] = set()

        self.model = PydanticLamp

    def parse_page(self, response):
        yield self.model(sku=text(response, "#sku"), price=text(response, "#price"))


class LampLoader(ItemLoader):
    default_item_class = Lamp
    default_output_processor = TakeFirst()
    price_in = MapCompose(str.strip, float)


@case(goods)
class LoaderSpider(IndexSpider):
    name = "item-loader"

    def parse_page(self, response):
        loader = LampLoader(response=response)
        loader.add_css("sku", "#sku::text")
        loader.add_css("price", "#price::text")
        yield loader.load_item()


class PoetSpider(IndexSpider):
    """Takes its items from page objects; the callback only names the type it wants."""

    name = "item-poet"
    custom_settings: ClassVar = POET


def poet_pages(site: OrdinarySite, root: str) -> None:
    from web_poet import WebPage, field

    class LampPage(WebPage[dict]):
        @field
        def sku(self):
            return self.css("#sku::text").get()

        @field
        def stock(self):
            return int(self.css("#stock::text").get())

    async def parse_page(self, response, page: LampPage):
        yield await page.to_item()

    PoetSpider.parse_page = parse_page
    goods(site, root)


case(poet_pages, needs=("scrapy_poet", "web_poet"))(PoetSpider)


def rows(site: OrdinarySite, root: str) -> None:
    def body(n: int) -> str:
        offers = "".join(f"<li data-shop={i}>{20 + (n + i) % 3} euros</li>" for i in range(4))
        return template(f"Lamp {n}", f"<ul>{offers}</ul>{blurb(400)}")

    site.add_all(root, {f"offers/{n}": body(n) for n in range(15)})


@case(rows)
class SeveralItemsSpider(IndexSpider):
    name = "several-items-a-page"

    def parse_page(self, response):
        for offer in response.css("li"):
            yield {
                "lamp": text(response, "h1"),
                "shop": offer.attrib["data-shop"],
                "price": offer.css("::text").get(),
            }


def teams(site: OrdinarySite, root: str) -> None:
    """Four teams of each name, near each other, with many members."""
    members = "".join(f'<a class="member" href="#{n}">{n}</a>' for n in range(150))
    site.add_all(
        root,
        {
            f"teams/{n}": template(
                f"Team {prose(n // 4, 2)}",
                f"<p>{prose(n // 4, 110)} {prose(f'room {n}', 1)} {prose(n // 4, 90)}</p>{members}",
            )
            for n in range(16)
        },
    )


@case(teams)
class LinksBetweenItemsSpider(IndexSpider):
    """Yields two items of a page, with 150 links between them."""

    name = "many-links-between-two-items"

    def parse_page(self, response):
        yield {"team": text(response, "h1"), "url": response.url}
        yield from response.follow_all(css="a.member", callback=self.parse_page)
        yield {"team": text(response, "h1"), "url": response.url, "kind": "summary"}


@case(rows)
class NestedSpider(IndexSpider):
    name = "nested-items"

    def parse_page(self, response):
        offers = [
            {"shop": {"id": int(li.attrib["data-shop"])}, "price": li.css("::text").get()}
            for li in response.css("li")
        ]
        page = Lamp(sku=text(response, "h1"), price=offers)
        yield {"source": {"url": response.url, "kind": "offers"}, "lamp": page}


@case(rows)
class OneObjectSpider(IndexSpider):
    """Fills one dict again and again, and yields copies of it."""

    name = "one-object-reused"

    def parse_page(self, response):
        item = {}
        for offer in response.css("li"):
            item.update(lamp=response.url[-3:], shop=offer.attrib["data-shop"])
            yield dict(item)


@case(rows)
class TwoKindsSpider(IndexSpider):
    """One of its two items is the same for every page."""

    name = "two-kinds-of-items"

    def parse_page(self, response):
        yield {"kind": "lamp", "name": text(response, "h1")}
        yield {"kind": "offers", "of": text(response, "h1"), "n": len(response.css("li"))}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.5, -1.5, float("inf"), 10**30, "", " ", "0", "None"),
    *(b"", b"\x00\xff", b"\x00\xfe", decimal.Decimal("1.50"), decimal.Decimal("1.51")),
    *(datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 12), datetime.time(9, 30)),
    *(
        datetime.timedelta(days=2),
        [],
        [1, 2],
        [2, 1],
        [[1], 2],
        {},
        {"a": None},
        {"a": 1},
        {"b": 1},
    ),
    *(
        (1, 2, 3),
        {1},
        {2},
        Colour.RED,
        Colour.BLUE,
        1 + 2j,
        range(3),
        "\ud800",
        "é",
        "e",
        "🙂",
        "🙁",
    ),
)


def odd_pages(site: OrdinarySite, root: str) -> None:
    site.add_all(root, {f"{n}": template("Odd", blurb(60)) for n in range(len(ODD_VALUES))})


@case(odd_pages)
class OddValuesSpider(IndexSpider):
    name = "odd-values"

    def parse_page(self, response):
        yield {"value": ODD_VALUES[int(response.url.rpartition("/")[2])]}


@case(odd_pages)
class OddFieldsSpider(IndexSpider):
    """Items that have other fields, or none but empty ones."""

    name = "odd-fields"

    def parse_page(self, response):
        n = int(response.url.rpartition("/")[2])
        yield {f"field {n}": None, "": n % 2 == 0, "neardup": [n]}


class Replace:
    """Puts a new item in the place of each, before the plugin's pipeline sees it."""

    def process_item(self, item):
        return ItemAdapter(item).asdict() | {"currency": "EUR"}


@case(goods)
class ReplacedSpider(IndexSpider):
    name = "replaced-before-order-0"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {Replace: -100}}

    def parse_page(self, response):
        yield Lamp(sku=text(response, "#sku"), price=text(response, "#price"))


class Cheap:
    """Changes items in place, and drops what is dear."""

    async def process_item(self, item):
        item["price"] = int(item["price"])
        if item["price"] > 21:
            raise DropItem("too dear")
        return item


@case(goods)
class ChangedSpider(IndexSpider):
    name = "changed-and-dropped-by-pipelines"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {Cheap: -10}}

    async def parse_page(self, response):
        yield {"sku": text(response, "#sku"), "price": text(response, "#price")}


class Wrap:
    """A spider middleware that wraps what the spider yields."""

    async def process_spider_output(self, response, result):
        async for output in result:
            yield {"data": output} if isinstance(output, dict) else output


@case(goods)
class WrappedSpider(IndexSpider):
    name = "wrapped-by-a-middleware"
    custom_settings: ClassVar = {"SPIDER_MIDDLEWARES": {Wrap: 100}}

    def parse_page(self, response):
        yield {"sku": text(response, "#sku")}


def tickets(site: OrdinarySite, root: str) -> None:
    site.add_all(root, {f"t/{n}": template(f"T{n}", f"<p>{prose(n, 100)}</p>") for n in range(20)})


@case(tickets)
class EqualItemsSpider(IndexSpider):
    """Different pages that bring the same few facts are no copies of one another."""

    name = "equal-items-of-different-pages"

    def parse_page(self, response):
        yield {"status": "open"}


@case(tickets)
class EqualOnOnePageSpider(IndexSpider):
    name = "equal-items-on-one-page"

    def parse_page(self, response):
        for word in ("lamp", "lamp", "chair"):
            yield {"tag": word}

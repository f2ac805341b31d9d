"""Sites that change between two visits, and spiders whose items hold what has changed.

In each, one page of two says something else at the second visit, or every page does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mock_site import prose
from scrapy import Spider
from scrapy.http import JsonRequest

from .cases import IndexSpider, Local
from .shown_by_markup import OF_PAGES, detail
from .site import OrdinarySite, json_reply, template

BuildVisit = Callable[[OrdinarySite, str, int], None]
CHANGES: dict[str, tuple[type[Spider], BuildVisit]] = {}


@dataclass
class Said:
    """An item that has no room for what the plugin says of it."""

    said: Any


def changes(build: BuildVisit) -> Callable[[type[Spider]], type[Spider]]:
    """Class decorator: the spider crawls what `build` adds for each visit."""

    def register(spider: type[Spider]) -> type[Spider]:
        CHANGES[spider.name] = spider, build
        return spider

    return register


def shows(*shown: str, n: int = 12, every: bool = False) -> BuildVisit:
    """Builds pages of a long text each, which show one of two things; {n}: of the page."""

    def build(site: OrdinarySite, root: str, visit: int) -> None:
        def body(page: int) -> str:
            one = shown[visit if every or page % 2 else 0].replace("{n}", str(page))
            return template(f"Lamp {prose(page, 2)}", f"{one}<p>{prose(f'lamp {page}', 120)}</p>")

        site.add_all(root, {f"{page}": body(page) for page in range(n)})

    return build


class TextSpider(IndexSpider):
    """Takes the text of its pages."""

    def parse_page(self, response):
        yield Said(" ".join(response.xpath("//body//text()").getall()))


class ParagraphsSpider(IndexSpider):
    """Takes the text of some elements."""

    def parse_page(self, response):
        yield Said("\n".join(response.css("main p::text, main b::text").getall()))


@changes(shows("<p>5 euros</p>", "<p>4 euros</p>", n=30, every=True))
class SaleSpider(TextSpider):
    name = "a-sale"


@changes(shows("<p>Sunny, 12 degrees</p>", "<p>Rain, 9 degrees</p>", n=30, every=True))
class WeatherSpider(TextSpider):
    name = "the-weather"


@changes(shows("<p>Grade <b>A</b></p>", "<p>Grade <b>a</b></p>"))
class CaseSpider(TextSpider):
    name = "another-case"


@changes(shows("<p>In the mood: 🙂</p>", "<p>In the mood: 🙁</p>"))
class EmojiSpider(TextSpider):
    name = "another-emoji"


@changes(shows("<p dir=rtl>متوفر</p>", "<p dir=rtl>نفد</p>"))
class RightToLeftSpider(TextSpider):
    name = "from-right-to-left"


@changes(shows("<ol><li>Ann<li>Bob</ol>", "<ol><li>Bob<li>Ann</ol>"))
class OrderSpider(TextSpider):
    name = "another-order"


@changes(shows("<ul><li>Ring<li>Ring</ul>", "<ul><li>Ring<li>Ring<li>Ring</ul>"))
class NumberSpider(TextSpider):
    name = "one-more-of-them"


@changes(shows("<pre>a  b\n c</pre>", "<pre>a b\n  c</pre>"))
class SpacesSpider(TextSpider):
    name = "other-spaces"


@changes(shows("<p><b>In stock</b></p>", "<p><s>In stock</s></p>"))
class StruckOutSpider(ParagraphsSpider):
    name = "struck-out"


def details(site: OrdinarySite, root: str, visit: int) -> None:
    """Two pages of each kind of detail, of which one has another one at the second visit."""
    bodies = {
        f"{kind}/{page}": template(
            "Offer", f"<p>{prose(f'{kind} {page}', 120)}</p>{detail(kind, page * (1 + visit))}"
        )
        for kind in OF_PAGES
        for page in range(2)
    }
    site.add_all(root, bodies)


@changes(details)
class WholeSpider(IndexSpider):
    name = "details-of-whole-pages"

    def parse_page(self, response):
        yield Said(response.text)


@changes(details)
class NestedBodySpider(IndexSpider):
    name = "details-of-nested-bodies"

    def parse_page(self, response):
        yield Said({"pages": [response.body]})


@changes(details)
class PieceSpider(IndexSpider):
    name = "details-of-pieces-of-html"

    def parse_page(self, response):
        yield Said(response.css("main").get())


def long_lists(site: OrdinarySite, root: str, visit: int) -> None:
    def body(page: int) -> str:
        rows = (f"<li>{n + 1000 * visit * (page % 2 and n == 250)}" for n in range(300))
        return template(f"List {page}", "".join(rows))

    site.add_all(root, {f"{page}": body(page) for page in range(4)})


@changes(long_lists)
class RowsSpider(IndexSpider):
    name = "a-row-of-three-hundred"

    def parse_page(self, response):
        for row in response.css("main li::text").getall():
            yield Said(int(row))


def api(site: OrdinarySite, root: str, visit: int) -> None:
    site.index(f"{root}/", [])
    site.routes[f"{root}/api"] = lambda ask: json_reply(
        {"stock": ask.json["id"] % 3 + 10 * visit * (ask.json["id"] % 2)}
    )


@changes(api)
class PostSpider(Local, Spider):
    name = "answers-to-posts"

    def parse(self, response):
        for n in range(10):
            url = f"{self.root}/api"
            yield JsonRequest(url, data={"id": n}, callback=self.parse_answer, cb_kwargs={"n": n})

    def parse_answer(self, response, n):
        yield Said([n, response.json()])

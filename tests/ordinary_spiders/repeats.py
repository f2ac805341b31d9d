"""Sites that do repeat: planted copies of pages whose items say the same, beside what is new."""

import asyncio
import datetime
from typing import ClassVar

from mock_site import prose
from scrapy.exceptions import DropItem

from .cases import IndexSpider, case
from .site import OrdinarySite, product, template

N_ARTICLES = 30
# Long enough that pages differ in clearly more places than those that a brief line tells apart.
PRINTED = "<p>Printed page</p><p>" + prose("copyright", 8) + "</p>"


def article(n: int) -> tuple[str, str]:
    """Title and main part of an article."""
    head = f"<h2>{prose(f'h{n}', 5)}</h2><time>2026-03-{n % 28 + 1:02d}</time>"
    return prose(f"h{n}", 5), f"{head}<div class=text>{prose(f'x{n}', 240)}</div>"


def news(site: OrdinarySite, root: str) -> None:
    """Thirty articles, ten each with tracking parameters, on a mirror, and as print version."""
    paths = [f"{root}/news/{n}" for n in range(N_ARTICLES)]
    for n, path in enumerate(paths):
        site.add(path, template(*article(n)))
    for n in range(0, N_ARTICLES, 3):
        paths.append(f"{root}/news/{n}?utm_source=mail&utm_campaign=c{n}")
        site.copy(paths[-1], f"{root}/news/{n}")
    for n in range(1, N_ARTICLES, 3):
        paths.append(f"{root}/archive/2026/{n}.html")
        site.copy(paths[-1], f"{root}/news/{n}")
    for n in range(2, N_ARTICLES, 3):
        title, main = article(n)
        paths.append(f"{root}/print?id={n}")
        body = f"<html><title>{title}</title><body>{main}{PRINTED}</body></html>"
        site.print_version(paths[-1], f"{root}/news/{n}", body)
    site.index(f"{root}/", paths)


def guest_lists(site: OrdinarySite, root: str) -> None:
    """Three lists of the guests of each of ten hosts; two of the lists lack two guests each."""
    pages = {}
    for host in range(10):
        guests = [prose(f"guest {host} {n}", 2).title() for n in range(60)]
        for event, missing in enumerate(((), (20, 40), (10, 11))):
            names = (f"<li>{guest}" for n, guest in enumerate(guests) if n not in missing)
            text = f"<p>{prose(f'host {host}', 60)}</p><ul>{''.join(names)}</ul>"
            pages[f"{host}/{event}"] = template("Guests", text)
    site.add_all(root, pages)


@case(guest_lists)
class GuestSpider(IndexSpider):
    """An item for each guest, with the page's URL and nothing else."""

    name = "rows-that-only-the-url-tells-apart"

    def parse_page(self, response):
        for guest in response.css("main li::text").getall():
            yield {"event": response.url, "guest": guest}


@case(news, repeats=True)
class ArticleSpider(IndexSpider):
    name = "articles"

    def parse_page(self, response):
        yield {
            "title": response.css("h2::text").get(),
            "text": response.css(".text::text").get(),
            "date": response.css("time::text").get(),
        }


@case(news, repeats=True)
class VisitedArticleSpider(IndexSpider):
    """Notes where and when it has read, which makes no article a new one."""

    name = "articles-with-url-and-time"

    def parse_page(self, response):
        yield {
            "url": response.url,
            "scraped_at": datetime.datetime.now(datetime.UTC).isoformat(),
            "title": response.css("h2::text").get(),
            "text": response.css(".text::text").get(),
        }


@case(news, repeats=True)
class HtmlSpider(IndexSpider):
    name = "whole-pages"

    def parse_page(self, response):
        yield {"url": response.url, "html": response.text}


@case(news, repeats=True)
class UrlSpider(IndexSpider):
    name = "urls-of-pages"

    def parse_page(self, response):
        yield {"url": response.url}


def shop(site: OrdinarySite, root: str) -> None:
    """Products that stand in two departments under one text, some with a session id."""
    paths = []
    for n in range(24):
        one = product(n)
        main = (
            f"<b id=sku>{one['sku']}</b><b id=price>{one['price']}</b><p>{prose(f'd{n}', 90)}</p>"
        )
        paths.append(f"{root}/indoor/{n}")
        site.add(paths[-1], template(one["name"], main))
        if n % 2:
            paths.append(f"{root}/sale/{n}")
            site.copy(paths[-1], f"{root}/indoor/{n}")
        if n % 6 == 0:
            paths.append(f"{root}/indoor/{n}?PHPSESSID={n:032x}")
            site.copy(paths[-1], f"{root}/indoor/{n}")
    site.index(f"{root}/", paths)


@case(shop, repeats=True)
class ProductSpider(IndexSpider):
    name = "products-in-two-departments"

    def parse_page(self, response):
        yield {
            "link": response.url,
            "sku": response.css("#sku::text").get(),
            "price": float(response.css("#price::text").get()),
        }


@case(shop, repeats=True)
class ProductPartsSpider(IndexSpider):
    """Two items a page, of which both repeat."""

    name = "two-items-of-repeated-pages"

    def parse_page(self, response):
        sku = response.css("#sku::text").get()
        yield {"sku": sku, "price": response.css("#price::text").get()}
        yield {"sku": sku, "description": response.css("p::text").get()}


def departments(site: OrdinarySite, root: str) -> None:
    """The same pages in two departments, for a spider to which the department is data."""
    bodies = {n: template(product(n)["name"], f"<p>{prose(f'd{n}', 120)}</p>") for n in range(15)}
    site.add_all(root, {f"{d}/{n}": bodies[n] for d in ("indoor", "outdoor") for n in bodies})


@case(departments)
class DepartmentSpider(IndexSpider):
    name = "department-from-url"

    def parse_page(self, response):
        department, _ = response.url.split("/")[-2:]
        yield {"name": response.css("h1::text").get(), "department": department}


class ArchiveOnly:
    """Rejects what was not read from the archive, long after the plugin has seen it."""

    async def process_item(self, item):
        await asyncio.sleep(0)
        if "/archive/" not in item["url"]:
            raise DropItem("not from the archive")
        return item


@case(news)
class RejectedFirstSpider(IndexSpider):
    """What a copy repeats has to have been kept: here a later pipeline drops all originals."""

    name = "originals-rejected-by-a-pipeline"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {ArchiveOnly: 300}}

    def parse_page(self, response):
        yield {"url": response.url, "title": response.css("h2::text").get()}


@case(news)
class CopiesOnlySpider(IndexSpider):
    """Takes no items from the pages that come first, only from their copies."""

    name = "originals-without-items"

    def parse_page(self, response):
        if "/archive/" in response.url:
            yield {"title": response.css("h2::text").get()}

"""Data that no reader sees: inline scripts, JSON-LD, microdata, meta tags, attributes, comments."""

import json
import re

from mock_site import prose
from scrapy.spiders import SitemapSpider

from .cases import IndexSpider, Local, case
from .site import OrdinarySite, blurb, product, template


def script_pages(site: OrdinarySite, root: str) -> None:
    site.add_all(
        root,
        {
            f"p/{n}": f"<html><body><div id='app'>Loading, please wait</div>"
            f"<script>var data = {json.dumps(product(n))};</script></body></html>"
            for n in range(100)
        },
    )


@case(script_pages)
class InlineVariableSpider(IndexSpider):
    name = "inline-variable"

    def parse_page(self, response):
        yield json.loads(response.css("script::text").re_first(r"var data = (\{.*\});"))


@case(script_pages)
class InlineFieldsSpider(IndexSpider):
    name = "inline-variable-short-fields"

    def parse_page(self, response):
        data = json.loads(re.search(r"data = (\{.*?\});", response.text)[1])
        yield {"url": response.url, "price": float(data["price"])}


def next_pages(site: OrdinarySite, root: str) -> None:
    def body(n: int) -> str:
        state = {"props": {"pageProps": {"product": product(n), "related": []}}, "page": "/p/[id]"}
        script = f'<script id="__NEXT_DATA__" type="application/json">{json.dumps(state)}</script>'
        return template("Lamps", f"<div id='__next'>{prose('shell', 40)}</div>{script}")

    site.add_all(root, {f"p/{n}": body(n) for n in range(60)})


@case(next_pages)
class NextDataSpider(IndexSpider):
    name = "next-data"

    def parse_page(self, response):
        data = json.loads(response.css("#__NEXT_DATA__::text").get())
        yield {"link": response.url, **data["props"]["pageProps"]["product"]}


def state_pages(site: OrdinarySite, root: str) -> None:
    def body(n: int) -> str:
        state = {"stations": [{"id": n, "lat": 48 + n / 100, "lon": 11.5}], "user": None}
        return template(
            "Station", blurb(250), f"<script>window.__STATE__={json.dumps(state)}</script>"
        )

    site.add_all(root, {f"station-{n}.html": body(n) for n in range(40)})


@case(state_pages)
class WindowStateSpider(IndexSpider):
    name = "window-state"

    def parse_page(self, response):
        yield from json.loads(re.search(r"__STATE__=(\{.*\})</script>", response.text)[1])[
            "stations"
        ]


def branches(site: OrdinarySite, root: str) -> None:
    def body(n: int) -> str:
        place = {
            "@context": "https://schema.org",
            "@type": "Store",
            "telephone": f"+49 89 {3000 + 7 * n}",
            "address": {"streetAddress": f"{prose(f's{n}', 1)} {n}", "postalCode": str(80000 + n)},
        }
        ld = f'<script type="application/ld+json">{json.dumps(place)}</script>'
        return template("Our branch in your town", blurb(300), ld)

    paths = [f"{root}/branch/{n}" for n in range(60)]
    for n, path in enumerate(paths):
        site.add(path, body(n))
    places = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in paths)
    namespace = "http://www.sitemaps.org/schemas/sitemap/0.9"
    site.add(
        f"{root}/sitemap.xml",
        f'<?xml version="1.0"?><urlset xmlns="{namespace}">{places}</urlset>',
        content_type="application/xml",
    )


@case(branches)
class BranchSpider(Local, SitemapSpider):
    name = "sitemap-json-ld"

    def parse(self, response):
        store = json.loads(response.css('script[type="application/ld+json"]::text').get())
        yield {"url": response.url, "phone": store["telephone"], "address": store["address"]}


def microdata(site: OrdinarySite, root: str) -> None:
    site.add_all(
        root,
        {
            f"event/{n}": template(
                "Guided tour",
                f'<div itemscope><meta itemprop="startDate" content="2026-05-{n + 1:02d}">'
                f'<link itemprop="availability" href="{"InStock" if n % 3 else "SoldOut"}">'
                f"{blurb(150)}</div>",
            )
            for n in range(28)
        },
    )


@case(microdata)
class MicrodataSpider(IndexSpider):
    name = "microdata"

    def parse_page(self, response):
        yield {
            "start": response.css("meta[itemprop=startDate]::attr(content)").get(),
            "availability": response.css("link[itemprop=availability]::attr(href)").get(),
        }


def meta_tags(site: OrdinarySite, root: str) -> None:
    site.add_all(
        root,
        {
            f"v/{n:x}": template(
                "Video",
                blurb(60),
                f'<meta property="og:title" content="{prose(n, 3)}">'
                f'<meta property="video:duration" content="{60 + n}">',
            )
            for n in range(30)
        },
    )


@case(meta_tags)
class MetaTagSpider(IndexSpider):
    name = "meta-tags"

    def parse_page(self, response):
        yield {
            "title": response.css('meta[property="og:title"]::attr(content)').get(),
            "seconds": int(response.css('meta[property$="duration"]::attr(content)').get()),
        }


def attributes(site: OrdinarySite, root: str) -> None:
    site.add_all(
        root,
        {
            f"map?id={n}": template(
                "Find us",
                f'<div id="map" data-lat="{47 + n / 10:.1f}" data-lon="{11 - n / 10:.1f}"></div>'
                f'<input type="hidden" name="branch" value="{900 + n}">'
                f'<span class="stars s{n % 6}"></span>'
                f"<!-- region {n // 4} -->{blurb(120)}",
            )
            for n in range(30)
        },
    )


@case(attributes)
class AttributeSpider(IndexSpider):
    name = "data-attributes"

    def parse_page(self, response):
        place = response.css("#map").attrib
        yield {"lat": float(place["data-lat"]), "lon": float(place["data-lon"])}


@case(attributes)
class HiddenInputSpider(IndexSpider):
    name = "hidden-inputs"

    def parse_page(self, response):
        yield {"branch": response.css("input[name=branch]::attr(value)").get()}


@case(attributes)
class StarClassSpider(IndexSpider):
    name = "stars-by-class"

    def parse_page(self, response):
        stars = response.css("span.stars::attr(class)").re_first(r"s(\d)$")
        region = response.xpath("//comment()").re_first(r"region (\d+)")
        yield {"branch": f"{region}-{response.url[-2:]}", "stars": int(stars)}


def frames(site: OrdinarySite, root: str) -> None:
    site.add_all(
        root,
        {
            f"talk/{n}": template(
                "Talk",
                f"<iframe src='https://video.example/{prose(n, 1)}'></iframe>"
                f"<noscript>{prose(f'n{n}', 4)}</noscript>"
                f"<svg><text>{n} minutes</text></svg>{blurb(90)}",
            )
            for n in range(20)
        },
    )


@case(frames)
class FrameSpider(IndexSpider):
    name = "frames"

    def parse_page(self, response):
        yield {"video": response.css("iframe::attr(src)").get()}


@case(frames)
class HiddenTextSpider(IndexSpider):
    name = "noscript-and-svg"

    def parse_page(self, response):
        parts = response.css("noscript::text, svg text::text").getall()
        yield {"text": parts[0], "length": parts[1]}


def link_lists(site: OrdinarySite, root: str) -> None:
    site.add_all(
        root,
        {
            f"team/{n}": template(
                "Team",
                f"<a href='mailto:{prose(n, 1)}@x.example'>Mail</a>"
                f"<a href='tel:+49{n}'>Call</a> <a href='/vcard/{n}'>Card</a>",
            )
            for n in range(25)
        },
    )


@case(link_lists)
class ContactSpider(IndexSpider):
    name = "links-only"

    def parse_page(self, response):
        yield {"contacts": response.css("main a::attr(href)").getall()}

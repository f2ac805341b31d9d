"""Rules, feeds, JSON interfaces, forms, logins and redirects."""

import json
from typing import ClassVar

import scrapy
from mock_site import Reply, prose, redirect
from scrapy.http import FormRequest, JsonRequest
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, CSVFeedSpider, Rule, SitemapSpider, XMLFeedSpider

from .cases import IndexSpider, Local, case
from .site import Ask, OrdinarySite, blurb, json_reply, product, template


def catalogue(site: OrdinarySite, root: str) -> None:
    """Categories that list products and each other; a product is listed by two of them."""

    def listing(c: int) -> str:
        goods = "".join(f'<a href="{root}/item/{n}">{n}</a> ' for n in range(5 * c, 5 * c + 10))
        others = "".join(f'<a href="{root}/category/{o}">More</a>' for o in range(4))
        return template(f"Category {c}", goods + others)

    for c in range(4):
        site.add(f"{root}/category/{c}", listing(c))
    for n in range(25):
        price = f"<b>{product(n)['price']}</b>"
        site.add(f"{root}/item/{n}", template(product(n)["name"], price + blurb(180)))
    site.index(f"{root}/", [f"{root}/category/0"])


@case(catalogue)
class RulesSpider(Local, CrawlSpider):
    name = "crawlspider"
    rules = (
        Rule(LinkExtractor(allow=r"/category/"), follow=True),
        Rule(LinkExtractor(allow=r"/item/"), callback="parse_item"),
    )

    def parse_item(self, response):
        yield {"name": response.css("h1::text").get(), "price": response.css("b::text").get()}


@case(catalogue)
class RulesListSpider(Local, CrawlSpider):
    """Makes items of the listings, too."""

    name = "crawlspider-listings"
    rules = (Rule(LinkExtractor(allow=r"/category/"), callback="parse_list", follow=True),)

    def parse_list(self, response):
        yield {"category": response.css("h1::text").get(), "links": len(response.css("main a"))}


def newsletters(site: OrdinarySite, root: str) -> None:
    """The archive of the front page is linked from a newsletter, too, two pages away."""
    stories, again = [f"story-{n}" for n in range(5)], "archive?utm_source=letter"
    links = {"": ["archive", "news", "sport", "letters"], "archive": stories, again: stories}
    links |= {"letters": ["letter"], "letter": [again]}
    for name in ("news", "sport", *links, *stories):
        anchors = "".join(f'<a href="{root}/{to}">{to}</a> ' for to in links.get(name, []))
        site.add(
            f"{root}/{name}", template(name or "Front page", f"{anchors}<p>{prose(name, 90)}</p>")
        )


@case(newsletters)
class DownToADepthSpider(Local, scrapy.Spider):
    """Follows links down to a depth; the last page that it finds is the next that it reads."""

    name = "down-to-a-depth"
    custom_settings: ClassVar = {"DEPTH_LIMIT": 3, "CONCURRENT_REQUESTS": 1}

    def parse(self, response):
        yield {"title": response.css("h1::text").get()}
        yield from response.follow_all(css="main a")


def feeds(site: OrdinarySite, root: str) -> None:
    rows = [product(n % 10) | {"id": n} for n in range(30)]
    entries = "".join(
        f"<offer><id>{r['id']}</id><name>{r['name']}</name><price>{r['price']}</price></offer>"
        for r in rows
    )
    site.add(f"{root}/offers.xml", f"<offers>{entries}</offers>", content_type="application/xml")
    lines = "\n".join(f"{r['id']},{r['name']},{r['price']}" for r in rows)
    site.add(f"{root}/offers.csv", f"id,name,price\n{lines}\n", content_type="text/csv")
    for shop in range(8):  # shops whose feeds differ in a single number
        one = f"<offers><offer><id>{shop}</id><name>Lamp</name><price>9</price></offer></offers>"
        site.add(f"{root}/shop/{shop}.xml", one, content_type="application/xml")


@case(feeds)
class XmlSpider(Local, XMLFeedSpider):
    name = "xml-feed"
    itertag = "offer"

    async def start(self):
        yield scrapy.Request(f"{self.root}/offers.xml")
        for shop in range(8):
            yield scrapy.Request(f"{self.root}/shop/{shop}.xml")

    def parse_node(self, response, node):
        return {"id": node.xpath("id/text()").get(), "price": node.xpath("price/text()").get()}


@case(feeds)
class CsvSpider(Local, CSVFeedSpider):
    name = "csv-feed"

    async def start(self):
        yield scrapy.Request(f"{self.root}/offers.csv")

    def parse_row(self, response, row):
        yield {"id": row["id"], "name": row["name"], "price": float(row["price"])}


def sitemap_index(site: OrdinarySite, root: str) -> None:
    space = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
    for part in range(3):
        paths = [f"{root}/jobs/{part}{n}" for n in range(10)]
        for path in paths:
            number = path[-2:]
            site.add(path, template("Nurse wanted", f"<p>Ward {number}</p>{blurb(160)}"))
        entries = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in paths)
        site.add(
            f"{root}/map-{part}.xml", f"<urlset {space}>{entries}</urlset>", content_type="text/xml"
        )
    maps = "".join(
        f"<sitemap><loc>{site.url(root)}/map-{part}.xml</loc></sitemap>" for part in range(3)
    )
    site.add(
        f"{root}/sitemap.xml",
        f"<sitemapindex {space}>{maps}</sitemapindex>",
        content_type="text/xml",
    )


@case(sitemap_index)
class JobSpider(Local, SitemapSpider):
    name = "sitemap-rules"
    sitemap_rules: ClassVar = [("/jobs/", "parse_job")]

    def parse_job(self, response):
        yield {"title": response.css("h1::text").get(), "ward": response.css("p::text").get()}


def json_api(site: OrdinarySite, root: str) -> None:
    def rows(ask: Ask) -> Reply:
        page = int(ask.query.get("page", 1))
        goods = [{"id": n, "ok": True} for n in range(5 * page, 5 * page + 5)]
        return json_reply({"results": goods, "next": page + 1 if page < 12 else None})

    site.routes[f"{root}/"] = rows
    for n in range(5, 65):
        about = {
            "id": n,
            "state": "active",
            "score": n / 10,
            "tags": ["new"],
            "text": prose("b", 400),
        }
        site.pages[f"{root}/thing/{n}"] = json_reply(about)


@case(json_api)
class JsonPagesSpider(Local, scrapy.Spider):
    name = "json-pages"

    def parse(self, response):
        data = response.json()
        yield from data["results"]
        if data["next"]:
            yield response.follow(f"?page={data['next']}")


@case(json_api)
class JsonDetailsSpider(Local, scrapy.Spider):
    name = "json-details"

    def parse(self, response):
        data = response.json()
        for row in data["results"]:
            yield response.follow(f"thing/{row['id']}", self.parse_thing)
        if data["next"]:
            yield response.follow(f"?page={data['next']}")

    def parse_thing(self, response):
        yield response.json()


def graphql(site: OrdinarySite, root: str) -> None:
    def answer(ask: Ask) -> Reply:
        after = ask.json["variables"]["after"]
        nodes = [{"id": f"n{after + i}", "active": i % 2 == 0} for i in range(4)]
        page = {"endCursor": after + 4, "hasNextPage": after < 40}
        return json_reply({"data": {"users": {"nodes": nodes, "pageInfo": page}}})

    site.routes[f"{root}/graphql"] = answer


@case(graphql)
class GraphqlSpider(Local, scrapy.Spider):
    name = "graphql"
    query = "query($after: Int) { users(after: $after) { nodes { id active } } }"

    async def start(self):
        yield self.ask(0)

    def ask(self, after):
        data = {"query": self.query, "variables": {"after": after}}
        return JsonRequest(f"{self.root}/graphql", data=data)

    def parse(self, response):
        users = response.json()["data"]["users"]
        yield from users["nodes"]
        if users["pageInfo"]["hasNextPage"]:
            yield self.ask(users["pageInfo"]["endCursor"])


def aspx(site: OrdinarySite, root: str) -> None:
    """A list whose pages are posted back to one URL, each with the state of the page before."""

    def body(ask: Ask) -> Reply:
        form = ask.form if ask.method == "POST" else {"__EVENTARGUMENT": "1", "__VIEWSTATE": "0"}
        page = int(form["__EVENTARGUMENT"])
        assert int(form["__VIEWSTATE"]) == page - 1
        rows = "".join(f"<tr><td>{page}-{i}</td></tr>" for i in range(3))
        fields = f"<input name=__VIEWSTATE value={page}><input name=__EVENTARGUMENT>"
        more = "<a id=next>next</a>" if page < 15 else ""
        form_html = f"<form method=post>{fields}</form><table>{rows}</table>{more}"
        return Reply(template("Permits", form_html + blurb(100)).encode())

    site.routes[f"{root}/"] = body


@case(aspx)
class ViewStateSpider(Local, scrapy.Spider):
    name = "viewstate"

    def parse(self, response, page=1):
        for row in response.css("td::text").getall():
            yield {"permit": row}
        if response.css("#next"):
            yield FormRequest.from_response(
                response,
                formdata={"__EVENTARGUMENT": str(page + 1)},
                cb_kwargs={"page": page + 1},
            )


def members(site: OrdinarySite, root: str) -> None:
    def login(ask: Ask) -> Reply:
        if ask.form.get("password") == "secret":
            return redirect(f"{root}/account", **{"Set-Cookie": "user=anna; Path=/"})
        return Reply(template("Log in", "<form method=post><input name=password></form>").encode())

    def page(ask: Ask) -> Reply:
        if "user=anna" not in ask.cookie:
            return redirect(f"{root}/login")
        number = ask.query.get("invoice")
        links = "".join(
            f"<a class=entry href='{root}/account?invoice={n}'>{n}</a>" for n in range(15)
        )
        main = f"<p>Invoice {number}: {int(number) * 3} euros</p>" if number else links
        return Reply(template("Your account", main + blurb(80)).encode())

    site.routes[f"{root}/login"] = login
    site.routes[f"{root}/account"] = page


@case(members)
class LoginSpider(Local, scrapy.Spider):
    name = "login"

    async def start(self):
        yield scrapy.Request(f"{self.root}/login", self.log_in)

    def log_in(self, response):
        return FormRequest.from_response(
            response, formdata={"password": "secret"}, callback=self.parse
        )

    def parse(self, response):
        for link in response.css("a.entry"):
            yield response.follow(link, self.parse_invoice)

    def parse_invoice(self, response):
        yield {"invoice": response.css("main p::text").get()}


def scroll(site: OrdinarySite, root: str) -> None:
    def more(ask: Ask) -> Reply:
        start = int(ask.query["offset"])
        cards = "".join(f"<div class=card data-id={start + i}>New!</div>" for i in range(6))
        return json_reply({"html": cards, "more": start < 90})

    site.routes[f"{root}/more"] = more


@case(scroll)
class InfiniteScrollSpider(Local, scrapy.Spider):
    name = "infinite-scroll"

    async def start(self):
        yield scrapy.Request(f"{self.root}/more?offset=0", cb_kwargs={"offset": 0})

    def parse(self, response, offset):
        data = response.json()
        for card in scrapy.Selector(text=data["html"]).css(".card"):
            yield {"id": card.attrib["data-id"], "label": card.css("::text").get()}
        if data["more"]:
            url = f"{self.root}/more?offset={offset + 6}"
            yield scrapy.Request(url, cb_kwargs={"offset": offset + 6})


def search(site: OrdinarySite, root: str) -> None:
    """A search form: every town's answer has the same words and one number."""
    options = "".join(f"<option value={n}>Town {n}</option>" for n in range(20))
    form = f"<form method=post><select name=town>{options}</select></form>"

    def answer(ask: Ask) -> Reply:
        found = f"<p>{int(ask.form['town']) % 6} offices found</p>" if ask.method == "POST" else ""
        return Reply(template("Find an office", form + found + blurb(300)).encode())

    site.routes[f"{root}/"] = answer


@case(search)
class SearchFormSpider(Local, scrapy.Spider):
    name = "search-form"

    def parse(self, response):
        for town in response.css("option::attr(value)").getall():
            yield FormRequest.from_response(
                response, formdata={"town": town}, callback=self.parse_town, meta={"town": town}
            )

    def parse_town(self, response):
        yield {"town": response.meta["town"], "found": response.css("main p::text").get()}


def redirects(site: OrdinarySite, root: str) -> None:
    for n in range(20):
        site.pages[f"{root}/go/{n}"] = redirect(f"{root}/shop/{n}", 301 + n % 2)
        site.add(f"{root}/shop/{n}", template("Partner", f"<p>No. {n}</p>{blurb(120)}"))
    site.index(f"{root}/", [f"{root}/go/{n}" for n in range(20)])


@case(redirects)
class RedirectSpider(IndexSpider):
    name = "redirects"

    def parse_page(self, response):
        yield {"from": response.meta["redirect_urls"][0], "partner": response.css("p::text").get()}


def landing(site: OrdinarySite, root: str) -> None:
    site.add(f"{root}/sorry", template("Sorry", "Not sold any more."))
    for n in range(12):
        site.pages[f"{root}/p/{n}"] = redirect(f"{root}/sorry")
    site.index(f"{root}/", [f"{root}/p/{n}" for n in range(12)])


@case(landing)
class LandingSpider(IndexSpider):
    """All its requests end on one page; what it wants to know is which."""

    name = "redirects-to-one-page"

    def parse(self, response):
        for link in response.css("a.entry"):
            yield response.follow(link, self.parse_page, dont_filter=True)

    def parse_page(self, response):
        product = response.meta["redirect_urls"][0].rpartition("/")[2]
        yield {"product": product, "sold": "Not sold" not in response.text}


def empty(site: OrdinarySite, root: str) -> None:
    site.add_all(root, {f"log/{n}": "" for n in range(15)})


@case(empty)
class EmptyPageSpider(IndexSpider):
    name = "empty-pages"

    def parse_page(self, response):
        yield {"log": int(response.url.rpartition("/")[2]), "bytes": len(response.body)}


def plain_text(site: OrdinarySite, root: str) -> None:
    site.add_all(root, {f"{n}.txt": f"status: ok\ncount: {n}\n" for n in range(20)}, "text/plain")


@case(plain_text)
class PlainTextSpider(IndexSpider):
    name = "plain-text"

    def parse_page(self, response):
        yield dict(line.split(": ") for line in response.text.splitlines())


def binary(site: OrdinarySite, root: str) -> None:
    site.add_all(root, {f"{n}.bin": bytes([n]) * 40 for n in range(12)}, "application/octet-stream")


@case(binary)
class BinarySpider(IndexSpider):
    name = "binary-bodies"

    def parse_page(self, response):
        yield {"body": response.body, "head": list(response.body[:4])}


def script_variables(site: OrdinarySite, root: str) -> None:
    site.add_all(
        root,
        {f"{n}.js": f"callback({json.dumps({'seats': n})});" for n in range(20)},
        "application/javascript",
    )


@case(script_variables)
class JsonpSpider(IndexSpider):
    name = "jsonp"

    def parse_page(self, response):
        yield json.loads(response.text.removeprefix("callback(").removesuffix(");"))

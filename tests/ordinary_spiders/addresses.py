"""Requests that look alike, and pages of which the address or the request says what they are."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle
from typing import Any, ClassVar

import scrapy
from mock_site import Reply, prose
from scrapy import Request
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http import FormRequest, JsonRequest
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import SitemapSpider

from .cases import POET, IndexSpider, Local, case
from .site import Ask, OrdinarySite, blurb, json_reply, template

N_PAGES = 10


def arguments(name: str, values: list[str]) -> Any:
    """Builds pages told apart by an argument of their address; each has a word of its own."""

    def build(site: OrdinarySite, root: str) -> None:
        bodies = {
            f"show?{name}={value}": template("Programme", f"<b>{prose(value, 3)}</b>{blurb(60)}")
            for value in values
        }
        site.add_all(root, bodies)

    return build


class WordSpider(IndexSpider):
    def parse_page(self, response: Any):
        yield {"word": response.css("b::text").get()}


@case(arguments("session", [f"2026-07-{n}-morning-room-a" for n in range(10, 40)]))
class ConferenceSpider(WordSpider):
    name = "sessions-of-a-conference"


@case(arguments("sid", [f"KeynoteSession{n}A" for n in range(10, 40)]))
class StorySpider(WordSpider):
    name = "sid-that-is-a-story"


@case(arguments("session_id", [f"{0x65F1A2B3 + n:x}c4d5e6f708192a3b" for n in range(30)]))
class DocumentSpider(WordSpider):
    name = "session-ids-of-a-database"


@case(arguments("sessionId", [f"550e8400-e29b-41d4-a716-4466554400{n}" for n in range(10, 40)]))
class GuidSpider(WordSpider):
    name = "session-ids-that-are-guids"


@case(arguments("cfid", [f"{n}" for n in range(30)]))
class CategorySpider(WordSpider):
    name = "cfid-that-is-a-category"


@case(arguments("cfid", [prose(n, 2).replace(" ", "-") for n in range(12)]))
class DepartmentSpider(WordSpider):
    name = "cfid-that-is-a-word"
    custom_settings: ClassVar = {"CONCURRENT_REQUESTS": 2}


@case(arguments("pk_content", [f"{n}" for n in range(12)]))
class PrimaryKeySpider(WordSpider):
    name = "primary-keys"
    custom_settings: ClassVar = {"CONCURRENT_REQUESTS": 2}


@case(arguments("zenid", [prose(n, 1) for n in range(12)]))
class ZenSpider(WordSpider):
    name = "words-that-sound-like-sessions"
    custom_settings: ClassVar = {"CONCURRENT_REQUESTS": 2}


@case(arguments("cid=3&scid", [f"{n}" for n in range(30)]))
class SubcategorySpider(WordSpider):
    name = "subcategories"


@case(arguments("ref", [f"isbn-{n}" for n in range(30)]))
class ReferenceSpider(WordSpider):
    name = "arguments-that-sound-like-tracking"


def stock(site: OrdinarySite, root: str) -> None:
    """Answers of an interface that only their address tells apart."""
    kinds = {"json": ('{"stock": %d}', "application/json"), "txt": ("%d", "text/plain")}
    paths = []
    for kind, (text, content_type) in kinds.items():
        for n in range(12):
            paths.append(f"{root}/A-{n}.{kind}")
            site.add(paths[-1], text % (n % 3), content_type=content_type)
    site.index(f"{root}/", paths)


@case(stock)
class StockSpider(IndexSpider):
    name = "answers-told-apart-by-their-address"

    def parse_page(self, response: Any):
        yield {"url": response.url, "said": response.text}


def matrix(site: OrdinarySite, root: str) -> None:
    site.add_all(root, {f"hall;sid={n}": template("Hall", f"<b>{n} seats</b>") for n in range(30)})


@case(matrix)
class MatrixSpider(WordSpider):
    name = "matrix-parameters"


def departures(site: OrdinarySite, root: str) -> None:
    """A board that shows another train each time it is asked, seven in all."""
    shown = cycle(range(7))
    site.routes[f"{root}/board"] = lambda ask: Reply(
        template("Departures", f"<b>Platform {next(shown)}</b>{blurb(40)}").encode()
    )


class Board(Local, scrapy.Spider):
    def parse(self, response: Any, left: int = 6):
        yield {"platform": response.css("b::text").get()}
        if left:
            yield self.ask(left - 1)

    async def start(self):
        yield self.ask(6)

    def ask(self, left: int) -> Request:
        return Request(f"{self.root}/board", cb_kwargs={"left": left})


@case(departures)
class UnfilteredSpider(Board):
    """Asks for one URL again and again, with Scrapy's filter for that switched off."""

    name = "no-dupefilter"
    custom_settings: ClassVar = {"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"}


class ByStep:
    """A fingerprinter that tells requests apart by what the spider passes on."""

    def fingerprint(self, request: Request) -> bytes:
        return f"{request.url} {request.cb_kwargs}".encode()


@case(departures)
class FingerprintSpider(Board):
    name = "own-fingerprinter"
    custom_settings: ClassVar = {"REQUEST_FINGERPRINTER_CLASS": ByStep}


@case(departures)
class DontFilterSpider(Board):
    name = "dont-filter"

    def ask(self, left: int) -> Request:
        return Request(f"{self.root}/board", cb_kwargs={"left": left}, dont_filter=True)


def accounts(site: OrdinarySite, root: str) -> None:
    """Each user logs in by a form of one URL, and sees a page of one URL."""

    def login(ask: Ask) -> Reply:
        return Reply(b"ok", headers={"Set-Cookie": f"user={ask.form['user']}; Path=/"})

    def balance(ask: Ask) -> Reply:
        user = ask.cookie.partition("user=")[2][:1]
        return Reply(template("Your account", f"<b>{ord(user)} euros</b>{blurb(80)}").encode())

    site.routes[f"{root}/login"], site.routes[f"{root}/balance"] = login, balance


@case(accounts)
class AccountsSpider(Local, scrapy.Spider):
    """One cookie jar a user."""

    name = "accounts"

    async def start(self):
        for user in "abcdefgh":
            data = {"user": user}
            yield FormRequest(f"{self.root}/login", formdata=data, meta={"cookiejar": user})

    def parse(self, response: Any):
        jar = {"cookiejar": response.meta["cookiejar"]}
        yield response.follow("balance", self.parse_balance, meta=jar, dont_filter=True)

    def parse_balance(self, response: Any):
        yield {"balance": response.css("b::text").get()}


def session_of(n: int) -> str:
    """What a server draws for its visitor n."""
    return hashlib.sha256(b"%d" % n).hexdigest()[:32]


def orders(site: OrdinarySite, root: str) -> None:
    """Shows each visitor their own order, by the session in the URL."""
    numbers = {session_of(n): 4100 + n for n in range(12)}

    def order(ask: Ask) -> Reply:
        number = numbers[ask.query["PHPSESSID"]]
        return Reply(template("Your order", f"<b>Order {number}</b>{blurb(120)}").encode())

    site.add(f"{root}/", template("Shop", blurb(80)))
    site.routes[f"{root}/orders"] = order


@case(orders)
class OrdersSpider(Local, scrapy.Spider):
    """Asks for one page as twelve visitors, one cookie jar each."""

    name = "orders-by-session-and-cookiejar"
    custom_settings: ClassVar = {"CONCURRENT_REQUESTS": 2}

    def parse(self, response):
        for n in range(12):
            url = f"{self.root}/orders?PHPSESSID={session_of(n)}"
            yield Request(url, self.parse_order, **self.sent_by(n))

    def sent_by(self, n):
        return {"meta": {"cookiejar": n}}

    def parse_order(self, response):
        yield {"order": response.css("b::text").get()}


@case(orders)
class OrdersByHeaderSpider(OrdersSpider):
    """Says who asks in a header."""

    name = "orders-by-session-and-authorization"

    def sent_by(self, n):
        return {"headers": {"Authorization": f"Bearer {n}"}}


def searches(site: OrdinarySite, root: str) -> None:
    """Answers a form by a link to what was found, kept in the visitor's session."""
    sent: dict[str, str] = {}

    def search(ask: Ask) -> Reply:
        session = ask.query["PHPSESSID"]
        sent[session] = ask.form["town"]
        link = f"<a href='{root}/found?PHPSESSID={session}'>What we have found</a>"
        return Reply(template("Your search", f"{blurb(60)}{link}").encode())

    def found(ask: Ask) -> Reply:
        hotels = f"<b>Hotels in {sent[ask.query['PHPSESSID']]}</b>"
        return Reply(template("Hotels", f"{hotels}{blurb(120)}").encode())

    site.add(f"{root}/", template("Search", blurb(80)))
    site.routes[f"{root}/search"], site.routes[f"{root}/found"] = search, found


@case(searches)
class SearchesSpider(Local, scrapy.Spider):
    """Sends a form for each town, and follows the link on its answer."""

    name = "searches-whose-answer-is-in-a-session"
    custom_settings: ClassVar = {"CONCURRENT_REQUESTS": 2}

    def parse(self, response):
        for n in range(12):
            url = f"{self.root}/search?PHPSESSID={session_of(n)}"
            yield FormRequest(url, self.parse_answer, formdata={"town": prose(n, 1)})

    def parse_answer(self, response):
        yield from response.follow_all(css="main a", callback=self.parse_found)

    def parse_found(self, response):
        yield {"found": response.css("b::text").get()}


def alternates(site: OrdinarySite, root: str) -> None:
    """A sitemap that names each page in four languages; only the heading is translated."""
    entries = ""
    for n in range(5):
        links = ""
        for language in ("de", "he", "th", "zh"):
            path = f"{root}/{language}/{n}"
            head = f"<html lang={language}><head><link rel=canonical href='{root}/de/{n}'></head>"
            site.add(path, f"{head}<h1>{prose(f'{n}{language}', 1)}</h1>{blurb(90)}")
            links += f'<x:link rel="alternate" hreflang="{language}" href="{site.url(path)}"/>'
        entries += f"<url><loc>{site.url(f'{root}/de/{n}')}</loc>{links}</url>"
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    spaces = f'xmlns="{space}" xmlns:x="http://www.w3.org/1999/xhtml"'
    body = f"<?xml version='1.0'?><urlset {spaces}>{entries}</urlset>"
    site.add(f"{root}/sitemap.xml", body, content_type="application/xml")


@case(alternates)
class AlternateSpider(Local, SitemapSpider):
    name = "sitemap-with-alternates"
    sitemap_alternate_links = True

    def parse(self, response: Any):
        yield {"language": response.xpath("//html/@lang").get(), "url": response.url}
        yield {"title": response.css("h1::text").get()}


def one_shell(site: OrdinarySite, root: str) -> None:
    """An application: each URL has the same bytes, and names the home page as its canonical URL."""
    shell = f"<html><head><link rel=canonical href='{root}/'></head><body>{blurb(30)}</body></html>"
    for n in range(N_PAGES):
        site.add(f"{root}/app/{n}", shell)
        site.pages[f"{root}/api/{n}"] = json_reply({"name": prose(n, 2), "open": n % 2 == 0})
    site.index(f"{root}/", [f"{root}/app/{n}" for n in range(N_PAGES)])


@case(one_shell)
class ShellSpider(IndexSpider):
    """Asks the interface behind the shell, and waits for the answer."""

    name = "shell-and-awaited-answer"

    async def parse_page(self, response: Any):
        api = Request(response.url.replace("/app/", "/api/"))
        answer = await self.crawler.engine.download_async(api)
        yield {"shop": answer.json()["name"]}
        yield {"html": response.text, "of": answer.json()["name"]}


class InjectedSpider(IndexSpider):
    """Is given its items: they ask the interface behind the shell before the callback is called."""

    name = "shell-and-injected-item"
    custom_settings: ClassVar = POET


def one_shell_with_items(site: OrdinarySite, root: str) -> None:
    from web_poet import HttpClient, HttpResponse, WebPage, field, handle_urls

    @dataclass
    class Shop:
        url: str
        is_open: bool

    @handle_urls("")
    class ShopPage(WebPage[Shop]):
        def __init__(self, response: HttpResponse, http: HttpClient) -> None:
            super().__init__(response)
            self.http = http

        @field
        def url(self):
            return str(self.response.url)

        @field
        async def is_open(self):
            return (await self.http.get(self.url.replace("/app/", "/api/"))).json()["open"]

    def parse_page(self, response: Any, shop: Shop):
        yield shop

    InjectedSpider.parse_page = parse_page
    one_shell(site, root)


case(one_shell_with_items, needs=("scrapy_poet", "web_poet"))(InjectedSpider)


@case(one_shell)
class LinkSpider(Local, scrapy.Spider):
    """Finds its pages by a LinkExtractor and numbers them."""

    name = "links-by-number"

    def parse(self, response: Any):
        links = LinkExtractor(allow="/app/").extract_links(response)
        requests = response.follow_all(links, self.parse_page)
        for place, request in enumerate(requests):
            request.cb_kwargs["place"] = place
            yield request

    def parse_page(self, response: Any, place: int):
        yield {"place": place, "seconds": 0}


def availability(site: OrdinarySite, root: str) -> None:
    def answer(ask: Ask) -> Reply:
        if ask.method == "POST":
            day = ask.json["day"] if ask.body[:1] == b"{" else int(ask.form["day"])
            return json_reply({"free": day % 2 == 0, "currency": "EUR", "note": prose("note", 60)})
        return json_reply({"free": None})

    site.routes[f"{root}/api"] = answer


@case(availability)
class AvailabilitySpider(Local, scrapy.Spider):
    """Posts forms and JSON to one URL; what it asked for is in the request only."""

    name = "posted-days"

    async def start(self):
        for day in range(N_PAGES):
            data, meta = {"day": day}, {"day": day}
            yield JsonRequest(f"{self.root}/api", data=data, meta=meta, callback=self.parse)
            form = {"day": str(day)}
            yield FormRequest(f"{self.root}/api", formdata=form, meta=meta, callback=self.parse)

    def parse(self, response: Any):
        kind = response.request.headers["Content-Type"].decode()
        yield {"day": response.meta["day"], "asked by": kind, **response.json()}


def busy(site: OrdinarySite, root: str) -> None:
    """Every page is "busy" twice, with status 200, before it says what it says."""
    asked: dict[str, int] = {}

    def show(ask: Ask) -> Reply:
        n = ask.query["n"]
        asked[n] = asked.get(n, 0) + 1
        if asked[n] % 3:
            return Reply(template("Busy", "<i>Please wait</i>").encode())
        return Reply(template("Offer", f"<b>{n} left</b>{blurb(60)}").encode())

    site.routes[f"{root}/offer"] = show
    site.index(f"{root}/", [f"{root}/offer?n={n}" for n in range(N_PAGES)])


@case(busy)
class BusySpider(IndexSpider):
    name = "busy-with-status-200"

    def parse_page(self, response: Any):
        if response.css("i"):
            yield get_retry_request(response.request, spider=self, reason="busy")
        else:
            yield {"left": response.css("b::text").get()}


def called(site: OrdinarySite, root: str) -> None:
    """One URL that answers calls of all kinds by what is in their bodies."""
    site.routes[f"{root}/rpc"] = lambda ask: json_reply({"result": prose(ask.body.decode(), 2)})


@case(called)
class CallSpider(Local, scrapy.Spider):
    """JSON-RPC, batches of it, persisted queries of GraphQL, SOAP, and forms in two orders."""

    name = "calls-of-one-url"

    async def start(self):
        url = f"{self.root}/rpc"
        for n in range(5):
            call = {"jsonrpc": "2.0", "method": "get", "params": [n], "id": 1}
            query = {"extensions": {"persistedQuery": {"sha256Hash": f"{n:064x}"}}}
            for data in (call, [{"id": n}, {"id": 7}], query):
                yield JsonRequest(url, data=data)
            yield Request(url, method="POST", body=f"<Envelope><Get>{n}</Get></Envelope>")
            yield FormRequest(url, formdata=[("a", str(n)), ("a", "x")])
            yield FormRequest(url, formdata=[("a", "x"), ("a", str(n))])

    def parse(self, response: Any):
        yield {"sent": response.request.body.decode(), "answer": response.json()["result"]}


ALIKE = (
    *("caf%C3%A9", "cafe%CC%81", "caf%E9", "a+b", "a%20b", "A", "a", "x/y", "x%2Fy", "x/", "x"),
    *("q?a=1&a=2", "q?a=2&a=1", "q?a", "q", "q?a=1%262", "q?a=1&2", "q?b=%2B", "q?b=+"),
    *("index.html", "INDEX.html", "s;v=1", "s;v=2", "t?x[]=1&x[]=2", "t?x[]=2", "u?id=1;page=2"),
    *("w?q=%C3%A9", "w?q=%E9", "w?q=e", "p?page=1", "p?page=01", "r?ref=a", "r?source=a"),
    *("r?campaign=a", "r?token=1", "r?session=1", "r?session=2", "r?cid=1", "r?hash=abc", "x//y"),
)


def under(addresses: Iterable[str]) -> Any:
    """Builds a page of its own words under each address."""

    def build(site: OrdinarySite, root: str) -> None:
        site.add_all(
            root,
            {path: template("Page", f"<b>{prose(path, 3)}</b>{blurb(60)}") for path in addresses},
        )

    return build


@case(under(ALIKE))
class AlikeSpider(WordSpider):
    name = "addresses-that-look-alike"


def coupons(site: OrdinarySite, root: str) -> None:
    """Pages of one text, with a link by which each partner is paid."""
    link = "<a href='https://shop.example/?utm_source=partner-{}'>Open the shop</a>"
    site.add_all(root, {f"{n}": template("Coupon", link.format(n) + blurb(80)) for n in range(12)})


@case(coupons)
class CouponSpider(IndexSpider):
    name = "affiliate-links"

    def parse_page(self, response: Any):
        yield {"affiliate_link": response.css("main a::attr(href)").get()}


RECORDS = (
    *(f"talk?session=01ARZ3NDEKTSV4RRFFQ69G5F{n}V" for n in "ABCDEFGH"),
    *(f"talk?sid=01hv3k5q9m7w2x4y6z8a0b1c{n}d" for n in "abcdefgh"),
    *(f"talk?session_id=2b7Xk0ujsswThIGTUYm2K8FjO{n}f" for n in "ABCDEFGH"),
    *(f"call?sid=CA5ef8732a3c49700934481addd5ce165{n}" for n in range(8)),
)


@case(under(RECORDS))
class RecordSpider(WordSpider):
    """ULIDs, KSUIDs and ids that begin with what they are of."""

    name = "records-named-like-sessions"


MEASURES = (
    *(f"map?utm_zone=32&utm_easting=6916{n}&utm_northing=533{n}" for n in range(20)),
    *(f"pills?hsa_eligible={word}" for word in ("yes", "no", "some")),
    *(f"curtain?mtm_width={n}&mtm_height=200" for n in range(90, 110)),
)


@case(under(MEASURES))
class MeasureSpider(WordSpider):
    """Coordinates of a map, and others that begin as the names of campaigns do."""

    name = "arguments-that-begin-like-tracking"

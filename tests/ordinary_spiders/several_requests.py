"""Items built over several requests, from what the URL or the request says, or from no page."""

import asyncio
import itertools
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import scrapy
from mock_site import Reply, prose, redirect
from scrapy import Request, signals
from scrapy.dupefilters import RFPDupeFilter
from scrapy.exceptions import DontCloseSpider

from .cases import IndexSpider, Local, OfCrawler, case
from .site import Ask, OrdinarySite, blurb, json_reply, product, template


def priced_apart(site: OrdinarySite, root: str) -> None:
    """Products whose price is behind a second request; three prices for all of them."""
    for n in range(20):
        site.pages[f"{root}/price/{n}"] = json_reply({"price": 19 + n % 3})
        site.add(f"{root}/stock/{n}", "<p>In stock</p>")
    details = (
        "<p>{text}</p><a id=price href='{root}/price/{n}'>$</a>"
        "<a id=stock href='{root}/stock/{n}'>?</a>"
    )
    site.add_all(
        root,
        {
            f"{n}": template(product(n)["name"], details.format(text=prose(n, 90), root=root, n=n))
            for n in range(20)
        },
    )


@case(priced_apart)
class PriceByKwargsSpider(IndexSpider):
    name = "two-requests-cb-kwargs"

    def parse_page(self, response):
        item = {"name": response.css("h1::text").get(), "url": response.url}
        link = response.css("#price::attr(href)").get()
        yield response.follow(link, self.parse_price, cb_kwargs={"item": item})

    def parse_price(self, response, item):
        item["price"] = response.json()["price"]
        yield item


def sessions_in_links(site: OrdinarySite, root: str) -> None:
    """Books whose authors are linked with another session id, or campaign, on each page."""
    books = {}
    for n in range(20):
        arguments = f"sid={n:02}3456789abcdef0123456789abcdef0", f"utm_campaign=book{n}"
        links = "".join(f"<a class=by href='{root}/author/{n % 4}?{a}'>by</a>" for a in arguments)
        books[f"{n}"] = template(f"Book {n}", f"<p>{blurb(80)}</p>{links}")
        for one in arguments:
            author = template(f"Author {n % 4}", f"<p>{prose(f'author {n % 4}', 90)}</p>")
            site.add(f"{root}/author/{n % 4}?{one}", author)
    site.add_all(root, books)


@case(sessions_in_links)
class AuthorOfBookSpider(IndexSpider):
    name = "items-under-way-to-a-page-with-session-ids"

    def parse_page(self, response):
        book = response.css("h1::text").get()
        for link in response.css("a.by"):
            yield response.follow(link, self.parse_author, cb_kwargs={"book": book})

    def parse_author(self, response, book):
        yield {"book": book, "author": response.css("h1::text").get(), "by": response.url[-8:]}


@case(sessions_in_links)
class NestedCallbackSpider(IndexSpider):
    """The book is a variable of the callbacks themselves."""

    name = "items-under-way-in-callbacks"
    custom_settings: ClassVar = {"CONCURRENT_REQUESTS": 2}

    def parse_page(self, response):
        book = response.css("h1::text").get()

        def parse_author(author):
            yield {"book": book, "author": author.css("h1::text").get(), "by": "session"}

        by_session, by_campaign = response.css("a.by")
        yield response.follow(by_session, parse_author)
        yield response.follow(by_campaign, lambda author, book=book: self.merged(author, book))

    def merged(self, author, book):
        yield {"book": book, "author": author.css("h1::text").get(), "by": "campaign"}


@case(sessions_in_links)
class OwnMetaSpider(IndexSpider):
    """Its keys in meta begin as those do that say how a page is fetched."""

    name = "items-under-way-in-meta-with-ordinary-names"
    custom_settings: ClassVar = {"CONCURRENT_REQUESTS": 2}
    keys = ("_item", "depth_item", "download_count", "proxy_item", "retry_item", "rule_name")

    def parse_page(self, response):
        book = response.css("h1::text").get()
        key = self.keys[int(response.url.rpartition("/")[2]) % len(self.keys)]
        for link in response.css("a.by"):
            yield response.follow(link, self.parse_author, meta={key: book})

    def parse_author(self, response):
        book = next(response.meta[key] for key in self.keys if key in response.meta)
        yield {"book": book, "author": response.css("h1::text").get(), "by": response.url[-8:]}


def plain_among_campaigns(site: OrdinarySite, root: str) -> None:
    """Books whose author is linked plainly on some pages, by a campaign's URL on others."""
    books = {}
    for n in range(20):
        url = f"{root}/author/{n % 10}" + "?utm_source=letter" * (n >= 10)
        site.add(url, template(f"Author {n % 10}", f"<p>{prose(f'author {n % 10}', 90)}</p>"))
        books[f"{n}"] = template(f"Book {n}", f"<p>{blurb(80)}</p><a class=by href='{url}'>by</a>")
    site.add_all(root, books)


@case(plain_among_campaigns)
class PlainAuthorSpider(AuthorOfBookSpider):
    name = "items-under-way-to-a-page-read-by-a-longer-url"
    # The links found last are followed first.
    custom_settings: ClassVar = {"CONCURRENT_REQUESTS": 1}


def searches(site: OrdinarySite, root: str) -> None:
    """A search whose results are kept under a hash, which its form leads on to."""
    site.add(f"{root}/", "<form method=post action=search><input name=q></form>")

    def found(ask: Ask) -> Reply:
        number = int(ask.form["q"])
        return redirect(f"{root}/results?sid={number:02}3456789abcdef0123456789abcdef0", 303)

    def results(ask: Ask) -> Reply:
        number = int(ask.query["sid"][:2])
        hits = "".join(f"<li>{blurb(5)} {number}.{hit}</li>" for hit in range(4))
        return Reply(template("Results", f"<ul>{hits}</ul>").encode())

    site.routes[f"{root}/search"], site.routes[f"{root}/results"] = found, results


@case(searches)
class SearchSpider(Local, scrapy.Spider):
    name = "results-under-a-hash-called-sid"

    def parse(self, response):
        for number in range(12):
            form = {"q": str(number)}
            yield scrapy.FormRequest(f"{self.root}/search", formdata=form, callback=self.results)

    def results(self, response):
        for hit in response.css("li"):
            yield {"hit": hit.css("::text").re_first(r"[0-9]+[.][0-9]+")}


def descriptions(site: OrdinarySite, root: str) -> None:
    """Entries with a description of their own, whose pages are near copies."""
    entries = "".join(
        f"<li><a href='{root}/page/{n}'>more</a><p>{blurb(12)}</p></li>" for n in range(12)
    )
    site.add(f"{root}/", f"<ul>{entries}</ul>")
    words = prose("shared", 600)
    for n in range(12):
        own = f"{words} {prose(f'end {n}', 1)}"
        site.add(f"{root}/page/{n}", template("Terms", f"<p>{own}</p>"))


@case(descriptions)
class TextOfTwoPagesSpider(Local, scrapy.Spider):
    name = "text-of-two-pages"

    def parse(self, response):
        for entry in response.css("li"):
            meta = {"description": entry.css("p::text").get()}
            yield response.follow(entry.css("a")[0], self.parse_page, meta=meta)

    def parse_page(self, response):
        text = " ".join(response.css("body ::text").getall())
        yield {"text": f"{response.meta['description']}\n{text}"}


def polled(site: OrdinarySite, root: str) -> None:
    """Two coins whose prices go up and return, at the same times."""
    for coin in "xy":
        prices = (json_reply({"price": price}) for price in itertools.cycle((10, 12)))
        site.routes[f"{root}/{coin}"] = lambda ask, of=prices: next(of)


@case(polled)
class ReturningPricesSpider(Local, scrapy.Spider):
    name = "prices-that-return"

    async def start(self):
        for coin in "xy":
            yield Request(f"{self.root}/{coin}", dont_filter=True, cb_kwargs={"n": 0})

    def parse(self, response, n):
        coin = response.url[-1]
        yield {"coin": coin, "price": response.json()["price"]}
        if n < 5:
            yield Request(response.url, dont_filter=True, cb_kwargs={"n": n + 1})


def fragments(site: OrdinarySite, root: str) -> None:
    """Pieces of HTML, of which the address says the half."""
    site.index(f"{root}/", [f"{root}/stock/{n}" for n in range(12)])
    for n in range(12):
        site.add(f"{root}/stock/{n}", f"<span>{'Sold out' if n % 5 else 'In stock'}</span>")


@case(fragments)
class FragmentSpider(IndexSpider):
    name = "pieces-of-html-by-address"

    def parse_page(self, response):
        yield {"url": response.url, "stock": response.css("span::text").get()}


class Stocked(scrapy.Item):
    name = scrapy.Field()
    text = scrapy.Field()
    stock = scrapy.Field()


@case(priced_apart)
class StockByMetaSpider(IndexSpider):
    name = "two-requests-meta"

    def parse_page(self, response):
        item = Stocked(name=response.css("h1::text").get(), text=response.css("main p::text").get())
        yield response.follow(response.css("#stock")[0], self.parse_stock, meta={"item": item})

    def parse_stock(self, response):
        item = response.meta["item"]
        item["stock"] = response.css("p::text").get()
        yield item


@case(priced_apart)
class ThreeRequestsSpider(IndexSpider):
    name = "three-requests"

    def parse_page(self, response):
        links = response.css("#price::attr(href), #stock::attr(href)").getall()
        yield response.follow(
            links[0], self.parse_price, meta={"sku": links[0][-2:], "stock": links[1]}
        )

    def parse_price(self, response):
        item = {"sku": response.meta["sku"], **response.json()}
        yield response.follow(response.meta["stock"], self.parse_stock, cb_kwargs={"item": item})

    def parse_stock(self, response, item):
        yield {**item, "stock": response.css("::text").get()}


@case(priced_apart)
class InlineDownloadSpider(IndexSpider):
    name = "inline-download"

    async def parse_page(self, response):
        url = response.urljoin(response.css("#price::attr(href)").get())
        price = await self.crawler.engine.download_async(Request(url))
        yield {"name": response.css("h1::text").get(), "price": price.json()["price"]}


def shared_author(site: OrdinarySite, root: str) -> None:
    site.add(f"{root}/author", template("The author", blurb(100)))
    site.add_all(root, {f"book/{n}": template(prose(n, 2), prose(n, 60)) for n in range(15)})


@case(shared_author)
class SharedAuthorSpider(IndexSpider):
    """Every book's item ends on the same page, fetched again for each of them."""

    name = "same-last-page"

    def parse_page(self, response):
        yield Request(
            f"{self.root}/author",
            self.parse_author,
            cb_kwargs={"title": response.css("h1::text").get()},
            dont_filter=True,
        )

    def parse_author(self, response, title):
        yield {"title": title, "about": response.css("main p::text").get()}


def identical(site: OrdinarySite, root: str) -> None:
    body = template("Map tile", blurb(80))
    site.add_all(root, {f"tile/{x}/{y}?layer={x}{y}": body for x in range(6) for y in range(5)})


@case(identical)
class PathDataSpider(IndexSpider):
    name = "data-from-path"

    def parse_page(self, response):
        x, y = urlsplit(response.url).path.split("/")[-2:]
        yield {"x": int(x), "y": int(y)}


@case(identical)
class QueryDataSpider(IndexSpider):
    name = "data-from-query"

    def parse_page(self, response):
        yield {"url": response.url, "layer": parse_qs(urlsplit(response.url).query)["layer"][0]}


@case(identical)
class RankSpider(Local, scrapy.Spider):
    name = "rank-from-cb-kwargs"

    def parse(self, response):
        for rank, link in enumerate(response.css("a.entry")):
            yield response.follow(link, self.parse_page, cb_kwargs={"rank": rank})

    def parse_page(self, response, rank):
        yield {"rank": rank, "title": response.css("h1::text").get()}


@case(identical)
class LinkTextSpider(Local, scrapy.Spider):
    name = "link-text-from-meta"

    def parse(self, response):
        for link in response.css("a.entry"):
            yield response.follow(
                link, self.parse_page, meta={"text": link.css("::text").get()[-9:]}
            )

    async def parse_page(self, response):
        yield {"category": response.meta["text"], "url": response.url}


def nothing(site: OrdinarySite, root: str) -> None:
    page = Reply(template("One page", blurb(60)).encode())
    site.routes[f"{root}/"] = lambda ask: page


@case(nothing)
class StartItemsSpider(Local, scrapy.Spider):
    """Items that come from no page at all."""

    name = "items-from-start"

    async def start(self):
        for n in range(10):
            yield {"line": n // 2, "word": f"row {n}"}
        yield Request(self.start_urls[0])

    def parse(self, response):
        yield {"title": response.css("h1::text").get()}


@case(identical)
class IdleSpider(Local, scrapy.Spider):
    """Asks for its next batch whenever it has nothing left to do."""

    name = "batches-when-idle"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.next_batch, signals.spider_idle)
        return spider

    def parse(self, response):
        self.links = iter(response.css("a.entry::attr(href)").getall())
        self.root_response = response

    def next_batch(self):
        for link in itertools.islice(self.links, 10):
            self.crawler.engine.crawl(self.root_response.follow(link, self.parse_tile))
            stay = True
        if "stay" in locals():
            raise DontCloseSpider

    def parse_tile(self, response):
        yield {"tile": response.url.rpartition("/tile/")[2].replace("?", " ")}


def ticker(site: OrdinarySite, root: str) -> None:
    site.index(f"{root}/", [f"{root}/quote"])
    prices = itertools.cycle([19, 19, 20, 21, 20, 19])
    site.routes[f"{root}/quote"] = lambda ask: Reply(
        template("ACME", f"<b>{next(prices)}</b> euros a share. {blurb(120)}").encode()
    )


@case(ticker)
class PollingSpider(IndexSpider):
    name = "polling"

    def parse_page(self, response, tick=0):
        yield {"tick": tick, "price": int(response.css("b::text").get())}
        if tick < 11:
            yield Request(
                response.url, self.parse_page, cb_kwargs={"tick": tick + 1}, dont_filter=True
            )


def gone(site: OrdinarySite, root: str) -> None:
    site.add_all(root, {f"old/{n}": "" for n in range(12)})
    for n in range(12):
        site.add(f"{root}/old/{n}", template("Gone", "This page is no more."), status=410)


@case(gone)
class ErrbackSpider(Local, scrapy.Spider):
    name = "items-from-errback"

    def parse(self, response):
        for n, link in enumerate(response.css("a.entry")):
            yield response.follow(link, errback=self.failed, cb_kwargs={"place": n})

    def failed(self, failure):
        yield {
            "place": failure.request.cb_kwargs["place"],
            "status": failure.value.response.status,
        }


@case(gone)
class ErrorPageSpider(IndexSpider):
    name = "error-pages"
    handle_httpstatus_list: ClassVar = [410]

    def parse_page(self, response):
        yield {"status": response.status, "article": int(response.url.rpartition("/")[2])}


@case(gone)
class BrokenLinkSpider(IndexSpider):
    """Of pages that are no more, their addresses are what is reported."""

    name = "broken-links"
    handle_httpstatus_list: ClassVar = [410]

    def parse_page(self, response):
        yield {"broken": response.url, "status": response.status}


@case(gone)
class BrokenLinkErrbackSpider(Local, scrapy.Spider):
    name = "broken-links-from-errback"

    def parse(self, response):
        yield from response.follow_all(css="a.entry", errback=self.failed)

    def failed(self, failure):
        yield {"broken": failure.value.response.url, "status": failure.value.response.status}


def currencies(site: OrdinarySite, root: str) -> None:
    """One URL whose price depends on who asks."""

    def quote(ask: Ask) -> Reply:
        currency = dict(part.split("=") for part in ask.cookie.split("; ") if part)["currency"]
        return Reply(template("Lamp", f"<b>{len(currency) * 7} {currency}</b>{blurb(90)}").encode())

    site.routes[f"{root}/"] = quote


@case(currencies)
class CookieSpider(Local, scrapy.Spider):
    name = "one-url-several-cookies"

    async def start(self):
        for currency in ("euros", "dollars", "yen", "pounds", "roubles"):
            yield Request(
                self.start_urls[0],
                cookies={"currency": currency},
                meta={"cookiejar": currency},
                dont_filter=True,
            )

    def parse(self, response):
        yield {"price": response.css("b::text").get(), "currency": response.meta["cookiejar"]}


class ByCurrency(RFPDupeFilter):
    """The project's own: requests are told apart by what the spider passes on, too."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.known = set()

    def request_seen(self, request):
        one = request.url, request.meta.get("cookiejar")
        return one in self.known or bool(self.known.add(one))


class NotPrices(RFPDupeFilter):
    """The project's own: some URLs may be asked for as often as the spider likes."""

    def request_seen(self, request):
        return "/price" not in request.url and super().request_seen(request)


def currencies_of_a_price(site: OrdinarySite, root: str) -> None:
    currencies(site, root)
    site.routes[f"{root}/price"] = site.routes[f"{root}/"]
    site.index(f"{root}/", [])


@case(currencies_of_a_price)
class DupeFilterSpider(Local, scrapy.Spider):
    name = "dupefilter-of-the-project"
    custom_settings: ClassVar = {"DUPEFILTER_CLASS": ByCurrency, "CONCURRENT_REQUESTS": 1}

    def parse(self, response):
        for currency in ("euros", "dollars", "yen", "pounds", "roubles"):
            cookies, meta = {"currency": currency}, {"cookiejar": currency}
            yield Request(f"{self.root}/price", self.price, cookies=cookies, meta=meta)

    def price(self, response):
        yield {"price": response.css("b::text").get(), "currency": response.meta["cookiejar"]}


@case(currencies_of_a_price)
class DupeFilterListSpider(DupeFilterSpider):
    name = "dupefilter-that-lets-some-pass"
    custom_settings: ClassVar = {"DUPEFILTER_CLASS": NotPrices, "CONCURRENT_REQUESTS": 1}


def headers(site: OrdinarySite, root: str) -> None:
    site.add_all(root, {f"file/{n}": "" for n in range(15)})
    for n in range(15):
        sent = {
            "Last-Modified": f"Sun, {n + 1:02d} Mar 2026 10:00:00 GMT",
            "X-Owner": f"user{n % 4}",
        }
        page = template("Download", blurb(50)).encode()
        site.pages[f"{root}/file/{n}"] = Reply(page, headers=sent)


@case(headers)
class HeaderSpider(IndexSpider):
    name = "data-from-headers"

    def parse_page(self, response):
        yield {"modified": response.headers["Last-Modified"], "owner": response.headers["X-Owner"]}


@case(headers)
class HeadSpider(Local, scrapy.Spider):
    name = "head-requests"

    def parse(self, response):
        yield from response.follow_all(css="a.entry", callback=self.parse_head, method="HEAD")

    def parse_head(self, response):
        yield {"modified": response.headers["Last-Modified"].decode()}


def one_listing(site: OrdinarySite, root: str) -> None:
    """Long pages that say the same, and what is left of the sizes that their addresses name."""

    def left(ask: Ask) -> Reply:
        return json_reply({"left": len(ask.query["size"] + ask.body.decode())})

    site.routes[f"{root}/left"] = left
    site.add_all(root, {f"lamp?size={'S' * n}M": template("Lamp", blurb(250)) for n in range(10)})


@case(one_listing)
class PruningSpider(IndexSpider):
    """Links of copies are not followed; but in these requests items are under way."""

    name = "items-under-way-out-of-copies"
    custom_settings: ClassVar = {"NEARDUP_FOLLOW_DUPLICATES": False}

    def parse_page(self, response):
        size = parse_qs(urlsplit(response.url).query)["size"][0]
        url = f"{self.root}/left?size={size}"
        yield Request(f"{url}&by=kwargs", self.parse_left, cb_kwargs={"size": size})
        yield Request(f"{url}&by=meta", self.parse_left, meta={"size": size})
        yield Request(f"{url}&by=body", self.parse_left, method="POST", body=size)

    def parse_left(self, response, size=None):
        size = size or response.meta.get("size") or response.request.body.decode()
        yield {"size": size, "asked": response.url.rpartition("=")[2], **response.json()}


def parts_apart(site: OrdinarySite, root: str) -> None:
    """Twelve products in two families of long texts, which differ in a word, and their sheets."""
    pages = {f"other/{n}": template(prose(f"o{n}", 2), paragraph(f"o{n}", 160)) for n in range(6)}
    for n in range(12):
        site.pages[f"{root}/sheet/{n}"] = json_reply({"watts": 7 + n})
        common = [paragraph(f"family {n // 6} {k}", 60) for k in range(10)]
        line = f"<p>{prose('so', 20)[:-1]} <em>{prose(f'part {n}', 1)[:-1]}</em> {prose('on', 20)}"
        link = f"<a id=sheet href='{root}/sheet/{n}'>Sheet</a>"
        pages[f"{n}"] = template("Lamp", "".join([*common[:5], line, *common[5:], link]))
    site.add_all(root, pages)


def paragraph(name: str, n_words: int) -> str:
    return f"<p>{prose(name, n_words)}</p>"


@case(parts_apart)
class WaitingSpider(IndexSpider):
    """Yields an item, asks for more, and goes on when the answer has come."""

    name = "awaits-what-it-has-asked-for"

    async def parse_page(self, response):
        if not response.css("#sheet"):
            return
        sheet = asyncio.get_running_loop().create_future()
        yield {"name": response.css("em::text").get()}
        yield response.follow(
            response.css("#sheet::attr(href)").get(), self.parse_sheet, cb_kwargs={"sheet": sheet}
        )
        yield {"name": response.css("em::text").get(), **await sheet}

    def parse_sheet(self, response, sheet):
        sheet.set_result(response.json())


class Storing(OfCrawler):
    """Tells the spider's callback that its item is stored."""

    def process_item(self, item):
        if "parts" not in item:
            self.crawler.spider.stored[item["name"]].set()
        return item


@case(parts_apart)
class StoredFirstSpider(IndexSpider):
    """Yields the head of an order, and its parts once the head is stored."""

    name = "awaits-that-its-item-is-stored"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {Storing: 600}}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.stored = {}

    async def parse_page(self, response):
        name = response.css("em::text").get()
        if name is None:
            return
        self.stored[name] = asyncio.Event()
        yield {"name": name}
        await self.stored[name].wait()
        yield {"name": name, "parts": 3}


def shells(site: OrdinarySite, root: str) -> None:
    """An application's pages, which are all the same, and the prices that it asks for."""
    shell = template("Shop", f"<div id=app>{blurb(80)}</div>")
    site.add_all(root, {f"product/{n}": shell for n in range(24)})
    for n in range(24):
        site.routes[f"{root}/price/{n}"] = lambda ask, n=n: json_reply({"price": 10 + n % 4})


@case(shells)
class AwaitedPriceSpider(IndexSpider):
    """Awaits what it says of a page that says nothing."""

    name = "awaits-the-price-of-an-empty-page"

    async def parse_page(self, response):
        number = response.url.rpartition("/")[2]
        answer = await self.crawler.engine.download_async(Request(f"{self.root}/price/{number}"))
        yield {"url": response.url, "price": answer.json()["price"]}


@case(shells)
class ReturnedPriceSpider(AwaitedPriceSpider):
    """The same by a coroutine, which returns its items."""

    name = "returns-the-price-of-an-empty-page"

    async def parse_page(self, response):
        return [item async for item in super().parse_page(response)]

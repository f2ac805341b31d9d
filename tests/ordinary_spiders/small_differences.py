"""Pages under much equal text that differ in one fact, a few words or a symbol."""

from mock_site import prose

from .cases import IndexSpider, case
from .site import OrdinarySite, blurb, product, template


def variants(site: OrdinarySite, root: str) -> None:
    """Twenty articles in four sizes each: one description, another size, price and number."""

    def body(n: int, size: str, extra: int) -> str:
        sku = f"<b class=sku>{product(n)['sku']}-{size}</b>"
        price = f"<b class=price>{19 + n + extra}.90</b>"
        return template(
            product(n)["name"], f"<p>{prose(n)}</p>{sku} <i>{size}</i> {price}{blurb(60)}"
        )

    sizes = {"S": 0, "M": 0, "L": 2, "XL": 4}
    site.add_all(
        root,
        {f"p/{n}?size={s}": body(n, s, extra) for n in range(20) for s, extra in sizes.items()},
    )


@case(variants)
class VariantSpider(IndexSpider):
    name = "product-variants"

    def parse_page(self, response):
        yield {
            "name": response.css("h1::text").get(),
            "text": response.css("main p::text").get(),
            "sku": response.css(".sku::text").get(),
            "price": response.css(".price::text").get(),
        }


@case(variants)
class VariantSizeSpider(IndexSpider):
    name = "product-sizes"

    def parse_page(self, response):
        yield {"product": response.css("h1::text").get(), "size": response.css("i::text").get()}


def accounts(site: OrdinarySite, root: str) -> None:
    """Reports in pairs: one of a profit, one of as large a loss, as accounts write it."""

    def body(n: int) -> str:
        above, below = (f"<p>{prose(f'{at} {n // 2}', 400)}</p>" for at in ("above", "below"))
        row = f"<tr><td>Net income</td><td>{'(500)' if n % 2 else '500'}</td></tr>"
        return template(f"Report {n // 2}", f"{above}<table>{row}</table>{below}")

    site.add_all(root, {f"{n}": body(n) for n in range(20)})


@case(accounts)
class AccountTextSpider(IndexSpider):
    name = "losses-in-brackets"

    def parse_page(self, response):
        yield {"text": "\n".join(response.css("body ::text").getall())}


def dockets(site: OrdinarySite, root: str) -> None:
    def body(n: int) -> str:
        return template("Court notice", f"<p>Docket No. 26-{4400 + 13 * n}</p>{blurb(300)}")

    site.add_all(root, {f"case-{n}": body(n) for n in range(40)})


@case(dockets)
class DocketSpider(IndexSpider):
    name = "docket-numbers"

    def parse_page(self, response):
        yield {"docket": response.css("main p::text").re_first(r"No\. (.*)")}


@case(dockets)
class DocketTextSpider(IndexSpider):
    """The number is in no field of its own, only in the long text."""

    name = "docket-in-long-text"

    def parse_page(self, response):
        text = " ".join(response.css("main ::text").getall())
        yield {"url": response.url, "title": response.css("h1::text").get(), "text": text}


@case(dockets)
class DocketPageSpider(IndexSpider):
    name = "docket-in-whole-page"

    def parse_page(self, response):
        yield {"url": response.url, "html": response.text}


def books(site: OrdinarySite, root: str) -> None:
    def body(n: int) -> str:
        fields = f"<dl><dt>ISBN<dd>978-3-16-14{8400 + n}-0<dt>Author<dd>{prose(f'a{n}', 2)}</dl>"
        return template(f"The {prose(f't{n}', 1)}", blurb(220) + fields)

    site.add_all(root, {f"{n:05}": body(n) for n in range(30)})


@case(books)
class BookSpider(IndexSpider):
    name = "books-with-one-blurb"

    def parse_page(self, response):
        yield {
            "url": response.url,
            "isbn": response.css("dd::text").get(),
            "blurb": response.css("main p::text").get(),
        }


SIGNS = (
    *("C++", "C", "C#", "F#", "F", "-5 °C", "5 °C", "+5 °C", "€ 500", "$ 500", "£ 500", "500 %"),
    *(
        "★",
        "★★",
        "★★★",
        "★★★★",
        "a < b",
        "a > b",
        "a = b",
        "a ≠ b",
        "x²",
        "x",
        "✓",
        "✗",
        "½",
        "1/2",
    ),
)


def symbols(site: OrdinarySite, root: str) -> None:
    pages = {
        f"s/{i}": template("Value", f"<p>{sign.replace('<', '&lt;')}</p>")
        for i, sign in enumerate(SIGNS)
    }
    site.add_all(root, pages)


def symbols_in_text(site: OrdinarySite, root: str) -> None:
    site.add_all(
        root,
        {
            f"s/{i}": template("Value", f"<p>{sign.replace('<', '&lt;')}</p>{blurb(90)}")
            for i, sign in enumerate(SIGNS)
        },
    )


@case(symbols)
class SymbolSpider(IndexSpider):
    name = "symbols"

    def parse_page(self, response):
        yield {"url": response.url, "value": response.css("main p::text").get()}


@case(symbols_in_text)
class SymbolTextSpider(IndexSpider):
    name = "symbols-among-equal-words"

    def parse_page(self, response):
        yield {"url": response.url, "value": response.css("main p::text").get()}


@case(symbols_in_text, may_lose=0.05)
class SymbolPageSpider(IndexSpider):
    name = "symbols-in-whole-page"

    def parse_page(self, response):
        yield {"url": response.url, "html": response.text}


def stations(site: OrdinarySite, root: str) -> None:
    def body(n: int) -> str:
        rows = "".join(
            f"<tr><td>{hour}:00</td><td>{(7 * n + hour) % 30 - 9}</td></tr>" for hour in range(24)
        )
        return template("Readings", f"<table>{rows}</table>{blurb(80)}")

    site.add_all(root, {f"station?id={n}": body(n) for n in range(24)})


@case(stations)
class TableSpider(IndexSpider):
    name = "tables-of-numbers"

    def parse_page(self, response):
        station = int(response.url.rpartition("=")[2])
        for row in response.css("tr"):
            hour, degrees = row.css("td::text").getall()
            yield {"station": station, "hour": hour, "degrees": int(degrees)}


@case(stations)
class WarmestSpider(IndexSpider):
    name = "table-summary"

    def parse_page(self, response):
        values = [int(cell) for cell in response.css("td + td::text").getall()]
        yield {"source": response.url, "values": values, "mean": sum(values) / len(values)}


def lists(site: OrdinarySite, root: str) -> None:
    """Pages of a list, five short rows each."""
    for n in range(1, 21):
        rows = "".join(f"<li>Lot {5 * n + i}</li>" for i in range(5))
        following = f"<a class=next href='{root}/list?page={n + 1}'>next</a>" if n < 20 else ""
        body = template("Lots", f"<ul>{rows}</ul><p>Page {n} of 20</p>{following}")
        site.add(f"{root}/list?page={n}", body)
    site.index(f"{root}/", [f"{root}/list?page=1"])


@case(lists)
class PagedListSpider(IndexSpider):
    name = "paged-list"

    def parse_page(self, response):
        for row in response.css("li::text").getall():
            yield {"lot": row}
        yield from response.follow_all(css="a.next", callback=self.parse_page)


POSTS = (
    "Thanks!",
    "+1",
    "Me too",
    "Solved, thank you",
    "Thanks!",
    "-1",
    "+1",
    "Bump",
    "No.",
    "No?",
)


def forum(site: OrdinarySite, root: str) -> None:
    def body(n: int) -> str:
        user = f"<a class=user href='/u/{n % 7}'>{prose(f'u{n % 7}', 1)}</a>"
        return template(
            "Re: Error 404", f"<article>{user}<p>{POSTS[n % 10]}</p><time>{n}</time></article>"
        )

    site.add_all(root, {f"post/{n}": body(n) for n in range(40)})


@case(forum)
class ForumSpider(IndexSpider):
    name = "forum-posts"

    def parse_page(self, response):
        yield {
            "id": int(response.url.rpartition("/")[2]),
            "user": response.css(".user::text").get(),
            "text": response.css("article p::text").get(),
        }


LANGUAGES = {
    "en": "The museum is open today",
    "de": "Das Museum ist heute offen",
    "fr": "Le musée est ouvert aujourd'hui",
    "ru": "Музей сегодня открыт",
    "el": "Το μουσείο είναι ανοιχτό σήμερα",
    "ja": "博物館は本日開館しています",
    "zh": "博物馆今天开放",
    "ar": "المتحف مفتوح اليوم",
    "he": "המוזיאון פתוח היום",
    "hi": "संग्रहालय आज खुला है",
    "th": "พิพิธภัณฑ์เปิดวันนี้",
    "ko": "박물관은 오늘 엽니다",
}


def languages(site: OrdinarySite, root: str) -> None:
    site.add_all(
        root,
        {
            f"{tag}/": template("Museum", f"<p lang={tag}>{text}</p>")
            for tag, text in LANGUAGES.items()
        },
    )


@case(languages)
class LanguageSpider(IndexSpider):
    name = "languages"

    def parse_page(self, response):
        text = response.css("main p")
        yield {"language": text.attrib["lang"], "text": text.css("::text").get()}


def untranslated(site: OrdinarySite, root: str) -> None:
    """The language is in the URL and the markup; the text is still the same."""
    site.add_all(
        root,
        {f"{tag}/": f"<html lang={tag}>{template('Museum', blurb(100))}" for tag in LANGUAGES},
    )


@case(untranslated)
class UntranslatedSpider(IndexSpider):
    name = "language-in-markup"

    def parse_page(self, response):
        yield {"language": response.css("html::attr(lang)").get(), "url": response.url}


def calendar(site: OrdinarySite, root: str) -> None:
    def body(n: int) -> str:
        days = " ".join(str(day) for day in range(1, 31))
        return template(
            "Events", f"<h2>2026-{n:02d}</h2><p>{days}</p><p>{n} events</p>{blurb(400)}"
        )

    site.add_all(root, {f"?month={n}": body(n) for n in range(1, 13)})


@case(calendar)
class CalendarSpider(IndexSpider):
    name = "calendar-months"

    def parse_page(self, response):
        yield {"month": response.css("h2::text").get(), "events": response.css("p + p::text").get()}


def negations(site: OrdinarySite, root: str) -> None:
    site.add_all(
        root,
        {
            f"drug/{n}": template(
                "Leaflet", f"<p>{'Do not take' if n % 2 else 'Take'} with milk.</p>{blurb(250)}"
            )
            for n in range(20)
        },
    )


@case(negations)
class NegationSpider(IndexSpider):
    name = "negations"

    def parse_page(self, response):
        yield {
            "drug": response.url.rpartition("/")[2],
            "safe": "not" not in response.css("main p::text").get(),
        }


DENIED = {
    "de": ("mit einem Vertrag", "mit keinem Vertrag"),
    "pt": ("o produto é seguro", "o produto não é seguro"),
    "sv": ("varan tål vatten", "varan tål inte vatten"),
    "da": ("varen tåler vand", "varen tåler ikke vand"),
    "fi": ("tuote on valmis", "tuote ei ole valmis"),
    "hu": ("a termék új", "a termék nem új"),
    "ro": ("produsul este nou", "produsul nu este nou"),
    "el": ("με εγγύηση", "χωρίς εγγύηση"),
    "uk": ("товар є новим", "товар не є новим"),
    "vi": ("sản phẩm mới", "sản phẩm không mới"),
    "id": ("produk ini baru", "produk ini tidak baru"),
    "ko": ("방수 됩니다", "방수 안 됩니다"),
    "fa": ("این کالا نو است", "این کالا نو نیست"),
    "zh": ("库存 有", "库存 無"),
}


def denied(site: OrdinarySite, root: str) -> None:
    """A text in each language, and the same with one clause the other way round."""
    bodies = {}
    for language, variants in DENIED.items():
        for n, clause in enumerate(variants):
            text = f"{prose(language, 150)} {clause} {prose(f'{language} below', 150)}"
            bodies[f"{language}/{n}"] = template("Terms", f"<p>{text}</p>")
    site.add_all(root, bodies)


@case(denied)
class DeniedSpider(IndexSpider):
    """Its items are the whole page."""

    name = "clauses-denied"

    def parse_page(self, response):
        yield {"url": response.url, "html": response.text}


RATED = (
    "<table><tr><td>{n}</td></tr></table>",
    "<p>{n} %</p>",
    "<ul><li>{letter}</ul>",
    "<b>{stars}</b>",
    "<p>{n}.99</p>",
)


def rated(site: OrdinarySite, root: str) -> None:
    """Thirty texts, each on four pages, with a line below that is on many pages."""
    for n in range(30):
        for v in range(4):
            line = RATED[n % len(RATED)].format(n=v, letter="SMLX"[v], stars="★" * (v + 1))
            site.add(f"{root}/{n}/{v}", template("Lamp", f"<p>{prose(n, 300)}</p>{line}"))
    site.index(f"{root}/", [f"{root}/{n}/{v}" for n in range(30) for v in range(4)])


@case(rated)
class RatedSpider(IndexSpider):
    name = "numbers-that-many-pages-have"

    def parse_page(self, response):
        yield {"url": response.url, "html": response.text}


SWAPPED = (
    "<table><tr><td>Home</td><td>{a}</td><td>Away</td><td>{b}</td></tr></table>",
    "<p>Goals: {a} at home. And away: {b} in all.</p>",
    "<table><tr><td>{a}.00</td><td>{b}.00</td></tr></table>",
    "<dl><dt>Before<dd>{a} %<dt>After<dd>{b} %</dl>",
    "<ol><li>{a}<li>7<li>{b}</ol>",
)


def swapped(site: OrdinarySite, root: str) -> None:
    """Thirty texts, each on two pages, of which one has the other's numbers the other way round."""
    for n in range(30):
        a, b, text = 1 + n % 4, 5 + n % 3, f"<p>{prose(n, 330)}</p>"
        figures = SWAPPED[n % len(SWAPPED)]
        site.add(f"{root}/{n}/one", template("Result", text + figures.format(a=a, b=b)))
        site.add(f"{root}/{n}/other", template("Result", text + figures.format(a=b, b=a)))
    site.index(f"{root}/", [f"{root}/{n}/{one}" for n in range(30) for one in ("one", "other")])


@case(swapped)
class SwappedSpider(IndexSpider):
    name = "swapped-numbers"

    def parse_page(self, response):
        yield {"url": response.url, "html": response.text}

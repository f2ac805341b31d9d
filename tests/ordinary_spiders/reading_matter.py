"""Texts in many scripts and of many kinds, long ones above all, that differ in a little."""

from collections.abc import Callable
from typing import Any

from mock_site import prose
from scrapy import Request

from .cases import IndexSpider, case
from .site import OrdinarySite, blurb, json_reply, template

# A text of many words in each script, and what is said of the entry n in it.
SCRIPTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "th": ("ร้านของเราเปิดทุกวันและส่งสินค้าทั่วประเทศภายในสามวัน", ("เปิด", "ปิด", "ไม่เปิด", "เต็ม")),
    "ar": ("متجرنا مفتوح كل يوم ونرسل إلى جميع البلدان", ("مفتوح", "مغلق", "غير مفتوح", "ممتلئ")),
    "zh": ("我们的商店每天营业并在三天内向所有国家发货", ("有货", "缺货", "预订", "停产")),
    "he": ("החנות שלנו פתוחה כל יום ואנו שולחים לכל המדינות", ("פתוח", "סגור", "לא פתוח", "מלא")),
    "hi": ("हमारी दुकान हर दिन खुली है और हम सभी देशों में भेजते हैं", ("खुला", "बंद", "नहीं", "भरा")),
    "ja": ("当店は毎日営業しており三日以内に発送します", ("在庫あり", "在庫なし", "予約", "終了")),
    "emoji": ("We ship to all countries of the union", ("🟢", "🔴", "🟡", "🟢🟢")),
}  # fmt: skip
VARIANTS = range(4)


def shops(site: OrdinarySite, root: str) -> None:
    for language, (text, words) in SCRIPTS.items():
        for n in VARIANTS:
            side = "rtl" if language in ("ar", "he") else "ltr"
            body = f"<p dir={side} lang={language}>{' '.join([text] * 12)}</p><b>{words[n]}</b>"
            site.add(f"{root}/{language}/{n}", template("Shop", body))
    site.index(f"{root}/", [f"{root}/{language}/{n}" for language in SCRIPTS for n in VARIANTS])


@case(shops)
class ScriptSpider(IndexSpider):
    name = "scripts-of-the-world"

    def parse_page(self, response: Any):
        yield {"language": response.css("p::attr(lang)").get(), "is": response.css("b::text").get()}


SMALL_WORDS = {
    "letter": ("Take vitamin C with it", "Take vitamin D with it", "Take vitamin K with it"),
    "size": ("It comes in S only", "It comes in M only", "It comes in L only"),
    "number in words": ("Serves three guests", "Serves five guests", "Serves eight guests"),
    "weekday": ("Closed on Monday", "Closed on Tuesday", "Closed on Sunday"),
    "direction": ("Turn left there", "Turn right there", "Turn round there"),
    "duty": ("The tenant may paint", "The tenant must paint", "The tenant shall paint"),
    "ingredient": ("Stir in butter", "Stir in cream", "Stir in lard"),
    "name": ("Yours, Anna", "Yours, Berta", "Yours, Clara"),
    "chinese number": ("票价三百元", "票价五百元", "票价八百元"),
    "thai": ("ร้านเปิดวันนี้", "ร้านปิดวันนี้", "ร้านไม่เปิด"),
    "arabic": ("المتجر مفتوح", "المتجر مغلق", "ليس مفتوحا"),
    "operator": ("if x < y then", "if x > y then", "if x = y then"),
}


def applications(site: OrdinarySite, root: str) -> None:
    """Shells of equal bytes; the long text is behind an interface, a word of it differs."""
    urls = [f"{root}/app?q={kind.replace(' ', '-')}-{n}" for kind in SMALL_WORDS for n in range(3)]
    for url in urls:
        site.add(url, template("Reader", blurb(60)))
    for kind, words in SMALL_WORDS.items():
        for n, said in enumerate(words):
            text = f"{prose('long', 200)} {said} {prose('rest', 200)}"
            site.pages[f"{root}/api?q={kind.replace(' ', '-')}-{n}"] = json_reply({"text": text})
    site.index(f"{root}/", urls)


@case(applications)
class ReaderSpider(IndexSpider):
    """A long text that the page itself does not have: equal pages say nothing about it."""

    name = "long-text-from-elsewhere"

    async def parse_page(self, response: Any):
        api = Request(response.url.replace("/app?", "/api?"))
        answer = await self.crawler.engine.download_async(api)
        yield {"text": answer.json()["text"], "url": response.url}


def near_applications(site: OrdinarySite, root: str) -> None:
    """Pages of which two and two are near; the long text is behind an interface, as above."""
    urls = []
    for kind, words in SMALL_WORDS.items():
        for n, said in enumerate(words):
            path = f"{kind.replace(' ', '-')}-{n}"
            about = f"{prose(kind, 150)} {prose(path, 1)} {prose(f'{kind} below', 150)}"
            site.add(f"{root}/app?q={path}", template("Reader", f"<p>{about}</p>"))
            text = f"{prose('long', 200)} {said} {prose('rest', 200)}"
            site.pages[f"{root}/api?q={path}"] = json_reply({"text": text})
            urls.append(f"{root}/app?q={path}")
    site.index(f"{root}/", urls)


@case(near_applications)
class NearReaderSpider(ReaderSpider):
    """That pages are near says nothing about a text that they do not show."""

    name = "long-text-from-elsewhere-on-near-pages"


def documents(write: Callable[[int], str], n_pages: int = 10) -> Any:
    """Builds pages of a kind; write: what the page n says below its title."""

    def build(site: OrdinarySite, root: str) -> None:
        site.add_all(root, {f"{n}": template("Page", write(n)) for n in range(n_pages)})

    return build


def listing(n: int) -> str:
    signs = ("<=", ">=", "==", "!=", "+=", "-=", "<<", ">>", "&&", "||")
    lines = "".join(f"    x{i} = f(x{i - 1})\n" for i in range(1, 40))
    return f"<pre>def g(x0):\n{lines}    return x1 {signs[n]} x2\n</pre>"


class TextSpider(IndexSpider):
    """Its item is all that the page says."""

    def parse_page(self, response: Any):
        yield {"text": " ".join(response.css("main ::text").getall()), "url": response.url}


@case(documents(lambda n: listing(n).replace("<=", "&lt;=").replace("<<", "&lt;&lt;")))
class SourceSpider(TextSpider):
    name = "source-code"


def timetable(n: int) -> str:
    rows = "".join(f"<tr><td>Stop {i}<td>8:{i + 10}" for i in range(30))
    days = ("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su", "holidays", "school days", "the eve")
    return f"<table>{rows}</table><p>{days[n]} only</p>"


@case(documents(timetable))
class TimetableSpider(IndexSpider):
    """One table of text, and what day it is for."""

    name = "timetables"

    def parse_page(self, response: Any):
        rows = ["\t".join(row.css("td::text").getall()) for row in response.css("tr")]
        yield {"rows": rows, "day": response.css("main p::text").get()}


def standings(n: int) -> str:
    names = [prose(f"team {i}", 1) for i in range(20)]
    names[n], names[n + 1] = names[n + 1], names[n]
    return "<ol>" + "".join(f"<li>{name}</li>" for name in names) + "</ol>"


@case(documents(standings))
class StandingsSpider(IndexSpider):
    """Who is above whom."""

    name = "standings"

    def parse_page(self, response: Any):
        yield {"order": response.css("li::text").getall()}


def thread(n: int) -> str:
    posts = "".join(f"<div class=post>{prose(f'post {i}', 40)}</div>" for i in range(4))
    return f"{posts}<div class=post>{('+1', 'Me too', 'Thanks', 'No', 'Yes')[n % 5]}</div>"


@case(documents(thread, 5))
class ThreadSpider(IndexSpider):
    """An item a post; most of them are on all pages, whose own last one is a word or two."""

    name = "threads-with-one-more-post"

    def parse_page(self, response: Any):
        for place, post in enumerate(response.css(".post::text").getall()):
            yield {"page": response.url[-1], "place": place, "post": post}


def forecast(n: int) -> str:
    return f"<p>{prose('week', 120)}</p><b title='{10 + n} degrees'>{'☀☁☂☃☔'[n % 5]}</b>"


@case(documents(forecast))
class ForecastSpider(IndexSpider):
    name = "forecasts"

    def parse_page(self, response: Any):
        yield {"sky": response.css("b::text").get(), "title": response.css("b::attr(title)").get()}

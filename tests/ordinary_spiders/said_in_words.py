"""Pages of equal text that differ in a word or a sign of one brief line."""

from collections.abc import Callable
from random import Random
from typing import Any

from mock_site import prose

from .cases import IndexSpider, case
from .site import OrdinarySite, blurb, template

# A line of a page and its variants: nothing else tells the pages of a kind apart.
SAID = {
    "unit": ("Weight: {}", ("10 kg", "10 lb", "10 g", "10 oz")),
    "currency": ("Price: {}", ("19 EUR", "19 USD", "19 CHF", "19 GBP")),
    "stock": ("{}", ("In stock", "Not in stock", "Sold out", "Back soon")),
    "open": ("The museum is {} today", ("open", "closed", "full", "free")),
    "ordinal": ("The {} edition of this book", ("first", "second", "third", "fourth")),
    "short-ordinal": ("The {} edition of this book", ("1st", "2nd", "3rd", "4th")),
    "roman": ("Chapter {}", ("IV", "V", "VI", "IX")),
    "spelled-number": ("It seats {} people", ("three", "four", "five", "twelve")),
    "power": ("Reads x{} here", ("²", "³", "⁴", "ⁿ")),
    "version": ("Version {}", ("1.2.3", "1.2.4", "1.3.2", "2.1.3")),
    "beta": ("Release {}", ("alpha", "beta", "final", "candidate")),
    "phone": ("Call {} for help", ("089 123456", "089 123457", "+49 89 123456", "089/123465")),
    "formula": ("It is made of {}", ("H2O", "H2O2", "CO2", "CO")),
    "element": ("It is made of {}", ("iron", "tin", "zinc", "gold")),
    "chess": ("White plays {} and wins", ("Nf3", "Nc3", "e4", "d4")),
    "position": ("{}", ("8/8/8/4k3/8/8/4P3/4K3 w", "8/8/8/4k3/8/8/4P3/4K3 b",
        "8/8/8/4k3/8/8/3P4/4K3 w",
        "8/8/8/3k4/8/8/4P3/4K3 w")),
    "weekday": ("Every {} at noon", ("Monday", "Tuesday", "Friday", "Sunday")),
    "month": ("On the 5 {} 2027", ("March", "April", "May", "June")),
    "event": ("{}: concert", ("12 May 2027", "19 May 2027", "12 June 2027", "12 May 2028")),
    "timetable": ("Leaves at {}", ("8:05", "8:50", "18:05", "8:05 pm")),
    "colour": ("Colour: {}", ("red", "blue", "green", "black")),
    "colour-code": ("Colour: {}", ("#ff0000", "#00ff00", "#0000ff", "#ff00ff")),
    "size": ("Size {}", ("small", "medium", "large", "huge")),
    "emoji": ("{}", ("😀", "😡", "👍", "👎")),
    "skin": ("Rated {} by you", ("👍", "👍🏻", "👍🏿", "👍🏽")),
    "flag": ("Ships from {}", ("🇩🇪", "🇫🇷", "🇮🇹", "🇪🇸")),
    "family": ("For {}", ("👩", "👩‍👧", "👩‍👩‍👧", "👨‍👧")),
    "yes": ("Vegan: {}", ("yes", "no", "partly", "unknown")),
    "truth": ("This is {}", ("true", "false", "unknown", "null")),
    "direction": ("Turn {} at the church", ("left", "right", "back", "round")),
    "change": ("Shares {} today", ("rise", "fall", "wait", "end")),
    "sign": ("Change {}", ("+0.5", "-0.5", "±0.5", "−0.6")),
    "range": ("Ages {}", ("3-5", "3–6", "3+", "<3")),
    "fraction": ("Add {} cup", ("½", "¼", "1/2", "1/3")),
    "thousands": ("Sold {}", ("1,000", "1.000", "1 000", "1,00")),
    "exponent": ("Mass {}", ("1e5", "1e6", "10^5", "10^-5")),
    "angle": ("Lies at {}", ("48° N", "48° S", "48′ N", "48″ N")),
    "note": ("Key of {}", ("C", "C♯", "C♭", "Cm")),
    "grade": ("Grade {}", ("A", "B", "A-", "A+")),
    "blood": ("Group {}", ("A", "AB", "O", "B")),
    "letter": ("Platform {}", ("a", "b", "e", "i")),
    "postcode": ("Lives in {}", ("SW1A 1AA", "SW1A 2AA", "SW1A 1AB", "EC1A 1AA")),
    "plate": ("Car {}", ("M-AB 12", "M-BA 12", "M-AB 21", "B-AB 12")),
    "iata": ("Lands in {}", ("MUC", "TXL", "CDG", "FCO")),
    "name": ("By {}", ("Ann", "Bob", "Eve", "Mallory")),
    "class": ("Extends {}", ("IndexReader", "IndexWriter", "IndexSearcher", "LeafReader")),
    "function": ("Calls {} first", ("get_size", "set_size", "get_name", "os.path")),
    "ratio": ("Scale {}", ("1:10", "1:100", "10:1", "1∶20")),
    "score": ("It ended {}", ("3:1", "1:3", "3-1", "3:1 a.e.t.")),
    "arrow": ("Trend {}", ("↑", "↓", "→", "↗")),
    "check": ("Warranty {}", ("✓", "✗", "☐", "☑")),
    "stars": ("{}", ("★★★☆☆", "★★★★☆", "★☆☆☆☆", "★★★★★")),
    "dots": ("{}", ("●●○", "●○○", "○○○", "●●●")),
    "bars": ("{}", ("▁▃▅", "▅▃▁", "▁▁▁", "▇▇▇")),
    "dice": ("Thrown {}", ("⚀", "⚁", "⚂", "⚃")),
    "braille": ("{}", ("⠓⠑⠇", "⠓⠑⠍", "⠇⠑⠓", "⠓⠑")),
    "chinese-number": ("{}", ("共三人", "共四人", "共五人", "共六人")),
    "chinese-stock": ("{}", ("有货", "无货", "缺货", "预售")),
    "japanese": ("{}", ("営業中", "準備中", "定休日", "閉店")),
    "chinese-sentence": ("本书由{}先生翻译为中文出版", ("王小明", "李大海", "陈国强", "赵子龙")),
    "japanese-sentence": ("この商品は{}から発送します", ("東京", "大阪", "京都", "札幌")),
    "thai-sentence": ("ส่งจาก{}ทุกวัน", ("ตรัง", "ชลบุรี", "น่าน", "พะเยา")),
    "thai": ("{}", ("เปิด", "ปิด", "ว่าง", "เต็ม")),
    "arabic-number": ("السعر {} درهم", ("١٩", "٩١", "٢٠", "19")),
    "arabic": ("المتحف {} اليوم", ("مفتوح", "مغلق", "مجاني", "ممتلئ")),
    "hebrew": ("{}", ("פתוח", "סגור", "מלא", "פנוי")),
    "korean": ("{}", ("판매중", "품절", "예약", "종료")),
    "hindi-number": ("{} लोग", ("३", "४", "५", "६")),
    "german-negation": ("{}", ("Lieferbar", "Nicht lieferbar", "Ausverkauft", "Vergriffen")),
    "source": ("if x {} y: pass", ("<", ">", "==", "!=")),
    "operator": ("return a {} b", ("and", "or", "is", "in")),
    "indent": ("ratio = x {} 2", ("*", "/", "**", "//")),
    "regex": ("Use {} there", ("\\d+", "\\d*", "\\w+", "[0-9]+")),
    "pronoun": ("Written by {} alone", ("him", "her", "them", "us")),
    "key": ("Press {}", ("⌘C", "⌘V", "⌥C", "⇧C")),
    "card": ("Dealt {}", ("♠A", "♥A", "♦A", "♣A")),
    "set": ("So that {}", ("x∈A", "x∉A", "x∌A", "x∪A")),
    "icon": ("Rated {}", ("\uf005", "\uf006", "\uf123", "\uf005\uf005")),
    "hidden-digits": ("Costs ¥{}", ("\ue602\ue345", "\ue345\ue602", "\ue602\ue602", "\ue11a")),
    "zodiac": ("Born under {}", ("♈", "♉", "♊", "♋")),
}  # fmt: skip

Text = Callable[[str, str], str]


def line_below(kind: str, line: str) -> str:
    """A line of its own below a text of the kind's own."""
    return f"<p>{prose(kind, 200)}</p><p>{line}</p>"


def line_above(kind: str, line: str) -> str:
    """A line of its own above the text that all pages have."""
    return f"<p>{line}</p>{blurb(150)}"


def said(text: Text) -> Callable[[OrdinarySite, str], None]:
    """Builds a site of pages of all kinds in all their variants."""

    def build(site: OrdinarySite, root: str) -> None:
        site.add_all(
            root,
            {
                f"{kind}/{n}": template(
                    "Notice", text(kind, line.format(variant.replace("<", "&lt;")))
                )
                for kind, (line, variants) in SAID.items()
                for n, variant in enumerate(variants)
            },
        )

    return build


class TextSpider(IndexSpider):
    """Its items hold the whole text, and nothing else."""

    def parse_page(self, response: Any):
        yield {"url": response.url, "text": " ".join(response.css("main ::text").getall())}


class WholePageSpider(IndexSpider):
    def parse_page(self, response: Any):
        yield {"url": response.url, "html": response.text}


@case(said(line_below))
class LineBelowTextSpider(TextSpider):
    name = "said-below-in-text"


@case(said(line_below))
class LineBelowPageSpider(WholePageSpider):
    name = "said-below-in-whole-page"


@case(said(line_above))
class LineAbovePageSpider(WholePageSpider):
    name = "said-above-in-whole-page"


THAI, VOWELS = "กขคงจชซญดตถทนบปผพฟมยรลวสหอ", "าิีุูะำ่"


def phrase(n: int) -> str:
    """Forty letters without a space, every other one a vowel or its sign."""
    drawn = Random(n)
    return "".join(drawn.choice(THAI) + drawn.choice(VOWELS) for _ in range(20))


def thai_phrases(site: OrdinarySite, root: str) -> None:
    """Twenty texts of forty phrases, each four times, one phrase another."""

    def body(n: int, variant: int) -> str:
        phrases = [phrase(100 * n + at) for at in range(40)]
        phrases[20] = phrase(5000 + 100 * n + variant)
        return template(f"Document {prose(n, 1)}", f"<p>{' '.join(phrases)}</p>")

    site.add_all(root, {f"{n}-{v}": body(n, v) for n in range(20) for v in range(4)})


@case(thai_phrases)
class ThaiPhrasesSpider(TextSpider):
    name = "thai-phrases"

"""Pages of equal text that differ in one detail of their markup, a kind of detail each."""

from collections.abc import Callable, Iterable
from typing import Any

from mock_site import prose

from .cases import IndexSpider, case
from .site import OrdinarySite, blurb, template

# What a page says besides its text, and the XPath of what an item takes from it.
DETAILS = {
    "rdfa": ("<b property='price' content='{n}'></b>", "//@content"),
    "data-attribute": ("<p data-price='{n}9.90'>Price on request</p>", "//@data-price"),
    "json-in-attribute": ("<div data-props='{{\"stock\": {n}}}'></div>", "//@data-props"),
    "base64-in-attribute": ("<div data-state='eyJzdG9jayI6{n}fQ=='></div>", "//@data-state"),
    "image": ("<img src='/img/photo-{letter}.jpg'>", "//img/@src"),
    "picture": ("<picture><source srcset='/{letter}.webp 2x'></picture>", "//@srcset"),
    "alt": ("<img src=a.jpg alt='The {letter} side'>", "//@alt"),
    "video": ("<video poster='/{letter}.jpg'><source src='/v.mp4'></video>", "//@poster"),
    "audio": ("<audio src='/{letter}.mp3'></audio>", "//audio/@src"),
    "frame": ("<iframe src='https://maps.example/{letter}'></iframe>", "//iframe/@src"),
    "object": ("<object data='/plans/{letter}.pdf'></object>", "//@data"),
    "download": ("<a href='/files/{letter}.pdf'>Download</a>", "//main/a/@href"),
    "phone": ("<a href='tel:+49 89 {n}'>Call us</a>", "//main/a/@href"),
    "mail": ("<a href='mailto:{letter}@shop.example'>Write to us</a>", "//main/a/@href"),
    "map": ("<a href='https://maps.example/?q=48.{n},11.5'>Find us</a>", "//main/a/@href"),
    "area": ("<map><area coords='0,{n},9,9' shape=rect></map>", "//@coords"),
    "input": ("<input name=variant value='{letter}'>", "//input/@value"),
    "hidden-input": ("<input type=hidden name=sku value='LA-{n}'>", "//input/@value"),
    "checked": ("{checkboxes}", "//input[@checked]/@name"),
    "selected": ("<select>{options}</select>", "//option[@selected]/text()"),
    "meter": ("<meter min=0 max=9 value={n}></meter>", "//meter/@value"),
    "progress": ("<progress max=9 value={n}></progress>", "//progress/@value"),
    "data-element": ("<data value='{n}'>Lamp</data>", "//data/@value"),
    "time": ("<time datetime='2026-05-0{n}'>Opening day</time>", "//@datetime"),
    "tooltip": ("<abbr title='{letter}'>Grade</abbr>", "//@title"),
    "label": ("<button aria-label='Grade {letter}'>?</button>", "//@aria-label"),
    "value-now": ("<div role=slider aria-valuenow={n}></div>", "//@aria-valuenow"),
    "swatch": ("<i style='background: #{n}{n}0'></i>", "//@style"),
    "bar": ("<div><i style='width: {n}0%'></i></div>", "//main//i/@style"),
    "stars": ("<span class='stars s{n}'></span>", "//span/@class"),
    "sign": ("<td class='{sign}'>5.00</td>", "//td/@class | //main//*[text()='5.00']/@class"),
    "own-element": ("<x-price amount={n}></x-price>", "//@amount"),
    "citation": ("<q cite='/law/{letter}'>Quoted</q>", "//@cite"),
    "language": ("<p lang='{language}'>Information</p>", "//@lang"),
    "struck-out": ("<p><{tag}>19.00</{tag}></p>", "name(//main/p[last()]/*)"),
    "superscript": ("<p>x{power}</p>", "//main/p[last()]/node()"),
    "cells": ("<table><tr>{cells}</table>", "//td[text()]/preceding-sibling::td"),
    "template": ("<template><b>{n}</b></template>", "//template//b/text()"),
    "noscript": ("<noscript><b>{letter}</b></noscript>", "//noscript//text()"),
    "svg": ("<svg><text>{n}</text></svg>", "//*[local-name()='text']/text()"),
    "chart": ("<svg><path d='M 0 {n} L 9 {n}'/></svg>", "//@d"),
    "formula": ("<math><{root}><mi>x</mi></{root}></math>", "name(//math/*)"),
    "style-sheet": ("<style>.hero {{background: url(/{letter}.jpg)}}</style>", "//style/text()"),
    "rating": ("<p class='star-rating {word}'><i></i><i></i></p>", "//main/p[@class]/@class"),
    "feature": ("<ul><li class='{sign}'>Lift</ul>", "//main//li/@class"),
    "row": ("<table><tr class='{sign}'><td>Lift</table>", "//tr/@class"),
    "backdrop": ("<div style='background-image: url(/{letter}.jpg)'></div>", "//main/div/@style"),
    "unseen": ("{notices}", "//main/div/@style"),
    "hidden": ("{labels}", "//main/p[@hidden]/text()"),
    "disabled": ("{buttons}", "//button[@disabled]/text()"),
    "start": ("<ol start={n}><li>Clause</ol>", "//ol/@start"),
    "rows-high": ("<table><tr><td rowspan={n}>Maths<td>8:00</table>", "//@rowspan"),
    "svg-title": ("<svg><title>Grade {letter}</title><path d='M 0 0'/></svg>", "//svg/title"),
    "svg-bars": ("<svg><rect x=0 y=0 width={n}0 height=5 /></svg>", "//rect/@width"),
    "embedded-page": ("<iframe srcdoc='&lt;b>{letter}&lt;/b>'></iframe>", "//@srcdoc"),
    "colour": ("<font color='#{n}00'>Level</font>", "//font/@color"),
    "cell-colour": ("<table><tr><td bgcolor='#{n}00'>Level</table>", "//@bgcolor"),
    "inline-image": ("<img src='data:image/png;base64,iVBORw0KGgo{n}AAAA'>", "//img/@src"),
    "formula-in-script": ("<script type='math/tex'>x^{n}</script>", "//script/text()"),
    "magento": (
        '<script type=\'text/x-magento-init\'>{{"*": {{"price": {n}9}}}}</script>',
        "//script/text()",
    ),
    "script-template": ("<script type='text/template'><b>{n} left</b></script>", "//script/text()"),
    "markdown-in-script": (
        "<script type='text/plain'># Hall\n\nDoors open at the **{word}** gate</script>",
        "//script/text()",
    ),
    "nuxt": (
        "<script>window.__NUXT__=(function(a,b){{return {{price:a,name:b}}}}({n},'x'))</script>",
        "//script/text()",
    ),
    "apollo": (
        '<script>window.__APOLLO_STATE__={{"P:1":{{"stock":{n}}}}};</script>',
        "//script/text()",
    ),
    "grown-food": (
        '<script type=application/json>{{"genetically_modified": "{letter}"}}</script>',
        "//script/text()",
    ),
    "sale": ("<script>go('sale-in-spring-of-2026-{letter}')</script>", "//script/text()"),
    "talk": (
        '<script>var talk = {{"session_id": "keynote-in-hall-{letter}"}}</script>',
        "//script/text()",
    ),
    "seats": ("<b data-session-id='keynote-in-hall-{letter}'>Book a seat</b>", "//b/@*"),
    "data-island": ("<xml><stock>{n}</stock></xml>", "//stock/text()"),
    "video-link": (
        "<a href='https://videos.example/watch?v={letter}Qw4'>Watch</a>",
        "//main/a/@href",
    ),
    "fares": ("<table summary='Fares of zone {n}'><tr><td>Day</table>", "//@summary"),
    "shop-link": ("<a href='//{letter}.example/x'>Visit the shop</a>", "//main/a/@href"),
    "player": (
        "<iframe src='https://videos.example/embed?v={letter}Qw4'></iframe>",
        "//iframe/@src",
    ),
    "made-image": ("<img src='/thumb.php?t={n}12'>", "//img/@src"),
    "image-set": ("<img srcset='/a.png?v=1 1x, /{letter}.png?v=1 2x'>", "//img/@srcset"),
    "symbol": ("<svg><use href='#{letter}-icon'></use></svg>", "//use/@href"),
    "diagram": ("<svg><foreignObject><p>{letter}</p></foreignObject></svg>", "//svg//p/text()"),
    "dialog": ("{dialogs}", "//dialog[@open]/@class"),
    "app": ("<meta name='apple-itunes-app' content='app-id=28{n}00'>", "//main/meta/@content"),
    "leads-on": (
        "<meta http-equiv=refresh content='900; url=https://partner.example/{letter}'>",
        "//main/meta/@content",
    ),
    "coin": (
        "<div data-token='0x6b175474e89094c44da98b954eedeac495271d0{n}'></div>",
        "//@data-token",
    ),
    "comment": ("<!-- stock: {n} -->", "//main/comment()"),
}
OF_PAGES = [kind for kind in DETAILS if kind != "comment"]  # those often tell how a page was made
VARIANTS = 4


def detail(kind: str, variant: int) -> str:
    """What tells a page of a kind from its other variants."""
    checkboxes = (f"<input type=checkbox name=b{i}{' checked' * (i == variant)}>" for i in range(4))
    options = (f"<option{' selected' * (i == variant)}>Size {i}" for i in range(4))
    labels = "".join(f"<p class=l{i}{' hidden' * (i == variant)}>Label {i}</p>" for i in range(4))
    shown = ("block" if i == variant else "none" for i in range(4))
    notices = "".join(f"<div style='display: {one}'>Sold out</div>" for one in shown)
    buttons = "".join(f"<button{' disabled' * (i == variant)}>Size {i}</button>" for i in range(4))
    dialogs = "".join(
        f"<dialog class=d{i}{' open' * (i == variant)}>Full</dialog>" for i in range(4)
    )
    cells = "".join(f"<td>{'5.00' * (i == variant)}</td>" for i in range(4))
    return DETAILS[kind][0].format(
        n=variant + 1,
        letter="abcd"[variant],
        sign=("up", "down", "even", "none")[variant],
        language=("de", "en", "fr", "it")[variant],
        tag=("del", "ins", "s", "sup")[variant],
        power=("2", "<sup>2</sup>", "<sub>2</sub>", "<sup><sup>2</sup></sup>")[variant],
        root=("msqrt", "mrow", "mover", "mphantom")[variant],
        word=("One", "Two", "Three", "Four")[variant],
        notices=notices,
        dialogs=dialogs,
        labels=labels,
        buttons=buttons,
        checkboxes="".join(checkboxes),
        options="".join(options),
        cells=cells,
    )


def pages(
    main: Callable[[str], str], kinds: Iterable[str] = tuple(DETAILS)
) -> Callable[[OrdinarySite, str], None]:
    """Builds a site of pages of all kinds, each in four variants; main: the text of a kind."""

    def build(site: OrdinarySite, root: str) -> None:
        site.add_all(
            root,
            {
                f"{kind}/{variant}": template("Offer", main(kind) + detail(kind, variant))
                for kind in kinds
                for variant in range(VARIANTS)
            },
        )

    return build


def same_text(kind: str) -> str:
    return blurb(150)


def own_text(kind: str) -> str:
    return f"<p>{prose(kind, 120)}</p>"


@case(pages(same_text))
class DetailSpider(IndexSpider):
    name = "details-of-markup"

    def parse_page(self, response: Any):
        kind = response.url.split("/")[-2]
        yield {"kind": kind, "value": response.xpath(DETAILS[kind][1]).getall()}


class WholePageSpider(IndexSpider):
    def parse_page(self, response: Any):
        yield {"url": response.url, "html": response.text}


@case(pages(own_text, OF_PAGES))
class DetailPageSpider(WholePageSpider):
    """Pages of many words of their own: all else that they say is in their markup."""

    name = "details-of-long-pages"


@case(pages(same_text, OF_PAGES))
class DetailShortPageSpider(WholePageSpider):
    name = "details-of-pages-of-few-own-words"


@case(pages(own_text))
class DetailPieceSpider(IndexSpider):
    name = "details-of-pieces-of-long-pages"

    def parse_page(self, response: Any):
        yield {"html": response.css("main").get()}

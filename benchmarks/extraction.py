"""HTML → visible text → words: the ways there are, on real pages of about 34 KB, one core."""

import gc
import statistics
import tarfile
import time
from collections.abc import Callable, Iterator
from functools import partial

from lxml import etree, html
from parsel import Selector
from scrapy.http import HtmlResponse

from benchmarks.peers import peer
from benchmarks.rows import (
    ROUNDS,
    SHARED_DATA,
    Part,
    Row,
    Yardstick,
    cpu_seconds,
    html_pages,
    rates,
)
from scrapy_neardup.crawl.pages.extract import visible_text
from scrapy_neardup.detect.text import normalise

KB = 1024
SIZES = range(20 * KB, 50 * KB)
PAGE = 34 * KB  # what the times are given for
LANGUAGES = ("da", "de", "es", "fr", "ja", "ko", "pt-br", "ru", "tr", "zh-cn")
TEXT_CONTENT, CASEFOLD = "lxml text_content, keeps scripts", "casefold().split()"
VISIBLE = "//text()[not(ancestor::script or ancestor::style or ancestor::head)]"

Extract = Callable[[bytes], object]


def every_page() -> list[bytes]:
    return [page.encode() for page in html_pages()]


def usual_pages() -> list[bytes]:
    return [page for page in every_page() if len(page) in SIZES][:100]


def page_rows(pages: list[bytes]) -> list[Row]:
    """From bytes to visible text."""
    times = times_a_page(pages, {"ours": lambda page: visible_text(response(page))} | ways())
    ours = times.pop("ours") or 0.0
    yardstick = Yardstick(TEXT_CONTENT, times[TEXT_CONTENT])
    return [Row("HTML to visible text", ours, "ms", 1.0, True, times, yardstick)]


def tree_rows(pages: list[bytes]) -> list[Row]:
    """The same where the spider's selectors have parsed the response just before, as in a crawl."""
    ways = {
        "ours": visible_text,
        TEXT_CONTENT: lambda parsed: parsed.selector.root.text_content(),
        "lxml itertext": lambda parsed: "".join(parsed.selector.root.itertext()),
        "parsel XPath": lambda parsed: "".join(parsed.xpath(VISIBLE).getall()),
    }
    times = {
        name: statistics.median(seconds_after_parsing(way, pages) for _ in range(ROUNDS))
        for name, way in ways.items()
    }
    per_page = {name: s * 1e3 * PAGE / sum(map(len, pages)) for name, s in times.items()}
    ours = per_page.pop("ours")
    yardstick = Yardstick(TEXT_CONTENT, per_page[TEXT_CONTENT])
    return [Row("parsed tree to visible text", ours, "ms", 2.0, True, per_page, yardstick)]


def seconds_after_parsing(way: Callable[[HtmlResponse], object], pages: list[bytes]) -> float:
    """CPU time of one way alone, each page parsed before it and forgotten after it."""
    seconds = 0.0
    gc.disable()
    for page in pages:
        parsed = response(page)
        parsed.selector.root  # noqa: B018  # parses
        start = time.thread_time()
        way(parsed)
        seconds += time.thread_time() - start
        gc.collect(0)  # a response and its selector hold each other
    gc.enable()
    return seconds


def word_rows(every: list[bytes]) -> list[Row]:
    """From visible text to normalised words."""
    texts = [html.document_fromstring(page).text_content() for page in every]
    ascii_only = ["".join(filter(str.isascii, text)) for text in texts]
    made = []
    for name, some, target in (
        ("visible text to words, ASCII", ascii_only, 10),
        ("visible text to words, English", texts, 5),
        ("visible text to words, mixed scripts", list(translations()), 2),
    ):
        ways = {"ours": partial(_each, normalise_anew, some), CASEFOLD: partial(_each, fold, some)}
        size = sum(len(text.encode()) for text in some)
        speeds = rates(size / 1e9, cpu_seconds(ways))
        ours, yardstick = speeds["ours"] or 0.0, Yardstick(CASEFOLD, speeds[CASEFOLD])
        made.append(Row(name, ours, "GB/s", target, yardstick=yardstick))
    return made


def fold(text: str) -> list[str]:
    """The least that makes words of a text in Python alone."""
    return text.casefold().split()


def normalise_anew(text: str) -> bytes:
    """The words of a copy: a text keeps its UTF-8 once it was made, and a crawl's is new."""
    return normalise(text[:1] + text[1:])


def translations() -> Iterator[str]:
    """Texts of the real site that are not English: ten languages, four scripts."""
    with tarfile.open(SHARED_DATA / "site" / "site.tar.gz") as site:
        for member in site:
            parts = member.name.split("/")
            file = site.extractfile(member) if "httpd" in parts and member.isfile() else None
            if file and member.name.endswith(".html") and set(parts) & set(LANGUAGES):
                yield html.document_fromstring(file.read()).text_content()


def ways() -> dict[str, Extract | None]:
    """What else makes visible text of a page, each as its documentation says."""
    selectolax, resiliparse = peer("selectolax.lexbor"), peer("resiliparse.parse.html")
    plain, trafilatura = peer("resiliparse.extract.html2text"), peer("trafilatura")
    return {
        TEXT_CONTENT: lambda page: lxml_root(page).text_content(),
        "lxml, scripts stripped": lxml_stripped,
        "parsel XPath": lambda page: "".join(
            Selector(page.decode(), type="html").xpath(VISIBLE).getall()
        ),
        "selectolax": selectolax and partial(selectolax_text, selectolax.LexborHTMLParser),
        "resiliparse, keeps scripts": resiliparse
        and (lambda page: resiliparse.HTMLTree.parse_from_bytes(page).body.text),
        "resiliparse plain text": plain
        and (lambda page: plain.extract_plain_text(page.decode(), main_content=False)),
        "trafilatura": trafilatura and (lambda page: trafilatura.extract(page.decode())),
    }


def lxml_root(page: bytes) -> etree._Element:
    parser = html.HTMLParser(encoding="utf-8")
    return html.document_fromstring(page, parser=parser)


def lxml_stripped(page: bytes) -> str:
    root = lxml_root(page)
    etree.strip_elements(root, "script", "style", "head", etree.Comment, with_tail=False)
    return etree.tostring(root, method="text", encoding="unicode")


def selectolax_text(parser: Callable[[bytes], object], page: bytes) -> object:
    tree = parser(page)
    tree.strip_tags(["script", "style", "head"])  # type: ignore[attr-defined]
    return tree.body.text(separator="\n")  # type: ignore[attr-defined]


def response(page: bytes) -> HtmlResponse:
    return HtmlResponse("http://localhost/", body=page, encoding="utf-8")


def times_a_page(pages: list[bytes], ways: dict[str, Extract | None]) -> dict[str, float | None]:
    """Milliseconds for a page of 34 KB."""
    runs = {name: way and partial(_each, way, pages) for name, way in ways.items()}
    scale = 1e3 * PAGE / sum(map(len, pages))
    return {name: s and s * scale for name, s in cpu_seconds(runs, 3).items()}


def _each(run: Callable[..., object], inputs: list) -> None:
    for one in inputs:
        run(one)


PARTS = (  # ms a page, GB/s of text
    Part("HTML to text", lambda: page_rows(usual_pages()), 0.7),
    Part("parsed tree to text", lambda: tree_rows(usual_pages()), 0.2),
    Part("text to words", lambda: word_rows(every_page()), 0.3),
)

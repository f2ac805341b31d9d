"""Documents for programs that differ in one value, and items that are the whole document."""

import base64
import json
from collections.abc import Callable
from typing import Any, ClassVar

import scrapy
from mock_site import Reply, prose
from scrapy import Request
from scrapy.http import JsonRequest

from .cases import IndexSpider, Local, case
from .site import Ask, OrdinarySite, blurb, json_reply, product, template

N_PAGES = 12
WORDS = (
    *("open", "shut", "sold", "lent", "lost", "kept"),
    *("used", "new", "red", "blue", "left", "gone"),
)


def documents(content_type: str, write: Callable[[str, int], str]) -> Any:
    """Builds twelve long documents; write: one of them, by the value that is its own."""

    def build(site: OrdinarySite, root: str) -> None:
        site.add_all(root, {f"{n}": write(WORDS[n], n) for n in range(N_PAGES)}, content_type)

    return build


class DocumentSpider(IndexSpider):
    """Its items say nothing but the document."""

    def parse_page(self, response: Any):
        yield {"url": response.url, "document": response.text}


def json_document(word: str, n: int) -> str:
    nested = {"flags": [n % 2 == i for i in range(2)], "none": None if n % 3 else 0, "is": word}
    return json.dumps({"about": prose("json", 300), "rows": [{"state": nested}]})


@case(documents("application/json", json_document))
class JsonDocumentSpider(DocumentSpider):
    name = "json-documents"


@case(documents("application/json", lambda word, n: json.dumps({"t": prose("j"), word: True})))
class JsonKeySpider(IndexSpider):
    name = "json-keys"

    def parse_page(self, response: Any):
        yield response.json()


@case(documents("text/csv", lambda word, n: f"id,state\n{prose('csv', 400)},{word}\n"))
class CsvDocumentSpider(DocumentSpider):
    name = "csv-documents"


@case(
    documents("application/xml", lambda word, n: f"<a><b c='{word}'/>{prose('xml', 300)}</a>"),
)
class XmlAttributeSpider(DocumentSpider):
    name = "xml-attributes"


@case(documents("application/rss+xml", lambda w, n: f"<rss><g>{w}</g>{prose('rss', 300)}</rss>"))
class RssSpider(DocumentSpider):
    name = "rss-documents"


@case(documents("application/javascript", lambda w, n: f"show({{a: '{w}'}}, '{prose('js')}')"))
class ScriptSpider(DocumentSpider):
    name = "script-documents"


@case(documents("text/plain", lambda word, n: f"User-agent: {word}\nDisallow: /\n"))
class RobotsSpider(DocumentSpider):
    name = "robots-documents"


@case(documents("text/plain", lambda word, n: f'{{"{word}": "{prose("plain", 300)}"}}'))
class UnnamedJsonSpider(DocumentSpider):
    name = "json-as-plain-text"


# Lines of files as raw-file hosts serve them.
RAW_LINES = {
    "py": "    {a} = {b}({c}, {word} is not other and value in names or key in table)\n",
    "tsv": "{a}\t{b}\t{word}\t{c}\tup\tsea\tlow\ttwin\tyes\tno\tsoon\n",
    "sql": "INSERT INTO hotels VALUES ('{a}', '{b}', 'single room', 'view', '{word}', '{c}');\n",
    "yaml": "- name: {a}\n  note: {b} is {word} and stands behind the other one near to {c}\n",
    "log": "INFO worker {a} said that the job {b} has been {word} by the user {c} of the host\n",
}


def raw_file(name: str, line: str, word: str) -> str:
    """Forty lines, one of which has the word."""
    words = iter(prose(f"raw {name}", 120).split())
    rows = zip(words, words, words, strict=True)
    return "".join(
        line.format(a=a, b=b, c=c, word=word if n == 20 else "free")
        for n, (a, b, c) in enumerate(rows)
    )


def raw_files(site: OrdinarySite, root: str) -> None:
    """Versions of files, with the suffix of their kind and without."""
    paths = []
    for media in ("text/plain", "application/octet-stream"):
        for kind, line in RAW_LINES.items():
            for name in (f"{media}/{kind}", f"{media}/file.{kind}"):
                for word in WORDS[:4]:
                    paths.append(f"{root}/{word}/{name}")
                    site.add(paths[-1], raw_file(name, line, word), content_type=media)
    site.index(f"{root}/", paths)


@case(raw_files)
class RawFileSpider(IndexSpider):
    name = "raw-files"

    def parse_page(self, response: Any):
        yield {"file": response.url.split("/")[-1], "code": response.text}


def notebook(word: str, n: int) -> str:
    """A notebook that differs from another in the indentation of a line."""
    body = "        total += 1\n" if n % 2 else "    total += 1\n"
    lines = [f"# {prose(f'notebook {n // 2}')}\n", "for row in rows:\n", "    check(row)\n", body]
    return json.dumps({"cells": [{"cell_type": "code", "source": lines}], "nbformat": 4})


@case(documents("application/json", notebook))
class NotebookSpider(IndexSpider):
    name = "json-notebooks"

    def parse_page(self, response: Any):
        yield {"cells": response.json()["cells"]}


def lines_of(kind: str, mark: str = "") -> str:
    return "\n".join(f"{mark}{prose(f'{kind} {n}', 6)}" for n in range(40))


# Media types, and documents of them: long, and with a word that is their own in a long line.
KINDS = {
    "text/calendar": "BEGIN:VEVENT\n{long}\nSTATUS:{word} {rest}\nEND:VEVENT",
    "text/vcard": "BEGIN:VCARD\n{long}\nROLE:the {word} one {rest}\nEND:VCARD",
    "text/vtt": "WEBVTT\n\n{long}\nIt was {word} and {rest}",
    "application/toml": "{long}\nstate = {word} {rest}",
    "text/x-python": "{long}\nassert a {word} b, {rest}",
    "text/x-diff": "{long}\n+ {word} {rest}",
    "application/sql": "{long}\nselect {word} from {rest}",
    "text/x-gettext-translation": "{long}\nmsgstr {word} {rest}",
    "application/vnd.ms-excel": "id,state\n{long},{word}",
    "application/vnd.google-earth.kml+xml": "<kml><name>{word}</name><c>{long}</c></kml>",
    "application/gpx+xml": "<gpx><wpt sym='{word}'/><desc>{long}</desc></gpx>",
    "image/svg+xml": "<svg><desc>{long}</desc><text>{word}</text></svg>",
    "text/x-component": '0:["$","div",null,{{"text":"{long} {word} {rest}"}}]',
    "application/x-www-form-urlencoded": "text={long}&state={word}",
    "application/msgpack": "\x81\xa4text{long}\xa5state{word}",
    "text/plain": ')]}}\',\n{{"text": "{long} {word} {rest}"}}',
}


def of_all_kinds(site: OrdinarySite, root: str) -> None:
    for kind, form in KINDS.items():
        rest = prose(f"rest of {kind}", 12)
        for word in WORDS[:4]:
            body = form.format(long=lines_of(kind), word=word, rest=rest)
            site.add(f"{root}/{kind}/{word}", body, content_type=kind)
    site.index(f"{root}/", [f"{root}/{kind}/{word}" for kind in KINDS for word in WORDS[:4]])


@case(of_all_kinds)
class KindsSpider(DocumentSpider):
    name = "documents-of-all-kinds"


# How documents begin that servers call HTML, or plain text.
MISNAMED = {
    "json": '{{"text": "{long}", "state": "{word}", "rest": "{rest}"}}',
    "rows": '[["{long}"], ["{word}", "{rest}"]]',
    "call": '/**/ shop.show({{"text": "{long}", "state": "{word}", "rest": "{rest}"}});',
    "feed": "<?xml version='1.0'?><rss><title>{long}</title><i>the {word} one {rest}</i></rss>",
    "bare": "<rss version='2.0'><title>{long}</title><i>the {word} one {rest}</i></rss>",
}


def misnamed(site: OrdinarySite, root: str) -> None:
    for kind, form in MISNAMED.items():
        long, rest = prose(f"long {kind}", 200), prose(f"rest {kind}", 12)
        for word in WORDS[:4]:
            body = form.format(long=long, word=word, rest=rest)
            site.add(f"{root}/html/{kind}/{word}", body)
            if kind in ("json", "rows", "call"):
                site.add(f"{root}/plain/{kind}/{word}", body, content_type="text/plain")
    paths = [path for path in site.pages if path.startswith((f"{root}/html", f"{root}/plain"))]
    site.index(f"{root}/", paths)


@case(misnamed)
class MisnamedSpider(DocumentSpider):
    name = "documents-called-html"


# How the text of a readers' page is written for programs.
REWRITTEN = {
    "application/json": '{{"body": "{text}", "court": "{word}"}}',
    "application/xml": "<notice><body>{text}</body><court>{word}</court></notice>",
    "text/csv": "body,court\n{text},{word}\n",
    "text/yaml": "body: {text}\ncourt: {word}\n",
    "text/x-python": "BODY = '{text}'\nwhile a <b:\n    c()\n{indent}d()\n",
}


def rewritten(site: OrdinarySite, root: str) -> None:
    """Texts, each on a page for readers and then in two documents of every type."""
    paths = []
    for kind, form in REWRITTEN.items():
        for reader in ("page", "fragment", "plain"):
            text, path = prose(f"{kind} {reader}", 400), f"{root}/{reader}/{kind}"
            body = template("Notice", f"<p>{text}</p>") if reader == "page" else f"<p>{text}</p>"
            if reader == "plain":
                site.add(path, text, content_type="text/markdown")
            else:
                site.add(path, body)
            for n, word in enumerate(WORDS[:2]):
                document = form.format(text=text, word=word, indent="    " * n)
                site.add(f"{path}/{word}", document, content_type=kind)
            paths += [path, *(f"{path}/{word}" for word in WORDS[:2])]
    site.index(f"{root}/", paths)


@case(rewritten)
class RewrittenSpider(DocumentSpider):
    """Reads each page before the documents that have its text."""

    name = "documents-with-the-text-of-a-page"
    custom_settings: ClassVar = {"CONCURRENT_REQUESTS": 1}

    def parse(self, response: Any):
        for n, link in enumerate(response.css("a.entry")):
            yield response.follow(link, self.parse_page, priority=-n)


UNREADABLE = {
    "koi8-r": ("открыт", "закрыт", "платно"),
    "windows-1256": ("مفتوح", "مختوم", "مقبول"),
    "shift_jis": ("営業中", "準備中", "定休日"),
    "gbk": ("有货", "缺货", "停产"),
}


def unreadable(site: OrdinarySite, root: str) -> None:
    """Pages that are said to be UTF-8, and are not."""
    for encoding, words in UNREADABLE.items():
        for n, word in enumerate(words):
            body = template("Shop", f"<p>{word}</p>{prose(encoding, 150)}").encode(encoding)
            site.add(f"{root}/{encoding}/{n}", body)
    site.index(f"{root}/", [f"{root}/{e}/{n}" for e in UNREADABLE for n in range(3)])


@case(unreadable)
class BodySpider(IndexSpider):
    """Decodes the bytes itself, later."""

    name = "bytes-in-another-encoding"

    def parse_page(self, response: Any):
        yield {"url": response.url, "body": response.body}


def encodings(site: OrdinarySite, root: str) -> None:
    """The same bytes, which are other letters in another encoding."""
    body = template("Price", f"<p>{prose('e', 60)} \xb3\xc6\xe6</p>").encode("latin-1")
    names = ["iso-8859-1", "iso-8859-2", "iso-8859-5", "iso-8859-7", "koi8-r"]
    site.add_all(root, dict.fromkeys(names, body))
    for name in names:
        site.add(f"{root}/{name}", body, content_type=f"text/html; charset={name}")


@case(encodings)
class EncodingSpider(DocumentSpider):
    name = "encodings"


def graphql_errors(site: OrdinarySite, root: str) -> None:
    """One URL that answers each query with data, with an error, or with both."""

    def answer(ask: Ask) -> Reply:
        n = ask.json["variables"]["id"]
        text = prose("graphql", 200)
        lamp = {"name": text, "inStock": n % 2 == 0} if n % 3 else None
        errors = [] if n % 3 else [{"message": text, "path": ["lamp", WORDS[n]]}]
        return json_reply({"data": {"lamp": lamp}, "errors": errors})

    site.routes[f"{root}/graphql"] = answer


@case(graphql_errors)
class GraphqlErrorSpider(Local, scrapy.Spider):
    name = "graphql-errors"

    async def start(self):
        for n in range(N_PAGES):
            data = {"query": "query($id: Int) { lamp }", "variables": {"id": n}}
            yield JsonRequest(f"{self.root}/graphql", data=data, cb_kwargs={"n": n})

    def parse(self, response: Any, n: int):
        answer = response.json()
        yield {"lamp": n, "errors": [error["path"] for error in answer["errors"]]}
        yield {"answer": answer, "query": response.request.body}


def posted(site: OrdinarySite, root: str) -> None:
    """One URL whose answer to each form is a long page with another word."""
    for name, n_words in (("long", 300), ("short", 8)):
        site.routes[f"{root}/{name}"] = lambda ask, n_words=n_words: Reply(
            template("Result", f"<p>{prose('post', n_words)} {ask.form['word']}</p>").encode()
        )


@case(posted)
class FormSpider(Local, scrapy.Spider):
    name = "forms-of-one-url"

    async def start(self):
        for word in WORDS:
            for name in ("long", "short"):
                yield scrapy.FormRequest(f"{self.root}/{name}", formdata={"word": word})

    def parse(self, response: Any):
        yield {"found": response.css("main p::text").get().split()[-1], "url": response.url}


def archive(site: OrdinarySite, root: str) -> None:
    """Documents in PDF's form: each stands behind a page that is the same for all."""
    for n in range(N_PAGES):
        pdf = Reply(b"%PDF-1.7\n" + bytes([n]) * 200, content_type="application/pdf")
        site.pages[f"{root}/{WORDS[n]}.pdf"] = pdf
    site.add_all(
        root,
        {
            f"view?file={word}": template("Document", f"<embed src='{word}.pdf'>{blurb()}")
            for word in WORDS
        },
    )


@case(archive)
class PdfSpider(IndexSpider):
    """Follows each page to its document, and keeps both the bytes and the file."""

    name = "pdf-documents"
    custom_settings: ClassVar = {"ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}}

    async def parse_page(self, response: Any):
        source = response.urljoin(response.css("embed::attr(src)").get())
        answer = await self.crawler.engine.download_async(Request(source))
        yield {"body": base64.b64encode(answer.body[:20]).decode(), "size": len(answer.body)}
        yield {"file_urls": [source]}


def chained(site: OrdinarySite, root: str) -> None:
    """Four pages a product, of which three are the same for all products."""
    for step in ("size", "colour", "delivery"):
        site.add(f"{root}/{step}", template(step, blurb(90)))
    site.add_all(root, {f"{n}": template(product(n)["name"], blurb(90)) for n in range(N_PAGES)})


@case(chained)
class ChainSpider(IndexSpider):
    """Gathers an item over four pages; what it saw first is in cb_kwargs, then in itself."""

    name = "chains-of-pages"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: dict[str, str] = {}

    def parse_page(self, response: Any):
        name = response.css("h1::text").get()
        self.seen[name] = response.url
        steps = {"item": {"name": name}, "left": ["size", "colour", "delivery"]}
        yield self.step(response, **steps)

    def step(self, response: Any, item: dict[str, str], left: list[str]):
        url = response.urljoin(left[0])
        kwargs = {"item": item, "left": left[1:]}
        return Request(url, self.parse_step, cb_kwargs=kwargs, dont_filter=True)

    def parse_step(self, response: Any, item: dict[str, str], left: list[str]):
        if left:
            yield self.step(response, {**item, left[0]: response.css("h1::text").get()}, left)
        else:
            yield item
            yield {"product": self.seen[item["name"]]}

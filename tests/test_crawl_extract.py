"""Extraction: what a reader sees, block by block, from whatever a server sends."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from mock_site import prose
from scrapy.http import HtmlResponse, JsonResponse, Response, TextResponse, XmlResponse

from scrapy_neardup.crawl.pages import extract
from scrapy_neardup.crawl.pages.extract import fields_text, page_content, visible_text
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.errors import OverBudget


def lines(body: str) -> list[str]:
    response = HtmlResponse("http://site.example/", body=body.encode(), encoding="utf-8")
    text = visible_text(response)
    assert text is not None
    return [line.strip() for line in text.splitlines() if line.strip()]


def test_blocks_stand_on_lines_of_their_own() -> None:
    assert lines("<h1>One</h1><p>two <b>th</b>ree</p><td>four</td><td>five</td>") == [
        "One",
        "two three",
        "four",
        "five",
    ]


@pytest.mark.parametrize("tag", ["script", "style", "noscript", "template", "svg", "iframe"])
def test_what_nobody_sees_is_left_out(tag: str) -> None:
    assert lines(f"<p>seen</p><{tag}><p>hidden</p></{tag}><p>again</p>") == ["seen", "again"]


def test_the_tree_that_a_spider_has_parsed_is_used_again() -> None:
    response = HtmlResponse("http://site.example/", body=b"<p>before</p>", encoding="utf-8")
    response.css("p")[0].root.text = "after"
    assert (visible_text(response) or "").strip() == "after"


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"  ", b"\x00", b"<!-- note -->", b"<html></html>", b"\xef\xbb\xbf<p>mark</p>"),
        *(b"caf\xe9 <p>a<p>b", "<p>漢字".encode("utf-16"), b"<b>a<p>b</b>c", b"<a id=x><b id=x>d"),
        *(b"<frameset><noframes>e", b"<p>" * 300 + b"deep", b"<table>f<tr>g<td>h"),
    ],
)
def test_a_page_has_the_same_text_whether_a_spider_has_parsed_it_or_not(body: bytes) -> None:
    fresh, parsed = (HtmlResponse("http://site.example/", body=body) for _ in range(2))
    assert parsed.selector
    assert visible_text(fresh) == visible_text(parsed)


def test_head_and_comments_are_left_out() -> None:
    page = "<html><head><title>Title</title></head><body><!-- note -->text</body></html>"
    assert lines(page) == ["text"]


def test_a_binary_response_has_no_text() -> None:
    assert visible_text(Response("http://site.example/a.pdf", body=b"%PDF\x00\xff")) is None


@pytest.mark.parametrize("body", [b"", b"   ", b"<html></html>", b"\x00\x00"])
def test_an_empty_page_has_empty_text(body: bytes) -> None:
    response = HtmlResponse("http://site.example/", body=body, encoding="utf-8")
    text = visible_text(response)
    assert text is not None
    assert not text.strip()


def test_plain_text_and_json_are_taken_whole() -> None:
    response = TextResponse("http://site.example/a.json", body=b'{"a": "word"}', encoding="utf-8")
    assert visible_text(response) == '{"a": "word"}'


def test_xml_gives_its_text() -> None:
    body = b"<?xml version='1.0'?><feed><entry>one</entry><entry>two</entry></feed>"
    text = visible_text(XmlResponse("http://site.example/feed", body=body))
    assert text is not None
    assert "one" in text
    assert "two" in text


def test_a_wrong_encoding_still_gives_the_ascii_words() -> None:
    response = HtmlResponse("http://site.example/", body=b"<p>caf\xe9 word</p>", encoding="utf-8")
    text = visible_text(response)
    assert text is not None
    assert "word" in text


def test_real_pages_give_text_without_markup(shared_data: Path) -> None:
    with gzip.open(shared_data / "webpages.jsonl.gz", "rt", encoding="utf-8") as f:
        for page in map(json.loads, f):
            text = "\n".join(lines(page["html"]))
            response = HtmlResponse("http://site.example/", body=page["html"].encode())
            assert response.selector
            assert visible_text(response) == visible_text(response.copy())
            assert len(text.split()) > 100, page["id"]
            assert "function(" not in text, page["id"]


def test_named_fields_are_joined_line_by_line() -> None:
    item = {"title": "One", "tags": ["two", "three"], "raw": b"four", "price": 5}
    assert (
        fields_text(item, ("title", "tags", "raw", "price", "none")) == "One\ntwo\nthree\nfour\n5"
    )


def test_a_field_with_names_has_a_line_for_each_value() -> None:
    @dataclass
    class Part:
        says: str
        lines: list[str]

    item = {"parts": {"size": 5, "by": [{"who": "Ann"}, Part("yes", ["a", "b"])]}}
    expected = "size: 5\nby: who: Ann\nby: says: yes\nby: lines: a\nby: lines: b"
    assert fields_text(item, ("parts",)) == expected


def test_an_item_without_the_named_fields_has_no_text() -> None:
    assert fields_text({"title": "One"}, ("body",)) is None


MANY_ATTRIBUTES = " ".join(f"a{n}=b" for n in range(1_001))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("<br>" * 90_001, "90001 tags and attributes, at most 90000"),
        (f"<p {MANY_ATTRIBUTES}>", "1001 attributes in a tag, at most 1000"),
        ("<p a='1' b='2'>" * 31_000, "93000 tags and attributes, at most 90000"),
        ("<p a b c d>" * 19_000, "95000 tags and attributes, at most 90000"),
        ("<b>" * 5_000 + "<p>what libxml2 does not read", "depth"),
    ],
)
@pytest.mark.parametrize("is_parsed", [False, True])
def test_a_page_over_budget_is_not_read(body: str, reason: str, is_parsed: bool) -> None:
    response = HtmlResponse("http://site.example/", body=body.encode(), encoding="utf-8")
    if is_parsed:
        if "attributes" in reason:
            pytest.skip("the spider's selectors have taken that time already")
        response.selector  # noqa: B018 - parses
    with pytest.raises(OverBudget, match=reason):
        visible_text(response)


def test_a_page_within_budget_is_read() -> None:
    attributes = " ".join(f"a{n}=b" for n in range(1_000))
    assert lines(f"<p {attributes}>" + "<b>" * 500 + "deep") == ["deep"]
    assert extract.MAX_MARKUP > 65_000  # as Javadoc's index of all names of a library has


@pytest.mark.parametrize(
    ("charset", "word"),
    [
        *[(charset, "words") for charset in ("utf-16", "utf-16-le", "utf-32-be", "utf-7", "cp037")],
        *[("iso-2022-jp", "車"), ("hz", "贾")],  # of which the bytes begin a tag
    ],
)
def test_markup_says_the_same_whatever_its_charset_makes_of_ascii(charset: str, word: str) -> None:
    page = f"<p>{word}<p itemprop=price content=5 data-size=M>words<img src=/a.png>"
    plain, other = (
        page_content(HtmlResponse("http://h.example/", body=page.encode(name), encoding=name))
        for name in ("utf-8", charset)
    )
    assert isinstance(plain, PageContent)
    assert isinstance(other, PageContent)
    assert "itemprop.price 5" in plain.data
    assert "p.data-size M\twords" in plain.details
    assert (other.data, other.details) == (plain.data, plain.details)


@pytest.mark.parametrize(
    ("kind", "content_type", "body"),
    [
        (JsonResponse, "application/json", '{"a": [1, true]}'),
        (XmlResponse, "application/xml", "<a b='1'>c</a>"),
        (TextResponse, "application/javascript", "show(1)"),
        (TextResponse, "text/plain", ' {"a": 1}'),
        (TextResponse, "text/plain", ")]}',\n{}"),
        (TextResponse, "text/plain", 'shop.show( {"a": 1})'),
        (TextResponse, "text/calendar", "STATUS:CONFIRMED"),
        (HtmlResponse, "text/html", '{"a": "word"}'),
        (HtmlResponse, "text/html", '/**/call_4([{"a": "word"}]);'),
        (HtmlResponse, "text/html", "<?xml version='1.0'?> <!-- a --> <rss><i>word</i></rss>"),
        (HtmlResponse, "text/html", "<urlset><loc>word</loc></urlset>"),
        (TextResponse, "application/gpx+xml", "<gpx><wpt sym='lake'/></gpx>"),
    ],
)
def test_of_documents_for_programs_all_characters_are_data(kind, content_type, body) -> None:
    headers = {"Content-Type": content_type}
    content = page_content(kind("http://site.example/", body=body.encode(), headers=headers))
    assert isinstance(content, PageContent)
    assert content.data == [f"document {' '.join(body.split())}"]


@pytest.mark.parametrize(
    "body",
    [
        "<?xml version='1.0'?><!DOCTYPE  html><html><p>a</p></html>",
        "<?xml version='1.0'?>\n<!-- a --><HTML><p>a</p></HTML>",
        "<p>{</p>",
        "read (it)",
        "<?xml version='1.0'?><!-- <rss>",
    ],
)
def test_pages_are_read_as_pages(body: str) -> None:
    content = page_content(HtmlResponse("http://site.example/", body=body.encode()))
    assert isinstance(content, PageContent)
    assert content.data == []


@pytest.mark.parametrize(
    "body", ["a,b\n1,2", "if x:\n    y\nz", "a:\n  b: 1\n  c: 2", "name\t\tcity"]
)
def test_the_spaces_of_other_documents_are_data(body: str) -> None:
    headers = {"Content-Type": "text/csv; charset=utf-8"}
    content = page_content(
        TextResponse("http://site.example/", body=body.encode(), headers=headers)
    )
    assert isinstance(content, PageContent)
    assert content.data == [f"document {body}"]


def test_the_spaces_of_preformatted_text_are_details() -> None:
    def details(body: str) -> list[str]:
        content = page_content(HtmlResponse("http://site.example/", body=body.encode()))
        assert isinstance(content, PageContent)
        return content.details

    assert details("<pre>a  b\r\n c</pre>") == ["pre a  b\n c"]
    assert details("<pre>\nin one line\n</pre>") == []


def of_plain_text(body: str, url: str, kind: str) -> PageContent | str | None:
    headers = {"Content-Type": kind}
    return page_content(TextResponse(url, body=body.encode(), encoding="utf-8", headers=headers))


SENTENCES = "Dear reader, [1] is a number.\nIt stands there: see (a), or b/c, and no more!"


@pytest.mark.parametrize("kind", ["", "text/plain; charset=utf-8", "application/octet-stream"])
@pytest.mark.parametrize("path", ["", "letter", "letter.txt", "v1.0", "get.php?file=a.py"])
def test_plain_text_of_sentences_is_for_readers(kind: str, path: str) -> None:
    assert of_plain_text(SENTENCES, f"http://site.example/{path}", kind) == SENTENCES


@pytest.mark.parametrize(
    ("text", "path", "kind"),
    [
        ("a = b(c)", "notes.md", "text/plain"),
        ("a = b(c)", "notes", "text/markdown"),
        ("我们打开了门。他没有来。", "letter", "text/plain"),
    ],
)
def test_text_is_for_readers_by_its_type_its_suffix_or_its_looks(text, path, kind) -> None:
    assert of_plain_text(text, f"http://site.example/{path}", kind) == text


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (SENTENCES, "letter.py"),
        (SENTENCES, "letter.yaml?raw=1"),
        ("def f(x):\n    return x", "module"),
        ("It is.\tIt is not.\tMay be.", "table.txt"),
        ("It is open,it is shut,it may be.", "get.php?file=a.csv"),
        ("state: It is open.\nview: It is the sea.", "raw/1"),
        ("2026-11-27 It is open.\n2026-11-28 It is shut.", "log"),
        ("Nov 26 14:18:40 It is open.\nNov 26 14:19:01 It is shut.", "log"),
        ("INFO It is open.\nERROR It is shut.", "log"),
        ("worker said that the job was done by the user\n" * 20, "log"),
    ],
)
def test_plain_text_that_is_written_for_programs_is_data(text: str, path: str) -> None:
    content = of_plain_text(text, f"http://site.example/{path}", "text/plain")
    assert isinstance(content, PageContent)
    assert content.data == [f"document {text.strip()}"]


def test_bytes_that_are_no_text_in_the_encoding_of_a_page_are_data() -> None:
    pages = ["открыт".encode("koi8-r"), "закрыт".encode("koi8-r"), "открыт".encode()]
    one, other, right = (
        page_content(HtmlResponse("http://site.example/", body=b"<p>" + word, encoding="utf-8"))
        for word in pages
    )
    assert isinstance(one, PageContent)
    assert isinstance(other, PageContent)
    assert one.text == other.text
    assert one.data != other.data
    assert isinstance(right, PageContent)
    assert right.data == []


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        (f"menu {prose('a page', 100)} footer", True),
        (f"a title\nmenu {prose('a page', 100)}\nfoot er, hidden", True),
        (f"elsewhere\nmenu {prose('a page', 100)}\nfooter", False),
        (f"menu {prose('a page', 100)}\nfooter, elsewhere", False),
        (prose("a page", 100), False),
        (f"menu {prose('a page', 99)} footer", False),
        ("", False),
    ],
)
def test_a_text_is_the_whole_page_if_it_has_all_that_is_shown(text: str, is_whole: bool) -> None:
    head = "<html><head><title>a title</title></head>"
    body = f"<body>menu<p>{prose('a page', 100)}<p>footer<script>, hidden</script></body></html>"
    response = HtmlResponse("http://a.example/", body=f"{head}{body}".encode())
    assert extract.is_whole(text, extract.shown_by(response)) == is_whole


def data_of(markup: str) -> list[str]:
    content = extract.page_content(HtmlResponse("http://a.example/", body=markup.encode()))
    assert isinstance(content, PageContent)
    return content.data


def test_what_stands_behind_the_end_of_a_page_is_data() -> None:
    whole = "<html><body><p>words</p></body></html>"
    assert data_of(f"{whole}\n<div>Lot 3 is <b>sold</b></div>") == ["behind the end Lot 3 is sold"]
    assert data_of(f"{whole}{whole.replace('words', 'others')}") == ["behind the end others"]
    assert data_of(f"{whole.upper()}others") == ["behind the end others"]
    mixed = whole.replace("/html", "/Html")
    assert data_of(f"{mixed}others") == ["behind the end others"]
    assert data_of(f"{whole.upper()}others{whole}") == ["behind the end others words"]


@pytest.mark.parametrize("end", ["", "\n", "<!-- made in 0.3 s -->\n", "<script>t = 0.3</script>"])
def test_what_nobody_sees_behind_the_end_of_a_page_is_no_data(end: str) -> None:
    assert data_of(f"<html><body><p>words</p></body></html>{end}") == []


def test_what_stands_behind_the_end_has_a_budget_though_a_spider_has_parsed_the_page() -> None:
    whole = b"<html><body><p>words</p></body></html>"
    for behind in (
        b"<p " + b"a" * 2 + b" b%d" * 1_100 % tuple(range(1_100)) + b">",
        b"<b>" * 3_000,
    ):
        response = HtmlResponse("http://a.example/", body=whole + behind + b"more")
        response.css("p")
        with pytest.raises(OverBudget):
            extract.page_content(response)


def test_many_end_tags_in_a_script_are_passed_over_at_once() -> None:
    script = "</html>" * 80_000  # going through what follows each would take minutes
    assert data_of(f"<script>a = '{script}'</script><p>words</p>") == []


def test_an_end_tag_in_a_script_ends_no_page() -> None:
    assert data_of("<body><script>a = '<b></html>';</script><p>words</p></body></html>") == []

"""What markup says: the same compiled and by lxml and regular expressions."""

import gzip
import json
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_levels import native
from lxml import etree, html

from scrapy_neardup.kernels import PACKAGES
from scrapy_neardup.kernels.numpy_twin import markup as twin

NAMES = (
    *twin.BLOCKS,
    *twin.INVISIBLE,
    "a",
    "b",
    "span",
    "title",
    "body",
    "blockquotes",
    "x-y",
    "P",
)


@pytest.fixture(params=["numpy", "native"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "native":
        return native("markup")
    return import_module(f"{PACKAGES['numpy']}.markup")


def test_blocks_have_line_breaks_around_them(kernel: ModuleType) -> None:
    root = etree.fromstring("<a>1<p>2<b>3</b><br/>4</p>5<li/>6</a>")
    assert kernel.visible_text(root) == "1\n23\n\n4\n5\n\n6"


@pytest.mark.parametrize("name", twin.INVISIBLE)
def test_nothing_below_an_invisible_element_is_read(kernel: ModuleType, name: str) -> None:
    root = etree.fromstring(f"<a>1<{name}>2<p>3</p></{name}>4</a>")
    assert kernel.visible_text(root) == "14"
    assert kernel.visible_text(root[0]) == ""


def test_only_what_is_below_the_element_is_read(kernel: ModuleType) -> None:
    root = etree.fromstring("<!-- 0 --><a>1<p>2<b>3</b>4</p>5<p>6</p></a><!-- 7 -->")
    assert kernel.visible_text(root[0]) == "\n234\n"
    assert kernel.visible_text(root[0][0]) == "3"


def test_comments_and_instructions_say_nothing_and_cdata_does(kernel: ModuleType) -> None:
    parser = etree.XMLParser(strip_cdata=False)
    root = etree.fromstring("<a>1<!-- 2 --><?php 3?><![CDATA[<4>]]>5</a>", parser)
    assert kernel.visible_text(root) == "1<4>5"


def test_names_in_a_namespace_are_other_names(kernel: ModuleType) -> None:
    root = etree.fromstring("<a xmlns:s='http://s.example/'>1<s:p>2</s:p><s:svg>3</s:svg></a>")
    assert kernel.visible_text(root) == "123"


def test_a_tree_that_was_changed_is_read_as_it_is(kernel: ModuleType) -> None:
    root = etree.fromstring("<a><p>1</p></a>")
    root[0].text, root[0].tail = "zwölf", "漢字"
    etree.SubElement(root, "p").text = "𝒳"
    assert kernel.visible_text(root) == "\nzwölf\n漢字\n𝒳\n"
    root.remove(root[0])
    assert kernel.visible_text(root) == "\n𝒳\n"


def test_only_elements_are_read(kernel: ModuleType) -> None:
    for other in ("<p>1</p>", None, etree.ElementTree):
        with pytest.raises(TypeError):
            kernel.visible_text(other)


@st.composite
def markup(draw: st.DrawFn, depth: int = 4) -> str:
    """Elements, text, comments, entities, in any company; not always well-formed."""
    strange = st.sampled_from(
        ["<!-- c -->", "&lt;", "&nope;", "&#8364;", "<![CDATA[d]]>", "<?e f?>"]
    )
    text = st.text("ab \n<ü漢", max_size=3).map(lambda t: t.replace("<", "&lt;"))
    parts = []
    for kind in draw(st.lists(st.integers(0, 3), max_size=4)):
        if kind < 2 and depth:
            name = draw(st.sampled_from(NAMES))
            inner = draw(markup(depth - 1))
            parts.append(f"<{name}>{inner}</{name}>")
        else:
            parts.append(draw(strange if kind == 2 else text))
    return "".join(parts)


@given(markup())
def test_both_read_the_same_in_any_tree(text: str) -> None:
    kernel = native("markup")
    whole = etree.XMLParser(resolve_entities=False, strip_cdata=False, recover=True)
    for root in (html.document_fromstring(f"<a>{text}"), etree.fromstring(f"<a>{text}</a>", whole)):
        for element in root.iter(etree.Element):
            assert kernel.visible_text(element) == twin.visible_text(element)


def test_both_read_the_same_in_real_pages(shared_data: Path) -> None:
    kernel = native("markup")
    with gzip.open(shared_data / "webpages.jsonl.gz", "rt", encoding="utf-8") as pages:
        for page in map(json.loads, pages):
            root = html.document_fromstring(page["html"].encode())
            assert kernel.visible_text(root) == twin.visible_text(root), page["id"]


def test_a_tree_too_deep_for_lxml_is_read_where_compiled() -> None:
    root = etree.Element("p")
    deepest = root
    for _ in range(5_000):
        deepest = etree.SubElement(deepest, "b")
    deepest.text = "deep"
    assert native("markup").visible_text(root) == "\ndeep\n"
    with pytest.raises(etree.XSLTApplyError):
        twin.visible_text(root)


def test_a_text_longer_than_the_room_at_first_is_whole(kernel: ModuleType) -> None:
    root = etree.Element("a")
    for number in range(50_000):
        etree.SubElement(root, "b").text = f"{number} "
    assert kernel.visible_text(root) == "".join(f"{number} " for number in range(50_000))


def test_elements_of_an_unknown_layout_are_left_to_lxml(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = native("markup")
    assert kernel.knows_layout()
    root = etree.fromstring("<a>1<p>2</p></a>")
    monkeypatch.setattr(kernel, "knows_layout", lambda: False)
    monkeypatch.setattr(kernel, "visible_text_by_lxml", lambda root: "by lxml")
    assert kernel.visible_text(root) == "by lxml"


class OtherLayout:
    """As large as an element of lxml, with Python objects, or nothing, in place of its members."""

    __slots__ = ("document", "node", "tag")


def other_layout(**members: object) -> OtherLayout:
    found = OtherLayout()
    for name, value in members.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    ("element", "fault"),
    [
        (object(), "elements"),
        (other_layout(), "the document of an element"),
        (other_layout(document="d"), "the node of an element"),
        (other_layout(document="d", node=None), "the node of an element"),
        (other_layout(document="d", node=[]), "the node of an element"),
    ],
)
def test_a_layout_is_refused_before_a_pointer_is_followed(element: object, fault: str) -> None:
    assert native("markup").layout_fault([element]) == fault


def test_a_refused_layout_is_said_once_and_pages_are_read_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = native("markup")
    root = etree.fromstring("<a>1<p>2</p></a>")
    kernel.knows_layout.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(kernel, "layout_fault", lambda elements: "the node of an element")
            assert [kernel.visible_text(root) for _ in range(2)] == ["1\n2\n"] * 2
    finally:
        kernel.knows_layout.cache_clear()
    assert len(caplog.records) == 1
    assert "keeps the node of an element in another way" in caplog.text


def test_another_tree_than_the_known_one_is_no_layout_that_is_known() -> None:
    text = b"<a xmlns:x='x'><p>b<br/></p><i/><p/>c<script>d</script>e<x:y/><!-- f --></a>"
    elements = list(etree.fromstring(text).iter())
    assert native("markup").layout_fault(elements) == "the name of a node"


PIECES = (
    *("<p", "<a ", "<script", "</script", "<style>", "</style>", ">", " ", "a", "b=c", "=", "'"),
    *('"', "/", "<!--", "-->", "--!>", "-", "!", "<!", "<?", "<", "</", "\n", "x y z", "<SCRIPT"),
)


ECHOES = ("/b/p", "shop.example/b/p?q=1", "/ü\ud800")


def lasting(classes: str) -> str:
    return classes.replace("active", "").strip()


def details_of(kernel: ModuleType, page: bytes) -> list[str | tuple[str, str, str]]:
    """Lines and details of which nobody knows, in order."""
    found: list[str | tuple[str, str, str]] = []
    for lines, n_of_names, unsure in kernel.details(page, ECHOES, lasting):
        assert sum(len(line.partition(" ")[0]) for line in lines) <= n_of_names + len(lines)
        found += lines
        found += [unsure] if unsure else []
    return found


SAID = (
    *PIECES,
    *("<td>", "</td>", "<th a=b> </th>", "<INPUT checked name=x", "value=1", "NAME='y'", "href="),
    *(
        "a.pdf",
        "/b.html",
        "?c.zip",
        "//h/i",
        "mailto:d",
        "\xe9",
        "class=e",
        "<span",
        "<sup>",
        "data-f = 'g'",
        "style='a--b'",
        "style=c:4%",
        "style=url(a",
        "STYLE=display",
        "<div",
        "width=9",
    ),
    *(
        "<option selected>",
        "<html",
        "data-k",
        "summary=l",
        "href=i.",
        "\x85",
        "\xa0",
        "\0",
        "<li class=",
        "TITLE=j",
    ),
    *(" src='", " data-id=", " data-x='", "last_Modified_='", "/b/p", "http://shop.example", "%3A"),
    *("text", "4", "</b>", "<b>", "<!", "<!-->", "<p hidden>", "<style>", " \n", "w" * 39),
    *("?v=1", "&id=2", "1234567890", "active", "src=/c?d=e=f;T=1 ", "'>", "//", "#g", "toKen=1 "),
    *("<SCRIPT ", " DATA-cf-beacon=h ", " onclick='i(1)' ", " data-url_rooT=../ "),
)


@given(st.lists(st.sampled_from(SAID), max_size=14).map("".join), st.sampled_from(["", "x"]))
def test_both_find_the_same_details(text: str, before: str) -> None:
    for encoding in ("utf-8", "latin-1"):
        page = f"{before}{text}".encode(encoding)
        assert details_of(native("markup"), page) == details_of(twin, page)


def test_both_find_the_same_in_real_pages(shared_data: Path) -> None:
    kernel = native("markup")
    with gzip.open(shared_data / "webpages.jsonl.gz", "rt", encoding="utf-8") as pages:
        for page in map(json.loads, pages):
            body = page["html"].encode()
            assert details_of(kernel, body) == details_of(twin, body), page["id"]
            root = html.document_fromstring(body)
            assert list(kernel.said(root)) == list(twin.said(root)), page["id"]


@pytest.mark.parametrize(
    ("page", "details"),
    [
        ("<img SRC=a.png width=3 alt='b c'>", ["img.src a.png", "img.alt b c"]),
        ("<input type=hidden value='1' name=sku>", ["input. ", ("input", "sku", "1")]),
        (
            "<input value=1 name=title><input value=/ name=alt>",
            ["input. ", ("input", "title", "1"), "input. ", ("input", "alt", "/")],
        ),
        ("<div class=x width=9><i class=x>", ["i.class x"]),
        ("<p onClick='a(1)'>", [("p", "onclick", "a(1)")]),
        ("<p typeof=Book><p itemtype=/Film>", ["p.typeof Book", "p.itemtype /Film"]),
        ("<p class=x><rect WIDTH=9>", ["p.class x", "rect.width 9"]),
        ("<div STYLE='color: red'><div style='a: url(b)'>", ["div.style a: url(b)"]),
        (
            "<div style='width:43%'><div style='width:43px'><hr style=%>",
            ["div.style width:43%", "hr.style %"],
        ),
        ("<hr style='--at: 4'>", ["hr.style --at: 4"]),
        ("<hr style='x;display'><hr style=ur><hr style=displa>", ["hr.style x;display"]),
        ("<img class=url(--> ", []),
        ("<button><button disabled>", ["button. ", "button. ", "button.disabled "]),
        ("<a href=/b.html?c.pdf><a href=tel:1>", ["a.href tel:1"]),
        ("<a href=//c.example/d><a href=/><a href=/e//f><a href=?//>", ["a.href //c.example/d"]),
        ("<use href=#star><use xlink:href=#moon>", ["use.href #star", "use.xlink:href #moon"]),
        ("<dialog>a<dialog open>b", ["dialog. \ta", "dialog. \tb", "dialog.open \tb"]),
        ("<p hidden>Sold\n out</p><p>Left</p>", ["p.hidden \tSold out"]),
        ("<p hidden>9 left</p><p hidden><b></b> <i>Sold</i></p>", ["p.hidden ", "p.hidden \tSold"]),
        ("<p hidden><a></a><b></b>x<p hidden><a></a><b></b><i>y", ["p.hidden \tx", "p.hidden "]),
        ("<p hidden><SCRIPT>a</script>b<p hidden><!-- c -->d", ["p.hidden ", "p.hidden "]),
        (f"<p hidden>{'a b' * 20}<p hidden", [f"p.hidden \t{('a b' * 20)[:40]}", "p.hidden "]),
        (
            f"<p hidden>{'é' * 15}<p hidden>x{'é' * 40}",
            [f"p.hidden \t{'é' * 15}", f"p.hidden \tx{'é' * 19}"],
        ),
        ("<a href=/b/c.PDF#d><a href=/v1.25/>", ["a.href /b/c.PDF#d"]),
        ("<li class='a active' title=b><LI CLASS=active>", ["li.class a", "li.title b"]),
        ("<img src=/b/p/#c>", [("img", "src", "/b/p/#c")]),
        ("<img src=/b/p.png><img src=/b/q>", ["img.src /b/p.png", "img.src /b/q"]),
        ("<img src=/c?v=3><img src=/c?w=3>", [("img", "src", "/c?v=3"), "img.src /c?w=3"]),
        (
            "<img src=/c%20d><img src=/c?u=http%3A%2F>",
            ["img.src /c%20d", ("img", "src", "/c?u=http%3A%2F")],
        ),
        ("<i data-a='b  c'><i data-a='b c'>", [("i", "data-a", "b  c"), "i.data-a b c"]),
        (
            "<i data-a=1790000000 data-b=179000000>",
            [("i", "data-a", "1790000000"), "i.data-b 179000000"],
        ),
        ("<i data-CSRF=a data-csrfs=b>", [("i", "data-csrf", "a"), "i.data-csrfs b"]),
        ("<i data-modified_=a>", [("i", "data-modified_", "a")]),
        ("<td>1</td><td>\n</td><th></th>", ["td. 2", "th. 3"]),
        ("x<sup>2</sup>", ["sup. "]),
        ("<script data-a=b>'<i title=c>'</script><link data-d=e></p title=f>", ["script.data-a b"]),
        ("<HTML lang=de class=a data-b=c><table summary=d>", ["html.data-b c", "table.summary d"]),
        (
            "<SCRIPT src=a.js DATA-Video=v1 nonce=b style=display data-cf-beacon=c data data-=d>",
            ["script.data-video v1", "script.data- d"],
        ),
        ("<!-- <i title=a> --><i title=b", ["i.title b"]),
        ("<x-price amount=5 checked>", ["x-price.amount 5", "x-price.checked "]),
        (f"<i TITLE={'a' * 600}>", [f"i.title {'a' * 600}"]),
        (f"<{'a' * 600} title=b>", [f"{'a' * 600}.title b"]),
        ("<i title\0=a class\0=b>", ["i.title\0 a", "i.class\0 b"]),
    ],
)
def test_details_are_what_tells_pages_apart_that_read_alike(
    kernel: ModuleType, page: str, details: list[str | tuple[str, str, str]]
) -> None:
    assert details_of(kernel, page.encode()) == details


def test_details_come_in_parts_that_are_made_in_little_time(kernel: ModuleType) -> None:
    names, many = b"<%b %b>" % (b"x" * 9_000, b"title=a " * 900), b"<i title=a>" * 9_000
    for page in (names, many, b"<sup>" * 9_000, b"<td></td>" * 9_000):
        for lines, n_of_names, _ in kernel.details(page, (), lasting):
            assert len(lines) <= 1 << 12
            assert n_of_names <= (1 << 13) + 9_005


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<script>a</script>", [("script", "a", "", "")]),
        ("<script type=b id=c>a<d></script>", [("script", "a<d>", "b", "c")]),
        ("<script src=a></script><style></style>", [("style", "", "", "")]),
        ("<style>p {}</style>", [("style", "p {}", "", "")]),
        ("<meta name=a content=b><meta name=a><meta content=b>", [("meta", "b", "a", "")]),
        ("<meta name=a property=c content=b>", [("meta", "b", "c", "")]),
        ("<meta name=a property content=b>", [("meta", "b", "a", "")]),
        ("<meta http-equiv=Refresh content=b><meta http-equiv=a>", [("meta", "b", "", "Refresh")]),
        ("<h1>a<b>b</b><!-- c --></h1>d", [("h1", "ab", "", "")]),
        ("<svg><title>a</title></svg>", [("title", "a", "", "")]),
        ("<noscript>a<template>b</template></noscript>", [("noscript", "ab", "", "")]),
        ("<pre>a<pre>b</pre>c</pre><pre>d</pre>", [("pre", "abc", "", ""), ("pre", "d", "", "")]),
        ("<i itemprop=a>b<i>", []),
        (
            "<i itemprop=a value=b content=c itemscope><h1 ITEMPROP>d</h1><img itemprop src=e>",
            [
                ("h1", "d", "", ""),
                ("itemprop", "c", "a", ""),
                ("itemprop", "b", "a", ""),
                ("itemprop", "e", "", ""),
            ],
        ),
        (
            "<div class=title>a</div><div class=title>b</div><h1>c</h1>",
            [("h1", "c", "", ""), ("div", "a", "", "")],
        ),
        ("<div class='title x'>a</div><p class=title>b</p><div CLASS>", []),
    ],
)
def test_a_tree_says_outside_its_text(
    kernel: ModuleType, body: str, said: list[tuple[str, str, str, str]]
) -> None:
    page = f"<html><head><title>t</title></head><body>{body}</body></html>"
    assert list(kernel.said(html.document_fromstring(page))) == [("title", "t", "head", ""), *said]


SPEAKING = st.sampled_from(
    (*twin.SPEAKING, *twin.HIDDEN, "div", "div class='title'", "head", "x:h1", "p", "title", "pre")
)
ATTRIBUTE = st.sampled_from(
    ("", " itemprop='a'", " content='b'", " name='c' value=''", " property='' id='d' type='e'")
)


@st.composite
def speaking(draw: st.DrawFn, depth: int = 4) -> str:
    """Elements that say something, one in another."""
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        name, inner = draw(SPEAKING), draw(speaking(depth - 1)) if depth else ""
        attributes = "".join({draw(ATTRIBUTE) for _ in range(2)})
        text = draw(st.sampled_from(["", "f", "<!-- g -->", "<![CDATA[h]]>", "\xfc"]))
        parts.append(f"<{name}{attributes}>{text}{inner}</{name.partition(' ')[0]}>i")
    return "".join(parts)


@given(speaking())
def test_both_find_that_any_tree_says_the_same(text: str) -> None:
    kernel, parser = native("markup"), etree.XMLParser(strip_cdata=False, recover=True)
    page = f"<a xmlns:x='x'>{text}</a>"
    for root in (html.document_fromstring(page), etree.fromstring(page, parser)):
        for element in root.iter(etree.Element):
            assert list(kernel.said(element)) == list(twin.said(element))


@given(st.lists(st.sampled_from(["<b>", "</b>", "a", "&amp;", "<!-- c -->", "<br>", " "])))
def test_the_text_in_an_element_is_all_that_stands_in_it(pieces: list[str]) -> None:
    for element in html.document_fromstring(f"<p>{''.join(pieces)}").iter():
        if isinstance(element.tag, str):
            assert twin._text_in(element) == "".join(element.itertext())


def test_what_a_tree_says_is_left_to_lxml_where_its_layout_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel = native("markup")
    monkeypatch.setattr(kernel, "knows_layout", lambda: False)
    assert list(kernel.said(etree.fromstring("<a><h1>b</h1></a>"))) == [("h1", "b", "", "")]


def test_a_tree_may_be_changed_while_it_is_told_what_it_says() -> None:
    root = html.document_fromstring("<p>" + "<pre>a</pre>" * 3)
    said = native("markup").said(root)
    found = [next(said)]
    root.clear()
    assert [*found, *said] == [("pre", "a", "", "")] * 3


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_no_tag_has_more_attributes_than_were_counted_before_it_was_parsed(text: str) -> None:
    page = f"<html><body>{text}".encode()
    counted, n_all = native("markup").count_attributes(page)
    assert (counted, n_all) == twin.count_attributes(page)
    n_markup = native("markup").tags_and_attributes(page)
    assert n_markup == twin.tags_and_attributes(page) == text.count("<") + text.count("=") + 2
    elements = html.document_fromstring(page).iter(etree.Element)
    numbers = [len(element.attrib) for element in elements]
    assert max(numbers) <= counted
    assert sum(numbers) <= n_all


@pytest.mark.parametrize(
    ("page", "n"),
    [
        ("", (0, 0)),
        ("<p>a b c", (0, 0)),
        ("<p a b=c d='e f' g=\"h i\" j = k a>", (6, 6)),
        ("<p a='<q r s t>' b>", (2, 2)),
        ("<p a=1><q a b c><r a>", (3, 5)),
        ("<!-- <p a b c> --><p a>", (1, 1)),
        ("<!--> <p a b> -->", (2, 2)),
        ("<script>if (a <b c d e) {}</script><p a>", (1, 1)),
        ("<p a='no end b c d", (1, 1)),
    ],
)
def test_attributes_are_counted_as_html_tells_them(
    kernel: ModuleType, page: str, n: tuple[int, int]
) -> None:
    assert kernel.count_attributes(page.encode()) == n


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<p>a<br>b",
        "<!-- <p> --><p>a<script>'<b>'</script>",
        "<div><ul><li>a<li>b</ul></div><svg><g/></svg>",
    ],
)
def test_a_tree_has_all_elements_until_one_is_taken_out(kernel: ModuleType, page: str) -> None:
    page = f"<title>a</title>{page}<p>b"
    root = html.document_fromstring(page)
    assert kernel.has_all_elements(root, page.encode())
    root.find(".//p").drop_tree()
    assert not kernel.has_all_elements(root, page.encode())


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_what_pages_lack_of_their_elements_is_told_alike(text: str) -> None:
    page = f"<html><body>{text}".encode()
    root = html.document_fromstring(page)
    found = native("markup").has_all_elements(root, page)
    assert found == twin.has_all_elements(root, page)
